"""The part of an anchor embedding between its T and its optimiser: debts, wishes, and states that are kept or moved."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from nearfar._checks import check_flag, check_integer
from nearfar.errors import InputError
from nearfar.nn._anchor_rows import (
    Debt,
    Rows,
    TakeRows,
    Wishes,
    grant,
    join_wishes,
    ragged,
    row_slices,
    spread,
    take,
    wishes,
)
from nearfar.nn._processes import n_processes

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
