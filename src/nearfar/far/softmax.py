"""Log-normalisers of the softmax, by any far field: ``log Z_i = log sum_a exp(x_i . y_a)``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core import checks
from nearfar._core.checks import require
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Seed
from nearfar.contracts import FarField, Floats
from nearfar.engines import compiled, on_device
from nearfar.errors import InputError, counted
from nearfar.far.exact import Exact
from nearfar.far.registry import FAR_FIELDS, far_field


def log_normalizers(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    rows: ArrayLike | None = None,
    method: str | FarField = "gaussian-mixture",
    n_clusters: int = 1,
    labels: ArrayLike | None = None,
    n_samples: int = 1000,
    temperature: float | None = None,
    random_state: Seed = None,
    n_jobs: int | None = None,
    device: str | None = None,
) -> NDArray[np.float64]:
    """Log-normalisers ``log Z_i = log sum_a exp(x_i . y_a / temperature)``, natural log, a over all rows of Y.

    Parameters
    ----------
    X : array_like, shape (n, d), or Embedding
        Rows. float64 stays float64, anything else becomes float32.
    Y : array_like, shape (m, d), optional
        The others; X itself by default, each row then among its own others. A row of zeros is a vector like any other.
    rows : array_like of int, optional
        The rows of X to answer for, in this order; all by default.
    method : str or FarField
        ========================  ==================  ==========================================================
        ``"gaussian-mixture"``    O((n + m) d² k)     linear time; ``n_clusters``, ``labels``
        ``"exact"``               O(n m d)            streamed, constant extra memory
        ``"noise"``               O(n K d)            a uniform sample of the others; ``n_samples``
        ========================  ==================  ==========================================================

        or a far field object, which brings its own parameters.
    n_clusters : int, 1 <= n_clusters <= m
        Components of the mixture, found by spherical k-means unless ``labels`` are given.
    labels : array_like of int, shape (m,), optional
        Component of each of the others, from 0.
    n_samples : int, >= 1
        K, size of the sample of ``"noise"``.
    temperature : float, optional
        What scalar products are divided by, not 0. By default that of the fit where X is an :class:`nearfar.Embedding`
        that records one, as those of :class:`nearfar.EDRep` do, otherwise 1.
    random_state : int, numpy.random.Generator or None
        Seed of clustering and samples.
    n_jobs : int or None
        Threads; None means all processors. The result has the same bits for any number.
    device : str, optional
        None: the threads of this machine. ``"cuda"``, ``"cuda:1"`` or ``"cpu"``: by torch (the extra ``torch``), for
        ``"exact"`` and ``"gaussian-mixture"`` with one cluster or labels.

    Returns
    -------
    ndarray of float64, shape (n,) or (len(rows),)

    Raises
    ------
    InputError
        Not finite, not two-dimensional, without rows or columns, X and Y of different width; a row that is not there;
        more clusters than others; labels of another length, negative or too large; a device that is not there, or a
        method that does not run on it; a tensor that wants a gradient, which an array would lose.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 4)) / 2
    >>> exact = log_normalizers(X, method="exact")
    >>> mixture = log_normalizers(X)
    >>> bool(np.median(abs(np.expm1(mixture - exact))) < 0.02)
    True
    >>> log_normalizers([[0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]], method="exact").round(6)
    array([0.693147])

    Source: Dall'Amico & Belliardo (2024), arXiv 2303.17475, eqs. (1)-(3).
    """
    owner = "log_normalizers"
    if temperature is None:
        temperature = getattr(X, "parameters", {}).get("temperature", 1.0) if hasattr(X, "vectors") else 1.0
    temperature = checks.check_real(owner, "temperature", temperature)
    if not temperature:
        raise InputError(owner, "temperature", "not 0", temperature)
    for name, given in (("X", X), ("Y", Y)):
        if getattr(given, "requires_grad", False):
            hint = f"Hand over {name}.detach(). torch.logsumexp(X @ Y.T, 1) is exact and has a gradient."
            raise InputError(
                owner, name, "without a gradient, as the result is an array", "a tensor that wants one", hint
            )
    X, Y = check_pair(owner, X, Y)
    n, m, chosen = len(X), len(Y), None
    if rows is not None:
        chosen = checks.check_numbers(owner, "rows", rows, "a list of integers")
        chosen = chosen if chosen.size else chosen.astype(np.int64)
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
            got = f"{chosen.dtype} of {counted(chosen.ndim, 'dimension')}"
            raise InputError(owner, "rows", "a list of integers", got)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= n):
            raise InputError(owner, "rows", f"in 0..{n - 1}", f"[{chosen.min()}, {chosen.max()}]")
    far = far_field(method, owner=owner, argument="method")
    if labels is not None:
        expected = f"{m} integers, one per row of Y"
        labels = checks.check_numbers(owner, "labels", labels, expected)
        if labels.ndim != 1 or len(labels) != m or not np.issubdtype(labels.dtype, np.integer):
            raise InputError(owner, "labels", expected, f"{labels.dtype} of shape {labels.shape}")
        if labels.min() < 0 or labels.max() >= m:
            raise InputError(owner, "labels", f"in 0..{m - 1}", f"[{labels.min()}, {labels.max()}]")
        labels = labels.astype(np.int64)
    parameters: dict[object, dict[str, object]] = {
        "gaussian-mixture": {"n_clusters": n_clusters, "labels": labels},
        "noise": {"n_samples": n_samples},
    }
    if isinstance(method, str) and method in parameters and method not in FAR_FIELDS.own:
        far = far.with_params(**parameters[method])  # type: ignore[attr-defined]
    workers = checks.check_n_jobs(owner, n_jobs)
    rng = checks.check_random_state(owner, random_state)
    asking = X if chosen is None else X[chosen]
    if temperature != 1:
        asking = asking / temperature
    if device is not None:
        require("log_normalizers(device=)", "torch", "torch")
        return on_device("log normalizers")(device, far, asking, Y)
    with single_threaded_blas():
        far.prepare(Y, len(Y), rng, workers)
        return evaluate_rows(far, asking, workers)


def evaluate_rows(far: FarField, X: Floats, n_jobs: int) -> NDArray[np.float64]:
    """Return log Z of all rows of X by a prepared far field, block by block."""
    log_z = np.empty(len(X))
    formula, numbers = far.formula(X.dtype) if far.formula is not None else (None, ())
    form = None if formula is None else compiled(formula)

    def task(_: int, start: int, stop: int) -> None:
        block = X[start:stop]
        if form is not None:
            log_z[start:stop] = form(block, *numbers)[0]
        else:
            force = None if far.force_is_optional else np.empty_like(block)
            far.evaluate(block, log_z[start:stop], cast(Floats, force))

    with single_threaded_blas():
        run_blocks(task, even_bounds(len(X), min(2048, max(32, len(X) // 64))), n_jobs)
    return log_z


def check_pair(owner: str, X: ArrayLike, Y: ArrayLike | None) -> tuple[Floats, Floats]:
    """Return X and Y (X itself for None) as checked matrices of one dtype, neither of them empty."""
    left = checks.check_matrix(owner, "X", X)
    right = left if Y is None else checks.check_matrix(owner, "Y", Y, columns=left.shape[1])
    for name, matrix in (("X", left), ("Y", right)):
        if 0 in matrix.shape:
            raise InputError(owner, name, "of at least one row and one column", f"shape {matrix.shape}")
    dtype, extremes = np.result_type(left, right), [np.float64(max(some.max(), -some.min())) for some in (left, right)]
    with np.errstate(over="ignore"):
        largest = float(left.shape[1] * extremes[0] * extremes[1])
    if largest > math.sqrt(np.finfo(dtype).max):  # sums of x.Ωx hold the square
        hint = "Multiply the rows by a constant, or divide their products by a temperature."
        raise InputError(owner, "X", "of rows whose scalar products are smaller", f"products up to {largest:.3g}", hint)
    return left.astype(dtype, copy=False), right.astype(dtype, copy=False)


# How wrong a far field is: the relative error of Z on a random sample of rows, computed exactly there.
#
# ``e_i = |Z_i estimated / Z_i exact - 1|``. The cost is that of some ``2 n_rows`` exact rows, however many there are.
#
# Where the mixture of Gaussians fails, and this estimate shows it: a few others dominate the sum (near duplicates of a
# long vector, whose own score towers over the rest: Z comes out too small, e near 1); heavy-tailed scores; long vectors
# against short others (the mixture's energy grows with the square of the norm, the true log Z only in proportion to it:
# Z comes out too large, without bound). More clusters, unit rows or ``Exact`` help.

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
    random_state: Seed = None,
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
    from scipy.stats import binom

    owner = "estimate_error"
    X, Y = check_pair(owner, X, Y)
    field = far_field(far, owner=owner)
    checks.check_integer(owner, "n_rows", n_rows, low=8)
    checks.check_real(owner, "confidence", confidence, 0.0, 1.0, open_low=True, open_high=True)
    workers = checks.check_n_jobs(owner, n_jobs)
    rng = checks.check_random_state(owner, random_state)
    uniform = np.sort(rng.choice(len(X), size=min(n_rows, len(X)), replace=False))
    strata = _strata(X, n_rows, rng)
    asked = np.unique(np.concatenate([uniform, *(rows for rows, _ in strata)]))
    looked_at, exact = X[asked], Exact(field.weights)
    with single_threaded_blas():
        field.prepare(Y, len(Y), rng, workers)
        exact.prepare(Y, len(Y), rng, workers)
        log_ratio = evaluate_rows(field, looked_at, workers) - evaluate_rows(exact, looked_at, workers)
    errors = np.abs(np.expm1(np.minimum(log_ratio, _LARGEST_LOG)))  # |Z estimated / Z exact - 1|
    order = np.argsort(errors[np.searchsorted(asked, uniform)], kind="stable")
    rows = uniform[order]
    sample = errors[np.searchsorted(asked, rows)]
    mean, mean_interval = _stratified_mean([(errors[np.searchsorted(asked, r)], n) for r, n in strata], confidence)
    exhaustive = len(rows) == len(X)
    intervals: dict[float, Interval] = {}
    for q in (*_QUANTILES, 0.5):
        if exhaustive:
            intervals[q] = (float(np.quantile(sample, q)), float(np.quantile(sample, q)))
            continue
        # The order statistics between which it lies; ranks from the binomial distribution.
        low, high = (int(binom.ppf(p, len(sample), q)) for p in ((1 - confidence) / 2, (1 + confidence) / 2))
        above = float(sample[high]) if high < len(sample) else math.inf
        intervals[q] = float(sample[low - 1]) if low >= 1 else 0.0, above
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
