"""Domain knowledge in anchor embeddings: pairs of objects, entries that are free, terms of the loss, special cases."""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
from descent import descend
from numpy.testing import assert_allclose
from quick import often

torch = pytest.importorskip("torch")

from test_proximal import MAKE, eager  # noqa: E402

import nearfar as nf  # noqa: E402
from nearfar.errors import InputError  # noqa: E402
from nearfar.nn import AnchorEmbedding, ProxSGD, RelatedPairs, anchor_overlap, unrelated_overlap  # noqa: E402

V, D, K, R = 13, 5, 7, 3
EDGES = [(0, 1), (1, 2), (5, 2), (2, 2), (12, 0), (3, 12), (9, 4), (4, 9), (6, 11)]


def relation(n=V, edges=EDGES):
    matrix = np.zeros((n, n))
    for u, v in edges:
        matrix[u, v] += 0.5  # one way only
    return nf.Relation.from_matrix(matrix)


def related(n=V, edges=EDGES):
    table = np.zeros((n, n), bool)
    for u, v in edges:
        table[u, v] = table[v, u] = u != v
    return torch.tensor(table)


def make(k=K, r=R, seed=0, **options):
    torch.manual_seed(seed)
    return AnchorEmbedding(V, D, k, nnz_per_row=r, dtype=torch.float64, **options)


def dense_t(layer):
    table = torch.zeros(layer.num_embeddings, layer.n_anchors, dtype=layer.values.dtype)
    return table.scatter(1, layer.columns.long(), layer._read(slice(None)))


# -- pairs ------------------------------------------------------------------------------------------------------------


def test_pairs_are_undirected_distinct_and_of_two_objects():
    pairs = RelatedPairs(relation())
    assert pairs.n_objects == V
    assert pairs.n_pairs == int(related().sum()) == 14
    for row, expected in enumerate(related()):
        assert pairs.neighbors(row) == torch.nonzero(expected)[:, 0].tolist()


@pytest.mark.parametrize("kind", [list, iter, lambda names: {name: row for row, name in enumerate(names)}])
def test_names_of_a_relation_become_rows_of_the_table(kind):
    rel = nf.Relation.from_edges([("b", "a"), ("b", "c"), ("c", "d")])
    names = ["<pad>", "d", "c", "b", "a", "z"]
    pairs = RelatedPairs(rel, kind(names))
    assert [pairs.neighbors(row) for row in range(5)] == [[], [2], [1, 3], [2, 4], [3]]
    users = nf.Relation.from_edges([("ann", "tea"), ("bob", "tea")], bipartite=True)  # rows and columns are others
    assert RelatedPairs(users, kind(["bob", "tea", "ann"])).neighbors(1) == [0, 2]


# -- negative pairs ---------------------------------------------------------------------------------------------------


def brute_force(table):
    """Eq. 33 pair by pair, as a mean."""
    unrelated = ~related() & ~torch.eye(V, dtype=torch.bool)
    return sum(table[u] @ table[v] for u, v in torch.nonzero(unrelated)) / unrelated.sum()


def owing(**options):
    """A layer some of whose rows owe, and some of whose entries are 0."""
    layer = make(penalty=1.5, **options)
    optimizer = ProxSGD([layer.values], lr=0.03)
    for row in range(6):
        descend(optimizer, layer(torch.tensor([row, 5])).sum())
    optimizer.zero_grad()
    assert 0 < layer.nnz < V * layer.nnz_per_row
    return layer


@pytest.mark.parametrize("block", [2**22, 9])
@pytest.mark.parametrize(("r", "n_active"), [(R, K), (K, K), (R, 4)])
def test_the_overlap_of_unrelated_pairs_is_that_of_all_pairs_one_by_one(monkeypatch, r, n_active, block):
    monkeypatch.setattr("nearfar.tables.slots.BLOCK", block)
    monkeypatch.setattr("nearfar.tables.overlap.BLOCK", block)
    layer, pairs = owing(r=r, padding_idx=3), RelatedPairs(relation())
    layer.n_active = n_active
    table = dense_t(layer).requires_grad_()
    expected = brute_force(table)
    expected.backward()
    got = unrelated_overlap(layer, pairs)
    (2 * got).backward()
    assert got.item() == pytest.approx(expected.item(), rel=1e-12)
    on = (layer.columns < n_active) & (torch.arange(V) != 3)[:, None]
    assert_allclose(layer.values.grad[on], 2 * table.grad.gather(1, layer.columns.long())[on], rtol=1e-10)
    assert not layer.values.grad[3].any()
    layer.zero_grad()
    sampled = unrelated_overlap(layer, pairs, n_sampled=400)  # these are all
    sampled.backward()
    assert sampled.item() == pytest.approx(expected.item(), rel=1e-12)
    assert_allclose(layer.values.grad.to_dense()[on], table.grad.gather(1, layer.columns.long())[on], rtol=1e-10)


def test_the_sampled_overlap_has_no_bias():
    layer, pairs = make(), RelatedPairs(relation())
    exact = brute_force(dense_t(layer)).item()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        drawn = torch.tensor(
            [unrelated_overlap(layer, pairs, n_sampled=4, generator=generator).item() for _ in range(600)]
        )
    assert unrelated_overlap(layer, pairs, n_sampled=2, generator=generator).isfinite()  # two rows are enough
    error = float(drawn.std()) / len(drawn) ** 0.5
    assert error < 0.08 * exact
    assert abs(float(drawn.mean()) - exact) < 3 * error


# -- positive pairs ---------------------------------------------------------------------------------------------------

FREE = [(0, 3), (5, 3), (9, 1), (4, 0), (7, 2)]  # rows and anchors
ANCHORS = [1, 2, 8, 10]  # the objects that are anchors


def free_table(n=11, r=4, seed=0, **options):
    """A table whose rows of T are its vectors; some entries of T are free."""
    torch.manual_seed(seed)
    ids = torch.tensor(ANCHORS)
    layer = AnchorEmbedding(
        n, 4, 4, nnz_per_row=r, dtype=torch.float64, anchors=torch.eye(4), anchor_ids=ids, **options
    )
    layer.anchors.requires_grad_(False)
    layer.set_related(RelatedPairs(relation(n, [(row, ANCHORS[a]) for row, a in FREE])))
    return layer


def costs(n=11):
    """S: 0 at entries that are free, 1 elsewhere. Pairs go both ways, and 8 and 2 are objects and anchors."""
    table = torch.ones(n, 4, dtype=torch.float64)
    for row, a in FREE:
        table[row, a] = 0
        if row in ANCHORS:
            table[ANCHORS[a], ANCHORS.index(row)] = 0
    return table


@pytest.mark.parametrize(
    ("name", "free"), often(product(MAKE, (False, True)), [("sgd", False), ("adam", True), ("yogi", False)])
)
def test_lazy_shrinkage_is_eager_shrinkage(name, free):
    layer, lr = free_table(), 0.01
    if not free:
        layer.reset_parameters()
    else:
        with torch.no_grad():
            layer.values.uniform_(0.1, 1.0)
    layer.anchors.data.copy_(torch.eye(4))
    start = layer.weight.detach()
    generator = torch.Generator().manual_seed(2)
    batches = [torch.randint(11, (n % 4,), generator=generator) for n in range(25)]  # empty ones too
    goals = [torch.rand(len(ids), 4, dtype=torch.float64, generator=generator) for ids in batches]
    prices = [(2.0 if name == "sgd" else 0.5) * (n % 5) for n in range(25)]  # set anew in every step
    optimizer = MAKE[name]([layer.values], lr)
    for n, (ids, goal, price) in enumerate(zip(batches, goals, prices, strict=True)):
        layer.penalty = price
        descend(optimizer, (layer(ids) - goal).square().sum())
        if n == 15:
            layer.settle()  # at any time
    expected = eager(name, start, batches, goals, [price * (costs() if free else 1) for price in prices], lr)
    assert_allclose(layer.weight.detach(), expected, atol=1e-12)
    assert (expected == 0).any()
    assert layer.nnz == int((expected > 0).sum())
    layer.settle()
    assert_allclose(layer.weight.detach(), expected, atol=1e-12)


@pytest.mark.parametrize("way", ["state", "copy", "pickle", "type"])
def test_free_entries_are_kept(way):
    layer = free_table(penalty=0.5)
    optimizer = ProxSGD([layer.values], lr=0.1)

    def step(table, optimizer):
        descend(optimizer, table(torch.tensor([6, 7])).sum())

    step(layer, optimizer)
    if way == "state":
        other = AnchorEmbedding(11, 4, 4, nnz_per_row=4, dtype=torch.float64, penalty=0.5)
        other.load_state_dict(layer.state_dict())
    elif way == "type":
        other = copy.deepcopy(layer).float().double()
    else:
        other = copy.deepcopy(layer) if way == "copy" else pickle.loads(pickle.dumps(layer))
    other.anchors.requires_grad_(False)
    step(layer, optimizer)
    step(other, ProxSGD([other.values], lr=0.1))
    assert_allclose(other.weight, layer.weight.detach(), atol=1e-6)
    other.set_related(None) if way != "state" else other.load_state_dict(make_plain().state_dict())
    assert other._unpenalized is None


def make_plain():
    return AnchorEmbedding(11, 4, 4, nnz_per_row=4, dtype=torch.float64)


def test_what_rows_owe_is_owed_at_the_price_of_its_time():
    layer = free_table(penalty=0.5)
    layer.set_related(None)
    optimizer = ProxSGD([layer.values], lr=0.1)
    with torch.no_grad():
        layer.values.fill_(1.0)
    for related_pairs in (None, RelatedPairs(relation(11, [(0, 10)]))):
        layer.set_related(related_pairs)
        descend(optimizer, layer(torch.tensor([6])).square().sum().mul(0))
    assert_allclose(layer(torch.tensor(0)).detach(), [0.9, 0.9, 0.9, 0.95])
    layer.reset_parameters()
    assert layer._unpenalized is None
    assert layer.anchor_ids is None


def test_the_absolute_overlap_is_that_of_pairs_one_by_one():
    anchors = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    a = anchors.detach().numpy()
    expected = sum(abs(a[i] @ a[j]) for i in range(5) for j in range(i + 1, 5))
    assert anchor_overlap(anchors, absolute=True).item() == pytest.approx(expected)
    assert torch.autograd.gradcheck(lambda x: anchor_overlap(x, absolute=True), anchors)
    assert anchor_overlap(anchors[:1], absolute=True).item() == 0.0
    with pytest.raises(InputError, match="absolute must be"):
        anchor_overlap(anchors, absolute=1)


def test_anchors_of_given_vectors_are_objects():
    layer = AnchorEmbedding.from_pretrained(torch.randn(V, D), 3, anchor_ids=torch.tensor([4, 0, 1]))
    layer.set_related(RelatedPairs(relation()))
    assert layer._unpenalized.tolist() == [0 * 3 + 2, 1 * 3 + 1, 2 * 3 + 2, 9 * 3 + 0, 12 * 3 + 1]


# -- anchors that are orthogonal --------------------------------------------------------------------------------------


def test_the_overlap_of_anchors_is_the_mean_squared_cosine():
    anchors = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    vectors = anchors.detach().numpy()
    norms = np.linalg.norm(vectors, axis=1)
    cosines = [vectors[a] @ vectors[b] / norms[a] / norms[b] for a in range(4) for b in range(a)]
    assert anchor_overlap(anchors).item() == pytest.approx(np.mean(np.square(cosines)))
    assert torch.autograd.gradcheck(anchor_overlap, anchors)
    assert float(anchor_overlap(torch.eye(3) * 5)) == 0
    assert float(anchor_overlap(torch.ones(1, 3))) == 0
    assert float(anchor_overlap(torch.zeros(2, 3))) == 0


# -- special cases ----------------------------------------------------------------------------------------------------


def test_selection_is_a_small_table_of_its_own():
    ids = torch.tensor([7, 2, 11])
    layer = AnchorEmbedding.selection(V, D, ids, padding_idx=0)
    assert layer.n_parameters == 3 * D + 3
    assert layer(ids).equal(layer.anchors)
    others = torch.tensor([row for row in range(V) if row not in (7, 2, 11)])
    assert not layer(others).any()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.arange(V)).sum().backward()
    before = layer.anchors.detach().clone()
    optimizer.step()
    assert_allclose(layer(ids).detach(), before - 0.1, rtol=1e-6)
    assert not layer(others).any()
    with pytest.raises(InputError, match="anchor_ids"):
        AnchorEmbedding.selection(V, D, torch.tensor([1, 1]))


def test_full_softmax_trains_as_with_a_dense_t():
    # Eq. 35: with a slot for every entry, steps of proximal SGD are those of dense T, A and all logits.
    torch.manual_seed(3)
    layer = make(r=K, penalty=0.02)
    hidden, target = torch.randn(6, D, dtype=torch.float64), torch.randint(V, (6,))
    table, anchors = dense_t(layer), layer.anchors.detach().clone()
    optimizer = ProxSGD(layer.parameters(), lr=0.1)
    for _ in range(30):
        descend(optimizer, torch.nn.functional.cross_entropy(layer.logits(hidden), target))
        scores = hidden @ (table @ anchors).T
        slope = (torch.softmax(scores, 1) - torch.nn.functional.one_hot(target, V)) / 6
        in_table, in_anchors = slope.T @ hidden @ anchors.T, table.T @ slope.T @ hidden
        table, anchors = (table - 0.1 * (in_table + 0.02)).clamp(min=0), anchors - 0.1 * in_anchors
    assert_allclose(dense_t(layer), table, atol=1e-12)
    assert_allclose(layer.anchors.detach(), anchors, atol=1e-12)
    assert 0 < layer.nnz < V * K


# -- mixtures of softmaxes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_active", [K, 3])
def test_mixtures_of_softmaxes_are_those_of_dense_ones(n_active):
    tables = [owing(), make(r=2, seed=1, padding_idx=4)]
    tables[0].n_active = n_active
    ids = torch.tensor([[3, 4], [0, 3]])
    dense = [dense_t(table).requires_grad_() for table in tables]
    parts = [
        torch.softmax(t[:, : table.n_active], 1) @ table.anchors.detach()[: table.n_active]
        for t, table in zip(dense, tables, strict=True)
    ]
    keep = (torch.arange(V) != 4)[:, None]
    expected = (parts[0] + parts[1] * keep)[ids]
    expected.pow(3).sum().backward()
    got = nf.nn.softmax_mixture(tables, ids)
    assert_allclose(got.detach(), expected.detach(), rtol=1e-12)
    got.pow(3).sum().backward()
    for t, table in zip(dense, tables, strict=True):
        slots, on = t.grad.gather(1, table.columns.long()), table.columns < table.n_active
        assert_allclose(table.values.grad.to_dense()[on], slots[on], atol=1e-12)
    # As the entries alone give it.
    extra, anchors = torch.expm1(dense[1].detach()), tables[1].anchors.detach()
    sparse = (anchors.sum(0) + extra @ anchors) / (K + extra.sum(1, keepdim=True))
    assert_allclose(sparse, parts[1].detach(), rtol=1e-12)
