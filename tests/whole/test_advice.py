"""Which method for which data: kinds and sizes, the same words in code, guide and shell, and code that runs."""

import json
import re
import shlex
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scripts import loaded

import nearfar as nf
from nearfar.cli import main
from nearfar.errors import NearfarWarning
from nearfar.reading import advice

ROOT = Path(__file__).resolve().parents[2]
make_choosing = loaded(ROOT / "docs" / "make_choosing.py")


def ring(n):
    return nf.Relation.from_edges([(i, (i + 1) % n) for i in range(n)])


@pytest.mark.parametrize(
    ("data", "kind", "code"),
    [
        (ring(40), "graph", 'nf.EDRep(n_components=16, task="communities").fit(relation)'),
        (ring(600), "graph", 'nf.EDRep(task="labels").fit(relation)'),
        (nx.karate_club_graph(), "graph", "nf.EDRep(n_components=16, "),
        (nx.gn_graph(50, seed=0), "graph", "two_sided=True"),
        (ring(40).random_walk(3), "graph", "nf.EDRep(n_components=32).fit(relation)"),
        (ring(40).normalized(), "graph", "nf.EDRep(n_components=32).fit(relation)"),
        (csr_array(np.eye(50, k=1) + np.eye(50, k=-1)), "graph", 'task="communities"'),
        (
            nf.Relation.from_edges([("ann", "tea"), ("bob", "rum")], bipartite=True),
            "two kinds",
            'nf.EDRep(task="items").fit(relation)',
        ),
        (csr_array(np.ones((3, 5))), "two kinds", 'nf.EDRep(task="items").fit(relation)'),
        (np.zeros((40, 3)), "table", "nf.MDS()"),
        (np.zeros((200, 3)), "table", "nf.TSNE()"),
        (pd.DataFrame(np.zeros((200, 3))), "table", "nf.TSNE()"),
        (np.broadcast_to(np.float32(1), (2_000_000, 3)), "table", "nf.UMAP()"),
        (nf.Embedding(np.ones((200, 3))), "vectors", 'nf.TSNE(metric="cosine")'),
        (nf.Corpus([["a", "b"], ["b"]]), "text", 'optimizer="adam"'),
        (
            nf.EncodedCorpus(np.int32([1, 0, 0]), np.array([2, 3]), nf.Vocabulary("ba", [2, 1])),
            "text",
            'optimizer="adam"',
        ),
    ],
)
def test_kind_and_size_decide(data, kind, code):
    found = nf.choose(data)
    assert found.kind == kind
    assert code in found.code
    assert len(found.lines) == 5
    assert repr(found).count("\n") == 4
    assert all(line.strip() for line in found.lines)


def test_long_texts_have_another_optimiser():
    long = nf.EncodedCorpus(np.zeros(2_000_000, np.int32), np.array([2_000_000]), nf.Vocabulary(["a"], [2_000_000]))
    assert "nf.SkipGram(n_components=100)" in nf.choose(long).code


def test_facts_are_said():
    graph = nf.Relation.from_edges(nx.karate_club_graph())
    assert (
        nf.choose(graph).lines[0]
        == "data        a graph of 34 nodes and 78 edges, 4.6 per node, 0 nodes without an edge"
    )
    assert "random_walk(3), for 4.6 neighbours a node" in nf.choose(graph).parameters
    assert nf.choose(np.ones((7, 3))).facts == {"n": 7, "n_columns": 3}


def test_a_matrix_that_may_be_two_things_is_asked_about():
    D = np.abs(np.subtract.outer(np.arange(100.0), np.arange(100.0)))
    assert 'nf.MDS(metric="precomputed")' in nf.choose(D, kind="distances").code
    with pytest.warns(NearfarWarning, match="looks like distances"):
        assert nf.choose(D, kind="graph").kind == "graph"
    assert nf.choose(D, kind="table").kind == "table"


FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 4)), columns=list("abcd"))
FRAMES = {
    "numbers": FRAME,
    "row numbers": FRAME.assign(**{"Unnamed: 0": range(100)}),
    "text": FRAME.assign(kind=["u", "v"] * 50),
    "dates": FRAME.assign(day=pd.date_range("2020", periods=100)),
    "NA": FRAME.convert_dtypes().mask(FRAME > 2),
    "NaN": FRAME.mask(FRAME > 2),
    "another scale": FRAME.assign(a=1e4 * FRAME["a"]),
    "few rows": FRAME.assign(kind=["u", "v"] * 50).head(9),
    "90 rows": FRAME.head(90),
    "91 rows": FRAME.head(91),
    "vectors": nf.Embedding(FRAME.head(20).to_numpy()),
    "text of few words": nf.Corpus([["call", "me", "ishmael"]] * 3),
    "text of frequent words": nf.Corpus([["call", "me", "ishmael"]] * 6),
    "two nodes": ring(2),
    "two users": nf.Relation.from_edges([("ann", "tea"), ("bob", "rum")], bipartite=True),
}


def arrow(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


def annotated(n, sparse=False, **obsm):
    """Return AnnData of four columns: counts, or the numbers of FRAME, which stand in obsm, too."""
    X = np.random.default_rng(0).poisson(2.0, size=(n, 4)).astype(np.float32)
    obs = pd.DataFrame({"leiden": pd.Categorical(["0", "1"] * (n // 2))}, index=[f"cell {k}" for k in range(n)])
    held = {name: FRAME.head(n).to_numpy()[:, :d] for name, d in obsm.items()}
    return pytest.importorskip("anndata").AnnData(csr_array(X) if sparse else X, obs=obs, obsm=held)


CELLS = {
    "counts": lambda: annotated(100),
    "sparse counts": lambda: annotated(100, sparse=True),
    "few cells": lambda: annotated(20, sparse=True),
    "PCA": lambda: annotated(100, X_pca=3, X_umap=2),
    "few cells with PCA": lambda: annotated(20, sparse=True, X_pca=3),
}
ELSEWHERE = {f"Arrow, {name}": lambda name=name: arrow(FRAMES[name]) for name in ("numbers", "text", "NA", "few rows")}
ELSEWHERE |= {
    f"polars, {name}": lambda name=name: pytest.importorskip("polars").from_pandas(FRAMES[name])
    for name in ("numbers", "text", "dates", "few rows")
}
ELSEWHERE |= {f"AnnData, {name}": made for name, made in CELLS.items()}


@pytest.mark.slow  # compiles what the usual tests of a family do
@pytest.mark.parametrize("name", [*FRAMES, *ELSEWHERE])
def test_the_code_runs_on_the_data_that_it_was_asked_about(name):
    data = FRAMES[name] if name in FRAMES else ELSEWHERE[name]()
    found = nf.choose(data)
    names = dict.fromkeys(("X", "D", "relation", "vectors", "text"), data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if name == "row numbers":
            warnings.filterwarnings(
                "ignore", message=r"TSNE: left out, as no coordinates: 'Unnamed: 0' \(row numbers\)"
            )
        assert isinstance(eval(found.code, {"nf": nf, **names}), nf.Embedding)


def test_frames_are_prepared_where_their_columns_are_no_numbers():
    for name in ("text", "dates", "NA", "NaN", "another scale", "few rows"):
        found = nf.choose(FRAMES[name])
        assert found.code.endswith(".fit(nf.prepare(X)).vectors_"), name
        assert "after nf.prepare: " in found.data
    assert nf.choose(FRAMES["text"]).facts["n_columns"] == 6
    assert "with 4 columns; left out 'Unnamed: 0' (row numbers)" in nf.choose(FRAMES["row numbers"]).data
    assert "nf.prepare" not in repr(nf.choose(FRAME))


@pytest.mark.slow  # compiles one method of each family
@pytest.mark.parametrize("rule", advice.RULES, ids=lambda rule: f"{rule.kind}, {rule.when}")
def test_the_code_that_is_recommended_runs(rule):
    rng = np.random.default_rng(0)
    edges = [(int(a), int(b)) for a, b in rng.integers(60, size=(300, 2))]
    X = rng.normal(size=(120, 6))
    names = {
        "nf": nf,
        "relation": nf.Relation.from_edges(edges, bipartite=rule.kind == "two kinds", directed="one way" in rule.when),
        "X": X,
        "D": np.linalg.norm(X[:, None] - X, axis=2),
        "vectors": nf.Embedding(X),
        "text": nf.Corpus([[f"w{k}" for k in rng.integers(60, size=30)] for _ in range(40)]),
    }
    if "sum to 1" in rule.when:
        names["relation"] = names["relation"].random_walk(2)
    if "fewer than 91" in rule.when:
        names |= {"X": X[:20], "vectors": nf.Embedding(X[:20])}
    found = eval(rule.of({"most_components": 4}, "").code, names)
    assert isinstance(found, nf.Embedding)
    assert rule.test({"n": 0, "n_tokens": 0, "n_frequent": 0, "directed": True, "normalized": True}) in (True, False)


OTHERS = [
    (rule, code) for rule in advice.RULES for code in re.findall(r"nf\.\w+\([^)]*\)(?:\.fit\(\w+\))?", rule.instead)
]


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "code"), OTHERS, ids=lambda given: given if isinstance(given, str) else given.kind)
def test_what_could_be_right_instead_runs(rule, code):
    X = np.random.default_rng(0).normal(size=(16 if "fewer than 91" in rule.when else 100, 6))
    text = nf.Corpus([[f"w{k % 7}" for k in range(i, i + 9)] for i in range(30)])
    given = {"table": X, "distances": np.linalg.norm(X[:, None] - X, axis=2), "text": text}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = eval(code, {"nf": nf, "relation": ring(60)})
        if not made.__sklearn_is_fitted__():
            made.set_params(**({"max_iter": 20} if hasattr(made, "max_iter") else {"n_epochs": 1}))
            made.fit(given[rule.kind])


def test_each_kind_ends_with_a_rule_that_always_holds():
    for kind in advice.KINDS:
        last = [rule for rule in advice.RULES if rule.kind == kind][-1]
        assert last.test({"n": 10**12, "n_tokens": 10**12, "n_frequent": 10**6, "directed": False, "normalized": False})


def test_figures_are_those_of_the_benchmarks():
    page = "".join(path.read_text("utf-8") for path in (ROOT / "lab" / "tables").glob("*.md"))
    said = " ".join(rule.why + rule.parameters + rule.instead for rule in advice.RULES)
    assert not re.search(r"\.\d{3}|\d (s|ms|GiB)\b", said)  # those of other data stand in the guide alone
    told = " ".join(rule.shown for rule in advice.RULES)
    figures = [f"0{share}" for share in re.findall(r"(?<!\w)\.\d{3,}", told)]
    figures += re.findall(r"[\d.]+ (?:s|ms|GiB)\b", told)
    assert len(figures) > 20
    assert [figure for figure in figures if figure not in page] == []


def test_the_guide_says_the_same():
    assert make_choosing.PAGE.read_text("utf-8") == make_choosing.page(), "run: python docs/make_choosing.py"


class TestAdvise:
    @pytest.fixture
    def files(self, tmp_path):
        (tmp_path / "edges.csv").write_text("a,b\n" * 3 + "b,c\n")
        (tmp_path / "likes.tsv").write_text("ann\ttea\nbob\trum\n")
        (tmp_path / "table.csv").write_text("x,y,z,u\n" + "1,2,3,4\n" * 100)
        (tmp_path / "book.txt").write_text("call me ishmael some years ago\n" * 3)
        nf.Embedding(np.ones((100, 3))).save(tmp_path / "v.npz")
        nf.Embedding(np.ones((100, 3)), [f"w{i}" for i in range(100)]).save(tmp_path / "w.vec")
        ring(30).save(tmp_path / "ring.relation")
        return tmp_path

    @pytest.mark.parametrize(
        ("name", "more", "kind", "command"),
        [
            ("edges.csv", (), "graph", "nearfar embed {file} -o OUT --n-components 3"),
            ("likes.tsv", ("--kind", "two kinds"), "two kinds", "nearfar embed {file} -o OUT --bipartite --task items"),
            ("table.csv", (), "table", "nearfar map {file} --plot PICTURE"),
            ("book.txt", (), "text", "nearfar words train {file} -o OUT"),
            ("v.npz", (), "vectors", "nearfar map {file} --plot PICTURE --metric cosine"),
            ("w.vec", (), "vectors", "--metric cosine"),
            ("ring.relation", (), "graph", "nearfar embed {file}"),
            ("likes.tsv", ("--kind", "text"), "text", "nearfar words train"),
        ],
    )
    def test_finds_out_what_a_file_is(self, files, shown, name, more, kind, command):
        path = str(files / name)
        said = json.loads(shown("advise", path, *more, "--json"))
        assert said["kind"] == kind
        assert command.format(file=path) in said["command"]
        assert {"file", "facts", "code", "why", "parameters", "instead"} < set(said)

    def test_five_lines(self, files, shown):
        lines = shown("advise", files / "edges.csv").splitlines()
        assert [line.split()[0] for line in lines] == ["data", "method", "why", "parameters", "instead"]
        assert "nearfar embed" in lines[1]

    RNG = np.random.default_rng(0)
    NUMBERS = FRAME.round(3)
    MIXED = NUMBERS.assign(
        kind=RNG.choice(["u", "v, w"], 100),
        label=list("abcd") * 25,
        customer_id=RNG.permutation(100) + 5000,
        day=pd.date_range("2020", periods=100).astype(str),
        member=RNG.random(100) > 0.5,
        note=[f"n{i}" for i in range(100)],
    ).mask(NUMBERS["a"] > 2, other={"b": None})

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "more"),
        [
            *((name, ()) for name in ("edges.csv", "likes.tsv", "table.csv", "book.txt", "v.npz", "w.vec")),
            *((name, ()) for name in ("ring.relation", "mixed.csv", "mixed.tsv", "few.csv", "comma.csv", "bare.data")),
            *((name, ()) for name in ("one.csv", "scale.csv", "pair.tsv", "few.vec", "numbers.txt")),
            *((f"{name}.parquet", ()) for name in ("numbers", "mixed", "few", "scale", "index", "edges", "times")),
            *((f"{name}.h5ad", ()) for name in CELLS),
            ("likes.tsv", ("--kind", "two kinds")),
        ],
    )
    def test_the_command_runs(self, files, capsys, monkeypatch, name, more):
        monkeypatch.chdir(files)
        self.MIXED.to_csv("mixed.csv", index=False)
        self.MIXED.to_csv("mixed.tsv", index=False, sep="\t")
        self.MIXED.head(20).to_csv("few.csv", index=False)
        self.NUMBERS.to_csv("comma.csv", index=False, sep=";", decimal=",")
        self.NUMBERS.to_csv("bare.data", index=False, header=False)
        self.NUMBERS.to_csv("numbers.txt", index=False)
        self.NUMBERS[["a"]].to_csv("one.csv", index=False)
        self.NUMBERS.assign(a=1e5 * self.NUMBERS["a"]).to_csv("scale.csv", index=False)
        nf.Embedding(self.NUMBERS.to_numpy()).save("pair.tsv")
        nf.Embedding(self.NUMBERS.head(20).to_numpy(), [f"w{k}" for k in range(20)]).save("few.vec")
        if name.endswith(".parquet"):
            pytest.importorskip("pyarrow")
            frames = {"numbers": self.NUMBERS, "mixed": self.MIXED, "few": self.MIXED.head(20)}
            frames["scale"] = self.NUMBERS.assign(a=1e5 * self.NUMBERS["a"], day=pd.date_range("2020", periods=100))
            frames["index"] = self.NUMBERS.set_index(pd.Index([f"row {k}" for k in range(100)], name="id"))
            frames["edges"] = pd.DataFrame({"source": [k % 7 for k in range(40)], "target": [k % 5 for k in range(40)]})
            frames["times"] = frames["edges"].assign(time=pd.date_range("2020", periods=40))
            frames[Path(name).stem].to_parquet(name)
        if name.endswith(".h5ad"):
            CELLS[Path(name).stem]().write_h5ad(name)
        assert main(["advise", name, *more, "--json"]) == 0
        told = capsys.readouterr()
        command = shlex.split(json.loads(told.out)["command"].replace("OUT", "out.npz").replace("PICTURE", "out.png"))
        short = ["--max-iter", "5"] if command[1] == "map" else ["--n-epochs", "2"]
        assert main([*command[1:], *short, "--quiet"]) == 0, capsys.readouterr().err

    def test_a_name_with_blanks_can_be_pasted(self, files, shown):
        path = files / "my edges.csv"
        path.write_text("a,b\nb,c\n")
        assert f"embed '{path}' -o" in shown("advise", path)

    def test_texts_of_a_table_are_coded_and_that_is_said(self, files, shown):
        mixed = "id,kind,height,note\n" + "".join(f"a{i},{'xy'[i % 2]},{i / 3},n\n" for i in range(9))
        (files / "mixed.csv").write_text(mixed)
        first, second, *_ = shown("advise", files / "mixed.csv").splitlines()
        assert "a table of 9 rows with 3 columns, after nf.prepare: height standardised; categories of kind 2" in first
        assert "left out note (constant); names 'id'" in first
        assert "--method mds   (Python: nf.MDS().fit(nf.prepare(X)).vectors_)" in second

    def test_two_or_three_columns_may_be_pairs_or_numbers_and_that_is_said(self, files, shown):
        points = files / "points.csv"
        for text, data in (
            ("x,y\n" + "".join(f"{i},{i / 7}\n" for i in range(9)), "a table of 9 rows with 2 columns\n"),
            ("0.5\t1\t2\n-3e2\t4\tnan\n1\t5\t6\n", "a table of"),
            (
                "1,2\n2,3\n",
                "0 nodes without an edge; two or three columns of whole numbers (--kind table for numbers)\n",
            ),
            ("a,b,0.5\nb,c,0.7\n", "0 nodes without an edge; columns 0 and 1 can be the ends of edges\n"),
            (
                "1,2,0.5\n2,3,0.7\n",
                "0 nodes without an edge; two or three columns of whole numbers (--kind table for numbers)\n",
            ),
        ):
            points.write_text(text)
            assert data in shown("advise", points)
        assert "whole numbers" not in json.loads(shown("advise", points, "--kind", "graph", "--json"))["data"]


@pytest.mark.parametrize("name", ["walks", "other"])
def test_what_is_done_is_what_is_said(name):
    graph = nf.Relation.from_edges(nx.karate_club_graph(), directed=name == "walks")
    found = nf.choose(graph)
    assert (".random_walk(3)" in found.code) == (name == "walks")
    scope = {"nf": nf, "relation": graph}
    told = eval(found.code.replace("nf.EDRep(", "nf.EDRep(random_state=0, "), scope)
    assert found.fit(graph, random_state=0).vectors_.equals(told)
