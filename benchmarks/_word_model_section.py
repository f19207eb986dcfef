"""The section of the benchmarks page about word models; no results are stored here."""

from __future__ import annotations

from _sections import Section, Target
from _tables import Record, average, number, pick, table

VECTORS = ("SkipGram", "EDRep")
DISAMBIGUATION = ("ML2008", "GS2011", "GS2012")
OTHER_PHRASES = ("ELLDIS", "ELLSIM")
WORDS = ("wordsim", "simlex", "men", "3CosAdd", "3CosMul")
SENSES = ("separation", "chance", "recovered", "entropy_auc", "lowered", "lowered_by_others", "lowered_more")
ORDERED = ("phaser", "fuzz")  # to which it matters what operates


def word_models(records: list[Record]) -> Section:
    """Vectors and density matrices on words, phrases and planted senses."""
    section = Section()
    settings = _settings(records)
    chosen = {
        method: [r for r in pick(records, method=method, **setting) if r["part"] != "tune"]
        for method, setting in settings.items()
    }
    phrases = {method: _phrases(mine) for method, mine in chosen.items()}
    section.targets = [_target(phrases)]
    section.lines = [
        "17 million words of Wikipedia, windows of up to 5 words on either side, 5 noise words shared by a",
        "window, sample 1e-3. EDRep uses the conditional probabilities of the same windows. Numbers: values",
        "stored per word. Losses are in nats; EDRep's is a different loss. The learning rate of each model is the",
        "best of three on every other pair of MEN; the MEN shown is the other half. Scores are Spearman's rho;",
        "analogies are among the 30,000 most frequent words.",
        "",
        *_words_table(records, settings, chosen),
        "",
        "Phrases by every composition. The verb operates unless the noun is named. Disambiguation: the mean of",
        "the three sets before it.",
        "",
        *_phrases_table(phrases),
        "",
        "100 pseudo-words, each merged from two words of equal frequency. Separation: how well two senses",
        "separate the neighbours of the two words (0 for one vector; chance: with shuffled neighbours).",
        "Recovered: the share of their ten neighbours each that are among the words nearest to the senses.",
        "Entropy: the probability that it exceeds that of an unplanted word of the same frequency. Lowered: the",
        "share of neighbours that lower the entropy by Phaser; the same for other words; and the share of",
        "neighbours that lower it more than the other word.",
        "",
        *_senses_table(chosen),
    ]
    return section


def _settings(records: list[Record]) -> dict[str, Record]:
    """Return what each method was tuned to."""
    found: dict[str, Record] = {}
    for method in dict.fromkeys(r["method"] for r in records):
        tried = [r for r in pick(records, part="tune", method=method) if r["score"] is not None]
        if tried:
            best = max(tried, key=lambda r: r["score"])
            found[method] = {key: best[key] for key in ("learning_rate", "n_epochs")}
    return found


def _words_table(records: list[Record], settings: dict[str, Record], chosen: dict[str, list[Record]]) -> list[str]:
    rows = []
    for method, setting in settings.items():
        (tuned,) = pick(records, part="tune", method=method, **setting)
        scores = [average(pick(chosen[method], part="words", set=name), "score") for name in WORDS]
        how = f"{setting['learning_rate']:g}, {setting['n_epochs']}"
        rows.append([method, tuned["n_numbers"], how, number(tuned.get("loss")), *(number(x) for x in scores)])
    head = ["model", "numbers", "rate, epochs", "loss"]
    return table([*head, "WordSim-353", "SimLex-999", "MEN, half", "3CosAdd", "3CosMul"], rows)


def _phrases(records: list[Record]) -> dict[str, dict[str, float | None]]:
    """Return the scores of each composition on each set, and their mean over the sets of disambiguation."""
    found: dict[str, dict[str, float | None]] = {}
    mine = pick(records, part="phrases")
    for how in dict.fromkeys((r["composition"], r["operator"]) for r in mine):
        same = pick(mine, composition=how[0], operator=how[1])
        name = f"{how[0]}, {how[1]}" if how[0] in ORDERED and how[1] == "noun" else how[0]
        found[name] = {key: average(pick(same, set=key), "score") for key in (*DISAMBIGUATION, *OTHER_PHRASES)}
        three = [found[name][key] for key in DISAMBIGUATION]
        found[name]["mean"] = None if None in three else sum(x or 0.0 for x in three) / len(three)
    return found


def _phrases_table(phrases: dict[str, dict[str, dict[str, float | None]]]) -> list[str]:
    names = (*DISAMBIGUATION, "mean", *OTHER_PHRASES)
    rows = [
        [method, how, *(number(scores[name]) for name in names)]
        for method, mine in phrases.items()
        for how, scores in mine.items()
    ]
    return table(["model", "composition", *DISAMBIGUATION, "disambiguation", *OTHER_PHRASES], rows)


def _senses_table(chosen: dict[str, list[Record]]) -> list[str]:
    rows = []
    for method, records in chosen.items():
        mine = pick(records, part="senses")
        rows += [
            [method, kind, *(number(average(pick(mine, set=kind), name), 2) for name in SENSES)]
            for kind in dict.fromkeys(r["set"] for r in mine)
        ]
    head = ["model", "senses", "separation", "chance", "recovered", "entropy", "lowered", "by others", "more"]
    return table(head, rows)


def _target(phrases: dict[str, dict[str, dict[str, float | None]]]) -> Target:
    """Each side with the one model and composition that does best on the mean of the three sets."""
    target = Target("phrases disambiguated by density matrices, best composition", "better than by vectors")
    best = {}
    for side in (True, False):
        scores = {
            (method, how): values["mean"]
            for method, mine in phrases.items()
            for how, values in mine.items()
            if (method in VECTORS) == side and values["mean"] is not None
        }
        if scores:
            best[side] = max(scores.items(), key=lambda item: item[1])
    if len(best) == 2:
        (vectors, low), (density, high) = best[True], best[False]
        target.measured = f"{high:.3f} ({', '.join(density)}) / {low:.3f} ({', '.join(vectors)})"
        target.met = high > low
    return target
