"""What appendices A and B of Word2DM's paper say; its other sections are not at hand."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import nearfar as nf
from lab.papers.claims import Quote, Results, above, below, one_line, zero

SOURCE = "word2dm.txt"
TITLE = "Word2DM: F. Meyer and M. Lewis, CoNLL 2020, appendices A and B"
ABOUT = """Only the two appendices are at hand. They print formulas and settings, and no result: what the paper's other
sections say of similarity, phrases and ambiguity can be neither quoted nor tested here, and what is measured stands
below without a verdict."""

_LINE = partial(one_line, "word2dm-gradients")


def _settings_that_differ(_: Results, model: str) -> list[float]:
    """Return how many settings of ``paper()`` of a model are not those of appendix B."""
    printed: dict[str, object] = {"window": 5, "min_count": 50, "n_negative": 5, "sample": 1e-5, "n_epochs": 4}
    printed |= {"noise_exponent": 0.75, "optimizer": "adam", "learning_rate": 0.001, "batch_size": 16}
    own = getattr(nf, model).paper().get_params()
    return [float(sum(own[name] != value for name, value in printed.items()))]


def _pulls(results: Results, form: str) -> list[float]:
    """Return the pull of the context by overlap, from 1 down."""
    name = f"{form}: pull of the context at overlap"
    return [results.line("word2dm-gradients", f"{name} {overlap}").mean for overlap in (1, 0.1, 0.01, 0.001)]


def _relative_pull(results: Results, form: str) -> list[float]:
    near, *_, far = _pulls(results, form)
    return [far / near]


def _fall(results: Results, form: str) -> list[float]:
    """Return the greatest rise of the pull from one overlap to the next smaller one."""
    return [max(after - before for before, after in pairwise(_pulls(results, form)))]


CLAIMS = [
    Quote("property A.1", "can be expressed as the sum of the element-wise products of their elements").tested(
        "tr(AB) less the sum of a_ij b_ji", _LINE("tr(AB) less the sum of a_ij b_ji"), zero()
    ),
    Quote("lemma A.2", "can be written as the sum of the squared elements of an m×m matrix C").tested(
        "tr(A_t A_c) less the sum of the squared entries of B_cᵀ B_t",
        _LINE("tr(A_t A_c) less the sum of the squared entries of B_cᵀ B_t"),
        zero(),
    ),
    Quote("eq. (5)", "This allows us to rewrite equation 4 to find an equivalent objective function").tested(
        "the library's loss plus eq. (5)", _LINE("the library's loss plus eq. (5)"), zero()
    ),
    Quote("appendix A", "we have reduced the number of matrix multiplications").untested(
        "matrix multiplications for each prediction",
        "a count of the paper's form; the library multiplies other matrices, in blocks",
        "3(K + 1) to K + 1",
    ),
    Quote("eq. (8)", "We can now write the derivative of J with respect to the full intermediary matrix Bt").tested(
        "eq. (8) as printed, with a plus before its sum: relative error against central differences",
        _LINE("eq. (8) as printed, a plus before the sum: relative error"),
        zero(1e-6),
    ),
    Quote(
        "the line before eq. (8)",
        "obtained by rewriting the summation expressions as equivalent matrix multiplications",
    ).tested(
        "the same with the minus of that line: relative error against central differences",
        _LINE("eq. (8) with a minus: relative error"),
        zero(1e-6),
    ),
    Quote("appendix A", "We now derive the gradients used to update Bt during training").tested(
        "the library's gradient: relative error against central differences",
        _LINE("the library's gradient: relative error"),
        zero(1e-6),
    ),
    Quote("eq. (2)", "The derivative of equation 1 with respect to the target vector vt is").tested(
        "eq. (2) as printed: relative error against central differences",
        _LINE("eq. (2) as printed: relative error"),
        zero(1e-6),
    ),
    *(
        Quote("appendix A", "the target-context update becomes ineffective for true contexts").tested(
            f"{form}: pull at overlap .001 over that at 1 (read: below .1)",
            partial(_relative_pull, form=form),
            below(0.1),
        )
        for form in ("published form", "offset ln K")
    ),
    *(
        Quote("appendix A", "the less effective the update will be").tested(
            f"{form}: the greatest rise of the pull as the overlap falls from 1 to .001",
            partial(_fall, form=form),
            below(0),
        )
        for form in ("published form", "offset ln K")
    ),
    Quote(
        "appendix A",
        "the magnitude of the target-context update should increase if the target and context representations are"
        " less similar",
    ).tested(
        "skip-gram: least rise of 1 - σ as the cosine falls from .9 to .001",
        _LINE("skip-gram: least rise of 1 - σ from cosine .9 to .1 to .001"),
        above(0),
    ),
    Quote(
        "appendix A", "lose the guarantee that the algorithm will learn high-quality semantic representations"
    ).untested("a guarantee", "no experiment can show that there is none"),
    *(
        Quote(
            "appendix B",
            "We use a window size of 5, a minimum word count of 50, 5 negative samples per positive context",
        ).tested(
            f"settings of `{model}.paper()` that are not those of appendix B, of nine",
            partial(_settings_that_differ, model=model),
            zero(0),
            "window 5, count 50, 5 negatives, 1e-5, 4 iterations, Adam, 0.001, 16 sentences, 3/4",
        )
        for model in ("Word2DM", "MultiSenseWord2DM")
    ),
    Quote(
        "appendix B", "the size of each context window is sampled uniformly between 1 and the maximum window size"
    ).tested(
        "whether `Word2DM.paper()` draws a size for each sentence, as the authors' code does, not for each window",
        lambda _: [float(nf.Word2DM.paper().shrink_window != "word")],
        zero(0),
    ),
    Quote("appendix B", "We train our Word2DM and multi-sense Word2DM models on the ukWaC+Wackypedia corpus").not_run(
        "both models on that text", printed="2.8 billion words"
    ),
]
