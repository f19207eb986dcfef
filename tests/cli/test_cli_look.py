"""``nearfar FILE``: what it is, what is done, and that; from files of every kind, into one page."""

import io
import json
import os
import re
import subprocess
import sys
import threading
from typing import NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from click.shell_completion import BashComplete

import nearfar as nf
from nearfar.cli import _cli, look


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(run):
    """Run a command; what it left has names."""
    return lambda *args: Done(*run(*args))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Results go to the folder of the test."""
    monkeypatch.chdir(tmp_path)


def test_a_graph(run, tmp_path):
    graph = nx.planted_partition_graph(4, 30, 0.4, 0.01, seed=0)
    (tmp_path / "map").write_text("paper,cited\n" + "".join(f"{a + 1},{b + 1}\n" for a, b in graph.edges))
    done = run("./map")
    assert done.code == 0
    said = done.out.splitlines()
    assert re.match(r"\./map: a graph of 120 nodes and 7\d\d edges", said[0])
    assert "'paper' -> 'cited' without weight (commas, a header)" in done.out
    assert "nf.EDRep(n_components=16" in done.out
    assert "4 communities" in done.out
    for line in (line for line in said if "near " in line):
        key, *others = re.findall(r"\d+", line)
        assert len({(int(node) - 1) // 30 for node in (key, *others)}) == 1
    emb = nf.Embedding.load("map.nearfar.safetensors")
    assert len(emb) == 120
    assert "<html" in (tmp_path / "map.nearfar.html").read_text()[:500]


@pytest.mark.slow
def test_a_short_map_keeps_the_neighbors_of_a_long_one():
    graph = nx.planted_partition_graph(6, 50, 0.3, 0.02, seed=0)
    vectors = nf.EDRep(16, random_state=0).fit(nf.Relation.from_edges(list(graph.edges)).random_walk(3)).vectors_
    kept = []
    for shorter in (sys.modules[look.callback.__module__].SHORT, {}):
        Y = nf.TSNE(metric="cosine", random_state=0, n_jobs=1, **shorter).fit(vectors).embedding_
        kept.append(nf.evaluate.neighborhoods(vectors, Y, metric="cosine").auc)
    assert kept[0] > 0.97 * kept[1]


def test_users_and_items(run, tmp_path, rng):
    rows = [(f"u{u}", f"i{i}") for u in range(60) for i in rng.choice(15, 6, False) * 2 + u % 2]
    pd.DataFrame(rows, columns=["user", "item"]).to_parquet("likes.parquet")
    done = run("likes.parquet", "--json", "-o", "page.html")
    summary = json.loads(done.out)
    assert summary["kind"] == "two kinds"
    assert summary["communities"]["number"] == 2
    assert sum(summary["communities"]["column_sizes"]) == 30
    assert summary["files"] == ["page.html", "page.safetensors", "page.items.safetensors"]
    for item, others in summary["near"].items():
        assert {int(other[1:]) % 2 for other in others} == {int(item[1:]) % 2}
    assert nf.Embedding.load("page.safetensors").context_ids is not None


def test_groups_of_a_graph_or_none(run, tmp_path):
    edges = nx.planted_partition_graph(3, 20, 0.5, 0.02, seed=0).edges
    (tmp_path / "met.csv").write_text("a,b\n" + "".join(f"n{a},n{b}\n" for a, b in edges))
    done = run("communities", "met.csv", "-o", "groups.csv", "--random-state", "0")
    assert done.err.splitlines()[0] == "3 communities"
    assert [line.split("\t")[:2] for line in done.out.splitlines()] == [[str(k), "20"] for k in range(3)]
    table = pd.read_csv("groups.csv", index_col="id")
    assert table.columns.tolist() == ["community", "chance", "margin"]
    assert table["community"].groupby([int(key[1:]) // 20 for key in table.index]).nunique().tolist() == [1, 1, 1]
    told = json.loads(run("communities", "met.csv", "--number", "2", "--json").out)
    assert told["number"] == 2
    assert {node["community"] for node in told["nodes"]} == {0, 1}
    (tmp_path / "any.csv").write_text("".join(f"n{a},n{b}\n" for a, b in nx.gnp_random_graph(60, 0.15, seed=0).edges))
    assert run("communities", "any.csv", "--random-state", "0").err.startswith("no groups beyond chance (p = ")
    assert "found      no groups beyond chance" in run("any.csv").out


def test_items_that_nobody_chooses_together(run, tmp_path):
    (tmp_path / "likes.csv").write_text("user,item\n" + "".join(f"u{k},i{k % 5}\n" for k in range(10)))
    assert run("likes.csv").code == 0
    assert not (tmp_path / "likes.nearfar.items.safetensors").exists()


def test_a_table_a_text_and_vectors(run, tmp_path, rng):
    frame = pd.DataFrame(rng.normal(size=(30, 3)), columns=list("abc")).assign(species=["s", "t"] * 15)
    frame.to_csv("flowers.csv", index=False)
    done = run("flowers.csv")
    assert "a table of 30 rows with 3 columns" in done.out
    assert "labels 'species'" in done.out
    assert (tmp_path / "flowers.nearfar.html").exists()
    nf.Embedding(rng.normal(size=(30, 4)), [f"w{k}" for k in range(30)]).save("words.vec")
    assert "vectors of 30 ids with 4 components" in run("words.vec").out
    (tmp_path / "texts").mkdir()
    for k in range(5):
        (tmp_path / "texts" / f"{k}.txt").write_text("The sea and the ship were calm.\nA ship sails on the sea.\n" * 3)
    done = run("texts", "--quiet")
    assert (done.code, done.out) == (0, "")
    assert "ship" in nf.Embedding.load("texts.nearfar.safetensors")


def test_many_points_are_shown_by_a_sample(run, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(sys.modules[look.callback.__module__], "_SHOWN", 40)
    nf.Embedding(rng.normal(size=(100, 4))).save("many.npz")
    assert run("many.npz").code == 0
    near = json.loads(run("many.npz", "--json").out)["near"]
    assert list(near) == ["0", "1", "2"]
    graph = nx.karate_club_graph()
    graph.add_node("alone")
    nx.write_graphml(nx.disjoint_union(graph, graph), "two.graphml")
    monkeypatch.setattr(sys.modules[look.callback.__module__], "_ENTRIES", 40)
    assert "no communities are looked for in more than 40 entries" in run("two.graphml").out


def test_two_nodes_are_no_map(run, tmp_path):
    (tmp_path / "one.csv").write_text("a,b\n")
    done = run("one.csv")
    assert (done.code, len(done.err.splitlines())) == (2, 1)


def test_standard_input_without_a_command(run, monkeypatch):
    def given(*options):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x,y\n" + b"1.5,2\n2,1\n0,3\n7,1\n")))
        return run("-", *options)

    done = given("-q", "--json")
    assert done.code == 0
    assert json.loads(done.out)["output"] == "stdin.nearfar.html"
    assert given().out.startswith("standard input: a table of 4 rows with 2 columns")


def test_the_shell_completes_files_where_there_may_be_one(tmp_path):
    for name in ("contacts.csv", "book.txt"):
        (tmp_path / name).touch()

    def completed(*args, last):
        found = BashComplete(_cli, {}, "nearfar", "_NEARFAR_COMPLETE").get_completions(list(args), last)
        return {item.value for item in found if item.type == "plain"} or {item.type for item in found}

    assert completed(last="con") == {"convert", "contacts.csv"}
    assert completed(last="bo") == {"file"}
    assert {"embed", "words"} <= completed(last="")
    assert "--version" in completed(last="--")
    for command in (["embed"], ["words", "train"], ["compare", "a.npz"], ["map", "a.npz", "--metadata"]):
        assert completed(*command, last="bo") == {"file"}
    assert completed("map", "a.npz", "--method", last="t") == {"tsne", "tasne"}
    assert completed("similar", "a.npz", last="bo") == set()


RING = "a,b\n" + "".join(f"é{k},é{(k + 1) % 9}\n" for k in range(9))


@pytest.mark.slow
def test_what_comes_through_a_pipe_to_a_terminal_without_letters_waits_for_no_package_that_it_can_do_without(tmp_path):
    graph = nx.planted_partition_graph(4, 30, 0.4, 0.01, seed=0)
    edges = "paper,cited\n" + "".join(f"é{a},é{b}\n" for a, b in graph.edges)
    code = (
        "import sys; from nearfar.cli import look, main; import nearfar as nf\n"
        "sys.modules[look.callback.__module__].SHORT.update(max_iter=50, early_exaggeration_iter=20)\n"
        "assert main(['look', '-']) == 0\n"
        "emb = nf.Embedding.load('stdin.nearfar.safetensors')\n"
        "page = emb.map(emb.vectors[:, :2])\n"
        "assert len(page.labels) == 8  # clusters, named\n"
        "print([name for name in ('sklearn', 'pandas', 'matplotlib', 'scipy.stats') if name in sys.modules])"
    )
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "TERM": "dumb", "NO_COLOR": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=edges, capture_output=True, text=True, env=environment, check=True)
    assert "a graph of 120 nodes and 7" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    assert (tmp_path / "stdin.nearfar.html").exists()


def test_what_comes_through_a_named_pipe(run, tmp_path):
    os.mkfifo("named")
    writer = threading.Thread(target=(tmp_path / "named").write_text, args=(RING,))
    writer.start()
    done = run("look", "named")
    writer.join()
    assert done.code == 0
    assert "a graph of 9 nodes and 9 edges" in done.out
    assert (tmp_path / "stdin.nearfar.html").exists()


def test_a_map_a_row_of_zeros_and_an_encoded_text(run, rng):
    nf.Embedding(rng.normal(size=(30, 2))).save("map.npz")
    assert run("map.npz").code == 0
    X = rng.normal(size=(30, 4))
    X[3] = 0
    nf.Embedding(X).save("isolated.npz")
    assert run("isolated.npz").code == 0
    np.save("rows.npy", rng.normal(size=(20, 3)))
    assert "near       0: " in run("rows.npy").out  # their numbers stay
    nf.Corpus(["the sea the ship the sea a ship"] * 40).encode(folder="encoded", min_count=1)
    assert "a text of 320 tokens" in run("encoded").out
