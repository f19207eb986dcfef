"""The rows of T while a layer E = T A is trained: what of them is trained, what it costs, and their proximal step.

An optimiser takes its steps in the rows of the batch, through the methods of :class:`TrainedMixtures`; all other rows
owe shrinkage, which is applied when they are read (see :mod:`nearfar.tables.slots`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import torch
from torch import Tensor

from nearfar._core.checks import check_flag, check_integer
from nearfar._core.processes import n_processes
from nearfar._core.tensors import reads_values
from nearfar._core.warn import warn_user
from nearfar.errors import InputError
from nearfar.tables.copies import Kin, Mark
from nearfar.tables.knowledge import RelatedPairs, check_pairs, related_slots, row_penalties
from nearfar.tables.slots import (
    LazyShrinkage,
    Metric,
    Rows,
    SlotRequests,
    Slots,
    assign,
    join_requests,
    put,
    request_slots,
    row_slices,
    take,
)

# All that live, the newest last. Whose a parameter is is asked of them: parameters are replaced, by
# load_state_dict(assign=True), by fully_shard, by whoever sets an attribute.
_LAYERS: weakref.WeakValueDictionary[int, TrainedMixtures] = weakref.WeakValueDictionary()


Owners = dict[int, "TrainedMixtures"]
Owed = tuple[Tensor, Tensor, float]


def owners() -> Owners:
    """Return, by the id of a parameter, the layer whose T or whose anchors it stores at this moment."""
    return {id(part): one for one in [*_LAYERS.values()] for part in (one.values, one.anchors)}


def owner_of(parameter: Tensor, known: Owners | None = None) -> TrainedMixtures | None:
    """Return the layer whose T or whose anchors are stored in a parameter, None if there is none.

    ``known`` are the ``owners()``, where several parameters are asked for.
    """
    return (owners() if known is None else known).get(id(parameter))


def layer_of(parameter: Tensor, known: Owners | None = None) -> TrainedMixtures | None:
    """Return the layer whose T is stored in a parameter, None if there is none."""
    layer = owner_of(parameter, known)
    return layer if layer is not None and layer.values is parameter else None


class TrainedMixtures(torch.nn.Module):
    """A layer E = T A: its T in slots, and how it is trained. A subclass makes ``slots`` and ``anchors``.

    What is kept is described by :class:`nearfar.nn.AnchorEmbedding`, in whose name errors speak.
    """

    num_embeddings: int
    n_anchors: int
    nnz_per_row: int
    penalty: float
    padding_idx: int | None
    anchors: torch.nn.Parameter
    anchor_ids: Tensor | None
    slots: Slots
    _n_active: int
    _zeros_fixed: bool
    _starts_at_random: bool  # and has made no step yet
    _unmet: Tensor | None  # rows (V,) that have had no gradient since their random start
    _unpenalized: Tensor | None  # sorted numbers u K + a of the entries that cost nothing
    _kin: Kin[TrainedMixtures]

    def _start_training_state(self) -> None:
        """Start what is kept between calls and steps, and is never stored."""
        self._kin.join(self)
        self._mark: Mark | None = Mark(self.values) if any(self._kin.others(self)) else None
        self._meant: Tensor | None = None  # columns of a copy that follows, where no tool averages them
        self._is_called = False  # with gradients, since it was copied last
        self._has_head = False
        self._is_known = False  # whose copy this is was asked
        self._shrinkage = LazyShrinkage()
        self._requests: list[SlotRequests] = []
        self._seen_version: int | None = None  # of the values, at the first gradient since the last step
        self._last_read: tuple[Tensor, Tensor, tuple[int, int, float, int]] | None = None  # rows, entries, when
        self._trained = weakref.ref(self.values)
        _LAYERS.pop(id(self), None)
        _LAYERS[id(self)] = self  # for the optimisers

    def _bring_along(self) -> None:
        """Move what is kept beside the parameters to where these are now: they may have been replaced.

        Values that are new owe nothing.
        """
        if self._trained() is not self.values:
            self._trained = weakref.ref(self.values)
            self._shrinkage.all_applied()
            self._requests.clear()
            self._accept_values()
        for name in ("_unmet", "_unpenalized"):
            kept = getattr(self, name)
            if kept is not None and kept.device != self.values.device:
                setattr(self, name, kept.to(self.values.device))
        leader = self._kin.leader_of(self)
        if leader is not None and self._shrinkage.applied is None and self.values.shape == leader.values.shape:
            self._follow(leader)

    @torch.no_grad()
    def _follow(self, leader: TrainedMixtures) -> None:
        """If others have written parameters of the layer that is trained into this copy, take over what they mean.

        A slot that stands for another anchor than before starts from 0, but where it has the layer's own value.
        """
        if self._mark is None or not self._mark.differs(self.values):
            self._mark = self._mark or Mark(self.values)
            return
        values, columns = leader.values.detach().to(self.values), leader.slots.columns.to(self.values.device)
        same = torch.isclose(self.values, values, rtol=1e-5, atol=1e-6)  # an average with decay 0 may be rounded
        moved = (self.slots.columns if self._meant is None else self._meant) != columns
        self.values.masked_fill_(moved & ~same, 0)
        if leader._shrinkage.applied is not None:
            settled = leader._settled(torch.empty_like(leader.values)).to(self.values)
            self.values.copy_(torch.where(same, settled, self.values))
        self.slots.columns.copy_(columns)
        self._meant = columns.clone()
        for name in ("_n_active", "_zeros_fixed", "_starts_at_random", "_unmet", "_unpenalized"):
            kept = getattr(leader, name)
            setattr(self, name, kept.to(columns.device, copy=True) if isinstance(kept, Tensor) else kept)
        self._accept_values()
        self._mark = Mark(self.values)

    def _find_kin(self, values: Tensor) -> None:
        """Join the layer whose T these values are, if there is one: this layer is its copy, made by hand."""
        for other in reversed([*_LAYERS.values()]):
            if other._kin is not self._kin and other.values.shape == values.shape and not other.values.is_meta:
                first = slice(64)
                if torch.allclose(other._shrunk(first), values[first].detach().to(other.values), rtol=1e-5) and (
                    torch.allclose(other._shrunk(slice(None)), values.detach().to(other.values), rtol=1e-5)
                ):
                    self._kin = other._kin
                    self._kin.join(self)
                    return

    def _in_its_place(self) -> list[TrainedMixtures]:
        """Return the copies, without a head of their own, that are called where this layer is not."""
        others = [] if self._is_called else [copy for copy in self._kin.others(self) if copy._is_called]
        return [copy for copy in others if not copy._has_head]

    @property
    def values(self) -> torch.nn.Parameter:
        """Stored entries of T, (V, r), before the shrinkage that is still to be applied."""
        return self.slots.values

    @property
    def sparse(self) -> bool:
        """Whether gradients of T are sparse."""
        return self.slots.sparse

    @property
    def columns(self) -> Tensor:
        """The anchors that they belong to, (V, r)."""
        self._bring_along()
        return self.slots.columns

    @property
    def unmet(self) -> Tensor:
        """Which objects (V,) have had no gradient since training began from a random start.

        Such a row is as it was drawn. It is not counted, its vector is 0 in ``weight``, in ``export``, and, after
        ``eval()``, in calls; it is where it started when a batch meets it.
        """
        self._bring_along()
        none = torch.zeros(self.num_embeddings, dtype=torch.bool, device=self.values.device)
        return none if self._unmet is None else self._unmet.clone()

    @property
    def nnz(self) -> int:
        """Number of positive entries of T, of the active anchors and of the rows that training has met."""
        return sum(int(torch.count_nonzero(entries)) for _, entries, _ in self._blocks(self.nnz_per_row, final=True))

    def _read(self, rows: Rows, final: bool = False) -> Tensor:
        """Return entries (n, r) as they are now: after all shrinkage, and 0 where their anchor is switched off.

        Rows that no batch has met are 0 but in training.
        """
        entries, frozen = self._shrunk(rows), self._frozen(rows)
        self._bring_along()
        if self._unmet is not None and (final or not self.training):
            entries.masked_fill_(take(self._unmet, rows)[:, None], 0)
        return entries if frozen is None else entries.masked_fill_(frozen, 0)

    def _shrunk(self, rows: Rows) -> Tensor:
        """Return entries (n, r) after all shrinkage, whichever anchors are switched on."""
        entries, unpenalized = self._shrinkage.read(self.values, rows), self._unpenalized_slots(rows)
        return entries if unpenalized is None else torch.where(unpenalized, take(self.values.detach(), rows), entries)

    def _blocks(self, width: int, final: bool = False) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield blocks of rows of T: which they are, entries and columns (n, r)."""
        for block in row_slices(self.num_embeddings, width):
            yield block, self._read(block, final), self.columns[block].long()

    # -- which entries of T are trained, and what they cost ------------------------------------------------------------

    @property
    def n_active(self) -> int:
        """How many anchors take part: the first ones. May be set anew at any time, to 1 .. n_anchors.

        The others keep their vectors, and rows keep their entries for them, with the optimiser's state: nothing of it
        is read, trained or shrunk until they are switched on again. No parameter changes its shape.
        """
        return self._n_active

    @n_active.setter
    def n_active(self, n: int) -> None:
        n = check_integer("AnchorEmbedding", "n_active", n, low=1, high=self.n_anchors)
        if n != self._n_active:
            self._close_past_steps()
            self._n_active = n

    @property
    def zeros_fixed(self) -> bool:
        """Whether entries that are 0 now stay 0, and the others cost nothing; False at first. May be set at any time.

        For the last epochs: the penalty that chose the entries has made them too small, and no longer does (Meinshausen
        2007, "Relaxed lasso"). An entry that becomes 0 later may return.
        """
        return self._zeros_fixed

    @zeros_fixed.setter
    def zeros_fixed(self, fixed: bool) -> None:
        fixed = check_flag("AnchorEmbedding", "zeros_fixed", fixed)
        if fixed != self._zeros_fixed:
            self._close_past_steps()
            self._zeros_fixed = fixed
            with torch.no_grad():  # a zero that is fixed has a minus sign
                self.values.masked_fill_(self.values == 0, -0.0 if fixed else 0.0)
            self._accept_values()

    def set_related(self, pairs: RelatedPairs | None) -> None:
        """Take the price off entries of T between an object and an anchor that is an object related to it.

        The penalty is then that on T * S, S being 0 at such entries and 1 elsewhere: the step does not lower them, and
        they ask for a slot as soon as the loss falls in their direction. They are counted in ``nnz`` all the same.
        ``state_dict`` keeps them; ``reset_parameters`` forgets them.

        Parameters
        ----------
        pairs : RelatedPairs or None
            What is related to what, in the place of what was set before; None: every entry has its price again.

        Raises
        ------
        InputError
            If no objects are anchors, as the layer was made without ``anchor_ids``; or ``pairs`` has more objects.

        References
        ----------
        Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.2,
        positive pairs.

        Examples
        --------
        >>> import torch, nearfar as nf
        >>> rel = nf.Relation.from_edges([("sea", "ship"), ("sea", "wave"), ("tree", "leaf")])
        >>> words = ["sea", "tree", "ship", "wave", "leaf", "stone"]
        >>> table = nf.nn.AnchorEmbedding(6, 4, n_anchors=2, anchor_ids=torch.tensor([0, 1]))
        >>> table.set_related(nf.nn.RelatedPairs(rel, words))  # ship and wave use "sea" freely, leaf uses "tree"
        """
        owner = "AnchorEmbedding.set_related"
        places = None
        if pairs is not None:
            check_pairs(owner, pairs, self.num_embeddings)
            if self.anchor_ids is None:
                hint = "Make the layer with anchor_ids=choose_anchors(...). A random anchor is related to nothing."
                raise InputError(
                    owner, "pairs", "given for a layer whose anchors are objects", "anchors that are none", hint
                )
            places = pairs.with_anchors(self.anchor_ids.to(self.values.device))
        self._close_past_steps()
        self._unpenalized = places if places is not None and len(places) else None

    def _close_past_steps(self) -> None:
        """Apply the shrinkage so far, under the rules so far, and drop requests."""
        self.settle()
        self._requests.clear()

    def _frozen(self, rows: Rows) -> Tensor | None:
        """Return which slots (n, r) are not trained: fixed zeros, anchors that are switched off; None if all are."""
        off = take(self.columns, rows) >= self._n_active if self._n_active < self.n_anchors else None
        if not self._zeros_fixed:
            return off
        zero = take(self.values.detach(), rows).signbit()
        return zero if off is None else zero | off

    def _unpenalized_slots(self, rows: Rows) -> Tensor | None:
        """Return which slots (n, r) cost nothing, None if all do."""
        if self._unpenalized is None:
            return None
        if isinstance(rows, slice):
            rows = torch.arange(self.num_embeddings, device=self.values.device)[rows]
        return related_slots(self._unpenalized, rows, take(self.columns, rows), self.n_anchors)

    @property
    def _padding_row(self) -> int:
        return -1 if self.padding_idx is None else self.padding_idx

    # -- the proximal step: what the optimisers call, in this order ----------------------------------------------------

    def _begin_step(self, metric: Metric, owed: Owed | None = None) -> None:
        self._kin.lead(self)
        for copy in self._kin.others(self):
            copy._bring_along()  # before slots change
        shrinkage = self._shrinkage
        if shrinkage.applied is None or shrinkage.metric.v is not metric.v:
            self.settle()  # in the metric of another optimiser
            shrinkage.begin(self.num_embeddings, self.values.device, metric)
            if owed is not None:
                self._owe(owed)
        shrinkage.metric = metric
        if self._starts_at_random:
            self._starts_at_random = False
            self._unmet = torch.ones(self.num_embeddings, dtype=torch.bool, device=self.values.device)
            for rows in (self.anchor_ids, self.padding_idx):
                if rows is not None:
                    self._unmet[rows] = False

    def _owed(self) -> Owed | None:
        """Return values (V, r), how much of the shrinkage each row (V,) has had, and how much there was in all.

        What a state of the layer holds is that after the shrinkage. It is rounded: from it training goes on, but to
        other last bits.
        """
        shrinkage = self._shrinkage
        if shrinkage.applied is None:
            return None
        return self.values.detach().clone(), shrinkage.applied.clone(), shrinkage.total

    def _owe(self, owed: Owed) -> None:
        """Take that back, if the values are those after this shrinkage."""
        shrinkage, settled = self._shrinkage, self.values.clone()
        before, applied, total = owed
        if before.shape != settled.shape:
            return
        assert shrinkage.applied is not None
        self.values.copy_(before)
        shrinkage.applied.copy_(applied)
        shrinkage.total = total
        if not torch.equal(self._settled(torch.empty_like(settled)), settled):
            self.values.copy_(settled)
            shrinkage.all_applied()
        self._accept_values()

    def _rows_before_step(self, rows: Rows) -> tuple[Tensor, Tensor | None]:
        """Return entries (n, r) and which are not trained; entries from the last call, where nothing has changed."""
        frozen = self._frozen(rows)
        if self._last_read is not None and not isinstance(rows, slice):
            last_rows, entries, then = self._last_read
            # Elsewhere to compare would wait for the device, which reading again does not.
            if then == self._state_of_values() and reads_values(rows) and torch.equal(last_rows, rows):
                return entries, frozen
        return self._read(rows), frozen

    def _state_of_values(self) -> tuple[int, int, float, int]:
        return self.values.data_ptr(), self.values._version, self._shrinkage.total, self._n_active

    def _proximal_step(self, rows: Rows, moved: Tensor, frozen: Tensor | None, size: float, metric: Tensor) -> Tensor:
        """Write ``max(moved - size * penalty / metric, 0)`` to some rows, but not to slots that are not trained."""
        threshold = size * (0.0 if self._zeros_fixed else self.penalty)
        shrinkage, unpenalized = threshold / metric, self._unpenalized_slots(rows)
        moved.sub_(shrinkage if unpenalized is None else shrinkage * ~unpenalized).clamp_(min=0)
        self._shrinkage.add(threshold, rows)
        if isinstance(rows, slice):
            self._unmet = None
        elif self._unmet is not None:
            self._unmet.index_fill_(0, rows, False)
        new = moved.to(self.values.dtype)
        if frozen is not None:
            put(self.values, rows, torch.where(frozen, take(self.values, rows), new.masked_fill_(frozen, 0)))
        else:
            put(self.values, rows, new)
        return new

    def _end_step(self) -> None:
        if any(copy._meant is not None for copy in self._kin.others(self)):
            self.settle()  # what is copied next owes nothing

    def _assign_slots(self) -> list[tuple[Tensor, Tensor]]:
        """Assign slots to columns that requested them, in all processes; return rows and slots that changed."""
        if n_processes() > 1 and self.nnz_per_row < self.n_anchors:
            self._requests = join_requests(self._requests, self.values.device)
        changed = [assign(requests, self.values, self.columns, self._n_active) for requests in self._requests]
        self._requests.clear()
        self._accept_values()
        return changed

    def _request_slots(self, slope: Tensor, entries: Tensor, columns: Tensor, rows: Tensor) -> None:
        """Keep the requests of rows (n,), given the derivatives (n, K) of the loss."""
        if self._seen_version is None:
            self._seen_version = self.values._version
        if self._zeros_fixed:
            return
        if self.padding_idx is not None:  # asks for nothing
            slope = slope.masked_fill((rows == self._padding_row)[:, None], 0)
        penalty = self.penalty * n_processes()  # gradients will be averaged; this is the slope of one process
        if self._unpenalized is not None:
            slope = slope + row_penalties(self._unpenalized, rows, slope, penalty)
            penalty = 0.0
        requests = request_slots(slope, entries, columns, rows, penalty, self._n_active)
        if requests is not None:
            self._requests.append(requests)

    def _accept_values(self) -> None:
        """Take the values as they are now: it was not another optimiser that changed them."""
        self._seen_version = self._last_read = None

    def settle(self) -> None:
        """Apply to ``values`` the shrinkage that is still to come. Calls, sizes and ``state_dict`` do not need it."""
        if self._shrinkage.applied is None:
            self._take_absolute()
        else:
            self._settled(self.values)
            self._shrinkage.all_applied()
            self._accept_values()

    @torch.no_grad()
    def _take_absolute(self) -> None:
        """Write the absolute values of entries that a function has made negative which starts all parameters anew."""
        if self.values.is_meta or not bool((self.values < 0).any()):
            return
        negative = self.values < 0
        self.values[negative] *= -1  # zeros that are fixed keep their sign
        text = (
            f"AnchorEmbedding: {int(negative.sum())} entries of T were negative before its first step, as a function "
            "makes them that initialises all parameters of a model. Their absolute values are taken."
        )
        warn_user(text)

    @torch.no_grad()
    def _settled(self, out: Tensor) -> Tensor:
        """Write all values (V, r) after all shrinkage; those that are not trained stay as they are."""
        for block in row_slices(self.num_embeddings, self.nnz_per_row):
            frozen, now = self._frozen(block), self._shrunk(block)
            out[block] = now if frozen is None else torch.where(frozen, self.values[block], now)
        return out
