"""What measures the sentences of Melville's "Deriving embedding gradients", which ``maps.toml`` has."""

from __future__ import annotations

from operator import attrgetter

from lab.papers.claims import Results, Sample, read_claims

SOURCE = "sneer.txt"
TITLE = 'Maps: J. Melville, "Deriving embedding gradients" (sneer)'
ABOUT = """The text derives gradients; it has no table and no picture, and its equations have no numbers. The gallery
of sneer's other pages is not at hand: the areas below are measured without a verdict, but where this text compares two
kinds of methods."""
_SETS = ("iris", "s1k", "digits", "swiss roll")


def pairs_less_rows(results: Results, pair: str, row: str, of: str) -> Sample:
    mine, theirs = (results.line("sneer-gallery", f"{name} on {of}: area under R_NX") for name in (pair, row))
    return mine.less(theirs)


def jse_by_pairs(results: Results, of: str) -> Sample:
    by_pairs = results.line("sneer-jse-by-pairs", f"JSE by pairs on {of}: area under R_NX")
    return by_pairs.less(results.line("sneer-gallery", f"JSE on {of}: area under R_NX"))


def at_best(results: Results) -> Sample:
    return max((pairs_less_rows(results, "SSNE", "ASNE", of) for of in _SETS), key=attrgetter("mean"))


CLAIMS, _ = read_claims("maps", pairs_less_rows, jse_by_pairs, at_best)
