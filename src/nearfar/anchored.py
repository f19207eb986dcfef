"""Embeddings whose vectors are sparse mixtures of a few anchors: small files, and reasons that can be read."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar import storage
from nearfar._checks import check_integer, check_matrix, check_path, check_sparse
from nearfar._ids import Ids
from nearfar._labelled import LabelledVectors
from nearfar._mixtures import Mixtures, heaviest
from nearfar.contracts import Floats
from nearfar.embedding import Embedding
from nearfar.errors import InputError, UnknownIdError
from nearfar.storage.content import bad_file

__all__ = ["AnchoredEmbedding"]


class AnchoredEmbedding(Embedding):
    """Ids and their vectors E = T A, sparse mixtures of K anchors, kept in these two factors; read-only.

    It is an :class:`Embedding` in all respects, but a vector is multiplied when it is asked for, and a search
    multiplies with A and then with T, at the cost of the entries of T.
    :meth:`nearfar.nn.AnchorEmbedding.export` makes one.

    Parameters
    ----------
    weights : sparse matrix or array-like, shape (V, K), finite
        T, of any sign; its zeros are not kept. It becomes float32.
    anchors : array-like, shape (K, d), finite
        A. It becomes float32.
    ids : iterable of hashable, of length V, optional
        Distinct names of the rows; 0 .. V - 1 by default.
    anchor_names : iterable of hashable, of length K, optional
        Distinct names of the anchors, such as the ids of the objects they started from; 0 .. K - 1 by default.
    parameters : mapping, optional
        How the vectors were made.

    Raises
    ------
    InputError
        If the factors are not finite matrices that fit each other and float32, or names are not distinct, hashable and
        as many as there are rows.

    See Also
    --------
    nearfar.evaluate.anchor_purity : Whether anchors stand for one kind of objects each.

    Notes
    -----
    A vector is the sum in float64, rounded to float32. Only ``vectors``, ``np.asarray`` and the formats npz and parquet
    form all of them at once. ``save`` to a ``.safetensors`` file keeps the factors, other formats get the vectors.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", eq. 1.

    Examples
    --------
    >>> import nearfar as nf
    >>> weights = [[1, 0], [0.5, 0.5], [0, 2]]
    >>> emb = nf.AnchoredEmbedding(weights, [[4, 0, 0], [0, 2, 2]], ["ann", "bob", "cem"])
    >>> emb["bob"]
    array([2., 1., 1.], dtype=float32)
    >>> [(name, round(score, 3)) for name, score in emb.most_similar("ann", topn=2)]
    [('bob', 0.816), ('cem', 0.0)]
    >>> emb.explain("bob")
    [(0, 0.5), (1, 0.5)]
    >>> emb.anchor_objects(1)
    [('cem', 2.0), ('bob', 0.5)]
    >>> emb.n_parameters  # 2 * 3 + 4
    10
    """

    def __init__(
        self,
        weights: Any,
        anchors: ArrayLike,
        ids: Iterable[Hashable] | None = None,
        *,
        anchor_names: Iterable[Hashable] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        from scipy.sparse import csr_array, issparse

        owner = "AnchoredEmbedding"
        vectors = check_matrix(owner, "anchors", anchors)
        if 0 in vectors.shape:
            raise InputError(owner, "anchors", "at least one, of at least one number", f"shape {vectors.shape}")
        if issparse(weights):
            matrix = check_sparse(owner, "weights", weights, columns=len(vectors)).copy()
        else:
            matrix = csr_array(check_matrix(owner, "weights", weights, columns=len(vectors)))
        names = Ids(len(vectors)) if anchor_names is None else Ids(anchor_names, owner=owner, name="anchor_names")
        if len(names) != len(vectors):
            raise InputError(owner, "anchor_names", f"{len(vectors)}, one for each anchor", f"{len(names)}")
        self._keep(Mixtures.from_csr(owner, matrix, vectors, names), ids, parameters)

    @classmethod
    def _of(
        cls, mixtures: Mixtures, ids: Iterable[Hashable] | None, parameters: Mapping[str, Any] | None = None
    ) -> Self:
        """Make one of mixtures that are known to be right."""
        made = cls.__new__(cls)
        made._keep(mixtures, ids, parameters)
        return made

    def _keep(self, mixtures: Mixtures, ids: Iterable[Hashable] | None, parameters: Mapping[str, Any] | None) -> None:
        # Rows are checked, named and described as those of any embedding; then the mixtures take their place.
        super().__init__(np.broadcast_to(np.zeros((1, 1), np.float32), (len(mixtures), 1)), ids, parameters=parameters)
        self._vectors = cast("Floats", mixtures)

    @property
    def _mixtures(self) -> Mixtures:
        return cast("Mixtures", self._vectors)

    # -- the factors -----------------------------------------------------------------------------------------------

    @property
    def vectors(self) -> Floats:
        """The vectors, shape (V, d), float32: formed anew at each access."""
        return np.asarray(self._mixtures)

    @property
    def weights(self) -> Any:
        """T as a ``scipy.sparse.csr_array``, shape (V, K), float32: a copy."""
        return self._mixtures.block(0, len(self)).astype(np.float32)

    @property
    def anchors(self) -> NDArray[np.float32]:
        """A, shape (K, d), read-only."""
        return self._mixtures.anchors

    @property
    def anchor_names(self) -> Ids:
        """Names of the anchors, in the order of the columns of T."""
        return self._mixtures.names

    @property
    def nnz(self) -> int:
        """Number of entries of T that are not 0."""
        return self._mixtures.weights.size

    @property
    def n_parameters(self) -> int:
        """Number of parameters as the paper counts them: K d + nnz."""
        return self.anchors.size + self.nnz

    @property
    def nbytes(self) -> int:
        """Bytes of anchors, entries, their columns and starts of rows; ids are not counted."""
        return self._mixtures.nbytes

    # -- what anchors say ------------------------------------------------------------------------------------------

    def explain(self, id: Hashable) -> list[tuple[Any, float]]:  # noqa: A002
        """Return the anchors that an object is made of.

        Parameters
        ----------
        id : hashable
            The object.

        Returns
        -------
        list of (name of an anchor, weight)
            Largest weight first, ties in the order of the anchors; empty where the vector is 0.

        Raises
        ------
        UnknownIdError
            If the id is not there.
        """
        rows = np.array([self._row("AnchoredEmbedding.explain", id)])
        at, _ = self._mixtures.positions(rows)
        return heaviest(self._mixtures.weights[at], self._mixtures.columns[at], self.anchor_names, len(at))

    def anchor_objects(self, anchor: Hashable, topn: int = 10) -> list[tuple[Any, float]]:
        """Return what an anchor stands for: the objects with the largest weights on it.

        Parameters
        ----------
        anchor : hashable
            Name of the anchor, as :meth:`explain` returns it.
        topn : int, >= 1
            How many at most.

        Returns
        -------
        list of (id, weight)
            Largest weight first, ties in the order of the rows; objects of weight 0 are left out. O(nnz) time.

        Raises
        ------
        UnknownIdError
            If there is no anchor of that name.
        InputError
            If anchors are numbered and this is none of the numbers.
        """
        owner = "AnchoredEmbedding.anchor_objects"
        topn = check_integer(owner, "topn", topn, low=1)
        column = self.anchor_names.get(anchor)
        if column < 0 and self.anchor_names.is_range:
            raise InputError(owner, "anchor", f"in 0 .. {len(self.anchor_names) - 1}", anchor)
        if column < 0:
            shown = ", ".join(map(repr, self.anchor_names[:3]))
            raise UnknownIdError(owner, [anchor], f"Its {len(self.anchor_names)} anchors are named {shown}, ...")
        at = np.flatnonzero(self._mixtures.columns == column)
        rows = np.searchsorted(self._mixtures.starts, at, side="right") - 1
        return heaviest(self._mixtures.weights[at], rows, self._ids, topn)

    # -- as an embedding -------------------------------------------------------------------------------------------

    def subset(self, ids: Iterable[Hashable]) -> Self:
        """Return the embedding of some ids, in the order that is given, of the same anchors.

        Parameters
        ----------
        ids : iterable of distinct ids

        Returns
        -------
        AnchoredEmbedding

        Raises
        ------
        UnknownIdError
            If an id is not there.
        """
        owner = "AnchoredEmbedding.subset"
        if isinstance(ids, str):
            raise InputError(owner, "ids", "a list of ids", repr(ids), "For one id: [id].")
        kept = Ids(ids, owner=owner)
        return self._of(self._mixtures.subset(self._rows(owner, kept)), kept, self._parameters)

    def to_int8(self) -> Self:
        """Return the embedding with anchors and weights rounded to 8 bits; its file is about half as large.

        An anchor's numbers, and all weights on it, are whole multiples, from -127 to 127, of their largest over 127.
        Weights that become 0 are left out. In memory they stay float32.

        Returns
        -------
        AnchoredEmbedding
            Its ``parameters["int8_error"]`` is the norm of the change of all vectors over the norm of all vectors.
        """
        rounded = self._mixtures.to_int8()
        return self._of(rounded, self._ids, self._parameters | {"int8_error": rounded.error(self._mixtures)})

    def equals(self, other: LabelledVectors) -> bool:
        """Whether another embedding has the same ids and, bit for bit, the same vectors.

        Parameters
        ----------
        other : Embedding
            Of any kind; where it has the same factors, no vector is formed.

        Returns
        -------
        bool
            Neither parameters nor names of anchors are compared.
        """
        if isinstance(other, AnchoredEmbedding) and self._mixtures.same(other._mixtures):
            return self._ids == other._ids
        return super().equals(other)

    @classmethod
    def load(cls, path: str | os.PathLike[str], format: str | None = None) -> Self:  # noqa: A002
        """Read factors from a file that :meth:`save` or an export wrote; ``Embedding.load`` does so, too.

        Parameters
        ----------
        path : path-like
            The file, ``.safetensors``.
        format : str, optional
            The format of a file with another suffix.

        Returns
        -------
        AnchoredEmbedding

        Raises
        ------
        InputError
            If the file is not there or its suffix is unknown.
        FileFormatError
            If it is truncated or altered, or holds vectors and no anchors.
        """
        owner = "AnchoredEmbedding.load"
        content = storage.load(owner, path, format)
        if not isinstance(content.vectors, Mixtures):
            where = check_path(owner, "path", path)
            raise bad_file(where, "one of anchors and weights", "one of vectors", "Embedding.load reads it.")
        return cls._from_content(content)

    @classmethod
    def _from_content(cls, content: storage.Content) -> Self:
        if not isinstance(content.vectors, Mixtures):
            hint = "Embedding.from_word2vec reads it."
            raise InputError("AnchoredEmbedding", "file", "one of anchors and weights", "one of vectors", hint)
        return cls._of(content.vectors, content.ids, content.parameters)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {len(self.anchors)} anchors, {self.nnz} weights)"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)  # the mixtures are read-only by themselves
