"""What measures the sentences of Word2DM's appendices A and B, which ``words.toml`` has."""

from __future__ import annotations

from itertools import pairwise

import nearfar as nf
from lab.papers.claims import Results, read_claims

SOURCE = "word2dm.txt"
TITLE = "Word2DM: F. Meyer and M. Lewis, CoNLL 2020, appendices A and B"
ABOUT = """Only the two appendices are at hand. They print formulas and settings, and no result: what the paper's other
sections say of similarity, phrases and ambiguity can be neither quoted nor tested here, and what is measured stands
below without a verdict."""


def settings_that_differ(_: Results, model: str) -> list[float]:
    """Return how many settings of ``paper()`` of a model are not those of appendix B."""
    printed: dict[str, object] = {"window": 5, "min_count": 50, "n_negative": 5, "sample": 1e-5, "n_epochs": 4}
    printed |= {"noise_exponent": 0.75, "optimizer": "adam", "learning_rate": 0.001, "batch_size": 16}
    own = getattr(nf, model).paper().get_params()
    return [float(sum(own[name] != value for name, value in printed.items()))]


def drawn_otherwise(_: Results) -> list[float]:
    """Return 1 if ``paper()`` draws a size of the window for each sentence, not for each window."""
    return [float(nf.Word2DM.paper().shrink_window != "word")]


def _pulls(results: Results, form: str) -> list[float]:
    """Return the pull of the context by overlap, from 1 down."""
    name = f"{form}: pull of the context at overlap"
    return [results.line("word2dm-gradients", f"{name} {overlap}").mean for overlap in (1, 0.1, 0.01, 0.001)]


def relative_pull(results: Results, form: str) -> list[float]:
    near, *_, far = _pulls(results, form)
    return [far / near]


def fall(results: Results, form: str) -> list[float]:
    """Return the greatest rise of the pull from one overlap to the next smaller one."""
    return [max(after - before for before, after in pairwise(_pulls(results, form)))]


CLAIMS, _ = read_claims("words", settings_that_differ, drawn_otherwise, relative_pull, fall)
