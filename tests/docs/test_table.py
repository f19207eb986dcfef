"""The table of methods, executed: every sensible cell runs on small data and does what it is for.

A row names the method and its choices; a cell that makes no sense is listed in ``NO_SENSE`` with its reason. A new
family of methods is finished when its rows stand here.
"""

import itertools

import networkx as nx
import numpy as np
import pytest
from descent import descend
from quick import often
from sklearn.datasets import load_iris
from sklearn.neighbors import kneighbors_graph

import nearfar as nf
from nearfar.errors import InputError


def graph():
    """Zachary's karate club, undirected and unweighted."""
    return nf.Relation.from_edges(nx.Graph(nx.karate_club_graph().edges())).random_walk(3), karate_labels()


def karate_labels():
    club = nx.karate_club_graph()
    rel = nf.Relation.from_edges(nx.Graph(club.edges()))
    return np.array([club.nodes[i]["club"] == "Officer" for i in rel.row_ids], dtype=int)


def digraph():
    """Two directed rings joined by one edge, with a sink."""
    edges = [(k, (k + s) % 10) for k in range(10) for s in (1, 2)]
    edges += [(10 + u, 10 + v) for u, v in edges] + [(0, 10), (3, 20)]
    rel = nf.Relation.from_edges(edges, directed=True)
    return rel.normalized(), np.array([i >= 10 and i != 20 for i in rel.row_ids], dtype=int)


def neighbors_of_points():
    """Calibrated neighbours are another family's; plain nearest neighbours of iris."""
    X, y = load_iris(return_X_y=True)
    A = kneighbors_graph(X, 8)
    return nf.Relation.from_matrix(A.maximum(A.T)).random_walk(2), (y > 0).astype(int)


def ratings():
    """Two groups of users that like two groups of items: a rectangular relation."""
    edges = [(f"u{u}", f"i{i}", 5 if u % 2 == i % 2 else 0.2) for u in range(12) for i in range(16)]
    rel = nf.Relation.from_edges(edges, bipartite=True)
    return rel.normalized(), np.array([int(u[1:]) % 2 for u in rel.row_ids])


def text():
    """Words that occur side by side, from two topics that share the word "the"."""
    topics = [["cat", "dog", "fur", "paw", "tail", "vet"], ["wing", "jet", "pilot", "gate", "fuel", "sky"]]
    rng = np.random.default_rng(0)
    words = [w for k in range(300) for w in (*rng.permutation(topics[k % 2])[:4], "the")]
    rel = nf.Relation.from_edges(itertools.pairwise(words))
    return rel.normalized(), np.array([w in topics[1] for w in rel.row_ids], dtype=int)


RELATIONS = {f.__name__: f for f in (graph, digraph, text, ratings, neighbors_of_points)}
FAR = ("exact", "gaussian-mixture", "noise")
GRADIENTS = ("auto", "paper", "forward", "full")
NO_SENSE = {("relation", "ratings", "variant", "clusters"): "noise stands beside the things around, of another kind"}


def cells(relations, *choices, pairwise=False):
    """All cells of a method as parameters; those off a diagonal are slow.

    On the diagonal every combination of the choices stands once; with ``pairwise`` every combination of two choices,
    where the last one is of two values.
    """
    names, combinations = list(relations), list(itertools.product(*choices))
    quick = combinations
    if pairwise:
        quick = [c for c in combinations if sum(o.index(v) for o, v in zip(choices, c, strict=True)) % 2 == 0]
    diagonal = {(names[k % len(names)], chosen) for k, chosen in enumerate(quick)}
    return [
        pytest.param(name, *chosen, marks=[] if (name, chosen) in diagonal else [pytest.mark.slow])
        for name, chosen in itertools.product(names, combinations)
    ]


@pytest.mark.parametrize(("relation", "far", "gradient"), cells(RELATIONS, FAR, GRADIENTS))
def test_edrep(relation, far, gradient):
    rel, labels = RELATIONS[relation]()
    # See the notes of EDRep: two free sides and the exact gradient need the loss without its prior.
    p0 = 0 if gradient == "full" and not rel.is_square else None
    est = nf.EDRep(8, far=far, gradient=gradient, p0=p0, n_epochs=15, random_state=0)
    if ("far", far, "gradient", gradient) in NO_SENSE:
        with pytest.raises(InputError, match="far must be"):
            est.fit(rel)
        return
    est.fit(rel)
    assert np.isfinite(est.embedding_).all()
    assert est.loss_curve_[-1] < est.loss_curve_[0]
    # Related objects end up closer than unrelated ones.
    S = est.embedding_ @ (est.embedding_ if rel.is_square else est.context_embedding_).T
    P = rel.to_scipy().toarray()
    near = (P * S).sum() / P.sum()
    assert near > S.mean() + 0.1
    same = labels[:, None] == labels[None, :]
    own = est.embedding_ @ est.embedding_.T
    assert own[same].mean() > own[~same].mean() + 0.1


@pytest.mark.parametrize(("relation", "optimizer", "shared"), cells(RELATIONS, ["sgd", "adam"], [True, False]))
def test_skip_gram(relation, optimizer, shared):
    rel, labels = RELATIONS[relation]()
    est = nf.SkipGram(8, optimizer=optimizer, shared_negatives=shared, n_epochs=12, random_state=0, n_jobs=1).fit(rel)
    assert est.loss_curve_[-1] < est.loss_curve_[0]
    S = est.embedding_ @ est.context_embedding_.T
    P = rel.to_scipy().toarray()
    assert (P * S).sum() / P.sum() > S.mean() + 0.1
    same = labels[:, None] == labels[None, :]
    own = est.embedding_ @ est.embedding_.T
    assert own[same].mean() > own[~same].mean() + 0.1


@pytest.mark.parametrize(
    ("relation", "optimizer"), often(itertools.product(RELATIONS, ["sgd", "adam"]), [("graph", "sgd")])
)
def test_word2dm(relation, optimizer):
    rel, labels = RELATIONS[relation]()
    rates = {"learning_rate": 0.05 if optimizer == "sgd" else 0.01}
    est = nf.Word2DM(6, 3, optimizer=optimizer, **rates, n_epochs=6, random_state=0, n_jobs=1).fit(rel)
    assert est.loss_curve_[-1] < est.loss_curve_[0]
    # Related objects have density matrices that overlap.
    same = labels[:, None] == labels[None, :]
    own = est.embedding_ @ est.embedding_.T
    assert own[same].mean() > own[~same].mean() + 0.1


@pytest.mark.parametrize(
    ("relation", "optimizer", "variant"), cells(RELATIONS, ["sgd", "adam"], ["clusters", "columns"])
)
def test_multi_sense_word2dm(relation, optimizer, variant):
    rel, labels = RELATIONS[relation]()
    rates = {} if optimizer == "sgd" else {"learning_rate": 0.01}
    est = nf.MultiSenseWord2DM(
        6, n_senses=2, variant=variant, optimizer=optimizer, **rates, n_epochs=10, random_state=0, n_jobs=1
    )
    if ("relation", relation, "variant", variant) in NO_SENSE:
        with pytest.raises(InputError, match="a relation of one kind of objects"):
            est.fit(rel)
        return
    est.fit(rel)
    assert est.loss_curve_[-1] < est.loss_curve_[0]
    # Related objects have density matrices that overlap.
    same = labels[:, None] == labels[None, :]
    own = est.embedding_ @ est.embedding_.T
    assert own[same].mean() > own[~same].mean() + 0.03


# Loss and noise; the batch is the noise of the last.
NCE = [
    *(f"global {noise}" for noise in ("uniform", "unigram", "in-batch", "adaptive")),
    *(f"local {noise}" for noise in ("uniform", "unigram", "in-batch")),
    "sampled-softmax unigram",
    "hinge uniform",
    "in-batch in-batch",
]
QUICK_NCE = {"global adaptive", "local in-batch", "sampled-softmax unigram"}


def nce_noise(kind, popularity, context):
    from nearfar import nn

    return {
        "uniform": lambda: nn.UniformNoise(popularity.size),
        "unigram": lambda: nn.UnigramNoise(popularity),
        "in-batch": lambda: nn.InBatchNoise(popularity.size, popularity),
        "adaptive": lambda: nn.AdaptiveNoise(lambda X: X @ context.weight.T),
    }[kind]()


def nce_loss(loss, X, context, ids, log_q):
    """The loss of vectors (b, d) and candidates (b, 1 + m), the true ones first."""
    from nearfar import nn

    target, true = ids.new_zeros(len(ids)), ids[:, 0]
    if loss == "in-batch":
        return nn.in_batch_nce(X, context(true), log_q=log_q[:, 0], ids=true)
    scores = (X[:, None] * context(ids)).sum(2)
    if loss == "global":
        return nn.global_nce(scores, target, log_q)
    if loss == "local":  # without log q: negative sampling
        return nn.local_nce(scores, target)
    if loss == "hinge":
        return nn.hinge(scores, target, negatives="sum")
    return nn.sampled_softmax(scores[:, 0], scores[:, 1:], log_q[:, 1:], true, ids[:, 1:])


def contrast(rel, loss, noise):
    """Train a small network for the rows and a table for the columns; return both sides and the losses."""
    torch = pytest.importorskip("torch")
    P = rel.to_scipy().tocoo()
    i, j = (torch.from_numpy(index.astype(np.int64)) for index in P.coords)
    p, b, m = torch.from_numpy(P.data), 128 if loss == "in-batch" else 512, 5
    curve = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tower = torch.nn.Sequential(torch.nn.Embedding(P.shape[0], 8), torch.nn.Linear(8, 8))
        context = torch.nn.Embedding(P.shape[1], 8)
        made = nce_noise(noise, np.bincount(j, P.data, P.shape[1]), context)
        optimizer = torch.optim.Adam([*tower.parameters(), *context.parameters()], 0.05)
        for _ in range(60):
            pairs = torch.multinomial(p, b, replacement=True)
            X, true = tower(i[pairs]), j[pairs]
            if noise == "in-batch":
                made.observe(true)
            drawn = made.sample((b, m), *([X] if noise == "adaptive" else []))
            ids = torch.cat((true[:, None], drawn), 1)
            value = nce_loss(loss, X, context, ids, made.log_prob(ids))
            descend(optimizer, value)
            curve.append(value.item())
        return tower(torch.arange(P.shape[0])).detach().numpy(), context.weight.detach().numpy(), curve


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize(
    ("relation", "loss_and_noise"),
    [
        cell if cell.values[1] in QUICK_NCE else pytest.param(*cell.values, marks=pytest.mark.slow)
        for cell in cells(RELATIONS, NCE)
    ],
)
def test_contrastive(relation, loss_and_noise):
    loss, noise = loss_and_noise.split()
    rel, labels = RELATIONS[relation]()
    vectors, context, curve = contrast(rel, loss, noise)
    if noise == "adaptive":  # to a ranking with log q all candidates are alike, and only the gradient tells them apart
        np.testing.assert_allclose(curve, np.log(6), rtol=1e-4)
    else:
        assert np.mean(curve[-5:]) < 0.9 * np.mean(curve[:5])
    # Related objects score higher than others, and have vectors that point the same way: from the middle of all, as
    # "local" learns a level of all scores too.
    S = vectors @ context.T
    P = rel.to_scipy().toarray()
    assert (P * S).sum() / P.sum() > S.mean() + 0.1
    same = labels[:, None] == labels[None, :]
    own = vectors - vectors.mean(0)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    own = own @ own.T
    assert own[same].mean() > own[~same].mean() + 0.01


def points():
    """Calibrated neighbours of iris."""
    X, y = load_iris(return_X_y=True)
    return nf.Affinities(20).fit(X), (y > 0).astype(int)


MAPPED = {f.__name__: f for f in (graph, digraph, neighbors_of_points, points, text)}
NO_MAP = {"ratings": "a map shows objects of one kind: users and items have no place in common"}


KERNELS = ("exponential", "student-t", "heavy-tailed")
DIVERGENCES = ("kl", "reverse-kl", "nerv", "jensen-shannon")


@pytest.mark.parametrize(
    ("relation", "divergence", "kernel", "normalization"),
    # Heavy tails with KL are quick as HSSNE, in test_gallery.py; each other divergence would compile them anew.
    [
        pytest.param(*cell.values, marks=pytest.mark.slow) if "heavy-tailed" in cell.values else cell
        for cell in cells(MAPPED, DIVERGENCES, KERNELS, ["pair", "row"], pairwise=True)
    ],
)
def test_maps(relation, divergence, kernel, normalization):
    given, labels = MAPPED[relation]()
    parts = {"divergence": divergence, "kernel": kernel, "normalization": normalization}
    est = nf.NeighborEmbedding(**parts, max_iter=100, early_exaggeration_iter=50, random_state=0).fit(given)
    Y = est.embedding_
    assert np.isfinite(Y).all()
    assert est.cost_ < est.cost_curve_[0, 1]
    # Related objects end up closer than unrelated ones, and so do those of the same kind.
    P = est.relation_.to_scipy().toarray()
    distances = np.linalg.norm(Y[:, None] - Y[None], axis=2)
    np.fill_diagonal(P, 0)
    assert (P * distances).sum() / P.sum() < 0.8 * distances.mean()
    same = labels[:, None] == labels[None, :]
    assert distances[same].mean() < distances[~same].mean()


@pytest.mark.parametrize("relation", NO_MAP)
def test_no_map(relation):
    with pytest.raises(InputError, match="a square relation"):
        nf.TSNE().fit(RELATIONS[relation]()[0])


def test_what_makes_no_sense_has_a_reason():
    assert all(len(reason) > 20 for reason in (*NO_SENSE.values(), *NO_MAP.values()))
