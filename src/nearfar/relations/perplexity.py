"""From distances to probabilities of equal perplexity: each row gets the bandwidth that gives it so many neighbours.

    p_j = exp(-beta r_j²) / sum_l exp(-beta r_l²),        H(p) = ln S + beta <r²> = ln(perplexity)

H falls with beta, ``dH/dln beta = -beta² Var_p(r²)``, so that Newton's steps in ln beta, held in an interval, take a
handful of passes. Half the slope's size measures how many dimensions the data have around the point: D = 2 beta²
Var_p(r²).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_matrix, check_n_jobs, check_real
from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.errors import DataError, InputError


class Calibration(NamedTuple):
    """Probabilities of equal perplexity, row by row.

    Parameters
    ----------
    weights : ndarray of shape (n, k), float32
        p; each row sums to 1.
    betas : ndarray of shape (n,), float64
        Precisions: one over squared units of distance.
    dimensions : ndarray of shape (n,), float64
        Intrinsic dimension around each point.
    """

    weights: NDArray[np.float32]
    betas: NDArray[np.float64]
    dimensions: NDArray[np.float64]


def calibrate(distances: Floats, perplexity: float, *, n_jobs: int | None = None) -> Calibration:
    """Return Gaussian weights of the given perplexity for each row of distances.

    Parameters
    ----------
    distances : array-like of shape (n, k), finite, >= 0
        From each row to its k neighbours, in any order.
    perplexity : float, in [1, k]
        The exponential of the entropy (in nats) of each row of weights.
    n_jobs : int, optional
        Number of threads; None means all processors. The result does not depend on it.

    Returns
    -------
    Calibration
        O(n k) time, in float64. Where m >= perplexity neighbours share the smallest distance no beta has so little
        entropy: they get 1/m each, all others 0 (beta is large, so that they vanish). Where all k distances are equal
        the weights are 1/k and beta is 0.

    Raises
    ------
    InputError, DataError
        If a distance is NaN, infinite or negative, or the perplexity not in [1, k].

    Examples
    --------
    >>> import numpy as np
    >>> found = calibrate(np.array([[1.0, 2.0, 3.0, 4.0]]), 2.0)
    >>> p = found.weights[0].astype(float)
    >>> round(float(np.exp(-np.sum(p * np.log(p)))), 4)
    2.0

    Source: van der Maaten & Hinton (2008), "Visualizing data using t-SNE", section 2 (perplexity); Lee, Peluffo-Ordóñez
    & Verleysen (2015), "Multi-scale similarities in stochastic neighbour embedding" (dimension).
    """
    owner = "calibrate"
    distances = check_matrix(owner, "distances", distances)
    n, k = distances.shape
    if k == 0:
        raise InputError(owner, "distances", "of one column at least", f"shape {distances.shape}")
    if n and distances.min() < 0:
        row = int(np.flatnonzero((distances < 0).any(axis=1))[0])
        raise DataError(owner, "distances", "not negative", f"{distances[row].min()} in row {row}")
    perplexity = check_real(owner, "perplexity", perplexity, low=1.0, high=float(k))
    weights = np.empty((n, k), np.float32)
    betas, dimensions = np.empty(n), np.empty(n)
    wanted = math.log(perplexity)

    def task(_block: int, start: int, stop: int) -> None:
        from nearfar.relations._perplexity_kernels import calibrate_rows

        calibrate_rows(distances, wanted, weights, betas, dimensions, start, stop)

    run_blocks(task, even_bounds(n, max(1, 2**15 // k)), check_n_jobs(owner, n_jobs))
    return Calibration(weights, betas, dimensions)
