"""What Melville's "Deriving embedding gradients" says."""

from __future__ import annotations

from functools import partial

from lab.papers.claims import Quote, Results, Sample, above, one_line, zero

SOURCE = "sneer.txt"
TITLE = 'Maps: J. Melville, "Deriving embedding gradients" (sneer)'
ABOUT = """The text derives gradients; it has no table and no picture. The gallery of sneer's other pages is not at
hand: the areas below are measured without a verdict, but where this text compares two kinds of methods."""

_LINE = partial(one_line, "sneer-gradients")
_GRADIENTS = (
    ("ASNE", "SSNE", "t-SNE", "t-ASNE", "ws-SNE", "HSSNE", "inhomogeneous t-SNE", "NeRV", "JSE", "reverse KL"),
    [
        f"{cost}, {kernel}, {sums}"
        for cost in ("kl", "reverse-kl", "nerv", "jensen-shannon")
        for kernel in ("exponential", "student-t", "heavy-tailed")
        for sums in ("row", "pair")
    ],
)
_SETS = ("iris", "s1k", "digits", "swiss roll")


def _pairs_less_rows(results: Results, pair: str, row: str, of: str) -> Sample:
    mine, theirs = (results.line("sneer-gallery", f"{name} on {of}: area under R_NX") for name in (pair, row))
    return mine.less(theirs)


CLAIMS = [
    *(
        Quote("the generic gradient", "a completely generic expression for the gradient").tested(
            f"{name}: error against central differences, relative to the largest entry",
            _LINE(f"{name}: error of the gradient, relative to its largest entry"),
            zero(1e-6),
        )
        for names in _GRADIENTS
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
    Quote("symmetric vs asymmetric embedding", "no significant effect").untested(
        "JSE by pairs and by rows", "the text quotes another paper"
    ),
    *(
        Quote(place, says).tested(f"{what}: difference of the costs", _LINE(f"{what}: cost"), zero(1e-5))
        for place, says, what in (
            (
                "heavy-tailed kernel",
                "the kernel behaves like the t-distributed kernel",
                "HSSNE with alpha = 1 less t-SNE",
            ),
            (
                "heavy-tailed kernel",
                "As it approaches 0, it approaches the exponential kernel",
                "HSSNE with alpha = 1e-9 less SSNE",
            ),
            ("inhomogeneous t-SNE", "gives t-SNE behavior", "inhomogeneous t-SNE with nu = 1 less t-ASNE"),
            (
                "inhomogeneous t-SNE",
                "gives SNE-like behavior",
                "inhomogeneous t-SNE with nu = 1e7 less ASNE at precision 1/2",
            ),
        )
    ),
    Quote(
        '"reverse" Kullback-Leibler divergence', "symmetrizes the KL divergence by also considering the cost when"
    ).tested(
        "the derivative as printed, ln(p/q) + 1: error against central differences of the printed cost",
        _LINE("reverse KL as printed: error of dC/dq, relative to its largest entry"),
        zero(1e-6),
    ),
    Quote("Jensen-Shannon divergence", "terms cancel to leave a surprisingly simple derivative").tested(
        "the derivative as printed, -(1/κ) ln(q/z): error against central differences of the printed cost",
        _LINE("Jensen-Shannon as printed: error of dC/dq, relative to its largest entry"),
        zero(1e-6),
    ),
    Quote("Sammon mapping", "the Sammon error includes a normalization term (the sum of all").untested(
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
