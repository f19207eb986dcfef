"""Files that hold an embedding.

=================  =====================  ============================================================
format             suffix                 keeps
=================  =====================  ============================================================
safetensors        .safetensors           everything: ids of any kind, both sides, parameters, checksum
npz                .npz                   everything, as plain NumPy arrays
parquet            .parquet               ids (integers or text), vectors, parameters
h5ad               .h5ad                  ids (integers or text), vectors, parameters: AnnData's obsm["X_nearfar"]
word2vec-text      .txt .vec (.gz)        ids as text, vectors (read as float32)
word2vec-binary    .bin (.gz)             ids as text, vectors (float32)
csv                .csv                   ids as text, vectors (read as float32)
projector          .tsv                   ids as text, vectors (read as float32): NAME.tsv and NAME.metadata.tsv
=================  =====================  ============================================================

parquet, h5ad, csv and projector hold columns of metadata, too. Nothing is pickled, and a file appears whole or not at
all. A format is a module with two functions and a line of the table in :mod:`nearfar.embedding.files.registry`; the
first two are the library's own, :mod:`nearfar.embedding.native`.
"""

from nearfar.embedding.files.registry import FORMATS

__all__ = ["FORMATS"]
