"""Where a table of torch is used in real models: each context trains or reads one, and fails if that goes wrong.

tests/tables/test_contexts.py runs each cell; what is refused stands in ``REFUSED``.
"""

import copy
import io
import sys
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

import nearfar as nf

V, D = 40, 8
GOAL = torch.randn(5, D, generator=torch.Generator().manual_seed(9))[torch.arange(V) % 5]
TABLES = {
    "AnchorEmbedding": lambda: nf.nn.AnchorEmbedding(V, D, 6, nnz_per_row=4),
    "AnchorEmbedding(sparse=False)": lambda: nf.nn.AnchorEmbedding(V, D, 6, nnz_per_row=4, sparse=False),
    "QuantizedEmbedding": lambda: nf.nn.QuantizedEmbedding(V, D),
    "SelectionEmbedding": lambda: nf.nn.SelectionEmbedding(V, D),
}


def made(name):
    """Return a table, always the same."""
    torch.manual_seed(0)
    return TABLES[name]()


def optimizer_of(model, lr=0.02, **options):
    """Return an optimiser that trains all of a model."""
    return nf.nn.ProxAdam(model.parameters(), lr=lr, **options)


def batches(n, seed=1, size=16):
    """Yield ids."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield torch.randint(V, (size,), generator=generator)


def loss_of(model, ids):
    """Return how far vectors are from where they should be."""
    return (model(ids).float() - GOAL[ids]).square().mean()


def train(model, optimizer, n=5, seed=1):
    """Make some steps."""
    for step, ids in enumerate(batches(n, seed)):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss_of(model, ids).backward()
        optimizer.step()


def gradients(model):
    """Return the gradients of all parameters that have one."""
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {name: grad.to_dense() if grad.is_sparse else grad for name, grad in grads.items()}


def same(one, other, **tolerances):
    """Compare arrays, or whole models in evaluation."""
    if isinstance(one, torch.nn.Module):
        ids = torch.arange(V)
        modes = one.training, other.training
        one, other = one.eval(), other.eval()
        torch.testing.assert_close(one(ids), other(ids), **(tolerances or {"rtol": 0, "atol": 0}))
        one.train(modes[0]), other.train(modes[1])
        return
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], **(tolerances or {"rtol": 0, "atol": 0}), msg=name)


# -- contexts ----------------------------------------------------------------------------------------------------------


def eager(name, _folder):
    """Training lowers the loss."""
    model = made(name)
    before = loss_of(model, torch.arange(V)).item()
    train(model, optimizer_of(model, 0.05), 150)
    assert loss_of(model, torch.arange(V)).item() < 0.8 * before


def full_graph(name, _folder):
    """A compiled model gives the same vectors and gradients, in one graph."""
    torch._dynamo.reset()
    ids, model = torch.tensor([[3, V - 1, 3], [3, 0, 7]]), made(name)
    found = {}
    for key, call in (("graph", torch.compile(model, fullgraph=True, backend="aot_eager")), ("eager", model)):
        model.zero_grad()
        call(ids).square().sum().backward()
        found[key] = gradients(model)
    same(found["graph"], found["eager"], rtol=1e-5, atol=1e-5)


def exported(name, _folder):
    """A program made by torch.export gives the same vectors."""
    ids, model = torch.tensor([[3, V - 1, 3], [3, 0, 7]]), made(name).eval()
    torch.testing.assert_close(torch.export.export(model, (ids,)).module()(ids), model(ids))


def meta(name, _folder):
    """A table that was made without memory takes a state."""
    model = made(name)
    with torch.device("meta"):
        other = TABLES[name]()
    other.load_state_dict(model.state_dict(), assign=True)
    same(other, model)


def assign(name, _folder):
    """Training goes on from assigned parameters as from copied ones."""
    ends = []
    for options in ({}, {"assign": True}):
        model = made(name)
        train(model, optimizer_of(model))
        model.load_state_dict({key: part.clone() for key, part in model.state_dict().items()}, **options)
        train(model, optimizer_of(model), seed=3)
        ends.append(model)
    same(*ends)


def autocast(dtype):
    """Return a context: half precision, with scaled gradients where it has few exponents."""

    def run(name, _folder):
        """Training under autocast lowers the loss; in float16 with scaled gradients."""
        model = made(name)
        optimizer = optimizer_of(model, 0.05)
        scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
        before = loss_of(model, torch.arange(V)).item()
        for ids in batches(100):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype):
                loss = loss_of(torch.nn.Sequential(model, torch.nn.Identity()), ids)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert loss_of(model, torch.arange(V)).item() < 0.9 * before

    return run


def clipping(name, _folder):
    """Gradients are clipped to a norm."""
    model = made(name)
    loss_of(model, torch.arange(V)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    assert sum(float(grad.square().sum()) for grad in gradients(model).values()) ** 0.5 < 1.01e-3
    torch.nn.utils.clip_grad_value_(model.parameters(), 1e-6)
    assert all(float(grad.abs().max()) <= 1e-6 for grad in gradients(model).values())


def accumulation(name, _folder):
    """Two halves of a batch give the gradient of the whole."""
    found = []
    for parts in (1, 2):
        model = made(name).eval()
        for ids in torch.arange(V).chunk(parts):
            (loss_of(model, ids) / parts).backward()
        found.append(gradients(model))
    same(*found, rtol=1e-5, atol=1e-7)


def weight_decay(name, _folder):
    """Decay in a group shrinks what is in it."""
    model = made(name)
    free = [p for n, p in model.named_parameters() if n != "slots.values"]  # T has a price of its own
    rest = [p for n, p in model.named_parameters() if n == "slots.values"]
    groups = [{"params": free, "weight_decay": 0.5}, {"params": rest}][: 1 + bool(rest)]
    before = [p.detach().clone() for p in free]
    optimizer = nf.nn.ProxAdam(groups, lr=1e-3)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for p, old in zip(free, before, strict=True):
        torch.testing.assert_close(p.detach(), old * (1 - 5e-4))


def averages(name, _folder):
    """An average with decay 0, one of the buffers too, and a momentum encoder with m = 0 are the model."""
    model = made(name)
    ema = get_ema_multi_avg_fn(0.0)
    copies = [AveragedModel(model, multi_avg_fn=ema, use_buffers=buffers) for buffers in (False, True)]
    momentum, optimizer = copy.deepcopy(model).requires_grad_(False), optimizer_of(model)
    for seed in range(8):
        train(model, optimizer, 3, seed)
        for one in copies:
            one.update_parameters(model)
            same(one.module, model)
        for mine, other in zip(momentum.parameters(), model.parameters(), strict=True):
            mine.data.mul_(0.0).add_(other.data)
        same(momentum, model)
    swa = AveragedModel(model)
    swa.update_parameters(model)
    same(swa.module, model)


def checkpointing(name, _folder):
    """Checkpointing of both kinds gives the same gradients."""
    found = []
    for options in (None, {"use_reentrant": False}, {"use_reentrant": True}):
        model, ids, one = made(name), torch.tensor([3, 9, 3]), torch.ones((), requires_grad=True)
        torch.manual_seed(5)
        call = lambda one, model=model, ids=ids: model(ids) * one  # noqa: E731
        rows = call(one) if options is None else checkpoint(call, one, **options)
        rows.square().sum().backward()
        found.append(gradients(model))
    same(found[0], found[1], rtol=1e-6, atol=1e-7)
    same(found[0], found[2], rtol=1e-6, atol=1e-7)


def deepcopied(name, _folder):
    """A copy is the same, and trains apart."""
    model = made(name)
    optimizer = optimizer_of(model)
    train(model, optimizer)
    kept = copy.deepcopy(model)
    same(kept, model)
    before = {key: part.clone() for key, part in kept.state_dict().items()}
    train(model, optimizer)
    same(kept.state_dict(), before)


def take_state(other, model):
    """Give one the state of another, through a file of torch without pickle."""
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    stream.seek(0)
    other.load_state_dict(torch.load(stream, weights_only=True))


def saved(name, folder):
    """A state is saved and read without pickle, by torch and by safetensors."""
    from safetensors.torch import load_file, save_file

    model, other = made(name), TABLES[name]()
    train(model, optimizer_of(model))
    take_state(other, model)
    same(other, model)
    other = TABLES[name]()
    save_file(model.state_dict(), Path(folder) / "model.safetensors")
    other.load_state_dict(load_file(Path(folder) / "model.safetensors"))
    same(other, model)


def resumed(name, _folder):
    """Training goes on from the states of model and optimiser to the same bits."""
    whole, rest = made(name), TABLES[name]()
    optimizers = [optimizer_of(whole), optimizer_of(rest)]
    train(whole, optimizers[0], 8)
    take_state(rest, whole)
    take_state(optimizers[1], optimizers[0])
    train(whole, optimizers[0], 8, seed=3)
    train(rest, optimizers[1], 8, seed=3)
    same(rest.state_dict(), whole.state_dict())


def from_pretrained(name, folder):
    """Transformers saves and loads a model with it."""
    import transformers

    model = transformer(name)
    model.save_pretrained(folder)
    again = type(model).from_pretrained(folder)
    same(again.table, model.table)
    assert transformers.__version__


def transformer(name):
    """Return a model of transformers that holds a table."""
    import transformers

    class Config(transformers.PretrainedConfig):
        model_type = "nearfar-table"

    class Model(transformers.PreTrainedModel):
        config_class = Config

        def __init__(self, config):
            super().__init__(config)
            self.table, self.head = TABLES[name](), torch.nn.Linear(D, V)
            self.post_init()

        def _init_weights(self, module):
            pass

        def forward(self, input_ids, labels=None):
            scores = self.head(self.table(input_ids))
            return {"loss": cross_entropy(scores.flatten(0, -2), labels.flatten()), "logits": scores}

    torch.manual_seed(0)
    return Model(Config())


def peft(name, _folder):
    """A table that PEFT copies and trains is the one that is called."""
    import peft as package

    model = transformer(name)
    wrapped = package.get_peft_model(model, package.LoraConfig(r=2, target_modules=["head"], modules_to_save=["table"]))
    trained = wrapped.base_model.model.table.modules_to_save["default"]
    original = wrapped.base_model.model.table.original_module
    before = copy.deepcopy(original)
    optimizer = nf.nn.ProxAdam([p for p in wrapped.parameters() if p.requires_grad], lr=0.05)
    for ids in batches(5):
        optimizer.zero_grad()
        wrapped(input_ids=ids, labels=(ids + 1) % V)["loss"].backward()
        optimizer.step()
    assert not torch.equal(trained.eval()(torch.arange(V)), before.eval()(torch.arange(V)))
    same(original, before)


def trainer(name, folder):
    """The Trainer of transformers trains it, clips, and goes on from a checkpoint to the same bits."""
    import transformers

    rows = [{"input_ids": row, "labels": (row + 1) % V} for row in batches(64, size=6)]
    ends = []
    for resume in (None, str(Path(folder) / "checkpoint-4")):
        model = transformer(name)
        optimizer = optimizer_of(model)
        options = transformers.TrainingArguments(
            str(folder), max_steps=8, save_steps=4, per_device_train_batch_size=8, use_cpu=True, report_to=[],
            disable_tqdm=True, max_grad_norm=1.0,
        )  # fmt: skip
        schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
        work = transformers.Trainer(model, options, train_dataset=rows, optimizers=(optimizer, schedule))
        work.remove_callback(transformers.PrinterCallback)
        work.train(resume_from_checkpoint=resume)
        ends.append(model.table)
    same(*ends)


def lightning(name, folder):
    """Lightning goes on from a checkpoint to the same bits."""
    import lightning.pytorch as package

    class Module(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.table = made(name)

        def training_step(self, ids, _):
            torch.manual_seed(self.global_step)
            return loss_of(self.table, ids)

        def configure_optimizers(self):
            return optimizer_of(self)

    def fit(n_epochs, resume=None):
        model = Module()
        work = package.Trainer(
            max_epochs=n_epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        )  # fmt: skip
        rows = torch.utils.data.DataLoader(torch.stack([*batches(4)]), batch_size=None)
        work.fit(model, rows, ckpt_path=resume)
        return model, work

    whole, _ = fit(4)
    _, half = fit(2)
    half.save_checkpoint(Path(folder) / "half.ckpt")
    rest, _ = fit(4, Path(folder) / "half.ckpt")
    same(rest.table, whole.table)


def joined(name, rank, folder):
    """In two processes: what DistributedDataParallel trains is what one process trains with the joined batch."""
    alone = made(name)
    model = torch.nn.parallel.DistributedDataParallel(made(name))
    optimizers = [optimizer_of(alone), optimizer_of(model)]
    for step, ids in enumerate(batches(6)):
        for one, optimizer, part in ((alone, optimizers[0], ids), (model, optimizers[1], ids.chunk(2)[rank])):
            torch.manual_seed(step)
            optimizer.zero_grad()
            loss_of(one, part).backward()
            optimizer.step()
    few = {"rtol": 0.2, "atol": 0.1} if name.startswith("Anchor") else {"rtol": 1e-3, "atol": 1e-4}
    same(model.module, alone, **few)  # with fewer slots than anchors rows may ask for others
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    others = [torch.empty_like(mine) for _ in range(2)]
    torch.distributed.all_gather(others, mine)
    assert torch.equal(*others)
    assert folder


def sharded(name, rank, _folder):
    """In two processes: fully_shard splits the parameters, and training is that of one process."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    alone, model = made(name), made(name)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizers = [torch.optim.Adam(alone.parameters(), lr=0.02), torch.optim.Adam(model.parameters(), lr=0.02)]
    if name.startswith("Anchor"):
        optimizers = [optimizer_of(alone), optimizer_of(model)]
    for step, ids in enumerate(batches(4)):
        for one, optimizer, part in ((alone, optimizers[0], ids), (model, optimizers[1], ids.chunk(2)[rank])):
            torch.manual_seed(step)
            optimizer.zero_grad()
            loss_of(one, part).backward()
            optimizer.step()
    for mine, other in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(mine.full_tensor(), other, rtol=1e-3, atol=1e-4)


CONTEXTS = {
    "eager": eager, "full graph": full_graph, "export": exported, "meta": meta, "assign": assign,
    "bfloat16": autocast(torch.bfloat16), "float16, scaled": autocast(torch.float16),
    "clipping": clipping, "accumulation": accumulation, "weight decay": weight_decay, "EMA, SWA, MoCo": averages,
    "checkpointing": checkpointing, "deepcopy": deepcopied, "saved": saved, "resumed": resumed,
    "from_pretrained": from_pretrained, "PEFT": peft, "Trainer": trainer, "Lightning": lightning,
}  # fmt: skip
PROCESSES = {"DDP": joined, "fully_shard": sharded}
NEEDED = {"from_pretrained": "transformers", "PEFT": "peft", "Trainer": "accelerate", "Lightning": "lightning"}
QUICK = {"eager", "assign", "accumulation", "weight decay", "EMA, SWA, MoCo", "checkpointing", "deepcopy", "saved"}
QUICK |= {"meta", "resumed", "clipping"}
# What is refused, and what the error says.
REFUSED = {
    # Torch 2.6 does not say why.
    ("AnchorEmbedding", "full graph"): "AnchorEmbedding\\(sparse=False\\) is for full graphs|skip function disable",
    ("AnchorEmbedding", "clipping"): "Sparse",
    ("AnchorEmbedding", "Trainer"): "SparseCPU",  # it takes the norm of gradients
    ("AnchorEmbedding", "fully_shard"): "SparseCPU",
    ("AnchorEmbedding(sparse=False)", "fully_shard"): "T must be whole in each process",
}


def main(name, rank, address, folder):
    """Run the contexts of several processes for all tables, in one of them; print what went wrong."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    for table in TABLES:
        try:
            PROCESSES[name](table, rank, folder)
            said = ""
        except Exception as error:
            said = f"{type(error).__name__}: {error}".replace("\n", " ")
        sys.stdout.write(f"{table}\t{said}\n")
        sys.stdout.flush()
    from hazards import leave_group

    leave_group(folder)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
