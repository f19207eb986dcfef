"""The part of an anchor embedding between its T and its optimiser: debts, wishes, and states that are kept or moved."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from nearfar.errors import InputError
from nearfar.nn._anchor_rows import Debt, TakeRows, Wishes, grant, row_slices, spread, wishes

# The table of a parameter, for the optimisers. Not an attribute of the parameter, which would be stored with it.
_TABLES: weakref.WeakValueDictionary[int, AnchorTable] = weakref.WeakValueDictionary()


class AnchorTable(torch.nn.Module):
    """Rows of T in slots; a subclass makes ``values`` and ``columns``, the sizes, and then calls ``_enter``."""

    values: torch.nn.Parameter
    columns: Tensor
    num_embeddings: int
    n_anchors: int
    nnz_per_row: int
    penalty: float
    padding_idx: int | None
    _seen_version: int | None

    # -- training: between the layer and its optimiser -------------------------------------------------------------

    def settle(self) -> None:
        """Take off from ``values`` what rows owe. Sizes, vectors and stored states do not need it: they look first."""
        debt = self._debt
        if debt.paid is None:
            return
        with torch.no_grad():
            for block in row_slices(self.num_embeddings, self.nnz_per_row):
                self.values[block] = debt.current(self.values, block)
        debt.paid.fill_(debt.total)
        self._accept()

    def _mixtures(self, rows: Tensor) -> Tensor:
        """Return rows of T, dense (n, K); the gradient comes back to their slots, and is heard for the others."""
        self._check_optimizer()
        taken: Tensor = TakeRows.apply(  # type: ignore[no-untyped-call]
            self.values, rows, self._debt, self._padding_row
        )
        columns = self.columns[rows].long()
        mixtures = spread(taken, columns, self.n_anchors)
        if mixtures.requires_grad:
            found = taken.detach()
            mixtures.register_hook(  # type: ignore[no-untyped-call]
                lambda slope: self._hear(slope, found, columns, rows)
            )
        return mixtures

    def _hear(self, slope: Tensor, values: Tensor, columns: Tensor, rows: Tensor) -> None:
        """Keep what rows (n,) ask for, given the derivatives (n, K) of the loss."""
        if self._seen_version is None:
            self._seen_version = self.values._version
        asked = wishes(slope, values, columns, rows, self.penalty)
        if asked is not None:
            real = asked.rows != self._padding_row
            self._wishes.append(Wishes(*(part[real] for part in asked)))

    def _grant(self) -> list[tuple[Tensor, Tensor]]:
        """Give slots to columns that asked for them; return rows and slots that changed."""
        changed = [grant(asked, self.values, self.columns) for asked in self._wishes]
        self._wishes.clear()
        return changed

    def _accept(self) -> None:
        """Take the values as they are now: it was not another optimiser that changed them."""
        self._seen_version = None

    def _check_optimizer(self) -> None:
        if self._seen_version is not None and self.values._version != self._seen_version:
            self._accept()
            hint = "Other optimisers do not shrink T and make it negative; they may train the rest of the model."
            raise InputError("AnchorEmbedding", "optimizer", "ProxSGD, ProxAdam or ProxYogi", "another one", hint)

    # -- keeping and moving --------------------------------------------------------------------------------------

    def _enter(self) -> None:
        self._debt = Debt()
        self._wishes: list[Wishes] = []
        self._seen_version = None
        _TABLES[id(self.values)] = self

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.settle()
        self._debt.end()  # the next step starts it again, in the type and on the device that are new
        self._wishes.clear()
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        _TABLES[id(self.values)] = self
        return moved

    def _save_to_state_dict(self, *args: Any) -> None:
        self.settle()
        super()._save_to_state_dict(*args)

    def _load_from_state_dict(self, state: Any, prefix: str, *args: Any) -> None:
        problem = self._problem(state.get(f"{prefix}values"), state.get(f"{prefix}columns"))
        if problem:
            raise InputError("AnchorEmbedding.load_state_dict", f"{prefix}{problem[0]}", *problem[1:])
        super()._load_from_state_dict(state, prefix, *args)
        if self._debt.paid is not None:
            self._debt.paid.fill_(self._debt.total)  # what is loaded owes nothing
        self._wishes.clear()
        self._accept()

    def _problem(self, values: Tensor | None, columns: Tensor | None) -> tuple[str, str, str] | None:
        """Return what is wrong with entries to be loaded; their shapes are torch's to check."""
        if values is not None and values.shape == self.values.shape and not bool((values >= 0).all()):
            return "values", "finite and >= 0", "a negative one, or NaN"
        if columns is not None and columns.shape == self.columns.shape:
            low, high = (int(end) for end in columns.aminmax())
            if low < 0 or high >= self.n_anchors:
                return "columns", f"in 0 .. {self.n_anchors - 1}", f"columns from {low} to {high}"
        return None

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return {k: v for k, v in self.__dict__.items() if k not in ("_debt", "_wishes", "_seen_version")}

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
