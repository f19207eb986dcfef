"""What scikit-learn's ``check_estimator`` finds of each estimator: the checks that fail, each with its reason.

The tests run it by this table, and docs/estimator-checks.md is written from it:
``python tests/support/estimator_checks.py``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nearfar as nf

PAGE = Path(__file__).resolve().parents[2] / "docs" / "estimator-checks.md"
_MAP = {"perplexity": 3, "max_iter": 15, "early_exaggeration_iter": 5, "random_state": 0, "n_jobs": 1}
_WORDS = {"n_epochs": 1, "min_count": 1, "sample": 0, "random_state": 0, "n_jobs": 1}
MAPS = ("TSNE", "UMAP", "SSNE", "ASNE", "TASNE", "HSSNE", "JSE", "NeRV", "WSSNE", "InhomogeneousTSNE")
MODELS = ("SkipGram", "Word2DM", "MultiSenseWord2DM")
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "EDRep": lambda: nf.EDRep(2, constraint="ball", n_epochs=2, random_state=0, n_jobs=1),
    "SkipGram": lambda: nf.SkipGram(2, **_WORDS),
    "Word2DM": lambda: nf.Word2DM(2, **_WORDS),
    "MultiSenseWord2DM": lambda: nf.MultiSenseWord2DM(2, variant="columns", **_WORDS),
    "Affinities": lambda: nf.Affinities(3, random_state=0, n_jobs=1),
    "MDS": lambda: nf.MDS(max_iter=5, init="random", random_state=0, n_jobs=1),
    "NeighborEmbedding": lambda: nf.NeighborEmbedding(**_MAP),
    **{name: lambda name=name: getattr(nf, name)(**_MAP) for name in MAPS},
}
QUICK = ("EDRep", "SkipGram", "Affinities")  # maps go by the same bases

_GIVEN_AGAIN = ("check_transformer_general", "check_transformer_data_not_an_array")
_FAILS: list[tuple[tuple[str, ...], tuple[str, ...], str]] = [
    (
        tuple(ESTIMATORS),
        ("check_dtype_object",),
        "A cell that is no number is refused by an `InputError`, a `ValueError`; the check asks for a `TypeError`.",
    ),
    (
        ("EDRep",),
        _GIVEN_AGAIN,
        "A row of the fit that is given again to `transform` is placed, to the end, among the others and itself.",
    ),
    (
        ("MDS", "NeighborEmbedding", *MAPS),
        _GIVEN_AGAIN,
        "A point of the fit that is given again to `transform` is placed by itself: near its place, not on it.",
    ),
    (
        ("Affinities",),
        _GIVEN_AGAIN,
        "A row of the fit that is given again to `transform` finds itself; in the fit it does not. Both are sparse.",
    ),
    (("Affinities",), ("check_transformer_preserve_dtypes",), "Probabilities are kept in float32."),
    (
        ("TSNE",),
        ("check_fit2d_1sample",),
        "For this name the check sets `perplexity=0.5`, which is refused before the one row is looked at.",
    ),
    (MODELS, ("check_n_features_in_after_fitting",), "`partial_fit` takes relations to other objects: it adds them."),
]
REASONS = {
    name: {check: why for names, checks, why in _FAILS if name in names for check in checks} for name in ESTIMATORS
}
"""For each estimator the checks that fail, and why."""


def page() -> str:
    """Return the page."""
    lines = [
        "# Checks of scikit-learn",
        "",
        "Every estimator runs all of scikit-learn's `check_estimator`, with small parameters; `EDRep`, with",
        "`constraint='ball'`, and models of words on matrices without negative numbers. These checks fail:",
        "",
        "| Check | Of | Reason |",
        "|---|---|---|",
    ]
    every_map = ", ".join(f"`{name}`" for name in ("NeighborEmbedding", *MAPS))
    for names, checks, why in _FAILS:
        of = "every estimator" if len(names) == len(ESTIMATORS) else ", ".join(f"`{name}`" for name in names)
        told = ", ".join(f"`{check}`" for check in checks)
        lines.append(f"| {told} | {of.replace(every_map, 'all maps of neighbours')} | {why} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
