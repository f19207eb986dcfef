"""An anchor embedding after training: mixtures and anchors as NumPy arrays, which load without torch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar._core.ids import Ids
from nearfar.embedding.mixtures import Mixtures, unsigned_dtype
from nearfar.errors import InputError


def anchor_mixtures(
    owner: str, anchors: Tensor, blocks: Iterable[tuple[Tensor, Tensor]], names: Ids, nnz_per_row: int
) -> Mixtures:
    """Return anchors (K, d) and blocks of rows of T, values and columns (n, r) each, as mixtures in float32."""
    vectors = _float32(anchors)
    if not np.isfinite(vectors).all():
        raise InputError(owner, "anchors", "finite in float32", "NaN or infinity", "Training has failed before.")
    index, count = unsigned_dtype(len(anchors) - 1), unsigned_dtype(nnz_per_row)
    parts = []
    for values, columns in blocks:
        weights, places, counts = positive_entries(owner, values, columns)
        parts.append((weights, places.astype(index), counts.astype(count)))
    weights, places, counts = map(np.concatenate, zip(*parts, strict=True))
    mixtures = Mixtures(weights, places, counts, vectors, names)
    if not mixtures.is_finite():
        raise InputError(owner, "parameters", "such that vectors fit float32", "larger ones")
    return mixtures


def positive_entries(owner: str, values: Tensor, columns: Tensor) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the positive entries of rows, their columns, ascending within a row, and how many each row has."""
    entries, places = _float32(values), columns.cpu().numpy()
    if not (entries >= 0).all() or np.isinf(entries).any():
        raise InputError(owner, "values", "finite in float32, and >= 0", "a negative one, infinity or NaN")
    order = places.argsort(axis=1)
    entries, places = (np.take_along_axis(part, order, axis=1) for part in (entries, places))
    positive = entries > 0
    return entries[positive], places[positive], positive.sum(axis=1)


def check_names(owner: str, name: str, ids: Iterable[Hashable] | None, n: int) -> Ids:
    """Return n distinct names, or 0 .. n - 1."""
    if isinstance(ids, (str, bytes)):
        raise InputError(owner, name, "a list of names", repr(ids))
    names = Ids(n) if ids is None else Ids(ids, owner=owner, name=name)
    if len(names) != n:
        raise InputError(owner, name, f"{n}, one for each", f"{len(names)}")
    return names


def _float32(tensor: Tensor) -> NDArray[np.float32]:
    # A copy: the layer may be trained on.
    array: NDArray[np.float32] = tensor.detach().to("cpu", torch.float32, copy=True).numpy()
    return array
