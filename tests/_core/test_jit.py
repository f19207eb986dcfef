"""Machine code on disk: found again by every process as long as nothing that it was made from has changed."""

import errno
import hashlib
import importlib
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from numba.core import event
from numba.core.registry import cpu_target

from nearfar._core import code_files, numba_private, warn
from nearfar._core import jit as machine_code
from nearfar._core.jit import bind, source_digest
from nearfar.errors import NearfarWarning

KERNELS = {
    "small_inner": """
from nearfar._core.jit import jit
SCALE = 2.0
TABLE = (1, 2)

@jit
def weight(x):
    return SCALE * x
""",
    "small_outer": """
import math
from typing import NamedTuple
import small_inner
from nearfar._core.jit import jit
from small_inner import weight
SCALE = 1.0
PAIR = (weight, weight)

@jit
def total(x):
    return weight(x) + SCALE

@jit
def by_module(x):
    return small_inner.weight(x)

@jit
def by_tuple(x):
    return PAIR[0](x)

@jit
def by_argument(function, x):
    return function(x)

class Functions(NamedTuple):
    weight: object

@jit(fastmath=False, error_model="numpy")
def long(functions, x):  # too long to become a part of its caller, which hands over the functions
    y = functions.weight(x)
    for k in range(3):
        y += math.sin(y) + math.cos(y) + math.exp(-y) + math.atan(y) + math.erf(y) + math.tanh(y) + math.asinh(y)
        y += math.sin(x) + math.cos(x) + math.exp(-x) + math.atan(x) + math.erf(x) + math.tanh(x) + math.asinh(x)
    return y

def made(shift):
    @jit
    def shifted(x):
        return weight(x) + shift
    return shifted

@jit(fastmath={"nsz", "arcp", "contract", "reassoc"}, error_model="numpy")
def fast(x):
    return 1.0 / x
""",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder of compiled code."""
    monkeypatch.setenv("NEARFAR_CACHE_DIR", str(tmp_path / "code"))
    monkeypatch.setattr(warn, "_SAID", set())
    code_files.cache_folder.cache_clear()
    yield tmp_path / "code"
    code_files.cache_folder.cache_clear()


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the two modules, with a change of one of them, and import them as a new process would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def import_anew(name="", old="", new=""):
        for module, source in KERNELS.items():
            assert old in KERNELS.get(name, "")
            (tmp_path / f"{module}.py").write_text(source.replace(old, new) if module == name else source)
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        machine_code._of_file.cache_clear()
        return importlib.import_module("small_outer")

    yield import_anew
    for module in KERNELS:
        sys.modules.pop(module, None)


def compiled(call):
    """Return what a call returns, and the names of the functions of these tests that it compiles."""
    with event.install_recorder("numba:compile") as recorder:
        found = call()
    names = [e.data["dispatcher"].py_func.__name__ for _, e in recorder.buffer if e.is_start]
    return found, names


def search_path(folder):
    return os.pathsep.join([str(folder), *filter(None, sys.path)])


# -- what has changed is compiled again ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "old", "new", "changes"),
    [
        ("small_outer", "weight(x) + SCALE", "weight(x) - SCALE", {"total"}),
        ("small_inner", "SCALE * x", "SCALE * x * x", {"total", "by_module", "by_tuple", "made"}),
        ("small_inner", "SCALE = 2.0", "SCALE = 4.0", {"total", "by_module", "by_tuple", "made"}),
        ("small_inner", "@jit\n", "@jit(fastmath=True)\n", {"total", "by_module", "by_tuple", "made"}),
        ("small_outer", "(weight, weight)", "(abs, weight)", {"by_tuple"}),
        ("small_outer", '"contract", ', "", {"fast"}),
        ("small_outer", "SCALE = 1.0", "SCALE = 1", {"total"}),
        ("small_outer", "SCALE = 1.0", "SCALE = 1.0  # a remark\n", set()),
        ("small_inner", "TABLE = (1, 2)", "TABLE = (1, 3)", set()),  # nobody reads it
    ],
)
def test_a_change_gives_other_files_to_all_that_depend_on_it(write, module, old, new, changes):
    names = ("total", "by_module", "by_tuple", "fast", "made")

    def digests(outer):
        return {name: source_digest(outer.made(3) if name == "made" else getattr(outer, name)) for name in names}

    before, after = digests(write()), digests(write(module, old, new))
    assert {name for name in names if before[name] != after[name]} == changes


def test_constants_that_change_places_are_seen(write):
    before = source_digest(write().total)  # 2 in one module, 1 in the other
    outer = write("small_inner", "SCALE = 2.0", "SCALE = 1.0")
    outer.SCALE = 2.0
    assert source_digest(outer.total) != before


def test_what_a_function_is_made_with_counts(write):
    outer = write()
    assert source_digest(outer.made(1)) == source_digest(outer.made(1))
    assert source_digest(outer.made(1)) != source_digest(outer.made(2))


def test_callers_in_other_modules_run_the_new_code(write, folder):
    assert write().total(3.0) == 7
    assert write("small_inner", "SCALE * x", "SCALE * x * x").total(3.0) == 19
    n_files = len(list(folder.iterdir()))
    outer = write()  # back again: the old code is still there
    assert compiled(lambda: outer.total(3.0)) == (7, [])
    assert len(list(folder.iterdir())) == n_files


def test_a_constant_that_is_changed_at_run_time_does_not_spoil_the_folder(write):
    outer = write()
    assert outer.total(3.0) == 7
    outer.SCALE = 100.0
    assert outer.total(3) == 106  # compiled for integers now, with what stands there now
    outer = write()
    assert outer.total(3) == 7


def test_a_function_that_takes_functions_is_not_kept(write, folder):
    outer = write()
    assert [outer.by_argument(outer.weight, x) for x in (3.0, 4.0)] == [6, 8]
    assert {file.name.split("-")[0] for file in folder.iterdir()} <= {"small_inner.weight"}
    outer = write("small_inner", "SCALE * x", "SCALE + x")
    assert outer.by_argument(outer.weight, 3.0) == 5


def test_a_function_that_is_bound_to_functions_is_kept(write):
    outer = write()
    here, names = compiled(lambda: bind(outer.long, outer.Functions(outer.weight))(3.0))
    assert names.count("long") == 2  # and the bound one
    outer = write()
    assert compiled(lambda: bind(outer.long, outer.Functions(outer.weight))(3.0)) == (here, [])
    outer = write("small_inner", "SCALE * x", "SCALE + x")
    assert bind(outer.long, outer.Functions(outer.weight))(3.0) != here


# -- where it is kept ------------------------------------------------------------------------------------------------


@pytest.fixture
def unwritable(tmp_path, monkeypatch):
    """The package cannot be written: its folder would have to be made below a file."""
    monkeypatch.delenv("NEARFAR_CACHE_DIR")
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    (tmp_path / "file").touch()
    monkeypatch.setattr(code_files, "_PACKAGE", tmp_path / "file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "nearfar"


def test_beside_the_package_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv("NEARFAR_CACHE_DIR")
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    monkeypatch.setattr(code_files, "_PACKAGE", tmp_path / "package")
    assert code_files.cache_folder() == tmp_path / "package" / "__pycache__" / "kernels"


def test_else_in_the_folder_of_the_user_which_is_said_once(write, unwritable):
    outer = write()
    with pytest.warns(NearfarWarning, match="compiled code is kept in .*home/nearfar, since .* NEARFAR_CACHE_DIR") as w:
        assert (outer.fast(4.0), outer.fast(4)) == (0.25, 0.25)
    assert len(w) == 1
    assert len(list(unwritable.iterdir())) == 2
    code_files.cache_folder.cache_clear()  # in the next process it is there already, and nothing is said
    assert compiled(lambda: write().fast(4.0)) == (0.25, [])


@pytest.mark.parametrize("home", ["a file", "none"])
def test_nowhere_to_write(write, unwritable, monkeypatch, home):
    if home == "a file":
        unwritable.parent.touch()
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    outer = write()
    with pytest.warns(NearfarWarning, match="compiled code can be kept nowhere") as warned:
        assert (outer.fast(4.0), outer.fast(4)) == (0.25, 0.25)
    assert len(warned) == 1


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "/dev/null/kernels"])
def test_a_folder_that_cannot_be(write, monkeypatch, name):
    if "\0" in name:
        monkeypatch.setattr("numba.config.CACHE_DIR", name)
        monkeypatch.delenv("NEARFAR_CACHE_DIR")
    else:
        monkeypatch.setenv("NEARFAR_CACHE_DIR", name)
    outer = write()
    code_files.cache_folder.cache_clear()
    with pytest.warns(
        NearfarWarning, match=r"nowhere \(.* cannot be written\), so .*\. Set NEARFAR_CACHE_DIR"
    ) as warned:
        assert (outer.fast(4.0), outer.fast(4)) == (0.25, 0.25)
    assert len(warned) == 1


def test_a_full_disk(write, folder, monkeypatch):
    def full(*_arguments, **_named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    outer = write()
    code_files.cache_folder()
    monkeypatch.setattr(Path, "replace", full)  # the last step: what was written until then is removed
    with pytest.warns(NearfarWarning, match=r"could not be kept in .*code \(No space left on device\)") as warned:
        assert (outer.fast(4.0), outer.fast(4)) == (0.25, 0.25)
    assert len(warned) == 1
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert outer.fast(np.float32(4)) == 0.25


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_damaged_file_is_made_anew(write, folder):
    assert write().fast(4.0) == 0.25
    (path,) = folder.glob("*.nbc")
    whole = path.read_bytes()
    sealed = [hashlib.blake2b(raw, digest_size=20).digest() + raw for raw in (b"", b"x", b"N.", pickle.dumps([1] * 9))]
    for bad in (whole[:10], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], *sealed):
        path.write_bytes(bad)
        warn._SAID.clear()
        outer = write()
        with pytest.warns(NearfarWarning, match="a file of compiled code in .*code is damaged.* Set NEARFAR_CACHE_DIR"):
            assert compiled(lambda outer=outer: outer.fast(4.0)) == (0.25, ["fast"])
        assert [file.name for file in folder.iterdir()] == [path.name]
        outer = write()
        assert compiled(lambda outer=outer: outer.fast(4.0)) == (0.25, [])


def test_a_file_that_cannot_be_read_or_replaced(write, folder):
    assert write().fast(4.0) == 0.25
    (path,) = folder.glob("*.nbc")
    path.unlink()
    path.mkdir()
    (path / "file").touch()
    outer = write()
    with pytest.warns(NearfarWarning) as warned:
        assert (outer.fast(4.0), outer.fast(9.0)) == (0.25, 1 / 9)
    assert [str(w.message).count("Set NEARFAR_CACHE_DIR") for w in warned] == [1, 1]  # one for each way


HAS_LEVEL = code_files.has_features(cpu_target.target_context.codegen().magic_tuple()[2])


@pytest.fixture(scope="module")
def other_process(tmp_path_factory):
    """What a process for another processor said, and the folder of what it kept."""
    place = tmp_path_factory.mktemp("processes")
    for module, source in KERNELS.items():
        (place / f"{module}.py").write_text(source)
    code = (
        "import small_outer as s; from nearfar._core.jit import source_digest\n"
        "print(s.fast(4.0), [source_digest(function).hex() for function in (s.total, s.by_tuple, s.fast)])"
    )
    other = code_files.LEVEL if HAS_LEVEL else ("generic", "")
    also = dict(zip(("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"), other, strict=True))
    also |= {"PYTHONPATH": search_path(place), "PYTHONHASHSEED": "3", "NEARFAR_CACHE_DIR": str(place / "there")}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=os.environ | also, capture_output=True, text=True)
    return (done.stdout, done.stderr), place / "there"


@pytest.mark.slow
def test_processes_and_processors_share_a_folder(write, folder, other_process):
    outer = write()
    names = [source_digest(function).hex() for function in (outer.total, outer.by_tuple, outer.fast)]
    said, kept_there = other_process
    assert said == (f"0.25 {names}\n", "")
    assert outer.fast(4.0) == 0.25
    shutil.copytree(kept_there, folder, dirs_exist_ok=True)
    kept = sorted(file.name for file in folder.iterdir())
    assert len(kept) == 2  # each processor has its own file
    outer = write()
    assert compiled(lambda: outer.fast(4.0)) == (0.25, [])
    assert sorted(file.name for file in folder.iterdir()) == kept


@pytest.mark.skipif(not HAS_LEVEL, reason="below the level")
def test_code_that_came_with_the_package_is_read_and_never_written(write, folder, other_process, tmp_path, monkeypatch):
    outer, shipped = write(), shutil.copytree(other_process[1], tmp_path / "shipped")
    (file,) = shipped.iterdir()
    before = file.read_bytes(), file.stat().st_mtime_ns
    for module in (code_files, machine_code, numba_private):
        monkeypatch.setattr(module, "SHIPPED", shipped)
    assert compiled(lambda: outer.fast(4.0)) == (0.25, [])
    assert compiled(lambda: outer.fast(np.float32(4))) == (0.25, ["fast"])  # of another type, or text: not there
    assert compiled(lambda: write("small_outer", "1.0 / x", "2.0 / x").fast(4.0)) == (0.5, ["fast"])
    assert len(list(folder.iterdir())) == 2
    with monkeypatch.context() as elsewhere:  # a processor that lacks something, and no folder of its own
        elsewhere.setattr(machine_code, "has_features", lambda have: code_files.has_features(have.replace("+fma,", "")))
        assert compiled(lambda: write().fast(4.0)) == (0.25, ["fast"])
        elsewhere.setattr(machine_code, "cache_folder", lambda: None)
        assert compiled(lambda: write().fast(4.0)) == (0.25, ["fast"])
    assert ((file.read_bytes(), file.stat().st_mtime_ns), len(list(shipped.iterdir()))) == (before, 1)
    file.write_bytes(before[0][:-9])
    with pytest.warns(NearfarWarning, match="a file of compiled code in .*shipped is damaged"):
        write().fast(4.0)


def test_arrays_of_constants_are_seen(write):
    outer = write()
    outer.SCALE = np.array([1.0, 2.0])
    before = source_digest(outer.total)
    outer.SCALE = np.array([1.0, 3.0])
    assert source_digest(outer.total) != before


def test_options_are_compared_as_numba_compares_them():
    from numba.core.compiler import Flags

    def options(kind, **given):
        flags = Flags()
        for name, value in given.items():
            setattr(flags, name, value)
        return kind(flags)

    given = [{}, {"nrt": False}, {"nrt": True}, {"nrt": True, "release_gil": True}]
    for mine in given:
        assert hash(options(numba_private._Flags, **mine)) == hash(options(Flags, **mine))
        assert options(numba_private._Flags, **mine).get_mangle_string() == options(Flags, **mine).get_mangle_string()
        for other in given:
            same = options(Flags, **mine) == options(Flags, **other)
            for kind in (Flags, numba_private._Flags):
                assert (options(numba_private._Flags, **mine) == options(kind, **other)) is same
    assert isinstance(machine_code.jit(lambda x: x)._compiler._customize_flags(Flags()), numba_private._Flags)


LONG = """
import math
from nearfar._core.jit import jit

@jit
def long(x):
{steps}
    return x

@jit
def twice(x):
    return long(x) + long(2 * x)
"""


def test_a_function_that_is_called_has_no_stand_in(folder, tmp_path, monkeypatch):
    # Copies of a function in several libraries differ in the last bits; a process is free to take any that can be seen.
    steps = "\n".join(f"    x = math.cos(x) - math.sin({step} + x)" for step in range(30))
    (tmp_path / "long_functions.py").write_text(LONG.format(steps=steps))
    monkeypatch.syspath_prepend(tmp_path)
    functions = importlib.import_module("long_functions")
    assert functions.twice(0.1) == functions.long(0.1) + functions.long(0.2)
    (made,) = functions.twice.overloads.values()
    linkage = {f.name: f.linkage.name for f in made.library._final_module.functions if not f.is_declaration}
    assert "internal" in linkage.values(), linkage
    assert "linkonce_odr" not in linkage.values(), linkage


@pytest.mark.slow  # two processes compile a map
def test_a_process_that_compiles_gives_the_bits_of_one_that_reads(tmp_path):
    code = """
import hashlib, sys, numpy as np, nearfar as nf
points = np.random.default_rng(0).normal(size=(300, 5)).astype("f4")
fit = nf.HSSNE(max_iter=300, random_state=0, n_jobs=1, far="fft").fit(points)
loaded = [name in sys.modules for name in ("numba.np.linalg", "numba.np.arrayobj")]
print(hashlib.sha256(fit.embedding_.tobytes()).hexdigest(), *loaded)
"""
    there = {**os.environ, "NEARFAR_CACHE_DIR": str(tmp_path)}
    run = [subprocess.run([sys.executable, "-c", code], env=there, capture_output=True, check=True) for _ in range(2)]
    (made, *compiles), (read, *reads) = (one.stdout.split() for one in run)
    assert made == read
    assert (compiles, reads) == ([b"True"] * 2, [b"False"] * 2)  # what numba compiles with is not loaded to run


def test_a_function_that_is_made_anew_is_compiled_once():
    def scaled(a, b=1):
        return lambda f: a * f + b

    def shifted(b):
        return lambda f, shift=b: f + shift

    assert machine_code.compiled(scaled(2)) is machine_code.compiled(scaled(2))
    assert machine_code.compiled(shifted(1)) is machine_code.compiled(shifted(1))
    different = [scaled(2), scaled(3), scaled(2.0), scaled(2, 2), shifted(1), shifted(1.0), shifted(-0.0), shifted(0.0)]
    assert len({id(machine_code.compiled(one)) for one in different}) == len(different)
    assert [machine_code.compiled(one)(1.0) for one in different[:4]] == [3, 4, 3, 4]


CONSTANTS = """
from nearfar._core.jit import jit

@jit
def long(at, x):
    total = 0.0
    for k in range(at, x.size):
        total += x[k] * x[k]
    return total

@jit
def twice(x):
    return long(0, x) + long(x.size // 2, x) + long(2, x)
"""


def test_a_constant_is_a_number_as_others(folder, tmp_path, monkeypatch):
    (tmp_path / "small_constants.py").write_text(CONSTANTS)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("small_constants")
    found, names = compiled(lambda: module.twice(np.arange(4.0)))
    assert found == 14 + 13 + 13
    assert names.count("long") == 1
