"""Machine code that others may have planted is not run, and the folder does not grow without end."""

import errno
import hashlib
import os
import pickle
import stat
import tempfile
import threading
import time
from pathlib import Path

import pytest

from nearfar._core import code_files, warn
from nearfar._core.jit import jit
from nearfar.errors import NearfarWarning

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
DAY = 86_400


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder of compiled code."""
    monkeypatch.setenv("NEARFAR_CACHE_DIR", str(tmp_path / "code"))
    monkeypatch.setattr(warn, "_SAID", set())
    monkeypatch.setattr(code_files, "_left", 0)
    code_files.cache_folder.cache_clear()
    yield tmp_path / "code"
    code_files.cache_folder.cache_clear()


def function():
    """Return a function as each new process has it."""

    @jit
    def one(x):
        return x + 1

    return one


class Payload:
    """What runs when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def file_name(tmp_path_factory):
    """The name of the file of that function, once it was compiled."""
    kept = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARFAR_CACHE_DIR", str(kept))
        code_files.cache_folder.cache_clear()
        assert function()(1) == 2
    code_files.cache_folder.cache_clear()
    (path,) = kept.iterdir()
    return path.name


@pytest.fixture
def path(folder, file_name):
    """The file that is run if it is safe."""
    folder.mkdir(mode=0o700)
    return folder / file_name


def plant(path, marker):
    content = pickle.dumps(Payload(marker))
    path.write_bytes(hashlib.blake2b(content, digest_size=code_files.DIGEST).digest() + content)
    path.chmod(0o600)


def give_away(path, monkeypatch):
    """Let a file or folder belong to another user."""
    if os.geteuid() == 0:
        os.chown(path, 4321, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)


def a_mode(mode):
    return lambda path, _: path.chmod(mode)


def a_link(path, _):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (give_away, "belongs to another user, number "),
        (a_mode(0o620), "can be written by others, mode 620"),
        (a_mode(0o602), "can be written by others, mode 602"),
        (a_link, r"could not be read from .*code \(Too many levels of symbolic links\)"),
    ],
)
def test_a_file_that_others_may_have_planted_is_not_run(path, tmp_path, monkeypatch, change, said):
    plant(path, tmp_path / "marker")
    change(path, monkeypatch)
    with pytest.warns(NearfarWarning, match=f"compiled code .*{said}.* compiled again"):
        assert function()(1) == 2
    assert not (tmp_path / "marker").exists()


def test_what_a_planted_file_would_have_done(path, tmp_path):
    plant(path, tmp_path / "marker")
    with pytest.warns(NearfarWarning, match="damaged"):
        function()(1)
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (give_away, "belongs to another user, number "),
        (a_mode(0o770), "can be written by others, mode 770"),
        (a_mode(0o1777), "can be written by others, mode 1777"),
    ],
)
def test_a_folder_that_others_may_write_is_refused(folder, path, tmp_path, monkeypatch, change, said):
    plant(path, tmp_path / "marker")
    change(folder, monkeypatch)
    code_files.cache_folder.cache_clear()
    with pytest.warns(
        NearfarWarning, match=rf"kept nowhere \(.*code {said}.*Set NEARFAR_CACHE_DIR .*only you"
    ) as warned:
        assert (function()(1), function()(2)) == (2, 3)
    assert len(warned) == 1
    assert not (tmp_path / "marker").exists()
    assert [*folder.iterdir()] == [path]


def test_a_refused_folder_beside_the_package_leaves_that_of_the_user(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("NEARFAR_CACHE_DIR")
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    monkeypatch.setattr(code_files, "_PACKAGE", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "__pycache__" / "kernels").mkdir(parents=True)
    (tmp_path / "__pycache__" / "kernels").chmod(0o777)
    with pytest.warns(
        NearfarWarning, match=r"kept in .*home/nearfar, since .*kernels can be written by others, mode 777"
    ):
        assert code_files.cache_folder() == tmp_path / "home" / "nearfar"
    code_files.cache_folder.cache_clear()
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    with pytest.warns(NearfarWarning, match=r"nowhere \(.*mode 777; .*home/nearfar cannot be written\), so"):
        assert code_files.cache_folder() is None
    assert not folder.exists()


def read_only(*_arguments, **_named):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_what_is_made_is_for_the_user_alone(folder):
    before = os.umask(0)
    try:
        function()(1)
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, path)] == [0o700, 0o600]


# -- the least recently used goes -------------------------------------------------------------------------------------


def fill(folder, ages, size=1000):
    """Write files that were last used some seconds ago."""
    folder.mkdir(exist_ok=True)
    now = time.time()
    for number, age in enumerate(ages):
        path = folder / f"module.f{number}-{number:040x}.nbc"
        code_files.write(path, bytes(size - code_files.DIGEST))
        os.utime(path, (now - age, now - age))


def left(folder):
    return {int(path.name.partition("-")[0].partition(".f")[2]) for path in folder.glob("*.nbc")}


def test_those_that_were_not_used_for_the_longest_time_go(folder):
    ages = [5 * DAY, 9 * DAY, 3 * DAY, 7 * DAY, 2 * DAY, 6 * DAY, 8 * DAY, 4 * DAY]
    fill(folder, ages)
    others = ["notes.txt", "module-12.nbc.old", ".profile"]
    for name in others:
        (folder / name).write_bytes(bytes(5000))
        os.utime(folder / name, (1, 1))
    fresh = folder / f"module.f0-{0:040x}.nbc"
    os.utime(fresh, (time.time() - DAY / 2,) * 2)
    before = fresh.stat().st_mtime
    assert code_files.read(fresh)
    assert fresh.stat().st_mtime == before  # known to a day
    os.utime(fresh, (time.time() - 5 * DAY,) * 2)
    code_files.cut(folder, 8000)
    assert left(folder) == {*range(8)}
    assert code_files.read(folder / f"module.f1-{1:040x}.nbc") == bytes(980)  # so it was used now
    code_files.cut(folder, 6000)
    assert left(folder) == {1, 0, 2, 4, 7}  # 5,250 bytes at most
    assert all((folder / name).exists() for name in others)


def test_a_clock_that_went_back_keeps_the_order_of_use(folder):
    fill(folder, [-400 * DAY, 3 * DAY, -300 * DAY, 2 * DAY])  # two were written when the clock was ahead
    code_files.cut(folder, 10_000)
    ages = [time.time() - path.stat().st_mtime for path in sorted(folder.iterdir())]
    assert [round(age / DAY) for age in ages] == [0, 3, 0, 2]  # they count as used now
    path = folder / f"module.f0-{0:040x}.nbc"
    os.utime(path, (time.time() + 9 * DAY,) * 2)
    assert code_files.read(path) is not None
    assert abs(path.stat().st_mtime - time.time()) < DAY
    code_files.cut(folder, 3000)
    assert left(folder) == {0, 2}


def test_a_process_looks_when_it_first_writes_and_after_some_bytes(folder, monkeypatch):
    looks = []
    monkeypatch.setattr(code_files, "cut", lambda *given: looks.append(given))
    monkeypatch.setattr(code_files, "_LOOK", 5000)
    fill(folder, [0] * 13)
    assert looks == [(folder, code_files.LIMIT)] * 3


def test_what_killed_processes_left_goes_too(folder):
    fill(folder, [DAY])
    for age, name in ((2 * DAY, ".nearfar-code-old"), (60, ".nearfar-code-new")):
        (folder / name).write_bytes(bytes(2000))
        os.utime(folder / name, (time.time() - age,) * 2)
    code_files.cut(folder, 1500)
    assert {path.name for path in folder.iterdir()} == {".nearfar-code-new", f"module.f0-{0:040x}.nbc"}


def test_files_that_go_while_others_read_and_write_them_are_no_error(folder):
    fill(folder, [DAY])
    found = []

    def use(seed):
        for turn in range(60):
            path = folder / f"module.f{turn % 7}-{turn % 7:040x}.nbc"
            code_files.write(path, bytes(980))
            data = code_files.read(path)
            found.append(data is None or data == bytes(980))
            if (turn + seed) % 3 == 0:
                code_files.cut(folder, 2000)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 180  # warnings are errors
