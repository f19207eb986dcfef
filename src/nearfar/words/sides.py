"""Words by those right beside them: skip-gram in which a word before another is not the same input as a word after it.

What a word is near to with wide windows is what is spoken of along with it. What it is near to with the next words
alone, told apart by their side, is what can stand in its place: other verbs, other names of towns (Schuetze 1995,
"Distributional part-of-speech tagging", EACL; Ling, Dyer, Black & Trancoso 2015, "Two/Too simple adaptations of
Word2Vec for syntax problems", NAACL, structured skip-gram).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nearfar._core.lanes import LANES
from nearfar._core.threads import run_blocks
from nearfar._core.types import Floats
from nearfar._core.vector import empty_aligned
from nearfar.words.skipgram import train_windows
from nearfar.words.windows import TextWindows

_RATE, _EPOCHS, _AT_LEAST, _AT_MOST = 0.1, (5, 20), 2_000_000, 100_000_000
"""Five passes over a text; more, up to 20, until that many centres are met, and fewer where they would be too many."""


def of_sides(source: TextWindows, together: int | None = None) -> TextWindows:
    """Return the windows of the next words alone, those after a word as inputs of their own."""
    options = replace(source.options, window=1, shrink_window=None, together=together, sided=True)
    return TextWindows(source.corpus, options)


def learn_sides(source: TextWindows, n: int, rng: np.random.Generator, n_jobs: int) -> tuple[Floats, Floats]:
    """Return vectors of words, and of words as those before (the first half) and after (the second) another.

    Rows are padded with zeros to a multiple of LANES, m numbers.

    Parameters
    ----------
    source : TextWindows
    n : int
        Length of vectors.
    rng : Generator
    n_jobs : int

    Returns
    -------
    B : ndarray of shape (n_words, m), float32
    G : ndarray of shape (2 n_words, m), float32
    """
    source, n_words = of_sides(source), len(source.ids)
    width = -(-n // LANES) * LANES
    X, Y = (empty_aligned((rows, width), np.float32) for rows in (2 * n_words, n_words))
    Y[...] = X[...] = 0
    for side in np.split(X, 2):
        side[:, :n] = rng.random((n_words, n), np.float32)
        side[:, :n] -= np.float32(0.5)
        side[:, :n] /= np.float32(n)
    passes = max(_EPOCHS[0], min(_AT_LEAST / source.n_kept, _EPOCHS[1]))
    blocks = source.blocks * max(1, int(min(passes, _AT_MOST / source.n_kept)))
    seeds = rng.integers(2**63, size=len(blocks))

    def train(k: int, *_: int) -> None:
        rate = np.float32(_RATE * (1 - k / len(blocks)))
        for windows in source.windows(*blocks[k], int(seeds[k])):
            train_windows(tuple(windows), rate, X, Y, None, np.zeros(2))

    run_blocks(train, range(len(blocks) + 1), n_jobs)
    return Y, X
