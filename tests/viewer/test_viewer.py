"""The map page: what is packed into the file is what was given, joined by id, and nothing of it is markup."""

import base64
import functools
import importlib.util
import json
import re
import zlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import nearfar as nf
from nearfar.cli import _cli
from nearfar.errors import NearfarWarning
from nearfar.relations.neighbors import nearest_neighbors

TYPES = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "f4": np.float32}
NASTY = [
    "<script>alert(1)</script>",
    'a "b", c',
    "tab\tand\nline",
    "\u202eright to left",
    "שלום",
    "nul\0",
    "</script><!--",
]


def block(text: str, name: str) -> bytes:
    found = re.findall(f'<script type="text/plain" id="block-{name}">([A-Za-z0-9+/=]*)</script>', text)
    assert len(found) == 1, name
    return zlib.decompress(base64.b64decode(found[0]))


def header(text: str) -> dict:
    return json.loads(block(text, "header"))


def numbers(text: str, name: str, kind: str) -> np.ndarray:
    dtype = np.dtype(TYPES[kind])
    planes = np.frombuffer(block(text, name), np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(planes.T).view(dtype).ravel()


def texts(text: str, name: str) -> list[str]:
    return block(text, name).decode().split("\0")


@pytest.fixture
def short_maps(monkeypatch):
    """Few iterations where a page draws a map of its own."""
    short = functools.partial(nf.TSNE, max_iter=30, early_exaggeration_iter=5)
    monkeypatch.setattr("nearfar.viewer.page.TSNE", short)


@pytest.fixture(scope="module")
def made() -> tuple[nf.Embedding, np.ndarray, str]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)).astype(np.float32)
    emb = nf.Embedding(X, NASTY + [f"row {i}" for i in range(73)])
    Y = X[:, :2] * [1.0, 3.0] + 7
    metadata = {"group": [["x", "y", "</script>"][i % 3] for i in range(80)], "value": X[:, 3].tolist()}
    return emb, Y, emb.map(Y, metadata=metadata, metric="euclidean", n_neighbors=6, title="<b>T</b>").html()


def test_the_page_holds_positions_ids_and_columns(made):
    emb, Y, page = made
    ids = texts(page, "ids")
    rows = [emb.ids.get(key.replace("\u2400", "\0")) for key in ids]
    assert sorted(rows) == list(range(80))
    xy = np.column_stack([np.cumsum(numbers(page, name, "u2"), dtype=np.uint16) for name in "xy"]) / 65535
    span = np.ptp(Y, axis=0).max()
    np.testing.assert_allclose(xy, (Y[rows] - (Y.max(axis=0) + Y.min(axis=0)) / 2) / span + 0.5, atol=1e-5)
    facts = header(page)
    assert [fact["kind"] for fact in facts["columns"]] == ["category", "number"]
    names = texts(page, "names-0")
    assert [names[k] for k in numbers(page, "column-0", "u1")] == [["x", "y", "</script>"][row % 3] for row in rows]
    np.testing.assert_array_equal(numbers(page, "column-1", "f4"), emb.vectors[rows, 3])


def test_the_page_knows_the_neighbours_in_the_data_and_which_are_torn(made):
    emb, Y, page = made
    rows = np.array([emb.ids.get(key.replace("\u2400", "\0")) for key in texts(page, "ids")])
    moved = numbers(page, "neighbours", "u4").astype(np.int64).reshape(6, 80).T
    signed = np.where(moved % 2, -(moved + 1) // 2, moved // 2)
    near = nearest_neighbors(emb.vectors, 18).indices
    np.testing.assert_array_equal(rows[np.arange(80)[:, None] + signed], near[rows, :6])
    torn = np.unpackbits(np.frombuffer(block(page, "torn"), np.uint8))[:480].reshape(80, 6)
    in_map = nearest_neighbors(Y, 18).indices
    wanted = np.array([[j not in in_map[i] for j in near[i, :6]] for i in rows])
    np.testing.assert_array_equal(torn, wanted)
    assert 0 < wanted.mean() < 1
    judged = nf.evaluate.neighborhoods(emb.vectors, Y, n_neighbors=6, per_point=True)
    np.testing.assert_array_equal(numbers(page, "missing", "u1"), np.rint(judged.missing[6][rows] * 6))
    np.testing.assert_array_equal(numbers(page, "false", "u1"), np.rint(judged.false[6][rows] * 6))
    assert header(page)["trust"]["auc"] == pytest.approx(judged.auc)


def test_nothing_of_the_data_is_markup(made):
    _, _, page = made
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "<title>&lt;b&gt;T&lt;/b&gt;</title>" in outside
    assert "alert" not in page
    assert page.count("</script>") == page.count("<script")  # no data ends a block early
    assert "connect-src" not in page
    assert "default-src 'none'" in page  # the page may not reach a network
    assert "innerHTML" not in page.replace(block(page, "header").decode(), "")


@pytest.mark.parametrize("kind", ["pandas", "index", "polars", "csv", "shuffled mapping"])
def test_metadata_are_joined_by_id(tmp_path, kind):
    emb = nf.Embedding(np.eye(6) + 0.1, ["a", "b", "c", "d", "e", "f"])
    order = ["e", "b", "a", "d", "c", "nobody"]
    table = {"who": order, "tag": [f"tag of {key}" for key in order], "size": [5.5, 2, 1, 4, None, 0]}
    if kind == "csv":
        given = tmp_path / "table.csv"
        pd.DataFrame(table).to_csv(given, index=False)
    else:
        frames = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "shuffled mapping": dict}
        given = pd.DataFrame(table).set_index("who") if kind == "index" else frames[kind](table)
    page = emb.map(np.random.default_rng(0).normal(size=(6, 2)), metadata=given, n_neighbors=2)
    columns = {column.name: column for column in page.columns}
    assert list(columns) == ["tag", "size"]
    tags = columns["tag"]
    shown = [[*tags.names, ""][code] for code in tags.values.tolist()]
    assert shown == [f"tag of {key}" for key in "abcde"] + [""]
    np.testing.assert_array_equal(columns["size"].values, np.array([1, 2, np.nan, 4, 5.5, np.nan], np.float32))
    assert page.remarks == ["1 of 6 points have no metadata."]


def exact_columns(n: int, rng: np.random.Generator) -> dict[str, list]:
    """Return columns of numbers and dates that float32 does not hold, some with gaps, and how they are written."""
    gap = lambda values: [None if k % 9 == 4 else value for k, value in enumerate(values)]  # noqa: E731
    seconds = (1_700_000_000 + 61 * np.arange(n)).tolist()
    return {
        "population": rng.integers(8_000_000, 40_000_000, n).tolist(),
        "user": gap(rng.integers(10**17, 10**18, n).tolist()),
        "hash": rng.integers(2**63, 2**64, n, dtype=np.uint64).tolist(),
        "beyond": [k * 10**30 + 7 for k in range(n)],
        "tiny": [(k + 1) * 0.5e-60 for k in range(n)],
        "seconds": seconds,
        "price": gap([round(1_234_567 + value, 2) for value in rng.uniform(0, 9, n).tolist()]),
        "day": gap([str(value) for value in np.datetime64("1899-12-31") + np.arange(n)]),
        "time": [str(np.datetime64(value, "s")).replace("T", " ") for value in seconds],
    }


def test_numbers_and_dates_on_the_page_are_those_of_the_metadata():
    rng, n = np.random.default_rng(0), 90
    written = exact_columns(n, rng)
    typed = {
        name: pd.Series(values, dtype={"user": "Int64", "hash": "uint64"}.get(name)) for name, values in written.items()
    }
    typed |= {name: pd.to_datetime(typed[name]) for name in ("day", "time")}
    computed, short = rng.normal(size=n), (1000.25 + np.arange(n)).tolist()  # six digits: a float32 holds them
    known = pd.DataFrame({**typed, "computed": computed, "short": short})
    known.index = [f"doc {k}" for k in range(n)]
    emb = nf.Embedding(rng.normal(size=(n, 3)), known.index)
    page = emb.map(rng.normal(size=(n, 2)), metadata=known.sample(frac=1, random_state=0), metric="euclidean", n_jobs=1)
    text, columns = page.html(), {column.name: column for column in page.columns}
    rows = [emb.ids.get(key) for key in texts(text, "ids")]
    for at, name in enumerate(known.columns):
        fact = header(text)["columns"][at]
        assert fact["kind"] == ("date" if name in ("day", "time") else "number")
        stored = numbers(text, f"column-{at}", "f4")
        if name in ("computed", "short"):
            assert "origin" not in fact
            assert columns[name].values.dtype == np.float32
            np.testing.assert_array_equal(stored, known[name].to_numpy()[rows].astype(np.float32))
            continue
        wanted = ["" if written[name][row] is None else str(written[name][row]) for row in rows]
        assert texts(text, f"written-{at}") == wanted
        assert np.isnan(stored).tolist() == [not one for one in wanted]
        gone = np.isnan(stored)
        exact = [written[name][row] for row in rows]
        exact = [np.datetime64(one, "ms").astype(int) if fact["kind"] == "date" and one else one for one in exact]
        span = fact["high"] - fact["low"]
        back = stored[~gone].astype(float) * fact["unit"] + fact["origin"]
        np.testing.assert_allclose(back, np.array(exact, object)[~gone].astype(float), rtol=0, atol=1e-6 * span)
        assert fact["low"] < fact["high"]
    assert columns["user"].values.tolist() == written["user"]
    assert columns["hash"].values.tolist() == written["hash"]


def test_categories_of_the_page_are_written_and_ordered_as_in_pictures():
    n = 60
    emb, Y = nf.Embedding(np.random.default_rng(0).normal(size=(n, 3))), np.random.default_rng(1).normal(size=(n, 2))
    cluster = pd.Series([0, 10, 9] * 20).astype(float).mask(np.arange(n) % 20 == 5)
    grade = pd.Categorical(["high", "low", None] * 20, ["low", "middle", "high"], ordered=True)
    known = pd.DataFrame({"cluster": cluster, "grade": grade, "live": pd.Series([True, None] * 30, dtype="boolean")})
    found = emb.map(Y, metadata=known, metric="euclidean", n_jobs=1).columns
    assert [column.names for column in found] == [["0", "9", "10"], ["low", "middle", "high"], ["False", "True"][1:]]
    for column in found:
        given = known[column.name]
        assert ((column.values == len(column.names)) == given.isna()).all()
    legend = nf.plots.scatter(Y, known["cluster"]).get_legend().get_texts()
    assert [text.get_text() for text in legend] == ["0", "9", "10", "no label"]


def test_numbers_are_no_ids_by_chance():
    emb, Y = nf.Embedding(np.eye(6)), np.random.default_rng(0).normal(size=(6, 2))  # ids are row numbers
    rank = [5, 4, 3, 2, 1, 0]
    [column] = emb.map(Y, metadata={"rank": rank}).columns
    assert [column.names[code] for code in column.values] == [str(value) for value in rank]
    [column] = emb.map(Y, metadata={"id": rank, "tag": list("abcdef")}).columns
    assert [column.names[code] for code in column.values] == list("fedcba")
    [column] = emb.map(Y, metadata={"rank": rank, "tag": list("abcdef")}, id_column="rank").columns
    assert [column.names[code] for code in column.values] == list("fedcba")


def test_of_five_hundred_columns_forty_are_taken_and_that_is_said():
    emb, Y = nf.Embedding(np.eye(4), list("abcd")), np.random.default_rng(0).normal(size=(4, 2))
    with pytest.warns(NearfarWarning, match="460 of 500 columns of the metadata were left out; give at most 40"):
        page = emb.map(Y, metadata={f"c{i}": [i, 1, 2, 3] for i in range(500)})
    assert len(page.columns) == 40
    assert page.remarks == ["460 of 500 columns of the metadata were left out."]


def test_many_categories_and_many_points_are_thinned_and_said():
    rng = np.random.default_rng(0)
    emb = nf.Embedding(rng.normal(size=(600, 3)))
    kinds = [f"kind {i // 12}" for i in range(600)]
    with pytest.warns(NearfarWarning, match="200 of 600 points are shown, drawn at random"):
        page = emb.map(emb.vectors[:, :2], metadata={"kind": kinds}, max_points=200, n_neighbors=3)
    assert page.remarks[0].startswith("200 of 600 points")
    [column] = page.columns
    assert column.kind == "category"
    assert [column.names[code] for code in column.values[:50]] == [kinds[i] for i in page.ids[:50]]
    text = page.html()
    assert header(text)["n"] == 200
    assert {int(key) for key in texts(text, "ids")} == set(page.ids)
    assert len(texts(text, "names-0")) == 50


@pytest.mark.usefixtures("short_maps")
def test_positions_come_from_arrays_embeddings_and_estimators_by_id():
    rng = np.random.default_rng(1)
    emb = nf.Embedding(rng.normal(size=(40, 5)), [f"p{i}" for i in range(40)])
    est = nf.TSNE(perplexity=5, max_iter=20, early_exaggeration_iter=5, random_state=0).fit(emb)
    turned = nf.Embedding(est.embedding_[::-1], list(emb.ids)[::-1])
    pages = [emb.map(given, n_neighbors=3).positions for given in (est.embedding_, est, est.vectors_, turned)]
    for other in pages[1:]:
        np.testing.assert_array_equal(other, pages[0])
    assert emb.map(n_neighbors=3).positions.shape == (40, 2)  # a t-SNE map of its own
    flat = nf.Embedding(est.embedding_, emb.ids).map()  # two components: drawn as they are, nothing to compare with
    assert flat.judged is None
    assert flat.neighbors.shape == (40, 0)
    assert header(flat.html())["trust"] is None


def test_cards_know_entropy_senses_and_anchors():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(12, 3, 3))
    density = nf.DensityEmbedding.from_factors(factors, [f"w{i}" for i in range(12)])
    page = density.map(rng.normal(size=(12, 2)), n_neighbors=3)
    entropy, senses = page.columns
    np.testing.assert_allclose(entropy.values, density.entropy(), rtol=1e-6)
    lines = [
        f"{sense.weight:.0%}: " + ", ".join(str(word) for word, _ in sense.nearest[:3])
        for sense in density.senses("w0")
    ]
    assert senses.values[0].splitlines() == lines
    weights = np.abs(rng.normal(size=(9, 4))).astype(np.float32)
    anchored = nf.AnchoredEmbedding(weights, rng.normal(size=(4, 3)), ids=[f"o{i}" for i in range(9)])
    [anchors] = anchored.map(rng.normal(size=(9, 2)), n_neighbors=3).columns
    (first, weight), *_ = anchored.explain("o2")
    # A number says nothing of an anchor: the objects with the largest weights on it do.
    objects = ", ".join(name for name, _ in anchored.anchor_objects(first, 3))
    assert anchors.values[2].splitlines()[0] == f"{weight:.2g} of {first} ({objects})"
    named = nf.AnchoredEmbedding(weights, rng.normal(size=(4, 3)), ids=range(9), anchor_names=list("abcd"))
    [anchors] = named.map(rng.normal(size=(9, 2)), n_neighbors=3).columns
    assert anchors.values[2].splitlines()[0] == f"{weight:.2g} of {'abcd'[first]}"


def test_each_sense_of_a_word_is_a_point(tmp_path):
    rng = np.random.default_rng(0)
    ids = [("bank", 0), ("bank", 1), *((f"w{i}", 0) for i in range(20))]
    emb = nf.SenseEmbedding(rng.normal(size=(22, 4)), ids, weights=[0.7, 0.3] + [1] * 20)
    facts = pd.DataFrame({"word": ["w3", "bank"], "topic": ["x", "y"]})
    page = emb.map(metadata=facts, n_neighbors=3)
    topic, weight, entropy, senses = page.columns
    assert [topic.names[code] if code < 2 else None for code in topic.values[:6]] == ["y", "y", None, None, None, "x"]
    np.testing.assert_allclose(weight.values[:3], [0.7, 0.3, 1])
    np.testing.assert_allclose(entropy.values[:3], emb.entropy(["bank", "bank", "w0"]), rtol=1e-6)
    lines = [f"{s.weight:.0%}: " + ", ".join(str(word) for word, _ in s.nearest[:3]) for s in emb.senses_of("bank")]
    assert senses.values[1].splitlines() == lines
    assert block(page.html(), "ids").decode().split("\0").count("bank@1") == 1  # no ('bank', 1)
    emb.save(tmp_path / "senses.safetensors")
    args = ["map", str(tmp_path / "senses.safetensors"), "-o", str(tmp_path / "x.html"), "--perplexity", "5"]
    assert CliRunner().invoke(_cli, [*args, "--max-iter", "5", "-q"]).exit_code == 0
    assert header((tmp_path / "x.html").read_text())["columns"][0]["name"] == "weight"


def test_the_command_line_knows_density_matrices(tmp_path):
    rng = np.random.default_rng(0)
    nf.DensityEmbedding.from_factors(rng.normal(size=(20, 3, 3))).save(tmp_path / "d.safetensors")
    args = ["map", str(tmp_path / "d.safetensors"), "-o", str(tmp_path / "x.html"), "--perplexity", "5"]
    assert CliRunner().invoke(_cli, [*args, "--max-iter", "5", "-q"]).exit_code == 0
    assert [column["name"] for column in header((tmp_path / "x.html").read_text())["columns"]] == ["entropy", "senses"]


def test_the_name_of_a_category_stands_where_it_is_densest():
    rng = np.random.default_rng(0)
    scattered, clump = rng.uniform(-10, 10, size=(40, 2)), [8, 8] + 0.1 * rng.normal(size=(30, 2))
    xy = np.concatenate([scattered, clump])
    page = nf.Embedding(xy).map(metadata={"kind": ["a"] * 70})
    [(row, name)] = page.labels
    assert name == "a"
    assert np.abs(xy[row] - 8).max() < 1


def test_clusters_are_named_by_their_typical_ids():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(8, 6)) * 30
    X = np.repeat(centres, 20, axis=0) + rng.normal(size=(160, 6))
    emb = nf.Embedding(X, [f"{'abcdefgh'[i // 20]}{i % 20}" for i in range(160)])
    page = emb.map(X[:, :2], n_neighbors=4)
    names = [text for _, text in page.labels[:8]]
    assert sorted(name[0] for name in names) == list("abcdefgh")
    for row, text in page.labels[:8]:
        assert emb.ids[row][0] == text[0]


def test_a_page_is_saved_whole_and_shown_in_notebooks(tmp_path):
    emb = nf.Embedding(np.random.default_rng(0).normal(size=(30, 3)))
    page = emb.map(emb.vectors[:, :2], n_neighbors=3)
    target = tmp_path / "map.html"
    page.save(target)
    assert target.read_text("utf-8") == page.html()
    assert page._repr_html_().startswith("<iframe")
    assert "30 points" in repr(page)
    assert [path.name for path in tmp_path.iterdir()] == ["map.html"]


def test_the_command_line_writes_the_page(tmp_path):
    rng = np.random.default_rng(0)
    emb = nf.Embedding(rng.normal(size=(40, 4)), [f"p{i}" for i in range(40)])
    emb.save(tmp_path / "vectors.npz")
    pd.DataFrame({"id": emb.ids.to_list(), "kind": ["x", "y"] * 20}).to_csv(tmp_path / "kinds.csv", index=False)
    target = tmp_path / "map.html"
    arguments = ["map", str(tmp_path / "vectors.npz"), "--perplexity", "5", "--max-iter", "20", "--json", "-q"]
    ran = CliRunner().invoke(_cli, [*arguments, "-o", str(target), "--metadata", str(tmp_path / "kinds.csv")])
    assert ran.exit_code == 0, ran.output
    facts = header(target.read_text("utf-8"))
    assert facts["n"] == 40
    assert [column["name"] for column in facts["columns"]] == ["kind"]
    assert json.loads(ran.stdout)["output"] == str(target)
    ran = CliRunner().invoke(
        _cli,
        [*arguments, "-o", str(tmp_path / "map.png"), "--metadata", str(tmp_path / "kinds.csv"), "--color", "kind"],
    )
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(ran.stdout)["plot"] == str(tmp_path / "map.png")


def test_a_picture_of_a_page_has_its_colours_and_says_what_the_map_lost(tmp_path):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(3, 5)) * 9, 20, axis=0) + rng.normal(size=(60, 5))
    known = {
        "kind": ["a", "b", "c"] * 20,
        "group": np.repeat(["x", "y", "z"], 20).tolist(),
        "day": pd.Series(pd.date_range("2024-01-01", periods=60)),
    }
    for color in ("kind", "group", "day"):
        page = nf.Embedding(X).map(X[:, :2], metadata=known, color=color, title="Three", metric="euclidean")
        ax = page.picture()
        assert ax.get_title() == "Three"
        lost = f"{page.missing.mean():.0%} of them far away in the map"
        assert ax.texts[0].get_text() == f"60 points of 5 components, neighbours by the Euclidean distance, {lost}"
        if color == "kind":
            assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "c"]
        elif color == "group":
            assert {text.get_text() for text in ax.texts[1:]} == {"x", "y", "z"}
        else:
            assert len(ax.figure.axes) == 2
    page.save(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.slow
@pytest.mark.usefixtures("short_maps")
def test_stability_is_asked_for_and_kept_by_ids(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(3, 6) * 9, 12, axis=0) + rng.normal(size=(36, 6))
    emb = nf.Embedding(X, [f"row {k}" for k in range(36)])
    est = nf.TSNE(perplexity=9, max_iter=30, random_state=0).fit(emb)
    found = nf.evaluate.map_stability(est, n_refits=2, max_iter=20, random_state=0)
    page = emb.map(est, stability=found, color="stability")
    np.testing.assert_array_equal(page.stability, found.stability.astype(np.float32))
    assert list(page.trust) == ["missing neighbours", "false neighbours", "stability"]
    assert page.color == 2
    turned = emb.subset(emb.ids.to_list()[::-1]).map(est, stability=found)
    np.testing.assert_array_equal(turned.stability, page.stability[::-1])
    few = emb.subset([f"row {k}" for k in range(0, 36, 2)])
    np.testing.assert_array_equal(few.map(est, stability=found).stability, page.stability[::2])
    again = emb.map(est, stability=True)
    assert (again.stability >= 0).all()
    assert (again.stability <= 1).all()
    assert emb.map(est).stability is None
    assert emb.map(stability=True).stability.shape == (36,)
    flat = nf.Embedding(est.embedding_, emb.ids).map(stability=found)
    assert list(flat.trust) == ["stability"]
    if importlib.util.find_spec("matplotlib"):
        page.save(tmp_path / "page.png")


@pytest.mark.filterwarnings("ignore:.*may belong nowhere")
def test_a_map_that_has_grown_says_so_on_its_page() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    ids = [f"r{i}" for i in range(60)]
    est = nf.TSNE(perplexity=5, max_iter=20, random_state=0)
    old = est.set_params(init="pca").fit(nf.Embedding(X[:50], ids[:50])).vectors_
    est.fit(nf.Embedding(X[2:], ids[2:]), pull=old)
    emb = nf.Embedding(X[:1:-1], ids[:1:-1])
    page = emb.map(est, metadata={"part": ["a", "b"] * 29}, n_neighbors=5)
    facts = header(page.html())
    assert [column["name"] for column in facts["columns"]] == ["part", "status", "shift", "x before", "y before"]
    assert facts["colour"] == 1
    assert facts["before"] == [3, 4]
    np.testing.assert_allclose(page.columns[3].values[10:], old.vectors[:1:-1, 0], rtol=1e-6)
    assert np.isnan(page.columns[3].values[:10]).all()
    assert page.remarks == ["Gone since the map before: 'r0', 'r1'."]
    known = page.columns[1].names.index("known")
    assert facts["columns"][1]["shades"][known] == -1  # grey
    own = emb.map(est, metadata={"status": ["a", "b"] * 29}, n_neighbors=5)
    assert own.columns[0].names == ["a", "b"]
    assert header(emb.map(est.embedding_, n_neighbors=5).html())["before"] == []


def test_points_coloured_by_numbers_have_the_names_of_categories_that_are_together() -> None:
    rng = np.random.default_rng(0)
    at = np.repeat([0, 1, 2], 30)
    Y = np.array([[0, 0], [9, 0], [0, 9]])[at] + rng.normal(size=(90, 2))
    mixed, kinds = rng.permutation(["x", "y", "z"] * 30).tolist(), np.array(["north", "east", "south"])[at].tolist()
    emb = nf.Embedding(Y, [f"p{i}" for i in range(90)])
    metadata = {"mixed": mixed, "kind": kinds, "height": Y[:, 0].tolist()}
    page = emb.map(metadata=metadata, color="height")
    assert {name for _, name in page.labels} == {"north", "east", "south"}
    assert all(kinds[row] == name for row, name in page.labels)
    assert {name for _, name in emb.map(metadata=metadata, color="mixed").labels} == {"x", "y", "z"}


@pytest.mark.usefixtures("short_maps")
def test_points_are_called_by_a_column():
    emb = nf.Embedding(np.random.default_rng(0).normal(size=(12, 3)), [f"p{k}" for k in range(12)])
    known = pd.DataFrame(
        {"title": [f"a long way {k}" for k in range(11)] + [""], "year": np.arange(12) % 3 + 2000}, emb.ids
    )
    page = emb.map(metadata=known, label="title", metric="euclidean", n_jobs=1)
    assert page.called == [*known["title"][:11], "p11"]
    assert [(column.name, column.kind) for column in page.columns] == [("year", "number"), ("id", "text")]
    block = re.search(r'id="block-ids">([^<]*)<', page.html()).group(1)
    told = zlib.decompress(base64.b64decode(block)).decode()
    assert all(text in told for text in page.called)
    assert emb.map(metadata=known, metric="euclidean", n_jobs=1).called is None


def test_ages_and_years_are_numbers_and_codes_are_groups():
    n = 60
    known = {
        "age": np.arange(n) % 30 + 20,
        "year": np.arange(n) % 9,
        "stars": np.arange(n) % 5,
        "cluster": [3, 77] * 30,
    }
    page = nf.Embedding(np.random.default_rng(0).normal(size=(n, 2))).map(metadata=known)
    kinds = {column.name: column.kind for column in page.columns}
    assert kinds == {"age": "number", "year": "number", "stars": "category", "cluster": "category"}
