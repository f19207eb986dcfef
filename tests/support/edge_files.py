"""Files as people have them, edges or not, with what a careful reader should find in each.

The files stand as blocks of text in tests/relations/files: headed.txt (edges under a line of names), headless.txt
(edges alone) and foreign.txt (no list of edges); and again, collected apart, in headed_more.txt and so on. A block
begins with a line

    === slug | source=A target=B weight=C | note          of files of edges
    === slug | what it is | a word of a good refusal      of others

and goes on to the next such line. A, B and C are names of columns as they stand in the file, without blanks around
(with names), or positions from 0 (without, and where names are equal or empty). C is `none` where no
column is a strength of the relation. `?` says that a human could not tell without asking: any answer with a warning,
or a refusal, is right. The fields crlf, cr and bom at the end of the line say how the file's lines end and that it
begins with a byte order mark.
"""

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "relations" / "files"
COLLECTIONS = ("headed", "headed_more", "headless", "headless_more", "foreign", "foreign_more")
MARK = "=== "
ROLES = re.compile(r"source=(?P<source>.+) target=(?P<target>.+) weight=(?P<weight>.+)")
LINE_ENDS = {"crlf": "\r\n", "cr": "\r"}


class EdgeFile(NamedTuple):
    """A file of a collection and what is expected of its reader."""

    slug: str
    text: str
    """The file as it is to be written, in UTF-8 and without a change of its line ends."""
    expected: dict[str, str] | str
    """For edges, the columns in the roles `source`, `target` and `weight`; for another file, a word of its refusal."""
    note: str


def blocks(name: str) -> list[EdgeFile]:
    """Return the files of a collection; ValueError for a malformed head line."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return [_block(name, block) for block in re.split(rf"^{MARK}", text, flags=re.MULTILINE)[1:]]


def _block(name: str, block: str) -> EdgeFile:
    head, text = block.split("\n", 1)
    slug, second, third, *marks = head.split(" | ")
    for mark in marks:
        if mark == "bom":
            text = "\ufeff" + text
        elif mark in LINE_ENDS:
            text = text.replace("\n", LINE_ENDS[mark])
        else:
            raise ValueError(f"{name}, {slug}: no such mark: {mark!r}")
    if name.startswith("foreign"):
        return EdgeFile(slug, text, expected=third, note=second)
    roles = ROLES.fullmatch(second)
    if roles is None:
        raise ValueError(f"{name}, {slug}: no roles in {second!r}")
    return EdgeFile(slug, text, expected=roles.groupdict(), note=third)
