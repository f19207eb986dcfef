"""Infections that spread over contacts, and their reconstruction from vectors."""

import numpy as np
import pytest

import nearfar as nf
from nearfar.errors import NearfarWarning

CHAIN = [("a", "b", 0), ("b", "c", 10), ("c", "d", 20), ("d", "a", 30)]
sir = nf.datasets.simulate_sir


def drawn(seed=0, n=600, n_nodes=30, last=1000):
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, last, n)).tolist()
    return [(*(f"n{i}" for i in rng.choice(n_nodes, 2, replace=False)), t) for t in times]


def test_along_a_chain_by_hand():
    states = sir(CHAIN, 1.0, 0.0, initial=["a"])
    assert states == {
        ("a", 0): "I", ("b", 0): "S", ("b", 10): "I", ("c", 10): "S", ("c", 20): "I", ("d", 20): "S",
        ("a", 30): "I", ("d", 30): "I",
    }  # fmt: skip
    turned = [(j, i, t) for i, j, t in CHAIN]  # a contact has no direction
    assert sir(turned, 1.0, 0.0, initial=["a"]) == states
    # Who is infected when a slice begins recovers after it; who is infected in it does not yet.
    states = sir(CHAIN, 1.0, 1.0, initial=["a"])
    assert [states[key] for key in (("a", 0), ("b", 10), ("c", 20), ("d", 30), ("a", 30))] == ["I", "I", "I", "I", "R"]
    # A time without contacts is a step, too: with it everybody recovers before the next contact.
    late = [("a", "b", 0), ("b", "c", 20)]
    assert sir(late, 1.0, 1.0, window=10, initial=["a"])[("b", 20)] == "R"
    assert sir(late, 1.0, 1.0, initial=["a"])[("b", 20)] == "I"


def test_contacts_of_one_slice_happen_at_once():
    states = sir([("a", "b", 0), ("b", "c", 1), ("a", "c", 10), ("b", "c", 10)], 1.0, 0.0, window=10, initial=["a"])
    assert (states["b", 10], states["c", 10]) == ("I", "S")


def test_states_have_the_ids_of_the_relation():
    contacts = drawn()
    for how in ({}, {"window": 50}, {"window": 50, "step": 20}):
        states = sir(contacts, 0.3, 0.01, random_state=0, **how)
        assert list(states) == nf.Relation.from_contacts(contacts, **how).row_ids.to_list()
        assert set(states.values()) <= {"S", "I", "R"}
        if how:
            assert states == sir(contacts, 0.3, 0.01, random_state=0, **how)
            assert states != sir(contacts, 0.3, 0.01, random_state=1, **how)


def test_nobody_goes_back():
    states = sir(drawn(1), 0.3, 0.05, random_state=0, window=20)
    paths: dict = {}
    for (who, _), state in states.items():
        paths[who] = paths.get(who, "") + state
    assert all(path == "".join(sorted(path, key="SIR".index)) for path in paths.values())
    assert any("R" in path for path in paths.values())


def test_chances_are_as_stated():
    # 4000 pairs that meet with weight 2: 1 - (1 - beta)^2 are infected; they meet again once.
    n, beta, mu = 4000, 0.3, 0.2
    contacts = [(f"a{k}", f"b{k}", t) for t in (0, 0, 10) for k in range(n)]
    states = sir(contacts, beta, mu, window=10, initial=[f"a{k}" for k in range(n)], random_state=0)
    caught = np.mean([states[f"b{k}", 10] == "I" for k in range(n)])
    recovered = np.mean([states[f"a{k}", 10] == "R" for k in range(n)])
    assert caught == pytest.approx(1 - (1 - beta) ** 2, abs=0.03)
    assert recovered == pytest.approx(mu, abs=0.03)


def test_all_infected_at_the_start():
    states = sir(CHAIN, 0.5, 0.0, initial=4)
    assert set(states.values()) == {"I"}


# -- reconstruction --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outbreak():
    contacts = drawn()
    states = sir(contacts, 0.6, 0.02, window=25, random_state=3)
    ids = list(states)
    # Vectors that know the answer, and noise beside it.
    rng = np.random.default_rng(0)
    X = np.array([[state == "S", state == "I"] for state in states.values()], float)
    return nf.Embedding(np.hstack([X + 0.05 * rng.normal(size=X.shape), rng.normal(size=X.shape)]), ids), states


def test_vectors_that_know_the_states_tell_them(outbreak):
    emb, states = outbreak
    assert set(states.values()) == {"S", "I", "R"}
    found = nf.evaluate.reconstruct_spreading(emb, states, random_state=0)
    assert found.n_observed == len({who for who, _ in emb})
    assert found.n_scored == len(emb) - found.n_observed
    assert found.accuracy > 0.96
    assert found.macro_f1 > 0.9
    assert found.curve_error < 0.06
    low, high = found.intervals["accuracy"]
    assert low <= found.accuracy <= high
    assert found.repeats["accuracy"].shape == (10,)
    assert found.states.keys() == states.keys()
    by_hand = {at: sum(state == "I" for (_, t), state in states.items() if t == at) for at in found.times}
    assert found.infected.tolist() == list(by_hand.values())
    assert np.abs(found.told - found.infected).mean() < 1.0
    # Of those observed the curve counts the states, of the others the probabilities: right in the sum.
    noise = nf.Embedding(np.random.default_rng(5).normal(size=(len(emb), 4)), emb.ids)
    told = nf.evaluate.reconstruct_spreading(noise, states, 300, n_repeats=20, random_state=0).told
    assert told.sum() == pytest.approx(found.infected.sum(), rel=0.05)
    assert found.n_active.sum() == len(emb)


def test_noise_tells_nothing_and_the_order_of_states_does_not_matter(outbreak):
    emb, states = outbreak
    noise = nf.Embedding(np.random.default_rng(5).normal(size=(len(emb), 4)), emb.ids)
    found = nf.evaluate.reconstruct_spreading(noise, states, random_state=0)
    assert found.macro_f1 < 0.5
    shuffled = dict(sorted(states.items(), key=lambda item: hash(item[0][1] * 7919 % 101)))
    assert nf.evaluate.reconstruct_spreading(emb, shuffled, random_state=0).accuracy > 0.98


def test_what_is_observed_may_be_chosen_and_the_rest_unknown(outbreak):
    emb, states = outbreak
    ids = list(states)[::3]
    found = nf.evaluate.reconstruct_spreading(emb, states, ids)
    assert (found.n_observed, found.n_scored) == (len(ids), len(emb) - len(ids))
    assert all(found.states[key] == states[key] for key in ids)
    assert found.intervals["accuracy"] is None
    # In use only the observed ones are known: all others are told, and nothing can be scored.
    few = {key: states[key] for key in ids}
    again = nf.evaluate.reconstruct_spreading(emb, few, ids)
    assert again.states == found.states
    assert again.accuracy is again.macro_f1 is again.curve_error is None
    assert again.n_scored == 0


def test_label_spreading_is_told_beside_it(outbreak):
    emb, states = outbreak
    # Whoever is in the same state is linked, so that one observation of each state tells all.
    kinds = np.array([*states.values()])
    graph = nf.Relation.from_matrix((kinds[:, None] == kinds).astype(float), [*states])
    rows = [np.flatnonzero(kinds == kind)[0] for kind in "SIR"]
    noise = nf.Embedding(np.random.default_rng(5).normal(size=(len(emb), 2)), emb.ids)
    seen = [noise.ids[int(row)] for row in rows]
    found = nf.evaluate.reconstruct_spreading(noise, states, seen, relation=graph)
    told = found.baselines["label spreading"]
    assert (told.accuracy, told.macro_f1) == (1.0, 1.0)
    assert told.curve_error == pytest.approx(0, abs=1e-12)
    assert dict(told.states) == states
    assert found.accuracy == nf.evaluate.reconstruct_spreading(noise, states, seen).accuracy < 0.9
    # Without a link to what was observed, the most frequent of the observed states.
    alone = nf.Relation.from_edges([(seen[0], seen[1])])
    told = nf.evaluate.reconstruct_spreading(noise, states, [*seen, noise.ids[int(rows[0]) + 1]], relation=alone)
    assert set(told.baselines["label spreading"].states.values()) == {"S", "I", "R"}


def test_one_state_among_the_observed_is_said(outbreak):
    emb, states = outbreak
    ids = [key for key, state in states.items() if state == "S"][:5]
    with pytest.warns(NearfarWarning, match="all 5 observed states are the same") as told:
        found = nf.evaluate.reconstruct_spreading(emb, states, ids)
    assert told[0].filename == __file__
    assert set(found.states.values()) == {"S"}
    nobody = dict.fromkeys(states, "S")  # an outbreak that did not happen
    with pytest.warns(NearfarWarning, match="are the same"):
        found = nf.evaluate.reconstruct_spreading(emb, nobody, n_repeats=1)
    assert (found.accuracy, found.curve_error) == (1.0, 0.0)
