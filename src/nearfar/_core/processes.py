"""Several processes under torch.distributed: rows of all of them joined, and checks that all hold the same."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from nearfar._core.tensors import working_dtype
from nearfar.errors import InputError


def n_processes() -> int:
    """Return the number of processes: 1 where torch.distributed is not initialised."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process."""
    return dist.get_rank()


def joins_sparse() -> bool:
    """Return whether the processes, if there are several, can join sparse gradients: NCCL cannot."""
    return n_processes() == 1 or dist.get_backend() != "nccl"


def all_gather(rows: Tensor) -> Tensor:
    """Return the rows of all processes, of one shape in all, in the order of their ranks."""
    rows = rows.detach().contiguous()
    everywhere = [torch.empty_like(rows) for _ in range(n_processes())]
    dist.all_gather(everywhere, rows)
    return torch.cat(everywhere)


class JoinRows(torch.autograd.Function):
    """Rows (R B, ...) of all R processes; the gradient of a row is the sum of its gradients in all processes."""

    @staticmethod
    def forward(rows: Tensor) -> Tensor:
        """Return the rows of all processes."""
        return all_gather(rows)

    @staticmethod
    def setup_context(_: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Keep nothing: the function is linear."""

    @staticmethod
    def backward(_: Any, slope: Tensor) -> Tensor:
        """Return the gradient of the rows of this process."""
        of_own: Tensor = SumRows.apply(slope)  # type: ignore[no-untyped-call]
        return of_own


class SumRows(torch.autograd.Function):
    """Of rows (R B, ...), summed over R processes, those of this one, (B, ...): what undoes :class:`JoinRows`."""

    @staticmethod
    def forward(rows: Tensor) -> Tensor:
        """Return the sums of this process."""
        total = rows.detach().to(working_dtype(rows), copy=True, memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        n_rows = len(rows) // n_processes()
        return total[rank() * n_rows :][:n_rows].to(rows.dtype, copy=True)

    @staticmethod
    def setup_context(_: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Keep nothing: the function is linear."""

    @staticmethod
    def backward(_: Any, slope: Tensor) -> Tensor:
        """Return the gradient of all rows."""
        return join_rows(slope)


def join_rows(rows: Tensor) -> Tensor:
    """Return the rows of all processes, differentiable: see :class:`JoinRows`."""
    result: Tensor = JoinRows.apply(rows)  # type: ignore[no-untyped-call]
    return result


def pass_on(rows: Tensor) -> Tensor:
    """Send rows to the next process, and return those of the one before: of one shape and type in all."""
    rows, received = rows.contiguous(), torch.empty_like(rows, memory_format=torch.contiguous_format)
    there, back = (rank() + 1) % n_processes(), (rank() - 1) % n_processes()
    steps = [dist.P2POp(dist.isend, rows, there), dist.P2POp(dist.irecv, received, back)]
    for step in dist.batch_isend_irecv(steps):
        step.wait()
    return received


def check_alike(owner: str, name: str, rows: Tensor, **others: object) -> None:
    """Raise in all processes when rows, or what comes with them, are not of one shape and type in all processes."""
    mine = " ".join([f"shape {tuple(rows.shape)}, {rows.dtype}", *(f"{key}={value}" for key, value in others.items())])
    # As bytes, not by all_gather_object: that pickles. Texts that are longer than the buffer differ before its end.
    text = torch.zeros(256, dtype=torch.uint8)
    code = torch.frombuffer(bytearray(mine.encode()[:256]), dtype=torch.uint8)
    text[: len(code)] = code
    texts = [bytes(t.tolist()).rstrip(b"\0").decode() for t in all_gather(text.to(rows.device)[None]).cpu()]
    if len(set(texts)) > 1:
        got = "; ".join(f"process {number}: {theirs}" for number, theirs in enumerate(texts))
        raise InputError(owner, name, "alike in all processes", got, "Drop the last, smaller batch.")


def check_same_gradient(owner: str, rows: Tensor | slice, slope: Tensor, columns: Tensor) -> None:
    """Raise in all processes when the gradient of T, in these rows, is not the same, to the bit, in all of them."""
    parts = (slope, columns) if isinstance(rows, slice) else (slope, columns, rows)
    sums = torch.stack([part.double().sum() for part in parts]).view(torch.int64)
    gathered = all_gather(torch.cat((sums.new_full((1,), len(slope)), sums))[None])
    if (gathered != gathered[0]).any():
        hint = "Wrap the model in torch.nn.parallel.DistributedDataParallel: it joins gradients, and starts all alike."
        raise InputError(owner, "the gradient of T", "the same in all processes", "different ones", hint)
