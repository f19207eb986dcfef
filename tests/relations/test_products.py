"""The products of a relation below its interface: any width, any placement in memory, NaN where it matters."""

import gc
import weakref

import numpy as np
import pytest

import nearfar as nf
from nearfar._core.vector import CACHE_LINE, empty_aligned
from nearfar.relations.operators import ThreadProducts, times

pytestmark = pytest.mark.usefixtures("products")


@pytest.fixture(scope="module")
def matrix():
    return nf.datasets.dcsbm(700, alpha=2.0, random_state=0).relation.to_scipy()


@pytest.fixture
def relation(matrix):
    return nf.Relation.from_matrix(matrix)


def test_rows_of_any_width(relation, rng):
    for d in (0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 131):
        for dtype in (np.float32, np.float64):
            X = rng.standard_normal((relation.shape[1], d)).astype(dtype)
            out = relation @ X
            assert out.dtype == dtype
            np.testing.assert_allclose(out, relation.to_scipy() @ X, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("offset", [0, 4, 16, 60])
def test_rows_anywhere_in_memory_give_the_same_bits(relation, offset, rng):
    X = rng.standard_normal((relation.shape[1], 37), dtype=np.float32)
    raw = empty_aligned((X.nbytes + CACHE_LINE,), np.uint8)
    placed = raw[offset : offset + X.nbytes].view(np.float32).reshape(X.shape)
    placed[:] = X
    np.testing.assert_array_equal(relation @ placed, relation @ X)


@pytest.mark.parametrize(("shape", "dtype"), [((7, 3), np.float64), ((0, 5), np.float32), ((1000, 32), np.float32)])
def test_an_aligned_array_begins_with_a_cache_line(shape, dtype):
    array = empty_aligned(shape, dtype)
    assert (array.shape, array.dtype) == (shape, dtype)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.size == 0 or array.ctypes.data % CACHE_LINE == 0


@pytest.fixture
def A():
    return nf.Relation.from_edges([("a", "b"), ("b", "c"), ("d", "b")], directed=True)


@pytest.mark.parametrize(("d", "value"), [(1, np.nan), (3, np.inf), (70, -np.inf), (3, np.nan)])
@pytest.mark.parametrize(
    "made",
    [
        lambda A: A,
        lambda A: A.normalized(),
        lambda A: A.random_walk(3),
        lambda A: A + 2.0 * A,
        lambda A: (A @ A.T).normalized(),
        lambda A: A.T,
    ],
    ids=["sparse", "scaled rows", "walk", "sum", "scaled product", "transposed"],
)
def test_what_is_not_finite_is_refused_where_something_is_related_to_it(A, made, value, d):
    rel = made(A)
    for multiplied, sums in ((rel.matmat, rel.column_sums), (rel.rmatmat, rel.row_sums)):
        for row in range(4):
            X = np.ones((4, d), np.float32)
            X[row, d // 2] = value
            if sums[row] > 0:
                with pytest.raises(nf.errors.InputError, match=rf"NaN or infinity in 1 row, first \[{row}\]"):
                    multiplied(X)


def test_what_nobody_is_related_to_does_not_matter(A):
    X = np.ones((4, 2), np.float32)
    X[A.column_ids.get("d")] = np.nan  # d is related to b, nobody to d
    np.testing.assert_array_equal(A @ X, A @ np.ones((4, 2)))


def test_large_numbers_may_overflow(A):
    X = np.full((4, 2), 3e38, np.float32)
    assert np.isinf((2.0 * A) @ X).any()
    assert (A.matmat(X)[:3] == np.array([[3e38], [3e38], [0]], np.float32)).all()


@pytest.mark.parametrize("steps", [1, 3])
def test_sums_that_are_carried_over_are_those_of_what_is_left(steps):
    graph = nf.datasets.dcsbm(900, alpha=2.0, random_state=1)
    walk = graph.relation.random_walk(steps)
    assert walk.isolates.size > 50  # which asks for both sums
    carried, fresh = (walk.operator.without(walk.isolates) for _ in range(2))
    for name in ("row_sums", "column_sums"):
        fresh.__dict__.pop(name, None)
        np.testing.assert_array_equal(getattr(carried, name), getattr(fresh, name))


def test_the_memory_of_results_in_between_goes_with_the_engine():
    gc.disable()  # it goes at once, or each product would ask the system for more
    try:
        engine, A = ThreadProducts(), nf.Relation.from_edges([("a", "b"), ("b", "c")]).random_walk(3).operator
        times(A, engine, np.ones((3, 2)))
        kept = [weakref.ref(engine), *(weakref.ref(block) for free in engine._free.values() for block in free)]
        assert len(kept) > 1
        del engine
        assert {one() for one in kept} == {None}
    finally:
        gc.enable()


def test_a_product_says_where_its_result_is_not_finite(A):
    X = np.ones((4, 2), np.float32)
    out = np.empty_like(X)
    for overflown in ([], [0]):
        threads = ThreadProducts(1, out)
        times(A.operator, threads, X, out=out)
        assert threads.overflown == overflown
        X[1] = np.nan
