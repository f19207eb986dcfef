"""Mutual information of two samples, from below: a critic is trained on some of the pairs, the bound taken on others.

The critic f is a network that scores pairs; it ascends an objective by Adam on mini-batches, whose N x N scores have
the true pairs on the diagonal. A second part of the pairs says at which step the critic was best, a third one, that had
no say in either, gives the value: so it is no larger for having been fitted.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from nearfar._core.checks import check_choice, check_integer, check_numbers, check_random_state, check_real
from nearfar._core.tensors import check_device
from nearfar._core.types import Seed
from nearfar._core.warn import warn_user
from nearfar.contrastive import bounds
from nearfar.contrastive.bounds import CRITICS, Baseline, Columns, OnColumns
from nearfar.errors import InputError, NumericalError, counted

_OWNER = "estimate_mutual_information"
_N_CHECKS = 20  # of the critic on the second part, in the course of the training
_NEAR_CEILING = 0.9  # of the ceiling: above it the value says as much of the batch as of the data

BoundName = Literal["infonce", "nwj", "tuba", "dv", "js", "interpolated", "smile"]
Critic = Literal["separable", "joint", "bilinear"] | Callable[[Tensor, Tensor], Tensor]
Measure = Callable[..., Tensor]  # of the scores (N, N) of a batch


@dataclass(frozen=True, eq=False)
class MutualInformation:
    """A bound on the mutual information of two samples, and how sure it is.

    Parameters
    ----------
    value : float
        Mean of the bound over the batches that were kept for it, in nats.
    interval : tuple of (float, float)
        95 % interval of that mean (Student's t over the batches). It is one of the bound for this critic, not of the
        mutual information; and rare pairs of large score, on which DV, NWJ, TUBA and JS hang, may be in no batch.
    spread : float
        Standard deviation of the bound from batch to batch.
    ceiling : float or None
        The largest value that the bound can have with this batch size; None if there is no such limit.
    bound : str
        Its name.
    batch_size : int
        Pairs in a batch, N.
    batch_values : ndarray of shape (n_batches,), float64
        The bound on each of the batches.
    curve : ndarray of shape (n_looks, 2), float64
        Steps done, and the mean of the objective on the second part of the pairs then; the critic is that of its
        maximum. Empty where nothing was trained.
    critic : callable
        The trained critic, in evaluation mode: ``critic(x, y)`` gives the scores of all pairs.
    """

    value: float
    interval: tuple[float, float]
    spread: float
    ceiling: float | None
    bound: str
    batch_size: int
    batch_values: NDArray[np.float64] = field(repr=False)
    curve: NDArray[np.float64] = field(repr=False)
    critic: Callable[[Tensor, Tensor], Tensor] = field(repr=False)


def estimate_mutual_information(
    x: Tensor | ArrayLike,
    y: Tensor | ArrayLike,
    *,
    critic: Critic = "separable",
    bound: BoundName = "infonce",
    alpha: float | None = None,
    tau: float | None = None,
    batch_size: int = 128,
    n_steps: int = 3000,
    learning_rate: float = 5e-4,
    held_out: float = 0.3,
    random_state: Seed = None,
) -> MutualInformation:
    """Return a lower bound on the mutual information of paired samples, by a critic that is trained for it.

    Half of the pairs held out choose the critic among the steps of the training, the other half give the value. Rows
    that are copies of one measurement are on one side.

    Parameters
    ----------
    x, y : array or Tensor of shape (n, ...)
        Pairs: row i of x belongs to row i of y. Computed with in float64 if both are, on the device of the tensors. A
        critic of the user's own gets batches of the rows as they are (floating point: in the type of its parameters).
    critic : {"separable", "joint", "bilinear"}, Module or callable, default="separable"
        Scores a batch: ``critic(x, y)`` of N rows each gives (N, N), entry (i, j) the score of (x_i, y_j). A name
        stands for a :class:`SeparableCritic`, :class:`JointCritic` or :class:`BilinearCritic` of columns that are
        centred and scaled before (mutual information stays the same). A module is trained in place, and left in
        evaluation mode. Where there is nothing to train, a known log-ratio say, all pairs serve for the value.
    bound : {"infonce", "nwj", "tuba", "dv", "js", "interpolated", "smile"}, default="infonce"
        Which one: see Notes.
    alpha : float in [0, 1], default=0.01
        Only with ``bound="interpolated"``: 1 is InfoNCE, 0 TUBA.
    tau : float > 0, default=5.0
        Only with ``bound="smile"``: scores of independent pairs are cut at ± tau.
    batch_size : int >= 2, default=128
        N, in training and for the value.
    n_steps : int >= 1, default=3000
        Steps of Adam.
    learning_rate : float > 0, default=5e-4
        Of Adam.
    held_out : float in (0, 1), default=0.3
        Share of the pairs that are not trained on. Half of it must have two batches.
    random_state : int, numpy.random.Generator or None, default=None
        Fixes the parts, the order, the start of a named critic, and the result (with one thread, on a CPU). Torch's own
        generators are left as they were.

    Returns
    -------
    MutualInformation
        Value in nats, its interval, spread and ceiling, and the critic.

    Raises
    ------
    InputError
        If x and y differ in length, hold NaN or infinity, or are too few for the batches; or an option cannot be used.
    NumericalError
        If scores or the objective leave the finite numbers.

    Warns
    -----
    NearfarWarning
        If the value is above nine tenths of its ceiling: then the mutual information may be much larger.

    Notes
    -----
    ============== ============================ ==================================== =====================
    bound          reported                     trained by                           ceiling
    ============== ============================ ==================================== =====================
    infonce        :func:`info_nce_bound`       the same                             log N
    nwj            :func:`nwj_bound`            the same                             none
    tuba           :func:`tuba_bound`           the same, with a baseline a(x)       none
    dv             :func:`dv_bound`             the same                             none
    interpolated   :func:`interpolated_bound`   the same, with a baseline q(x)       1 + log((N - 1) / alpha)
    js             :func:`js_bound`             :func:`js_objective`                 none
    smile          :func:`smile_bound`          :func:`js_objective`                 none; is no bound
    ============== ============================ ==================================== =====================

    No ceiling does not mean no limit: no lower bound that holds for every distribution, with high confidence, can be
    larger than about the logarithm of the number of pairs. Where the mutual information is larger, values without a
    ceiling vary so much that an interval from the data does not tell. A step takes O(N) passes of the networks (O(N²)
    for a joint critic) and N² memory for the scores.

    References
    ----------
    Poole et al. (2019), "On variational bounds of mutual information". Song & Ermon (2020), "Understanding the
    limitations of variational mutual information estimators". McAllester & Stratos (2020), "Formal limitations on the
    measurement of mutual information".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1500, 1))
    >>> y = 0.8 * x + 0.6 * rng.normal(size=(1500, 1))  # I = -log(0.6) = 0.51 nats
    >>> found = nf.nn.estimate_mutual_information(x, y, batch_size=64, n_steps=30, random_state=0)
    >>> 0.3 < found.value < 0.6
    True
    >>> round(found.ceiling, 2)  # log 64
    4.16
    """
    from scipy.special import stdtrit

    chosen = _check_bound(bound, alpha, tau)
    size = check_integer(_OWNER, "batch_size", batch_size, low=2)
    steps = check_integer(_OWNER, "n_steps", n_steps, low=1)
    rate = check_real(_OWNER, "learning_rate", learning_rate, low=0, open_low=True)
    share = check_real(_OWNER, "held_out", held_out, low=0, high=1, open_low=True, open_high=True)
    seed = int(check_random_state(_OWNER, random_state).integers(2**63))
    is_named = isinstance(critic, str)
    if is_named:
        check_choice(_OWNER, "critic", critic, CRITICS)
    elif not callable(critic) or isinstance(critic, type):
        known = ", ".join(repr(name) for name in CRITICS)
        raise InputError(_OWNER, "critic", f"one of {known}, a module or a function of (x, y)", critic)
    x, y = _check_pairs(x, y, None if is_named else critic)
    parameters = critic.parameters() if isinstance(critic, nn.Module) else ()
    is_trained = is_named or chosen.has_baseline or any(p.requires_grad for p in parameters)
    with _seeded(seed, x.device):
        for_training, for_choice, for_value = _split(_pair_numbers(x, y), size, share if is_trained else None)
        model = _CriticModel(critic, chosen, size, x[for_training], y[for_training]).to(x.device)
        curve = model.train_on(x, y, for_training, for_choice, steps, rate) if is_trained else []
        values = np.array(model.batch_values(chosen.value, x, y, for_value))
    if not np.isfinite(values).all():
        raise _diverged("e^f of pairs held out is above the largest number")
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    margin = float(stdtrit(len(values) - 1, 0.975)) * spread / math.sqrt(len(values))
    ceiling = None if chosen.ceiling is None else chosen.ceiling(size)
    if ceiling is not None and mean > _NEAR_CEILING * ceiling:
        warn_user(
            f"{_OWNER}: the bound {bound!r} stands at {mean:.2f} nats, and with batch_size={size} it cannot be above"
            f" {ceiling:.2f}: the mutual information may be much larger. Take larger batches, or a bound without a"
            " ceiling ('js', 'nwj', 'dv')."
        )
    interval, course = (mean - margin, mean + margin), np.array(curve, dtype=np.float64).reshape(-1, 2)
    return MutualInformation(mean, interval, spread, ceiling, bound, size, values, course, model.critic)


class _CriticModel(nn.Module):
    """A critic of batches, and a baseline log a(x) where the bound has one."""

    def __init__(self, critic: Critic, bound: Bound, batch_size: int, x: Tensor, y: Tensor) -> None:
        super().__init__()
        dtype = x.dtype if x.is_floating_point() else torch.float32
        if isinstance(critic, str):
            of_x, of_y = Columns(x, dtype), Columns(y, dtype)
            critic = OnColumns(CRITICS[critic](of_x.mean.numel(), of_y.mean.numel()), of_x, of_y).to(dtype)
        self.critic = critic
        self.baseline = Baseline(Columns(x, dtype)).to(dtype) if bound.has_baseline else None
        self.objective, self.batch_size = bound.objective, batch_size

    def measure(self, measure: Measure, x: Tensor, y: Tensor) -> Tensor:
        """Return a function of the scores of a batch, and of the baseline."""
        scores = self.critic(x, y)
        n = len(x)
        if not isinstance(scores, Tensor) or scores.shape != (n, n) or not scores.is_floating_point():
            got = f"{scores.dtype}, shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else repr(scores)
            expected = f"a function whose scores of {n} x and {n} y are floating-point numbers of shape ({n}, {n})"
            raise InputError(_OWNER, "critic", expected, got, "Entry (i, j) is the score of the pair (x_i, y_j).")
        if not bool(torch.isfinite(scores.detach()).all()):
            raise _diverged("the critic gives NaN or infinity")
        return measure(scores) if self.baseline is None else measure(scores, log_baseline=self.baseline(x))

    @torch.no_grad()
    def batch_values(self, measure: Measure, x: Tensor, y: Tensor, rows: Tensor) -> list[float]:
        """Return a measure of each of the disjoint batches of these rows; what is left of the rows has no part."""
        self.eval()
        size = self.batch_size
        batches = rows[: len(rows) // size * size].view(-1, size).to(x.device)
        return [self.measure(measure, x[batch], y[batch]).item() for batch in batches]

    def train_on(
        self, x: Tensor, y: Tensor, for_training: Tensor, for_choice: Tensor, n_steps: int, learning_rate: float
    ) -> list[tuple[int, float]]:
        """Ascend the objective; keep the critic that is best on the pairs for the choice; return steps and values."""
        fused = x.device.type in ("cpu", "cuda")  # a quarter of the time of a step
        optimizer = torch.optim.Adam([p for p in self.parameters() if p.requires_grad], lr=learning_rate, fused=fused)
        left, size = for_training[:0], self.batch_size
        curve: list[tuple[int, float]] = []
        best, best_state = -math.inf, copy.deepcopy(self.state_dict())
        for step in range(n_steps + 1):
            if step % max(1, n_steps // _N_CHECKS) == 0 or step == n_steps:
                values = self.batch_values(self.objective, x, y, for_choice)
                curve.append((step, sum(values) / len(values)))
                if curve[-1][1] > best:
                    best, best_state = curve[-1][1], copy.deepcopy(self.state_dict())
            if step < n_steps:
                if len(left) < size:  # all of them in a new order
                    left = for_training[torch.randperm(len(for_training))].to(x.device)
                rows, left = left[:size], left[size:]
                self.train()
                loss = -self.measure(self.objective, x[rows], y[rows])
                if not math.isfinite(loss.item()):
                    raise _diverged(f"the objective is {-loss.item()} at step {step + 1} of {n_steps}")
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        optimizer.zero_grad()
        self.load_state_dict(best_state)
        return curve


def _diverged(what: str) -> NumericalError:
    return NumericalError(
        f"{_OWNER}: {what}. Lower learning_rate, or take a bound with a steadier gradient ('infonce')."
    )


@dataclass(frozen=True)
class Bound:
    """What the critic ascends, what is reported of it, and the largest value that a batch of N can give."""

    objective: Measure
    value: Measure
    ceiling: Callable[[int], float | None] | None = None
    has_baseline: bool = False


def _check_bound(name: str, alpha: float | None, tau: float | None) -> Bound:
    """Return the bound of this name; an option of another bound is refused."""
    for option, value, of in (("alpha", alpha, "interpolated"), ("tau", tau, "smile")):
        if value is not None and name != of:
            raise InputError(_OWNER, option, f"left out with bound={name!r}", value, f"It belongs to bound={of!r}.")
    share = 0.01 if alpha is None else check_real(_OWNER, "alpha", alpha, low=0, high=1)
    limit = 5.0 if tau is None else check_real(_OWNER, "tau", tau, low=0, open_low=True)
    interpolated = partial(bounds.interpolated_bound, alpha=share)

    def ceiling(n: int) -> float | None:
        """Return log K at alpha = 1, K = N - 1; 1 + log(K / alpha) below; at 0 there is none."""
        if share == 0:
            return None
        return math.log(n - 1) if share == 1 else 1 + math.log((n - 1) / share)

    known = {
        "infonce": Bound(bounds.info_nce_bound, bounds.info_nce_bound, math.log),
        "nwj": Bound(bounds.nwj_bound, bounds.nwj_bound),
        "tuba": Bound(bounds.tuba_bound, bounds.tuba_bound, has_baseline=True),
        "dv": Bound(bounds.dv_bound, bounds.dv_bound),
        "interpolated": Bound(interpolated, interpolated, ceiling, has_baseline=True),
        # These two train by one quantity and report another.
        "js": Bound(bounds.js_objective, bounds.js_bound),
        "smile": Bound(bounds.js_objective, partial(bounds.smile_bound, tau=limit)),
    }
    return known[check_choice(_OWNER, "bound", name, known)]


def _pair_numbers(x: Tensor, y: Tensor) -> Tensor:
    """Return which pair each row is: a measurement that was copied is one; elsewhere each row is a pair of its own.

    Copies are told from numbers of a few values, whose pairs come again by themselves: nearly each x has one y, and
    there are more pairs than the root of the rows.
    """
    n = len(x)
    rows = [side.detach().cpu().reshape(n, -1) for side in (x, y)]
    if any(side.is_floating_point() for side in rows):
        of_x, of_y = (side.unique(dim=0, return_inverse=True)[1] for side in rows)  # type: ignore[no-untyped-call]
        pairs, which = (of_x * n + of_y).unique(return_inverse=True)
        most = 1 + max(int(of_x.max()), int(of_y.max()))
        if n > 1.05 * len(pairs) and 0.95 * len(pairs) < most and len(pairs) ** 2 > n:
            return which
    return torch.arange(n)


def _split(which: Tensor, batch_size: int, held_out: float | None) -> tuple[Tensor, Tensor, Tensor]:
    """Cut the pairs at random: for training, for the choice of the critic, for the value (all where nothing trains).

    The rows of one pair are on one side of a cut.
    """
    n, n_pairs = len(which), int(which.max()) + 1
    order = torch.randperm(n)
    if held_out is None:
        if n < 2 * batch_size:
            expected = f"at most {n // 2}, half of the {n} pairs"
            raise InputError(_OWNER, "batch_size", expected, batch_size, "The interval needs two batches.")
        return order[:0], order[:0], order
    share = int(n * held_out / 2)
    if share < 2 * batch_size:
        expected = f"at most {share // 2}, half of the {share} pairs that are held out for the value"
        hint = "Give smaller batches, more pairs or a larger held_out."
        raise InputError(_OWNER, "batch_size", expected, batch_size, hint)
    left = n - 2 * share
    if left < batch_size:
        expected = f"such that a batch of {batch_size} is left to train on"
        raise InputError(_OWNER, "held_out", expected, f"{held_out!r}, which leaves {left} of {n} pairs")
    if n_pairs == n:
        return order[:left], order[left : left + share], order[left + share :]
    rank = torch.randperm(n_pairs)[which[order]].sort(stable=True)
    cuts = torch.searchsorted(rank.values, rank.values[[left, left + share]]).tolist()
    parts = torch.tensor_split(order[rank.indices], cuts)
    if len(parts[0]) < batch_size or min(len(part) for part in parts[1:]) < batch_size * 2:
        got = f"{int(which.bincount().max())} copies of one pair among {n} rows"
        hint = "Give smaller batches, or each pair once."
        raise InputError(_OWNER, "x", "of pairs whose copies leave enough rows on each side of the split", got, hint)
    return tuple(part[torch.randperm(len(part))] for part in parts)  # type: ignore[return-value]


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generators of the CPU and of the device, and give them back as they were."""
    on_cuda = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_cuda else []):
        torch.default_generator.manual_seed(seed)
        if on_cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def _check_pairs(x: object, y: object, critic: object) -> tuple[Tensor, Tensor]:
    """Return both as tensors on one device, floating point in the type that the critic computes in."""
    found = []
    for name, value in (("x", x), ("y", y)):
        if isinstance(value, Tensor):
            rows = value.detach()
        else:
            array = check_numbers(_OWNER, name, value)
            wide = np.float64 if array.dtype.itemsize >= 8 else np.float32
            kinds: dict[str, type] = {"f": wide, "i": np.int64, "u": np.int64, "b": np.bool_}
            rows = torch.from_numpy(array.astype(kinds[array.dtype.kind]))  # a copy: the caller's may be read-only
        if rows.is_complex():
            raise InputError(_OWNER, name, "an array of real numbers", str(rows.dtype))
        if rows.layout != torch.strided:
            raise InputError(_OWNER, name, "a dense tensor", str(rows.layout), "Convert it by to_dense().")
        if rows.ndim == 0 or rows.numel() == 0:
            got = f"shape {tuple(rows.shape)}"
            raise InputError(_OWNER, name, "an array of rows, at least one number in each", got)
        found.append(rows)
    xs, ys = found
    if len(xs) != len(ys):
        raise InputError(_OWNER, "y", f"as long as x, {len(xs)} rows", f"{len(ys)} rows", "Row i of both is one pair.")
    check_device(_OWNER, "y", ys, "x", xs)
    for name, rows in (("x", xs), ("y", ys)):
        bad = (~torch.isfinite(rows)).reshape(len(rows), -1).any(dim=1).nonzero().flatten()
        if len(bad):
            got = f"NaN or infinity in {counted(len(bad), 'row')}, first {bad[:5].tolist()}"
            raise InputError(_OWNER, name, "finite", got, "Remove or impute these rows, in x and y.")
    parameter = next(critic.parameters(), None) if isinstance(critic, nn.Module) else None
    if parameter is not None and parameter.device != xs.device:
        expected, hint = f"on the device of x, {xs.device}", "Move it: critic.to(x.device)."
        raise InputError(_OWNER, "critic", expected, str(parameter.device), hint)
    both_double = xs.dtype == ys.dtype == torch.float64
    dtype = parameter.dtype if parameter is not None else torch.float64 if both_double else torch.float32
    # A critic of the user's own may want integers: ids, to look vectors up by.
    xs, ys = (rows.to(dtype) if critic is None or rows.is_floating_point() else rows for rows in (xs, ys))
    return xs, ys
