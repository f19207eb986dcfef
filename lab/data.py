"""The data that experiments read, where they come from, and what several of them make of them.

They lie beside the clone, or where ``--data FOLDER`` or the variable NEARFAR_DATA says.
"""

from __future__ import annotations

import gzip
import lzma
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, load_npz

DATA = Path(os.environ.get("NEARFAR_DATA", Path(__file__).absolute().parents[2] / "shared" / "data"))
# What is in it, and where that comes from.
SOURCES = {
    "ag_news": "AG News (Zhang, Zhao & LeCun 2015): train_subset_20000.csv.xz, test.csv.xz",
    "compositional_ambiguity": "judgements of phrases (Mitchell & Lapata 2008; Grefenstette & Sadrzadeh 2011, 2012)",
    "fashion_mnist": "github.com/zalandoresearch/fashion-mnist: all images in one raw file, and their labels",
    "gene2vec": "predictionData of github.com/jingcheng-du/Gene2vec: train_text.txt.xz, train_label.txt.xz",
    "graphs": "one folder for each graph with its edges and labels, packed or not; edges.csv.xz and target.csv.xz of"
    " musae-facebook are facebook_edges.csv and facebook_target.csv of github.com/benedekrozemberczki/MUSAE",
    "mnist": "MNIST (LeCun, Cortes & Burges) as arrays: mnist.npz with x_train, y_train, x_test, y_test",
    "movielens-100k": "grouplens.org/datasets/movielens/100k: u.data.xz",
    "movielens-1m": "grouplens.org/datasets/movielens/1m: ratings.tsv.xz with the header user, item, rating",
    "pbmc68k_reduced": "scanpy.datasets.pbmc68k_reduced() as arrays: pbmc68k_reduced.npz",
    "ptb": "Penn Treebank as prepared by Mikolov: ptb.train.txt.xz, ptb.valid.txt.xz, ptb.test.txt.xz",
    "sociopatterns": "contacts of the SFHH conference, sociopatterns.org: SFHH_tij.dat.gz",
    "s1k": "s1k of github.com/jlmelville/snedata as a table: s1k.csv.gz with the header D0 to D8, Label",
    "wiki_text8_style": "100 MB of English Wikipedia in lower case, an article a line: wiki_100M.txt.xz",
    "word_analogy": "questions-words.txt.gz of word2vec",
    "word_similarity": "pairs of words and a score: EN-MEN-TR-3k.txt, EN-WS-353-ALL.txt, EN-SIMLEX-999.txt,"
    " EN-RW-STANFORD.txt, ... (github.com/mfaruqui/eval-word-vectors)",
}


def check(names: Iterable[str]) -> None:
    """End the run where a folder of the data is not there; say what it holds."""
    for name in names:
        if not (DATA / name).is_dir():
            raise SystemExit(
                f"{DATA / name} is not there. {name}/ holds {SOURCES[name]}.\n"
                f"Put it into {DATA}, or say by --data FOLDER (or $NEARFAR_DATA) where it is."
            )


# ---------------------------------------------------------------- text

WIKI = DATA / "wiki_text8_style" / "wiki_100M.txt.xz"
MEN = DATA / "word_similarity" / "EN-MEN-TR-3k.txt"
SIMILARITY = {
    "wordsim": DATA / "word_similarity" / "EN-WS-353-ALL.txt",
    "simlex": DATA / "word_similarity" / "EN-SIMLEX-999.txt",
    "men": MEN,
}
ANALOGIES = DATA / "word_analogy" / "questions-words.txt.gz"


def articles(n_words: int) -> Iterator[str]:
    """Yield the first articles of Wikipedia, until there are so many words."""
    with lzma.open(WIKI, "rt") as file:
        for article in file:
            yield article
            n_words -= article.count(" ")
            if n_words <= 0:
                return


@contextmanager
def text_file(text: str | bytes) -> Iterator[Path]:
    """Give a file with a text, for a while; the folder is for other files beside it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        yield path


# ---------------------------------------------------------------- points

Points = NDArray[np.float32]


def fashion(n: int) -> tuple[Points, NDArray[np.int64]]:
    """Fashion-MNIST (the first n images, in their stored order), reduced to 50 principal components; labels."""
    labels = _unpacked("labels_70000")[:n].astype(np.int64)
    return principal_components(pixels()[:n] / 255, 50), labels


def pixels() -> Points:
    """The 70,000 images of Fashion-MNIST, 784 pixels from 0 to 255."""
    return _unpacked("images_70000x28x28").reshape(-1, 784).astype(np.float32)


def _unpacked(name: str) -> NDArray[np.uint8]:
    return np.frombuffer(lzma.decompress((DATA / "fashion_mnist" / f"{name}_uint8.raw.xz").read_bytes()), "u1")


def mnist(n: int) -> tuple[Points, NDArray[np.int64]]:
    """The first n digits of MNIST's training set, in their stored order, 50 principal components; labels."""
    with np.load(DATA / "mnist" / "mnist.npz") as file:
        images, labels = file["x_train"][:n].reshape(-1, 784), file["y_train"][:n]
    return principal_components(images.astype(np.float32) / 255, 50), labels.astype(np.int64)


def clusters(n: int, d: int = 20, n_clusters: int = 100) -> tuple[Points, NDArray[np.int64]]:
    """Synthetic: Gaussian clusters of uneven size, width and shape; labels."""
    rng = np.random.default_rng([n, d])
    labels = rng.choice(n_clusters, n, p=rng.dirichlet(np.full(n_clusters, 2.0)))
    centers = rng.normal(size=(n_clusters, d)) * 3
    axes = rng.normal(size=(n_clusters, d, d)) / np.sqrt(d) * rng.uniform(0.5, 2, (n_clusters, 1, 1))
    points = rng.normal(size=(n, d)).astype(np.float32)
    for c in range(n_clusters):
        mine = labels == c
        points[mine] = points[mine] @ axes[c].astype(np.float32) + centers[c].astype(np.float32)
    return points, labels


def digits() -> tuple[Points, NDArray[np.int64]]:
    """The 1,797 digits of scikit-learn, 64 pixels; labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data.astype(np.float32), data.target


def swiss_roll(n: int = 3000) -> tuple[Points, NDArray[np.int64]]:
    """A rolled-up sheet in space; the labels are ten stretches of its length."""
    from sklearn.datasets import make_swiss_roll

    points, length = make_swiss_roll(n, random_state=0)
    return points.astype(np.float32), np.digitize(length, np.quantile(length, np.linspace(0.1, 0.9, 9)))


def cells() -> tuple[Points, NDArray[np.int64]]:
    """700 blood cells (10x PBMC 68k), 50 principal components; the labels are the cell types."""
    with np.load(DATA / "pbmc68k_reduced" / "pbmc68k_reduced.npz") as file:
        types = np.unique(file["bulk_labels"].astype(str), return_inverse=True)[1]
        return file["X_pca"].astype(np.float32), types


def simplex() -> tuple[Points, NDArray[np.int64]]:
    """s1k: 1,000 points around the corners of a simplex in nine dimensions; labels."""
    table = np.loadtxt(DATA / "s1k" / "s1k.csv.gz", delimiter=",", skiprows=1, ndmin=2)
    return table[:, :9].astype(np.float32), table[:, 9].astype(np.int64)


def papers() -> tuple[Points, NDArray[np.int64]]:
    """The words of Cora's 2,708 papers, 50 principal components; the labels are the subjects."""
    words = load_npz(DATA / "graphs" / "cora" / "features.npz").toarray()
    with gzip.open(DATA / "graphs" / "cora" / "labels.tsv.gz", "rt") as file:
        subjects = [row.split("\t")[1] for row in file.read().splitlines()[1:]]
    return principal_components(words, 50), np.unique(subjects, return_inverse=True)[1]


def principal_components(X: Points, k: int) -> Points:
    """Return the first k principal components, signs fixed by the largest loading."""
    X = X - X.mean(axis=0)
    _, vectors = np.linalg.eigh((X.T @ X).astype(np.float64))
    axes = vectors[:, ::-1][:, :k]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(k)])
    return np.ascontiguousarray(X @ axes.astype(np.float32))


def exact_kl(P: csr_array, Y: NDArray[np.floating]) -> float:
    """Exact KL(P‖Q) of a t-SNE map in nats, float64, Q normalised over all pairs; O(n²) time, blocks of rows."""
    Y = np.asarray(Y, np.float64)
    total = 0.0
    for start in range(0, len(Y), 500):
        w = np.ones((len(Y[start : start + 500]), len(Y)))
        for c in range(Y.shape[1]):
            w += (Y[start : start + 500, c, None] - Y[:, c]) ** 2
        total += (1 / w).sum()
    total -= len(Y)
    entries = P.tocoo()
    p = entries.data.astype(np.float64)
    f = ((Y[entries.row] - Y[entries.col]) ** 2).sum(axis=1)
    return float((p * (np.log(p) + np.log1p(f))).sum() / p.sum() + np.log(total) - np.log(p.sum()))
