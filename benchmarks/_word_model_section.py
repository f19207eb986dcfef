"""The section of the benchmarks page about word models; no results are stored here."""

from __future__ import annotations

from _common import mean_and_sd
from _sections import Section, Target
from _tables import Record, average, number, pick, table, values

DISAMBIGUATION = ("ML2008", "GS2011", "GS2012")
PHRASES = (*DISAMBIGUATION, "ELLDIS", "ELLSIM")
WORDS = ("wordsim", "men", "mturk", "simlex", "verb", "yp")
SENSES = ("separation", "chance", "recovered", "entropy_auc", "lowered", "lowered_by_others", "lowered_more")
FIXED = ("mult", "add", "kronecker", "verb", "phaser")
MATRICES = "phrases: density matrices against skip-gram, compositions chosen on one half"


def word_models(records: list[Record]) -> Section:
    """Vectors and density matrices on words, phrases, homonyms and planted senses."""
    section = Section()
    phrases = [r for r in pick(records, part="phrases") if "told" in r]
    section.targets = [_target(phrases)]
    section.lines = [
        "4.3 million words of Wikipedia, 3 passes, windows of up to 5 words on either side, 5 noise words shared by",
        "a window, sample 1e-3; mean ± standard deviation over seeds. Numbers: values stored for a word. Learning",
        "rates are the best on every other pair of MEN, of three, on 17 million words with 5 passes, and 0.05 for",
        "models of 17 numbers; the MEN shown is the other half. Spearman's rho.",
        "",
        *_words_table(records),
        "",
        "**Phrases.** A composition is chosen on one half of each set and told on the other; the halves have no pair",
        "of verbs in common and change places; five ways to cut, all seeds. In brackets 95 % intervals of a bootstrap",
        "over the pairs of verbs, with the choice made anew in each sample. Where the interval of the difference",
        "holds 0, the sets do not tell the two models apart.",
        "",
        *_phrases_table(phrases),
        "",
        "The same sets with compositions that are not chosen, all items: mean over seeds (least – most).",
        "",
        *_fixed_table(phrases),
        "",
        "**Homonyms.** P(the entropy of a homonym is larger than that of another word), of any other word, and of",
        "words that come as often (200 of them); rank correlation of the entropy with the count of a word, and of",
        "the share of equally frequent words with less entropy. Means over seeds; the interval is the widest of a",
        "bootstrap over the homonyms.",
        "",
        *_homonyms_table(records),
        "",
        "**Planted senses**, one seed on 17 million words with 5 passes. 100 pseudo-words, each merged from two words",
        "of equal frequency. Separation: how well two senses separate the neighbours of the two words (0 for one",
        "vector; chance: with shuffled neighbours). Recovered: the share of their ten neighbours each that are among",
        "the words nearest to the senses. Entropy: the probability that it exceeds that of an unplanted word of the",
        "same frequency. Lowered: the share of neighbours that lower the entropy by Phaser; the same for other words;",
        "and the share of neighbours that lower it more than the other word.",
        "",
        *_senses_table(records),
    ]
    return section


def _methods(records: list[Record]) -> list[str]:
    return list(dict.fromkeys(r["method"] for r in records))


def _words_table(records: list[Record]) -> list[str]:
    rows = []
    mine = [r for r in pick(records, part="words") if "loss" in r]
    for method in _methods(mine):
        scores = [values(pick(mine, method=method, set=name), "score") for name in WORDS]
        shown = ["–" if not found else _spread(found) for found in scores]
        first = next(r for r in mine if r["method"] == method)
        loss = average(pick(mine, method=method), "loss")
        rows.append([method, first["n_numbers"], max(map(len, scores)), number(loss), *shown])
    head = ["model", "numbers", "seeds", "loss"]
    return table([*head, "WordSim-353", "MEN, half", "MTurk-287", "SimLex-999", "VERB-143", "YP-130"], rows)


def _spread(found: list[float]) -> str:
    middle, spread = mean_and_sd(found)
    return f"{middle:.3f} ± {spread:.3f}"


def _interval(limits: list[float]) -> str:
    return f"[{limits[0]:.2f}, {limits[1]:.2f}]"


def _phrases_table(records: list[Record]) -> list[str]:
    rows = []
    for method in _methods(records):
        for r in pick(records, method=method):
            told = f"{_spread(r['told'])} {_interval(r['interval'])}"
            against = "–" if method == r["against"] else f"{r['difference']:+.3f} {_interval(r['difference_interval'])}"
            chosen = f"{r['chosen'][0]} ({r['chosen'][1]:.0%})"
            rows.append([r["set"], method, len(r["told"]), chosen, told, against, r["n_covered"], r["n_verbs"]])
    rows.sort(key=lambda row: PHRASES.index(row[0]))
    against = records[0]["against"] if records else "the first"
    head = ["set", "model", "seeds", "chosen most often", "rho", f"difference to {against}", "items", "pairs of verbs"]
    return table(head, rows)


def _fixed_table(records: list[Record]) -> list[str]:
    rows = []
    for method in _methods(records):
        mine = pick(records, method=method)
        for how in FIXED:
            cells = []
            for name in PHRASES:
                found = next((r["all_items"].get(how) for r in mine if r["set"] == name), None)
                mean = "–" if found is None else f"{sum(found) / len(found):.3f} ({min(found):.2f} – {max(found):.2f})"
                cells.append(mean)
            if any(cell != "–" for cell in cells):
                rows.append([method, how, *cells])
    return table(["model", "composition", *PHRASES], rows)


def _homonyms_table(records: list[Record]) -> list[str]:
    rows = []
    mine = pick(records, part="homonyms")
    names = ("auc", "corrected_auc", "correlation", "corrected_correlation")
    for method in _methods(mine):
        found = pick(mine, method=method)
        auc, corrected, before, after = (_spread(values(found, name)) for name in names)
        widest = [min(r["interval"][0] for r in found), max(r["interval"][1] for r in found)]
        rows.append([method, len(found), auc, f"{corrected} {_interval(widest)}", before, after, found[0]["n_covered"]])
    head = ["model", "seeds", "any word", "equally frequent words", "correlation", "corrected", "homonyms"]
    return table(head, rows)


def _senses_table(records: list[Record]) -> list[str]:
    rows = []
    for method in _methods(records):
        mine = pick(records, part="senses", method=method)
        rows += [
            [method, kind, *(number(average(pick(mine, set=kind), name), 2) for name in SENSES)]
            for kind in dict.fromkeys(r["set"] for r in mine)
        ]
    head = ["model", "senses", "separation", "chance", "recovered", "entropy", "lowered", "by others", "more"]
    return table(head, rows)


def _target(records: list[Record]) -> Target:
    """Met by a model whose interval of the difference is above 0 on most of the sets of disambiguation."""
    target = Target(MATRICES, "better on two of three sets of disambiguation")
    best: tuple[int, float, str] | None = None
    for method in _methods(records):
        found = [r for r in pick(records, method=method) if r["set"] in DISAMBIGUATION and method != r["against"]]
        if not found or method.startswith("SkipGram"):
            continue
        above = sum(r["difference_interval"][0] > 0 for r in found)
        mean = sum(r["difference"] for r in found) / len(found)
        shown = [f"{r['difference']:+.3f} {_interval(r['difference_interval'])} on {r['set']}" for r in found]
        this = (above, mean, f"{method}: {', '.join(shown)}")
        best = this if best is None else max(best, this)
    if best is not None:
        target.measured, target.met = best[2], best[0] >= 2
    return target
