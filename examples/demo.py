"""Embed three data sets, query neighbours, draw plots, and show all on one page: ``make demo``.

All data come with the installed packages: the characters of a novel (networkx), handwritten digits (scikit-learn) and
the documentation of Python (the standard library). Results are written to demo-output/; index.html shows them.
"""

from __future__ import annotations

import base64
import html
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

Neighbours = dict[str, list[tuple[object, float]]]
OUT = Path("demo-output")
SEED = 0


def main() -> None:
    start = time.perf_counter()
    OUT.mkdir(exist_ok=True)
    near = {"Characters of Les Misérables": characters()}
    explored = digits()
    near["Words of Python's documentation"] = words()
    write_page(near, explored, OUT / "index.html")
    print(f"\nWhole demo: {time.perf_counter() - start:.1f} s. Plots and vectors are in {OUT}/:")
    for path in sorted(OUT.iterdir()):
        print(f"  {path.name:24} {path.stat().st_size / 1000:8.1f} kB")
    print(f"\nOpen this page in a browser: {(OUT / 'index.html').resolve().as_uri()}")


def write_page(near: dict[str, Neighbours], explored: nf.viewer.MapPage, path: Path) -> None:
    """Write one page that needs no other file: neighbours, pictures, and the map to explore."""
    parts = ["<!doctype html><meta charset='utf-8'><title>nearfar</title><style>body{font:16px/1.5 sans-serif;"]
    parts.append(
        "max-width:60rem;margin:2rem auto;padding:0 1rem}img{max-width:49%}iframe{width:100%;height:44rem}</style>"
    )
    parts.append("<h1>Related things have similar vectors</h1><p>Relations, tables and texts go in; a vector for each")
    parts.append(
        "object comes out. With vectors you look for neighbours, find groups, draw maps.</p><h2>Neighbours</h2>"
    )
    for title, found in near.items():
        parts.append(f"<h3>{html.escape(title)}</h3><ul>")
        for key, others in found.items():
            named = ", ".join(f"{html.escape(str(other))} <small>{score:.2f}</small>" for other, score in others)
            parts.append(f"<li><b>{html.escape(key)}</b>: {named}</li>")
        parts.append("</ul>")
    parts.append("<h2>A map to explore</h2><p>1,797 digits: zoom, search, and click on one for its neighbours.</p>")
    parts.append(f'<iframe title="map" srcdoc="{html.escape(explored.html())}"></iframe><h2>Pictures</h2>')
    for name in ("characters", "digits", "digits-map"):
        image = base64.b64encode((OUT / f"{name}.png").read_bytes()).decode()
        parts.append(f"<img alt='{name}' src='data:image/png;base64,{image}'>")
    parts.append(
        "<h2>With data of yours</h2><p><code>nearfar FILE</code> says what a file is, and makes such a map.</p>"
    )
    path.write_text("\n".join(parts), "utf-8")


def fit(what: str, relation: nf.Relation, task: str, **parameters: int) -> nf.Embedding:
    """Fit EDRep, and print the size of the relation and the time."""
    facts = relation.describe()
    begin = time.perf_counter()
    est = nf.EDRep(task=task, random_state=SEED, **parameters).fit(relation)
    seconds = time.perf_counter() - begin
    print(f"\n{what}: {facts['n_rows']:,} objects, {facts['n_entries']:,} relations")
    print(f"  {est.vectors_.n_components} components, {est.n_iter_} epochs in {seconds:.2f} s, loss {est.loss_:.3f}")
    return est.vectors_


def show_neighbours(near: Neighbours) -> Neighbours:
    for key, others in near.items():
        print(f"  {key:>12}: " + ", ".join(f"{other} {score:.2f}" for other, score in others))
    return near


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


def characters() -> Neighbours:
    """Embed the co-occurrence of characters in Les Misérables; return who one would look for beside some."""
    graph = nx.les_miserables_graph()
    relation = nf.Relation.from_edges(graph)
    emb = fit("Characters of Les Misérables, by co-occurrence", relation, "links", n_components=16)
    near = show_neighbours({who: emb.recommend(who, topn=5) for who in ("Valjean", "Gavroche", "Fantine")})
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
    return near


def digits() -> nf.viewer.MapPage:
    """Embed images by their ten nearest neighbours, without labels; then draw a t-SNE map, and return its page."""
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
    print(f"  t-SNE map of the images: {est.n_iter_} iterations in {time.perf_counter() - begin:.2f} s")
    nf.plots.scatter(est.embedding_, data.target, title="Digits, t-SNE", path=OUT / "digits-map.png")
    known = {"digit": [str(digit) for digit in data.target]}
    page = nf.Embedding(data.data).map(est, metadata=known, title="Digits")
    if page.judged is not None:
        print(f"  which neighbours the map keeps: area under R_NX {page.judged.auc:.3f}")
    return page


def words() -> Neighbours:
    """Embed words by their co-occurrence in the documentation of Python; return the neighbours of some."""
    emb = fit(
        "Words of Python's documentation",
        nf.Relation.from_edges(near_each_other(), directed=True),
        "labels",
        n_components=64,
    )
    asked = ("float", "string", "class", "import", "loop", "exceptions", "bytes")
    there = [word for word in asked if word in emb]  # the text differs between versions of Python
    near = show_neighbours({word: emb.most_similar(word, topn=5) for word in there})
    emb.save(OUT / "words.safetensors")
    emb.save(OUT / "words.txt")  # word2vec's text format, for other programs
    return near


def near_each_other(window: int = 2, min_count: int = 10, n_skipped: int = 30) -> Iterator[tuple[str, str]]:
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
