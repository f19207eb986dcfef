"""The door for arrays: what is let through is what was meant, in every type and order; the rest is refused by name."""

import numpy as np
import pytest
from scipy import sparse

import nearfar as nf
from nearfar._core import checks
from nearfar.density.matrices import symmetric_rows
from nearfar.errors import DataError, InputError, UnknownIdError
from nearfar.search.products import unit_rows

X = (np.random.default_rng(3).normal(size=(40, 5)) * [3, 1, 2, 1, 1]).astype(np.float32)
SHORT = {"perplexity": 5, "max_iter": 10, "random_state": 0, "n_jobs": 1}


def masked(rows=(3, 7), of=X):
    made = np.ma.masked_array(of.copy(), mask=np.zeros(of.shape, bool))
    made[list(rows), 1] = np.ma.masked
    return made


def strided(A):
    wide = np.zeros((len(A), 2 * A.shape[1]), A.dtype)
    wide[:, ::2] = A
    return wide[:, ::2]


def read_only(A):
    A = A.copy()
    A.flags.writeable = False
    return A


WAYS = {
    "bytes in the other order": lambda A: A.astype(A.dtype.newbyteorder()),
    "columns first": np.asfortranarray,
    "not side by side": strided,
    "backwards in memory": lambda A: A[::-1].copy()[::-1],
    "read-only": read_only,
    "objects": lambda A: A.astype(object),
    "np.matrix": np.asmatrix,
    "masked nowhere": np.ma.masked_array,
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_numbers_give_the_same_map_however_they_lie(dtype):
    rows = X.astype(np.float32).astype(dtype)
    expected = nf.TSNE(**SHORT).fit(rows).embedding_
    for way, lay in WAYS.items():
        given = lay(rows)
        found = nf.TSNE(**SHORT).fit(given).embedding_
        np.testing.assert_allclose(found, expected, rtol=0, atol=0 if way != "objects" else 1e-3, err_msg=way)
        assert checks.check_matrix("f", "X", given).dtype == (np.float32 if way == "objects" else dtype), way


def test_numbers_of_half_precision_and_truths_are_those_of_single_precision():
    for narrow in (X.astype(np.float16), X > 0, (X * 9).astype(np.int8)):
        wide = nf.Relation.from_matrix(np.abs(narrow.astype(np.float32))).to_scipy()
        np.testing.assert_array_equal(nf.Relation.from_matrix(np.abs(narrow)).to_scipy().toarray(), wide.toarray())
        np.testing.assert_array_equal(nf.Embedding(narrow).vectors, narrow.astype(np.float32))


def test_long_precision_stays_double():
    found = checks.check_matrix("f", "X", np.full((2, 2), 1 / 3, np.longdouble))
    assert found.dtype == np.float64
    assert found[0, 0] == 1 / 3


def test_objects_beyond_float32_are_doubles():
    found = checks.check_matrix("f", "X", np.array([[1e200, 1], [2, 3]], dtype=object))
    np.testing.assert_array_equal(found, [[1e200, 1], [2, 3]])


DOORS = {
    "TSNE": lambda A: nf.TSNE(**SHORT).fit(A),
    "TSNE, init": lambda A: nf.TSNE(**SHORT, init=A[:, :2]).fit(X),
    "transform": lambda A: nf.TSNE(**SHORT).fit(X).transform(A),
    "UMAP": lambda A: nf.UMAP(max_iter=5, random_state=0, n_jobs=1).fit(A),
    "MDS": lambda A: nf.MDS(max_iter=5, n_jobs=1).fit(A),
    "Affinities": lambda A: nf.Affinities(5, n_jobs=1).fit(A),
    "Embedding": nf.Embedding,
    "search": lambda A: nf.Embedding(X).search(A, 3),
    "most_similar": lambda A: nf.Embedding(X).most_similar(A[3]),
    "Relation": lambda A: nf.Relation.from_matrix(abs(A)),
    "Relation @": lambda A: nf.Relation.from_matrix(np.eye(40)) @ A,
    "Relation @ vector": lambda A: nf.Relation.from_matrix(np.eye(40)) @ A[:, 1],
    "EDRep": lambda A: nf.EDRep(2, n_epochs=1).fit(abs(A)),
    "EDRep, init": lambda A: nf.EDRep(5, init=A, n_epochs=1).fit(np.ones((40, 40))),
    "log_normalizers": nf.log_normalizers,
    "neighborhoods": lambda A: nf.evaluate.neighborhoods(A, X),
    "neighborhoods, map": lambda A: nf.evaluate.neighborhoods(X, A),
    "communities": lambda A: nf.evaluate.communities(A, np.arange(40) % 3),
    "node_classification": lambda A: nf.evaluate.node_classification(A, np.arange(40) % 3),
    "scatter": lambda A: nf.plots.scatter(A),
    "small_multiples": lambda A: nf.plots.small_multiples([A]),
    "page": lambda A: nf.Embedding(X).map(A[:, :2]),
    "compress": lambda A: nf.compress(A, 4),
    "UnigramNoise": lambda A: nf.nn.UnigramNoise(abs(A[:, 1])),
    "choose_anchors": lambda A: nf.nn.choose_anchors(3, "coreset", vectors=A),
    "estimate_mutual_information": lambda A: nf.nn.estimate_mutual_information(A, X, n_steps=1, batch_size=4),
    "k_E": lambda A: nf.hyponymy.k_E(A[:5].T @ A[:5] if not np.ma.isMA(A) else A[:5, :5], np.eye(5)),
}


@pytest.mark.parametrize("door", DOORS)
def test_numbers_below_a_mask_are_used_nowhere(door):
    with pytest.raises(InputError, match=r"without masked entries; got masked entries in \d rows?, first \[\d"):
        DOORS[door](masked())


def test_masked_distances_are_refused_with_their_rows():
    D = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
    hidden = np.ma.masked_array(D, mask=np.zeros(D.shape, bool))
    hidden[3, 20:] = hidden[20:, 3] = np.ma.masked
    for use in (
        nf.MDS(metric="precomputed").fit,
        nf.TSNE(**SHORT, metric="precomputed").fit,
        lambda A: nf.evaluate.neighborhoods(A, X, metric="precomputed"),
    ):
        with pytest.raises(InputError, match=r"masked entries in 21 rows, first \[3, 20, 21, 22, 23\]"):
            use(hidden)


def test_a_sparse_matrix_is_not_believed_what_it_says_of_itself():
    data, rows, columns = np.array([3.0, 1, 2, 4]), np.array([0, 0, 1, 2]), np.array([2, 0, 1, 0])
    sound = sparse.csr_array((data, (rows, columns)), shape=(3, 3))
    turned = sparse.csr_array(([3.0, 1, 2, 4], [2, 0, 1, 0], [0, 2, 3, 4]), shape=(3, 3))
    turned.has_sorted_indices = turned.has_canonical_format = True
    found = checks.check_csr("f", "A", turned)
    assert found.indices.tolist() == [0, 2, 1, 0]
    np.testing.assert_array_equal(found.toarray(), sound.toarray())
    assert turned.indices.tolist() == [2, 0, 1, 0]  # the caller's is as it was


def test_entries_at_one_place_are_added_in_a_type_that_holds_their_sum():
    for form in (sparse.coo_array, lambda parts, shape: sparse.csr_array((parts[0], [0, 0], [0, 2, 2]), shape=shape)):
        made = form((np.array([100, 100], np.int8), ([0, 0], [0, 0])), shape=(2, 2))
        assert checks.check_csr("f", "A", made)[0, 0] == 200
        assert nf.Relation.from_matrix(made).to_scipy()[0, 0] == 200


@pytest.mark.parametrize("dtype", ["f2", ">f4", ">f8", "g", ">i4", "u1", "?"])
def test_sparse_entries_of_every_type_of_numbers_are_read(dtype):
    made = sparse.csr_array(np.abs(X))
    made.data = np.ceil(made.data).astype(dtype)
    made.indices = made.indices.astype(">i4")
    expected = np.ceil(np.abs(X)).astype(np.float32 if dtype != "?" else bool).astype(np.float32)
    np.testing.assert_array_equal(checks.check_csr("f", "A", made).toarray(), expected)
    np.testing.assert_array_equal(nf.Relation.from_matrix(made).to_scipy().toarray(), expected)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_of_zeros_have_no_direction_dense_or_sparse(form, rng):
    A = rng.random((60, 8)) * (rng.random((60, 8)) < 0.5) + 1e-3 * np.eye(60, 8)
    A[:, 0] += 0.1
    A[[10, 50]] = 0
    for use in (
        nf.TSNE(**SHORT, metric="cosine").fit,
        nf.UMAP(metric="cosine", max_iter=5, n_jobs=1).fit,
        nf.MDS(metric="cosine", max_iter=5, n_jobs=1).fit,
        nf.Affinities(5, metric="cosine", n_jobs=1).fit,
        lambda A: nf.evaluate.neighborhoods(A, np.eye(60, 2), metric="cosine"),
    ):
        expected = r"without rows of zeros under metric='cosine'; got 2 rows of zeros, first \[10, 50\]"
        with pytest.raises(InputError, match=expected):
            use(form(A))


def test_new_rows_come_dense_or_sparse_whatever_the_fit_was_to(rng):
    A = np.abs(X)
    new = np.abs(rng.normal(size=(4, 5))) * [1, 0, 1, 0, 1] + 0.1
    for fitted, given in ((A, sparse.csr_array(new)), (sparse.csr_array(A), new)):
        est = nf.TSNE(**SHORT, metric="manhattan").fit(fitted)
        same = est.transform(new if fitted is A else sparse.csr_array(new))
        np.testing.assert_allclose(est.transform(given), same, atol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_large_float32_numbers_give_the_same_map_or_are_refused(form):
    rows = np.abs(X) * (np.abs(X) > 0.5)
    for unit in (np.float32(2.0**120), np.float32(2.0**62)):
        given = form((rows * unit).astype(np.float32))
        try:
            found = nf.TSNE(**SHORT).fit(given).embedding_
        except InputError as error:
            assert "Multiply X by a constant" in str(error)  # noqa: PT017 - one of two right answers
        else:
            assert np.isfinite(found).all()
            np.testing.assert_allclose(found, nf.TSNE(**SHORT).fit(form(rows.astype(np.float32))).embedding_, atol=1e-3)


def test_scalar_products_beyond_their_type_are_refused():
    for rows in (X * np.float32(1e19), X.astype(np.float64) * 1e160):
        for use in (nf.log_normalizers, nf.far.estimate_error):
            with pytest.raises(InputError, match="X must be of rows whose scalar products are smaller; got products"):
                use(rows)


@pytest.mark.slow
def test_scores_of_long_vectors_are_those_of_short_ones():
    groups = np.arange(40) % 3
    rows = X.astype(np.float64) + 4 * np.eye(3, 5)[groups]
    for score in (
        lambda Z: nf.evaluate.communities(Z, groups, random_state=0).nmi,
        lambda Z: nf.evaluate.node_classification(Z, groups, random_state=0, n_repeats=1).micro[0.5],
    ):
        assert [score(rows * unit) for unit in (1e200, 1e-200)] == pytest.approx([score(rows)] * 2, abs=1e-9)


def test_a_start_that_float32_cannot_hold_is_refused():
    with pytest.raises(InputError, match=r"TSNE: init must be of positions up to 1e\+15; got \d.*e\+1\d"):
        nf.TSNE(**SHORT, init=X[:, :2] * np.float32(1e18)).fit(X)


def test_broken_pairs_of_neighbours_are_refused():
    indices = np.arange(1, 9)[None].repeat(40, 0)
    distances = np.ones((40, 8), np.float32)
    for pair, message in (
        ((np.ma.masked_array(indices, mask=indices == 3), distances), r"X\[0\], the indices must be without masked"),
        ((indices, np.full((40, 8), 1e300)), "the largest is between"),
        (([[1, 2], [3]], distances), "array of numbers|two-dimensional|matrix of numbers"),
    ):
        with pytest.raises((InputError, DataError), match=message):
            nf.TSNE(**SHORT, metric="precomputed").fit(pair)


def test_rows_of_unequal_length_are_refused_where_the_metric_is_open():
    with pytest.raises(InputError, match=r"evaluate\.neighborhoods: X must be an array of numbers; got list"):
        nf.evaluate.neighborhoods([[1.0, 2.0], [1.0], [2.0, 3.0]], np.eye(3))


@pytest.mark.parametrize("largest", [1e308, -1e308])
def test_matrices_of_huge_numbers_are_halved_before_they_are_added(largest):
    A = np.array([[1.0, largest], [abs(largest), 1.0]])
    if largest > 0:
        np.testing.assert_array_equal(symmetric_rows("x", "A", A), A)
    else:
        with pytest.raises(InputError, match="A must be symmetric and finite"):
            symmetric_rows("x", "A", A)


def test_a_start_is_looked_at_where_all_distances_are_0():
    init = np.ma.masked_less(np.random.default_rng(0).normal(size=(9, 2)), 0)
    with pytest.raises(InputError, match="MDS: init must be without masked entries"):
        nf.MDS(metric="jaccard", init=init).fit(np.ones((9, 3)))


def test_anchors_of_huge_vectors():
    torch = pytest.importorskip("torch")
    rows = np.random.default_rng(0).normal(size=(30, 3))
    here, there = (
        nf.nn.choose_anchors(5, vectors=unit * rows, method="k-means++", random_state=0) for unit in (1.0, 2.0**900)
    )
    assert torch.equal(here, there)


def test_an_id_that_cannot_be_shown_is_named_by_its_type():
    broken = sparse.csr_array(np.eye(3))
    broken.indptr = np.empty(0, np.int32)
    assert "got a csr_array that cannot be shown" in str(UnknownIdError("x", [broken]))


def test_rows_longer_than_any_number_have_a_direction():
    rows = np.array([[1.5e308, 1.5e308], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(unit_rows(rows), [[0.5**0.5, 0.5**0.5], [1, 0], [0, 0]], rtol=1e-15)
