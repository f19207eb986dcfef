"""AnchorEmbedding against dense T @ A, its gradients, its files, its sizes, and what it refuses."""

import copy
import pickle

import numpy as np
import pytest
from descent import descend
from numpy.testing import assert_allclose
from quick import with_slow

torch = pytest.importorskip("torch")

from nearfar.errors import InputError  # noqa: E402
from nearfar.nn import AnchorEmbedding, ProxAdam, ProxSGD, choose_anchors  # noqa: E402

V, D, K, R = 23, 5, 7, 3
IDS = torch.tensor([[3, 19, 3], [0, 22, 19]])  # repeated, unsorted


def make(n=V, d=D, k=K, r=R, seed=0, **options):
    torch.manual_seed(seed)
    return AnchorEmbedding(n, d, k, nnz_per_row=r, dtype=torch.float64, **options)


def dense_t(layer):
    """T as a dense matrix, entry by entry."""
    layer.settle()
    table = np.zeros((layer.num_embeddings, layer.n_anchors))
    for row, (values, columns) in enumerate(zip(layer.values.tolist(), layer.columns.tolist(), strict=True)):
        assert len(set(columns)) == len(columns)
        for value, column in zip(values, columns, strict=True):
            table[row, column] += value
    return torch.tensor(table)


def trained(layer, optimizer=ProxAdam, steps=5, **options):
    """The layer after some steps that touch different rows, so that others have shrinkage to come."""
    optimizer = optimizer(layer.parameters(), lr=0.02, **options)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        ids = torch.randint(layer.num_embeddings, (6,), generator=generator)
        descend(optimizer, (layer(ids) - 1).square().sum())
    return optimizer


# -- the call ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [1, R, K, 100])
@pytest.mark.parametrize("ids", [IDS, IDS[0], torch.tensor(4), IDS.int(), torch.zeros(2, 0, dtype=torch.long)])
def test_a_call_is_rows_of_t_times_a(r, ids):
    layer = make(r=r)
    expected = (dense_t(layer) @ layer.anchors)[ids.long()]
    assert_allclose(layer(ids).detach(), expected.detach(), atol=1e-14)
    assert layer(ids).shape == (*ids.shape, D)
    assert_allclose(layer.weight, dense_t(layer) @ layer.anchors.detach(), atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("r", [2, 7])  # as a sum of r anchors, as a product
@pytest.mark.parametrize("n_active", [9, 5])
@pytest.mark.parametrize("n_ids", [12, 90])  # of 23 objects: few repetitions, many
def test_every_way_to_mix_is_that_of_dense_t(dtype, r, n_active, n_ids):
    layer = make(k=9, r=r, padding_idx=4)
    trained(layer)
    layer.n_active = n_active
    layer.to(dtype)
    ids = torch.randint(V, (2, n_ids // 2), generator=torch.Generator().manual_seed(3))
    layer.zero_grad()
    dense = (dense_t(layer) * (torch.arange(9) < n_active)).requires_grad_()
    anchors = layer.anchors.detach().double().requires_grad_()
    target = torch.linspace(-1, 1, n_ids * D, dtype=torch.float64).reshape(*ids.shape, D)
    expected, found = (dense @ anchors)[ids], layer(ids)
    close = {"rtol": 1e-12, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    assert found.dtype == dtype
    assert_allclose(found.detach(), expected.detach(), **close)
    assert_allclose(layer(ids[:, :0]).detach(), expected[:, :0].detach())
    (expected - target).pow(3).sum().backward()
    (found.double() - target).pow(3).sum().backward()
    assert_allclose(layer.anchors.grad, anchors.grad, **close)
    kept = (layer.columns < n_active) & (torch.arange(V) != 4)[:, None]
    slope = dense.grad.gather(1, layer.columns.long())
    assert layer.values.grad.coalesce().indices()[0].tolist() == ids.unique().tolist()
    assert_allclose(layer.values.grad.to_dense()[kept], slope[kept], **close)
    assert dense.grad.abs().max() > 0.1


@pytest.mark.parametrize("shape", [(D,), (4, D), (2, 3, D), (0, D)])
def test_logits_are_products_with_the_table(shape):
    layer = make()
    trained(layer)
    layer.zero_grad()
    hidden = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    dense, anchors = dense_t(layer).requires_grad_(), layer.anchors.detach().clone().requires_grad_()
    twin = hidden.detach().clone().requires_grad_()
    expected = twin @ (dense @ anchors).T
    expected.pow(3).sum().backward()
    logits = layer.logits(hidden)
    logits.pow(3).sum().backward()
    assert_allclose(logits.detach(), expected.detach(), atol=1e-12)
    assert_allclose(hidden.grad, twin.grad, rtol=1e-10)
    assert_allclose(layer.anchors.grad, anchors.grad, rtol=1e-10)
    assert_allclose(layer.values.grad, dense.grad.gather(1, layer.columns.long()), rtol=1e-10, atol=1e-12)
    shared = torch.tensor([5, 1, 5])
    assert_allclose(layer.logits(hidden, shared).detach(), expected.detach()[..., shared], atol=1e-12)
    own = torch.randint(V, (*shape[:-1], 4))
    assert_allclose(layer.logits(hidden, own).detach(), expected.detach().gather(-1, own), atol=1e-12)


def test_logits_in_blocks_are_those_in_one(monkeypatch):
    layer, hidden = make(), torch.randn(4, D, dtype=torch.float64)
    slopes = []
    for block in (2**20, 3 * K):
        monkeypatch.setattr("nearfar.tables.slots.BLOCK", block)
        layer.zero_grad()
        layer.logits(hidden).pow(3).sum().backward()
        slopes.append((layer.values.grad.clone(), layer.anchors.grad.clone(), layer.weight))
    for one, blocks in zip(*slopes, strict=True):
        assert_allclose(one, blocks, rtol=1e-12)


def test_padding_is_zero_and_stays_zero():
    layer = make(padding_idx=-4, penalty=0.0)
    assert layer.padding_idx == 19
    trained(layer, steps=20)
    assert not layer(torch.tensor([19])).any()
    layer.logits(torch.ones(2, D, dtype=torch.float64)).sum().neg().backward()
    assert not layer.values.grad[19].any()


def test_functions_that_start_all_embeddings_anew_leave_t_alone():
    layer = make()
    before = layer.weight
    layer.apply(lambda m: torch.nn.init.normal_(m.weight) if isinstance(m, torch.nn.Embedding) else None)
    assert layer.weight.equal(before)


# -- zeros that come back ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", with_slow([False], slow=[True]))
def test_a_free_slot_goes_to_the_anchor_that_is_asked_for(tied):
    # Rows want anchor v % K alone, whichever they hold at first; orthogonal anchors that are not trained.
    layer = make(d=K, r=2, penalty=1e-3)
    layer.anchors.requires_grad_(False).copy_(torch.eye(K))
    goal = torch.eye(K, dtype=torch.float64)[torch.arange(V) % K]
    optimizer = ProxSGD([layer.values], lr=0.4)
    for _ in range(60):
        out = layer.logits(torch.eye(K, dtype=torch.float64)).T if tied else layer(torch.arange(V))
        descend(optimizer, (out - goal).square().sum())
    assert_allclose(dense_t(layer), goal * (1 - 5e-4), atol=1e-9)  # 2 (t - 1) + penalty = 0
    assert layer.nnz == V


@pytest.mark.filterwarnings("ignore:.*all of T is 0")
@pytest.mark.parametrize(("sparse", "set_to_none"), [(True, True), (True, False), (False, False), (True, "keep")])
def test_gradients_give_slots_unless_they_are_thrown_away(sparse, set_to_none):
    layer = make(k=V, r=2, sparse=sparse)
    optimizer, before = ProxSGD(layer.parameters(), lr=0.1), layer.columns.clone()
    with torch.no_grad():
        layer.values.zero_()
    for factor in (1.0, 0.0):
        if set_to_none != "keep":
            optimizer.zero_grad(set_to_none)
        (factor * layer(IDS) @ torch.randn(D, dtype=torch.float64)).sum().backward()
    optimizer.step()
    assert layer.columns.equal(before) == (set_to_none != "keep")


# -- anchors that are switched off ------------------------------------------------------------------------------------


def steps_of(layer, optimizer, seeds, tied=False):
    """Steps on a few rows each, in the table or, tied, in all of them."""
    for seed in seeds:
        ids = torch.randint(V, (4,), generator=torch.Generator().manual_seed(seed))
        out = layer.logits(torch.ones(2, D, dtype=torch.float64) / 2) if tied else layer(ids)
        descend(optimizer, (out - 0.3).square().sum())


@pytest.mark.parametrize(
    ("make_optimizer", "tied"),
    with_slow([(ProxAdam, True)], slow=[(ProxSGD, False), (ProxSGD, True), (ProxAdam, False)]),
)
def test_active_anchors_are_a_smaller_layer_and_the_others_wait(make_optimizer, tied):
    n = 4
    large = make(r=K, penalty=0.05)  # nothing can be wished for
    optimizer = make_optimizer(large.parameters(), lr=0.01)
    steps_of(large, optimizer, range(5))
    waiting = dense_t(large)[:, n:], large.anchors.detach()[n:].clone()
    large.n_active = n
    small = make(k=n, r=n, penalty=0.05)
    at = large.columns.long().argsort(1)  # slots by their anchors
    with torch.no_grad():
        small.anchors.copy_(large.anchors[:n])
        small.columns.copy_(torch.arange(n).expand(V, n))
        small.values.copy_(large.values.gather(1, at)[:, :n])
    twin = make_optimizer(small.parameters(), lr=0.01)
    for p, q in zip(small.parameters(), large.parameters(), strict=True):
        state = optimizer.state[q]
        twin.state[p] = {
            name: s if not torch.is_tensor(s) else (s[:n].clone() if q is large.anchors else s.gather(1, at)[:, :n])
            for name, s in state.items()
        }
    shapes = {name: tuple(s.shape) for name, s in optimizer.state[large.values].items() if torch.is_tensor(s)}
    kept = {name: s.gather(1, at)[:, n:] for name, s in optimizer.state[large.values].items() if torch.is_tensor(s)}
    for layer, by in ((large, optimizer), (small, twin)):
        steps_of(layer, by, range(5, 25), tied)
    assert_allclose(large.weight, small.weight, atol=1e-13)
    hidden = torch.randn(3, D, dtype=torch.float64)
    assert_allclose(large(IDS).detach(), small(IDS).detach(), atol=1e-13)
    assert_allclose(large.logits(hidden).detach(), small.logits(hidden).detach(), atol=1e-13)
    assert (large.nnz, large.n_parameters) == (small.nnz, small.n_parameters)
    copies = [copy.deepcopy(large), pickle.loads(pickle.dumps(large)), make(r=K, seed=3)]
    copies[2].load_state_dict(large.state_dict())
    for layer in (large, *copies):
        assert layer.n_active == n
        assert_allclose(layer.weight, small.weight, atol=1e-13)
        layer.n_active = K  # back
        assert_allclose(dense_t(layer)[:, n:], waiting[0], atol=1e-15)
        assert_allclose(dense_t(layer)[:, :n], dense_t(small), atol=1e-13)
        assert layer.anchors.detach()[n:].equal(waiting[1])
    for name, s in optimizer.state[large.values].items():
        if torch.is_tensor(s):
            assert tuple(s.shape) == shapes[name]
            assert s.gather(1, at)[:, n:].equal(kept[name])


def test_rows_whose_anchors_are_all_off_take_others():
    # Orthogonal anchors that are not trained; the goal of a row is one of the two that stay, its slots are others.
    layer = make(d=K, r=2, penalty=1e-3)
    layer.anchors.requires_grad_(False).copy_(torch.eye(K))
    with torch.no_grad():
        layer.columns.copy_(torch.tensor([2, 5]).expand(V, 2))
    layer.n_active = 2
    assert layer.nnz == 0
    goal = torch.eye(K, dtype=torch.float64)[torch.arange(V) % 2]
    kept, optimizer = layer.values.detach().clone(), ProxSGD([layer.values], lr=0.4)
    for _ in range(60):
        descend(optimizer, (layer(torch.arange(V)) - goal).square().sum())
    assert_allclose(dense_t(layer)[:, :2], goal[:, :2] * (1 - 5e-4), atol=1e-9)
    layer.n_active = K  # one slot was given away, the other waited
    assert layer.nnz == 2 * V
    assert ((dense_t(layer)[:, [2, 5]] == kept) | (dense_t(layer)[:, [2, 5]] == 0)).all()


def test_a_start_with_few_active_anchors_puts_them_first():
    layer = make(r=5)
    layer.n_active = 3
    layer.reset_parameters()
    assert (layer.columns.long() < 3).sum(1).tolist() == [3] * V
    assert "n_active=3" in repr(layer)
    for wrong in (0, K + 1, 2.5, True):
        with pytest.raises(InputError, match="n_active must be"):
            layer.n_active = wrong
    with pytest.raises(InputError, match="n_active must be"):
        layer.load_state_dict({**layer.state_dict(), "_extra_state": torch.tensor([K + 1, 0])})
    with pytest.raises(InputError, match="state must be with a bit for each object; got 2 numbers"):
        layer.load_state_dict({**layer.state_dict(), "_extra_state": torch.tensor([K, 0])})


# -- sizes, files, copies ---------------------------------------------------------------------------------------------


def test_sizes():
    layer = AnchorEmbedding(1000, 16, 40, nnz_per_row=4, padding_idx=3)
    assert layer.nnz == 999 * 4
    assert layer.n_parameters == 40 * 16 + 999 * 4
    assert layer.nbytes == 40 * 16 * 4 + 1000 * 4 * (4 + 1)
    assert AnchorEmbedding(1000, 16, 300).columns.dtype == torch.int32


def test_moving_to_another_type_keeps_what_is_owed():
    layer = make(penalty=0.05)
    trained(layer)
    before = layer.weight
    assert_allclose(layer.float().weight, before, atol=1e-6)
    trained(layer)


# -- starts -----------------------------------------------------------------------------------------------------------


def test_anchors_that_are_objects_start_as_their_own_anchors():
    ids, vectors = torch.tensor([4, 0, 17, 9, 22, 1, 2]), torch.randn(K, D, dtype=torch.float64)
    layer = make(anchor_ids=ids, anchors=vectors)
    assert_allclose(layer(ids).detach(), vectors)
    assert (dense_t(layer)[ids] == torch.eye(K)).all()
    assert layer.nnz == V * R - K * (R - 1)


def test_columns_of_rows_are_drawn_alike():
    layer = AnchorEmbedding(20_000, 2, 5, nnz_per_row=3)
    shares = torch.bincount(layer.columns.flatten().long(), minlength=5) / 20_000
    assert_allclose(shares, 0.6, atol=0.02)
    assert (layer.columns.long().sort(1).values.diff(dim=1) > 0).all()


def test_from_pretrained_finds_mixtures_that_are_there():
    generator = torch.Generator().manual_seed(3)
    anchors = torch.randn(K, 12, dtype=torch.float64, generator=generator)
    t = torch.zeros(V, K, dtype=torch.float64)
    t[:K] = torch.eye(K)
    for row in range(K, V):
        t[row, torch.randperm(K, generator=generator)[:2]] = torch.rand(2, dtype=torch.float64, generator=generator) + 1
    vectors = t @ anchors
    layer = AnchorEmbedding.from_pretrained(vectors, K, anchor_ids=torch.arange(K), nnz_per_row=K)
    assert_allclose(layer.weight, vectors, atol=1e-3)
    assert not layer.values.requires_grad
    rough = AnchorEmbedding.from_pretrained(vectors, K, freeze=False, nnz_per_row=1)
    assert rough.values.requires_grad
    assert (rough.values >= 0).all()


def test_anchors_are_chosen_as_each_method_says():
    counts = [5, 80, 0, 7, 80, 1]
    assert choose_anchors(3, counts=counts).tolist() == [1, 4, 3]
    # 80 in all documents tells nothing apart
    assert choose_anchors(
        2, "tf-idf", counts=counts, document_counts=[5, 90, 0, 1, 40, 1], n_documents=90
    ).tolist() == [4, 3]
    places = torch.tensor([[0.0, 0], [0, 0.1], [9, 0], [9, 0.1], [0, 9], [0, 9.1]])
    for seed in range(5):
        spread = choose_anchors(3, "k-means++", vectors=places, random_state=seed)
        assert sorted((spread // 2).tolist()) == [0, 1, 2]
        both = choose_anchors(3, "frequency and k-means++", counts=counts, vectors=places, random_state=seed).tolist()
        assert both[:2] == [1, 4]
        assert both[2] in (2, 3)
    same = choose_anchors(4, "k-means++", vectors=np.ones((4, 2)), random_state=0)
    assert sorted(same.tolist()) == [0, 1, 2, 3]
    far = np.zeros((100, 2))
    far[41] = 1.0
    hits = sum(41 in choose_anchors(1, "coreset", vectors=far, random_state=seed).tolist() for seed in range(200))
    assert 70 < hits < 130  # 1/2 (1/100 + .99)
    assert sorted(choose_anchors(6, "random", counts=counts, random_state=1).tolist()) == [0, 1, 2, 3, 4, 5]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_values_that_something_else_has_changed_are_refused():
    layer = make()
    layer(IDS).sum().backward()
    with torch.no_grad():  # what an optimiser does that is none of torch's
        layer.values.sub_(0.1)
    with pytest.raises(InputError, match="optimizer must be ProxSGD, ProxAdam or ProxYogi"):
        layer(IDS)
