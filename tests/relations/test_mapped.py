"""Relations in files: the very entries and results of memory, folders that are whole or not there, little memory."""

import ast
import ctypes
import errno
import io
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from comparisons import assert_same_arrays, full_disk
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from quick import often, with_slow

import nearfar as nf
from nearfar._core import atomic as _folders
from nearfar.errors import DataError, FileFormatError, InputError
from nearfar.relations import mapped as _out_of_core
from nearfar.relations.kernels import transpose
from nearfar.relations.mapped import MappedSparse, StoredIds


def arrays_of(operator):
    return operator.indptr, operator.indices, operator.data


def irregular_edges(n_edges=800, seed=0, weighted=True):
    """Hubs, duplicates, self-loops, ids that are no range."""
    rng = np.random.default_rng(seed)
    ends = (rng.pareto(1.2, (n_edges, 2)) * 30).astype(np.int64) % 4001 * 3 - 7
    return np.column_stack([ends, rng.integers(1, 9, n_edges)]) if weighted else ends


@pytest.fixture
def small_budget(monkeypatch):
    monkeypatch.setattr(_out_of_core, "BUDGET", 8192)  # 64 edges at a time, parts of 256 entries


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "stored"


def only(folder):
    """What there is beside the folder: nothing half-made may remain."""
    return [path.name for path in folder.parent.iterdir() if path != folder]


# ---------------------------------------------------------------- the same as in memory


OPTIONS = {}, {"directed": True}, {"bipartite": True}, {"self_loops": False}
BOTH = product(OPTIONS, (False, True))


@pytest.mark.parametrize(
    ("options", "weighted"), often(BOTH, lambda o, weighted: weighted == (OPTIONS.index(o) in (0, 2)))
)
@pytest.mark.usefixtures("small_budget", "products")
def test_the_entries_are_those_of_memory(folder, options, weighted):
    edges = irregular_edges(weighted=weighted)
    expected = nf.Relation.from_edges(edges, **options)
    made = nf.Relation.from_edges(edges, **options, storage=folder)
    found = nf.Relation.open(folder)
    for rel in (made, found):
        assert_same_arrays(arrays_of(rel.operator), arrays_of(expected.operator))
        assert rel.row_ids == expected.row_ids
        assert rel.column_ids == expected.column_ids
        assert (rel.row_ids is rel.column_ids) == (expected.row_ids is expected.column_ids)
        assert rel.operator.symmetric == expected.operator.symmetric
        assert rel.nbytes == 0
        for sums in ("row_sums", "column_sums"):
            np.testing.assert_array_equal(getattr(rel, sums), getattr(expected, sums))
    assert only(folder) == []


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 3)), min_size=1, max_size=60),
    st.booleans(),
    st.booleans(),
    st.integers(1, 2000),
)
def test_any_edges_in_any_budget(edges, weighted, directed, budget):
    edges = [edge if weighted else edge[:2] for edge in edges]
    if weighted and not any(weight for _, _, weight in edges):
        edges.append((1, 2, 1))
    expected = nf.Relation.from_edges(edges, directed=directed)
    with tempfile.TemporaryDirectory() as parent, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_out_of_core, "BUDGET", budget)
        made = nf.Relation.from_edges(edges, directed=directed, storage=Path(parent, "r"))
        assert_same_arrays(arrays_of(made.operator), arrays_of(expected.operator))
        if directed:
            assert_same_arrays(made.operator._transposed, expected.operator._transposed)


@pytest.mark.usefixtures("small_budget")
def test_ones_are_written_down_when_the_first_duplicate_comes_late(folder):
    """The rows of the first parts have no data yet."""
    edges = [(k, k + 1) for k in range(900)] + [(899, 900), (899, 900)]
    made = nf.Relation.from_edges(edges, directed=True, storage=folder)
    assert made.operator.data.tolist() == [1.0] * 899 + [3.0]
    assert nf.Relation.from_edges(edges[:900], storage=folder).operator.data is None
    assert not (folder / "data.npy").exists()


@pytest.mark.parametrize("weight", [(), (2.0,)])
def test_nothing_but_self_loops_that_are_left_out(folder, weight):
    edges = [("a", "a", *weight), ("b", "b", *weight)]
    for options in ({}, {"storage": folder}):
        with pytest.raises(DataError, match="at least one edge; got self-loops only"):
            nf.Relation.from_edges(edges, self_loops=False, directed=True, **options)
    assert not folder.exists()


def test_duplicates_add_up_in_the_order_of_the_edges(folder):
    """Float32 sums depend on the order: 2**24 + 1 - 2**24 + ... would show another one."""
    weights = [2.0**24, 1.0, 1.0, 0.25] * 40
    edges = [("a", "b", w) for w in weights] + [("b", "a", w / 3) for w in weights]
    made = nf.Relation.from_edges(edges, storage=folder)
    np.testing.assert_array_equal(made.operator.data, nf.Relation.from_edges(edges).operator.data)


@pytest.mark.usefixtures("small_budget", "products")
def test_the_transpose_is_made_in_the_folder_and_found_again(folder):
    edges = irregular_edges()
    made = nf.Relation.from_edges(edges, bipartite=True, storage=folder)
    assert not (folder / "transposed").exists()
    n, m = made.shape
    X = np.random.default_rng(1).normal(size=(n, 5)).astype(np.float32)
    expected = nf.Relation.from_edges(edges, bipartite=True)
    np.testing.assert_array_equal(made.rmatmat(X), expected.rmatmat(X))
    np.testing.assert_array_equal(made.normalized().T @ X, expected.normalized().T @ X)
    assert_same_arrays(made.operator._transposed, transpose(*arrays_of(expected.operator), m))
    written = (folder / "transposed" / "relation.json").stat().st_mtime_ns
    assert sorted(p.name for p in (folder / "transposed").iterdir()) == [
        "data.npy", "indices.npy", "indptr.npy", "relation.json",
    ]  # fmt: skip
    np.testing.assert_array_equal(nf.Relation.open(folder).rmatmat(X), expected.rmatmat(X))
    assert (folder / "transposed" / "relation.json").stat().st_mtime_ns == written
    assert all(not array.flags.writeable for array in made.operator._transposed)


def test_a_symmetric_relation_needs_no_transpose(folder):
    made = nf.Relation.from_edges(irregular_edges(), storage=folder)
    made.rmatmat(np.ones((made.shape[0], 2), np.float32))
    made.random_walk(3).rmatmat(np.ones((made.shape[0], 2), np.float32))
    assert not (folder / "transposed").exists()


@pytest.mark.parametrize(
    ("options", "fit"),
    with_slow(
        [({"directed": True}, {"gradient": "paper"}), ({"bipartite": True}, {})],
        slow=[({}, {}), ({}, {"gradient": "paper", "n_clusters": 2})],
    ),
)
@pytest.mark.usefixtures("small_budget", "products")
def test_a_fit_is_bit_for_bit_that_in_memory(folder, options, fit):
    edges = irregular_edges(2000)
    made = nf.Relation.from_edges(edges, **options, storage=folder)
    fits = []
    for rel in (nf.Relation.from_edges(edges, **options), made, nf.Relation.open(folder)):
        P = rel.normalized() if "bipartite" in options else rel.random_walk(3)
        fits.append(nf.EDRep(4, n_epochs=2, random_state=3, **fit).fit(P))
    for other in fits[1:]:
        np.testing.assert_array_equal(other.embedding_, fits[0].embedding_)
        np.testing.assert_array_equal(other.loss_curve_, fits[0].loss_curve_)
        assert other.vectors_.ids == fits[0].vectors_.ids


def test_isolates_stay_and_have_zero_vectors(folder):
    """In memory they would be left out; entries in files are not renumbered."""
    edges = [(u, v, float(u != 3 and v != 3)) for u in range(9) for v in (u + 1, u + 4)]
    made = nf.Relation.from_edges(edges, storage=folder)
    assert made.isolates.tolist() == [made.row_ids.get(3)]
    assert made.operator.without(made.isolates) is None
    est = nf.EDRep(3, n_epochs=3, random_state=0).fit(made.random_walk(2))
    norms = np.linalg.norm(est.embedding_, axis=1)
    assert norms[made.isolates].tolist() == [0.0]
    np.testing.assert_allclose(np.delete(norms, made.isolates), 1, atol=1e-5)


def test_mapped_entries_do_not_count_as_memory(folder):
    edges = irregular_edges()
    made, expected = nf.Relation.from_edges(edges, storage=folder), nf.Relation.from_edges(edges)
    walk, in_memory = made.random_walk(3), expected.random_walk(3)
    assert walk.nbytes == 4 * made.shape[0]  # the scale of the rows
    est = nf.EDRep(8)
    difference = est.expected_memory(in_memory) - est.expected_memory(walk)
    assert difference == expected.nbytes > 0
    assert made.describe()["megabytes"] == 0


def test_entries_cannot_be_changed_by_accident(folder):
    made = nf.Relation.from_edges([("a", "b"), ("b", "c")], storage=folder)
    for rel in (made, nf.Relation.from_edges([("a", "b")])):
        assert not rel.operator.indices.flags.writeable
        assert type(rel.operator.indices) is np.ndarray
    matrix = made.to_scipy()
    matrix.data *= 2  # the caller's own
    assert made.to_scipy().sum() == 4


# ---------------------------------------------------------------- save, open, ids


IDS = {
    "range": [0, 1, 2],
    "integers": [5, -3, 2**40],
    "text": ["", "Zoë läuft", "\U0001f600\n\t"],
    "mixed": [("a", 1), 2.5, b"\x00"],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_save_and_open_keep_everything(folder, ids):
    A = np.array([[0, 2, 0.5], [1, 0, 0], [0, 0, 3]])
    rel = nf.Relation.from_matrix(A, ids=ids, column_ids=ids[::-1])
    rel.save(folder)
    found = nf.Relation.open(folder)
    np.testing.assert_array_equal(found.to_scipy().toarray(), A)
    assert found.row_ids.to_list() == ids
    assert found.column_ids.to_list() == ids[::-1]
    assert [type(key) for key in found.row_ids] == [type(key) for key in ids]
    assert found.neighbors(ids[0]) == rel.neighbors(ids[0])
    assert only(folder) == []


def test_a_stored_relation_can_be_stored_again_in_its_own_place(folder):
    nf.Relation.from_edges(irregular_edges(), storage=folder, directed=True)
    rel = nf.Relation.open(folder)
    expected = rel.to_scipy().toarray()
    rel.save(folder)
    np.testing.assert_array_equal(nf.Relation.open(folder).to_scipy().toarray(), expected)
    np.testing.assert_array_equal(rel.to_scipy().toarray(), expected)  # the old files live as long as they are used
    with pytest.raises(FileFormatError, match=r"the relation that was opened; got another one in its place"):
        rel.rmatmat(np.ones((rel.shape[0], 1)))
    assert only(folder) == []
    assert not (folder / "transposed").exists()


def test_ids_are_read_when_they_are_asked_for(folder, monkeypatch):
    nf.Relation.from_edges([("ann", "bob"), ("bob", "eve")], storage=folder)
    read, unpack = [], _out_of_core.unpack_ids
    monkeypatch.setattr(_out_of_core, "unpack_ids", lambda *about: read.append(about) or unpack(*about))
    rel = nf.Relation.open(folder)
    nf.EDRep(2, n_epochs=1, random_state=0).fit(rel.random_walk(2))
    assert len(rel.row_ids) == 3
    assert read == []
    assert rel.row_ids.get("eve") == 2
    assert rel.row_ids[1] == "bob"
    assert len(read) == 1
    assert isinstance(rel.row_ids, StoredIds)


def test_a_copy_in_another_process_maps_the_same_files(folder):
    rel = nf.Relation.from_edges([("ann", "bob", 2.0), ("bob", "eve", 1.0)], storage=folder)
    stored = nf.Relation.open(folder).normalized()
    sent = pickle.dumps(stored)
    assert folder.name.encode() in sent
    copy = pickle.loads(sent)
    assert isinstance(copy.operator, MappedSparse)
    assert copy.row_ids == rel.row_ids
    np.testing.assert_array_equal(copy.to_scipy().toarray(), rel.normalized().to_scipy().toarray())


def test_an_empty_folder_can_be_filled(folder):
    folder.mkdir()
    assert nf.Relation.from_edges([(1, 2)], storage=folder).nnz == 2


def test_any_input_goes_through_files(folder, tmp_path):
    graph = nx.Graph([("b", "a"), ("a", "c")])
    graph.add_node("alone")
    rel = nf.Relation.from_edges(graph, storage=folder)
    assert rel.row_ids.to_list() == list(graph.nodes)
    assert rel.isolates.tolist() == [3]
    text = tmp_path / "edges.csv"
    text.write_text("source,target,weight\nx,y,2\ny,x,3\n")
    assert nf.Relation.from_edges(text, storage=folder).neighbors("x") == [("y", 5.0)]
    rel = nf.Relation.from_edges(((a, b) for a, b in ("xy", "yz")), storage=str(folder))
    assert rel.neighbors("y") == [("x", 1.0), ("z", 1.0)]


# ---------------------------------------------------------------- what is refused


def test_other_things_are_not_overwritten(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("mine")
    nf.Relation.from_edges([(1, 2)], storage=tmp_path / "mixed")
    (tmp_path / "mixed" / "notes.txt").write_text("mine")
    for name, what in (("file", "a file"), ("folder", "something else in it"), ("mixed", "something else in it")):
        with pytest.raises(InputError, match=rf"storage must be a new folder, .*{name}.*{what}"):
            nf.Relation.from_edges([(1, 2)], storage=tmp_path / name)
    assert (tmp_path / "folder" / "mine.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "mixed"]


def test_a_relation_that_was_sent_is_not_read_as_another(folder):
    nf.Relation.from_edges([("a", "b", 2.0)], storage=folder)
    sent = pickle.dumps(nf.Relation.open(folder).normalized())
    pickle.loads(sent)
    nf.Relation.from_edges([("a", "b", 3.0)], storage=folder)
    with pytest.raises(FileFormatError, match="the relation that was sent; got another one"):
        pickle.loads(sent)


def test_ids_are_those_of_the_relation_that_was_opened(folder):
    nf.Relation.from_edges([("ann", "bob")], storage=folder)
    rel = nf.Relation.open(folder)
    nf.Relation.from_edges([("cem", "dan")], storage=folder)
    assert rel.row_ids.to_list() == ["ann", "bob"]


def test_a_folder_that_another_process_is_writing_is_refused(folder, tmp_path):
    """A copy, file by file in any order, is refused until it is whole."""
    nf.Relation.from_edges([("a", "b", 2.0), ("b", "c", 1.0)], storage=folder)
    files = sorted(path for path in folder.iterdir())
    for order in (files, files[::-1]):
        copy = tmp_path / f"copy {order is files}"
        copy.mkdir()
        for path in order:
            with pytest.raises(FileFormatError):
                nf.Relation.open(copy)
            content = path.read_bytes()
            (copy / path.name).write_bytes(content[: len(content) // 2])
            with pytest.raises(FileFormatError):
                nf.Relation.open(copy)
            (copy / path.name).write_bytes(content)
        assert nf.Relation.open(copy, verify=True).nnz == 4


# ---------------------------------------------------------------- nothing half-made


BAD_EDGES = {
    "negative weight": ("a,b,1\n" * 500 + "a,c,-2\n", r"got -2 in line 501 of .* \('a' -> 'c'\)"),
    "ragged line": ("a,b,1\n" * 500 + "a,c\n", "2 on line 501"),
    "nothing": ("source,target\n", "at least one edge"),
    "infinite sum": ("a,b,3e38\na,b,3e38\n", "small enough to add up"),
}


@pytest.mark.parametrize("what", BAD_EDGES)
@pytest.mark.usefixtures("small_budget")
def test_bad_edges_leave_nothing(folder, what):
    text, message = BAD_EDGES[what]
    with pytest.raises(DataError, match=message):
        nf.Relation.from_edges(io.StringIO(text), storage=folder)
    assert not folder.exists()
    assert only(folder) == []


@pytest.mark.parametrize("replaced", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.usefixtures("small_budget")
def test_a_full_disk_leaves_nothing_and_the_old_one_whole(folder, replaced):
    if replaced:
        nf.Relation.from_edges([("old", "one")], storage=folder)
    edges = np.random.default_rng(0).integers(0, 1500, (5000, 2))  # files of 20 kB, then of 40 kB
    for limit in (1000, 15_000, 37_500):
        with pytest.raises(OSError) as caught, full_disk(limit):  # noqa: PT011 - its number tells
            nf.Relation.from_edges(edges, storage=folder)
        assert caught.value.errno == errno.EFBIG
        assert only(folder) == []
        assert folder.exists() == replaced
    if replaced:
        assert nf.Relation.open(folder).neighbors("old") == [("one", 1.0)]


@pytest.mark.parametrize("where", ["by_part", "build_csr"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left"), MemoryError()])
@pytest.mark.usefixtures("small_budget")
def test_an_interrupt_leaves_nothing(folder, monkeypatch, where, error):
    calls, original = [], getattr(_out_of_core, where)

    def interrupted(*arguments, **options):
        calls.append(where)
        if len(calls) == 3:
            raise error
        return original(*arguments, **options)

    monkeypatch.setattr(_out_of_core, where, interrupted)
    with pytest.raises(type(error)):
        nf.Relation.from_edges(irregular_edges(), storage=folder)
    assert len(calls) == 3
    assert list(folder.parent.iterdir()) == []


def test_an_interrupt_while_the_transpose_is_made(folder, monkeypatch):
    made = nf.Relation.from_edges([("a", "b"), ("b", "c")], directed=True, storage=folder)
    with monkeypatch.context() as patch:
        patch.setattr(_out_of_core, "build_csr", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            made.rmatmat(np.ones((3, 1)))
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".npy") == ["relation.json"]
    assert made.rmatmat(np.array([1.0, 2, 4])).tolist() == [0, 1, 2]


def test_an_old_relation_comes_back_if_the_new_one_cannot_take_its_place(folder, monkeypatch):
    nf.Relation.from_edges([("old", "one")], storage=folder)
    rename = Path.rename

    def failing(path, target):
        if (path / "relation.json").exists() and target == folder and "new" in (path / "ids.data.npy").read_text("l1"):
            raise OSError(errno.EIO, "broken")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    monkeypatch.setattr(_folders, "_exchange", lambda *_: False)  # as where names cannot be exchanged
    with pytest.raises(OSError, match="broken"):
        nf.Relation.from_edges([("new", "one")], storage=folder)
    assert nf.Relation.open(folder).neighbors("old") == [("one", 1.0)]
    assert only(folder) == []


@pytest.mark.parametrize("exchange", [True, False])
def test_a_replaced_relation_is_the_new_one_and_nothing_stays(folder, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(_folders, "_exchange", lambda *_: False)
    old = nf.Relation.from_edges([("old", "one"), ("one", "more")], directed=True, storage=folder)
    old.rmatmat(np.ones((3, 1)))  # makes the transpose
    nf.Relation.from_edges([("new", "one")], storage=folder)
    assert nf.Relation.open(folder).neighbors("new") == [("one", 1.0)]
    assert old.neighbors("old") == [("one", 1.0)]  # its files are mapped still
    assert only(folder) == []
    assert "transposed" not in {path.name for path in folder.iterdir()}


def test_headers_of_arrays_are_read_without_the_parser_of_python(tmp_path, monkeypatch):
    """That of Python 3.11, which NumPy asks, fails where another thread takes its turn within it."""
    nf.Relation.from_edges([("ann", "bob")], storage=tmp_path / "stored")
    nf.Embedding(np.eye(2), ["ann", "bob"]).save(tmp_path / "vectors.npz")
    np.save(tmp_path / "array.npy", np.asfortranarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]]))

    def fail(*_):
        raise SystemError("AST constructor recursion depth mismatch")

    monkeypatch.setattr(ast, "literal_eval", fail)
    with pytest.raises(SystemError, match="recursion depth"):
        np.load(tmp_path / "array.npy")
    assert nf.Relation.open(tmp_path / "stored").nnz == 2
    assert_array_equal(nf.Embedding.load(tmp_path / "vectors.npz").vectors, np.eye(2))
    assert_array_equal(nf.read(tmp_path / "array.npy").vectors, [[1, 2], [3, 4], [5, 6.5]])


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)",
        "{'descr': '<f8', 'shape': (2,)}",
        "{'descr': 'f8,f8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': 'none', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}",
    ],
)
def test_a_header_that_does_not_fit_its_array_is_refused(tmp_path, header):
    path = tmp_path / "array.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(16))
    with pytest.raises(FileFormatError, match="array of numbers"):
        nf.read(path)


@pytest.mark.slow
def test_whoever_opens_while_others_write_gets_one_of_them(folder):
    """Always a whole relation, of either kind: between the two there is no moment without one."""
    if not hasattr(ctypes.CDLL(None), "renameat2"):
        pytest.skip("names cannot be exchanged here")
    kinds = [("ann", "bob")], [("cem", "dan"), ("dan", "eve")]
    nf.Relation.from_edges(kinds[0], storage=folder)
    shapes = set()
    with ThreadPoolExecutor(1) as pool:
        written = pool.map(lambda k: nf.Relation.from_edges(kinds[k % 2], storage=folder).nnz, range(14))
        last = pool.submit(lambda: list(written))
        while not last.done():
            rel = nf.Relation.open(folder)
            rel.matmat(np.ones(rel.shape[1]))
            shapes.add((rel.shape[0], rel.nnz))
    assert last.result() == 7 * [2, 4]
    assert set() < shapes <= {(2, 2), (3, 4)}


def test_files_of_the_user_are_never_removed(folder):
    for name in ("mine.npy", "notes.txt", "transposed/mine.npy"):
        made = nf.Relation.from_edges([("old", "one"), ("one", "more")], directed=True, storage=folder)
        made.rmatmat(np.ones((3, 1)))
        (folder / name).write_bytes(b"mine")
        with pytest.raises(InputError, match="storage must be a new folder, or a relation to replace"):
            nf.Relation.from_edges([("new", "one")], storage=folder)
        assert (folder / name).read_bytes() == b"mine"
        (folder / name).unlink()


def test_files_that_the_user_puts_there_meanwhile_stay(folder):
    nf.Relation.from_edges([("old", "one")], storage=folder)

    def edges():
        yield ("new", "one")
        (folder / "mine.npy").write_bytes(b"mine")

    with pytest.raises(InputError, match="storage must be a new folder, or a relation to replace"):
        nf.Relation.from_edges(edges(), storage=folder)
    assert (folder / "mine.npy").read_bytes() == b"mine"
    assert nf.Relation.open(folder).neighbors("old") == [("one", 1.0)]
    assert only(folder) == []


@pytest.mark.slow
def test_several_make_the_transpose_at_once(folder):
    nf.Relation.from_edges(irregular_edges(300), directed=True, storage=folder)
    for _ in range(5):
        shutil.rmtree(folder / "transposed", ignore_errors=True)
        opened = [nf.Relation.open(folder) for _ in range(6)]  # each by itself, as several processes would
        expected = opened[0].to_scipy().T @ np.ones(opened[0].shape[0], np.float32)
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda rel: rel.rmatmat(np.ones(rel.shape[0], np.float32), n_jobs=1), opened))
        for sums in found:
            np.testing.assert_allclose(sums, expected, rtol=1e-5)
        left = [path.name for path in folder.iterdir() if path.name.startswith(".nearfar-")]
        assert left == []


@pytest.mark.slow
def test_what_killed_processes_left_is_removed_later(folder, tmp_path):
    code = "import os, sys; from nearfar._core.atomic import atomic_write\n"
    code += "with atomic_write(sys.argv[1]) as file: file.write(b'x'); file.flush(); os._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=False)
    (killed,) = tmp_path.glob(".nearfar-*.tmp")
    old, young = tmp_path / ".nearfar-0123.tmp", tmp_path / ".nearfar-4567.tmp"
    for path in (old, young):
        path.mkdir()
        (path / "part").write_bytes(b"x")
    an_hour_ago = time.time() - 4000
    with _folders.atomic_write(tmp_path / "other") as file:  # still being written, slowly
        file.write(b"x")
        (held,) = set(tmp_path.glob(".nearfar-*.tmp")) - {killed, old, young}
        for path in (killed, old, held):
            os.utime(path, (an_hour_ago, an_hour_ago))
        nf.Relation.from_edges([("a", "b")], storage=folder)
        assert set(tmp_path.glob(".nearfar-*")) == {young, held}
    assert (tmp_path / "other").read_bytes() == b"x"


# ---------------------------------------------------------------- the command line


def test_command_line(tmp_path, capfd):
    from nearfar.cli import main

    (tmp_path / "e.csv").write_text("".join(f"n{u},n{v}\n" for u, v in irregular_edges(800, weighted=False)))
    small = ["--n-components", "3", "--n-epochs", "3", "--random-state", "1", "-q"]
    stored = str(tmp_path / "e.relation")
    assert main(["embed", str(tmp_path / "e.csv"), "-o", str(tmp_path / "a.npz"), *small]) == 0
    assert main(["embed", str(tmp_path / "e.csv"), "-o", str(tmp_path / "b.npz"), *small, "--storage", stored]) == 0
    assert main(["embed", stored, "-o", str(tmp_path / "c.npz"), *small]) == 0
    a, b, c = (nf.Embedding.load(tmp_path / f"{name}.npz") for name in "abc")
    for other in (b, c):
        np.testing.assert_array_equal(other.vectors, a.vectors)
        assert other.ids == a.ids
    capfd.readouterr()
    assert main(["embed", stored, "-o", str(tmp_path / "d.npz"), "--directed"]) == 2
    assert "--directed is for a file of edges" in capfd.readouterr().err
    assert main(["embed", str(tmp_path), "-o", str(tmp_path / "d.npz")]) == 2
    assert "folder must be a relation stored by nearfar" in capfd.readouterr().err
    assert main(["embed", str(tmp_path / "e.csv"), "-o", str(tmp_path / "d.npz"), "--storage", str(tmp_path)]) == 2
    assert "storage must be a new folder" in capfd.readouterr().err
    assert not (tmp_path / "d.npz").exists()


def test_command_line_with_two_kinds(tmp_path, capfd):
    from nearfar.cli import main

    (tmp_path / "e.csv").write_text("".join(f"u{u},i{v}\n" for u in range(9) for v in (u, u * u % 7)))
    stored, out = str(tmp_path / "e.relation"), str(tmp_path / "a.npz")
    small = ["--n-components", "3", "--n-epochs", "2", "-q"]
    assert main(["embed", str(tmp_path / "e.csv"), "-o", out, *small, "--bipartite", "--storage", stored]) == 0
    assert main(["embed", stored, "-o", out, *small]) == 0
    assert nf.Embedding.load(out).context_vectors is not None
    assert main(["embed", stored, "-o", out, *small, "--walk-length", "2"]) == 2
    assert "--walk-length is for one kind of things" in capfd.readouterr().err


# ---------------------------------------------------------------- memory


def write_edges(path, n_edges, n_nodes, rng):
    """Lines of two numbers of six digits and a weight of one, written as bytes: fast."""
    powers = 10 ** np.arange(5, -1, -1)
    with path.open("wb") as file:
        for start in range(0, n_edges, 500_000):
            ends = rng.integers(0, n_nodes, (min(500_000, n_edges - start), 2))
            lines = np.full((len(ends), 16), ord(","), np.uint8)
            lines[:, :6], lines[:, 7:13] = (ends[:, k, None] // powers % 10 + 48 for k in (0, 1))
            lines[:, 14] = 49 + ends[:, 0] % 9
            lines[:, 15] = 10
            file.write(lines.tobytes())


@pytest.mark.slow
def test_memory_does_not_grow_with_the_edges(folder, tmp_path, monkeypatch):
    n_edges, n_nodes = 5_000_000, 100_000
    write_edges(tmp_path / "edges.csv", n_edges, n_nodes, np.random.default_rng(0))
    monkeypatch.setattr(_out_of_core, "BUDGET", 16 << 20)
    write_edges(tmp_path / "few.csv", 1000, n_nodes, np.random.default_rng(1))
    few = nf.Relation.from_edges(tmp_path / "few.csv", storage=folder)  # compiled, imported: that takes memory too
    few.random_walk(2).matmat(np.ones((few.shape[0], 1)))
    del few
    tracemalloc.start()
    made = nf.Relation.from_edges(tmp_path / "edges.csv", storage=folder)
    building = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    est = nf.EDRep(4, n_epochs=2, random_state=0, n_jobs=1)
    walk = made.random_walk(3)
    est.fit(walk)
    fitting = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    size = made.operator.indices.nbytes + made.operator.data.nbytes
    assert made.row_sums.sum() == made.operator.data.sum(dtype=np.float64)
    assert size > 75e6
    assert building < 0.7 * size  # in memory: edges and entries, more than twice
    assert fitting < 0.3 * size


def test_open_takes_no_time(folder):
    """Nothing is read but the header: a folder of any size opens alike."""
    nf.Relation.from_edges(irregular_edges(), storage=folder)
    reads = []
    original = _folders.OpenedFile.npy

    def counted(file):
        reads.append(file.path.name)
        return original(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_folders.OpenedFile, "npy", counted)
        nf.Relation.open(folder)
    assert sorted(reads) == ["data.npy", "ids.npy", "indices.npy", "indptr.npy"]
