"""Sampled repulsion: pairs of noise instead of sums over all pairs of points of a map."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from nearfar import kernels as score
from nearfar._core.checks import check_choice, check_integer, check_real
from nearfar._core.jit import jit
from nearfar._core.parameters import Part
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import FAST
from nearfar.contracts import Floats
from nearfar.errors import InputError, NearfarError
from nearfar.kernels import Kernel, typed

# ------------------------------------------------------------
# Compiled sums over all pairs of points of a map: values and gradients of the potentials of far/fields.py.
#
# Positions come as d contiguous rows, so that the innermost loop runs over the other points and vectorises. What is
# asked
# for is told by the lengths of tuples, which numba knows when it compiles (see scores/_kernels.py): ``weight_kind`` and
# ``entropy_kind`` are () for a potential that is not asked for, (0,) for charges of one, (0, 0) for given charges.

CHUNK = 1024  # others whose sums stay in the type of the positions; the chunks are added up in float64


@jit(fastmath=FAST, error_model="numpy")
def pair_sums(Y, dims, start, stop, kernel, kinds, charges, weight_out, entropy_out):
    """Write values and gradients of rows ``start`` to ``stop``, in one to three dimensions.

    ``Y`` has shape (d, n), ``dims`` is a tuple of length d, ``kernel`` is (family, constants), ``kinds`` and
    ``charges`` are those of w and of the entropy. Each ``out`` has shape (1 + d, n); what is not asked for is not
    touched.
    """
    weight_kind, entropy_kind = kinds
    sums = np.empty(8)
    n = Y.shape[1]
    for i in range(start, stop):
        sums[:] = 0.0
        first = 0
        while first < n:  # the point itself is stepped over
            if first == i:
                first += 1
                continue
            last = min(first + CHUNK, i if first < i else n)
            _add_chunk(Y, dims, i, first, last, kernel, kinds, charges, sums)
            first = last
        if len(weight_kind) > 0:
            _store(sums, 0, i, weight_out)
        if len(entropy_kind) > 0:
            _store(sums, 4, i, entropy_out)


@jit(inline="always")
def _store(sums, at, i, out):
    out[0, i] = sums[at]
    for k in range(1, out.shape[0]):
        out[k, i] = -2.0 * sums[at + k]


@jit(fastmath=FAST, error_model="numpy")
def _add_chunk(Y, dims, i, first, last, kernel, kinds, charges, sums):
    """Add the others ``first`` to ``last``: sum of c V and of -c V' (y_i - y_j), for w in sums[:4], entropy behind."""
    family, constants = kernel
    weight_kind, entropy_kind = kinds
    weight_charges, entropy_charges = charges
    k1, k2 = min(1, len(dims) - 1), len(dims) - 1
    a0, a1, a2 = Y[0, i], Y[k1, i], Y[k2, i]
    # Loops over slices from 0: an index that might be negative would keep them from vectorising.
    y0, y1, y2 = Y[0, first:last], Y[k1, first:last], Y[k2, first:last]
    weight_charge, entropy_charge = weight_charges[first:last], entropy_charges[first:last]
    zero = Y.dtype.type(0)
    w0, w1, w2, w3 = zero, zero, zero, zero
    e0, e1, e2, e3 = zero, zero, zero, zero
    for j in range(last - first):
        b0, b1, b2 = a0 - y0[j], a1 - y1[j], a2 - y2[j]
        f = b0 * b0
        if len(dims) > 1:
            f += b1 * b1
        if len(dims) > 2:
            f += b2 * b2
        w = score.weight(family, constants, f)
        force = w * score.pull(family, constants, f)
        if len(weight_kind) > 0:
            value, slope = w, force
            if len(weight_kind) > 1:
                value, slope = value * weight_charge[j], slope * weight_charge[j]
            w0 += value
            w1 += slope * b0
            w2 += slope * b1
            w3 += slope * b2
        if len(entropy_kind) > 0:
            log_w = score.log_weight(family, constants, f)
            value, slope = w * log_w - w, force * log_w
            if len(entropy_kind) > 1:
                value, slope = value * entropy_charge[j], slope * entropy_charge[j]
            e0 += value
            e1 += slope * b0
            e2 += slope * b1
            e3 += slope * b2
    sums[0] += w0
    sums[1] += w1
    sums[2] += w2
    sums[3] += w3
    sums[4] += e0
    sums[5] += e1
    sums[6] += e2
    sums[7] += e3


@jit(fastmath=FAST, error_model="numpy")
def pair_sums_any(Y, start, stop, kernel, kinds, charges, weight_out, entropy_out):
    """Write the same for any number of dimensions: chunk by chunk, through short buffers."""
    weight_kind, entropy_kind = kinds
    d, n = Y.shape
    weight_sums, entropy_sums = np.empty(1 + d), np.empty(1 + d)
    buffers = np.empty((3, CHUNK), Y.dtype)
    for i in range(start, stop):
        weight_sums[:] = 0.0
        entropy_sums[:] = 0.0
        first = 0
        while first < n:
            if first == i:
                first += 1
                continue
            last = min(first + CHUNK, i if first < i else n)
            _add_chunk_any(Y, i, first, last, kernel, kinds, charges, buffers, weight_sums, entropy_sums)
            first = last
        if len(weight_kind) > 0:
            _store(weight_sums, 0, i, weight_out)
        if len(entropy_kind) > 0:
            _store(entropy_sums, 0, i, entropy_out)


@jit(fastmath=FAST, error_model="numpy")
def _add_chunk_any(Y, i, first, last, kernel, kinds, charges, buffers, weight_sums, entropy_sums):
    family, constants = kernel
    weight_kind, entropy_kind = kinds
    weight_charges, entropy_charges = charges
    m = last - first
    weight_charge, entropy_charge = weight_charges[first:last], entropy_charges[first:last]
    f, weight_force, entropy_force = buffers[0, :m], buffers[1, :m], buffers[2, :m]
    f[:] = Y.dtype.type(0)
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        for j in range(m):
            b = a - y[j]
            f[j] += b * b
    w_sum, e_sum = Y.dtype.type(0), Y.dtype.type(0)
    for j in range(m):
        w = score.weight(family, constants, f[j])
        force = w * score.pull(family, constants, f[j])
        if len(weight_kind) > 0:
            value, slope = w, force
            if len(weight_kind) > 1:
                value, slope = value * weight_charge[j], slope * weight_charge[j]
            w_sum += value
            weight_force[j] = slope
        if len(entropy_kind) > 0:
            log_w = score.log_weight(family, constants, f[j])
            value, slope = w * log_w - w, force * log_w
            if len(entropy_kind) > 1:
                value, slope = value * entropy_charge[j], slope * entropy_charge[j]
            e_sum += value
            entropy_force[j] = slope
    weight_sums[0] += w_sum
    entropy_sums[0] += e_sum
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        w_sum, e_sum = Y.dtype.type(0), Y.dtype.type(0)
        for j in range(m):
            if len(weight_kind) > 0:
                w_sum += weight_force[j] * (a - y[j])
            if len(entropy_kind) > 0:
                e_sum += entropy_force[j] * (a - y[j])
        weight_sums[1 + k] += w_sum
        entropy_sums[1 + k] += e_sum


# ------------------------------------------------------------
# Sums over all pairs of points of a map: the far field of the neighbour-embedding family.
#
# Outside the pairs that the data relate, every force of the family is the gradient of a scalar potential (see the guide
# "Near and far field")::
#
#     Phi_i = sum_{j != i} c_j V(f_ij),     V(f) = w(f)  or  V(f) = w ln w - w   (V' = w' and V' = w' ln w)
#
# with the kernel w, squared distances f and charges c. A field is asked for such potentials and their gradients, and
# knows nothing of divergences or normalisation.


@dataclass(frozen=True)
class Term:
    """What is asked of a field: a potential and its charges.

    Parameters
    ----------
    potential : {"weight", "entropy"}
        V = w, or V = w ln w - w.
    charges : ndarray of shape (n,), optional
        Of the points, of any sign; None: all are 1.
    """

    potential: Literal["weight", "entropy"]
    charges: Floats | None = None


@dataclass(frozen=True)
class Potential:
    """What a field answers.

    Parameters
    ----------
    value : ndarray of shape (n,)
        Phi_i, the point itself left out.
    gradient : ndarray of shape (n, d)
        Gradient of Phi_i in y_i.
    """

    value: Floats
    gradient: Floats


@runtime_checkable
class Field(Protocol):
    """Sums over all pairs of points, exact or in linear time."""

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in the positions, shape (n, d), and the kernel; ``Y`` is not changed until the next call."""

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return a potential per term, in the dtype of the positions; the arrays may be reused by the next call."""

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the sum of the potentials of one or more terms."""


# ------------------------------------------------------------
# Sums over all pairs of points, pair by pair: the oracle of the faster fields, and the quickest one for small maps.

_ROWS = 256  # of one block: some milliseconds of work from 10,000 points on


class FieldPart(Part):
    """Parameters, beside what ``place`` leaves; that is not copied and not pickled."""

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Sum the potentials; to be given by the subclass."""
        raise NotImplementedError

    def total(self, terms: Sequence[Term]) -> Potential:
        """Sum the potentials of all terms.

        Parameters
        ----------
        terms : sequence of Term
            One or more.

        Returns
        -------
        Potential
            In the type of the positions.

        Raises
        ------
        NearfarError
            If nothing was placed.
        """
        first, *others = self.evaluate(terms)
        value, gradient = first.value, first.gradient
        for other in others:
            value, gradient = value + other.value, gradient + other.gradient
        return Potential(value, gradient)

    def __getstate__(self) -> dict[str, Any]:
        return self.get_params()

    def _remember(self, **state: object) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def _placed_state(self) -> Any:
        state = getattr(self, "_placed", None)
        if state is None:
            raise NearfarError(f"{type(self).__name__}: place must be called before the field is asked.")
        return state


@dataclass(frozen=True)
class ExactField(FieldPart):
    """All pairs of points, any number of components; O(n²) time, O(n) memory.

    Works in the type of the positions, sums in float64 beyond a thousand pairs: in float32 the relative error of a
    force is about 1e-6, in float64 1e-13. A potential of ``w`` and one of the entropy are summed in one pass.

    See Also
    --------
    MeshField : linear time, one or two components.

    Notes
    -----
    Source: Melville, "Deriving embedding gradients" (sneer documentation), for the sums; the potentials: guide "Near
    and far field".

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.far import ExactField, Term
    >>> from nearfar.kernels import StudentT
    >>> field = ExactField()
    >>> field.place(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), StudentT(), n_jobs=1)
    >>> [potential] = field.evaluate([Term("weight")])
    >>> potential.value.round(3)
    array([0.7  , 0.667, 0.367])
    """

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in positions and kernel.

        Parameters
        ----------
        Y : ndarray of shape (n, d), float32 or float64
            Copied.
        kernel : Kernel
            One with a compiled form.
        n_jobs : int
            Threads; the result does not depend on it.

        Raises
        ------
        InputError
            If the positions are no matrix of floats, or the kernel has no compiled form.
        """
        check_positions("ExactField", Y)
        state = (np.ascontiguousarray(Y.T), typed(compiled_form("ExactField", kernel), Y.dtype), n_jobs)
        self._remember(_placed=state)

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Sum the potentials.

        Parameters
        ----------
        terms : sequence of Term

        Returns
        -------
        list of Potential
            In the order of the terms, in the type of the positions.

        Raises
        ------
        NearfarError
            If nothing was placed.
        """
        Y, kernel, n_jobs = self._placed_state()
        charges = [term_charges("ExactField", term, Y.shape[1], Y.dtype) for term in terms]
        waiting = {name: [k for k, t in enumerate(terms) if t.potential == name] for name in ("weight", "entropy")}
        potentials: dict[int, Potential] = {}
        while any(waiting.values()):  # one of each potential shares a pass: the squared distances and w are the same
            asked = [waiting[name].pop(0) if waiting[name] else None for name in ("weight", "entropy")]
            sums = _one_pass(Y, kernel, n_jobs, [None if k is None else (k, charges[k]) for k in asked])
            potentials.update({k: s for k, s in zip(asked, sums, strict=True) if k is not None})
        return [potentials[k] for k in range(len(terms))]


def _one_pass(Y: Floats, kernel: Any, n_jobs: int, asked: list[tuple[int, Floats | None] | None]) -> list[Potential]:
    """Return the potential of w and that of the entropy; an empty one where it is not asked for."""
    d, n = Y.shape
    filler = np.empty(0, Y.dtype)
    kinds = tuple(() if a is None else (0,) if a[1] is None else (0, 0) for a in asked)
    charges = tuple(filler if a is None or a[1] is None else a[1] for a in asked)
    outs = [np.empty((1 + d, 0 if a is None else n), Y.dtype) for a in asked]

    def task(_block: int, start: int, stop: int) -> None:
        if d <= 3:
            pair_sums(Y, (0,) * d, start, stop, kernel, kinds, charges, *outs)
        else:
            pair_sums_any(Y, start, stop, kernel, kinds, charges, *outs)

    run_blocks(task, even_bounds(n, _ROWS), n_jobs)
    return [Potential(out[0], np.ascontiguousarray(out[1:].T)) for out in outs]


def compiled_form(owner: str, kernel: object) -> tuple[tuple[int, ...], tuple[float, float]]:
    """Return the compiled form of a kernel, or refuse one that has none."""
    form = getattr(kernel, "compiled", None)
    if form is None:
        hint = "A kernel of one's own, or with parameters per point, takes the dense path."
        raise InputError(owner, "kernel", "one with a compiled form", repr(kernel), hint)
    return form


def check_positions(owner: str, Y: Floats) -> None:
    """Refuse what is no matrix of floats with at least one row and column."""
    if not isinstance(Y, np.ndarray) or Y.ndim != 2 or 0 in Y.shape or Y.dtype not in (np.float32, np.float64):
        got = f"{Y.dtype} of shape {Y.shape}" if isinstance(Y, np.ndarray) else type(Y).__name__
        raise InputError(owner, "Y", "a float32 or float64 array of shape (n, d)", got)


def term_charges(owner: str, term: Term, n: int, dtype: Any) -> Floats | None:
    """Return the charges of a term in the type of the positions; None for ones."""
    if term.potential not in ("weight", "entropy"):
        raise InputError(owner, "terms", "of the potentials 'weight' and 'entropy'", repr(term.potential))
    if term.charges is None:
        return None
    if np.shape(term.charges) != (n,):
        raise InputError(owner, "charges", f"of shape ({n},), one per point", f"shape {np.shape(term.charges)}")
    return np.ascontiguousarray(term.charges, dtype=dtype)


OBJECTIVES = ("local", "global")
NORMALIZERS = ("t-sne", "umap")


@dataclass(frozen=True)
class NoisePairs(Part):
    """A map learns to tell pairs of neighbours from pairs drawn at random: O(n m) time for any number of components.

    To each pair of neighbours (probability p_ij) come m pairs of noise, drawn evenly from all N = n (n - 1). With the
    similarities w of the map and a = m Zbar / N, the costs are::

        local    C = -sum_ij p_ij ln(w_ij / (w_ij + a))  -  m E ln(a / (w_noise + a))
        global   C = -sum_ij p_ij E ln(w_ij / (w_ij + W_i)),      W_i = sum of w over m noise partners of i

    "local" asks of each pair by itself whether it is noise, and is least where w = Zbar p; "global" asks which of
    m + 1 partners is the neighbour, and is least where w is proportional to p. Both tend to the KL divergence of
    t-SNE as m grows, "local" if Zbar is the sum S of w over all pairs. A larger Zbar draws neighbours together
    and pushes less: with a = 1 the cost is that of UMAP.

    Parameters
    ----------
    n_samples : int, >= 1, default=5
        m, pairs of noise per pair of neighbours, and drawn anew per point in each iteration; at most n - 1.
    objective : {"local", "global"}, default="local"
        Binary (noise-contrastive estimation, negative sampling) or ranking (InfoNCE).
    normalizer : {"t-sne", "umap"} or float, default="t-sne"
        Zbar, for "local" alone, over ordered pairs. ``"t-sne"``: S of the map as it is, estimated in each iteration.
        ``"umap"``: n (n - 1) / m, so that a = 1 and noise is told by w / (w + 1). A number between the two, in
        geometric steps, is a map between the two.

    Raises
    ------
    InputError
        A parameter that cannot be used.

    See Also
    --------
    nearfar.NeighborEmbedding : takes it as ``far``; ``far="noise"`` has the defaults.
    MeshField : all pairs in linear time, for one or two components.

    Notes
    -----
    UMAP has w = 1 / (1 + f) only for its a = b = 1, a graph of its own, and draws noise by degree.

    For KL, by pair, with a built-in kernel. The learning rate of the second phase falls to 0 in a straight line, and
    the reported cost has noise of its own, which stays the same through a fit. In a small map "local" draws more
    noise than m per point, up to all there is: m is what its cost tells, the draws are how well its mean is known.

    References
    ----------
    Damrich, Böhm, Hamprecht & Kobak (2023), "From t-SNE to UMAP with contrastive learning", equations 3 to 7; a is
    their m Zbar / (n choose 2) counted over ordered pairs. Böhm, Berens & Kobak (2022), "Attraction-repulsion spectra
    in neighbor embeddings". Ma & Collins (2018), for "local" and "global".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(200, 8))
    >>> far = nf.far.NoisePairs(n_samples=10, normalizer="umap")
    >>> nf.TSNE(3, far=far, perplexity=10, random_state=0).fit_transform(X).shape
    (200, 3)
    """

    n_samples: int = 5
    objective: str = "local"
    normalizer: str | float = "t-sne"

    def __post_init__(self) -> None:
        check_integer("NoisePairs", "n_samples", self.n_samples, low=1)
        check_choice("NoisePairs", "objective", self.objective, OBJECTIVES)
        if not isinstance(self.normalizer, str):
            check_real("NoisePairs", "normalizer", self.normalizer, low=0, open_low=True)
        elif self.normalizer not in NORMALIZERS:
            raise InputError("NoisePairs", "normalizer", "'t-sne', 'umap' or a number > 0", repr(self.normalizer))
        if self.objective == "global" and self.normalizer != "t-sne":
            hint = "A ranking has no normaliser: that is for objective='local'."
            raise InputError("NoisePairs", "normalizer", "left out for objective='global'", repr(self.normalizer), hint)
