"""Optimisers with a proximal step: exact zeros in the T of an anchor embedding, at the cost of the batch alone.

All three share one form. With a direction u, a step size a and a diagonal metric h of the optimiser's own,

    x <- (1 - lr weight_decay) x - a u / h        everywhere, but for the first factor in T
    t <- max(t - a' penalty / h, 0)               in T besides: the proximal step in the metric h

A plain threshold under an adaptive metric has other fixed points than the objective has minima.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, cast, overload

import torch
from torch import Tensor

from nearfar._core.checks import Check, check_real
from nearfar._core.tensors import check_same_gradient, n_processes, reads_values
from nearfar._core.warn import warn_user
from nearfar.errors import InputError, NumericalError
from nearfar.tables.anchors import AnchorEmbedding, Owed, Owners, layer_of, owners
from nearfar.tables.slots import Metric, Rows, put, take

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT, StateDict


class Group(TypedDict, total=False):
    """Parameters that are trained alike, as :mod:`torch.optim` has them, and how."""

    params: list[torch.nn.Parameter]
    lr: float
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    initial: float


class State(TypedDict, total=False):
    """What an optimiser keeps of a parameter."""

    step: int
    m: Tensor
    v: Tensor
    look_again: int
    owed: Owed  # of a state that was stored: see AnchorEmbedding._owed


Starts = dict[Literal["m", "v"], float]
"""What the moments start from."""


class Step(NamedTuple):
    """One step of an optimiser in some rows: ``x - size * direction / metric``."""

    direction: Tensor
    metric: Tensor
    size: float
    threshold: float
    """``a'``: how far a penalty of 1 lowers an entry of metric 1. The size, less its correction of the first steps."""


def _check_betas(owner: str, name: str, betas: object) -> None:
    for beta in cast("tuple[float, float]", betas):
        check_real(owner, name, beta, low=0, high=1, open_high=True)


_CHECKS: dict[str, Check] = dict.fromkeys(("lr", "eps"), partial(check_real, low=0, open_low=True))
_CHECKS |= {**dict.fromkeys(("weight_decay", "initial"), partial(check_real, low=0)), "betas": _check_betas}


class ProximalOptimizer(torch.optim.Optimizer):
    """Base of the optimisers: gradient descent, or, where there are ``betas``, a mean of gradients over sqrt(v) + eps.

    A subclass then says how v follows the squares of gradients.
    """

    def state_dict(self) -> StateDict:
        """Return the state, with what rows of T owe: training goes on from it to the same bits.

        Returns
        -------
        dict
        """
        found = super().state_dict()
        for number, p in enumerate(p for group in self.param_groups for p in group["params"]):
            layer = layer_of(p)
            owed = None if layer is None else layer._owed()
            if owed is not None and number in found["state"]:
                found["state"][number] = {**found["state"][number], "owed": owed}
        return found

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take a state.

        Parameters
        ----------
        state_dict : dict
            What ``state_dict`` returned. Load that of the model before it.
        """
        kept = {number: state["owed"] for number, state in state_dict["state"].items() if "owed" in state}
        plain = {n: {k: part for k, part in state.items() if k != "owed"} for n, state in state_dict["state"].items()}
        super().load_state_dict({**state_dict, "state": plain})
        for number, p in enumerate(p for group in self.param_groups for p in group["params"]):
            if number in kept:  # as it is: torch would make everything as the parameters are
                self.state[p]["owed"] = kept[number]

    def add_param_group(self, param_group: dict[str, object]) -> None:
        """Add parameters that are trained alike.

        Parameters
        ----------
        param_group : dict
            ``"params"``, and what differs from the defaults; ``"name"`` is free.

        Raises
        ------
        InputError
            An option that this optimiser has not, or one out of its range; a complex parameter.
        """
        owner, known = type(self).__name__, {"params", "param_names", "name", *self.defaults}
        for name in param_group.keys() - known:
            if param_group[name]:  # what is off in other optimisers is off here
                options = ", ".join(self.defaults)
                raise InputError(owner, name, f"left out of a group; its options are {options}", param_group[name])
        for name in _CHECKS.keys() & self.defaults.keys():
            _CHECKS[name](owner, name, param_group.get(name, self.defaults[name]))
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.is_complex():
                raise InputError(owner, "params", "real", str(p.dtype))

    def _second_moment(self, v: Tensor, square: Tensor, beta: float) -> None:
        """Update v in place."""
        raise NotImplementedError

    def _starts(self, group: Group) -> Starts:
        """Return by name what the state of an entry starts from."""
        return {"m": 0.0, "v": group.get("initial", 0.0)} if "betas" in group else {}

    def _step_in(self, state: State, rows: Rows, slope: Tensor, group: Group) -> Step:
        """Update the state in some rows and return the step there."""
        if "betas" not in group:
            return Step(slope, slope.new_ones(()), group["lr"], group["lr"])
        beta1, beta2 = group["betas"]
        m, v = take(state["m"], rows), take(state["v"], rows)  # of a slice views, otherwise copies
        m.lerp_(slope, 1 - beta1)
        self._second_moment(v, slope.square(), beta2)
        if not isinstance(rows, slice):
            put(state["m"], rows, m)
            put(state["v"], rows, v)
        threshold = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5
        return Step(m, v.sqrt().add_(group["eps"]), threshold / (1 - beta1 ** state["step"]), threshold)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one step in all parameters that have a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss anew, and its gradients.

        Returns
        -------
        Tensor or None
            What ``closure`` returned.

        Raises
        ------
        InputError
            Gradients of T that differ between processes: the model is not in ``DistributedDataParallel``;
            ``weight_decay`` in the group of T.
        NumericalError
            A gradient of T is NaN or infinite, as after a loss that is; nothing has been changed then.

        Warns
        -----
        NearfarWarning
            All of T is 0. It names the step: an optimiser knows nothing of epochs.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = cast("list[Group]", self.param_groups)
        trained = [(p, group) for group in groups for p in group["params"] if p.grad is not None]
        known = owners()
        layers = [layer_of(p, known) for p, _ in trained]
        for (p, group), layer in zip(trained, layers, strict=True):
            if layer is not None:
                self._check_mixtures(p, group, layer, known)
        for (p, group), layer in zip(trained, layers, strict=True):
            state = self.state[p]
            if not state:
                state["step"] = 0
                for name, start in self._starts(group).items():
                    state[name] = torch.full_like(p, start, memory_format=torch.contiguous_format)
            rows, slope = _gradient_rows(p, known)
            if layer is not None and not group["lr"] and layer._starts_at_random and not slope.any():
                continue  # tools make such a step to see what an optimiser keeps: nothing has begun
            if layer is None:
                state["step"] += 1
                values = take(p, rows)
                if group["weight_decay"]:
                    values = values * (1 - group["lr"] * group["weight_decay"])
                put(p, rows, _moved(values, self._step_in(state, rows, slope, group)).to(p.dtype))
            else:
                self._step_mixtures(state, rows, slope, group, layer)
        return loss

    def _step_mixtures(self, state: State, rows: Rows, slope: Tensor, group: Group, layer: AnchorEmbedding) -> None:
        """Step in the rows of T that the batch touched; the layer shrinks the others when it reads them."""
        starts = self._starts(group)
        # The metric in which rows shrink that the batch does not touch.
        metric = Metric(state["v"], group["eps"], starts["v"]) if starts else Metric()
        values, frozen = layer._begin_step(rows, metric, state.pop("owed", None))
        state["step"] += 1
        moments = [] if frozen is None else [state[name] for name in starts]
        before = [take(moment, rows).clone() for moment in moments]
        step = self._step_in(state, rows, slope, group)
        # ANT eqs. (2), (3): T <- max(T - η g - η λ2, 0)
        new = layer._proximal_step(rows, _moved(values, step), frozen, step.threshold, step.metric)
        if frozen is not None:
            for moment, old in zip(moments, before, strict=True):
                put(moment, rows, torch.where(frozen, old, take(moment, rows)))
        assigned = [(who, slots) for who, slots in layer._assign_slots() if len(who)]
        for who, slots in assigned:
            for name, start in starts.items():
                state[name][who, slots] = start
        all_zero = new.numel() and reads_values(new) and not assigned and not new[0].any() and not new.any()
        if all_zero and state["step"] >= state.get("look_again", 0):  # it takes long to count all of T
            state["look_again"] = 2 * state["step"]
            if layer.nnz == 0:
                warn_user(
                    f"{type(self).__name__}: all of T is 0 after step {state['step']}: every vector is 0, and the "
                    f"anchors learn nothing. Lower penalty, now {layer.penalty:g}, or lr."
                )

    def _check_mixtures(self, p: Tensor, group: Group, layer: AnchorEmbedding, known: Owners) -> None:
        """Refuse what no step in T can start from."""
        if hasattr(p, "placements"):  # rows owe shrinkage of which a process knows all, or none
            hint = "Leave the table out: fully_shard(model, ignored_params=set(table.parameters()))."
            raise InputError("AnchorEmbedding", "T", "whole in each process", "a part of it, by fully_shard", hint)
        grad = p.grad
        assert grad is not None
        values = grad._values() if grad.is_sparse else grad
        # A sum is quick, and may overflow.
        if reads_values(values) and not math.isfinite(values.sum()) and not values.isfinite().all():
            step = self.state[p].get("step", 0) + 1 if p in self.state else 1
            raise NumericalError(
                f"{type(self).__name__}: the gradient of T is NaN or infinite at step {step}; nothing was changed. "
                "Is the loss finite? A smaller lr helps where training has run away."
            )
        if n_processes() > 1:
            rows, slope = _gradient_rows(p, known)
            check_same_gradient(type(self).__name__, rows, slope, take(layer.columns, rows))
        if group["weight_decay"]:
            hint = "Its entries have their own price, penalty. Give it a group of its own."
            raise InputError(type(self).__name__, "weight_decay", "0 for T", group["weight_decay"], hint)


def _gradient_rows(p: Tensor, known: Owners) -> tuple[Rows, Tensor]:
    """Return which rows of a parameter are trained, and their gradient.

    Of anchors these are the ones that are switched on; of a T with dense gradients, those with a gradient.
    """
    grad = p.grad
    assert grad is not None
    if not grad.is_sparse:
        layer = known.get(id(p))
        rows: Rows = slice(layer.n_active) if layer is not None and layer.anchors is p else slice(None)
        if layer is not None and layer.values is p:
            met = grad.any(1)
            whole = reads_values(met) and (met.any() if layer.sparse else met.all())
            rows = slice(None) if whole else torch.nonzero(met)[:, 0]
        return rows, take(grad, rows)
    found, slope = grad._indices()[0], grad._values()
    if grad.sparse_dim() == 1 and reads_values(found) and bool((found[1:] > found[:-1]).all()):
        return found, slope  # as TakeRows makes it: torch has forgotten
    grad = grad.coalesce()
    return grad.indices()[0], grad.values()


def _moved(values: Tensor, step: Step) -> Tensor:
    return values - step.size / step.metric * step.direction


class ProxSGD(ProximalOptimizer):
    """Stochastic gradient descent with a proximal step: ``t <- max(t - lr (g + penalty), 0)``.

    Rows that no batch touches shrink too: their shrinkage is applied, exactly, when they are next read.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, as for ``torch.optim.SGD``. Those that are no T of an
        :class:`AnchorEmbedding` are trained without a proximal step; their gradients may be sparse too.
    lr : float, > 0
        Step size.
    weight_decay : float, >= 0, default=0
        How much parameters that are no T shrink, as in AdamW: by the factor ``1 - lr weight_decay``. With sparse
        gradients only the rows that have one.

    Raises
    ------
    InputError
        ``lr`` that is not positive.
    NumericalError
        In ``step``, at a gradient of T that is not finite.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", algorithm 1.
    Duchi & Singer (2009), "Efficient online and batch learning using forward backward splitting", section 5.1.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> layer = nf.nn.AnchorEmbedding(100, 4, n_anchors=3, penalty=0.5)
    >>> optimizer = nf.nn.ProxSGD(layer.parameters(), lr=0.001)
    >>> for _ in range(40):
    ...     optimizer.zero_grad()
    ...     (layer(torch.arange(100)) - torch.arange(4)).square().sum().backward()
    ...     optimizer.step()
    >>> layer.nnz < 300  # what is not worth its price is 0
    True
    """

    def __init__(self, params: ParamsT, lr: float, *, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})


class ProxAdam(ProximalOptimizer):
    """Adam with a proximal step in its own metric: ``t <- max(t - a' penalty / (sqrt(v) + eps), 0)``.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, as for ``torch.optim.Adam``. Those that are no T of an
        :class:`AnchorEmbedding` are trained by Adam; where their gradients are sparse, as by ``SparseAdam``.
    lr : float, > 0, default=0.001
        Step size.
    betas : tuple of float in [0, 1), default=(0.9, 0.999)
        Rates of the two moving averages.
    eps : float, > 0, default=1e-8
        Added to the root of the second moment, before it is corrected for its start from 0.
    weight_decay : float, >= 0, default=0
        As of :class:`ProxSGD`.

    Raises
    ------
    InputError
        An argument out of its range.
    NumericalError
        In ``step``, at a gradient of T that is not finite.

    Notes
    -----
    Rows of T that no batch touches: their moments stay as they are, as in ``SparseAdam``, and with them their metric.
    In this metric they shrink at every step; the shrinkage is applied, exactly, when they are next read. (Dense Adam
    would go on moving them by old gradients.) An entry that never had a gradient has no metric and does not shrink:
    rows that no batch meets keep the values that they were drawn with. They do not count in ``nnz``, and their vectors
    are 0 in an export. The threshold leaves out Adam's correction of m, which belongs to the gradient and not to the
    metric.

    References
    ----------
    Kingma & Ba (2015), "Adam: a method for stochastic optimization", algorithm 1.
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.2.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> layer = nf.nn.AnchorEmbedding(100, 4, n_anchors=3, penalty=0.5)
    >>> optimizer = nf.nn.ProxAdam(layer.parameters(), lr=0.05)
    >>> for _ in range(40):
    ...     optimizer.zero_grad()
    ...     (layer(torch.arange(100)) - torch.arange(4)).square().sum().backward()
    ...     optimizer.step()
    >>> layer.nnz < 300
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _second_moment(self, v: Tensor, square: Tensor, beta: float) -> None:
        v.lerp_(square, 1 - beta)


class ProxYogi(ProximalOptimizer):
    """Yogi with a proximal step in its own metric: Adam whose second moment moves by steps of bounded size.

    ``v <- v - (1 - beta2) sign(v - g^2) g^2``. The optimiser of the paper's experiments.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, as for :class:`ProxAdam`.
    lr : float, > 0, default=0.01
        Step size.
    betas : tuple of float in [0, 1), default=(0.9, 0.999)
        Rates of the two averages.
    eps : float, > 0, default=0.001
        Added to the root of the second moment.
    initial : float, >= 0, default=1e-6
        What second moments start from.
    weight_decay : float, >= 0, default=0
        As of :class:`ProxSGD`.

    Raises
    ------
    InputError
        An argument out of its range.
    NumericalError
        In ``step``, at a gradient of T that is not finite.

    Notes
    -----
    Rows of T that no batch touches are treated as by :class:`ProxAdam`.

    References
    ----------
    Zaheer et al. (2018), "Adaptive methods for nonconvex optimization", algorithm 2.
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.2.

    Examples
    --------
    >>> import nearfar as nf
    >>> layer = nf.nn.AnchorEmbedding(100, 4, n_anchors=3)
    >>> nf.nn.ProxYogi(layer.parameters()).defaults["lr"]
    0.01
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-3,
        initial: float = 1e-6,
        *,
        weight_decay: float = 0.0,
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "initial": initial, "weight_decay": weight_decay}
        super().__init__(params, options)

    def _second_moment(self, v: Tensor, square: Tensor, beta: float) -> None:
        v.sub_((1 - beta) * torch.sign(v - square) * square)
