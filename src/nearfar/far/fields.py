"""Sums over all pairs of points of a map: what a field is asked, and the field that sums pair by pair.

Outside the pairs that the data relate, every force of the neighbour-embedding family is the gradient of a scalar
potential (see the guide "Near and far field")::

    Phi_i = sum_{j != i} c_j V(f_ij),     V(f) = w(f)  or  V(f) = w ln w - w   (V' = w' and V' = w' ln w)

with the kernel w, squared distances f and charges c. A field is asked for such potentials and their gradients, and
knows nothing of divergences or normalisation. ``NoisePairs`` samples pairs instead.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from nearfar._core.checks import check_choice, check_integer, check_real
from nearfar._core.jit import bind, jit
from nearfar._core.parameters import Part
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import FAST
from nearfar.contracts import Floats, Potential, Term
from nearfar.errors import InputError, NearfarError
from nearfar.kernels import CompiledKernel, Kernel, compiled_kernel

_ROWS = 256  # of one block: some milliseconds of work from 10,000 points on


class FieldPart(Part):
    """Parameters, and beside them what is held while a field works: it is not copied and not pickled."""

    @cached_property
    def work(self) -> defaultdict[str, Any]:
        """What ``place`` has left, by name, refused until it has; the parameters stay as they are."""
        return defaultdict(self._not_placed)

    def _not_placed(self) -> NoReturn:
        raise NearfarError(f"{type(self).__name__}: place must be called before the field is asked.")

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
        return Potential(value, gradient, first.error)

    def __getstate__(self) -> dict[str, object]:
        return self.get_params()


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
    >>> field.place(np.array([[0, 0], [1, 0], [0, 2]], np.float32), StudentT(), n_jobs=1)
    >>> [potential] = field.evaluate([Term("weight")])
    >>> potential.value.round(3)
    array([0.7  , 0.667, 0.367], dtype=float32)
    """

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in positions and kernel.

        Parameters
        ----------
        Y : ndarray of shape (n, d), float32 or float64
            Copied.
        kernel : Kernel
            One with formulas.
        n_jobs : int
            Threads; the result does not depend on it.

        Raises
        ------
        InputError
            If the positions are no matrix of floats, or the kernel has no formulas.
        """
        check_positions("ExactField", Y)
        found = linear_kernel("ExactField", kernel, self.work)
        rows = np.ascontiguousarray(Y.T)
        if len(rows) == 1:  # a line is a plane without width
            rows = np.concatenate([rows, np.zeros_like(rows)])
        self.work["placed"] = rows, found, Y.shape[1], n_jobs

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
        Y, kernel, d, n_jobs = self.work["placed"]
        n, dtype = Y.shape[1], Y.dtype
        ones = np.ones(n, dtype)
        charges = [term_charges("ExactField", term, n, dtype) for term in terms]
        waiting = {name: [k for k, t in enumerate(terms) if t.potential == name] for name in ("weight", "entropy")}
        potentials: dict[int, Potential] = {}
        while any(waiting.values()):  # one of each potential shares a pass: the squared distances and w are the same
            together = [waiting[name].pop(0) if waiting[name] else None for name in ("weight", "entropy")]
            with_entropy = together[1] is not None
            sums = bind(pair_sums if len(Y) <= 3 else pair_sums_any, (kernel.functions, with_entropy))
            given = [ones if k is None or charges[k] is None else charges[k] for k in together]
            outs = [np.empty((1 + len(Y), n if k is not None else 0), dtype) for k in (0, together[1])]
            shared = (Y, (0,) * len(Y)), tuple(map(dtype.type, kernel.parameters)), tuple(given), tuple(outs)
            # Bound now: the next pass of this loop has other sums.
            rows = partial(sums, *shared)
            run_blocks(lambda _, start, stop, rows=rows: rows(start, stop), even_bounds(n, _ROWS), n_jobs)
            for k, out in zip(together, outs, strict=True):
                if k is not None:
                    potentials[k] = Potential(out[0], np.ascontiguousarray(out[1 : 1 + d].T))
        return [potentials[k] for k in range(len(terms))]


def linear_kernel(owner: str, kernel: object, work: dict[str, Any]) -> CompiledKernel:
    """Return the compiled form of a kernel, kept in ``work`` for the next call; refuse one without formulas."""
    before, found = work.get("kernel", (None, None))
    if before is not kernel:
        found = compiled_kernel(kernel)
        work["kernel"] = kernel, found
    if found is None:
        hint = "One without formulas, or with a parameter for each point, is for sums pair by pair in NumPy."
        raise InputError(owner, "kernel", "one with formulas", repr(kernel), hint)
    return found


def check_positions(owner: str, Y: Floats) -> None:
    """Refuse what is no matrix of floats with at least one row and column."""
    if not isinstance(Y, np.ndarray) or Y.ndim != 2 or 0 in Y.shape or Y.dtype not in (np.float32, np.float64):
        got = f"{Y.dtype} of shape {Y.shape}" if isinstance(Y, np.ndarray) else type(Y).__name__
        raise InputError(owner, "Y", "a float32 or float64 array of shape (n, d)", got)


def term_charges(owner: str, term: Term, n: int, dtype: DTypeLike) -> Floats | None:
    """Return the charges of a term in the type of the positions; None for ones."""
    if term.potential not in ("weight", "entropy"):
        raise InputError(owner, "terms", "of the potentials 'weight' and 'entropy'", repr(term.potential))
    if term.charges is None:
        return None
    if np.shape(term.charges) != (n,):
        raise InputError(owner, "charges", f"of shape ({n},), one per point", f"shape {np.shape(term.charges)}")
    return np.ascontiguousarray(term.charges, dtype=dtype)


# Compiled. Positions come as d contiguous rows, so that the innermost loop runs over the other points and vectorises.
# ``functions`` are those of the kernel, and whether the entropy is asked for beside w: a constant when they compile.

CHUNK = 1024  # others whose sums stay in the type of the positions; the chunks are added up in float64


@jit(fastmath=FAST, error_model="numpy", inline="always")
def pair_sums(functions, points, parameters, charges, outs, start, stop):
    """Write values and gradients of rows ``start`` to ``stop``, in two or three dimensions.

    ``points`` are positions of shape (d, n) and a tuple of length d. ``charges`` and ``outs``, of shape (1 + d, n), are
    those of w and of the entropy.
    """
    n = points[0].shape[1]
    sums = np.empty(8)
    for i in range(start, stop):
        sums[:] = 0.0
        first = 0
        while first < n:  # the point itself is stepped over
            if first == i:
                first += 1
                continue
            last = min(first + CHUNK, i if first < i else n)
            add_chunk(functions, points, (i, first, last), parameters, charges, sums)
            first = last
        store(sums[:4], i, outs[0])
        if outs[1].size:
            store(sums[4:], i, outs[1])


@jit
def store(sums, i, out):
    """Write the sum of c V for a point, and its gradient -2 (sum of -c V' (y_i - y_j))."""
    out[0, i] = sums[0]
    for k in range(1, out.shape[0]):
        out[k, i] = -2.0 * sums[k]


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def add_chunk(functions, points, pairs, parameters, charges, sums):
    """Add the others ``first`` to ``last``: sum of c V and of -c V' (y_i - y_j), for w in sums[:4], entropy behind."""
    (kernel, with_entropy), (Y, dims), (i, first, last) = functions, points, pairs
    k2 = len(dims) - 1
    a0, a1, a2 = Y[0, i], Y[1, i], Y[k2, i]
    # Loops over slices from 0: an index that might be negative would keep them from vectorising.
    y0, y1, y2 = Y[0, first:last], Y[1, first:last], Y[k2, first:last]
    weight_charge, entropy_charge = charges[0][first:last], charges[1][first:last]
    scalar = Y.dtype.type
    zero = scalar(0)
    w0, w1, w2, w3 = zero, zero, zero, zero
    e0, e1, e2, e3 = zero, zero, zero, zero
    for j in range(last - first):
        b0, b1, b2 = a0 - y0[j], a1 - y1[j], a2 - y2[j]
        f = b0 * b0 + b1 * b1
        if len(dims) > 2:
            f += b2 * b2
        w = scalar(kernel.weight(f, *parameters))
        force = w * scalar(kernel.neg_log_slope(f, *parameters))
        value, slope = w * weight_charge[j], force * weight_charge[j]
        w0 += value
        w1 += slope * b0
        w2 += slope * b1
        w3 += slope * b2
        if with_entropy:
            log_w = scalar(kernel.log_weight(f, *parameters))
            value, slope = (w * log_w - w) * entropy_charge[j], force * log_w * entropy_charge[j]
            e0 += value
            e1 += slope * b0
            e2 += slope * b1
            e3 += slope * b2
    sums[0] += w0
    sums[1] += w1
    sums[2] += w2
    sums[3] += w3
    if with_entropy:
        sums[4] += e0
        sums[5] += e1
        sums[6] += e2
        sums[7] += e3


@jit(fastmath=FAST, error_model="numpy", inline="always")
def pair_sums_any(functions, points, parameters, charges, outs, start, stop):
    """Write the same for any number of dimensions: chunk by chunk, through short buffers."""
    Y = points[0]
    d, n = Y.shape
    sums, buffers = np.empty((2, 1 + d)), np.empty((3, CHUNK), Y.dtype)
    for i in range(start, stop):
        sums[:] = 0.0
        first = 0
        while first < n:
            if first == i:
                first += 1
                continue
            last = min(first + CHUNK, i if first < i else n)
            _add_chunk_any(functions, Y, (i, first, last), parameters, charges, (buffers, sums))
            first = last
        store(sums[0], i, outs[0])
        if outs[1].size:
            store(sums[1], i, outs[1])


@jit(fastmath=FAST, error_model="numpy", forceinline=True)
def _add_chunk_any(functions, Y, pairs, parameters, charges, outs):
    (kernel, with_entropy), (i, first, last), (buffers, sums) = functions, pairs, outs
    m, scalar = last - first, Y.dtype.type
    weight_charge, entropy_charge = charges[0][first:last], charges[1][first:last]
    f, weight_force, entropy_force = buffers[0, :m], buffers[1, :m], buffers[2, :m]
    f[:] = scalar(0)
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        for j in range(m):
            b = a - y[j]
            f[j] += b * b
    w_sum, e_sum = scalar(0), scalar(0)
    for j in range(m):
        w = scalar(kernel.weight(f[j], *parameters))
        force = w * scalar(kernel.neg_log_slope(f[j], *parameters))
        w_sum += w * weight_charge[j]
        weight_force[j] = force * weight_charge[j]
        if with_entropy:
            log_w = scalar(kernel.log_weight(f[j], *parameters))
            e_sum += (w * log_w - w) * entropy_charge[j]
            entropy_force[j] = force * log_w * entropy_charge[j]
    sums[0, 0] += w_sum
    sums[1, 0] += e_sum
    for k in range(Y.shape[0]):
        a, y = Y[k, i], Y[k, first:last]
        w_sum, e_sum = scalar(0), scalar(0)
        for j in range(m):
            w_sum += weight_force[j] * (a - y[j])
            if with_entropy:
                e_sum += entropy_force[j] * (a - y[j])
        sums[0, 1 + k] += w_sum
        sums[1, 1 + k] += e_sum


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
    >>> nf.TSNE(far=far, perplexity=10, max_iter=200, random_state=0).fit_transform(X).shape
    (200, 2)
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
