"""The sections of the benchmarks page about what EDRep is given: temperature, walk length, prior; no results here."""

from __future__ import annotations

from _sections import Section
from _tables import Record, distinct, interval, pick, table, values


def temperature(records: list[Record]) -> Section:
    """Temperature and walk length on labelled graphs."""
    rows = []
    for graph in distinct(records, "graph"):
        mine = pick(records, graph=graph)
        settings = list(dict.fromkeys((r["method"], r["walk_length"], r["temperature"]) for r in mine))
        for method, walk, heat in sorted(
            settings, key=lambda s: (s[0] == "nearfar", s[1] or 0, s[2] or 0), reverse=True
        ):
            chosen = pick(mine, method=method, walk_length=walk or None, temperature=heat or None)
            named = [walk, heat] if method == "nearfar" else ["DeepWalk", "–"]
            scores = ("f1", "nmi", "nmi_100", "held_out", "relative_error")
            rows.append([graph, *named, *(interval(chosen, name) for name in scores)])
    lines = [
        "64 components, defaults otherwise. F1: micro, logistic regression on a random half of the nodes (wikipedia:",
        "several labels per node, as above). NMI: k-means with as many clusters as labels, and with 100. Held out:",
        "mean log softmax of a tenth of the edges that another fit was not given, by the exact normaliser, in nats.",
        "Error: relative error of Z at the end (`far_check_`). DeepWalk: 10 walks per node. Mean over seeds ± half of",
        "its 95 % interval; a seed draws start, split and edges.",
        "",
        "<!-- temperature: table -->",
        "",
        *table(["graph", "walk", "temperature", "F1", "NMI", "NMI, 100", "held out", "error"], rows),
        "",
        "<!-- temperature: end -->",
    ]
    return Section([], lines)


def temperature_choice(records: list[Record]) -> Section:
    """What choosing the temperature brings: the default, the choice and the best, where the choice is tested."""
    lines = [
        "`evaluate.select` among temperatures 0.25, 0.5, 1, 2 and 4. Default: 1. Chosen: on another part than the one",
        "told here. Best: the highest score here, which no choice can know. Gain: chosen minus default, seed by seed.",
        "64 components, walks of 3 steps. Mean over seeds ± half of its 95 % interval; a seed draws start and split.",
        "",
        "<!-- temperature choice: table -->",
    ]
    titles = {
        "labels": "Micro F1 of labels: half of the labelled nodes choose by cross-validation, half test.",
        "links": "AUC of links: half of the edges are hidden; a third of them trains, a third chooses, a third tests.",
    }
    for by, title in titles.items():
        rows = []
        for graph in distinct(records, "graph"):
            mine = [{**r, "gain": r["score_chosen"] - r["score_default"]} for r in pick(records, graph=graph, by=by)]
            scores = ("score_default", "score_chosen", "score_best", "gain")
            heats = ", ".join(f"{r['chosen']:g}" for r in sorted(mine, key=lambda r: r["seed"]))
            rows += [[graph, *(interval(mine, name) for name in scores), heats]] if mine else []
        lines += ["", title, "", *table(["graph", "default", "chosen", "best", "gain", "temperatures chosen"], rows)]
    return Section([], [*lines, "", "<!-- temperature choice: end -->"])


LAST = ("recall@10", "recall@50", "NDCG@10")


def recommend(records: list[Record]) -> Section:
    """Recommendation from likes alone."""
    flat = [
        {**r, **{f"{part} {name}": value for part in ("test", "validation") for name, value in r[part].items()}}
        for r in records
    ]
    rows = []
    for method in distinct(flat, "method"):
        cells = [method]
        for held_out in ("a fifth", "last"):
            mine = pick(flat, held_out=held_out, method=method)
            cells += [interval(mine, f"test recall@{k}") for k in (10, 50)]
        cells.append(interval(mine, "test ndcg@10"))
        mine = pick(flat, method=method, held_out="a fifth")
        films = values(mine, "test n_films")
        cells += [interval(mine, "mean_cosine"), f"{sum(films) / len(films):,.0f}" if films else "–"]
        rows.append(cells)
    lines = [
        "Ratings of 4 and 5 are likes; models see the likes of the training part alone, and have 32 components. A",
        "fifth: 20 % of all ratings held out. Last: the last like of each of the 2,999 users whose times are known.",
        "The ranking includes every film that the user has not rated outside the test. *+ log p*: the logarithm of",
        "how often a film is liked is added to the score. Cosine: mean cosine between users. Films: distinct films",
        "among the first 10 of all users. The last two are those of the first split. Towers: a vector for each user",
        "and film, trained by in-batch NCE with log q; ANT: 200 anchors for the films. ALS and BPR: implicit 0.7, ALS",
        "in the best of six settings by the validation; towers, ANT and BPR were not tuned. Mean ± half of its 95 %",
        "interval over three seeds, where there are as many; of the last likes a seed draws the start only.",
        "",
        "<!-- recommend: table -->",
        "",
        *table(
            ["ranked by", "a fifth: recall@10", "recall@50", *(f"last: {name}" for name in LAST), "cosine", "films"],
            rows,
        ),
        "",
        "<!-- recommend: end -->",
    ]
    return Section([], lines)
