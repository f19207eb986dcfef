"""The influence of a charge on a mesh, in Fourier space: what turns charges on the mesh into the potential there.

    G^_k = DFT(V(f_m))_k / (b_k^2 b_l^2),    b_k = sum_m M_P(m) cos(2 pi k m / N),  of the cubic: (4 + 2 cos(..)) / 6

The samples of V are divided by the transform of the sampled B-spline of order P (cubic: 4) on N mesh points, for each
direction, twice: for spreading and for reading. So two points on mesh points interact with V exactly (Essmann et al.
1995, eq. 4.4).

A constant is left out, the potential at the longest distance: on a small map V is all but constant, and float32 would
lose what differs. The far field gives it back as (constant) x (sum of the other charges).

A wide map has two levels: V = V_near + V_wide, where V_wide(f) = V(R^2 psi(f / R^2)), psi(u) = u + (1 - u)^3 / 2 for
u < 1 and psi(u) = u from there on, is V beyond R and smooth throughout, so that a mesh with ``FACTOR`` times the step
does for it, and V_near is 0 beyond R, so that the fine mesh needs padding for R only (multilevel summation: Hardy et
al., J. Chem. Theory Comput. 11, 2015, section 2; psi in place of their Taylor polynomials, for any V).
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
    """Shape (padded rows, padded columns / 2 + 1), in units of the largest sample of V."""
    wide: Floats | None
    """The same of the coarser mesh, None where there is none or V does not reach beyond the fine one."""
    own: Floats
    """Shape (order, order): what a point finds of itself, powers of t (1 - t) across and along rows, highest first."""
    scale: float
    constant: float


_LEAST_OF_LEVELS = 1e-4  # tolerance with which two levels were measured
_NOTHING = 1e-7  # of the largest sample: not seen in float32
_PAYS = 1.3  # quotient of the steps from which quintic splines are quicker than cubic ones, for 70,000 points

FACTOR = 8  # how many steps of the fine mesh the coarse one has

Form = tuple[tuple[int, ...], tuple[float, float]]


class Shape(NamedTuple):
    """What of a mesh its influences depend on: padded sizes of both levels, 0 for no coarser one, and R in steps."""

    order: int
    step: float
    rows: int
    columns: int
    reach: float
    wide_rows: int
    wide_columns: int


def wanted_mesh(form: Form, tolerance: float) -> tuple[int, float]:
    """Return order of the splines and mesh step for a relative error of forces, from the length of the kernel.

    Errors of order P grow with the power P of the step while the mesh is coarse, with P - 1 when it is fine: that is
    what the spline leaves of a slope. The factors bound what was measured for random points in a line and in a plane,
    sparse and dense, charges of one sign and of both, heaviness alpha from 0 to 2.

    With quintic splines a point costs three times as much, and the mesh less by the square of the steps.
    """
    kernel = _kernel(form)
    alpha = kernel.alpha
    cubic = min((tolerance / (0.7 + 0.3 * alpha + 0.2 * alpha**2)) ** (1 / 4), (tolerance / 0.15) ** (1 / 3))
    quintic = min((tolerance / (0.9 + 2.4 * alpha + 2.2 * alpha**2)) ** (1 / 6), (tolerance / 0.15) ** (1 / 5))
    order, step = (6, quintic) if quintic > _PAYS * cubic else (4, cubic)
    return order, float(step / math.sqrt(kernel.beta))


def _kernel(form: Form) -> HeavyTailed:
    """Return the kernel of a compiled form; all of them are heavy-tailed ones."""
    family, (a, b) = form
    if len(family) == 0:
        return HeavyTailed(0.0, a)
    return HeavyTailed(1.0, 1.0) if len(family) == 1 else HeavyTailed(a, b)


def wanted_reach(form: Form, tolerance: float) -> float:
    """Return R in steps of the fine mesh, so that the coarse one adds a third of the tolerance; inf for no coarse one.

    Measured as for ``wanted_mesh``; the same for both orders. What psi is not smooth at R leaves more than that in
    computations of high accuracy.
    """
    if tolerance < _LEAST_OF_LEVELS:
        return math.inf
    return float(32 * ((0.012 + 0.006 * _kernel(form).alpha) / tolerance) ** (1 / 4.5))


@lru_cache(maxsize=4)
def influence(form: Form, potential: str, shape: Shape, dtype: Any) -> Influence:
    """Return the influence on periodic meshes of ``shape``, whose padded sizes are even."""
    kernel, square_of_reach = _kernel(form), (shape.step * shape.reach) ** 2
    f = _squares(shape.step, shape.rows, shape.columns)
    if not shape.wide_rows:
        samples, constant = _above(kernel, potential, f, f[-1, -1])
        near, wide, at_zero = samples, None, 0.0
    else:
        far = _squares(FACTOR * shape.step, shape.wide_rows, shape.wide_columns)
        softened, last = square_of_reach * _psi(far / square_of_reach), far[-1, -1]
        samples, constant = _above(kernel, potential, softened, last)
        near = _above(kernel, potential, f, last)[0]
        near -= _above(kernel, potential, square_of_reach * _psi(f / square_of_reach), last)[0]
        wide, at_zero = samples, float(samples[0, 0])
    scale = float(np.abs(near).max()) or 1.0
    transform = _transform(near / scale, shape.order)
    own = _own(shape.order, transform)
    own[-1, -1] += at_zero / scale
    wide_transform = None
    if wide is not None and np.abs(wide).max() > _NOTHING * scale:
        wide_transform = _both_halves(_transform(wide / scale, shape.order), dtype)
    return Influence(_both_halves(transform, dtype), wide_transform, own.astype(dtype), scale, constant)


def _psi(u: Floats) -> Floats:
    return np.asarray(u + np.maximum(1 - u, 0) ** 3 / 2)


def _squares(step: float, rows: int, columns: int) -> Floats:
    """Return squared distances on a quarter of a periodic mesh."""
    squares = (step * np.arange(max(rows, columns) // 2 + 1)) ** 2
    return np.asarray(squares[: rows // 2 + 1, None] + squares[: columns // 2 + 1])


def _transform(samples: Floats, order: int) -> Floats:
    """Return what the header calls G^, for a quarter of the mesh."""
    # A cosine transform of type I is the Fourier transform of the even, periodic continuation.
    transform = np.asarray(scipy.fft.dctn(samples, type=1, overwrite_x=True))
    half_rows, half_columns = samples.shape[0] - 1, samples.shape[1] - 1
    transform /= (_spline_transform(order, half_rows) ** 2)[:, None] * _spline_transform(order, half_columns) ** 2
    return transform


def _both_halves(quarter: Floats, dtype: Any) -> Floats:
    half_rows = quarter.shape[0] - 1
    full = np.empty((2 * half_rows, quarter.shape[1]), dtype)
    full[: half_rows + 1] = quarter
    full[half_rows + 1 :] = quarter[half_rows - 1 : 0 : -1]
    return full


def _above(kernel: HeavyTailed, potential: str, f: Floats, f_last: float) -> tuple[Floats, float]:
    """Return V(f) - V(f_last), without cancellation for small f, and V(f_last)."""
    log_w = kernel.log_weight(f)
    last = float(kernel.log_weight(np.asarray(f_last)))
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


@lru_cache(maxsize=4)
def spline_table(order: int) -> Floats:
    """Return the weights M[a] of a point, polynomials in its offset u from the middle of its cell, highest power first.

    By the recursion of B-splines, (m - 1) M_m[a] = (u + m - 1/2 - a) M_(m-1)[a - 1] + (a + 1/2 - u) M_(m-1)[a].
    """
    table = np.ones((1, 1))
    for m in range(2, order + 1):
        a = np.arange(m)[:, None]
        left, right = np.pad(table, ((1, 0), (0, 0))), np.pad(table, ((0, 1), (0, 0)))
        constant = ((m - 0.5 - a) * left + (a + 0.5) * right) / (m - 1)
        table = np.pad(constant, ((0, 0), (1, 0))) + np.pad((left - right) / (m - 1), ((0, 0), (0, 1)))
    return table


def spline_weights(order: int, u: Floats) -> Floats:
    """Return the weights of points at these offsets from the middle of their cells, shape (order, len(u))."""
    return spline_table(order) @ u ** np.arange(order - 1, -1, -1)[:, None]


@lru_cache(maxsize=4)
def spline_refinement(order: int, factor: int) -> Floats:
    """Return C with M_P(x / F) = sum_k C_k M_P(x - k), both counted from the left end of their support.

    F^(P - 1) C(z) = (1 + z + ... + z^(F - 1))^P, for each F-fold step of the spline is a sum of F small ones.
    """
    coefficients = np.ones(1)
    for _ in range(order):
        coefficients = np.convolve(coefficients, np.ones(factor) / factor)
    return coefficients * factor


def _spline_transform(order: int, half: int) -> Floats:
    """Return b_k for k up to half the number of mesh points; the spline is sampled on mesh points."""
    samples = spline_weights(order, np.full(1, -0.5))[: order - 1, 0]
    angle = np.pi * np.arange(half + 1) / half
    return np.asarray(np.cos(np.outer(angle, np.arange(order - 1) - (order - 2) // 2)) @ samples)


def _own(order: int, transform: Floats) -> Floats:
    """Return the coefficients of sum_ab M_a(x) M_b(y) sum_cd M_c(x) M_d(y) G(a - c, b - d), highest powers first.

    With R_s(x) = sum_a M_a M_(a+s), a polynomial of degree P - 1 in x (1 - x), it is sum_st R_s(x) R_t(y) G(s, t).
    """
    near = transform
    for _axis in (0, 1):  # the first entries of the inverse cosine transform along each axis
        half = near.shape[0] - 1
        waves = np.cos(np.pi * np.outer(np.arange(order), np.arange(half + 1)) / half) / half
        waves[:, [0, -1]] /= 2
        near = (waves @ near).T
    polynomials = _overlaps(order)
    return np.asarray(polynomials.T @ near @ polynomials)[::-1, ::-1]


@lru_cache(maxsize=4)
def _overlaps(order: int) -> Floats:
    """Return the coefficients of R_0, R_1 + R_-1, R_2 + R_-2 ... in powers of t (1 - t), one row each."""
    z = (1 - np.cos(np.pi * (np.arange(order) + 0.5) / order)) / 8  # Chebyshev points of [0, 1/4]
    weights = spline_weights(order, np.sqrt(1 / 4 - z))
    overlaps = [(weights[: order - s] * weights[s:]).sum(axis=0) * (1 if s == 0 else 2) for s in range(order)]
    return np.linalg.solve(z[:, None] ** np.arange(order), np.array(overlaps).T).T
