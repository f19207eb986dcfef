"""Communities of a graph: how many there are, who is in which, how sure that is; or that there are none.

Number. A graph's non-backtracking matrix B has, for each group that can be found at all, a real eigenvalue beyond its
bulk, a disc of radius r = sqrt(rho(B)) (Krzakala et al. 2013). There are as many as the Bethe-Hessian
(r² - 1) I - r A + D has negative eigenvalues (Saade et al. 2014), and so, by Sylvester, as eigenvalues above 1 of ::

    S = r (D + r² - 1)^(-1/2) A (D + r² - 1)^(-1/2),

a regularised adjacency matrix (Dall'Amico et al. 2021) on which Lanczos is quick, however broad the degrees. How far
chance comes is seen in graphs of the same degrees without groups, whose ends of edges are exchanged.

Who. Rows of the vectors of S are clustered by direction, into more clusters than groups, which are merged to so many:
two groups in one cluster would stay so. From there belief propagation (Decelle et al. 2011) in the degree-corrected
block model (Karrer & Newman 2011) finds the chances of each node. Groups that make the description of the graph longer,
as they may where it has more structure than groups, are merged, too.

Weights say by their ranks how much an edge counts in S, and in which of eight layers it is: a block model of several
layers (Peixoto 2015) learns what each of them tells, and a node may have heavy edges alone. So no scale of the weights
matters. Of two kinds of objects the edges that could be are those between the sides.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_integer, check_random_state
from nearfar._core.parameters import tells_options
from nearfar._core.types import Doubles, Flags, Floats, Longs, RowNumbers, Seed
from nearfar._core.warn import warn_user
from nearfar.errors import InputError, NearfarWarning
from nearfar.far.gaussian_mixture import spherical_kmeans
from nearfar.relations.matrix import Relation, as_relation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nearfar.base import RelationLike
    from nearfar.datasets import Graph

_OWNER = "communities"
_LAYERS = 8  # of edges, by the ranks of their weights
_DRAWS, _CHANCE = 4, 0.002  # graphs without groups; how seldom they may reach what is no chance
_SPREAD, _SPREADS = 0.63, 4  # Tracy-Widom's, of an eigenvalue at the edge in n^(-2/3), and what it weighs in draws
_MOST = 200  # groups that are looked for
_DENSE = 100  # nodes, up to which all eigenvalues are found
_FULL = 0.9  # share of the pairs that are edges, from which a graph is full
_EXCHANGES, _ROUNDS, _FITS = 30, 30, 3  # rounds of exchanges, of messages, of these between fits of the affinities
_TRUST, _STILL = 0.9, 1e-3  # chance of the group from which a node starts; change of the chances that ends the rounds
_STARTS, _CLUSTERS = 4, 100  # of k-means; clusters that are merged to groups, at most: it takes their fourth power
_NAMED, _DOUBTFUL = 3, 0.5  # members that name a group; margin below which one is doubtful


@dataclass(frozen=True, eq=False)
class Communities:
    """The communities of a graph, the largest first.

    Parameters
    ----------
    labels : ndarray, shape (n,), int32
        The community of each row of the relation, 0 .. ``number`` - 1; -1 without an edge.
    number : int
        How many there are; 1 where there are no groups beyond chance.
    sizes : ndarray, shape (number,), int64
        Members of each, of this side of a relation of two kinds.
    chance : ndarray, shape (n,), float64
        The chance that the label is right; 0 without an edge.
    margin : ndarray, shape (n,), float64
        The same less the chance of the next best community.
    strength : ndarray, shape (number,), float64
        Edges inside of each community, as a multiple of those that the degrees alone would give.
    p : float
        How often chance, in graphs of the same degrees without groups, would look as much like groups.
    most : int
        How many communities the spectrum tells apart. There are fewer where fewer describe the graph more shortly.
    saved : ndarray, shape (most,), float64
        Bits per edge by which 1, 2, ... communities make the description of the graph shorter than one does.
    central : list of list
        The ids of the members of each community with the most edges inside, at most three.
    doubtful : list
        The ids of those whose margin is below a half, the least sure first; none where there is one community.
    columns : Communities, optional
        The same communities on the other side of a relation of two kinds.
    """

    labels: NDArray[np.int32] = field(repr=False)
    number: int
    sizes: Longs
    chance: Doubles = field(repr=False)
    margin: Doubles = field(repr=False)
    strength: Doubles = field(repr=False)
    p: float
    most: int
    saved: Doubles = field(repr=False)
    central: list[list[Hashable]] = field(repr=False)
    doubtful: list[Hashable] = field(repr=False)
    columns: Communities | None = field(default=None, repr=False)


@tells_options
def communities(relation: RelationLike | Graph, *, number: int | None = None, random_state: Seed = None) -> Communities:
    """Find the communities of a graph: how many, who is in which, how sure that is; or that there are none.

    Parameters
    ----------
    relation : Relation, Graph, matrix, graph of networkx, igraph or PyTorch Geometric, or edges
        Who is related to whom. Directions and self-loops are ignored: an edge both ways weighs twice. A heavier edge
        counts more, by its rank. Of a relation of two kinds of objects both sides are in the same communities. One made
        of several factors is multiplied out.
    number : int, optional
        How many communities, fewer where one would be nobody's best; by default as many as are found, at most 200.
    random_state : int, Generator, RandomState or None
        For graphs without groups, and starts.

    Returns
    -------
    Communities
        O(edges k²) time and O(edges k) memory for k communities.

    Raises
    ------
    InputError
        If no two different objects are related, or fewer objects than ``number`` are.

    Warns
    -----
    NearfarWarning
        If objects of one kind look as of two.

    See Also
    --------
    nearfar.evaluate.communities : scores vectors against communities that are known.

    Notes
    -----
    A member of a small piece of the graph without edges to the others has a margin near 0: nothing tells its community.
    A block model describes any difference in who is related to whom, not only dense groups; modularity (Leiden) looks
    for these alone.

    References
    ----------
    Krzakala et al. (2013), "Spectral redemption in clustering sparse networks". Saade, Krzakala & Zdeborova (2014),
    "Spectral clustering of graphs with the Bethe Hessian". Dall'Amico, Couillet & Tremblay (2021), "A unified framework
    for spectral clustering in sparse graphs". Karrer & Newman (2011), "Stochastic blockmodels and community structure
    in networks". Decelle et al. (2011), "Asymptotic analysis of the stochastic block model for modular networks and its
    algorithmic applications". Peixoto (2015), "Inferring the mesoscale structure of layered, edge-valued and
    time-varying networks", for layers; Peixoto (2017), "Nonparametric Bayesian inference of the microcanonical
    stochastic block model", for lengths.

    Examples
    --------
    >>> import networkx as nx
    >>> import nearfar as nf
    >>> found = nf.communities(nx.planted_partition_graph(3, 50, 0.3, 0.02, seed=0), random_state=0)
    >>> found.number, found.sizes.tolist()
    (3, [50, 50, 50])
    >>> nf.communities(nx.gnp_random_graph(150, 0.1, seed=0), random_state=0).number
    1
    """
    rel = as_relation(relation, _OWNER)
    rng = check_random_state(_OWNER, random_state)
    graph = _Edges.of(rel)
    if graph.has_two_kinds:
        hint = "Relation.from_edges(edges, bipartite=True) says that there are two."
        warn_user(
            f"{_OWNER}: the nodes fall into two sides without an edge inside, but were read as of one kind. {hint}"
        )
    if number is not None:
        check_integer(_OWNER, "number", number, low=1, high=graph.n)
    most, vectors, p = _spectrum(graph, number, rng)
    labels, k, saved = _clustered(graph, vectors[:, :most], rng), most, np.zeros(1)
    while True:
        chances = _beliefs(graph, labels, k)
        labels = chances.argmax(axis=1)
        told, groups = _merged(_tallies(graph, labels, k), np.bincount(labels, minlength=k))
        saved, best = told if k == most else saved, int(told.argmax()) + 1
        if number is not None or best in (1, k):  # one: too weak for words, but not for the spectrum
            return _told(rel, graph, chances, p, saved)
        labels, k = groups[best - 1][labels], best


class _Edges(NamedTuple):
    """Edges i - j, each once, of the nodes that have one; in the order of their layers, with what each counts.

    ``rows`` are the numbers of the nodes among all rows, and behind these all columns of a relation of two kinds, of
    which the nodes begin at ``split``.
    """

    i: RowNumbers
    j: RowNumbers
    counts: Doubles
    layers: Longs
    rows: RowNumbers
    split: int

    @classmethod
    def of(cls, rel: Relation) -> Self:
        A = rel.to_scipy().astype(np.float64)
        entries = (A + A.T if rel.is_square else A).tocoo()
        i, j = (side.astype(np.int64) for side in entries.coords)
        if not rel.is_square:
            j += A.shape[0]
        kept = i < j
        i, j, weights = i[kept], j[kept], entries.data[kept]
        if not i.size:
            raise InputError(_OWNER, "relation", "of at least one edge between two objects", repr(rel))
        rows, ends = np.unique(np.concatenate([i, j]), return_inverse=True)
        _, code, ties = np.unique(weights.astype(np.float32), return_inverse=True, return_counts=True)
        middle = (np.cumsum(ties) - ties / 2) / i.size
        layers = code
        if ties.size > _LAYERS:
            layers = np.unique((middle * _LAYERS).astype(np.int64), return_inverse=True)[1][code]
        ranks = (np.bincount(layers, middle[code]) / np.bincount(layers))[layers]
        order = np.argsort(layers, kind="stable")
        ranks, (i, j) = ranks[order], ends.reshape(2, -1)[:, order]
        split = 0 if rel.is_square else int(np.searchsorted(rows, A.shape[0]))
        return cls(i, j, ranks * (ranks.sum() / (ranks**2).sum()), layers[order], rows, split)

    @property
    def n(self) -> int:
        return self.rows.size

    @property
    def has_two_kinds(self) -> bool:
        """Whether nodes of one kind fall into two sides with edges between these alone, and that by no chance."""
        from scipy.sparse import block_array
        from scipy.sparse.csgraph import connected_components

        if self.split or self.i.size <= self.n:  # trees, and little more
            return False
        A = self.matrix()  # each piece is there twice in what joins a node of one copy with those of the other
        return bool(connected_components(block_array([[None, A], [A, None]]))[0] == 2 * connected_components(A)[0])

    @property
    def sides(self) -> list[slice]:
        """The nodes of each kind; of two kinds, edges go from the first to the second."""
        return [slice(None)] if not self.split else [slice(0, self.split), slice(self.split, None)]

    def matrix(self) -> csr_array[np.float64]:
        from scipy.sparse import csr_array

        ends = np.concatenate([self.i, self.j]), np.concatenate([self.j, self.i])
        return csr_array((np.tile(self.counts, 2), ends), shape=(self.n, self.n))

    def exchanged(self, rng: np.random.Generator) -> Self:
        """Return a graph without groups, in which each node has as many edges of each layer: ends are exchanged."""
        i, j = self.i, self.j
        pairs = self.split * (self.n - self.split) if self.split else self.n * (self.n - 1) // 2
        if i.size > _FULL * pairs:  # only weights can be exchanged
            order = rng.permutation(i.size)
            return self._replace(counts=self.counts[order], layers=self.layers[order])
        if self.split:
            j = j[np.lexsort((rng.random(j.size), self.layers))]
        else:
            ends = np.stack([i, j], axis=1).ravel()
            i, j = ends[np.lexsort((rng.random(ends.size), np.repeat(self.layers, 2)))].reshape(-1, 2).T.copy()
        bad = self._unfit(i, j)
        for _ in range(_EXCHANGES):  # their ends, among those of as many others
            chosen = np.flatnonzero(bad | (rng.random(bad.size) < 2 * bad.mean()))
            j[chosen] = j[chosen[np.lexsort((rng.random(chosen.size), self.layers[chosen]))]]
            bad = self._unfit(i, j)
            if not bad.any():
                break
        kept = i != j
        return self._replace(i=i[kept], j=j[kept], counts=self.counts[kept], layers=self.layers[kept])

    def _unfit(self, i: RowNumbers, j: RowNumbers) -> Flags:
        """Return which edges are loops, or there already."""
        pairs = np.minimum(i, j) * self.n + np.maximum(i, j)
        order = np.argsort(pairs, kind="stable")
        unfit: Flags = i == j
        unfit[order[1:]] |= np.diff(pairs[order]) == 0
        return unfit


# -- how many ----------------------------------------------------------------------------------------------------------


def _spectrum(graph: _Edges, number: int | None, rng: np.random.Generator) -> tuple[int, Floats, float]:
    """Return how many communities there are, vectors of S for at least so many, and p."""
    from scipy.special import stdtr, stdtrit

    drawn = np.array([_leading(_regularised(graph.exchanged(rng)), 2, rng)[0][1] for _ in range(_DRAWS)])
    # An eigenvalue by chance is a normal number; its spread is known from theory, as well as from so many draws.
    theory = (_SPREAD * graph.n ** (-2 / 3)) ** 2
    df = _SPREADS + _DRAWS - 1
    spread = np.sqrt((_SPREADS * theory + (_DRAWS - 1) * drawn.var(ddof=1)) / df * (1 + 1 / _DRAWS))
    S, k = _regularised(graph), min(8, graph.n) if number is None else max(number, 2)
    while True:
        values, vectors = _leading(S, k, rng)
        found = int((values > drawn.mean() + spread * stdtrit(df, 1 - _CHANCE)).sum())
        if number is not None or found < k or k == min(graph.n, _MOST):
            break
        k = min(3 * k, graph.n, _MOST)
    p = float(stdtr(df, (drawn.mean() - values[1]) / spread))
    return max(found, 1) if number is None else number, vectors, p


def _regularised(graph: _Edges) -> csr_array[np.float64]:
    """Return S; rho(B) is that of the matrix [[A, 1 - D], [1, 0]] of Ihara and Bass."""
    from scipy.sparse.linalg import LinearOperator, eigs

    A, n = graph.matrix(), graph.n
    degrees: Doubles = A.sum(axis=0)

    def times(v: Doubles) -> Doubles:
        return np.concatenate([A @ v[:n] + (1 - degrees) * v[n:], v[:n]])

    radius = 1.0  # of trees and single cycles
    if degrees.sum() > 2 * n:
        whole = LinearOperator((2 * n, 2 * n), times, dtype=np.float64)
        start = np.concatenate([degrees, degrees]) + 1e-3
        radius = max(eigs(whole, 1, which="LR", v0=start, tol=1e-3, return_eigenvectors=False).real[0], 1.0)
    scale = np.sqrt(np.sqrt(radius) / (degrees + radius - 1 + 1e-9))
    A.data *= scale[A.indices] * np.repeat(scale, np.diff(A.indptr))
    return A


def _leading(S: csr_array[np.float64], k: int, rng: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Return the k largest eigenvalues, the largest first, and their vectors as columns."""
    from scipy.sparse.linalg import eigsh

    n = S.shape[0]
    if n <= _DENSE or 2 * k > n:
        values, vectors = np.linalg.eigh(S.toarray())
        values, vectors = values[-k:], vectors[:, -k:]
    else:
        values, vectors = eigsh(S, k, which="LA", v0=rng.normal(size=n), tol=1e-3, ncv=min(n, max(2 * k + 1, 30)))
    return values[::-1], vectors[:, ::-1]


# -- who ---------------------------------------------------------------------------------------------------------------


def _clustered(graph: _Edges, vectors: Floats, rng: np.random.Generator) -> Longs:
    """Return as many groups as there are vectors: clusters of the directions of their rows, merged."""
    k = vectors.shape[1]
    many = min(max(k, min(2 * k, _CLUSTERS)), graph.n) if k > 2 else k
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)  # so many need not be there
        found = spherical_kmeans(vectors, many, rng=rng, n_init=_STARTS).labels
    labels = np.unique(found, return_inverse=True)[1]  # rows of zeros have no direction: they are one more
    there = int(labels.max()) + 1
    if there <= k:
        return labels
    return _merged(_tallies(graph, labels, there), np.bincount(labels), k)[1][k - 1][labels]


def _beliefs(graph: _Edges, labels: Longs, k: int) -> Floats:
    """Return the chances of each node, shape (n, k): belief propagation from these labels.

    The rate of edges of layer l between nodes of groups a and b is theta_il theta_jl affinity_lab, where theta are
    degrees; affinities and the shares of the groups are fitted as it goes (EM).
    """
    order = np.lexsort((np.concatenate([graph.j, graph.i]), np.concatenate([graph.i, graph.j])))
    source = np.concatenate([graph.i, graph.j])[order]
    back = np.argsort(order)[(order + graph.i.size) % order.size]  # of the message i -> j, where j -> i stands
    layers = np.tile(graph.layers, 2)[order]
    of_layer = [np.flatnonzero(layers == layer) for layer in range(layers.max() + 1)]
    theta = np.stack([np.bincount(source[of], minlength=graph.n) for of in of_layer]).astype(np.float32)
    first = np.searchsorted(source, np.arange(graph.n))
    node = np.full((graph.n, k), (1 - _TRUST) / k, np.float32)
    node[np.arange(graph.n), labels] += _TRUST
    message, affinity = node[source], np.ones((len(of_layer), k, k), np.float32)
    for step in range(_ROUNDS if k > 1 else 0):
        other = message[back]
        sums = np.stack([theta[:, side] @ node[side] for side in graph.sides]).astype(np.float64)
        if step % _FITS == 0:
            shares = node.mean(axis=0)
            chance = np.einsum("sla,slb->lab", sums, sums[::-1])
            rate = theta.sum(axis=1) / chance.sum(axis=(1, 2))
            for layer, of in enumerate(of_layer):
                joint = (message[of] @ affinity[layer]) * other[of]
                edges = (message[of] / (joint.sum(axis=1, keepdims=True) + 1e-30)).T @ other[of] * affinity[layer]
                expected = rate[layer] * chance[layer] + 1 / k  # a prior of one edge: little is told by few
                affinity[layer] = ((edges + edges.T) / 2 + 1 / k) / expected
        for layer, of in enumerate(of_layer):
            other[of] = other[of] @ affinity[layer]
        inward = np.log(other + 1e-30, out=other)
        whole = np.add.reduceat(inward, first, axis=0) + np.log(shares + 1e-12)
        fields = np.einsum("l,lab,slb->sla", rate, affinity, sums[::-1]).astype(np.float32)
        for side, outside in zip(graph.sides, fields, strict=True):
            whole[side] -= theta[:, side].T @ outside
        message = _softmax(whole[source] - inward)
        before, node = node, _softmax(whole)
        if np.abs(node - before).mean() < _STILL:
            break
    return node


def _softmax(logs: Floats) -> Floats:
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    logs /= logs.sum(axis=1, keepdims=True)
    return logs


# -- how many are worth to be told -------------------------------------------------------------------------------------


def _tallies(graph: _Edges, labels: Longs, k: int) -> Doubles:
    """Return the ends of edges of each layer in group a whose other end is in b, shape (layers, k, k)."""
    cells = (graph.layers * k + labels[graph.i]) * k + labels[graph.j]
    counts = np.bincount(cells, minlength=(int(graph.layers.max()) + 1) * k * k).reshape(-1, k, k)
    return (counts + counts.transpose(0, 2, 1)).astype(np.float64)


def _merged(tallies: Doubles, sizes: Longs, least: int = 1) -> tuple[Doubles, list[Longs]]:
    """Return the bits per edge that 1, 2, ... communities save, and in which of so many each of these is.

    Those two are merged, again and again, whose merging costs the likelihood least, until ``least`` are left.
    """
    from scipy.special import xlogy

    k = sizes.size
    groups, lengths = [np.arange(k)] * k, np.empty(k)
    for left in range(k, 0, -1):
        lengths[left - 1] = _length(tallies, sizes)
        if left == least:
            break
        group = groups[left - 1]
        cost, ends = np.zeros((left, left)), tallies.sum(axis=2)
        for E, s in zip(tallies, ends, strict=True):
            own, apart = np.diag(E), xlogy(E, E)
            together = np.stack([xlogy(E + row, E + row).sum(axis=1) for row in E])
            with_a = xlogy(E + own[:, None], E + own[:, None])  # what the two make of a, and of b
            inside = own[:, None] + own + 2 * E
            pairs = together - with_a - with_a.T + xlogy(inside, inside) / 2
            alone = apart.sum(axis=1) - np.diag(apart) / 2 - xlogy(s, s)
            cost += alone[:, None] + alone - apart - pairs + xlogy(s[:, None] + s, s[:, None] + s)
        a, b = sorted(np.unravel_index((cost + np.diag(np.full(left, np.inf))).argmin(), cost.shape))
        into = np.delete(np.arange(left), b)
        tallies = tallies.copy()
        tallies[:, a] += tallies[:, b]
        tallies[:, :, a] += tallies[:, :, b]
        tallies, sizes = tallies[:, into][:, :, into], (sizes + sizes[b] * (np.arange(left) == a))[into]
        groups[left - 2] = np.where(group == b, a, group - (group > b))
    return (lengths[least - 1] - lengths) / (tallies.sum() / 2 * np.log(2)), groups


def _length(tallies: Doubles, sizes: Longs) -> float:
    """Return the description length of a graph and its groups, nats, but for what does not depend on the groups.

    First which groups have edges, within and to each other, then how many, then which nodes are in which.
    """
    from scipy.special import gammaln, xlogy

    k, n, ends = sizes.size, sizes.sum(), tallies.sum(axis=2)
    edges = tallies.sum(axis=(1, 2)) / 2
    likelihood = xlogy(tallies, tallies).sum() / 2 - xlogy(ends, ends).sum()
    own = np.count_nonzero(np.diagonal(tallies, axis1=1, axis2=2), axis=1)
    others = (np.count_nonzero(tallies, axis=(1, 2)) - own) // 2
    cells = _ways(k, own) + _ways(k * (k - 1) / 2, others) + _ways(edges - 1, own + others - 1)
    groups = _ways(n - 1, k - 1) + gammaln(n + 1) - gammaln(sizes + 1).sum()
    return float(cells.sum() + groups - likelihood)


def _ways(n: ArrayLike, k: ArrayLike) -> Doubles:
    """Return the logarithm of the number of ways to choose k of n."""
    from scipy.special import gammaln

    n, k = np.asarray(n, np.float64), np.asarray(k, np.float64)
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


# -- what is told ------------------------------------------------------------------------------------------------------


def _told(rel: Relation, graph: _Edges, chances: Floats, p: float, saved: Doubles) -> Communities:
    """Return the answer from the chances of the nodes; a community that is nobody's best is none."""
    best, ordered = chances.argmax(axis=1), np.sort(chances, axis=1).astype(np.float64)
    held = np.bincount(best)
    k, labels = int(np.count_nonzero(held)), np.argsort(np.argsort(-held, kind="stable"))[best]  # the largest first
    margin = ordered[:, -1] - (ordered[:, -2] if ordered.shape[1] > 1 else 0)
    edges, ends = _tallies(graph, labels, k).sum(axis=0), np.concatenate([graph.i, graph.j])
    sums = np.stack([np.bincount(labels[side], np.bincount(ends)[side], k) for side in graph.sides])
    by_degrees = (sums * sums[::-1]).sum(axis=0) * edges.sum() / (sums.sum(axis=1) * sums[::-1].sum(axis=1)).sum()
    strength = np.diag(edges) / np.maximum(by_degrees, 1e-9)
    inside = np.bincount(ends, np.tile(labels[graph.i] == labels[graph.j], 2))
    told: list[Communities] = []
    for side, ids in zip(graph.sides, (rel.row_ids, rel.column_ids), strict=False):
        of, rows = labels[side], graph.rows[side] - len(told) * rel.shape[0]
        codes, sure = np.full(len(ids), -1, np.int32), np.zeros((2, len(ids)))
        codes[rows], sure[:, rows] = of, [ordered[side, -1], margin[side]]
        most_first = np.argsort(-inside[side], kind="stable")
        central = [[ids[int(row)] for row in rows[most_first[of[most_first] == a][:_NAMED]]] for a in range(k)]
        sizes = np.bincount(of, minlength=k)
        unsure = rows[np.argsort(margin[side], kind="stable")][: np.count_nonzero(margin[side] < _DOUBTFUL)]
        doubtful = [ids[int(row)] for row in unsure] if k > 1 else []
        told.append(Communities(codes, k, sizes, sure[0], sure[1], strength, p, saved.size, saved, central, doubtful))
    return replace(told[0], columns=told[1]) if graph.split else told[0]
