"""How large tables of anchors become, found while a model is trained: the number of anchors, or a size.

*The number of anchors* grows, stays or shrinks after each epoch (:class:`NBANT`). All anchors that there may ever be
are allocated from the start, and a prefix of them is active: no parameter changes its size under an optimiser, and an
anchor that is switched off comes back as it was.

*A budget in the place of a price* (:class:`ParameterBudget`): T becomes sparse until the tables are small enough. The
penalty that gives a certain size depends on the loss, the optimiser and its rate. So it is not chosen but found, while
the model is trained. From ``start`` to ``end`` of all steps the size is to fall from s to the budget b,

    target = s^(1 - u) b^u,    u from 0 to 1,

and the penalty of all layers is multiplied by the square of size / target, at most by 2, at least by 1 / 2. Then the
smallest entries that are still too many become 0, zeros stay 0, and the others cost nothing until the end.
"""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from nearfar._core.checks import check_flag, check_integer, check_real
from nearfar._core.tensors import all_gather, n_processes
from nearfar._core.warn import warn_user
from nearfar.embedding.packed import unsigned_dtype
from nearfar.errors import InputError, NumericalError, counted
from nearfar.tables.anchors import AnchorEmbedding

_CHECKS = 100  # of the size, at most: each reads all of T
_FASTEST = 2.0  # change of the penalty at once


def nbant_objective(loss: float, nnz: int, n_anchors: int, *, penalty: float, anchor_price: float) -> float:
    """Return what a model with anchor embeddings is judged by: ``loss + penalty nnz + (anchor_price - penalty) K``.

    Parameters
    ----------
    loss : float
        Loss on validation data, a mean over examples: the squared error, or the logarithm of the perplexity.
    nnz : int, >= 0
        Number of positive entries of T, of all tables together.
    n_anchors : int, >= 1
        Number of anchors K, of all tables together.
    penalty : float, >= 0
        Price of an entry of T, lambda 2.
    anchor_price : float, > 0
        Price of an anchor, lambda 1; at least ``penalty``, since its first entry is in it.

    Returns
    -------
    float

    Raises
    ------
    InputError
        An argument out of its range, or a loss that is not finite.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", eq. 34 and table 14.

    Examples
    --------
    >>> import math, nearfar as nf
    >>> value = nf.nn.nbant_objective(math.log(79.4), 214_000, 1_000, penalty=1e-6, anchor_price=2e-5)
    >>> f"{value:.2f}"  # as printed in table 14
    '4.61'
    """
    owner = "nbant_objective"
    loss = check_real(owner, "loss", loss)
    nnz = check_integer(owner, "nnz", nnz, low=0)
    n_anchors = check_integer(owner, "n_anchors", n_anchors, low=1)
    penalty = check_real(owner, "penalty", penalty, low=0)
    anchor_price = _check_price(owner, anchor_price, penalty)
    return loss + penalty * nnz + (anchor_price - penalty) * n_anchors  # ANT eq. (34): loss + λ2 nnz(T) + (λ1 - λ2) K


class Epoch(TypedDict):
    """What is known of an epoch: the loss, of each table the anchors and the positive entries, the objective."""

    epoch: int
    loss: float
    n_anchors: list[int]
    nnz: list[int]
    objective: float


class NBANT:
    """Finds the number of anchors while a model is trained: a scheduler, told the validation loss after each epoch.

    It computes the objective of eq. 34, and switches anchors on after it has fallen twice in a row, off after it has
    risen twice, and otherwise keeps their number. It never goes below 1, nor beyond the ``n_anchors`` of a layer.

    Parameters
    ----------
    layers : AnchorEmbedding or iterable of AnchorEmbedding
        The tables of the model. Their ``n_active`` is set; their ``n_anchors`` is the most that can be found.
    anchor_price : float, > 0
        How much the loss must fall for one more anchor, lambda 1. At least the price of an entry.
    penalty : float, >= 0, optional
        Price of an entry of T in the objective, lambda 2. If left out, the ``penalty`` that each layer has now.
    initial : int, >= 1, default=10
        Anchors active at the start.
    step_size : int, >= 1, default=1
        How many are switched on or off at once, delta.
    tied : bool, default=True
        One number for all tables, as in the paper, or a number for each.

    Attributes
    ----------
    layers : tuple of AnchorEmbedding
        The tables.
    history : list of dict
        One for each epoch, numbered from 1: ``epoch``, ``loss``, and lists over the tables ``n_anchors`` and ``nnz``,
        as they were in that epoch, and the ``objective``.

    Raises
    ------
    InputError
        An argument that cannot be used.

    See Also
    --------
    nbant_objective : the objective.

    Notes
    -----
    **The objective.** Training and objective share lambda 2, but not what it prices: the optimiser pays it for the sum
    of T, the objective for the number of positive entries. The objective keeps the price it started with, so that its
    epochs stay comparable when the ``penalty`` of a layer changes. Trends are those on validation data, as in the
    paper's text and in the authors' code (its appendix G has the training loss). Fewer than three epochs count as
    falling, and so do three equal objectives.

    **What was found** is ``best``, not the number of the last epoch. The rule does not ask whether an anchor paid, only
    whether the objective falls: as long as training by itself lowers it, the number goes on growing, beyond the best
    one. Keep the state of the model when ``is_best``; in a state kept after ``step``, the numbers of anchors are those
    for the epoch to come, and ``use_best`` puts them back.

    **Separate numbers** are a choice made here; the authors' code ties users to items. The loss is one for all tables,
    and its trend does not say which of them should grow. They take turns: after each epoch one table moves, by what
    the objective did in the last two epochs that followed a turn of its own. With one table that is the algorithm of
    the paper; with n of them each moves n times more rarely.

    **Switched off** are the last anchors, not those least used. To drop the least used would lose less at once, but the
    anchors that are active would be no prefix any more, with all columns of T to be numbered anew.

    **Slots** of new layers are on any of the ``n_anchors``. Call ``reset_parameters`` after this class has been made,
    and rows start from the anchors that are active; not if the layer starts from vectors that are to be kept. With
    fewer slots than anchors a row may give up the entry of an anchor that is off: that one does not come back.

    **Several processes** all call ``step`` after each epoch, each with the loss on its part of the validation data, of
    equal size: the mean of the losses counts in all of them, so that all decide alike.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", eq. 34, algorithm 2.

    Examples
    --------
    Objects of 6 kinds, and a table that may have up to 16 anchors:

    >>> import torch, nearfar as nf
    >>> _ = torch.manual_seed(0)
    >>> goal = torch.randn(6, 8)[torch.arange(60) % 6]
    >>> layer = nf.nn.AnchorEmbedding(60, 8, n_anchors=16, nnz_per_row=6, penalty=1e-5)
    >>> optimizer = nf.nn.ProxAdam(layer.parameters(), lr=0.1)
    >>> scheduler = nf.nn.NBANT(layer, anchor_price=0.02, initial=2)
    >>> layer.reset_parameters()  # entries of T on the anchors that are active
    >>> for epoch in range(8):
    ...     for batch in range(15):
    ...         ids = torch.randint(60, (60,))
    ...         optimizer.zero_grad()
    ...         (layer(ids) - goal[ids]).square().mean().backward()
    ...         optimizer.step()
    ...     scheduler.step((layer.weight - goal).square().mean())
    >>> 5 <= scheduler.best["n_anchors"][0] <= 7
    True
    """

    def __init__(
        self,
        layers: AnchorEmbedding | Iterable[AnchorEmbedding],
        *,
        anchor_price: float,
        penalty: float | None = None,
        initial: int = 10,
        step_size: int = 1,
        tied: bool = True,
    ) -> None:
        self.layers = check_layers("NBANT", layers)
        if penalty is None:
            self._penalties = [layer.penalty for layer in self.layers]
        else:
            self._penalties = [check_real("NBANT", "penalty", penalty, low=0)] * len(self.layers)
        self.anchor_price = _check_price("NBANT", anchor_price, max(self._penalties))
        self.step_size = check_integer("NBANT", "step_size", step_size, low=1)
        self.tied = check_flag("NBANT", "tied", tied)
        self._groups = [self.layers] if tied else [(layer,) for layer in self.layers]
        initial = check_integer("NBANT", "initial", initial, low=1)
        most = min(layer.n_anchors for layer in self.layers)
        if initial > most:
            hint = "n_anchors of a layer is the most that can be found: make it larger, or initial smaller."
            raise InputError("NBANT", "initial", f"at most the n_anchors of each layer, {most}", initial, hint)
        self.history: list[Epoch] = []
        self._set_numbers(self.layers, [initial] * len(self.layers))

    def step(self, validation_loss: float | Tensor) -> None:
        """Record an epoch, and set the numbers of anchors for the next one.

        Parameters
        ----------
        validation_loss : float or Tensor of one element
            Loss on validation data after the epoch, a mean over examples. Of several processes the mean is taken.

        Raises
        ------
        NumericalError
            The loss, that of any process, is NaN or infinite; nothing has been changed then.

        Warns
        -----
        NearfarWarning
            All of the T of a table is 0.
        """
        epoch = len(self.history) + 1
        value: object = validation_loss
        if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex():
            value = value.item()
        if n_processes() > 1:  # what is no loss in one of them is refused in all
            mine = float(value) if isinstance(value, numbers.Real) else math.nan
            losses = all_gather(torch.tensor([mine], dtype=torch.float64, device=self.layers[0].values.device))
            _check_loss(value, epoch)
            value = losses.mean().item()
        loss = _check_loss(value, epoch)
        counts = [layer.nnz for layer in self.layers]
        active = [layer.n_active for layer in self.layers]
        objective = loss
        for nnz, n_anchors, penalty in zip(counts, active, self._penalties, strict=True):
            objective = nbant_objective(objective, nnz, n_anchors, penalty=penalty, anchor_price=self.anchor_price)
        record: Epoch = {"epoch": epoch, "loss": loss, "n_anchors": active, "nnz": counts, "objective": objective}
        self.history.append(record)
        for i, (layer, nnz) in enumerate(zip(self.layers, counts, strict=True)):
            if nnz == 0:
                warn_user(
                    f"NBANT: all of T is 0 in table {i} after epoch {epoch}: every vector is 0, and the anchors learn "
                    f"nothing. Lower its penalty, now {layer.penalty:g}."
                )
        group = self._groups[(epoch - 1) % len(self._groups)]
        number = group[0].n_active + self._direction() * self.step_size
        self._set_numbers(group, [max(1, min(number, *(layer.n_anchors for layer in group)))] * len(group))

    @property
    def best(self) -> Epoch | None:
        """The epoch of the smallest objective, an entry of ``history``; None before the first."""
        return min(self.history, key=lambda record: record["objective"], default=None)

    @property
    def is_best(self) -> bool:
        """Whether the last epoch is the best so far: the time to keep the state of the model."""
        return bool(self.history) and self.best is self.history[-1]

    def use_best(self) -> None:
        """Set the numbers of anchors of the best epoch: for a model whose state of that epoch has been loaded.

        A state that is kept after ``step`` has the numbers for the epoch to come.
        """
        if self.best is not None:
            self._set_numbers(self.layers, self.best["n_anchors"])

    def state_dict(self) -> dict[str, object]:
        """Return the history and the numbers of anchors, as numbers and lists alone.

        Returns
        -------
        dict
        """
        return {"history": copy.deepcopy(self.history), "n_active": [layer.n_active for layer in self.layers]}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on where a search was.

        Parameters
        ----------
        state : dict
            What ``state_dict`` returned.

        Raises
        ------
        InputError
            It is of other tables; nothing has been changed then.
        """
        owner = "NBANT.load_state_dict"
        if not isinstance(state, dict) or set(state) != {"history", "n_active"}:
            raise InputError(owner, "state", "what state_dict returned", state)
        numbers, history = state["n_active"], state["history"]
        if not isinstance(history, list) or not isinstance(numbers, list) or len(numbers) != len(self.layers):
            raise InputError(owner, "state", f"that of a search in {counted(len(self.layers), 'table')}", state)
        for layer, number in zip(self.layers, numbers, strict=True):
            check_integer(owner, "n_active", number, low=1, high=layer.n_anchors)
        if self.tied and len(set(numbers)) > 1:
            hint = "It is of a search with tied=False."
            raise InputError(owner, "n_active", "one number for all tables", numbers, hint)
        self.history = copy.deepcopy(history)
        self._set_numbers(self.layers, numbers)

    @staticmethod
    def _set_numbers(layers: Sequence[AnchorEmbedding], numbers: Sequence[int]) -> None:
        for layer, number in zip(layers, numbers, strict=True):
            layer.n_active = number

    def _direction(self) -> int:
        """Return 1, -1 or 0: whether the table in turn is to grow, shrink or stay."""
        turns, last = len(self._groups), len(self.history) - 1
        if last < 2 * turns:
            return 1
        values = [record["objective"] for record in self.history]
        after_own_turns = [(values[i], values[i + 1]) for i in (last - 2 * turns, last - turns)]
        if all(before >= after for before, after in after_own_turns):
            return 1
        # ANT algorithm 2: more after two falls, less after two rises
        return -1 if all(before <= after for before, after in after_own_turns) else 0


def check_layers(owner: str, layers: object) -> tuple[AnchorEmbedding, ...]:
    """Return one layer or several different ones as a tuple."""
    found = (layers,) if isinstance(layers, AnchorEmbedding) else layers
    found = tuple(found) if isinstance(found, Iterable) else (found,)
    wrong = [type(layer).__name__ for layer in found if not isinstance(layer, AnchorEmbedding)]
    if wrong or not found:
        raise InputError(owner, "layers", "an AnchorEmbedding or some of them", wrong[0] if wrong else "none")
    if len({id(layer) for layer in found}) < len(found):
        raise InputError(owner, "layers", "different layers", "one of them twice")
    return found


def _check_price(owner: str, anchor_price: object, penalty: float) -> float:
    price = check_real(owner, "anchor_price", anchor_price, low=0, open_low=True)
    if price < penalty:
        hint = "With less, every further anchor lowers the objective."
        raise InputError(owner, "anchor_price", f"at least penalty, {penalty:g}", price, hint)
    return price


def _check_loss(value: object, epoch: int) -> float:
    if isinstance(value, numbers.Real) and not math.isfinite(value):
        raise NumericalError(
            f"NBANT: the validation loss is {value} after epoch {epoch}; the numbers of anchors were not changed. "
            "A smaller learning rate helps where training has run away."
        )
    return check_real("NBANT.step", "validation_loss", value)


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
    >>> goal = torch.randn(10, 32)[torch.arange(200) % 10]
    >>> table = nf.nn.AnchorEmbedding(200, 32, n_anchors=10)
    >>> optimizer = nf.nn.ProxAdam(table.parameters(), lr=0.1)
    >>> budget = nf.nn.ParameterBudget(table, n_steps=40, n_parameters=800, optimizer=optimizer)
    >>> for _ in range(40):
    ...     ids = torch.randint(200, (256,))
    ...     optimizer.zero_grad()
    ...     loss = (table(ids) - goal[ids]).square().mean()
    ...     loss.backward()
    ...     optimizer.step()
    ...     _ = budget.step()
    >>> table.n_parameters <= 800, bool(loss < 0.2)
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
            raise InputError(owner, "state", f"that of a budget of {counted(len(self.layers), 'table')}", state)
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
