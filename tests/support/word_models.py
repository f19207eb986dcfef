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


class Rows:
    """Rows of a table in float64 that move uphill by their gradient, or by Adam, each with a count of its own steps."""

    def __init__(self, values, adam=False):
        self.values, self.adam = values.astype(np.float64), adam
        self.first, self.second = np.zeros((2, *values.shape))
        self.steps = np.zeros(len(values), int)

    def move(self, row, uphill, rate):
        if not self.adam:
            self.values[row] += rate * uphill
            return
        self.steps[row] += 1
        t = self.steps[row]
        self.first[row] = 0.9 * self.first[row] + 0.1 * uphill
        self.second[row] = 0.999 * self.second[row] + 0.001 * uphill**2
        # The small number is beside the root before its correction, as in section 2 of the paper.
        scale = np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        self.values[row] += rate * scale * self.first[row] / (np.sqrt(self.second[row]) + 1e-8)
