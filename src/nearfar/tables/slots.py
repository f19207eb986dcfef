"""Rows of a sparse matrix T >= 0 with a fixed number of slots, and the layer that holds T and the anchors."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearfar._core.checks import check_flag, check_integer
from nearfar._core.tensors import (
    working_dtype,
)
from nearfar.contrastive.in_batch import all_gather, n_processes
from nearfar.errors import InputError

# ------------------------------------------------------------
# Rows of a sparse matrix T >= 0 with a fixed number of slots, whose shrinkage is put off until they are needed.
#
# A row holds r values and the columns they stand in; see docs/decisions on why. Three things happen to rows:
#
#     shrinkage   every step lowers all entries by threshold / metric and stops at 0; a row that the batch does not
# touch
#                 has only that to come, so a number for each row, the thresholds it has paid, is all that must be kept
#     reading     takes what is owed into account and writes nothing
#     wishes      a slot whose value is 0 is given to another column, where the slope of the loss asks for one

BLOCK = 2**22  # entries of a dense block: 16 MiB in float32
Rows = Tensor | slice
Read = Callable[[Rows], Tensor]


def uncompiled(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Keep a method out of ``torch.compile``: rows that were asked for are found, and wishes heard, between its graphs.

    What ``torch.compiler.disable`` is for; that imports the compiler at once, which takes seconds.
    """
    disabled: list[Callable[..., Tensor]] = []

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Tensor:
        if "torch._dynamo" not in sys.modules:
            return method(*args, **named)
        if not disabled:
            disabled.append(torch.compiler.disable(method, reason="rows are found between graphs"))  # type: ignore[no-untyped-call]
        return disabled[0](*args, **named)

    return call


class Wishes(NamedTuple):
    """Slots that are to be given to other columns: three vectors of one length."""

    rows: Tensor
    slots: Tensor
    columns: Tensor


def take(tensor: Tensor, rows: Rows) -> Tensor:
    """Return some rows: of a slice a view, otherwise a copy; several times as fast as an index."""
    if isinstance(rows, slice):
        return tensor[rows] if tensor.ndim else tensor
    return tensor.index_select(0, rows)


def put(tensor: Tensor, rows: Rows, part: Tensor) -> None:
    """Write some rows, different ones."""
    if isinstance(rows, slice):
        take(tensor, rows).copy_(part)
    else:
        tensor.index_copy_(0, rows, part)


class Debt:
    """What rows owe: the thresholds of the steps that did not touch them.

    Soft-thresholding adds up, max(max(t - a, 0) - b, 0) = max(t - (a + b), 0), so that paying at once is exact.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self.paid: Tensor | None = None
        self.metric: Callable[[Rows], Tensor] | None = None

    @property
    def open(self) -> bool:
        """Whether any row can owe anything."""
        return self.paid is not None

    def begin(self, n_rows: int, device: torch.device, metric: Callable[[Rows], Tensor]) -> None:
        """Start at no debt, in the metric of an optimiser."""
        self.total, self.metric = 0.0, metric
        self.paid = torch.zeros(n_rows, dtype=torch.float64, device=device)

    def end(self) -> None:
        """Forget all debt."""
        self.total, self.paid, self.metric = 0.0, None, None

    def current(self, values: Tensor, rows: Rows) -> Tensor:
        """Return values (n, r) less what they owe: a copy."""
        found = take(values.detach(), rows)
        if self.paid is None or self.metric is None:
            return found.clone() if isinstance(rows, slice) else found
        owed = (self.total - take(self.paid, rows)).to(found.dtype)[:, None]
        return (found - owed / self.metric(rows)).clamp_(min=0)


def row_slices(n_rows: int, width: int) -> Iterator[slice]:
    """Cut rows into blocks of at most ``BLOCK`` entries."""
    step = max(1, BLOCK // max(width, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def ragged(start: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
    """Return all numbers of ranges start .. stop - 1, one range after the other, and before them whose range it is."""
    lengths = stop - start
    who = torch.repeat_interleave(lengths)
    ends = lengths.cumsum(0)
    return who, torch.arange(len(who), device=who.device) + (stop - ends)[who]


def spread(values: Tensor, columns: Tensor, n_columns: int) -> Tensor:
    """Return rows (n, K) with the values (n, r) at their columns and 0 elsewhere; differentiable in the values."""
    empty = torch.zeros(len(values), n_columns, dtype=values.dtype, device=values.device)
    return empty.scatter(1, columns, values)


def wishes(
    slope: Tensor, values: Tensor, columns: Tensor, rows: Tensor, penalty: float, n_active: int
) -> Wishes | None:
    """Return which slots should be given to which columns.

    A row asks for the column, of those it does not hold, in which the loss falls most, if it falls by more than the
    penalty. It gives a slot of value 0: the one whose own column asks least, and less than the new one. Only a row that
    has none gives the slot of a column that is switched off, and with it what was kept for its return.

    Parameters
    ----------
    slope : Tensor, shape (n, K)
        Derivative of the loss for all columns; 0 for those that are switched off.
    values, columns : Tensor, shape (n, r)
        What the rows hold; 0 in columns that are switched off.
    rows : Tensor of int64, shape (n,)
        Which rows they are.
    penalty : float
        Price of an entry.
    n_active : int
        Columns from this one on are switched off.

    Returns
    -------
    Wishes or None
        None if all columns are held, or nothing is asked for.
    """
    if columns.shape[1] == slope.shape[1]:
        return None
    asks = slope.gather(1, columns).masked_fill(values > 0, -torch.inf)
    best, wanted = slope.scatter(1, columns, torch.inf).min(1)
    if n_active < slope.shape[1]:
        off = columns >= n_active
        last = off & (off | (values > 0)).all(1, keepdim=True)  # nothing else is free
        asks = asks.masked_fill(off, -torch.inf).masked_fill(last, torch.inf)
    given, slots = asks.max(1)
    who = torch.nonzero((best < -penalty) & (best < given))[:, 0]
    return Wishes(rows[who], slots[who], wanted[who]) if len(who) else None


def join_wishes(asked: list[Wishes], device: torch.device) -> list[Wishes]:
    """Join what all processes ask for, in the order of their ranks: a list that is the same in all of them."""
    mine = torch.cat([torch.empty(0, 3, dtype=torch.long, device=device), *(torch.stack(a, 1) for a in asked)])
    counts = all_gather(torch.tensor([len(mine)], device=device)).tolist()
    padded = mine.new_zeros(1, max(counts), 3)
    padded[0, : len(mine)] = mine
    everywhere = all_gather(padded)
    return [Wishes(*part[:n].unbind(1)) for part, n in zip(everywhere, counts, strict=True)]


def grant(asked: Wishes, values: Tensor, columns: Tensor, n_active: int) -> tuple[Tensor, Tensor]:
    """Give slots to the columns that ask for them; return rows and slots that changed.

    A slot that is no longer free, or whose row holds the column by now, stays as it is.
    """
    rows, slots, wanted = asked
    held = (columns[rows].long() == wanted[:, None]).any(1)
    free = (values.detach()[rows, slots] == 0) | (columns[rows, slots] >= n_active)
    ok = free & ~held
    rows, slots = rows[ok], slots[ok]
    columns[rows, slots] = wanted[ok].to(columns.dtype)
    values[rows, slots] = 0
    return rows, slots


class TakeRows(torch.autograd.Function):
    """Values (n, r) of distinct rows in ascending order, debts taken off; the gradient is sparse and coalesced.

    A stored 0 has a gradient like any other value: that is how it becomes positive again.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor, read: Read, padding: int) -> Tensor:
        """Return the values."""
        ctx.save_for_backward(rows)
        ctx.shape, ctx.padding = values.shape, padding
        return read(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> Any:
        """Return the gradient in the rows that were taken; that of padding is 0."""
        (rows,) = ctx.saved_tensors
        if ctx.padding >= 0:
            slope = slope.masked_fill((rows == ctx.padding)[:, None], 0)
        # The check would warn, once, that it is off; rows are distinct and in range.
        gradient = torch.sparse_coo_tensor(rows[None], slope, ctx.shape, is_coalesced=True, check_invariants=False)
        return gradient, None, None, None


class AllLogits(torch.autograd.Function):
    """Logits Q T' (n, V) from Q = H A' (n, K), a block of rows of T at a time; neither T A nor a dense T is made."""

    @staticmethod
    def forward(
        ctx: Any, mixed: Tensor, values: Tensor, columns: Tensor, read: Read, heard: Any, padding: int
    ) -> Tensor:
        """Return the logits in the type of ``mixed``."""
        ctx.save_for_backward(mixed, values)
        ctx.columns = columns  # not saved: DistributedDataParallel writes buffers at each call, with what they are
        ctx.read, ctx.heard, ctx.padding = read, heard, padding
        logits = mixed.new_empty(len(mixed), len(values))
        for block in row_slices(len(values), mixed.shape[1]):
            rows = spread(read(block), columns[block].long(), mixed.shape[1])
            torch.matmul(mixed, rows.to(mixed.dtype).T, out=logits[:, block])
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> Any:
        """Return the gradients of ``mixed`` and of the stored values; tell ``heard`` the slope of each block."""
        mixed, values = ctx.saved_tensors
        in_values = torch.empty_like(values)
        in_mixed = torch.zeros_like(mixed, dtype=working_dtype(mixed))
        for block in row_slices(len(values), mixed.shape[1]):
            here = ctx.columns[block].long()
            found = ctx.read(block)
            part = slope[:, block].contiguous()
            in_mixed += part @ spread(found, here, mixed.shape[1]).to(part.dtype)
            full = (part.T @ mixed).to(values.dtype)
            in_values[block] = full.gather(1, here)
            ctx.heard(full, found, here, torch.arange(block.start, block.stop, device=values.device))
        if ctx.padding >= 0:
            in_values[ctx.padding] = 0
        if n_processes() > 1:  # which join the gradients of this parameter in the sparse form alone
            rows = torch.arange(len(values), device=values.device)
            in_values = torch.sparse_coo_tensor(rows[None], in_values, is_coalesced=True, check_invariants=False)
        return in_mixed.to(mixed.dtype), in_values, None, None, None, None


# ------------------------------------------------------------
# The part of an anchor embedding between its T and its optimiser: debts, wishes, and states that are kept or moved.

# The table of a parameter, for the optimisers. Not an attribute of the parameter, which would be stored with it.
_TABLES: weakref.WeakValueDictionary[int, AnchorTable] = weakref.WeakValueDictionary()


class Slots(torch.nn.Embedding):
    """The slots of T: values and columns (V, r). DistributedDataParallel takes sparse gradients of embeddings alone."""

    values: torch.nn.Parameter
    columns: Tensor
    sparse = True

    def __init__(self, values: Tensor, columns: Tensor) -> None:
        torch.nn.Module.__init__(self)
        self.values = torch.nn.Parameter(values)
        self.register_buffer("columns", columns)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """Nothing: functions that start all embeddings of a model anew must not make T negative."""
        return self.values.new_empty(0, 0)

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return ", ".join(str(length) for length in self.values.shape)


class AnchorTable(torch.nn.Module):
    """Rows of T in slots; a subclass makes ``slots``, ``anchors``, the sizes, and then calls ``_enter``."""

    anchors: torch.nn.Parameter
    slots: Slots
    num_embeddings: int
    n_anchors: int
    nnz_per_row: int
    penalty: float
    padding_idx: int | None
    _seen_version: int | None
    _last: tuple[Tensor, Tensor, tuple[int, int, float, int]] | None
    _n_active: int
    _zeros_fixed: bool
    _free: Tensor | None
    _wishes: list[Wishes]

    @property
    def values(self) -> torch.nn.Parameter:
        """Stored entries of T, (V, r); what rows owe is not yet taken off."""
        return self.slots.values

    @property
    def columns(self) -> Tensor:
        """The anchors that they belong to, (V, r)."""
        return self.slots.columns

    # -- anchors that are switched off ---------------------------------------------------------------------------------

    @property
    def n_active(self) -> int:
        """How many anchors take part: the first ones. May be set anew at any time, to 1 .. n_anchors.

        The others keep their vectors, and rows keep their entries for them, with the optimiser's state: nothing of it
        is read, trained or shrunk until they are switched on again. No parameter changes its shape.
        """
        return self._n_active

    @n_active.setter
    def n_active(self, n: int) -> None:
        n = check_integer("AnchorEmbedding", "n_active", n, low=1, high=self.n_anchors)
        if n != self._n_active:
            self.settle()  # what rows owe so far is owed by the entries that were on
            self._wishes.clear()
            self._n_active = n

    @property
    def zeros_fixed(self) -> bool:
        """Whether entries that are 0 now stay 0, and the others cost nothing; False at first. May be set at any time.

        For the last epochs: the penalty that chose the entries has made them too small, and no longer does (Meinshausen
        2007, "Relaxed lasso"). An entry that becomes 0 later may return.
        """
        return self._zeros_fixed

    @zeros_fixed.setter
    def zeros_fixed(self, fixed: bool) -> None:
        fixed = check_flag("AnchorEmbedding", "zeros_fixed", fixed)
        if fixed != self._zeros_fixed:
            self.settle()
            self._wishes.clear()
            self._zeros_fixed = fixed
            with torch.no_grad():  # a zero that is fixed has a minus sign
                self.values.masked_fill_(self.values == 0, -0.0 if fixed else 0.0)
            self._accept()

    @property
    def _price(self) -> float:
        return 0.0 if self._zeros_fixed else self.penalty

    def _off(self, rows: Rows) -> Tensor | None:
        """Return which slots (n, r) are not trained: of anchors that are switched off, fixed zeros; None if all are."""
        off = take(self.columns, rows) >= self._n_active if self._n_active < self.n_anchors else None
        if self._zeros_fixed:
            zero = take(self.values.detach(), rows).signbit()
            return zero if off is None else zero | off
        return off

    def _current(self, rows: Rows) -> Tensor:
        """Return entries (n, r) as they are now: less what they owe, and 0 where their anchor is switched off."""
        found, off = self._paid_up(rows), self._off(rows)
        return found if off is None else found.masked_fill_(off, 0)

    def _paid_up(self, rows: Rows) -> Tensor:
        """Return entries (n, r) less what they owe, whichever anchors are on."""
        found, free = self._debt.current(self.values, rows), self._free_slots(rows)
        return found if free is None else torch.where(free, take(self.values.detach(), rows), found)

    def _free_slots(self, rows: Rows) -> Tensor | None:
        """Return which slots (n, r) cost nothing, None if all do."""
        if self._free is None:
            return None
        numbers = torch.arange(self.num_embeddings, device=self._free.device)[rows] if isinstance(rows, slice) else rows
        places = numbers[:, None] * self.n_anchors + take(self.columns, rows)
        at = torch.searchsorted(self._free, places).clamp_(max=len(self._free) - 1)
        return self._free[at] == places

    def _prices(self, rows: Tensor, price: float) -> Tensor | None:
        """Return the prices of all entries (n, K) of some rows, None if all are the same."""
        if self._free is None:
            return None
        prices = torch.full((len(rows), self.n_anchors), price, dtype=self.values.dtype, device=rows.device)
        start, stop = torch.searchsorted(self._free, torch.stack([rows, rows + 1]) * self.n_anchors)
        who, places = ragged(start, stop)
        prices[who, self._free[places] % self.n_anchors] = 0
        return prices

    def _read_again(self, rows: Rows) -> Tensor:
        """Return the same; for the rows of the last call what it found, where nothing has changed since."""
        if self._last is None or isinstance(rows, slice):
            return self._current(rows)
        read, found, then = self._last
        return found if then == self._mark() and torch.equal(read, rows) else self._current(rows)

    def _mark(self) -> tuple[int, int, float, int]:
        return self.values.data_ptr(), self.values._version, self._debt.total, self._n_active

    def get_extra_state(self) -> Tensor:
        """Return what a ``state_dict`` keeps besides parameters and buffers: switches, and entries that are free."""
        switches = torch.tensor([self._n_active, self._zeros_fixed])
        return switches if self._free is None else torch.cat([switches, self._free.cpu()])

    def set_extra_state(self, state: Tensor) -> None:
        """Take them from a ``state_dict``.

        Parameters
        ----------
        state : Tensor of int64
            What ``get_extra_state`` returned.
        """
        n_active, zeros_fixed = state[:2].tolist()
        self._n_active = check_integer("AnchorEmbedding.load_state_dict", "n_active", n_active, 1, self.n_anchors)
        self._zeros_fixed = bool(zeros_fixed)
        self._free = state[2:].to(self.values.device) if len(state) > 2 else None

    # -- training: between the layer and its optimiser -------------------------------------------------------------

    def settle(self) -> None:
        """Take off from ``values`` what rows owe. Sizes, vectors and stored states do not need it: they look first."""
        if self._debt.paid is None:
            return
        with torch.no_grad():
            self._settled(self.values)
        self._debt.paid.fill_(self._debt.total)
        self._accept()

    @torch.no_grad()
    def _settled(self, out: Tensor | None = None) -> Tensor:
        """Return all values (V, r) less what they owe; those of anchors that are switched off owe nothing."""
        out = torch.empty_like(self.values) if out is None else out
        for block in row_slices(self.num_embeddings, self.nnz_per_row):
            off, now = self._off(block), self._paid_up(block)
            out[block] = now if off is None else torch.where(off, self.values[block], now)
        return out

    def _mixtures(self, rows: Tensor) -> Tensor:
        """Return rows of T, dense (n, n_active); the gradient goes to their slots, and is heard for the others."""
        self._begin()
        taken: Tensor = TakeRows.apply(  # type: ignore[no-untyped-call]
            self.values, rows, self._current, self._padding_row
        )
        columns = take(self.columns, rows).long()
        mixtures = spread(taken, columns, self.n_anchors)
        if mixtures.requires_grad:
            found = taken.detach()
            self._last = rows, found, self._mark()
            mixtures.register_hook(  # type: ignore[no-untyped-call]
                lambda slope: self._hear(slope, found, columns, rows)
            )
        return mixtures if self._n_active == self.n_anchors else mixtures[:, : self._n_active]

    def _hear(self, slope: Tensor, values: Tensor, columns: Tensor, rows: Tensor) -> None:
        """Keep what rows (n,) ask for, given the derivatives (n, K) of the loss."""
        if self._seen_version is None:
            self._seen_version = self.values._version
        if self._zeros_fixed:
            return
        price = self.penalty * n_processes()  # gradients will be averaged, the slope of one is all there is here
        prices = self._prices(rows, price)
        if prices is not None:
            slope, price = slope + prices, 0.0
        asked = wishes(slope, values, columns, rows, price, self._n_active)
        if asked is not None:
            real = asked.rows != self._padding_row
            self._wishes.append(Wishes(*(part[real] for part in asked)))

    def _grant(self) -> list[tuple[Tensor, Tensor]]:
        """Give slots to columns that asked for them, in all processes; return rows and slots that changed."""
        if n_processes() > 1 and self.nnz_per_row < self.n_anchors:
            self._wishes = join_wishes(self._wishes, self.values.device)
        changed = [grant(asked, self.values, self.columns, self._n_active) for asked in self._wishes]
        self._wishes.clear()
        return changed

    def _accept(self) -> None:
        """Take the values as they are now: it was not another optimiser that changed them."""
        self._seen_version = self._last = None

    def _begin(self) -> None:
        """Look, before a call, at what has happened since the last."""
        if self.values.grad is None:
            self._wishes.clear()  # those of gradients that were thrown away
        if self._seen_version is not None and self.values._version != self._seen_version:
            self._accept()
            raise wrong_optimizer("another one")

    # -- keeping and moving --------------------------------------------------------------------------------------

    def _enter(self) -> None:
        self._debt = Debt()
        self._wishes = []
        self._seen_version = self._last = None
        self._register()

    def _register(self) -> None:
        _TABLES[id(self.values)] = _TABLES[id(self.anchors)] = self

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.settle()
        self._debt.end()  # the next step starts it again, in the type and on the device that are new
        self._wishes.clear()
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._free = None if self._free is None else self._free.to(self.values.device)
        self._register()
        return moved

    def state_dict(self, *args: Any, prefix: str = "", keep_vars: bool = False, **more: Any) -> Any:
        """Return the state, debts taken off; those of the layer stay, so that one process alone may save it.

        Parameters
        ----------
        *args, prefix, keep_vars, **more
            As for ``torch.nn.Module.state_dict``. With ``keep_vars`` the layer's own debts are taken off.

        Returns
        -------
        dict of Tensor
        """
        if keep_vars:
            self.settle()
        found = super().state_dict(*args, prefix=prefix, keep_vars=keep_vars, **more)
        if self._debt.open and not keep_vars:
            found[f"{prefix}slots.values"] = self._settled()
        return found

    def _load_from_state_dict(self, state: Any, prefix: str, *args: Any) -> None:
        problem = self._problem(
            *(state.get(f"{prefix}{name}") for name in ("anchors", "slots.values", "slots.columns"))
        )
        if problem:
            raise InputError("AnchorEmbedding.load_state_dict", f"{prefix}{problem[0]}", *problem[1:])
        super()._load_from_state_dict(state, prefix, *args)
        if self._debt.paid is not None:
            self._debt.paid.fill_(self._debt.total)  # what is loaded owes nothing
        self._wishes.clear()
        self._accept()

    def _problem(
        self, anchors: Tensor | None, values: Tensor | None, columns: Tensor | None
    ) -> tuple[str, str, str] | None:
        """Return what is wrong with what is to be loaded; the shapes of entries are torch's to check."""
        if anchors is not None and anchors.shape != self.anchors.shape:
            return "anchors", f"of shape {tuple(self.anchors.shape)}", f"shape {tuple(anchors.shape)}"
        if values is not None and values.shape == self.values.shape and not bool((values >= 0).all()):
            return "values", "finite and >= 0", "a negative one, or NaN"
        if columns is not None and columns.shape == self.columns.shape:
            low, high = (int(end) for end in columns.aminmax())
            if low < 0 or high >= self.n_anchors:
                return "columns", f"in 0 .. {self.n_anchors - 1}", f"columns from {low} to {high}"
        return None

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return {k: v for k, v in self.__dict__.items() if k not in ("_debt", "_wishes", "_seen_version", "_last")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._enter()

    @property
    def _padding_row(self) -> int:
        return -1 if self.padding_idx is None else self.padding_idx


def table_of(parameter: Tensor) -> AnchorTable | None:
    """Return the table whose ``values`` a parameter is, None if there is none."""
    table = _TABLES.get(id(parameter))
    return table if table is not None and table.values is parameter else None


def trained_rows(parameter: Tensor) -> slice:
    """Return which rows of a parameter are trained: of anchors those that are switched on, otherwise all."""
    table = _TABLES.get(id(parameter))
    return slice(table.n_active) if table is not None and table.anchors is parameter else slice(None)


def wrong_optimizer(got: str) -> InputError:
    """Return the error of an optimiser that knows nothing of T."""
    hint = "Other optimisers do not shrink T and make it negative; they may train the rest of the model."
    return InputError("AnchorEmbedding", "optimizer", "ProxSGD, ProxAdam or ProxYogi", got, hint)
