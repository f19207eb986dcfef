"""Running compiled kernels on several threads, without numba's threading layers.

Kernels are compiled with ``nogil=True`` and work on a range of rows; here the ranges are handed out to plain Python
threads. So any number of user threads may compute at once, a forked child works (its pool is made anew), and nobody's
numba settings are touched. The ranges depend on the data alone, never on the number of workers: what is computed per
range and added up in order is the same bit for bit on one worker and on many.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

_pool: ThreadPoolExecutor | None = None
_pool_owner: tuple[int, int] = (0, 0)  # process id, number of threads
_lock = threading.Lock()


def run_blocks(task: Callable[[int, int, int], object], bounds: Sequence[int] | NDArray[np.int64], n_jobs: int) -> None:
    """Call ``task(block, start, stop)`` for every block, on ``n_jobs`` threads.

    Block ``b`` is the range ``[bounds[b], bounds[b + 1])``. Idle workers take the next block, so blocks of unequal cost
    are balanced. The first exception stops the hand-out, is raised here when all workers have stopped.
    """
    n_blocks = len(bounds) - 1
    counter = itertools.count()  # next() on it is atomic
    failed = threading.Event()

    def work() -> None:
        while not failed.is_set():
            block = next(counter)
            if block >= n_blocks:
                return
            try:
                task(block, int(bounds[block]), int(bounds[block + 1]))
            except BaseException:
                failed.set()
                raise

    n_workers = min(n_jobs, n_blocks)
    if n_workers <= 1:
        work()
        return
    others = [_workers(n_jobs - 1).submit(work) for _ in range(n_workers - 1)]
    try:
        work()
    finally:
        errors = _wait(others, failed)
    for error in errors:
        if error is not None:
            raise error


def _wait(others: Sequence[Future[None]], failed: threading.Event) -> list[BaseException | None]:
    try:
        # One that never started (the pool was busy with another fit) is not waited for: no block is left for it.
        return [future.exception() for future in others if not future.cancel()]
    except BaseException:  # Ctrl-C while waiting: nobody may write into the arrays after the caller has been left
        failed.set()
        _wait(others, failed)
        raise


def even_bounds(n: int, block: int) -> NDArray[np.int64]:
    """Cut ``range(n)`` into equal blocks of at most ``block`` rows; an empty range has no block.

    From five blocks on there are a multiple of 16, so that 2, 4, 8 or 16 workers have equally much to do.
    """
    count = -(-n // block)
    if count > 4:
        count = min(16 * -(-count // 16), n)
    return np.arange(count + 1, dtype=np.int64) * n // max(count, 1)


def _workers(n_threads: int) -> ThreadPoolExecutor:
    global _pool, _pool_owner
    with _lock:
        pid, size = _pool_owner
        if _pool is None or pid != os.getpid() or size < n_threads:
            # A pool inherited through fork has no threads; one that is too small is left to finish its own work.
            _pool = ThreadPoolExecutor(n_threads, thread_name_prefix="nearfar")
            _pool_owner = (os.getpid(), n_threads)
        return _pool


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it at the moment of the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class _BlasLimit:
    """Counts who needs single-threaded BLAS, so that overlapping users restore the setting once, at the end."""

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._limiter: object | None = None

    def enter(self) -> None:
        from threadpoolctl import threadpool_limits

        with self._lock:
            self._users += 1
            if self._users == 1:
                _release_openblas()
                self._limiter = threadpool_limits(limits=1, user_api="blas")

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._limiter is not None:
                _release_openblas()
                self._limiter.restore_original_limits()  # type: ignore[attr-defined]
                self._limiter = None
                _release_openblas()


def _release_openblas() -> None:
    """Let this thread set OpenBLAS's limit: newer threadpoolctl keeps it to one thread, the others' calls do nothing.

    Here one thread may set the limit and another one, the last to leave, take it back.
    """
    import threadpoolctl

    release = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if release is not None:
        release(force=True)


_blas_limit = _BlasLimit()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread while kernels run on all processors; nested and concurrent uses are counted."""
    _blas_limit.enter()
    try:
        yield
    finally:
        _blas_limit.leave()
