"""Which genes interact, told from vectors of the known interactions: EDRep against Gene2Vec on the same pairs.

    python benchmarks/genes.py
    python benchmarks/genes.py --seeds 1 --methods edrep

The labelled pairs of genes of Du et al. (2019) that train their classifier, read from ../shared/data/gene2vec. (No
gene of their validation and test pairs is among those of their training pairs, so vectors made of pairs know nothing of
these.) Of the pairs that interact, 70 % make the vectors and are used for nothing else. Of the other 30 %, and of as
many pairs that do not interact, one third teaches a logistic regression on one number, the cosine of the two vectors,
and tells which settings are best; two thirds test it. Equal pairs, in either order, are one. A gene without a pair that
makes vectors has the zero vector. As in Gene2Vec, a pair is a sentence of two words for gensim's skip-gram: d = 200,
window 1; 10 passes over the pairs, shuffled before each, or 50 (10 of gensim's default of 5 epochs), or 200. Times are
processor seconds of one thread.

The pairs that do not interact are often of genes that interact with nobody: what the degrees alone tell is in the table
as a method (the logarithm of their product), and scores are given once more over the pairs of two genes that both have
a pair that makes vectors.
"""

from __future__ import annotations

import argparse
import lzma
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import DATA, ResultFile, say

N_COMPONENTS, SHARE = 200, 0.7
KEYS = ("method", "setting", "seed")
# walk length and temperature
EDREP = {f"walk {steps}, temperature {t:g}": (steps, t) for steps in (1, 2, 3) for t in (1.0, 0.3, 0.1)}
GENE2VEC = {f"{passes} passes": passes for passes in (10, 50, 200)}
SETTINGS: dict[str, Any] = {"edrep": EDREP, "gene2vec": GENE2VEC, "degrees": {"": None}}
Pairs = NDArray[np.int64]


@dataclass
class Genes:
    """Pairs of genes by number: those that make the vectors, and labelled ones that teach and test the regression."""

    n: int
    positive: Pairs
    learn: tuple[Pairs, NDArray[np.bool_]]
    test: tuple[Pairs, NDArray[np.bool_]]


def read_genes(seed: int, folder: Path = DATA / "gene2vec") -> Genes:
    """Read the pairs and split them."""
    number: dict[str, int] = {}
    with lzma.open(folder / "train_text.txt.xz", "rt", encoding="utf-8") as file:
        pairs = np.array([[number.setdefault(name, len(number)) for name in line.split()] for line in file])
    with lzma.open(folder / "train_label.txt.xz", "rt", encoding="utf-8") as file:
        labels = np.array([line.strip() == "1" for line in file if line.strip()])
    pairs = np.sort(pairs, axis=1)
    different = pairs[:, 0] != pairs[:, 1]
    both = [np.unique(pairs[different & (labels == label)], axis=0) for label in (True, False)]
    n = len(number)
    keys = [part[:, 0] * n + part[:, 1] for part in both]
    both[1] = both[1][~np.isin(keys[1], keys[0])]  # what interacts in one line does
    rng = np.random.default_rng(seed)
    positive, negative = (rng.permutation(part) for part in both)
    n_seen = round(SHARE * len(positive))
    hidden = positive[n_seen:]
    negative = negative[: len(hidden)]
    third = len(hidden) // 3

    def labelled(part: slice) -> tuple[Pairs, NDArray[np.bool_]]:
        return np.concatenate([hidden[part], negative[part]]), np.repeat([True, False], [len(hidden[part])] * 2)

    return Genes(n, positive[:n_seen], labelled(slice(third)), labelled(slice(third, None)))


def embed(method: str, setting: Any, genes: Genes, seed: int) -> NDArray[Any]:
    """Return vectors of all genes, of zeros for those without a training pair."""
    vectors = np.zeros((genes.n, N_COMPONENTS), np.float32)
    if method == "degrees":
        vectors[:, 0] = np.log1p(np.bincount(genes.positive.ravel(), minlength=len(vectors)))
        return vectors
    if method == "edrep":
        steps, temperature = setting
        relation = nf.Relation.from_edges(genes.positive).random_walk(steps)
        model = nf.EDRep(N_COMPONENTS, temperature=temperature, random_state=seed, n_jobs=1).fit(relation)
        vectors[np.array(model.vectors_.ids.to_list())] = model.embedding_
        return vectors
    return gene2vec(genes, setting, seed, vectors)


def gene2vec(genes: Genes, passes: int, seed: int, vectors: NDArray[Any]) -> NDArray[Any]:
    """Return the vectors of gensim's skip-gram on pairs as sentences, shuffled before each pass."""
    from gensim.models import Word2Vec

    rng = np.random.default_rng(seed)
    sentences = [[str(a), str(b)] for a, b in genes.positive.tolist()]
    model = Word2Vec(vector_size=N_COMPONENTS, window=1, min_count=1, sg=1, workers=1, seed=seed + 1)
    model.build_vocab(sentences)
    rates = np.linspace(model.alpha, model.min_alpha, passes + 1)
    for k in range(passes):
        order = rng.permutation(len(sentences))
        shuffled = [sentences[i] for i in order]
        how = {"start_alpha": rates[k], "end_alpha": rates[k + 1]}
        model.train(shuffled, total_examples=len(sentences), epochs=1, **how)
    vectors[np.array([int(key) for key in model.wv.index_to_key])] = model.wv.vectors
    return vectors


def score(method: str, vectors: NDArray[Any], genes: Genes) -> dict[str, float]:
    """Return accuracy and AUC of the test pairs, of all and of genes with a pair; and the AUC of those that teach."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    def feature(pairs: Pairs) -> NDArray[np.float64]:
        a, b = (vectors[pairs[:, side]].astype(np.float64) for side in (0, 1))
        if method == "degrees":
            return (a + b)[:, :1]
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        return (np.einsum("ij,ij->i", a, b) / np.where(norms > 0, norms, 1.0))[:, None]

    found = {}
    with_pairs = np.isin(np.arange(genes.n), genes.positive)
    for name in ("", "_known"):
        (learn, labels), (test, truth) = (
            (pairs[kept], labels[kept])
            for pairs, labels in (genes.learn, genes.test)
            for kept in [with_pairs[pairs].all(axis=1) if name else np.ones(len(pairs), bool)]
        )
        F, G = feature(learn), feature(test)
        model = LogisticRegression(C=1e6, class_weight="balanced").fit(F, labels)
        right = model.predict(G) == truth
        balanced = (right[truth].mean() + right[~truth].mean()) / 2
        found |= {
            f"accuracy{name}": round(float(balanced), 5),
            f"auc{name}": round(float(roc_auc_score(truth, G[:, 0])), 5),
            f"learn_auc{name}": round(float(roc_auc_score(labels, F[:, 0])), 5),
            f"n_test{name}": len(truth),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=[*SETTINGS], choices=SETTINGS)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument(
        "--passes", type=int, nargs="+", default=[*GENE2VEC.values()], help="of Gene2Vec, which of these"
    )
    parser.add_argument("--again", action="store_true", help="repeat what is in the result file already")
    args = parser.parse_args()
    file = ResultFile("genes", KEYS)
    for method in args.methods:
        for name, setting in SETTINGS[method].items():
            if method == "gene2vec" and setting not in args.passes:
                continue
            for seed in range(args.seeds):
                key = dict(zip(KEYS, (method, name, seed), strict=True))
                if not args.again and file.find(**key):
                    continue
                genes = read_genes(seed)
                start = time.process_time()
                vectors = embed(method, setting, genes, seed)
                seconds = time.process_time() - start
                scores = score(method, vectors, genes)
                facts = {"n_genes": len(np.unique(genes.positive)), "n_pairs": len(genes.positive)}
                file.add({**key, "seconds": round(seconds, 3), **scores, **facts})
                say(f"{method} {name} seed {seed}: {seconds:.1f} s {scores}")


if __name__ == "__main__":
    main()
