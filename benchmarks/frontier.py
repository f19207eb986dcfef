"""Quality against bytes of small tables on three tasks: which way to hold vectors is best at so many bytes.

    python benchmarks/frontier.py --task movielens|news|ptb [--methods ...] [--budgets ...] [--seeds 0 1 2]

Every method gets the most that fits into a budget. With the first seed it tries its few settings; the one that does
best in the validation is trained with the others. All methods of a task have one model, one number of epochs and one
rule for the learning rate. Results are kept run by run, so that the benchmark can be done in pieces.

Bytes are those that a server keeps for the vectors: codes, scales, codebooks, anchors, weights, indices, all packed.
What is the same for all is not counted: the network, biases of users, items or words.

movielens  A mark is <u, v> + bias of the user + bias of the item + a constant: mean squared error.
news       AG News, a convolutional network over 40 words: share of wrong classes.
ptb        A language model whose input and output are one table: perplexity.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch

from _common import ResultFile, say
from _frontier_movielens import FilmTask
from _frontier_news import NewsTask
from _frontier_ptb import LanguageTask
from _frontier_section import BUDGETS, KEYS, chosen

TASKS: dict[str, Any] = {"movielens": FilmTask, "news": NewsTask, "ptb": LanguageTask}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(TASKS), required=True)
    parser.add_argument("--methods", nargs="+", help="all if left out")
    parser.add_argument("--budgets", nargs="+", type=int, help="bytes; those of the page if left out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--most", type=int, help="try only so many settings, the first ones; all if left out")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after so many of the processor")
    args = parser.parse_args()
    torch.set_num_threads(1)
    task, file = TASKS[args.task](), ResultFile("frontier", KEYS)
    methods = {name: task.kinds[name] for name in args.methods or task.kinds}

    def measure(method: str, budget: int, setting: dict[str, Any], seed: int) -> None:
        key = {"task": args.task, "method": method, "budget": budget, "setting": json.dumps(setting), "seed": seed}
        if file.find(**key) or time.process_time() > 60 * args.minutes:
            return
        began = time.process_time()
        found = task.run(methods[method], budget, setting, seed)
        if found:
            found["bytes"] = int(found["bytes"])  # of NumPy where codes are counted
        seconds = round(time.process_time() - began, 1)
        file.add({**key, **(found or {"bytes": None}), "cpu_seconds": seconds})
        say(f"{args.task}, {method}, {budget:,}, {setting}, seed {seed}: {found}, {seconds} s")

    for seed in args.seeds:
        for budget in args.budgets or BUDGETS[args.task]:
            for method, kind in methods.items():
                settings = list(kind.settings)[: args.most]
                if seed != args.seeds[0]:
                    best = chosen(file.records, args.task, method, budget, args.seeds[0])
                    settings = [json.loads(best["setting"])] if best else []
                for setting in settings:
                    measure(method, budget, setting, seed)


if __name__ == "__main__":
    main()
