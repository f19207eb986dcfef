"""What a fit takes is what was announced, within a fifth; what cannot fit is refused before it is made."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
import scipy.sparse as sp
from quick import often, with_slow

import nearfar as nf
from nearfar._core import checks
from nearfar.errors import InputError


@pytest.fixture(autouse=True)
def _every_fit_looks(monkeypatch):
    monkeypatch.setattr(checks, "SMALL", 0)


def rows(n, p=50):
    return np.random.default_rng(0).standard_normal((n, p)).astype(np.float32)


def text(n):
    numbers = np.concatenate([np.arange(n), np.random.default_rng(0).integers(0, n, n)])
    sentences = [[f"w{k}" for k in part] for part in np.array_split(numbers, len(numbers) // 10)]
    return nf.Corpus(sentences).encode(min_count=1)


def graph(n):
    A = sp.random_array((n, n), density=6 / n, random_state=np.random.default_rng(0), format="csr", dtype=np.float32)
    return nf.Relation.from_matrix(A)


FOLDER = Path(gettempdir(), "nearfar-test-memory")
QUICK = {"random_state": 0, "n_jobs": 1}
MAP = {**QUICK, "max_iter": 3, "early_exaggeration_iter": 1}

# An estimator, its data, how many rows or words are enough to be measured, and to compile.
CASES = {
    "Affinities": (lambda: nf.Affinities(**QUICK), rows, 20_000),
    "Affinities, wide": (lambda: nf.Affinities(5, **QUICK), lambda n: rows(n, 300), 30_000),
    "TSNE": (lambda: nf.TSNE(**MAP), lambda n: rows(n, 10), 10_000),
    "TSNE of a relation": (lambda: nf.TSNE(**MAP), lambda n: graph(15 * n), 4_000),
    "TSNE, in files": (lambda: nf.TSNE(**MAP, storage=FOLDER), lambda n: rows(n, 10), 120_000),
    "Affinities, in files": (lambda: nf.Affinities(**QUICK, storage=FOLDER), lambda n: rows(n, 10), 120_000),
    "SSNE": (lambda: nf.SSNE(**MAP), lambda n: rows(n, 10), 10_000),
    "ASNE": (lambda: nf.ASNE(**MAP), lambda n: rows(n, 10), 10_000),
    "TASNE": (lambda: nf.TASNE(**MAP), lambda n: rows(n, 10), 10_000),
    "InhomogeneousTSNE": (lambda: nf.InhomogeneousTSNE(**MAP), lambda n: rows(n, 10), 10_000),
    "HSSNE": (lambda: nf.HSSNE(**MAP), lambda n: rows(n, 10), 10_000),
    "NeRV": (lambda: nf.NeRV(**MAP), lambda n: rows(n, 10), 10_000),
    "JSE": (lambda: nf.JSE(**MAP), lambda n: rows(n, 10), 10_000),
    "WSSNE": (lambda: nf.WSSNE(**MAP), lambda n: rows(n, 10), 10_000),
    "NeighborEmbedding": (lambda: nf.NeighborEmbedding(**MAP), lambda n: rows(n, 10), 10_000),
    "UMAP": (lambda: nf.UMAP(**MAP), lambda n: rows(n, 10), 80_000),
    "TSNE, float64": (lambda: nf.TSNE(**MAP, init=rows(9_000, 2).astype(float)), lambda _: rows(9_000, 10), 9_000),
    "MDS": (lambda: nf.MDS(max_iter=3, **QUICK), rows, 3_000),
    "MDS, five components": (lambda: nf.MDS(5, max_iter=3, **QUICK), rows, 3_000),
    "MDS, another metric": (lambda: nf.MDS(metric="manhattan", max_iter=3, **QUICK), lambda n: rows(n, 8), 3_000),
    "MDS, sampled pairs": (lambda: nf.MDS(pairs="sampled", n_samples=400, max_iter=3, **QUICK), rows, 9_000),
    "SkipGram": (lambda: nf.SkipGram(n_epochs=1, **QUICK), text, 20_000),
    "SkipGram, Adam": (lambda: nf.SkipGram(n_epochs=1, optimizer="adam", **QUICK), text, 10_000),
    "Word2DM": (lambda: nf.Word2DM(n_epochs=1, **QUICK), text, 20_000),
    "Word2DM, Adam": (lambda: nf.Word2DM(20, n_factors=5, n_epochs=1, optimizer="adam", **QUICK), text, 15_000),
    "MultiSenseWord2DM": (lambda: nf.MultiSenseWord2DM(96, n_epochs=1, **QUICK), text, 10_000),
    "EDRep": (lambda: nf.EDRep(64, n_epochs=2, **QUICK), graph, 20_000),
}
QUICKEST = ("MDS",)
COMPILED_ON = 5000  # rows; fewer are searched without compiled code


def beside(data):
    """What EDRep counts too: the relation itself."""
    return data.nbytes if isinstance(data, nf.Relation) else 0


@pytest.mark.parametrize("name", often(CASES, QUICKEST))
@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
def test_a_fit_takes_what_was_announced_within_a_fifth(name):
    make, data, n = CASES[name]
    if name != "TSNE, float64":
        make().fit(data(max(n // 10, min(n, COMPILED_ON))))  # compiles
    X = data(n)
    expected = make().expected_memory(X) - (beside(X) if name == "EDRep" else 0)
    tracemalloc.start()
    make().fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.8 * peak < expected < 1.2 * peak


MEASURE = """
import ctypes, gc, sys, warnings
import test_memory
warnings.simplefilter("ignore")
def now(what):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(what)) * 1024
make, data, n = test_memory.CASES[sys.argv[1]]
make().fit(data(max(n // 10, min(n, test_memory.COMPILED_ON))))
X = data(n)
expected = make().expected_memory(X) - (test_memory.beside(X) if sys.argv[1] == "EDRep" else 0)
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")
before = now("VmRSS")
make().fit(X)
print(expected, now("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system tells the peak")
@pytest.mark.parametrize("name", [name for name in CASES if name != "TSNE, float64" and "in files" not in name])
def test_the_system_measures_the_same_in_a_process_of_its_own(name):
    """But for fits in files: the system counts the pages of mapped files, which are not announced."""
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # of test_memory, and of what it imports
    command = [sys.executable, "-c", MEASURE, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | paths)
    assert not done.returncode, done.stderr
    expected, peak = map(int, done.stdout.split())
    spare = 1 << 24  # what the allocator keeps between arrays, and pages of them that are never touched
    assert 0.8 * peak - spare < expected < 1.2 * peak + spare


def test_every_estimator_says_what_it_takes():
    public = [getattr(nf, name) for name in nf.__all__ if name[0].isupper()]
    estimators = {cls for cls in public if hasattr(cls, "fit")}
    assert len(estimators) > 10
    assert not {cls.__name__ for cls in estimators if not hasattr(cls, "expected_memory")}
    tested = {name.split(",")[0].split(" of")[0] for name in CASES}
    assert tested == {cls.__name__ for cls in estimators}


@pytest.mark.parametrize(
    "name",
    with_slow(
        ["TSNE", "MDS", "Word2DM", "EDRep"], ["Affinities", "MDS, sampled pairs", "SkipGram", "MultiSenseWord2DM"]
    ),
)
def test_what_cannot_fit_is_refused_before_it_is_made(name, monkeypatch):
    make, data, _ = CASES[name]
    X, est = data(2000), make()
    needed = est.expected_memory(X) - (beside(X) if name == "EDRep" else 0)
    monkeypatch.setattr(checks, "available_memory", lambda: needed // 2)
    argument = {"EDRep": "relation"}.get(name, "corpus" if "Word" in name or "Gram" in name else "X")
    message = rf"^{type(est).__name__}: {argument} must be one that fits into memory, of which .* GB are free; got one "
    tracemalloc.start()
    with pytest.raises(InputError, match=message + r"that takes about .* GB\. Take ") as refused:
        est.fit(X)
    sizes = {"Word2DM": "(n_components=, n_factors=)", "MultiSenseWord2DM": "(n_components=, n_senses=)"}
    assert sizes.get(name, "") in str(refused.value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < max(needed // 2, 2e6)
    monkeypatch.setattr(checks, "available_memory", lambda: needed)  # figures may be a fifth off: it is tried
    checks.check_memory("f", "X", int(1.2 * needed), "")
    monkeypatch.setattr(checks, "available_memory", lambda: None)  # where nobody knows, too
    checks.check_memory("f", "X", 1 << 60, "")


def test_the_command_line_tells_of_it(tmp_path, fails, monkeypatch):
    (tmp_path / "edges.csv").write_text("a,b\nb,c\nc,d\nd,a\n")
    monkeypatch.setattr(checks, "available_memory", lambda: 10)
    assert "must be one that fits into memory" in fails(
        "embed", tmp_path / "edges.csv", "-o", tmp_path / "x.npz", "--n-components", "2"
    )


@pytest.mark.slow
def test_a_limit_of_the_process_counts(tmp_path, monkeypatch):
    code = "import resource; from nearfar._core import checks; free = checks.available_memory(); "
    code += "now = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize(); "
    code += "resource.setrlimit(resource.RLIMIT_AS, (now + 2**26, -1)); print(checks.available_memory(), free)"
    limited, free = map(int, subprocess.check_output([sys.executable, "-c", code]).split())
    assert 2**25 < limited <= 2**26 < free


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("anon 2000\ninactive_file 700\n")
    monkeypatch.setattr(checks, "_GROUPS", ((str(tmp_path), "memory.max", "memory.current", "inactive_file"),))
    assert checks.available_memory() == 2700
    (tmp_path / "memory.max").write_text("max\n")
    assert checks.available_memory() > 2700
