"""What vectors have to beat: old, simple and strong answers to who likes what, who meets whom, and who is what.

Each takes the known pairs as a CSR array of ones and returns the scores of some rows with all columns, a block at a
time; 0 where nothing is known. Items are told from a matrix X of users and items, links from the adjacency A of a
graph without directions, k_a the number of neighbours of a, labels from the neighbours' labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearfar._core.types import Doubles, Flags, Floats, RowNumbers
from nearfar.errors import InputError
from nearfar.relations.matrix import as_relation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nearfar._core.ids import Ids
    from nearfar.base import RelationLike
    from nearfar.datasets import Graph

    Pairs = csr_array[np.float64]

Scores = Callable[[RowNumbers], Doubles]
"""Of some rows with all columns."""
Setting = Mapping[str, float]

DENSE = 10_000
"""Items up to which a matrix of items by items is made."""
_AT_ONCE = 2**22  # scores of a block
_BLOCK = 256  # rows whose systems of equations are solved together


class Baseline(NamedTuple):
    """What gives scores, the settings to choose from, and the largest number of columns, if there is one."""

    scores: Callable[..., Scores]
    settings: Sequence[Setting] = ({},)
    most_columns: int | None = None


# -- items -------------------------------------------------------------------------------------------------------------


def popularity(X: Pairs) -> Scores:
    """How many have the item, the same for everybody; of nodes degrees, as k_u k_v ranks the others as k_v does."""
    counts = np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64)
    return lambda rows: np.tile(counts, (len(rows), 1))


def ease(X: Pairs, penalty: float) -> Scores:
    """EASE: X B, the least squares |X - X B|² + penalty |B|² of which B has no diagonal; P = (X'X + penalty)^-1."""
    gram = (X.T @ X).toarray()
    gram[np.diag_indices_from(gram)] += penalty
    B = np.linalg.inv(gram)
    B /= -np.diag(B).copy()  # Steck 2019, eq. (8)
    np.fill_diagonal(B, 0.0)
    return lambda rows: _product(X[rows], B)


def als(X: Pairs, penalty: float, n_components: int = 32, alpha: float = 5.0, n_epochs: int = 10) -> Scores:
    """Least squares in turn of sum_ui c_ui (x_ui - u . v)², c = 1 + alpha for known pairs and 1 for all others."""
    X_t = X.T.tocsr()
    V = np.random.default_rng(0).normal(scale=n_components**-0.5, size=(X.shape[1], n_components))
    for _ in range(n_epochs):
        U = _weighted_least_squares(X, V, alpha, penalty)
        V = _weighted_least_squares(X_t, U, alpha, penalty)
    return lambda rows: U[rows] @ V.T


def _weighted_least_squares(X: Pairs, V: Doubles, alpha: float, penalty: float) -> Doubles:
    """Return all u = (V'V + alpha V_u'V_u + penalty)^-1 (1 + alpha) V'x, V_u the rows of V that u has."""
    n, d = X.shape[0], V.shape[1]
    found, right = np.empty((n, d)), (1 + alpha) * _product(X, V)
    of_all = V.T @ V + penalty * np.eye(d)
    for start in range(0, n, _BLOCK):
        left = np.repeat(of_all[None], min(_BLOCK, n - start), axis=0)
        for u, matrix in enumerate(left, start):
            own = V[X.indices[X.indptr[u] : X.indptr[u + 1]]]
            matrix += alpha * (own.T @ own)  # Hu, Koren & Volinsky 2008, eq. (4)
        found[start : start + _BLOCK] = np.linalg.solve(left, right[start : start + _BLOCK, :, None])[..., 0]
    return found


def pure_svd(X: Pairs, n_components: int) -> Scores:
    """PureSVD: the rows of X, absent pairs being zeros, projected on the first right singular vectors, X V V'."""
    from scipy.sparse.linalg import svds

    if n_components < min(X.shape):
        V_t = svds(X, n_components, v0=np.random.default_rng(0).normal(size=min(X.shape)))[2]
    else:
        V_t = np.linalg.svd(X.toarray(), full_matrices=False)[2]
    return lambda rows: _product(X[rows], V_t.T) @ V_t  # Cremonesi, Koren & Turrin 2010, eq. (6)


# -- links -------------------------------------------------------------------------------------------------------------


def adamic_adar(A: Pairs) -> Scores:
    """Count common neighbours, those with few neighbours for more: sum_a A_ua A_av / ln k_a."""
    k = np.diff(A.indptr)
    weights = np.where(k > 1, 1 / np.log(np.maximum(k, 2)), 0.0)  # who has one neighbour is common to no pair
    return lambda rows: _paths_of_two(A, weights, rows)


def l3(A: Pairs) -> Scores:
    """Paths of three links, of hubs less: sum_ab A_ua A_ab A_bv / sqrt(k_a k_b)."""
    weights = 1 / np.sqrt(np.maximum(np.diff(A.indptr), 1))

    def scores(rows: RowNumbers) -> Doubles:
        two = _paths_of_two(A, weights, rows) * weights
        return _product(A, two.T).T  # Kovács et al. 2019, eq. (2); A is symmetric

    return scores


def _paths_of_two(A: Pairs, weights: Doubles, rows: RowNumbers) -> Doubles:
    """Return sum_a A_ua weights_a A_av."""
    first = A[rows]
    first.data *= weights[first.indices]
    return (first @ A).toarray()


def _product(A: Pairs, B: Floats) -> Doubles:
    return A @ B


def scores_of_pairs(scores: Scores, pairs: RowNumbers, n: int) -> Doubles:
    """Return the scores of pairs of n rows, shape (p, 2), those of the first of each pair in blocks."""
    found = np.empty(len(pairs))
    sources, of_source = np.unique(pairs[:, 0], return_inverse=True)
    order = np.argsort(of_source, kind="stable")
    for block in blocks(len(sources), n):
        within = order[slice(*np.searchsorted(of_source[order], (block.start, block.stop)))]
        found[within] = scores(sources[block])[of_source[within] - block.start, pairs[within, 1]]
    return found


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield blocks of rows whose scores memory holds."""
    at_once = max(1, _AT_ONCE // n_columns)
    for start in range(0, n_rows, at_once):
        yield slice(start, min(start + at_once, n_rows))


# -- labels ------------------------------------------------------------------------------------------------------------


def graph_of(owner: str, relation: RelationLike | Graph, n: int, ids: Ids | None) -> Pairs:
    """Return the weights between n rows without directions, by id where they have ids; refuse what does not fit."""
    from scipy.sparse import csr_array

    given = as_relation(relation, owner)
    if not given.is_square or (ids is None and given.shape[0] != n):
        expected = "square (the same ids on both sides)" + ("" if ids else f", of {n} rows as the vectors")
        raise InputError(owner, "relation", expected, repr(given))
    entries = given.to_scipy().tocoo()
    rows = np.arange(n) if ids is None else ids.rows(given.row_ids)
    if not (rows >= 0).any():
        raise InputError(owner, "relation", "of the ids of the vectors", f"none of them, but {given.row_ids[0]!r}")
    ends = rows[np.array(entries.coords)]
    met = (ends >= 0).all(axis=0)
    A = csr_array((entries.data[met].astype(np.float64), tuple(ends[:, met])), shape=(n, n))
    return (A + A.T).tocsr()


def spread_labels(
    A: Pairs, known: RowNumbers, labels: Flags | Doubles, alpha: float = 0.9, n_steps: int = 50
) -> Doubles:
    """Label spreading: F <- alpha S F + (1 - alpha) Y, S = D^-1/2 A D^-1/2, Y the labels of the known rows.

    Parameters
    ----------
    A : csr_array of shape (n, n)
        Weights of a graph without directions.
    known : ndarray of shape (p,)
        Rows whose labels are known.
    labels : ndarray of shape (p, n_labels)
        Which of them has which label.
    alpha : float
        Share of what the neighbours say.
    n_steps : int
        The rest, alpha to that power, is below a hundredth.

    Returns
    -------
    ndarray of shape (n, n_labels)
        How much each label is spread to each row, relative to how often it is known.
    """
    from scipy.sparse import diags_array

    sums: Doubles = A.sum(axis=1)
    half = diags_array(1 / np.sqrt(np.where(sums > 0, sums, 1.0)))
    S = half @ A @ half
    Y = np.zeros((A.shape[0], labels.shape[1]))
    Y[known] = labels
    F = Y
    for _ in range(n_steps):
        F = alpha * (S @ F) + (1 - alpha) * Y  # Zhou et al. 2004, section 2, step 3
    return F


ITEMS = {
    "popularity": Baseline(popularity),
    "EASE": Baseline(ease, [{"penalty": penalty} for penalty in (30, 100, 300, 1000, 3000)], DENSE),
    "ALS": Baseline(als, [{"penalty": penalty} for penalty in (10, 30, 100)]),
    "PureSVD": Baseline(pure_svd, [{"n_components": d} for d in (16, 32, 64)]),
}
PAIRS = {"Adamic-Adar": Baseline(adamic_adar), "L3": Baseline(l3)}
LINKS = {"degrees": Baseline(popularity), **PAIRS}
