"""What a new user waits for: the first fit with nothing compiled, the second in the same process, the next process.

Each trial has an empty folder of machine code. Seconds of a fit alone, without imports: of the clock, and of the
processor, which other work on the machine does not change; and those of the processor from the start of Python to the
end of the first fit. ``--kernels tsne`` adds a line for each compiled function, so that a new signature is seen: how
long it took, and for how many types. ``--source DIR`` takes another checkout's src folder; nothing is kept.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import nearfar as nf
from lab.experiment import Choice, Experiment, Section
from lab.measure import beside, say, timed
from lab.records import Record, groups, middle, number
from lab.results import ROOT, ResultFile


def edrep() -> Callable[[], object]:
    import networkx as nx

    relation = nf.Relation.from_edges(nx.les_miserables_graph())
    model = nf.EDRep(16, random_state=0)  # imports what it is made of
    return lambda: model.fit(relation.random_walk(3))


def edrep_threads() -> Callable[[], object]:
    relation = nf.Relation.from_matrix(nf.datasets.dcsbm(5000, alpha=3.0, random_state=0).adjacency)
    model = nf.EDRep(16, random_state=0)
    return lambda: model.fit(relation.random_walk(3))


def tsne() -> Callable[[], object]:
    from sklearn.datasets import load_digits

    X = load_digits().data
    model = nf.TSNE(random_state=0)
    return lambda: model.fit(X)


def transform() -> Callable[[], object]:
    from sklearn.datasets import load_digits

    X = load_digits().data
    model = nf.TSNE(random_state=0).fit(X[:1700])
    return lambda: model.transform(X[1700:])


def umap() -> Callable[[], object]:
    import numpy as np

    X = np.random.default_rng(0).normal(size=(11_000, 50)).astype(np.float32)
    model = nf.UMAP(random_state=0)
    return lambda: model.fit(X)


def tsne_mesh() -> Callable[[], object]:
    import numpy as np

    X = np.random.default_rng(0).normal(size=(5000, 10))
    model = nf.TSNE(random_state=0, max_iter=100, early_exaggeration_iter=50)
    return lambda: model.fit(X)


def skipgram() -> Callable[[], object]:
    import pydoc_data.topics

    text = nf.Corpus(pydoc_data.topics.topics.values(), lowercase=True)
    model = nf.SkipGram(32, random_state=0)
    return lambda: model.fit(text)


# What is told of a fit, what makes it, and seconds above the warm time that it may take.
FITS: dict[str, tuple[str, Callable[[], Callable[[], object]], float | None]] = {
    "edrep": ("EDRep, 77 nodes", edrep, 0.5),
    "edrep_threads": ("EDRep, 5,000 nodes", edrep_threads, 5.0),
    "tsne": ("t-SNE, 1,797 points, all pairs", tsne, 5.0),
    "transform": ("t-SNE, 97 new points", transform, 1.0),
    "umap": ("UMAP, 11,000 points", umap, 4.0),
    "tsne_mesh": ("t-SNE, 5,000 points, mesh", tsne_mesh, None),
    "skipgram": ("skip-gram, 140,000 words", skipgram, 5.0),
}
NEXT_BAR = 0.3


def fit_twice(name: str) -> None:
    """Print, as JSON, the seconds of the first and the second fit and those that each function took to compile."""
    fit = FITS[name][1]()
    spent, count = watch_the_compiler()
    began = time.process_time()
    seconds = [timed(fit)[1]]
    processor = [time.process_time() - began]
    whole = time.process_time()
    began = time.process_time()
    seconds.append(timed(fit)[1])
    processor.append(time.process_time() - began)
    told = {"seconds": seconds, "processor": processor, "whole": whole, "compiled": spent, "types": count}
    print(json.dumps(told))


def watch_the_compiler() -> tuple[dict[str, float], dict[str, int]]:
    """Return two tables that fill while numba compiles: seconds of a function without those it calls, and its types."""
    from numba.core.compiler import CompilerBase

    spent: dict[str, float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    inner: list[float] = [0.0]
    compile_extra = CompilerBase.compile_extra

    def timed(self: Any, function: Any) -> Any:
        started = time.process_time()
        inner.append(0.0)
        try:
            return compile_extra(self, function)
        finally:
            whole = time.process_time() - started
            name = f"{function.__module__}.{function.__name__}"
            spent[name] += whole - inner.pop()
            count[name] += 1
            inner[-1] += whole

    CompilerBase.compile_extra = timed
    return spent, count


def measure(name: str, source: Path) -> tuple[dict[str, float], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        caches = {"NEARFAR_CACHE_DIR": folder, "NUMBA_CACHE_DIR": folder}
        first, second = (beside(source, "lab.engines.compile", name, **caches) for _ in range(2))
    row: dict[str, float] = {}
    for kind in ("seconds", "processor"):
        cold, warm = first[kind]
        row |= {f"cold {kind}": cold - warm, f"warm {kind}": warm, f"next {kind}": second[kind][0] - warm}
    row |= {"cold whole": first["whole"], "next whole": second["whole"]}
    return row | {"functions": len(first["compiled"]), "types": sum(first["types"].values())}, first


def run(file: ResultFile, given: Namespace) -> None:
    source = given.source or ROOT / "src"
    for name, trial in product(dict.fromkeys([*given.kernels, *given.fits]), range(given.trials)):
        key = file.new(name, trial) or {"fit": name, "trial": trial} if given.source else file.new(name, trial)
        if key:
            row, first = measure(name, source)
            if given.source:
                say(f"{name}: {row}")
            else:
                file.add({**key, **row})
            for kernel, seconds in (
                sorted(first["compiled"].items(), key=lambda item: -item[1]) if name in given.kernels else []
            ):
                print(f"  {seconds:6.2f} s  {first['types'][kernel]:2} types  {kernel}")


def told(section: Section, records: list[Record]) -> None:
    """Seconds above those of the same fit when all is compiled and loaded (of processor time in brackets). Each trial
    starts with an empty folder of machine code; imports do not count.
    """
    rows = []
    for fit, mine in groups(records, "fit"):
        first, following = middle(mine, "cold seconds") or 0, middle(mine, "next seconds") or 0
        name, _, bar = FITS[fit]
        if bar is not None:
            what = f"first fit of {name}, nothing compiled; next process"
            target = section.target(what, f"at most {bar:g} s; {NEXT_BAR} s above the warm time")
            target.tell(f"{first:.2f} s; {following:.2f} s", first <= bar and following <= NEXT_BAR)
        used = [number(middle(mine, f"{which} processor"), 2) for which in ("cold", "next")]
        count = f"{middle(mine, 'functions'):.0f} ({middle(mine, 'types'):.0f})"
        cells = [number(middle(mine, "warm seconds"), 2), f"{first:.2f} ({used[0]})", f"{following:.2f} ({used[1]})"]
        rows.append([name, len(mine), *cells, count])
    head = ["fit", "trials", "warm (s)", "first fit (s)", "next process (s)", "functions compiled (types)"]
    section.table(head, rows)


EXPERIMENT = Experiment("Cold start", run, "fit trial").takes(
    fits=tuple(FITS), trials=3, kernels=Choice((), FITS), source=Path
)

if __name__ == "__main__":
    fit_twice(sys.argv[1])
