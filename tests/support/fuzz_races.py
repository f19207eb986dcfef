"""Files that change while they are read: `make fuzz`. A load is one version that was written, or it is refused.

For each format there are some versions. One of them is at a path, and is loaded again and again. At random moments
between two file operations of the reader something happens there: a writer takes its next steps, is killed for good or
comes to its end; a file or folder is replaced; files of two folders are exchanged; a bit is flipped; a file is cut.
Python tells of its file operations (audit events), so the moments are those that a seed draws, whatever the machine
does. No bits are flipped where nothing could tell: some formats have no room for a checksum.
"""

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stored import AN_HOUR_AGO, Kind, kinds

from nearfar.errors import NearfarError, NearfarWarning

VERSIONS = 4
LOADS = 40  # in one folder
EVENTS = {"open", "mmap.__new__", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir"}


# -- moments ----------------------------------------------------------------------------------------------------------


class KilledError(BaseException):
    """Comes out of every file operation of a writer that was killed, also of those that would clean up."""


class Writer(threading.Thread):
    """A writer that takes some steps, from one file operation to the next, when it is told to."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.act, self.steps, self.killed = act, 0, False
        self.error: BaseException | None = None
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self.start()

    def run(self) -> None:
        self._go.acquire()
        try:
            self.act()
        except (NearfarError, OSError, KilledError):  # of two at once, or of files that were damaged
            pass
        except BaseException as error:
            self.error = error
        self._paused.release()

    def walk(self, steps: int) -> bool:
        """Let it take so many steps; return whether it came to its end."""
        self.steps = steps
        self._go.release()
        self._paused.acquire()
        return self.steps > 0 or not self.is_alive()

    def operation(self) -> None:
        """What happens before each of its file operations."""
        if self.killed:
            raise KilledError
        self.steps -= 1
        if self.steps <= 0:
            self._paused.release()
            self._go.acquire()
            if self.killed:
                raise KilledError


READING: list["Race"] = []  # the one that is being read; writers stop at their operations while there is one


def hook(event: str, arguments: tuple[object, ...]) -> None:
    if not READING or event not in EVENTS:
        return
    path = arguments[0]
    if isinstance(path, (str, Path)) and Path(path).is_absolute() and READING[-1].root not in Path(path).parents:
        return  # elsewhere
    thread = threading.current_thread()
    if isinstance(thread, Writer):
        thread.operation()
    elif thread is threading.main_thread():
        READING[-1].moment()


def untold(what: "sys.UnraisableHookArgs") -> None:
    """Say nothing of finalizers of writers that were killed."""
    if not isinstance(what.exc_value, KilledError):
        sys.__unraisablehook__(what)


def without_waiting() -> None:
    """Write without waiting for the disk."""
    os.fsync = lambda _descriptor: None


class Race:
    """A path with one of some versions, and what happens to it.

    Parameters
    ----------
    kind : Kind
    made : list of Path
        Where each version is, whole.
    rng : random.Random
    """

    def __init__(self, kind: Kind, made: list[Path], rng: random.Random) -> None:
        self.kind, self.made, self.rng = kind, made, rng
        self._folder = tempfile.TemporaryDirectory(dir=made[0].parents[1])
        self.root = Path(self._folder.name)
        self.path = self.root / kind.path
        self.writers: list[Writer] = []
        self.happened, self.acting = Counter[str](), False
        self.put()

    # What happens at a moment.

    def moment(self) -> None:
        """What may happen before a file operation of the reader."""
        if self.acting or self.rng.random() < 0.5:
            return
        names = ["step", "step", "step", "write", "finish", "kill", "put", "mix"]
        names += ["flip", "cut"] if self.kind.checksums and self.rng.random() < 0.3 else []
        self.act(getattr(self, self.rng.choice(names)))

    def act(self, what: Callable[[], None]) -> None:
        """Let something happen, and nothing else meanwhile."""
        self.happened[what.__name__] += 1
        self.acting = True
        try:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # a writer has it in its hands
                what()
        finally:
            self.acting = False

    def write(self) -> None:
        """Begin to write a version."""
        if len(self.writers) < 2:
            version = self.rng.randrange(VERSIONS)
            self.writers.append(Writer(lambda: self.kind.write(self.path, version)))
        self.step()

    def step(self, steps: int | None = None) -> None:
        """Let a writer go on."""
        if self.writers:
            writer = self.rng.choice(self.writers)
            if writer.walk(steps or self.rng.randint(1, 12)):
                self._end(writer)

    def finish(self) -> None:
        """Let a writer come to its end."""
        self.step(1 << 30)

    def kill(self) -> None:
        """Kill a writer; what it left counts as old if there is no other one."""
        if self.writers:
            writer = self.rng.choice(self.writers)
            writer.killed = True
            writer.walk(1)
            self._end(writer)
            old = time.time() - AN_HOUR_AGO
            for left in () if self.writers else self.root.rglob(".nearfar-*"):
                with contextlib.suppress(OSError):
                    os.utime(left, (old, old))

    def _end(self, writer: Writer) -> None:
        writer.join()
        self.writers.remove(writer)
        if writer.error is not None:
            raise writer.error

    def put(self) -> None:
        """Replace what is there by a version that was written elsewhere."""
        version = self.rng.choice(self.made)
        for source in sorted(version.iterdir()):
            target, new = self.root / source.name, self.root / "new"
            if source.is_dir():
                shutil.copytree(source, new)
                if target.exists():
                    target.rename(self.root / "old")
                new.rename(target)
                shutil.rmtree(self.root / "old", ignore_errors=True)
            else:
                shutil.copyfile(source, new)
                new.replace(target)

    def files(self) -> list[Path]:
        """What is there, without what writers have not finished."""
        found = [path for path in self.root.rglob("*") if path.is_file()]
        return sorted(path for path in found if ".nearfar-" not in str(path) and path.stat().st_size)

    def mix(self) -> None:
        """Put one file, or one folder within a folder, of another version in the place of that which is there."""
        there = [path for path in sorted(self.root.rglob("*")) if ".nearfar-" not in str(path)]
        places = [path for path in there if path.parent != self.root or path.is_file()]
        if not places:
            return
        place = self.rng.choice(places)
        source = self.rng.choice(self.made) / place.relative_to(self.root)
        new = self.root / "new"
        if source.is_dir():
            shutil.copytree(source, new)
            place.rename(self.root / "old")
            new.rename(place)
            shutil.rmtree(self.root / "old", ignore_errors=True)
        elif source.is_file():
            shutil.copyfile(source, new)
            new.replace(place)

    def flip(self) -> None:
        """Flip one bit, in place."""
        if not self.files():
            return
        path = self.rng.choice(self.files())
        bit = self.rng.randrange(8 * path.stat().st_size)
        with path.open("r+b") as file:
            file.seek(bit // 8)
            byte = file.read(1)[0]
            file.seek(bit // 8)
            file.write(bytes([byte ^ 1 << bit % 8]))

    def cut(self) -> None:
        """Cut a file; not in place, which ends who has mapped it."""
        if not self.files():
            return
        path = self.rng.choice(self.files())
        (self.root / "new").write_bytes(path.read_bytes()[: self.rng.randrange(path.stat().st_size)])
        (self.root / "new").replace(path)

    # What is read.

    def load(self) -> object:
        """Load once, while things happen; return what was found."""
        if self.rng.random() < 0.4:
            self.act(self.put)
        READING.append(self)
        try:
            return self.kind.state(self.kind.load(self.path))
        finally:
            READING.remove(self)

    def close(self) -> None:
        """Let all writers end."""
        READING.append(self)
        while self.writers:
            self.act(self.kill)
        READING.remove(self)
        self._folder.cleanup()


class Result(NamedTuple):
    """What came of the loads of a kind."""

    counts: Counter[str]
    failures: list[str]


def versions_of(kind: Kind, folder: Path) -> tuple[list[Path], list[object]]:
    """Write all versions in folders of their own, and load them: which imports and compiles all that is needed."""
    made = [folder / f"{kind.name} {version}".replace(" ", "-").replace(",", "") for version in range(VERSIONS)]
    states = []
    for version, place in enumerate(made):
        place.mkdir()
        kind.write(place / kind.path, version)
        states.append(kind.state(kind.load(place / kind.path)))
    if any(states[a] == states[b] for a in range(VERSIONS) for b in range(a)):
        raise ValueError(f"{kind.name}: two versions are the same")
    return made, states


def judged(load: Callable[[], object], states: list[object]) -> tuple[str, str]:
    """Return what came of a load, and what is to be told of it; it may be one of the states, or be refused."""
    try:
        found = load()
    except (NearfarError, NearfarWarning):
        return "refused", ""
    except Exception as error:
        return "other errors", f"{error!r}\n{traceback.format_exc()[-1500:]}"
    return ("read", "") if found in states else ("silent", f"silent: {found!r:.600}")


def races(kind: Kind, made: list[Path], states: list[object], seed: str, n: int) -> Result:
    """Load so many times, in one folder."""
    rng = random.Random(seed)
    race, counts, failures = Race(kind, made, rng), Counter[str](), []
    try:
        for _ in range(n):
            outcome, said = judged(race.load, states)
            counts[outcome] += 1
            failures += [f"{kind.name}, {seed}: {said}"] if said else []
    finally:
        race.close()
    counts.update({f"({name})": n for name, n in race.happened.items()})
    return Result(counts, failures)


def main(n: int, seed: int, only: str = "", again: str = "") -> int:
    """Load so many times in all, and say what came of it."""
    warnings.simplefilter("ignore", NearfarWarning)
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: there are none at work
    without_waiting()
    sys.addaudithook(hook)
    sys.unraisablehook = untold
    every = [kind for kind in kinds() if only in kind.name]
    results: dict[str, Counter[str]] = {kind.name: Counter() for kind in every}
    failures: list[str] = []
    memory = Path("/dev/shm")  # a disk of its own speed makes no other moments
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        Path(name, "made").mkdir()
        tempfile.tempdir = name  # what killed writers leave goes, too
        ready = [(kind, *versions_of(kind, Path(name, "made"))) for kind in every]
        for turn in range(-(-n // (LOADS * len(every)))):
            for kind, made, states in ready:
                if (again and again != f"{seed} {turn}") or len(failures) > 20:
                    continue
                result = races(kind, made, states, f"{seed} {turn}", LOADS)
                results[kind.name] += result.counts
                failures += result.failures
    total = Counter[str]()
    for name, counts in results.items():
        total += counts
        told = ", ".join(f"{counts[what]} {what}" for what in ("read", "refused", "silent", "other errors"))
        sys.stdout.write(f"{name:26} {told}\n")
    loads = sum(total[what] for what in ("read", "refused", "silent", "other errors"))
    events = ", ".join(f"{count} {what}" for what, count in sorted(total.items()) if what.startswith("("))
    sys.stdout.write(f"while they were read: {events}\n" + "\n".join(failures[:20]) + "\n")
    sys.stdout.write(f"{loads} loads, {total['silent']} silent, {total['other errors']} other errors; seed {seed}; ")
    sys.stdout.write(f"{time.process_time():.0f} s of processor time\n")
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=10_000, help="how many loads at moments that are drawn")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="formats whose name contains this")
    parser.add_argument("--again", default="", help="the seed and the turn of a failure, such as '7 12'")
    options = parser.parse_args()
    sys.exit(main(options.n, options.seed, options.only, options.again))
