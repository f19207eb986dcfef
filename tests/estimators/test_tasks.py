"""What a fit is for: what a task sets, what it leaves, and how hidden relations choose the temperature."""

import numpy as np
import pytest
from sklearn.base import clone

import nearfar as nf
from nearfar.errors import NearfarWarning
from nearfar.estimators import fitting, tasks


@pytest.fixture(scope="module")
def graph():
    return nf.datasets.dcsbm(250, 3, 10.0, alpha=4.0, random_state=1).relation


@pytest.fixture(scope="module")
def likes():
    rng = np.random.default_rng(0)
    taste = rng.integers(0, 4, 150)
    chance = np.where(taste[:, None] == np.arange(60) % 4, 0.3, 0.03)
    return nf.Relation.from_matrix(rng.random(chance.shape) < chance, column_ids=[f"i{k}" for k in range(60)])


def test_a_task_is_a_call_that_could_be_written_out(graph, likes):
    links = nf.EDRep(task="links", n_components=8, temperature=0.3, n_epochs=4, random_state=0).fit(graph)
    by_hand = nf.EDRep(8, n_epochs=4, temperature=0.3, base_measure=graph.column_sums, random_state=0)
    assert (links.embedding_ == by_hand.fit(graph.random_walk(3)).embedding_).all()
    items = nf.EDRep(task="items", n_components=8, temperature=0.3, n_epochs=4, random_state=0).fit(likes)
    by_hand = nf.EDRep(8, n_epochs=4, temperature=0.3, base_measure=likes.column_sums**0.75, random_state=0)
    assert (items.embedding_ == by_hand.fit(likes.normalized(0.5)).embedding_).all()
    labels = nf.EDRep(task="labels", n_components=8, temperature=0.3, n_epochs=4, random_state=0).fit(graph)
    by_hand = nf.EDRep(8, n_epochs=4, temperature=0.3, refine=0, random_state=0).fit(graph.random_walk(3))
    assert (labels.embedding_ == by_hand.embedding_).all()
    groups = nf.EDRep(task="communities", random_state=0).fit(graph)
    assert (groups.embedding_ == nf.EDRep(random_state=0).fit(graph.random_walk(3)).embedding_).all()


def test_what_is_given_stays_and_what_was_chosen_is_told(graph, capsys):
    est = nf.EDRep(task="links", n_components=8, n_epochs=4, base_measure="uniform", random_state=0, verbose=1)
    found = est.fit(graph)
    assert "EDRep(task='links'): random_walk(3), n_components=8, a base measure, temperature=0." in est.choice_
    assert est.choice_ in capsys.readouterr().err
    assert set(found.base_measure_[graph.column_sums > 0]) == {1.0}
    assert est.get_params()["temperature"] is None  # of the estimator, which may be fitted to another relation
    assert 0.1 < est.vectors_.parameters["temperature"] < 0.4
    assert est.vectors_.parameters["n_epochs"] == 4
    assert clone(est).set_params(verbose=0).fit(graph).embedding_.tobytes() == est.embedding_.tobytes()
    walk = nf.EDRep(task="links", n_components=8, n_epochs=4, temperature=0.3, random_state=0).fit(graph.random_walk(2))
    assert "the relation as it is" in walk.choice_


@pytest.mark.parametrize(("size", "noise", "steps", "live"), [(12, 0.2, 1, 20), (12, 0.012, 3, 20), (100, 0.2, 1, 2)])
def test_labels_have_the_temperature_of_what_lives_of_the_walk(size, noise, steps, live):
    group = np.arange(300) // size
    weights = (group[:, None] == group) * np.linspace(0.3, 1, group[-1] + 1)[group] * 4 / size
    others = np.triu(np.random.default_rng(0).random((300, 300)) < noise, 1) * 0.05
    relation = nf.Relation.from_matrix(weights + others + others.T)
    values = np.sort(np.linalg.eigvals(relation.random_walk(steps).to_scipy().toarray()).real)[::-1][1:]
    c = relation.nnz / 300
    above = np.maximum(values[:20] - max(values[20], np.mean((2 * np.sqrt(c - 1) / c) ** np.arange(1, steps + 1))), 0)
    est = nf.EDRep(8, task="labels", n_epochs=2, random_state=0).fit(relation)
    assert f"random_walk({steps})" in est.choice_
    assert f"({live} directions live)" in est.choice_
    assert est.vectors_.parameters["temperature"] == pytest.approx(min(1 / above.sum(), 1.4), rel=0.05)


def test_hidden_relations_choose_the_temperature(graph):
    asked = []

    class Tried:
        """Vectors under which every relation ranks the worse the farther the temperature is from 0.25."""

        base = None

        def __init__(self, known, t):
            n = known.shape[0]
            rng = np.random.default_rng(0)
            self.X = rng.normal(size=(n, 8)).astype(np.float32)
            noise = abs(np.log(t / 0.25)) * 40
            hidden = graph.to_scipy().toarray() - (known.to_scipy().toarray() > 0)
            self.others = (np.linalg.pinv(self.X) @ (hidden + noise * rng.normal(size=(n, n)))).T.astype("f4")
            asked.append((t, known))

    best, told = tasks.temperature_of(graph, Tried)
    assert [t for t, _ in asked] == [0.2, 0.4, 0.1]
    known = asked[0][1]
    kept = known.to_scipy()
    assert (abs(kept - kept.T)).nnz == 0
    assert 0.85 < kept.nnz / graph.nnz < 0.95
    assert tasks.LOWEST <= best <= 0.3
    assert told.startswith(f"temperature={best:g} (ranks of hidden relations in short fits at ")


def test_the_lowest_point_of_a_parabola():
    ranks = {t: 2 + np.log(t / 0.23) ** 2 for t in (0.2, 0.4, 0.1)}
    assert tasks._lowest(ranks) == pytest.approx(0.23)
    assert tasks._lowest({0.2: 1.0, 0.4: 2.0, 0.1: 0.5}) == 0.1


def test_ranks_are_those_of_a_plain_twin(graph):
    rng = np.random.default_rng(0)
    split = tasks._split(graph)
    n = graph.shape[0]

    X = rng.normal(size=(n, 4))
    trial = tasks.Trial(X, X, rng.uniform(0.5, 2, n))
    logs = []
    for row, source in enumerate(split.rows):
        scores = X[source] @ X.T / 0.5 + np.log(trial.base)
        for column in split.hidden[[row]].indices:
            others = np.setdiff1d(np.arange(n), split.seen[[row]].indices)
            logs.append(np.log1p((scores[others] > scores[column]).sum()))
    assert tasks._mean_log_rank(trial, 0.5, split) == pytest.approx(np.mean(logs))


def test_temperature_auto_alone(likes):
    est = nf.EDRep(4, n_epochs=3, temperature="auto", p0=likes.column_sums, random_state=0).fit(likes.normalized())
    assert "temperature=0." in est.choice_
    assert est.temperature == "auto"
    weights = np.random.default_rng(0).uniform(1, 2, likes.shape[1])
    nf.EDRep(4, n_epochs=3, temperature="auto", base_measure=weights, random_state=0).fit(likes.normalized())


def test_ctrl_c_in_a_short_fit_ends_the_whole(graph, monkeypatch):
    run = fitting.run

    def interrupted(*given):
        state = run(*given)
        state.epoch = 3
        return state

    monkeypatch.setattr(fitting, "run", interrupted)
    est = nf.EDRep(8, task="links")
    with pytest.raises(KeyboardInterrupt):
        est.fit(graph)
    assert not hasattr(est, "embedding_")


def test_growth_keeps_what_was_chosen(likes):
    est = nf.EDRep(task="items", n_components=8, n_epochs=4, random_state=0).fit(likes)
    temperature = est.vectors_.parameters["temperature"]
    more = likes.to_scipy().toarray()
    more = nf.Relation.from_matrix(np.vstack([more, more[:1]]), ids=range(151), column_ids=likes.column_ids)
    grown = est.grow(more, n_epochs=2)
    assert grown.vectors_.parameters["temperature"] == temperature
    assert len(grown.vectors_) == 151
    assert grown.base_measure_ is not None


def test_a_cold_far_field_is_told(graph):
    with pytest.warns(NearfarWarning, match=r"got a mean relative error of \d.\d\d at temperature 0.05 \(far_check_\)"):
        nf.EDRep(16, temperature=0.05, n_epochs=5, refine=0, random_state=0).fit(graph.random_walk(3))


def test_hidden_links_are_found_better_than_by_the_plain_method(graph):
    pairs = np.array([edge for edge in zip(*graph.to_scipy().tocoo().coords, strict=True) if edge[0] < edge[1]])
    out = np.random.default_rng(0).random(len(pairs)) < 0.2
    known = nf.Relation.from_edges(pairs[~out], directed=False)
    hidden = nf.Relation.from_edges(pairs[out & (known.row_ids.rows(pairs.ravel()).reshape(-1, 2) >= 0).all(axis=1)])
    ours, plain = (nf.EDRep(**how, random_state=0).fit(known) for how in ({"task": "links"}, {}))
    recall = [nf.evaluate.ranking(est, hidden, exclude=known).recall for est in (ours, plain)]
    assert recall[0] > recall[1] + 0.02
