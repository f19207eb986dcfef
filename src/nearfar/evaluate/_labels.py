"""Labels of any type, as numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.errors import InputError


def label_codes(
    owner: str, labels: ArrayLike, n: int, chosen: NDArray[np.int64] | None = None, hint: str = ""
) -> NDArray[np.int64]:
    """Return the labels of the chosen rows (all by default), numbered 0 .. k - 1; every one of them must have one."""
    # Objects, where the caller has no array: NumPy would make the text "nan" of a NaN among strings.
    given = np.asarray(labels if hasattr(labels, "dtype") else np.array(labels, dtype=object))
    if given.shape != (n,):
        raise InputError(owner, "labels", f"of shape ({n},), one per vector", f"shape {given.shape}")
    rows = np.arange(n) if chosen is None else chosen
    given = given[rows]
    missing = np.array([label is None or label != label for label in given.tolist()], dtype=np.bool_)
    if missing.any():
        first = rows[missing][:5].tolist()
        got = f"None or NaN in {int(missing.sum())} row(s), first {first}"
        raise InputError(owner, "labels", "given for every scored row", got, hint)
    try:
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    except TypeError as error:
        raise InputError(owner, "labels", "of one type", f"labels that cannot be compared ({error})") from error
