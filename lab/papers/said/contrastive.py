"""What Stratos' notes on noise-contrastive estimation say."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from lab.papers.claims import Claim, Measure, Quote, Results, Sample, above, at_least, at_most, one_line, zero

SOURCE = "nce.txt"
TITLE = "Noise-contrastive estimation: K. Stratos' notes"
ABOUT = """Worlds are so small that every outcome is summed: errors are of rounding. Three more papers that the notes
name were rebuilt, Ma and Collins (2018), and the bounds of McAllester and Stratos (2020) and Poole and others (2019);
their texts are not at hand, so they are measured below without a verdict but where the notes say the same."""

_NOISE = ("the marginal", "uniform", "another", "one for each x")
_OPTIMA = partial(one_line, "nce-optima")
_TRUE, _REST = "true component", "other components"
_SOFTMAX = partial(one_line, "nce-sampled-softmax")
_DIVERGENCES = partial(one_line, "nce-jensen-shannon")


def _for_any_noise(quote: Quote, what: str, lines: Callable[[str], Measure], line: str) -> list[Claim]:
    """Return the claim that a line is 0, for each kind of noise."""
    return [quote.tested(f"noise: {name}: {what}", lines(line.format(name)), zero()) for name in _NOISE]


def _global() -> list[Claim]:
    found = [
        Quote("section 1.1, lemma 1.1 and corollary 1.2", "≤ min {I(X, Y), log N}").tested(
            f"ln N less the loss of the best scores, less I, N = {n}", partial(_above_information, n=n), at_most(0)
        )
        for n in range(2, 8)
    ]
    found += [
        Quote("section 1.2", "This lower bound cannot be greater than log N").tested(
            f"InfoNCE less ln {n:,}, {critic} critic, Gaussians of {level} nats",
            partial(_above_ceiling, what=f"infonce, {critic} critic, I = {level} nats, N = {n:,}", n=n),
            at_most(0),
        )
        for critic, n in (("exact", 1024), ("trained", 64))
        for level in (2, 4, 6, 8, 10)
    ]
    found += _for_any_noise(
        Quote("section 1.2", "+ log C_x ... for some constant C_x > 0"),
        "slope of global NCE at ln p/q + c, N = 2 to 5",
        _OPTIMA,
        "global NCE, noise: {}: slope at ln p/q + c, N = 2..5",
    )
    found += _for_any_noise(
        Quote("eq. (2)", "to recover the underlying conditional distribution"),
        "error of eq. (2) at the best scores",
        _OPTIMA,
        "global NCE, noise: {}: error of eq. (2) at the best scores",
    )
    return [
        *found,
        Quote("section 1.2", "the additive adjustment is unnecessary if we choose uniformly random q_Y").tested(
            "error of eq. (2) without ln q, uniform noise",
            _OPTIMA("global NCE, noise: uniform: error of eq. (2) without ln q"),
            zero(),
        ),
        Quote(
            "section 1.2",
            "A small modification of global NCE gives an unbiased gradient estimator of the cross entropy loss",
        ).tested(
            "noise q ∝ exp s, as appendix C asks: largest bias of the gradient but of the true component, m = 5",
            _SOFTMAX("C.2, noise q ∝ exp s: bias of the other components, m = 5"),
            zero(),
        ),
    ]


def _above_information(results: Results, n: int) -> list[float]:
    bound = results.line("nce-infonce-bound", f"ln N - loss of the best scores, N = {n}")
    return [bound.mean - results.line("nce-infonce-bound", "I(X; Y)").mean]


def _above_ceiling(results: Results, what: str, n: int) -> Sample:
    return results.line("nce-mutual-information", what).less(Sample(math.log(n), 0.0, 3))


def _local() -> list[Claim]:
    found = _for_any_noise(
        Quote("section 2.2", "By universality we must have ... this means ... - log(N-1)"),
        "slope of local NCE at ln p/q - ln(N - 1), N = 2 to 5",
        _OPTIMA,
        "local NCE, noise: {}: slope at ln p/q - ln(N - 1), N = 2..5",
    )
    found += [
        Quote(
            "section 2.2", "the pointwise mutual information (PMI) minus the log of the number of negative examples"
        ).tested(
            "slope at PMI - ln(N - 1), noise that is the marginal, N = 2 to 5",
            _OPTIMA("local NCE, noise: the marginal: slope at ln p/q - ln(N - 1), N = 2..5"),
            zero(),
        ),
        Quote("section 2.2", "the optimal score of ... is the pointwise mutual information").tested(
            "the condition, noise that is the marginal, is needed: slope at PMI - ln 2 with other noise",
            _OPTIMA("local NCE, noise: another: slope at PMI - ln(N - 1), N = 3"),
            above(0.01),
        ),
    ]
    found += _for_any_noise(
        Quote("section 2.2", "this calculation doesn't require normalization"),
        "error of the recovered p(y|x), N = 3",
        _OPTIMA,
        "local NCE, noise: {}: error of the recovered p(y|x), N = 3",
    )
    of_world = partial(one_line, "nce-consistency")
    models = "log-linear models of two parameters whose normaliser varies with x, 3 of them"
    found += [
        Quote("section 2.2", "This is a strong assumption when |X| is larger than the number of variables in θ").tested(
            f"local NCE, {models}: distance from the truth (read: above .05)",
            of_world("binary: distance of the parameters from the truth"),
            above(0.05),
        ),
        Quote(
            "section 1.2", "we can use the optimal parameter ... to recover the underlying conditional distribution"
        ).tested(
            "global NCE, the same models: distance from the truth (read: at most .001)",
            of_world("ranking: distance of the parameters from the truth"),
            at_most(0.001),
        ),
    ]
    found += _for_any_noise(
        Quote("lemma 2.1", "+ (N-1)KL ... - log N - (N-1)log"),
        "least loss less its form as divergences, N = 2 to 5",
        _DIVERGENCES,
        "noise: {}: least loss less N (H(1/N) - JS), N = 2..5",
    )
    return [
        *found,
        Quote("section 2.1", "= -log 4").tested(
            "value of the game with noise that is the data, plus ln 4",
            partial(_game, what="value of the game with noise that is the data (GAN), N = 2"),
            zero(1e-7),
            "-log 4",
        ),
        Quote("section 2.1", "where the minimizer is q_Y = pop_Y").tested(
            "value of the game with uniform noise, plus ln 4",
            partial(_game, what="the same with uniform noise"),
            above(0),
        ),
        Quote("corollary 2.2", "2JSD ... - log 4").tested(
            "uniform noise: least loss less its form as divergences, N = 2 among 2 to 5",
            _DIVERGENCES("noise: uniform: least loss less N (H(1/N) - JS), N = 2..5"),
            zero(),
        ),
    ]


def _game(results: Results, what: str) -> list[float]:
    return [results.line("nce-jensen-shannon", what).mean + math.log(4)]


def _appendices() -> list[Claim]:
    of = partial(one_line, "nce-appendices")
    other = "uniform", "q ∝ exp -s"
    return [
        Quote("appendix A", "upper bound on the zero-one loss").tested(
            "hinge loss less zero-one loss: the least of 2,000 rows",
            of("hinge loss less the zero-one loss, 2,000 rows: the least"),
            at_least(0),
        ),
        Quote("appendix A", "maximization is replaced by sampling").untested(
            "hinge loss over a sample", "the notes say that it is done, and nothing that could fail"
        ),
        Quote("appendix B", "is the log probability of (x, y) shifted by some constant dependent on x").tested(
            "slope of the cross entropy at ln p(x, y) + ln C_x",
            of("cross entropy: slope at ln p(x, y) + ln C_x"),
            zero(),
        ),
        Quote("appendix B", "By universality we must have ... This means").tested(
            "cross entropy at these scores less the entropy of y given x",
            of("cross entropy at these scores less the entropy of y given x"),
            zero(),
        ),
        *(
            Quote("lemma C.1", "= Z(θ)").tested(
                f"noise {name}: relative error of E[Ẑ], m = 1 to 5",
                _SOFTMAX(f"C.1, noise {name}: relative error of E[Ẑ], m = 1..5"),
                zero(),
            )
            for name in ("uniform", "q ∝ exp -s", "q ∝ exp s")
        ),
        *(
            Quote(f"lemma C.2{case}", says).tested(
                f"noise {name}: bias of the {component}, m = {m}",
                _SOFTMAX(f"C.2, noise {name}: bias of the {component}, m = {m}"),
                test,
            )
            for case, says, component, names, test in (
                (", case l = t", "Note that this holds for any choice of q", _TRUE, other, zero()),
                (", case l ≠ t", "the equality with * holds iff ... is constant for all", _REST, other, above(0.001)),
                ("", "iff q(x) ∝ exp(θ_x) for all x", _TRUE, ("q ∝ exp s",), zero()),
                ("", "iff q(x) ∝ exp(θ_x) for all x", _REST, ("q ∝ exp s",), zero()),
            )
            for name in names
            for m in range(1, 6)
        ),
        Quote("appendix C", "we can approximate this distribution by").untested(
            "the bias of an approximate q", "the notes point to another paper for it"
        ),
    ]


CLAIMS = [*_global(), *_local(), *_appendices()]
