"""Time and memory of a task, in this process or in one of its own."""

from __future__ import annotations

import ctypes
import gc
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def say(text: str) -> None:
    """Print with the time of day, at once."""
    print(f"{datetime.now().strftime('%H:%M:%S')}  {text}", flush=True)


def timed(task: Callable[..., T], *given: Any, **named: Any) -> tuple[T, float]:
    """Run a task with an empty garbage bin; return its result and the seconds it took."""
    gc.collect()
    start = time.perf_counter()
    result = task(*given, **named)
    return result, time.perf_counter() - start


def cpu_timed(task: Callable[..., T], *given: Any, **named: Any) -> tuple[T, float]:
    """Run a task; return its result and the processor seconds of all its threads."""
    gc.collect()
    start = time.process_time()
    result = task(*given, **named)
    return result, time.process_time() - start


def measured(task: Callable[..., T], *given: Any, **named: Any) -> tuple[T, float, int]:
    """Run a task; return its result, its seconds, and how far the memory of the process rose meanwhile, bytes."""
    reset_peak_memory()
    before = resident_memory()
    result, seconds = timed(task, *given, **named)
    return result, seconds, peak_memory() - before


def alone(task: Callable[..., T], *given: Any) -> T:
    """Run a function of a module in a process of its own, which begins anew, and return what it returns."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(task, *given).result()


def beside(source: Path, *words: str, **variables: str) -> Any:
    """Run a module of the lab with the nearfar of a source folder; return what its last line says as JSON."""
    path = os.pathsep.join([str(source.resolve()), str(Path(__file__).absolute().parent.parent)])
    environment = {**os.environ, **variables, "PYTHONPATH": path}
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, cwd="/")
    return json.loads(done.stdout.splitlines()[-1])


def status(field: str) -> int:
    """Return a size of this process from /proc/self/status in bytes; 0 where the system does not tell."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(field))) * 1024
    return 0


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
    scale = 1 if sys.platform == "darwin" else 1024
    return status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def resident_memory() -> int:
    """Return the resident memory of this process in bytes."""
    return status("VmRSS")


class Peak:
    """The peak of anonymous memory, sampled from a thread, above what there was at the start; in MB."""

    def __init__(self) -> None:
        self._start, self._highest, self._done = status("RssAnon"), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self._highest = max(self._highest, status("RssAnon"))

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def megabytes(self) -> float:
        return max(0, self._highest - self._start) / 1e6
