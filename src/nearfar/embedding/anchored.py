"""Embeddings whose vectors are sparse mixtures of anchors, kept in their factors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core.checks import check_choice, check_integer, check_matrix, check_sparse
from nearfar._core.ids import Ids
from nearfar._core.types import Singles
from nearfar.embedding.content import Content
from nearfar.embedding.packed import KINDS, Mixtures, heaviest
from nearfar.embedding.vectors import Bits, Embedding, Found
from nearfar.errors import InputError, UnknownIdError

if TYPE_CHECKING:
    from scipy.sparse import csr_array, sparray, spmatrix

    Weights = sparray | spmatrix | ArrayLike


class AnchoredEmbedding(Embedding):
    """Ids and their vectors E = T A, sparse mixtures of K anchors, kept in these two factors; read-only.

    It is an :class:`Embedding` in all respects. A vector is computed when it is read; a search multiplies by A and
    then by T, which costs as much as T has entries.
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
    context_weights : sparse matrix or array-like, shape (m, K), optional
        T of the other side of a two-sided model, of the same anchors.
    context_ids : iterable of hashable, of length m, optional
        Names of the other side; by default ``ids`` where m = V, otherwise 0 .. m - 1.
    parameters : mapping, optional
        How the vectors were made.
    base_measure : array-like, shape (m,) or of one side (n,), >= 0, optional
        As of :class:`nearfar.Embedding`.

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
    compute all of them at once. ``save`` to a ``.safetensors`` file keeps the factors, other formats get the vectors.

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

    _vectors: Mixtures
    _context_vectors: Mixtures | None = None

    def __init__(
        self,
        weights: Weights,
        anchors: ArrayLike,
        ids: Iterable[Hashable] | None = None,
        *,
        anchor_names: Iterable[Hashable] | None = None,
        context_weights: Weights | None = None,
        context_ids: Iterable[Hashable] | None = None,
        parameters: Mapping[str, object] | None = None,
        base_measure: ArrayLike | None = None,
    ) -> None:
        from scipy.sparse import csr_array, issparse

        owner = "AnchoredEmbedding"
        A = check_matrix(owner, "anchors", anchors)
        if 0 in A.shape:
            raise InputError(owner, "anchors", "at least one, of at least one number", f"shape {A.shape}")
        names = Ids.of_rows(len(A), anchor_names, owner=owner, name="anchor_names", row="anchor")

        def mixtures(name: str, T: object) -> Mixtures:
            if issparse(T):
                return Mixtures.from_csr(owner, check_sparse(owner, name, T, columns=len(A)).copy(), A, names)
            return Mixtures.from_csr(owner, csr_array(check_matrix(owner, name, T, columns=len(A))), A, names)

        context = None if context_weights is None else mixtures("context_weights", context_weights)
        if context is None and context_ids is not None:
            raise InputError(owner, "context_ids", "given with context_weights only", repr(context_ids))
        self._label(mixtures("weights", weights), ids, parameters)
        if context is not None:
            self._add_context(owner, context, context_ids)
        self._add_base(owner, base_measure)

    # -- the factors -----------------------------------------------------------------------------------------------

    @property
    def weights(self) -> csr_array[np.float32]:
        """T as a ``scipy.sparse.csr_array``, shape (V, K), float32: a copy. ``context.weights`` of the other side."""
        return self._vectors.block(0, len(self)).astype(np.float32)

    @property
    def anchors(self) -> Singles:
        """A, shape (K, d), read-only."""
        return self._vectors.anchors

    @property
    def anchor_names(self) -> Ids:
        """Names of the anchors, in the order of the columns of T."""
        return self._vectors.names

    @property
    def nnz(self) -> int:
        """Number of entries of T that are not 0; of both sides if there are two."""
        return self._vectors.weights.size + (0 if self._context_vectors is None else self._context_vectors.weights.size)

    @property
    def n_parameters(self) -> int:
        """Number of parameters as the paper counts them: K d + nnz."""
        return self.anchors.size + self.nnz

    @property
    def nbytes(self) -> int:
        """Bytes of anchors, entries, their columns and starts of rows; ids are not counted."""
        return super().nbytes - (0 if self._context_vectors is None else self.anchors.nbytes)

    # -- anchors and objects ---------------------------------------------------------------------------------------

    def explain(self, id: Hashable) -> Found:  # noqa: A002
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
        at, _ = self._vectors.positions(rows)
        return heaviest(self._vectors.weights[at], self._vectors.columns[at], self.anchor_names, len(at))

    def anchor_objects(self, anchor: Hashable, topn: int = 10) -> Found:
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
            hint = f"Its {len(self.anchor_names)} anchors are named {shown}, ..."
            raise UnknownIdError(owner, [anchor], hint, known=self.anchor_names)
        at = np.flatnonzero(self._vectors.columns == column)
        rows = np.searchsorted(self._vectors.starts, at, side="right") - 1
        return heaviest(self._vectors.weights[at], rows, self._ids, topn)

    def to_int8(self) -> Self:
        """Return the embedding with anchors and weights rounded to 8 bits; its file is about half as large.

        An anchor's numbers, and all weights on it, are whole multiples, from -127 to 127, of their largest over 127.
        Weights that become 0 are left out. In memory they stay float32.

        Returns
        -------
        AnchoredEmbedding
            Its ``parameters["int8_error"]`` is the norm of the change of all vectors over the norm of all vectors.
        """
        return self._rounded("", "int8_error")

    def quantize(self, kind: Bits = "int8") -> Self:
        """Return the embedding with weights in 8 or 4 bits, anchors in 8 bits, and packed indices in its file.

        Parameters
        ----------
        kind : {"int8", "int4"}
            Bits of a weight. In 4 bits weights on an anchor are multiples, from 1 to 15 or, where some are negative,
            from -7 to 7, of a number of that anchor.

        Returns
        -------
        AnchoredEmbedding
            Its ``parameters["quantize_error"]`` is the norm of the change of all vectors over the norm of all vectors.
            In memory numbers stay float32. A ``.safetensors`` file of it takes as many bits for an index as K needs.

        Raises
        ------
        InputError
            If ``kind`` is another.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.AnchoredEmbedding([[1, 0], [0.5, 0.5], [0, 2]], [[4, 0, 0], [0, 2, 2]])
        >>> emb.quantize("int4")[1].round(1)
        array([1.9, 1.1, 1.1], dtype=float32)
        """
        check_choice("AnchoredEmbedding.quantize", "kind", kind, KINDS)
        return self._rounded(kind, "quantize_error")

    def _rounded(self, kind: str, name: str) -> Self:
        exact = self._vectors if self._context_vectors is None else self._vectors.stacked(self._context_vectors)
        rounded = exact.to_int8(kind)
        parameters = self._parameters | {name: rounded.error(exact)}
        sides = (rounded, None) if self._context_vectors is None else rounded.split(len(self))
        return self._of(sides[0], self._ids, parameters, sides[1], self._context_ids, self._base_measure)

    # -- as an embedding -------------------------------------------------------------------------------------------

    def equals(self, other: Embedding) -> bool:
        """Whether another embedding has the same ids and, bit for bit, the same vectors.

        Parameters
        ----------
        other : Embedding
            Of any kind; where it has the same factors, no vector is computed.

        Returns
        -------
        bool
            Neither parameters nor names of anchors are compared.
        """
        one_side = self._context_ids is None
        if isinstance(other, AnchoredEmbedding) and one_side and self._vectors.same(other._vectors):
            return self._ids == other._ids and other._context_ids is None
        return super().equals(other)

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        if not isinstance(content.vectors, Mixtures):
            hint = "Embedding.load reads them."
            raise InputError("AnchoredEmbedding", "vectors", "mixtures of anchors", "plain vectors", hint)
        return cls._of(*content.sides())

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {len(self.anchors)} anchors, {self.nnz} weights)"

    def _facts(self) -> dict[str, object]:
        return {"anchors": len(self.anchors), "weights": self.nnz}
