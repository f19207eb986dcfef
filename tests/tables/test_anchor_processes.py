"""Anchor embeddings in two processes under DistributedDataParallel, against one process with the joined batch."""

import traceback

import pytest

torch = pytest.importorskip("torch")

from hazards import leave_group  # noqa: E402

from nearfar.errors import InputError, NumericalError  # noqa: E402
from nearfar.nn import NBANT, AnchorEmbedding, ProxAdam  # noqa: E402

V, D, K = 30, 4, 6
STEPS = 14


class Model(torch.nn.Module):
    """Scores by a table, or, tied, over all objects through the same table."""

    def __init__(self, r: int, tied: bool = False, k: int = K, sparse: bool = True) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.table = AnchorEmbedding(V, D, k, nnz_per_row=r, penalty=0.05, dtype=torch.float64, sparse=sparse)
        self.head = torch.nn.Linear(D, D, dtype=torch.float64)
        self.tied = tied

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.head(self.table(ids))
        return self.table.logits(hidden) if self.tied else hidden


def batch(step: int, rank: int | None, apart: bool) -> torch.Tensor:
    """Objects of a process or of both; apart: none in both, otherwise the second process has none in step 3."""
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(V // 2, (2, 6), generator=generator)
    ids = 2 * ids + torch.arange(2)[:, None] if apart else 3 * (ids % 5)
    if not apart and step == 3:
        return ids[0] if rank == 0 else ids[0, :0]
    return ids.flatten() if rank is None else ids[rank]


def train(model, rank, apart, between=lambda step, table: None):
    """Train; return what must be the same everywhere."""
    table = model.table if isinstance(model, Model) else model.module.table
    optimizer = ProxAdam(model.parameters(), lr=0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        ids = batch(step, rank, apart)
        loss = (model(ids) - 1).square().sum() / 6
        (loss / 2 if rank is None else loss).backward()  # gradients are averaged over processes
        optimizer.step()
        between(step, table)
    state = optimizer.state[table.values]
    return {
        "values": table.values.detach(),
        "columns": table.columns,
        "anchors": table.anchors.detach(),
        "paid": table._shrinkage.applied,
        "m": state["m"],
        "v": state["v"],
        "weight": table.weight,
    }


def save_alone(step, table, rank):
    """The first process alone saves; anchors are switched off and on in both."""
    if rank == 0 and step == 12:
        table.state_dict()
    if step in (8, 11):
        table.n_active = 4 if step == 8 else K


LOSSES = [(5, 3), (4, 4.5), (6, 1), (3, 5), (9, 1), (2, 9), (9, 9), (1, 9)]  # apart they would decide otherwise


def search(model, rank):
    """Find a number of anchors by losses that differ between the processes; return what each epoch was."""
    layer = model.table if rank is None else model.module.table
    nbant = NBANT(layer, anchor_price=0.05, penalty=0, initial=2)
    optimizer = ProxAdam(model.parameters(), lr=0.05)
    for epoch, losses in enumerate(LOSSES):
        optimizer.zero_grad()
        loss = (model(batch(epoch, rank, True)) - 1).square().sum() / 6
        (loss / 2 if rank is None else loss).backward()
        optimizer.step()
        nbant.step(sum(losses) / 2 if rank is None else losses[rank])
    return nbant


def process(rank: int, init: str, folder: str) -> None:
    """Store what one of two processes finds, or why it stopped."""
    torch.set_num_threads(1)
    found = {}
    try:
        torch.distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=2)
        wrap = torch.nn.parallel.DistributedDataParallel
        found["free"] = train(wrap(Model(2)), rank, False, lambda step, table: save_alone(step, table, rank))
        found["tied"] = train(wrap(Model(3, tied=True)), rank, False)
        found["apart"] = train(wrap(Model(2)), rank, True)
        found["full"] = train(wrap(Model(K)), rank, True)
        found["dense"] = train(wrap(Model(2, sparse=False)), rank, True)
        found["tied, dense"] = train(wrap(Model(3, tied=True, sparse=False)), rank, False)
        try:
            train(Model(2), rank, True)
        except InputError as error:
            found["unwrapped"] = str(error)
        nbant = search(wrap(Model(K, sparse=False)), rank)
        found["nbant"], found["n_active"] = nbant.history, nbant.layers[0].n_active
        for bad in (torch.nan, "high"):
            try:
                nbant.step(bad if rank == 0 else torch.tensor(1.0))
            except (InputError, NumericalError) as error:
                found[f"nbant, {bad}"] = str(error)
        found["then"] = len(nbant.history)
        found["many"] = wrap(Model(2, k=V)).module.table.columns  # of another type
        found["state"] = wrap(Model(2)).state_dict()
    except Exception:
        found = {"error": traceback.format_exc()}
    torch.save(found, f"{folder}/{rank}.pt")
    leave_group(folder)


@pytest.fixture(scope="module")
def two_processes(in_two_processes):
    return in_two_processes(process)


@pytest.mark.parametrize("way", ["free", "tied", "apart", "full", "dense", "tied, dense"])
def test_tables_are_the_same_to_the_bit(two_processes, way):
    first, second = (result[way] for result in two_processes)
    assert first.keys() == second.keys()
    for name, part in first.items():
        assert torch.equal(part, second[name]), name
    start = Model({"tied": 3, "tied, dense": 3, "full": K}.get(way, 2)).table
    assert way == "full" or not torch.equal(first["columns"], start.columns)  # slots went to other anchors
    assert (first["weight"] - start.weight).abs().max() > 0.1


@pytest.mark.parametrize(("way", "r"), [("apart", 2), ("full", K), ("dense", 2)])
def test_two_processes_are_one_with_the_joined_batch(two_processes, way, r):
    joined = train(Model(r), None, True)
    torch.testing.assert_close(two_processes[0][way], joined)


def test_the_number_of_anchors_is_found_alike_in_all_processes(two_processes):
    alone = search(Model(K), None)
    for result in two_processes:
        assert [record["n_anchors"] for record in result["nbant"]] == [record["n_anchors"] for record in alone.history]
        assert [record["loss"] for record in result["nbant"]] == [record["loss"] for record in alone.history]
        assert [record["nnz"] for record in result["nbant"]] == [record["nnz"] for record in alone.history]
        assert result["n_active"] == alone.layers[0].n_active
        assert "the validation loss is nan after epoch 9" in result["nbant, nan"]
        assert result["then"] == 8  # nothing was recorded
    assert "validation_loss must be a finite number" in two_processes[0]["nbant, high"]
    assert "the validation loss is nan after epoch 9" in two_processes[1]["nbant, high"]
    assert len({tuple(record["n_anchors"]) for record in alone.history}) > 2


def test_models_that_are_not_wrapped_are_refused_in_all_processes(two_processes):
    for result in two_processes:
        assert "the gradient of T must be the same in all processes" in result["unwrapped"]
        assert "Wrap the model in torch.nn.parallel.DistributedDataParallel" in result["unwrapped"]


def test_a_state_saved_by_a_wrapped_model(two_processes):
    state = two_processes[0]["state"]
    with pytest.raises(RuntimeError, match=r"(?s)Missing key.*table\.anchors.*Unexpected key.*module\.table\.anchors"):
        Model(2).load_state_dict(state)
    model = Model(2)
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    model.load_state_dict(state)
    assert torch.equal(model.table.values, state["table.slots.values"])


def test_sparse_gradients_are_refused_under_nccl(monkeypatch):
    monkeypatch.setattr("nearfar._core.tensors.n_processes", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
    table, ids = AnchorEmbedding(V, D, K), torch.tensor([3, 4])
    with pytest.raises(InputError, match="AnchorEmbedding: sparse must be False where processes are joined by NCCL"):
        table(ids)
    with pytest.raises(InputError, match="AnchorEmbedding: sparse must be False"):
        table.logits(torch.ones(2, D))
    with torch.no_grad():
        assert table(ids).shape == (2, D)
    assert AnchorEmbedding(V, D, K, sparse=False)(ids).requires_grad
    assert table.requires_grad_(False)(ids).shape == (2, D)
