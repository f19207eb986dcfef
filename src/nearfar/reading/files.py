"""The front door: whatever is given goes to the reader that fits it, and says what it was taken for, and why.

A file is told by its name and its first lines: vectors, pairs, a table with a row for each point, or text.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.atomic import OpenedFile, read_npy
from nearfar._core.checks import bad_file, check_choice, check_matrix, check_path, is_pattern, require
from nearfar._core.columns import is_number
from nearfar._core.frames import columns_of, is_frame
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.parameters import tells_options
from nearfar._core.streams import TextStream, lines_of
from nearfar._core.warn import warn_user
from nearfar.embedding.files import h5ad
from nearfar.embedding.files.separated import metadata_path
from nearfar.embedding.files.word2vec import numbers_behind
from nearfar.embedding.native import FOLDER
from nearfar.embedding.vectors import Embedding
from nearfar.errors import DataError, FileFormatError, InputError, counted
from nearfar.reading.columns import whole_numbers_of
from nearfar.reading.delimited import FOUND_OUT, TextFormat, read_columns, text_table
from nearfar.reading.edges import OWNER, edges_of_table, listed_by_tools
from nearfar.reading.frames import TABLES, open_table, parquet_of
from nearfar.reading.given import PAIRS, form_of, kind_of_frame
from nearfar.reading.graphs import graph_of, is_graph
from nearfar.reading.listed import READERS
from nearfar.reading.points import Points, read_annotated, read_table
from nearfar.reading.roles import Kind, kind_of_table
from nearfar.reading.signatures import refuse_other_texts
from nearfar.reading.tables import Roles, Table
from nearfar.relations.matrix import Relation
from nearfar.relations.operators import sparse_from_edges
from nearfar.text import Corpus, EncodedCorpus
from nearfar.text.sources import inside, matching

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

    from nearfar._core.types import Annotated, GraphLike, MatrixLike

__all__ = ["Points", "read"]

_OWNER, _SAID = "read", "as was said"
Taken = Literal["graph", "two kinds", "table", "text", "vectors"]
_HUGE = 4 << 30  # bytes of a text, packed or not, of which a sample is read
_SAMPLE = 16 << 20  # bytes of it, unpacked
_ROWS_READ, _PARTS = 256 << 20, 16  # bytes of the rows of a huge table, and from how many parts of it
_PROSE = ("", ".txt", ".md", ".rst", ".text", ".gz", ".xz", ".bz2", ".zst")  # what texts of a folder end in
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".bmp", ".tif", ".tiff", ".ico")
_AS_WORDS = "words without punctuation"
_BESIDE = (".ids", ".ids.txt", ".txt", ".names")  # of the ids of rows.npy: rows.ids, ...


@tells_options
def read(
    source: str
    | PathLike[str]
    | IO[str]
    | IO[bytes]
    | IntoFrame
    | GraphLike
    | MatrixLike
    | Annotated
    | Sequence[object],
    *,
    kind: Taken | None = None,
) -> Relation | Points | Corpus | Embedding:
    """Read whatever it is; the repr of the result says what it was taken for, and why.

    Parameters
    ----------
    source : path, open file, frame, graph, matrix, AnnData, KeyedVectors, list, ...
        A file is told by its first bytes, lines and columns: CSV, TSV, Parquet, Excel, JSON (lines, or an array of
        objects), graphs in JSON (of networkx, d3 and Cytoscape), GraphML, GEXF, GML, GDF and LGL, Matrix Market,
        AnnData (.h5ad), NumPy (.npy, ids a line each beside it: NAME.ids or NAME.txt), vectors of words, safetensors,
        text; an open file is read whole. A folder holds texts, or what nearfar wrote. So are objects in memory: frames,
        graphs of networkx, igraph and PyTorch Geometric, matrices, tuples, sentences.
    kind : {"graph", "two kinds", "table", "text", "vectors"}, optional
        What it is, where it would be taken for something else.

    Returns
    -------
    Relation, Points, Corpus or Embedding
        A relation of pairs, a table of points, a text, or vectors. Of a text file above 4 GiB the first 16 MiB,
        of a Parquet file or AnnData so large 256 MiB of rows from all parts.

    Raises
    ------
    InputError, DataError, FileFormatError
        If it is none of these: says what it is, and how it is read; or what the reader refuses.
    MissingDependencyError
        If a file needs a package that is not installed.

    Warns
    -----
    NearfarWarning
        If a sample was read; what the readers are in doubt about.

    Notes
    -----
    Source: ours; the readers are :meth:`Relation.from_edges`, :meth:`Embedding.load`, :class:`Corpus` and those of
    tables.

    Examples
    --------
    >>> import networkx as nx, nearfar as nf
    >>> nf.read(nx.les_miserables_graph())
    <Relation 77 x 77, 508 stored entries, a graph: it is one of networkx>
    >>> nf.read(["the sea", "the ship"])
    <Corpus of an iterable, lower case, a text: the items are texts; words without punctuation>
    """
    if kind is not None:
        check_choice(_OWNER, "kind", kind, tuple(_NAMES))
    is_path = isinstance(source, (str, PathLike))
    found, taken, why = _of_path(Path(cast("str", source)), kind) if is_path else _of_object(source, kind)
    if why:  # not for what is one of the results already
        object.__setattr__(found, "_why", f"{_NAMES[taken]}: {why}")
    return cast("Relation | Points | Corpus | Embedding", found)


_NAMES = {"graph": "a graph", "two kinds": "a relation of two kinds", "table": "a table", "text": "a text"}
_NAMES |= {"vectors": "vectors"}
Read = tuple[object, str, str]
"""What was read, its kind, and why."""


# Files.


def _of_path(path: Path | io.BytesIO, kind: str | None) -> Read:
    """Read a file, or what an open one held: a table, edges, prose, vectors, or a graph in the format of some tool."""
    source: Path | io.BytesIO = path
    if isinstance(path, Path):
        if check_path(_OWNER, "source", path).is_dir():
            return _of_folder(path, kind)
        if not path.is_file():
            if is_pattern(path):
                return _of_texts(path, kind)
            hint = "A text itself goes into a list: nf.read([text])."
            raise InputError(_OWNER, "source", "a file or folder that exists", repr(str(path)), hint)
        if not path.stat().st_size:
            raise DataError(_OWNER, "source", "a file with something in it", f"{str(path)!r}, which is empty")
        by_ending = next((reader for ends, reader in _BY_ENDING.items() if path.name.lower().endswith(ends)), None)
        if by_ending is _of_workbook:
            with path.open("rb") as file:  # programs call pages and tables of text so
                by_ending = by_ending if file.read(4).startswith((b"PK", b"\xd0\xcf")) else None
        if by_ending is not None:
            return by_ending(path, kind)
        if kind == "vectors" or (kind is None and _are_vectors(path)):
            return Embedding.load(path), "vectors", _SAID if kind else "by its ending"
        source = path if path.stat().st_size <= _HUGE else _sample_of(path)
    if kind == "text":
        return Corpus(cast("Any", source), lowercase=True), kind, f"{_SAID}; {_AS_WORDS}"
    name = str(path if isinstance(path, Path) else path.name)
    owner, argument = (_OWNER, "source") if kind in (None, "table") else (OWNER, "edges")
    with text_table(owner, argument, source, FOUND_OUT, taken=(*READERS, *_OTHERS, "JSON")) as table:
        if not table.other:
            known = Kind(kind, _SAID) if kind else _kind_of_text(_OWNER, name, table)
            taken, why = known.kind, known.why
            if why == NUMBERS:
                hint = "A table of numbers has commas, semicolons or tabs; "
                hint += "lines of neighbours: networkx.read_adjlist(path)."
                raise DataError(_OWNER, "source", "pairs, a table, vectors or a text", f"{why}: {name!r}", hint)
            if taken in ("graph", "two kinds"):
                return _of_edges(table, taken, why, known.roles)
            if taken == "vectors":
                return Embedding.load(cast("Any", source), format="word2vec-text"), taken, why
            text: Any = str(source) if isinstance(source, Path) else source.seek(0) or source
            if taken == "table":
                return read_table(text, None, None, owner=_OWNER), taken, why
            if known.column >= 0:
                text = read_columns(_OWNER, text, FOUND_OUT, "source")[1][known.column]
            return Corpus(text, lowercase=True), taken, f"{why}; {_AS_WORDS}"
    if isinstance(path, io.BytesIO):
        path.seek(0)
    if table.other in READERS:  # edges that a tool for graphs has listed in its own way
        return _of_edges(listed_by_tools(_OWNER, path), kind or "graph", table.other)
    if table.other in _OTHERS:  # a graph or a matrix in a format that another package reads
        package, extra, reader = _OTHERS[table.other]
        read = getattr(require(_OWNER, package, extra), reader)
        return _of_object(_made(name, table.other, lambda: read(path)), kind, f"{table.other}, ")
    rows = listed_by_tools(_OWNER, path)
    if rows is path:
        refuse_other_texts(_OWNER, "source", repr(name), table.begins)
    return _of_object(rows, kind, "JSON, ")


def _of_workbook(path: Path, kind: str | None) -> Read:
    """Read the sheet called Edges, or the first, as the text that stands in its cells."""
    pandas = require(_OWNER, "pandas", "pandas")
    sheets: Any = _made(path, "a workbook", lambda: pandas.read_excel(path, sheet_name=None, header=None, dtype=object))
    called = next((name for name in sheets if str(name).strip().lower() in _SHEETS), next(iter(sheets)))
    text = io.BytesIO(sheets[called].to_csv(index=False, header=False).encode())
    text.name = str(path)
    others = [name for name in sheets if name != called]
    if others:
        warn_user(f"{_OWNER}: sheet {called!r} of {str(path)!r} was read, not {', '.join(map(repr, others))}.")
    found, taken, why = _of_path(text, kind)
    return found, taken, f"the sheet {called!r} of a workbook, {why}"


def _of_parquet(path: Path, kind: str | None) -> Read:
    known = Kind(kind, _SAID) if kind else kind_of(str(path), _OWNER, "source")
    if known.kind == "vectors":
        return Embedding.load(path), *known[:2]
    source: Any = str(path)
    with parquet_of(_OWNER, "source", path) as parquet, parquet.ParquetFile(path, buffer_size=1 << 20) as file:
        groups = [file.metadata.row_group(k).total_byte_size for k in range(file.metadata.num_row_groups)]
        size, n_rows = sum(groups), file.metadata.num_rows
        if known.kind == "text":
            source = parquet.read_table(path)
        elif size > _HUGE:  # a sample, of row groups spread over it
            some = np.unique(np.linspace(0, len(groups) - 1, _PARTS).astype(int)).tolist()
            n_each = max(1, _ROWS_READ * n_rows // (size * len(some)))
            batches = [next(file.iter_batches(n_each, row_groups=[group])) for group in some]
            source = require(_OWNER, "pyarrow", "parquet").Table.from_batches(batches)
            _warn_of_sample(path, size, f"{len(source):,} of {n_rows:,} rows")
    if known.kind == "text":
        return _of_object(source, kind)
    if known.kind == "table":
        return read_table(source, None, None, owner=_OWNER), *known[:2]
    return _of_edges(source, *known[:2])


def _of_edges(edges: Any, kind: str, why: str, roles: Roles | None = None) -> Read:
    """Read edges, in a table by its roles if they are known; of two kinds where the reader says that they look so."""
    said = why.endswith(_SAID)
    bipartite = kind == "two kinds" if said else None
    if isinstance(edges, Table):
        roles = roles or Roles(bipartite=bipartite)
        rel = Relation(*sparse_from_edges(OWNER, edges_of_table(edges, roles), mirror=True))._with_roles(roles.taken)
    else:
        rel = Relation.from_edges(edges, bipartite=bipartite)
    apart = rel._taken or {}
    if rel._two_kinds:
        kind, why = "two kinds", why if said or kind == "two kinds" else f"{why}; {apart.get('kinds', 'rectangular')}"
    return rel, kind, why


def _sample_of(path: Path) -> io.BytesIO:
    """Return a sample of a huge text, of whole lines, which a warning tells."""
    size, data = path.stat().st_size, bytearray()
    with TextStream(_OWNER, path, "source") as stream:
        while len(data) < _SAMPLE and (more := stream.read(_SAMPLE - len(data))):
            data += more
    sample = io.BytesIO(bytes(data[: data.rfind(b"\n") + 1] or data))
    sample.name = str(path)  # what messages call it
    _warn_of_sample(path, size, f"the first {len(sample.getbuffer()) / 1e6:,.1f} MB")
    return sample


def _warn_of_sample(path: Path, size: int, read: str) -> None:
    """Warn that only so much of a huge file was read."""
    whole = "Relation.from_edges(path, storage=folder), nearfar embed --storage, and Corpus read all of it."
    warn_user(f"{_OWNER}: {str(path)!r} has {size / 1e9:,.1f} GB: {read} were read, as a sample. {whole}")


def _made(path: Path | str, what: str, make: Callable[[], object]) -> object:
    """Return what another package reads; what it raises is about the file, or a package that it misses."""
    try:
        return make()
    except ImportError as error:
        raise InputError(_OWNER, "source", f"{what} that can be read here", str(path), str(error)) from error
    except Exception as error:  # it raises what it meets
        raise bad_file(path, what, f"{type(error).__name__}: {error}"[:200]) from error


def _of_array_file(path: Path, kind: str | None) -> Read:
    with OpenedFile(path) as opened:
        array = cast("NDArray[Any]", _made(path, "an array of numbers", lambda: read_npy(opened.file)))
    beside = next((file for end in _BESIDE if (file := path.with_suffix(end)).is_file()), None)
    if beside is None or kind not in (None, "vectors"):
        return _of_object(array, kind, "an array of NumPy, ")
    why = f"an array of NumPy with ids in {beside.name}"
    return Embedding(array, lines_of(_OWNER, "source", beside)), "vectors", why


def _of_annotated(path: Path, kind: str | None) -> Read:
    if kind == "vectors" or h5ad.is_own(path):
        return Embedding.load(path), "vectors", "AnnData with vectors"
    found = read_annotated(_OWNER, str(path), None, None, most=_HUGE, sample=_ROWS_READ)
    return found, "table", "AnnData by its ending"


def _of_tensors(path: Path, _kind: str | None) -> Read:
    """Read an embedding; of a file of another program its only matrix, or the one that is called after embeddings."""
    try:
        return Embedding.load(path), "vectors", "an embedding by its header"
    except FileFormatError as error:
        if "of another program" not in str(error):
            raise
        from safetensors import safe_open

        with safe_open(path, "np") as file:
            matrices = [name for name in file.keys() if len(file.get_slice(name).get_shape()) == 2]  # noqa: SIM118
            named = [name for name in matrices if "embed" in name.lower()] or matrices
            if len(named) != 1:
                raise
            rows = _made(path, "a tensor of floats", lambda: file.get_tensor(named[0]))
        return Embedding(cast("Any", rows)), "vectors", f"the matrix {named[0]!r} of another program's file"


def _of_folder(path: Path, kind: str | None) -> Read:
    if (path / FOLDER.header).is_file():
        return Embedding.load(path), "vectors", "a folder that nearfar wrote"
    if (path / "tokens.npy").is_file():
        return EncodedCorpus.open(path), "text", ""
    if (path / "relation.json").is_file():
        return Relation.open(path), "graph", "a folder that nearfar wrote"
    return _of_texts(path, kind)


def _of_texts(path: Path, kind: str | None) -> Read:
    """Read the files of a folder, or those whose names match, as one text."""
    files, what = (inside(path), "a folder") if path.is_dir() else (matching(path), "a pattern")
    ends = Counter(file.suffix.lower() for file in files)
    prose = set(ends) & set(_PROSE)  # pictures beside it are left out, with a warning
    if kind != "text" and not (prose and set(ends) <= {*_PROSE, *_PICTURES}):
        shown = ", ".join(f"{n} {end or 'without an ending'}" for end, n in ends.most_common(5))
        hint = "Name one of them; kind='text' reads all as a text."
        raise InputError(_OWNER, "source", "a file, or a folder of texts", f"{what} of {shown}", hint)
    n = sum(ends[end] for end in prose) or len(files)
    return Corpus(path, lowercase=True), "text", f"{what} of {counted(n, 'text')}; {_AS_WORDS}"


_WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods")
_BY_ENDING: dict[tuple[str, ...], Callable[[Path, str | None], Read]] = {
    _WORKBOOKS: _of_workbook,
    (".npy",): _of_array_file,
    (".h5ad",): _of_annotated,
    (".safetensors",): _of_tensors,
    (".parquet", ".pq"): _of_parquet,
}
_OTHERS = {
    "a GraphML file": ("networkx", "demo", "read_graphml"),
    "a GEXF file": ("networkx", "demo", "read_gexf"),
    "a GML file": ("networkx", "demo", "read_gml"),
    "a Matrix Market file": ("scipy.io", "", "mmread"),
}
_SHEETS = ("edges", "links", "edge list", "edgelist", "relations")


# Objects in memory.


def _of_object(source: Any, kind: str | None, of: str = "") -> Read:
    """Read an object; ``of`` is the file that it was in, if there was one."""
    kinds = {Relation: "graph", Points: "table", Corpus: "text", EncodedCorpus: "text", Embedding: "vectors"}
    taken = next((name for made, name in kinds.items() if isinstance(source, made)), None)
    if taken is not None:
        return source, taken, ""
    if hasattr(source, "read") and hasattr(source, "readline"):  # an open file: what stands in it, as of a path
        content, name = source.read(), str(getattr(source, "name", "an open file"))
        text = io.BytesIO(content.encode() if isinstance(content, str) else content)
        text.name = name
        return _of_path(text, kind)
    known = Kind(kind, _SAID) if kind else _kind_of_object(source)
    taken, why = known.kind, of + known.why
    if taken == "vectors":
        return Embedding(source), taken, why
    if taken == "text":
        if known.column >= 0:
            source = [text for text in columns_of(_OWNER, "source", source)[known.column][1].to_list() if text]
        return Corpus(source, lowercase=True), taken, f"{why}; {_AS_WORDS}"
    if taken == "table":
        rows, ids = rows_and_ids(_OWNER, source)
        if is_frame(source):
            return read_table(source, None, None, owner=_OWNER, index=ids), taken, why
        X = rows if hasattr(rows, "tocsr") else check_matrix(_OWNER, "source", rows)
        known_of_rows = source.obs if hasattr(source, "obsm") and len(source.obs.columns) else None
        return Points(X, Ids.of_rows(X.shape[0], ids, owner=_OWNER), "", known_of_rows), taken, why
    if taken == "matrix":
        rel = Relation.from_matrix(source)
        return rel, "graph" if rel.is_square else "two kinds", why
    return _of_edges(source, taken, why)


def _kind_of_object(source: Any) -> Kind:
    if hasattr(source, "index_to_key"):
        return Kind("vectors", "KeyedVectors of gensim")
    if hasattr(source, "obsm") and hasattr(source, "obs_names"):
        return Kind("table", "AnnData")
    if is_graph(source) and not (hasattr(source, "is_floating_point") and source.is_floating_point()):
        graph = graph_of(source)
        others = sorted(map(str, graph.attributes - {"weight"})) if graph is not None else []
        left_out = f"; not read: {', '.join(map(repr, others))}, of edges (Relation.from_edges(graph, weight=...))"
        return Kind("graph", f"it is one of {type(source).__module__.partition('.')[0]}{left_out * bool(others)}")
    if hasattr(source, "tocsr"):
        return Kind("matrix", "a sparse matrix, of weights")
    if is_frame(source):
        return kind_of_frame(_OWNER, source)
    form, listed = form_of(source), isinstance(source, (list, tuple)) and len(source) > 0
    if form == "either" and not listed:
        return PAIRS
    if getattr(source, "ndim", 0) == 2:
        return Kind("table", "a row of numbers for each point")
    if listed and isinstance(source[0], str):
        return Kind("text", "the items are texts")
    if form == "edges" and not isinstance(source, Mapping):
        return Kind("graph", "the items are pairs" if listed else "an iterable of pairs")
    if listed and isinstance(source[0], list) and source[0] and isinstance(source[0][0], str):
        return Kind("text", "the items are lists of words")
    if listed:
        return Kind("table", "a row of numbers for each point")
    raise InputError(_OWNER, "source", "a file, a frame, a graph, a matrix, vectors or a text", type(source).__name__)


# -- what a file holds -------------------------------------------------------------------------------------------------


VECTORS: tuple[str, ...] = (".safetensors", ".npz", ".bin", ".bin.gz", ".vec", ".vec.gz", ".emb")
VECTORS += (".faiss", ".usearch")  # of which loading says what to use
"""What a file of vectors may end in."""
_LINES = 20  # that tell what a file is
NUMBERS = "lines of numbers with blanks between, or of no one number"
"""What is called a text, but is none."""
_EDGE = 3  # columns: the ends and a weight
_NEARLY, _SURELY = 0.9, 10  # of the lines have as many fields, of more lines than that: the others are faults


def kind_of(file: str, owner: str, argument: str = "FILE", form: TextFormat = FOUND_OUT) -> Kind:
    """Find out by the suffix, and for text by its first lines, what a file holds.

    Raises
    ------
    DataError
        If it is neither text, a table nor vectors by its first bytes: JSON, a web page, ...
    """
    path = Path(file)
    if path.name.lower().endswith((".parquet", ".pq")):
        with open_table(owner, argument, file) as table:
            vectors = {"id", "vector"} <= set(table.names or ())
            return Kind("vectors", "columns id and vector") if vectors else kind_of_table(owner, table, repr(file))
    if _are_vectors(path):
        return Kind("vectors", "by its ending")
    with open_table(owner, argument, file, form=form) as table:
        return _kind_of_text(owner, file, table)


def _are_vectors(path: Path) -> bool:
    """Whether a file is of vectors by its ending, and by what lies beside it."""
    return path.name.lower().endswith(VECTORS) or (path.suffix.lower() == ".tsv" and metadata_path(path).is_file())


def _kind_of_text(owner: str, name: str, table: Table) -> Kind:
    """Return what a text holds by its first lines, and whether its name ends as a table's does."""
    lines = [line for line in table.begins.splitlines()[:_LINES] if line.strip()]
    rows = [line.split() for line in lines if not line.startswith("#")]
    sized = len(rows) > 1 and len(rows[0]) == 2 and rows[0][1].isdecimal()
    if sized and numbers_behind(rows[1]) >= int(rows[0][1]) >= _EDGE:
        return Kind("vectors", "its first line says how many, and of which length, as word2vec's does")
    if max(map(len, rows), default=0) > _EDGE and not any("\t" in line for line in lines):
        n_numbers = [numbers_behind(row) for row in rows]  # behind a word, which may have blanks
        d = max(n_numbers, key=n_numbers.count)
        usual = sum(len(row) == d + 1 for row in rows) > len(rows) / 2
        if usual and min(n_numbers) >= d >= _EDGE and not all(is_number(row[0]) for row in rows):
            return Kind("vectors", "each line is a word and as many numbers, as in GloVe's files")
    if table.head:
        by_blanks, called_table = table.form.startswith("blanks"), name.lower().endswith((*TABLES, *_WORKBOOKS))
        n, n_rows = len(table.head), len(table.head[0])
        whole = table.alike == 1 and (n > 1 or (called_table and all(table.numeric)))
        most = table.alike >= _NEARLY and n_rows > _SURELY
        most = most or (called_table and table.alike > 0.5)  # a table by its name
        nearly = most and n > 1 and not by_blanks  # the reader says which line
        if (whole or nearly) and not (by_blanks and n > _EDGE and not any(table.numeric)):
            found = kind_of_table(owner, table, repr(name))
            ends = table.head[:2] if found.kind == "graph" and table.names is None and n <= _EDGE else [()]
            return found._replace(why=PAIRS.why) if all(map(whole_numbers_of, ends)) else found
    fields = list(chain(*rows))
    of_numbers = sum(map(is_number, fields)) > len(fields) / 2
    return Kind("text", NUMBERS if of_numbers else "lines of words, of no one number of columns")
