"""Sums over all pairs of points on a mesh: charges spread, convolved with the kernel, the potential read back.

    rho_m = sum_j c_j M(y_j - m)        charges on the mesh, M a B-spline, cubic or quintic
    phi   = G * rho                     a product of real Fourier transforms
    Phi_i = sum_m M(y_i - m) phi_m      and its gradient: the force is that of the interpolated potential

G is such that two points on mesh points meet with V(f) exactly: the samples of V, divided in Fourier space by the
transform of the sampled B-spline, once for spreading, once for reading. Wide maps have two levels (``_convolution``).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfar._checks import check_real
from nearfar.contracts import Floats
from nearfar.errors import InputError, NearfarWarning
from nearfar.far._convolution import convolve
from nearfar.far._influence import Influence, influence, wanted_mesh, wanted_reach
from nearfar.far._mesh import Buffers, Mesh, bounding_box, choose_mesh, read, sort_points
from nearfar.far.fields import Potential, Term
from nearfar.far.pairs import FieldPart, check_positions, compiled_form, term_charges
from nearfar.scores.kernels import Kernel

_KEPT = 4  # influences: of two potentials, before and after a change of the step


@dataclass(frozen=True)
class MeshField(FieldPart):
    """Particle mesh in one or two components: O(n) time beside a Fourier transform of the mesh, O(n) memory.

    Parameters
    ----------
    tolerance : float, default=0.01
        Bound of the root mean square of the errors of all forces, relative to that of the forces, for points without
        any structure; in (0, 0.1]. In maps, where many points push alike, the error is a tenth to a half of it. Points
        within less than the length of the kernel, far from all others, share their errors and may exceed it by half.

    Warns
    -----
    NearfarWarning
        Once, when a map is too wide for its mesh, see below.

    Notes
    -----
    Mesh step and order of the splines follow from ``tolerance`` and the kernel, whatever is cheaper: for Student's
    kernel cubic ones and a step of 0.3 at 0.01, quintic ones and 0.24 at 0.001, which takes about twice as long,
    0.0001 three to four times. The step never exceeds 1/32 of the map's longer side, so that forces are as accurate in
    a map of size 1e-4, where t-SNE starts, as later. The mesh has at most max(2**24, 16 n) points, padding included; a
    map so wide that it would take more (a single point far away is enough: some 1,200 lengths of the kernel) gets a
    coarser mesh, a warning, and the error that ``expected_error`` tells. Sums of charges of mixed sign, or far from all
    charges, have errors relative to the largest potential, not to their own size: such a value may come out with the
    wrong sign.

    A wide map has a second mesh of 8 times the step: the kernel is split into a part that is zero from 4 or 5 of the
    coarse steps on and a rest that is smooth, so that the fine mesh needs little padding. Such a split is made for a
    ``tolerance`` of 1e-4 or more.

    Works in the type of the positions; a ``tolerance`` below 1e-4 needs float64. Memory: 4 numbers per point and about
    10 per mesh cell inside the map, kept between calls, as are the transforms of the last kernels. Results do not
    depend on the number of threads.

    Source: Hockney and Eastwood, "Computer simulation using particles" (1988), chapter 5, for particle meshes; Essmann
    et al., "A smooth particle mesh Ewald method" (J. Chem. Phys. 103, 1995), section IV with eqs. (4.1), (4.2) and
    (4.4), for B-splines and forces as the gradient of the interpolated potential; Hardy et al., "Multilevel summation
    method for electrostatic force evaluation" (J. Chem. Theory Comput. 11, 2015), section 2, for two levels; Linderman
    et al., "Fast interpolation-based t-SNE" (Nature Methods 16, 2019) for Fourier transforms in t-SNE.

    See Also
    --------
    ExactField : pair by pair, any number of components.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.far import MeshField, Term
    >>> from nearfar.kernels import StudentT
    >>> field = MeshField()
    >>> field.place(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), StudentT(), n_jobs=1)
    >>> [potential] = field.evaluate([Term("weight")])
    >>> potential.value.round(2)
    array([0.7 , 0.67, 0.37])
    """

    tolerance: float = 0.01

    def __post_init__(self) -> None:
        check_real("MeshField", "tolerance", self.tolerance, low=0, high=0.1, open_low=True)

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in positions and kernel: choose the mesh, sort the points by its rows.

        Parameters
        ----------
        Y : ndarray of shape (n, d), float32 or float64
            d = 1 or 2. Not needed after the call.
        kernel : Kernel
            One with a compiled form.
        n_jobs : int
            Threads; the result does not depend on it.

        Raises
        ------
        InputError
            If the positions are no matrix of floats with one or two columns, or the kernel has no compiled form.
        NumericalError
            If a position is NaN or infinite.
        """
        check_positions("MeshField", Y)
        Y = np.ascontiguousarray(Y)
        if Y.shape[1] > 2:
            hint = "ExactField takes any number of components."
            raise InputError("MeshField", "Y", "of one or two components", f"{Y.shape[1]}", hint)
        form = compiled_form("MeshField", kernel)
        low, high = bounding_box("MeshField", Y, n_jobs)
        order, step = wanted_mesh(form, self.tolerance)
        mesh = choose_mesh(high - low, order, step, wanted_reach(form, self.tolerance), len(Y))
        points = sort_points(Y, low, mesh, n_jobs, self._buffers())
        self._remember(_placed=(points, mesh, form, n_jobs))
        if mesh.coarser > 1 and not hasattr(self, "_warned"):
            self._remember(_warned=True)  # one warning per field, not one per iteration
            width = (
                f"MeshField: the map is {float((high - low).max()):.3g} wide, more than a mesh of its step can cover."
            )
            warnings.warn(
                f"{width} Errors of forces may now reach {self.expected_error:.0%}.", NearfarWarning, stacklevel=2
            )

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Sum the potentials; terms with the same charges share their spreading and its transform.

        Parameters
        ----------
        terms : sequence of Term

        Returns
        -------
        list of Potential
            In the order of the terms, in the type of the positions. The arrays are reused by the next call.

        Raises
        ------
        NearfarError
            If nothing was placed.
        """
        return self._answer([[term] for term in terms])

    def total(self, terms: Sequence[Term]) -> Potential:
        """Sum the potentials of all terms, which takes fewer transforms than each of them apart.

        Parameters
        ----------
        terms : sequence of Term
            One or more.

        Returns
        -------
        Potential
            As from ``evaluate``.

        Raises
        ------
        NearfarError
            If nothing was placed.
        """
        return self._answer([terms])[0]

    def _answer(self, sums: Sequence[Sequence[Term]]) -> list[Potential]:
        points, mesh, form, n_jobs = self._placed_state()
        if not sums:
            return []
        n, dtype, buffers = len(points.order), points.columns.dtype, self._buffers()
        distinct = list({id(term.charges): term for terms in sums for term in terms}.values())
        place = {id(term.charges): k for k, term in enumerate(distinct)}
        given = [term_charges("MeshField", term, n, dtype) for term in distinct]
        none = np.empty(0 if all(q is None for q in given) else n, dtype)
        none[:] = 1
        charges = [none if q is None else q for q in given]
        wanted = [
            [(place[id(term.charges)], self._influence(form, term.potential, mesh.shape, dtype)) for term in terms]
            for terms in sums
        ]
        fields = convolve(points, mesh, charges, wanted, n_jobs, buffers)
        return [
            read(points, mesh, field, [(charges[k], one) for k, one in parts], n_jobs, buffers, name)
            for name, (field, parts) in enumerate(zip(fields, wanted, strict=True))
        ]

    @property
    def expected_error(self) -> float:
        """Tolerance of the mesh that was placed last: ``tolerance``, or more where the map is too wide for it."""
        mesh: Mesh = self._placed_state()[1]
        return min(1.0, self.tolerance * mesh.coarser**mesh.shape.order)

    def _influence(self, *of: Any) -> Influence:
        """Return an influence; each field keeps its last ones, as there may be many fields of different kernels."""
        held: dict[Any, Influence] = getattr(self, "_influences", {})
        found = held.pop(of, None) or influence(*of)
        recent = [(of, found), *held.items()][:_KEPT]
        self._remember(_influences=dict(recent))
        return found

    def _buffers(self) -> Buffers:
        if not hasattr(self, "_memory"):
            self._remember(_memory=Buffers())
        return self._memory  # type: ignore[attr-defined, no-any-return]
