"""Where the formulas of :mod:`nearfar.methods.words` are compiled: loops that take their steps window after window."""

from __future__ import annotations

from nearfar.engines.threads.loops import Formula
from nearfar.methods.words import cbow, clusters, columns, nearest_sense, sgns, word2dm
from nearfar.words import multisense, skipgram
from nearfar.words import word2dm as density

FORMS: dict[Formula, Formula] = {
    sgns: skipgram.train_windows,
    cbow: skipgram.train_means,
    word2dm: density.train_windows,
    columns: multisense.train_columns,
    clusters: multisense.train_clusters,
    nearest_sense: multisense.nearest_sense,
}
"""The compiled loop of a formula, with plain steps and those of Adam; each is tested against it."""
