"""Files that hold an embedding. A format is a module with two functions and one line that registers them.

=================  =====================  ============================================================
format             suffix                 keeps
=================  =====================  ============================================================
safetensors        .safetensors           everything: ids of any kind, both sides, parameters, checksum
npz                .npz                   everything, as plain NumPy arrays
parquet            .parquet               ids (integers or text), vectors, parameters
h5ad               .h5ad                  ids (integers or text), vectors, parameters: AnnData's obsm["X_nearfar"]
faiss              .faiss                 ids (integers or text), vectors (float32), parameters
usearch            .usearch               ids (integers or text), vectors, parameters
word2vec-text      .txt .vec (.gz)        ids as text, vectors (read as float32)
word2vec-binary    .bin (.gz)             ids as text, vectors (float32)
csv                .csv                   ids as text, vectors (read as float32)
projector          .tsv                   ids as text, vectors (read as float32): NAME.tsv and NAME.metadata.tsv
sqlite             .sqlite .sqlite3 .db   ids (integers or text), vectors (float32), parameters: sqlite-vec
lance              .lance                 ids (integers or text), vectors, parameters: LanceDB
postgresql         postgresql://          ids (integers or text), vectors (float32), parameters: pgvector
=================  =====================  ============================================================

The last three are tables of databases: ``words.sqlite#people``. They, parquet, h5ad, csv and projector hold columns
of metadata, too.
Nothing is pickled, and a file appears whole or not at all. For a format of one's own see :func:`register`.
"""

from typing import TYPE_CHECKING

from nearfar._core.atomic import atomic_write
from nearfar._core.names import public_names
from nearfar.embedding.files import (  # noqa: F401 - they register themselves
    h5ad,
    indexes,
    lance,
    native,
    npz,
    parquet,
    postgres,
    projector,
    separated,
    sqlite,
    word2vec,
)
from nearfar.embedding.files.content import Content, Fact, text_ids
from nearfar.embedding.files.registry import FORMATS, register
from nearfar.embedding.files.tables import DatabaseTable

__all__ = ["FORMATS", "Content", "DatabaseTable", "Fact", "atomic_write", "register", "text_ids"]


if not TYPE_CHECKING:
    __getattr__, __dir__ = public_names(__name__, __all__)
