"""What measures the sentences of Stratos' notes on noise-contrastive estimation, which ``contrastive.toml`` has."""

from __future__ import annotations

import math

from lab.papers.claims import Results, Sample, read_claims

SOURCE = "nce.txt"
TITLE = "Noise-contrastive estimation: K. Stratos' notes"
ABOUT = """Worlds are so small that every outcome is summed: errors are of rounding. Three more papers that the notes
name were rebuilt, Ma and Collins (2018), and the bounds of McAllester and Stratos (2020) and Poole and others (2019);
their texts are not at hand, so they are measured below without a verdict but where the notes say the same."""


def above_information(results: Results, line: str) -> list[float]:
    bound = results.line("nce-infonce-bound", line)
    return [bound.mean - results.line("nce-infonce-bound", "I(X; Y)").mean]


def above_ceiling(results: Results, line: str, n: int) -> Sample:
    return results.line("nce-mutual-information", line).less(Sample(math.log(n), 0.0, 3))


def game(results: Results, line: str) -> list[float]:
    return [results.line("nce-jensen-shannon", line).mean + math.log(4)]


CLAIMS, _ = read_claims("contrastive", above_information, above_ceiling, game)
