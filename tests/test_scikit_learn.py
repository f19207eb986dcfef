"""Estimators among scikit-learn's tools: what its users do without thinking works, or says what to do."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.validation import check_is_fitted

import nearfar as nf

SMALL = {"n_components": 4, "n_epochs": 3, "random_state": 0}


@pytest.fixture(scope="module")
def club():
    return nx.to_scipy_sparse_array(nx.karate_club_graph(), dtype=float)


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_cloneable,
    ],
    ids=lambda check: check.__name__,
)
def test_checks_of_scikit_learn(check):
    check("EDRep", nf.EDRep())


def test_clone_keeps_parts_and_arrays_and_forgets_the_fit(club):
    p0 = np.arange(34.0)
    est = nf.EDRep(**SMALL, far=nf.far.Performer(n_features=7), p0=p0).fit(club)
    copy = clone(est)
    assert copy.far.get_params() == {"n_features": 7}
    assert copy.far is not est.far
    np.testing.assert_array_equal(copy.p0, p0)
    check_is_fitted(est)
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)


def test_last_in_a_pipeline(club):
    relation = nf.Relation.from_matrix(club).random_walk(2)
    pipe = Pipeline([("vectors", nf.EDRep(**SMALL))])
    np.testing.assert_array_equal(pipe.fit_transform(relation), nf.EDRep(**SMALL).fit(relation).embedding_)
    assert "EDRep" in repr(pipe)
    assert "EDRep" in pipe._repr_html_()


def test_parameters_of_parts_are_reached(club):
    pipe = make_pipeline(nf.EDRep(**SMALL, far=nf.far.Performer()))
    pipe.set_params(edrep__far__n_features=5)
    assert pipe.get_params()["edrep__far__n_features"] == 5
    assert pipe.fit_transform(club).shape == (34, 4)


def test_grid_search_over_a_matrix(club):
    everything = [(np.arange(34), np.arange(34))]
    grid = {"n_components": [2, 3], "far": ["gaussian-mixture", nf.far.Noise(n_samples=5)]}
    search = GridSearchCV(
        nf.EDRep(**SMALL), grid, scoring=lambda est, X, y=None: -est.loss_, cv=everything, error_score="raise"
    )
    search.fit(club)
    assert len(search.cv_results_["params"]) == len(ParameterGrid(grid)) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_tags():
    tags = get_tags(nf.EDRep())
    assert tags.input_tags.sparse
    assert not tags.target_tags.required
