"""Small tables: each against a dense twin, its gradients, its size, its file."""

import io
import pickle

import numpy as np
import pytest
from descent import descend
from numpy.testing import assert_allclose
from quick import with_slow

torch = pytest.importorskip("torch")

from nearfar import Embedding  # noqa: E402
from nearfar._core.arrays import read_arrays, write_arrays  # noqa: E402
from nearfar.errors import FileFormatError, InputError  # noqa: E402
from nearfar.nn import QuantizedEmbedding, SelectionEmbedding  # noqa: E402

V, D = 23, 6
IDS = torch.tensor([[3, 19, 3], [0, 22, 19]])  # repeated, unsorted


def levels_of(layer):
    half = 2 ** (layer.bits - 1)
    levels = (torch.arange(-half, half) + 0.5) / half
    return levels[(layer.vectors.detach()[..., None] - levels).abs().argmin(-1)].double()


def twin_of_whole_numbers(layer):
    levels = levels_of(layer)
    return levels * layer.basis if layer.basis.ndim == 1 else levels @ layer.basis


# The class, its options, the whole table by hand, the number of parameters, how near it comes to a table of its kind.
LAYERS = {
    "whole numbers": (QuantizedEmbedding, {"bits": 3}, twin_of_whole_numbers, V * D + D, 0.3),
    "low rank": (QuantizedEmbedding, {"bits": 2, "rank": 5}, twin_of_whole_numbers, V * 5 + 5 * D, 0.6),
    "entries": (SelectionEmbedding, {}, lambda layer: layer.vectors * layer.kept, V * D, 1e-6),
}
every = pytest.mark.parametrize("name", LAYERS)


def make(name, seed=0, n=V, d=D, **options):
    torch.manual_seed(seed)
    cls, more, *_ = LAYERS[name]
    return cls(n, d, **more, **options).double()


# -- all of them ------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("ids", [IDS, torch.tensor(4), IDS.int(), torch.arange(V).flip(0).repeat(2)])
def test_calls_and_weight_are_those_of_a_dense_table(name, ids):
    layer = make(name)
    dense = LAYERS[name][2](layer).detach()
    assert layer(ids).shape == (*ids.shape, D)
    assert_allclose(layer(ids).detach(), dense[ids.long()], atol=1e-13)
    assert_allclose(layer.weight.detach(), dense, atol=1e-13)
    assert layer(torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, D)
    with pytest.raises(InputError, match=r"weight must be left as it is.*Initialise the parameters of the layer"):
        torch.nn.init.normal_(layer.weight)


@every
def test_the_weight_trains_as_calls_do(name):
    layer = make(name)
    hidden, slopes = torch.randn(5, D, dtype=torch.float64), []
    for rows in (layer.weight, layer(torch.arange(V))):
        layer.zero_grad()
        torch.nn.functional.linear(hidden, rows).square().sum().backward()
        slopes.append([p.grad for p in layer.parameters()])
    for one, other in zip(*slopes, strict=True):
        assert one.any()
        torch.testing.assert_close(one, other)


@every
def test_sizes_and_spreads_are_those_that_were_asked_for(name):
    layer, size = make(name), LAYERS[name][3]
    assert layer.n_parameters == size
    held = sum(t.nbytes for t in layer.state_dict().values())  # with what is kept
    assert layer.nbytes == held >= 8 * size
    assert f"n_parameters={size}" in repr(layer)
    assert make(name, n=4000, d=8, std=0.2).weight.square().mean().sqrt().item() == pytest.approx(0.2, rel=0.25)


@every
def test_padding_is_zero_and_learns_nothing(name):
    layer, plain = make(name, padding_idx=-4), make(name)
    assert layer.padding_idx == V - 4
    found, without = layer(IDS), plain(IDS)
    assert (found[IDS == V - 4] == 0).all()
    assert torch.equal(found[IDS != V - 4], without[IDS != V - 4])
    layer(torch.tensor([V - 4])).sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in layer.parameters())
    made = layer.export()  # rows by number are those of the layer
    assert_allclose(made.vectors, layer.weight.detach(), rtol=1e-5, atol=1e-6)


# A long row, below, is held in five components.
@pytest.mark.parametrize("name", with_slow(["whole numbers", "entries"], slow=["low rank"]))
def test_a_table_of_vectors_that_it_can_hold_is_near_to_them(name):
    goal = make(name, seed=3).weight.detach()
    torch.manual_seed(4)
    cls, options, *_, near = LAYERS[name]
    layer = cls.from_pretrained(goal, **options)
    error = (layer.weight - goal).square().mean().sqrt() / goal.square().mean().sqrt()
    assert error <= near
    assert layer.weight.dtype == torch.float64
    assert not any(p.requires_grad for p in layer.parameters())


@every
def test_a_resized_table_keeps_its_rows_and_trains_on(name):
    layer = make(name, padding_idx=2)
    before = layer.weight.detach()
    assert layer.resize(V + 9) is layer
    now = layer.weight
    assert now.shape == (V + 9, D)
    assert torch.equal(now[:V], before)
    assert now[V:].any(1).all()
    now[V:].sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())
    other = make(name, padding_idx=2).resize(V + 9)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.weight, layer.weight)
    assert torch.equal(layer.resize(11).weight, before[:11])


# -- selection --------------------------------------------------------------------------------------------------------


def test_gradients_of_kept_entries_are_those_of_finite_differences():
    layer = make("entries")
    layer.prune(0.3)
    start = layer.vectors.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda p: torch.func.functional_call(layer, {"vectors": p}, (IDS,)), start)
    layer.penalty().backward()
    assert torch.equal(layer.vectors.grad, layer.vectors.detach().sign())


def test_what_is_pruned_stays_zero_and_is_not_counted():
    layer = make("entries")
    threshold = layer.scores.median().item()
    left = layer.vectors.detach().abs() > threshold
    layer.prune(threshold)
    assert layer.n_parameters == left.sum()
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(3):
        descend(optimizer, (layer(torch.arange(V)) - 1).square().sum())
    table = layer.weight
    assert not table[~left].any()
    assert (table[left] != 0).all()
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    again = make("entries", seed=1)
    again.load_state_dict(torch.load(buffer, weights_only=True))
    assert again.n_parameters == layer.n_parameters
    assert torch.equal(again.weight, table)
    assert not list(layer.buffers())


# -- whole numbers of a few bits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_gradients_pass_whole_numbers_as_if_nothing_were_rounded(bits, rank):
    torch.manual_seed(1)
    layer = QuantizedEmbedding(V, D, bits=bits, rank=rank).double()
    with torch.no_grad():
        layer.vectors[3, :2] = torch.tensor([1.7, -1.7])  # outside: only what leads back has a gradient
        layer.basis[:2].abs_()
    slope = torch.randn(*IDS.shape, D, dtype=torch.float64)
    slope[IDS == 3] = 1.0
    layer(IDS).backward(slope)
    of_rows = torch.zeros(V, D, dtype=torch.float64).index_add_(0, IDS.flatten(), slope.reshape(-1, D))
    matrix = torch.diag(layer.basis) if rank is None else layer.basis
    exact = of_rows @ matrix.detach().T
    inside = (layer.vectors.detach().abs() <= 1) | (layer.vectors.detach() * exact > 0)
    assert_allclose(layer.vectors.grad, exact * inside, atol=1e-13)
    assert not inside.all()
    of_basis = levels_of(layer).T @ of_rows
    assert_allclose(layer.basis.grad, torch.diag(of_basis) if rank is None else of_basis, atol=1e-13)


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("bits", [1, 3, 4, 8])
def test_whole_numbers_are_stored_as_they_were_trained(bits, rank, tmp_path):
    torch.manual_seed(2)
    layer = QuantizedEmbedding(V, D, bits=bits, rank=rank, padding_idx=4)
    names = [f"w{i}" for i in range(V)]
    made = layer.export(tmp_path / "x.safetensors", names)
    assert made.ids.to_list() == names
    assert_allclose(made.vectors, layer.weight.detach(), rtol=1e-5, atol=1e-6)
    n_codes = rank or D
    assert made.nbytes == layer.stored_nbytes == V * (-(-n_codes * bits // 8) + 1) + 4 * n_codes * (D if rank else 1)

    loaded = Embedding.load(tmp_path / "x.safetensors")
    assert loaded.equals(made)
    assert loaded.nbytes == made.nbytes
    assert loaded.parameters["bits"] == bits
    assert isinstance(loaded._vectors.codes.base, np.memmap)
    plain = Embedding(made.vectors, made.ids)
    assert loaded.most_similar("w7") == plain.most_similar("w7")
    assert_allclose(loaded[["w9", "w0"]], [made["w9"], made["w0"]], rtol=0)
    part = loaded.subset(["w9", "w0"])
    part.save(tmp_path / "part.safetensors")
    assert Embedding.load(tmp_path / "part.safetensors").equals(part)
    assert part.nbytes < made.nbytes
    loaded.save(tmp_path / "x.npz")
    assert Embedding.load(tmp_path / "x.npz").equals(plain)
    assert pickle.loads(pickle.dumps(loaded)).equals(made)
    assert made.quantize("int8").parameters["quantize_error"] < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("rank", with_slow([5], slow=[None]))
def test_one_long_row_costs_the_others_nothing(rank, tmp_path):
    torch.manual_seed(3)
    goal, errors = torch.randn(100, 5) @ torch.randn(5, 16), []
    for factor in (1.0, 1000.0):
        goal[7] *= factor
        torch.manual_seed(4)
        layer = QuantizedEmbedding.from_pretrained(goal, rank=rank)
        error = (layer.weight - goal).norm(dim=1) / goal.norm(dim=1)
        errors.append(error.mean().item())
        assert error[7] < 0.25
        assert_allclose(layer.export(tmp_path / "x.safetensors").vectors, layer.weight.detach(), rtol=1e-5, atol=1e-5)
        assert Embedding.load(tmp_path / "x.safetensors").equals(layer.export())
        fresh = QuantizedEmbedding(100, 16, rank=rank)
        fresh.load_state_dict(layer.state_dict())  # scales come along, and go
        assert torch.equal(fresh.weight, layer.weight)
        layer.load_state_dict(QuantizedEmbedding(100, 16, rank=rank).state_dict())
        assert layer.resize(101).weight.norm(dim=1).max() < 100
    assert errors[1] < 1.1 * errors[0] < 0.2


@pytest.mark.parametrize("start", [{}, {"padding_idx": 3}])
@pytest.mark.parametrize("rank", [None, 5])
@pytest.mark.parametrize("bits", [1, 3, 4, 8])
def test_a_packed_table_is_the_same_and_as_small_as_it_says(bits, rank, start):
    torch.manual_seed(2)
    layer = QuantizedEmbedding(V, D, bits=bits, rank=rank, **start)
    before, made, size = layer.weight.detach(), layer.export(), layer.n_parameters
    assert layer.pack() is layer.pack() is layer
    assert_allclose(layer.weight.detach(), before, rtol=1e-6)
    assert layer(IDS).requires_grad  # the basis still is
    assert layer.n_parameters == size
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    held = sum(part.nbytes for part in layer.state_dict().values())
    assert held == layer.nbytes == layer.stored_nbytes == made.nbytes
    assert layer.export().equals(made)
    buffer.seek(0)
    state = torch.load(buffer, weights_only=True)
    with torch.device("meta"):
        other = QuantizedEmbedding(V, D, bits=bits, rank=rank, **start)
    for found, options in ((QuantizedEmbedding(V, D, bits=bits, rank=rank, **start), {}), (other, {"assign": True})):
        found.load_state_dict(state, **options)
        assert torch.equal(found(IDS), layer(IDS))
    with pytest.raises(InputError, match=r"load_state_dict: state must be .* bytes; got"):
        QuantizedEmbedding(V + 1, D, bits=bits, rank=rank).load_state_dict(state)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, m: a.pop("basis"),
        lambda a, m: a.update(codes=a["codes"].astype(np.int8)),
        lambda a, m: a.update(codes=a["codes"][:, 1:].copy()),
        lambda a, m: a.update(codes=a["codes"].ravel()),
        lambda a, m: a.update(basis=np.full(D, np.nan, np.float32)),
        lambda a, m: a.update(basis=np.full(D, 3e38, np.float32)),
        lambda a, m: a.update(basis=np.zeros((0, D), np.float32)),
        lambda a, m: a.update(scales=np.ones(V + 1, np.uint8)),
        lambda a, m: a.update(scales=np.ones(V, np.int8)),
        lambda a, m: m.update(bits="9"),
        lambda a, m: m.update(bits="-4"),
        lambda a, m: m.update(version="2"),
        lambda a, m: m.update(ids=""),
    ],
)
def test_damaged_files_of_whole_numbers(change, tmp_path):
    QuantizedEmbedding(V, D).export(tmp_path / "x.safetensors")
    arrays, metadata = read_arrays(tmp_path / "x.safetensors")
    metadata.pop("checksum")
    change(arrays, metadata)
    write_arrays("test", tmp_path / "x.safetensors", arrays, metadata)
    with pytest.raises(FileFormatError):
        Embedding.load(tmp_path / "x.safetensors")
