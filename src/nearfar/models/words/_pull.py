"""How strongly true pairs of words pull their density matrices together, watched while a model is trained.

The pull of a true pair on B_t is ``2 (1 - sigma(s)) A_c B_t``: however wrong the score s, it is weak where the two
matrices are small, as at a small start, and where they are orthogonal. Which of the two it is, is told apart: the first
by the norms, ``|A_t| |A_c|``, the second by the alikeness ``tr(A_t A_c) / (|A_t| |A_c|)``, in [0, 1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar.contracts import Floats
from nearfar.models.words._windows import WindowSource

EDGES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
TINY = 0.01
_PAIRS, _BLOCKS = 2000, 16
N_NUMBERS = 2 + 2 * (len(EDGES) - 1)


class Pull(NamedTuple):
    """What is known of the pull on a fixed sample of true pairs: at the start, and after each of k epochs.

    Attributes
    ----------
    orthogonal : ndarray of shape (k + 1,)
        Share of the pairs with an alikeness below 0.01.
    tiny : ndarray of shape (k + 1,)
        Share of the pairs with ``|A_t| |A_c| < 0.01``, whose scores are below that however alike they are.
    share : ndarray of shape (k + 1, 5)
        Share of the pairs with an alikeness from 0 to .01, to .03, to .1, to .3, and to 1.
    norm : ndarray of shape (k + 1, 5)
        Their mean norm of the pull; NaN where there is no pair.
    """

    orthogonal: NDArray[np.float64]
    tiny: NDArray[np.float64]
    share: NDArray[np.float64]
    norm: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray[np.float64]) -> Pull:
        """Take what ``measure`` has found, a row each time."""
        share, norm = np.split(rows[:, 2:], 2, axis=1)
        return cls(rows[:, 0], rows[:, 1], share, norm)


def sample_pairs(source: WindowSource, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draw true pairs from blocks here and there: words around, and their centres."""
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(source.blocks))[:_BLOCKS]
    around, centres = [], []
    for block in map(int, some):
        start, stop = source.blocks[block]
        windows = next(source.windows(start, stop, int(rng.integers(2**63))), None)
        if windows is None or not windows.inputs.size:
            continue
        pairs = rng.integers(windows.inputs.size, size=-(-_PAIRS // len(some)))
        around.append(windows.inputs[pairs])
        centres.append(windows.outs[np.searchsorted(windows.starts, pairs, side="right") - 1, 0])
    if not around:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    return np.concatenate(around), np.concatenate(centres)


def measure(B: Floats, C: Floats, offset: float) -> NDArray[np.float64]:
    """Return orthogonal, tiny, share and norm in one row, from the factors of the pairs, shape (pairs, n, m)."""
    if not len(B):
        return np.full(N_NUMBERS, np.nan)
    B, C = B.astype(np.float64), C.astype(np.float64)
    A, D = B @ B.swapaxes(1, 2), C @ C.swapaxes(1, 2)
    scores, sizes = (A * D).sum(axis=(1, 2)), np.sqrt((A**2).sum(axis=(1, 2)) * (D**2).sum(axis=(1, 2)))
    alike = np.divide(scores, sizes, out=np.zeros(len(B)), where=sizes > 0)
    pull = 2 * np.sqrt(((D @ B) ** 2).sum(axis=(1, 2))) / (1 + np.exp(np.minimum(scores - offset, 700)))
    bins = np.clip(np.searchsorted(EDGES, alike, side="right") - 1, 0, len(EDGES) - 2)
    counts = np.bincount(bins, minlength=len(EDGES) - 1)
    total = np.bincount(bins, pull, minlength=len(EDGES) - 1)
    norm = np.divide(total, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return np.concatenate([[(alike < EDGES[1]).mean(), (sizes < TINY).mean()], counts / len(B), norm])
