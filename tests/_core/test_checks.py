"""The one place where arguments are checked: what is let through comes out clean, the rest is refused by name."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import Made, With, refused
from scipy.sparse import coo_array, csr_array

import nearfar as nf
from nearfar._core import checks
from nearfar.errors import InputError, MissingDependencyError, counted

HOLES = csr_array(np.array([[1.0, 0.0], [0.0, np.nan], [0.0, 0.0], [np.inf, np.nan]]))
MASKED = np.ma.masked_array(np.ones((9, 2)), np.arange(18).reshape(9, 2) % 8 == 7)
GRAPH = nx.les_miserables_graph()
CELLS = type("AnnData", (), {"obsm": {"X_pca": np.eye(3)}, "obs_names": list("abc")})()
URLS = ("s3://bucket/nodes", "memory://nodes", "file:///tmp/nodes", "gs://bucket/vectors.npz")
INTERVALS = {
    "a finite number;": {},
    "a finite number >= 0;": {"low": 0},
    "a finite number > 0;": {"low": 0, "open_low": True},
    "a finite number <= 1;": {"high": 1},
    "a finite number < 1;": {"high": 1, "open_high": True},
    "a finite number in [0, 1);": {"low": 0, "high": 1, "open_high": True},
}


def named(check, name, *arguments, **options):
    """Return the door of a check of an argument of this name."""
    return lambda **given: check("f", name, given.pop(name), *arguments, **options | given)


DOORS = {
    "integer": named(checks.check_integer, "k", 1, 5),
    "real": named(checks.check_real, "x", 0, 1, open_low=True),
    "any real": named(checks.check_real, "x"),
    "choice": named(checks.check_choice, "far", ("exact", "noise")),
    "flag": named(checks.check_flag, "directed"),
    "numbers": named(checks.check_numbers, "X"),
    "matrix": named(checks.check_matrix, "X"),
    "5 x 2": named(checks.check_matrix, "X", columns=2, rows=5),
    "sparse": named(checks.check_sparse, "X"),
    "callbacks": lambda callbacks: checks.check_callbacks("f", callbacks),
    "seed": lambda random_state: checks.check_random_state("f", random_state),
    "workers": lambda n_jobs: checks.check_n_jobs("f", n_jobs),
    "path": named(checks.check_path, "path"),
    "file": named(checks.check_path, "path", exists=True),
}
NO_INTEGERS, NO_NUMBERS = (
    [0, 6, 2.0, "3", None, True, np.bool_(True), np.nan],
    [0, 1.5, np.nan, np.inf, "0.5", True, 1j],
)

test_refusals = refused(
    DOORS,
    [
        *(("integer", "k", wrong, InputError, "f: k must be an integer in [1, 5]; got ") for wrong in NO_INTEGERS),
        *(("real", "x", wrong, InputError, "f: x must be a finite number in (0, 1]; got ") for wrong in NO_NUMBERS),
        *(("any real", "x", With(x=np.nan, **limits), InputError, told) for told, limits in INTERVALS.items()),
        *(("choice", "far", bad, InputError, "one of 'exact', 'noise'; got ") for bad in ("Exact", None, 1, ["exact"])),
        *(("flag", "directed", wrong, InputError, "True or False; got ") for wrong in (0, "yes", None)),
        ("numbers", "X", MASKED, InputError, "got masked entries in 2 rows, first [3, 7]"),
        ("numbers", "X", [MASKED[3], MASKED[4]], InputError, "got masked entries in 1 row, first [0]"),
        ("numbers", "X", np.eye(2) * 1j, InputError, "an array of numbers; got ndarray (Complex data not supported"),
        ("numbers", "X", np.array([[1j, 2]], object), InputError, "got ndarray (Complex data not supported"),
        ("numbers", "X", np.array([["1", 2]], object), InputError, "got ndarray (the text '1' among the entries"),
        ("numbers", "X", [[10**400]], InputError, "an array of numbers; got list (int too large"),
        ("numbers", "X", np.zeros(3, "M8[D]"), InputError, "got ndarray (entries of type datetime64"),
        ("numbers", "X", np.zeros(3, [("a", "f4")]), InputError, "got ndarray (entries of type"),
        ("numbers", "X", csr_array(np.eye(3)), InputError, "an array of numbers; got csr_array. ", "X.toarray()"),
        ("matrix", "X", np.ones(3), InputError, "two-dimensional; got 1 dimension, shape (3,)"),
        ("matrix", "X", [[1, 2], [3]], InputError, "a matrix of numbers; got list"),
        ("matrix", "X", [["1", "2"]], InputError, "a matrix of numbers; got list"),
        ("5 x 2", "X", np.ones((5, 3)), InputError, "of 2 columns; got 3 (shape (5, 3))"),
        ("5 x 2", "X", np.ones((4, 2)), InputError, "of 5 rows; got 4 (shape (4, 2))"),
        ("matrix", "X", GRAPH, InputError, "a matrix of numbers; got Graph. Graphs and relations go to EDRep"),
        ("matrix", "X", nf.Relation.from_edges(GRAPH), InputError, "got Relation. Graphs and relations go to EDRep"),
        ("matrix", "X", nf.Corpus([["a"]]), InputError, "got Corpus. A text goes to SkipGram"),
        ("matrix", "X", CELLS, InputError, "got AnnData. Give one of its matrices, such as obsm['X_pca']"),
        ("sparse", "X", HOLES, InputError, "f: X must be finite; got NaN or infinity in 2 rows, first [1, 3]"),
        ("sparse", "X", With(X=csr_array(np.eye(2)), columns=3), InputError, "of 3 columns; got 2"),
        ("sparse", "X", csr_array(np.eye(2) * 1j), InputError, "a matrix of numbers; got entries of type complex128"),
        *(
            ("callbacks", "callbacks", bad, InputError, "a sequence of callables; got")
            for bad in (print, 3, "stop", [None])
        ),
        *(("seed", "random_state", wrong, InputError, "an integer >= 0; got ") for wrong in (-1, 1.5, "seed")),
        *(("workers", "n_jobs", wrong, InputError, "an integer >= 1; got ") for wrong in (0, -2, 1.5)),
        *(("path", "path", url, InputError, f"a path, not a URL; got '{url}'. Mount the store") for url in URLS),
        ("path", "path", 3, InputError, "a path; got 3"),
        ("file", "path", Made(lambda folder: folder / "nothing"), InputError, "a file that exists", "no such file"),
        ("file", "path", Made(lambda folder: folder), InputError, "a file that exists; got ", "a folder"),
    ],
)


def test_what_fits_comes_out_as_python_has_it(tmp_path):
    for value in (3, np.int8(3), np.uint64(3)):
        assert type(checks.check_integer("f", "k", value, 1, 5)) is int
    for value in (0.5, 1, np.float32(0.25), np.int64(1)):
        found = checks.check_real("f", "x", value, 0, 1, open_low=True)
        assert (type(found), found) == (float, value)
    assert checks.check_choice("f", "far", "exact", ("exact", "noise")) == "exact"
    assert checks.check_flag("f", "directed", np.bool_(False)) is False
    assert checks.check_callbacks("f", None) == ()
    assert checks.check_callbacks("f", iter([print, len])) == (print, len)
    assert checks.check_n_jobs("f", None) == checks.check_n_jobs("f", -1) == checks.available_processors() >= 1
    assert checks.check_n_jobs("f", 3) == 3
    assert checks.check_path("f", "path", str(tmp_path)) == tmp_path
    assert checks.check_path("f", "path", "a folder//b").name == "b"


def test_matrices_are_copied_where_they_must_be():
    for dtype in (np.float32, np.float64):
        X = np.ones((3, 2), dtype=dtype)
        assert checks.check_matrix("f", "X", X, rows=3, columns=2) is X
    for value in ([[1, 2], [3, 4]], np.ones((2, 2), np.int64), np.ones((2, 2), np.float16)):
        found = checks.check_matrix("f", "X", value)
        assert found.dtype == np.float32
        assert found.flags.c_contiguous
    rows, by_columns = csr_array(np.arange(6.0).reshape(3, 2)), coo_array(np.arange(6).reshape(3, 2))
    assert np.shares_memory(checks.check_sparse("f", "X", rows, columns=2).data, rows.data)
    np.testing.assert_array_equal(checks.check_sparse("f", "X", by_columns).toarray(), by_columns.toarray())
    assert nf.Embedding(pd.DataFrame({"obsm": [1.0, 2.0], "adjacency": [3.0, 4.0]})).shape == (2, 2)


@given(st.sets(st.integers(0, 30), min_size=1), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_the_first_rows_that_are_not_finite_are_told(rows, bad):
    X = np.zeros((31, 3))
    X[sorted(rows), 1] = bad
    with pytest.raises(InputError) as caught:
        checks.check_matrix("f", "X", X)
    assert f"in {counted(len(rows), 'row')}, first {sorted(rows)[:5]}" in str(caught.value)


def test_random_states():
    first = checks.check_random_state("f", 5).random(3)
    np.testing.assert_array_equal(checks.check_random_state("f", np.int64(5)).random(3), first)
    generator = np.random.default_rng(1)
    assert checks.check_random_state("f", generator) is generator
    old = [checks.check_random_state("f", np.random.RandomState(2)).random() for _ in range(2)]
    assert old[0] == old[1]
    assert checks.check_random_state("f", None).random() != checks.check_random_state("f", None).random()


def test_an_optional_package_that_is_missing_says_how_to_get_it():
    with pytest.raises(MissingDependencyError, match=r"f needs no_such_package.*pip install 'nearfar\[plot\]'"):
        checks.require("f", "no_such_package.part", "plot")
    assert checks.require("f", "math", "plot").pi > 3
