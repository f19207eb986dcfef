"""The one place where arguments are checked: what is let through comes out clean, the rest is refused by name."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals
from scipy.sparse import coo_array, csr_array

from nearfar._core import checks as _checks
from nearfar.errors import InputError, MissingDependencyError


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
def test_integers_come_out_as_python_ones(value):
    assert type(_checks.check_integer("f", "k", value, 1, 5)) is int


@pytest.mark.parametrize("value", [0, 6, 2.0, "3", None, True, np.bool_(True), np.nan])
def test_what_is_no_integer_in_the_range_is_refused(value):
    with pytest.raises(InputError, match=r"^f: k must be an integer in \[1, 5\]; got "):
        _checks.check_integer("f", "k", value, 1, 5)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.25), np.int64(1)])
def test_real_numbers_come_out_as_floats(value):
    found = _checks.check_real("f", "x", value, 0, 1, open_low=True)
    assert type(found) is float
    assert found == value


@pytest.mark.parametrize("value", [0, 1.5, np.nan, np.inf, "0.5", None, True, 1j])
def test_what_is_no_number_in_the_interval_is_refused(value):
    with pytest.raises(InputError, match=r"^f: x must be a finite number in \(0, 1\]; got "):
        _checks.check_real("f", "x", value, 0, 1, open_low=True)


test_the_interval_is_told_as_it_is = refusals(
    lambda limits: _checks.check_real("f", "x", np.nan, **limits),
    [
        ({}, "a finite number;"),
        ({"low": 0}, "a finite number >= 0;"),
        ({"low": 0, "open_low": True}, "a finite number > 0;"),
        ({"high": 1}, "a finite number <= 1;"),
        ({"high": 1, "open_high": True}, "a finite number < 1;"),
        ({"low": 0, "high": 1, "open_high": True}, r"a finite number in \[0, 1\);"),
    ],
)


def test_choices_and_flags():
    assert _checks.check_choice("f", "far", "exact", ("exact", "noise")) == "exact"
    assert _checks.check_flag("f", "directed", np.bool_(False)) is False
    for wrong in ("Exact", None, 1, ["exact"]):
        with pytest.raises(InputError, match=r"^f: far must be one of 'exact', 'noise'; got "):
            _checks.check_choice("f", "far", wrong, ("exact", "noise"))
    for wrong in (0, "yes", None):
        with pytest.raises(InputError, match=r"^f: directed must be True or False; got "):
            _checks.check_flag("f", "directed", wrong)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_that_fits_is_not_copied(dtype):
    X = np.ones((3, 2), dtype=dtype)
    assert _checks.check_matrix("f", "X", X, rows=3, columns=2) is X


@pytest.mark.parametrize("value", [[[1, 2], [3, 4]], np.ones((2, 2), np.int64), np.ones((2, 2), np.float16)])
def test_other_matrices_become_float32(value):
    found = _checks.check_matrix("f", "X", value)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous


test_what_is_no_such_matrix_is_refused = refusals(
    lambda value: _checks.check_matrix("f", "X", value, columns=2, rows=5),
    [
        (np.ones(3), r"two-dimensional; got 1 dimension\(s\), shape \(3,\)"),
        ([[1, 2], [3]], "a matrix of numbers; got list"),
        ([["1", "2"]], "a matrix of numbers; got list"),
        (np.ones((5, 2), complex), "a matrix of numbers; got ndarray"),
        (np.ones((5, 2), "datetime64[s]"), "a matrix of numbers; got ndarray"),
        (np.full((5, 2), "one", dtype=object), "a matrix of numbers; got ndarray"),
        (np.ones((5, 3)), r"of 2 columns; got 3 \(shape \(5, 3\)\)"),
        (np.ones((4, 2)), r"of 5 rows; got 4 \(shape \(4, 2\)\)"),
    ],
    "^f: X must be {}",
)


def test_of_what_holds_more_than_rows_is_said_what_to_give():
    import networkx as nx

    import nearfar as nf

    named = nx.les_miserables_graph()
    for graph in (named, nx.karate_club_graph(), nf.Relation.from_edges(named), nf.datasets.dcsbm(50, alpha=2.0)):
        for use in (nf.MDS().fit, nf.Affinities(5).fit, nf.Embedding):
            with pytest.raises(InputError, match=r"a matrix of numbers; got \w+\. Graphs and relations go to EDRep"):
                use(graph)
    cells = type("AnnData", (), {"obsm": {"X_pca": np.eye(3)}, "obs_names": list("abc")})()
    with pytest.raises(InputError, match=r"got AnnData\. Give one of its matrices, such as obsm\['X_pca'\]"):
        nf.log_normalizers(cells)
    frame = pd.DataFrame({"obsm": [1.0, 2.0], "adjacency": [3.0, 4.0]})
    assert nf.Embedding(frame).shape == (2, 2)


@given(st.sets(st.integers(0, 30), min_size=1), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_the_first_rows_that_are_not_finite_are_told(rows, bad):
    X = np.zeros((31, 3))
    X[sorted(rows), 1] = bad
    with pytest.raises(InputError) as caught:
        _checks.check_matrix("f", "X", X)
    assert f"in {len(rows)} row(s), first {sorted(rows)[:5]}" in str(caught.value)


def test_a_sparse_matrix_is_made_of_rows_and_not_copied():
    given_rows = csr_array(np.arange(6.0).reshape(3, 2))
    found = _checks.check_sparse("f", "X", given_rows, columns=2)
    assert np.shares_memory(found.data, given_rows.data)
    by_columns = coo_array(np.arange(6).reshape(3, 2))
    np.testing.assert_array_equal(_checks.check_sparse("f", "X", by_columns).toarray(), by_columns.toarray())


def test_what_is_no_such_sparse_matrix_is_refused():
    holes = csr_array(np.array([[1.0, 0.0], [0.0, np.nan], [0.0, 0.0], [np.inf, np.nan]]))
    with pytest.raises(InputError, match=r"^f: X must be finite; got NaN or infinity in 2 row\(s\), first \[1, 3\]"):
        _checks.check_sparse("f", "X", holes)
    with pytest.raises(InputError, match=r"^f: X must be of 3 columns; got 2"):
        _checks.check_sparse("f", "X", csr_array(np.eye(2)), columns=3)
    with pytest.raises(InputError, match=r"^f: X must be a matrix of numbers; got entries of type complex128"):
        _checks.check_sparse("f", "X", csr_array(np.eye(2) * 1j))


def test_callbacks():
    assert _checks.check_callbacks("f", None) == ()
    assert _checks.check_callbacks("f", iter([print, len])) == (print, len)
    for wrong in (print, 3, "stop", [None]):
        with pytest.raises(InputError, match=r"^f: callbacks must be a sequence of callables; got"):
            _checks.check_callbacks("f", wrong)


def test_random_states():
    first = _checks.check_random_state("f", 5).random(3)
    np.testing.assert_array_equal(_checks.check_random_state("f", np.int64(5)).random(3), first)
    generator = np.random.default_rng(1)
    assert _checks.check_random_state("f", generator) is generator
    old = [_checks.check_random_state("f", np.random.RandomState(2)).random() for _ in range(2)]
    assert old[0] == old[1]
    assert _checks.check_random_state("f", None).random() != _checks.check_random_state("f", None).random()
    for wrong in (-1, 1.5, "seed"):
        with pytest.raises(InputError, match=r"^f: random_state must be an integer >= 0; got "):
            _checks.check_random_state("f", wrong)


def test_numbers_of_workers():
    assert _checks.check_n_jobs("f", None) == _checks.check_n_jobs("f", -1) == _checks.available_processors() >= 1
    assert _checks.check_n_jobs("f", 3) == 3
    for wrong in (0, -2, 1.5):
        with pytest.raises(InputError, match=r"^f: n_jobs must be an integer >= 1; got "):
            _checks.check_n_jobs("f", wrong)


def test_paths(tmp_path):
    assert _checks.check_path("f", "path", str(tmp_path)) == tmp_path
    for url in ("s3://bucket/nodes", "memory://nodes", "file:///tmp/nodes", "gs://bucket/vectors.npz"):
        with pytest.raises(InputError, match=f"path must be a path, not a URL; got '{url}'. Mount the store"):
            _checks.check_path("f", "path", url)
    assert _checks.check_path("f", "path", "a folder//b").name == "b"
    with pytest.raises(InputError, match="path must be a path; got 3"):
        _checks.check_path("f", "path", 3)
    with pytest.raises(InputError, match=r"a file that exists; got .*no such file"):
        _checks.check_path("f", "path", tmp_path / "nothing", exists=True)
    with pytest.raises(InputError, match=r"a file that exists; got .*a folder"):
        _checks.check_path("f", "path", tmp_path, exists=True)


def test_an_optional_package_that_is_missing_says_how_to_get_it():
    with pytest.raises(MissingDependencyError, match=r"f needs no_such_package.*pip install 'nearfar\[plot\]'"):
        _checks.require("f", "no_such_package.part", "plot")
    assert _checks.require("f", "math", "plot").pi > 3
