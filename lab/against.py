"""This checkout against another one, in turn: the ratio of times of EDRep, maps, word models and anchor tables.

    git worktree add /tmp/before COMMIT
    python lab/against.py /tmp/before/src                     five pairs of each
    python lab/against.py /tmp/before/src --fits tsne --runs 9
    python lab/against.py /tmp/before/src --fits edrep edrep-128 edrep-paper edrep-torch edrep-dask
    python lab/against.py /tmp/before/src --fits tsne tsne-exact tsne-torch tsne-dask jse umap mds
    python lab/against.py /tmp/before/src --fits skipgram skipgram-adam skipgram-deterministic word2dm

Each run is a process of its own, which fits once on small data first, so that nothing is compiled in what is timed. The
two take turns, and the ratio is taken pair by pair. Below 1 this checkout is faster. Kept in results/against.json.
"""

from __future__ import annotations

import inspect
import json
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a command: lab is found from the folder above this one
    sys.path[0] = str(Path(__file__).absolute().parent.parent)

import numpy as np

import nearfar as nf
from lab.data import articles
from lab.experiment import Experiment, Section
from lab.measure import beside, say, timed
from lab.records import Record, groups, middle, number
from lab.results import ROOT, ResultFile


def where(estimator: Any, engine: str) -> dict[str, Any]:
    """Return what tells an estimator where to run, in this version or in an older one."""
    if "engine" in inspect.signature(estimator).parameters:
        return {"engine": engine}
    return {"device": "cpu"} if engine == "torch" else {}  # before version 0.2


def edrep(d: int = 32, gradient: str = "auto", engine: str = "threads") -> Callable[[], object]:
    """EDRep of a random graph; the small one, by which all is compiled, is above what runs in plain NumPy."""
    relations = [
        nf.Relation.from_matrix(nf.datasets.dcsbm(n, alpha=3.0, random_state=0).adjacency) for n in (4000, 30_000)
    ]

    def fit(large: bool = True) -> object:
        model = nf.EDRep(d, n_epochs=30, gradient=gradient, random_state=0, n_jobs=2, **where(nf.EDRep, engine))
        return model.fit(relations[large].random_walk(3))

    return fit


def drawn(
    method: str = "TSNE", n: int = 20_000, n_iter: int = 300, *, small: int = 500, engine: str = "threads", **more: Any
) -> Callable[[], object]:
    """A map; the small one, by which all is compiled, has iterations of each phase and the same far field."""
    X, estimator = blobs(n), getattr(nf, method)

    def fit(large: bool = True) -> object:
        rows, max_iter, early = (X, n_iter, 50) if large else (X[:small], 12, 5)
        options = {**more, "max_iter": max_iter, "early_exaggeration_iter": early, "random_state": 0, "n_jobs": 2}
        return estimator(**options, **where(estimator, engine)).fit(rows)

    return fit


def blobs(n: int) -> Any:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(n, 20)) + 4 * rng.normal(size=(30, 20))[rng.integers(30, size=n)]).astype("f4")


def mds() -> Callable[[], object]:
    X = blobs(8000)

    def fit(large: bool = True) -> object:
        return nf.MDS(max_iter=30, tol=0, random_state=0, n_jobs=2).fit(X if large else X[:500])

    return fit


def on_workers(make: Callable[[], Callable[..., object]]) -> Callable[[], object]:
    """Fits on two workers of this machine."""
    import distributed

    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    client = distributed.Client(cluster)  # in whose context fits run there, by any version
    inner = make()

    def fit(large: bool = True) -> object:
        with client.as_current():
            return inner(large)

    return fit


def words(method: str = "SkipGram", n_words: int = 3_400_000, **more: Any) -> Callable[[], object]:
    """An epoch over the first part of a text."""
    lines = list(articles(n_words))

    def fit(large: bool = True) -> object:
        model = getattr(nf, method)(n_epochs=1, random_state=0, n_jobs=1, **more)
        return model.fit(lines if large else lines[:200])

    return fit


def anchors() -> Callable[[], object]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = nf.nn.AnchorEmbedding(100_000, 256, n_anchors=50)
    optimizer = nf.nn.ProxAdam(table.parameters(), lr=0.001)
    ids = torch.as_tensor(np.random.default_rng(0).zipf(1.2, (60, 25_600)) % 100_000)

    def fit(large: bool = True) -> object:
        for batch in ids[: 60 if large else 3]:
            optimizer.zero_grad()
            table(batch).square().mean().backward()
            optimizer.step()
        return table

    return fit


FITS: dict[str, tuple[str, Callable[[], Callable[..., object]]]] = {  # what is told of it, and what makes it
    "edrep": ("EDRep, 30,000 nodes, d = 32", edrep),
    "edrep-128": ("EDRep, 30,000 nodes, d = 128", partial(edrep, 128)),
    "edrep-paper": ("EDRep, 30,000 nodes, eq. (6)", partial(edrep, gradient="paper")),
    "edrep-torch": ("EDRep, 30,000 nodes, torch on the processor", partial(edrep, engine="torch")),
    "edrep-dask": ("EDRep, 30,000 nodes, Dask with 2 workers", partial(on_workers, partial(edrep, engine="dask"))),
    "tsne": ("t-SNE, 20,000 points", partial(drawn, small=4500)),
    "tsne-exact": ("t-SNE, 3,000 points, all pairs", partial(drawn, n=3000, n_iter=250, far="exact")),
    "tsne-torch": (
        "t-SNE, 5,000 points, torch on the processor",
        partial(drawn, n=5000, n_iter=150, far="fft", engine="torch"),
    ),
    "tsne-dask": (
        "t-SNE, 20,000 points, Dask with 2 workers",
        partial(on_workers, partial(drawn, n_iter=60, small=4500, engine="dask")),
    ),
    "jse": ("JSE, 5,000 points, mesh", partial(drawn, "JSE", 5000, far="fft")),
    "umap": ("UMAP, 10,000 points", partial(drawn, "UMAP", 10_000)),
    "mds": ("MDS, 8,000 points", mds),
    "skipgram": ("skip-gram, 3.4 million words", words),
    "skipgram-adam": ("skip-gram by Adam, 860,000 words", partial(words, n_words=860_000, optimizer="adam")),
    "skipgram-deterministic": (
        "skip-gram with fixed bits, 860,000 words",
        partial(words, n_words=860_000, deterministic=True),
    ),
    "word2dm": ("Word2DM, 170,000 words", partial(words, "Word2DM", 170_000)),
    "anchors": ("AnchorEmbedding with ProxAdam, 100,000 x 256", anchors),
}
SLOW = ("tsne", "tsne-dask", "skipgram", "anchors")


def in_this_process(name: str, source: Path) -> None:
    """Print the seconds of a fit by the nearfar of a source folder."""
    if not Path(nf.__file__).resolve().is_relative_to(source.resolve()):
        raise SystemExit(f"{nf.__file__} was imported, which is not in {source}")
    fit: Any = FITS[name][1]()
    fit(large=False)
    print(json.dumps(min(timed(fit)[1] for _ in range(1 if name in SLOW else 3))))


def run(file: ResultFile, given: Namespace) -> None:
    if given.source is None or not (given.source / "nearfar" / "__init__.py").is_file():
        raise SystemExit(f"{given.source} holds no nearfar/: name the src folder of another checkout by --source")
    for name in given.fits:
        ratios = []
        for trial in range(given.runs):
            sources = (given.source.resolve(), ROOT / "src")
            other, this = (beside(source, "lab.against", "--child", name, str(source)) for source in sources)
            ratios.append(this / other)
            file.add({"fit": name, "trial": trial, "seconds": this, "seconds before": other, "ratio": ratios[-1]})
        say(f"{name:22} {statistics.median(ratios):.3f} of the other's time ({min(ratios):.3f} to {max(ratios):.3f})")


def told(section: Section, records: list[Record]) -> None:
    """Processes take turns; the ratio is taken pair by pair (median, smallest and largest)."""
    rows = []
    for fit, mine in groups(records, "fit"):
        ratios = [r["ratio"] for r in mine]
        ratio = statistics.median(ratios)
        target = section.target(f"time of {FITS[fit][0]} against the version before", "at most 1.05")
        target.tell(f"{ratio:.3f}", ratio <= 1.05)
        seconds = [number(middle(mine, name), 2) for name in ("seconds", "seconds before")]
        rows.append([FITS[fit][0], len(mine), *seconds, f"{ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f})"])
    section.table(["fit", "pairs", "now (s)", "before (s)", "ratio"], rows)


EXPERIMENT = Experiment("Speed against the version before", run, "fit trial", command="--source FOLDER").takes(
    source=Path, fits=tuple(FITS), runs=5
)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        in_this_process(sys.argv[2], Path(sys.argv[3]))
    else:
        first = [] if sys.argv[1:2] and sys.argv[1].startswith("-") else ["--source"]
        EXPERIMENT.measure([*first, *sys.argv[1:]])
