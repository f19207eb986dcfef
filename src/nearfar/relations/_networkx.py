"""Edges of a networkx graph: Graph, DiGraph and their multi-edge versions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from nearfar.errors import DataError, InputError
from nearfar.relations._collect import EdgeCollector, numbers
from nearfar.relations._columns import Roles


def collect_graph(graph: Any, collector: EdgeCollector, roles: Roles, bipartite: bool, n_rows: int) -> None:
    """Put the nodes, in the order of the graph, and the edges into the collector; an undirected edge comes once."""
    Roles(roles.source, roles.target).refuse(collector.owner, "a networkx graph")
    name = _weight_name(graph, roles, collector.owner)
    kinds = _kinds(graph, collector.owner) if bipartite else {}
    if not bipartite:
        collector.add_ids(list(graph.nodes))
    else:
        rows, columns = _two_sides(graph, kinds)
        collector.add_ids(rows, 0)
        collector.add_ids(columns, 1)
    edges = _oriented(graph, kinds, collector.owner)
    while piece := list(islice(edges, n_rows)):

        def where(k: int, piece: list[Any] = piece) -> str:
            return f"the edge {piece[k][0]!r} -> {piece[k][1]!r}"

        weights = None
        if name is not None:
            weights = numbers((data.get(name, 1) for _, _, data in piece), collector.owner, where)
        collector.add_columns([e[0] for e in piece], [e[1] for e in piece], weights, where)


def _weight_name(graph: Any, roles: Roles, owner: str) -> str | None:
    if roles.weight is False:
        return None
    wanted = "weight" if roles.weight is None else roles.weight
    if any(wanted in data for _, _, data in graph.edges(data=True)):
        return wanted  # type: ignore[return-value]
    if roles.weight is None:
        return None
    there = sorted({str(key) for _, _, data in graph.edges(data=True) for key in data})
    expected = f"an attribute of the edges: {', '.join(there) or 'there is none'}"
    raise InputError(owner, "weight", expected, repr(wanted))


def _kinds(graph: Any, owner: str) -> dict[Any, int]:
    """Return the kind of each node, 0 for rows and 1 for columns; empty when the direction of edges has to tell."""
    kinds = dict(graph.nodes(data="bipartite"))
    unknown = [node for node, kind in kinds.items() if kind not in (0, 1)]
    if unknown and not graph.is_directed():
        raise InputError(
            owner,
            "bipartite",
            "False for an undirected graph whose nodes don't tell their kind",
            f"True, and node {unknown[0]!r} without attribute bipartite = 0 or 1",
        )
    return {} if unknown else {node: int(kind) for node, kind in kinds.items()}


def _two_sides(graph: Any, kinds: dict[Any, int]) -> tuple[list[Any], list[Any]]:
    """Return the nodes that are rows and those that are columns; without kinds an isolated node is a row."""
    if kinds:
        return [n for n, kind in kinds.items() if kind == 0], [n for n, kind in kinds.items() if kind == 1]
    columns = [n for n, degree in graph.in_degree() if degree]
    return [n for n, degree in graph.out_degree() if degree or not graph.in_degree(n)], columns


def _oriented(graph: Any, kinds: dict[Any, int], owner: str) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    for u, v, data in graph.edges(data=True):
        if kinds and kinds[u] == kinds[v]:
            raise DataError(owner, "every edge", "between the two kinds", f"{u!r} -> {v!r}, both of one kind")
        yield (v, u, data) if kinds and kinds[u] == 1 else (u, v, data)
