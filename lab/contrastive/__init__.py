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
    ours = {"encode_in_chunks, in_batch_nce": "nearfar", "in_batch_nce": "nearfar, in one piece"}
    cached = pick(read("cached_gradients"), size=32_768)
    chunks = {ours.get(r["method"], r["method"]): r["bytes"] / 2**30 for r in cached}
    text = "Sampled softmax has 500 samples of 10,000 words; bounds on mutual information behave as theory says."
    return text, [
        Bars(
            "Penn Treebank, 500 samples",
            "perplexity; less is better",
            {n: perplexity.get(of) for n, of in names.items()},
            less=True,
        ),
        Bars("memory, B = 8,192", "B x B matrices beyond what is given", held, less=True),
        Bars("memory, B = 32,768, encoders in chunks", "GiB", chunks, less=True, drawn=False),
    ]
