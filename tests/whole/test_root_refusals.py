"""What the modules at the root refuse: phrases, hyponymy, indexes, kernels, callbacks, advice, frames, sources."""

from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from refusals import Made, With, refused

import nearfar as nf
from nearfar.callbacks import Checkpoint, EarlyStopping, Trainer
from nearfar.density import hyponymy
from nearfar.errors import DataError, InputError, UnknownIdError
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, as_kernel

WORDS = nf.DensityEmbedding.from_matrices([np.eye(4), np.diag([1.0, 2, 3, 4]), np.eye(4)], ["bite", "dog", "cat"])
VECTORS = nf.Embedding(np.eye(4), ["bite", "dog", "cat", "nobody"])
ROWS = nf.Embedding(np.random.default_rng(0).normal(size=(40, 3)), [f"row {k}" for k in range(40)])
BY_NAME = [f"Row {k}" for k in range(40)]
FRAME = pd.DataFrame({"age": np.arange(30.0) ** 2, "plan": ["basic", "gold"] * 15})
TWO, PAIR = np.eye(2), [{"verb": "bite", "subject": "dog"}]


def index(**given):
    pytest.importorskip("faiss")
    return ROWS.index("lists", n_jobs=1).search(**({"Q": ["row 1"]} | given))


def added(other):
    pytest.importorskip("faiss")
    ROWS.index("lists", n_jobs=1).add(other)


def latin(folder):
    (folder / "c.csv").write_bytes(b"ann,bob,1\nZo\x9d,ann,2\n")
    return folder / "c.csv"


def tracked(ids, key):
    """Where a key is at each time."""
    nf.Embedding(np.eye(len(ids)), ids).track(key)


def trained(**given):
    """A fit with one callback."""
    nf.EDRep(2, n_epochs=1, callbacks=[EarlyStopping(**given)]).fit(np.ones((4, 4)))


DOORS = {
    "compose": partial(nf.compose, embedding=WORDS, verb="bite"),
    "compose of vectors": partial(nf.compose, VECTORS, verb="bite"),
    "phrase_similarities": partial(nf.composition.phrase_similarities, WORDS, left=PAIR, right=PAIR),
    "loewner": hyponymy.loewner,
    "k_hyp": hyponymy.k_hyp,
    "k_BA": hyponymy.k_BA,
    "k_E": partial(hyponymy.k_E, A=TWO, B=TWO),
    "scaled": hyponymy.scaled,
    "of_words": partial(hyponymy.of_words, embedding=WORDS, narrower=["dog"], broader=["cat"]),
    "Embedding.index": partial(ROWS.index, kind="lists", n_jobs=1),
    "EmbeddingIndex.search": index,
    "EmbeddingIndex.add": added,
    "Exponential": Exponential,
    "HeavyTailed": HeavyTailed,
    "InhomogeneousStudentT": InhomogeneousStudentT,
    "StudentT": nf.kernels.StudentT().with_params,
    "X": partial(as_kernel, "X"),
    "Checkpoint": partial(Checkpoint, path="x.safetensors"),
    "EarlyStopping": trained,
    "Trainer": partial(Trainer, "Mine", 3),
    "choose": nf.choose,
    "prepare": nf.prepare,
    "prepare, like": partial(nf.prepare, like=nf.prepare(FRAME)),
    "read": nf.read,
    "communities": partial(nf.evaluate.communities, ROWS),
    "neighborhoods": partial(nf.evaluate.neighborhoods, ROWS),
    "recommend": partial(nf.Embedding([[1, 0]], ["u"], context_vectors=TWO, context_ids=["tea", "rum"]).recommend, "u"),
    "Embedding": nf.Embedding,
    "Embedding.map": VECTORS.map,
    "track": tracked,
    "from_contacts": nf.Relation.from_contacts,
}
MOVES = [("a", 1), ("a", "x"), ("b", 2)]
SYMMETRIC = abs(np.subtract.outer(np.arange(100.0), np.arange(100.0)))

test_refusals = refused(
    DOORS,
    [
        ("compose", "phrase", With(verb=None), InputError, "at least one word; got none"),
        ("compose", "verb", With(verb=None, object="dog"), InputError, "given where there is an object"),
        ("compose", "verb", With(verb=None, subject="dog", object="cat"), InputError, "given where there is an object"),
        ("compose", "phrase", With(subject=()), InputError, "at least one word in a tuple"),
        ("compose", "verb", ("dog", "bite"), InputError, "one word"),
        ("compose", "verb", np.diag([1.0, -1, 0, 0]), InputError, "positive semi-definite"),
        ("compose", "verb", np.eye(3), InputError),
        ("compose", "id", With(subject=("dog", "wolf")), UnknownIdError, "'wolf'"),
        ("compose", "method", "compr", InputError, "one of 'phaser'"),
        ("compose", "operator", "object", InputError, "one of 'verb', 'noun'"),
        ("compose", "basis", With(method="spider"), InputError, "given with the method 'spider'"),
        ("compose", "basis", np.eye(4), InputError, "given with the method 'spider', and only then"),
        ("compose", "basis", With(method="spider", basis=np.ones((4, 4))), InputError, "orthonormal columns"),
        ("compose", "basis", With(method="spider", basis=np.eye(3)), InputError, "of 4 rows"),
        ("compose", "embedding", np.eye(4), InputError, "a DensityEmbedding or an Embedding"),
        ("compose of vectors", "method", "phaser", InputError, "one of 'mult'", "need a DensityEmbedding"),
        ("phrase_similarities", "right", [], InputError, "as many phrases as left, 1; got 0"),
        ("phrase_similarities", "right", With(method="kronecker", left=[{**PAIR[0], "object": "cat"}]), InputError),
        ("phrase_similarities", "phrase", With(left=[{"adverb": "dog"}]), InputError, "of verb, subject, object"),
        *(
            (f, "A", With(A=[[1, 2], [0, 1]], B=TWO), InputError, f"{f}: A must be symmetric")
            for f in hyponymy.MEASURES
        ),
        ("k_E", "B", [[1, 2], [2, 1]], InputError, "positive semi-definite; got the eigenvalue -1"),
        ("k_E", "A", [1, 2], InputError, "numbers of shape (..., n, n); got int64, shape (2,)"),
        ("k_E", "A", np.ones((2, 3)), InputError, "square"),
        ("k_E", "B", [[np.nan, 0], [0, 1]], InputError, "finite"),
        ("k_E", "B", [[[1]], [[1, 2]]], InputError, "matrices of one shape"),
        ("k_E", "B", np.eye(3), InputError, "of a shape that goes with that of A, (2, 2); got shape (3, 3)"),
        ("k_E", "B", With(A=np.stack([TWO] * 2), B=np.stack([TWO] * 3)), InputError, "(2, 2, 2); got shape (3, 2, 2)"),
        *(("k_E", "tolerance", wrong, InputError, "a finite number") for wrong in (-1e-9, np.nan, 2, "0")),
        ("scaled", "A", -TWO, InputError, "positive semi-definite"),
        ("of_words", "narrower", "dog", InputError, "a list of ids, or matrices; got 'dog'. For one id: [id]"),
        ("of_words", "narrower", np.eye(3), InputError, "matrices of shape (k, 4, 4); got shape (3, 3)"),
        ("of_words", "broader", With(narrower=["dog"] * 2, broader=["cat"] * 3), InputError, "as many as narrower, 2"),
        ("of_words", "broader", -np.eye(4), InputError, "positive semi-definite"),
        ("of_words", "embedding", VECTORS, InputError, "a DensityEmbedding; got Embedding"),
        ("of_words", "measure", "k_e", InputError, "one of 'k_E', 'k_hyp', 'k_BA', 'loewner'; got 'k_e'"),
        ("of_words", "id", With(narrower=["cow"]), UnknownIdError, "'cow'"),
        ("Embedding.index", "kind", "annoy", InputError, "one of 'auto', 'usearch', 'faiss', 'lists'"),
        ("Embedding.index", "metric", "l2", InputError, "one of 'cosine', 'dot'"),
        ("Embedding.index", "storage", "int4", InputError, "one of 'float32'"),
        ("Embedding.index", "storage", "int8", InputError, "'float32' where faiss is used"),
        ("Embedding.index", "storage", With(storage="binary", metric="dot"), InputError, "another than 'binary'"),
        ("Embedding.index", "expansion", 0, InputError, "an integer >= 1; got 0"),
        ("Embedding.index", "recall", 2, InputError, "a finite number in [0, 1]; got 2"),
        ("EmbeddingIndex.search", "id", With(Q=["nobody"]), UnknownIdError, "'nobody'"),
        ("EmbeddingIndex.search", "Q", np.ones((1, 4)), InputError, "of 3 columns"),
        ("EmbeddingIndex.search", "where", np.ones(3, bool), InputError, "of shape (40,), or ids"),
        ("EmbeddingIndex.search", "where", np.zeros(40, bool), InputError, "at least one id"),
        ("EmbeddingIndex.search", "id", With(where=["nobody"]), UnknownIdError, "'nobody'"),
        *(("EmbeddingIndex.search", "exclude", bad, InputError, "one for each query") for bad in ([[], []], "r", 3)),
        ("EmbeddingIndex.add", "other", nf.Embedding(np.eye(1, 3), ["row 1"]), InputError, "of new ids; got 'row 1'"),
        ("EmbeddingIndex.add", "other", nf.Embedding(TWO), InputError, "of 3 components; got 2"),
        ("EmbeddingIndex.add", "other", np.eye(3), InputError, "an Embedding, with new ids; got ndarray"),
        ("Exponential", "beta", 0, InputError, "a finite number > 0"),
        ("Exponential", "beta", [1.0, -1.0], InputError, "a positive number, or one per point"),
        ("Exponential", "beta", [[1.0]], InputError, "a positive number, or one per point"),
        ("HeavyTailed", "alpha", -1, InputError, "a finite number >= 0"),
        ("HeavyTailed", "beta", 0, InputError, "a finite number > 0"),
        ("InhomogeneousStudentT", "nu", float("nan"), InputError, "a finite number > 0"),
        ("StudentT", "parameter", With(nu=3), InputError, "one of its own"),
        *(("X", "kernel", bad, InputError, "or a kernel object") for bad in ("gauss", None, nf.kernels.StudentT, 3)),
        *(
            ("X", "kernel", bad, InputError, "kernels.Multiscale([...])")
            for bad in ("multiscale", [Exponential()], ("a",))
        ),
        ("Checkpoint", "path", Made(lambda folder: folder / "nowhere" / "x"), InputError, "in a folder that exists"),
        ("Checkpoint", "path", 3, InputError, "a path; got 3"),
        ("Checkpoint", "path", "s3://bucket/state", InputError, "a path, not a URL"),
        ("Checkpoint", "every", 0, InputError, "an integer >= 1; got 0"),
        ("EarlyStopping", "patience", 0, InputError, "an integer >= 1; got 0"),
        ("EarlyStopping", "tol", 1, InputError, "a finite number in [0, 1); got 1"),
        ("EarlyStopping", "the fit", With(), InputError, "one that holds something out", "Set validation_fraction"),
        ("Trainer", "callbacks", print, InputError, "a sequence of callables"),
        ("choose", "data", None, InputError, "a relation, a graph, a matrix, vectors or a corpus; got NoneType"),
        ("choose", "data", "edges.csv", InputError, "nearfar advise edges.csv"),
        ("choose", "data", np.ones(3), InputError, "two-dimensional"),
        ("choose", "data", np.ones((2, 3)), InputError, "of at least 3 rows; got 2"),
        ("choose", "data", nf.Corpus([["a"], ["b"]]), InputError, "a text with a sentence of two words; got 2 words"),
        ("choose", "X", With(data=np.full((9, 3), np.nan)), InputError, "finite; got NaN or infinity in 9 rows"),
        ("choose", "data", pd.DataFrame({"id": range(9)}), InputError, "got columns 'id'"),
        ("choose", "X", With(data=np.eye(9), kind="distances"), DataError, "diagonal"),
        ("choose", "data", With(data=np.ones((3, 4)), kind="distances"), InputError, "square"),
        ("choose", "data", With(data="book.txt", kind="text"), InputError, "a Corpus with kind='text'; got str"),
        ("choose", "kind", With(data=np.ones((3, 3)), kind="picture"), InputError, "one of"),
        ("choose", "kind", With(data=nf.Corpus([["a"]]), kind="graph"), InputError, "'text' for a Corpus; got graph"),
        ("choose", "kind", With(data=SYMMETRIC), InputError, "'distances', 'graph' or 'table' for a symmetric matrix"),
        ("prepare", "frame", np.ones((3, 3)), InputError, "a frame of pandas, polars or pyarrow", "DataFrame(X"),
        ("prepare", "frame", pd.DataFrame({"a": [1, np.inf]}), InputError, "got infinity in column 'a', row 1"),
        ("prepare", "frame", pd.DataFrame({"id": range(9), "c": 1}), InputError, "got 'id' (row numbers), 'c' (con"),
        ("prepare", "frame", pd.DataFrame(), InputError, "or dates that differ; got no column"),
        ("prepare", "frame", pd.DataFrame([[1, 2]], columns=["a", "a"]), InputError, "got 2 columns called 'a'"),
        ("prepare, like", "frame", FRAME.drop(columns="plan"), InputError, "one with column 'plan', as before"),
        ("prepare, like", "frame", FRAME.assign(age="old"), InputError, "of numbers in column 'age'", "got 'old'"),
        ("communities", "labels", pd.Series(range(40), BY_NAME), InputError, "'Row 0' is not 'row 0'"),
        ("communities", "labels", pd.Series([0, 1], ["x", "y"]), InputError, "labels.to_numpy()"),
        ("communities", "labels", pd.Series("a", ["row 0"] * 40), InputError, "got an index with equal labels"),
        ("communities", "id", With(labels=pd.Series("a", ROWS.ids[1:])), UnknownIdError, "labels: id", "got 'row 0'"),
        ("neighborhoods", "Y", nf.Embedding(ROWS.vectors, ROWS.ids[::-1]), InputError, "of the ids of X"),
        ("recommend", "base_measure", pd.Series({"Tea": 1, "Rum": 9}), InputError, "'Tea' is not 'tea'"),
        *(("recommend", "topn", bad, InputError, "an integer >= 1; got") for bad in (0, "3")),
        ("recommend", "n_jobs", 0, InputError, "an integer >= 1; got 0"),
        ("track", "embedding", With(ids=["a", "b"], key="a"), InputError, "of ids that are pairs (node, time); got"),
        ("track", "embedding", With(ids=MOVES, key="a"), InputError, "that have an order; got 1, 'x' of 'a'"),
        ("track", "id", With(ids=MOVES, key=("a", 1)), UnknownIdError, "got ('a', 1)", "It takes the first part"),
        ("Embedding.map", "positions", "map.npz", InputError, "a matrix of numbers; got str"),
        ("Embedding.map", "positions", nf.TSNE(), InputError, "a fitted map; got TSNE", "Call fit first"),
        ("Embedding.map", "id_column", "name", InputError, "given with metadata only; got 'name'"),
        ("from_contacts", "contacts", Made(latin), DataError, "text in UTF-8"),
        ("Embedding", "column", With(vectors=pd.DataFrame({"id": [7, 7], "v": 1})), InputError, "7 more than once"),
        ("read", "source", "the sea", InputError, "nf.read([text])"),
        ("read", "kind", With(source=nx.path_graph(3), kind="pairs"), InputError, "one of"),
        *(("read", "source", bad, InputError, "a file, a frame") for bad in ({"a": 1}, 5, None)),
    ],
)
