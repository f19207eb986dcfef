"""How wrong a far field is: the relative error of Z on a random sample of rows, computed exactly there.

``e_i = |Z_i estimated / Z_i exact - 1|``. The cost is that of some ``2 n_rows`` exact rows, however many there are.

Where the mixture of Gaussians fails, and this estimate shows it: a few others dominate the sum (near duplicates of a
long vector, whose own score towers over the rest: Z comes out too small, e near 1); heavy-tailed scores; long vectors
against short others (the mixture's energy grows with the square of the norm, the true log Z only in proportion to it:
Z comes out too large, without bound). More clusters, unit rows or ``Exact`` help.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._checks import check_integer, check_n_jobs, check_random_state, check_real
from nearfar._parallel import single_threaded_blas
from nearfar.contracts import FarField, Floats
from nearfar.far.exact import Exact
from nearfar.far.softmax import check_pair, evaluate_rows, far_field

Interval = tuple[float, float]

_QUANTILES = (0.05, 0.25, 0.75, 0.95)
_LARGEST_LOG = 300.0  # larger errors count as e^300, so that their squares stay finite


@dataclass(frozen=True, eq=False)
class ErrorEstimate:
    """Relative error of Z of a far field, estimated from a sample of rows.

    Parameters
    ----------
    errors : ndarray of float64
        Relative errors of the uniformly sampled rows, in ascending order.
    rows : ndarray of int64
        These rows, in the order of ``errors``.
    confidence : float
        Of each interval.
    median, mean : float
        Estimates for all rows.
    median_interval, mean_interval : tuple of float
        Their confidence intervals.
    quantiles : dict of float to float
        Estimates of the .05, .25, .75 and .95 quantiles.
    quantile_intervals : dict of float to tuple of float
        Their confidence intervals; an end that the sample cannot bound is 0 or infinity.

    References
    ----------
    The measure of Dall'Amico & Belliardo (2024), arXiv 2303.17475, figure 1.
    """

    errors: NDArray[np.float64]
    rows: NDArray[np.int64]
    confidence: float
    median: float
    median_interval: Interval
    mean: float
    mean_interval: Interval
    quantiles: dict[float, float]
    quantile_intervals: dict[float, Interval]

    def __repr__(self) -> str:
        low, high = self.median_interval
        below, above = self.mean_interval
        return (
            f"ErrorEstimate(median {self.median:.3g} [{low:.3g}, {high:.3g}], mean {self.mean:.3g} "
            f"[{below:.3g}, {above:.3g}], {self.confidence:.0%} confidence, {len(self.errors)} rows)"
        )


def estimate_error(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    far: str | FarField = "gaussian-mixture",
    n_rows: int = 256,
    confidence: float = 0.95,
    random_state: object = None,
    n_jobs: int | None = None,
) -> ErrorEstimate:
    """Estimate the relative error of a far field's Z without the exact answer for all rows.

    Quantiles come from a uniform sample of rows, with intervals from its order statistics, which hold for any
    distribution of errors. The mean of heavy-tailed errors hangs on few rows, nearly always long ones, which such a
    sample misses: it comes from a second sample, stratified by the norm of the rows. The longest ``n_rows / 4`` are all
    taken; each following stratum doubles the rows covered and gives ``n_rows / 8``. The interval is Student's, with
    Satterthwaite's degrees of freedom.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Rows.
    Y : array_like, shape (m, d), optional
        The others; X itself by default.
    far : str or FarField
        Far field whose error is asked for, see :func:`nearfar.log_normalizers`.
    n_rows : int, >= 8
        Size of the uniform sample. With at least n rows everything is computed, and the intervals are points.
    confidence : float in (0, 1)
        Probability with which each interval covers.
    random_state : int, numpy.random.Generator or None
        Seed of the samples and of the far field.
    n_jobs : int or None
        Threads; None means all processors.

    Returns
    -------
    ErrorEstimate

    Raises
    ------
    InputError
        Matrices that :func:`nearfar.log_normalizers` refuses, or a parameter outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 8)) / 3
    >>> estimate = estimate_error(X, random_state=0)
    >>> low, high = estimate.median_interval
    >>> bool(0 < low < estimate.median < high < 0.01)
    True

    Source: order-statistic intervals, David & Nagaraja, "Order statistics", section 7.1; stratified mean, Cochran,
    "Sampling techniques", sections 5.3-5.4. The coverage of both is tested.
    """
    owner = "estimate_error"
    X, Y = check_pair(owner, X, Y)
    field = far_field(far, owner=owner)
    check_integer(owner, "n_rows", n_rows, low=8)
    check_real(owner, "confidence", confidence, 0.0, 1.0, open_low=True, open_high=True)
    workers = check_n_jobs(owner, n_jobs)
    rng = check_random_state(owner, random_state)
    uniform = np.sort(rng.choice(len(X), size=min(n_rows, len(X)), replace=False))
    strata = _strata(X, n_rows, rng)
    asked = np.unique(np.concatenate([uniform, *(rows for rows, _ in strata)]))
    errors = _relative_errors(field, X[asked], Y, rng, workers)
    order = np.argsort(errors[np.searchsorted(asked, uniform)], kind="stable")
    rows = uniform[order]
    sample = errors[np.searchsorted(asked, rows)]
    mean, mean_interval = _stratified_mean([(errors[np.searchsorted(asked, r)], n) for r, n in strata], confidence)
    exhaustive = len(rows) == len(X)
    intervals = {q: _quantile_interval(sample, q, confidence, exhaustive) for q in (*_QUANTILES, 0.5)}
    return ErrorEstimate(
        errors=sample,
        rows=rows,
        confidence=float(confidence),
        median=float(np.median(sample)),
        median_interval=intervals.pop(0.5),
        mean=mean,
        mean_interval=mean_interval,
        quantiles={q: float(np.quantile(sample, q)) for q in _QUANTILES},
        quantile_intervals=intervals,
    )


def _relative_errors(far: FarField, X: Floats, Y: Floats, rng: np.random.Generator, n_jobs: int) -> NDArray[np.float64]:
    """Return |Z estimated / Z exact - 1| of each row of X."""
    exact = Exact()
    with single_threaded_blas():
        far.prepare(Y, len(Y), rng, n_jobs)
        exact.prepare(Y, len(Y), rng, n_jobs)
        log_ratio = evaluate_rows(far, X, n_jobs) - evaluate_rows(exact, X, n_jobs)
    return np.abs(np.expm1(np.minimum(log_ratio, _LARGEST_LOG)))


def _strata(X: Floats, n_rows: int, rng: np.random.Generator) -> list[tuple[NDArray[np.int64], int]]:
    """Return, from the longest rows to the shortest, (sampled rows, size) of each stratum."""
    if n_rows >= len(X):
        return [(np.arange(len(X)), len(X))]
    by_length = np.argsort(-np.einsum("ij,ij->i", X, X), kind="stable")
    first = n_rows // 4
    strata = [(by_length[:first], first)]
    while first < len(X):
        members = by_length[first : 2 * first]
        size = min(max(n_rows // 8, 2), len(members))
        strata.append((rng.choice(members, size=size, replace=False), len(members)))
        first *= 2
    return strata


def _stratified_mean(strata: list[tuple[NDArray[np.float64], int]], confidence: float) -> tuple[float, Interval]:
    """Return the mean over all rows and its interval, from (sampled errors, size) of each stratum."""
    from scipy.special import stdtrit

    n = sum(size for _, size in strata)
    mean = sum(size / n * float(errors.mean()) for errors, size in strata)
    sampled = [(errors, size) for errors, size in strata if 1 < len(errors) < size]
    variances = np.array(
        [(size / n) ** 2 * errors.var(ddof=1) / len(errors) * (1 - len(errors) / size) for errors, size in sampled]
    )
    if not variances.any():
        return mean, (mean, mean)
    # Satterthwaite: the degrees of freedom that a sum of independent variance estimates has.
    shares = variances / variances.sum()
    freedom = 1.0 / sum(share**2 / (len(errors) - 1) for share, (errors, _) in zip(shares, sampled, strict=True))
    half = float(stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(variances.sum()))
    return mean, (max(0.0, mean - half), mean + half)


def _quantile_interval(sample: NDArray[np.float64], q: float, confidence: float, exhaustive: bool) -> Interval:
    """Return the order statistics between which the q-quantile lies; ranks from the binomial distribution."""
    from scipy.stats import binom

    if exhaustive:
        value = float(np.quantile(sample, q))
        return value, value
    low, high = (int(binom.ppf(p, len(sample), q)) for p in ((1 - confidence) / 2, (1 + confidence) / 2))
    return (
        float(sample[low - 1]) if low >= 1 else 0.0,
        float(sample[high]) if high < len(sample) else float("inf"),
    )
