"""Damaged files for every reader: `make fuzz`. A file is read, or refused by an error of nearfar; nothing else.

Sound files are made here and damaged by hypothesis. Checksums are not compared, so that damage gets behind them:
whoever makes a file on purpose writes one that fits. Each reader has a process of its own. It fails if it ends, if a
file takes longer than `SLOW` seconds or `MUCH` more memory than sound ones, if another exception comes out, or if what
was read is unsound. Failing files are kept in --folder, the shortest for each place in the code; `--again FILE` reads
one of them once more.
"""

import argparse
import contextlib
import faulthandler
import gzip
import hashlib
import importlib.util
import io
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import stored
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from stored import UnsoundError, check, plain, vectors

import nearfar as nf
from nearfar.callbacks import Checkpoint
from nearfar.errors import NearfarError, NearfarWarning

SLOW = 10  # seconds of processor time
MUCH = 512 << 20  # bytes of memory beyond those that sound files take
MOST = 1 << 16  # bytes of a damaged file


class Reader(NamedTuple):
    """Sound files by name, and what reads a folder in which one of them was damaged."""

    name: str
    damaged: str  # name of the file
    make: Callable[[Path], object]
    read: Callable[[Path], object]


# -- what there is to read --------------------------------------------------------------------------------------------

EDGES = "source,target,weight\nann,bob,1.5\nbob,cy,2\n# a remark\ncy,ann,0.5\ncy,dan,1e3\n"
CONTACTS = "t i j\n20 1 2\n20 2 3\n40 1 3\n60 2 3\n60 1 4\n"
TEXT = "the sea and the ship\nthe ship at sea\n\na sea of ships and the Meer öäü\n" * 4
PAIRS = "word1\tword2\tscore\nann\tZoë\t3.5\nnew york\t日本\t0\n"
QUESTIONS = ": towns\nann Zoë 日本 50%\nann Zoë a b\n"
PHRASES = "verb,subject,object,landmark,score\nsee,ann,Zoë,like,3\nlike,日本,ann,see,1.5\n"
SYNSETS = (
    "  1 licence\n"
    "00001740 03 n 02 ship 0 sea_boat 0 002 @ 00001930 n 0000 ! 00001930 n 0101 | a thing\n"
    "00001930 03 n 01 sea 0 001 ~ 00001740 n 0000 | water\n"
)
GRAPH = nf.Relation.from_edges([(k, k * k % 9) for k in range(9)] + [(k, (k + 1) % 9) for k in range(9)])
QUICK = {"n_jobs": 1, "random_state": 0, "n_epochs": 2}
# The files of a stored folder, listed: to store one in order to look compiles what relations and texts need.
STORED = {
    "relation": ("data.npy", "ids.data.npy", "ids.ends.npy", "indices.npy", "indptr.npy", "relation.json"),
    "text": ("ends.npy", "text.json", "tokens.npy", "vocabulary.tsv"),
}


def text_reader(name: str, file: str, text: str | bytes, read: Callable[[Path], object]) -> Reader:
    """A file of text, beside all that WordNet has."""

    def make(folder: Path) -> None:
        for other in ("noun", "verb", "adj", "adv") if file == "data.noun" else ():
            (folder / f"data.{other}").write_text(SYNSETS)
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())

    return Reader(name, file, make, lambda folder: read(folder / file))


def checkpoint_reader(name: str, model: Callable[..., object], data: object) -> Reader:
    """A checkpoint, from which a fit goes on."""

    def make(folder: Path) -> None:
        model(**QUICK, callbacks=[Checkpoint(folder / "run.safetensors", every=1), lambda _: True]).fit(data)

    def read(folder: Path) -> None:
        check(model(**QUICK).fit(data, resume=folder / "run.safetensors").vectors_)

    return Reader(name, "run.safetensors", make, read)


def edges_in_parquet(folder: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    columns = {"source": ["a", "b", "c"], "target": ["b", "c", "a"], "weight": [1.0, 2.0, 0.5]}
    parquet.write_table(pyarrow.table(columns), folder / "x.parquet")


def read_table(path: Path) -> None:
    from nearfar._core.checks import check_matrix
    from nearfar.reading.points import read_table as read

    check_matrix("fuzz", "X", read(str(path), None, None, owner="fuzz").vectors)  # as a map does


def read_metadata(path: Path) -> None:
    from nearfar.viewer.drawn import columns_of

    columns_of("fuzz", path, plain().ids, None)


def read_labels(path: Path) -> None:
    from nearfar.cli.shared import labels_of
    from nearfar.reading.delimited import FOUND_OUT

    labels_of("fuzz", plain(), str(path), FOUND_OUT)


def command_line(folder: Path) -> None:
    """The arguments of a command, one a line; it may end by 0 or 2, and may not show a traceback."""
    from nearfar.cli import main

    arguments = (folder / "arguments").read_bytes().decode("utf-8", "surrogateescape").split("\n")
    if arguments[0] not in ("info", "convert", "similar", "compare", "advise", "embed"):
        return
    quiet = io.TextIOWrapper(io.BytesIO(), errors="replace")
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        code = main(arguments)
    if code not in (0, 2):
        raise UnsoundError(f"exit code {code}")


def make_command_line(folder: Path) -> None:
    plain().save(folder / "x.npz")
    (folder / "edges.csv").write_text(EDGES)
    arguments = ["similar", folder / "x.npz", "ann", "--topn", "2", "--json"]
    (folder / "arguments").write_text("\n".join(map(str, arguments)))


def of_kind(kind: stored.Kind, file: str = "") -> Reader:
    """What is stored, of which one file is damaged."""
    name, damaged = (f"{kind.name}: {file}", f"stored/{file}") if file else (kind.name, kind.path)
    load = lambda folder: check(kind.load(folder / kind.path))  # noqa: E731
    return Reader(name, damaged, lambda folder: kind.write(folder / kind.path, 0), load)


def readers() -> list[Reader]:
    """All of them, as far as what they need is installed."""
    words = nf.Embedding(vectors(0), ["ann", "Zoë", "see", "like", "日本"])
    relation, judge = nf.Relation, nf.evaluate
    found = [of_kind(kind) for kind in stored.kinds() if kind.path != "stored"]
    found += [of_kind(kind, file) for kind in stored.kinds() for file in STORED.get(kind.name, ())]
    found += [
        text_reader("edges .csv", "edges.csv", EDGES, lambda path: check(relation.from_edges(path))),
        text_reader("edges .gz", "edges.csv.gz", PACKED, lambda path: check(relation.from_edges(path))),
        text_reader("edges, two sides", "e.csv", EDGES, lambda path: check(relation.from_edges(path, bipartite=True))),
        text_reader("contacts", "contacts.csv", CONTACTS, lambda path: check(relation.from_contacts(path))),
        text_reader("text", "text.txt", TEXT, lambda path: nf.Corpus(path).vocabulary(min_count=2)),
        text_reader("vocabulary", "words.tsv", "word\tcount\nthe\t9\nsea\t4\n", nf.Vocabulary.load),
        text_reader("WordNet", "data.noun", SYNSETS, lambda path: check(relation.from_wordnet(path.parent, SEA))),
        text_reader("table", "table.csv", "name;a;b\nann;1;2.5\nbob;-3;1e3\n", read_table),
        text_reader("pairs", "pairs.tsv", PAIRS, lambda path: judge.word_similarity(plain(), path)),
        text_reader("questions", "q.txt", QUESTIONS, lambda path: judge.word_analogies(plain(), path)),
        text_reader("phrases", "p.csv", PHRASES, lambda path: judge.phrases(words, path, method="add")),
        text_reader("labels", "labels.csv", "id,label\nann,a\nZoë,b\n50%,a\n", read_labels),
        text_reader("metadata", "meta.csv", "id,group,n\nann,1,2.5\nZoë,,x\n50%,2,\n", read_metadata),
        checkpoint_reader("checkpoint of a fit", lambda **given: nf.EDRep(2, **given), GRAPH),
        checkpoint_reader("checkpoint of words", lambda **given: nf.SkipGram(2, **FEW, **given), TEXT.split("\n")),
        Reader("command line", "arguments", make_command_line, command_line),
    ]
    if importlib.util.find_spec("pyarrow"):
        read = lambda folder: check(relation.from_edges(folder / "x.parquet"))  # noqa: E731
        found.append(Reader("edges .parquet", "x.parquet", edges_in_parquet, read))
    return found


PACKED = gzip.compress(EDGES.encode(), mtime=0)
SEA, FEW = ["ship", "sea", "sea boat", "air"], {"min_count": 1, "sample": 0}


# -- damage -----------------------------------------------------------------------------------------------------------

ODD = [b"", b"\0", b"\xff", b"\n", b"\r\n", b"\t", b",", b'"', b"-1", b"0", b"1e400", b"nan", b"inf", b"9" * 30]
ODD += [b"[" * 300, b"null", b"{}", b"[]", b"true", b"1.5", b"%", b"%00", b"\xed\xa0\x80", b"\xef\xbb\xbf", b" " * 70]
ODD += [struct.pack("<q", value) for value in (-1, 0, 1, 2**31, 2**40, 2**62, -(2**63))]
ODD += [struct.pack("<i", value) for value in (-1, 2**31 - 1)] + [struct.pack("<f", float("nan"))]


# What is done; where: anywhere, or near the start or the end; with how many bytes; what comes in their place.
CHANGE = st.tuples(
    st.sampled_from(["bit", "odd", "odd", "bytes", "out", "cut", "again", "number"]),
    st.integers(0, 1 << 16),
    st.sampled_from(["anywhere", "start", "end"]),
    st.sampled_from([0, 1, 1, 4, 8, 40]),
    st.sampled_from(ODD),
    st.binary(max_size=8),
)
CHANGES = st.lists(CHANGE, min_size=1, max_size=5)


def damaged(data: bytes, changes: list[tuple]) -> bytes:
    """A file of which some pieces were changed, left out or repeated."""
    for what, place, end, n, odd, other in changes:
        at = place % (len(data) + 1 if end == "anywhere" else min(len(data), 300) + 1)
        at = len(data) - at if end == "end" else at
        piece = {"odd": odd, "bytes": other, "again": data[at : at + n] * 2}.get(what, b"")
        if what == "bit" and at < len(data):
            n, piece = 1, bytes([data[at] ^ 1 << place % 8])
        elif what == "cut":
            n = len(data)
        elif what == "number" and (numbers := [*re.finditer(rb"\d+", data)]):
            match = numbers[place % len(numbers)]
            at, n, piece = match.start(), len(match[0]), odd
        data = data[:at] + piece + data[at + n :]
    return data[:MOST]


def without_checksums() -> None:
    """Let damage behind the checksums, here and in zip archives."""
    from nearfar._core import arrays, atomic
    from nearfar.embedding.files import parquet
    from nearfar.text import encoded

    arrays._check_digest = lambda *_: None
    atomic._checksum_of = lambda content: content.get("checksum")
    zipfile.ZipExtFile._update_crc = lambda self, data: None
    encoded.zlib = FittingChecksums()
    parquet._check_seal = lambda _: None


class FittingChecksums:
    """In place of zlib: a checksum that equals any other."""

    class Any(int):
        __hash__ = int.__hash__

        def __eq__(self, other):
            return True

        def __ne__(self, other):
            return False

    def crc32(self, *_data):
        return self.Any()


class Findings:
    """Reads damaged files, and keeps those that something else came of than an error of nearfar."""

    def __init__(self, reader: Reader, kept: Path) -> None:
        self.reader, self.kept = reader, kept
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        reader.make(self.folder)
        self.path = self.folder / reader.damaged
        self.sound = self.path.read_bytes()
        self.n_read = self.n_refused = 0
        os.chdir(self.folder)
        warnings.simplefilter("ignore", NearfarWarning)
        reader.read(self.folder)  # compiles and imports
        self.memory = self._peak()
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + 8 * MUCH, resource.RLIM_INFINITY))

    def _peak(self) -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    def case(self, data: bytes) -> None:
        """Read one file."""
        # What is mapped may still be open: a new file, not other bytes in the old one.
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(data)
        (self.kept / f"{_file_name(self.reader.name)}.last").write_bytes(data)
        try:
            self.reader.read(self.folder)
            self.n_read += 1
        except (NearfarError, NearfarWarning):
            self.n_refused += 1
        except Exception as error:
            self.found(data, error)
        if (peak := self._peak()) > self.memory + MUCH:
            self.memory = peak
            self.found(data, MemoryError(f"{peak >> 20} MiB"))

    def found(self, data: bytes, error: Exception) -> None:
        """Keep the shortest file for each place in the code."""
        frames = traceback.extract_tb(error.__traceback__)
        place = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if "/nearfar/" in f.filename][-1:]
        told = f"{type(error).__name__} at {(place or ['fuzz'])[0]}"
        key = hashlib.sha1(told.encode()).hexdigest()[:8]
        kept = self.kept / f"{_file_name(self.reader.name)}.{key}.found"
        if not kept.exists() or kept.stat().st_size > len(data):
            kept.write_bytes(data)
            trace = "".join(traceback.format_exception(error)[-12:])
            kept.with_suffix(".txt").write_text(f"{self.reader.name}: {told}\n{error!r:.2000}\n\n{trace}")


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)


def damage(findings: Findings, seconds: float, start: int) -> None:
    """Read damaged files for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start += 1

        @seed(start)
        @settings(
            max_examples=300,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(CHANGES)
        def one(changes):
            if time.monotonic() < end:
                findings.case(damaged(findings.sound, changes))

        one()


# -- the run ----------------------------------------------------------------------------------------------------------


def child(options: argparse.Namespace) -> None:
    """One reader."""
    reader = next(reader for reader in readers() if reader.name == options.reader)
    without_checksums()
    os.fsync = lambda descriptor: None  # without waiting for the disk
    faulthandler.enable()
    findings = Findings(reader, options.folder)
    if options.again:
        findings.case(options.again.read_bytes())
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, resource.RLIM_INFINITY))
        damage(findings, options.seconds, options.seed)
    sys.stdout.write(
        f"{findings.n_read} read, {findings.n_refused} refused, {time.process_time():.1f} s of processor time"
    )
    sys.stdout.flush()
    os._exit(0)


def main() -> int:
    """Run all readers, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5, help="for each reader")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="readers whose name this regular expression finds")
    parser.add_argument("--folder", type=Path, default=Path("fuzz-output"))
    parser.add_argument("--again", type=Path, help="read this file once more, with the reader of --only")
    parser.add_argument("--reader", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.folder.mkdir(exist_ok=True)
    if options.reader:
        child(options)
    names = [reader.name for reader in readers() if re.search(options.only, reader.name)]
    failed = [name for name in names if not run(options, name)]
    found = sorted(options.folder.glob("*.txt"))
    for path in found:
        sys.stdout.write(f"\n{path}\n{path.read_text()}\n")
    sys.stdout.write(f"{len(names)} readers; seed {options.seed}; {len(found)} found; ended: {failed or 'none'}\n")
    return 1 if found or failed else 0


def run(options: argparse.Namespace, name: str) -> bool:
    """Run one reader in a process of its own; return whether it came to its end."""
    command = [sys.executable, sys.argv[0], "--reader", name, "--seconds", str(options.seconds)]
    command += ["--seed", str(options.seed), "--folder", str(options.folder)]
    command += ["--again", str(options.again.resolve())] if options.again else []
    last = options.folder / f"{_file_name(name)}.last"
    told, count = last.with_suffix(".stderr"), last.with_suffix(".count")
    with told.open("w") as errors, count.open("w") as counts:
        process = subprocess.Popen(command, stdout=counts, stderr=errors)
        seen, used, start = -1.0, 0.0, time.time()
        while process.poll() is None:
            time.sleep(0.2)
            now = last.stat().st_mtime if last.exists() else 0.0
            if now != seen:
                seen, used = now, seconds_of(process.pid)
            # Of its own time: the disk or another process may keep it waiting. To begin with it imports and compiles.
            slow = seconds_of(process.pid) - used > (SLOW if seen else 10 * SLOW)
            if slow or time.time() - start > options.seconds + 600:
                process.send_signal(signal.SIGABRT)  # it says where it is
                process.wait()
    result = count.read_text() if process.returncode == 0 else f"ended: {process.returncode}"
    sys.stdout.write(f"{name:40} {result}\n")
    sys.stdout.flush()
    if process.returncode:
        kept = options.folder / f"{_file_name(name)}.ended.found"
        if last.exists():
            last.replace(kept)
        kept.with_suffix(".txt").write_text(f"{name}: ended by {process.returncode}\n{told.read_text()[-3000:]}")
    for path in (last, told, count):
        path.unlink(missing_ok=True)
    return process.returncode == 0


def seconds_of(process: int) -> float:
    """Return the processor time of a process so far."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
