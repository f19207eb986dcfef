"""Contrastive objectives: sampled softmax, bounds on mutual information, memory, batches larger than memory."""

from __future__ import annotations

from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, pick

TITLE = "Contrastive losses"
EXPERIMENTS = ("sampled_softmax", "mutual_information", "nce_memory", "cached_gradients")


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    ptb = [r for r in read("sampled_softmax") if (r["noise"], r["n_samples"]) in (("unigram", 500), (None, 10_000))]
    perplexity = {r["loss"]: r["test"][0] for r in ptb}
    names = {"nearfar, sampled softmax": "sampled softmax", "nearfar, ranking": "ranking"}
    names |= {"not corrected": "not corrected", "full softmax": "full softmax"}
    losses = {
        "nearfar, global_nce": "global_nce",
        "torch, from scores": "cross_entropy",
        "nearfar, in_batch_nce": "in_batch_nce",
        "torch, from vectors": "cross_entropy(queries @ keys.T)",
    }
    memory = {r["method"]: r["matrices"] for r in pick(read("nce_memory"), size=8192)}
    held = {name: memory.get(of) for name, of in losses.items()}
    text = """With its correction by log q, sampled softmax with 500 samples comes near the full softmax of 10,000
        words in a fraction of the time; without it, the model is useless. In-batch NCE needs no B x B matrix, and
        the losses hold at most one where torch's cross entropy holds two or three. Bounds on mutual information
        behave as theory says."""
    return text, [
        Bars(
            "Penn Treebank, 500 samples",
            "perplexity; less is better",
            {n: perplexity.get(of) for n, of in names.items()},
        ),
        Bars("memory, B = 8,192", "B x B matrices beyond what is given", held),
    ]
