"""The section of the benchmarks page about contrastive objectives; no results are stored here."""

from __future__ import annotations

from _common import mean_and_sd
from _sections import Section, Target
from _tables import Record, distinct, duration, middle, number, pick, table

# What the films of a model are ranked by: scores trained with the correction, without it, and without it but with log q
# added when ranking, as the theory of noise-contrastive estimation has it.
CORRECTED, PLAIN, PUT_BACK = "corrected", "not corrected", "not corrected, log q put back"
CUTS = (10, 20, 50, 100)


def best_temperature(records: list[Record], method: str, seed: int) -> float | None:
    """Return the temperature that does best in the validation of this seed."""
    tried = pick(records, method=method, seed=seed)
    return max(tried, key=lambda r: r["validation"]["recall@10"])["temperature"] if tried else None


def retrieval(records: list[Record]) -> Section:
    """Two towers on MovieLens with and without the log-q correction: recall over the seeds."""
    first = min((r["seed"] for r in records), default=0)
    methods = ("popularity", PLAIN, PUT_BACK, CORRECTED)
    best = {method: best_temperature(records, method, first) for method in methods}
    chosen = {method: pick(records, method=method, temperature=best[method]) for method in methods}
    rows = [
        [f"in-batch negatives, {method}" if best[method] else method, best[method] or "–",
         *(_recall(mine, f"recall@{k}") for k in CUTS),
         f"{mean_and_sd(r['test']['n_films'] for r in mine)[0]:,.0f}", duration(middle(mine, "cpu_seconds"))]
        for method, mine in chosen.items() if mine
    ]  # fmt: skip
    lines = [
        "20 % of all ratings are held out for the test, 10 % for validation; ratings of 4 and 5 count as liked.",
        "The ranking includes every film that the user has not rated outside the test set. Towers of 64",
        "components, batches of 256, same pairs and epochs for all. The temperature is chosen on the validation",
        "set of the first seed, separately for each row. Mean ± standard deviation over three seeds, which",
        "determine split, start and order. Films: number of distinct films among the first 10 of all users.",
        "",
        "<!-- retrieval: table -->",
        "",
        *table(["ranked by", "temperature", *(f"recall@{k}" for k in CUTS), "films", "processor time"], rows),
        "",
        "<!-- retrieval: end -->",
    ]
    return Section([_retrieval_target(chosen[CORRECTED], chosen[PLAIN])], lines)


def _retrieval_target(ours: list[Record], theirs: list[Record]) -> Target:
    target = Target(
        "retrieval on MovieLens 1M, in-batch negatives with log-q correction: recall@10", "above without it"
    )
    of = [{r["seed"]: r["test"]["recall@10"] for r in side} for side in (ours, theirs)]
    seeds = sorted(of[0].keys() & of[1].keys())
    if seeds:
        a, b = ([side[seed] for seed in seeds] for side in of)
        said = ["{:.4f} ± {:.4f}".format(*mean_and_sd(side)) for side in (a, b)]
        target.measured = f"{said[0]} against {said[1]}, {len(seeds)} seeds"
        target.met = all(x > y for x, y in zip(a, b, strict=True))
    return target


def _recall(records: list[Record], name: str) -> str:
    mean, sd = mean_and_sd(r["test"][name] for r in records)
    return f"{mean:.4f} ± {sd:.4f}" if len(records) > 1 else f"{mean:.4f}"


def sampled_softmax(records: list[Record]) -> Section:
    """A language model by sampled softmax: perplexities beside that of the full softmax."""
    target = Target(
        "sampled softmax on PTB with log-q correction, noise of word frequencies: perplexity", "below that without it"
    )
    full = next(iter(pick(records, loss="full softmax")), None)
    said, better, rows = [], [], []
    for noise in ("unigram", "uniform"):
        for m in distinct(pick(records, noise=noise), "n_samples"):
            found = {r["loss"]: r for r in pick(records, noise=noise, n_samples=m)}
            plain, put_back = found["not corrected"]["test"] if "not corrected" in found else (None, None)
            corrected, ranking = (found[x]["test"][0] if x in found else None for x in ("sampled softmax", "ranking"))
            ranking = plain if noise == "uniform" else ranking
            seconds = middle(list(found.values()), "cpu_seconds")
            rows.append([noise, m, *(number(x, 1) for x in (corrected, ranking, plain, put_back)), duration(seconds)])
            if noise == "unigram" and corrected and plain:
                said.append(f"{corrected:.0f} against {plain:.0f} ({m} samples)")
                better.append(corrected < plain)
    if full:
        rows.append([full["loss"], "–", number(full["test"][0], 1), *"–––", duration(full["cpu_seconds"])])
    knowing = pick(records, loss="ranking, from word frequencies")
    informed = knowing[0]["test"][0] if knowing else None
    if full and better:
        target.measured, target.met = f"{', '.join(said)}; full softmax {full['test'][0]:.0f}", all(better)
    head = ["noise", "samples", "sampled softmax", "ranking", "not corrected", "log q put back", "processor time"]
    lines = [
        "Penn Treebank, 929,589 training words, 10,000 distinct ones; predicts the next word from the previous",
        "four. 128 components, one epoch, same batches, start and rates for all. Test perplexity is computed with",
        "the full softmax. Sampled softmax and ranking (`global_nce`): corrected by log q. Not corrected: both",
        "losses are then the same. Log q put back: log q is added to the scores of the uncorrected model. Uniform",
        "noise shifts all scores equally, so the ranking loss is the same with and without correction.",
        "",
        *table(head, rows),
        "",
        "Without the correction, scores estimate p / q, and their softmax is far off unless q is uniform or put",
        "back. (When log q is put back, word frequencies are known from the start; the other models must learn",
        f"them. Ranking with 500 samples that starts at word frequencies reaches {number(informed, 1)}.) Sampled",
        "softmax approximates the full softmax as m grows. With few samples its optimum differs (too peaked with",
        "uniform noise, too flat with q near p), while the optimum of the ranking loss is correct for any number",
        "of samples.",
    ]
    return Section([target], lines)
