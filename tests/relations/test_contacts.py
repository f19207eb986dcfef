"""Contacts with times: the supra-adjacency matrix, what can be read, what is refused, ids that are pairs."""

import io
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from quick import often

import nearfar as nf
from nearfar.cli import main
from nearfar.errors import InputError, NearfarWarning, UnknownIdError
from nearfar.reading.contacts import cut_into_slices, read_contacts

A, B, C = "ann", "bob", "cem"
THREE = [(A, B, 0), (B, C, 20), (A, C, 40)]


def entries(relation: nf.Relation) -> dict:
    matrix = relation.to_scipy().tocoo()
    ids = relation.row_ids.to_list()
    found = zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True)
    return {(ids[i], ids[j]): weight for i, j, weight in found}


def slices_by_loops(contacts, window, step) -> dict:
    first = min(t for _, _, t in contacts)
    slices = defaultdict(list)
    for i, j, t in contacts:
        if window is None:
            slices[t].append((i, j))
            continue
        for begin in range(first, t + 1, step or window):
            if t < begin + window:
                slices[begin].append((i, j))
    return slices


def by_loops(contacts, window=None, step=None) -> dict:
    """The definition, contact by contact: (i, t) -> (i, t+) once, (i, t) -> (j, t_j+) and (j, t) -> (i, t_i+)."""
    slices = slices_by_loops(contacts, window, step)
    active = defaultdict(set)
    for t, pairs in slices.items():
        for pair in pairs:
            for node in pair:
                active[node].add(t)
    after = {(i, t): min((u for u in times if u > t), default=None) for i, times in active.items() for t in times}
    found = defaultdict(float)
    for (i, t), later in after.items():
        if later is not None:
            found[(i, t), (i, later)] += 1
    for t, pairs in slices.items():
        for i, j in pairs:
            for a, b in ((i, j), (j, i)):
                if after[b, t] is not None:
                    found[(a, t), (b, after[b, t])] += 1
    return found


def drawn(rng, n=60, n_nodes=7, last=100):
    nodes = rng.integers(0, n_nodes, (4 * n, 2))
    nodes = nodes[nodes[:, 0] != nodes[:, 1]][:n]
    return [
        (f"n{i}", f"n{j}", t)
        for (i, j), t in zip(nodes.tolist(), np.sort(rng.integers(3, last, n)).tolist(), strict=True)
    ]


def test_the_worked_example():
    # Contacts (a, b, t1), (b, c, t2), (a, c, t3); c has no time before t2, and neither b nor c one after their last.
    rel = nf.Relation.from_contacts([(A, B, 0, 3.0), (B, C, 20, 5.0), (A, C, 40, 7.0)], weight=3)
    assert entries(rel) == {
        ((A, 0), (A, 40)): 1,
        ((B, 0), (B, 20)): 1,
        ((A, 0), (B, 20)): 3,
        ((B, 0), (A, 40)): 3,
        ((C, 20), (C, 40)): 1,
        ((B, 20), (C, 40)): 5,
    }
    assert rel.row_ids.to_list() == [(A, 0), (B, 0), (B, 20), (C, 20), (A, 40), (C, 40)]


@pytest.mark.parametrize(("window", "step"), [(None, None), (10, None), (10, 3), (7, 7), (1000, 30)])
def test_the_matrix_is_that_of_plain_loops(rng, window, step):
    contacts = drawn(rng)
    rel = nf.Relation.from_contacts(contacts, window=window, step=step)
    assert entries(rel) == by_loops(contacts, window, step)


@pytest.mark.parametrize("window", [None, 5, 20])
def test_no_entry_goes_back_and_rows_of_walks_sum_to_one(rng, window):
    rel = nf.Relation.from_contacts(drawn(rng, n=200, n_nodes=15), window=window)
    times = np.array([t for _, t in rel.row_ids])
    matrix = rel.to_scipy().tocoo()
    assert (times[matrix.row] < times[matrix.col]).all()
    assert (np.diff(times) >= 0).all()  # rows are in the order of time
    sums = rel.normalized().row_sums
    assert np.allclose(sums[sums > 0], 1)
    # Empty rows are those of the last time of some node: nobody else's, though the row may point to others.
    last = dict(rel.row_ids.to_list())  # of each node the last
    empty = {rel.row_ids[k] for k in np.flatnonzero(sums == 0).tolist()}
    assert empty <= set(last.items())
    assert len(empty) == rel.describe()["sinks"] + rel.describe()["isolates"]


def test_last_appearances_are_sinks_and_single_ones_isolates():
    rel = nf.Relation.from_contacts([*THREE, ("dan", "eve", 40)])
    ids = rel.row_ids
    assert [ids[k] for k in rel.isolates.tolist()] == [("dan", 40), ("eve", 40)]
    assert [ids[k] for k in rel.sinks.tolist()] == [(A, 40), (C, 40)]
    vectors = nf.EDRep(4, random_state=0).fit(rel.normalized()).vectors_
    assert not vectors["dan", 40].any()
    assert np.linalg.norm(vectors[A, 40]) == pytest.approx(1)  # moved by those that point to it


# -- what can be read ------------------------------------------------------------------------------------------------

ROWS = [(20, 1, 2), (20, 3, 4), (40, 2, 3), (60, 1, 3), (80, 2, 4), (90, 1, 4)]
NAMED = {"i": [1, 3, 2, 1, 2, 1], "time": [20, 20, 40, 60, 80, 90], "j": [2, 4, 3, 3, 4, 4]}


@pytest.mark.parametrize(
    "contacts",
    [
        [(i, j, t) for t, i, j in ROWS],
        np.array(ROWS),
        np.array(ROWS, float),
        pd.DataFrame(NAMED),
        pl.DataFrame(NAMED),
        pl.DataFrame(NAMED).lazy(),
        io.StringIO("\n".join("{}\t{}\t{}\tMED\tADM".format(*row) for row in ROWS)),
        io.StringIO("t i j\n" + "\n".join("{} {} {}".format(*row) for row in ROWS)),
        io.StringIO("source,target,timestamp,place\n" + "\n".join(f"{i},{j},{t},7" for t, i, j in ROWS)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_all_inputs_give_the_same(contacts):
    positions = isinstance(contacts, list)  # 1, 2, 20: any of them could be the time
    found = nf.Relation.from_contacts(contacts, window=30, columns=(0, 1, 2) if positions else None)
    expected = by_loops([(i, j, t) for t, i, j in ROWS], 30)
    assert entries(found) == expected
    assert all(type(part) is int for part in found.row_ids[0])


def test_parquet(tmp_path):
    pl.DataFrame(NAMED).write_parquet(tmp_path / "contacts.parquet")
    found = nf.Relation.from_contacts(tmp_path / "contacts.parquet")
    assert entries(found) == by_loops([(i, j, t) for t, i, j in ROWS])


FILES = "hospital_lyon_contacts.dat.gz", "ht2009_contact_list.dat.gz", "SFHH_tij.dat.gz", "primaryschool.csv.gz"


@pytest.mark.parametrize("name", often(FILES, FILES[:2]))
def test_files_of_sociopatterns(name, shared_data):
    if not (shared_data / "sociopatterns" / name).exists():
        pytest.skip("this file is not here")
    rel = nf.Relation.from_contacts(shared_data / "sociopatterns" / name, window=900)
    columns = rel.describe()["columns"]
    assert (columns["time"], columns["source"], columns["target"]) == (0, 1, 2)
    assert {type(part) for part in rel.row_ids[0]} == {int}
    assert rel.describe()["isolates"] == 0 or name != "SFHH_tij.dat.gz"
    assert "at 0" in repr(rel)


@pytest.mark.parametrize(
    "first",
    [datetime(2024, 5, 1, 9), datetime(2024, 5, 1, 9, tzinfo=UTC), np.datetime64("2024-05-01T09:00"), date(2024, 5, 1)],
)
def test_dates(first):
    is_date = type(first) is date
    second = (
        timedelta(days=1)
        if is_date
        else np.timedelta64(60, "s")
        if isinstance(first, np.datetime64)
        else timedelta(minutes=1)
    )
    contacts = [(A, B, first), (A, B, first + second), (A, C, first + 3 * second)]
    rel = nf.Relation.from_contacts(contacts, window=timedelta(days=2) if is_date else timedelta(minutes=2))
    (_, begin), (_, then) = rel.row_ids[0], rel.row_ids[-1]
    assert type(begin) is datetime
    assert then - begin == (timedelta(days=2) if is_date else timedelta(minutes=2))
    assert len(rel.row_ids) == 4
    same = nf.Relation.from_contacts(contacts, window=2 * 86400 if is_date else 120)  # seconds
    assert same.row_ids == rel.row_ids


def test_dates_in_files_and_frames():
    text = "from,to,when\nann,bob,2024-05-01 09:00\nbob,cem,2024-05-01 09:20\nann,cem,2024-05-01 09:40\n"
    columns = ("from", "to", "when")
    rel = nf.Relation.from_contacts(io.StringIO(text), columns=columns)
    assert rel.neighbors((B, datetime(2024, 5, 1, 9, 20))) == [((C, datetime(2024, 5, 1, 9, 40)), 1.0)]
    frame = pd.read_csv(io.StringIO(text), parse_dates=["when"])
    again = nf.Relation.from_contacts(frame, columns=columns)
    assert again.row_ids == rel.row_ids
    assert rel.row_ids.get((B, pd.Timestamp("2024-05-01 09:20"))) == 2
    assert nf.Relation.from_contacts(pl.from_pandas(frame), columns=columns).row_ids == rel.row_ids
    zoned = frame.assign(when=frame["when"].dt.tz_localize("Europe/Rome"))
    ids = nf.Relation.from_contacts(zoned, columns=columns).row_ids
    assert ids[0] == (A, datetime(2024, 5, 1, 7, tzinfo=UTC))  # an hour ahead, and summer
    assert entries(nf.Relation.from_contacts(io.StringIO(text))) == entries(rel)  # "when" is a name of times


def test_the_ends_of_contacts_are_those_of_edges():
    """A key of the rows in front is no end, nor is a place; dates and seconds are times by their values."""
    lines = [f"{k},{1714553940 + k},p{k % 5},p{(k + 1 + k % 3) % 5},s{k % 2}\n" for k in range(30)]
    for names in ("id,timestamp,from,to,site\n", "key,at,caller,callee,site\n"):
        text = names + "".join(lines)
        found = nf.Relation.from_contacts(io.StringIO(text), window=20).describe()["columns"]
        edges = nf.Relation.from_edges(io.StringIO(text)).describe()["columns"]
        assert (found["source"], found["target"]) == (edges["source"], edges["target"]) == tuple(names.split(",")[2:4])
        assert (found["time"], found["weight"]) == (names.split(",")[1], None)


def test_fractions_of_a_step_fall_into_the_right_slice():
    times = [0.0, 0.1, 0.2, 0.3, 0.6, 0.7]  # 0.3 / 0.1 is below 3, 3 * 0.1 above 0.3
    rel = nf.Relation.from_contacts([(A, B, t) for t in times], window=0.1)
    assert [t for who, t in rel.row_ids if who == A] == times
    begin = 10**15  # microseconds; one before the end of a window of 1000 seconds
    exact = nf.Relation.from_contacts([(A, B, begin), (A, B, begin + 10**9 - 1), (A, B, begin + 10**9)], window=10**9)
    assert [t for who, t in exact.row_ids if who == A] == [begin, begin + 10**9]
    assert exact.neighbors((A, begin))[0] == ((B, begin + 10**9), 2.0)


def test_contacts_that_last_count_by_the_share_of_a_slice_that_they_fill():
    table = pd.DataFrame({"i": [A, A, B], "j": [B, B, C], "start": [0, 25, 30], "end": [15, 30, 40]})
    rel = nf.Relation.from_contacts(table, window=10)
    # (a, b): all of slice 0, half of slice 10, half of slice 20; (b, c): all of slice 30.
    assert entries(rel) == {
        ((A, 0), (A, 10)): 1,
        ((A, 10), (A, 20)): 1,
        ((B, 0), (B, 10)): 1,
        ((B, 10), (B, 20)): 1,
        ((B, 20), (B, 30)): 1,
        ((A, 0), (B, 10)): 1,
        ((B, 0), (A, 10)): 1,
        ((A, 10), (B, 20)): 0.5,
        ((B, 10), (A, 20)): 0.5,
        ((A, 20), (B, 30)): 0.5,
    }
    assert rel.describe()["columns"] == {
        "weight": None, "source": "i", "target": "j", "time": "start", "end": "end", "left_out": []
    }  # fmt: skip
    assert "at 'start' to 'end'" in repr(rel)


@pytest.mark.parametrize(("window", "step"), [(10, None), (10, 4), (7.5, 2.5), (300, None)])
def test_shares_of_slices_are_those_of_plain_loops(rng, window, step):
    begins = np.sort(rng.integers(0, 80, 40))
    ends = begins + rng.integers(1, 35, 40)
    rows = [("a", "b", t, e) for t, e in zip(begins.tolist(), ends.tolist(), strict=True)]
    slices = cut_into_slices("test", read_contacts("test", rows, end=3), window, step)
    expected = defaultdict(float)
    for t, e in zip(begins, ends, strict=True):
        for k in range(100):
            begin = begins[0] + k * (step or window)
            inside = min(e, begin + window) - max(t, begin)
            if inside > 0:
                expected[begin] += inside / window
    found = np.bincount(slices.slices, slices.weights)
    assert slices.times == sorted(expected)
    assert np.allclose(found, [expected[at] for at in slices.times])
    if step is None:  # nothing is lost
        assert found.sum() * window == pytest.approx((ends - begins).sum())


def test_what_is_not_in_order_is_sorted_and_said():
    with pytest.warns(NearfarWarning, match="not in the order of their times; they were sorted") as told:
        rel = nf.Relation.from_contacts(THREE[::-1])
    assert told[0].filename == __file__
    assert entries(rel) == entries(nf.Relation.from_contacts(THREE))


def test_contacts_with_oneself_are_left_out_and_said():
    with pytest.warns(NearfarWarning, match=r"left out 2 contacts of a node with itself"):
        rel = nf.Relation.from_contacts([(A, A, 0), *THREE, (C, C, 50)])
    assert entries(rel) == entries(nf.Relation.from_contacts(THREE))


# -- ids that are pairs ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moving() -> nf.Embedding:
    """Vectors of contacts in two groups that swap one member."""
    rng = np.random.default_rng(3)
    contacts = []
    for t in range(0, 400, 10):
        left = ["a1", "a2", "a3", "x" if t < 200 else "y"]
        right = ["b1", "b2", "b3", "y" if t < 200 else "x"]
        contacts += [(*rng.choice(group, 2, replace=False).tolist(), t) for group in (left, right) for _ in range(4)]
    relation = nf.Relation.from_contacts(contacts, window=20)
    return nf.EDRep(8, n_epochs=40, random_state=0).fit(relation.random_walk(3)).vectors_


def test_vectors_answer_for_a_node_at_a_time(moving):
    at = max(t for t in moving.track("x")[0] if t < 160)
    near = [who for (who, _), _ in moving.most_similar(("x", at), topn=10)]
    assert sum(who[0] == "a" for who in near) > sum(who[0] == "b" for who in near)
    later = next(t for t in moving.track("x")[0] if t >= 260)
    near = [who for (who, _), _ in moving.most_similar(("x", np.int64(later)), topn=10)]
    assert sum(who[0] == "b" for who in near) > sum(who[0] == "a" for who in near)
    assert moving["x", at].shape == (8,)
    assert moving[[("x", at), ("x", later)]].shape == (2, 8)


def test_track(moving):
    times, vectors = moving.track("a1")
    assert times == sorted(t for who, t in moving.ids if who == "a1")
    assert np.array_equal(vectors, np.stack([moving["a1", t] for t in times]))
    assert np.array_equal(moving.quantize().track("a1")[1], moving.quantize()[[("a1", t) for t in times]])
    for unknown in ("a", ("a1", 0), "z"):
        with pytest.raises(UnknownIdError, match="first part of ids that are pairs"):
            moving.track(unknown)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
@pytest.mark.parametrize("time", [20, 0.5, datetime(2024, 5, 1, 9), datetime(2024, 5, 1, 9, tzinfo=UTC)])
def test_pairs_come_back_from_the_formats_that_keep_ids(tmp_path, suffix, time):
    ids = [("ann", time), (7, time), ("ann@x", 3)]
    emb = nf.Embedding(np.eye(3), ids)
    emb.save(tmp_path / f"x{suffix}")
    again = nf.Embedding.load(tmp_path / f"x{suffix}")
    assert again.equals(emb)
    assert [type(part) for part in again.ids[0]] == [str, type(time)]


@pytest.mark.parametrize("suffix", [".vec", ".bin", ".tsv", ".parquet"])
def test_pairs_are_text_in_the_others(tmp_path, suffix):
    emb = nf.Embedding(
        np.eye(4), [("ann", 20), (7, 0.5), ("new york", datetime(2024, 5, 1, 9)), ("a", date(2024, 5, 1))]
    )
    emb.save(tmp_path / f"x{suffix}")
    again = nf.Embedding.load(tmp_path / f"x{suffix}")
    assert again.ids.to_list() == ["ann@20", "7@0.5", "new york@2024-05-01T09:00:00", "a@2024-05-01"]
    for ids, text in (([("a", 1), ("a", "1")], "distinct as text"), ([("a", 1), ("a", None)], r"got \('a', None\)")):
        with pytest.raises(InputError, match=text):
            nf.Embedding(np.eye(2), ids).save(tmp_path / f"y{suffix}")


def test_pairs_in_search_index_frames_plots_and_relations(moving, tmp_path):
    rows, scores = moving.search([("a1", 0)], topn=3)
    assert rows.shape == scores.shape == (1, 3)
    frame = moving.to_frame()
    assert frame["id"][0] == moving.ids[0]
    few = moving.subset([("a1", 0), ("x", moving.track("x")[0][0])])
    assert len(few) == 2
    drawn = nf.Embedding(moving.vectors[:3, :2], moving.ids[:3])
    texts = [text.get_text() for text in nf.plots.scatter(drawn, words=True).texts]
    assert texts[0] == "{}@{}".format(*moving.ids[0])
    page = drawn.map(
        drawn.vectors, metadata=pd.DataFrame({"group": [1, 2, 3]}, index=["{}@{}".format(*k) for k in drawn])
    )
    assert page.columns[0].name == "group"
    assert not page.remarks
    rel = nf.Relation.from_contacts(THREE)
    rel.save(tmp_path / "stored")
    assert nf.Relation.open(tmp_path / "stored").neighbors((B, 20)) == [((C, 40), 1.0)]


def test_contacts_from_the_command_line(tmp_path, capsys, fails):
    (tmp_path / "tij.dat").write_text("".join(f"{t}\t{i}\t{j}\tMED\tADM\n" for t, i, j in ROWS))
    out = tmp_path / "x.safetensors"
    how = ["--contacts", "--window", "30", "--n-components", "4", "--random-state", "0"]
    assert main(["embed", str(tmp_path / "tij.dat"), "-o", str(out), *how]) == 0
    assert "columns 1 -> 2 at 0 without weight, not 3, 4" in capsys.readouterr().err
    emb = nf.Embedding.load(out)
    rel = nf.Relation.from_contacts(tmp_path / "tij.dat", window=30)
    assert emb.ids == rel.row_ids
    assert np.array_equal(emb.vectors, nf.EDRep(4, random_state=0).fit(rel.random_walk(3)).embedding_)
    assert (emb.parameters["contacts"], emb.parameters["window"]) == (True, 30)
    (tmp_path / "lasting.csv").write_text("who,whom,from,to\nann,bob,0,15\nann,bob,30,40\n")
    columns = ["--columns", "who,whom,from", "--end", "to", "--contacts", "--window", "10", "--n-components", "4", "-q"]
    assert main(["embed", str(tmp_path / "lasting.csv"), "-o", str(out), *columns]) == 0
    assert nf.Embedding.load(out).ids[0] == ("ann", 0)
    capsys.readouterr()
    for wrong, text in (
        (["--window", "30"], "--window needs --contacts"),
        (["--contacts", "--directed"], "--directed and --contacts exclude each other"),
        (["--contacts", "--columns", "0,1"], "--columns must be three names or positions"),
        (["--contacts", "--end", "0"], "columns, end and weight must be different columns"),
        (["--contacts", "--window", "500"], "window must be such that a node has contacts in two slices"),
    ):
        assert text in fails("embed", tmp_path / "tij.dat", "-o", out, *wrong)
    (tmp_path / "empty").write_text("")
    assert "EDGES must be at least one contact" in fails("embed", tmp_path / "empty", "-o", out, "--contacts")


def test_similar_from_the_command_line(moving, tmp_path, capsys):
    moving.save(tmp_path / "x.safetensors")
    assert main(["similar", str(tmp_path / "x.safetensors"), "a1@0", "--topn", "1"]) == 0
    ((key, _),) = moving.most_similar(("a1", 0), topn=1)
    assert capsys.readouterr().out.split("\t")[0] == f"{key[0]}@{key[1]}"
    assert main(["similar", str(tmp_path / "x.safetensors"), "a1@7"]) != 0
