"""Embed three data sets, query neighbours and draw plots: ``make demo``.

All data come with the installed packages: the characters of a novel (networkx), handwritten digits (scikit-learn) and
the documentation of Python (the standard library). Results are written to demo-output/.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

import networkx as nx
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import kneighbors_graph

import nearfar as nf

OUT = Path("demo-output")
SEED = 0


def main() -> None:
    start = time.perf_counter()
    OUT.mkdir(exist_ok=True)
    characters()
    digits()
    words()
    print(f"\nWhole demo: {time.perf_counter() - start:.1f} s. Plots and vectors are in {OUT}/:")
    for path in sorted(OUT.iterdir()):
        print(f"  {path.name:24} {path.stat().st_size / 1000:8.1f} kB")


def fit(what: str, relation: nf.Relation, task: str, **parameters: int) -> nf.Embedding:
    """Fit EDRep, and print the size of the relation and the time."""
    facts = relation.describe()
    begin = time.perf_counter()
    est = nf.EDRep(task=task, random_state=SEED, **parameters).fit(relation)
    seconds = time.perf_counter() - begin
    print(f"\n{what}: {facts['n_rows']:,} objects, {facts['n_entries']:,} relations")
    print(f"  {est.vectors_.n_components} components, {est.n_iter_} epochs in {seconds:.2f} s, loss {est.loss_:.3f}")
    return est.vectors_


def show_neighbours(emb: nf.Embedding, *asked: str) -> None:
    for key in asked:
        print(f"  {key:>12}: " + ", ".join(f"{other} {score:.2f}" for other, score in emb.most_similar(key, topn=5)))


def draw_with_names(emb: nf.Embedding, names: list[str], path: Path, **options: object) -> None:
    """Plot the vectors on their two principal components, with as many names as fit."""
    plane = PCA(2, random_state=SEED).fit_transform(emb.vectors)
    axes = nf.plots.scatter(plane, **options)
    line = 0.025 * np.ptp(plane[:, 1])
    named: list[int] = []
    for row in emb.ids.rows(names):
        if all(abs(plane[row, 1] - plane[other, 1]) > line for other in named):
            axes.annotate(emb.ids[row], plane[row], xytext=(4, 2), textcoords="offset points", fontsize=8)
            named.append(row)
    axes.margins(x=0.15)
    axes.figure.savefig(path, dpi=150)


def characters() -> None:
    """Embed the co-occurrence of characters in Les Misérables."""
    graph = nx.les_miserables_graph()
    relation = nf.Relation.from_edges(graph)
    emb = fit("Characters of Les Misérables, by co-occurrence", relation, "links", n_components=16)
    for who in ("Valjean", "Gavroche", "Fantine"):  # whom one would look for beside them
        print(f"  {who:>12}: " + ", ".join(f"{other} {score:.2f}" for other, score in emb.recommend(who, topn=5)))
    groups = nx.community.greedy_modularity_communities(graph, "weight")
    group_of = {name: f"group {k + 1}" for k, group in enumerate(groups) for name in group}
    well_known = sorted(graph, key=graph.degree, reverse=True)[:40]
    path = OUT / "characters.png"
    draw_with_names(
        emb,
        well_known,
        path,
        labels=[group_of[name] for name in emb.ids],
        title="Les Misérables (colours: communities by networkx)",
    )
    emb.save(OUT / "characters.safetensors")


def digits() -> None:
    """Embed images by their ten nearest neighbours, without labels; then draw a t-SNE map."""
    data = load_digits()
    graph = kneighbors_graph(data.data, n_neighbors=10)
    emb = fit(
        "Digits, 8 x 8 images and their ten nearest neighbours", nf.Relation.from_matrix(graph + graph.T), "communities"
    )
    scores = nf.evaluate.communities(emb, data.target, random_state=SEED)
    print(f"  clusters of the vectors compared with the digits: NMI {scores.nmi:.3f}")
    nf.plots.scatter(emb, data.target, title="Digits, EDRep of nearest neighbours", path=OUT / "digits.png")
    emb.save(OUT / "digits.safetensors")
    begin = time.perf_counter()
    est = nf.TSNE(random_state=SEED).fit(data.data)
    kept = nf.evaluate.neighborhoods(data.data, est.embedding_, labels=data.target, n_neighbors=10)
    print(f"  t-SNE map of the images: {est.n_iter_} iterations in {time.perf_counter() - begin:.2f} s")
    print(f"  area under R_NX {kept.auc:.3f}; label accuracy of the 10 nearest neighbours {kept.accuracy[10]:.1%}")
    nf.plots.scatter(est.embedding_, data.target, title="Digits, t-SNE", path=OUT / "digits-map.png")


def words() -> None:
    """Embed words by their co-occurrence in the documentation of Python."""
    emb = fit(
        "Words of Python's documentation",
        nf.Relation.from_edges(near_each_other(), directed=True),
        "labels",
        n_components=64,
    )
    asked = ("float", "string", "class", "import", "loop", "exceptions", "bytes")
    show_neighbours(emb, *(word for word in asked if word in emb))  # the text differs between versions of Python
    emb.save(OUT / "words.safetensors")
    emb.save(OUT / "words.txt")  # word2vec's text format, for other programs


def near_each_other(window: int = 5, min_count: int = 10, n_skipped: int = 30) -> Iterator[tuple[str, str]]:
    """Yield pairs of words up to ``window`` apart, without the rarest and the most frequent words."""
    texts = [re.findall("[a-z_]{2,}", text.lower()) for text in topics.values()]
    counts = Counter(word for text in texts for word in text)
    skipped = {word for word, _ in counts.most_common(n_skipped)}
    for text in texts:
        kept = [word for word in text if counts[word] >= min_count and word not in skipped]
        for i, word in enumerate(kept):
            for other in kept[max(0, i - window) : i]:
                if other != word:
                    yield word, other
                    yield other, word


if __name__ == "__main__":
    main()
