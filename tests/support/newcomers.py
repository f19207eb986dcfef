"""Five people who meet the library for the first time: at most three commands each, and a check of what they get.

    python tests/support/newcomers.py [citations likes texts cells towers]

runs each in an empty folder with an empty cache of compiled functions, says the processor time of its commands, and
fails where an answer is wrong or the time of one person is above ``--seconds``. It needs the installed package alone;
who lacks a package (pyarrow, anndata, torch) is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

NEARFAR = [sys.executable, "-m", "nearfar"]
N_GROUPS = 6


class Person(NamedTuple):
    """Somebody: what she has, what she types, what must be true of what she gets, and what she must have installed."""

    prepare: Callable[[np.random.Generator], None]
    commands: list[list[str]]
    check: Callable[[list[str]], str]
    needs: tuple[str, ...] = ()


def near_pairs(out: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of the lines "near KEY: OTHER, ..." of an answer."""
    for line in out.splitlines():
        if line.startswith("  near "):
            key, others = line.removeprefix("  near").strip().split(": ")
            yield from ((key, other) for other in others.split(", "))


def share(pairs: list[tuple[object, object]]) -> float:
    """Return the share of equal pairs."""
    return float(np.mean([a == b for a, b in pairs]))


def right(what: str, value: float, least: float) -> str:
    """Say a share, and stop where it is too low."""
    if value < least:
        raise SystemExit(f"{what}: {value:.3f}, at least {least} is right")
    return f"{what} {value:.3f}"


# Citations: papers of six fields, which cite their own field.


def citations(rng: np.random.Generator) -> None:
    """Write who cites whom."""
    a, b = rng.integers(0, 120, (2, 12_000))
    kept = (a != b) & (rng.random(a.size) < np.where(a % N_GROUPS == b % N_GROUPS, 0.3, 0.012))
    rows = [f"paper{i},paper{j}" for i, j in zip(a[kept], b[kept], strict=True)]
    Path("cites.csv").write_text("\n".join(["paper,cited", *rows]))


def check_citations(outs: list[str]) -> str:
    """Six communities, neighbours of one field."""
    if f"found      {N_GROUPS} communities" not in outs[0]:
        raise SystemExit(f"citations: {outs[0]}")
    group = {key: int(key.removeprefix("paper")) % N_GROUPS for pair in near_pairs(outs[0]) for key in pair}
    found = json.loads(outs[1])
    same = right("of the same field", share([(group[a], group[b]) for a, b in near_pairs(outs[0])]), 0.95)
    own = [(int(entry["id"].removeprefix("paper")) % N_GROUPS, 7 % N_GROUPS) for entry in found["similar"]]
    return f"{N_GROUPS} communities, {same}, {right('neighbours of paper7', share(own), 0.9)}"


# Likes: users with a taste, items with another each, some of them popular.


def likes(rng: np.random.Generator) -> None:
    """Write who chose what."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    taste, of, weight = rng.integers(0, N_GROUPS, 300), np.arange(80) % N_GROUPS, 1 / np.arange(1, 81) ** 0.8
    users, items = [], []
    for user, own in enumerate(taste):
        chance = np.where(of == own, 1, 0.2) * weight
        chosen = rng.choice(80, 12, replace=False, p=chance / chance.sum())
        users += [f"user{user}"] * 12
        items += [f"item{item}" for item in chosen]
    pq.write_table(pa.table({"user": users, "item": items}), "likes.parquet")


def check_likes(_outs: list[str]) -> str:
    """Items like an item are of its taste: by what the same users choose more often than by chance."""
    import nearfar as nf

    def of_one_taste(emb: nf.Embedding) -> float:
        taste = [int(str(key).removeprefix("item")) % N_GROUPS for key in emb.ids]
        found = [(key, other) for key in emb for other, _ in emb.most_similar(key, topn=5)]
        return share([(taste[emb.ids.get(a)], taste[emb.ids.get(b)]) for a, b in found])

    together = of_one_taste(nf.Embedding.load("likes.nearfar.items.safetensors"))
    usual = of_one_taste(nf.Embedding.load("likes.nearfar.safetensors").context)
    return f"{right('items of one taste', together, 0.93)} (vectors beside those of users: {usual:.3f})"


# Texts: a folder in which words of a topic stand together.


def texts(rng: np.random.Generator) -> None:
    """Write a folder of texts, each of one topic."""
    Path("texts").mkdir()
    topics = [[f"{name}{k}" for k in range(12)] for name in ("sea", "law", "art", "war", "sun", "tea")]
    usual = [f"and{k}" for k in range(6)]
    for number in range(60):
        words = rng.choice(topics[number % N_GROUPS] * 2 + usual, (80, 9))
        Path("texts", f"{number}.txt").write_text("\n".join(" ".join(line).capitalize() + "." for line in words))


def check_texts(outs: list[str]) -> str:
    """Words near a word are of its topic."""
    found = [entry["id"] for entry in json.loads(outs[1])["similar"]]
    return right("of the topic of sea3", share([(word[:3], "sea") for word in found]), 0.8)


# Cells: counts of four types in an .h5ad.


def cells(rng: np.random.Generator) -> None:
    """Write cells of four types with their genes."""
    import anndata
    import pandas as pd

    kinds = np.repeat(np.arange(4), 30)
    X = (rng.normal(size=(120, 20)) + 4 * np.eye(4, 20)[kinds]).astype(np.float32)
    names, genes = (
        pd.Index([f"{what}{k}" for k in range(n)], dtype=object) for what, n in (("cell", 120), ("gene", 20))
    )
    types = pd.Categorical.from_codes(kinds, pd.Index(["B", "T", "NK", "DC"], dtype=object))
    obs, var = pd.DataFrame({"cell_type": types}, names), pd.DataFrame(index=genes)
    anndata.AnnData(X, obs, var).write_h5ad("cells.h5ad")


def check_cells(outs: list[str]) -> str:
    """Cells near a cell are of its type."""
    types = [(int(a[1:]) // 30, int(b[1:]) // 30) for a, b in near_pairs(outs[0])]
    if "labels 'cell_type'" not in outs[0]:
        raise SystemExit(f"cells: {outs[0]}")
    return right("cells of one type", share(list(types)), 0.9)


# Towers: two encoders trained on pairs with the loss of the library, searched as an embedding.

TOWERS = """
import numpy as np, torch, nearfar as nf
torch.manual_seed(0)
users, items = (torch.tensor(np.load(f"{side}.npy")) for side in ("users", "items"))
pairs = torch.tensor(np.load("pairs.npy"))
towers = [torch.nn.Linear(12, 8) for _ in range(2)]
optimizer = torch.optim.Adam([p for tower in towers for p in tower.parameters()], 0.02)
for epoch in range(8):
    for batch in pairs[torch.randperm(len(pairs))].split(64):
        optimizer.zero_grad()
        made = [torch.nn.functional.normalize(t(x[k])) for t, x, k in zip(towers, (users, items), batch.T)]
        nf.nn.in_batch_nce(*made, temperature=0.2).backward()
        optimizer.step()
with torch.no_grad():
    rows = [torch.nn.functional.normalize(tower(x)) for tower, x in zip(towers, (users, items))]
emb = nf.Embedding(rows[0], [f"user{k}" for k in range(len(users))],
                   context_vectors=rows[1], context_ids=[f"item{k}" for k in range(len(items))])
emb.save("towers.safetensors")
"""


def towers(rng: np.random.Generator) -> None:
    """Write features of users and items, and who chose what."""
    own, of = np.arange(200) % N_GROUPS, np.arange(60) % N_GROUPS
    for name, groups in (("users", own), ("items", of)):
        X = 2 * np.eye(N_GROUPS, 12)[groups] + 0.5 * rng.normal(size=(len(groups), 12))
        np.save(f"{name}.npy", X.astype(np.float32))
    pairs = [(u, i) for u in range(200) for i in rng.choice(np.flatnonzero(of == own[u]), 5, replace=False)]
    np.save("pairs.npy", np.array(pairs))
    Path("train.py").write_text(TOWERS)


def check_towers(outs: list[str]) -> str:
    """Items near a user are those of her taste."""
    found = [entry["id"] for entry in json.loads(outs[1])["similar"]]
    return right("items for user4", share([(int(item[4:]) % N_GROUPS, 4) for item in found]), 0.8)


PEOPLE = {
    "citations": Person(
        citations,
        [[*NEARFAR, "cites.csv"], [*NEARFAR, "similar", "cites.nearfar.safetensors", "paper7", "--json"]],
        check_citations,
    ),
    "likes": Person(likes, [[*NEARFAR, "likes.parquet"]], check_likes, ("pyarrow",)),
    "texts": Person(
        texts,
        [
            [*NEARFAR, "words", "train", "texts", "-o", "words.safetensors", "--lowercase"],
            [*NEARFAR, "similar", "words.safetensors", "sea3", "--topn", "5", "--json"],
        ],
        check_texts,
    ),
    "cells": Person(cells, [[*NEARFAR, "cells.h5ad"]], check_cells, ("anndata",)),
    "towers": Person(
        towers,
        [
            [sys.executable, "train.py"],
            [*NEARFAR, "similar", "towers.safetensors", "user4", "--context", "--topn", "5", "--json"],
        ],
        check_towers,
        ("torch",),
    ),
}


def meet(name: str) -> tuple[str, float]:
    """Let one person try; return what was right, and the processor time in seconds."""
    person = PEOPLE[name]
    person.prepare(np.random.default_rng(0))
    environment = os.environ | {"NEARFAR_CACHE_DIR": str(Path.cwd() / "cache")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outs = []
    for command in person.commands:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: {' '.join(command[1:])} failed: {done.stderr}")
        outs.append(done.stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return person.check(outs), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run those who are named, by default all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("people", nargs="*", default=list(PEOPLE), help=", ".join(PEOPLE))
    parser.add_argument("--seconds", type=float, default=10.0, help="processor time of one person at most")
    asked = parser.parse_args()
    slow = []
    for name in asked.people:
        absent = [package for package in PEOPLE[name].needs if find_spec(package) is None]
        if absent:
            print(f"{name:10} left out: no {absent[0]}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            told, seconds = meet(name)
            os.chdir("/")
        print(
            f"{name:10} {len(PEOPLE[name].commands)} commands, {seconds:4.1f} s of processor time: {told}", flush=True
        )
        slow += [name] * (seconds > asked.seconds)
    if slow:
        raise SystemExit(f"above {asked.seconds:g} s: {', '.join(slow)}")


if __name__ == "__main__":
    main()
