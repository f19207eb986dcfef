"""What planted data refuse."""

import numpy as np
from refusals import With, refused

from nearfar.datasets import dcsbm, planted_senses, simulate_sir
from nearfar.errors import InputError, UnknownIdError

CHAIN = [("a", "b", 0), ("b", "c", 10), ("c", "d", 20), ("d", "a", 30)]
PLANTED = planted_senses(4, 2, [(1, 1)], random_state=0)

test_refusals = refused(
    {
        "dcsbm": lambda **given: dcsbm(**({"n_nodes": 1000, "mean_degree": 10.0, "alpha": 2.0} | given)),
        "planted_senses": lambda **given: planted_senses(**({"n_topics": 4, "shares": [(1, 1)]} | given)),
        "entropy": lambda words: PLANTED.entropy(words),
        "simulate_sir": lambda **given: simulate_sir(CHAIN, **({"beta": 0.5, "mu": 0.1} | given)),
    },
    [
        ("dcsbm", "n_nodes", 1, InputError, "dcsbm: ", "an integer in"),
        ("dcsbm", "n_communities", With(n_nodes=10, n_communities=11), InputError),
        ("dcsbm", "mean_degree", 0.0, InputError),
        ("dcsbm", "alpha", None, InputError, "neither"),
        ("dcsbm", "c_out", 3.0, InputError, "both"),
        ("dcsbm", "alpha", 9.0, InputError, "must be in"),
        ("dcsbm", "alpha", -9.0, InputError, "must be in"),
        ("dcsbm", "alpha", float("nan"), InputError, "a finite number"),
        ("dcsbm", "c_out", With(alpha=None, c_out=-0.1), InputError),
        ("dcsbm", "c_out", With(alpha=None, c_out=13.4), InputError),
        ("dcsbm", "theta", "zipf", InputError, "one of"),
        ("dcsbm", "theta", [1.0, 2.0], InputError, "of shape (1000,)"),
        ("dcsbm", "theta", np.full(1000, np.nan), InputError, "finite"),
        ("dcsbm", "theta", np.full(1000, -1.0), InputError, "not negative"),
        ("dcsbm", "theta", np.zeros(1000), InputError, "above 0"),
        ("dcsbm", "random_state", -1, InputError),
        ("dcsbm", "n_jobs", 0, InputError),
        ("planted_senses", "n_topics", 0, InputError, "planted_senses: ", "an integer"),
        ("planted_senses", "n_words", 0, InputError, "an integer"),
        ("planted_senses", "n_sentences", 0, InputError),
        ("planted_senses", "length", 1.5, InputError),
        ("planted_senses", "noise", 1.1, InputError, "a finite number"),
        ("planted_senses", "shares", [(1,)], InputError, "of 2 to 4 topics (n_topics) each; got 1 of them"),
        ("planted_senses", "shares", [(1,) * 5], InputError, "got 5 of them"),
        ("planted_senses", "shares", [(1, 0)], InputError, "above 0, one list for each ambiguous word; got (1, 0)"),
        ("planted_senses", "shares", (1, 2), InputError, "got 1"),
        ("planted_senses", "shares", [(1, np.nan)], InputError, "above 0"),
        ("planted_senses", "shares", ["ab"], InputError, "'ab'"),
        ("planted_senses", "shares", "ab", InputError, "'ab'"),
        ("planted_senses", "shares", None, InputError, "None"),
        ("planted_senses", "random_state", -1, InputError),
        ("entropy", "id", With(words=["a0", "a9"]), UnknownIdError, "PlantedSenses.entropy", "'a9'"),
        ("simulate_sir", "initial", 0, InputError, "an integer in [1, 4]; got 0"),
        ("simulate_sir", "initial", 5, InputError, "an integer in [1, 4]"),
        ("simulate_sir", "initial", [], InputError, "at least one node; got none. Nothing would spread"),
        ("simulate_sir", "initial", "a", InputError, "a number or a list of nodes"),
        ("simulate_sir", "id", With(initial=["a", "z"]), UnknownIdError, "got 'z'. These nodes have no contact"),
        ("simulate_sir", "beta", 1.5, InputError, "a finite number in [0, 1]"),
        ("simulate_sir", "mu", -0.1, InputError),
        ("simulate_sir", "step", 4, InputError, "None without window"),
    ],
)
