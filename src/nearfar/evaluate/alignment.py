"""Orthogonal Procrustes: one embedding is turned onto another of the same objects.

Vectors that are learned anew are the same up to a rotation: scalar products and cosines do not see it. For the rows
``x_i`` of the shared ids in a and ``y_i`` in b::

    R = argmin over orthogonal R of sum_i |x_i - y_i R|²  =  U Vᵀ,    where  sum_i y_iᵀ x_i = U S Vᵀ

"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np

from nearfar._core.checks import check_choice, check_flag, check_integer
from nearfar._core.ids import Ids
from nearfar._core.types import Doubles, Floats, Longs
from nearfar._core.warn import warn_user
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.evaluate.words import check_embedding
from nearfar.search.products import unit_rows

_RATIO = (1e-100, 1e100)  # of the lengths of the two embeddings, whose squares are added
_OWNER = "align"
_ROWS = 16_384  # at a time in float64
_FEW = 4  # shared ids for each component: below, a rotation also fits vectors that have nothing in common

_NOTHING = 1e-7  # singular value, over the largest, that rounding of float32 may leave
_OUTSIDE = 1e-2  # part of a vector outside the span of the shared ones, over the largest entry


@dataclass(frozen=True, eq=False)
class Alignment:
    """An embedding b that was turned onto another, a, and what remains between the two.

    Parameters
    ----------
    embedding : Embedding
        b, turned: all its ids, and both its sides.
    ids : Ids
        The shared ids, in the order of a.
    distances : ndarray, shape (n_shared,), float64
        Euclidean distance between the two vectors of each shared id, after the turn.
    cosines : ndarray, shape (n_shared,), float64
        Cosine of the angle between them; 1 where both are zero, 0 where one is.
    disparity : float, >= 0
        ``sum_i |x_i - y_i'|² / sum_i |x_i|²`` over the shared ids: 0 for the same vectors. With ``center`` the mean of
        x is taken off in the denominator.
    rotation : ndarray, shape (d, d), float64
        R, orthogonal; it may reflect.
    scale : float
        Factor s, 1 without ``scale``.
    shift : ndarray, shape (d,), float64
        t, 0 without ``center``. A vector y of b becomes ``s y R + t``.
    """

    embedding: Embedding
    ids: Ids = field(repr=False)
    distances: Doubles = field(repr=False)
    cosines: Doubles = field(repr=False)
    disparity: float
    rotation: Doubles = field(repr=False)
    scale: float
    shift: Doubles = field(repr=False)

    def __repr__(self) -> str:
        return f"Alignment of {len(self.ids)} shared ids, disparity {self.disparity:.4g}, scale {self.scale:.4g}"

    def most_moved(self, topn: int = 10, by: str = "cosine") -> list[tuple[Hashable, float]]:
        """Return the shared ids whose vectors differ most after the turn.

        Parameters
        ----------
        topn : int, >= 1
            How many ids at most.
        by : {"cosine", "distance"}
            1 less the cosine (the semantic displacement of Hamilton, Leskovec & Jurafsky 2016), or the Euclidean
            distance, which suits maps.

        Returns
        -------
        list of (id, float)
            Largest first; ties in the order of a.
        """
        owner = "Alignment.most_moved"
        topn = check_integer(owner, "topn", topn, low=1)
        check_choice(owner, "by", by, ("cosine", "distance"))
        moved = 1 - self.cosines if by == "cosine" else self.distances
        order = np.argsort(-moved, kind="stable")[:topn]
        return [(self.ids[row], float(moved[row])) for row in order.tolist()]


def align(a: Embedding, b: Embedding, *, center: bool = False, scale: bool = False) -> Alignment:
    """Turn the embedding b onto a by the rotation that brings the vectors of their shared ids nearest to each other.

    The rotation is found from the ids that both have, whatever their order, and applied to all vectors of b, those of
    its other side too. The first side decides. Neighbours, cosines and scalar products within b stay what they are.

    Parameters
    ----------
    a : Embedding
        Stays as it is.
    b : Embedding
        Is turned; it is not changed. It needs as many components as a. Mixtures of anchors and density matrices are
        taken as their vectors, and become plain ones.
    center : bool, default=False
        Whether b may be shifted, too: for maps, in which only distances count. The means of the shared ids then agree.
    scale : bool, default=False
        Whether b may be stretched by one factor, too: for maps, which have no unit.

    Returns
    -------
    Alignment
        In O(n d² + d³) time.

    Raises
    ------
    InputError
        If the numbers of components differ, there are fewer shared ids than components (such a rotation is not
        determined: it fits everything), or the shared vectors of a or b are all zero, or with ``center`` all the same;
        if ``center`` or ``scale`` is asked of a two-sided embedding, whose scores they would change.

    Warns
    -----
    NearfarWarning
        If there are fewer than four shared ids for each component, or they span fewer dimensions than all of b.

    References
    ----------
    Schönemann (1966), A generalized solution of the orthogonal Procrustes problem.

    Hamilton, Leskovec & Jurafsky (2016), Diachronic word embeddings reveal statistical laws of semantic change, section
    2.3. They scale all vectors to length 1 first; here long vectors count more.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> a = nf.Embedding(np.random.default_rng(0).normal(size=(50, 3)), [f"id{i}" for i in range(50)])
    >>> b = nf.Embedding(a.vectors[::-1] @ [[0, 1, 0], [0, 0, 1], [1, 0, 0]], a.ids[::-1])
    >>> found = nf.align(a, b)
    >>> found.disparity < 1e-12, bool(np.allclose(found.embedding["id7"], a["id7"]))
    (True, True)
    """
    check_embedding(_OWNER, a, "a")
    check_embedding(_OWNER, b, "b")
    check_flag(_OWNER, "center", center)
    check_flag(_OWNER, "scale", scale)
    d = a.n_components
    if b.n_components != d:
        hint = "evaluate.stability compares their neighbours, which needs no common space."
        raise InputError(_OWNER, "b", f"of {d} components, as a", f"{b.n_components}", hint)
    there = b.ids.rows(a.ids)
    shared_rows = np.flatnonzero(there >= 0)
    rows, n = (shared_rows, there[shared_rows]), len(shared_rows)
    if n < d:
        hint = f"Ids of a are {a.ids[:3]}, of b {b.ids[:3]}; text and numbers are different ids."
        expected = f"such that they share at least {d} ids, its number of components"
        raise InputError(_OWNER, "a and b", expected, f"{n}", hint)
    for name, asked in (("center", center), ("scale", scale)):
        if asked and b.context_ids is not None:
            hint = "It would change the scores between the sides. Take emb.side('vectors') of both."
            raise InputError(_OWNER, name, "False for a two-sided embedding", "True", hint)

    A, B = np.asarray(a.vectors), np.asarray(b.vectors)
    x_mean, y_mean = (
        sum((part.sum(axis=0) for part in _blocks(side, at)), np.zeros(d)) / n * center
        for side, at in ((A, rows[0]), (B, rows[1]))
    )
    units = []  # products of what is divided by them neither overflow nor vanish
    for name, side, at, mean in (("a", A, rows[0], x_mean), ("b", B, rows[1], y_mean)):
        units.append(max(float(np.abs(part - mean).max()) for part in _blocks(side, at)))
        if units[-1] == 0:
            raise InputError(_OWNER, name, "of shared vectors that are not all the same", f"{n} equal ones")
    x_unit, y_unit = units

    def shared() -> Iterator[tuple[Doubles, Doubles]]:
        for X, Y in zip(_blocks(A, rows[0]), _blocks(B, rows[1]), strict=True):
            yield (X - x_mean) / x_unit, (Y - y_mean) / y_unit

    U, sizes, Vt = np.linalg.svd(sum(Y.T @ X for X, Y in shared()))
    rank = int((sizes > sizes[0] * _NOTHING).sum())
    outside = 0.0
    for vectors in (b.vectors, b.context_vectors):
        if rank < d and vectors is not None:
            centred = vectors - y_mean
            outside = max(outside, float(np.abs(centred @ U[:, rank:]).max() / np.abs(centred).max()))
    if outside > _OUTSIDE:
        loose = "how other vectors are turned in the rest is arbitrary"
        warn_user(f"{_OWNER}: the shared vectors span {rank} of {d} dimensions; {loose}")
    elif n < _FEW * d:
        text = f"{n} shared ids are few for {d} components; the rotation also fits what they do not have in common"
        warn_user(f"{_OWNER}: {text}")
    R = U @ Vt
    factor = float(sizes.sum() / sum((Y * Y).sum() for _, Y in shared())) * (x_unit / y_unit) if scale else 1.0
    if not _RATIO[0] < factor * (y_unit / x_unit) < _RATIO[1]:
        got = f"{x_unit:.3g} and {y_unit:.3g}"
        raise InputError(_OWNER, "scale", "True for vectors so different in length", got)
    squares = [((X - (factor * y_unit / x_unit) * (Y @ R)) ** 2).sum(axis=1) for X, Y in shared()]
    left = np.concatenate(squares)

    shift = x_mean - factor * (y_mean @ R)
    context = b.context_vectors
    turned = Embedding(
        _moved(B, R, factor, shift),
        b.ids,
        context_vectors=None if context is None else _moved(np.asarray(context), R, factor, shift),
        context_ids=b.context_ids,
        parameters=dict(b.parameters) | {"aligned": {"n_shared": n, "center": bool(center), "scale": bool(scale)}},
    )
    cosines = [_cosines(X, Y) for X, Y in zip(_blocks(A, rows[0]), _blocks(turned.vectors, rows[1]), strict=True)]
    return Alignment(
        embedding=turned,
        ids=a.ids.take(rows[0]),
        distances=np.sqrt(left) * x_unit,
        cosines=np.concatenate(cosines),
        disparity=float(left.sum() / sum((X * X).sum() for X, _ in shared())),
        rotation=R,
        scale=factor,
        shift=shift,
    )


def _blocks(vectors: Floats, rows: Longs) -> Iterator[Doubles]:
    """Yield some rows in float64, a few at a time: no copy of all."""
    for start in range(0, len(rows), _ROWS):
        yield vectors[rows[start : start + _ROWS]].astype(np.float64)


def _moved(vectors: Floats, R: Doubles, factor: float, shift: Doubles) -> Floats:
    moved = np.empty(vectors.shape, vectors.dtype)
    for start in range(0, len(vectors), _ROWS):
        moved[start : start + _ROWS] = factor * (vectors[start : start + _ROWS] @ R) + shift
    return moved


def _cosines(X: Floats, Y: Floats) -> Doubles:

    X, Y = unit_rows(X), unit_rows(Y)
    cosines: Doubles = np.clip(np.einsum("ij,ij->i", X, Y), -1.0, 1.0)
    cosines[~X.any(axis=1) & ~Y.any(axis=1)] = 1.0
    return cosines
