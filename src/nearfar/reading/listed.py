"""Lists of edges as tools for graphs write them, with one way each: of networkx, d3, GUESS and LGL."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence

from nearfar.reading.columns import is_number

Edge = tuple[object, object, float]
_TEXT = re.compile(r"""(:\s*)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")  # a value that is one
_WITHIN = re.compile(r"(:\s*)\{[^{}]*\}")  # and one that is a dictionary
_WEIGHT = re.compile(r"""[{,]\s*(?:'weight'|"weight")\s*:\s*([^,}]+)""")


def edges_with_attributes(lines: Sequence[str]) -> Iterator[Edge]:
    """Yield what ``networkx.write_edgelist`` writes: two nodes and a dictionary, whose weight counts."""
    for line in lines:
        if "{" in line and not line.startswith("#"):
            ends, _, attributes = line.partition("{")
            source, target, *_ = ends.replace(",", " ").replace(";", " ").split()
            yield source, target, _weight_of("{" + attributes.strip())


def edges_of_json(lines: Sequence[str]) -> Iterator[Edge]:
    """Yield the edges of a graph in JSON, called links or edges, each with a source and a target."""
    graph = json.loads("\n".join(lines))
    for edge in graph.get("links") or graph["edges"]:
        source, target, *weight = edge if isinstance(edge, list) else (edge["source"], edge["target"])
        weight = weight or ([] if isinstance(edge, list) else [edge.get("weight", edge.get("value", 1.0))])
        yield source, target, float(weight[0] if weight and is_number(str(weight[0])) else 1.0)


def edges_of_lgl(lines: Sequence[str]) -> Iterator[Edge]:
    """Yield the edges of LGL: ``# ann`` begins the neighbours of ann, each with a weight or without."""
    node = ""
    for line in filter(str.strip, lines):
        if line.startswith("#"):
            node = line[1:].strip()
        else:
            neighbour, *weight = line.split()
            yield node, neighbour, float(weight[0]) if weight else 1.0


def edges_of_gdf(lines: Sequence[str]) -> Iterator[Edge]:
    """Yield the edges of GDF, those behind ``edgedef>``; the weight is the column called so."""
    begin = next((k for k, line in enumerate(lines) if line.lower().startswith("edgedef>")), len(lines))
    names = [field.split()[0].lower() for field in lines[begin].split(">", 1)[1].split(",")]
    weight = names.index("weight") if "weight" in names else -1
    for row in csv.reader(filter(str.strip, lines[begin + 1 :])):
        yield row[0], row[1], float(row[weight]) if weight >= 0 else 1.0


def edges_of_neighbours(lines: Sequence[str]) -> Iterator[Edge]:
    """Yield the edges of ``networkx.write_multiline_adjlist``: a node and a number, then so many neighbours."""
    for node, neighbours in _neighbours(lines):
        for neighbour, *told in neighbours:
            data = " ".join(told)
            yield node, neighbour, _weight_of(data) if data.startswith("{") else float(data or 1.0)


def _weight_of(attributes: str) -> float:
    """Return the weight in a dictionary as Python writes it; its own parser may fail where two threads parse at once.

    Raises
    ------
    ValueError
        If it is not closed, or its weight is no number.
    """
    if not attributes.endswith("}"):
        raise ValueError(attributes)
    attributes = _TEXT.sub(r"\1''", attributes)
    while (bare := _WITHIN.sub(r"\1''", attributes)) != attributes:
        attributes = bare
    found = _WEIGHT.search(attributes)
    return float(found[1]) if found else 1.0


def _neighbours(lines: Sequence[str]) -> Iterator[tuple[str, list[list[str]]]]:
    rows = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    at = 0
    while at < len(rows):
        node, n = rows[at][0], int(rows[at][1])
        yield node, rows[at + 1 : at + 1 + n]
        at += 1 + n


def is_of_neighbours(text: str) -> bool:
    """Whether a text has remarks, as networkx writes them, and then each node once, with so many neighbours."""
    lines = text.splitlines()
    try:
        found = list(_neighbours(lines)) if text.startswith("#") else []
    except (ValueError, IndexError):
        return False
    nodes = [node for node, _ in found]
    there = {neighbour for _, neighbours in found for neighbour, *_ in neighbours}
    return len(nodes) == len(set(nodes)) > 1 and bool(there) and there <= set(nodes)


READERS: dict[str, Callable[[Sequence[str]], Iterator[Edge]]] = {
    "an edge list of networkx with attributes": edges_with_attributes,
    "a graph in JSON": edges_of_json,
    "a graph in LGL": edges_of_lgl,
    "a graph in GDF": edges_of_gdf,
    "lines of neighbours of networkx": edges_of_neighbours,
}
"""Readers of lines, by what :func:`.signatures.what_begins` says that a text is."""
