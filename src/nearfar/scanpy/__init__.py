"""For scanpy: functions that take an ``AnnData`` and write into it what scanpy's own functions would write.

``nf.scanpy.tl.tsne(adata)`` stands where ``sc.tl.tsne(adata)`` stood; ``sc.pl.tsne`` and all that reads ``obsm`` go on
from there.
"""

from nearfar._core.names import public_names
from nearfar.scanpy import tl

__all__ = ["tl"]

public_names(__name__, __all__)
