"""The embeddings by the names under which they are imported, and under which pickles of old versions have them."""

from nearfar.embedding.anchored import AnchoredEmbedding
from nearfar.embedding.labelled import as_list
from nearfar.embedding.plain import Embedding
from nearfar.embedding.senses import Sense, SenseEmbedding

__all__ = ["AnchoredEmbedding", "Embedding", "Sense", "SenseEmbedding", "as_list"]
