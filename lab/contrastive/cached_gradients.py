"""Batches larger than memory: encoding in chunks and a loss in blocks, beside GradCache and the plain formulation.

B queries and as many keys of 256 numbers, two towers of one hidden layer (256 - 2048 - 256, GELU, dropout), d = 256,
float32, one thread. "GradCache" is the algorithm of the reference implementation (Gao et al. 2021): all chunks without
gradients, their random states kept; the gradient of the vectors by the loss on the matrix of scores; each chunk once
more, and backward from its vectors times their gradient. What the allocator of torch holds at most beyond what was
there before, how far the resident memory of a process of its own rises, and the processor seconds of one step.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

from lab.contrastive.nce_memory import peak_bytes
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import alone, cpu_timed, measured
from lab.records import Record, duration, number, pick

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

D, HIDDEN, CHUNK = 256, 2048, 256
PLAIN, GRAD_CACHE, BLOCKED, CHUNKED = (
    "cross_entropy(queries @ keys.T)", "GradCache", "in_batch_nce", "encode_in_chunks, in_batch_nce",
)  # fmt: skip
METHODS = (PLAIN, GRAD_CACHE, BLOCKED, CHUNKED)
# Three matrices of scores: of more than these, 48 GiB.
MOST_WITH_SCORES = 32_768


def towers() -> tuple[Module, Module]:
    from torch import nn

    def tower() -> Module:
        return nn.Sequential(nn.Linear(D, HIDDEN), nn.GELU(), nn.Dropout(0.1), nn.Linear(HIDDEN, D))

    return tower(), tower()


def grad_cache(encoders: tuple[Module, Module], sides: tuple[Tensor, Tensor], loss: Callable[..., Tensor]) -> Tensor:
    """Leave the gradients of the encoders, and return the loss."""
    import torch

    states: list[list[Tensor]] = []
    vectors: list[Tensor] = []
    for encoder, rows in zip(encoders, sides, strict=True):
        own, found = [], []
        for chunk in rows.split(CHUNK):
            own.append(torch.get_rng_state())
            with torch.no_grad():
                found.append(encoder(chunk))
        states.append(own)
        vectors.append(torch.cat(found).requires_grad_())
    value = loss(*vectors)
    value.backward()
    for encoder, rows, own, whole in zip(encoders, sides, states, vectors, strict=True):
        assert whole.grad is not None
        for chunk, state, slope in zip(rows.split(CHUNK), own, whole.grad.split(CHUNK), strict=True):
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(state)
                again = encoder(chunk)
            (again * slope).sum().backward()
    return value.detach()


def task(method: str, size: int) -> Callable[[], tuple[float, float]]:
    """Return a step of training by a method: it returns the loss and the length of the gradient."""
    import torch
    from torch.nn.functional import cross_entropy, normalize

    from nearfar import nn

    torch.manual_seed(0)
    encoders, sides = towers(), (torch.randn(size, D), torch.randn(size, D))

    def on_the_matrix(queries: Tensor, keys: Tensor) -> Tensor:
        return cross_entropy(normalize(queries) @ normalize(keys).T / 0.05, torch.arange(size))

    def in_blocks(queries: Tensor, keys: Tensor) -> Tensor:
        return nn.in_batch_nce(normalize(queries), normalize(keys), temperature=0.05)

    def encode(encoder: Module, rows: Tensor) -> Tensor:
        return nn.encode_in_chunks(encoder, rows.split(CHUNK)) if method == CHUNKED else encoder(rows)

    def step() -> tuple[float, float]:
        torch.manual_seed(1)
        if method == GRAD_CACHE:
            value = grad_cache(encoders, sides, on_the_matrix)
        else:
            loss = on_the_matrix if method == PLAIN else in_blocks
            value = loss(*(encode(encoder, rows) for encoder, rows in zip(encoders, sides, strict=True)))
            value.backward()
        slopes = [p.grad for encoder in encoders for p in encoder.parameters() if p.grad is not None]
        for encoder in encoders:
            encoder.zero_grad()
        return float(value.detach()), sum(float(slope.square().sum()) for slope in slopes) ** 0.5

    return step


def measure(method: str, size: int) -> dict[str, float]:
    """Run a method in this process; return what it took."""
    import torch

    torch.set_num_threads(1)
    task(method, CHUNK + 1)()  # what the first call of anything loads is not of the method
    step = task(method, size)
    found: dict[str, float] = {}

    def once() -> None:
        ((loss, gradient), seconds), _, resident = measured(cpu_timed, step)
        found.update(resident=resident, seconds=seconds, loss=loss, gradient=gradient)

    return {"bytes": peak_bytes(once), **found}


def run(file: ResultFile, given: Namespace) -> None:
    for size, method in product(given.sizes, METHODS):
        if size > MOST_WITH_SCORES and method in (PLAIN, GRAD_CACHE):
            continue
        if key := file.new(size, method):
            file.add({**key, **alone(measure, method, size)})


def told(section: Section, records: list[Record]) -> None:
    target = section.target(
        "memory of encode_in_chunks and in_batch_nce", "less than GradCache, whose loss is on a matrix of scores"
    )
    found, rows = [], []
    for r in sorted(records, key=lambda r: (r["size"], METHODS.index(r["method"]))):
        held, resident = (number(r[name] / 1e9, 2) for name in ("bytes", "resident"))
        gradient = f"{r['loss']:.4f}, {r['gradient']:.4g}"
        rows.append([f"{r['size']:,}", f"`{r['method']}`", held, resident, duration(r["seconds"]), gradient])
    for mine in pick(records, method=CHUNKED):
        for theirs in pick(records, method=GRAD_CACHE, size=mine["size"]):
            said = (
                f"{number(mine['bytes'] / 1e9, 2)} GB against {number(theirs['bytes'] / 1e9, 2)} GB, "
                f"{duration(mine['seconds'])} against {duration(theirs['seconds'])} (B = {mine['size']:,})"
            )
            found.append((said, mine["bytes"] < theirs["bytes"]))
    target.tell_all(found)
    section.say(f"""One step of two towers, 256 - {HIDDEN} - 256, on B queries and keys; d = 256, float32, one
        thread. GB: held, the peak of the allocator above its start, and resident. GradCache: the reference
        algorithm, chunks of {CHUNK}. Methods with a matrix of scores hold three: at most {MOST_WITH_SCORES:,} fit.
        Loss, and length of the gradient.""")
    section.table(["B", "method", "held, GB", "resident, GB", "processor time", "loss, gradient"], rows)


EXPERIMENT = Experiment("Batches larger than memory", run, "size method").takes(
    sizes=(16_384, MOST_WITH_SCORES, 65_536)
)
