"""``nearfar map --onto``: which rows of today were in the map of yesterday, where they were, and which have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nearfar.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearfar._core.ids import Ids
    from nearfar.embedding.metadata import Metadata
    from nearfar.embedding.vectors import Embedding
    from nearfar.maps.growing import Growth
    from nearfar.viewer import MapPage


class Onto(NamedTuple):
    """The map that another is drawn onto.

    Parameters
    ----------
    places : ndarray of shape (n, d)
        Of today's rows; NaN for those that were not there.
    held : ndarray of bool, shape (n,)
        Rows that were there and have not changed, as far as is known.
    left : Ids
        Those that are gone.
    """

    places: NDArray[np.float64]
    held: NDArray[np.bool_]
    left: Ids

    @property
    def pull(self) -> NDArray[np.float64]:
        """Where rows are drawn to."""
        import numpy as np

        return np.where(self.held[:, None], self.places, np.nan)

    def growth(self, estimator: Any) -> Growth:
        """Return what has become of the rows, once the map is drawn."""
        from nearfar.maps.growing import Growth

        return Growth.of(estimator.embedding_, self.places, ~self.held, estimator.affinities_, self.left)


def check_onto(onto: str | None, before: str | None, method: str, prepare: bool, stability: bool) -> None:
    """Refuse options that do not go together."""
    if stability and method == "mds":
        raise click.UsageError("--stability is not for --method mds.")
    if onto is not None and method == "mds":
        raise click.UsageError("--onto is not for --method mds.")
    if before is not None and (onto is None or prepare):
        raise click.UsageError("--before is for --onto MAP, of numbers as they are: without --prepare.")


def read_onto(file: str, ids: Ids, n_components: int, rows: Any, before: Embedding | None) -> Onto:
    """Return where today's rows were in the map of a file; ``before`` are the rows that it was drawn of.

    Raises
    ------
    InputError
        No map of so many components, or of none of the rows.
    """
    import numpy as np

    from nearfar.embedding.vectors import Embedding

    old = Embedding.load(file)
    if old.n_components != n_components:
        hint = "It is a map that nearfar map -o has written, not the vectors that it shows."
        raise InputError("nearfar map", "--onto", f"a map of {n_components} components", f"{old.n_components}", hint)
    at = old.ids.rows(ids)
    if (at < 0).all():
        hint = f"It has {old.ids.shown(2)}, FILE has {ids.shown(2)}; --names says which column has the names."
        raise InputError("nearfar map", "--onto", "a map of some of the rows of FILE", "one of none of them", hint)
    places = old.vectors[at].astype(np.float64)
    places[at < 0], held = np.nan, at >= 0
    if before is not None:
        was = before.ids.rows(ids)
        if before.n_components != rows.shape[1]:
            got = f"{before.n_components} columns of {rows.shape[1]}"
            raise InputError("nearfar map", "--before", "the rows of the old map, with the columns of FILE", got)
        there = np.flatnonzero(held & (was >= 0))
        now = rows[there].toarray() if hasattr(rows, "toarray") else rows[there]
        changed = (np.asarray(before.vectors)[was[there]] != now).any(axis=1)
        held[there[changed]] = False
    gone = np.flatnonzero(ids.rows(old.ids) < 0)
    return Onto(places, held, old.ids.take(gone))


def told(growth: Growth, changes_known: bool) -> tuple[dict[str, object], str]:
    """Return how many rows are new, have moved and so on, for the summary and for the line that tells it."""
    status = growth.columns()["status"]
    counts: dict[str, int] = {str(said): status.count(said) for said in sorted(map(str, set(status)))}
    line = "".join(f", {n} {said}" for said, n in {**counts, "left": len(growth.left)}.items() if n)
    line += "" if changes_known else "; without --before, which rows have changed is not known"
    return {**counts, "left": growth.left.to_list()}, line


def say_what_is_gone(page: MapPage | None, growth: Growth | None) -> None:
    """Let the page of a map that is drawn onto another say which points are gone."""
    if page is not None and growth is not None:
        page.remarks.extend(growth.remarks())


def with_columns(known: Metadata | None, columns: dict[str, list[object]], ids: Ids) -> Metadata:
    """Return what is known of the points, and what has become of them."""
    from nearfar.embedding.metadata import joined

    if known is None:
        return columns
    found = joined("nearfar map", known, ids, None)
    return columns | {name: found.values(name) for name in found.columns if name not in columns}
