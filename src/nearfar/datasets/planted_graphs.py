"""The degree-corrected stochastic block model: graphs with planted communities and uneven degrees.

``n`` nodes fall into ``q`` equal classes; node i has a propensity ``theta_i`` of mean 1, and

    P(A_ij = 1) = min(1, theta_i theta_j c_ij / n),   c_ij = c_in in one class, c_out across,   i < j,

with mean degree ``c = (c_in + (q - 1) c_out) / q``. The hardness ``alpha = (c - c_out) sqrt(mean(theta^2) / c)`` is
what the difficulty depends on: communities can be found, by whatever method, if alpha > 1.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core import checks as _checks
from nearfar._core import threads as _parallel
from nearfar._core.jit import jit
from nearfar._core.random import STEP, alias_table, splitmix, unit_of
from nearfar._core.types import Doubles, Indices, Longs, Seed
from nearfar.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nearfar.relations.matrix import Relation

_OWNER = "dcsbm"
_LIKELY = 0.5  # pairs with a larger probability are drawn one by one
_DRAWS = 1 << 18  # pairs drawn per block

THETA_LAWS: dict[str, Callable[[np.random.Generator, int], Doubles]] = {
    "uniform-power": lambda rng, n: rng.uniform(3.0, 12.0, n) ** 6,
    "negative-binomial": lambda rng, n: rng.negative_binomial(3, 0.3, n).astype(np.float64),
    "equal": lambda _, n: np.ones(n),
}


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph with planted communities, as ``dcsbm`` draws it.

    Parameters
    ----------
    edges : ndarray, shape (n_edges, 2), int32
        Each edge once, smaller node first, sorted; no self-loops.
    labels : ndarray, shape (n_nodes,), int32
        The community of each node, 0 .. q - 1.
    theta : ndarray, shape (n_nodes,), float64
        The propensity of each node; mean 1.
    c_in, c_out : float
        Affinity within and across communities.
    alpha : float
        Hardness, from the mean of theta^2 of this very graph.
    """

    edges: Indices = field(repr=False)
    labels: Indices = field(repr=False)
    theta: Doubles = field(repr=False)
    c_in: float
    c_out: float
    alpha: float

    @property
    def n_nodes(self) -> int:
        """Number of nodes, isolated ones included."""
        return int(self.labels.size)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.edges.shape[0])

    @cached_property
    def degrees(self) -> Longs:
        """Number of neighbours of each node, shape (n_nodes,)."""
        count: Longs = np.bincount(self.edges[:, 0], minlength=self.n_nodes)
        count += np.bincount(self.edges[:, 1], minlength=self.n_nodes)
        return count

    @cached_property
    def adjacency(self) -> csr_array[np.float32, tuple[int, int]]:
        """The symmetric adjacency matrix of ones: csr_array, shape (n_nodes, n_nodes), float32."""
        from scipy.sparse import csr_array

        # Edges are sorted: the smaller neighbours of each node, then the larger ones, come in rising order.
        rows, columns = np.concatenate([self.edges[:, ::-1], self.edges]).T
        return csr_array((np.ones(rows.size, np.float32), (rows, columns)), shape=(self.n_nodes, self.n_nodes))

    @cached_property
    def relation(self) -> Relation:
        """The graph as a relation; isolated nodes are kept, ids are 0 .. n_nodes - 1."""
        from nearfar.relations.matrix import Relation

        return Relation.from_matrix(self.adjacency)


def dcsbm(
    n_nodes: int = 30_000,
    n_communities: int = 4,
    mean_degree: float = 10.0,
    *,
    alpha: float | None = None,
    c_out: float | None = None,
    theta: str | ArrayLike = "uniform-power",
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> Graph:
    """Draw a graph from the degree-corrected stochastic block model.

    Every pair is an edge with its exact probability (see the module), independently of all others, in time and memory
    linear in nodes and edges: pairs are drawn a Poisson number of times by alias tables, then repeats are dropped and
    survivors thinned.

    Parameters
    ----------
    n_nodes : int, >= 2
        Number of nodes.
    n_communities : int, in [1, n_nodes]
        Number of communities of equal size (up to one node); which node is where is random.
    mean_degree : float, > 0
        Expected mean degree c, isolated nodes included. Slightly missed from below where a probability is cut at 1,
        and by the absent self-loops (a share of about mean(theta^2) / n_nodes).
    alpha : float, optional
        Hardness, with the mean of theta^2 taken over the thetas that were drawn. From 0 (no communities; negative
        values: fewer edges inside than across) up to sqrt(c mean(theta^2)), no edge across communities.
    c_out : float, in [0, c q / (q - 1)], optional
        Affinity across communities. Exactly one of ``alpha`` and ``c_out`` is given, none for one community.
    theta : {"uniform-power", "negative-binomial", "equal"} or array of shape (n_nodes,), >= 0
        Propensities: the sixth power of U(3, 12), the number of failures before the third success at chance 0.3, all
        the same, or given. Divided by their mean.
    random_state : int, Generator, RandomState or None
        The same seed gives the same graph, for any number of workers.
    n_jobs : int or None
        Number of workers; None means all processors.

    Returns
    -------
    Graph

    Raises
    ------
    InputError
        If an argument is out of range, or both or none of ``alpha`` and ``c_out`` are given.

    Notes
    -----
    Source: Dall'Amico & Belliardo, "Efficient distributed representations with linear-time attention scores
    normalization" (arXiv 2303.17475), section 4.1; model of Karrer & Newman 2011.

    Examples
    --------
    >>> import nearfar as nf
    >>> graph = nf.datasets.dcsbm(1000, 3, mean_degree=8, alpha=3.5, random_state=0)
    >>> graph.n_nodes, graph.edges.shape[1]
    (1000, 2)
    >>> a, b = graph.labels[graph.edges].T
    >>> bool((a == b).mean() > 0.6)
    True
    """
    n = _checks.check_integer(_OWNER, "n_nodes", n_nodes, low=2, high=2**31 - 1)
    q = _checks.check_integer(_OWNER, "n_communities", n_communities, low=1, high=n)
    c = _checks.check_real(_OWNER, "mean_degree", mean_degree, low=0, open_low=True)
    workers = _checks.check_n_jobs(_OWNER, n_jobs)
    rng = _checks.check_random_state(_OWNER, random_state)
    if isinstance(theta, str):
        weights = THETA_LAWS[_checks.check_choice(_OWNER, "theta", theta, THETA_LAWS)](rng, n)
    else:
        weights = np.array(_checks.check_numbers(_OWNER, "theta", theta, "a name or an array of numbers"), np.float64)
        if weights.shape != (n,):
            raise InputError(_OWNER, "theta", f"of shape ({n},)", f"shape {weights.shape}")
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise InputError(_OWNER, "theta", "finite and not negative", "NaN, infinity or a negative number")
    if not weights.any():
        raise InputError(_OWNER, "theta", "above 0 for at least one node", "zeros only")
    weights = weights / weights.mean()
    spread = math.sqrt(float(np.mean(weights**2)) / c)
    across = _affinity_across(alpha, c_out, q, c, spread)
    within = q * c - (q - 1) * across
    labels = rng.permutation(np.arange(n, dtype=np.int64) * q // n).astype(np.int32)
    rates = np.full((q, q), across / n)
    np.fill_diagonal(rates, within / n)
    # Each pair once, with probability min(1, theta_i theta_j rate).
    by_weight = np.argsort(-weights, kind="stable").astype(np.int32)
    members = [by_weight[labels[by_weight] == a] for a in range(q)]  # each class by falling weights
    tallest = np.array([weights[m[0]] for m in members])
    top = float((tallest[:, None] * tallest * rates).max())
    cut = min(top, _LIKELY)
    boost = -math.log1p(-cut) / cut  # so that 1 - exp(-boost p) >= p for all p <= cut
    # A Poisson number of pairs of each two classes: keys of pairs, -1 for a node with itself.
    mass = [float(weights[m].sum()) for m in members]
    tables = [(m, *alias_table(weights[m])) if total > 0 else None for m, total in zip(members, mass, strict=True)]
    blocks: list[tuple[int, int, int]] = []  # class, class, number of draws
    for a in range(q):
        for b in range(a, q):
            # Within a class a pair can be drawn in both orders, hence the half.
            mean = rates[a, b] * boost * mass[a] * mass[b] * (0.5 if a == b else 1.0)
            count = int(rng.poisson(mean))
            blocks += [(a, b, min(_DRAWS, count - done)) for done in range(0, count, _DRAWS)]
    bounds = np.append(0, np.cumsum([size for _, _, size in blocks], dtype=np.int64)).astype(np.int64)
    keys = np.empty(int(bounds[-1]), dtype=np.int64)
    seeds = _seeds(rng, len(blocks))

    def draw(block: int, start: int, stop: int) -> None:
        a, b, _ = blocks[block]
        draw_pairs(keys[start:stop], seeds[block], n, tables[a], tables[b])

    _parallel.run_blocks(draw, bounds, workers)
    keys.sort()
    first = int(np.searchsorted(keys, 0))
    keys = keys[first:]
    kept = thin_pairs(keys, _seeds(rng, 1)[0], (labels, weights, rates), boost, _LIKELY)
    keys = keys[:kept]
    if top > _LIKELY:
        likely = [
            draw_likely_pairs(_seeds(rng, 1)[0], (members[a], members[b]), a == b, weights, rates[a, b], _LIKELY)
            for a in range(q)
            for b in range(a, q)
        ]
        keys = np.sort(np.concatenate([keys, *likely]))
    edges = np.empty((keys.size, 2), dtype=np.int32)
    np.divmod(keys, n, out=(edges[:, 0], edges[:, 1]), casting="same_kind")
    for array in (edges, labels, weights):
        array.flags.writeable = False
    return Graph(edges, labels, weights, c_in=within, c_out=across, alpha=(c - across) * spread)


def _affinity_across(alpha: float | None, c_out: float | None, q: int, c: float, spread: float) -> float:
    if q == 1 and alpha is None and c_out is None:
        return c
    if (alpha is None) == (c_out is None):
        got = "both" if alpha is not None else "neither"
        raise InputError(_OWNER, "alpha", "given, or c_out, but not both", got, "Harder is nearer to alpha = 1.")
    top = c * q / (q - 1) if q > 1 else c
    if c_out is not None:
        return _checks.check_real(_OWNER, "c_out", c_out, low=0.0, high=top)
    low, high = (c - top) * spread, c * spread
    hardness = _checks.check_real(_OWNER, "alpha", alpha)
    if not low * (1 + 1e-12) <= hardness <= high * (1 + 1e-12):
        raise InputError(_OWNER, "alpha", f"in [{low:.4g}, {high:.4g}] for these degrees", hardness)
    return min(max(c - hardness / spread, 0.0), top)


def _seeds(rng: np.random.Generator, count: int) -> NDArray[np.uint64]:
    return rng.integers(0, 2**64, size=count, dtype=np.uint64)


# Compiled loops. A block of draws depends on its own seed alone, so that the graph does not depend on the threads.


@jit
def _drawn(bits, members, threshold, alias):
    """Return the node of a class that random bits stand for."""
    place = unit_of(bits) * members.size
    cell = int(place)
    return members[cell] if place - cell < threshold[cell] else members[alias[cell]]


@jit
def draw_pairs(keys, seed, n_nodes, class_a, class_b):
    """Fill ``keys`` with pairs (i of class a, j of class b), both drawn by weight, as ``min * n_nodes + max``.

    A pair of a node with itself is written as -1. Of a class: the nodes, and thresholds and aliases of its alias table.
    """
    state = seed
    for e in range(keys.size):
        i = _drawn(splitmix(state), *class_a)
        j = _drawn(splitmix(state + STEP), *class_b)
        state += STEP + STEP
        if i == j:
            keys[e] = -1
        elif i < j:
            keys[e] = np.int64(i) * n_nodes + j
        else:
            keys[e] = np.int64(j) * n_nodes + i


@jit
def thin_pairs(keys, seed, model, boost, likely):
    """Keep each distinct pair of the sorted ``keys`` with the chance that makes its probability exact; return how many.

    A pair of rate p (its wanted probability) was drawn a Poisson number of times with mean ``boost * p``, so it is
    there with probability ``1 - exp(-boost p) >= p`` and is kept with ``p / (1 - exp(-boost p))``. Pairs with
    p > ``likely`` are dropped: they are drawn one by one elsewhere. The survivors are moved to the front, in order.
    ``model`` are labels, theta and rates.
    """
    labels, theta, rates = model
    n = labels.size
    kept, last, state = 0, np.int64(-1), seed
    for e in range(keys.size):
        key = keys[e]
        if key == last:  # drawn again, or -1
            continue
        last = key
        i = key // n
        j = key - i * n
        p = theta[i] * theta[j] * rates[labels[i], labels[j]]
        u = unit_of(splitmix(state))
        state += STEP
        if p <= likely and u * -np.expm1(-boost * p) < p:
            keys[kept] = key
            kept += 1
    return kept


@jit
def draw_likely_pairs(seed, members, same, theta, rate, likely):
    """Return the keys of the pairs with p = theta_i theta_j rate > ``likely``, each taken with probability min(1, p).

    ``members`` are the nodes of two classes, ``same`` says whether these are one. Both are sorted by falling
    theta, so that the partners of a node are the first ones of the other class. About (edges /
    ``likely``) pairs are looked at, at most.
    """
    (members_a, members_b), n_nodes = members, theta.size
    capacity, found = 1024, 0
    keys = np.empty(capacity, np.int64)
    state = seed
    for a in range(members_a.size):
        i = members_a[a]
        for b in range(a + 1 if same else 0, members_b.size):
            j = members_b[b]
            p = theta[i] * theta[j] * rate
            if p <= likely:
                break
            u = unit_of(splitmix(state))
            state += STEP
            if u < p:
                if found == capacity:
                    capacity *= 2
                    grown = np.empty(capacity, np.int64)
                    for t in range(found):  # the assignment of slices would take seconds to compile
                        grown[t] = keys[t]
                    keys = grown
                keys[found] = np.int64(min(i, j)) * n_nodes + max(i, j)
                found += 1
    return keys[:found]
