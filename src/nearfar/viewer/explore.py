"""The data of a map in embedding-atlas: tables, charts, filters and SQL beside the map, for this computer alone.

The map, the neighbours and their distances are handed over, so nothing is computed again. The server of embedding-atlas
listens on 127.0.0.1 and answers its own page only: a page of another site, which could send it requests through the
same browser, is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearfar._core.checks import check_integer, require
from nearfar.embedding.files.content import name_of
from nearfar.errors import InputError
from nearfar.viewer.metadata import Column
from nearfar.viewer.page import MapPage

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_OWNER = "nearfar explore"
HOST = "127.0.0.1"
PORT = 5055
_TRIED = 20  # ports from the first one on
_LABELS = 500  # that the first view may show
_ARROW_UNITS = ("s", "ms", "us", "ns", "D")


def listen(port: int | None = None) -> socket.socket:
    """Return a socket of 127.0.0.1 that nothing else has.

    Parameters
    ----------
    port : int, optional
        By default the first free one from 5055 on.

    Returns
    -------
    socket

    Raises
    ------
    MissingDependencyError
        Without embedding-atlas, or what its server needs.
    InputError
        A port that is in use.
    """
    for package in ("embedding_atlas.server", "uvicorn"):
        require(_OWNER, package, "explore")
    if port is not None:
        check_integer(_OWNER, "port", port, low=1, high=65535)
    problem = ""
    for tried in range(PORT, PORT + _TRIED) if port is None else (port,):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, tried))
            listening.listen()
        except OSError as error:
            listening.close()
            problem = f"{tried}: {error.strerror or error}"
        else:
            return listening
    if port is None:
        got = f"none from {PORT} to {PORT + _TRIED - 1}"
        raise InputError(_OWNER, "port", "free", got, "Give one that is free, or end another server.")
    raise InputError(_OWNER, "port", "free", problem, "Leave it out, and the next free one is taken.")


def serve(page: MapPage, listening: socket.socket, ready: Callable[[str], object]) -> None:
    """Serve the data of a page until interrupted.

    Parameters
    ----------
    page : MapPage
        Its points, columns, neighbours and labels are shown.
    listening : socket
        From :func:`listen`; it is closed at the end.
    ready : callable
        Called with the address, once the data are.
    """
    import embedding_atlas.server as atlas
    import uvicorn

    with listening:
        address = f"http://{HOST}:{listening.getsockname()[1]}"
        static = Path(str(atlas.__file__)).parent / "static"
        app = atlas.make_server(_source(page), static_path=str(static), duckdb_uri="server")
        _refuse_others(app, address)
        ready(address)
        settings = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=1)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[listening])


def _refuse_others(app: Starlette, address: str) -> None:
    """Answer only requests to this address, from its own page."""
    from starlette.responses import PlainTextResponse

    own = {address, address.replace(HOST, "localhost")}

    @app.middleware("http")
    async def _only_own(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if f"http://{host}" not in own or (origin is not None and origin not in own):
            return PlainTextResponse(f"This server answers {address} only.", status_code=403)
        return await call_next(request)


def _source(page: MapPage) -> object:
    """Return what embedding-atlas shows: a table with a row for each point, and which columns are what."""
    import pyarrow as pa
    from embedding_atlas.data_source import DataSource
    from embedding_atlas.options import make_embedding_atlas_props

    # A name that begins with two underscores is not listed among the columns.
    n, k = page.neighbors.shape
    names: list[str] = []

    def free(name: str) -> str:
        """Return a name that no column has: DuckDB does not tell capital letters from small ones."""
        number, tried = 1, name
        while tried.lower() in (taken.lower() for taken in names):
            number, tried = number + 1, f"{name} {number + 1}"
        names.append(tried)
        return tried

    arrays = [pa.array([name_of(key) for key in page.ids])]
    text = free("id")
    titles: list[str] = []
    for column in page.columns:
        titles.append(free(column.name))
        if column.kind == "category":
            filled = np.array([*column.names, None], dtype=object)
            arrays.append(pa.array(filled[column.values], pa.string()))
        elif column.kind in ("number", "date"):
            arrays.append(_of_scale(column))
        else:
            arrays.append(pa.array([value or None for value in column.values], pa.string()))
    for name, shares in page.trust.items():
        titles.append(free(name))
        arrays.append(pa.array(shares, from_pandas=True))
    options: dict[str, object] = {"text": text}
    if k:
        there = page.neighbors != np.arange(n)[:, None]  # a point beside itself: no more are related
        cuts = pa.array(np.cumsum([0, *there.sum(axis=1)], dtype=np.int32))
        parts = [pa.ListArray.from_arrays(cuts, pa.array(values[there])) for values in (page.neighbors, page.distances)]
        options["neighbors"] = free("__neighbors")
        arrays.append(pa.StructArray.from_arrays(parts, ["ids", "distances"]))
    for name, values in (("x", page.positions[:, 0]), ("y", page.positions[:, 1]), ("row_id", np.arange(n))):
        options[name] = free({"x": "map_x", "y": "map_y", "row_id": "__row_index__"}[name])
        arrays.append(pa.array(np.ascontiguousarray(values)))
    places = page.positions[[row for row, _ in page.labels[:_LABELS]]].tolist()
    labels = [
        {"x": x, "y": y, "text": name, "priority": -at}
        for at, ((x, y), (_, name)) in enumerate(zip(places, page.labels, strict=False))
    ]
    props = make_embedding_atlas_props(**options, labels=labels or None)
    view = {**props["data"]["projection"], "text": text, "neighbors": options.get("neighbors")}
    if page.color >= 0:
        view["category"] = titles[page.color]
    props["defaultChartsConfig"] = {"embedding": {"title": page.title, "data": view}}
    # What the viewer computes for these data is kept under this name.
    said = _digest([page.positions.tobytes(), json.dumps(props).encode(), "\0".join(map(name_of, page.ids)).encode()])
    return DataSource(said, pa.table(arrays, names=names), {"props": props})


def _of_scale(column: Column) -> object:
    """Return numbers or dates for Arrow: whole numbers beyond 64 bits as text, dates in a unit that it knows."""
    import pyarrow as pa

    values = column.values
    if column.kind == "date" and np.datetime_data(values.dtype)[0] not in _ARROW_UNITS:
        values = values.astype("M8[s]")
    try:
        return pa.array(values, from_pandas=True)
    except (OverflowError, pa.ArrowInvalid):
        return pa.array(column.scale()[1], pa.string())


def _digest(parts: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()
