"""Edges from graphs of other libraries: networkx, igraph, and PyTorch Geometric with its edge_index."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Graph(NamedTuple):
    """What is read of a graph of networkx or igraph.

    Attributes
    ----------
    title : str
        What it is, for messages.
    nodes : list
        The ids, in the order of the graph.
    kinds : list
        0 for a node that is a row, 1 for a column, else what there is.
    edges : callable
        Yields source, target and attributes of each edge; an undirected one comes once.
    directed : bool
    """

    title: str
    nodes: list[Hashable]
    kinds: list[object]
    edges: Callable[[], Iterator[tuple[Hashable, Hashable, dict[str, object]]]]
    directed: bool


def is_directed(edges: object) -> bool | None:
    """Return whether a graph of networkx or igraph is directed; True for an edge_index: it has both directions.

    None for anything else.
    """
    if edge_index_of(edges) is not None:
        return True
    for library in ("networkx", "igraph"):
        module = sys.modules.get(library)  # who holds a graph has imported it
        if module is not None and isinstance(edges, module.Graph):
            return bool(edges.is_directed())
    return None


def graph_of(owner: str, graph: Any) -> Graph:
    """Return what is read of a graph.

    In igraph the attribute ``name`` of the vertices has the ids, else their numbers are; ``type`` tells two kinds.
    """
    if not hasattr(graph, "vs"):
        kinds = [kind for _, kind in graph.nodes(data="bipartite")]
        edges = partial(_edges_of_networkx, graph)
        return Graph("a networkx graph", list(graph.nodes), kinds, edges, graph.is_directed())
    there = graph.vs.attributes()
    names = graph.vs["name"] if "name" in there else list(range(graph.vcount()))
    if len(set(names)) < len(names):
        repeated = next(name for name, n in Counter(names).items() if n > 1)
        hint = "del graph.vs['name'] leaves their numbers."
        raise InputError(owner, "edges", "a graph whose vertices have different names", repr(repeated), hint)
    kinds = graph.vs["type"] if "type" in there else [None] * len(names)
    return Graph("an igraph graph", names, kinds, partial(_edges_of_igraph, graph, names), graph.is_directed())


def _edges_of_networkx(graph: networkx.Graph) -> Iterator[tuple[Hashable, Hashable, dict[str, object]]]:
    yield from graph.edges(data=True)


def _edges_of_igraph(graph: Any, names: list[Hashable]) -> Iterator[tuple[Hashable, Hashable, dict[str, object]]]:
    columns = {name: graph.es[name] for name in graph.es.attributes()}
    for k, (u, v) in enumerate(graph.get_edgelist()):
        yield names[u], names[v], {name: values[k] for name, values in columns.items() if values[k] is not None}


def graph_pieces(graph: Any, owner: str, add_ids: AddIds, roles: Roles, bipartite: bool, n_rows: int) -> Pieces:
    """Enter the nodes in the order of the graph, and yield the edges."""
    found = graph_of(owner, graph)
    Roles(roles.source, roles.target).refuse(owner, found.title)
    name = _weight_name(owner, found, roles)
    kinds = _kinds(owner, found) if bipartite else {}
    for side, nodes in enumerate(_two_sides(found, kinds) if bipartite else [found.nodes]):
        add_ids(nodes, side)
    edges = _oriented(owner, found, kinds)
    while piece := list(islice(edges, n_rows)):
        sources, targets, attributes = zip(*piece, strict=True)

        def where(k: int, sources: Sequence[Hashable] = sources, targets: Sequence[Hashable] = targets) -> str:
            return f"the edge {sources[k]!r} -> {targets[k]!r}"

        weights = None if name is None else numbers_of(owner, [known.get(name, 1) for known in attributes], where)
        yield sources, targets, weights, where


def _weight_name(owner: str, graph: Graph, roles: Roles) -> Name:
    if roles.weight is False:
        return None
    wanted = "weight" if roles.weight is None else roles.weight
    if any(wanted in attributes for _, _, attributes in graph.edges()):
        return wanted
    if roles.weight is None:
        return None
    there = sorted({str(key) for _, _, attributes in graph.edges() for key in attributes})
    expected = f"an attribute of the edges: {', '.join(there) or 'there is none'}"
    raise InputError(owner, "weight", expected, repr(wanted))


def _kinds(owner: str, graph: Graph) -> dict[Hashable, int]:
    """Return the kind of each node, 0 for rows and 1 for columns; empty when the direction of edges has to tell."""
    unknown = [node for node, kind in zip(graph.nodes, graph.kinds, strict=True) if kind not in (0, 1)]
    if unknown and not graph.directed:
        expected = "False for an undirected graph whose nodes don't tell their kind"
        attribute = "bipartite" if "networkx" in graph.title else "type"
        got = f"True, and node {unknown[0]!r} without attribute {attribute} = 0 or 1"
        raise InputError(owner, "bipartite", expected, got)
    return {} if unknown else {node: int(kind == 1) for node, kind in zip(graph.nodes, graph.kinds, strict=True)}


def _two_sides(graph: Graph, kinds: dict[Hashable, int]) -> tuple[list[Hashable], list[Hashable]]:
    """Return the nodes that are rows and those that are columns; without kinds an isolated node is a row."""
    if kinds:
        return [n for n, kind in kinds.items() if kind == 0], [n for n, kind in kinds.items() if kind == 1]
    sources, targets = {u for u, _, _ in graph.edges()}, {v for _, v, _ in graph.edges()}
    return [n for n in graph.nodes if n in sources or n not in targets], [n for n in graph.nodes if n in targets]


def _oriented(
    owner: str, graph: Graph, kinds: dict[Hashable, int]
) -> Iterator[tuple[Hashable, Hashable, dict[str, object]]]:
    for u, v, attributes in graph.edges():
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
