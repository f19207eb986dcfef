"""Blocks on threads: every block once, errors come through, forks and settings are left alone."""

import multiprocessing
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearfar._core import threads as _parallel
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas

N_JOBS = [1, 2, 5]


def squares(n: int, n_jobs: int, block: int = 7) -> np.ndarray:
    """Square 0 .. n - 1 block by block."""
    out = np.full(n, -1, dtype=np.int64)

    def task(_block: int, start: int, stop: int) -> None:
        out[start:stop] = np.arange(start, stop) ** 2

    run_blocks(task, even_bounds(n, block), n_jobs)
    return out


@given(st.integers(0, 300), st.integers(1, 40))
def test_even_bounds_cover_the_range_once(n, block):
    bounds = even_bounds(n, block)
    assert bounds[0] == 0
    assert bounds[-1] == n
    sizes = np.diff(bounds)
    assert (sizes > 0).all()
    assert (sizes <= block).all()
    assert n == 0 or sizes.max() - sizes.min() <= 1
    assert sizes.size <= 4 or sizes.size % 16 == 0 or sizes.size == n


@pytest.mark.parametrize("n_jobs", N_JOBS)
@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_every_block_is_done_once(n, n_jobs):
    assert (squares(n, n_jobs) == np.arange(n) ** 2).all()


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_blocks_may_be_uneven_and_empty(n_jobs):
    seen = []
    run_blocks(lambda *block: seen.append(block), [3, 3, 10, 11], n_jobs)
    assert sorted(seen) == [(0, 3, 3), (1, 3, 10), (2, 10, 11)]
    assert all(type(value) is int for block in seen for value in block)


def test_two_workers_do_work_at_the_same_time():
    both = threading.Barrier(2, timeout=120)
    run_blocks(lambda *_: both.wait(), [0, 1, 2], 2)


@pytest.mark.parametrize("n_jobs", N_JOBS)
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_comes_through_and_stops_the_hand_out(kind, n_jobs):
    done = []

    def task(block: int, start: int, stop: int) -> None:
        if block == 3:
            raise kind("block 3")
        time.sleep(0.001)
        done.append(block)

    with pytest.raises(kind, match="block 3"):
        run_blocks(task, range(1001), n_jobs)
    assert len(done) < 1000
    assert (squares(50, n_jobs) == np.arange(50) ** 2).all()  # the pool is as good as before


def test_an_exception_of_a_worker_that_is_not_the_caller_comes_through():
    caller = threading.get_ident()
    both = threading.Barrier(2, timeout=120)

    def task(*_: int) -> None:
        both.wait()
        if threading.get_ident() != caller:
            raise RuntimeError("from the other thread")

    with pytest.raises(RuntimeError, match="from the other thread"):
        run_blocks(task, [0, 1, 2], 2)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_waiting_leaves_nobody_at_work():
    caller, at_work, begun, finished = threading.get_ident(), threading.Event(), [], []

    def task(*_: int) -> None:
        if threading.get_ident() == caller:
            at_work.wait(10)
            return
        begun.append(True)  # twice, where the caller is so late that both blocks are gone
        at_work.set()
        time.sleep(0.3)
        signal.pthread_kill(caller, signal.SIGINT)  # the caller has no block left and waits
        time.sleep(0.2)
        finished.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_blocks(task, [0, 1, 2], 2)
    assert begun
    assert finished == begun


def test_several_python_threads_at_once():
    with ThreadPoolExecutor(6) as users:
        results = list(users.map(lambda n: squares(n, n_jobs=1 + n % 4, block=3), range(60, 120)))
    for n, result in zip(range(60, 120), results, strict=True):
        assert (result == np.arange(n) ** 2).all()


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_a_task_may_itself_run_blocks(n_jobs):
    inner = [None] * 8
    run_blocks(lambda block, *_: inner.__setitem__(block, squares(40, n_jobs).sum()), range(9), n_jobs)
    assert inner == [sum(i * i for i in range(40))] * 8


def _squares_into(queue, n_jobs):
    queue.put(squares(100, n_jobs).sum())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_while_blocks_are_handed_out_works():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            squares(50, 3)

    busy = [threading.Thread(target=keep_busy) for _ in range(2)]
    for thread in busy:
        thread.start()
    try:
        children = [context.Process(target=_squares_into, args=(queue, 2)) for _ in range(2)]
        for child in children:
            child.start()
        for _ in children:
            assert queue.get(timeout=120) == sum(i * i for i in range(100))
    finally:
        stop.set()
        for thread in busy:
            thread.join()
    for child in children:
        child.join(timeout=120)
        assert child.exitcode == 0


def _limited_into(queue):
    with _parallel.single_threaded_blas():
        queue.put("done")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_while_the_limit_of_blas_is_being_set_works():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with _parallel._blas_lock:
        child = context.Process(target=_limited_into, args=(queue,))
        child.start()
    try:
        assert queue.get(timeout=120) == "done"
    finally:
        child.kill()
        child.join(timeout=120)


@pytest.fixture
def two_blas_threads():
    """BLAS has two threads, whatever the environment of the test run allows it."""
    from threadpoolctl import threadpool_limits

    np.ones((2, 2)) @ np.ones((2, 2))  # loads it
    with threadpool_limits(2, user_api="blas"):
        yield


def blas_threads() -> list[int]:
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    # One that runs on OpenMP (an optional package may bring it) has a setting for each thread, none for the process.
    shared = [lib for lib in threadpool_info() if lib["user_api"] == "blas" and lib.get("threading_layer") != "openmp"]
    return [library["num_threads"] for library in shared]


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_is_held_to_one_thread_and_let_go():
    before = blas_threads()
    assert before
    assert set(before) == {2}
    with single_threaded_blas():
        assert set(blas_threads()) == {1}
        with single_threaded_blas():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_is_let_go_after_an_error():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError), single_threaded_blas():
        1 / 0  # noqa: B018
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_overlapping_users_of_blas_restore_it_once_at_the_end():
    before = blas_threads()
    first_inside, second_inside, first_out = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def first() -> None:
        with single_threaded_blas():
            first_inside.set()
            second_inside.wait(10)
        first_out.set()

    def second() -> None:
        first_inside.wait(10)
        with single_threaded_blas():
            second_inside.set()
            first_out.wait(10)
            seen.append(set(blas_threads()))

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == [{1}]  # the first one left, the second was still inside
    assert blas_threads() == before
