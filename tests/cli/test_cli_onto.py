"""``nearfar map --onto``: new rows find places in the map of yesterday."""

import json
from pathlib import Path

import numpy as np
import pytest

import nearfar as nf

pytestmark = pytest.mark.filterwarnings("ignore:.*new rows are farther")


@pytest.fixture
def two_days(run, tmp_path, monkeypatch):
    """Yesterday's table and map, and today's: three rows left, one changed, twenty are of a group of their own."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)) + 12 * np.repeat(np.eye(4), 20, axis=0)

    def write(file, rows, names):
        lines = [",".join([name, *map(repr, row.tolist())]) for name, row in zip(names, rows, strict=True)]
        (tmp_path / file).write_text("\n".join(["name,a,b,c,d", *lines]) + "\n")

    names = [f"p{k}" for k in range(80)]
    write("yesterday.csv", X[:60], names[:60])
    today = X.copy()
    today[5] = X[50] + 0.01
    write("today.csv", today[3:], names[3:])
    options = ["--perplexity", "5", "--random-state", "0", "--max-iter", "300"]
    code, _, err = run("map", "yesterday.csv", "-o", "map.npz", *options)
    assert code == 0, err
    return nf.Embedding.load("map.npz")


ONTO = ["map", "today.csv", "--onto", "map.npz", "--perplexity", "5", "--random-state", "0"]


def test_new_rows_find_places_in_an_older_map(two_days, run):
    code, out, err = run(*ONTO, "--before", "yesterday.csv", "-o", "grown.npz", "--json")
    assert code == 0, err
    facts = json.loads(out)
    onto = facts["onto"]
    assert onto["left"] == ["p0", "p1", "p2"]
    assert (onto["new"] + onto.get("belongs nowhere", 0), onto["changed"]) == (20, 1)
    assert facts["n_iter"] == 100
    grown = nf.Embedding.load("grown.npz")
    kept = [f"p{k}" for k in range(6, 60)]
    away = np.linalg.norm([grown[name] - two_days[name] for name in kept], axis=1)
    assert np.median(away) < 0.02 * np.linalg.norm(two_days.vectors.std(axis=0))
    fresh = np.array([grown[f"p{k}"] for k in range(60, 80)])
    old = np.array([grown[name] for name in kept])
    apart = np.linalg.norm(fresh[:, None] - old, axis=2).min(axis=1)
    assert (apart > np.linalg.norm(fresh - fresh.mean(axis=0), axis=1).mean() / 2).all()
    near = np.argmin([np.linalg.norm(grown["p5"] - grown[name]) for name in kept])
    assert 40 <= int(kept[near][1:]) < 60


@pytest.mark.slow
def test_a_page_tells_what_is_new(two_days, run, monkeypatch):
    given, pages, drawn = {}, [], nf.Embedding.map

    def kept(*args, **more):
        given.update(more)
        pages.append(drawn(*args, **more))
        return pages[0]

    monkeypatch.setattr(nf.Embedding, "map", kept)
    Path("known.csv").write_text("name,kind\n" + "".join(f"p{k},{'ab'[k % 2]}\n" for k in range(80)))
    code, _, said = run(*ONTO, "--metadata", "known.csv", "-o", "grown.html")
    assert code == 0, said
    assert "3 left" in said
    assert pages[0].remarks == ["Gone since the map before: 'p0', 'p1', 'p2'."]
    assert "without --before, which rows have changed is not known" in said
    assert Path("grown.html").stat().st_size > 10_000
    assert given["color"] == "status"
    columns = given["metadata"]
    assert list(columns) == ["status", "shift", "x before", "y before", "kind"]
    assert columns["kind"][:3] == ["b", "a", "b"]
    assert columns["x before"][0] == pytest.approx(float(two_days["p3"][0]))
    assert columns["x before"][-1] is None
    assert set(columns["status"][:57]) <= {"known", "moved"}


def test_rows_that_are_only_numbered_are_taken_in_their_order_or_refused(two_days, run):
    rows = np.loadtxt("yesterday.csv", delimiter=",", skiprows=1, usecols=range(1, 5))
    for file, part in (("bare.csv", rows), ("fewer.csv", rows[:50])):
        np.savetxt(file, part, delimiter=",", header="height,weight,width,depth", comments="", fmt="%.6f")
    options = ["-o", "bare.npz", "--perplexity", "5", "--random-state", "0", "--max-iter", "20"]
    code, _, said = run("map", "bare.csv", *options)
    assert code == 0, said
    onto = ["-o", "again.npz", *options[2:], "--onto"]
    code, _, said = run("map", "bare.csv", *onto, "bare.npz")
    assert code == 0, said
    assert "taken in their order: row 0 of FILE is row 0 of the map" in said
    assert "--names says which column has the names" in said
    for file, old in (("fewer.csv", "bare.npz"), ("bare.csv", "map.npz")):
        code, _, said = run("map", file, *onto, old)
        assert code != 0
        assert "rows that are only numbered" in said
