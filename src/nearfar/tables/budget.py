"""A budget for anchor embeddings in the place of a price: T becomes sparse until the tables are small enough.

The penalty that gives a certain size depends on the loss, the optimiser and its rate. So it is not chosen but found,
while the model is trained. From ``start`` to ``end`` of all steps the size is to fall from s to the budget b,

    target = s^(1 - u) b^u,    u from 0 to 1,

and the penalty of all layers is multiplied by the square of size / target, at most by 2, at least by 1 / 2. Then the
smallest entries that are still too many become 0, zeros stay 0, and the others cost nothing until the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

import numpy as np
import torch

from nearfar._core.checks import check_integer, check_real
from nearfar.embedding.mixtures import unsigned_dtype
from nearfar.errors import InputError
from nearfar.tables.anchors import AnchorEmbedding
from nearfar.tables.nbant import check_layers

_CHECKS = 100  # of the size, at most: each reads all of T
_FASTEST = 2.0  # change of the penalty at once


class Check(TypedDict):
    """The size at a step, what it was to be, and the penalty of the first table after it."""

    step: int
    size: int
    target: float
    penalty: float


BudgetState = TypedDict(
    "BudgetState", {"step": int, "from": int, "done": bool, "penalties": list[float], "history": list[Check]}
)
"""Where a search is."""


class ParameterBudget:
    """Brings anchor embeddings to a given size while they are trained: a scheduler that finds the penalty.

    Call ``step`` as often as you say by ``n_steps``: after each batch, or after each epoch.

    Parameters
    ----------
    layers : AnchorEmbedding or iterable of AnchorEmbedding
        The tables of the model, which share the budget.
    n_steps : int, >= 1
        How often ``step`` will be called in the whole training.
    n_parameters : int, optional
        Most parameters of all tables together, K d + nnz each.
    nbytes : int, optional
        Most bytes of all exported tables together, as ``layer.export().nbytes`` counts them: in the place of
        ``n_parameters``.
    optimizer : ProxSGD, ProxAdam or ProxYogi, optional
        Its state is dropped once the size is reached: the moments are those of entries under a price.
    start, end : float, default=(0.3, 0.6)
        Parts of all steps at which the penalty begins to change, and at which the size is reached.

    Attributes
    ----------
    layers : tuple of AnchorEmbedding
        The tables.
    done : bool
        Whether the size is reached and zeros are fixed. Keep no earlier state of the model as the best.
    history : list of dict
        One for each time that the size was read: ``step``, ``size``, ``target``, and the ``penalty`` of the first table
        after it.

    Raises
    ------
    InputError
        A budget that is less than the anchors alone need, with the least that is possible; or an argument that cannot
        be used.

    See Also
    --------
    NBANT : searches for the number of anchors.

    Notes
    -----
    The penalties that the layers have are where the search starts; any will do. Choose K so that anchors are about a
    quarter of the budget or less; more slots in a row, ``nnz_per_row``, than it will keep on average.

    The learning rate is yours: the last part is a training by itself, and a rate that falls to a tenth or less of the
    first one suits it. In several processes make every step in all of them.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", for the penalty;
    Zhu & Gupta (2018), "To prune, or not to prune: exploring the efficacy of pruning for model compression", for a
    size that falls gradually; Meinshausen (2007), "Relaxed lasso", for the last part. The rule is this library's own.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> _ = torch.manual_seed(0)
    >>> goal = torch.randn(10, 32)[torch.arange(2_000) % 10]
    >>> table = nf.nn.AnchorEmbedding(2_000, 32, n_anchors=10)
    >>> optimizer = nf.nn.ProxAdam(table.parameters(), lr=0.03)
    >>> budget = nf.nn.ParameterBudget(table, n_steps=300, n_parameters=5_000, optimizer=optimizer)
    >>> for _ in range(300):
    ...     ids = torch.randint(2_000, (256,))
    ...     optimizer.zero_grad()
    ...     loss = (table(ids) - goal[ids]).square().mean()
    ...     loss.backward()
    ...     optimizer.step()
    ...     _ = budget.step()
    >>> table.n_parameters <= 5_000, bool(loss < 0.2)
    (True, True)
    """

    def __init__(
        self,
        layers: AnchorEmbedding | Iterable[AnchorEmbedding],
        *,
        n_steps: int,
        n_parameters: int | None = None,
        nbytes: int | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        start: float = 0.3,
        end: float = 0.6,
    ) -> None:
        owner = "ParameterBudget"
        self.layers = check_layers(owner, layers)
        if (n_parameters is None) == (nbytes is None):
            got = "neither" if n_parameters is None else "both"
            raise InputError(owner, "n_parameters", "given, or nbytes, and not both", got)
        self._unit = "n_parameters" if nbytes is None else "nbytes"
        self.budget = check_integer(owner, self._unit, n_parameters if nbytes is None else nbytes, low=1)
        least = sum(self._fixed(layer) for layer in self.layers)
        if self.budget < least:
            hint = "The anchors alone need as much: make layers of fewer anchors, or of shorter ones."
            raise InputError(owner, self._unit, f"at least {least}", self.budget, hint)
        if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
            raise InputError(owner, "optimizer", "an optimiser", type(optimizer).__name__)
        self._optimizer = optimizer
        n_steps = check_integer(owner, "n_steps", n_steps, low=1)
        start = check_real(owner, "start", start, low=0, high=1)
        end = check_real(owner, "end", end, low=start, high=1)
        self._first, self._last = int(start * n_steps), max(1, int(end * n_steps))
        self._every = max(1, (self._last - self._first) // _CHECKS)
        self._step, self._from = 0, 0
        self.done = False
        self.history: list[Check] = []

    @property
    def size(self) -> int:
        """Parameters or bytes of all tables now, whichever the budget is of."""
        return sum(self._fixed(layer) + self._each(layer) * layer.nnz for layer in self.layers)

    def step(self) -> bool:
        """Count a step, and set the penalties for the next ones.

        Returns
        -------
        bool
            Whether the size has been reached in this step: the time to make another optimiser, if you wish to.
        """
        self._step += 1
        if self.done or self._step < self._first:
            return False
        if self._step >= self._last:
            self._fix()
            return True
        if (self._step - self._first) % self._every == 0:
            size = self.size
            self._from = self._from or max(size, self.budget)
            part = (self._step - self._first + self._every) / (self._last - self._first)
            target = self._from * (self.budget / self._from) ** min(part, 1.0)
            change = min(max((size / target) ** 2, 1 / _FASTEST), _FASTEST)
            for layer in self.layers:
                layer.penalty *= change
            self._record(size, target)
        return False

    def state_dict(self) -> BudgetState:
        """Return where the search is, as numbers and lists alone.

        Returns
        -------
        dict
        """
        penalties = [layer.penalty for layer in self.layers]
        history = [record.copy() for record in self.history]
        return {"step": self._step, "from": self._from, "done": self.done, "penalties": penalties, "history": history}

    def load_state_dict(self, state: BudgetState) -> None:
        """Go on where a search was.

        Parameters
        ----------
        state : dict
            What ``state_dict`` returned, for as many tables.

        Raises
        ------
        InputError
            It is something else.
        """
        owner, names = "ParameterBudget.load_state_dict", {"step", "from", "done", "penalties", "history"}
        if not isinstance(state, dict) or set(state) != names or len(state["penalties"]) != len(self.layers):
            raise InputError(owner, "state", f"that of a budget of {len(self.layers)} table(s)", state)
        self._step, self._from, self.done = state["step"], state["from"], state["done"]
        self.history = [record.copy() for record in state["history"]]
        for layer, penalty in zip(self.layers, state["penalties"], strict=True):
            layer.penalty = check_real(owner, "penalties", penalty, low=0)

    def _fixed(self, layer: AnchorEmbedding) -> int:
        """Return what a table needs without an entry."""
        numbers = layer.n_active * layer.embedding_dim
        return numbers if self._unit == "n_parameters" else 4 * (numbers + layer.num_embeddings + 1)

    def _each(self, layer: AnchorEmbedding) -> int:
        """Return what an entry needs."""
        return 1 if self._unit == "n_parameters" else 4 + unsigned_dtype(layer.n_active - 1).itemsize

    def _record(self, size: int, target: float) -> None:
        penalty = self.layers[0].penalty
        self.history.append({"step": self._step, "size": size, "target": target, "penalty": penalty})

    @torch.no_grad()
    def _fix(self) -> None:
        """Set the entries that are too many to 0, those that add the shortest vectors, and fix all zeros."""
        size = self.size
        left = self.budget - sum(self._fixed(layer) for layer in self.layers)
        parts, each = [], []
        for layer in self.layers:
            layer.settle()
            lengths = layer.anchors.norm(dim=1)[layer.columns.long()] * (layer.columns < layer.n_active)
            shares = (layer.values * lengths).masked_fill_(layer.unmet[:, None], 0)
            layer.values.masked_fill_(layer.unmet[:, None], 0)
            parts.append(shares.flatten().cpu().double().numpy())
            each.append(np.full(shares.numel(), self._each(layer)))
        shares, prices = np.concatenate(parts), np.concatenate(each)
        order = np.argsort(-shares, kind="stable")
        kept = np.zeros(len(shares), bool)
        kept[order[np.cumsum(prices[order]) <= left]] = True
        start = 0
        for layer in self.layers:
            stop = start + layer.values.numel()
            mask = torch.from_numpy(kept[start:stop]).to(layer.values.device).reshape(layer.values.shape)
            layer.values.masked_fill_(~mask & (layer.columns < layer.n_active), 0)
            layer.zeros_fixed = True
            start = stop
        if self._optimizer is not None:
            self._optimizer.state.clear()
        self.done = True
        self._record(size, float(self.budget))
