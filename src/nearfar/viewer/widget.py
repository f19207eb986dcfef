"""The page in a notebook: a widget that holds a million points, knows which of them are selected there, and selects."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from nearfar._core.checks import require
from nearfar._core.ids import Ids
from nearfar._core.types import Longs
from nearfar.errors import InputError

_OWNER = "MapPage.widget"


@cache
def widget_class() -> Any:
    """Return the class of the widgets, made of a page's HTML, its ids and the row of each point of the file.

    Its base is there with anywidget only.
    """
    anywidget: Any = require(_OWNER, "anywidget", "notebook")
    import traitlets

    class MapWidget(anywidget.AnyWidget):  # type: ignore[misc]
        """A map page in a notebook; ``selected`` has the ids of the points that are selected there, and selects."""

        _esm = resources.files("nearfar.viewer").joinpath("assets", "widget.js").read_text("utf-8")
        _page = traitlets.Bytes().tag(sync=True)
        # Numbers of 32 bits: selected points, as the file orders them; a kernel gets a memoryview of them.
        _points: Any = traitlets.Any(b"").tag(sync=True)
        selected: Any = traitlets.List()

        def __init__(self, page: str, ids: Ids, in_file: Longs) -> None:
            self._ids, self._in_file = ids, in_file
            super().__init__(_page=page.encode("utf-8"))

        @traitlets.validate("_points")
        def _as_bytes(self, proposal: Any) -> bytes:
            return bytes(proposal["value"])

        @traitlets.validate("selected")
        def _check(self, proposal: Any) -> list[Any]:
            wanted = list(proposal["value"])
            rows = self._ids.rows(wanted)
            if (rows < 0).any():
                unknown = wanted[int(np.flatnonzero(rows < 0)[0])]
                raise InputError(_OWNER, "selected", f"ids of points, such as {self._ids.shown(2)}", repr(unknown))
            return wanted

        @traitlets.observe("selected")
        def _asked(self, change: Any) -> None:
            """Select on the page."""
            place = np.empty(len(self._in_file), "<u4")
            place[self._in_file] = np.arange(len(place))
            asked = place[self._ids.rows(change["new"])]
            if set(asked.tolist()) != set(np.frombuffer(self._points, "<u4").tolist()):
                self._points = asked.tobytes()

        @traitlets.observe("_points")
        def _heard(self, change: Any) -> None:
            """Keep the ids of what the page, or ``selected``, has selected."""
            rows = np.sort(self._in_file[np.frombuffer(change["new"], "<u4")])
            if not np.array_equal(rows, np.unique(self._ids.rows(self.selected))):
                self.selected = self._ids.take(rows).to_list()

    return MapWidget
