"""Hostile arrays: some draws of `make fuzz`, the same each time; and everything public that takes arrays is drawn."""

import inspect

import fuzz_arrays
import matplotlib
import numpy as np
import pytest

import nearfar as nf

SEED, DRAWS = 3, 150
COMPILED = (
    "HSSNE",
    "NeRV",
    "JSE",
    "InhomogeneousTSNE",
    "UMAP",
    *("SSNE", "ASNE"),
)  # three seconds each to place new points; `make fuzz` has them
NO_ARRAYS = {
    *("plant_pseudowords", "word_analogies", "word_similarity", "phrases", "sense_induction", "ambiguity"),  # of texts
    *("anchor_purity", "reconstruct_spreading", "select"),  # of embeddings and names, as those below of arrays
    "rnx_curves",  # of results
}


def test_hostile_arrays_give_finite_results_or_errors_of_nearfar(monkeypatch):
    matplotlib.use("Agg")
    for name in COMPILED:
        monkeypatch.delitem(fuzz_arrays.TARGETS, name)
    found = fuzz_arrays.run(SEED, 0, DRAWS)
    counts = found.pop("")
    assert not found
    assert "taken" in counts[0]
    assert "refused" in counts[0]


@pytest.mark.parametrize("package", [nf.evaluate, nf.plots])
def test_every_evaluator_and_plot_is_drawn(package):
    functions = {name for name in package.__all__ if inspect.isfunction(getattr(package, name))}
    assert functions - set(fuzz_arrays.TARGETS) <= NO_ARRAYS


def test_every_estimator_is_drawn():
    public = (getattr(nf, name) for name in nf.__all__)
    estimators = {each.__name__ for each in public if inspect.isclass(each) and hasattr(each, "get_params")}
    assert estimators <= set(fuzz_arrays.TARGETS)


def test_what_is_not_finite_is_found_in_every_kind_of_result():
    bad = np.array([1.0, np.nan])
    for result in (bad, [bad], {"a": bad}, (1.0, float("inf")), nf.TSNE().set_params(init=bad)):
        arrays = [array for _, array in fuzz_arrays.numbers_of(result)]
        assert any(not np.isfinite(array).all() for array in arrays) == (not hasattr(result, "get_params"))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda _: np.array([1.0, np.inf]), "UnsoundError"),
        (lambda _: {}["missing"], "KeyError"),
        (lambda _: np.float64(1e300) ** 2, "RuntimeWarning"),
        (lambda draw: draw._drawn({"masked": fuzz_arrays._masked}, None, np.ones((3, 3))), ""),
    ],
)
def test_what_may_not_happen_is_told(monkeypatch, call, told):
    monkeypatch.setattr(fuzz_arrays, "TARGETS", {"it": call})
    found = fuzz_arrays.run(SEED, 0, 3)
    assert any(told in place for place in found)
