"""Communities of a graph: how many there are, who is in which, how sure that is; or that there are none.

Number. A graph's non-backtracking matrix B has, for each group that can be found at all, a real eigenvalue beyond its
bulk, a disc of radius r = sqrt(rho(B)) (Krzakala et al. 2013). There are as many as the Bethe-Hessian
(r² - 1) I - r A + D has negative eigenvalues (Saade et al. 2014), and so, by Sylvester, as eigenvalues above 1 of ::

    S = r (D + r² - 1)^(-1/2) A (D + r² - 1)^(-1/2),

a regularised adjacency matrix (Dall'Amico et al. 2021) on which Lanczos is quick, however broad the degrees. How far
chance comes is seen in graphs of the same degrees without groups, whose ends of edges are exchanged.

Who. Rows of the vectors of S are clustered by direction, into more clusters than groups, which are merged to so many:
two groups in one cluster would stay so. From there belief propagation (Decelle et al. 2011) finds the chances of each
node in the degree-corrected block model (Karrer & Newman 2011) of groups that are dense inside: each has a rate of its
own, and there is one between all (Zhang & Peixoto 2020). With a rate for each pair of groups it would as well tell hubs
from others, and take as many times longer as there are groups. Groups that make the description of the graph longer, as
they may where it has more structure than groups, are merged, too, and fewer are tried from the start.

Pieces. No eigenvalue tells of small pieces of the graph without edges to the others. They are communities of their own
if the graph has more of them than those without groups.

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
_EXCHANGES, _ROUNDS = 15, 10  # rounds of exchanges, of messages
_TRUST, _STILL = 0.9, 5e-3  # chance of the group from which a node starts; change of the chances that ends the rounds
_PART, _PARTS = 120_000, 20  # numbers that are sent at a time, as a cache holds; times, at least, in which all are sent
_STARTS, _PASSES, _CLUSTERS = 6, 5, 100  # of k-means; clusters that are merged: it takes their fourth power
_TABLE = 1 << 22  # numbers whose x log x is looked up
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
        How many communities the spectrum tells apart. There are fewer where fewer describe the graph more shortly, and
        more where small pieces of the graph are communities of their own.
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
        O(edges k) time and memory for k communities that the spectrum tells apart.

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
    Communities are groups of more edges inside than their degrees alone would give, as for modularity (Leiden), but as
    many as the graph tells from chance. A member of a small piece of the graph without edges to the others has a margin
    near 0 where chance gives as many pieces: nothing tells its community. Where there are more, each piece has its own.

    References
    ----------
    Krzakala et al. (2013), "Spectral redemption in clustering sparse networks". Saade, Krzakala & Zdeborova (2014),
    "Spectral clustering of graphs with the Bethe Hessian". Dall'Amico, Couillet & Tremblay (2021), "A unified framework
    for spectral clustering in sparse graphs". Karrer & Newman (2011), "Stochastic blockmodels and community structure
    in networks". Decelle et al. (2011), "Asymptotic analysis of the stochastic block model for modular networks and its
    algorithmic applications". Zhang & Peixoto (2020), "Statistical inference of assortative community structures".
    Peixoto (2015), "Inferring the mesoscale structure of layered, edge-valued and time-varying networks", for layers;
    Peixoto (2017), "Nonparametric Bayesian inference of the microcanonical stochastic block model", for lengths.

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
        warn_user(f"{_OWNER}: nodes read as of one kind fall into two sides without an edge inside. {hint}")
    if number is not None:
        check_integer(_OWNER, "number", number, low=1, high=graph.n)
    most, vectors, p, apart = _spectrum(graph, number, rng)
    k, labels, saved, gained = most, _clustered(graph, vectors[:, :most], rng), np.zeros(1), -np.inf
    chances, anew = np.ones((graph.n, 1), np.float32), True
    while k > 1:  # with fewer and fewer, as long as these describe the graph more shortly
        found = _beliefs(graph, labels, k)
        labels = found.argmax(axis=1)
        told, groups = _merged(_tallies(graph, labels, k), np.bincount(labels, minlength=k))
        saved, best = told if k == most else saved, int(told.argmax()) + 1
        if better := told[k - 1] > gained:
            gained, chances = told[k - 1], found
        if number is not None or best == 1 or (anew and not better):  # one: too weak for words, not for the spectrum
            break
        anew = best == k or not better
        k = 2 * k // 3 if anew else best
        labels = _clustered(graph, vectors[:, :k], rng) if anew else groups[k - 1][labels]
    return _told(rel, graph, chances, p, saved, apart)


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

    @property
    def pieces(self) -> NDArray[np.int32]:
        """The connected component of each node."""
        from scipy.sparse.csgraph import connected_components

        return np.asarray(connected_components(self.matrix())[1])

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
        order = np.argsort(pairs)
        unfit: Flags = i == j
        unfit[order[1:]] |= np.diff(pairs[order]) == 0
        return unfit


# -- how many ----------------------------------------------------------------------------------------------------------


def _spectrum(graph: _Edges, number: int | None, rng: np.random.Generator) -> tuple[int, Floats, float, bool]:
    """Return how many communities there are, vectors of S for at least so many, p, and if pieces are communities."""
    from scipy.special import bdtrc, stdtr, stdtrit

    by_chance = [graph.exchanged(rng) for _ in range(_DRAWS)]
    drawn = np.array([_leading(_regularised(one), 2, rng)[0][1] for one in by_chance])
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
    # How many pieces there are beside the first is a Poisson number: given all, those of one graph are binomial.
    here, *others = (np.unique(one.pieces[one.i]).size - 1 for one in (graph, *by_chance))
    apart = number is None and here > 0 and bdtrc(here - 1, here + sum(others), 1 / (1 + _DRAWS)) < _CHANCE
    return number or max(found, 1), vectors, p, bool(apart)


def _regularised(graph: _Edges) -> csr_array[np.float32]:
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
    return A.astype(np.float32)


def _leading(S: csr_array[np.float32], k: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the k largest eigenvalues, the largest first, and their vectors as columns."""
    from scipy.sparse.linalg import eigsh

    n = S.shape[0]
    if n <= _DENSE or 2 * k > n:
        values, vectors = np.linalg.eigh(S.toarray())
    else:
        values, vectors = eigsh(S, k, which="LA", v0=rng.normal(size=n), tol=1e-3, ncv=min(n, max(2 * k + 1, 30)))
    return values[::-1][:k], vectors[:, ::-1][:, :k]


# -- who ---------------------------------------------------------------------------------------------------------------


def _clustered(graph: _Edges, vectors: Floats, rng: np.random.Generator) -> Longs:
    """Return as many groups as there are vectors: clusters of the directions of their rows, merged.

    Of several starts that counts which describes the graph most shortly: the cosines do not tell of a small group.
    """
    k, best, shortest = vectors.shape[1], np.zeros(graph.n, np.int64), np.inf
    many = min(max(k, min(2 * k, _CLUSTERS)), graph.n) if k > 2 else k
    for _ in range(_STARTS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearfarWarning)  # so many need not be there
            found = spherical_kmeans(vectors, many, rng=rng, n_init=1, max_iter=_PASSES).labels
        labels = np.unique(found, return_inverse=True)[1]  # rows of zeros have no direction: they are one more
        if (there := int(labels.max()) + 1) > k:
            labels = _merged(_tallies(graph, labels, there), np.bincount(labels), k)[1][k - 1][labels]
        if (length := _length(_tallies(graph, labels, k), np.bincount(labels, minlength=k))) < shortest:
            best, shortest = labels, length
    return best


def _beliefs(graph: _Edges, labels: Longs, k: int) -> Floats:
    """Return the chances of each node, shape (n, k): belief propagation from these labels.

    The rate of edges of layer l between nodes i and j is theta_il theta_jl inside_la if both are in group a, else
    theta_il theta_jl outside_l, where theta are degrees; rates and the shares of the groups are fitted as it goes (EM).
    Some nodes send their messages at a time, and the next hear of these already: all at once would swing to and fro.
    """
    from scipy.sparse import csr_array

    order = np.argsort(np.concatenate([graph.i * graph.n + graph.j, graph.j * graph.n + graph.i]))
    source = np.concatenate([graph.i, graph.j])[order]
    back = np.argsort(order)[(order + graph.i.size) % order.size]  # of the message i -> j, where j -> i stands
    layers = np.tile(graph.layers, 2)[order]
    ends, first = np.bincount(layers), np.searchsorted(source, np.arange(graph.n + 1))
    of_layer = (layers == np.arange(ends.size)[:, None]).astype(np.float32)
    heard = csr_array((np.ones(source.size, np.float32), np.arange(source.size), first))  # messages of each node
    theta = heard @ of_layer.T
    node = np.full((graph.n, k), (1 - _TRUST) / k, np.float32)
    node[np.arange(graph.n), labels] += _TRUST
    message, inside = node[source], _TRUST * np.diagonal(_tallies(graph, labels, k), axis1=1, axis2=2)
    step = max(min(_PART // k, source.size // _PARTS), 1)
    cuts = np.union1d([0, graph.split, graph.n], np.searchsorted(first, np.arange(step, source.size, step)))
    parts = [(a, b, heard[a:b, first[a] : first[b]]) for a, b in np.stack([cuts[:-1], cuts[1:]], axis=1).tolist()]
    room, ones = np.empty((2, np.diff(first[cuts]).max(), k), np.float32), np.ones(k, np.float32)
    for _ in range(_ROUNDS):
        sums = np.stack([theta[side].T @ node[side] for side in graph.sides]).astype(np.float64)
        shares = np.log(node.mean(axis=0) + 1e-12)
        chance, both = (sums * sums[::-1]).sum(axis=0), (sums.sum(axis=2) * sums[::-1].sum(axis=2)).sum(axis=0)
        rate = (ends / both)[:, None]
        within = (inside + 1 / k) / (rate * chance + 1 / k)  # a prior of one edge: little is told by few
        across = (ends - inside.sum(axis=1) + 1)[:, None] / (rate * (both - chance.sum(axis=1))[:, None] + 1)
        excess, pull = (within / across - 1).astype(np.float32).clip(-0.999), rate * (within - across)
        before, inside = node.copy(), np.zeros(inside.shape)
        for start, stop, whose in parts:
            edges, side = slice(first[start], first[stop]), int(0 < graph.split <= start)
            came, gain = room[:, : edges.stop - edges.start]
            np.take(message, back[edges], axis=0, out=came, mode="clip")
            np.take(excess, layers[edges], axis=0, out=gain, mode="clip")
            gain *= came
            gain += 1
            whole = whose @ np.log(gain, out=message[edges])
            whole += shares - theta[start:stop] @ (pull * sums[::-1][side]).astype(np.float32)
            whole = np.maximum(np.exp(whole - whole.max(axis=1, keepdims=True)), 1e-12)  # smaller numbers are slow
            whole /= (whole @ ones)[:, None]
            sums[side] += theta[start:stop].T @ (whole - node[start:stop])
            node[start:stop] = whole
            out = np.take(whole, source[edges] - start, axis=0, out=message[edges], mode="clip")
            out /= gain
            out *= (1 / (out @ ones))[:, None]
            came *= out
            gain *= out
            inside += (of_layer[:, edges] / (gain @ ones)) @ came
        inside *= 1 + excess
        if np.abs(node - before).sum() < 2 * _STILL * graph.n:
            break
    return node


# -- how many are worth to be told -------------------------------------------------------------------------------------


def _tallies(graph: _Edges, labels: Longs, k: int) -> Longs:
    """Return the ends of edges of each layer in group a whose other end is in b, shape (layers, k, k)."""
    cells = (graph.layers * k + labels[graph.i]) * k + labels[graph.j]
    counts = np.bincount(cells, minlength=(int(graph.layers.max()) + 1) * k * k).reshape(-1, k, k)
    return counts + counts.transpose(0, 2, 1)


def _merged(tallies: Longs, sizes: Longs, least: int = 1) -> tuple[Doubles, list[Longs]]:
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
        cost, ends = np.zeros((left, left)), tallies.sum(axis=2)
        for E, s in zip(tallies, ends, strict=True):
            table, own = np.arange(min(2 * E.max() + 1, _TABLE)), np.diag(E)
            looked_up = xlogy(table, table).__getitem__
            x_log_x = looked_up if 2 * E.max() < _TABLE else lambda counts: xlogy(counts, counts)
            together = np.stack([x_log_x(E + row).sum(axis=1) for row in E])
            apart, with_a = x_log_x(E), x_log_x(E + own[:, None])  # what the two make of a, and of b
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
        groups[left - 2] = np.where(groups[left - 1] == b, a, groups[left - 1] - (groups[left - 1] > b))
    return (lengths[least - 1] - lengths) / (tallies.sum() / 2 * np.log(2)), groups


def _length(tallies: Longs, sizes: Longs) -> float:
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


def _told(rel: Relation, graph: _Edges, chances: Floats, p: float, saved: Doubles, apart: bool) -> Communities:
    """Return the answer from the chances of the nodes; a community that is nobody's best is none."""
    best, ordered = chances.argmax(axis=1), np.sort(chances, axis=1).astype(np.float64)
    if apart:  # a community is in one piece; a piece of one community is it for sure
        of, best = np.unique(np.stack([graph.pieces, best]), axis=1, return_inverse=True)
        ordered[np.bincount(of[0])[of[0][best]] == 1] = np.arange(ordered.shape[1]) == ordered.shape[1] - 1
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
