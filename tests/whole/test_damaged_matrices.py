"""A sparse matrix whose arrays do not fit its shape is refused by everything that takes one; none ends the process."""

import tracemalloc

import hazards
import numpy as np
import pytest
import scipy.sparse as sp
import sparse_entries

import nearfar as nf
from nearfar._core.checks import check_csr
from nearfar.errors import InputError


@pytest.fixture(scope="module")
def outcomes():
    """What each entry raised for each fault."""
    return hazards.outcomes("sparse_entries")


@pytest.mark.parametrize("fault", sparse_entries.FAULTS)
def test_altered_arrays_are_refused_wherever_a_sparse_matrix_enters(outcomes, fault):
    cases = {name: raised for name, raised in outcomes.items() if name.endswith(f": {fault}")}
    assert len(cases) >= 18
    wrong = {name: raised for name, raised in cases.items() if not raised.startswith("InputError")}
    assert not wrong
    assert all("must be a" in raised and "; got " in raised for raised in cases.values())


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_sound_matrices_of_each_format_come_through(form, make, rng):
    dense = rng.random((6, 4)) * (rng.random((6, 4)) < 0.5)
    given = make(dense).asformat(form)
    found = check_csr("f", "A", given)
    assert found.format == "csr"
    np.testing.assert_array_equal(found.toarray(), dense)
    np.testing.assert_array_equal(given.toarray(), dense)


def test_empty_matrices_and_spare_room_behind_the_entries_come_through():
    for shape in [(0, 0), (0, 3), (3, 0), (2, 2)]:
        assert check_csr("f", "A", sp.csr_array(shape)).shape == shape
        assert check_csr("f", "A", sp.coo_array(shape)).shape == shape
    roomy = sp.csr_array(np.eye(3))
    roomy.indices, roomy.data = np.append(roomy.indices, 99), np.append(roomy.data, 1)
    np.testing.assert_array_equal(check_csr("f", "A", roomy).toarray(), np.eye(3))
    assert len(roomy.data) == 4  # the caller's matrix is as it was


def test_the_matrix_of_the_caller_is_not_changed(rng):
    given = sp.csr_array(([1.0, 2.0, 0.0, 3.0], [2, 0, 1, 1], [0, 3, 4]), shape=(2, 3))
    before = given.data.copy(), given.indices.copy(), given.indptr.copy()
    nf.Relation.from_matrix(given)
    for now, then in zip((given.data, given.indices, given.indptr), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("shape", [(2, 2**31), (2**31, 2)])
def test_more_rows_or_columns_than_fit_32_bits_are_refused(shape):
    far = sp.coo_array(([1.0, 1.0], ([0, shape[0] - 1], [1, shape[1] - 1])), shape=shape)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"^Relation.from_matrix: A must be of at most 2147483647 rows and columns; "):
        nf.Relation.from_matrix(far)
    assert tracemalloc.get_traced_memory()[1] < 1e6  # and nothing is made of that size
    tracemalloc.stop()
