"""Words of names of columns, and the words by which the names of the two ends of an edge differ."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[^\W\dA-Z_])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

Pairs = tuple[tuple[frozenset[str], frozenset[str]], ...]


def the_words(text: str) -> frozenset[str]:
    """Return the words of a text, which blanks separate."""
    return frozenset(text.split())


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: ``sourceNode_id`` has three."""
    return [word.lower() for word in _WORD.findall(_HUMP.sub(" ", name))]


def _pairs(text: str) -> Pairs:
    pairs = (pair.split(" ") for pair in text.split("; "))
    return tuple((frozenset(left.split(",")), frozenset(right.split(","))) for left, right in pairs)


ENDS = _pairs(
    "source,src target,tgt,dst,dest,destination; from to; start end; origin,orig destination,dest; "
    "sender receiver,recipient; head tail; subject,subj object,obj; caller callee,called; citing cited; "
    "follower followee,followed; parent child"
)
"""Words that name the two ends of an edge, the clearest first."""
SIDES = _pairs("left right; first second; one two; out in")
"""Words of sides, which may be all of two names."""
COUNTED = _pairs("u v; s t; i j; a b; 1 2; 0 1; x y")
"""What tells two names apart that are one else."""
