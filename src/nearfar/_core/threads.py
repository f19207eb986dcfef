"""Running compiled kernels on several threads, without numba's threading layers.

Kernels are compiled with ``nogil=True`` and work on a range of rows; here the ranges are handed out to plain Python
threads. So any number of user threads may compute at once, a forked child works (its pool is made anew), and nobody's
numba settings are touched. The ranges depend on the data alone, never on the number of workers: what is computed per
range and added up in order is the same bit for bit on one worker and on many.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from nearfar._core.types import Doubles, Longs

Answer = TypeVar("Answer")


def run_blocks(task: Callable[[int, int, int], Answer], bounds: Sequence[int] | Longs, n_jobs: int) -> list[Answer]:
    """Call ``task(block, start, stop)`` for every block, on ``n_jobs`` threads; return the answers, in order.

    Block ``b`` is the range ``[bounds[b], bounds[b + 1])``. Idle workers take the next block, so blocks of unequal cost
    are balanced. The first exception stops the hand-out, is raised here when all workers have stopped.
    """
    global _n_threads
    limits = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
    if n_jobs == 1 or len(limits) <= 2:
        return [task(block, limits[block], limits[block + 1]) for block in range(len(limits) - 1)]
    answers: dict[int, Answer] = {}
    blocks = iter(range(len(limits) - 1))  # shared by the workers; next() on it is atomic
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for block in blocks:
                if errors:
                    return
                answers[block] = task(block, limits[block], limits[block + 1])
        except BaseException as error:
            errors.append(error)

    helpers = [_Helper(work) for _ in range(min(n_jobs, len(limits) - 1) - 1)]
    with _lock:
        while _n_threads < len(helpers):  # their number grows with the demand
            threading.Thread(target=_serve, args=(_parts,), name=f"nearfar_{_n_threads}", daemon=True).start()
            _n_threads += 1
    for helper in helpers:
        _parts.put(helper)
    work()
    while helpers:
        try:
            helpers[-1].run()  # if the pool was busy with another fit no thread has begun with it, and no block is left
            with helpers[-1].ended:
                pass
            helpers.pop()
        except BaseException as error:  # Ctrl-C: no thread may write into the arrays after this function has returned
            errors.append(error)
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # its traceback refers to this list, which would keep the arrays alive
    return [answers[block] for block in range(len(limits) - 1)]


def run_rows(task: Callable[[int, int], object], bounds: Sequence[int] | Longs, n_jobs: int) -> None:
    """Call ``task(start, stop)`` for every block, which need not know its number."""
    run_blocks(lambda _, start, stop: task(start, stop), bounds, n_jobs)


class _Helper:
    """The part of another thread in the work; cheaper than a Future, which takes as long as a small block."""

    __slots__ = ("_begun", "_work", "ended")

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._begun = work, threading.Lock()
        self.ended = threading.Lock()  # which is free when the part is done
        self.ended.acquire()

    def run(self) -> None:
        """Do the part, unless another thread has begun with it."""
        if self._begun.acquire(blocking=False):
            try:
                self._work()
            finally:
                self.ended.release()


def _serve(parts: SimpleQueue[_Helper]) -> None:
    while True:
        parts.get().run()  # no name for the part: it would keep its arrays alive


# The pool: threads that wait for parts.
_parts = SimpleQueue[_Helper]()
_n_threads = 0
_lock = threading.Lock()


def even_bounds(n: int, block: int) -> Longs:
    """Cut ``range(n)`` into equal blocks of at most ``block`` rows; an empty range has no block.

    From five blocks on there are a multiple of 16, so that 2, 4, 8 or 16 workers have equally much to do.
    """
    count = -(-n // block)
    if count > 4:
        count = min(16 * -(-count // 16), n)
    return np.arange(count + 1, dtype=np.int64) * n // max(count, 1)


# Who needs single-threaded BLAS is counted, so that overlapping users restore the setting once, at the end.
_blas_lock = threading.Lock()
_blas_users = 0
_blas_limiter: Any = None


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread while kernels run on all processors; nested and concurrent uses are counted."""
    global _blas_users, _blas_limiter
    import threadpoolctl

    # Newer threadpoolctl lets only one thread set OpenBLAS's limit and ignores the others. Here one thread may set the
    # limit and another one, the last to leave, take it back.
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    release = getattr(openblas, "clear_controlling_thread", lambda **_: None)
    with _blas_lock:
        _blas_users += 1
        if _blas_users == 1:
            release(force=True)
            _blas_limiter = _controller(len(sys.modules)).limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0 and _blas_limiter is not None:
                release(force=True)
                _blas_limiter.restore_original_limits()
                _blas_limiter = None
                release(force=True)


@lru_cache(maxsize=1)
def _controller(_n_modules: int) -> Any:
    """Find the BLAS libraries of this process: 10 ms where torch is loaded, so not again before one may be added."""
    import threadpoolctl

    return threadpoolctl.ThreadpoolController()


def _after_fork_in_child() -> None:
    # Another thread may have held a lock; it has stayed in the parent, like those of the pool. The users of BLAS stay
    # counted, since the forking thread may be one of them.
    global _lock, _parts, _n_threads, _blas_lock
    _lock, _parts, _n_threads, _blas_lock = threading.Lock(), SimpleQueue(), 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


SUM_BLOCK = 4096
"""Rows that one BLAS call of a sum takes: long enough for speed, and 4096 x 32 float32 still fit the L2 cache."""


def ordered_sum(n: int, size: int, add: Callable[[int, int, Doubles], object], n_jobs: int) -> Doubles:
    """Sum over row blocks on several threads, with the same bits for any number of them.

    Parameters
    ----------
    n : int
        Number of rows.
    size : int
        Length of the sum.
    add : callable
        ``add(start, stop, total)`` adds the part of rows ``start`` to ``stop`` to ``total``, shape (size,).
    n_jobs : int
        Number of threads.

    Returns
    -------
    ndarray of float64, shape (size,)
    """
    # Which rows share a partial sum follows from n and size alone; all partial sums together stay under 128 MiB,
    # or four of them where a single one is larger than a quarter of that.
    n_parts = min(64, max(4, 2**24 // max(size, 1)))
    bounds = even_bounds(n, max(SUM_BLOCK, -(-n // n_parts)))
    partial = np.zeros((len(bounds) - 1, size))

    def task(part: int, start: int, stop: int) -> None:
        for first in range(start, stop, SUM_BLOCK):
            add(first, min(first + SUM_BLOCK, stop), partial[part])

    with single_threaded_blas():
        run_blocks(task, bounds, n_jobs)
    total = np.zeros(size)
    for part in partial:
        total += part
    return total
