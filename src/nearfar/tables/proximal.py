"""Optimisers with a proximal step: exact zeros in the T of an anchor embedding, at the cost of the batch alone.

All three share one form. With a direction u, a step size a and a diagonal metric h of the optimiser's own,

    x <- x - a u / h                              everywhere
    t <- max(t - a' penalty / h, 0)               in T besides: the proximal step in the metric h

A plain threshold under an adaptive metric has other fixed points than the objective has minima.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nearfar._core.checks import check_real
from nearfar.contrastive.in_batch import check_same_gradient, n_processes
from nearfar.errors import InputError, NearfarWarning, NumericalError
from nearfar.tables.slots import AnchorTable, Rows, put, table_of, take, trained_rows


class Move(NamedTuple):
    """One step of an optimiser in some rows: ``x - size * direction / metric``."""

    direction: Tensor
    metric: Tensor
    size: float
    threshold: float
    """``a'``: how far a penalty of 1 lowers an entry of metric 1. The size, less its correction of the first steps."""


class ProximalOptimizer(torch.optim.Optimizer):
    """Base of the optimisers: rows, debts and the proximal step; a subclass knows direction and metric."""

    def __init__(self, params: Any, **defaults: Any) -> None:
        owner = type(self).__name__
        check_real(owner, "lr", defaults["lr"], low=0, open_low=True)
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.is_complex():
                    raise InputError(owner, "params", "real", str(p.dtype))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
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
            Gradients of T that differ between processes: the model is not in ``DistributedDataParallel``.
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
        waiting = [(p, group) for group in self.param_groups for p in group["params"] if p.grad is not None]
        layers = [table_of(p) for p, _ in waiting]
        for (p, _), layer in zip(waiting, layers, strict=True):
            if layer is not None:
                self._check_gradient(p)
                if n_processes() > 1:
                    rows, slope = _rows_of(p)
                    check_same_gradient(type(self).__name__, rows, slope, take(layer.columns, rows))
        for (p, group), layer in zip(waiting, layers, strict=True):
            self._update(p, group, layer)
        return loss

    # -- of a subclass -------------------------------------------------------------------------------------------

    def _starts(self, group: dict[str, Any]) -> dict[str, float]:
        """Return by name what the state of an entry starts from."""
        raise NotImplementedError

    def _move(self, state: dict[str, Any], rows: Rows, slope: Tensor, group: dict[str, Any]) -> Move:
        """Update the state in some rows and return the step there."""
        raise NotImplementedError

    def _metric(self, p: Tensor, group: dict[str, Any], rows: Rows) -> Tensor:
        """Return the metric of rows that the batch did not touch; infinite where nothing is known of it."""
        raise NotImplementedError

    # -- for all -------------------------------------------------------------------------------------------------

    def _update(self, p: Tensor, group: dict[str, Any], layer: AnchorTable | None) -> None:
        state = self.state[p]
        if not state:
            state["step"] = 0
            for name, start in self._starts(group).items():
                state[name] = torch.full_like(p, start, memory_format=torch.contiguous_format)
        rows, slope = _rows_of(p)
        debt = None if layer is None else layer._debt
        if layer is not None and debt is not None and getattr(debt.metric, "func", None) != self._metric:
            layer.settle()  # what another optimiser left
            debt.begin(len(p), p.device, partial(self._metric, p, group))
        state["step"] += 1
        found = take(p, rows) if layer is None else layer._read_again(rows)
        off = None if layer is None else layer._off(rows)
        parts = () if off is None else filter(torch.is_tensor, state.values())
        kept = [(part, take(part, rows).clone()) for part in parts]  # of slots that are not trained
        move = self._move(state, rows, slope, group)
        new = found - move.size / move.metric * move.direction
        if layer is not None and debt is not None:
            threshold = move.threshold * layer._price
            shrinkage, free = threshold / move.metric, layer._free_slots(rows)
            new.sub_(shrinkage if free is None else shrinkage * ~free).clamp_(min=0)
            debt.total += threshold
            assert debt.paid is not None
            if isinstance(rows, slice):
                debt.paid.fill_(debt.total)
            else:
                debt.paid.index_fill_(0, rows, debt.total)
        new = new.to(p.dtype)
        if off is None:
            put(p, rows, new)
        else:
            put(p, rows, torch.where(off, take(p, rows), new.masked_fill_(off, 0)))
            for part, before in kept:
                put(part, rows, torch.where(off, before, take(part, rows)))
        if layer is not None:
            self._after(p, group, layer, new)

    def _after(self, p: Tensor, group: dict[str, Any], layer: AnchorTable, new: Tensor) -> None:
        """Let freed slots go to other anchors, and look whether anything is left of T."""
        state = self.state[p]
        granted = [(rows, slots) for rows, slots in layer._grant() if len(rows)]
        for rows, slots in granted:
            for name, start in self._starts(group).items():
                state[name][rows, slots] = start
        layer._accept()
        gone = new.numel() and not granted and not new[0].any() and not new.any()
        if gone and state["step"] >= state.get("look_again", 0):
            state["look_again"] = 2 * state["step"]  # counting all of T is dear: ever more rarely
            if layer.nnz == 0:
                text = (
                    f"{type(self).__name__}: all of T is 0 after step {state['step']}: every vector is 0, and the "
                    f"anchors learn nothing. Lower penalty, now {layer.penalty:g}, or lr."
                )
                warnings.warn(text, NearfarWarning, stacklevel=5)

    def _check_gradient(self, p: Tensor) -> None:
        grad = p.grad
        assert grad is not None
        values = grad._values() if grad.is_sparse else grad
        if not math.isfinite(values.sum()) and not values.isfinite().all():  # a sum is quick, and may overflow
            step = self.state[p].get("step", 0) + 1 if p in self.state else 1
            raise NumericalError(
                f"{type(self).__name__}: the gradient of T is NaN or infinite at step {step}; nothing was changed. "
                "Is the loss finite? A smaller lr helps where training has run away."
            )


def _rows_of(p: Tensor) -> tuple[Rows, Tensor]:
    grad: Any = p.grad
    if not grad.is_sparse:
        rows = trained_rows(p)
        return rows, take(grad, rows)
    rows, slope = grad._indices()[0], grad._values()
    if grad.sparse_dim() == 1 and bool((rows[1:] > rows[:-1]).all()):  # as TakeRows makes it: torch has forgotten
        return rows, slope
    grad = grad.coalesce()
    return grad.indices()[0], grad.values()


def _moved(state: Tensor, rows: Rows, change: Callable[[Tensor], Any]) -> Tensor:
    """Apply a change in place to some rows of a state; return these rows."""
    part = take(state, rows)  # of a slice: a view
    change(part)
    if not isinstance(rows, slice):
        put(state, rows, part)
    return part


class ProxSGD(ProximalOptimizer):
    """Stochastic gradient descent with a proximal step: ``t <- max(t - lr (g + penalty), 0)``.

    Rows that no batch touches shrink all the same: what they owe is taken off, exactly, when they are next looked at.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, as for ``torch.optim.SGD``. Those that are no T of an
        :class:`AnchorEmbedding` are trained without a proximal step; their gradients may be sparse too.
    lr : float, > 0
        Step size.

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
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (layer(torch.arange(100)) - torch.arange(4)).square().sum().backward()
    ...     optimizer.step()
    >>> layer.nnz < 300  # what is not worth its price is 0
    True
    """

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr=lr)

    def _starts(self, _group: dict[str, Any]) -> dict[str, float]:
        return {}

    def _move(self, _state: dict[str, Any], _rows: Rows, slope: Tensor, group: dict[str, Any]) -> Move:
        return Move(slope, slope.new_ones(()), group["lr"], group["lr"])

    def _metric(self, p: Tensor, _group: dict[str, Any], _rows: Rows) -> Tensor:
        return p.new_ones(())


class _Adaptive(ProximalOptimizer):
    """Adam and Yogi: a mean of gradients m over the root of a second moment v."""

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], eps: float, **more: float) -> None:
        owner = type(self).__name__
        for beta in betas:
            check_real(owner, "betas", beta, low=0, high=1, open_high=True)
        check_real(owner, "eps", eps, low=0, open_low=True)
        super().__init__(params, lr=lr, betas=betas, eps=eps, **more)

    def _second_moment(self, v: Tensor, square: Tensor, beta: float) -> None:
        raise NotImplementedError

    def _move(self, state: dict[str, Any], rows: Rows, slope: Tensor, group: dict[str, Any]) -> Move:
        beta1, beta2 = group["betas"]
        m = _moved(state["m"], rows, lambda m: m.lerp_(slope, 1 - beta1))
        v = _moved(state["v"], rows, lambda v: self._second_moment(v, slope.square(), beta2))
        threshold = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5
        return Move(m, v.sqrt().add_(group["eps"]), threshold / (1 - beta1 ** state["step"]), threshold)

    def _metric(self, p: Tensor, group: dict[str, Any], rows: Rows) -> Tensor:
        v = take(self.state[p]["v"], rows)
        unknown = v == self._starts(group)["v"]
        metric: Tensor = v.sqrt().add_(group["eps"]).masked_fill_(unknown, torch.inf)
        return metric


class ProxAdam(_Adaptive):
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

    Raises
    ------
    InputError
        An argument out of its range.
    NumericalError
        In ``step``, at a gradient of T that is not finite.

    Notes
    -----
    Rows of T that no batch touches: their moments stay as they are, as in ``SparseAdam``, and with them their metric.
    In this metric they owe the threshold of every step, and it is taken off, exactly, when they are next looked at.
    (Dense Adam would go on moving them by old gradients.) An entry that never had a gradient has no metric, and owes
    nothing. The threshold leaves out Adam's correction of m, which belongs to the gradient and not to the metric.

    References
    ----------
    Kingma & Ba (2015), "Adam: a method for stochastic optimization", algorithm 1.
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.2.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> layer = nf.nn.AnchorEmbedding(100, 4, n_anchors=3, penalty=0.5)
    >>> optimizer = nf.nn.ProxAdam(layer.parameters(), lr=0.05)
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (layer(torch.arange(100)) - torch.arange(4)).square().sum().backward()
    ...     optimizer.step()
    >>> layer.nnz < 300
    True
    """

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        super().__init__(params, lr, betas, eps)

    def _starts(self, _group: dict[str, Any]) -> dict[str, float]:
        return {"m": 0.0, "v": 0.0}

    def _second_moment(self, v: Tensor, square: Tensor, beta: float) -> None:
        v.lerp_(square, 1 - beta)


class ProxYogi(_Adaptive):
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
        params: Any,
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-3,
        initial: float = 1e-6,
    ) -> None:
        check_real("ProxYogi", "initial", initial, low=0)
        super().__init__(params, lr, betas, eps, initial=initial)

    def _starts(self, group: dict[str, Any]) -> dict[str, float]:
        return {"m": 0.0, "v": group["initial"]}

    def _second_moment(self, v: Tensor, square: Tensor, beta: float) -> None:
        v.sub_((1 - beta) * torch.sign(v - square) * square)
