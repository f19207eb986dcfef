"""A language model of the Penn Treebank whose input table is small.

The next word from all before it, by an LSTM of one layer, in as many streams as a batch has rows: an uncompressed table
of the words that are read, mixtures of anchors, or shorter vectors and a linear map. The output, an adaptive softmax,
is the same for all, and not tied to the table: it is not counted. Every learning rate runs with every seed; the one
that does best in the validation, on average, is told. Seeds draw starts and dropout; streams are the same. On a GPU
LSTM and output are trained in bfloat16; perplexities are in float32. The full setting, on a GPU:
``--hidden 650 --epochs 40 --dropout 0.5 --device cuda``.
"""

from __future__ import annotations

import json
import math
from argparse import Namespace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

import nearfar as nf
from lab.contrastive.sampled_softmax import read_words
from lab.experiment import Choice, Experiment, ResultFile, Section
from lab.measure import cpu_timed, say
from lab.papers.experiment import n_parameters
from lab.papers.language import LanguageModel, count_steps, normal_table, perplexity, sparse_start, train
from lab.records import Record, average, distinct, duration, groups, middle, on_the_same, pick, spread, values
from lab.small.factorisation import n_bytes

UNCOMPRESSED, ANT, LOW_RANK = "uncompressed", "ANT", "low rank"
HIDDEN, EPOCHS = 128, 3  # of the setting that the targets are about
ALLOWED = {3.3: 1.02, 5.2: 1.04, 8.3: 1.10}  # times fewer parameters: perplexity, as a ratio to the uncompressed model
N_COMPONENTS, N_STREAMS = 200, 64
Setting = dict[str, Any]
RATES, DROPOUT = (0.008, 0.012, 0.016, 0.02), 0.2  # what is tuned; what is not
# Of anchors: their part of the parameters, and their rate and that of T as parts of the model's.
OF_ANT: Setting = {
    "std": 0.2, "anchors": 0.27, "slots": 64, "start": 8, "dense": 0.15, "fixed": 0.6, "of_anchors": 0.2, "of_rows": 0.5
}  # fmt: skip
OF_METHODS: dict[str, Setting] = {UNCOMPRESSED: {"std": 0.1}, ANT: OF_ANT, LOW_RANK: {"std": 0.1}}


def streams_of_all() -> dict[str, Tensor]:
    """Return each part in parallel streams (n, N_STREAMS), words numbered by frequency; less than a row is left out."""
    parts = read_words()
    order = torch.bincount(parts["train"]).argsort(descending=True, stable=True)
    ranks = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    return {
        part: ranks[words].unfold(0, len(words) // N_STREAMS, len(words) // N_STREAMS).T
        for part, words in parts.items()
    }


class LowRank(nn.Module):
    """Short vectors and a linear map."""

    def __init__(self, n: int, dim: int, rank: int, std: float) -> None:
        super().__init__()
        self.vectors = normal_table(n, rank, std)
        self.map = nn.Linear(rank, dim, bias=False)
        nn.init.normal_(self.map.weight, std=rank**-0.5)  # vectors start as long as those of the others

    def forward(self, ids: Tensor) -> Tensor:
        return self.map(self.vectors(ids))


def table_of(method: str, n: int, dim: int, setting: Setting, budget: int) -> nn.Module:
    if method == UNCOMPRESSED:
        return normal_table(n, dim, setting["std"])
    if method == LOW_RANK:
        return LowRank(n, dim, budget // (n + dim), setting["std"])
    k, starts = round(setting["anchors"] * budget / dim), (setting["slots"], setting["start"], setting["std"])
    return sparse_start(n, dim, k, *starts)


def measure(
    file: ResultFile,
    streams: dict[str, Tensor],
    method: str,
    fewer: float | None,
    setting: Setting,
    seed: int,
    given: Namespace,
) -> None:
    """Train with one setting and one seed, if that is not done already, and keep what comes out."""
    key = file.new(given.hidden, given.epochs, method, fewer, json.dumps(setting), seed)
    if not key:
        return
    n = int(streams["train"].max()) + 1
    budget = n * N_COMPONENTS if fewer is None else math.floor(n * N_COMPONENTS / fewer)
    torch.manual_seed(seed)
    table = table_of(method, n, N_COMPONENTS, setting, budget)
    model = LanguageModel(table, n, N_COMPONENTS, given.hidden, setting["dropout"]).to(streams["train"].device)
    n_steps = count_steps(streams["train"], given.epochs)
    course = None
    if method == ANT:
        parts = {"start": setting["dense"], "end": setting["fixed"]}
        course = nf.nn.ParameterBudget(model.table, n_steps=n_steps, n_parameters=budget, **parts)

    def look(epoch: int) -> None:
        size = n_parameters(model.table)
        say(f"    {epoch + 1}: {perplexity(model, streams['valid']):.2f} in the validation, {size:,} parameters")

    rates = {name: setting[name] for name in ("of_anchors", "of_rows") if name in setting}
    how = {"autocast": True, "look": look, **rates}
    _, seconds = cpu_timed(train, model, streams["train"], given.epochs, setting["lr"], course, **how)
    found = {part: perplexity(model, streams[part]) for part in ("valid", "test")}
    price = {"price": model.table.penalty} if course else {}
    sizes = {"n_parameters": n_parameters(model.table), "n_bytes": n_bytes(model.table)}
    file.add({**key, **sizes, **price, **found, "cpu_seconds": seconds})


def run(file: ResultFile, given: Namespace) -> None:
    torch.set_num_threads(1)
    streams = {part: words.to(given.device) for part, words in streams_of_all().items()}
    sizes = [
        (method, fewer) for method in given.methods for fewer in ([None] if method == UNCOMPRESSED else given.fewer)
    ]
    for seed, (method, fewer), lr in product(given.seeds, sizes, given.rates):
        setting = {"lr": lr, "dropout": given.dropout, **OF_METHODS[method]}
        measure(file, streams, method, fewer, setting, seed, given)


# ---------------------------------------------------------------- the page


def chosen(records: list[Record], method: str, fewer: float | None) -> list[Record]:
    """Return the runs of the setting that does best in the validation, on average over the seeds that all have."""
    mine = pick(records, method=method, fewer=fewer)
    tried = [pick(mine, setting=setting) for setting in distinct(mine, "setting")]
    seeds = set.intersection(*({r["seed"] for r in runs} for runs in tried)) if tried else set()
    return min(tried, key=lambda runs: sum(r["valid"] for r in runs if r["seed"] in seeds), default=[])


def ratio_of(ours: list[Record], theirs: list[Record]) -> tuple[float, int] | None:
    """Return the ratio of mean perplexities in the test over the seeds that both have, and how many they are."""
    ours, theirs = on_the_same("seed", ours, theirs)
    return (average(ours, "test") / average(theirs, "test"), len(distinct(ours, "seed"))) if ours else None


def told(section: Section, records: list[Record]) -> None:
    for fewer in ALLOWED:
        _target(section, pick(records, hidden=HIDDEN, epochs=EPOCHS), fewer)
    section.say(f"""An LSTM on the Penn Treebank: vectors of 200 numbers, one layer of 128, adaptive softmax.
        Parameters: of the input table, K d + nnz(T) for anchors. {EPOCHS} epochs. Learning rates: of each table the
        best mean on the validation set; other settings were tuned by hand there, of the uncompressed table in six
        runs, of ANT in some forty. Mean ± standard deviation over seeds. Low rank: shorter vectors and a linear
        map.""")
    section.say("""ANT has three phases: a small penalty; one that follows the number of entries; none, with zeros
        fixed.""")
    for hidden, epochs, mine in groups(records, "hidden", "epochs"):
        section.say(f"Hidden units: {hidden}; epochs: {epochs}.")
        _table(section, mine)


def _target(section: Section, records: list[Record], fewer: float) -> None:
    what = f"ANT in an LSTM on the Penn Treebank, {fewer} times fewer parameters: perplexity against the uncompressed"
    target = section.target(what, f"at most {ALLOWED[fewer]:.2f} times")
    ours, theirs = chosen(records, ANT, fewer), chosen(records, UNCOMPRESSED, None)
    if found := ratio_of(ours, theirs):
        times = min(values(theirs, "n_parameters")) / max(values(ours, "n_parameters"))
        said = f"{found[0]:.3f} times, {times:.2f} times fewer, {found[1]} seed{'s' * (found[1] > 1)}"
        target.tell(said, found[0] <= ALLOWED[fewer] and times >= fewer)


def _table(section: Section, records: list[Record]) -> None:
    base, rows = chosen(records, UNCOMPRESSED, None), []
    for method, fewer in dict.fromkeys((r["method"], r["fewer"]) for r in records):
        mine = chosen(records, method, fewer)
        if mine:
            found, seeds = ratio_of(mine, base), distinct(mine, "seed")
            tried = len(distinct(pick(records, method=method, fewer=fewer, seed=seeds[0]), "setting"))
            sizes = [f"{max(values(mine, name)):,}" for name in ("n_parameters", "n_bytes")]
            cells = [spread(mine, "test", 1), "–" if found is None else f"{found[0]:.3f}", spread(mine, "valid", 1)]
            name = method if fewer is None else f"{method}, {fewer} times fewer"
            rows.append([name, *sizes, *cells, f"{tried}, {len(seeds)}", duration(middle(mine, "cpu_seconds"))])
    head = ["table", "parameters", "bytes", "perplexity", "ratio", "in the validation", "trials, seeds", "time"]
    section.table(head, rows)


EXPERIMENT = Experiment(
    "Compressed tables in a language model", run, "hidden epochs method fewer setting seed", "ptb"
).takes(
    methods=Choice((UNCOMPRESSED, ANT), OF_METHODS),
    fewer=tuple(ALLOWED),
    seeds=(0, 1, 2),
    hidden=HIDDEN,
    epochs=EPOCHS,
    rates=RATES,
    dropout=DROPOUT,
    device="cpu",
)
