"""What all benchmarks share: result files, the machine, time, peak memory.

A result file is ``results/<name>.json``::

    {"benchmark": name,
     "runs":    [{"command": ..., "started": ..., "machine": {...}, "versions": {...}}, ...],
     "records": [{"run": 0, ...one measurement...}, ...]}

Every record points to the run that made it, so a benchmark can be done in slices, on several days; a slice that is
there already is not repeated.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).absolute().parent.parent
# Trial runs go to a folder of their own, not to the committed results and pictures.
TRIAL = os.environ.get("NEARFAR_RESULTS")
RESULTS = Path(TRIAL) if TRIAL else ROOT / "benchmarks" / "results"
IMAGES = Path(TRIAL) if TRIAL else ROOT / "docs" / "images"
PAGE = Path(TRIAL) / "benchmarks.md" if TRIAL else ROOT / "docs" / "benchmarks.md"


def _data_folder() -> Path:
    """Return where data are: --data FOLDER, which is taken out of the arguments, $NEARFAR_DATA, or beside the clone.

    Processes that a benchmark starts find the folder in the environment.
    """
    for at, word in enumerate(sys.argv):
        name, _, folder = word.partition("=")
        if name == "--data":
            taken = sys.argv[at : at + 2 - bool(folder)]
            if not (folder or taken[1:]):
                sys.exit("--data FOLDER: where the data of the benchmarks are")
            del sys.argv[at : at + len(taken)]
            os.environ["NEARFAR_DATA"] = str(Path(folder or taken[1]).absolute())
            break
    return Path(os.environ.get("NEARFAR_DATA", ROOT.parent / "shared" / "data"))


DATA = _data_folder()
# What is in it, and where that comes from.
SOURCES = {
    "ag_news": "AG News (Zhang, Zhao & LeCun 2015): train_subset_20000.csv.xz, test.csv.xz",
    "compositional_ambiguity": "judgements of phrases (Mitchell & Lapata 2008; Grefenstette & Sadrzadeh 2011, 2012)",
    "fashion_mnist": "github.com/zalandoresearch/fashion-mnist: all images in one raw file, and their labels",
    "gene2vec": "predictionData of github.com/jingcheng-du/Gene2vec: train_text.txt.xz, train_label.txt.xz",
    "graphs": "one folder for each graph with its edges and labels, packed or not; edges.csv.xz and target.csv.xz of"
    " musae-facebook are facebook_edges.csv and facebook_target.csv of github.com/benedekrozemberczki/MUSAE",
    "mnist": "MNIST (LeCun, Cortes & Burges) as arrays: mnist.npz with x_train, y_train, x_test, y_test",
    "movielens-1m": "grouplens.org/datasets/movielens/1m: ratings.tsv.xz with the header user, item, rating",
    "pbmc68k_reduced": "scanpy.datasets.pbmc68k_reduced() as arrays: pbmc68k_reduced.npz",
    "ptb": "Penn Treebank as prepared by Mikolov: ptb.train.txt.xz, ptb.valid.txt.xz, ptb.test.txt.xz",
    "sociopatterns": "contacts of the SFHH conference, sociopatterns.org: SFHH_tij.dat.gz",
    "wiki_text8_style": "100 MB of English Wikipedia in lower case, an article a line: wiki_100M.txt.xz",
    "word_analogy": "questions-words.txt.gz of word2vec",
    "word_similarity": "pairs of words and a score: EN-MEN-TR-3k.txt, EN-WS-353-ALL.txt, EN-SIMLEX-999.txt, ...",
}


def _say_what_is_missing(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """In place of a traceback, say which file of the data is not there and what it is."""
    path = Path(str(getattr(error, "filename", None) or ""))
    if not isinstance(error, FileNotFoundError) or not path.is_relative_to(DATA):
        sys.__excepthook__(kind, error, trace)
        return
    folder = path.relative_to(DATA).parts[0]
    what = SOURCES.get(folder, "not described")
    print(f"{path} is not there. {folder}/ holds {what}.", file=sys.stderr)
    print(f"Put it into {DATA}, or say by --data FOLDER (or $NEARFAR_DATA) where it is.", file=sys.stderr)


if Path(sys.argv[0]).absolute().parent == ROOT / "benchmarks":
    sys.excepthook = _say_what_is_missing
PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "gensim",
    "EDRep",
    "faiss-cpu",
    "hnswlib",
    "openTSNE",
    "umap-learn",
    "torch",
    "pyarrow",
    "pandas",
    "anndata",
    "usearch",
    "sqlite-vec",
    "lancedb",
    "psycopg",
    "scikit-network",
    "pycleora",
    "implicit",
)

T = TypeVar("T")


class ResultFile:
    """One result file: what is there is kept, every new record is on the disk at once.

    ``folder`` is for tests; ``keys`` name the fields that tell records apart.
    """

    def __init__(self, name: str, keys: Iterable[str], folder: Path = RESULTS) -> None:
        self.path = folder / f"{name}.json"
        self.keys = tuple(keys)
        self.content: dict[str, Any] = {"benchmark": name, "runs": [], "records": []}
        if self.path.exists():
            self.content = json.loads(self.path.read_text())
        self._run: int | None = None

    @property
    def records(self) -> list[dict[str, Any]]:
        return self.content["records"]

    def find(self, **fields: Any) -> dict[str, Any] | None:
        """Return the record with these fields, None if there is none."""
        return next((r for r in self.records if all(r.get(k) == v for k, v in fields.items())), None)

    def add(self, record: dict[str, Any]) -> None:
        """Store a record, in place of the one with the same keys."""
        if self._run is None:
            self.content["runs"].append(this_run())
            self._run = len(self.content["runs"]) - 1
        same = {key: record.get(key) for key in self.keys}
        self.content["records"] = [r for r in self.records if any(r.get(k) != v for k, v in same.items())] + [
            {"run": self._run, **record}
        ]
        write_text(self.path, _dump(self.content))


def _dump(content: dict[str, Any]) -> str:
    """JSON with one line per run and per record, so that a difference between versions can be read."""
    head = json.dumps(content["benchmark"])
    blocks = []
    for part in ("runs", "records"):
        lines = ",\n  ".join(json.dumps(entry) for entry in content[part])
        blocks.append(f' "{part}": [\n  {lines}\n ]')
    return f'{{"benchmark": {head},\n' + ",\n".join(blocks) + "\n}\n"


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def this_run() -> dict[str, Any]:
    """Describe this process: command, time, machine, versions."""
    script = Path(sys.argv[0]).name
    return {
        "command": " ".join(["python", f"benchmarks/{script}", *sys.argv[1:]]),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
    }


def machine() -> dict[str, Any]:
    """Describe the machine: processor, number of processors that may be used, memory, system."""
    model = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Return the versions of nearfar and of what the benchmarks use."""
    import nearfar

    found = {"nearfar": nearfar.__version__}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def timed(task: Callable[[], T]) -> tuple[T, float]:
    """Run a task with an empty garbage bin; return its result and the seconds it took."""
    gc.collect()
    start = time.perf_counter()
    result = task()
    return result, time.perf_counter() - start


@contextmanager
def drawing(font_size: float) -> Iterator[None]:
    """Draw with matplotlib without a screen, and words in SVG as words; also a decorator."""
    import matplotlib as mpl

    mpl.use("Agg")
    with mpl.rc_context({"svg.hashsalt": "nearfar", "svg.fonttype": "none", "font.size": font_size}):
        yield


def reset_peak_memory() -> None:
    """Start anew with the peak of the resident memory, where the system lets us (Linux).

    What has been freed is given back to the system first, or the next task would grow into it unseen.
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Return the peak of the resident memory of this process in bytes, since the last reset."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def resident_memory() -> int:
    """Return the resident memory of this process in bytes (0 where the system does not tell)."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) * 1024
    return 0


def mean_and_sd(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation (of the sample; 0 for one value)."""
    numbers = list(values)
    return statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else 0.0


def say(text: str) -> None:
    """Print with the time of day, at once."""
    print(f"{datetime.now().strftime('%H:%M:%S')}  {text}", flush=True)
