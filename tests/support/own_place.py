"""A place of one's own in NumPy, as somebody would write it outside of the library: rows in pieces of a few.

It knows of no method. Each piece could be anywhere: a process, another machine.
"""

import numpy as np

PIECE = 7


class Pieces:
    """Rows in pieces."""

    def bring(self, X):
        return [np.array(X[a : a + PIECE]) for a in range(0, X.shape[0], PIECE)]

    def fetch(self, rows, X):
        return np.concatenate(rows)

    def near(self, P, X, way):
        X, pull = np.concatenate(X), 0
        if way != "columns":
            pull = pull + P.matmat(X, n_jobs=1)
        if way != "rows":
            pull = pull + P.rmatmat(X, n_jobs=1)
        return self.bring(pull)

    def far(self, far, others, n_active, rng):
        others = np.concatenate(others)
        far.prepare(others, n_active, rng, 1)
        return Answers(self, far, others)

    def each(self, formula, X, *rows, **shared):
        pieces = [[None] * len(X) if part is None else part for part in map(self._cut, rows)]
        sums = [formula(*given, **shared) for given in zip(X, *pieces, strict=True)]
        return X, *(np.sum(parts, axis=0, dtype=np.float64) for parts in zip(*sums, strict=True))

    def _cut(self, rows):
        return rows if rows is None or isinstance(rows, list) else self.bring(rows)


class Answers:
    """A far field that answers for pieces."""

    def __init__(self, place, far, others):
        self.place, self.prepared, self.others = place, far, others

    def __call__(self, x):
        log_z, force = np.empty(len(x)), np.empty_like(x)
        self.prepared.evaluate(x, log_z, force)
        return log_z, force

    def other_side(self, X, r, temperature):
        out = np.zeros_like(self.others)
        self.prepared.other_side(np.concatenate(X) / temperature, r, self.others, out, 1)
        return self.place.bring(out * temperature)
