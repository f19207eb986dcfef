"""Estimators among scikit-learn's tools: what its users do without thinking works, or says what to do."""

import estimator_checks
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from estimator_checks import ESTIMATORS
from quick import often
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ParameterGrid, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

import nearfar as nf
from nearfar.errors import InputError

SMALL = {"n_components": 4, "n_epochs": 3, "random_state": 0}


@pytest.fixture(scope="module")
def club():
    return nx.to_scipy_sparse_array(nx.karate_club_graph(), dtype=float)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", often(ESTIMATORS, estimator_checks.QUICK))
def test_checks_of_scikit_learn(name):
    reasons = estimator_checks.REASONS[name]
    found = check_estimator(ESTIMATORS[name](), expected_failed_checks=reasons, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in found if result["status"] == "failed"}
    assert failed == {}
    assert len(found) > 35
    passed = {result["check_name"] for result in found if result["status"] == "passed"}
    assert passed & reasons.keys() == set()  # a reason that is needed no more


def test_every_estimator_is_checked_and_the_page_says_what_fails():
    kinds = [getattr(nf, name) for name in nf.__all__ if name not in ("nn", "scanpy")]
    public = {kind.__name__ for kind in kinds if isinstance(kind, type) and hasattr(kind, "set_params")}
    assert public == set(ESTIMATORS)
    assert estimator_checks.PAGE.read_text("utf-8") == estimator_checks.page()


def test_the_number_of_columns_of_a_matrix(club):
    assert nf.EDRep(**SMALL).fit(club).n_features_in_ == 34
    assert nf.EDRep(**SMALL).fit(np.ones((6, 9))).n_features_in_ == 9
    assert not hasattr(nf.EDRep(**SMALL).fit(club).fit(nf.Relation.from_matrix(club)), "n_features_in_")
    edges = pd.DataFrame({"source": list("abcd"), "target": list("bcde")})
    assert not hasattr(nf.EDRep(2, n_epochs=1).fit(edges), "n_features_in_")
    model = nf.SkipGram(2, n_epochs=1, min_count=1, sample=0)
    assert model.fit(club).n_features_in_ == 34
    assert not hasattr(model.fit([["a", "b"]] * 9), "n_features_in_")
    with pytest.raises(InputError, match="X has 3 features, but EDRep is expecting 34 features"):
        nf.EDRep(**SMALL).fit(club).transform(np.ones((2, 3)))
    with pytest.raises(InputError, match=r"Reshape your data: P_new.reshape\(1, -1\) is one row"):
        nf.EDRep(**SMALL).fit(club).transform(np.ones(34))


def test_clone_keeps_parts_and_arrays_and_forgets_the_fit(club):
    p0 = np.arange(34.0)
    est = nf.EDRep(**SMALL, far=nf.far.Noise(n_samples=7), p0=p0).fit(club)
    copy = clone(est)
    assert copy.far.get_params()["n_samples"] == 7
    assert copy.far is not est.far
    np.testing.assert_array_equal(copy.p0, p0)
    check_is_fitted(est)
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)


def test_parameters_of_parts_are_reached(club):
    pipe = make_pipeline(nf.EDRep(**SMALL, far=nf.far.Noise()))
    pipe.set_params(edrep__far__n_samples=5)
    assert pipe.get_params()["edrep__far__n_samples"] == 5
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


def test_grid_search_over_a_relation_by_labels_and_by_links():
    graph = nf.datasets.dcsbm(60, 3, 10.0, alpha=4.5, random_state=0)
    everything = [(np.arange(60), np.arange(60))]

    def by_labels(estimator, relation, labels):
        assert relation is graph.relation
        return nf.evaluate.node_classification(
            estimator.vectors_, labels, fractions=[0.5], n_repeats=1, random_state=0
        ).micro[0.5]

    grid = {"n_epochs": [1, 3]}
    search = GridSearchCV(nf.EDRep(**SMALL), grid, scoring=by_labels, cv=everything, error_score="raise")
    search.fit(graph.relation, graph.labels)
    assert search.best_estimator_.vectors_.shape == (60, 4)
    assert len(set(search.cv_results_["mean_test_score"])) == 2

    def by_links(estimator, relation, _labels=None):
        return nf.evaluate.link_prediction(relation, estimator, n_repeats=1, random_state=0).auc["hadamard"]

    method = nf.EDRep(**SMALL)
    search = GridSearchCV(method, {"n_components": [2]}, scoring=by_links, cv=everything, error_score="raise")
    assert 0 < search.fit(graph.relation).best_score_ < 1


def test_a_relation_and_a_corpus_have_no_rows_to_split(club):
    relation = nf.Relation.from_matrix(club)
    told = r"Relation: rows must be all of them, .* got 17 of 34\. .*nf.evaluate.select .*cv=\[\(np.arange\(34\)"
    search = GridSearchCV(nf.EDRep(**SMALL), {"n_epochs": [1, 2]}, scoring=lambda est, X, y=None: 0.0, cv=2)
    with pytest.raises(InputError, match=told):
        search.fit(relation)
    with pytest.raises(InputError, match=told):
        search.set_params(estimator=make_pipeline(nf.TSNE(), LogisticRegression()), param_grid={}).fit(
            relation, np.arange(34) % 2
        )
    with pytest.raises(InputError, match="Relation: rows must be all of them"):
        relation["alice"]
    with pytest.raises(TypeError, match="not iterable"):
        iter(relation)
    told = r"Relation: relation must be given as it is; got a call for an array of numbers\. .*to_scipy\(\)"
    with pytest.raises(InputError, match=told):
        make_pipeline(StandardScaler(), nf.EDRep()).fit(relation)
    corpus = nf.Corpus([["a", "b"], ["b", "c"]] * 5)
    told = r"Corpus: corpus must be given as it is; got a call for an array, as .* ParameterGrid"
    for scoring in (lambda est, X, y=None: 0.0,):
        search = GridSearchCV(nf.SkipGram(2), {"window": [1, 2]}, scoring=scoring, cv=2)
        with pytest.raises(InputError, match=told):
            search.fit(corpus)


def test_an_embedding_is_split_by_rows_whatever_its_ids_are(rng):
    emb = nf.Embedding(rng.normal(size=(20, 3)), np.arange(20)[::-1] + 100)
    one, other = train_test_split(emb, shuffle=False, test_size=5)
    np.testing.assert_array_equal(one, emb.vectors[:15])
    np.testing.assert_array_equal(other, emb.vectors[15:])


@pytest.mark.parametrize(
    "cls", [nf.EDRep, nf.SkipGram, nf.Word2DM, nf.MultiSenseWord2DM, nf.NeighborEmbedding, nf.TSNE, nf.MDS]
)
def test_checks_without_data_are_a_table_which_defaults_pass(cls):
    cls()._check_parameters()
    assert len(cls._checks) >= 5
    for name, check in cls._checks.items():
        assert hasattr(cls(), name)
        with pytest.raises(InputError, match=f"{cls.__name__}: {name} must be "):
            check(cls.__name__, name, "nonsense")
