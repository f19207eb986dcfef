"""The map of a page as a picture: in the colours of its column, with what it says of the map below the title."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from nearfar.embedding.files.content import name_of
from nearfar.plots.scatter import scatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearfar.viewer.page import MapPage


def picture_of(page: MapPage, path: str | os.PathLike[str] | None = None, *, words: bool = False) -> Axes:
    """Draw the map of a page by :func:`nearfar.plots.scatter`; ``words`` writes ids at the points."""
    how: dict[str, object] = {}
    if page.color >= len(page.columns):
        how["values"] = (page.missing, page.false)[page.color - len(page.columns)]
    elif page.color >= 0:
        column = page.columns[page.color]
        if column.kind == "category":
            how["labels"] = np.array([*column.names, None], dtype=object)[column.values]
        else:
            how["values"] = column.values
    told = page.summary
    if page.judged is not None:
        told += f", {page.missing.mean():.0%} of them far away in the map"
    texts = [name_of(key) for key in page.ids] if words else False
    return scatter(page.positions, words=texts, title=page.title, subtitle=told, path=path, **how)  # type: ignore[arg-type]
