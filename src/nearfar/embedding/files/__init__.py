"""Files that hold an embedding: which formats there are, and how a name tells its format.

=================  =====================  ============================================================
format             suffix                 keeps
=================  =====================  ============================================================
safetensors        .safetensors           everything: ids of any kind, both sides, parameters, checksum
npz                .npz                   everything, as plain NumPy arrays
parquet            .parquet               ids (integers or text), vectors, parameters
word2vec-text      .txt .vec (.gz)        ids as text, vectors (read as float32)
word2vec-binary    .bin (.gz)             ids as text, vectors (float32)
projector          .tsv                   ids as text, vectors (read as float32): NAME.tsv and NAME.metadata.tsv
=================  =====================  ============================================================

Nothing is pickled, and a file appears whole or not at all.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from nearfar._core.atomic import atomic_write, check_target
from nearfar._core.checks import check_choice, check_path, require
from nearfar.embedding.files.content import Content
from nearfar.errors import InputError

__all__ = ["FORMATS", "Content", "atomic_write", "check_output", "format_of", "keeps_both_sides", "load", "save"]

# Format -> (module, function that writes, function that reads, suffixes).
FORMATS = {
    "safetensors": ("native", "write", "read", (".safetensors",)),
    "npz": ("npz", "write", "read", (".npz",)),
    "parquet": ("parquet", "write", "read", (".parquet",)),
    "word2vec-text": ("word2vec", "write_text", "read_text", (".txt", ".vec", ".txt.gz", ".vec.gz")),
    "word2vec-binary": ("word2vec", "write_binary", "read_binary", (".bin", ".bin.gz")),
    "projector": ("projector", "write", "read", (".tsv",)),
}
_SUFFIXES = {suffix: name for name, (*_, suffixes) in FORMATS.items() for suffix in suffixes}


def format_of(owner: str, path: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002
    """Return the format of a file: the one that is named, otherwise the one that its suffix tells.

    Raises
    ------
    InputError
        If the format or the suffix is not one of :data:`FORMATS`.
    """
    if format is not None:
        return check_choice(owner, "format", format, FORMATS)
    name = check_path(owner, "path", path).name.lower()
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return _SUFFIXES[suffix]
    raise InputError(
        owner,
        "path",
        "a file name with one of the suffixes " + ", ".join(_SUFFIXES),
        repr(str(path)),
        "Choose one of them, or name the format.",
    )


def keeps_both_sides(format: str) -> bool:  # noqa: A002
    """Whether a format keeps the context side, ids of any kind and their types."""
    return format in ("safetensors", "npz")


def check_output(owner: str, path: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002
    """Check, before any work, that an embedding could be written to ``path``; return the format.

    Raises
    ------
    InputError
        If the suffix is unknown, the folder does not exist or cannot be written to, or the path is not a plain file.
    MissingDependencyError
        If the format needs an optional package that is not installed.
    """
    name = format_of(owner, path, format)
    check_target(owner, check_path(owner, "path", path))
    if name == "parquet":
        require(owner, "pyarrow", "parquet")
    return name


def save(owner: str, content: Content, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002
    """Write an embedding's content to a file, which appears whole or not at all."""
    module, write, _, _ = FORMATS[check_output(owner, path, format)]
    getattr(_module(module), write)(owner, content, Path(path))


def load(owner: str, path: str | os.PathLike[str], format: str | None = None) -> Content:  # noqa: A002
    """Read an embedding's content from a file.

    Raises
    ------
    InputError
        If the file is not there or its suffix is unknown.
    FileFormatError
        If it is truncated, altered or of another kind.
    """
    module, _, read, _ = FORMATS[format_of(owner, path, format)]
    content: Content = getattr(_module(module), read)(owner, check_path(owner, "path", path, exists=True))
    return content


def _module(name: str) -> Any:
    return importlib.import_module(f"nearfar.embedding.files.{name}")
