"""What people get wrong: each mistake is told in one line, by name, and costs nothing that was there before.

First in the library, then on the command line. What a test of one part says in more detail (every byte of a file,
every kind of frame) is not said again here.
"""

import re
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import nearfar as nf
from nearfar.errors import DataError, InputError, NearfarWarning

# owner: argument must be <expected>; got <got>. <what to do>
FORM = re.compile(r"[^\n]+: [^\n]+ must be [^\n]+; got [^\n]+")

GOOD = "source,target,weight\nann,bob,1\nbob,cem,2\ncem,ann,1\ncem,dan,1\ndan,eve,3\n"
RING = [(k, (k + 1) % 6) for k in range(6)]


def refused(error: type[Exception], *words: str):
    """Expect an error of this type, in the one form, on one line, with these words."""
    pattern = "".join(f"(?=.*{re.escape(word)})" for word in words)
    return pytest.raises(error, match=f"^{pattern}{FORM.pattern}$")


def ring(**parameters):
    """Fit six things in a ring."""
    rel = nf.Relation.from_edges(RING).random_walk(2)
    return nf.EDRep(**{"n_components": 2, "n_epochs": 3, "random_state": 0, **parameters}).fit(rel)


# -- weights ---------------------------------------------------------------------------------------------------------

WEIGHTS = [np.nan, np.inf, -np.inf, -1.0, 1e39]


@pytest.mark.parametrize("bad", WEIGHTS)
def test_a_bad_weight_is_named_with_its_edge(bad, tmp_path):
    edges = [("ann", "bob", 1.0), ("bob", "cem", bad)]
    frame = pd.DataFrame(edges, columns=["source", "target", "weight"])
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(edges)
    path = tmp_path / "edges.csv"
    path.write_text(f"ann,bob,1\nbob,cem,{bad}\n")
    for given, where in [(edges, "edges[1]"), (frame, "row 1"), (graph, "edge"), (path, "line 2")]:
        with refused(DataError, "every weight", f"got {bad:g}", where, "'bob' -> 'cem'"):
            nf.Relation.from_edges(given)


@pytest.mark.parametrize("bad", WEIGHTS[:-1])
def test_a_bad_entry_is_named_with_its_place(bad):
    A = np.eye(4)
    A[2, 3] = bad
    for matrix in (A, sp.csc_array(A), sp.coo_matrix(A)):
        for use in (nf.Relation.from_matrix, nf.EDRep(2).fit):
            with refused(DataError, "A must be", "row 2, column 3"):
                use(matrix)


@pytest.mark.parametrize("bad", ["much", None, "1"])
def test_a_weight_that_is_no_number(bad):
    with refused(DataError, "every weight", "edges[1]"):
        nf.Relation.from_edges([("a", "b", 1), ("b", "c", bad)])


# -- nothing there, or not of the right shape ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nothing",
    [[], iter(()), np.empty((0, 2), int), pd.DataFrame({"source": [], "target": []}), nx.Graph(), [("a", "b", 0.0)]],
    ids=["list", "iterator", "array", "frame", "graph", "weight 0"],
)
def test_no_edges(nothing):
    with refused(DataError, "edges must be at least one edge"):
        nf.Relation.from_edges(nothing)


@pytest.mark.parametrize("shape", [(0, 0), (3, 3), (2, 0)])
def test_no_entries(shape):
    for empty in (np.zeros(shape), sp.csr_array(shape)):
        with refused(DataError, "at least one positive entry"):
            nf.Relation.from_matrix(empty)


def test_files_and_columns_that_are_not_there(tmp_path):
    path = tmp_path / "edges.csv"
    with refused(InputError, "edges", "no such file", "edges.csv"):
        nf.Relation.from_edges(path)
    path.write_text(GOOD)
    for role in ("source", "target", "weight"):
        with refused(InputError, role, "'source', 'target', 'weight'", "'price'"):
            nf.Relation.from_edges(path, **{role: "price"})
        with refused(InputError, role, "[0, 2]", "3"):
            nf.Relation.from_edges(path, **{role: 3})


@pytest.mark.parametrize(("line", "fields"), [("bob", 1), ("bob,cem,1,x", 4), ("bob,cem", 2)])
def test_a_ragged_line(tmp_path, line, fields):
    path = tmp_path / "edges.csv"
    path.write_text(f"ann,bob,1\n{line}\n")
    with refused(DataError, "every line", "3 fields", f"got {fields} on line 2", repr(line)):
        nf.Relation.from_edges(path)


def test_not_square():
    rel = nf.Relation.from_edges([("ann", "tea"), ("bob", "rum")], bipartite=True)
    with refused(InputError, "square"):
        rel.random_walk(2)
    with refused(InputError, "two_sided", "square"):
        nf.EDRep(2, two_sided=False).fit(rel)
    with refused(InputError, "square"):
        nf.evaluate.giant_component(rel)


def test_ids_that_do_not_fit():
    for ids, got in [(["a"], "got 1"), (["a", "b", "b"], "'b' more than once"), ([["a"], ["b"], ["c"]], "unhashable")]:
        with refused(InputError, "ids", got):
            nf.Relation.from_matrix(np.eye(3), ids=ids)
        with refused(InputError, "ids", got):
            nf.Embedding(np.eye(3), ids=ids)
    for edges in ([(None, "b")], [(float("nan"), "b")], [(["a"], "b")]):
        with refused(DataError, "every id", "edges[0]"):
            nf.Relation.from_edges(edges)


# -- numbers of things -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "2", True])
def test_numbers_that_are_none(wrong):
    for name in ("n_components", "n_clusters", "n_epochs"):
        with refused(InputError, "EDRep", f"{name} must be an integer >= 1; got {wrong!r}"):
            ring(**{name: wrong})


def test_more_than_there_are():
    with refused(InputError, "n_components", "at most 6", "got 7"):
        ring(n_components=7)
    with refused(InputError, "n_clusters", "at most 6", "got 7"):
        ring(n_clusters=7)
    X = np.random.default_rng(0).normal(size=(5, 2))
    with refused(InputError, "n_clusters", "at most 5", "got 6"):
        nf.log_normalizers(X, n_clusters=6)
    with refused(InputError, "n_clusters", "[1, 5]", "got 6"):
        nf.evaluate.communities(X, range(5), n_clusters=6)


def test_clusters_of_one_member():
    X = np.random.default_rng(0).normal(size=(7, 3))
    exact = nf.log_normalizers(X, method="exact")
    np.testing.assert_allclose(nf.log_normalizers(X, n_clusters=7, random_state=0), exact, rtol=1e-12)
    some = nf.log_normalizers(X, labels=[0, 0, 0, 0, 0, 1, 2])
    assert np.isfinite(some).all()
    assert not np.allclose(some, exact)
    est = ring(n_clusters=6)
    assert np.isfinite(est.embedding_).all()


def test_equal_vectors():
    n = 40
    X = np.full((n, 3), 0.5)
    np.testing.assert_allclose(nf.log_normalizers(X), np.log(n) + 0.75, rtol=1e-12)
    with pytest.warns(NearfarWarning, match="1 clusters found where n_clusters is 3"):
        np.testing.assert_allclose(nf.log_normalizers(X, n_clusters=3, random_state=0), np.log(n) + 0.75)
    emb = nf.Embedding(X)
    assert [row for row, _ in emb.most_similar(5, topn=3)] == [0, 1, 2]
    with pytest.warns(NearfarWarning, match="only 1 distinct"):
        assert nf.evaluate.communities(emb, np.arange(n) % 2, random_state=0).nmi == 0
    with refused(InputError, "init", "differ"):
        ring(init=np.ones((6, 2)))


def test_duplicate_edges_add_up_and_self_loops_stay():
    rel = nf.Relation.from_edges([("a", "b", 1), ("b", "a", 2), ("a", "b", 4), ("a", "a", 8)])
    assert rel.neighbors("a") == [("a", 8.0), ("b", 7.0)]
    assert np.isfinite(nf.EDRep(1, n_epochs=2, constraint="ball").fit(rel.random_walk(2)).embedding_).all()
    assert nf.Relation.from_edges([("a", "b"), ("a", "a")], self_loops=False).neighbors("a") == [("b", 1.0)]


# -- what was there before stays -------------------------------------------------------------------------------------


def test_a_fit_that_fails_leaves_the_one_before():
    def fail(progress):
        if progress.epoch == 2:
            raise RuntimeError("of the callback")

    est = ring()
    before = est.vectors_
    est.set_params(callbacks=[fail], random_state=1)
    with pytest.raises(RuntimeError, match="of the callback"):
        est.fit(nf.Relation.from_edges(RING))
    assert est.vectors_.equals(before)
    assert est.n_iter_ == 3


# -- on the command line ---------------------------------------------------------------------------------------------

COMMANDS = {
    "nan": ("ann,bob,1\nbob,cem,nan\n", "", "every weight must be|got nan in line 2|'bob' -> 'cem'|--no-weight"),
    "inf": ("ann,bob,1\nbob,cem,inf\n", "", "every weight must be|got inf in line 2"),
    "negative": ("ann,bob,1\nbob,cem,-2\n", "", "every weight must be|got -2 in line 2|pass --no-weight to ignore"),
    "no number": (
        "source,target,weight\nann,bob,x\n",
        "",
        "must be a number|'x' in line 2|Pass --no-weight to ignore",
    ),
    "empty": ("", "", "at least one edge|got none"),
    "header only": ("source,target\n", "", "at least one edge"),
    "no such file": (None, "", "edges must be a file that exists|no such file"),
    "no such column": (GOOD, "--source who", "--source must be one of the columns: 'source', 'target'|'who'"),
    "no such position": (GOOD, "--weight 7", "--weight must be an integer in [0, 2]; got 7"),
    "no header": ("1,2\n2,3\n", "--no-header --source who", "pass --header if its first line does"),
    "ragged": (
        "a,b\nb,c\nc\n",
        "",
        "every line must be of 2 fields|got 1 on line 3|Pass --delimiter if|--comments if",
    ),
    "no text": (b"a,\xff\n", "", "text in UTF-8|line 1|Pass it through iconv if"),
    "no components": (GOOD, "--n-components 0", "--n-components must be an integer >= 1; got 0"),
    "too many components": (GOOD, "--n-components 6", "--n-components must be at most 5|got 6"),
    "no clusters": (GOOD, "--n-clusters 0", "--n-clusters must be an integer >= 1; got 0"),
    "too many clusters": (GOOD, "--n-clusters 6", "--n-clusters must be at most 5|got 6"),
    "no epochs": (GOOD, "--n-epochs 0", "--n-epochs must be an integer >= 1; got 0"),
    "no steps": (GOOD, "--walk-length 0", "--walk-length must be an integer >= 1; got 0"),
    "a rate above one": (GOOD, "--learning-rate 2", "--learning-rate must be a finite number in (0, 1]; got 2.0"),
    "a rate of nan": (GOOD, "--learning-rate nan", "--learning-rate must be|got nan"),
    "a negative seed": (GOOD, "--random-state -1", "--random-state must be an integer >= 0; got -1"),
    "no threads": (GOOD, "--n-jobs 0", "--n-jobs must be an integer >= 1; got 0"),
    "no number of components": (GOOD, "--n-components two", "'--n-components'|'two' is not a valid integer"),
    "no such far field": (GOOD, "--far away", "'--far'|'away'|'exact'"),
    "no such option": (GOOD, "--perplexity 3", "--perplexity|Try: nearfar embed --help"),
    "a walk between two kinds": (GOOD, "--bipartite --walk-length 2", "--walk-length|--bipartite"),
    "a long delimiter": (GOOD, "--delimiter ::", "--delimiter must be one ASCII character|::"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_embed_says_so_and_writes_nothing(name, tmp_path, fails):
    content, options, words = COMMANDS[name]
    edges, out = tmp_path / "edges.csv", tmp_path / "old.npz"
    if content is not None:
        edges.write_bytes(content if isinstance(content, bytes) else content.encode())
    nf.Embedding(np.eye(2)).save(out)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    small = [] if "components" in name else ["--n-components", "2"]
    assert missing(words, fails("embed", edges, "-o", out, *small, *options.split())) == []
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def missing(words: str, said: str) -> list[str]:
    return [word for word in words.split("|") if word not in said]


@pytest.mark.parametrize("command", ["info", "similar", "convert"])
def test_files_of_vectors_that_cannot_be_read(command, tmp_path, fails):
    path, out = tmp_path / "x.safetensors", tmp_path / "y.vec"
    rest = {"info": [], "similar": ["0"], "convert": [str(out)]}[command]

    def refuses(file: Path, words: str) -> None:
        assert missing(words, fails(command, file, *rest)) == []

    refuses(path, "no such file")
    nf.Embedding(np.eye(3)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    refuses(path, "cut short or altered|x.safetensors")
    path.write_bytes(whole[:-3] + b"abc")
    refuses(path, "cut short or altered")
    path.write_bytes(GOOD.encode())
    refuses(path, "file must be|x.safetensors")
    refuses(tmp_path / "x.dat", "one of the suffixes|'")
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


def test_similar_to_what_is_not_there(tmp_path, fails):
    path = tmp_path / "x.npz"
    nf.Embedding(np.eye(3), ["ann", "bob", 3]).save(path)
    for args, words in [
        (["dan"], "id must be one that it holds; got 'dan'|It holds 3 ids, such as 'ann', 'bob', 3."),
        (["Ann"], "Did you mean 'ann'?"),
        (["4"], "got '4'"),
        (["ann", "--negative", "dan"], "got 'dan'"),
        (["ann", "--topn", "0"], "--topn must be an integer >= 1; got 0"),
        (["ann", "--context"], "two-sided"),
    ]:
        assert missing(words, fails("similar", path, *args)) == []
