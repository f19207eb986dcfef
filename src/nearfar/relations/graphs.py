"""Edges from graphs of other libraries: networkx, and PyTorch Geometric with its edge_index."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearfar.errors import DataError, InputError
from nearfar.relations.columns import Name, Roles
from nearfar.relations.pieces import Pieces, numbers_of, place

if TYPE_CHECKING:
    import networkx
    import torch

AddIds = Callable[..., None]
"""Enters nodes, and of which side they are, before the edges come."""


def is_directed(edges: object) -> bool | None:
    """Return whether a graph of networkx is directed; True for an edge_index, which has both directions of an edge.

    None for anything else.
    """
    if edge_index_of(edges) is not None:
        return True
    networkx = sys.modules.get("networkx")  # who holds a graph has imported it
    if networkx is None or not isinstance(edges, networkx.Graph):
        return None
    return bool(edges.is_directed())


def graph_pieces(
    graph: networkx.Graph, owner: str, add_ids: AddIds, roles: Roles, bipartite: bool, n_rows: int
) -> Pieces:
    """Enter the nodes in the order of the graph, and yield the edges; an undirected one comes once."""
    Roles(roles.source, roles.target).refuse(owner, "a networkx graph")
    name = _weight_name(owner, graph, roles)
    kinds = _kinds(owner, graph) if bipartite else {}
    for side, nodes in enumerate(_two_sides(graph, kinds) if bipartite else [list(graph.nodes)]):
        add_ids(nodes, side)
    edges = _oriented(owner, graph, kinds)
    while piece := list(islice(edges, n_rows)):
        sources, targets, attributes = zip(*piece, strict=True)

        def where(k: int, sources: Sequence[Hashable] = sources, targets: Sequence[Hashable] = targets) -> str:
            return f"the edge {sources[k]!r} -> {targets[k]!r}"

        weights = None if name is None else numbers_of(owner, [found.get(name, 1) for found in attributes], where)
        yield sources, targets, weights, where


def _weight_name(owner: str, graph: networkx.Graph, roles: Roles) -> Name:
    if roles.weight is False:
        return None
    wanted = "weight" if roles.weight is None else roles.weight
    if any(wanted in attributes for _, _, attributes in graph.edges(data=True)):
        return wanted
    if roles.weight is None:
        return None
    there = sorted({str(key) for _, _, attributes in graph.edges(data=True) for key in attributes})
    expected = f"an attribute of the edges: {', '.join(there) or 'there is none'}"
    raise InputError(owner, "weight", expected, repr(wanted))


def _kinds(owner: str, graph: networkx.Graph) -> dict[Hashable, int]:
    """Return the kind of each node, 0 for rows and 1 for columns; empty when the direction of edges has to tell."""
    kinds = dict(graph.nodes(data="bipartite"))
    unknown = [node for node, kind in kinds.items() if kind not in (0, 1)]
    if unknown and not graph.is_directed():
        expected = "False for an undirected graph whose nodes don't tell their kind"
        got = f"True, and node {unknown[0]!r} without attribute bipartite = 0 or 1"
        raise InputError(owner, "bipartite", expected, got)
    return {} if unknown else {node: int(kind) for node, kind in kinds.items()}


def _two_sides(graph: networkx.Graph, kinds: dict[Hashable, int]) -> tuple[list[Hashable], list[Hashable]]:
    """Return the nodes that are rows and those that are columns; without kinds an isolated node is a row."""
    if kinds:
        return [n for n, kind in kinds.items() if kind == 0], [n for n, kind in kinds.items() if kind == 1]
    columns = [n for n, degree in graph.in_degree() if degree]
    return [n for n, degree in graph.out_degree() if degree or not graph.in_degree(n)], columns


def _oriented(
    owner: str, graph: networkx.Graph, kinds: dict[Hashable, int]
) -> Iterator[tuple[Hashable, Hashable, dict[str, object]]]:
    for u, v, attributes in graph.edges(data=True):
        if kinds and kinds[u] == kinds[v]:
            raise DataError(owner, "every edge", "between the two kinds", f"{u!r} -> {v!r}, both of one kind")
        yield (v, u, attributes) if kinds and kinds[u] == 1 else (u, v, attributes)


# -- graphs of PyTorch Geometric, and their edge_index, a tensor of shape (2, n_edges) ---------------------------------


def edge_index_of(edges: object) -> torch.Tensor | None:
    """Return the edge_index of a graph, or a tensor as it is; None for anything else."""
    torch = sys.modules.get("torch")  # who holds a tensor has imported it
    if torch is None:
        return None
    index = edges if isinstance(edges, torch.Tensor) else getattr(edges, "edge_index", None)
    return index if isinstance(index, torch.Tensor) else None


def index_pieces(
    edges: object, tensor: torch.Tensor, owner: str, add_ids: AddIds, roles: Roles, bipartite: bool, n_rows: int
) -> Pieces:
    """Yield the edges of a graph, whose nodes are entered in their order, or of an edge_index alone."""
    Roles(roles.source, roles.target).refuse(owner, "an edge_index")
    index = tensor.detach().cpu().numpy()
    if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
        got = f"{index.dtype}, shape {index.shape}"
        hint = "Edges in rows are given as a NumPy array, a matrix goes to Relation.from_matrix."
        raise InputError(owner, "edges", "an edge_index of integers, shape (2, n_edges), if it is a tensor", got, hint)
    n_nodes = getattr(edges, "num_nodes", None)
    if isinstance(n_nodes, int) and not bipartite:
        add_ids(range(n_nodes))
    weights = _weights_of_index(owner, edges, roles, index.shape[1])
    for first in range(0, index.shape[1], n_rows):
        piece = index[:, first : first + n_rows].astype(np.int64)
        weight = None if weights is None else weights[first : first + n_rows]
        yield piece[0], piece[1], weight, place("edge_index[:, ", first, "]")


def _weights_of_index(owner: str, edges: object, roles: Roles, n_edges: int) -> NDArray[np.float64] | None:
    if roles.weight is False:
        return None
    name = "edge_weight" if roles.weight is None else str(roles.weight)
    found = getattr(edges, name, None)
    if found is None and roles.weight is None:
        return None
    weights = np.empty(0) if found is None else found.detach().cpu().numpy().astype(np.float64)
    if weights.shape not in ((n_edges,), (n_edges, 1)):
        expected = f"an attribute of shape ({n_edges},), one number for each edge"
        got = "which is not there" if found is None else f"of shape {weights.shape}"
        raise InputError(owner, "weight", expected, f"{name!r}, {got}")
    return weights.reshape(-1)
