"""The influence of a charge on a mesh, in Fourier space: what turns charges on the mesh into the potential there.

    G^_k = DFT(V(f_m))_k / (b_k^2 b_l^2),    b_k = (4 + 2 cos(2 pi k / P)) / 6

The samples of V are divided by the transform of the sampled cubic B-spline for each direction, twice: for spreading and
for reading. So two points on mesh points interact with V exactly (Essmann et al. 1995, eq. 4.4 with M_4).

A constant is left out, the potential at the longest distance: on a small map V is all but constant, and float32 would
lose what differs. The far field gives it back as (constant) x (sum of the other charges).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.fft

from nearfar.contracts import Floats
from nearfar.scores.kernels import HeavyTailed


class Influence(NamedTuple):
    """Influence of a unit charge; ``scale`` times ``transform`` and ``own``, plus ``constant``, is that of V."""

    transform: Floats
    """Shape (padded rows, padded columns / 2 + 1), largest sample of the potential 1."""
    own: Floats
    """Shape (4, 4): what a point finds of itself, coefficients in the powers of t (1 - t) of both directions."""
    scale: float
    constant: float


Form = tuple[tuple[int, ...], tuple[float, float]]


def wanted_step(form: Form, tolerance: float) -> float:
    """Return the mesh step for a relative error of forces, from the length of the kernel.

    Errors grow with the fourth power of the step while the mesh is coarse, with the third when it is fine: that is what
    a cubic spline leaves of a slope. The factors bound what was measured for random points in a line and in a plane,
    sparse and dense, charges of one sign and of both, heaviness alpha from 0 to 2.
    """
    kernel = _kernel(form)
    coarse = 0.7 + 0.3 * kernel.alpha + 0.2 * kernel.alpha**2
    step = min((tolerance / coarse) ** (1 / 4), (tolerance / 0.15) ** (1 / 3))
    return float(step / math.sqrt(kernel.beta))


def _kernel(form: Form) -> HeavyTailed:
    """Return the kernel of a compiled form; all of them are heavy-tailed ones."""
    family, (a, b) = form
    if len(family) == 0:
        return HeavyTailed(0.0, a)
    return HeavyTailed(1.0, 1.0) if len(family) == 1 else HeavyTailed(a, b)


@lru_cache(maxsize=4)
def influence(form: Form, potential: str, step: float, rows: int, columns: int, dtype: Any) -> Influence:
    """Return the influence on a periodic mesh of ``rows`` x ``columns`` points, both even."""
    kernel = _kernel(form)
    half_rows, half_columns = rows // 2, columns // 2
    squares = (step * np.arange(max(half_rows, half_columns) + 1)) ** 2
    f = squares[: half_rows + 1, None] + squares[: half_columns + 1]
    samples, constant = _above_last(kernel, potential, f)
    scale = float(np.abs(samples).max()) or 1.0
    # A cosine transform of type I is the Fourier transform of the even, periodic continuation.
    transform = scipy.fft.dctn(samples / scale, type=1, overwrite_x=True)
    transform /= (_spline_transform(half_rows) ** 2)[:, None] * _spline_transform(half_columns) ** 2
    own = _own(transform)
    full = np.empty((rows, half_columns + 1), dtype)
    full[: half_rows + 1] = transform
    full[half_rows + 1 :] = transform[half_rows - 1 : 0 : -1]
    return Influence(full, own.astype(dtype), scale, constant)


def _above_last(kernel: HeavyTailed, potential: str, f: Floats) -> tuple[Floats, float]:
    """Return V(f) - V(f_last), without cancellation for small f, and V(f_last)."""
    log_w = kernel.log_weight(f)
    last = float(log_w[-1, -1])
    w_last = math.exp(last)
    constant = w_last if potential == "weight" else w_last * (last - 1)
    if last < -1:
        w = np.exp(log_w)
        return (w if potential == "weight" else w * (log_w - 1)) - constant, constant
    u = log_w - last
    growth = np.expm1(u)
    if potential == "weight":
        return w_last * growth, constant
    # V = e^l (l - 1) with l = last + u:  V - V_last = e^last ((last + u) (e^u - 1) - (e^u - 1 - u)), where the last
    # bracket cancels for small u.
    bend = np.where(u < 1e-3, u**2 * (1 / 2 + u * (1 / 6 + u / 24)), growth - u)
    return w_last * (log_w * growth - bend), constant


def _spline_transform(half: int) -> Floats:
    angle = np.pi * np.arange(half + 1) / half
    return np.asarray((4 + 2 * np.cos(angle)) / 6)


def _own(transform: Floats) -> Floats:
    """Return the coefficients of sum_ab M_a(x) M_b(y) sum_cd M_c(x) M_d(y) G(a - c, b - d).

    With R_s(x) = sum_a M_a M_(a+s), a polynomial of degree 3 in x (1 - x), it is sum_st R_s(x) R_t(y) G(s, t).
    """
    near = transform
    for _axis in (0, 1):  # the first four entries of the inverse cosine transform along each axis
        half = near.shape[0] - 1
        waves = np.cos(np.pi * np.outer(np.arange(4), np.arange(half + 1)) / half) / half
        waves[:, [0, -1]] /= 2
        near = (waves @ near).T
    polynomials = _overlaps()
    own = polynomials.T @ near @ polynomials
    return np.asarray((own + own.T) / 2)


@lru_cache(maxsize=1)
def _overlaps() -> Floats:
    """Return the coefficients of R_0, R_1 + R_-1, R_2 + R_-2, R_3 + R_-3 in powers of t (1 - t), one row each."""
    t = np.array([0.0, 0.1, 0.25, 0.5])
    weights = np.array([(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, 3 * (1 - t) ** 3 - 6 * (1 - t) ** 2 + 4, t**3]) / 6
    overlaps = [(weights[: 4 - s] * weights[s:]).sum(axis=0) * (1 if s == 0 else 2) for s in range(4)]
    return np.linalg.solve((t * (1 - t))[:, None] ** np.arange(4), np.array(overlaps).T).T
