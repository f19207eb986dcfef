"""What Stratos' notes on noise-contrastive estimation say."""

from __future__ import annotations

import math
from functools import partial

from lab.papers.claims import Claim, Quote, Results, Sample, above, at_least, at_most, one_line, zero

SOURCE = "nce.txt"
TITLE = "Noise-contrastive estimation: K. Stratos' notes"
ABOUT = """Worlds are so small that every outcome is summed: errors are of rounding. Two more papers that the notes name
were rebuilt, Ma and Collins (2018) and the bounds of McAllester and Stratos (2020) and Poole and others (2019); their
texts are not at hand, so they are measured below without a verdict but where the notes say the same."""

_NOISE = ("the marginal", "uniform", "another", "one for each x")
_OPTIMA = partial(one_line, "nce-optima")
_SOFTMAX = partial(one_line, "nce-sampled-softmax")


def _global() -> list[Claim]:
    found = [
        Quote("section 1.1, lemma 1.1 and corollary 1.2", "≤ min {I(X, Y), log N}").tested(
            f"ln N less the loss of the best scores, less I, N = {n}", partial(_above_information, n=n), at_most(0)
        )
        for n in range(2, 8)
    ]
    found += [
        Quote("section 1.2", "This lower bound cannot be greater than").tested(
            f"InfoNCE less ln {n:,}, {critic} critic, Gaussians of {level} nats",
            partial(_above_ceiling, what=f"infonce, {critic} critic, I = {level} nats, N = {n:,}", n=n),
            at_most(0),
        )
        for critic, n in (("exact", 1024), ("trained", 64))
        for level in (2, 4, 6, 8, 10)
    ]
    found += [
        Quote("section 1.2", "+ log C_x ... for some constant C_x > 0").tested(
            f"noise: {name}: slope of global NCE at ln p/q + c, N = 2 to 5",
            _OPTIMA(f"global NCE, noise: {name}: slope at ln p/q + c, N = 2..5"),
            zero(),
        )
        for name in _NOISE
    ]
    found += [
        Quote("eq. (2)", "to recover the underlying conditional distribution").tested(
            f"noise: {name}: error of eq. (2) at the best scores",
            _OPTIMA(f"global NCE, noise: {name}: error of eq. (2) at the best scores"),
            zero(),
        )
        for name in _NOISE
    ]
    return [
        *found,
        Quote("section 1.2", "the additive adjustment is unnecessary if we choose uniformly random q_Y").tested(
            "error of eq. (2) without ln q, uniform noise",
            _OPTIMA("global NCE, noise: uniform: error of eq. (2) without ln q"),
            zero(),
        ),
        *(
            Quote(
                "section 1.2",
                "A small modification of global NCE gives an unbiased gradient estimator of the cross entropy loss",
            ).tested(
                f"noise {name}: largest bias of the gradient, m = 5",
                _SOFTMAX(f"C.2, noise {name}: bias of the other components, m = 5"),
                zero(),
            )
            for name in ("uniform", "q ∝ exp s")
        ),
    ]


def _above_information(results: Results, n: int) -> list[float]:
    bound = results.line("nce-infonce-bound", f"ln N - loss of the best scores, N = {n}")
    return [bound.mean - results.line("nce-infonce-bound", "I(X; Y)").mean]


def _above_ceiling(results: Results, what: str, n: int) -> Sample:
    return results.line("nce-mutual-information", what).less(Sample(math.log(n), 0.0, 3))


def _local() -> list[Claim]:
    found = [
        Quote("section 2.2", "By universality we must have ... this means ... - log(N-1)").tested(
            f"noise: {name}: slope of local NCE at ln p/q - ln(N - 1), N = 2 to 5",
            _OPTIMA(f"local NCE, noise: {name}: slope at ln p/q - ln(N - 1), N = 2..5"),
            zero(),
        )
        for name in _NOISE
    ]
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
    found += [
        Quote("section 2.2", "this calculation doesn't require normalization").tested(
            f"noise: {name}: error of the recovered p(y|x), N = 3",
            _OPTIMA(f"local NCE, noise: {name}: error of the recovered p(y|x), N = 3"),
            zero(),
        )
        for name in _NOISE
    ]
    of_world = partial(one_line, "nce-consistency")
    found += [
        Quote("section 2.2", "This is a strong assumption when |X| is larger than the number of variables in θ").tested(
            f"local NCE, {name}, log-linear models whose normaliser varies with x: distance from the truth",
            of_world(f"{line}: distance of the parameters from the truth"),
            above(0.05),
        )
        for name, line in (("no offset", "binary"), ("one offset", "binary, one offset"))
    ]
    found.append(
        Quote("section 1.2", 'This is consistent with the "ranking" algorithm').tested(
            "global NCE, the same models: distance from the truth (read: below .001)",
            of_world("ranking: distance of the parameters from the truth"),
            at_most(0.001),
        )
    )
    found += [
        Quote("lemma 2.1", "+ (N-1)KL ... - log N - (N-1)log").tested(
            f"noise: {name}: least loss less its form as divergences, N = 2 to 5",
            partial(one_line, "nce-jensen-shannon")(f"noise: {name}: least loss less N (H(1/N) - JS), N = 2..5"),
            zero(),
        )
        for name in _NOISE
    ]
    return [
        *found,
        Quote("section 2.1", "= -log 4 ... where the minimizer is q_Y = pop_Y").tested(
            "value of the game with noise that is the data, plus ln 4",
            lambda results: [
                _game(results, "value of the game with noise that is the data (GAN), N = 2") + math.log(4)
            ],
            zero(1e-7),
            "-log 4",
        ),
        Quote("corollary 2.2", "2JSD ... - log 4").tested(
            "value of the game with uniform noise, plus ln 4",
            lambda results: [_game(results, "the same with uniform noise") + math.log(4)],
            at_least(0),
        ),
    ]


def _game(results: Results, what: str) -> float:
    return results.line("nce-jensen-shannon", what).mean


def _appendices() -> list[Claim]:
    of = partial(one_line, "nce-appendices")
    sizes, other = range(1, 6), ("uniform", "q ∝ exp -s")
    return [
        Quote("appendix A", "is a convex upper bound on the zero-one loss").tested(
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
        Quote("appendix B", "Then we find ... that minimizes the cross (conditional) entropy").tested(
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
            Quote("lemma C.2, case l = t", "Note that this holds for any choice of q").tested(
                f"noise {name}: bias of the true component, m = {m}",
                _SOFTMAX(f"C.2, noise {name}: bias of the true component, m = {m}"),
                zero(),
            )
            for name in other
            for m in sizes
        ),
        *(
            Quote("lemma C.2, case l ≠ t", "the equality with * holds iff ... is constant for all").tested(
                f"noise {name}: bias of the other components, m = {m}",
                _SOFTMAX(f"C.2, noise {name}: bias of the other components, m = {m}"),
                above(0.001),
            )
            for name in other
            for m in sizes
        ),
        *(
            Quote("lemma C.2", "iff q(x) ∝ exp(θ_x) for all x").tested(
                f"noise q ∝ exp s: bias of the {component}, m = {m}",
                _SOFTMAX(f"C.2, noise q ∝ exp s: bias of the {component}, m = {m}"),
                zero(),
            )
            for component in ("true component", "other components")
            for m in sizes
        ),
        Quote("appendix C", "we can approximate this distribution by").untested(
            "the bias of an approximate q", "the notes point to another paper for it"
        ),
    ]


CLAIMS = [*_global(), *_local(), *_appendices()]
