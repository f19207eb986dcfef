"""Lower bounds on mutual information as functions of scores: what a critic f says of true and of independent pairs.

With p the joint distribution, q the product of its marginals, E over samples and f a score of the pair (x, y)::

    InfoNCE        log N - E_p[log sum_j e^f(x, y_j) - f(x, y)]           <= log N
    DV             E_p f - log E_q e^f                                    its minibatch value is biased upwards
    TUBA           1 + E_p[f - log a(x)] - E_q[e^f / a(x)]                a(x) > 0: the baseline
    NWJ            TUBA at a = e                                          unbiased, variance of the order of e^I
    JS             the value of NWJ at f + 1, after training by another objective
    interpolated   TUBA at a = alpha (leave-one-out mean of e^f) + (1 - alpha) q(x)
    SMILE          DV with e^f clipped to [e^-tau, e^tau] in the second term; no bound any more

Two of them are trained by one quantity and report another: JS and SMILE ascend :func:`js_objective`.

Each function takes scores in one of two forms. *A square matrix*: ``scores[i, j] = f(x_i, y_j)`` for a batch of pairs;
the diagonal holds the true pairs, every other entry is an independent one. *Two tensors*: the scores of true pairs and,
as ``product``, those of independent pairs. All are in nats, differentiable, and larger is better: a loss is minus that.
Sums of exponentials are taken in log space; half precision is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from nearfar._core.checks import check_integer, check_real
from nearfar._core.tensors import check_device, check_finite, check_floats, check_same_kind, working_dtype
from nearfar.errors import InputError


def info_nce_bound(scores: Tensor, product: Tensor | None = None) -> Tensor:
    """Return InfoNCE: log N minus the loss of finding the true one among N candidates; never above log N.

    log N - mean over i of (log sum_j exp s_ij - s_ii). In expectation it stays below min(I, log N).

    Parameters
    ----------
    scores : Tensor of shape (N, N) or (N,), floating point
        Scores of a batch, N >= 2, with the true pairs on the diagonal; or of true pairs alone.
    product : Tensor of shape (N, M), optional
        Row i: the true x_i with M independent y. There are then N = M + 1 candidates.

    Returns
    -------
    Tensor of shape ()
        The bound in nats.

    Raises
    ------
    InputError
        If shapes, types or devices do not fit, or a score is not finite.

    References
    ----------
    van den Oord, Li & Vinyals (2018), "Representation learning with contrastive predictive coding", section 2.3. Poole
    et al. (2019), "On variational bounds of mutual information", section 2.3.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> certain = 100 * torch.eye(8)
    >>> round(float(nf.nn.info_nce_bound(certain)), 4)  # log 8
    2.0794
    """
    joint, others = _pairs("info_nce_bound", scores, product, rows=True)
    candidates = torch.cat([joint[:, None], others], dim=1)
    # NCE notes, section 1.2: B(θ) = ln N - E(-s+ + ln sum exp(s)) <= min(I, ln N)
    return (joint - candidates.logsumexp(dim=1)).mean() + math.log(candidates.shape[1])


def dv_bound(scores: Tensor, product: Tensor | None = None) -> Tensor:
    """Return the bound of Donsker and Varadhan (MINE): E_p f - log E_q e^f.

    The logarithm of a mean over few pairs is too small on average, so the value of a batch is biased upwards (and its
    gradient biased); with pairs enough it is the largest bound that a critic allows, whatever constant is added to f.

    Parameters
    ----------
    scores : Tensor of shape (N, N) or (N,), floating point
        Scores of a batch, N >= 2, with the true pairs on the diagonal; or of true pairs alone.
    product : Tensor of shape (N, M) or (M,), optional
        Scores of independent pairs.

    Returns
    -------
    Tensor of shape ()
        The bound in nats.

    Raises
    ------
    InputError
        If shapes, types or devices do not fit, or a score is not finite.

    References
    ----------
    Donsker & Varadhan (1983), "Asymptotic evaluation of certain Markov process expectations for large time, IV".
    Belghazi et al. (2018), "MINE: mutual information neural estimation", section 3.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> joint, product = torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0, 0.0])
    >>> float(nf.nn.dv_bound(joint, product))
    2.0
    """
    joint, others = _pairs("dv_bound", scores, product)
    return joint.mean() - _log_mean_exp(others)


def tuba_bound(scores: Tensor, product: Tensor | None = None, log_baseline: Tensor | float = 0.0) -> Tensor:
    """Return TUBA: 1 + E_p[f - log a(x)] - E_q[e^f / a(x)], a bound for every positive baseline a.

    It is tightest at a(x) = E_q[e^f | x]. Unbiased: the value of a batch has the bound as its mean.

    Parameters
    ----------
    scores : Tensor of shape (N, N) or (N,), floating point
        Scores of a batch, N >= 2, with the true pairs on the diagonal; or of true pairs alone.
    product : Tensor of shape (N, M) or (M,), optional
        Scores of independent pairs.
    log_baseline : float or Tensor of shape () or (N,), default=0.0
        log a(x), one for all or one for each x. With a value for each, ``product`` must have a row for each.

    Returns
    -------
    Tensor of shape ()
        The bound in nats; minus infinity if E_q[e^f / a] overflows.

    Raises
    ------
    InputError
        If shapes, types or devices do not fit, or a score is not finite.

    References
    ----------
    Barber & Agakov (2003), "The IM algorithm". Poole et al. (2019), "On variational bounds of mutual information",
    section 2.2.

    Examples
    --------
    >>> import math, torch, nearfar as nf
    >>> scores = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> float(nf.nn.tuba_bound(scores))
    2.0
    """
    joint, others = _pairs("tuba_bound", scores, product)
    return _tuba(joint, others, _check_baseline("tuba_bound", log_baseline, joint, others))


def nwj_bound(scores: Tensor, product: Tensor | None = None) -> Tensor:
    """Return the bound of Nguyen, Wainwright and Jordan (MINE-f): E_p f - E_q e^(f - 1).

    TUBA at a = e. Unbiased, best at f = 1 + log p/q, where its variance grows like e^I.

    Parameters
    ----------
    scores : Tensor of shape (N, N) or (N,), floating point
        Scores of a batch, N >= 2, with the true pairs on the diagonal; or of true pairs alone.
    product : Tensor of shape (N, M) or (M,), optional
        Scores of independent pairs.

    Returns
    -------
    Tensor of shape ()
        The bound in nats; minus infinity if E_q e^f overflows.

    Raises
    ------
    InputError
        If shapes, types or devices do not fit, or a score is not finite.

    References
    ----------
    Nguyen, Wainwright & Jordan (2010), "Estimating divergence functionals and the likelihood ratio by convex risk
    minimization". Poole et al. (2019), "On variational bounds of mutual information", section 2.2.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> joint, product = torch.tensor([3.0, 3.0]), torch.tensor([1.0, 1.0, 1.0])
    >>> float(nf.nn.nwj_bound(joint, product))
    2.0
    """
    joint, others = _pairs("nwj_bound", scores, product)
    return _tuba(joint, others, 1.0)


def js_objective(scores: Tensor, product: Tensor | None = None) -> Tensor:
    """Return what critics for JS and SMILE ascend: -E_p softplus(-f) - E_q softplus(f). No estimate of I itself.

    It is that of a classifier of true against independent pairs: largest, 2 JSD(p, q) - log 4, at f = log p/q. Its
    gradient is bounded, which makes training steady where that of NWJ and DV is not.

    Parameters
    ----------
    scores : Tensor of shape (N, N) or (N,), floating point
        Scores of a batch, N >= 2, with the true pairs on the diagonal; or of true pairs alone.
    product : Tensor of shape (N, M) or (M,), optional
        Scores of independent pairs.

    Returns
    -------
    Tensor of shape ()
        At most 0.

    Raises
    ------
    InputError
        If shapes, types or devices do not fit, or a score is not finite.

    References
    ----------
    Nowozin, Cseke & Tomioka (2016), "f-GAN: training generative neural samplers using variational
    divergence minimization". Hjelm et al. (2019), "Learning deep representations by mutual information estimation and
    maximization".

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> round(float(nf.nn.js_objective(torch.zeros(4, 4))), 4)  # knows nothing: -log 4
    -1.3863
    """
    joint, others = _pairs("js_objective", scores, product)
    return -softplus(-joint).mean() - softplus(others).mean()  # NCE notes, corollary 2.2: at best 2 JS(p, q) - ln 4


def js_bound(scores: Tensor, product: Tensor | None = None) -> Tensor:
    """Return what a critic that ``js_objective`` has trained says of I: NWJ at f + 1, that is 1 + E_p f - E_q e^f.

    The optimum of the objective is f = log p/q, that of NWJ is one more: hence the shift.

    Parameters
    ----------
    scores : Tensor of shape (N, N) or (N,), floating point
        Scores of a batch, N >= 2, with the true pairs on the diagonal; or of true pairs alone.
    product : Tensor of shape (N, M) or (M,), optional
        Scores of independent pairs.

    Returns
    -------
    Tensor of shape ()
        The bound in nats; minus infinity if E_q e^f overflows.

    Raises
    ------
    InputError
        If shapes, types or devices do not fit, or a score is not finite.

    References
    ----------
    Poole et al. (2019), "On variational bounds of mutual information".

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> scores = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> bool(nf.nn.js_bound(scores) == nf.nn.nwj_bound(scores + 1))
    True
    """
    joint, others = _pairs("js_bound", scores, product)
    return _tuba(joint, others, 0.0)


def interpolated_bound(
    scores: Tensor, product: Tensor | None = None, alpha: float = 0.01, log_baseline: Tensor | float = 0.0
) -> Tensor:
    """Return a bound between InfoNCE (alpha = 1) and TUBA (alpha = 0): its baseline is a mixture of theirs.

    TUBA at a = alpha m + (1 - alpha) q(x), m the mean of e^f over K candidates of the same x. For an independent pair
    they are the K = N - 1 independent ones; for a true pair they are itself and the independent ones but one, each left
    out in turn. Small alpha: less bias, more variance. No value is above 1 + log(K / alpha), or log K at alpha = 1.

    Parameters
    ----------
    scores : Tensor of shape (N, N) or (N,), floating point
        Scores of a batch, N >= 2, with the true pairs on the diagonal; or of true pairs alone.
    product : Tensor of shape (N, M), optional
        Row i: the true x_i with M independent y; then K = M.
    alpha : float in [0, 1], default=0.01
        Share of the mean over the batch in the baseline.
    log_baseline : float or Tensor of shape () or (N,), default=0.0
        log q(x), one for all or one for each x.

    Returns
    -------
    Tensor of shape ()
        The bound in nats.

    Raises
    ------
    InputError
        If shapes, types or devices do not fit, a score is not finite, or alpha is outside [0, 1].

    References
    ----------
    Poole et al. (2019), "On variational bounds of mutual information", section 2.3 on nonlinear
    interpolation; the leave-one-out means are those of its notebook.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> scores = torch.tensor([[2.0, 0.0, 0.5], [0.0, 2.0, 1.0], [-1.0, 0.0, 1.0]])
    >>> torch.isclose(nf.nn.interpolated_bound(scores, alpha=0.0), nf.nn.tuba_bound(scores))
    tensor(True)
    """
    owner = "interpolated_bound"
    share = check_real(owner, "alpha", alpha, low=0, high=1)
    joint, others = _pairs(owner, scores, product, rows=True)
    free = _check_baseline(owner, log_baseline, joint, others) + _log(1 - share)
    n_candidates = others.shape[1]
    # (N, M): log(e^joint_i + sum over k != j of e^others_ik), from what stands before j and what stands after it: to
    # subtract e^others_ij from the sum would cancel.
    nothing = others.new_full((len(others), 1), -math.inf)
    before = torch.cat([nothing, others.logcumsumexp(dim=1)[:, :-1]], dim=1)
    after = torch.cat([others.flip(1).logcumsumexp(dim=1).flip(1)[:, 1:], nothing], dim=1)
    left = torch.logaddexp(torch.logaddexp(joint[:, None], before), after)
    among = torch.logaddexp(left + _log(share / n_candidates), free)  # (N, M)
    beside = torch.logaddexp(others.logsumexp(dim=1, keepdim=True) + _log(share / n_candidates), free)  # (N, 1)
    return 1 + (joint[:, None] - among).mean() - _log_mean_exp(others - beside).exp()


def smile_bound(scores: Tensor, product: Tensor | None = None, tau: float = 5.0) -> Tensor:
    """Return SMILE: DV with e^f of independent pairs clipped to [e^-tau, e^tau]; ``js_objective`` trains the critic.

    Clipping takes away most of the variance of DV, and with it the property of a bound: it can be above I. At tau =
    infinity it is DV.

    Parameters
    ----------
    scores : Tensor of shape (N, N) or (N,), floating point
        Scores of a batch, N >= 2, with the true pairs on the diagonal; or of true pairs alone.
    product : Tensor of shape (N, M) or (M,), optional
        Scores of independent pairs.
    tau : float > 0, default=5.0
        Where scores of independent pairs are cut.

    Returns
    -------
    Tensor of shape ()
        The estimate in nats.

    Raises
    ------
    InputError
        If shapes, types or devices do not fit, a score is not finite, or tau is not above 0.

    References
    ----------
    Song & Ermon (2020), "Understanding the limitations of variational mutual information estimators", section 4.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> joint, product = torch.tensor([6.0]), torch.tensor([9.0, 9.0])
    >>> float(nf.nn.smile_bound(joint, product)), float(nf.nn.dv_bound(joint, product))
    (1.0, -3.0)
    """
    limit = check_real("smile_bound", "tau", tau, low=0, open_low=True)
    joint, others = _pairs("smile_bound", scores, product)
    return joint.mean() - _log_mean_exp(others.clamp(-limit, limit))


def _tuba(joint: Tensor, others: Tensor, log_baseline: Tensor | float) -> Tensor:
    return 1 + (joint[:, None] - log_baseline).mean() - _log_mean_exp(others - log_baseline).exp()


def _log_mean_exp(values: Tensor) -> Tensor:
    return values.flatten().logsumexp(dim=0) - math.log(values.numel())


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _pairs(owner: str, scores: Tensor, product: Tensor | None, *, rows: bool = False) -> tuple[Tensor, Tensor]:
    """Return scores of true pairs, (N,), and of independent ones, (N, M) or (M,), in the type to compute in."""
    if product is None:  # the diagonal (N,), and the rows without it (N, N - 1)
        hint = "Pairs on the diagonal; or give scores of true pairs, and product."
        matrix = check_floats(owner, "scores", scores, (None, None))
        n, got = len(matrix), f"shape {tuple(matrix.shape)}"
        if matrix.shape[1] != n or n < 2:
            raise InputError(owner, "scores", "a square matrix of two rows or more", got, hint)
        check_finite(owner, "scores", matrix)
        matrix = matrix.to(working_dtype(matrix))
        # Read on from the first diagonal entry, each (N + 1)th number is the next one.
        others = matrix.flatten()[1:].view(n - 1, n + 1)[:, :-1].reshape(n, n - 1)
        return matrix.diagonal(), others
    joint = check_floats(owner, "scores", scores, (None,))
    flat = not rows and isinstance(product, Tensor) and product.ndim == 1
    others = check_floats(owner, "product", product, (None,) if flat else (len(joint), None))
    check_same_kind(owner, "product", others, "scores", joint)
    check_finite(owner, "scores", joint)
    check_finite(owner, "product", others)
    dtype = working_dtype(joint)
    return joint.to(dtype), others.to(dtype)


def _check_baseline(owner: str, value: Tensor | float, joint: Tensor, others: Tensor) -> Tensor:
    """Return log a as one number, or as a column (N, 1) beside the rows of ``others``."""
    if not isinstance(value, Tensor):
        return joint.new_tensor(check_real(owner, "log_baseline", value))
    if value.ndim == 0:
        baseline = check_floats(owner, "log_baseline", value, ())
    elif others.ndim == 1:
        expected, got = "a number with a product of shape (M,)", f"shape {tuple(value.shape)}"
        hint = "With a row of product for each x it may be one for each."
        raise InputError(owner, "log_baseline", expected, got, hint)
    else:
        baseline = check_floats(owner, "log_baseline", value, (len(joint),))[:, None]
    check_device(owner, "log_baseline", baseline, "scores", joint)
    check_finite(owner, "log_baseline", baseline)
    return baseline.to(joint.dtype)


# -- critics: modules that score all pairs of a batch, critic(x, y)[i, j] = f(x_i, y_j) --------------------------------


class SeparableCritic(nn.Module):
    """Scores f(x, y) = g(x) · h(y): two networks and a dot product, so a batch of N takes 2 N passes.

    Parameters
    ----------
    x_dim, y_dim : int
        Columns of x and of y.
    n_components : int, default=32
        Columns of g(x) and h(y).
    hidden : sequence of int, default=(256, 256)
        Widths of the hidden layers of either network, with ReLU after each; none makes it linear.

    Raises
    ------
    InputError
        If a number is no integer of at least 1.

    References
    ----------
    Poole et al. (2019), "On variational bounds of mutual information", section 3.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> critic = nf.nn.SeparableCritic(5, 3)
    >>> critic(torch.zeros(4, 5), torch.zeros(4, 3)).shape
    torch.Size([4, 4])
    """

    def __init__(self, x_dim: int, y_dim: int, n_components: int = 32, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        owner = "SeparableCritic"
        out = check_integer(owner, "n_components", n_components, low=1)
        widths = _check_widths(owner, hidden)
        self.of_x = _perceptron(check_integer(owner, "x_dim", x_dim, low=1), widths, out)
        self.of_y = _perceptron(check_integer(owner, "y_dim", y_dim, low=1), widths, out)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of all pairs.

        Parameters
        ----------
        x : Tensor of shape (N, x_dim)
            A batch of x.
        y : Tensor of shape (M, y_dim)
            A batch of y.

        Returns
        -------
        Tensor of shape (N, M)
        """
        g, h = self.of_x(x), self.of_y(y)
        return g @ h.T


class JointCritic(nn.Module):
    """Scores f(x, y) by one network of x and y side by side (the "concatenated" critic): N² passes for a batch of N.

    More than a separable critic of the same width can say, for more time. Memory: ``N² hidden`` numbers per layer.

    Parameters
    ----------
    x_dim, y_dim : int
        Columns of x and of y.
    hidden : sequence of int, default=(256, 256)
        Widths of the hidden layers, at least one, with ReLU after each.

    Raises
    ------
    InputError
        If a number is no integer of at least 1, or there is no hidden layer.

    References
    ----------
    Poole et al. (2019), "On variational bounds of mutual information", section 3.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> critic = nf.nn.JointCritic(5, 3)
    >>> critic(torch.zeros(4, 5), torch.zeros(4, 3)).shape
    torch.Size([4, 4])
    """

    def __init__(self, x_dim: int, y_dim: int, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        owner = "JointCritic"
        widths = _check_widths(owner, hidden)
        if not widths:
            hint = "Without one f is a sum of a function of x and one of y, and knows nothing of the pair."
            raise InputError(owner, "hidden", "of at least one layer", hidden, hint)
        # The first layer of (x, y) is a sum of one of x and one of y: it is applied to 2 N rows, not to N².
        self.of_x = nn.Linear(check_integer(owner, "x_dim", x_dim, low=1), widths[0])
        self.of_y = nn.Linear(check_integer(owner, "y_dim", y_dim, low=1), widths[0], bias=False)
        self.of_both = nn.Sequential(nn.ReLU(), _perceptron(widths[0], widths[1:], 1))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of all pairs.

        Parameters
        ----------
        x : Tensor of shape (N, x_dim)
            A batch of x.
        y : Tensor of shape (M, y_dim)
            A batch of y.

        Returns
        -------
        Tensor of shape (N, M)
        """
        scores: Tensor = self.of_both(self.of_x(x)[:, None] + self.of_y(y))
        return scores.squeeze(-1)


class BilinearCritic(nn.Module):
    """Scores f(x, y) = xᵀ W y: for vectors that are themselves made by networks, or to see what is linear.

    Parameters
    ----------
    x_dim, y_dim : int
        Columns of x and of y.

    Raises
    ------
    InputError
        If a number is no integer of at least 1.

    References
    ----------
    van den Oord, Li & Vinyals (2018), "Representation learning with contrastive predictive coding", section 2.2.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> critic = nf.nn.BilinearCritic(5, 3)
    >>> critic(torch.zeros(4, 5), torch.zeros(4, 3)).shape
    torch.Size([4, 4])
    """

    def __init__(self, x_dim: int, y_dim: int) -> None:
        super().__init__()
        rows = check_integer("BilinearCritic", "x_dim", x_dim, low=1)
        self.weight = nn.Linear(check_integer("BilinearCritic", "y_dim", y_dim, low=1), rows, bias=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of all pairs.

        Parameters
        ----------
        x : Tensor of shape (N, x_dim)
            A batch of x.
        y : Tensor of shape (M, y_dim)
            A batch of y.

        Returns
        -------
        Tensor of shape (N, M)
        """
        return x @ self.weight(y).T


CRITICS: dict[str, type[SeparableCritic | JointCritic | BilinearCritic]] = {
    "separable": SeparableCritic,
    "joint": JointCritic,
    "bilinear": BilinearCritic,
}


class Columns(nn.Module):
    """Rows of any shape as flat columns of mean 0 and standard deviation 1, as they are in the rows it is made of.

    Mutual information does not change by it, and what a network makes of the unit of a column is no matter any more.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, rows: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        flat = rows.reshape(len(rows), -1).to(dtype)
        varies = flat.amax(dim=0) > flat.amin(dim=0)
        self.register_buffer("mean", flat.mean(dim=0))
        self.register_buffer("scale", torch.where(varies, flat.std(dim=0), 1.0))

    def forward(self, rows: Tensor) -> Tensor:
        """Return (N, columns)."""
        return (rows.reshape(len(rows), -1).to(self.mean.dtype) - self.mean) / self.scale


class OnColumns(nn.Module):
    """A critic of flat, centred and scaled columns."""

    def __init__(self, critic: nn.Module, x: Columns, y: Columns) -> None:
        super().__init__()
        self.critic, self.x, self.y = critic, x, y

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of all pairs, (N, M)."""
        return self.critic(self.x(x), self.y(y))


class Baseline(nn.Module):
    """A number for each x: what a bound needs as log a(x), learned with the critic."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.network = nn.Sequential(columns, _perceptron(columns.mean.numel(), (256, 256), 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return (N,)."""
        values: Tensor = self.network(x)
        return values.squeeze(-1)


def _perceptron(n_in: int, widths: Sequence[int], n_out: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(n_in, width), nn.ReLU()]
        n_in = width
    return nn.Sequential(*layers, nn.Linear(n_in, n_out))


def _check_widths(owner: str, hidden: object) -> tuple[int, ...]:
    if not isinstance(hidden, Sequence) or isinstance(hidden, str):
        raise InputError(owner, "hidden", "a sequence of integers", hidden)
    return tuple(check_integer(owner, "hidden", width, low=1) for width in hidden)
