"""Groups of points: which of them get a colour, their names, and where on a map a name stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.errors import InputError
from nearfar.plots._figure import COLOURS

_CELLS = 24  # a side of the map, for finding where a group is densest


@dataclass(frozen=True, eq=False)
class Groups:
    """The largest groups of points, as many as there are colours, in the order of their labels.

    Parameters
    ----------
    codes : ndarray, shape (n,), int64
        Number of each point's group; -1 for those of other groups and without a label.
    names : list of str
        Of the groups.
    rest : str
        What the other points are; empty where there are none.
    """

    codes: NDArray[np.int64]
    names: list[str]
    rest: str


def groups_of(owner: str, labels: ArrayLike, n: int) -> Groups:
    """Check the labels of n points and find the groups."""
    given = labels if hasattr(labels, "dtype") else np.array(labels, dtype=object)
    given = np.asarray(given)
    if given.shape != (n,):
        raise InputError(owner, "labels", f"of shape ({n},), one per vector", f"shape {given.shape}")
    missing = np.zeros(n, np.bool_)
    if given.dtype.kind in "Of":  # of other types every label is one
        missing[:] = [label is None or label != label for label in given.tolist()]
    known = given[~missing]
    _check_not_values(owner, known)
    try:
        values, codes, sizes = np.unique(known, return_inverse=True, return_counts=True)
    except TypeError:  # labels of several types have no order of their own
        texts = np.array([str(label) for label in known.tolist()])
        values, codes, sizes = np.unique(texts, return_inverse=True, return_counts=True)
    shown = np.sort(np.argsort(-sizes, kind="stable")[: len(COLOURS)])
    number = np.full(values.size, -1)
    number[shown] = np.arange(shown.size)
    all_codes = np.full(n, -1)
    all_codes[~missing] = number[codes]
    others = values.size - shown.size
    rest = [f"{others} others"] * (others > 0) + ["no label"] * bool(missing.any())
    return Groups(all_codes, [str(name) for name in values[shown].tolist()], ", ".join(rest))


def _check_not_values(owner: str, labels: NDArray[Any]) -> None:
    if labels.dtype.kind == "O" and all(isinstance(label, float) for label in labels.tolist()):
        labels = labels.astype(np.float64)
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        example = labels[labels != np.floor(labels)][0].item()
        raise InputError(owner, "labels", "names of groups", f"numbers such as {example!r}", "Give numbers as values=.")


def places_of_names(xy: NDArray[np.float64], groups: Groups, letter: tuple[float, float]) -> NDArray[np.float64]:
    """Return where to write the name of each group, shape (n_groups, 2): where it is densest, names apart.

    ``letter`` is the width and the height of one, as a share of the longer side of the map.
    """
    low, side = xy.min(axis=0), float(np.ptp(xy, axis=0).max()) or 1.0
    scaled = (xy - low) / side
    places = np.array([_densest(scaled[groups.codes == group]) for group in range(len(groups.names))])
    boxes = np.array([[letter[0] * len(name), letter[1]] for name in groups.names])
    for _ in range(100):  # a name that lies on another one moves up or down, in small steps
        gaps = places[:, None] - places
        overlaps = (boxes[:, None] + boxes) / 2 - abs(gaps)
        touching = (overlaps > 0).all(axis=2) & ~np.eye(len(places), dtype=np.bool_)
        if not touching.any():
            break
        ahead = np.where(gaps[..., 1] == 0, np.triu(touching) * 2.0 - 1, np.sign(gaps[..., 1]))
        places[:, 1] += 0.3 * (touching * ahead * overlaps[..., 1]).sum(axis=1)
    placed: NDArray[np.float64] = low + side * places
    return placed


def _densest(xy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of the points in the densest place of the unit square.

    Not the mean of all, which may fall between the parts of a group: of the cells of a grid, with the eight around
    each, the one with most points.
    """
    cells = np.minimum(xy * _CELLS, _CELLS - 1).astype(np.int64)
    counts = np.zeros((_CELLS + 2, _CELLS + 2), np.int64)
    for across, up in np.ndindex(3, 3):
        np.add.at(counts, (cells[:, 0] + across, cells[:, 1] + up), 1)
    best = np.array(np.unravel_index(counts.argmax(), counts.shape)) - 1
    place: NDArray[np.float64] = np.median(xy[(abs(cells - best) <= 1).all(axis=1)], axis=0)
    return place
