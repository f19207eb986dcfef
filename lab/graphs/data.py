"""Graphs with labels, as they are read from the folder ``graphs`` of the data."""

from __future__ import annotations

import csv
import gzip
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

import nearfar as nf
from lab.data import DATA

SINGLE = ("email-Eu-core", "polblogs", "polblogs+isolates", "cora", "citeseer", "musae-git")  # one label per node
UNLABELLED = "soc-slashdot0902"
MULTI = ("blogcatalog", "wikipedia")
WITH_GROUPS = ("email-Eu-core", "polblogs", "cora", "citeseer", "wikipedia", "musae-facebook", "musae-git")
# edges file, its delimiter, header lines; labels file, its delimiter, header lines, column of the label
FILES: dict[str, tuple[str, str, int, str, str, int, int]] = {
    "email-Eu-core": ("edges.txt.gz", " ", 0, "department-labels.txt", " ", 0, 1),
    "polblogs": ("edges.tsv.gz", "\t", 0, "nodes.tsv.gz", "\t", 1, 2),
    "cora": ("edges.tsv.gz", "\t", 0, "labels.tsv.gz", "\t", 1, 1),
    "citeseer": ("edges.tsv.gz", "\t", 0, "labels.tsv.gz", "\t", 1, 1),
    "musae-git": ("edges.csv.xz", ",", 1, "target.csv.xz", ",", 1, 2),
    "musae-facebook": ("edges.csv.xz", ",", 1, "target.csv.xz", ",", 1, 3),  # of temperature.py
    "blogcatalog": ("edges.tsv.xz", "\t", 0, "labels.tsv.gz", "\t", 0, 1),
    "wikipedia": ("edges.tsv.xz", "\t", 0, "labels.tsv.gz", "\t", 0, 1),
}


@dataclass
class LabelledGraph:
    """A graph with labels: adjacency (symmetric, ones), directed (as in the file), labels (n, k) of 0 and 1."""

    name: str
    adjacency: Any
    directed: Any
    labels: NDArray[np.bool_]

    @property
    def scored(self) -> NDArray[np.bool_]:
        """The nodes with a label and an edge."""
        return self.labels.any(axis=1) & (np.diff(self.adjacency.indptr) > 0)

    def f1(
        self, vectors: NDArray[Any], fractions: tuple[float, ...], n_repeats: int, random_state: int
    ) -> dict[str, float]:
        """Return micro and macro F1 of labels told from vectors, for each share of known nodes among those scored."""
        rows, how = np.flatnonzero(self.scored), {"n_repeats": n_repeats, "random_state": random_state}
        found = nf.evaluate.node_classification(vectors[rows], self.labels[rows], fractions=fractions, **how)
        kinds = {"micro": found.micro, "macro": found.macro}
        return {f"{kind} {share}": value for kind, of in kinds.items() for share, value in of.items()}


def read_graph(name: str, folder: Path = DATA / "graphs") -> LabelledGraph:
    """Read one of the labelled graphs, nodes without an edge included."""
    edge_file, edge_sep, edge_skip, label_file, label_sep, label_skip, column = FILES[name]
    edges = np.array(_rows(folder / name / edge_file, edge_sep, edge_skip), dtype=np.int64)[:, :2]
    table = _rows(folder / name / label_file, label_sep, label_skip)
    nodes = np.array([int(row[0]) for row in table])
    values = np.array([row[column] for row in table])
    known = values != "-1"  # a node without a label
    n = int(max(edges.max(), nodes.max())) + 1
    kinds, codes = np.unique(values[known], return_inverse=True)
    labels = np.zeros((n, kinds.size), dtype=np.bool_)
    labels[nodes[known], codes] = True
    edges = edges[edges[:, 0] != edges[:, 1]]
    directed = csr_array(coo_array((np.ones(len(edges), np.float32), edges.T), shape=(n, n)))
    directed.data[:] = 1.0  # repeated edges had added up
    adjacency = csr_array(directed + directed.T)
    adjacency.data[:] = 1.0
    adjacency.sort_indices()
    return LabelledGraph(name, adjacency, directed, labels)


def read_adjacency(name: str) -> Any:
    """Return the adjacency matrix of a graph without directions, of its nodes that have an edge."""
    if name != UNLABELLED:
        return without_isolates(read_graph(name)).adjacency
    edges = np.array(_rows(DATA / "graphs" / name / "soc-Slashdot0902.txt.xz", "\t", 4), dtype=np.int64)
    return nf.Relation.from_edges(edges[edges[:, 0] != edges[:, 1]]).to_scipy()


def without_isolates(graph: LabelledGraph) -> LabelledGraph:
    """Return the graph of the nodes that have an edge."""
    kept = np.flatnonzero(np.diff(graph.adjacency.indptr))
    parts = (csr_array(matrix[kept][:, kept]) for matrix in (graph.adjacency, graph.directed))
    return LabelledGraph(graph.name, *parts, graph.labels[kept])


def _rows(path: Path, delimiter: str, skip: int) -> list[list[str]]:
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8") as file:
        return list(csv.reader(file, delimiter=delimiter))[skip:]
