"""The page in a notebook: a widget that holds a million points, and knows which of them are selected there."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfar._core.checks import require
from nearfar._core.ids import Ids
from nearfar._core.types import Longs

if TYPE_CHECKING:
    from anywidget import AnyWidget


def widget_of(page: str, ids: Ids, in_file: Longs) -> AnyWidget:
    """Return a widget with a page; what :meth:`nearfar.viewer.MapPage.widget` does.

    Parameters
    ----------
    page : str
        Its HTML.
    ids : Ids
        Of the points.
    in_file : ndarray, shape (n,)
        The row of each point of the file.
    """
    widget = _kind()(_page=page.encode("utf-8"))

    def heard(change: Any) -> None:
        rows = in_file[np.frombuffer(change["new"], "<u4")]
        widget.selected = ids.take(np.sort(rows)).to_list()

    widget.observe(heard, "_points")
    return widget


@cache
def _kind() -> Any:
    """Return the class of the widgets; its base is there with anywidget only."""
    anywidget: Any = require("MapPage.widget", "anywidget", "notebook")
    import traitlets

    assets = resources.files("nearfar.viewer").joinpath("assets")
    parts = {
        "__doc__": "A map page in a notebook; ``selected`` has the ids of the points that are selected there.",
        "_esm": assets.joinpath("widget.js").read_text("utf-8"),
        "_page": traitlets.Bytes().tag(sync=True),
        "_points": traitlets.Bytes().tag(sync=True),  # numbers of 32 bits: selected points, as the file orders them
        "selected": traitlets.List(),
    }
    return type("MapWidget", (anywidget.AnyWidget,), parts)
