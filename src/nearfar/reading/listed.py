"""Graphs as tools for graphs write them, with one way each: of networkx, d3, Cytoscape, GUESS and LGL."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from nearfar.reading.columns import is_number
from nearfar.reading.graphs import Graph
from nearfar.reading.records import is_integer

Edge = tuple[Any, Any, float]
_FIELDS = ("source", "target", "weight")
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


def graph_of_json(lines: Sequence[str]) -> Graph:
    """Return the graph in JSON, as networkx, d3 and Cytoscape write it: nodes, and links or edges of two of them.

    A node is what is called id; where none is, the name, and ends may be the numbers of nodes.
    """
    whole = json.loads("\n".join(lines))
    graph = whole.get("elements", whole)
    nodes = [node.get("data", node) if isinstance(node, dict) else {"id": node} for node in graph.get("nodes", ())]
    links = graph["links"] if "links" in graph else graph["edges"]
    key = next((key for key in ("id", "key", "name") if nodes and all(key in node for node in nodes)), "")
    ids = [node.get(key, at) for at, node in enumerate(nodes)]
    edges = []
    for link in links:
        told = link.get("data", link) if isinstance(link, dict) else dict(zip(_FIELDS, link, strict=False))
        weight = told.get("weight", told.get("value", 1.0))
        edges.append((told["source"], told["target"], float(weight) if is_number(str(weight)) else 1.0))
    if key == "name" and all(type(end) is int and 0 <= end < len(ids) for edge in edges for end in edge[:2]):
        edges = [(ids[source], ids[target], weight) for source, target, weight in edges]
    kinds = {name: node.get("bipartite") for name, node in zip(ids, nodes, strict=True)}
    return _graph("JSON", kinds, edges, directed=bool(whole.get("directed", False)))


def graph_of_lgl(lines: Sequence[str]) -> Graph:
    """Return a graph of LGL: ``# ann`` begins the neighbours of ann, each with a weight or without."""
    nodes, edges = list[str](), []
    for line in filter(str.strip, lines):
        if line.startswith("#"):
            nodes.append(line[1:].strip())
        else:
            neighbour, *weight = line.split()
            edges.append((nodes[-1], neighbour, float(weight[0]) if weight else 1.0))
    return _graph("LGL", dict.fromkeys(nodes), edges)


def graph_of_gdf(lines: Sequence[str]) -> Graph:
    """Return a graph of GDF: nodes behind ``nodedef>``, edges behind ``edgedef>``.

    The weight is the column called so; directed is what says so, edges beside those that do have both directions.
    """
    begin = next((k for k, line in enumerate(lines) if line.lower().startswith("edgedef>")), len(lines))
    nodes = [row[0] for row in csv.reader(filter(str.strip, lines[:begin])) if not row[0].lower().startswith("nodedef")]
    names = [field.split()[0].lower() for field in lines[begin].split(">", 1)[1].split(",")]
    weight, direction = (names.index(name) if name in names else -1 for name in ("weight", "directed"))
    edges, others = list[Edge](), list[Edge]()
    for row in csv.reader(filter(str.strip, lines[begin + 1 :])):
        one_way = direction >= 0 and row[direction].strip().lower() == "true"
        (edges if one_way else others).append((row[0], row[1], float(row[weight]) if weight >= 0 else 1.0))
    both = [(target, source, weight) for source, target, weight in others if edges]
    return _graph("GDF", dict.fromkeys(nodes), edges + others + both, directed=bool(edges))


def graph_of_neighbours(lines: Sequence[str]) -> Graph:
    """Return what ``networkx.write_multiline_adjlist`` writes: a node and a number, then so many neighbours."""
    nodes, edges = [], []
    for node, neighbours in _neighbours(lines):
        nodes.append(node)
        for neighbour, *told in neighbours:
            data = " ".join(told)
            edges.append((node, neighbour, _weight_of(data) if data.startswith("{") else float(data or 1.0)))
    return _graph("networkx", dict.fromkeys(nodes), edges)


def _graph(make: str, kinds: dict[object, object], edges: list[Edge], *, directed: bool = False) -> Graph:
    """Return a graph; ids of text are integers where all are written so, as those of other texts, but for JSON."""
    ends = {end for edge in edges for end in edge[:2]}
    if make != "JSON" and all(isinstance(end, str) and is_integer(end) for end in ends | kinds.keys()):
        edges = [(int(str(source)), int(str(target)), weight) for source, target, weight in edges]
        kinds = {int(str(node)): kind for node, kind in kinds.items()}
    found = [(source, target, {"weight": weight}) for source, target, weight in edges]
    return Graph(make, "bipartite", directed, kinds, frozenset({"weight"}), lambda: iter(found), listed=True)


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
    rows = (line.split(None, 1) for line in lines if line.strip() and not line.startswith("#"))
    for node, n in rows:
        yield node, list(islice(rows, int(n)))  # ValueError for a number below 0


def is_of_neighbours(text: str) -> bool:
    """Whether a text has remarks, as networkx writes them, and then each node once, with so many neighbours."""
    lines = text.splitlines()
    try:
        found = list(_neighbours(lines))
    except ValueError:
        return False
    nodes = [node for node, _ in found]
    there = {neighbour for _, neighbours in found for neighbour, *_ in neighbours}
    return len(nodes) == len(set(nodes)) > 1 and bool(there) and there <= set(nodes)


def are_json_lines(head: str) -> bool:
    """Whether the first two lines, or the only one, are an object of JSON each."""
    lines = [line for line in head.splitlines() if line.strip()][:2]
    try:
        objects = all(isinstance(json.loads(line), dict) for line in lines)
        return bool(lines) and objects and "edges" not in lines[0][:99]
    except ValueError:
        return False


READERS: dict[str, Callable[[Sequence[str]], Iterator[Edge] | Graph]] = {
    "an edge list of networkx with attributes": edges_with_attributes,
    "a graph in JSON": graph_of_json,
    "a graph in LGL": graph_of_lgl,
    "a graph in GDF": graph_of_gdf,
    "lines of neighbours of networkx": graph_of_neighbours,
}
"""Readers of lines, by what :func:`.signatures.refuse_other_texts` says that a text is."""
