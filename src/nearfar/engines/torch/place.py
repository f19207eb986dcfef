"""The place of one device, by torch: rows are tensors, formulas run as they are written, sums come back.

Per epoch a few numbers come back: the parts of the loss, and the sums that the state keeps. All else stays there.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from nearfar._core.types import Integers, Singles
from nearfar.contracts import Ask, FarField, Field, Floats, Kernel
from nearfar.engines import Setting, device_of_engine
from nearfar.engines.plain import Pattern, check_pairs
from nearfar.engines.torch import device_of, form_of, room, to_device
from nearfar.engines.torch.softmax import block_rows
from nearfar.errors import InputError
from nearfar.methods.noise_maps import Circle
from nearfar.relations.kernels import transpose
from nearfar.relations.operators import LinearOperator, Products, Sparse, times

Formula = Callable[..., tuple[Any, ...]]
_TILE = 1 << 24  # pairs that are worked on together


class Device:
    """One device. On the processor the rows are those of the arrays given, and are moved in place.

    Beside the relation it holds the vectors, their pull, a copy of the others where the far field reads them again, and
    at most two more arrays of n x d while a product is made.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    device : torch.device
    sums_stay : bool, default=False
        Whether the sums of ``each`` stay on the device.
    """

    def __init__(self, owner: str, device: torch.device, *, sums_stay: bool = False) -> None:
        self.owner, self.device, self._sums_stay = owner, device, sums_stay
        self._patterns: dict[int, Stored] = {}
        self._products: dict[torch.dtype, DeviceProducts] = {}
        self._columns: dict[int, tuple[object, Tensor]] = {}  # while the array lives whose id is the key
        self._far: tuple[object, Any] = (None, None)  # the far field, and its form here

    def bring(self, X: Floats) -> Tensor:
        """Return a tensor; on the processor of the same memory, where X is an array."""
        with self._work():
            return torch.from_numpy(X if type(X) is np.ndarray else X[:]).to(self.device)

    def fetch(self, rows: Tensor, X: Floats) -> Floats:
        """Return an array; on the processor of the same memory."""
        if self.device.type == "cpu":
            return rows.numpy()
        if type(X) is not np.ndarray:
            return rows.cpu().numpy()
        torch.from_numpy(X).copy_(rows)
        return X

    def near(self, P: LinearOperator, X: Tensor, way: str) -> Tensor:
        """Return the pull."""
        with self._work():
            if X.dtype not in self._products:
                self._products[X.dtype] = DeviceProducts(self.owner, self.device, X.dtype)
            products = self._products[X.dtype]
            pull = times(P, products, X, transposed=way == "columns")
            return times(P, products, X, pull, transposed=True) if way == "both" else pull

    def pairs(
        self,
        formula: Formula,
        pattern: Pattern | Circle,
        mine: Sequence[Tensor],
        theirs: Sequence[Tensor],
        *entries: Tensor | Floats | None,
        **shared: object,
    ) -> tuple[Tensor, ...]:
        """Return the sums over the pairs of each row, some rows at a time."""
        with self._work():
            if isinstance(pattern, Circle):
                return pattern.sums(formula, mine, theirs, entries, shared)
            stored, values = self._stored(pattern), [None if part is None else self.there(part) for part in entries]
            tiles = []
            for (start, stop), (begin, end) in zip(pairwise(stored.rows), pairwise(stored.ends), strict=True):
                some = slice(begin, end)
                first, second = stored.first[some], stored.second[some]
                sides = ([part.index_select(0, at) for part in side] for side, at in ((mine, first), (theirs, second)))
                found = formula(*sides, *(None if part is None else part[some] for part in values), **shared)
                check_pairs(formula, found, end - begin)
                begins, tile = stored.indptr[start : stop + 1] - begin, []
                for part in found:  # rows begin, and end, there
                    if part is None:
                        tile.append(mine[0].new_zeros(stop - start))
                    else:
                        tile.append(torch.segment_reduce(part, "sum", offsets=begins, axis=0, unsafe=True))
                tiles.append(tile)
            return tuple(parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*tiles, strict=True))

    def _stored(self, pattern: Pattern) -> Stored:
        """Return a pattern on the device, which is brought once, with the first of each pair written out."""
        indptr, columns = pattern
        if id(columns) not in self._patterns:
            cuts = np.searchsorted(indptr, np.arange(_TILE, indptr[-1], _TILE), side="right") - 1
            rows = np.unique([0, *cuts, len(indptr) - 1])
            points = torch.arange(len(indptr) - 1, dtype=torch.int32, device=self.device)
            first = torch.repeat_interleave(
                points, to_device(np.diff(indptr), self.device), output_size=int(indptr[-1])
            )
            narrow = np.ascontiguousarray(columns).astype(np.uint32, copy=False)
            second = torch.from_numpy(narrow.view(np.int32)).to(self.device)
            whole = to_device(indptr, self.device)
            self._patterns[id(columns)] = Stored(columns, first, second, whole, rows.tolist(), indptr[rows].tolist())
        return self._patterns[id(columns)]

    def far(self, far: FarField, others: Tensor, n_active: int, rng: object) -> Ask:
        """Return the form of the far field here, over the others."""
        with self._work():
            if self._far[0] is not far:
                self._far = far, form_of(self.owner, "far", far, "engine")(self.owner, "far", far, self.device)
            form: Any = self._far[1]
            form.prepare(others.clone() if far.keeps_others else others, n_active)
            return form

    def field(self, field: Field, Y: Tensor, kernel: Kernel) -> Field:
        """Return the form of a map's field here, over the positions."""
        if self._far[0] is not field:
            self._far = field, form_of(self.owner, "far", field, "engine")(self.owner, field, self.device)
        form: Field = self._far[1]
        with self._work():
            form.place(cast("Any", Y), kernel, 1)
        return form

    def each(self, formula: Formula, X: Any, *rows: Tensor | Floats | None, **shared: object) -> tuple[Any, ...]:
        """Let the formula change blocks of rows; all sums come back in one copy, unless they stay."""
        shared = {name: self.there(value) for name, value in shared.items()}
        with self._work():
            together, parts, totals = type(X) is tuple, [self.there(part) for part in rows], []
            like = X[0] if together else X
            size = block_rows(like.shape[1] if like.ndim > 1 else 1)
            for start in range(0, len(like), size):
                some = slice(start, start + size)
                x = tuple(part[some] for part in X) if together else X[some]
                found = formula(x, *(None if part is None else part[some] for part in parts), **shared)
                totals.append([part.double() for part in found])
            sums = [sum(blocks) for blocks in zip(*totals, strict=True)]
            if self._sums_stay or not sums:
                return X, *sums
            flat = torch.cat([part.flatten() for part in sums]).cpu().numpy()
            ends = np.cumsum([part.numel() for part in sums])[:-1]
            return X, *(one.reshape(part.shape) for one, part in zip(np.split(flat, ends), sums, strict=True))

    def there(self, value: object) -> Any:
        """Return numbers as a tensor of the device; those of one per row are brought once, and go with their array."""
        if not isinstance(value, np.ndarray):
            return value
        if value.ndim > 1:  # of one sweep
            return to_device(value, self.device)
        key = id(value)
        if key not in self._columns:
            gone = partial(_forget, weakref.ref(self), key)
            self._columns[key] = weakref.ref(value, gone), to_device(value, self.device)
        return self._columns[key][1]

    @contextmanager
    def _work(self) -> Iterator[None]:
        """Say what to do where the memory of the device is too small."""
        with room(self.owner, self.device, "engine"), torch.no_grad():
            yield


def _forget(place: weakref.ref[Device], key: int, _: object) -> None:
    """Let the copy go of an array that is gone: a phase of a map has its own, as large as the pattern."""
    there = place()
    if there is not None:
        there._columns.pop(key, None)


class DeviceProducts(Products[Tensor]):
    """Products of operators with vectors on one device; what :func:`~nearfar.relations.operators.times` asks for.

    Each matrix is brought to the device once, in numbers of ``dtype``; its scale stays apart, so that a symmetric one
    serves its transpose as well.
    """

    def __init__(self, owner: str, device: torch.device, dtype: torch.dtype) -> None:
        self.owner, self.device, self.dtype = owner, device, dtype
        # With what has the id, so that it keeps it.
        self._matrices: dict[tuple[int, bool], tuple[Sparse, Tensor]] = {}
        self._scales: dict[int, tuple[object, Tensor]] = {}

    def sparse(
        self, A: Any, X: Tensor, base: Tensor | None, factor: float, out: Tensor | None, *, transposed: bool
    ) -> Tensor:
        """Return ``base + factor * A X``, of A or its transpose, a new tensor."""
        if not isinstance(A, Sparse):
            raise InputError(self.owner, "relation", "one of this machine on a device", "one on a cluster")
        scale = None if A.row_scale is None else self._scale(A.row_scale)
        key = id(A), transposed and not A.symmetric
        if key not in self._matrices:
            indptr, indices, data, shape = A.indptr, A.indices, A.data, A.shape
            if key[1]:
                indptr, indices, data = transpose(indptr, indices, data, shape[1])
                shape = shape[::-1]
            numbers = np.int32 if len(indices) <= np.iinfo(np.int32).max else np.int64  # of one type, torch asks
            ones = torch.ones(len(indices) if data is None else 0, dtype=self.dtype, device=self.device)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # torch calls its CSR matrices beta
                made = torch.sparse_csr_tensor(
                    to_device(indptr, self.device, numbers),
                    to_device(indices, self.device, numbers),
                    ones if data is None else to_device(data, self.device).to(self.dtype),
                    shape,
                )
            self._matrices[key] = A, made
        matrix = self._matrices[key][1]
        if scale is None and base is not None:
            return torch.addmm(base, matrix, X, alpha=factor)
        made = matrix @ (X if scale is None or not transposed else X * scale)
        if scale is not None and not transposed:
            made *= scale
        if factor != 1:
            made *= factor
        if base is not None:
            made += base
        return made

    def scaled(self, scale: Singles, X: Tensor, base: Tensor | None, factor: float, out: Tensor | None) -> Tensor:
        """Return ``base + factor * diag(scale) X``, a new tensor."""
        made = X * (self._scale(scale) * factor)
        return made if base is None else made.add_(base)

    def _scale(self, scale: Singles) -> Tensor:
        if id(scale) not in self._scales:
            self._scales[id(scale)] = (scale, to_device(scale, self.device).to(self.dtype)[:, None])
        return self._scales[id(scale)][1]


class Stored(NamedTuple):
    """A pattern on a device: first and second point of each pair, where rows begin, and tiles of rows and of pairs."""

    columns: Integers  # the array whose id is the key
    first: Tensor
    second: Tensor
    indptr: Tensor
    rows: list[int]
    ends: list[int]


@contextmanager
def opened(setting: Setting) -> Iterator[Device]:
    """Give the place of ``"torch"``, the processor, or of ``"cuda"`` or ``"cuda:1"``.

    Raises
    ------
    InputError
        No such device; a far field that does not run there; a storage.
    """
    owner, name = setting.owner, setting.engine
    device = device_of(owner, device_of_engine(name), "engine")
    if setting.storage is not None:
        raise InputError(owner, "storage", f"None with engine={name!r}", repr(str(setting.storage)))
    if setting.far is not None:
        form_of(owner, "far", setting.far, "engine")(owner, "far", setting.far, device)
    setting.check_memory()
    yield Device(owner, device, sums_stay=setting.sums_stay)
