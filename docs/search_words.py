"""What people search for, and the page that answers it: ``python docs/search_words.py docs/_build/html`` checks it.

The words are entries of the index, which the search of Sphinx puts before all else. The check runs the search's own
scripts on the index that was built, in node.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

PAGES = {
    "coming-from/gensim": "gensim, fastText, doc2vec, CBOW",
    "coming-from/node2vec": "node2vec, DeepWalk, PecanPy",
    "coming-from/opentsne": "openTSNE, FIt-SNE, MulticoreTSNE",
    "coming-from/pytorch-metric-learning": "NT-Xent, NTXentLoss, ArcFace, metric learning, triplet loss",
    "coming-from/scikit-learn": "scikit-learn, sklearn, Isomap, GridSearchCV",
    "coming-from/torch-embedding": "nn.Embedding, torch.nn.Embedding",
    "coming-from/umap-learn": "umap-learn, densMAP, parametric UMAP",
    "guide/affinities": "perplexity, kNN graph, nearest neighbours, nearest neighbors",
    "guide/anchors": "ANT, anchors, sparse codes",
    "guide/biologist": "single cell, scanpy, AnnData, gene embedding",
    "guide/choosing": "which method",
    "guide/clusters": "clustering, k-means",
    "guide/comparing": "Procrustes, alignment",
    "guide/communities": "Louvain, Leiden, community detection",
    "guide/contrastive": "InfoNCE, NCE, noise contrastive estimation, SimCLR, CLIP, contrastive learning, SupCon, MoCo,"
    " sampled softmax, hard negatives, temperature",
    "guide/edrep": "EDRep, LINE, NetMF, graph embedding, node embedding, spectral embedding, Laplacian eigenmaps,"
    " softmax normalisation",
    "guide/embeddings": "ANN, HNSW, FAISS, approximate nearest neighbours, approximate nearest neighbors, quantisation,"
    " quantization, vector database, usearch, Qdrant, Chroma, safetensors",
    "guide/epidemiologist": "SIR, epidemic, contact tracing, temporal network",
    "guide/extending": "GloVe, custom loss",
    "guide/gallery": "gallery",
    "guide/judging-graphs": "link prediction, node classification, PPMI, PMI",
    "guide/judging-maps": "trustworthiness, continuity, Shepard diagram",
    "guide/judging-words": "WordSim-353, SimLex, MEN, word similarity",
    "guide/maps": "t-SNE, tSNE, UMAP, dimensionality reduction, dimension reduction, LargeVis, visualization,"
    " visualisation, Barnes-Hut, NeRV, JSE",
    "guide/mds": "MDS, Sammon, Sammon mapping, multidimensional scaling, SMACOF, stress",
    "guide/mutual-information": "mutual information, MINE",
    "guide/network-scientist": "networkx, igraph, NetworkX graph",
    "guide/recommender": "recommendation, collaborative filtering, matrix factorization, matrix factorisation, BPR",
    "guide/retrieval": "two-tower, two towers, dense retrieval, semantic search, RAG",
    "guide/small-tables": "hash embedding, hash embeddings, hashing trick, product quantisation, product quantization,"
    " embedding compression, compositional embedding, low rank",
    "guide/word2dm": "Word2DM, density matrix, density matrices, polysemy, multi-sense",
    "guide/words": "word2vec, skip-gram, skipgram, SGNS, negative sampling, word embedding, word vectors",
}
"""The words that lead to a page, with commas between."""

_SEARCH = """
const fs = require("fs"), vm = require("vm");
const [folder, words] = [process.argv[1], JSON.parse(process.argv[2])];
const known = { getElementById: () => null, documentElement: { dataset: {} }, querySelectorAll: () => [] };
const scope = vm.createContext({
  _: String, document: known, localStorage: { setItem() {} }, console, _ready() {}, SPHINX_HIGHLIGHT_ENABLED: false,
});
scope.window = scope;
for (const file of ["documentation_options", "language_data", "searchtools"])
  vm.runInContext(fs.readFileSync(`${folder}/_static/${file}.js`, "utf8"), scope);
vm.runInContext(fs.readFileSync(`${folder}/searchindex.js`, "utf8"), scope);
const found = words.map((word) => {
  scope.word = word;
  const results = vm.runInContext("Search._performSearch(...Search._parseQuery(word))", scope);
  return results.length ? results[results.length - 1][0] : null;  // shown from the last one
});
console.log(JSON.stringify(found));
"""


def words_of(page: str) -> list[str]:
    """Return what leads to a page."""
    return [word.strip() for word in PAGES.get(page, "").split(",") if word.strip()]


def first_found(folder: Path, words: list[str]) -> list[str | None]:
    """Return the first page that the built search finds for each word."""
    done = subprocess.run(
        ["node", "-e", _SEARCH, "--", str(folder), json.dumps(words)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: list[str | None] = json.loads(done.stdout)
    return found


def main(folder: Path) -> None:
    """Fail where a word leads elsewhere."""
    if shutil.which("node") is None:
        print("node is not here: the search was not asked")  # noqa: T201
        return
    pairs = [(word, page) for page in PAGES for word in words_of(page)]
    found = first_found(folder, [word for word, _ in pairs])
    wrong = [
        f"{word!r} leads to {one}, not to {page}" for (word, page), one in zip(pairs, found, strict=True) if one != page
    ]
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"{len(pairs)} words of the field lead to their pages first")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
