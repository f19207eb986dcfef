"""What measures the sentences of Word2DM's appendices A and B, which ``words.toml`` has."""

from __future__ import annotations

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


def relative_pull(results: Results, near: float) -> list[float]:
    """Return the pull of the context at overlap .001 over that at another, in the published form."""
    far, close = (results.line("word2dm-gradients", f"{_PULL} {at:g}").mean for at in (0.001, near))
    return [far / close]


_PULL = "published form: pull of the context at overlap"

CLAIMS, _ = read_claims("words", settings_that_differ, drawn_otherwise, relative_pull)
