"""What no embedding can be made of, what cannot be asked of one, and what cannot be written to a file or read."""

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from density_matrices import FACTORS, IDS, WEIGHTS, WORDS, small
from refusals import Made, With, refused
from safetensors.numpy import save_file
from scipy.sparse import csr_array
from test_fasttext_files import model_file
from test_quantized import mixtures, senses

import nearfar as nf
from nearfar._core.arrays import read_arrays, write_arrays
from nearfar.errors import DataError, FileFormatError, InputError, UnknownIdError

X = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
EMB = nf.Embedding(X, ["ann", "bob", "cem", "dot", "nil", ("e", 1), 17])
DENSITY = nf.DensityEmbedding.from_factors(FACTORS, WORDS)
ANCHORED = nf.AnchoredEmbedding(np.eye(7), np.eye(7), [f"w{k}" for k in range(7)])
NAMED = nf.AnchoredEmbedding(np.eye(7), np.eye(7), anchor_names=list("abcdefg"))
NUMBERS = nf.Embedding(np.eye(3), [30, 10, 0])
USERS = nf.Embedding(np.eye(3), ["ann", "bob", "cem"], context_vectors=np.eye(5, 3), context_ids="trgam")
LIKES = nf.Relation.from_edges([("ann", "t"), ("bob", "r"), ("zoe", "t")], bipartite=True)


def at(where, *rows):
    """Rows of a door and an argument: values, and what is said of them."""
    owner, argument = where.rsplit(" ", 1)
    error = {"id": UnknownIdError, "file": FileFormatError}.get(argument, InputError)
    return [(owner, argument, value, error, *told) for value, *told in rows]


def of(call, **usual):
    """A door to which what is usual need not be said."""
    return lambda **given: call(**(usual | given))


def tensor(text):
    return Made(lambda _folder: eval(f"torch.{text}", {"torch": pytest.importorskip("torch")}))


# -- in memory --------------------------------------------------------------------------------------------------------

CONTEXTS = (
    *at("from_contexts words", (["a"], "3, one for each vector; got 1"), ([[1]] * 3, "hashable")),
    *at("from_contexts words", ("abc", "a list of words, one for each vector; got 'abc'")),
    *at("from_contexts words", (With(vectors=[([[1, 2]], "a"), ([[1]], ["b"])], words=None), "a list")),
    *at("from_contexts vectors", ([[np.nan, 1]] * 3,), (np.full((3, 2), 1e200), "of at most 1e+150", "got 1e+200")),
    *at("from_contexts vectors", (With(vectors=np.ones((3, 2)), words=None), "pairs of vectors and words; got")),
    *at("from_contexts vectors", (With(vectors=[([[1, 2]], ["a"]), ([[1]], ["b"])], words=None), "2 columns; got 1")),
    *at(
        "from_contexts vectors", (With(vectors=[], words=None), "at least one"), (With(vectors=5, words=None), "got 5")
    ),
    *at("from_contexts dim", (3, "at most 2"), (0,)),
    *at("from_contexts reduction", ("tsne",)),
    *at("from_contexts sense_weights", ("none",)),
    *at("from_contexts max_contexts", (1,)),
)
PLACES = {"vectors": [[1, 2], [3, 4], [5, 6]], "words": ["a", "b", "c"]}
RAGGED, STORED = pd.Series([[1.0, 2.0], [1.0]]), ("matrices", "entropy", "purity")
NO_MEASURE, NO_LISTS = "finite, >= 0, not all 0, of shape (2,)", "lists of ids, one for each query"

test_what_cannot_be_made_or_asked = refused(
    {
        **{name: getattr(EMB, name) for name in ("to_frame", "subset", "doesnt_match", "quantize")},
        "Embedding": of(nf.Embedding, vectors=np.ones((2, 2))),
        "context": lambda embedding: embedding.context,
        "emb[id]": lambda **of: EMB[of["id"]],
        "two[id]": lambda **of: USERS[of["id"]],
        "numbers[id]": lambda **of: NUMBERS[of["id"]],
        "from_arrays": of(nf.Embedding.from_arrays, ids=["a", "b"], vectors=np.ones((2, 3))),
        "from_gensim": nf.Embedding.from_gensim,
        "to_gensim": lambda ids: nf.Embedding(np.eye(2), ids).to_gensim(),
        "most_similar": of(EMB.most_similar, positive="ann"),
        "similarity": of(EMB.similarity, a="ann", b="bob"),
        "rank": of(EMB.rank, a="ann"),
        "search": of(EMB.search, Q=["ann", "bob"]),
        "index.search": lambda exclude: EMB.index(kind="usearch").search(["ann"], exclude=exclude),
        "recommend": of(USERS.recommend, users="ann"),
        "AnchoredEmbedding": of(nf.AnchoredEmbedding, weights=np.ones((2, 2)), anchors=np.eye(2)),
        "anchored.subset": ANCHORED.subset,
        "anchored.quantize": ANCHORED.quantize,
        "explain": ANCHORED.explain,
        "anchor_objects": of(ANCHORED.anchor_objects, anchor=0),
        "named.anchor_objects": NAMED.anchor_objects,
        "DensityEmbedding": nf.DensityEmbedding,
        "from_factors": nf.DensityEmbedding.from_factors,
        "from_matrices": lambda matrices: nf.DensityEmbedding.from_matrices([matrices]),
        "from_senses": nf.DensityEmbedding.from_senses,
        "from_contexts": of(nf.DensityEmbedding.from_contexts, **PLACES),
        "from_contexts, clustered": of(nf.DensityEmbedding.from_contexts, **PLACES, n_senses=2),
        **{name: getattr(DENSITY, name) for name in STORED},
        "fidelity": of(DENSITY.fidelity, a="cem", b="cem"),
        "senses": of(DENSITY.senses, word="ann"),
        "density.most_similar": DENSITY.most_similar,
        "density.search": DENSITY.search,
        "density.quantize": DENSITY.quantize,
        "SenseEmbedding": of(nf.SenseEmbedding, vectors=np.eye(5), ids=IDS, weights=WEIGHTS),
        "senses[id]": lambda **of: small()[of["id"]],
        "senses.subset": small().subset,
        "senses.quantize": small().quantize,
        "sense_of": of(small().sense_of, word="bank", sentence="bank river"),
        "one-sided sense_of": lambda embedding: embedding.sense_of("bank", "bank river"),
        "ambiguity": of(nf.evaluate.ambiguity, embedding=DENSITY.subset(["ann", "bob", "cem"]), words=["ann"]),
    },
    [
        *at("Embedding vectors", ([[1, 2], [3]], "a matrix"), ([1.0, 2], "two-dimensional")),
        *at("Embedding vectors", ([[1.0, np.nan]], "finite"), (np.ones((2, 0)), "at least one column")),
        *at("Embedding vectors", (pd.DataFrame({"kind": ["a", "a"], "x": [1.0, 2]}), "column 'kind'")),
        *at("Embedding vectors", (pd.DataFrame({"word": ["a", "b"], "vector": [[1.0, 3], [2.0]]}), "matrix of num")),
        *at("Embedding vectors", (pd.DataFrame({"word": ["a", "b"], "x": [1, 2]}, index=["p", "q"]), "column 'word'")),
        *at("Embedding vectors", (tensor("eye(3).to_sparse()"),), (tensor("eye(3) * 1j"),), (tensor("ones(3)"),)),
        *at("Embedding vectors", (tensor("empty(3, 3, device='meta')"),)),
        *at("Embedding ids", ("abc", "2, one for each row; got 3"), ("aa", "distinct; got 'a'")),
        *at("Embedding ids", ([[1], [2]], "hashable")),
        *at("Embedding context_vectors", (np.ones((2, 3)), "of 2 columns")),
        *at("Embedding context_ids", ("ab", "with context_vectors only")),
        *at("Embedding parameters", ([1], "mapping")),
        *at("Embedding base_measure", *((w, NO_MEASURE) for w in ([1.0], [0, 0], [-1, 1], [np.nan, 1]))),
        *at("context embedding", (EMB, "two-sided")),
        *at("emb[id] id", ("Ann", "Did you mean 'ann'"), ("17", "Did you mean 17"), (np.array([0.5]), "subset")),
        *at("emb[id] id", (slice(3), "vectors[rows]"), (0.5, "NumPy array")),
        *at("emb[id] id", ("zoe", "It holds 7 ids, such as 'ann', 'bob', 'cem'"), (["bob", "coffee"], "got 'coffee'")),
        *at("two[id] id", ("t", "other side")),
        *at("numbers[id] id", (1, "got 1. It holds 3 ids, such as 30, 10, 0"), (np.array([True, False, True]),)),
        *at("numbers[id] id", (np.array([[10]]),), (np.array([0.5, 1.0]),)),
        *at("from_arrays vectors", (RAGGED, "from_arrays", "vectors of one length; got the shapes")),
        *at("from_arrays vectors", (With(ids=X, vectors=list("abcdefg")), "a matrix of numbers")),
        *at("from_arrays ids", (With(ids=["a", "b"], vectors=X), "7, one for each row; got 2")),
        *at("from_arrays ids", (["a", "a"], "distinct")),
        *at("from_arrays context_vectors", (RAGGED, "vectors of one length")),
        *at("from_gensim model", ({}, "KeyedVectors, or a model with some as wv; got dict")),
        *at("to_gensim ids", ([b"a", "a"], "strings, integers")),
        *at("to_frame ids", (With(backend="polars"), "all integers or all strings")),
        *at("to_frame backend", ("duckdb",)),
        *at("most_similar positive", ([], "at least one id or vector")),
        *at("most_similar topn", (0, "an integer >= 1")),
        *at("most_similar restrict_vocab", (0,)),
        *at("most_similar positive", (np.ones(4), "of 3 columns")),
        *at("most_similar id", (With(negative="zoe"), "'zoe'")),
        *at("most_similar id", (With(positive=[0.1, 0.2]), "as a NumPy array, not as a list")),
        *at("similarity b", (np.array([np.nan, 1, 2]), "finite")),
        *at("similarity a", (np.ones((2, 3)), "1 row")),
        *at("rank id", (With(b="else"),)),
        *at("search Q", ("ann", "For one id: [id]"), (5, "a list of ids"), (np.ones(3), "two-dimensional")),
        *at("search Q", (np.ones((2, 2)), "of 3 columns"), (np.full((1, 3), np.inf), "finite")),
        *at("search id", (With(Q=["ann", "x", "y"]), "'x', 'y'")),
        *at("search metric", ("euclidean",)),
        *at("search exclude", *((w, f"{NO_LISTS} (2)") for w in ("ab", 3, [["ann"]], [3, 4], [["ann"], "bob"]))),
        *at("index.search exclude", ([], f"{NO_LISTS} (1)")),
        *at("subset id", (With(ids=["ann", "zoe"]), "'zoe'")),
        *at("subset ids", (["ann", "ann"], "distinct"), ("ann", "list of ids")),
        *at("doesnt_match ids", (["ann", "bob"], "at least three ids; got 2"), ("ann", "a list of ids")),
        *at("doesnt_match ids", (["ann"] * 3, "distinct")),
        *at("doesnt_match id", (With(ids=["ann", "bob", "coffee"]),)),
        *at("recommend id", (With(users="dan"), "dan"), (With(users=["ann", "t"]), "'t'")),
        *at("recommend users", (np.ones(4),)),
        *at("recommend topn", (0,)),
        *at("recommend exclude", ("t",), (With(users=["ann"], exclude=["t", "r"]),)),
        *at("recommend exclude", (LIKES.T, "a relation whose columns are items", "exclude.T")),
        *at("recommend exclude", (With(users=["ann"], exclude=LIKES.T), "columns are items")),
        *at("recommend exclude", (With(users=np.eye(3)[0], exclude=LIKES), "Or give the users by their ids")),
        *at("recommend base_measure", ([1, 2],), ([1, 2, -1, 3, 4],), ([0] * 5,), ({"other": 3},)),
        *at("quantize kind", ("int3", "Embedding.quantize", "got 'int3'")),
        *at("AnchoredEmbedding weights", (np.ones((3, 4)), "of 2 columns")),
        *at("AnchoredEmbedding weights", (csr_array(np.ones((3, 4))), "of 2 columns")),
        *at("AnchoredEmbedding weights", (np.full((3, 2), np.nan), "finite"), (csr_array([[np.inf, 0]]), "finite")),
        *at("AnchoredEmbedding anchors", ([[1, np.inf], [0, 0]], "finite"), (np.ones((0, 2)), "at least one")),
        *at("AnchoredEmbedding anchors", (With(weights=np.full((1, 2), 1e200)), "for float32")),
        *at("AnchoredEmbedding anchors", (With(weights=[[1e20]], anchors=[[1e20]]), "small enough")),
        *at("AnchoredEmbedding ids", (list("abc"), "2, one for each row; got 3")),
        *at("AnchoredEmbedding ids", (["a", "a"], "distinct; got 'a' more than once")),
        *at("AnchoredEmbedding anchor_names", ([1, 2, 3], "2, one for each anchor"), (["x", "x"], "distinct")),
        *at("AnchoredEmbedding context_ids", (["a"], "given with context_weights only")),
        *at("anchored.subset ids", ("w6",)),
        *at("anchored.subset id", (With(ids=["nobody"]),)),
        *at("anchored.quantize kind", ("int2", "AnchoredEmbedding.quantize")),
        *at("explain id", ("W1", "Did you mean 'w1'")),
        *at("anchor_objects anchor", *((wrong, "in 0 .. 6") for wrong in (-1, 7, 1.5, "0", None))),
        *at("anchor_objects topn", (0,)),
        *at("named.anchor_objects id", (With(anchor=0), "7 anchors are named 'a', 'b', 'c'")),
        *at("DensityEmbedding vectors", (np.ones((2, 5)), "length n(n+1)/2, the upper tri", "got length 5")),
        *at(
            "DensityEmbedding vectors",
            (With(vectors=[[1, 0, 0], [1, 0, 1]], ids="ab"), "got a matrix of trace 2 for 'b'"),
        ),
        *at("DensityEmbedding vectors", ([[1, 0, 0], [1.1, 0, -0.1]], "the eigenvalue -0.1 for 1")),
        *at("DensityEmbedding context_vectors", (With(vectors=np.eye(1), context_vectors=[[2]]), "density matrices")),
        *at(
            "from_factors factors",
            (np.ones((2, 3)),),
            ([[[1, 2]], [[1]]],),
            (np.full((1, 2, 2), np.inf),),
            ([[["a"]]],),
        ),
        *at("from_matrices matrices", ([[1, 2], [0, 1]], "symmetric and finite")),
        *at("from_matrices vectors", (With(matrices=[[1, 2], [2, 1]]), "the eigenvalue -0.5")),
        *at("from_matrices matrices", ([[-1, 0], [0, -2]], "positive semi-def", "got a trace of -1.5 at 0")),
        *at("from_matrices matrices", ([[1, 0, 0], [0, 1, 0]], "square"), ([[np.nan, 0], [0, 1]], "finite")),
        *at("from_senses senses", (DENSITY, "a SenseEmbedding")),
        *CONTEXTS,
        *(("from_contexts, clustered", *row[1:]) for row in CONTEXTS),
        *at("from_contexts n_senses", ("many",)),
        *at(
            "from_contexts vectors", (With(vectors=iter([]), words=None, dim=1), "read twice, for dim; got an iterator")
        ),
        *(row for name in STORED for row in at(f"{name} ids", ("ann", "a list of ids; got 'ann'. For one id: [id]"))),
        *(row for name in STORED for row in at(f"{name} id", (With(ids=["ann", "dan"]), "got 'dan'"))),
        *at("fidelity b", (np.diag([2.0, 0, -1, 0]), "positive semi-definite; got a matrix with the eig")),
        *at("fidelity a", (np.diag([0, 0, -1.0, 0]), "positive semi-definite; got a matrix of trace -1")),
        *at("senses n_senses", (0, "an integer")),
        *at("senses topn", (0, "an integer")),
        *at("density.most_similar positive", (np.triu(np.ones((4, 4))), "symmetric"), (np.eye(3), "10 column")),
        *at("density.most_similar positive", ([np.ones((2, 10))],)),
        *at("density.search Q", (np.full((4, 4), np.nan), "symmetric and finite")),
        *at(
            "density.quantize embedding", (With(kind="int4"), "got DensityEmbedding", "Embedding(emb.vectors, emb.ids)")
        ),
        *at("SenseEmbedding ids", (IDS[1::-1] + IDS[2:], "got ('bank', 0) after ('bank', 2)")),
        *at("SenseEmbedding ids", ([IDS[0], IDS[2], IDS[1], *IDS[3:]], "one after another")),
        *at("SenseEmbedding ids", (["bank", *IDS[1:]], "pairs (word, number)")),
        *at("SenseEmbedding ids", ([("bank", -1), *IDS[1:]], "pairs (word, number)"), (IDS[:4], "5")),
        *at("SenseEmbedding weights", ([0.7, 0.2, 1, 1, 0], "0.9 for 'bank'")),
        *at("SenseEmbedding weights", ([1.3, -0.3, 1, 1, 0], "a negative one"), ([0.7, np.nan, 1, 1, 0],), ([1, 1],)),
        *at("senses[id] id", ("bank", "It is a word; its senses are ('bank', 0), ('bank', 2)")),
        *at("senses.subset id", (With(ids=["whale"]), "whale")),
        *at("senses.quantize kind", ("int2", "SenseEmbedding.quantize")),
        *at("sense_of sentence", ("the Bank of the river", "one with the word 'bank'; got 'the Bank of the river'")),
        *at("sense_of sentence", ([], "with the word 'bank'"), (3, "a string, or a list of words")),
        *at("sense_of id", (With(word="whale", sentence="a whale"), "whale")),
        *at("sense_of word", (With(word="rare", sentence="a rare river"), "was met in the training; got 'ra")),
        *at("sense_of window", (0,)),
        *at("one-sided sense_of embedding", (small(context_vectors=None), "one with context vectors")),
        *at("ambiguity counts", ([1, 2], "a count for each of the 3 words"), ({"ann": 1}, "none for 'bob'")),
        *at("ambiguity counts", ([1, -1, 2], "at least 0")),
        *at("ambiguity embedding", (With(embedding=EMB, counts=[1] * 7), "a SenseEmbedding")),
    ],
)


# -- files that are written -------------------------------------------------------------------------------------------

THREE = nf.Embedding(np.eye(3), list("abc"))
PEOPLE = nf.Embedding(np.eye(4), ["ann", "bob", "cem", "dan"])
CSV = "symbol,genre\nc,rock\na,\nnobody,x\nb,jazz\n"


def saved(path, emb, **options):
    """Write a file in the place of another, which stays as it was."""
    there = path.parent.is_dir() and not path.exists()
    if there:
        path.write_bytes(b"old")
    try:
        emb.save(path, **options)
    finally:
        assert not there or ([*path.parent.glob("x.*")], path.read_bytes()) == ([path], b"old")


def to(name, emb=THREE, package="", **options):
    def make(folder):
        pytest.importorskip(package or "numpy")
        (folder / "known.csv").write_text(CSV)
        (folder / "twice.csv").write_text("symbol,t,t\na,1,2\n")
        (folder / "y.npz").mkdir()
        known = options.get("metadata")
        more = {"metadata": folder / known} if isinstance(known, str) else {}
        return With(path=folder / name, emb=emb, **options | more)

    return Made(make)


def ids(*keys):
    return nf.Embedding(np.eye(len(keys), 2), keys)


def unlike(written, **options):
    """Metadata whose ids are written in another way, as an index and as a column."""
    frame = pd.DataFrame({"who": written, "age": [4, 3, 2, 1]})
    for table in (frame.set_index("who"), frame, frame.to_dict("list")):
        yield to("x.tsv", PEOPLE, metadata=table)


TABS, LONG, PLAIN = "free of tabs and line breaks", "of at most 65,536 bytes", ("safetensors", "npz", "vec", "bin")
BAD = ("id", "Vector", " ")
GONE = dict.fromkeys(("x.lance", "x.sqlite#people", "x.db", "postgresql://ann:pw@server/shop#items"), "to_frame")
GONE |= {"x.faiss": "emb.open_index(path)", "x.usearch": "emb.open_index(path)", "x.kv": "no pickle"}
GONE |= {"x.model": "from_gensim(gensim.models.KeyedVectors.load", "s3://bucket/x.npz": "not a URL", "": "a path"}

test_what_cannot_be_written = refused(
    {"save": saved, "address": lambda path: EMB.save(path), "load": lambda path: nf.Embedding.load(path)},
    [
        *at("save ids", (to("x.safetensors", ids("a", (1, object()))), "to be stored; got <object", "(object)")),
        *at("save ids", *((to("x.tsv", ids("a", bad)), TABS) for bad in ("a\tb", "a\nb", "\udc80"))),
        *at("save ids", (to("x.csv", ids("a\0b")), "free of zero bytes")),
        *at("save ids", (to("x.vec", ids("a", frozenset({1}))), "strings, integers, or tuples")),
        *at("save ids", (to("x.vec", ids(1, "1")), "two that read the same")),
        *at(
            "save ids", *((to(f"x.{end}", ids("a" * 65537, "b")), LONG, "Save as") for end in ("vec", "bin", "vec.gz"))
        ),
        *at(
            "save ids", *((to(f"x.{end}", ids(" " * 21846, "b")), LONG, "Save as") for end in ("vec", "bin", "vec.gz"))
        ),
        *at("save ids", (to("x.parquet", ids(1, "a"), "pyarrow"), "a mixture of both")),
        *at("save ids", (to("x.parquet", ids("\ud800"), "pyarrow"), "UTF-8 can hold")),
        *at("save ids", (to("x.h5ad", ids("a\0b"), "anndata"), "text of UTF-8 without NUL")),
        *at("save ids", (to("x.h5ad", ids("\ud800"), "anndata"), "text of UTF-8 without NUL")),
        *at(
            "save metadata",
            *((to(f"x.{end}", metadata="known.csv"), "left out for", "hold columns: parq") for end in PLAIN),
        ),
        *at("save metadata", (to("x.tsv", metadata={"t": ["a\tb", "", ""]}), TABS, "'a\\tb' in column 't'")),
        *at("save metadata", (to("x.csv", metadata={"v0": [1, 2, 3]}), "without columns v0, v1")),
        *at(
            "save metadata",
            *((to("x.h5ad", THREE, "anndata", metadata={n: [1] * 3}), "HDF5") for n in ("a/b", "_index")),
        ),
        *at("save metadata", (to("x.h5ad", THREE, "anndata", metadata={"t": ["a\0b", "", ""]}), "NUL")),
        *at("save metadata", (to("x.tsv", metadata={"t": [1, 2]}), "3 rows, or a column with the", "2 rows")),
        *at("save metadata", (to("x.tsv", metadata={"t": 1}), "a mapping of columns, each a list; got one of int")),
        *at("save metadata", (to("x.tsv", metadata="nowhere.csv"), "a CSV file that is there")),
        *at("save metadata", (to("x.tsv", PEOPLE, metadata={"ID": [61, 62, 63, 64]}), "a table with ids")),
        *at(
            "save metadata",
            *(
                (to("x.tsv", metadata={n: [7, 8, 9], "w": list("abc")}), "other names than")
                for n in ("id", "Vector", " ")
            ),
        ),
        *at("save metadata", *((made, "'Dan' is not 'dan'") for made in unlike(["Dan", "Cem", "Bob", "Ann"]))),
        *at("save metadata", *((made, "'dan ' is not 'dan'") for made in unlike(["dan ", "cem ", "bob ", "ann "]))),
        ("save", "metadata", to("x.tsv", metadata="twice.csv"), DataError, "different names; got two called 't'"),
        *at("save metadata", (next(unlike(["eve", "fay", "gus", "hal"])), "Name the column of the ids with id_col")),
        *at("save id_column", (to("x.tsv", metadata="known.csv", id_column="gene"), "'symbol', 'genre'", "'gene'")),
        *at("save id_column", (to("x.tsv", id_column="gene"), "given with metadata only")),
        *at("save embedding", (to("x.safetensors", DENSITY, quantize="int4"), "got DensityEmbedding")),
        *at("save path", *((to(f"x.{end}", small()), "a .safetensors or .npz file") for end in ("vec", "bin", "tsv"))),
        *at("save path", (to("x.pkl"), "one of the suffixes .safetensors", "x.pkl")),
        *at("save format", (to("x.npz", format="pickle"), "one of")),
        *at("save path", (to("nowhere/x.npz"), "in a folder that exists"), (to("y.npz"), "a plain file", "a folder")),
        *at("address path", *GONE.items()),
        *at("load path", *GONE.items()),
        *at("load path", ("nowhere.npz", "no such file")),
        *at("load path", (Made(lambda folder: (folder / "y.npz").mkdir() or folder / "y.npz"), "a folder")),
    ],
)


# -- files that are read ----------------------------------------------------------------------------------------------

F4, U1, EYE = np.float32, np.uint8, np.eye(2, dtype=np.float32)
TWO = np.frombuffer(b"ab", np.uint8)
USUAL = {"format": "nearfar.embedding", "version": "1", "ids": "range", "parameters": "{}"}


def reading(write, load=nf.Embedding.load):
    """A door to a file that is written into an empty folder."""

    def call(file):
        with tempfile.TemporaryDirectory() as folder:
            load(write(Path(folder), file))

    return call


def named(name, beside=""):
    """The bytes of a file, or its text; of a pair of files both."""

    def write(folder, data):
        for file, content in zip((name, beside), data if beside else (data,), strict=False):
            (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode("latin-1"))
        return folder / name

    return write


def packed_too(path):
    """Of a text that is packed the same is said."""
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    told = []
    for file in (packed, path):
        with pytest.raises(FileFormatError) as error:
            nf.Embedding.load(file)
        told.append(str(error.value).replace(str(file), ""))
    assert told[0] == told[1]
    raise error.value


def table(folder, columns):
    pytest.importorskip("polars").DataFrame(columns).write_parquet(folder / "x.parquet")
    return folder / "x.parquet"


def altered(made=None):
    """The file of an embedding in which arrays and metadata, which are text, were changed; its checksum is right."""

    def write(folder, changes):
        path, arrays, metadata = folder / "x.safetensors", {}, dict(USUAL)
        if made is not None:
            made().save(path)
            arrays, metadata = read_arrays(path)
            del metadata["checksum"]
        for name, value in changes.items():
            into, name = metadata if isinstance(value, str) else arrays, name.rstrip("=")
            into[name] = value(into[name]) if callable(value) else value
        write_arrays("test", path, {k: v for k, v in arrays.items() if v is not None}, metadata)
        return path

    return write


def of_others(folder, given):
    arrays, end, *metadata = given
    save_file(arrays, folder / "x.safetensors", *metadata)
    data = (folder / "x.safetensors").read_bytes()
    (folder / "x.safetensors").write_bytes(data[: len(data) + end])
    return folder / "x.safetensors"


def saved_as(name):
    return lambda folder, emb: emb.save(folder / name) or folder / name


def tiny():
    return nf.AnchoredEmbedding([[1, 0], [2, 3]], [[1, 0], [0, 2]], ["a", "b"])


def of_parts():
    parts = nf.Relation.from_edges([("ab", "a", 2.0), ("ab", "s", 1.0), ("cd", "a", 3.0)])
    return nf.SkipGram(4, min_count=1, sample=0, n_epochs=1, subwords=parts).fit([["ab", "cd"]] * 9).vectors_


def int4():
    return nf.Embedding(np.random.default_rng(0).normal(size=(70, 7)), [f"w{k}" for k in range(70)]).quantize("int4")


test_what_cannot_be_read = refused(
    {
        "text": reading(named("x.txt"), packed_too),
        "long text": reading(named("x.txt")),
        "binary": reading(named("x.bin")),
        "vec": reading(named("x.vec")),
        "csv": reading(named("x.csv")),
        "tsv": reading(named("x.tsv")),
        "pair": reading(named("x.tsv", "x.metadata.tsv")),
        "npz": reading(lambda folder, arrays: np.savez(folder / "x.npz", **arrays) or folder / "x.npz"),
        "parquet": reading(table),
        "bytes": reading(named("x.safetensors")),
        "others": reading(of_others),
        "native": reading(altered()),
        "anchors": reading(altered(tiny)),
        "int8 anchors": reading(altered(lambda: tiny().to_int8())),
        "packed": reading(altered(lambda: mixtures().quantize("int4"))),
        "int4": reading(altered(int4)),
        "parts": reading(altered(of_parts)),
        "int8 senses": reading(altered(lambda: senses().quantize())),
        "as anchored": reading(saved_as("x.safetensors"), nf.AnchoredEmbedding.load),
        "vec as anchored": reading(saved_as("x.vec"), nf.AnchoredEmbedding.from_word2vec),
        "as density": reading(saved_as("x.safetensors"), nf.DensityEmbedding.load),
        "as senses": reading(saved_as("x.npz"), nf.SenseEmbedding.load),
    },
    [
        *at("text file", ("", "the first line ''"), ("the 0.1 x\n", "the first line 'the 0.1 x")),
        *at("text file", ("the 0.1\n", "the first line 'the 0.1"), ("the 1 2\ncat 3\n", "1 numbers in line 2")),
        *at("text file", ("the 1 2\n\ncat 3 4\n", "an empty line 2")),
        *at("text file", ("the 1 2\ncat 3 nan\n", "finite; got NaN or infinity in 1 row"), ("2 0\n", "first line")),
        *at("text file", ("-2 3\n", "first line"), ("2 2\naaaaaaaaaaaa 1 2\n", "its end in row 2")),
        *at("text file", ("2 2\na 1 2\nb 1\n", "1 numbers in line 3")),
        *at("text file", ("2 3\na 1 2 3\nb 1 2 3 4\n", "4 numbers in line 3")),
        *at("text file", ("1 2\nArea 51 0.5 0.25\n", "3 numbers in line 2")),
        *at("text file", ("2 2\na 5\nb 1 2\n", "1 numbers in line 2")),
        *at("text file", ("2 2\na 1 2\n\nb 1 2\n", "0 numbers in line 3")),
        *at("text file", ("2 2\na 1 2\nb 1 x\n", "line 3: could not convert")),
        *at("text file", ("1 2\na 1 2\nb 1 2\n", "more from line 3 on")),
        *at("text file", ("2 2\na 1 2\nb 1 nan\n", "finite; got NaN or infinity in 1 row, first [1]")),
        *at("text file", ("2 2\na 1 2\nb 1 1e99\n", "finite; got NaN or infinity in 1 row, first [1]")),
        *at("text file", ("+1 1\na%2 1\n", "without two hexadecimal digits"), ("+1 1\n%FF 1\n", "UnicodeDecodeError")),
        *at("text file", ("+2 1\na 1\na 2\n", "distinct")),
        *at("long text file", ("999999999999 999999\na 1\n", "too short"), ("2 2\na 1 2\n", "its end in row 2")),
        *at("binary file", (b"PK\3\4" + bytes(99), "a zip archive", "torch.load")),
        *at("binary file", (model_file(quantised=True)[0], "quantised one (.ftz)")),
        *at("binary file", (model_file(version=13)[0], "version 11 or 12; got 13")),
        *at("vec file", (model_file()[0], "a model file of fastText", "word2vec-binary")),
        *at("csv file", ("", "a heading"), ("id\na\n", "a heading")),
        *at("csv file", ("id,v0\na,1\nb\n", "2 fields", "got 1 in line 3")),
        *at("csv file", ("id,v0\na,x\n", "line 2: could not convert"), ('id,v0\n"a,1\n', "line 2")),
        *at("csv file", ("id,v0\na,1\na,2\n", "distinct"), ("id,v0\na,nan\n", "finite")),
        *at("tsv file", ("1\t2\n", "ids in x.metadata.tsv")),
        *at("pair file", (("1\t2\n3\n", "a\nb\n"), "1 in line 2")),
        *at("pair file", (("1\t2\n3\tx\n", "a\nb\n"), "line 2: could not convert")),
        *at("pair file", (("1\t2\n3\tinf\n", "a\nb\n"), "finite; got NaN or infinity in 1 row")),
        *at("pair file", (("1\n2\n", "a\n"), "2 lines, one for each vector; got 1")),
        *at("pair file", (("1\n2\n", "a\na\n"), "distinct"), (("1\n2\n", "\xff\nb\n"), "in UTF-8")),
        *at("pair file", (("", ""), "empty")),
        *at("npz file", ({"X": EYE}, "an array 'vectors'"), ({"vectors": np.ones(2)}, "two-dimensional")),
        *at("npz file", ({"vectors": np.full((2, 2), np.nan)}, "finite")),
        *at("npz file", ({"vectors": EYE, "ids": np.arange(3)}, "ids are 2, one for each row; got 3")),
        *at("npz file", ({"vectors": EYE, "ids": np.array([1.5, 2])}, "an id for each row")),
        *at("npz file", ({"vectors": EYE, "ids": np.array(["a", "a"])}, "distinct")),
        *at("npz file", ({"vectors": EYE, "metadata": np.array("{")}, "JSONDecodeError")),
        *at("npz file", ({"vectors": np.array([[object()]], dtype=object)}, "Object arrays")),
        *at("parquet file", ({"id": ["a"]}, "columns 'id' and 'vector'")),
        *at(
            "parquet file",
            *(
                ({"id": ["a", "b"], "vector": v}, "one length")
                for v in ([[1.0], [1, 2]], [[1.0], None], [[1.0], [None]])
            ),
        ),
        *at(
            "parquet file",
            *(({"id": ["a", "b"], "vector": v}, "lists of floats") for v in ([1.0, 2.0], [["x"], ["y"]])),
        ),
        *at("parquet file", ({"id": ["a", "b"], "vector": [[1.0], [float("inf")]]}, "finite")),
        *at(
            "parquet file",
            *(({"id": keys, "vector": [[1.0], [2.0]]}, "integers or all text") for keys in (["a", None], [1.5, 2.5])),
        ),
        *at("parquet file", ({"id": ["a", "a"], "vector": [[1.0], [2.0]]}, "distinct")),
        *at("bytes file", ((2**40).to_bytes(8, "little") + b"{}", "a safetensors file")),
        *at("others file", (({"vectors": EYE}, 0), "an embedding written by nearfar")),
        *at(
            "others file",
            (({"embeddings": EYE}, 0, {"format": "pt", "checksum": "a" * 64}), "of another program: 'embeddings'"),
        ),
        *at("others file", (({"embeddings": EYE}, -4), "cut short")),
        *at("native file", ({}, "KeyError: 'vectors'"), ({"vectors": EYE[0]}, "vectors are two-dimensional")),
        *at("native file", ({"vectors": EYE + F4(np.inf)}, "vectors are finite")),
        *at("native file", ({"vectors": EYE, "ids": "int"}, "readable ids")),
        *at("native file", ({"vectors": EYE, "ids": "odd"}, "unknown kind")),
        *at("native file", ({"vectors": EYE, "ids.data": TWO, "ids": "json"}, "readable ids")),
        *at("native file", ({"vectors": EYE, "ids": np.arange(3), "ids=": "int"}, "2 ids")),
        *at("native file", ({"vectors": EYE, "ids": np.array([1, 1]), "ids=": "int"}, "distinct")),
        *at(
            "native file", ({"vectors": EYE, "ids.data": TWO, "ids.ends": np.array([1, 9]), "ids": "str"}, "do not fit")
        ),
        *at(
            "native file", ({"vectors": EYE, "ids.data": TWO, "ids.ends": np.array([2, 1]), "ids": "str"}, "do not fit")
        ),
        *at("native file", ({"vectors": EYE, "parameters": "{"}, "JSONDecodeError")),
        *at("native file", ({"vectors": EYE, "parameters": "[]"}, "JSON object")),
        *at("native file", ({"vectors": EYE, "version": "2"}, "version '2'", "Install a newer nearfar")),
        *at(
            "native file",
            (
                {"vectors": EYE, "context_vectors": EYE[:, :1], "context_ids": "same"},
                "context_vectors are of 2 columns",
            ),
        ),
        *at(
            "native file",
            ({"vectors": EYE, "context_vectors": EYE[:1], "context_ids": "same"}, "the other side; got 2 for 1"),
        ),
        *at(
            "native file",
            *(
                ({"vectors": EYE, "base_measure": w}, "a base measure >= 0 of 2 rows")
                for w in (np.ones(3), -np.ones(2))
            ),
        ),
        *at("anchors file", ({"columns": np.array([0, 9, 1], U1)}, "columns in 0 .. 1; got 9")),
        *at("anchors file", ({"columns": np.array([0, 1], U1)}, "a column for each weight")),
        *at("anchors file", ({"columns": np.array([0, 1, 1])}, "columns, uint8 or uint16 or uint32; got int64")),
        *at("anchors file", ({"counts": np.array([3, 1], U1)}, "rows that hold them all")),
        *at("anchors file", ({"counts": np.array([1, 1, 1], U1)}, "3 ids, one for each row; got 2")),
        *at("anchors file", ({"weights": np.array([0, np.nan, 1], F4)}, "finite vectors")),
        *at("anchors file", ({"weights": np.array([1.0, 1, 1])}, "weights, float32 or int8; got float64")),
        *at("anchors file", ({"anchors": np.full((2, 2), 3e38, F4)}, "too large")),
        *at("anchors file", ({"anchors": np.zeros((2, 0), F4)}, "matrix of anchors")),
        *at("anchors file", ({"anchors": np.ones((2, 2), np.int8)}, "of one type; got int8 and float32")),
        *at("anchors file", ({"anchors": None}, "anchors, float32 or int8; got none")),
        *at("anchors file", ({"version": "2"}, "of version 1 of the format; got version '2'")),
        *at("anchors file", ({"anchor_names": "int"}, "readable anchor_names")),
        *at("anchors file", ({"format": "else"}, "an embedding written by nearfar")),
        *at("anchors file", ({"context_rows": "3", "context_ids": "range"}, "at most 2 rows of another side")),
        *at("parts file", ({"parts.weights": lambda held: held.astype(float)}, "parts of words that are no rows")),
        *at("int8 anchors file", ({"weights.scale": np.zeros(2, F4)}, "2 positive scales")),
        *at("int8 anchors file", ({"anchors.scale": np.ones(3, F4)}, "2 positive scales")),
        *at("int8 anchors file", ({"anchors.scale": np.full(2, 1e38, F4)}, "finite vectors")),
        *at("int8 anchors file", ({"anchors.scale": np.ones(2)}, "anchors.scale, float32; got float64")),
        *at("packed file", *(({"bits": bits}, "") for bits in ("4,4", "4,40,3", "4,-4,3"))),
        *at("packed file", ({"packed": "int3"}, "how weights and indices are packed")),
        *at("packed file", ({"least": "-900"}, "how weights and indices are packed")),
        *at("packed file", ({"least": ""}, "how weights and indices are packed"), ({"rows": "999"}, "999 numbers of")),
        *at("packed file", ({"entries": "7"}, "7 numbers of"), ({"columns": None}, "columns")),
        *at("packed file", ({"columns": lambda a: np.full_like(a, 255)}, "columns")),
        *at("packed file", ({"counts": lambda a: np.full_like(a, 255)}, "rows that hold them all")),
        *at("packed file", ({"weights.scale": lambda a: -a}, "positive scales")),
        *at("int4 file", ({"scales": None}, "codes, uint8, and scales")),
        *at(
            "int4 file",
            *(({"scales": np.full(70, b, np.uint16)}, "finite vectors") for b in (0x7F80, 0x7FC0, 0x7F00, 0xBF80)),
        ),
        *at("int4 file", ({"scales": lambda a: a[1:]}, "a scale for each row")),
        *at("int4 file", ({"codes": lambda a: a[:, 1:].copy()}, "codes of 4 bytes")),
        *at(
            "int4 file",
            *(
                ({name: value}, "a number of columns")
                for name, value in (("kind", "int2"), ("columns", "-3"), ("columns", ""))
            ),
        ),
        *at("int4 file", ({"columns": "9"}, "codes of 5 bytes"), ({"version": "2"}, "version '2'")),
        *at("int8 senses file", ({"weights": None}, "weights"), ({"counts": None}, "counts")),
        *at(
            "int8 senses file", ({"counts": lambda a: a + U1(1)}, "a word, a number and a weight for each of 16 senses")
        ),
        *at("int8 senses file", ({"numbers": np.zeros_like}, "distinct; got ('w0', 0)")),
        *at("int8 senses file", ({"weights": lambda a: a * 2}, "a sum of 1 for each word")),
        *at("int8 senses file", ({"weights": lambda a: np.full_like(a, np.nan)}, "weights")),
        *at("int8 senses file", ({"scales": lambda a: a[1:]}, "a scale for each row")),
        *at(
            "int8 senses file",
            ({"context.codes": lambda a: a[1:].copy(), "context.scales": lambda a: a[1:].copy()}, "got 12 for 11"),
        ),
        *at("int8 senses file", ({"format": "nearfar.quantized"}, "16 ids, one for each row; got 12")),
        *at("int8 senses file", ({"version": "2"}, "version '2'")),
        *at("int8 senses file", ({"word_counts": np.zeros(3, np.int64)}, "word_counts of 12 words")),
        *at("as anchored file", (THREE, "mixtures of anchors; got plain vectors. Embedding.load")),
        *at("vec as anchored file", (THREE, "are mixtures of anchors")),
        *at("as senses file", (THREE, "those of senses")),
        *at(
            "as density file",
            (nf.Embedding(np.ones((2, 4))), "x.safetensors: file must be one whose vectors are rows of length"),
        ),
        *at("as density file", (nf.Embedding(np.ones((2, 3)), "ab"), "of trace 2 for 'a'")),
        *at(
            "as density file", (nf.Embedding([[1, 0, 0], [0.5, 0.9, 0.5]]), "density matrices", "the eigenvalue -0.13")
        ),
        *at("as density file", (nf.Embedding(DENSITY.vectors).quantize(), "density matrices, of trace 1")),
    ],
)
