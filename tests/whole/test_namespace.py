"""The public names, and how light it is to import them."""

import importlib
import inspect
import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import loaded

import nearfar as nf

api_pages = loaded(Path(__file__).parents[2] / "docs" / "api_pages.py")

HEAVY = ["scipy", "sklearn", "numba", "rich", "matplotlib", "pandas", "polars", "pyarrow", "networkx", "torch"]


def in_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_public_names_are_in_order():
    assert sorted(nf.__all__) == nf.__all__


def test_dir_of_a_public_module_shows_public_names_alone():
    pytest.importorskip("torch")  # of `nearfar.nn`
    public = [importlib.import_module(name) for name in ("nearfar.scanpy", *api_pages.MODULES)]
    for module in public:
        assert dir(module) == sorted(module.__all__)
        assert all(value in public for name in dir(module) if inspect.ismodule(value := getattr(module, name)))


def test_public_names_come_from_the_module_that_the_table_says():
    pytest.importorskip("torch")  # of `nearfar.nn`
    homes = {name: home for home, names in nf._HOMES.items() for name in names}
    assert set(homes) < set(nf.__all__)
    for name in set(nf.__all__) - {"__version__"}:
        module = importlib.import_module(homes.get(name, f".{name}"), "nearfar")
        assert getattr(nf, name) is getattr(module, name, module)  # a module of that name may hold the function


def test_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="no attribute 'EdRep'"):
        nf.EdRep  # noqa: B018


def test_star_import_gives_the_public_names():
    pytest.importorskip("torch")  # of `nearfar.nn`
    names: dict[str, object] = {}
    exec("from nearfar import *", names)
    assert set(nf.__all__) <= set(names)


def _import_all_without_torch(queue):
    """In a forked process, which has what nearfar needs, and nearfar anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("nearfar", "torch")]:
        del sys.modules[name]
    sys.modules["torch"] = None
    exec("from nearfar import *\nimport nearfar", names := {})
    queue.put(("nn" in names, "TSNE" in names, "nn" in dir(names["nearfar"])))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_star_import_without_torch_leaves_out_what_needs_it():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_import_all_without_torch, args=(queue,))
    child.start()
    assert queue.get(timeout=120) == (False, True, True)
    child.join(timeout=120)


def test_small_data_need_no_compiler():
    code = (
        "import sys, numpy as np, nearfar as nf; edges = [(k % 77, k % 50) for k in range(300)]\n"
        "nf.EDRep(8, random_state=0).fit(nf.Relation.from_edges(edges))\n"
        "nf.TSNE(max_iter=5).fit_transform(np.random.default_rng(0).normal(size=(150, 10)))\n"
        "print('numba' in sys.modules)"
    )
    assert in_new_process(code).strip() == "False"


@pytest.mark.slow
def test_rooms_of_numpy_that_nobody_uses_are_not_loaded_and_work_where_somebody_does():
    code = (
        "import sys, nearfar as nf; state = len(sys.meta_path); nf.Relation; assert len(sys.meta_path) == state\n"
        "print([m in sys.modules for m in ('scipy', 'numpy.f2py.rules', 'numpy.testing._private.utils')])\n"
        "import numpy as np, concurrent.futures, threading; all_at_once = threading.Barrier(8)\n"
        "def somebody(_): all_at_once.wait(); return np.testing.assert_allclose, np.f2py.get_include\n"
        "assert len(set(concurrent.futures.ThreadPoolExecutor(8).map(somebody, range(8)))) == 1"
    )
    assert in_new_process(code).strip() == "[True, False, False]"


def test_import_takes_less_than_half_a_second():
    # The best of three new processes: the machine may be busy. The start of Python itself is not counted.
    code = "import time; t = time.perf_counter(); import nearfar; print(time.perf_counter() - t)"
    assert any(float(in_new_process(code)) < 0.5 for _ in range(3))


def test_import_loads_nothing_heavy_and_changes_no_global_state():
    code = (
        "import logging, signal, threading, warnings\n"
        "def state():\n"
        "    handlers = [logging.getLogger().handlers, logging.getLogger('nearfar').handlers]\n"
        "    return repr((warnings.filters, handlers, signal.getsignal(signal.SIGINT), threading.active_count()))\n"
        "before = state()\n"
        "import sys, nearfar\n"
        "assert state() == before\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert in_new_process(code).strip() == "[]"
