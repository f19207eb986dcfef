"""What a new user waits for: the first fit with nothing compiled, the second in the same process, the next process.

    python benchmarks/compile.py                       every fit, three trials
    python benchmarks/compile.py --fits edrep tsne     some of them
    python benchmarks/compile.py --kernels tsne        and a line for each compiled function: how long it took
    python benchmarks/compile.py --source DIR          of another checkout's src folder; nothing is kept

Each trial has an empty folder of machine code. Seconds of a fit alone, without imports: of the clock, and of the
processor, which other work on the machine does not change.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def edrep() -> Callable[[], object]:
    import networkx as nx

    import nearfar as nf

    relation = nf.Relation.from_edges(nx.les_miserables_graph())
    model = nf.EDRep(16, random_state=0)  # imports what it is made of
    return lambda: model.fit(relation.random_walk(3))


def edrep_threads() -> Callable[[], object]:
    import nearfar as nf

    relation = nf.Relation.from_matrix(nf.datasets.dcsbm(5000, alpha=3.0, random_state=0).adjacency)
    model = nf.EDRep(16, random_state=0)
    return lambda: model.fit(relation.random_walk(3))


def tsne() -> Callable[[], object]:
    from sklearn.datasets import load_digits

    import nearfar as nf

    X = load_digits().data
    model = nf.TSNE(random_state=0)
    return lambda: model.fit(X)


def tsne_mesh() -> Callable[[], object]:
    import numpy as np

    import nearfar as nf

    X = np.random.default_rng(0).normal(size=(5000, 10))
    model = nf.TSNE(random_state=0, max_iter=100, early_exaggeration_iter=50)
    return lambda: model.fit(X)


def skipgram() -> Callable[[], object]:
    import pydoc_data.topics

    import nearfar as nf

    text = nf.Corpus(pydoc_data.topics.topics.values(), lowercase=True)
    model = nf.SkipGram(32, random_state=0)
    return lambda: model.fit(text)


FITS = {"edrep": edrep, "edrep_threads": edrep_threads, "tsne": tsne, "tsne_mesh": tsne_mesh, "skipgram": skipgram}


def fit_twice(name: str) -> None:
    """Print, as JSON, the seconds of the first and the second fit and those that each function took to compile."""
    fit = FITS[name]()
    spent, count = watch_the_compiler()
    seconds: list[float] = []
    processor: list[float] = []
    for _ in range(2):
        started, used = time.perf_counter(), time.process_time()
        fit()
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
    print(json.dumps({"seconds": seconds, "processor": processor, "compiled": dict(spent), "types": dict(count)}))


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


def in_a_process(name: str, folder: str, source: Path) -> dict[str, Any]:
    environment = {**os.environ, "NEARFAR_CACHE_DIR": folder, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": str(source)}
    command = [sys.executable, __file__, "--child", name]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", nargs="+", choices=FITS, default=list(FITS))
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--kernels", nargs="*", choices=FITS, default=[])
    parser.add_argument("--source", type=Path, help="folder that holds another nearfar/")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        fit_twice(args.child)
        return
    from _common import ResultFile, say

    file = None if args.source else ResultFile("compile", ("fit", "trial"))
    source = (args.source or HERE.parent / "src").resolve()
    for name in dict.fromkeys([*args.kernels, *args.fits]):
        rows = []
        for trial in range(args.trials):
            with tempfile.TemporaryDirectory() as folder:
                first = in_a_process(name, folder, source)
                second = in_a_process(name, folder, source)
            row: dict[str, Any] = {"fit": name, "trial": trial}
            for kind in ("seconds", "processor"):
                cold, warm = first[kind]
                row |= {f"cold {kind}": cold - warm, f"warm {kind}": warm, f"next {kind}": second[kind][0] - warm}
            row |= {"functions": len(first["compiled"]), "types": sum(first["types"].values())}
            rows.append(row)
            if file:
                file.add(row)
        median = {key: statistics.median(row[key] for row in rows) for key in rows[0] if key not in ("fit", "trial")}
        say(
            f"{name:10} first fit {median['cold seconds']:6.2f} s above the warm {median['warm seconds']:.2f} s "
            f"({median['cold processor']:.2f} s of processor time), next process {median['next seconds']:.2f} s above "
            f"({median['next processor']:.2f}); {median['functions']} functions, {median['types']} types"
        )
        if name in args.kernels:
            for kernel, seconds in sorted(first["compiled"].items(), key=lambda item: -item[1]):
                print(f"  {seconds:6.2f} s  {first['types'][kernel]:2} types  {kernel}")


if __name__ == "__main__":
    main()
