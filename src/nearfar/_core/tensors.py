"""Tensors: their checks, codes beside the parameters of a module, and rows of several processes.

Each check returns the value it accepts, or raises in the one form of :mod:`nearfar.errors`.

A check of values reads the largest and the smallest entry, and so makes no second matrix. Numbers of half precision
are accepted everywhere; :func:`working_dtype` says in which type they are computed with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from nearfar._core.checks import check_choice, check_integer, check_numbers
from nearfar._core.types import Doubles
from nearfar.errors import InputError, counted

Reduction = Literal["mean", "sum", "none"]
REDUCTIONS = ("mean", "sum", "none")
READ_ON = ("cpu",)
"""Devices on which checks look at values at no cost. Elsewhere a look is a copy to the host, for which each step of a
training would wait."""

MASKED, MASK = -1e20, -1e26
"""Up to which score noise is masked, and what masks one that may be multiplied yet: by -inf, the gradient of a learned
scale is 0 * inf."""


def reads_values(tensor: Tensor) -> bool:
    """Return whether checks look at the values of a tensor: where it costs nothing, and where faults are looked for.

    Elsewhere, and in a graph that is compiled, NaN and infinity show in the loss, and torch itself refuses an index
    that is out of range.
    """
    # A graph cannot depend on values, and one under a transform of torch.func may be many.
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return tensor.device.type in READ_ON or torch.is_anomaly_enabled()


def working_dtype(tensor: Tensor) -> torch.dtype:
    """Return float64 for float64 and float32 for everything else: half precision is computed in float32."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


class TargetRows(NamedTuple):
    """Which rows of a matrix have a target; the others are ignored.

    Their numbers, where the others were taken out; a mask of all rows, where values are not looked at.
    """

    rows: Tensor
    n_rows: int


def reduce(values: Tensor, reduction: str, kept: TargetRows | None = None) -> Tensor:
    """Return the mean or the sum of ``values``, or the values themselves, with 0 for rows that are ignored."""
    if kept is not None and kept.rows.dtype == torch.bool:
        values = torch.where(kept.rows, values, 0)
        return values.sum() / kept.rows.sum() if reduction == "mean" else reduce(values, reduction)
    if reduction == "none":
        return values if kept is None else values.new_zeros(kept.n_rows).index_copy(0, kept.rows, values)
    return values.mean() if reduction == "mean" else values.sum()


def check_reduction(owner: str, value: object) -> str:
    """Return ``value`` if it is one of the three reductions."""
    return check_choice(owner, "reduction", value, REDUCTIONS)


def check_tensor(owner: str, name: str, value: object, shape: Sequence[int | None]) -> Tensor:
    """Return ``value`` if it is a tensor of this shape; None stands for any length but 0."""
    if not isinstance(value, Tensor):
        raise InputError(owner, name, "a tensor", type(value).__name__, "Convert it by torch.as_tensor.")
    if value.layout != torch.strided:
        raise InputError(owner, name, "a dense tensor", str(value.layout), "Convert it by to_dense().")
    if value.ndim != len(shape):
        expected = f"of {counted(len(shape), 'dimension')}, shape {_shape_text(shape)}"
        raise InputError(owner, name, expected, f"{counted(value.ndim, 'dimension')}, shape {tuple(value.shape)}")
    fits = all(got == wanted if wanted is not None else got > 0 for got, wanted in zip(value.shape, shape, strict=True))
    if not fits:
        raise InputError(owner, name, f"of shape {_shape_text(shape)}", f"shape {tuple(value.shape)}")
    return value


def check_floats(owner: str, name: str, value: object, shape: Sequence[int | None]) -> Tensor:
    """Return ``value`` if it is a tensor of real floating-point numbers and of this shape."""
    tensor = check_tensor(owner, name, value, shape)
    if not tensor.is_floating_point():
        raise InputError(owner, name, "a tensor of floating-point numbers", str(tensor.dtype))
    return tensor


def check_integers(owner: str, name: str, value: object, shape: Sequence[int | None]) -> Tensor:
    """Return ``value`` as int64 if it is a tensor of integers and of this shape."""
    tensor = check_tensor(owner, name, value, shape)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise InputError(owner, name, "a tensor of integers", str(tensor.dtype))
    return tensor.long()


def check_ids(owner: str, value: object, device: torch.device, of: str = "table") -> Tensor:
    """Return ids of any shape as int64, none of them too, if they are on the device of what they are ids of."""
    shape = value.shape if isinstance(value, Tensor) else ()
    ids = check_integers(owner, "ids", value, [None if length else 0 for length in shape])
    if ids.device != device:
        hint = f"Move them: ids = ids.to({str(device)!r})."
        raise InputError(owner, "ids", f"on the device of the {of}, {device}", str(ids.device), hint)
    return ids


def check_within(owner: str, name: str, ids: Tensor, n: int) -> None:
    """Refuse ids that are not of one of ``n`` objects; there may be none."""
    if not ids.numel() or not reads_values(ids):
        return
    low, high = (int(end) for end in ids.aminmax())
    if low < 0 or high >= n:
        raise InputError(owner, name, f"in 0 .. {n - 1}", f"ids from {low} to {high}")


def check_padding_idx(owner: str, value: object, n: int) -> int | None:
    """Return the row of padding, counted from the front, if there is one."""
    return None if value is None else check_integer(owner, "padding_idx", value, low=-n, high=n - 1) % n


def check_device(owner: str, name: str, value: Tensor, like_name: str, like: Tensor) -> None:
    """Refuse a tensor that is not on the device of another one."""
    if value.device != like.device:
        hint = f"Move it: {name} = {name}.to({like_name}.device)."
        raise InputError(owner, name, f"on the device of {like_name}, {like.device}", str(value.device), hint)


def check_same_kind(owner: str, name: str, value: Tensor, like_name: str, like: Tensor) -> None:
    """Refuse a tensor that is not on the device, or not of the type, of another one."""
    check_device(owner, name, value, like_name, like)
    if value.dtype != like.dtype:
        expected = f"of the type of {like_name}, {like.dtype}"
        raise InputError(owner, name, expected, str(value.dtype), f"Convert it: {name} = {name}.to({like_name}.dtype).")


def check_finite(owner: str, name: str, value: Tensor, hint: str = "") -> None:
    """Refuse NaN and infinities."""
    if reads_values(value):
        _finite_ends(owner, name, value, hint)


def _finite_ends(owner: str, name: str, value: Tensor, hint: str) -> tuple[float, float]:
    """Refuse NaN and infinities; return the smallest and the largest number."""
    low, high = (float(end) for end in torch.aminmax(value.detach()))  # NaN, if there is one, is both
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(owner, name, "finite", _what(low, high), hint)
    return low, high


def check_scores(owner: str, name: str, value: object, shape: Sequence[int | None]) -> Tensor:
    """Return scores of this shape; -inf, which masks a candidate, is accepted, NaN and +inf are not."""
    scores = check_floats(owner, name, value, shape)
    check_no_nan(owner, name, scores)
    return scores


def check_no_nan(owner: str, name: str, scores: Tensor) -> None:
    """Refuse NaN and +inf; -inf masks a candidate."""
    if not reads_values(scores):
        return
    high = float(scores.detach().amax())
    if math.isnan(high) or high == math.inf:
        hint = "Only -inf has a meaning: the candidate is left out."
        raise InputError(owner, name, "free of NaN and +inf", _what(high), hint)


def check_candidates(
    owner: str, scores: object, target: object, ignore_index: object
) -> tuple[Tensor, Tensor, TargetRows | None]:
    """Return scores (B, N >= 2) and the columns (B,) of the true candidates, which must not be masked.

    Rows whose target is ``ignore_index`` are taken out, and it is said which are left; None if all are.
    """
    checked = check_floats(owner, "scores", scores, (None, None))
    n_rows, n_candidates = checked.shape
    if n_candidates < 2:
        hint = "The true candidate needs at least one other to be told from."
        raise InputError(owner, "scores", "of two columns or more", f"shape {tuple(checked.shape)}", hint)
    columns = check_integers(owner, "target", target, (n_rows,))
    check_device(owner, "target", columns, "scores", checked)
    ignored, kept = check_integer(owner, "ignore_index", ignore_index), None
    if not reads_values(checked):
        has_target = columns != ignored
        return checked, columns.where(has_target, 0), TargetRows(has_target, n_rows)
    low, high = (int(end) for end in torch.aminmax(columns))
    if low <= ignored <= high and bool((columns == ignored).any()):
        kept = TargetRows((columns != ignored).nonzero()[:, 0], n_rows)
        if not len(kept.rows):
            expected = "a column of scores in at least one row"
            raise InputError(owner, "target", expected, f"ignore_index, {ignored}, in all", "Leave such a batch out.")
        checked, columns = checked[kept.rows], columns[kept.rows]
        low, high = (int(end) for end in torch.aminmax(columns))
    check_no_nan(owner, "scores", checked)
    if low < 0 or high >= n_candidates:
        expected = f"a column of scores, in 0..{n_candidates - 1}"
        raise InputError(owner, "target", expected, f"{low if low < 0 else high}")
    if float(checked.detach().gather(1, columns[:, None]).amin()) == -math.inf:
        raise InputError(owner, "scores", "finite at the target", "-inf", "A true candidate cannot be masked.")
    return checked, columns, kept


def check_log_q(owner: str, name: str, value: object, scores: Tensor, scores_name: str = "scores") -> Tensor:
    """Return logarithms of noise probabilities in the working type: (N,) or (B, N) for scores (B, N); all finite."""
    per_row = isinstance(value, Tensor) and value.ndim == 2
    log_q = check_floats(owner, name, value, scores.shape if per_row else scores.shape[1:])
    check_device(owner, name, log_q, scores_name, scores)
    hint = "A candidate that was drawn has a probability above 0: was it drawn from this noise?"
    check_log_probabilities(owner, name, log_q, hint)
    return log_q.to(working_dtype(scores))


def check_log_probabilities(owner: str, name: str, value: Tensor, hint: str) -> None:
    """Refuse what cannot be logs of probabilities: NaN and infinities, probabilities themselves, counts."""
    if not reads_values(value):
        return
    low, high = _finite_ends(owner, name, value, hint)
    rounding = max(1e-6, 8 * torch.finfo(value.dtype).eps)
    if high <= rounding and (low < 0 or high <= 0):  # probabilities of many ids may all be below the rounding
        return
    got = f"numbers from {low:.6g} to {high:.6g}"
    if low >= 0 and high <= 1:
        got, advice = f"{got}, which look like probabilities", f"Give their logs: {name} = {name}.log()."
    elif low >= 0 and bool((value == value.round()).all()):
        got, advice = f"{got}, which look like counts", f"Give logs of shares: {name} = (counts / counts.sum()).log()."
    else:
        advice = "Probabilities are at most 1: subtract the log of their sum over all ids, or scale a density down."
    raise InputError(owner, name, "logs of probabilities, at most 0", got, advice)


def check_probabilities(owner: str, name: str, value: object) -> Tensor:
    """Return probabilities (n,) in float64: none below 0, sum 1 within the rounding of their type."""
    checked = check_floats(owner, name, value, (None,))
    _finite_ends(owner, name, checked, "")
    p = checked.double()
    if float(p.min()) < 0:
        raise InputError(owner, name, "probabilities, none below 0", f"{float(p.min()):.6g}")
    total = float(p.sum())
    if abs(total - 1) > max(1e-6, 8 * torch.finfo(checked.dtype).eps):
        got = f"a sum of {total:.6g}"
        raise InputError(owner, name, "probabilities that sum to 1", got, "Divide them by their sum.")
    return p


def check_shares(
    owner: str, name: str, value: object, shape: Sequence[int | None], like_name: str, like: Tensor
) -> Tensor:
    """Return rows of shares, none below 0 and of sum 1 within the rounding of their type, as a constant."""
    shares = check_floats(owner, name, value, shape).detach()
    check_device(owner, name, shares, like_name, like)
    if not reads_values(shares):
        return shares
    low, _ = _finite_ends(owner, name, shares, "")
    if low < 0:
        raise InputError(owner, name, "shares, none below 0", f"{low:.6g}", "Of scores, take the softmax of each row.")
    sums = shares.sum(1, dtype=torch.float64)
    if float((sums - 1).abs().max()) > max(1e-5, 8 * torch.finfo(shares.dtype).eps):
        worst = int((sums - 1).abs().argmax())
        got = f"{float(sums[worst]):.6g} in row {worst}"
        raise InputError(owner, name, "shares of sum 1 in each row", got, "Divide them by their sum.")
    return shares


def check_vector(owner: str, name: str, values: object) -> Doubles:
    """Return numbers as a vector of float64, a copy."""
    if isinstance(values, Tensor):
        if values.layout != torch.strided or values.is_complex():
            raise InputError(owner, name, "numbers", f"a tensor of {values.dtype}, {values.layout}")
        values = values.detach().cpu().double().numpy()
    weights = np.array(check_numbers(owner, name, values, "numbers"), np.float64)
    if weights.ndim != 1 or not weights.size:
        raise InputError(owner, name, "of shape (n,) with n >= 1", f"shape {weights.shape}")
    return weights


def check_counts(owner: str, values: object) -> Doubles:
    """Return finite counts >= 0 as a vector of float64, not all of them zero."""
    counts = check_vector(owner, "counts", values)
    bad = np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))
    if bad.size:
        got = f"{counts[bad[0]]} at {bad[0]}" + (f" and {bad.size - 1} more" if bad.size > 1 else "")
        raise InputError(owner, "counts", "finite and >= 0", got)
    if not counts.any():
        raise InputError(owner, "counts", "positive somewhere", "nothing but zeros")
    return counts


def _shape_text(shape: Sequence[int | None]) -> str:
    inside = ", ".join("*" if length is None else str(length) for length in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def _what(*ends: float) -> str:
    bad = next(end for end in ends if not math.isfinite(end))
    return "NaN" if math.isnan(bad) else f"{bad:+}"


# -- whole numbers and truths that are no buffers: tools average buffers, and processes send them ----------------------


class Coded(torch.nn.Module):
    """A module that keeps them in its extra state: bytes, one array after the other.

    They follow its parameters from device to device. A subclass says where these are, and puts arrays into ``_codes``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._codes: dict[str, Tensor] = {}

    @property
    def _device(self) -> torch.device:
        raise NotImplementedError

    def _code(self, name: str) -> Tensor:
        """Return one of them, on the device of the parameters."""
        found, device = self._codes[name], self._device
        if found.device == device:
            return found
        moved = found.to(device)
        if device.type != "meta":
            self._codes[name] = moved
        return moved

    def get_extra_state(self) -> Tensor:
        """Return what a ``state_dict`` keeps beside parameters and buffers."""
        parts = [code.cpu().contiguous().view(-1).view(torch.uint8) for code in self._codes.values()]
        return torch.cat([torch.empty(0, dtype=torch.uint8), *parts])

    def set_extra_state(self, state: Tensor) -> None:
        """Take it from a ``state_dict``.

        Parameters
        ----------
        state : Tensor of uint8
            What ``get_extra_state`` returned.
        """
        sizes = [code.nbytes for code in self._codes.values()]
        if len(state) != sum(sizes):
            owner = f"{type(self).__name__}.load_state_dict"
            hint = "It is of another module, or of one of another size."
            raise InputError(owner, "state", f"{sum(sizes)} bytes", f"{len(state)}", hint)
        for (name, code), part in zip([*self._codes.items()], torch.split(state.cpu(), sizes), strict=True):
            self._codes[name] = part.clone().view(code.dtype).reshape(code.shape)


# -- several processes under torch.distributed: rows of all of them joined, and checks that all hold the same ----------


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
        return SumRows.apply(slope)  # type: ignore[no-untyped-call]


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
    return JoinRows.apply(rows)  # type: ignore[no-untyped-call]


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
