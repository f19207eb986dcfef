"""Where the formulas of :mod:`nearfar.methods.words` are compiled: loops that take their steps window after window."""

from __future__ import annotations

from nearfar.engines.threads.loops import Formula
from nearfar.methods.words import clusters, columns, nearest_sense, sgns, word2dm
from nearfar.words import multisense
from nearfar.words.skipgram import train_windows
from nearfar.words.word2dm import train_by_sgd

FORMS: dict[Formula, Formula] = {
    sgns: train_windows,
    word2dm: train_by_sgd,
    columns: multisense.train_columns,
    clusters: multisense.train_clusters,
    nearest_sense: multisense.nearest_sense,
}
"""The compiled loop of a formula, of plain steps where there is another one of Adam's; each is tested against it."""
