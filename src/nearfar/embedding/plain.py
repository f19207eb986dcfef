"""Embeddings: how ids and vectors come from other tools and go to them, in arrays, frames, indexes, pages and files."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core.checks import check_choice, from_tensor, require
from nearfar._core.lazy import LazyRows
from nearfar._core.types import Floats, Seed
from nearfar._core.warn import warn_user
from nearfar.embedding.files import FORMATS, Content, registry
from nearfar.embedding.files.content import text_ids
from nearfar.embedding.labelled import Bits, Labelled
from nearfar.embedding.metadata import facts_of
from nearfar.embedding.near import Metric, Near
from nearfar.embedding.parts import MEAN, Parts
from nearfar.errors import InputError
from nearfar.text.subwords import NGrams

if TYPE_CHECKING:
    import gensim.models
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    import nearfar
    from nearfar.embedding.metadata import Metadata


class Fitted(Protocol):
    """A fitted map."""

    @property
    def embedding_(self) -> Floats:
        """Its positions."""


Vectors = ArrayLike | Sequence[object]
"""Vectors as other tools have them."""


class Embedding(Near):
    """Ids and their vectors, read-only.

    ``emb[key]`` is always the vector of an id, also where ids are integers, and ``emb[[key, key]]`` those of
    several, a matrix; the rows of the matrix are ``emb.vectors[row]``. An embedding converts to an array by itself:
    ``np.asarray(emb)``.

    Parameters
    ----------
    vectors : array-like, shape (n, d), finite; or AnnData
        One row for each id; of AnnData ``obsm["X_pca"]``, or ``X``. float64 stays float64, everything else becomes
        float32. An array of these types is not copied, so do not change it afterwards.
    ids : iterable of hashable, of length n, optional
        Distinct names of the rows; by default the column of a frame that is called ``id``, as in that of
        :meth:`to_frame`, which is no component; the index of a pandas frame, ``obs_names``, else 0 .. n - 1.
    context_vectors : array-like, shape (m, d), optional
        The other side of a two-sided model, in the order of ``context_ids``.
    context_ids : iterable of hashable, of length m, optional
        Names of the other side; by default the ids of a frame as above, ``ids`` where m = n, otherwise 0 .. m - 1.
    parameters : mapping, optional
        How the vectors were made. Values that JSON does not know are saved as their ``repr``.
    base_measure : array-like, shape (m,) or of one side (n,), >= 0, optional
        How much each of the other side counts in a softmax before any vector is known, see :meth:`recommend`. Kept by
        ``.safetensors`` and ``.npz``.

    Raises
    ------
    InputError
        If the vectors are not a finite matrix, or the ids are not distinct, hashable and one for each row.

    Notes
    -----
    The similarity is the cosine. A vector of zeros stands for an object of which nothing is known (an isolated node),
    and has cosine 0 with everything.

    Examples
    --------
    >>> import nearfar as nf
    >>> emb = nf.Embedding([[1, 0], [3, 1], [0, 2]], ids=["ann", "bob", "cem"])
    >>> emb["bob"]
    array([3., 1.], dtype=float32)
    >>> [(name, round(score, 3)) for name, score in emb.most_similar("ann", topn=2)]
    [('bob', 0.949), ('cem', 0.0)]
    >>> "dan" in emb, len(emb), list(emb)
    (False, 3, ['ann', 'bob', 'cem'])
    """

    def index(
        self,
        kind: Literal["auto", "usearch", "faiss", "lists"] = "auto",
        *,
        metric: Metric = "cosine",
        storage: Literal["float32", "float16", "int8", "binary"] = "float32",
        recall: float = 0.95,
        expansion: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> nearfar.index.EmbeddingIndex:
        """Build an approximate index, which answers many queries among many vectors sooner than :meth:`search`.

        Parameters
        ----------
        kind : {"auto", "usearch", "faiss", "lists"}
            What finds candidates: a graph by usearch or by faiss, or lists of codes by faiss, which are built much
            sooner. "auto" takes lists from 200,000 vectors on, and a graph for fewer; of what is installed (the extra
            ``index`` has both).
        metric : {"cosine", "dot"}
            What is ranked by.
        storage : {"float32", "float16", "int8", "binary"}
            How the index holds vectors. Of smaller ones more candidates are ranked again by the vectors themselves.
            faiss has float32 alone; lists hold 2 bits a number beside it.
        recall : float, in [0, 1]
            Share of the 10 nearest to find. How far a search looks is chosen for it on a sample of the vectors; the
            index says by ``recall`` what came of it, and warns where it is less. Queries unlike the vectors find less.
        expansion : int, optional
            How far a search looks, in place of ``recall``: candidates that a search of a graph keeps (twice as many
            while it is built, 128 by default), or lists that are read.
        n_jobs : int, optional
            Number of threads; None means all processors. With several the index differs from run to run.
        verbose : int
            1 shows the progress.

        Returns
        -------
        nearfar.index.EmbeddingIndex
            With ``search``, ``add``, ``remove`` and ``save``; ``recall`` says how many of the nearest it finds.

        Raises
        ------
        MissingDependencyError
            Neither usearch nor faiss is installed.
        InputError
            An argument that cannot be used.

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> emb = nf.Embedding(np.random.default_rng(0).normal(size=(300, 8)))
        >>> emb.index().recall > 0.9
        True
        """
        import nearfar  # indexes stand above embeddings: they are reached by their public name

        return nearfar.index.build_index(self, kind, metric, storage, recall, expansion, n_jobs, verbose)

    def open_index(self, path: str | os.PathLike[str]) -> nearfar.index.EmbeddingIndex:
        """Open an index that was saved, without building it again.

        Its checksum is compared first, which takes about a second for each GB. The library that reads the index trusts
        it: open none that somebody may have made to do harm.

        Parameters
        ----------
        path : path-like
            What ``index.save`` wrote.

        Returns
        -------
        nearfar.index.EmbeddingIndex

        Raises
        ------
        InputError
            If there is no such file, or the index was built from another embedding.
        FileFormatError
            If it is no index, or damaged.
        """
        import nearfar  # as in index

        return nearfar.index.open_index(self, path)

    def map(
        self,
        positions: ArrayLike | Labelled | Fitted | None = None,
        *,
        metadata: Metadata | None = None,
        id_column: str | None = None,
        color: str | None = None,
        n_neighbors: int | None = None,
        metric: str | None = None,
        max_points: int = 1_000_000,
        title: str | None = None,
        images: object = None,
        stability: bool | nearfar.evaluate.MapStability = False,
        random_state: Seed = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> nearfar.viewer.page.MapPage:
        """Make a map of the vectors as one HTML file that works without a network and says where it lies.

        A browser shows it with WebGL: zoom, search by id, colours by the columns of ``metadata``, and a lasso. A click
        on a point draws lines to its nearest neighbours among the *vectors*, dashed where the map tore them away.
        Each point has its share of missing and of false neighbours, see :func:`nearfar.evaluate.neighborhoods`.

        Parameters
        ----------
        positions : array-like of shape (n, 2), Embedding or fitted map, optional
            Where the points are: a row for each id in the order of the ids, or matched by ids. By default vectors of
            two components are drawn as they are, without neighbours to compare with; of others a t-SNE map is drawn.
        metadata : frame, mapping of str to sequence, or path of a CSV file, optional
            What is known of the points, joined by id; at most 40 columns.
        id_column : str, optional
            The column of ``metadata`` with the ids. By default the index of a pandas frame, or the column in which most
            ids are found.
        color : str, optional
            The column that colours the points at first, or ``"missing neighbours"``, ``"false neighbours"`` or
            ``"stability"``. By default the first column of categories.
        n_neighbors : int, optional
            Neighbours of each point that are kept: by default 15, 10 from 50,000 points on, 5 from 200,000 on.
        metric : str, optional
            Distance between vectors, one of :func:`nearfar.evaluate.neighborhoods`, which the page names. By default
            that which drew the map, where ``positions`` knows it, else the Euclidean; without ``positions`` the cosine.
            A map that was fitted to a relation is compared with its strongest relations: ``est.vectors_.map(est)``.
        max_points : int, default=1,000,000
            Of more, so many are drawn at random, and the page says so.
        title : str, optional
            Heading of the page.
        images : sequence, or mapping from ids, optional
            Small copies are shown on the cards: files, bytes of files, arrays of pixels, images of Pillow, or None.
        stability : bool or MapStability, default=False
            Show in how many refits each point stays, see :func:`nearfar.evaluate.map_stability`: True fits the map
            again, for which ``positions`` must be its estimator, or None.
        random_state : int, Generator, RandomState or None
            For that draw.
        n_jobs : int, optional
            Number of threads; None means all processors. The result does not depend on it.
        verbose : int, default=0
            1 shows the progress of the map.

        Returns
        -------
        MapPage
            ``.save("map.html")`` writes it; a notebook shows it.

        Raises
        ------
        InputError
            Positions that are not finite or not one for each id, metadata of which no id is known or an id is met
            twice, a color that is no column.

        Warns
        -----
        NearfarWarning
            If points or columns are left out.

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> emb = nf.Embedding(np.random.default_rng(0).normal(size=(60, 5)), [f"row {i}" for i in range(60)])
        >>> page = emb.map(metadata={"group": ["a", "b", "c"] * 20})
        >>> page.missing.shape
        (60,)
        """
        import nearfar  # the page draws maps, which stand above embeddings: it is reached by its public name

        return nearfar.viewer.page.map_page(
            self,
            positions,
            metadata=metadata,
            id_column=id_column,
            color=color,
            n_neighbors=n_neighbors,
            metric=metric,
            max_points=max_points,
            title=title,
            images=images,
            stability=stability,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    @classmethod
    def from_arrays(
        cls,
        ids: Iterable[Hashable] | None,
        vectors: Vectors,
        *,
        context_ids: Iterable[Hashable] | None = None,
        context_vectors: Vectors | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> Self:
        """Make an embedding from the arrays or columns of other tools.

        Parameters
        ----------
        ids : array-like of n ids, or None
            An array, a list, a column of pandas, polars, Arrow or Hugging Face datasets, ``adata.obs_names``, a tensor.
            None stands for 0 .. n - 1.
        vectors : array-like, shape (n, d), or column of n vectors
            The same kinds of things: ``model.encode(sentences)``, ``frame["embedding"]``, ``adata.obsm["X_pca"]``.
            float64 stays float64, everything else becomes float32; lists of Python's numbers are float64.
        context_ids, context_vectors : optional
            The same for the other side of a two-sided model.
        parameters : mapping, optional
            How the vectors were made.

        Returns
        -------
        Embedding

        Raises
        ------
        InputError
            If the vectors have different lengths or are not finite, or the ids are not distinct and one for each.

        Examples
        --------
        >>> import pandas as pd
        >>> import nearfar as nf
        >>> frame = pd.DataFrame({"name": ["ann", "bob"], "embedding": [[1.0, 0.5], [0.0, 2.0]]})
        >>> nf.Embedding.from_arrays(frame["name"], frame["embedding"])
        Embedding(2 x 2 float64, ids ['ann', 'bob'])
        """
        owner = f"{cls.__name__}.from_arrays"
        return cls(
            _as_rows(owner, "vectors", vectors),
            _plain(ids),
            context_vectors=None if context_vectors is None else _as_rows(owner, "context_vectors", context_vectors),
            context_ids=_plain(context_ids),
            parameters=parameters,
        )

    @classmethod
    def from_gensim(cls, model: object) -> Self:
        """Take the vectors of a model of gensim, those of words never seen included.

        Parameters
        ----------
        model : KeyedVectors, Word2Vec, FastText, or what has such vectors as ``wv``
            Of :func:`gensim.models.KeyedVectors.load`, too, which reads ``.kv`` files: they are pickles, and run what
            is in them. Arrays are not copied.

        Returns
        -------
        Embedding
            Its ids are the keys. The output vectors of negative sampling are its other side. The n-grams of FastText
            make words that it has no row of, as there.

        Raises
        ------
        InputError
            If it has no vectors with keys.

        Examples
        --------
        >>> import nearfar as nf
        >>> from gensim.models import Word2Vec  # doctest: +SKIP
        >>> nf.Embedding.from_gensim(Word2Vec(sentences))  # doctest: +SKIP
        """
        owner = f"{cls.__name__}.from_gensim"
        kept: Any = getattr(model, "wv", model)
        keys, vectors = getattr(kept, "index_to_key", None), getattr(kept, "vectors", None)
        if keys is None or vectors is None:
            raise InputError(owner, "model", "KeyedVectors, or a model with some as wv", type(model).__name__)
        context = getattr(model, "syn1neg", None)
        made = cls(vectors, keys, context_vectors=context, context_ids=None if context is None else keys)
        rows = getattr(kept, "vectors_ngrams", None)
        if rows is None or not kept.bucket:
            return made
        cutter = NGrams(max(kept.min_n, 1), kept.max_n, kept.bucket)
        return made._with_parts(Parts(cutter, np.arange(kept.bucket), rows, MEAN))

    def to_gensim(self) -> gensim.models.KeyedVectors:
        """Return the vectors as gensim's ``KeyedVectors``.

        Returns
        -------
        gensim.models.KeyedVectors
            In float32, its keys the ids: text, or integers as text. :meth:`from_gensim` is the way back.

        Raises
        ------
        InputError
            If ids are neither strings nor integers.
        MissingDependencyError
            If gensim is not installed.
        """
        models = require("Embedding.to_gensim", "gensim.models", "gensim")
        made = models.KeyedVectors(self.n_components, dtype=np.float32)
        made.add_vectors(text_ids(self._ids), self.vectors.astype(np.float32))
        return made

    def to_frame(
        self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas"
    ) -> pd.DataFrame | pl.DataFrame | pa.Table:
        """Return a data frame with the column ``id`` and one column for each component, ``v0``, ``v1``, ...

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
            Which library's frame. polars and pyarrow need ids that are all integers or all strings.

        Returns
        -------
        DataFrame or Table of the library

        Raises
        ------
        MissingDependencyError
            If the library is not installed.
        InputError
            If its columns cannot hold the ids.
        """
        import narwhals as nw

        owner = "Embedding.to_frame"
        check_choice(owner, "backend", backend, ("pandas", "polars", "pyarrow"))
        require(owner, backend, "parquet" if backend == "pyarrow" else backend)
        keys = self._ids.to_numpy() if self._ids.is_integer else self._ids.to_list()
        if backend != "pandas" and not self._ids.is_integer and {type(key) for key in keys} != {str}:
            raise InputError(
                owner, "ids", "all integers or all strings", repr(self._ids), 'backend="pandas" takes any.'
            )
        columns = {"id": keys} | {f"v{c}": np.ascontiguousarray(v) for c, v in enumerate(self._vectors.T)}
        return nw.from_dict(columns, backend=backend).to_native()

    def save(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        metadata: Metadata | None = None,
        id_column: str | None = None,
        quantize: Bits | None = None,
    ) -> None:
        """Write the embedding to a file, which appears whole or not at all.

        Parameters
        ----------
        path : path-like
            Its suffix tells the format: ``.safetensors`` (keeps everything, with a checksum), ``.npz`` (everything),
            ``.parquet``, ``.txt`` or ``.vec`` (word2vec text), ``.bin`` (word2vec binary), ``.csv``, ``.tsv`` (the pair
            of files that projectors read), ``.h5ad``. The word2vec formats may be packed: ``.vec.gz``.
        format : str, optional
            One of ``nearfar.embedding.files.FORMATS``, for a file with another suffix.
        metadata : frame, mapping of str to sequence, or path of a CSV file, optional
            What is known of the ids, joined by id as in :meth:`map`: further columns of ``.parquet``, ``.h5ad``
            (``obs``), ``.csv`` and ``.tsv``. Each holds whole numbers, numbers, truths or text, with gaps where nothing
            is known; other values, such as dates, become text. :meth:`load` leaves them out: the other program reads
            them.
        id_column : str, optional
            The column of ``metadata`` with the ids. By default the index of a pandas frame, or the column in which most
            ids are found.
        quantize : {"int8", "int4"}, optional
            Write what :meth:`quantize` makes of the embedding.

        Raises
        ------
        InputError
            If the suffix is unknown, the folder does not exist, or the format cannot hold the ids; if the format has no
            columns for metadata or cannot hold their names, or metadata cannot be joined.
        OSError
            If the disk is full or fails; an old file of that name is left as it was.

        Warns
        -----
        NearfarWarning
            If there is another side or a base measure and the format does not keep it, or nothing is known of some ids.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[1, 0], [3, 1]], ids=["ann", ("bob", 2)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     emb.save(pathlib.Path(folder, "people.safetensors"))
        ...     nf.Embedding.load(pathlib.Path(folder, "people.safetensors")).equals(emb)
        True
        """
        if quantize is not None:
            self.quantize(quantize).save(path, format, metadata=metadata, id_column=id_column)
            return
        owner = "Embedding.save"
        name = registry.check_output(owner, path, format, columns=metadata is not None)
        kind, content = FORMATS[name], self._content()
        if content.weights is not None and not kind.keeps_both_sides:
            hint = "DensityEmbedding.from_senses makes matrices of them, which any format holds."
            raise InputError("SenseEmbedding.save", "path", "a .safetensors or .npz file", repr(str(path)), hint)
        if metadata is None and id_column is not None:
            raise InputError(owner, "id_column", "given with metadata only", repr(id_column))
        if metadata is not None:
            content.facts = facts_of(owner, metadata, self._ids, id_column)
        if not kind.keeps_both_sides:
            if self._context_vectors is not None:
                warn_user(f"{owner}: the format {name!r} keeps one side; the context vectors are left out")
            elif self._base_measure is not None:
                warn_user(f"{owner}: the format {name!r} keeps no base measure, which recommend adds; it is left out")
            if self._parts is not None:
                hint = "words that have no row will have no vector (.safetensors and .npz keep them)"
                warn_user(f"{owner}: the format {name!r} keeps no parts of words: {hint}")
        kind.write(content, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], format: str | None = None) -> Self:  # noqa: A002
        """Read an embedding from a file of any of the formats of :meth:`save`.

        Parameters
        ----------
        path : path-like
            The file; its suffix tells the format. Or the folder that a fit on a cluster has written: vectors stay in
            its parts, and a search reads them one after the other.
        format : str, optional
            The format of a file with another suffix.

        Returns
        -------
        Embedding
            An :class:`AnchoredEmbedding` if the file holds anchors and weights, a :class:`SenseEmbedding` if it holds
            senses.

        Raises
        ------
        InputError
            If the file is not there or its suffix is unknown.
        FileFormatError
            If it is truncated, altered or of another kind; says where.
        """
        return registry.load(f"{cls.__name__}.load", path, format, cls._from_content)

    @classmethod
    def from_word2vec(cls, path: str | os.PathLike[str], binary: bool | None = None) -> Self:
        """Read the vectors that word2vec, gensim, fastText and others write, text or binary, packed by gzip or not.

        Parameters
        ----------
        path : path-like
            The file.
        binary : bool, optional
            Which of the two formats; by default binary if the name ends in ``.bin`` or ``.bin.gz``.

        Returns
        -------
        Embedding
            Ids are strings; of an id that is repeated the first row is kept, with a warning.

        Raises
        ------
        InputError
            If the file is not there.
        FileFormatError
            If it is truncated or not in that format; says in which line.
        """
        if binary is None:
            binary = str(path).lower().endswith((".bin", ".bin.gz"))
        name = "word2vec-binary" if binary else "word2vec-text"
        return registry.load(f"{cls.__name__}.from_word2vec", path, name, cls._from_content)

    def _content(self) -> Content:
        sides = self._vectors, self._ids, self._context_vectors, self._context_ids, self._parameters
        return Content(*sides, base_measure=self._base_measure, parts=self._parts)

    @classmethod
    def _is_of(cls, content: Content) -> bool:  # noqa: ARG003 - for subclasses
        """Return whether a file holds an embedding of this kind, which :meth:`load` of the base then makes."""
        return False

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        if cls is Embedding:
            for kind in cls.__subclasses__():
                if kind._is_of(content):
                    return kind._from_content(content)
            if isinstance(content.vectors, LazyRows):  # a file's were checked
                return cls._of(*content.sides())._with_parts(content.parts)
        return cls(
            np.asarray(content.vectors),
            content.ids,
            context_vectors=None if content.context_vectors is None else np.asarray(content.context_vectors),
            context_ids=content.context_ids,
            parameters=content.parameters,
            base_measure=content.base_measure,
        )._with_parts(content.parts)


def _as_rows(owner: str, name: str, vectors: Vectors) -> ArrayLike:
    """Return a tensor or a column of vectors as an array, anything else as it is."""
    vectors = from_tensor(vectors)
    rows: ArrayLike = vectors.to_numpy() if hasattr(vectors, "to_numpy") else cast("ArrayLike", vectors)
    if isinstance(rows, np.ndarray) and rows.dtype == object and rows.ndim == 1 and len(rows):
        lengths = {np.shape(row) for row in rows}
        if len(lengths) != 1:
            raise InputError(owner, name, "vectors of one length", f"the shapes {sorted(map(str, lengths))[:4]}")
        return np.stack([np.asarray(row) for row in rows])
    return rows


def _plain(ids: Iterable[Hashable] | None) -> Iterable[Hashable] | None:
    """Return a column of ids as a list of Python objects."""
    for name in ("to_pylist", "tolist", "to_list"):  # of Arrow, of arrays and tensors, of frames
        if hasattr(ids, name):
            listed: list[Hashable] = getattr(ids, name)()
            return listed
    return ids
