"""Settings of the whole test run, docstring and guide examples included."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib.util
import itertools
import os
import random
import re
import tempfile
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent / "tests"
pytest_plugins = ["shared_fixtures"]  # tests/support/shared_fixtures.py


def pytest_configure(config: pytest.Config) -> None:
    """Properties are tried with the same few examples each time; where the slow tests run, with many new ones."""
    # The first example may compile a kernel: no deadline. A failure prints how to reproduce it.
    quick = config.option.markexpr == "not slow"
    n_examples = 12 if quick else 100
    settings.register_profile("nearfar", deadline=None, print_blob=True, derandomize=quick, max_examples=n_examples)
    settings.load_profile("nearfar")
    if int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2:
        config.pluginmanager.register(FromTheEnd())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have a worker tell of what passed once, not for its setup and teardown too: that took a fiftieth of the time."""
    for one in session.config.hook.pytest_runtest_logreport.get_hookimpls():
        if hasattr(one.plugin, "sendevent") and session.config.option.durations is None:
            one.function = partial(_tell, one.function)


def _tell(send: Callable[[pytest.TestReport], None], report: pytest.TestReport) -> None:
    if report.when == "call" or not report.passed:
        send(report)


class FromTheEnd:
    """Every second worker collects from the end: two that find nothing compiled meet in the middle.

    From there each finds compiled what the other has been at. The order of the tests is that of the other workers.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, pytest.CollectReport, object]:
        """Turn round what lies in a folder."""
        report = yield
        if isinstance(collector, pytest.Session | pytest.Directory):
            report.result.reverse()
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Turn the files round again, not the tests of each."""
        files = [list(tests) for _, tests in itertools.groupby(items, key=lambda item: item.path)]
        items[:] = itertools.chain.from_iterable(reversed(files))


def _leave() -> None:
    """End a worker once all is said and cleaned up: nobody waits for its millions of objects to be taken apart."""
    atexit.unregister(_leave)
    atexit._run_exitfuncs()  # those that were registered before
    os._exit(0)


if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(_leave)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Make thousands of tests without looking for garbage among them, then or later: that took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)  # by default it looks thirty times as often
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for tests alone in tests/, not for examples of docstrings too: there are none."""
    found = yield
    return [one for one in found if type(one) is pytest.Module or TESTS not in file_path.parents]  # no subclass


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the examples of docstrings and guides in an empty folder: some of them write files. Skip those with torch."""
    if not isinstance(item, pytest.DoctestItem):
        return (yield)
    if any("import torch" in example.source for example in item.dtest.examples):
        pytest.importorskip("torch")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return (yield)


# Of docs/ the pages are tests, the scripts that build them are not.
collect_ignore_glob = ["docs/*.py"]


PACKAGE = Path(__file__).parent / "src"
IMPORTS_TORCH = re.compile(r'^(import torch|from torch|require\(.*"torch"\))', re.MULTILINE)
HAS_TORCH = importlib.util.find_spec("torch") is not None


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without torch leave out the modules that import it."""
    if HAS_TORCH or collection_path.suffix != ".py" or not collection_path.is_relative_to(PACKAGE):
        return None
    return True if IMPORTS_TORCH.search(collection_path.read_text(encoding="utf-8")) else None


# Tests that use the same compiled functions run on one worker, which compiles them once. By what is in the path; the
# families that take longest come first, so that the many short files fill the time at the end. But fields come last:
# when they begin, maps have compiled what both need; side by side both workers would compile it.
FAMILIES = {
    "maps": r"map(?!ped)|neighbor_|per_point|inhomog|master|moment|mds|several_perp|far_negatives|recipes",
    "words": r"word|relation_pairs|skipgram|sense|phrases|hyponymy|cooccurrence|text|partial_fit|density",
    "networks": r"mutual_information|anchor|compress|/(nn|contrastive|tables)/",
    "fields": r"field|barnes|extending|test_kernels|divergen|/far/",
    "products": r"relations/test_(relation|products)\.",
}


def family(nodeid: str) -> str:
    """Return the family of a test, else its file."""
    path = nodeid.split("::")[0]
    return next((name for name, pattern in FAMILIES.items() if re.search(pattern, path)), path)


# Pages that fit a dozen models of full size.
SLOW_GUIDES = [
    "anchors",
    "comparing",
    "extending",
    "judging-graphs",
    "judging-words",
    "map-page",
    "maps",
    "retrieval",
    "words",
]
SLOW_GUIDES += ["mutual-information", "affinities", "devices", "judging-maps", "word2dm", "edrep"]
SLOW_PAGES = {"README.md", "docs/index.md", *(f"docs/guide/{name}.md" for name in SLOW_GUIDES)}
SLOW_PAGES |= {f"docs/coming-from/{name}.md" for name in ("opentsne", "scikit-learn", "umap-learn")}


@pytest.hookimpl(tryfirst=True)  # before items are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow pages and what needs data, and put the families before other files, in their order."""
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.data)
        if item.nodeid.split("::")[0] in SLOW_PAGES:
            item.add_marker(pytest.mark.slow)
    order = {name: position for position, name in enumerate(FAMILIES)}
    if seed := os.environ.get("NEARFAR_TEST_ORDER"):  # files in a random order, and the tests of each file
        draw = random.Random(seed)
        place = {path: draw.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (place[item.path], draw.random()))
        return
    items.sort(key=lambda item: order.get(family(item.nodeid), len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With --dist loadfile, give a worker the files of a family, and other files one by one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFamily(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return family(nodeid)

    config.option.loadscopereorder = False  # the order is that of the items
    return ByFamily(config, log)
