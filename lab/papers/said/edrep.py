"""What the EDRep paper says: figures 1 to 3, the theorems, genes, spreading."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from operator import itemgetter
from statistics import fmean
from typing import Any

import numpy as np

from lab.papers.claims import Claim, Quote, Results, Sample, above, at_least, at_most, below, between, one_line
from lab.records import on_the_same

SOURCE = "edrep.txt"
TITLE = "EDRep: L. Dall'Amico and E. Belliardo, arXiv 2303.17475 v3"
ABOUT = """Times are of this machine; the paper's are of a Dell laptop with an i7-11390H (footnote 1). Figures 1 to 3
are pictures whose numbers are not printed."""

_SETS = [(data, scaling) for data in ("words", "digits") for scaling in ("mean norm 1", "unit rows")]
_D = "D = 1000"
_RIVALS = {"performer": "Choromanski et al. (Performer)", "rfa": "Peng et al. (RFA)"}


def _error(results: Results, data: str, scaling: str, k: int) -> list[float]:
    """Return the median relative error of Z by draw of a mixture of k."""
    fields = {"kind": "error", "data": data, "scaling": scaling, "method": "gaussian-mixture", "n_clusters": k}
    (record,) = results.records("figure1", **fields)
    return [float(value) for value in record["median_by_draw"]]


def _ratio(results: Results, rival: str, data: str, scaling: str) -> list[float]:
    """Return the median error of a rival at D = 1,000 over that of one Gaussian, by draw."""
    fields = {"kind": "error", "data": data, "scaling": scaling, "method": rival, "budget": _D}
    (record,) = results.records("figure1", **fields)
    (mixture,) = _error(results, data, scaling, 1)
    return [value / mixture for value in record["median_by_draw"]]


def _largest_ratio(results: Results, rival: str) -> list[float]:
    return max((_ratio(results, rival, *of) for of in _SETS), key=fmean)


def _worst_step(results: Results, data: str, scaling: str) -> list[float]:
    """Return the errors with 2, 5 or 10 Gaussians over the mean of those with fewer, where they fall least."""
    errors = [_error(results, data, scaling, k) for k in (1, 2, 5, 10)]
    return max(([value / fmean(fewer) for value in more] for fewer, more in pairwise(errors)), key=fmean)


def _of_rival(results: Results, rival: str, of: str, budget: str) -> list[Any]:
    """Return a field of a rival's errors with a budget, on all sets."""
    return results.values("figure1", of, kind="error", method=rival, budget=budget)


def _larger_d(results: Results, rival: str) -> list[float]:
    """Return the errors of a rival with D = 1,000 over the mean with fewer directions, where they fall least."""
    more, fewer = (_of_rival(results, rival, "median_by_draw", budget) for budget in (_D, "time of 10 clusters"))
    return max(([value / fmean(b) for value in a] for a, b in zip(more, fewer, strict=True)), key=fmean)


def _time_at_d(results: Results, rival: str) -> list[float]:
    """Return the time of a rival with D = 1,000 over that of five Gaussians, by set."""
    mine = results.values("figure1", "seconds", kind="error", method="gaussian-mixture", n_clusters=5)
    return [theirs / own for theirs, own in zip(_of_rival(results, rival, "seconds", _D), mine, strict=True)]


def _distance(results: Results, data: str, scaling: str) -> list[float]:
    """Return the 95 % quantile over rows of the Kolmogorov-Smirnov distance of f and the mixture of 5."""
    return results.values("figure1", "q95", kind="cdf", data=data, scaling=scaling, n_clusters=5)


def _figure_1() -> list[Claim]:
    found = []
    for data, scaling in _SETS:
        of = f"{data}, {scaling}"
        found += [
            Quote(
                "section 2.2, figure 1, columns 1 and 3",
                "the multivariate Gaussian approximation we introduced achieves high accuracy in estimating f_i",
            ).tested(
                f"{of}, κ = 5: KS distance of f and its estimate, 95 % quantile over rows (read: below .1)",
                partial(_distance, data=data, scaling=scaling),
                below(0.1),
            ),
            Quote("section 2.2", "low errors are obtained for κ = 1, already").tested(
                f"{of}, κ = 1: median relative error of Z (read: below 1 %)",
                partial(_error, data=data, scaling=scaling, k=1),
                below(0.01),
            ),
            Quote("section 2.2", "the precision increases with κ").tested(
                f"{of}: median error with κ = 2, 5 or 10 over that with the κ before, the greatest",
                partial(_worst_step, data=data, scaling=scaling),
                below(1),
            ),
        ]
    for rival, name in _RIVALS.items():
        found += [
            Quote("section 2.2", "even for κ = 1, we systematically obtain better results").tested(
                f"{data}, {scaling}: median error of {name}, D = 1,000, over that of κ = 1",
                partial(_ratio, rival=rival, data=data, scaling=scaling),
                above(1),
            )
            for data, scaling in _SETS
        ]
        found += [
            Quote("section 2.2", "by even orders of magnitude").tested(
                f"the largest of these four ratios of {name} (read: two orders)",
                partial(_largest_ratio, rival=rival),
                at_least(100),
            ),
            Quote(
                "section 2.2",
                "the accuracy of these methods increases by increasing the dimension of the projection, D",
            ).tested(
                f"{name}: median error with D = 1,000 over that with fewer, the greatest of the four sets",
                partial(_larger_d, rival=rival),
                below(1),
            ),
            Quote(
                "section 2.2", "we choose D = 1000 for which we have comparable computation times with our method"
            ).tested(
                f"time of {name}, D = 1,000, over that of κ = 5, the four sets (read: half to double)",
                partial(_time_at_d, rival=rival),
                between(0.5, 2),
            ),
        ]
    found += [
        Quote("section 2.2, figure 1", says).without_data(f"Z of the NLPL set {number}", "edrep-figure-1-nlpl", size)
        for number, says, size in (
            ("0", "British National Corpus; Continuous Skip-Gram", "n = 163,473, d = 300"),
            ("7", "English Wikipedia Dump 02/2017; Global Vectors", "n = 273,930, d = 300"),
            ("16", "Gigaword 5th Edition; fastText Skipgram", "n = 292,967, d = 300"),
            ("30", "Ancient Greek CoNLL17 corpus; Word2Vec Continuous Skip-gram", "n = 45,742, d = 100"),
            ("187", "Taiga corpus; fastText Continuous Bag-of-Words", "n = 192,415, d = 300"),
            ("224", "Ukrainian CoNLL17 corpus; Continuous Bag-of-Word", "n = 99,884, d = 200"),
        )
    ]
    return found


def _theorems() -> list[Claim]:
    lines = partial(one_line, "edrep-theorems")
    return [
        Quote(
            "section 2.1, theorem 2.1", "provides a concentration result of the rescaled Z_i value around its mean"
        ).tested(
            "share of Z/m that is .2 or more from its mean, h = 1, m = 10,000 (the bound is .136)",
            lines("share of Z/m that is .2 or more from its mean, h = 1, m = 10,000"),
            at_most(4 * math.exp(-((math.sqrt(10_000) * 0.2 / (4 * math.e)) ** 2))),
        ),
        Quote("section 2.1", "the random variables Z_i/m asymptotically converge to its expectation").tested(
            "slope of ln(standard deviation of Z/m) in ln m, m = 100 to 10,000",
            lines("slope of ln(standard deviation of Z/m) in ln m"),
            below(0),
        ),
        Quote(
            "section 2.1, theorem 2.2", "provides a formula for the expectation of Z_i/m in the large m limit"
        ).tested(
            "mean of Z/m less the integral, m = 10,000 (read: within .005)",
            lines("mean of Z/m, m = 10,000, less the integral of exp(t) f(t)"),
            between(-0.005, 0.005),
        ),
    ]


def _by_gradient(results: Results, of: Callable[[dict[str, Any]], float]) -> list[float]:
    """Return what fits with eq. (6) have less what fits with the whole gradient have, one Gaussian, by graph."""
    sides = [
        {(r["alpha"], r["graph"]): of(r) for r in results.records("figure2", gradient=gradient, n_clusters=1)}
        for gradient in ("paper", "full")
    ]
    return [value - sides[1][key] for key, value in sides[0].items()]


def _figure_2() -> list[Claim]:
    lines, times = (partial(one_line, f"edrep-figure-2-{of}") for of in ("embeddings", "times"))
    graphs = "one community", "four communities, alpha 3"
    return [
        *(
            Quote(
                "section 3.4, figure 2C", "only slight disagreements between the exact and the approximated embeddings"
            ).tested(
                f"{of}: C_t at the last epoch, κ = {k} (read: at most .05)",
                lines(f"{of}: C_t at the last epoch, mixture of {k}"),
                at_most(0.05),
            )
            for of in graphs
            for k in (1, 2, 5, 10)
        ),
        *(
            Quote("section 3.4, figure 2C", "as expected, decrease with κ").tested(
                f"{of}: C_t at the last epoch, κ = {more} less κ = {k}",
                lines(f"{of}: C_t of a mixture of {more} less that of {k}"),
                below(0),
            )
            for of in graphs
            for k, more in ((1, 2), (2, 5), (5, 10))
        ),
        Quote(
            "section 3.4, figure 2A", "the gradient of Equation (4) is computed analytically in O(n^2 d) operations"
        ).tested(
            "exact: slope of ln(time) in ln n, 1,000 to 8,000 nodes (O(n² d): read 1.5 to 2.5)",
            times("exact: slope of ln(processor time) in ln n, n = 1000 to 8,000"),
            between(1.5, 2.5),
        ),
        Quote("section 3.3, figure 2B", "Our approximation reduces the complexity ... from O(dn^2) to O(κnd^2)").tested(
            "κ = 1: slope of ln(time) in ln n, 1,000 to 8,000 nodes (linear: read below 1.2)",
            times("mixture of 1: slope of ln(processor time) in ln n, n = 1000 to 8,000"),
            below(1.2),
        ),
        Quote("section 3.3, figure 2", "Our approximation reduces the complexity ... from O(dn^2) to O(κnd^2)").tested(
            "time of the exact fit over that of κ = 1, 8,000 nodes",
            times("exact over mixture of 1: processor time at n = 8,000"),
            above(1),
        ),
        *(
            Quote("appendix C", "this gradient form achieves better results in fewer epoch").tested(
                f"{what}, eq. (6) less the whole gradient, κ = 1", partial(_by_gradient, of=of), test
            )
            for what, of, test in (
                ("exact loss after 10 of 25 epochs (nats a node)", lambda record: record["curve"][10], below(0)),
                ("exact loss after 25 epochs (nats a node)", itemgetter("loss"), below(0)),
                ("NMI after 25 epochs", itemgetter("nmi"), above(0)),
            )
        ),
    ]


def _nmi(results: Results, alpha: float, method: str = "nearfar", less: str = "") -> list[float]:
    """Return the NMI of the giant component by graph, less that of another method on the same."""
    of = partial(results.records, "communities", alpha=alpha, fit="all", n_nodes=30_000)
    mine = {r["graph"]: r["nmi_giant"] for r in of(method=method)}
    theirs = {r["graph"]: r["nmi_giant"] for r in of(method=less)} if less else dict.fromkeys(mine, 0.0)
    return [value - theirs[graph] for graph, value in mine.items()]


def _faster(results: Results, than: str) -> list[float]:
    """Return the time of another method over that of EDRep, by graph."""
    mine = {(r["alpha"], r["graph"]): r["seconds"] for r in results.records("communities", method="nearfar")}
    both = [(r["seconds"], mine[r["alpha"], r["graph"]]) for r in results.records("communities", method=than)]
    return [theirs / own for theirs, own in both if theirs and own]


_ALPHAS = (1.7, 2.0, 2.3, 2.9, 3.5, 4.1, 4.7)


def _figure_3_communities() -> list[Claim]:
    lines = partial(one_line, "edrep-figure-3-invariance")
    return [
        Quote(
            "section 4.1, footnote 5", "theoretically feasible if and only if a function of the model parameters α > 1"
        ).tested("EDRep: NMI at α = .5 (read: at most .01)", partial(_nmi, alpha=0.5), at_most(0.01)),
        *(
            Quote("section 4.1, figure 3A", "performs almost as well as the optimal algorithm").tested(
                f"EDRep less spectral: NMI at α = {alpha} (read: at least -.02)",
                partial(_nmi, alpha=alpha, less="spectral"),
                at_least(-0.02),
            )
            for alpha in _ALPHAS
        ),
        Quote("section 4.1, figure 3A", "a slight mismatch is only observed for α approaching 1").tested(
            "EDRep less spectral: NMI at α = 1.1", partial(_nmi, alpha=1.1, less="spectral"), between(-0.1, 0)
        ),
        *(
            Quote(
                "section 4.1, figure 3A",
                "Compared to the DeepWalk approach, our method generally yields better results for all α",
            ).tested(f"EDRep less DeepWalk: NMI at α = {alpha}", partial(_nmi, alpha=alpha, less="deepwalk"), above(0))
            for alpha in (1.1, *_ALPHAS)
        ),
        Quote("section 4.1, figure 3B", "a decisive advantage with respect to DeepWalk").tested(
            "time of DeepWalk over that of EDRep, α = 2 to 4.7 (read: above 10)",
            partial(_faster, than="deepwalk"),
            above(10),
        ),
        Quote("section 4.1", "the complexity of EDRep is independent of q").tested(
            "EDRep: time with 16 communities over that with 4 (read: .8 to 1.25)",
            lines("processor time with q = 16 communities over that with q = 4"),
            between(0.8, 1.25),
        ),
        *(
            Quote("appendix D.1", "the results are essentially invariant in a large spectrum of d values").tested(
                f"EDRep: NMI with d = {d} less that with d = 32, α = 3 (read: within .02)",
                lines(f"NMI with d = {d} less that with d = 32, alpha 3"),
                between(-0.02, 0.02),
            )
            for d in (16, 64, 128)
        ),
        Quote(
            "appendix D.1", "essentially invariant in a large spectrum of d values for both embedding algorithms"
        ).untested("DeepWalk: NMI by d", "DeepWalk takes a minute a fit; it was run with d = 32"),
    ]


_ONE_STEP = "walk 1, temperature 1"


def _genes_less(results: Results, of: str, passes: str) -> list[float]:
    """Return EDRep less Gene2Vec by seed; of seconds the logarithm of the ratio, Gene2Vec over EDRep."""
    settings = (("edrep", _ONE_STEP), ("gene2vec", passes))
    sides = (results.records("genes", method=method, setting=setting) for method, setting in settings)
    both = list(zip(*on_the_same("seed", *sides), strict=True))
    return [math.log(b[of] / a[of]) if of == "seconds" else a[of] - b[of] for a, b in both]


def _genes() -> list[Claim]:
    found = [
        Quote("section 4.2", "achieves an accuracy of 92%").tested(
            "EDRep, one row-normalised step: accuracy, pairs of known interactions (read: .90 to .94)",
            lambda results: results.values("genes", "accuracy", method="edrep", setting=_ONE_STEP),
            between(0.9, 0.94),
            "92 %",
        ),
        Quote("section 4.2", "which has an accuracy of 84%").tested(
            "Gene2Vec, 10 passes: accuracy, pairs of known interactions (read: .82 to .86)",
            lambda results: results.values("genes", "accuracy", method="gene2vec", setting="10 passes"),
            between(0.82, 0.86),
            "84 %",
        ),
    ]
    for passes in ("10 passes", "50 passes"):
        found += [
            Quote("section 4.2", "outperforms Gene2Vec").tested(
                f"EDRep less Gene2Vec, {passes}: accuracy",
                partial(_genes_less, of="accuracy", passes=passes),
                above(0),
                "92 % against 84 %",
            ),
            Quote("section 4.2, figure 3C and D", "visually explains the performance gap").tested(
                f"EDRep less Gene2Vec, {passes}: area under the ROC of the cosine",
                partial(_genes_less, of="auc", passes=passes),
                above(0),
            ),
            Quote("section 4.2", "approximately 6 seconds against the 12 seconds").tested(
                f"ln of the time of Gene2Vec, {passes}, over that of EDRep (read: at least ln 2)",
                partial(_genes_less, of="seconds", passes=passes),
                at_least(math.log(2)),
                "6 s against 12 s",
            ),
        ]
    found.append(
        Quote("section 4.2", "a list of pairs whose co-expression exceeds a threshold value").not_run(
            "vectors of the co-expressed pairs that the paper takes",
            "they are not here: the 8,832 genes and 263,016 pairs of Gene2Vec that are here have labels, and those that"
            " interact stand in",
            "8,832 genes, 263,016 pairs",
        )
    )
    return found


def _by_outbreak(results: Results, of: str, d: int) -> list[float]:
    """Return EDRep less DeepWalk, both of so many components, by outbreak; means over seeds."""
    sides = [
        np.mean([r[of] for r in results.records("spreading", method=method, n_components=d, n_walks=walks)], axis=0)
        for method, walks in (("edrep", 0), ("deepwalk", 10))
    ]
    return [float(value) for value in sides[0] - sides[1]]


def _spreading_faster(results: Results) -> list[float]:
    sides = (results.records("spreading", method=method, n_components=30) for method in ("edrep", "deepwalk"))
    return [b["seconds"] / a["seconds"] for a, b in zip(*on_the_same("seed", *sides), strict=True)]


def _told_alike(results: Results) -> list[float]:
    """Return the correlation of the predicted numbers of infected per slice, of the first outbreak."""
    (mine,) = (r for r in results.records("spreading", method="edrep") if "told" in r)
    (theirs,) = (r for r in results.records("spreading", method="deepwalk") if "told" in r)
    return [float(np.corrcoef(mine["told"], theirs["told"])[0, 1])]


def _one_step(results: Results, line: str, of: str) -> Sample:
    """Return a score of EDRep on one row-normalised step less that of DeepWalk."""
    mine = results.line("edrep-figure-3-spreading", f"EDRep, one row-normalised step: {line}")
    theirs = [r[of] for r in results.records("spreading", method="deepwalk", n_components=30)]
    return mine.less(Sample.of(np.mean(theirs, axis=0).tolist()))


def _spreading() -> list[Claim]:
    alike = "The results are barely distinguishable"
    return [
        Quote("section 4.3, figure 3E", alike).tested(
            f"walks of 3 steps, d = {d}: {name} of EDRep less DeepWalk, by outbreak (read: within .02)",
            partial(_by_outbreak, of=of, d=d),
            between(-0.02, 0.02),
        )
        for d in (30, 200)
        for name, of in (("macro F1", "macro_f1"), ("accuracy", "accuracy"), ("error of the curve", "curve_error"))
    ] + [
        Quote("section 4.3, figure 3F", alike).tested(
            "correlation of the numbers of infected that both predict per slice, first outbreak (read: above .9)",
            _told_alike,
            above(0.9),
        ),
        Quote("section 4.3", "EDRep is more than 5 times faster than the competing approach").tested(
            "time of DeepWalk over that of EDRep, d = 30", _spreading_faster, above(5), "more than 5 times"
        ),
        *(
            Quote("section 4.3, figure 3E", alike).tested(
                f"one row-normalised step, as the paper has it: {line} of EDRep less DeepWalk (read: within .02)",
                partial(_one_step, line=line, of=of),
                between(-0.02, 0.02),
            )
            for line, of in (
                ("macro F1 of S, I and R", "macro_f1"),
                ("accuracy", "accuracy"),
                ("mean error of the share of infected", "curve_error"),
            )
        ),
    ]


def _others() -> list[Claim]:
    return [
        Quote(
            "section 5", "considering a contrastive learning setting in which also the term SoftMax(-XY^T) appears"
        ).untested(
            "softmax(-XYᵀ) for signed relations",
            "the paper reports no experiment; what was tried is on the page of sources",
        ),
        Quote("section 5", "the EDRep algorithm to be systematically faster than its competitors").tested(
            "time of the spectral method or DeepWalk over that of EDRep, communities, the least of all graphs",
            lambda results: [min(_faster(results, "spectral") + _faster(results, "deepwalk"))],
            above(1),
        ),
        Quote("section 4.1", "the considered spectral clustering algorithm runs in O(nq^3) operations").untested(
            "time of the spectral method by q", "of another method; ours by q is above"
        ),
        Quote("section 3.2", "then run κ-class clustering and rerun EDRep algorithm").untested(
            "κ-class clustering and a second fit", "it is a way to go, not a finding; figure 2C is made by it"
        ),
    ]


CLAIMS = [*_theorems(), *_figure_1(), *_figure_2(), *_figure_3_communities(), *_genes(), *_spreading(), *_others()]
