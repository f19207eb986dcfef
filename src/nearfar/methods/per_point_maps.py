"""Maps by row whose kernel has degrees of freedom for each point, w_ij = (1 + f_ij / nu_i)^(-(nu_i + 1) / 2).

Cost and gradient are those of :mod:`nearfar.methods.maps`. Under KL nu_i enters the cost of its own row alone; with
m_i = sum_j p_ij, which is 1 or, for an empty row, 0::

    dC/dnu_i = sum_j (m_i q_ij - p_ij) d ln w_ij / dnu_i

Source: Kitazono, Grozavu, Rogovschi, Omori & Ozawa, "t-distributed stochastic neighbor embedding with inhomogeneous
degrees of freedom" (ICONIP 2016).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar.contracts import Floats
from nearfar.kernels import InhomogeneousStudentT, plain, rise, squared_distances
from nearfar.methods.maps import off_diagonal

_TINY = np.finfo(np.float64).tiny


def slopes_in_nu(Y: Floats, P: csr_array, nu: NDArray[np.float64], rows: slice) -> NDArray[np.float64]:
    """Return dC/dnu_i of some rows, in float64."""
    Y = np.asarray(Y, np.float64)
    f = squared_distances(Y[rows], Y)
    w = off_diagonal(InhomogeneousStudentT(nu[rows]).weight(f), rows)
    p = off_diagonal(P[rows].toarray().astype(np.float64), rows)
    q = w / np.maximum(w.sum(axis=1, keepdims=True), _TINY)
    slopes = plain(rise)(f, nu[rows, None], 1.0, 0.5)
    # symbol dC/dnu_i: sum_j (m_i q_ij - p_ij) d ln w_ij / dnu_i
    return np.asarray(((p.sum(axis=1, keepdims=True) * q - p) * slopes).sum(axis=1))
