"""A place of one's own for maps as well, as somebody would write it outside of the library: rows in pieces of a few.

To the verbs that EDRep needs it adds ``pairs``, sums over related points. It knows of no method.
"""

import numpy as np
from own_place import Pieces

from nearfar.far import Potential, Term


class MapPieces(Pieces):
    """Rows in pieces; a row may be a number, and several rows may change together."""

    def pairs(self, formula, pattern, mine, theirs, *entries, **shared):
        if hasattr(pattern, "sums"):  # pairs that are drawn, not stored: they say themselves what is summed
            found = pattern.sums(formula, whole(mine), whole(theirs), entries, shared)
            return tuple(self.bring(part) for part in found)
        (indptr, columns), theirs, sums, start = pattern, whole(theirs), [], 0
        for piece in zip(*mine, strict=True):
            ends = indptr[start : start + len(piece[0]) + 1]
            start, some = start + len(piece[0]), slice(ends[0], ends[-1])
            first, second = np.repeat(np.arange(len(piece[0])), np.diff(ends)), columns[some]
            sides = tuple(part[first] for part in piece), tuple(part[second] for part in theirs)
            with np.errstate(all="ignore"):
                found = formula(*sides, *(None if part is None else part[some] for part in entries), **shared)
            sums.append([np.zeros(len(ends) - 1) if part is None else summed(part, first, ends) for part in found])
        return tuple(list(parts) for parts in zip(*sums, strict=True))

    def field(self, field, Y, kernel):
        field.place(np.concatenate(Y), kernel, 1)
        return FieldInPieces(self, field)

    def each(self, formula, X, *rows, **shared):
        if not isinstance(X, tuple):
            return super().each(formula, X, *rows, **shared)
        _, *sums = super().each(formula, list(zip(*X, strict=True)), *rows, **shared)
        return X, *sums


class FieldInPieces:
    """A field of a map, asked about potentials of charges, which are rows, too."""

    def __init__(self, place, placed):
        self.place, self.placed = place, placed

    def evaluate(self, terms):
        return [self._in_pieces(found) for found in self.placed.evaluate(self._whole(terms))]

    def total(self, terms):
        return self._in_pieces(self.placed.total(self._whole(terms)))

    def _whole(self, terms):
        return [Term(t.potential, None if t.charges is None else np.concatenate(t.charges)) for t in terms]

    def _in_pieces(self, found):
        return Potential(self.place.bring(found.value), self.place.bring(found.gradient), found.error)


def whole(side):
    return tuple(np.concatenate(part) for part in side)


def summed(part, first, ends):
    total = np.zeros((len(ends) - 1, *part.shape[1:]), part.dtype)
    np.add.at(total, first, part)
    return total
