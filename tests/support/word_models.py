"""Models of words that are quick to fit, a text for them, and what a fit leaves."""

import numpy as np

import nearfar as nf

QUICK = {"sample": 0, "n_epochs": 2, "random_state": 0, "n_jobs": 1}
STILL = {"learning_rate": 1e-30, "min_learning_rate": 0.0}  # above 0, and too small to move anything
TEXT = [["the", "sea", "the", "ship"], ["a", "sea", "ship", "the"], ["the", "shore", "a"]] * 10 + [["rare", "the"]] * 4


def skipgram(**params):
    return nf.SkipGram(**{"n_components": 5, **QUICK, **params})


def word2dm(**params):
    return nf.Word2DM(**{"n_components": 3, "n_factors": 2, **QUICK, **params})


def clusters(**params):
    return nf.MultiSenseWord2DM(**{"n_components": 5, "min_sense_count": 10, **QUICK, **params})


def columns(**params):
    return clusters(**{"n_senses": 2, "variant": "columns", **params})


def results(model):
    """All numbers that a fit leaves, by name."""
    found = {name: np.column_stack(value) if name == "pull_" else value for name, value in vars(model).items()}
    found = {name: value for name, value in found.items() if name[0] != "_" and isinstance(value, np.ndarray)}
    found["rate"] = model.learning_rate_
    return found | {"counts": model.vocabulary_.counts} if model.vocabulary_ is not None else found


def assert_same(left, right):
    a, b = results(left), results(right)
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name)
    assert list(left.vectors_) == list(right.vectors_)
