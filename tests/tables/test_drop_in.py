"""AnchorEmbedding where a torch.nn.Embedding stood: dense gradients, initialisers, graphs, tying, rows not met."""

import copy
import io
import locale
from itertools import product

import pytest
from descent import descend
from numpy.testing import assert_allclose
from quick import often

torch = pytest.importorskip("torch")

from torch_models import Tied as TiedHead  # noqa: E402

import nearfar as nf  # noqa: E402
from nearfar.errors import InputError, NearfarWarning  # noqa: E402
from nearfar.nn import AnchorEmbedding, ProxAdam, ProxSGD, ProxYogi  # noqa: E402

V, D, K, R = 23, 5, 7, 3


def make(seed=0, **options):
    torch.manual_seed(seed)
    return AnchorEmbedding(V, D, K, **{"nnz_per_row": R, "penalty": 0.02, "dtype": torch.float64, **options})


def batch(step, n=6):
    return torch.randint(V, (n,), generator=torch.Generator().manual_seed(step))


EACH = [*product((ProxSGD, ProxAdam, ProxYogi), (True, False))]


# -- dense gradients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("optimizer", "tied"), often(EACH, [(ProxSGD, True), (ProxAdam, False)]))
def test_dense_gradients_train_as_sparse_ones(optimizer, tied):
    ends = []
    for sparse in (True, False):
        layer = make(sparse=sparse, padding_idx=4)
        made = optimizer(layer.parameters(), lr=0.01 if tied else 0.05)
        for step in range(9):
            made.zero_grad()
            layer.n_active = 5 if 3 <= step < 6 else K
            out = layer.logits(layer(batch(step))) if tied else layer(batch(step))
            (out - 0.5).square().mean().backward()
            assert layer.values.grad.is_sparse == (sparse and not tied)
            made.step()
        ends.append(layer.state_dict())
    for name, part in ends[0].items():
        assert torch.equal(part, ends[1][name]), name


def test_dense_gradients_of_the_other_terms_and_of_copies():
    layer = make(sparse=False)
    pairs = nf.nn.RelatedPairs(nf.Relation.from_edges([(0, 1), (2, 3)]), range(V))
    nf.nn.unrelated_overlap(layer, pairs, n_sampled=5).backward()
    assert not layer.values.grad.is_sparse
    assert not AnchorEmbedding.from_pretrained(torch.randn(V, D), K, sparse=False).sparse
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert not torch.load(file, weights_only=False).sparse
    with pytest.raises(InputError, match="sparse must be"):
        make(sparse=1)


# -- functions that start all parameters anew -------------------------------------------------------------------------


def xavier(layer):
    for p in layer.parameters():
        torch.nn.init.xavier_uniform_(p)


def through_data(layer):
    for p in layer.parameters():
        p.data.uniform_(-0.3, 0.3)


@pytest.mark.parametrize("start", [xavier, through_data])
@pytest.mark.parametrize("sparse", [True, False])
def test_t_is_not_negative_whatever_initialises_it(start, sparse):
    layer = make(sparse=sparse, padding_idx=None)
    start(layer)
    assert (layer.values < 0).any()
    t = torch.zeros(V, K, dtype=torch.float64).scatter(1, layer.columns.long(), layer.values.detach().abs())
    expected = t @ layer.anchors.detach()
    assert_allclose(layer(batch(0)).detach(), expected[batch(0)], atol=1e-14)
    assert_allclose(layer.weight, expected, atol=1e-14)
    assert_allclose(layer.logits(torch.eye(D, dtype=torch.float64)).detach(), expected.T, atol=1e-14)
    optimizer = ProxAdam(layer.parameters(), lr=0.01)
    layer(batch(0)).square().sum().backward()
    with pytest.warns(NearfarWarning, match="entries of T were negative before its first step"):
        optimizer.step()
    for step in range(1, 3):
        descend(optimizer, layer(batch(step)).square().sum())
    assert (layer.values >= 0).all()
    never = torch.tensor(sorted(set(range(V)) - set(torch.cat([batch(s) for s in range(3)]).tolist())))
    assert_allclose(layer.values.detach()[never], t.gather(1, layer.columns.long())[never])


def test_a_state_saved_after_an_initialiser_is_loaded(tmp_path):
    layer = make()
    xavier(layer)
    with pytest.warns(NearfarWarning, match="absolute values"):
        state = layer.state_dict()
    other = make(seed=3)
    other.load_state_dict(state)
    assert_allclose(other.weight, layer.weight)
    xavier(layer)
    assert layer.export(tmp_path / "t.safetensors").shape == (V, D)


@pytest.mark.parametrize(
    "write",
    [
        torch.nn.init.normal_,
        torch.nn.init.xavier_uniform_,
        torch.nn.init.orthogonal_,
        lambda w: w.data.uniform_(-1, 1),
        lambda w: w[2].zero_(),
        lambda w: w.__setitem__(2, 0.0),
        lambda w: w.requires_grad_(False),
        lambda w: setattr(w, "requires_grad", False),
        lambda w: torch.nn.init.trunc_normal_(w.T),
    ],
)
def test_to_write_to_the_weight_is_refused(write):
    with pytest.raises(InputError, match="weight must be left as it is: it is made anew at each access"):
        write(make().weight)


@pytest.mark.parametrize(
    ("table", "told"), [(make, r"nf\.nn\.TiedLogits"), (lambda: nf.nn.QuantizedEmbedding(V, D), r"functional\.linear")]
)
def test_to_tie_by_the_weight_is_refused_and_the_way_is_told(table, told):
    table, head = table(), torch.nn.Linear(D, V, bias=False)
    for module, of in ((head, table), (table, head)):
        with pytest.raises(InputError, match=told):
            module.weight = of.weight


def test_the_weight_is_a_tensor_otherwise(tmp_path):
    layer = make()
    assert type(layer.weight + 1) is torch.Tensor
    assert type(torch.nn.functional.embedding(batch(0), layer.weight)) is torch.Tensor
    assert_allclose(torch.nn.functional.embedding(batch(0), layer.weight.detach()), layer(batch(0)).detach())
    torch.save(layer.weight.clone(), tmp_path / "w.pt")
    assert_allclose(torch.load(tmp_path / "w.pt").detach(), layer.weight.numpy())
    assert layer.weight.size(0) == V


# -- graphs -----------------------------------------------------------------------------------------------------------


class Tied(torch.nn.Module):
    """Scores of all objects, given one, by the table itself."""

    def __init__(self, table, sampled=None):
        super().__init__()
        self.table, self.map, self.sampled = table, torch.nn.Linear(D, D, dtype=table.anchors.dtype), sampled

    def forward(self, ids):
        return self.table.logits(self.map(self.table(ids)).tanh(), self.sampled)


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [None, torch.tensor([3, 1, 22])])
def test_a_full_graph_trains_as_the_model_does(sampled):
    if locale.getpreferredencoding(False).lower() not in ("utf-8", "utf8"):
        pytest.skip("torch's compiler reads its own files, which are UTF-8, by the locale")
    ends = []
    for compiled in (False, True):
        torch._dynamo.reset()
        model = Tied(make(sparse=False, padding_idx=4, nnz_per_row=2), sampled)
        call = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
        optimizer, losses = ProxAdam(model.parameters(), lr=0.05), []
        for step in range(5):
            if step == 2:
                model.table.n_active = 5
            optimizer.zero_grad()
            loss = (call(batch(step).reshape(2, 3)) - 1).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        ends.append((losses, model.state_dict()))
    assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-12)
    for name, part in ends[0][1].items():
        torch.testing.assert_close(part, ends[1][1][name])
    assert not torch.equal(ends[1][1]["table.slots.columns"], make(nnz_per_row=2).columns)  # slots were asked for


@pytest.mark.slow
@pytest.mark.parametrize(("sparse", "switched_off", "tied"), [*product((True, False), repeat=3)])
def test_a_trained_table_is_exported_as_a_program(tmp_path, sparse, switched_off, tied):
    if sparse and torch.__version__.startswith("2.6."):
        pytest.skip("torch 2.6 exports nothing that depends on how many rows differ")
    layer = make(sparse=sparse, padding_idx=4)
    optimizer = ProxAdam(layer.parameters(), lr=0.05)
    for step in range(5):
        descend(optimizer, layer(batch(step)).square().sum())
        if switched_off and step == 1:
            layer.n_active = 5
    ids = torch.tensor([[0, 4, 9], [22, 9, 1]])
    model = (TiedHead(layer, nf.nn.TiedLogits) if tied else layer).eval()
    program = torch.export.export(model, (ids,), dynamic_shapes=({0: torch.export.Dim("n"), 1: 3},))
    torch.export.save(program, tmp_path / "table.pt2")
    found = torch.export.load(tmp_path / "table.pt2").module()(ids.flip(0).repeat(2, 1))
    assert_allclose(found.detach(), model(ids.flip(0).repeat(2, 1)).detach(), atol=1e-14)
    assert_allclose(program.module()(ids).detach(), model(ids).detach(), atol=1e-14)


def test_functions_of_torch_func_see_the_trained_table():
    layer, hidden = make(padding_idx=4), torch.randn(3, D, dtype=torch.float64)
    optimizer, ids = ProxAdam(layer.parameters(), lr=0.05), torch.tensor([[0, 4, 9], [22, 9, 0]])
    for step in range(5):
        descend(optimizer, layer(batch(step)).square().sum())
    before, own = layer.weight.detach().clone(), {name: p.detach() for name, p in layer.named_parameters()}

    def loss(parameters, rows):
        found = torch.func.functional_call(layer, parameters, (rows,))
        return (found * hidden[0]).sum().square()

    layer.zero_grad()
    (layer(ids) * hidden[0]).sum().square().backward()
    found = torch.func.grad(loss)(own, ids)
    for name, p in layer.named_parameters():
        assert_allclose(found[name], p.grad.to_dense(), atol=1e-12, err_msg=name)
    assert_allclose(torch.func.vmap(layer)(ids).detach(), layer(ids).detach(), atol=1e-14)
    assert_allclose(torch.func.vmap(layer.logits)(hidden).detach(), layer.logits(hidden).detach(), atol=1e-13)
    assert_allclose(torch.func.vmap(torch.func.grad(loss), (None, 0))(own, ids)["anchors"].sum(0).shape, (K, D))
    for lent in (own, {name: part for name, part in layer.state_dict().items() if name in own}):
        assert_allclose(torch.func.functional_call(layer, lent, (ids,)).detach(), layer(ids).detach(), atol=1e-14)
    assert torch.equal(layer.weight, before)


# -- tying, resizing --------------------------------------------------------------------------------------------------


class Language(torch.nn.Module):
    """The next object; input and output are one table."""

    def __init__(self, table, bias=False):
        super().__init__()
        self.embed, self.map = table, torch.nn.Linear(D, D, dtype=table.anchors.dtype)
        self.head = nf.nn.TiedLogits(table, bias)

    def forward(self, input_ids, labels):
        scores = self.head(self.map(self.embed(input_ids)).tanh())
        return torch.nn.functional.cross_entropy(scores.flatten(0, -2), labels.flatten()), scores


@pytest.mark.parametrize("bias", [False, True])
def test_a_tied_output_is_the_table(bias):
    model = Language(make(sparse=False), bias)
    names = {"embed.anchors", "embed.slots.values", "map.weight", "map.bias"} | ({"head.bias"} if bias else set())
    assert {name for name, _ in model.named_parameters()} == names
    copied = copy.deepcopy(model)
    assert copied.head.__dict__["table"] is copied.embed is not model.embed
    hidden = torch.randn(2, 3, D, dtype=torch.float64)
    assert_allclose(model.head(hidden).detach(), (hidden @ model.embed.weight.T).detach(), atol=1e-12)
    assert_allclose(model.head.weight, model.embed.weight)
    loss, _ = model(batch(0), batch(1))
    loss.backward()
    assert model.embed.values.grad.abs().sum() > 0
    other = Language(make(seed=4, sparse=False), bias)
    other.load_state_dict(model.state_dict())
    assert_allclose(other(batch(0), batch(1))[0].item(), loss.item())


def test_a_resized_table_keeps_its_rows_and_trains_on():
    model = Language(make(sparse=False))
    optimizer = ProxAdam(model.parameters(), lr=0.05)
    for step in range(4):
        descend(optimizer, model(batch(step), batch(step + 1))[0])
    before = model.embed.weight
    table = model.embed
    assert table.resize(V + 4) is table
    assert_allclose(table.weight[:V], before)
    assert table(torch.arange(V, V + 4)).norm(dim=1).min() > 0
    assert (table.num_embeddings, table.values.shape, table.columns.shape) == (V + 4, (V + 4, R), (V + 4, R))
    optimizer = ProxAdam(model.parameters(), lr=0.05)
    loss, scores = model(torch.tensor([V + 3]), torch.tensor([V]))
    loss.backward()
    optimizer.step()
    assert scores.shape == (1, V + 4)
    assert not table.unmet.any()  # all are in the scores
    assert_allclose(table.resize(10).weight, table.weight[:10])
    assert table.export().shape == (10, D)


def test_tables_of_different_sizes_are_not_tied():
    one, other = make(), AnchorEmbedding(V + 2, D, K + 1, nnz_per_row=R, dtype=torch.float64)
    one.anchors = other.anchors
    with pytest.raises(InputError, match=r"must be of 7 anchors of 5 numbers and 23 objects; got \(8, 5\)"):
        one(batch(0))
    one, twin = make(), make(seed=1)
    one.anchors = twin.anchors  # of one size
    assert one(batch(0)).shape == (6, D)
    one.slots = other.slots
    with pytest.raises(InputError, match="and 23 objects"):
        one(batch(0))
    one.slots = twin.slots
    with pytest.raises(InputError, match="slots must be its own; got those of another layer"):
        one(batch(0))
    head = nf.nn.TiedLogits(other, bias=True)
    other.resize(V)
    with pytest.raises(InputError, match="bias must be one for each object"):
        head(torch.ones(D, dtype=torch.float64))


# -- rows that no batch meets -----------------------------------------------------------------------------------------


def train_some(layer, optimizer=ProxAdam, last=9, steps=6):
    """Train the first rows alone."""
    made = optimizer(layer.parameters(), lr=0.05)
    for step in range(steps):
        descend(made, (layer(batch(step) % last) - 0.5).square().mean())
    return sorted(set(torch.cat([batch(step) % last for step in range(steps)]).tolist()))


@pytest.mark.parametrize(("optimizer", "sparse"), often(EACH, [(ProxSGD, False), (ProxAdam, True)]))
def test_rows_that_no_batch_met_are_neither_counted_nor_exported(optimizer, sparse, tmp_path):
    layer = make(sparse=sparse, padding_idx=20)
    assert layer.nnz == (V - 1) * R  # before training
    assert not layer.unmet.any()
    met = train_some(layer, optimizer)
    never = torch.tensor([row for row in range(V) if row not in [*met, 20]])
    assert torch.nonzero(layer.unmet)[:, 0].tolist() == never.tolist()
    assert not layer.weight[never].any()
    with pytest.warns(NearfarWarning, match=rf"{len(never)} of 23 objects were in no batch; their vectors are 0"):
        exported = layer.export(tmp_path / "t.safetensors")
    assert (exported.nnz, exported.n_parameters) == (layer.nnz, layer.n_parameters)
    assert exported.nnz == sum(len(exported.explain(row)) for row in met) > 0
    assert exported.explain(int(never[0])) == []
    assert layer(never).any(1).all()  # while it is trained they are where they started
    layer.eval()
    assert not layer(never).any()
    assert not layer.logits(torch.eye(D, dtype=torch.float64))[:, never].any()
    assert_allclose(layer(torch.tensor(met)).detach(), exported.vectors[met], rtol=1e-5, atol=1e-6)
    layer.train()
    train_some(layer, optimizer, last=V, steps=20)  # now all are met, from where they started
    assert not layer.unmet.any()


@pytest.mark.parametrize("way", ["state_dict", "deepcopy", "to", "resize"])
def test_which_rows_were_met_is_kept(way):
    layer = make()
    met = train_some(layer)
    expected = layer.unmet.tolist()
    if way == "state_dict":
        other = make(seed=3)
        train_some(other, steps=2)
        other.load_state_dict(layer.state_dict())
    elif way == "deepcopy":
        other = copy.deepcopy(layer)
    elif way == "to":
        other = layer.to(torch.float32)
    else:
        other, expected = layer.resize(V + 2), [*expected, True, True]
    assert other.unmet.tolist() == expected
    assert other.nnz == other.state_dict()["slots.values"][met].count_nonzero() > 0


def test_a_state_from_before_training_is_a_start():
    fresh, other = make(), make(seed=2)
    train_some(other)
    other.load_state_dict(fresh.state_dict())
    assert other.nnz == V * R
    train_some(other)
    assert other.unmet.any()


def test_rows_that_start_from_something_count():
    fitted = AnchorEmbedding.from_pretrained(torch.rand(V, D), K, nnz_per_row=R, freeze=False)
    train_some(fitted)
    assert not fitted.unmet.any()
    anchored = make(anchor_ids=torch.arange(V - K, V))
    train_some(anchored)
    assert not anchored.unmet[V - K :].any()
    assert anchored.unmet[9 : V - K].all()
    whole = make()
    optimizer = ProxAdam(whole.parameters(), lr=0.01)
    whole.logits(torch.ones(D, dtype=torch.float64)).square().sum().backward()  # all are in it
    optimizer.step()
    assert not whole.unmet.any()


# -- vectors that exist -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_pretrained_table_is_fitted_as_compress_fits_it(dtype):
    torch.manual_seed(0)
    kinds = torch.rand(6, 8)
    vectors = (torch.rand(200, 6).relu() * (torch.rand(200, 6) < 0.3) @ kinds + 0.02 * torch.randn(200, 8)).to(dtype)
    torch.manual_seed(7)
    layer = AnchorEmbedding.from_pretrained(vectors, 6, nnz_per_row=4, padding_idx=3)
    error = (layer.weight - vectors)[torch.arange(200) != 3].norm() / vectors.norm()
    found = nf.compress(vectors.numpy(), 6, 4, nonnegative=True, random_state=0).parameters["error_curve"][-1]
    assert float(error) < 2.0 * found
    drawn = AnchorEmbedding.from_pretrained(vectors, 6, nnz_per_row=4, anchor_ids=torch.arange(6))
    assert float(error) < 0.7 * float((drawn.weight - vectors).norm() / vectors.norm())
    assert (layer.columns.sort(dim=1).values.diff(dim=1) > 0).all()
    assert (layer.values >= 0).all()
    assert not layer.values[3].any()
    assert layer.anchor_ids is None
    vectors[5, 2] = float("nan")
    with pytest.raises(InputError, match="vectors must be finite"):
        AnchorEmbedding.from_pretrained(vectors, 6)
