"""Where relations come from: edges, matrices, text, stored folders."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

from nearfar._checks import check_choice, check_flag, check_integer, check_n_jobs, check_path, check_real
from nearfar.errors import InputError

if TYPE_CHECKING:
    from nearfar._ids import Ids
    from nearfar.relations.operators import LinearOperator


class RelationSources:
    """The constructors of :class:`nearfar.Relation`."""

    if TYPE_CHECKING:

        def __init__(self, operator: LinearOperator, row_ids: Ids, column_ids: Ids) -> None: ...

        def normalized(self) -> Self:
            """Return the row-normalised relation."""

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        *,
        source: str | int | None = None,
        target: str | int | None = None,
        weight: str | int | Literal[False] | None = None,
        directed: bool | None = None,
        bipartite: bool = False,
        self_loops: bool = True,
        delimiter: str | None = None,
        comments: str | None = "#",
        header: bool | Literal["infer"] = "infer",
        storage: str | PathLike[str] | None = None,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> Self:
        """Make a relation from edges, wherever they are.

        Parameters
        ----------
        edges : path, file object, "-", data frame, networkx graph, array or iterable
            A CSV or TSV file (also .gz, .xz, .bz2), a Parquet file, standard input ("-"), a pandas, polars or pyarrow
            frame, a networkx graph, an integer array of shape (E, 2), or any iterable, also a generator, of
            ``(source, target)`` or ``(source, target, weight)``. Ids of any hashable type stay what they were.
        source, target, weight : str or int, optional
            The columns to read, by name or, without a header, by position. By default those called source and target,
            else the first two; and as the weight the one called weight or, without names, the third of three if it
            holds numbers. ``weight=False`` reads none.
        directed : bool, optional
            Whether an edge goes one way only. By default False, and for a networkx graph what the graph says.
        bipartite : bool, default=False
            Sources and targets are objects of two kinds (users and items): the relation is rectangular.
        self_loops : bool, default=True
            Whether edges from an object to itself are kept.
        delimiter : str, optional
            What separates the fields of a file; found out by default.
        comments : str or None, default="#"
            What a line starts with that is to be left out.
        header : bool or "infer", default="infer"
            Whether the first line of a file names the columns.
        storage : path, optional
            A folder for the relation, for one that memory does not hold: edges and entries go to files in it, and
            memory is needed for the ids and about 256 MB. It is used, fitted too, as any other, with the same results,
            and :meth:`open` finds it again. The folder appears whole or not at all; it is new, or holds a relation
            that is replaced. While it is made it takes up to 36 bytes per edge.
        verbose : int, default=0
            1 shows a progress line on a terminal while a file is read.
        n_jobs : int, optional
            Number of threads; None means all processors. The result does not depend on it.

        Returns
        -------
        Relation
            Duplicate edges added up; ids in order of first appearance.

        Raises
        ------
        InputError, DataError
            A weight that is negative, NaN or infinite (which edge), a ragged line (which line), no edge at all, a file
            or a column that is not there.
        """
        from nearfar.relations import edges as reader
        from nearfar.relations._build import sparse_from_edges

        owner = "Relation.from_edges"
        check_flag(owner, "self_loops", self_loops)
        check_flag(owner, "bipartite", bipartite)
        workers = check_n_jobs(owner, n_jobs)
        if directed is None:
            directed = bool(reader.is_directed(edges))
        check_flag(owner, "directed", directed)
        read = partial(
            reader.read_edges,
            edges,
            source=source,
            target=target,
            weight=weight,
            bipartite=bipartite,
            delimiter=delimiter,
            comments=comments,
            header=header,
            verbose=verbose,
        )
        how: dict[str, Any] = {"mirror": not (directed or bipartite), "self_loops": self_loops, "n_jobs": workers}
        if storage is not None:
            from nearfar.relations.mapped import create

            folder = check_path(owner, "storage", storage)
            return cls(*create(folder, lambda store: read(store=store), **how, verbose=verbose))
        table = read()
        return cls(sparse_from_edges(owner, table, **how), table.row_ids, table.column_ids)

    @classmethod
    def from_matrix(
        cls, A: Any, ids: Iterable[Hashable] | None = None, column_ids: Iterable[Hashable] | None = None
    ) -> Self:
        """Make a relation from a matrix.

        Parameters
        ----------
        A : sparse matrix, sparse array or ndarray of shape (n, m), >= 0
            Kept as float32; explicit zeros are dropped. Not changed.
        ids : iterable of hashable, optional
            Names of the rows, and of the columns too if A is square and ``column_ids`` is not given. By default
            0 .. n - 1.
        column_ids : iterable of hashable, optional
            Names of the columns. By default those of the rows if A is square, else 0 .. m - 1.

        Returns
        -------
        Relation

        Raises
        ------
        InputError
            A is not a matrix of numbers, or the number of ids does not fit.
        DataError
            An entry is NaN, infinite or negative (which one), or there is no entry at all.

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> ratings = np.array([[5, 0, 3], [0, 4, 0]])
        >>> rel = nf.Relation.from_matrix(ratings, ids=["ann", "bob"], column_ids=["film", "book", "song"])
        >>> rel.neighbors("ann")
        [('film', 5.0), ('song', 3.0)]
        """
        from nearfar.relations._build import sparse_from_matrix

        return cls(*sparse_from_matrix("Relation.from_matrix", A, ids, column_ids))

    @classmethod
    def from_corpus(
        cls,
        corpus: Any,
        *,
        window: int = 5,
        decay: str = "linear",
        weighting: str = "count",
        shift: float = 0.0,
        min_count: int = 5,
        max_size: int | None = None,
        storage: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Make a relation from text: which words come together, and how often.

        Parameters
        ----------
        corpus : EncodedCorpus, Corpus, or what a Corpus can be made of
            The text.
        window : int, default=5
            Words of a sentence come together when at most so many steps apart, 1 to 255.
        decay : {"linear", "flat", "harmonic"}, default="linear"
            What a pair k steps apart counts: 1 - (k - 1)/window, which is what word2vec's windows of random width come
            to; 1; or 1/k, as in GloVe.
        weighting : {"count", "conditional", "ppmi"}, default="count"
            Counts, with which the relation is symmetric; the same divided by their row sums; or positive pointwise
            mutual information, ln(c_ij c / (c_i c_j)) - ``shift`` where that is above 0, which is symmetric, too.
        shift : float, default=0.0
            ln k for shifted PPMI, k being the number of negative samples of word2vec; >= 0.
        min_count, max_size : int, default=5 and None
            Words that come less often, and all but the most frequent ones, are left out first; not for an
            EncodedCorpus, which has its vocabulary.
        storage : path, optional
            A folder for a relation that memory does not hold, as in :meth:`from_edges`. Not for "conditional", which
            is ``.normalized()`` of "count".
        n_jobs : int, optional
            Number of threads; None means all processors. The result does not depend on it.

        Returns
        -------
        Relation
            Square, its ids the words, the most frequent first; a word beside itself counts from either side.

        Raises
        ------
        InputError
            An argument cannot be used, there is no pair of words, or none with information above ``shift``.
        DataError
            If the text cannot be read.

        References
        ----------
        Levy & Goldberg (2014), "Neural word embedding as implicit matrix factorization", for (shifted) PPMI. Pennington
        et al. (2014), "GloVe", for harmonic weights.

        Examples
        --------
        >>> import nearfar as nf
        >>> rel = nf.Relation.from_corpus(["the sea the ship", "the sea"], window=2, min_count=1)
        >>> rel.neighbors("ship")
        [('the', 1.0), ('sea', 0.5)]
        """
        from nearfar.relations._cooccurrence import DECAYS, WEIGHTINGS, cooccurrence
        from nearfar.relations._cooccurrence_kernels import DISTANCES
        from nearfar.text import Corpus, EncodedCorpus
        from nearfar.text.encoded import check_encoded

        owner = "Relation.from_corpus"
        check_integer(owner, "window", window, low=1, high=DISTANCES - 1)
        check_choice(owner, "decay", decay, DECAYS)
        check_choice(owner, "weighting", weighting, WEIGHTINGS)
        check_real(owner, "shift", shift, low=0)
        if shift and weighting != "ppmi":
            raise InputError(owner, "shift", "0 without weighting='ppmi'", shift)
        if storage is not None and weighting == "conditional":
            hint = "Store weighting='count' and take .normalized() of it, which takes no time."
            raise InputError(owner, "storage", "None for weighting='conditional'", repr(str(storage)), hint)
        folder = None if storage is None else check_path(owner, "storage", storage)
        workers = check_n_jobs(owner, n_jobs)
        if not isinstance(corpus, EncodedCorpus):
            corpus = corpus if isinstance(corpus, Corpus) else Corpus(corpus, n_jobs=n_jobs)
            corpus = corpus.encode(min_count=min_count, max_size=max_size)
        else:
            check_encoded(owner, corpus)
        operator, words = cooccurrence(corpus, window, decay, weighting, shift, folder, workers)
        made = cls(operator, words, words)
        return made.normalized() if weighting == "conditional" else made

    @classmethod
    def from_wordnet(cls, path: str | PathLike[str], words: Iterable[Hashable]) -> Self:
        """Make a relation of words that WordNet relates: synonyms, antonyms, immediate hypernyms and hyponyms.

        Parameters
        ----------
        path : path
            The folder with ``data.noun``, ``data.verb``, ``data.adj`` and ``data.adv``: ``/usr/share/wordnet`` of
            Debian's ``wordnet-base``, or ``corpora/wordnet`` of nltk's data.
        words : iterable of str
            The words, distinct. They are compared in lower case, in all their meanings, and a space in one stands for
            the underscore of WordNet. One that is not there, or is no string, is related to nothing.

        Returns
        -------
        Relation
            Square and symmetric, its ids all the words in their order; every entry is 1.

        Raises
        ------
        InputError
            The folder lacks a file, words are not distinct, or no two of them are related.
        FileFormatError
            A file is no data file of WordNet (which line).

        References
        ----------
        Fellbaum (1998), "WordNet: an electronic lexical database"; the form of the files: wndb(5).

        Examples
        --------
        >>> import nearfar as nf
        >>> rel = nf.Relation.from_wordnet("/usr/share/wordnet", ["dog", "cat", "pooch"])  # doctest: +SKIP
        """
        from nearfar.relations._wordnet import related_words

        matrix, ids = related_words(path, words)
        return cls.from_matrix(matrix, ids)

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> Self:
        """Map a stored relation into memory, in milliseconds whatever its size.

        Its entries are read from the files when they are used, its ids when they are first asked for.

        Parameters
        ----------
        folder : path
            What ``from_edges(..., storage=folder)`` or :meth:`save` made. It must stay as it is while it is in use.

        Returns
        -------
        Relation

        Raises
        ------
        InputError
            If there is no such folder.
        FileFormatError
            If it is no stored relation, is of another version, or a file is missing or was cut short. The sizes of
            the files are checked, not each of their bytes: that would take as long as reading them all.

        Examples
        --------
        >>> import pathlib, tempfile, nearfar as nf
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     folder = pathlib.Path(parent, "friends")
        ...     made = nf.Relation.from_edges([("ann", "bob"), ("bob", "eve")], storage=folder)
        ...     nf.Relation.open(folder).neighbors("bob")
        [('ann', 1.0), ('eve', 1.0)]
        """
        from nearfar.relations.mapped import MappedSparse, stored_ids

        path = check_path("Relation.open", "folder", folder)
        if not path.is_dir():
            raise InputError("Relation.open", "folder", "a folder that exists", str(path))
        operator = MappedSparse(path)
        return cls(operator, *stored_ids(operator))
