"""Word models: vectors, sense vectors and density matrices from windows of words; and the pieces of skip-gram.

The models are in :mod:`nearfar`, their formulas in :mod:`nearfar.methods.words`. ``examples/sgns_in_60_lines.py`` puts
the pieces of skip-gram together, ``examples/skipgram_in_60_lines.py`` is all of it in NumPy.
"""

from nearfar._core.names import public_names
from nearfar.words.skipgram import skipgram_step
from nearfar.words.windows import alias_table

__all__ = ["alias_table", "skipgram_step"]

public_names(__name__, __all__)
