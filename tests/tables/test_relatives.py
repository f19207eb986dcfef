"""Small tables by other people: each against a dense twin, its gradients, its size, its file, and what it refuses."""

import io
import math
import pickle

import numpy as np
import pytest
from descent import descend
from numpy.testing import assert_allclose
from refusals import refusals

torch = pytest.importorskip("torch")

from nearfar import Embedding  # noqa: E402
from nearfar._core.arrays import read_arrays, write_arrays  # noqa: E402
from nearfar.errors import FileFormatError, InputError  # noqa: E402
from nearfar.nn import (  # noqa: E402
    BucketEmbedding,
    HashEmbedding,
    LowRankEmbedding,
    MixedDimensionEmbedding,
    QuantizedEmbedding,
    QuotientRemainderEmbedding,
    SelectionEmbedding,
    TensorTrainEmbedding,
    VocabularyDropoutEmbedding,
)

V, D = 23, 6
IDS = torch.tensor([[3, 19, 3], [0, 22, 19]])  # repeated, unsorted
COUNTS = torch.tensor([1, 9, 2, 2, 7, 20, 3, 1, 1, 4, 12, 5, 1, 1, 2, 1, 15, 3, 2, 1, 8, 1, 2])


def twin_of_hashes(layer):
    p, b, (a, c) = layer.importance, layer.buckets, layer.hashes.T.tolist()
    n = len(b)
    return [
        sum(p[i, j] * b[((a[j] * i + c[j]) % (2**31 - 1)) % n] for j in range(p.shape[1]))
        for i in range(layer.num_embeddings)
    ]


def twin_of_buckets(layer):
    return [layer.vectors[row] for row in layer.place.tolist()]


def twin_of_mixed_dimensions(layer):
    rows = []
    for block, place in zip(layer.block_of.tolist(), layer.place.tolist(), strict=True):
        row = layer.blocks[block][place]
        rows.append(row if len(row) == layer.embedding_dim else row @ layer.maps[str(block)])
    return rows


def twin_of_low_rank(layer):
    return list(layer.vectors @ layer.map)


def levels_of(layer):
    half = 2 ** (layer.bits - 1)
    levels = (torch.arange(-half, half) + 0.5) / half
    return levels[(layer.vectors.detach()[..., None] - levels).abs().argmin(-1)].double()


def twin_of_whole_numbers(layer):
    levels = levels_of(layer)
    return list(levels * layer.basis if layer.basis.ndim == 1 else levels @ layer.basis)


def twin_of_a_tensor_train(layer):
    rows = []
    for digits in list(np.ndindex(*layer.row_shape))[: layer.num_embeddings]:
        cells = []
        for parts in np.ndindex(*layer.dim_shape):
            product = torch.eye(1, dtype=torch.float64)
            for core, i, j in zip(layer.cores, digits, parts, strict=True):
                product = product @ core[:, i, j]
            cells.append(product[0, 0])
        rows.append(torch.stack(cells))
    return rows


def twin_of_quotients(layer):
    m = len(layer.remainders)
    return [layer.quotients[i // m] * layer.remainders[i % m] for i in range(layer.num_embeddings)]


def twin_of_a_selection(layer):
    return list(layer.vectors * layer.kept)


LAYERS = {
    "hashes": (lambda **o: HashEmbedding(V, D, 7, n_hashes=3, **o), twin_of_hashes, 7 * D + V * 3),
    "buckets": (lambda **o: BucketEmbedding(V, D, COUNTS, 4, n_buckets=5, **o), twin_of_buckets, (4 + 5) * D),
    "mixed dimensions": (
        lambda **o: MixedDimensionEmbedding(V, D, COUNTS, n_blocks=4, temperature=0.6, **o),
        twin_of_mixed_dimensions,
        2 * 6 + 2 * 6 + (4 * 4 + 4 * D) + (15 * 2 + 2 * D),  # a quarter of the mass each; 6 (4 / 2)^-0.6 is nearly 4
    ),
    "low rank": (lambda **o: LowRankEmbedding(V, D, 2, **o), twin_of_low_rank, V * 2 + 2 * D),
    "whole numbers": (lambda **o: QuantizedEmbedding(V, D, bits=3, **o), twin_of_whole_numbers, V * D + D),
    "whole numbers, low rank": (
        lambda **o: QuantizedEmbedding(V, D, bits=2, rank=5, **o),
        twin_of_whole_numbers,
        V * 5 + 5 * D,
    ),
    "tensor train": (
        lambda **o: TensorTrainEmbedding(V, D, (2, 3, 4), (1, 3, 2), 3, **o),
        twin_of_a_tensor_train,
        2 * 1 * 3 + 3 * 3 * 3 * 3 + 3 * 4 * 2,
    ),
    "quotients": (lambda **o: QuotientRemainderEmbedding(V, D, 9, **o), twin_of_quotients, (3 + 9) * D),
    "entries": (lambda **o: SelectionEmbedding(V, D, **o), twin_of_a_selection, V * D),
    "rows": (lambda **o: SelectionEmbedding(V, D, unit="rows", **o), twin_of_a_selection, V * D),
    "noise": (lambda **o: VocabularyDropoutEmbedding(V, D, **o).eval(), twin_of_a_selection, V * D),
}
PRETRAINED = {
    "hashes": {"n_buckets": 7, "n_hashes": 3},
    "buckets": {"counts": COUNTS, "n_frequent": 4, "n_buckets": 5},
    "mixed dimensions": {"counts": COUNTS, "n_blocks": 4, "temperature": 0.6},
    "low rank": {"rank": 2},
    "whole numbers": {"bits": 3},
    "whole numbers, low rank": {"bits": 2, "rank": 5},
    "tensor train": {"row_shape": (2, 3, 4), "dim_shape": (1, 3, 2), "rank": 3},
    "quotients": {"n_remainders": 9},
    "entries": {},
    "rows": {"unit": "rows"},
    "noise": {},
}
every = pytest.mark.parametrize("name", LAYERS)


def make(name, seed=0, **options):
    torch.manual_seed(seed)
    return LAYERS[name][0](**options).double()


def dense(name, layer):
    return torch.stack(LAYERS[name][1](layer))


# -- all of them ------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("ids", [IDS, IDS[0], torch.tensor(4), IDS.int(), torch.arange(V).flip(0).repeat(2)])
def test_a_call_gives_the_rows_of_a_dense_table(name, ids):
    layer = make(name)
    found = layer(ids)
    assert found.shape == (*ids.shape, D)
    assert_allclose(found.detach(), dense(name, layer)[ids.long()].detach(), atol=1e-13)
    assert layer(torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, D)


@every
def test_the_weight_is_all_rows_and_trains_as_calls_do(name):
    layer = make(name)
    assert_allclose(layer.weight.detach(), dense(name, layer).detach(), atol=1e-13)
    hidden, slopes = torch.randn(5, D, dtype=torch.float64), []
    for rows in (layer.weight, layer(torch.arange(V))):
        layer.zero_grad()
        torch.nn.functional.linear(hidden, rows).square().sum().backward()
        slopes.append([p.grad for p in layer.parameters() if p.grad is not None])
    assert len(slopes[0]) >= 1
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(InputError, match=r"weight must be left as it is.*Initialise the parameters of the layer"):
        torch.nn.init.normal_(layer.weight)


@every
def test_sizes_are_those_of_the_formulas(name):
    layer, size = make(name), LAYERS[name][2]
    assert layer.n_parameters == size
    kinds = {t.dtype for t in layer.parameters()}
    assert kinds == {torch.float64}
    held = sum(t.nbytes for t in layer.state_dict().values())  # with hash functions, places, what is kept
    assert layer.nbytes == held >= 8 * size
    assert f"n_parameters={size}" in repr(layer)


@pytest.mark.parametrize("name", [name for name in LAYERS if not name.startswith("whole numbers")])
def test_gradients_are_those_of_finite_differences(name):
    layer = make(name)
    names, starts = zip(*((n, p.detach().clone()) for n, p in layer.named_parameters() if n != "log_rate"), strict=True)

    def call(*parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, given, (IDS,))

    assert torch.autograd.gradcheck(call, [s.requires_grad_() for s in starts])


@every
def test_a_stored_state_gives_the_same_table(name):
    layer, other = make(name), make(name, seed=1)
    assert not torch.equal(layer.weight, other.weight)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(layer.weight, other.weight)
    assert layer.n_parameters == other.n_parameters


@every
def test_padding_is_zero_and_learns_nothing(name):
    layer, plain = make(name, padding_idx=-4), make(name)
    assert layer.padding_idx == V - 4
    found, without = layer(IDS), plain(IDS)
    assert (found[IDS == V - 4] == 0).all()
    assert torch.equal(found[IDS != V - 4], without[IDS != V - 4])
    layer(torch.tensor([V - 4])).sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in layer.parameters())


@every
def test_a_table_starts_with_the_deviation_that_is_asked_for(name):
    options = {"hashes": {"n_hashes": 2}}
    large = {
        "hashes": lambda std: HashEmbedding(4000, 8, 900, std=std, **options["hashes"]),
        "buckets": lambda std: BucketEmbedding(4000, 8, torch.rand(4000), 300, n_buckets=500, std=std),
        "mixed dimensions": lambda std: MixedDimensionEmbedding(4000, 8, torch.rand(4000), n_blocks=3, std=std),
        "low rank": lambda std: LowRankEmbedding(4000, 8, 4, std=std),
        "whole numbers": lambda std: QuantizedEmbedding(4000, 8, std=std),
        "whole numbers, low rank": lambda std: QuantizedEmbedding(4000, 8, bits=2, rank=6, std=std),
        "tensor train": lambda std: TensorTrainEmbedding(4000, 8, (16, 16, 16), (2, 2, 2), 12, std=std),
        "quotients": lambda std: QuotientRemainderEmbedding(4000, 8, 60, std=std),
        "entries": lambda std: SelectionEmbedding(4000, 8, std=std),
        "rows": lambda std: SelectionEmbedding(4000, 8, unit="rows", std=std),
        "noise": lambda std: VocabularyDropoutEmbedding(4000, 8, std=std),
    }[name]
    torch.manual_seed(0)
    assert large(0.2).weight.square().mean().sqrt().item() == pytest.approx(0.2, rel=0.25)


@every
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.tensor([0, V]), "ids from 0 to 23"),
        (torch.tensor([-1] * 30), "ids from -1 to -1"),
        (torch.tensor([0.5]), "integers"),
        ([1, 2], "tensor"),
        (torch.zeros(2, dtype=torch.long, device="meta"), "device"),
    ],
)
def test_ids_that_are_none_are_refused(name, ids, message):
    with pytest.raises(InputError, match=message):
        make(name)(ids)


NEAR = {"hashes": 0.35, "whole numbers": 0.3, "whole numbers, low rank": 0.6, "tensor train": 0.2, "quotients": 0.2}


@every
def test_a_table_of_vectors_that_it_can_hold_is_near_to_them(name):
    goal = make(name, seed=3).weight.detach()
    torch.manual_seed(4)
    layer = type(make(name)).from_pretrained(goal, **PRETRAINED[name])
    error = (layer.weight - goal).square().mean().sqrt() / goal.square().mean().sqrt()
    assert error <= NEAR.get(name, 1e-6)
    assert layer.weight.dtype == torch.float64
    assert not any(p.requires_grad for p in layer.parameters())
    with pytest.raises(InputError, match="vectors must be finite"):
        type(layer).from_pretrained(goal / 0, **PRETRAINED[name])


@every
def test_a_resized_table_keeps_its_rows_and_trains_on(name):
    layer = make(name, padding_idx=2)
    before, most = layer.weight.detach(), 24 if name == "tensor train" else V + 9
    assert layer.resize(most) is layer
    now = layer.weight
    assert now.shape == (most, D)
    assert torch.equal(now[:V], before)
    assert now[V:].any(1).all()
    now[V:].sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.grad is not None)
    other = make(name, padding_idx=2).resize(most)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.weight, layer.weight)
    assert torch.equal(layer.resize(11).weight, before[:11])
    with pytest.raises(InputError, match="num_embeddings must be above padding, 2"):
        layer.resize(2)


test_arguments_that_cannot_be_used_are_named = refusals(
    lambda call: call(),
    [
        (lambda: LowRankEmbedding(0, D, 1), "num_embeddings"),
        (lambda: LowRankEmbedding(V, D, D + 1), "rank"),
        (lambda: QuantizedEmbedding(V, D, rank=D + 1), "rank"),
        (lambda: QuantizedEmbedding(V, D, bits=9), "bits"),
        (lambda: QuantizedEmbedding(V, D, bits=0), "bits"),
        (lambda: LowRankEmbedding(V, D, 2, std=0), "std"),
        (lambda: LowRankEmbedding(V, D, 2, padding_idx=V), "padding_idx"),
        (lambda: HashEmbedding(V, D, 0), "n_buckets"),
        (lambda: HashEmbedding(V, D, 5, n_hashes=0), "n_hashes"),
        (lambda: BucketEmbedding(V, D, COUNTS[1:], 4), "counts"),
        (lambda: BucketEmbedding(V, D, -COUNTS, 4), "counts"),
        (lambda: BucketEmbedding(V, D, COUNTS, V + 1), "n_frequent"),
        (lambda: MixedDimensionEmbedding(V, D, 0 * COUNTS), "counts"),
        (lambda: MixedDimensionEmbedding(V, D, COUNTS / 0), "counts"),
        (lambda: MixedDimensionEmbedding(V, D, COUNTS, n_blocks=0), "n_blocks"),
        (lambda: MixedDimensionEmbedding(V, D, COUNTS, temperature=-1), "temperature"),
        (lambda: MixedDimensionEmbedding(V, D, COUNTS, base_dim=0), "base_dim"),
        (lambda: TensorTrainEmbedding(V, D, (2, 3), (2, 3), 2), "row_shape"),
        (lambda: TensorTrainEmbedding(V, D, (5, 5), (2, 2), 2), "dim_shape"),
        (lambda: TensorTrainEmbedding(V, D, (5, 5), (1, 2, 3), 2), "dim_shape"),
        (lambda: TensorTrainEmbedding(V, D, 25, (6,), 2), "row_shape"),
        (lambda: TensorTrainEmbedding(V, D, (5, 5), (2, 3), 0), "rank"),
        (lambda: QuotientRemainderEmbedding(V, D, V + 1), "n_remainders"),
        (lambda: SelectionEmbedding(V, D, unit="columns"), "unit"),
        (lambda: SelectionEmbedding(V, D).shrink(-1), "threshold"),
        (lambda: SelectionEmbedding(V, D).prune(math.nan), "threshold"),
    ],
)


# -- one by one -------------------------------------------------------------------------------------------------------


def test_hash_functions_spread_objects_and_differ():
    layer = HashEmbedding(10_000, 2, 50)
    from nearfar.tables.relatives import hashed

    buckets = hashed(torch.arange(10_000), layer.hashes, 50)
    for j in range(2):
        sizes = buckets[:, j].bincount(minlength=50)
        assert 100 < sizes.min() <= sizes.max() < 400
    assert (buckets[:, 0] == buckets[:, 1]).float().mean() < 0.1


def test_frequent_objects_have_rows_of_their_own():
    layer = make("buckets")
    assert layer.place[[5, 16, 10, 1]].tolist() == [0, 1, 2, 3]
    rest = np.delete(layer.place.numpy(), [5, 16, 10, 1])
    assert rest.min() >= 4
    assert rest.max() < 9


def test_blocks_have_equal_mass_and_dimensions_fall_with_their_size():
    layer = make("mixed dimensions")
    mass = np.zeros(len(layer.blocks))
    np.add.at(mass, layer.block_of.numpy(), COUNTS.numpy())
    begins = np.cumsum(mass) - mass
    share = int(COUNTS.sum()) / 4
    assert (np.diff(begins // share) >= 1).all()  # a block ends with the object that crosses its share
    sizes = np.array([len(block) for block in layer.blocks])
    exact = D * (sizes / sizes[0]) ** -0.6
    for block, wanted in zip(layer.blocks, exact, strict=True):
        assert block.shape[1] == min(2 ** max(round(math.log2(wanted)), 0), D)
    flat = MixedDimensionEmbedding(V, 8, COUNTS, temperature=0.0)
    assert len(flat.maps) == 0
    assert flat.n_parameters == 8 * V
    assert all(b.shape[1] == 4 for b in MixedDimensionEmbedding(V, 8, COUNTS, temperature=0.0, base_dim=4).blocks)


def test_codes_tell_all_objects_apart():
    layer = make("quotients")
    assert len(torch.unique(layer.weight, dim=0)) == V


@pytest.mark.parametrize("unit", ["entries", "rows"])
def test_shrinking_is_the_proximal_step_of_the_penalty(unit):
    layer = make("entries" if unit == "entries" else "rows")
    before, by = layer.vectors.detach().clone(), 0.7 if unit == "entries" else 2.0
    layer.shrink(by)
    after = layer.vectors.detach().clone().requires_grad_()
    other = SelectionEmbedding(V, D, unit=unit).double()
    other.load_state_dict({"vectors": after, "kept": layer.kept})
    other.penalty().backward()
    slope, left = other.vectors.grad, after.detach() != 0  # where it is not 0: after - before + by slope = 0
    assert 0 < left.sum() < V * D
    assert_allclose((after.detach() - before + by * slope)[left], 0, atol=1e-12)
    lengths = before.abs() if unit == "entries" else before.norm(dim=1, keepdim=True).expand(V, D)
    assert torch.equal(left, lengths > by)
    assert layer.n_parameters == left.sum()


@pytest.mark.parametrize("name", ["entries", "rows", "noise"])
def test_what_is_pruned_stays_zero_and_is_not_counted(name):
    layer = make(name)
    if name == "noise":
        layer.log_rate.data.normal_()
    threshold = layer.scores.median().item()
    left = layer.scores > threshold
    layer.prune(threshold)
    assert layer.n_parameters == left.sum() * (1 if name == "entries" else D)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(3):
        descend(optimizer, (layer(torch.arange(V)) - 1).square().sum())
    table = layer.weight
    assert not table[~left.expand(V, D)].any()
    assert (table[left.expand(V, D)] != 0).all()
    again = make(name)
    again.load_state_dict(layer.state_dict())
    assert again.n_parameters == layer.n_parameters


def test_noise_is_there_in_training_only():
    layer = make("noise").train()
    clean = layer.weight.detach()
    assert torch.equal(layer.weight, clean)
    draws = torch.stack([layer(torch.arange(V)) for _ in range(1000)]).detach()
    assert_allclose(draws.mean(0), clean, atol=0.03)
    ratio = (draws.std(0) / clean.abs()).flatten()
    assert_allclose(ratio, math.exp(-1.5), rtol=0.1)
    layer(torch.arange(V)).square().sum().backward()
    assert layer.log_rate.grad.all()


def test_the_divergence_is_that_of_the_prior():
    # KL of N(1, a) from the prior 1/|x|: E log|1 + sqrt(a) z| - log(a)/2 + constant, by quadrature.
    z = torch.linspace(-9, 9, 400_001, dtype=torch.float64)
    weight = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])

    def exact(log_rate):
        a = math.exp(log_rate)
        return -0.5 * log_rate + (weight * torch.log((1 + math.sqrt(a) * z).abs().clamp_min(1e-300))).sum().item()

    layer = VocabularyDropoutEmbedding(1, 2).double()
    far = exact(10.0)  # nearly 0 there
    for log_rate in (-8.0, -3.0, -1.0, 0.0, 1.0, 3.0):
        layer.log_rate.data.fill_(log_rate)
        assert layer.divergence().item() == pytest.approx(exact(log_rate) - far, abs=0.02)


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
    assert made.ids.to_list() == [name for name in names if name != "w4"]
    kept = torch.arange(V) != 4
    assert_allclose(made.vectors, layer.weight.detach()[kept], rtol=1e-5, atol=1e-6)
    n_codes = rank or D
    assert made.nbytes == layer.stored_nbytes == (V - 1) * -(-n_codes * bits // 8) + 4 * n_codes * (D if rank else 1)
    assert layer.export().ids.to_list() == [i for i in range(V) if i != 4]

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


@pytest.mark.parametrize("rank", [None, 5])
@pytest.mark.parametrize("bits", [1, 3, 4, 8])
def test_a_packed_table_is_the_same_and_as_small_as_it_says(bits, rank):
    torch.manual_seed(2)
    layer = QuantizedEmbedding(V, D, bits=bits, rank=rank)
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
        other = QuantizedEmbedding(V, D, bits=bits, rank=rank)
    for found, options in ((QuantizedEmbedding(V, D, bits=bits, rank=rank), {}), (other, {"assign": True})):
        found.load_state_dict(state, **options)
        assert torch.equal(found(IDS), layer(IDS))
    with pytest.raises(InputError, match=r"load_state_dict: state must be .* bytes; got"):
        QuantizedEmbedding(V + 1, D, bits=bits, rank=rank).load_state_dict(state)


@pytest.mark.parametrize("name", [name for name in LAYERS if make(name).state_dict().get("_extra_state") is not None])
def test_states_that_held_buffers_are_read(name):
    layer, other = make(name), make(name, seed=1)
    state = layer.state_dict()
    del state["_extra_state"]
    other.load_state_dict({**state, **layer._codes})
    assert torch.equal(layer.weight, other.weight)
    assert not list(layer.buffers())


def test_training_on_whole_numbers_finds_a_table_of_such():
    torch.manual_seed(0)
    goal = torch.randint(0, 4, (300, 4)).float() - 1.5
    layer = QuantizedEmbedding(300, 4, bits=2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    ids = torch.arange(300)
    for step in range(200):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 * (1 - step / 200)
        descend(optimizer, (layer(ids) - goal).square().mean())
    found = torch.from_numpy(layer.export().vectors)
    of_one_bit = goal.sign() * goal.abs().mean()
    assert (found - goal).square().mean() < 0.02 < (of_one_bit - goal).square().mean()


def test_a_table_that_has_failed_is_not_exported(tmp_path):
    layer = QuantizedEmbedding(V, D)
    with torch.no_grad():
        layer.vectors[3, 2] = torch.nan
    with pytest.raises(InputError, match=r"QuantizedEmbedding.export: parameters must be finite"):
        layer.export(tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"QuantizedEmbedding.export: ids must be 23, one for each; got 2"):
        QuantizedEmbedding(V, D).export(ids=["a", "b"])
    assert not list(tmp_path.iterdir())


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


@pytest.mark.parametrize("reentrant", [False, True])
def test_noise_does_not_follow_the_grad_mode(reentrant):
    from torch.utils.checkpoint import checkpoint

    table, ids = VocabularyDropoutEmbedding(20, 3), torch.tensor([1, 4, 4, 7])

    def checkpointed(ids):  # torch asks for an input with a gradient
        return checkpoint(lambda _one, ids: table(ids), torch.ones(1, requires_grad=True), ids, use_reentrant=reentrant)

    found = []
    for call in (table, checkpointed):
        torch.manual_seed(3)
        table.zero_grad()
        rows = call(ids)
        rows.square().sum().backward()
        found.append((rows.detach(), table.vectors.grad.clone()))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    with torch.no_grad():
        assert not torch.equal(table(ids), table.weight[ids])
    assert torch.equal(table.eval()(ids), table.weight[ids])
