"""Fixtures that several test modules use."""

import functools
import importlib
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from quick import float64_by_python

SHARED_DATA = Path(os.environ.get("NEARFAR_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def _untraced(compile_kernel):
    """Compile without the tracer of the coverage: it has nothing to see there, and takes half as long again."""

    @functools.wraps(compile_kernel)
    def compile_untraced(*args, **named):
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return compile_kernel(*args, **named)
        finally:
            sys.settrace(tracer)

    return compile_untraced


# What draws without a seed draws alike in each run and in each test: none passes on some days alone.
ENTROPY = [np.random.SeedSequence(20240607)]


def pytest_collection_finish() -> None:
    """Change numba in the processes that run tests: the one that hands them out need not wait for its import."""
    from numba.core.dispatcher import Dispatcher

    from nearfar._core import checks

    Dispatcher.compile = _untraced(Dispatcher.compile)
    checks.fresh_generator = lambda: np.random.default_rng(ENTROPY[0].spawn(1)[0])


# Before and after each of many thousand short tests: as fixtures these would take longer than most of the tests.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed what draws without a seed anew."""
    ENTROPY[0] = np.random.SeedSequence(20240607)


@pytest.hookimpl(trylast=True)  # once fixtures are taken down: some say that matplotlib is not there
def pytest_runtest_teardown() -> None:
    """Close the figures of pyplot that a test leaves open."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


# A forked child is not measured: another thread may have held the lock of the coverage, and the child would wait.
# Called from C, before any function that is traced: nearfar's own hook is registered later.
os.register_at_fork(after_in_child=functools.partial(sys.settrace, None))
os.register_at_fork(after_in_child=functools.partial(threading.settrace, None))


# No power is cut here, and to wait for the disk thousands of times takes long. Processes that tests start do wait for
# it, as those of kills.py.
os.fsync = lambda descriptor: None


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(20240607)


@pytest.fixture(scope="module")
def cluster():
    """A client of two workers in this process."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as two_workers,
        distributed.Client(two_workers, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def in_use(cluster):
    """The same, whose context the test is in."""
    with cluster.as_current():
        yield cluster


@pytest.fixture
def few_parts(monkeypatch):
    """Three parts of rows on workers instead of eight: a ninth of the tasks."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("nearfar.engines.dask.rows.FEWEST", 3)


@pytest.fixture
def two_parts(few_parts, monkeypatch):
    """Two parts, where it is not the parts that are looked at."""
    monkeypatch.setattr("nearfar.engines.dask.rows.FEWEST", 2)


@pytest.fixture(params=["plain", "compiled"])
def products(request, monkeypatch):
    """Relations of a test are small, and SciPy multiplies with them: run it with compiled products, too."""
    if request.param == "compiled":
        monkeypatch.setattr("nearfar.relations.kernels.FEW_ENTRIES", -1)


@pytest.fixture
def few_compiled(request, monkeypatch):
    """In a quick run loops over pairs are compiled in float32 alone, as maps are; Python runs those in float64."""
    if request.config.option.markexpr == "not slow":
        for module in ("engines.threads.maps", "far.fields"):
            monkeypatch.setattr(f"nearfar.{module}.bind", float64_by_python)


@pytest.fixture(autouse=True)
def _torch_seeded():
    """Torch's own generator starts alike in each test, whatever ran before it in the same process."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(20240607)  # without a message to each kind of device, with a traceback


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets, beside the repository or NEARFAR_DATA; without it the test is skipped."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no shared data beside the repository")
    return SHARED_DATA


@pytest.fixture
def run(capsys):
    """Run a command; return its exit code, standard output and standard error."""
    from nearfar.cli import main

    def call(*args):
        code = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def shown(run):
    """Run a command that must succeed; return its standard output."""

    def call(*args):
        code, out, err = run(*args)
        assert code == 0, err
        return out

    return call


@pytest.fixture
def fails(run):
    """Run a command that must fail; return its one-line message."""

    def call(*args, code=2):
        got, out, err = run(*args)
        assert got == code
        assert out == ""
        assert err.startswith("nearfar: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err

    return call


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt: a shell that starts this in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def in_two_processes(tmp_path_factory):
    """Return what a function stores as ``{rank}.pt`` in two processes: forked where that is safe, torch is there."""
    torch = pytest.importorskip("torch")
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("no gloo")
    importlib.import_module("torch._dynamo")  # each process would import it
    start = "fork" if sys.platform == "linux" else "spawn"

    def run(process):
        folder = tmp_path_factory.mktemp("gloo")
        arguments = (folder / "meet").as_uri(), str(folder)
        torch.multiprocessing.start_processes(process, arguments, nprocs=2, start_method=start)
        found = [torch.load(folder / f"{rank}.pt") for rank in range(2)]
        assert [result.get("error") for result in found] == [None, None]
        return found

    return run


@pytest.fixture
def one_torch_thread():
    """Torch computes on one thread, so that sums are those of any machine."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def planted():
    """A text whose words have known senses."""
    from nearfar.datasets import planted_senses

    return planted_senses(random_state=0)


@pytest.fixture(scope="session")
def senses_model(planted):
    """A model that has found these senses, for tests that leave it as it is."""
    from nearfar import MultiSenseWord2DM

    options = {"n_components": 8, "n_epochs": 4, "sample": 0, "min_sense_count": 50, "random_state": 0, "n_jobs": 1}
    return MultiSenseWord2DM(**options).fit(planted.sentences)
