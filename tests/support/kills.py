"""Kills at random moments of everything that writes: `make kills`. The old file or the new one is whole, always.

A child process fits, saves or builds, and is killed. What it left is read: it must be what was there before
or what was to be written. A killed fit is resumed from its checkpoint, and may be killed again; its end must have the
bits of a fit that was never killed. The next one that writes in the folder removes what was left there (what is older
than an hour; here it is made older). A seed gives the same moments, as far as the machine is as fast.
"""

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import stored
from stored import AN_HOUR_AGO, state_of

import nearfar as nf
from nearfar._core import checkpoint
from nearfar.callbacks import Checkpoint
from nearfar.errors import NearfarWarning

SLOW = 60


class Case(NamedTuple):
    """Something that writes.

    ``act`` is killed. ``state`` reads what is in the folder, and must return one of ``allowed``, which are made by
    doing nothing and by acting to the end; another ``act`` must then lead to the last of them.
    """

    name: str
    prepare: Callable[[Path], object]
    act: Callable[[Path], object]
    state: Callable[[Path], object]


TEXT = [["the", "sea", "the", "ship"], ["a", "sea", "b", "c"], ["c", "d", "the", "e"]] * 400
GRAPH = nf.Relation.from_edges([(k, k * k % 400) for k in range(400)] + [(k, (k + 1) % 400) for k in range(400)])
WORDS = {"n_components": 8, "n_epochs": 6, "sample": 0, "min_count": 1, "random_state": 0, "n_jobs": 1}


def nothing(_folder: Path) -> None:
    """Leave the folder empty."""


def fit(name: str, make: Callable[..., object], data: object) -> Case:
    """A fit that writes a checkpoint in each epoch and its vectors at its end; where there is one it goes on."""

    def act(folder: Path) -> None:
        kept = folder / "run.safetensors"
        model = make(callbacks=[Checkpoint(kept, every=1)])
        model.fit(data, resume=kept if kept.exists() else None)
        model.vectors_.save(folder / "x.npz")

    def state(folder: Path) -> object:
        if (folder / "run.safetensors").exists():
            checkpoint.read(folder / "run.safetensors")
        return state_of(nf.Embedding.load(folder / "x.npz"))[:2] if (folder / "x.npz").exists() else None

    return Case(f"fit, {name}", nothing, act, state)


def transpose(folder: Path) -> None:
    """Ask for what needs the transpose: what is there is used, what is not is made."""
    stored.transposed(nf.Relation.open(folder / "stored"))


def of_kind(kind: stored.Kind) -> Case:
    """One version in place of another."""
    old, new = (lambda folder, version=version: kind.write(folder / kind.path, version) for version in (0, 1))
    return Case(kind.name, old, new, lambda folder: kind.state(kind.load(folder / kind.path)))


def cases() -> list[Case]:
    """All of them, as far as what they need is installed."""
    directed = next(kind for kind in stored.kinds(900) if kind.name == "relation, transposed")
    return [
        fit("EDRep", lambda **more: nf.EDRep(8, n_epochs=12, random_state=0, n_jobs=1, **more), GRAPH),
        fit("EDRep, two threads", lambda **more: nf.EDRep(4, n_epochs=9, random_state=0, n_jobs=2, **more), GRAPH),
        fit("SkipGram", lambda **more: nf.SkipGram(**WORDS, **more), TEXT),
        fit("Word2DM", lambda **more: nf.Word2DM(**WORDS, n_factors=2, optimizer="adam", **more), TEXT),
        fit("MultiSenseWord2DM", lambda **more: nf.MultiSenseWord2DM(**WORDS, n_senses=2, **more), TEXT),
        *(of_kind(kind) for kind in stored.kinds(900)),
        of_kind(directed)._replace(name="transpose", act=transpose),
    ]


class Ready(NamedTuple):
    """A case with what it may leave, and how long it takes."""

    case: Case
    allowed: tuple[object, object]
    seconds: float


def act(case: Case, folder: Path, after: float | None = None) -> bool:
    """Let a child act, and kill it after so many seconds; return whether that was before its end."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(SLOW)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            case.act(folder)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and after is not None:
        return True
    if status:
        raise RuntimeError(f"{case.name}: the child ended by {status}")
    return False


def ready(case: Case, n_timed: int = 3) -> Ready:
    """Find out what is there before and after, and how long it takes, in a child."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case.prepare(folder)
        before = case.state(folder)
        case.act(folder)  # here, so that the children find everything imported and compiled
        after = case.state(folder)
    seconds = []
    for _ in range(n_timed):
        with tempfile.TemporaryDirectory() as name:
            case.prepare(Path(name))
            start = time.perf_counter()
            act(case, Path(name))
            seconds.append(time.perf_counter() - start)
    return Ready(case, (before, after), statistics.median(seconds))


def left_overs(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".nearfar-*"))


def kill(made: Ready, rng: random.Random, most: int) -> tuple[int, int]:
    """Kill up to ``most`` times in a folder, look each time, and come to the end; return kills, and left-overs seen."""
    case, n_killed, n_left = made.case, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case.prepare(folder)
        for _ in range(rng.randint(1, most)):
            n_killed += act(case, folder, rng.uniform(0, 1.1 * made.seconds))
            n_left += len(left_overs(folder))
            old = time.time() - AN_HOUR_AGO
            for path in left_overs(folder):
                os.utime(path, (old, old))
            if (found := case.state(folder)) not in made.allowed:
                raise ValueError(f"{case.name}: neither the old nor the new one: {found!r:.300}")
        act(case, folder)
        if case.state(folder) != made.allowed[1]:
            raise ValueError(f"{case.name}: it did not go on to the same end")
        if left := left_overs(folder):
            raise ValueError(f"{case.name}: left over: {left}")
    return n_killed, n_left


def main(n: int, seed: int, only: str = "") -> int:
    """Kill so many times, and say what came of it."""
    warnings.simplefilter("ignore", NearfarWarning)
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: there are none at work
    rng = random.Random(seed)
    every = [ready(case) for case in cases() if only in case.name]
    counts = {made.case.name: [0, 0, 0] for made in every}
    failed = 0
    while sum(count[0] for count in counts.values()) < n and failed < 10:
        made = every[min(range(len(every)), key=lambda k: counts[every[k].case.name][0])]
        count = counts[made.case.name]
        try:
            killed, left = kill(made, rng, min(3, n))
        except Exception:
            failed += 1
            killed, left = 1, 0
            traceback.print_exc(file=sys.stdout)
        count[0] += killed
        count[1] += left
        count[2] += 1
    for name, (killed, left, runs) in counts.items():
        sys.stdout.write(f"{name:30} {killed:4} killed in {runs:4} folders, {left:4} left-overs removed\n")
    total = sum(count[0] for count in counts.values())
    used = time.process_time() + sum(os.times()[2:4])
    sys.stdout.write(f"{total} kills, {failed} failures; seed {seed}; {used:.0f} s of processor time\n")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=1000, help="how many kills")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    sys.exit(main(options.n, options.seed, options.only))
