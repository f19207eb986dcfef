"""Edges from graphs of networkx, igraph and PyTorch Geometric, and from an edge_index: a tensor of two rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearfar._core.checks import check_numbers
from nearfar._core.ids import Ids
from nearfar.errors import DataError, InputError
from nearfar.reading.tables import Name, Pieces, Roles, numbers_of, place

if TYPE_CHECKING:
    import torch


class Graph(NamedTuple):
    """What a graph of another library holds.

    Attributes
    ----------
    make, kind_name : str
        The library, and what it calls the kind of a node.
    directed : bool
        Whether edges have a direction.
    kinds : mapping
        Each node, in their order, and its kind in a bipartite graph; None where it is not said.
    attributes : frozenset of str
        Those that some edge has.
    edges : callable
        Returns the edges: two nodes and the attributes.
    listed : bool
        Whether a file lists them, so that either end stands where it was written.
    """

    make: str
    kind_name: str
    directed: bool
    kinds: Mapping[Hashable, object]
    attributes: frozenset[str]
    edges: Callable[[], Iterator[tuple[Hashable, Hashable, Mapping[str, object]]]]
    listed: bool = False


def graph_of(edges: object) -> Graph | None:
    """Return a graph of networkx or igraph, or what was read as one; None for anything else."""
    if isinstance(edges, Graph):
        return edges
    networkx, igraph = sys.modules.get("networkx"), sys.modules.get("igraph")  # who holds a graph has imported it
    if networkx is not None and isinstance(edges, networkx.Graph):
        known = frozenset(key for _, _, attributes in edges.edges(data=True) for key in attributes)
        kinds = dict(edges.nodes(data="bipartite"))
        return Graph("networkx", "bipartite", edges.is_directed(), kinds, known, lambda: iter(edges.edges(data=True)))
    if igraph is not None and isinstance(edges, igraph.Graph):
        names = edges.vs["name"] if "name" in edges.vs.attributes() else list(range(edges.vcount()))
        types = edges.vs["type"] if "type" in edges.vs.attributes() else [None] * len(names)
        kinds = {name: None if kind is None else int(kind) for name, kind in zip(names, types, strict=True)}
        Ids(names, owner="Relation.from_edges", name="the vertices' attribute 'name'")

        def with_attributes() -> Iterator[tuple[Hashable, Hashable, Mapping[str, object]]]:
            for edge in edges.es:
                known = {name: value for name, value in edge.attributes().items() if value is not None}
                yield names[edge.source], names[edge.target], known

        attributes = frozenset(edges.es.attributes())
        return Graph("igraph", "type", edges.is_directed(), kinds, attributes, with_attributes)
    return None


def is_directed(edges: object) -> bool | None:
    """Return whether a graph is directed; True for an edge_index, which has both directions of an edge.

    None for anything else.
    """
    if edge_index_of(edges) is not None:
        return True
    graph = graph_of(edges)
    return None if graph is None else graph.directed


def is_graph(relation: object) -> bool:
    """Return whether it is a graph of networkx, igraph or PyTorch Geometric, or an edge_index."""
    return is_directed(relation) is not None


def graph_pieces(graph: Graph, collector: Any, roles: Roles, n_rows: int) -> Pieces:
    """Enter the nodes in the order of the graph, and yield the edges; an undirected one comes once."""
    owner = collector.owner
    Roles(roles.source, roles.target).refuse(owner, f"a graph of {graph.make}")
    name: Name = "weight" if roles.weight is None else roles.weight or None
    if name not in graph.attributes:
        if roles.weight:
            there = ", ".join(sorted(map(str, graph.attributes))) or "there is none"
            raise InputError(owner, "weight", f"an attribute of the edges: {there}", repr(name))
        name = None
    unknown = [node for node, kind in graph.kinds.items() if kind not in (0, 1)] if roles.bipartite else []
    if unknown and not (graph.directed or graph.listed):
        expected = "False for an undirected graph whose nodes don't tell their kind"
        got = f"True, and node {unknown[0]!r} without attribute {graph.kind_name} = 0 or 1"
        raise InputError(owner, "bipartite", expected, got)
    kinds = graph.kinds if roles.bipartite and not unknown else {}  # 0 for rows, 1 for columns
    sides = [list(graph.kinds)]
    if kinds:
        sides = [[node for node, kind in kinds.items() if kind == side] for side in (0, 1)]
    elif roles.bipartite:  # without kinds the direction of edges tells, and an isolated node is a row
        left, right = ({edge[end] for edge in graph.edges()} for end in (0, 1))
        rows = [node for node in graph.kinds if node in left or node not in right]
        sides = [rows, [node for node in graph.kinds if node in right]]
    for side, nodes in enumerate(sides):
        collector.add_ids(nodes, side)
    edges = graph.edges()
    while piece := list(islice(edges, n_rows)):
        for k, (u, v, of_edge) in enumerate(piece if kinds else ()):
            if kinds[u] == kinds[v]:
                raise DataError(owner, "every edge", "between the two kinds", f"{u!r} -> {v!r}, both of one kind")
            piece[k] = (v, u, of_edge) if kinds[u] == 1 else (u, v, of_edge)
        sources, targets, attributes = zip(*piece, strict=True)

        def where(k: int, sources: Sequence[Hashable] = sources, targets: Sequence[Hashable] = targets) -> str:
            return f"the edge {sources[k]!r} -> {targets[k]!r}"

        weights = None if name is None else numbers_of(owner, [found.get(name, 1) for found in attributes], where)
        yield sources, targets, weights, where


# -- graphs of PyTorch Geometric, and their edge_index, a tensor of shape (2, n_edges) ---------------------------------


def edge_index_of(edges: object) -> torch.Tensor | None:
    """Return the edge_index of a graph, or a tensor as it is; None for anything else."""
    torch = sys.modules.get("torch")  # who holds a tensor has imported it
    if torch is None:
        return None
    index = edges if isinstance(edges, torch.Tensor) else getattr(edges, "edge_index", None)
    return index if isinstance(index, torch.Tensor) else None


def index_pieces(edges: object, tensor: torch.Tensor, collector: Any, roles: Roles, n_rows: int) -> Pieces:
    """Yield the edges of a graph, whose nodes are entered in their order, or of an edge_index alone."""
    owner = collector.owner
    Roles(roles.source, roles.target).refuse(owner, "an edge_index")
    index = check_numbers(owner, "edges", tensor.detach().cpu(), "an edge_index of integers")
    if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
        got = f"{index.dtype}, shape {index.shape}"
        hint = "Edges in rows are given as a NumPy array, a matrix goes to Relation.from_matrix."
        raise InputError(owner, "edges", "an edge_index of integers, shape (2, n_edges), if it is a tensor", got, hint)
    n_nodes = getattr(edges, "num_nodes", None)
    if isinstance(n_nodes, int) and not roles.bipartite:
        collector.add_ids(range(n_nodes))
    weights, n_edges = None, index.shape[1]
    name = "edge_weight" if roles.weight is None else str(roles.weight)
    found = None if roles.weight is False else getattr(edges, name, None)
    if found is not None or roles.weight:
        weights = np.empty(0) if found is None else found.detach().cpu().numpy().astype(np.float64)
        if weights.shape not in ((n_edges,), (n_edges, 1)):
            expected = f"an attribute of shape ({n_edges},), one number for each edge"
            got = "which is not there" if found is None else f"of shape {weights.shape}"
            raise InputError(owner, "weight", expected, f"{name!r}, {got}")
        weights = weights.reshape(-1)
    for first in range(0, n_edges, n_rows):
        piece = index[:, first : first + n_rows].astype(np.int64)
        weight = None if weights is None else weights[first : first + n_rows]
        yield piece[0], piece[1], weight, place("edge_index[:, ", first, "]")
