"""Files, frames and graphs as what they hold: the front door, edges, contacts, corpora, tables; nothing else guesses.

:func:`nearfar.read` is the front door, :class:`nearfar.Relation` has a method for each source of a relation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearfar._core.names import public_names

if TYPE_CHECKING:
    from nearfar.reading.files import Points, read

__all__ = ["Points", "read"]

public_names(__name__, __all__, {".files": __all__})
