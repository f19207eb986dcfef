"""Damaged files for every reader: `make fuzz`. A file is read, or refused by an error of nearfar; nothing else.

Sound files are made here and damaged, by hypothesis and, where it is installed, by atheris, which follows what the
code of the readers does with them. Checksums are not compared, so that damage gets behind them: whoever makes a file on
purpose writes one that fits. Each reader has a process of its own. It fails if it ends, if a file takes longer than
`SLOW` seconds or `MUCH` more memory than sound ones, if another exception comes out, or if what was read is unsound.
Failing files are kept in --folder, the shortest for each place in the code; `--again FILE` reads one of them once more.
"""

import argparse
import contextlib
import faulthandler
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import nearfar as nf
from nearfar.callbacks import Checkpoint
from nearfar.errors import NearfarError, NearfarWarning

SLOW = 10  # seconds of processor time
MUCH = 512 << 20  # bytes of memory beyond those that sound files take
MOST = 1 << 16  # bytes of a damaged file


class UnsoundError(Exception):
    """Something was read that it should not have been."""


class Reader(NamedTuple):
    """Sound files by name, and what reads a folder in which one of them was damaged."""

    name: str
    damaged: str  # name of the file
    make: Callable[[Path], object]
    read: Callable[[Path], object]


# -- what there is to read --------------------------------------------------------------------------------------------

IDS = ["ann", "Zoë", "50%", "new york", "日本"]
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


def vectors(dtype=np.float32):
    return np.random.default_rng(0).standard_normal((5, 3)).astype(dtype)


def plain():
    return nf.Embedding(vectors(), IDS, parameters={"n_components": 3})


def two_sided():
    return nf.Embedding(vectors(np.float64), IDS, context_vectors=vectors()[:2], context_ids=[("b", 1), 2.5])


def density():
    return nf.DensityEmbedding.from_factors(np.random.default_rng(0).standard_normal((5, 3, 2)), IDS)


def anchored():
    rng = np.random.default_rng(0)
    return nf.AnchoredEmbedding(rng.random((5, 3)) + 0.1, rng.standard_normal((3, 2)).astype(np.float32), IDS)


def senses():
    ids = [("ann", 0), ("ann", 2), ("Zoë", 0), ("50%", 0), ("日本", 0)]
    return nf.SenseEmbedding(vectors(), ids, weights=[0.5, 0.5, 1, 1, 1], context_vectors=vectors())


def check_embedding(read: nf.Embedding) -> None:
    """Rows are finite, ids are distinct and find their rows; similar ones are found, and all of it can be saved."""
    X, ids = np.asarray(read.vectors), read.ids.to_list()
    if X.ndim != 2 or len(X) != len(ids) or len(set(ids)) != len(ids) or not np.isfinite(X).all():
        raise UnsoundError(f"vectors of shape {X.shape}, {len(ids)} ids, {len(set(ids))} of them distinct")
    if ids:
        np.testing.assert_array_equal(read[ids[-1]], X[-1])
    if len(ids) > 1 and X.shape[1] and X.size < 10_000:
        read.most_similar(ids[0], topn=1)
    with tempfile.TemporaryDirectory() as folder:
        read.save(Path(folder, "x.safetensors"))


def check_relation(read: nf.Relation) -> None:
    """Ids fit the shape; products are finite and agree with the matrix."""
    rows, columns = read.row_ids.to_list(), read.column_ids.to_list()
    if (len(rows), len(columns)) != read.shape or len(set(rows)) != len(rows):
        raise UnsoundError(f"{len(rows)} and {len(columns)} ids for shape {read.shape}")
    found = read.normalized().matmat(np.ones((read.shape[1], 2), np.float32))
    if found.shape != (read.shape[0], 2) or not np.isfinite(found).all():
        raise UnsoundError(f"a product of shape {found.shape}, {np.isfinite(found).sum()} numbers of it finite")


def embedding_reader(name: str, make: Callable[[], nf.Embedding], suffix: str) -> Reader:
    kind = type(make())

    def read(folder: Path) -> None:
        check_embedding(kind.load(folder / f"x{suffix}"))

    return Reader(name, f"x{suffix}", lambda folder: make().save(folder / f"x{suffix}"), read)


# The files of a stored folder, listed: to store one in order to look compiles what relations and texts need.
STORED = {
    "relation": ("data.npy", "ids.data.npy", "ids.ends.npy", "indices.npy", "indptr.npy", "relation.json"),
    "text": ("ends.npy", "text.json", "tokens.npy", "vocabulary.tsv"),
}


def folder_readers(name: str, make: Callable[[Path], object], read: Callable[[Path], object]) -> Iterator[Reader]:
    """One for each file of a stored folder."""
    for file in STORED[name]:
        yield Reader(
            f"{name}: {file}",
            f"stored/{file}",
            lambda folder: make(folder / "stored"),
            lambda folder: read(folder / "stored"),
        )


def text_reader(name: str, file: str, text: str, read: Callable[[Path], object]) -> Reader:
    def make(folder: Path) -> None:
        for other in ("data.noun", "data.verb", "data.adj", "data.adv") if file == "data.noun" else ():
            (folder / other).write_text(SYNSETS)
        (folder / file).write_text(text, encoding="utf-8")

    return Reader(name, file, make, lambda folder: read(folder / file))


def edges_in_parquet(folder: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    columns = {"source": ["a", "b", "c"], "target": ["b", "c", "a"], "weight": [1.0, 2.0, 0.5]}
    parquet.write_table(pyarrow.table(columns), folder / "x.parquet")


def make_checkpoint(folder: Path) -> None:
    callbacks = [Checkpoint(folder / "run.safetensors", every=1), lambda _: True]
    nf.EDRep(2, **QUICK, callbacks=callbacks).fit(GRAPH)


def make_word_checkpoint(folder: Path) -> None:
    callbacks = [Checkpoint(folder / "run.safetensors", every=1), lambda _: True]
    nf.SkipGram(2, **QUICK, min_count=1, sample=0, callbacks=callbacks).fit(TEXT.split("\n"))


def read_checkpoint(folder: Path) -> None:
    check_embedding(nf.EDRep(2, **QUICK).fit(GRAPH, resume=folder / "run.safetensors").vectors_)


def read_word_checkpoint(folder: Path) -> None:
    model = nf.SkipGram(2, **QUICK, min_count=1, sample=0)
    check_embedding(model.fit(TEXT.split("\n"), resume=folder / "run.safetensors").vectors_)


def make_index(kind: str) -> Callable[[Path], None]:
    return lambda folder: plain().index(kind, n_jobs=1).save(folder / "x.index")


def read_index(folder: Path) -> None:
    plain().open_index(folder / "x.index").search(["ann", "Zoë"], topn=2)


def read_contacts(path: Path) -> None:
    check_relation(nf.Relation.from_contacts(path))


def read_encoded(folder: Path) -> None:
    text = nf.EncodedCorpus.open(folder)
    check_relation(nf.Relation.from_corpus(text, window=2))


def read_table(path: Path) -> None:
    from nearfar._core.checks import check_matrix
    from nearfar.points import read_table as read

    check_matrix("fuzz", "X", read(str(path), None, None, owner="fuzz")[0])  # as a map does


def read_metadata(path: Path) -> None:
    from nearfar.viewer.metadata import columns_of

    columns_of("fuzz", path, nf.Embedding(vectors(), IDS).ids, None)


def read_phrases(path: Path) -> None:
    nf.evaluate.phrases(nf.Embedding(vectors(), ["ann", "Zoë", "see", "like", "日本"]), path, method="add")


def read_labels(path: Path) -> None:
    from nearfar.cli.files import labels_of

    labels_of("fuzz", plain(), str(path))


def command_line(path: Path) -> None:
    """The arguments of a command, one a line; it may end by 0 or 2, and may not show a traceback."""
    from nearfar.cli import main

    arguments = path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
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


def readers() -> list[Reader]:
    """All of them, as far as what they need is installed."""
    from nearfar.embedding.files import FORMATS

    found = []
    for name, form in FORMATS.items():
        if form.requires is None or importlib.util.find_spec(form.requires[0]):
            suffixes = [s for s in form.suffixes if s in (form.suffixes[0], ".txt.gz", ".bin.gz")]
            found += [embedding_reader(f"{name} {suffix}", plain, suffix) for suffix in suffixes]
    found += [
        embedding_reader(f"{make.__name__} .safetensors", make, ".safetensors")
        for make in (two_sided, density, anchored, senses)
    ]
    found += [
        embedding_reader("int4 .safetensors", lambda: plain().quantize("int4"), ".safetensors"),
        embedding_reader("senses, int8 .safetensors", lambda: senses().quantize(), ".safetensors"),
        embedding_reader("anchored, packed .safetensors", lambda: anchored().quantize("int8"), ".safetensors"),
        Reader("ids of a projector", "x.metadata.tsv", lambda f: plain().save(f / "x.tsv"), read_projector),
        text_reader("edges .csv", "edges.csv", EDGES, lambda path: check_relation(nf.Relation.from_edges(path))),
        text_reader("edges, two sides", "edges.tsv", EDGES.replace(",", "\t"), read_bipartite),
        text_reader("contacts", "contacts.csv", CONTACTS, read_contacts),
        text_reader("text", "text.txt", TEXT, lambda path: nf.Corpus(path).vocabulary(min_count=2)),
        text_reader("vocabulary", "words.tsv", "word\tcount\nthe\t9\nsea\t4\n", nf.Vocabulary.load),
        text_reader("WordNet", "data.noun", SYNSETS, read_wordnet),
        text_reader("table", "table.csv", "name;a;b\nann;1;2.5\nbob;-3;1e3\n", read_table),
        text_reader("pairs", "pairs.tsv", PAIRS, lambda path: nf.evaluate.word_similarity(plain(), path)),
        text_reader("questions", "q.txt", QUESTIONS, lambda path: nf.evaluate.word_analogies(plain(), path)),
        text_reader("phrases", "p.csv", PHRASES, read_phrases),
        text_reader("labels", "labels.csv", "id,label\nann,a\nZoë,b\n50%,a\n", read_labels),
        text_reader("metadata", "meta.csv", "id,group,n\nann,1,2.5\nZoë,,x\n50%,2,\n", read_metadata),
        Reader("edges .gz", "edges.csv.gz", packed_edges, read_edges_gz),
        Reader("checkpoint", "run.safetensors", make_checkpoint, read_checkpoint),
        Reader("checkpoint of words", "run.safetensors", make_word_checkpoint, read_word_checkpoint),
        Reader("command line", "arguments", make_command_line, lambda folder: command_line(folder / "arguments")),
    ]
    if importlib.util.find_spec("pyarrow"):
        read = lambda folder: check_relation(nf.Relation.from_edges(folder / "x.parquet"))  # noqa: E731
        found.append(Reader("edges .parquet", "x.parquet", edges_in_parquet, read))
    for kind in ("lists", "faiss", "usearch"):
        if kind == "lists" or importlib.util.find_spec(kind):
            found.append(Reader(f"index, {kind}", "x.index", make_index(kind), read_index))
    pairs = [("a", "b", 2.0), ("b", "c", 1.0), ("c", "d", 0.5), ("a", "d", 3.0)]
    found += folder_readers(
        "relation",
        lambda folder: nf.Relation.from_edges(pairs, directed=True, storage=folder),
        lambda folder: check_relation(nf.Relation.open(folder)),
    )
    found += folder_readers(
        "text", lambda folder: nf.Corpus(TEXT.split("\n")).encode(min_count=1, folder=folder), read_encoded
    )
    return found


def read_projector(folder: Path) -> None:
    check_embedding(nf.Embedding.load(folder / "x.tsv"))


def read_bipartite(path: Path) -> None:
    check_relation(nf.Relation.from_edges(path, bipartite=True))


def read_wordnet(path: Path) -> None:
    check_relation(nf.Relation.from_wordnet(path.parent, ["ship", "sea", "sea boat", "air"]))


def packed_edges(folder: Path) -> None:
    import gzip

    (folder / "edges.csv.gz").write_bytes(gzip.compress(EDGES.encode(), mtime=0))


def read_edges_gz(folder: Path) -> None:
    check_relation(nf.Relation.from_edges(folder / "edges.csv.gz"))


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


def to_memory_alone() -> None:
    """Write without waiting for the disk."""
    os.fsync = lambda descriptor: None


class Findings:
    """Reads damaged files, and keeps those that something else came of than an error of nearfar."""

    def __init__(self, reader: Reader, kept: Path) -> None:
        self.reader, self.kept = reader, kept
        self.count = kept / f"{_file_name(reader.name)}.count"
        self.count.write_text("")
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
        if (self.n_read + self.n_refused) % 50 == 0:  # atheris ends the process by itself
            told = f"{self.n_read} read, {self.n_refused} refused, {time.process_time():.1f} s of processor time"
            self.count.write_text(told)
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


def by_hypothesis(findings: Findings, seconds: float, start: int) -> None:
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


def by_atheris(findings: Findings, seconds: float, start: int) -> None:
    import atheris

    with tempfile.TemporaryDirectory() as corpus:
        Path(corpus, "sound").write_bytes(findings.sound)
        Path(corpus, "words").write_text("".join(f'"{"".join(f"{chr(92)}x{b:02x}" for b in o)}"\n' for o in ODD if o))
        options = [f"-max_total_time={seconds:.0f}", f"-seed={start + 1}", f"-max_len={MOST}", "-rss_limit_mb=0"]
        options += [
            "-verbosity=0",
            f"-dict={corpus}/words",
            f"-artifact_prefix={corpus}/",
            "-timeout=3600",
        ]  # the parent watches
        atheris.Setup([sys.argv[0], *options, corpus], findings.case)
        with contextlib.suppress(SystemExit):
            atheris.Fuzz()


def instrument() -> None:
    """Let atheris follow the modules that read: those without compiled functions, which would not compile then."""
    import atheris

    root = Path(nf.__file__).parent
    names = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if re.search(r"^@(jit|intrinsic)|numba", path.read_text(encoding="utf-8"), re.MULTILINE):
            continue
        if parts[1] in ("_core", "embedding", "relations", "text", "viewer", "cli") and parts[-1] != "__init__":
            names.append(".".join(parts))
    loaded = [name for name in names if name in sys.modules]
    for name in loaded:  # in place: other modules hold references to the functions
        module = sys.modules[name]
        for value in list(vars(module).values()):
            if getattr(value, "__module__", None) == name:
                _instrument(atheris, value)


def _instrument(atheris, value) -> None:
    if isinstance(value, type):
        for attribute in list(vars(value).values()):
            _instrument(atheris, getattr(attribute, "__func__", attribute))
    elif type(value) is type(_instrument):
        with contextlib.suppress(Exception):
            atheris.instrument_func(value)


ENGINES = {"hypothesis": by_hypothesis, "atheris": by_atheris}


# -- the run ----------------------------------------------------------------------------------------------------------


def child(options: argparse.Namespace) -> None:
    """One reader with one engine."""
    reader = next(reader for reader in readers() if reader.name == options.reader)
    without_checksums()
    to_memory_alone()
    faulthandler.enable()
    findings = Findings(reader, options.folder)
    if options.again:
        findings.case(options.again.read_bytes())
    else:
        if options.engine == "atheris":
            instrument()
            findings.case(findings.sound)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, resource.RLIM_INFINITY))
        ENGINES[options.engine](findings, options.seconds, options.seed)
    os._exit(0)


def main() -> int:
    """Run all readers, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5, help="for each reader and engine")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="readers whose name this regular expression finds")
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument("--folder", type=Path, default=Path("fuzz-output"))
    parser.add_argument("--again", type=Path, help="read this file once more, with the reader of --only")
    parser.add_argument("--reader", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.folder.mkdir(exist_ok=True)
    if options.reader:
        child(options)
    engines = [options.engine] if options.engine else list(ENGINES)
    if "atheris" in engines and importlib.util.find_spec("atheris") is None:
        sys.stdout.write("atheris is not installed (pip install atheris): hypothesis alone\n")
        engines.remove("atheris")
    names = [reader.name for reader in readers() if re.search(options.only, reader.name)]
    runs = [(name, engine) for name in names for engine in engines[: 1 if options.again else None]]
    failed = [f"{name} ({engine})" for name, engine in runs if not run(options, name, engine)]
    found = sorted(options.folder.glob("*.txt"))
    for path in found:
        sys.stdout.write(f"\n{path}\n{path.read_text()}\n")
    sys.stdout.write(f"{len(names)} readers; seed {options.seed}; {len(found)} found; ended: {failed or 'none'}\n")
    return 1 if found or failed else 0


def run(options: argparse.Namespace, name: str, engine: str) -> bool:
    """Run one reader in a process of its own; return whether it came to its end."""
    command = [sys.executable, sys.argv[0], "--reader", name, "--engine", engine, "--seconds", str(options.seconds)]
    command += ["--seed", str(options.seed), "--folder", str(options.folder)]
    command += ["--again", str(options.again.resolve())] if options.again else []
    last = options.folder / f"{_file_name(name)}.last"
    told = last.with_suffix(".stderr")
    with told.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
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
    count = last.with_suffix(".count")
    result = count.read_text() if process.returncode == 0 else f"ended: {process.returncode}"
    sys.stdout.write(f"{name:40} {engine:10} {result}\n")
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
