"""The table of methods of docs/near-and-far.md, run: each row put together from the library's parts.

``python examples/table_of_methods.py`` prints what each row is made of here, and how many members of a karate club have
as their nearest one, by what was learned, somebody of their own side. The test gives each row to the estimator as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

import nearfar as nf
from nearfar import divergences, kernels
from nearfar.engines.plain import Plain
from nearfar.far import GaussianMixture, NoisePairs
from nearfar.maps.mds.estimator import start as mds_start
from nearfar.maps.mds.pairs import pairs_of_distances
from nearfar.maps.objective import probabilities_of_map
from nearfar.maps.per_point import LearnedObjective
from nearfar.maps.solver import MapState, Watch, start
from nearfar.methods.descent import Phase
from nearfar.methods.descent import descend as descend_map
from nearfar.methods.edrep import Drawn, Problem, Rates, Start, State, descend, onto_sphere, sphere_step, sums_of
from nearfar.methods.maps import AllPairs
from nearfar.words.model import padded
from nearfar.words.multisense import train_columns
from nearfar.words.relation_pairs import RelationWindows
from nearfar.words.skipgram import train_windows
from nearfar.words.windows import SamplingOptions
from nearfar.words.word2dm import train_windows as train_density_windows

CLUB = nx.Graph(nx.karate_club_graph().edges())
GRAPH = nf.Relation.from_edges(CLUB).random_walk(3)
DISTANCES = np.array([[nx.shortest_path_length(CLUB, i, j) for j in GRAPH.row_ids] for i in GRAPH.row_ids], float)
SIDES = np.array([nx.karate_club_graph().nodes[i]["club"] == "Officer" for i in GRAPH.row_ids])
N, D, EPOCHS = len(GRAPH.row_ids), 16, 5
OF_WINDOWS = SamplingOptions(5, "word", 5, shared_negatives=True, sample=1e-3, noise_exponent=0.75)
OF_MAPS: dict[str, Any] = {"max_iter": 100, "early_exaggeration_iter": 50, "random_state": 0, "n_jobs": 1}
OF_MDS = {"maxcor": 10, "maxiter": 20, "maxfun": 400, "ftol": 0, "gtol": 0}


class Row(NamedTuple):
    """A row of the table, as it is put together here."""

    relation: str
    representation: str
    score: str
    far: str
    divergence: str
    cell: Any


TABLE: dict[str, Row] = {}
WALKS, LOCAL, BINARY = "random walks", "noise samples, local NCE", "binary cross-entropy"


def row(method, *choices):
    """Enter a function into the table."""

    def enter(cell):
        TABLE[method] = Row(*choices, cell)
        return cell

    return enter


@row("EDRep", WALKS, "unit vector", "dot product", "mixture of Gaussians", "cross-entropy, prior")
def edrep():
    """Algorithm 1 in plain NumPy, as EDRep runs few nodes; of an undirected graph without the transposed terms."""
    P, rng = GRAPH.operator, np.random.default_rng(0)
    problem = Problem(P, False, P.row_sums, np.full(N, 1 / N), N, "forward", 1.0, sphere_step)
    place, start = Plain(), Start(onto_sphere, Drawn.of(N, D, rng), P.row_sums > 0)
    sides = [place.bring(start)]
    state = State(sides, sums_of(place, problem, sides), GaussianMixture(), rng)
    descend(place, problem, state, Rates("linear", 0.8, n_epochs=30, tol=0.0), lambda *_: False)
    return sides[0]


# Words: here the nodes of a graph, in windows of related ones around a centre.


def windows(rng, first):
    """Yield the windows of all epochs, and the rates of their steps, which fall from the first."""
    rng.integers(2**63)  # would say what is held out
    source = RelationWindows(GRAPH, OF_WINDOWS, 1)
    total = EPOCHS * source.blocks[-1][1]
    for epoch in range(EPOCHS):
        for (begin, end), seed in zip(source.blocks, rng.integers(2**63, size=len(source.blocks)), strict=True):
            rate = max(first * (1 - (epoch * total // EPOCHS + begin) / total), 1e-4)
            yield from ((tuple(window), np.float32(rate)) for window in source.windows(begin, end, int(seed)))


@row("SGNS (word2vec)", WALKS, "vector", "dot product", LOCAL, BINARY)
def sgns():
    """Skip-gram with negative sampling of a graph."""
    rng = np.random.default_rng(0)
    X = padded((rng.random((N, D), np.float32) - np.float32(0.5)) / np.float32(D))
    Y = np.zeros_like(X)
    for window, rate in windows(rng, 0.025):
        train_windows(window, rate, X, Y, None, np.zeros(2))
    return X[:, :D]


@row("Word2DM", WALKS, "density matrix", "trace inner product", LOCAL, BINARY)
def word2dm(n=4, m=4):
    """Train the same with tr(A_t A_c), A = B Bᵀ; a row is Bᵀ, before the trace of A is made 1."""
    rng, reach = np.random.default_rng(0), np.float32(np.sqrt(12 / (n * m)))
    B, C = (padded((rng.random((N, n * m), np.float32) - np.float32(0.5)) * reach) for _ in range(2))
    offset, ridge = np.float32(np.log(5)), np.float32(0.005)
    for window, rate in windows(rng, 0.05):
        train_density_windows(window, rate, (n, m, offset, ridge, 16, 2**14), B, C, None, np.zeros(2))
    return B[:, : n * m].reshape(N, m, n)


@row("multi-sense Word2DM", WALKS, "2 senses, density matrix", "dot product, best sense", LOCAL, BINARY)
def multi_sense_word2dm(n=8, m=2):
    """Train the same with the sense of each node that scores best, one of the rows of Bᵀ."""
    rng, width = np.random.default_rng(0), np.float32(n * m)
    senses, contexts = ((rng.random((N * m, n), np.float32) - np.float32(0.5)) / width for _ in range(2))
    none = np.empty((0, 0), np.float32)  # Adam would have moments
    moments = 2 * ((none, none, np.empty(0, np.int64), none.ravel()),)
    tables = senses, contexts, np.zeros(N * m, np.int64)
    for window, rate in windows(rng, 0.05):
        train_columns(window, rate, (m, True), tables, moments, np.zeros(2))
    return senses.reshape(N, m, n)


@row("InfoNCE, ranking NCE: global_nce, in_batch_nce", WALKS, "torch encoder", "dot product",
     "noise samples, global NCE", "cross-entropy over 6")  # fmt: skip
def ranking_nce(loss=None):
    """Losses are functions and have no estimator: any ``loss`` of scores, targets and log q is the same to rounding."""
    import torch

    loss, rng = loss or nf.nn.global_nce, torch.Generator().manual_seed(0)
    P, log_q = torch.from_numpy(GRAPH.to_scipy().toarray()).float(), torch.full((6,), 1 / N).log()
    encoder, context = (torch.nn.Parameter(torch.randn(N, D, generator=rng) / D) for _ in range(2))
    optimizer = torch.optim.Adam([encoder, context], 0.02)
    for ids in (candidates(P, rng) for _ in range(100)):
        optimizer.zero_grad()
        loss(((P @ encoder)[:, None] * context[ids]).sum(2), torch.zeros(N).long(), log_q).backward()
        optimizer.step()
    return (P @ encoder).detach().numpy()


def candidates(P, rng):
    """Return for each node one that is related to it, and five of noise."""
    import torch

    return torch.cat([torch.multinomial(P, 1, generator=rng), torch.randint(N, (N, 5), generator=rng)], 1)


# Maps: NeighborEmbedding is what puts the parts together; two below do it themselves.

EACH, ALL, FIELD = "KL, per row", "KL, over all pairs", "exact"


def embed(divergence, kernel, normalization, **more):
    """Return a map of the graph."""
    parts = {"divergence": divergence, "kernel": kernel, "normalization": normalization}
    return nf.NeighborEmbedding(**parts, **more, **OF_MAPS).fit(GRAPH).embedding_


@row("ASNE", WALKS, "point", "exponential kernel", FIELD, EACH)
def asne():
    return embed(divergences.KL(), kernels.Exponential(), "row")


@row("SSNE", WALKS, "point", "exponential kernel", FIELD, ALL)
def ssne():
    return embed(divergences.KL(), kernels.Exponential(), "pair")


@row("t-SNE", WALKS, "point", "Student's t kernel", FIELD, ALL)
def tsne():
    return embed(divergences.KL(), kernels.StudentT(), "pair")


@row("HSSNE", WALKS, "point", "heavy-tailed kernel", FIELD, ALL)
def hssne():
    return embed(divergences.KL(), kernels.HeavyTailed(0.5), "pair")


def descended(place, objective, Y, scale):
    """Return where two phases of gradient descent lead, the first with p times 12."""
    phases = Phase(50, 12.0, N / 4 / 12, 0.8, 1.0, may_stop=False), Phase(50, 1.0, N / 4, 0.9, 1.0, may_stop=False)
    state = MapState(Y)
    descend_map(place, objective, phases, Watch("table", state, scale, 0.0, 100, nf.callbacks.Trainer("table", 100)))
    return state.X


@row("inhomogeneous t-SNE", WALKS, "point", "Student's t kernel, learned per point", FIELD, EACH)
def inhomogeneous_tsne():
    """Each node's degrees of freedom are learned from iteration 50 on, between two steps of the map."""
    P = probabilities_of_map("table", GRAPH, "row")
    Y = start("table", "auto", None, P, (N, 2), np.random.default_rng(0), 1)
    options = {"together": False, "plain": True, "dtype": Y.dtype, "n_jobs": 1}
    return descended(Plain(), LearnedObjective(P.to_csr(), np.full(N, 10.0), **options), Y, 1 / N)


@row("t-ASNE", WALKS, "point", "Student's t kernel", FIELD, EACH)
def tasne():
    return embed(divergences.KL(), kernels.StudentT(), "row")


@row("ws-SNE", WALKS, "point with its degree", "Student's t kernel, weighted", FIELD, ALL)
def wssne():
    """Take the sum of a node's row and column of p as its importance."""
    blocks = probabilities_of_map("table", GRAPH, "pair")
    Y, P = start("table", "auto", None, blocks, (N, 2), np.random.default_rng(0), 1), blocks.to_csr()
    degree = P.sum(axis=0).astype(float) + P.sum(axis=1).astype(float)
    weights = degree / degree.max() / (degree / degree.max()).mean()
    parts = kernels.StudentT(), divergences.KL(), "pair"
    return descended(Plain(), AllPairs(csr_array((P + P.T) / 2), *parts, weights=weights), Y, 1.0)


@row("UMAP", WALKS, "point", "heavy-tailed kernel", "noise samples", "noise-contrastive, pair by pair")
def umap():
    """Take the heavy-tailed kernel nearest to UMAP's curve for min_dist = 0.1."""
    return embed(divergences.KL(), nf.UMAP(min_dist=0.1).kernel, "pair", far=NoisePairs(15, normalizer="umap"))


@row("NeRV", WALKS, "point", "exponential kernel", FIELD, "KL and reverse KL, per row")
def nerv():
    return embed(divergences.NeRV(0.5), kernels.Exponential(), "row")


@row("JSE", WALKS, "point", "exponential kernel", FIELD, "Jensen-Shannon, per row")
def jse():
    return embed(divergences.JensenShannon(0.5), kernels.Exponential(), "row")


@row("metric MDS, SSTRESS, Sammon", "distances", "point", "distance", "none", "stress")
def mds(stress=None):
    """L-BFGS from classical scaling, over all pairs; metric stress or another."""
    pairs, stress = pairs_of_distances("table", DISTANCES, 1), stress or divergences.MetricStress()
    Y = mds_start("classical", pairs, 2, np.random.default_rng(0))

    def cost(y):
        value, gradient = pairs.stress(y.reshape(N, 2), stress)
        return value / pairs.count, gradient.ravel() / pairs.count

    Y = minimize(cost, Y.ravel(), jac=True, method="L-BFGS-B", options=OF_MDS).x.reshape(N, 2)
    return (Y - Y.mean(axis=0)) * pairs.unit


@row("ANT, NBANT", WALKS, "sparse mixture of 6 anchors", "dot product", LOCAL, f"{BINARY}, penalty")
def ant(table=None):
    """AnchorEmbedding as the table of a skip-gram; no estimator: a ``table`` of dense T and A is the same to rounding.

    NBANT would be told the loss after each epoch, and switch anchors on or off.
    """
    import torch

    rng, P = torch.Generator().manual_seed(0), torch.from_numpy(GRAPH.to_scipy().toarray())
    table, context = table or anchors(), torch.nn.Parameter(torch.randn(N, D, generator=rng) / D)
    optimizer = nf.nn.ProxSGD([*table.parameters(), context], lr=0.5)
    for ids in (candidates(P, rng) for _ in range(100)):
        optimizer.zero_grad()
        nf.nn.local_nce((table(torch.arange(N))[:, None] * context[ids]).sum(2), torch.zeros(N).long()).backward()
        optimizer.step()
    return table.weight.detach().numpy()


def anchors():
    """Return a table of six anchors, any of which a node may use."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nf.nn.AnchorEmbedding(N, D, n_anchors=6, nnz_per_row=6, penalty=1e-3)


def own_side(found, *, points):
    """Return the share of nodes whose nearest one is of their side: by distance in a map, else by the cosine."""
    found = np.einsum("smi,smj->sij", found, found) if found.ndim == 3 else found  # A = B Bᵀ
    flat = found.reshape(N, -1).astype(float)
    flat = flat if points else flat / np.linalg.norm(flat, axis=1, keepdims=True)
    distances = np.linalg.norm(flat[:, None] - flat, axis=2)
    np.fill_diagonal(distances, np.inf)
    return (SIDES[distances.argmin(axis=1)] == SIDES).mean()


def main():
    print(*("method", *Row._fields[:-1], "nearest of own side"), sep=" | ")
    for method, (*choices, cell) in TABLE.items():
        share = own_side(cell(), points=choices[1].startswith("point"))
        print(method, *choices, f"{share:.0%}", sep=" | ")


if __name__ == "__main__":
    main()
