"""What Melville's "Deriving embedding gradients" says."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from lab.papers.claims import Quote, Results, Sample, above, one_line, zero

SOURCE = "sneer.txt"
TITLE = 'Maps: J. Melville, "Deriving embedding gradients" (sneer)'
ABOUT = """The text derives gradients; it has no table and no picture, and its equations have no numbers. The gallery
of sneer's other pages is not at hand: the areas below are measured without a verdict, but where this text compares two
kinds of methods."""

_LINE = partial(one_line, "sneer-gradients")
_OF_PAIRS = ("SSNE", "t-SNE", "ws-SNE", "HSSNE", "reverse KL")
_OF_ROWS = ("ASNE", "t-ASNE", "inhomogeneous t-SNE", "NeRV", "JSE")
_GRADIENTS = {
    Quote("gradient with pair-wise normalization", "a completely generic expression for the gradient"): _OF_PAIRS,
    Quote("gradient with point-wise normalization", "we end up at the same gradient expression"): _OF_ROWS,
    Quote(
        "summary", "Plug whatever combination of cost function derivative and weight function derivative you like"
    ): tuple(
        f"{cost}, {kernel}, {sums}"
        for cost in ("kl", "reverse-kl", "nerv", "jensen-shannon")
        for kernel in ("exponential", "student-t", "heavy-tailed")
        for sums in ("row", "pair")
    ),
}
_HEAVY, _MANY = "heavy-tailed kernel", "inhomogeneous t-SNE with nu = 1e7"
_SETS = ("iris", "s1k", "digits", "swiss roll")


def _pairs_less_rows(results: Results, pair: str, row: str, of: str) -> Sample:
    mine, theirs = (results.line("sneer-gallery", f"{name} on {of}: area under R_NX") for name in (pair, row))
    return mine.less(theirs)


def _at_best(results: Results) -> Sample:
    return max((_pairs_less_rows(results, "SSNE", "ASNE", of) for of in _SETS), key=attrgetter("mean"))


CLAIMS = [
    *(
        quote.tested(
            f"{name}: error of the library's gradient against central differences, relative to the largest entry",
            _LINE(f"{name}: error of the gradient, relative to its largest entry"),
            zero(1e-6),
        )
        for quote, names in _GRADIENTS.items()
        for name in names
    ),
    *(
        Quote(
            "symmetric vs asymmetric embedding",
            "the symmetrized (pair-wise) normalization seems to produce better results",
        ).tested(
            f"{pair} less {row} on {of}: area under R_NX",
            partial(_pairs_less_rows, pair=pair, row=row, of=of),
            above(0),
        )
        for pair, row in (("SSNE", "ASNE"), ("t-SNE", "t-ASNE"))
        for of in _SETS
    ),
    Quote(
        "symmetric vs asymmetric embedding", 'SSNE sometimes produced results that were "a little better" than ASNE'
    ).tested("SSNE less ASNE, area under R_NX: the greatest of the four sets", _at_best, above(0)),
    Quote("symmetric vs asymmetric embedding", "no significant effect").untested(
        "JSE by pairs and by rows", "the text quotes another paper, and no result file has areas of JSE by pairs"
    ),
    *(
        Quote(place, says).tested(f"{what}: difference of the costs", _LINE(f"{what}: cost"), zero(1e-5))
        for place, says, what in (
            (_HEAVY, "the kernel behaves like the t-distributed kernel", "HSSNE with alpha = 1 less t-SNE"),
            (_HEAVY, "As it approaches 0, it approaches the exponential kernel", "HSSNE with alpha = 1e-9 less SSNE"),
            ("inhomogeneous t-SNE", "gives t-SNE behavior", "inhomogeneous t-SNE with nu = 1 less t-ASNE"),
            ("inhomogeneous t-SNE", "gives SNE-like behavior", f"{_MANY} less ASNE at precision 1/2"),
        )
    ),
    *(
        Quote(place, says).tested(
            "the derivative as printed: error against central differences of the printed cost",
            _LINE(f"{name} as printed: error of dC/dq, relative to its largest entry"),
            zero(1e-6),
        )
        for place, says, name in (
            ('"reverse" Kullback-Leibler divergence', r"$\ln\left(\frac{p_{ij}}{q_{ij}}\right) + 1$", "reverse KL"),
            (
                "Jensen-Shannon divergence",
                r"$-\frac{1}{\kappa}\ln\left(\frac{q_{ij}}{z_{ij}}\right)$",
                "Jensen-Shannon",
            ),
        )
    ),
    Quote("Sammon mapping", "the Sammon error includes a normalization term (the sum of all 1/r_ij)").untested(
        "Sammon's normaliser", "a slip by algebra: it is 1 over the sum of all r"
    ),
    Quote("pair-wise probabilities", "the function that generates them always produces symmetric weights").tested(
        "kernels with a nu of each point: largest difference of w_ij and w_ji, relative",
        _LINE("nu of each point: largest difference of w_ij and w_ji, relative"),
        zero(1e-6),
    ),
    *(
        Quote(name, says).tested(
            f"k_ij of the library's {name} less the printed one, relative to its largest",
            _LINE(f"{name}: k_ij less the printed one, relative to its largest"),
            zero(1e-5),
        )
        for name, says in (
            ("metric MDS", "Plugging this into our expression for k_ij, we get"),
            ("SSTRESS", "The stiffness is therefore"),
            ("Sammon mapping", "weighting the cost function by 1/r_ij"),
        )
    ),
]
