"""Hostile arrays: some draws of `make fuzz`, the same each time; and everything public that takes arrays is drawn."""

import inspect

import fuzz_arrays
import matplotlib

import nearfar as nf

SEED, DRAWS = 3, 30
# Three seconds each to place new points; `make fuzz` has them.
COMPILED = ("HSSNE", "NeRV", "JSE", "InhomogeneousTSNE", "UMAP", "SSNE", "ASNE")
NO_ARRAYS = {
    *("plant_pseudowords", "word_analogies", "word_similarity", "phrases", "sense_induction", "ambiguity"),  # of texts
    *("anchor_purity", "reconstruct_spreading", "select"),  # of embeddings and names, as those below of arrays
    "rnx_curves",  # of results
}


def test_hostile_arrays_give_finite_results_or_errors_of_nearfar(monkeypatch):
    matplotlib.use("Agg")
    for name in COMPILED:
        monkeypatch.delitem(fuzz_arrays.TARGETS, name)
    found = {fuzz_arrays.told(SEED, number) for number in range(DRAWS)}
    assert found == {"taken", "refused"}


def test_every_estimator_evaluator_and_plot_is_drawn():
    public = (getattr(nf, name) for name in nf.__all__)
    drawn = {each.__name__ for each in public if inspect.isclass(each) and hasattr(each, "get_params")}
    for package in (nf.evaluate, nf.plots):
        drawn |= {name for name in package.__all__ if inspect.isfunction(getattr(package, name))}
    assert drawn - set(fuzz_arrays.TARGETS) <= NO_ARRAYS
