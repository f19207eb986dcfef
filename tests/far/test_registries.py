"""Names of far fields: one register for those of the softmax, one for those of maps."""

import numpy as np
import pytest
from own_far_field import OwnField, Quadratic

import nearfar as nf
from nearfar.engines import Setting, place_of
from nearfar.far.registry import FAR_FIELDS, FIELDS, field_of_map

X = np.random.default_rng(0).normal(size=(40, 4))
MAP = {"perplexity": 8, "max_iter": 20, "early_exaggeration_iter": 10, "random_state": 0, "n_jobs": 1}


@pytest.fixture(autouse=True)
def no_names_of_ones_own(monkeypatch):
    monkeypatch.setattr(FAR_FIELDS, "own", {})
    monkeypatch.setattr(FIELDS, "own", {})


SLOWLY = [pytest.param(make, marks=pytest.mark.slow) for make in (nf.NeRV, nf.JSE, nf.HSSNE)]


@pytest.mark.parametrize("make", [nf.TSNE, *SLOWLY, nf.WSSNE, nf.NeighborEmbedding])
def test_a_registered_field_is_as_good_as_the_object(make) -> None:
    nf.far.register_field("mine", OwnField)
    before = OwnField.asked
    by_name = make(far="mine", **MAP).fit(X)
    assert OwnField.asked > before
    np.testing.assert_array_equal(by_name.embedding_, make(far=OwnField(), **MAP).fit(X).embedding_)
    assert by_name.get_params()["far"] == "mine"
    assert by_name.transform(X[:3]).shape == (3, 2)


def test_a_built_in_field_with_parameters_of_its_own_has_a_name() -> None:
    nf.far.register_field("coarse", lambda: nf.far.MeshField(tolerance=0.1))
    coarse = nf.TSNE(far="coarse", **MAP).fit(X).embedding_
    given = nf.TSNE(far=nf.far.MeshField(tolerance=0.1), **MAP).fit(X).embedding_
    np.testing.assert_array_equal(coarse, given)
    assert abs(coarse - nf.TSNE(far="fft", **MAP).fit(X).embedding_).max() > 0


def test_a_registered_far_field_keeps_its_parameters() -> None:
    nf.far.register("few", lambda: nf.far.Noise(n_samples=3))
    by_name = nf.log_normalizers(X, method="few", n_samples=40, random_state=1)
    by_object = nf.log_normalizers(X, method=nf.far.Noise(n_samples=3), random_state=1)
    np.testing.assert_array_equal(by_name, by_object)
    assert nf.far.estimate_error(X, far="few", random_state=0).median > 0


def test_a_built_in_name_that_is_replaced_is_called_without_arguments() -> None:
    """A factory takes no arguments, so ``n_samples`` is not for it."""
    nf.far.register("noise", lambda: nf.far.Exact())
    np.testing.assert_array_equal(nf.log_normalizers(X, method="noise"), nf.log_normalizers(X, method="exact"))


def test_a_far_field_of_ones_own_is_as_good_as_a_built_in_one() -> None:
    nf.far.register("mine", nf.far.Exact)
    nf.far.register("mine", Quadratic)
    own, exact = Quadratic(), nf.far.Exact()
    assert isinstance(nf.far.far_field("mine"), Quadratic)
    assert nf.far.far_field(own) is own
    assert nf.far.far_field(exact) is not exact
    near = nf.log_normalizers(X / 4, method="exact")
    np.testing.assert_allclose(nf.log_normalizers(X / 4, method="mine"), near, atol=0.05)
    relation = nf.Relation.from_matrix(np.kron(np.eye(2), np.ones((12, 12)))).normalized()
    fit = nf.EDRep(4, far="mine", random_state=0).fit(relation)
    S = fit.embedding_ @ fit.embedding_.T
    assert S[:12, :12].mean() > 0.5 > 0 > S[:12, 12:].mean()
    assert fit.transform(relation).shape == (24, 4)
    np.testing.assert_array_equal(nf.EDRep(4, far=own, random_state=0).fit(relation).embedding_, fit.embedding_)


@pytest.mark.usefixtures("few_compiled")
@pytest.mark.parametrize("engine", ["plain", "threads"])
def test_a_place_answers_about_a_registered_field(engine) -> None:
    nf.far.register_field("mine", OwnField)
    field = field_of_map("mine", owner="TSNE")
    Y, term = X[:, :2].copy(), nf.far.Term("weight")
    with place_of(engine, Setting(owner="TSNE", n_jobs=1, P=None)) as place:
        placed = place.field(field, Y, nf.kernels.StudentT())
    [found] = placed.evaluate([term])
    np.testing.assert_array_equal(placed.total([term]).gradient, found.gradient)
    np.testing.assert_allclose(found.value[0], sum(1 / (1 + np.sum((Y[0] - y) ** 2)) for y in Y[1:]))
