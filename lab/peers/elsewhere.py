"""Peers that need an environment of their own: each runs as a program there, and tells its processor
seconds, which other work on the machine changes little.

    python -m venv A && A/bin/pip install scikit-learn-intelex pacmap trimap fasttext-wheel pycleora leidenalg infomap
    python -m venv B && B/bin/pip install "numpy<2" grape pecanpy nodevectors
    B/bin/pip install --no-build-isolation "setuptools<70" cython lightfm
    export LAB_PEERS=A/bin/python:B/bin/python    # where peers are looked for, in this order
    export LAB_FITSNE=FOLDER                      # a clone of github.com/KlugerLab/FIt-SNE, compiled as it says

A new peer is a function here, which imports what it needs, and its package in PACKAGES. It gets the arrays that the
experiment gives, one thread and a seed, and returns an array; with it its seconds, if it takes the time itself.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Array = Any  # of NumPy; this file also runs under old versions

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")
PACKAGES = {
    "intelex": "sklearnex",
    "fitsne": "numpy",
    "pacmap": "pacmap",
    "localmap": "pacmap",
    "trimap": "trimap",
    "fasttext": "fasttext",
    "fasttext_of_file": "fasttext",
    "cleora": "pycleora",
    "pecanpy": "pecanpy",
    "nodevectors": "nodevectors",
    "grape": "embiggen.embedders",
    "lightfm": "lightfm",
    "leiden": "leidenalg",
    "igraph_leiden": "igraph",
    "infomap": "infomap",
    "contrastive": "cne",
    "word2dm": "torch",
}
WARM = ("pacmap", "localmap", "trimap", "pecanpy", "nodevectors")  # compile at first use: tried on ``small`` before


def run(
    name: str, *, small: dict[str, Array] | None = None, python: str | None = None, n_jobs: int = 1, **given: Array
) -> tuple[Array, float]:
    """Return what a peer makes of arrays, and the processor seconds that it took there, without imports.

    ``python`` is the interpreter, one of LAB_PEERS if left out.
    """
    python = str(Path(shutil.which(python) or python).absolute()) if python else interpreter(PACKAGES[name])
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(source, **given, **{f"small {key}": value for key, value in (small or {}).items()})
        command = [python, __file__, name, str(source), str(target)]
        environment = {**os.environ, **dict.fromkeys(THREADS, str(n_jobs))}
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=environment)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        with np.load(target, allow_pickle=False) as file:
            return file["found"], float(file["seconds"])


@cache
def interpreter(package: str) -> str:
    """Return the first interpreter of LAB_PEERS, else this one, that has a package."""
    for python in [*filter(None, os.environ.get("LAB_PEERS", "").split(":")), sys.executable]:
        if not subprocess.run([python, "-c", f"import {package}"], check=False, capture_output=True).returncode:
            return python
    raise SystemExit(f"no interpreter of LAB_PEERS can import {package}: see lab/peers/elsewhere.py")


def version(name: str) -> str:
    """Return the version of a peer's package, as it is told in results."""
    if name == "fitsne":
        return "built from source"
    packages = {"embiggen.embedders": "grape", "sklearnex": "scikit-learn-intelex"}
    package = packages.get(PACKAGES[name], PACKAGES[name])
    of_import = f"packages_distributions().get({package!r}, [{package!r}])[0]"  # fasttext is in fasttext-wheel, too
    told = f"from importlib.metadata import packages_distributions, version; print(version({of_import}))"
    done = subprocess.run([interpreter(PACKAGES[name]), "-c", told], check=True, capture_output=True, text=True)
    return done.stdout.strip()


# ---------------------------------------------------------------- maps


def intelex(X: Array, seed: int, perplexity: float = 30.0, max_iter: int = 750) -> Array:
    from sklearnex import patch_sklearn

    patch_sklearn(verbose=False)
    from sklearn.manifold import TSNE

    return TSNE(perplexity=float(perplexity), max_iter=int(max_iter), random_state=int(seed), n_jobs=1).fit_transform(X)


def fitsne(X: Array, seed: int, perplexity: float = 30.0, max_iter: int = 750) -> Array:
    """The program by its own wrapper, at its defaults."""
    sys.path.insert(0, os.environ["LAB_FITSNE"])
    from fast_tsne import fast_tsne

    return fast_tsne(X, perplexity=int(perplexity), max_iter=int(max_iter), nthreads=1, seed=int(seed))


def pacmap(X: Array, seed: int) -> Array:
    from pacmap import PaCMAP

    return PaCMAP(random_state=int(seed)).fit_transform(X)


def localmap(X: Array, seed: int) -> Array:
    from pacmap import LocalMAP

    return LocalMAP(random_state=int(seed)).fit_transform(X)


def trimap(X: Array, seed: int) -> Array:
    from trimap import TRIMAP

    np.random.seed(int(seed))  # noqa: NPY002 - it takes no seed
    return TRIMAP(verbose=False).fit_transform(X)


def contrastive(rows: Array, columns: Array, start: Array, mode: Array, **more: Array) -> tuple[Array, float]:
    """contrastive-ne from a graph and a start; the seconds are those of the clock."""
    from cne import CNE
    from scipy.sparse import csr_matrix

    graph = csr_matrix((np.ones(len(rows)), (rows, columns)), (len(start), len(start)))
    how = {name: float(value) for name, value in more.items()}
    began = time.perf_counter()
    model = CNE(loss_mode=str(mode), negative_samples=5, seed=0, device="cpu", embd_dim=start.shape[1], **how)
    return model.fit_transform(init=start.astype(np.float32), graph=graph), time.perf_counter() - began


# ---------------------------------------------------------------- graphs: edges both ways, rows of vectors


def cleora(edges: Array, n: int, d: int, seed: int) -> Array:
    import pycleora

    lines = (f"{u} {v}" for u, v in edges[edges[:, 0] < edges[:, 1]].tolist())
    graph = pycleora.SparseMatrix.from_iterator(lines, "complex::reflexive::node")
    found = np.zeros((int(n), int(d)), np.float32)
    of_nodes = pycleora.embed(graph, feature_dim=int(d), seed=int(seed), num_workers=1)
    found[[int(name) for name in graph.entity_ids]] = of_nodes
    return found


def pecanpy(edges: Array, n: int, d: int, seed: int) -> Array:
    from pecanpy.pecanpy import SparseOTF

    graph = SparseOTF(p=1, q=1, workers=1, random_state=int(seed))
    write_edges(edges, "edges.tsv")
    graph.read_edg("edges.tsv", weighted=False, directed=False)
    found = np.zeros((int(n), int(d)), np.float32)
    found[np.array(graph.nodes, int)] = graph.embed(dim=int(d), num_walks=10, walk_length=80, window_size=10, epochs=1)
    return found


def nodevectors(edges: Array, n: int, d: int, seed: int) -> Array:
    """ProNE: the package's own method, GGVec, does not converge with 128 components of small graphs."""
    from nodevectors import ProNE
    from scipy.sparse import csr_matrix

    np.random.seed(int(seed))  # noqa: NPY002 - it takes no seed
    graph = csr_matrix((np.ones(len(edges), np.float32), edges.T), (int(n), int(n)))
    return ProNE(n_components=int(d), verbose=False).fit_transform(graph)


def grape(edges: Array, n: int, d: int, seed: int) -> Array:
    """Its walks and skip-gram (Node2Vec), at its defaults but for the size."""
    from embiggen.embedders import Node2VecSkipGramEnsmallen
    from ensmallen import Graph

    write_edges(edges, "edges.tsv")
    graph = Graph.from_csv(
        directed=False, edge_path="edges.tsv", edge_list_separator="\t", edge_list_header=False,
        sources_column_number=0, destinations_column_number=1, edge_list_numeric_node_ids=False,
        verbose=False, name="peer",
    )  # fmt: skip
    model = Node2VecSkipGramEnsmallen(embedding_size=int(d), random_state=int(seed), verbose=False)
    frame = model.fit_transform(graph, return_dataframe=True).get_all_node_embedding()[0]
    found = np.zeros((int(n), int(d)), np.float32)
    found[frame.index.astype(int)] = frame.to_numpy()
    return found


def write_edges(edges: Array, path: str) -> None:
    once = edges[edges[:, 0] < edges[:, 1]]
    np.savetxt(path, once, fmt="%d", delimiter="\t")


def leiden(edges: Array, n: int, seed: int, weights: Array | None = None) -> Array:
    import igraph
    import leidenalg

    once = edges[:, 0] < edges[:, 1]
    graph = igraph.Graph(int(n), edges[once].tolist())
    weights = None if weights is None else weights[once].tolist()
    kind = leidenalg.ModularityVertexPartition
    return np.array(leidenalg.find_partition(graph, kind, weights=weights, seed=int(seed)).membership)


def igraph_leiden(edges: Array, n: int, seed: int, weights: Array | None = None) -> Array:
    """That of igraph itself, until nothing moves."""
    import random

    import igraph

    random.seed(int(seed))
    once = edges[:, 0] < edges[:, 1]
    graph = igraph.Graph(int(n), edges[once].tolist())
    how = {"objective_function": "modularity", "n_iterations": -1}
    return np.array(
        graph.community_leiden(weights=None if weights is None else weights[once].tolist(), **how).membership
    )


def infomap(edges: Array, n: int, seed: int) -> Array:
    from infomap import Infomap

    model = Infomap(silent=True, two_level=True, seed=int(seed) + 1)
    model.add_links(edges[edges[:, 0] < edges[:, 1]].tolist())
    model.run()
    groups = dict(model.modules)
    return np.array([groups.get(i, -1) for i in range(int(n))])


# ---------------------------------------------------------------- items and words


def lightfm(users: Array, items: Array, shape: Array, d: int, seed: int, n_epochs: int = 30) -> Array:
    """WARP loss, thirty epochs; returns the scores of all items for all users."""
    from lightfm import LightFM
    from scipy.sparse import coo_matrix

    likes = coo_matrix((np.ones(len(users), np.float32), (users, items)), tuple(shape.tolist()))
    model = LightFM(no_components=int(d), loss="warp", random_state=int(seed))
    model.fit(likes, epochs=int(n_epochs), num_threads=1)
    return (model.user_embeddings @ model.item_embeddings.T + model.item_biases).astype(np.float32)


def fasttext(
    path: Array, d: int, n_epochs: int, rate: float, min_count: int, sample: float = 1e-3, asked: Array | None = None
) -> Array:
    """Skip-gram with subwords of 3 to 6 letters; returns words and vectors as one structured array.

    The words are those of the text, or those asked for, of which some may not be in it.
    """
    import fasttext as package

    how = {"dim": int(d), "epoch": int(n_epochs), "lr": float(rate), "minCount": int(min_count), "ws": 5, "neg": 5}
    model = package.train_unsupervised(str(path), model="skipgram", t=float(sample), thread=1, verbose=0, **how)
    words = model.get_words() if asked is None else asked.tolist()
    found = np.zeros(len(words), [("word", f"U{max(map(len, words))}"), ("vector", np.float32, (int(d),))])
    found["word"], found["vector"] = words, [model.get_word_vector(word) for word in words]
    return found


def fasttext_of_file(
    path: Array, d: int, rate: float, min_count: int, sample: float, n_threads: int, longest: int
) -> Array:
    """Skip-gram of a file, one epoch; returns its words, the seconds by the clock and the bytes above the start."""
    import fasttext as package

    def memory(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(field))) * 1024

    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, began = memory("VmRSS"), time.perf_counter()
    how = {"dim": int(d), "lr": float(rate), "minCount": int(min_count), "t": float(sample), "thread": int(n_threads)}
    parts = {"minn": 3 if longest else 0, "maxn": int(longest)}
    model = package.train_unsupervised(str(path), model="skipgram", epoch=1, ws=5, neg=5, verbose=0, **how, **parts)
    return np.array([len(model.get_words()), time.perf_counter() - began, memory("VmHWM") - before])


def word2dm(
    B: Array, C: Array, inputs: Array, outs: Array, optimizer: Array, rate: Array, batch: Array
) -> tuple[Array, float]:
    """Word2DM in PyTorch, batched, with sparse gradients: a pass over pairs, forward, backward and step.

    Tables are (words, n, m), outs (pairs, 1 + K), the true one first. The score is tr(A_t A_o), written as |C_oᵀ B_t|²
    or with the matrices formed, whichever is quicker in the first batches. Returns the mean loss, nats, which way that
    was, and the version of torch; the seconds are those of the clock.
    """
    import torch

    n, m = B.shape[1:]
    inputs, outs = (torch.from_numpy(ids.astype(np.int64)) for ids in (inputs, outs))
    tables = [
        torch.nn.Embedding.from_pretrained(torch.from_numpy(table.reshape(-1, n * m)), freeze=False, sparse=True)
        for table in (B, C)
    ]
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.SparseAdam}
    descent = kinds[str(optimizer)]([table.weight for table in tables], lr=float(rate))
    signs = torch.ones(outs.shape[1])
    signs[1:] = -1

    def step(first: int, formed: bool) -> float:
        t, o = inputs[first : first + int(batch)], outs[first : first + int(batch)]
        B, C = tables[0](t).view(-1, n, m), tables[1](o).view(len(t), -1, n, m)
        if formed:
            around, out = B @ B.transpose(1, 2), C @ C.transpose(2, 3)
            scores = (around[:, None] * out).sum((2, 3))
        else:  # all columns of the outs side by side, so that it is one product for each pair
            product = C.permute(0, 1, 3, 2).reshape(len(t), -1, n) @ B
            scores = product.square().view(len(t), o.shape[1], -1).sum(2)
        losses = torch.nn.functional.softplus(-signs * scores)
        losses[:, 1:] = losses[:, 1:] * (o[:, 1:] != o[:, :1])
        loss = losses.sum()
        descent.zero_grad()
        (loss / len(t) if optimizer == "adam" else loss).backward()
        descent.step()
        return float(loss.detach())

    def timed(formed: bool) -> float:
        start = time.perf_counter()
        step(0, formed)
        return time.perf_counter() - start

    formed = min((min(timed(way) for _ in range(4)), way) for way in (False, True))[1]
    start = time.perf_counter()
    total = sum(step(first, formed) for first in range(0, len(inputs), int(batch)))
    seconds = time.perf_counter() - start
    counted = len(inputs) + int((outs[:, 1:] != outs[:, :1]).sum())
    fields = [("loss", float), ("formed", bool), ("torch", "U32")]
    return np.array((total / counted, formed, torch.__version__), fields), seconds


def main() -> None:
    name, source, target = sys.argv[1:]
    sys.path.pop(0)  # this folder has modules named like packages
    importlib.import_module(PACKAGES[name])
    method = globals()[name]
    with np.load(source, allow_pickle=False) as file:
        given = {key: file[key] for key in file.files if not key.startswith("small ")}
        small = {key[6:]: file[key] for key in file.files if key.startswith("small ")}
    if name in WARM and small:
        method(**{**given, **small})
    began = sum(os.times()[:4])
    found = method(**given)
    found, seconds = found if isinstance(found, tuple) else (found, sum(os.times()[:4]) - began)
    np.savez(target, found=np.asarray(found), seconds=seconds)


if __name__ == "__main__":
    main()
