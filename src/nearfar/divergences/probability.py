"""Divergences of probabilities: the cost of q, the map's, against p, the data's, entry by entry.

Source: Melville, "Deriving embedding gradients" (sneer documentation); NeRV: Venna et al. 2010; Jensen-Shannon: Lee et
al. 2013 (JSE). The signs of two of the printed derivatives are put right: reverse KL is ln(q/p) + 1, Jensen-Shannon
+(1/kappa) ln(q/z); see the page on sources.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nearfar import contracts
from nearfar._core.checks import check_real
from nearfar._core.jit import jit
from nearfar._core.parameters import Part
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.kernels import check_answer, check_once, ln, ln1p, plain


class Accuracy(NamedTuple):
    """How exact the sums over all pairs must be for a divergence; settings of the far fields.

    Parameters
    ----------
    few : float
        Tolerance of the mesh for less than ``many_from`` points.
    many : float
        Tolerance for more: a force is then a sum over many, and errors average out.
    many_from : int
    angle : float
        Of the tree.

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.divergences.KL().accuracy.few
    0.01
    """

    few: float
    many: float
    many_from: int
    angle: float


class Formulas(NamedTuple):
    """The formulas of a divergence: what a map needs of it in linear time.

    The cost of an entry with p = 0 must be ``far_log q ln q + constant q``: its derivative in q is then constant or
    moves with ln q, and the sum over all pairs comes from two potentials. The functions are of numbers, plain Python
    or compiled by numba; q > 0, and all get the ``parameters`` as further arguments, in the type of the positions.

    Parameters
    ----------
    entry_cost : callable
        ``entry_cost(p, q, log_q, *parameters)``: c(p, q) - c(0, q).
    strength : callable, optional
        ``strength(u, q, *parameters)``: how strongly a pair is drawn together, ``-q (dc/dq(p, q) - dc/dq(0, q))``, as
        far as that depends on q; 0 where p = 0. None where nothing does.
    parameters : tuple of float, default=()
    prepared : callable, optional
        ``prepared(p)`` is the u of ``strength`` for an array of all p, computed once; by default p itself.
    fixed : callable, optional
        ``fixed(p)``: the part of the strength that does not depend on q, for an array of all p; by default there is
        none.
    far_log : float, default=0.0
    constant : float, default=0.0

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.divergences.ReverseKL().formulas(uniform=0.01).far_log
    1.0
    """

    entry_cost: Callable[..., float | Floats]
    strength: Callable[..., float | Floats] | None = None
    parameters: tuple[float, ...] = ()
    prepared: Callable[[Floats], Floats] | None = None
    fixed: Callable[[Floats], Floats] | None = None
    far_log: float = 0.0
    constant: float = 0.0


class Divergence(Part):
    """A cost of the probabilities q of a map against those of its data; the base of one's own.

    A subclass gives ``value(p, q)`` and ``derivative(p, q)``, elementwise on arrays. With :meth:`formulas` it takes
    linear time and has ``transform``; else all pairs of points are summed in every iteration. One with an attribute
    ``floor`` > 0 gets a third argument, ``uniform``, the probability of an entry if all were equal.
    """

    floor: float = 0.0
    for_probabilities: bool = False
    """Whether it takes no similarities that are not normalised."""
    accuracy: ClassVar[Accuracy] = Accuracy(few=0.001, many=0.01, many_from=50_000, angle=0.35)

    def formulas(self, uniform: float) -> Formulas | None:  # noqa: ARG002
        """Return the formulas, None if there are none.

        Parameters
        ----------
        uniform : float
            Probability of an entry if all were equal.

        Returns
        -------
        Formulas or None
        """
        return None

    def limit(self) -> Divergence:
        """Return the divergence that this one is at an end of its parameter, or itself."""
        return self


@jit(fastmath=FAST, error_model="numpy")
def no_strength(u, q, *_):
    """Return 0: nothing of the strength depends on q."""
    return q - q


@jit(fastmath=FAST, error_model="numpy")
def _kl_cost(p, q, log_q):
    return p * (ln(p) - log_q)


@dataclass(frozen=True)
class KL(Divergence):
    """Kullback-Leibler divergence KL(P‖Q) = sum p ln(p/q), nats: a neighbour that the map has lost costs much.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import KL
    >>> p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])
    >>> print(f"{KL().value(p, q).sum():.4f}")
    0.3466
    """

    for_probabilities = True
    # Far forces balance near ones of their own size. Those of the others cancel each other, and what is left is small
    # against the error of a mesh in a map of few points: at 20,000 points, Jensen-Shannon ends 3.6 % above the cost
    # that a tolerance of 0.001 reaches with one of 0.02, reverse KL below it.
    accuracy: ClassVar[Accuracy] = Accuracy(few=0.01, many=0.02, many_from=20_000, angle=0.6)

    def formulas(self, uniform: float) -> Formulas:  # noqa: ARG002
        return Formulas(_kl_cost, fixed=lambda p: p)

    def value(self, p: Floats, q: Floats, uniform: float = 0.0) -> NDArray[np.float64]:  # noqa: ARG002
        """Cost of each entry, p ln(p/q).

        Parameters
        ----------
        p, q : ndarray of the same shape
            Probabilities, q > 0.
        uniform : float, optional
            Probability of an entry if all were equal; of use to the divergences that have a floor.

        Returns
        -------
        ndarray of the same shape, nats
        """
        return np.asarray(times_log(p, p) - times_log(p, q), np.float64)

    def derivative(self, p: Floats, q: Floats, uniform: float = 0.0) -> Floats:  # noqa: ARG002
        """Return the derivative in q, -p/q.

        Parameters
        ----------
        p, q : ndarray of the same shape
        uniform : float, optional
            As for :meth:`value`.

        Returns
        -------
        ndarray of the same shape
        """
        return -p / q  # Gradients, Kullback-Leibler divergence: dC/dq = -p/q


@jit(fastmath=FAST, error_model="numpy")
def _mixed_cost(p, q, log_q, lam, rest, per_p):
    """Lam KL + rest reverse KL."""
    return lam * p * (ln(p) - log_q) - rest * q * ln1p(per_p * p)


@jit(fastmath=FAST, error_model="numpy")
def _proportional(u, q, *_):
    return q * u


def _mixed(lam: float, floor: float, uniform: float) -> Formulas:
    """Return the formulas of lam KL + (1 - lam) reverse KL."""
    eps, rest = floor * uniform, 1 - lam
    return Formulas(
        _mixed_cost,
        _proportional,
        (lam, rest, (1 - floor) / eps),
        prepared=lambda p: rest * np.log1p(p.dtype.type((1 - floor) / eps) * p),
        fixed=(lambda p: lam * p) if lam else None,
        far_log=rest,
        constant=-rest * np.log(eps),
    )


@dataclass(frozen=True)
class ReverseKL(Divergence):
    """Reverse Kullback-Leibler divergence KL(Q‖P) = sum q ln(q/p), nats: a false neighbour in the map costs much.

    It is infinite where p = 0 < q, so p has a floor: it is mixed with a little of the uniform distribution,
    ``(1 - floor) p + floor uniform``.

    Parameters
    ----------
    floor : float, default=0.01
        Share of probability that is spread evenly over all pairs (over all others of a row), in (0, 1).

    Raises
    ------
    InputError
        If the floor is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import ReverseKL
    >>> p, q = np.array([0.25, 0.5, 0.25]), np.array([0.5, 0.5, 0.0])
    >>> print(f"{ReverseKL().value(p, q).sum():.4f}")
    0.3466
    """

    floor: float = 0.01

    for_probabilities = True
    accuracy: ClassVar[Accuracy] = Divergence.accuracy._replace(many=0.02)

    def __post_init__(self) -> None:
        _check_floor("ReverseKL", self.floor)

    def formulas(self, uniform: float) -> Formulas:
        return _mixed(0.0, self.floor, uniform)

    def value(self, p: Floats, q: Floats, uniform: float = 0.0) -> NDArray[np.float64]:
        """Cost of each entry, q ln(q/p).

        Parameters
        ----------
        p, q : ndarray of the same shape
            Probabilities; p > 0 unless ``uniform`` is given.
        uniform : float, optional
            Probability of an entry if all were equal: p is mixed with it. 0: p is taken as it is.

        Returns
        -------
        ndarray of the same shape, nats
        """
        return np.asarray(times_log(q, q) - times_log(q, floored(p, self.floor, uniform)), np.float64)

    def derivative(self, p: Floats, q: Floats, uniform: float = 0.0) -> Floats:
        """Return the derivative in q, ln(q/p) + 1.

        Parameters
        ----------
        p, q : ndarray of the same shape
        uniform : float, optional
            As for :meth:`value`.

        Returns
        -------
        ndarray of the same shape
        """
        # Gradients, reverse Kullback-Leibler divergence: dC/dq = ln(q/p) + 1
        return np.log(q / floored(p, self.floor, uniform)) + 1


@dataclass(frozen=True)
class NeRV(Divergence):
    """Neighbour retrieval visualizer: ``lam KL(P‖Q) + (1 - lam) KL(Q‖P)``, nats (Venna et al. 2010).

    Between recall (lam = 1) and precision (lam = 0). The floor of :class:`ReverseKL` is for the reverse part only.

    Parameters
    ----------
    lam : float, default=0.5
        Weight of KL(P‖Q), in [0, 1].
    floor : float, default=0.01
        Share of probability that is spread evenly over all pairs, in (0, 1).

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import KL, NeRV
    >>> p, q = np.array([0.5, 0.4, 0.1]), np.array([0.25, 0.5, 0.25])
    >>> bool((NeRV(lam=1.0).value(p, q) == KL().value(p, q)).all())
    True
    """

    lam: float = 0.5
    floor: float = 0.01
    for_probabilities = True
    accuracy: ClassVar[Accuracy] = ReverseKL.accuracy

    def __post_init__(self) -> None:
        check_real("NeRV", "lam", self.lam, low=0, high=1)
        _check_floor("NeRV", self.floor)

    def formulas(self, uniform: float) -> Formulas | None:
        return KL().formulas(uniform) if self.lam == 1 else _mixed(self.lam, self.floor, uniform)

    def limit(self) -> Divergence:
        """Return KL at lam = 1, reverse KL at lam = 0, itself in between."""
        return KL() if self.lam == 1 else ReverseKL(self.floor) if self.lam == 0 else self

    def value(self, p: Floats, q: Floats, uniform: float = 0.0) -> NDArray[np.float64]:
        """Cost of each entry.

        Parameters
        ----------
        p, q : ndarray of the same shape
            Probabilities; p > 0 unless ``uniform`` is given.
        uniform : float, optional
            As for :meth:`ReverseKL.value`.

        Returns
        -------
        ndarray of the same shape, nats
        """
        if self.lam == 1:
            return KL().value(p, q)
        reverse = ReverseKL(self.floor).value(p, q, uniform)
        return self.lam * KL().value(p, q) + (1 - self.lam) * reverse

    def derivative(self, p: Floats, q: Floats, uniform: float = 0.0) -> Floats:
        """Return the derivative in q.

        Parameters
        ----------
        p, q : ndarray of the same shape
        uniform : float, optional
            As for :meth:`value`.

        Returns
        -------
        ndarray of the same shape
        """
        if self.lam == 1:
            return KL().derivative(p, q)
        # NeRV, cost: dC/dq = lam (-p/q) + (1 - lam) (ln(q/p) + 1)
        return self.lam * KL().derivative(p, q) + (1 - self.lam) * ReverseKL(self.floor).derivative(p, q, uniform)


@jit(fastmath=FAST, error_model="numpy")
def _jensen_shannon_cost(p, q, log_q, first, second, third):
    z = third * (q + second * p)  # kappa p + (1 - kappa) q
    return first * second * p * ln(p / z) - first * q * ln1p(second * p / q)


@jit(fastmath=FAST, error_model="numpy")
def _jensen_shannon_strength(p, q, first, second, third):
    return first * q * ln1p(second * p / q)


@dataclass(frozen=True)
class JensenShannon(Divergence):
    """Generalised Jensen-Shannon divergence of JSE, nats (Lee et al. 2013).

    ``KL(P‖Z) / (1 - kappa) + KL(Q‖Z) / kappa`` with ``Z = kappa P + (1 - kappa) Q``: KL(P‖Q) at kappa = 0, KL(Q‖P) at
    kappa = 1, and finite without a floor in between.

    Parameters
    ----------
    kappa : float, default=0.5
        Mixing weight, in [0, 1].
    floor : float, default=0.01
        As for :class:`ReverseKL`; of use at kappa = 1 only.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.divergences import JensenShannon
    >>> p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.25])
    >>> print(f"{JensenShannon(kappa=0.5).value(p, q).sum():.4f}")
    0.4315
    """

    kappa: float = 0.5
    floor: float = 0.01
    for_probabilities = True

    def __post_init__(self) -> None:
        check_real("JensenShannon", "kappa", self.kappa, low=0, high=1)
        _check_floor("JensenShannon", self.floor)

    def limit(self) -> Divergence:
        """Return KL at kappa = 0, reverse KL at kappa = 1, itself in between."""
        return KL() if self.kappa == 0 else ReverseKL(self.floor) if self.kappa == 1 else self

    def formulas(self, uniform: float) -> Formulas | None:
        if self.limit() is not self:
            return self.limit().formulas(uniform)
        kappa = self.kappa
        parameters = 1 / kappa, kappa / (1 - kappa), 1 - kappa
        constant = -np.log1p(-kappa) / kappa
        return Formulas(_jensen_shannon_cost, _jensen_shannon_strength, parameters, constant=constant)

    def value(self, p: Floats, q: Floats, uniform: float = 0.0) -> NDArray[np.float64]:
        """Cost of each entry.

        Parameters
        ----------
        p, q : ndarray of the same shape
            Probabilities.
        uniform : float, optional
            As for :meth:`ReverseKL.value`; of use at kappa = 1 only.

        Returns
        -------
        ndarray of the same shape, nats
        """
        if self.limit() is not self:
            return np.asarray(self.limit().value(p, q, uniform))  # type: ignore[attr-defined]
        k, q = self.kappa, _positive(q)
        log_qz = -np.log1p(k * (p - q) / q)  # ln(q/z), precise for small kappa
        log_pz = -np.log1p((1 - k) * (q - p) / _positive(p))  # ln(p/z), precise for kappa near 1
        return np.asarray(p * log_pz / (1 - k) + q * log_qz / k, np.float64)

    def derivative(self, p: Floats, q: Floats, uniform: float = 0.0) -> Floats:
        """Return the derivative in q, (1/kappa) ln(q/z).

        Parameters
        ----------
        p, q : ndarray of the same shape
        uniform : float, optional
            As for :meth:`value`.

        Returns
        -------
        ndarray of the same shape
        """
        if self.limit() is not self:
            return np.asarray(self.limit().derivative(p, q, uniform))  # type: ignore[attr-defined]
        q = _positive(q)
        # Gradients, Jensen-Shannon divergence: dC/dq = (1/kappa) ln(q/z)
        return -np.log1p(self.kappa * (p - q) / q) / self.kappa


_BY_NAME = {"kl": KL, "reverse-kl": ReverseKL, "nerv": NeRV, "jensen-shannon": JensenShannon}


def as_divergence(owner: str, divergence: object) -> contracts.Divergence:
    """Return the divergence that a string names, or an object that has a divergence's methods.

    One at an end of its parameter is given back as what it is there.

    Raises
    ------
    InputError
        Another thing; a cost that is no sum over entries; a derivative that is not that of the value, or formulas that
        contradict them; functions that return another shape than they are given, or other numbers than real ones.
    """
    if isinstance(divergence, str) and divergence in _BY_NAME:
        return _BY_NAME[divergence]()
    if isinstance(divergence, type) or not isinstance(divergence, contracts.Divergence):
        names = ", ".join(repr(name) for name in _BY_NAME)
        hint = "One of your own inherits from nearfar.divergences.Divergence."
        raise InputError(owner, "divergence", f"one of {names} or a divergence object", repr(divergence), hint)
    check_once(divergence, lambda: _check_derivative(owner, divergence))
    return cast("contracts.Divergence", divergence.limit()) if isinstance(divergence, Divergence) else divergence


_SUM = (
    "A function of such a sum, as Renyi's divergence is, has by pair the same minimum as the sum: give that one, of "
    "Renyi's the alpha-divergence."
)


def _check_derivative(owner: str, divergence: contracts.Divergence) -> None:
    """Refuse a derivative that is not that of the value, by differences at some points; formulas of another cost."""
    p, q = (side.ravel() for side in np.meshgrid([0.0, 0.003, 0.04, 0.3], [1e-4, 0.002, 0.05, 0.4]))
    step, uniform = 1e-5 * q, 0.01
    floor: tuple[float, ...] = (uniform,) if divergence.floor else ()
    rows = p.reshape(2, -1), q.reshape(2, -1)  # all pairs of points are given by rows, those of the data one by one
    with np.errstate(all="ignore"):
        for name in ("value", "derivative"):  # of the shape that is given, and real numbers
            check_answer(owner, "divergence", divergence, name, getattr(divergence, name)(*rows, *floor), rows[0].shape)
        formulas = linear_formulas(divergence, uniform)
        if formulas is not None:
            prepared = formulas.prepared or np.asarray
            check_answer(owner, "divergence", divergence, "prepared", prepared(p), p.shape)
            if formulas.fixed is not None:
                check_answer(owner, "divergence", divergence, "fixed", formulas.fixed(p), p.shape)
            for name, numbers in (("strength", (np.asarray(prepared(p)), q)), ("entry_cost", (p, q, np.log(q)))):
                given = getattr(formulas, name)
                function = plain(given)
                for dtype in (np.float64, np.float32) if given is not None else ():
                    found = function(*(part.astype(dtype) for part in numbers), *map(dtype, formulas.parameters))
                    check_answer(owner, "divergence", divergence, name, found, p.shape, dtype)
        c, D = (np.asarray(f(p, q, *floor), np.float64) for f in (divergence.value, divergence.derivative))
        alone = [
            [f(p[:1], q[:1], *floor), f(p[-9:], q[-9:], *floor)] for f in (divergence.value, divergence.derivative)
        ]
        difference = (divergence.value(p, q + step, *floor) - divergence.value(p, q - step, *floor)) / (2 * step)
    for among, (one, some) in zip((c, D), alone, strict=True):
        if not np.allclose([*one, *some], [*among[:1], *among[-9:]], rtol=1e-6, atol=1e-12, equal_nan=True):
            raise InputError(owner, "divergence", "a sum over entries, each of its own p and q", repr(divergence), _SUM)
    # Where p = 0 a cost without a floor may be infinite: there it is not looked at.
    wrong = np.isfinite(difference) & ~(abs(difference - D) <= 1e-4 * abs(D) + 1e-7 * (1 + abs(c) / q)) | np.isnan(c)
    what = "one whose derivative is that of its value"
    if formulas is not None and not wrong.any():
        what = "one whose formulas are those of its value and derivative"
        b, k = formulas.far_log, formulas.constant
        with np.errstate(all="ignore"):
            entries = np.asarray(plain(formulas.entry_cost)(p, q, np.log(q), *formulas.parameters))
            found = b * q * np.log(q) + k * q + np.where(p > 0, entries, 0)
            slope = b * np.log(q) + b + k - strength_of(formulas, p, q) / q
        wrong = ~(abs(found - c) <= 1e-5 * (abs(c) + q)) | ~(abs(slope - D) <= 1e-5 * (1 + abs(D)))
    if wrong.any():
        at = f"{divergence!r}, which is not at p = {p[wrong][0]}, q = {q[wrong][0]}"
        raise InputError(owner, "divergence", what, at)


def strength_of(formulas: Formulas, p: Floats, q: Floats) -> Floats:
    """Return -q times the derivative in q, less that where p = 0."""
    total = np.zeros_like(p) if formulas.fixed is None else formulas.fixed(p)
    if formulas.strength is not None:
        total = total + plain(formulas.strength)(
            p if formulas.prepared is None else formulas.prepared(p), q, *formulas.parameters
        )
    return np.asarray(total)


def linear_formulas(divergence: object, uniform: float) -> Formulas | None:
    """Return the formulas of a divergence; None if it has none, or they are those of a class whose cost it changes."""
    for cls in type(divergence).__mro__:
        if "formulas" in vars(cls):
            return cast(Divergence, divergence).formulas(uniform)
        if vars(cls).keys() & {"value", "derivative"}:
            return None
    return None


def accuracy_of(divergence: object) -> Accuracy:
    """Return how exact far fields must be for a divergence, which is none at an end of its parameter."""
    return divergence.accuracy if isinstance(divergence, Divergence) else Divergence.accuracy


def floored(p: Floats, floor: float, uniform: float) -> Floats:
    """Return p mixed with a little of the uniform distribution, or p itself where none is given."""
    return (1 - floor) * p + floor * uniform if uniform else p


def times_log(x: Floats, y: Floats) -> Floats:
    """Return x ln y, 0 where x is 0."""
    return np.asarray(x * np.log(np.where(x == 0, 1, y)))


def _positive(q: Floats) -> Floats:
    """Return q with what has vanished in rounding (far apart under an exponential kernel) as the smallest number."""
    return np.maximum(q, np.finfo(q.dtype).tiny)


def _check_floor(owner: str, floor: float) -> None:
    check_real(owner, "floor", floor, low=0, high=1, open_low=True, open_high=True)
