"""Sixty small tables of ten fields, in tests/relations/files/sixty.txt, with what two readers say of each.

A block begins with a line ``=== name | kinds | roles``: kinds with ``/`` between two that are as right, and a list of
pairs, each of a column, by its name or its position, and its role.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import edge_files

ROLES = (
    "source", "target", "weight", "weight or none", "time", "kind of relation", "id", "label", "coordinate", "category",
    "text", "ignored",
)  # fmt: skip


class SixtyTable(NamedTuple):
    """A table, and what it is."""

    name: str
    kinds: list[str]
    roles: dict[str | int, str]
    text: str


def tables() -> Iterator[SixtyTable]:
    """Yield the tables."""
    text = (edge_files.FOLDER / "sixty.txt").read_text(encoding="utf-8")
    for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, body = block.split("\n", 1)
        name, kinds, roles = head.split(" | ", 2)
        yield SixtyTable(name, kinds.split("/"), dict(json.loads(roles)), body)
