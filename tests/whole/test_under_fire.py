"""Folders that may not be written to, links, several writers at once, processes that are started anew.

More of it: full disks in test_storage.py, test_index.py and test_mapped.py; kills in test_kills.py; threads and forked
children in test_contracts.py and test_parallel.py; damaged files in fuzz.py and test_damaged_*.py.
"""

import multiprocessing
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import nearfar as nf
from nearfar.callbacks import Checkpoint
from nearfar.errors import FileFormatError, InputError, NearfarWarning

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
EDGES = [("a", "b", 1.0), ("b", "c", 2.0), ("c", "d", 3.0)]
NOBODY = 65534


def embedding(value=1.0):
    return nf.Embedding(np.full((5, 3), value, np.float32), [f"{value:g} {c}" for c in "abcde"])


def in_a_child(use):
    """Return what a function returns in a forked child, which is nobody where this is root."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def run():
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        try:
            queue.put(use())
        except Exception as error:
            queue.put(f"{type(error).__name__}: {error}")

    child = context.Process(target=run)
    child.start()
    found = queue.get()
    child.join(20)
    return found


WRITERS = {
    "vectors": lambda folder: embedding().save(folder / "y.npz"),
    "vectors in place of others": lambda folder: embedding().save(folder / "x.npz"),
    "a pair": lambda folder: embedding().save(folder / "y.tsv"),
    "a relation": lambda folder: nf.Relation.from_edges(EDGES, storage=folder / "more"),
    "a relation in place of another": lambda folder: nf.Relation.from_edges(EDGES, storage=folder / "stored"),
    "a text": lambda folder: nf.Corpus([["a", "b", "a"]]).encode(min_count=1, folder=folder / "text"),
    "a vocabulary": lambda folder: nf.Corpus([["a", "b", "a"]]).vocabulary().save(folder / "words.tsv"),
    "a checkpoint": lambda folder: nf.EDRep(
        2, n_epochs=1, random_state=0, callbacks=[Checkpoint(folder / "c.safetensors")]
    ).fit(nf.Relation.from_edges(EDGES)),
}


@pytest.fixture
def read_only(tmp_path):
    """A folder with vectors and a relation, in which nothing can be changed."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    embedding().save(folder / "x.npz")
    nf.Relation.from_edges(EDGES, directed=True, storage=folder / "stored")
    above = [folder, *list(folder.parents)[:-2]]
    modes = {path: path.stat().st_mode for path in above if path.stat().st_uid == os.geteuid()}
    for path in modes:  # pytest's are for their owner alone
        path.chmod(0o755)
    for path in (folder, folder / "stored"):
        path.chmod(0o555)
    yield folder
    for path, mode in modes.items():
        path.chmod(mode)
    (folder / "stored").chmod(0o755)


def test_a_folder_without_permission_is_told_before_any_work(read_only, tmp_path):
    for write in WRITERS.values():  # nobody might not be able to import what it takes, nor to compile it
        write(tmp_path)
    before = sorted(read_only.rglob("*"))

    def refused():
        for what, write in WRITERS.items():
            with pytest.raises(InputError, match="in a folder that you may write to; got"):
                write(read_only)
            assert sorted(read_only.rglob("*")) == before, what
        return "all"

    assert in_a_child(refused) == "all"


def test_what_is_in_a_folder_without_permission_is_of_use(read_only, tmp_path):
    def use(folder):
        rel = nf.Relation.open(folder / "stored", verify=True)
        ones = np.ones((4, 1), np.float32)  # the transpose would be kept in the folder
        return nf.Embedding.load(folder / "x.npz").ids[0], rel.matmat(ones).sum(), rel.rmatmat(ones).sum()

    shutil.copytree(read_only, tmp_path / "copy")
    (tmp_path / "copy" / "stored").chmod(0o755)
    expected = use(tmp_path / "copy")
    before = sorted(read_only.rglob("*"))

    def warned():
        with pytest.warns(NearfarWarning, match="which may not be written to, is made in") as caught:
            found = use(read_only)
        return found, Path(str(caught[0].message).split(" is made in ")[1].split()[0]).exists()

    assert in_a_child(warned) == (expected, False)  # it goes with the relation
    assert expected == ("1 a", 6, 6)
    assert sorted(read_only.rglob("*")) == before


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".vec.gz", ".bin", ".tsv"])
def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path, suffix):
    (tmp_path / "real").mkdir()
    link, target = tmp_path / f"link{suffix}", tmp_path / "real" / f"x{suffix}"
    link.symlink_to(target)
    for value in (1.0, 2.0):
        embedding(value).save(link)
        assert link.is_symlink()
        assert target.is_file()
        assert nf.Embedding.load(link).equals(embedding(value))
    assert not list(tmp_path.rglob(".nearfar-*"))


def test_links_of_folders_and_links_that_lead_nowhere(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "stored")
    for edges in (EDGES, EDGES[:2]):
        nf.Relation.from_edges(edges, storage=tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert nf.Relation.open(tmp_path / "stored").nnz == nf.Relation.open(tmp_path / "link").nnz == 2 * len(edges)
    (tmp_path / "away.npz").symlink_to(tmp_path / "nowhere" / "x.npz")
    with pytest.raises(InputError, match="in a folder that exists"):
        embedding().save(tmp_path / "away.npz")
    (tmp_path / "loop.npz").symlink_to(tmp_path / "loop.npz")
    embedding().save(tmp_path / "loop.npz")  # it leads nowhere: a file takes its place
    assert nf.Embedding.load(tmp_path / "loop.npz").equals(embedding())


def save_again_and_again(save, path, value, n):
    for _ in range(n):
        save(path, value)


def save_vectors(path, value):
    embedding(value).save(path)


def save_relation(path, value):
    nf.Relation.from_edges([(u, v, w * value) for u, v, w in EDGES], storage=path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a relation", "vectors"])
def test_two_writers_at_once_leave_one_of_the_two(tmp_path, kind):
    path = tmp_path / ("x.npz" if kind == "vectors" else "stored")
    save = save_vectors if kind == "vectors" else save_relation
    save(path, 1.0)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=save_again_and_again, args=(save, path, k, 5)) for k in (1.0, 2.0)]
    for writer in writers:
        writer.start()
    seen, n_reads = set(), 0
    while any(writer.is_alive() for writer in writers) or not n_reads:
        if kind == "vectors":
            found = nf.Embedding.load(path)
            value = float(found.vectors[0, 0])
            assert found.equals(embedding(value))
        else:
            # A folder that is replaced while it is opened is told, or is one of the two.
            try:
                sums = nf.Relation.open(path, verify=True).row_sums
            except (InputError, FileFormatError, FileNotFoundError):
                continue
            value = float(sums[0])
            np.testing.assert_array_equal(sums, value * np.array([1, 3, 5, 3]))
        seen.add(value)
        n_reads += 1
    for writer in writers:
        writer.join(30)
        assert writer.exitcode == 0
    assert seen <= {1.0, 2.0}
    assert not list(tmp_path.rglob(".nearfar-*"))


def fit(n_jobs):
    rel = nf.Relation.from_edges([(k, k * k % 60) for k in range(60)] + [(k, (k + 1) % 60) for k in range(60)])
    return nf.EDRep(4, n_epochs=3, random_state=0, n_jobs=n_jobs).fit(rel).embedding_


@pytest.mark.slow
def test_a_process_that_is_started_anew_fits_the_same_bits():
    expected = fit(2)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for found in pool.map(fit, [1, 2]):
            np.testing.assert_array_equal(found, expected)
