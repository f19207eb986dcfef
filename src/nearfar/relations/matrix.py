"""`Relation`: what is related to what, as a labelled, non-negative, sparse operator kept as factors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

import numpy as np
from numpy.typing import NDArray

from nearfar._core import checks
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.notebook import facts_table
from nearfar._core.parameters import tells_options
from nearfar._core.types import Annotated, Doubles, Longs, MatrixLike
from nearfar._core.warn import warn_user
from nearfar.contracts import Floats
from nearfar.engines import on_a_cluster, on_cluster
from nearfar.errors import DataError, InputError, UnknownIdError, counted
from nearfar.relations.operators import Product, Walk, WeightedSum, sparse_from_edges, sparse_from_matrix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from scipy.sparse import csr_array

    from nearfar._core.types import Description, EdgeSource, Length, Taken
    from nearfar.relations.operators import LinearOperator
    from nearfar.text.corpus import Corpus
    from nearfar.text.encoded import EncodedCorpus
    from nearfar.text.sources import TextSource


class Relation:
    """A labelled, non-negative, sparse matrix P: ``P[i, a]`` says how strongly row object i is related to a.

    Products, weighted sums and walks are kept as factors and never multiplied out; a product with a dense block costs
    O(stored entries x columns of the block). Relations are immutable; every operation returns a new one that shares the
    stored arrays. Make one with :meth:`from_edges`, :meth:`from_matrix`,
    :meth:`from_contacts` or :meth:`from_corpus`.

    Parameters
    ----------
    operator : LinearOperator
        The factors; shape (n, m).
    row_ids, column_ids : Ids
        Names of the rows and columns. The same names in the same order on both sides make the relation *square*.

    Examples
    --------
    >>> import nearfar as nf
    >>> rel = nf.Relation.from_edges([("ann", "bob"), ("bob", "eve")])
    >>> rel.shape, rel.nnz
    ((3, 3), 4)
    >>> rel.neighbors("bob")
    [('ann', 1.0), ('eve', 1.0)]
    >>> walk = rel.random_walk(2)  # mean of the first two powers of the row-normalised matrix
    >>> walk.to_scipy().toarray().round(2)
    array([[0.25, 0.5 , 0.25],
           [0.25, 0.5 , 0.25],
           [0.25, 0.5 , 0.25]], dtype=float32)
    """

    _taken: Taken | None = None  # which columns of a table it was read from
    _roles: tuple[tuple[str | int, str, str], ...] = ()  # each of these, what it was read as, and why
    _why = ""  # nf.read took it for a relation
    _two_kinds = False  # equal ids of rows and columns are then different objects

    def __init__(self, operator: LinearOperator, row_ids: Ids, column_ids: Ids) -> None:
        for name, ids, size in (("row_ids", row_ids, 0), ("column_ids", column_ids, 1)):
            if len(ids) != operator.shape[size]:
                raise InputError("Relation", name, f"{operator.shape[size]} ids", f"{len(ids)}")
        self.operator, self.row_ids, self.column_ids = operator, row_ids, column_ids

    # Where relations come from: edges, matrices, text, stored folders.

    @classmethod
    @tells_options
    def from_edges(
        cls,
        edges: EdgeSource,
        *,
        columns: Sequence[str | int] | None = None,
        source: str | int | None = None,
        target: str | int | None = None,
        weight: str | int | Literal[False] | None = None,
        directed: bool | None = None,
        bipartite: bool | None = None,
        self_loops: bool = True,
        delimiter: str | None = None,
        comments: str | None = "infer",
        header: bool | Literal["infer"] = "infer",
        storage: str | PathLike[str] | None = None,
        verbose: int = 0,
    ) -> Self:
        """Make a relation from edges, wherever they are.

        Parameters
        ----------
        edges : path, file object, "-", data frame, graph, array or iterable
            A CSV or TSV file (also .gz, .xz, .bz2), a Parquet file, standard input ("-"), a pandas, polars or pyarrow
            frame, a graph of networkx, igraph or PyTorch Geometric or its ``edge_index`` of shape (2, E), an integer
            array of shape (E, 2), or any iterable, also a generator, of ``(source, target)`` or
            ``(source, target, weight)``. Ids of any hashable type stay what they were. The edges of a Dask frame stay
            in parts on the workers of the client in use; the client keeps the ids.
        columns : sequence of two or three str or int, optional
            The columns of source, target and, if there are three, weight, by name or position from 0.
        source : str or int, optional
            The column of the source; by default the one called source, from, ..., else the first that can be an end
            of an edge: no time, row number, number with a fraction or punctuation.
        target : str or int, optional
            The column of the target; by default the one called target, to, ..., else the next one that can be.
        weight : str, int or False, optional
            The column of the weight; by default the one called weight, else the one named as a strength (count, score,
            rating, ...), else the only other one with numbers, unless it is named as a distance, holds a few classes or
            numbers below 0, stands beside a column of units, or there are seven columns or more. False reads none.
            :meth:`describe` says which columns were read.
        directed : bool, optional
            Whether an edge goes from its source to its target only. By default False, and for a networkx graph what the
            graph says. An ``edge_index`` lists both directions of an edge that has no direction: by default it is read
            as it is.
        bipartite : bool, optional
            Whether sources and targets are of two kinds (users and items); vectors are then two-sided. The relation is
            rectangular, and user 1 is another object than item 1. By default found out for a table and for tuples: by
            names of columns (user and item, order_id and product_id), or where no id of a hundred edges or more is both
            a source and a target and no names say that they are ends. :meth:`describe` and the repr say why.
        self_loops : bool, default=True
            Whether edges from an object to itself are kept.
        delimiter : str, optional
            What separates the fields of a file; found out by default.
        comments : str or None, default="infer"
            What a line starts with that is to be left out; by default #, or what the first line starts with if that is
            % or //, unless many lines do that are like the others.
        header : bool or "infer", default="infer"
            Whether the first line of a file names the columns; by default it does if it is unlike what is below.
        storage : path, optional
            A folder for the relation, for one that memory does not hold: edges and entries go to files in it, and
            memory is needed for the ids and about 256 MB. It is used, fitted too, as any other, with the same results,
            and :meth:`open` finds it again. The folder appears whole or not at all; it is new, or holds a relation
            that is replaced. While it is made it takes up to 36 bytes per edge.
        verbose : int, default=0
            1 shows progress while a file is read: a line, or in a log one every ten seconds.

        Returns
        -------
        Relation
            Duplicate edges added up; ids in order of first appearance.

        Raises
        ------
        InputError, DataError
            A weight that is negative, NaN or infinite (which edge), a ragged line (which line), no edge at all, a file
            or a column that is not there; a file that is no list of edges (what it is, and how it is read); no two
            columns that can be ends; ids that lost digits in floats.

        Warns
        -----
        NearfarWarning
            If it is open which columns are meant, whether there is a header, or what a comment is; if rows without a
            source or a target were left out; if ids may be one thing under two names or stand for something missing;
            with ``storage``, if all ids are sources or targets.
        """
        from nearfar.reading import edges as reader
        from nearfar.reading.delimited import TextFormat
        from nearfar.reading.given import is_square_frame
        from nearfar.reading.graphs import edge_index_of, is_directed

        owner = "Relation.from_edges"
        checks.check_flag(owner, "self_loops", self_loops)
        if bipartite is not None:
            checks.check_flag(owner, "bipartite", bipartite)
        asked: dict[str, Any] = {"source": source, "target": target, "weight": weight}
        if columns is not None:
            if isinstance(columns, str) or not isinstance(columns, Sequence) or len(columns) not in (2, 3):
                raise InputError(owner, "columns", "two or three names or positions: source, target, weight", columns)
            for name in [*asked][: len(columns)]:
                if asked[name] is not None:
                    raise InputError(owner, name, "left out where columns names it", asked[name])
            asked |= dict(zip(asked, columns, strict=False))
        no_ends, frame = asked["source"] is None and asked["target"] is None, cast("Any", edges)
        if no_ends and is_square_frame(frame) and len(frame.columns) > 3:
            hint = "A matrix of relations goes to Relation.from_matrix. For edges name the columns: columns=(0, 1)."
            got = "columns with the labels of the rows"
            raise InputError(owner, "edges", "a frame of edges, one in each row", got, hint)
        if isinstance(edges, Set):  # also the edges of a graph of networkx, which are a mapping, too
            edges = iter(edges)
        if isinstance(edges, (str, PathLike)):  # an open file is read as it comes
            edges = cast("EdgeSource", reader.listed_by_tools(owner, edges))
        lists_both = directed is None and not bipartite and storage is None and edge_index_of(edges) is not None
        if directed is None:
            directed = bool(is_directed(edges))
        checks.check_flag(owner, "directed", directed)
        taken: Taken = {}
        form = TextFormat.checked(owner, delimiter, header, comments)
        read = partial(reader.read_edges, edges, **asked, bipartite=bipartite, form=form, verbose=verbose, taken=taken)
        how = {"mirror": not (directed or bipartite), "self_loops": self_loops}
        if hasattr(edges, "to_delayed") and hasattr(edges, "npartitions"):  # a frame of Dask
            if storage is not None:
                raise InputError(owner, "storage", "left out for a Dask frame, which stays on the workers", storage)
            made = cls(*on_cluster("relation of edges")(edges, asked, taken, bipartite=bipartite, **how))
        elif storage is not None:
            from nearfar.relations.mapped import create

            folder = checks.check_path(owner, "storage", storage)
            made = cls(*create(folder, lambda store: read(store=store), **how, verbose=verbose))
        else:
            made = cls(*sparse_from_edges(owner, read(), **how))
            if lists_both:  # finds out whether it does
                made = cls.from_matrix(made.to_scipy(), made.row_ids)
        return made._with_roles(taken)

    def _with_roles(self, taken: Taken) -> Self:
        self._roles = tuple(taken.pop("roles", ()))
        self._taken, self._two_kinds = taken, self.row_ids is not self.column_ids
        return self

    @classmethod
    @tells_options
    def from_matrix(
        cls,
        A: MatrixLike | Annotated,
        ids: Iterable[Hashable] | None = None,
        column_ids: Iterable[Hashable] | None = None,
    ) -> Self:
        """Make a relation from a matrix.

        Parameters
        ----------
        A : sparse matrix, sparse array or ndarray of shape (n, m), >= 0; or AnnData
            Kept as float32; explicit zeros are dropped. Not changed. Of AnnData, ``A.obsp["connectivities"]``, the
            weighted neighbours that ``scanpy.pp.neighbors`` finds.
        ids : iterable of hashable, optional
            Names of the rows, and of the columns too if A is square and ``column_ids`` is not given. By default
            0 .. n - 1; of AnnData its ``obs_names``; of a pandas frame the labels of its index, unless they are the
            default, and those of its columns for the columns. If these are the same labels in another order, the
            columns are put in the order of the rows.
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
        from nearfar.reading.given import is_square_frame, why_distances

        owner = "Relation.from_matrix"
        if hasattr(A, "vectors") and hasattr(A, "ids"):
            hint = "Neighbours of vectors are a relation: nf.Affinities().fit(embedding). A fit starts from init=."
            raise InputError(owner, "A", "a matrix of relations", f"an Embedding of {len(A.ids)} vectors", hint)
        if hasattr(A, "vocabulary") and hasattr(A, "encode"):
            hint = "A text goes to Relation.from_corpus, to SkipGram, Word2DM or MultiSenseWord2DM."
            raise InputError(owner, "A", "a matrix of relations", type(A).__name__, hint)
        if hasattr(A, "obsp") and hasattr(A, "obs_names"):
            if "connectivities" not in A.obsp:
                got = f"one with {', '.join(map(repr, A.obsp)) or 'none'}"
                hint = "Run scanpy.pp.neighbors, or pass a matrix and ids=adata.obs_names."
                raise InputError(owner, "A", "AnnData with 'connectivities' in obsp", got, hint)
            ids = A.obs_names if ids is None else ids
            A = A.obsp["connectivities"]
        if ids is None and column_ids is None and is_square_frame(A):
            A = cast("MatrixLike", cast("Any", A)[list(cast("Any", A).index)])
        columns: Any = getattr(A, "columns", None)
        labels = rows_and_ids(owner, A)[1] if columns is not None and ids is None else None
        if labels is not None and not labels.is_range:  # of a frame
            ids = labels
            if column_ids is None and list(columns) not in (list(range(len(columns))), list(labels)):
                column_ids = columns
        made = cls(*sparse_from_matrix(owner, A, ids, column_ids))
        if why := why_distances(A, made.operator):
            hint = "nf.Affinities(metric='precomputed').fit(A).relation_ makes weights of distances."
            looks = f"A of shape {made.shape} looks like distances: {why}. A larger weight means more related."
            warn_user(f"{owner}: {looks} {hint}")
        return made

    @classmethod
    @tells_options
    def from_contacts(
        cls,
        contacts: EdgeSource,
        *,
        window: Length | None = None,
        step: Length | None = None,
        columns: Sequence[str | int] | None = None,
        end: str | int | None = None,
        weight: str | int | None = None,
        delimiter: str | None = None,
        comments: str | None = "infer",
        header: bool | Literal["infer"] = "infer",
    ) -> Self:
        """Make a relation of nodes at times from contacts that have a time: the supra-adjacency matrix of DyANE.

        Time is cut into slices. The ids are pairs (node, time), one for each slice in which the node has a contact; the
        time is when the slice begins. From (i, t) a relation goes to i the next time that it has a contact, of weight
        1, and from there too to each j that i is in contact with in that slice: to j the next time that j has one, of
        weight w, that of the contact. All relations go forward in time.

        Parameters
        ----------
        contacts : path, file object, "-", data frame, array or iterable
            Contacts of two nodes at a time: a CSV or TSV file (also .gz, .xz, .bz2), also as SocioPatterns writes them,
            a Parquet file, standard input ("-"), a pandas, polars or pyarrow frame, an array of numbers, or an iterable
            of tuples such as ``("ann", "bob", 20)``. A contact has no direction. Times are numbers or dates (those of
            Python, NumPy and pandas; in files by ISO 8601).
        window : number or timedelta, optional
            Length of a slice of time, by default each time by itself. A number in the unit of the times; for dates a
            timedelta, or seconds. The first slice begins with the first contact.
        step : number or timedelta, optional
            From the beginning of a slice to that of the next; by default the window. Shorter ones make slices overlap,
            and a contact is in each that its time is in.
        columns : sequence of three str or int, optional
            The columns of source, target and time, by name or position from 0. By default those called source and
            target, else the first two others; and as the time the one that is named so (t, time, timestamp, date,
            start, ...). Without names it is the only one of three that holds numbers or dates; of several the first,
            as SocioPatterns writes them, if it grows more than the others. :meth:`describe` says which were read.
        end : str or int, optional
            The column of the times at which contacts end, for contacts that last; by default the one called end or
            stop. They count in every slice by the share of it that they fill, and need a window.
        weight : str or int, optional
            The column of the weights; by default the one called weight, else each contact weighs 1. Those of two nodes
            in one slice add up.
        delimiter : str, optional
            What separates the fields of a file; found out by default.
        comments : str or None, default="infer"
            What a line starts with that is to be left out; by default #, or what the first line starts with if that is
            % or //, unless many lines do that are like the others.
        header : bool or "infer", default="infer"
            Whether the first line of a file names the columns.

        Returns
        -------
        Relation
            Square and directed. Rows are in the order of time, those of a slice in that of the first appearance of
            their nodes. Fit it ``normalized()`` or as a ``random_walk()``.

        Raises
        ------
        InputError
            Columns cannot be told, an argument cannot be used, or no node has contacts in two slices, as with a window
            longer than the data.
        DataError
            There is no contact; a time is missing or no number or date; a contact ends before it begins, or when; a
            weight is negative or not finite (which line, row or tuple).

        Warns
        -----
        NearfarWarning
            If contacts are not in the order of their times, in which case they are sorted, or a node is in contact with
            itself, which is left out.

        Notes
        -----
        The last appearance of a node has nothing that comes after it. Its row is empty: it is a sink, which stays in
        all normalisers and is moved by those that point to it. A node that appears only once has neither row nor
        column: it is an isolate, and its vector is zero. :meth:`describe` counts both.

        References
        ----------
        Sato, Oka, Barrat & Cattuto (2021), "Predicting partially observed processes on temporal networks by
        Dynamics-Aware Node Embeddings (DyANE)", EPJ Data Science 10:22. Dall'Amico & Belliardo, definition D.2, prints
        other indices.

        Examples
        --------
        >>> import nearfar as nf
        >>> rel = nf.Relation.from_contacts([("ann", "bob", 0), ("bob", "cem", 20), ("ann", "cem", 40)])
        >>> rel.neighbors(("ann", 0))
        [(('bob', 20), 1.0), (('ann', 40), 1.0)]
        >>> rel.neighbors(("bob", 20))  # the last time of bob: cem goes on alone
        [(('cem', 40), 1.0)]
        """
        from nearfar.reading.contacts import cut_into_slices, read_contacts, supra_adjacency
        from nearfar.reading.delimited import TextFormat

        owner = "Relation.from_contacts"
        form = TextFormat.checked(owner, delimiter, header, comments)
        found = read_contacts(owner, contacts, columns, end, weight, form)
        slices = cut_into_slices(owner, found, window, step)
        matrix = supra_adjacency(slices)
        if not matrix.nnz and window is None:
            raise DataError(owner, "contacts", "such that a node has some at two times", "none that has")
        if not matrix.nnz:
            got = f"{window!r}, which makes {counted(len(slices.times), 'slice')} of time with contacts"
            hint = "A shorter window makes more of them."
            raise InputError(owner, "window", "such that a node has contacts in two slices", got, hint)
        return cls.from_matrix(matrix, Ids(slices.ids(), distinct=True))._with_roles(found.taken)

    @classmethod
    @tells_options
    def from_corpus(
        cls,
        corpus: Corpus | EncodedCorpus | TextSource,
        *,
        window: int = 5,
        decay: str = "linear",
        weighting: str = "count",
        shift: float = 0.0,
        min_count: int = 5,
        max_size: int | None = None,
        storage: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        engine: str | None = None,
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
        engine : {"threads", "dask"}, optional
            Where the text is read: by this process, or on the workers of the ``dask.distributed.Client`` in use, each
            file, or partition of a Dask bag, by itself. The rows of the relation then stay on the workers, in parts. By
            default on a cluster for a bag in the context of a client. The result is the same to float32 rounding.

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
        from nearfar.reading.corpora import DECAYS, DISTANCES, WEIGHTINGS, cooccurrence
        from nearfar.text import Corpus, EncodedCorpus
        from nearfar.text.encoded import check_encoded

        owner = "Relation.from_corpus"
        checks.check_integer(owner, "window", window, low=1, high=DISTANCES - 1)
        checks.check_choice(owner, "decay", decay, DECAYS)
        checks.check_choice(owner, "weighting", weighting, WEIGHTINGS)
        shift = checks.check_real(owner, "shift", shift, low=0)
        if shift and weighting != "ppmi":
            raise InputError(owner, "shift", "0 without weighting='ppmi'", shift)
        if storage is not None and weighting == "conditional":
            hint = "Store weighting='count' and take .normalized() of it, which takes no time."
            raise InputError(owner, "storage", "None for weighting='conditional'", repr(str(storage)), hint)
        folder = None if storage is None else checks.check_path(owner, "storage", storage)
        workers = checks.check_n_jobs(owner, n_jobs)
        if not isinstance(corpus, (EncodedCorpus, Corpus)):
            corpus = Corpus(corpus, n_jobs=n_jobs)
        if on_a_cluster(owner, engine, by_default=isinstance(corpus, Corpus) and corpus.is_bag):
            limits, count = (min_count, max_size), on_cluster("co-occurrence")
            operator, words = count(owner, corpus, limits, window, decay, weighting, shift, storage)
        else:
            if isinstance(corpus, EncodedCorpus):
                check_encoded(owner, corpus)
            else:
                corpus = corpus.encode(min_count=min_count, max_size=max_size)
            operator, words = cooccurrence(corpus, window, decay, weighting, shift, folder, workers)
        return cls(operator.normalized() if weighting == "conditional" else operator, words, words)

    @classmethod
    @tells_options
    def from_documents(
        cls,
        documents: Mapping[Hashable, str | Sequence[str]] | Iterable[str | Sequence[str]],
        ids: Iterable[Hashable] | None = None,
        *,
        min_count: int = 5,
        max_size: int | None = None,
        sample: float = 1e-3,
    ) -> Self:
        """Make a relation of documents and the words in them: how often each comes.

        ``SkipGram().fit`` of it are paragraph vectors (PV-DBOW): documents predict their words. Rows and columns are
        then the two sides of its ``vectors_``.

        Parameters
        ----------
        documents : mapping, iterable of documents, frame, or iterable of rows
            Each a text, whose words are between blanks, or a list of words. Of a frame, of mappings, and of names with
            texts, the one column of texts is read.
        ids : iterable of hashable, optional
            Names of the documents; by default the keys of a mapping, the index of a frame, or the first other column in
            which no two are equal, else 0 .. n - 1.
        min_count, max_size : int, default=5 and None
            Words that come less often, and all but the most frequent ones, are left out.
        sample : float, default=1e-3
            Counts of words beyond this share of the text are made smaller, by the probability with which word2vec would
            keep them; 0 leaves them as they are.

        Returns
        -------
        Relation
            A document without such words has an empty row.

        Raises
        ------
        InputError
            An argument cannot be used, there is no document, or no word that comes ``min_count`` times; several columns
            of texts, or none.

        Warns
        -----
        NearfarWarning
            Which column of several holds the texts, and which are left out.

        References
        ----------
        Le & Mikolov (2014), "Distributed representations of sentences and documents", section 2.3.

        Examples
        --------
        >>> import nearfar as nf
        >>> documents = {"tale": "the sea the ship", "log": "the ship"}
        >>> rel = nf.Relation.from_documents(documents, min_count=1, sample=0)
        >>> rel.neighbors("tale")
        [('the', 2.0), ('ship', 1.0), ('sea', 1.0)]
        """
        from nearfar.reading.corpora import documents_and_words

        owner = "Relation.from_documents"
        checks.check_real(owner, "sample", sample, low=0)
        counts, rows, words = documents_and_words(owner, documents, ids, min_count, max_size, sample)
        return cls.from_matrix(counts, rows, words)

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
        from nearfar.reading.wordnet import related_words

        matrix, ids = related_words(path, words)
        return cls.from_matrix(matrix, ids)

    @classmethod
    def open(cls, folder: str | PathLike[str], *, verify: bool = False) -> Self:
        """Map a stored relation into memory, in milliseconds whatever its size.

        Its entries are read from the files when they are used, its ids when they are first asked for. At their first
        use they are read through and compared with their checksums, at about 4 GB a second.

        Parameters
        ----------
        folder : path
            What ``from_edges(..., storage=folder)`` or :meth:`save` made. Its files are mapped into memory: they may
            be replaced, but not changed in place. Numbers that are altered so are used, and a file that is cut ends
            the process (SIGBUS).
        verify : bool, default=False
            Compare every file with its checksum now, not at its first use.

        Returns
        -------
        Relation

        Raises
        ------
        InputError
            If there is no such folder.
        FileFormatError
            If it is no stored relation, is of another version, or a file is missing, was cut short or altered. The
            sizes of the files are checked at once; entries and ids when they are first used, which may then raise it.

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

        path = checks.check_path("Relation.open", "folder", folder)
        checks.check_flag("Relation.open", "verify", verify)
        if not path.is_dir():
            raise InputError("Relation.open", "folder", "a folder that exists", str(path))
        operator = MappedSparse(path)
        if verify:
            operator.verify()
        return cls(operator, *stored_ids(operator))._with_roles({})

    def save(self, folder: str | PathLike[str]) -> None:
        """Store the relation in a folder, from which :meth:`open` maps it.

        Parameters
        ----------
        folder : path
            A new folder, or a stored relation that is replaced; it appears whole or not at all.

        Raises
        ------
        InputError
            If the relation has several factors or normalised rows (store what it was made of), the folder is something
            else, or an id is of a kind that cannot be stored.
        """
        from nearfar.relations.mapped import save

        column_ids = self.row_ids if self.is_square else self.column_ids
        save(checks.check_path("Relation.save", "folder", folder), self.operator, self.row_ids, column_ids)

    # Among scikit-learn's tools, which take some rows of what they are given, or an array of it.

    __iter__ = None

    def __getitem__(self, rows: object) -> Self:
        n = self.shape[0]
        chosen = rows[0] if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis else rows
        if isinstance(chosen, np.ndarray | list | range) and np.array_equal(chosen, np.arange(n)):
            return self
        got = f"{len(chosen)} of {n}" if isinstance(chosen, np.ndarray | list | range) else repr(chosen)
        hint = "A part of a relation is another one. nf.evaluate.select chooses parameters by labels or hidden links;"
        hint += f" GridSearchCV does by your scoring, with cv=[(np.arange({n}), np.arange({n}))]."
        hint += " relation.neighbors(id) says who is related to an id."
        raise InputError("Relation", "rows", "all of them, in their order", got, hint)

    def __array__(self, *_args: object, **_options: object) -> NDArray[np.generic]:
        hint = "relation.to_scipy() is the sparse matrix; estimators of nearfar take the relation itself."
        raise InputError("Relation", "relation", "given as it is", "a call for an array of numbers", hint)

    # What it is.

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns)."""
        return self.operator.shape

    @property
    def nnz(self) -> int:
        """Stored entries, over all factors."""
        return self.operator.nnz

    @property
    def nbytes(self) -> int:
        """Bytes of the stored factors in memory; what is mapped from files does not count."""
        return self.operator.nbytes

    @cached_property
    def is_square(self) -> bool:
        """Whether rows and columns are the same objects in the same order: not if they are of two kinds."""
        return self.row_ids is self.column_ids or (not self._two_kinds and self.row_ids == self.column_ids)

    @property
    def row_sums(self) -> Doubles:
        """R = P 1, shape (n,), float64."""
        return self.operator.row_sums

    @property
    def column_sums(self) -> Doubles:
        """Pᵀ 1, shape (m,), float64."""
        return self.operator.column_sums

    @cached_property
    def isolates(self) -> Longs:
        """Rows without any relation: empty row and, if square, empty column. Positions, int64."""
        empty = self.row_sums == 0
        return np.flatnonzero(empty & (self.column_sums == 0) if self.is_square else empty)

    @cached_property
    def sinks(self) -> Longs:
        """Rows that are empty while their column is not (square relations only). Positions, int64."""
        if not self.is_square:
            return np.empty(0, np.int64)
        return np.flatnonzero((self.row_sums == 0) & (self.column_sums > 0))

    def describe(self) -> Description:
        """Return the counts that a look at the data starts with.

        Returns
        -------
        dict
            ``n_rows``, ``n_columns``, ``n_entries`` (stored, over all factors), ``isolates``, ``sinks`` (numbers of
            them), ``square`` and ``megabytes`` (in memory). After :meth:`from_edges` of a table also ``columns``: which
            of them were read as ``source``, ``target`` and ``weight`` (None: each edge weighs 1), and the list
            ``left_out``; names, or positions where there are none. After :meth:`from_contacts` also ``time`` there, and
            ``end`` where contacts last.
        """
        found: Description = {
            "n_rows": self.shape[0],
            "n_columns": self.shape[1],
            "n_entries": self.nnz,
            "isolates": int(self.isolates.size),
            "sinks": int(self.sinks.size),
            "square": self.is_square,
            "megabytes": round(self.nbytes / 1e6, 3),
        }
        if self._taken:
            found["columns"] = self._taken.copy()
        return found

    def neighbors(self, id: Hashable) -> list[tuple[Hashable, float]]:  # noqa: A002 - the field's word
        """Return what a row is related to, strongest first: a list of (id, weight).

        Parameters
        ----------
        id : hashable
            The id of the row.

        Raises
        ------
        UnknownIdError
            If no row has this id.
        """
        row = self.row_ids.get(id)
        if row < 0:
            raise UnknownIdError("Relation.neighbors", [id], known=self.row_ids)
        entries = self.operator.rows(row, row + 1)
        order = np.argsort(-entries.data, kind="stable")
        return [(self.column_ids[int(entries.indices[k])], float(entries.data[k])) for k in order]

    def to_scipy(self) -> csr_array[np.float32]:
        """Return the matrix multiplied out, float32: for small relations and for checks."""
        return self.operator.rows(0, self.shape[0])

    def __repr__(self) -> str:
        n, m = self.shape
        words = [f"{self.nnz} stored entries"] + ["rectangular"] * (not self.is_square)
        if self._taken:
            words.append(f"{'of columns ' * ('source' in self._taken)}{columns_in_words(self._taken)}")
        words += [self._why] * bool(self._why)
        return f"<Relation {n} x {m}, {', '.join(words)}>"

    def __str__(self) -> str:
        """Return the repr, and of a table each column with what it was read as, and why."""
        if not self._roles:
            return repr(self)
        width = max(len(repr(label)) for label, _, _ in self._roles)
        lines = [f"  {label!r:<{width}}  {role:<8}  {why}" for label, role, why in self._roles]
        edges = "Relation.from_edges(path, columns=(source, target, weight))"
        return "\n".join([repr(self), *lines, f"  otherwise: {edges}, or nf.read(path, kind='table')"])

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"rows": self.shape[0], "columns": self.shape[1], "entries": self.nnz}
        known = {name: len(vars(self)[name]) for name in ("isolates", "sinks") if name in vars(self)}  # costs nothing
        facts |= {name: count for name, count in known.items() if count}
        facts["memory"] = f"{self.nbytes:,} bytes" if self.nbytes < 1e6 else f"{self.nbytes / 1e6:,.1f} MB"
        facts |= {"read": columns_in_words(self._taken)} if self._taken else {}
        sides = {"ids": self.row_ids} if self.is_square else {"row ids": self.row_ids, "column ids": self.column_ids}
        facts |= {name: ids.shown(5) for name, ids in sides.items()}
        return facts_table(f"Relation {self.shape[0]} x {self.shape[1]}", facts)

    # Algebra.

    @property
    def T(self) -> Relation:  # noqa: N802 - as everywhere in NumPy
        """The transpose: who is related to me."""
        operator = self.operator.transpose()
        if operator is self.operator:
            return self
        made = Relation(operator, self.column_ids, self.row_ids)
        made._two_kinds = self._two_kinds
        return made

    def normalized(self, power: float = 1.0) -> Relation:
        """Return the relation with its rows over a power of their sums; an empty row stays empty.

        Parameters
        ----------
        power : float, default=1
            1: rows sum to 1, each counts the same. 0.5: a row counts by the square root of its sum. 0: as they are.

        Returns
        -------
        Relation
        """
        return self._kept(self.operator.normalized(checks.check_real("Relation.normalized", "power", power, 0)))

    def ppmi(self, shift: float = 0.0) -> Relation:
        """Return the relation with positive pointwise mutual information in place of its weights.

        Entry (i, j) becomes ``max(0, ln(a_ij W / (r_i c_j)) - shift)`` with the sums r of rows, c of columns and W of
        all: how much more often i and j are related than by chance, given how much each is related at all. An entry
        between two hubs counts little, or goes; one between two objects with few relations counts much.

        Parameters
        ----------
        shift : float, default=0.0, finite
            ln k for shifted PPMI, k being the number of negative samples; below 0 more entries stay.

        Returns
        -------
        Relation
            Of the same objects. Where no entry is above 0, an object has become isolated.

        Raises
        ------
        InputError
            If the relation has several factors or normalised rows (ask before these are made) or its entries are on a
            cluster, or if nothing is left.

        References
        ----------
        Church & Hanks (1990), "Word association norms, mutual information, and lexicography". Levy & Goldberg (2014),
        "Neural word embedding as implicit matrix factorization", for the shift. Qiu et al. (2018), "Network embedding
        as matrix factorization", eq. (2), for walks of one step in a graph.

        Examples
        --------
        >>> import nearfar as nf
        >>> edges = [("hub", k) for k in "abcd"] + [("a", "b"), ("c", "d"), ("hub", "other hub"), ("other hub", "e")]
        >>> rel = nf.Relation.from_edges(edges)
        >>> [(name, round(weight, 2)) for name, weight in rel.ppmi().neighbors("hub")]
        [('a', 0.47), ('b', 0.47), ('c', 0.47), ('d', 0.47), ('other hub', 0.47)]
        >>> rel.ppmi().neighbors("a")[0]
        ('b', 1.3862943649291992)
        """
        shift = checks.check_real("Relation.ppmi", "shift", shift)
        made = self.operator.information(shift)
        if made is None:
            hint = "Ask for it before normalized(), random_walk(), sums and products: relation.ppmi().random_walk(3)."
            raise InputError("Relation.ppmi", "the relation", "a single matrix as it came", repr(self), hint)
        if not made.nnz:
            raise InputError("Relation.ppmi", "shift", "smaller", shift, "No two are related more often than that.")
        return self._kept(made)

    def random_walk(self, steps: int = 3) -> Relation:
        """Return the mean of the first ``steps`` powers of the row-normalised relation.

        Entry (i, a) is the probability that a walk from i is at a, averaged over its first ``steps`` steps.

        Parameters
        ----------
        steps : int, default=3, >= 1

        Raises
        ------
        InputError
            If the relation is not square.

        References
        ----------
        Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling", section 4:
        P = (1/w) sum_{t=1..w} (D⁻¹A)ᵗ.
        """
        checks.check_integer("Relation.random_walk", "steps", steps, low=1)
        if not self.is_square:
            got = f"{self.shape[0]} rows and {self.shape[1]} columns of different ids"
            hint = "For two kinds of objects walk on `rel @ rel.T` instead."
            expected = "square (the same ids on both sides)"
            raise InputError("Relation.random_walk", "the relation", expected, got, hint)
        normalized = self.normalized()
        if steps == 1:
            return normalized
        return self._kept(Walk(normalized.operator, steps))

    def _kept(self, operator: LinearOperator) -> Relation:
        """Return another relation of the same objects, read from the same columns."""
        made = Relation(operator, self.row_ids, self.column_ids)
        made._taken, made._two_kinds = self._taken, self._two_kinds
        return made

    @overload
    def __matmul__(self, other: Relation) -> Relation: ...
    @overload
    def __matmul__(self, other: ArrayLike) -> Floats: ...
    def __matmul__(self, other: Relation | ArrayLike) -> Relation | Floats:
        if not isinstance(other, Relation):
            return self.matmat(other)
        if self.column_ids != other.row_ids:
            got = f"shapes {self.shape} and {other.shape} with different ids"
            raise InputError("Relation @ Relation", "the right factor", "over the left one's columns", got)
        return Relation(Product(self.operator, other.operator), self.row_ids, other.column_ids)

    def __mul__(self, factor: float) -> Relation:
        factor = checks.check_real("Relation * factor", "factor", factor, low=0, open_low=True)
        return self._kept(WeightedSum([factor], [self.operator]))

    __rmul__ = __mul__

    def __add__(self, other: object) -> Relation:
        if not isinstance(other, Relation):
            return NotImplemented
        if self.row_ids != other.row_ids or self.column_ids != other.column_ids:
            got = f"shapes {self.shape} and {other.shape} with different ids"
            raise InputError("Relation + Relation", "the second term", "over the same ids", got)
        made = Relation(self.operator + other.operator, self.row_ids, self.column_ids)
        made._two_kinds = self._two_kinds
        return made

    def matmat(self, X: ArrayLike, *, n_jobs: int | None = None) -> Floats:
        """Return P X, in parallel.

        Parameters
        ----------
        X : array-like of shape (m, d) or (m,), float32 or float64
            Anything else is converted to float32.
        n_jobs : int, optional
            Number of threads; None means all processors. The result does not depend on it.

        Returns
        -------
        ndarray of shape (n, d) or (n,), in X's dtype

        Raises
        ------
        InputError
            If X has another number of rows, or holds NaN or infinity in a row that something is related to.
        """
        return self._times(X, transposed=False, n_jobs=n_jobs)

    def rmatmat(self, X: ArrayLike, *, n_jobs: int | None = None) -> Floats:
        """Return Pᵀ X for X of shape (n, d) or (n,).

        Parameters
        ----------
        X, n_jobs
            As for :meth:`matmat`.
        """
        return self._times(X, transposed=True, n_jobs=n_jobs)

    def _times(self, X: ArrayLike, *, transposed: bool, n_jobs: int | None) -> Floats:
        owner = "Relation.rmatmat" if transposed else "Relation @ X"
        vector = getattr(X, "ndim", 2) == 1
        block = checks.check_numbers(owner, "X", X)[:, None] if vector else X
        block = checks.check_matrix(owner, "X", block, rows=self.shape[not transposed], finite=False)
        n_jobs = checks.check_n_jobs(owner, n_jobs)
        out, overflown = self.operator.multiplied(block, transposed=transposed, n_jobs=n_jobs)
        if overflown:  # only then: to read all of X once more takes up to a third of the time
            checks.check_finite(owner, "X", block)
        return out[:, 0] if vector else out


def columns_in_words(taken: Taken) -> str:
    """Return which columns of a table were read, which were left out, and what a text was taken for."""
    if "source" not in taken:  # of tuples
        return f"of two kinds ({taken['kinds']})"
    text = f"{taken['source']!r} -> {taken['target']!r}"
    text += f" at {taken['time']!r}" if "time" in taken else ""
    text += f" to {taken['end']!r}" if "end" in taken else ""
    text += " without weight" if taken["weight"] is None else f" with weight {taken['weight']!r}"
    text += f", of two kinds ({taken['kinds']})" if "kinds" in taken else ""
    text += f", not {', '.join(map(repr, taken['left_out']))}" if taken["left_out"] else ""
    return text + (f" ({taken['form']})" if "form" in taken else "")


def is_relation(X: object) -> bool:
    """Whether it is a relation rather than rows of numbers: a Relation, or a graph of another library."""
    if isinstance(X, Relation) or hasattr(X, "shape"):
        return isinstance(X, Relation)
    from nearfar.reading.graphs import is_graph

    return is_graph(X)


def as_relation(relation: Any, owner: str = "as_relation", argument: str = "relation") -> Relation:
    """Return the relation that anything stands for which can be given as one.

    Parameters
    ----------
    relation : Relation, or what stands for one
        A Relation, and what has one as its attribute, stays. Edges are read by :meth:`Relation.from_edges`: a path or
        an open file, a graph of networkx, igraph or PyTorch Geometric, a frame of edges, an iterator or a list of
        tuples or of pairs of texts. A folder is opened by :meth:`Relation.open`. All else is a matrix or AnnData for
        :meth:`Relation.from_matrix`.
    owner, argument : str
        Who takes it, and the name of the argument, for messages.

    Returns
    -------
    Relation

    Raises
    ------
    InputError
        If there is no such file; if an array, a list of lists or a frame holds two or three columns of whole numbers,
        which could be the ids of edges as well as a matrix.
    """
    from nearfar.reading.frames import hint_of_mapping
    from nearfar.reading.given import form_of

    held = relation if isinstance(relation, Relation) else getattr(relation, "relation", None)
    if isinstance(held, Relation):
        return held
    form = form_of(relation)
    if form == "either":
        expected, got = "edges or a matrix for sure", "whole numbers in two or three columns, or in two rows"
        hint = "Edges go to Relation.from_edges(X), a matrix to Relation.from_matrix(X); pass the relation."
        raise InputError(owner, argument, expected, got, hint)
    if form == "folder":
        return Relation.open(relation)
    if form == "nothing":
        hint = hint_of_mapping(relation) if isinstance(relation, Mapping) else ""
        raise InputError(owner, argument, "a Relation, edges, a graph or a matrix", type(relation).__name__, hint)
    if isinstance(relation, (str, PathLike)) and str(relation) != "-":
        checks.check_path(owner, argument, relation, exists=not Path(relation).exists())  # what is there may be a pipe
    return Relation.from_edges(relation) if form == "edges" else Relation.from_matrix(relation)
