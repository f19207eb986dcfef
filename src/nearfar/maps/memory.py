"""What a fit of a map takes of memory, and the refusal of one that does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core import checks
from nearfar._core.ids import rows_and_ids
from nearfar.contracts import Divergence
from nearfar.divergences.probability import KL, as_divergence, linear_formulas
from nearfar.maps.objective import Normalization, memory_of_pattern
from nearfar.maps.options import OfMap
from nearfar.maps.problem import Data
from nearfar.relations.affinities import Affinities
from nearfar.relations.graphs import is_graph
from nearfar.relations.matrix import Relation, as_relation
from nearfar.relations.neighbors import are_neighbors

_OF_POINT = 200  # bytes for each point of a map whose pairs are in files


class MeasuredMap(OfMap):
    """Base of a map that says what a fit takes of memory."""

    divergence: str | Divergence
    normalization: Normalization
    _affinities: Callable[[ArrayLike, int | None, int], Affinities]

    def expected_memory(self, X: Data) -> int:
        """Return the bytes that a fit takes at its peak, beside X.

        That is where the relations of both directions are joined: some 15 to 40 bytes for each neighbour of each point
        beside the neighbours, and about 90 where a relation starts from its eigenvectors.
        From some 10,000 points on the figure is within a fifth of what is measured, for dense rows and the Euclidean
        metric, and for relations. Interpreter and libraries (about 150 MB) come on top. What is in files of ``storage``
        does not count; the figure then holds from some 100,000 points on. A fit that would take more than is free is
        refused. With a device of torch this is the memory of this machine.

        Parameters
        ----------
        X : as for :meth:`fit`
            What would be fitted.

        Returns
        -------
        int

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> nf.TSNE(perplexity=30, n_jobs=1).expected_memory(np.zeros((100_000, 50), np.float32)) // 10**6
        304
        """
        owner = f"{type(self).__name__}.expected_memory"
        if isinstance(X, Affinities):
            X._check_fitted("relation_")
            return self._memory(0, 0, X.relation_.nnz, X.relation_.shape[0])
        if isinstance(X, Relation) or (is_graph(X) and not hasattr(X, "shape")):
            relation = as_relation(X, owner, "X")
            return self._memory(0, 0, relation.nnz, relation.shape[0])
        rows = cast("Any", rows_and_ids(owner, X)[0])
        given = are_neighbors(rows, self.metric)
        n = np.shape(rows[0] if given else rows)[0]
        return self._memory(*self._affinities(rows, None, n)._memory(owner, rows))

    def _memory(self, peak: int, kept: int, nnz: int, n: int, on_workers: bool = False) -> int:
        """Return the bytes of a fit whose affinities take and keep so many, and have so many entries and rows."""
        pattern, beside = self._of_pattern(nnz)
        divergence = as_divergence(type(self).__name__, self.divergence)
        # By row, or for another divergence, strengths are made of the pattern, which are in memory.
        in_files = self.storage is not None and self.normalization == "pair" and divergence == KL()
        needed = beside + _OF_POINT * n if in_files else pattern + beside
        if on_workers:  # P alone, as it is sent
            needed = 8 * nnz
        formulas = linear_formulas(divergence, 1.0)
        if formulas is not None and formulas.prepared is not None:  # strengths are prepared for either direction
            needed = needed * 6 // 5
        if isinstance(self.init, str) and (self.init == "spectral" or (self.init == "auto" and not peak)):
            needed = max(needed, 90 * nnz)  # of the eigenvectors of a relation
        return max(peak, kept + needed)

    def _of_pattern(self, nnz: int) -> tuple[int, int]:
        """Return the bytes of the pattern of so many entries, which may be in files, and of what is made beside it."""
        given = None if isinstance(self.init, str) else getattr(self.init, "dtype", np.float64)
        dtype = np.float64 if given == np.float64 else np.float32
        pattern, beside = memory_of_pattern(nnz, dtype, self.normalization == "row")
        of_density = memory_of_pattern(nnz, dtype, by_row=False)[0] if self.density_weight else 0
        return pattern + of_density, beside

    def _check_memory(self, peak: int, kept: int, nnz: int, n: int, on_workers: bool) -> None:
        """Refuse a fit that does not fit into memory."""
        hint = "Take fewer neighbours (a smaller perplexity, n_neighbors=), or a sample of the rows; transform places"
        hint = f"{hint} the others; or storage=, a folder, which keeps neighbours and probabilities in files."
        checks.check_memory(type(self).__name__, "X", self._memory(peak, kept, nnz, n, on_workers), hint)
