"""Candidates that are the keys of the batch itself: the key of a query is true, the keys of the others are noise.

``scores[i, j] = queries[i] . keys[j] / temperature``, true on the diagonal; negatives are more keys, which are true of
no query. Where torch.distributed is initialised, the keys of all processes are the candidates, and the gradients come
back to the process that a key came from. With the mean over its own queries as the loss of each process, the mean of
their gradients, which is what DistributedDataParallel takes, is the gradient of one process that holds the joined
batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearfar._core.checks import check_flag, check_integer, check_real
from nearfar._core.tensors import (
    MASK,
    Reduction,
    all_gather,
    check_alike,
    check_device,
    check_finite,
    check_floats,
    check_integers,
    check_log_probabilities,
    check_reduction,
    check_same_kind,
    check_shares,
    join_rows,
    n_processes,
    pass_on,
    rank,
    reads_values,
    reduce,
    working_dtype,
)
from nearfar._core.warn import warn_once
from nearfar.contrastive.noise import InBatchNoise
from nearfar.contrastive.rows import (
    BINARY,
    RANKING,
    Candidates,
    How,
    accidental_hits,
    blocked_loss,
    blocks,
    make_logits,
    without_autocast,
)
from nearfar.errors import InputError, NumericalError


def gather_rows(rows: Tensor) -> Tensor:
    """Join the rows of all processes, in the order of their ranks, and let gradients come back.

    The gradient of a row is the sum of its gradients in all processes, so every process has to go backward. Where
    torch.distributed is not initialised the rows are returned as they are.

    Parameters
    ----------
    rows : Tensor, shape (B, ...)
        Rows of this process; of the same shape and type in every process.

    Returns
    -------
    Tensor, shape (R B, ...)
        Rows of all R processes.

    Raises
    ------
    InputError
        The shapes or types differ from process to process; every process raises it.

    References
    ----------
    Chen et al. 2020, "A simple framework for contrastive learning of visual representations", appendix B.9 (candidates
    gathered across devices).

    Examples
    --------
    >>> import torch
    >>> gather_rows(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 2.]])
    """
    if n_processes() == 1:
        return rows
    check_alike("gather_rows", "rows", rows)
    return join_rows(rows)


def in_batch_scores(
    queries: Tensor,
    keys: Tensor,
    *,
    negatives: Tensor | None = None,
    ids: Tensor | None = None,
    temperature: float | Tensor = 1.0,
    gather: bool = True,
) -> tuple[Tensor, Tensor]:
    """Score every query against the keys of the batch, as candidates for any loss of this module.

    For the ranking loss :func:`in_batch_nce` does the same without ever holding the matrix.

    Parameters
    ----------
    queries : Tensor of floats, shape (B, d)
        What is asked.
    keys : Tensor of floats, shape (B, d)
        ``keys[i]`` is the true answer to ``queries[i]``.
    negatives : Tensor of floats, shape (M, d) or (B, m, d), optional
        More keys, true of no query: hard negatives. Those of one query are candidates of all, and M = B m.
    ids : Tensor of integers, shape (B + M,), optional
        What the keys, then the negatives, stand for. Another key with the id of the true one is masked, by -1e26,
        which may be multiplied by a learned scale as -inf may not: for losses that are not about probabilities. See
        the notes.
    temperature : float or Tensor of floats of one element, > 0
        What the scalar products are divided by. A tensor gets a gradient: of a learned scale, exp(-log_scale).
    gather : bool
        Whether the keys of other processes are candidates too, where torch.distributed is initialised. All processes
        then have to call this function, and to go backward.

    Returns
    -------
    scores : Tensor of float32 or float64, shape (B, R (B + M))
        Scores against the keys of all R processes (R = 1 for one alone), in the order of their ranks, then against
        their negatives.
    target : Tensor of int64, shape (B,)
        Columns of the true keys.

    Raises
    ------
    InputError
        There is only one key; a shape, type or device does not fit, here or between processes; NaN or infinity.

    Notes
    -----
    With q, the probability of each key among the keys of batches, and p = p(key | query): leave ``ids`` out for
    :func:`global_nce` and :func:`local_nce`, whose optima then are those that they name, however many keys are equal.
    Masking removes draws of the true id and of no other, which moves the optimum. :func:`global_nce` then overstates
    large p: with two keys, .75 becomes .77 in batches of three and .86 in batches of eight. :func:`in_batch_nce`
    corrects this. With :func:`local_nce`, ``exp(score)`` then even exceeds 1.

    References
    ----------
    Stratos, notes on noise contrastive estimation, section 1. Karpukhin et al. 2020, "Dense passage retrieval for
    open-domain question answering", section 3.2.

    Examples
    --------
    >>> import torch
    >>> queries, keys = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.eye(3)[:, :2]
    >>> scores, target = in_batch_scores(queries, keys, ids=torch.tensor([7, 8, 7]), temperature=0.5)
    >>> scores.clamp(min=-9)
    tensor([[ 2.,  0., -9.],
            [ 0.,  4.,  0.],
            [-9.,  2.,  0.]])
    >>> target
    tensor([0, 1, 2])
    """
    owner = "in_batch_scores"
    checked = check_batch(owner, queries, keys, negatives, None, ids, temperature, gather)
    candidates, wide = checked.candidates(), working_dtype(queries)
    with without_autocast(queries):
        scores = torch.mm(checked.queries.to(wide) * checked.scale, candidates.keys.to(wide).T)
    assert candidates.target is not None
    hits = accidental_hits(candidates, slice(None), candidates.target)
    return (scores if hits is None else scores.masked_fill(hits, MASK)), candidates.target


def in_batch_nce(
    queries: Tensor,
    keys: Tensor,
    *,
    negatives: Tensor | None = None,
    log_q: Tensor | None = None,
    ids: Tensor | None = None,
    target: Tensor | None = None,
    temperature: float | Tensor = 1.0,
    gather: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Ranking NCE with the keys of the batch as candidates: InfoNCE, or its log-q corrected form.

    Without ``ids``, the value of :func:`global_nce` on :func:`in_batch_scores`. The keys of a batch come as often as
    their items do; with ``log_q``, the log of how often, that is corrected, and at the optimum ``exp(score)`` is
    p(key | query) up to a factor per query, else p(key | query) / q(key), and popular items are ranked too low. Both
    hold with ``ids`` and without, for batches of any size. :class:`InBatchNCE` counts ``ids``, and needs no ``log_q``;
    where ``log_q`` is left out, a warning names it once.

    For R processes with B keys and M negatives each, N = R (B + M) candidates: O(B N d) time, twice that with
    gradients. Scores are computed in blocks of rows and once more for the gradient: memory is O(N d) and a block,
    never a matrix of scores.

    Parameters
    ----------
    queries : Tensor of floats, shape (B, d)
        What is asked.
    keys : Tensor of floats, shape (B, d)
        ``keys[i]`` is the true answer to ``queries[i]``.
    negatives : Tensor of floats, shape (M, d) or (B, m, d), optional
        More keys, true of no query: hard negatives. Those of one query are candidates of all, and M = B m.
    log_q : Tensor of floats, shape (B + M,), optional
        Natural log of the probability of each key, then of each negative, among the candidates of batches; a constant
        of the loss. Zeros: p(key | query) / q(key) is wanted.
    ids : Tensor of integers, shape (B + M,), optional
        What the keys, then the negatives, stand for. The loss then is that of naming the true id instead of its row:
        the other keys with the id of the true one, negatives too, are left out, and the true one counts as often as
        its id comes. If all have one id, the loss is 0.
    target : Tensor of floats, shape (B, N), optional
        Shares of the candidates that are to be met instead of one true key, such as the softmax of the scores of a
        teacher: none below 0, sum 1 in each row; a constant of the loss. Columns are as in :func:`in_batch_scores`.
        Not with ``ids``.
    temperature : float or Tensor of floats of one element, > 0
        What the scalar products are divided by. A tensor gets a gradient: of a learned scale, exp(-log_scale).
    gather : bool
        Whether the keys of other processes are candidates too, where torch.distributed is initialised. All processes
        then have to call this function, and to go backward.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the queries of this process, their sum, or one loss per query.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats. Differentiable in ``queries``, ``keys`` and ``negatives``, also by ``torch.func`` and twice;
        the derivative of a gradient holds blocks of rows if nothing is to be derived from it.

    Raises
    ------
    InputError
        There is only one candidate; a shape, type or device does not fit, here or between processes; NaN or infinity;
        ``log_q`` above 0; ``target`` is no distribution, or comes with ``ids``.
    NumericalError
        A scalar product of a query and a key is too large for the type.

    Notes
    -----
    Of a batch of which id y comes n_y times, y is the true one with a probability in proportion to n_y p(y | x) / q(y).
    With l = score - ln q, the loss is minus the log of that: ``-ln(n e^l+ / (n e^l+ + sum of e^l over other ids))``.
    Leaving the equal keys out without counting them, as is often done, gives an optimum that overstates large
    p(y | x). Where keys of one id are the same vector, the gradient is that without ``ids``, and the loss is less by
    ln n.

    References
    ----------
    van den Oord, Li and Vinyals 2018, "Representation learning with contrastive predictive coding", equation 4. Yi et
    al. 2019, "Sampling-bias-corrected neural modeling for large corpus item recommendations", equations 3 to 5
    (``log_q``). Khrylchenko et al. 2025, "Correcting the LogQ correction: revisiting sampled softmax for large-scale
    retrieval", arXiv 2507.09331, on the true key, which is not drawn from q (its loss is another one: an estimate of
    the full softmax). Karpukhin et al. 2020, "Dense passage retrieval for open-domain question answering", section 3.2
    (``negatives``).

    Examples
    --------
    >>> import torch
    >>> queries, keys = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.eye(3)[:, :2]
    >>> in_batch_nce(queries, keys, temperature=0.5, reduction="none")
    tensor([0.2395, 0.0360, 2.7586])
    """
    owner = "in_batch_nce"
    check_reduction(owner, reduction)
    checked = check_batch(owner, queries, keys, negatives, log_q, ids, temperature, gather)
    candidates = checked.candidates()
    if ids is not None and log_q is None and not torch.compiler.is_compiling():
        warn_once(
            "in_batch_nce: without log_q popular ids are ranked too low. nearfar.nn.InBatchNCE(temperature), called as "
            "loss(queries, keys, ids=ids), counts them as training goes on. Where this is meant, give log_q of zeros."
        )
    if target is not None:
        if ids is not None:
            raise InputError(owner, "ids", "left out where target is given", "both", "Shares say what is true.")
        target = check_shares(owner, "target", target, (len(queries), len(candidates.keys)), "keys", keys)
        candidates = Candidates(candidates.keys, target, candidates.log_q)
    return check_losses(owner, blocked_loss(How(RANKING, checked.scale), checked.queries, candidates), reduction)


class InBatchNCE(torch.nn.Module):
    """:func:`in_batch_nce` that counts how often each id comes, and corrects for it: the loss of two towers.

    At the optimum the scalar product over the temperature is ``ln p(key | query)`` up to a number per query, so popular
    items are ranked where they belong, by a nearest-neighbour index too. The counts are those of training: in
    evaluation they stay as they are. ``state_dict`` has them.

    Parameters
    ----------
    temperature : float or Tensor of floats of one element, > 0, default=1.0
        What the scalar products are divided by; a parameter is learned. For one that depends on others, multiply the
        queries: ``loss(queries * log_scale.exp(), keys, ids=ids)``.
    n_buckets : int, default=262139
        How many frequencies are kept, in 20 bytes each. Id ``i`` has number ``i % n_buckets``: ids below it have one
        each, others that meet share one.
    gather : bool, default=True
        Whether the keys of other processes are candidates too, and counted, where torch.distributed is initialised.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, as :func:`in_batch_nce`.

    See Also
    --------
    nearfar.nn.InBatchNoise : the estimate of frequencies; ``noise`` is one.

    References
    ----------
    Yi et al. 2019, "Sampling-bias-corrected neural modeling for large corpus item recommendations", algorithm 2.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> loss = nf.nn.InBatchNCE(temperature=0.1)
    >>> queries, keys = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8)
    >>> loss(queries, keys, ids=torch.tensor([7, 8, 7, 9])).backward()
    >>> loss.noise.log_prob(torch.tensor([7, 8])).exp().round(decimals=2)
    tensor([0.6700, 0.5000])
    """

    def __init__(self, temperature: float | Tensor = 1.0, *, n_buckets: int = 262_139, gather: bool = True) -> None:
        super().__init__()
        check_temperature("InBatchNCE", torch.empty(0), temperature)
        self.temperature = temperature
        self.noise = InBatchNoise(check_integer("InBatchNCE", "n_buckets", n_buckets, low=1))
        self.gather = check_flag("InBatchNCE", "gather", gather)

    def forward(self, queries: Tensor, keys: Tensor, *, ids: Tensor, negatives: Tensor | None = None) -> Tensor:
        """Return the mean loss of a batch, in nats.

        Parameters
        ----------
        queries, keys : Tensor of floats, shape (B, d)
            ``keys[i]`` is the true answer to ``queries[i]``.
        ids : Tensor of integers, shape (B + M,)
            What the keys, then the negatives, stand for.
        negatives : Tensor of floats, shape (M, d) or (B, m, d), optional
            More keys, true of no query.

        Returns
        -------
        Tensor, shape ()
            Differentiable in ``queries``, ``keys``, ``negatives`` and the temperature.
        """
        owner = "InBatchNCE"
        checked = check_batch(owner, queries, keys, negatives, None, ids, self.temperature, self.gather)
        if checked.ids is None:
            raise InputError(owner, "ids", "a tensor of integers: what the keys stand for", "None")
        buckets = checked.ids % self.noise.n
        if self.training:
            self.noise.observe(join_rows(buckets) if checked.joined else buckets)
        candidates = checked._replace(log_q=self.noise.log_prob(buckets).to(working_dtype(queries))).candidates()
        return check_losses(owner, blocked_loss(How(RANKING, checked.scale), checked.queries, candidates), "mean")


def symmetric_nce(
    queries: Tensor,
    keys: Tensor,
    *,
    negatives: Tensor | None = None,
    log_q: Tensor | None = None,
    ids: Tensor | None = None,
    query_log_q: Tensor | None = None,
    query_ids: Tensor | None = None,
    temperature: float | Tensor = 1.0,
    gather: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Ranking NCE in both directions: the key of a query among the keys, and the query of a key among the queries.

    The mean of ``in_batch_nce(queries, keys)`` and ``in_batch_nce(keys, queries)``, the loss of CLIP, in one pass over
    the scores: two thirds of the time of two. Across processes the sums of columns are joined, so that queries stay
    where they are.

    Parameters
    ----------
    queries, keys : Tensor of floats, shape (B, d)
        The two sides of B pairs.
    negatives : Tensor of floats, shape (M, d) or (B, m, d), optional
        More keys, true of no query: candidates of all queries. They have no loss of their own.
    log_q, ids : Tensor, shape (B + M,), optional
        As in :func:`in_batch_nce`, of the keys, then of the negatives: for the direction from queries to keys.
    query_log_q, query_ids : Tensor, shape (B,), optional
        The same of the queries, for the direction from keys to queries.
    temperature : float or Tensor of floats of one element, > 0
        What the scalar products are divided by. A tensor gets a gradient: of a learned scale, exp(-log_scale).
    gather : bool
        Whether the pairs of other processes are candidates too, where torch.distributed is initialised. All processes
        then have to call this function, and to go backward.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the pairs of this process, their sum, or one loss per pair.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats. Differentiable in ``queries``, ``keys`` and ``negatives``, also by ``torch.func`` and twice,
        then in two passes.

    Raises
    ------
    InputError
        There is only one pair; a shape, type or device does not fit, here or between processes; NaN or infinity; a log
        of a probability above 0.
    NumericalError
        A scalar product of a query and a key is too large for the type.

    References
    ----------
    Radford et al. 2021, "Learning transferable visual models from natural language supervision", figure 3.

    Examples
    --------
    >>> import torch
    >>> images, texts = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.eye(3)[:, :2]
    >>> log_scale = torch.tensor(2.0).log().requires_grad_()
    >>> round(symmetric_nce(images, texts, temperature=(-log_scale).exp()).item(), 4)
    0.8391
    """
    owner = "symmetric_nce"
    check_reduction(owner, reduction)
    checked = check_batch(owner, queries, keys, negatives, log_q, ids, temperature, gather)
    query_log_q, query_ids = check_facts(owner, "queries", queries, query_log_q, query_ids, "query_")
    n_pairs = len(queries)
    if checked.joined:
        check_alike(owner, "queries", queries, with_log_q=query_log_q is not None, with_ids=query_ids is not None)
        query_log_q, query_ids = (None if facts is None else join_rows(facts) for facts in (query_log_q, query_ids))
        n_pairs *= n_processes()
    elif n_pairs < 2:
        raise InputError(owner, "queries", "two or more: a key has to tell its own from the others", "a batch of one")
    candidates = checked.candidates()
    of_queries = None if query_ids is None else ln_count(query_ids, query_ids[candidates.target])
    both = Both(checked.scale, n_pairs, checked.joined)
    across = Across(query_log_q, query_ids, of_queries)
    if torch._C._are_functorch_transforms_active():
        losses = _one_by_one(both, checked.queries, candidates, across)
    else:
        losses = _Symmetric.apply(both, checked.queries, *candidates, *across)  # type: ignore[no-untyped-call]
    return check_losses(owner, losses, reduction)


def supcon(
    vectors: Tensor,
    labels: Tensor,
    *,
    log_q: Tensor | None = None,
    temperature: float | Tensor = 1.0,
    gather: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Rank all others of the same label before those of other labels: supervised contrastive learning (SupCon).

    Of each vector, the others of its label are true, and all others are candidates: the mean of ``-l + ln sum exp(l)``
    over the true ones, with l the scalar products over the temperature. A vector whose label comes once has no loss,
    and is a candidate. O(B^2 d) time; memory as in :func:`in_batch_nce`.

    Parameters
    ----------
    vectors : Tensor of floats, shape (B, d)
        Of examples, normalised as a rule. Two views of an example are two vectors of one label.
    labels : Tensor of integers, shape (B,)
        Their classes.
    log_q : Tensor of floats, shape (B,), optional
        Natural log of the probability of each vector among those of batches, subtracted from its logit; a constant.
    temperature : float or Tensor of floats of one element, > 0
        What the scalar products are divided by; the paper has 0.1. A tensor gets a gradient.
    gather : bool
        Whether the vectors of other processes are candidates too, where torch.distributed is initialised. All
        processes then have to call this function, and to go backward.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the vectors of this process that have a loss, 0 if none has; their sum; or one
        loss per vector, 0 where it has none. Means of processes weigh alike, whatever they are of.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats. Differentiable in ``vectors``, also by ``torch.func`` and twice.

    Raises
    ------
    InputError
        No label comes twice; a shape, type or device does not fit, here or between processes; NaN or infinity;
        ``log_q`` above 0.
    NumericalError
        A scalar product is too large for the type.

    References
    ----------
    Khosla et al. 2020, "Supervised contrastive learning", equation 2 (L_out).

    Examples
    --------
    >>> import torch
    >>> vectors = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.0, 1.0]])
    >>> supcon(vectors, torch.tensor([0, 1, 0, 2]), reduction="none")
    tensor([0.5514, 0.0000, 1.5514, 0.0000])
    """
    owner = "supcon"
    check_reduction(owner, reduction)
    check_floats(owner, "vectors", vectors, (None, None))
    check_finite(owner, "vectors", vectors)
    check_device(owner, "labels", check_integers(owner, "labels", labels, (len(vectors),)), "vectors", vectors)
    checked = check_batch(owner, vectors, vectors, None, log_q, labels, temperature, gather, "vectors")
    candidates = checked.candidates()
    every = candidates.ids
    assert every is not None
    if reads_values(every) and not bool(ln_count(every, every).any()):  # in all processes, so that all raise
        hint = "Draw batches with several of each."
        raise InputError(owner, "labels", "of two vectors somewhere", "each of one", hint)
    losses = blocked_loss(How(RANKING, checked.scale, several=True), checked.queries, candidates)
    if reduction != "mean":
        return check_losses(owner, losses, reduction)
    assert candidates.ln_count is not None
    return check_losses(owner, losses, "sum") / (candidates.ln_count > 0).sum().clamp(min=1)


def siglip(
    queries: Tensor,
    keys: Tensor,
    *,
    negatives: Tensor | None = None,
    log_q: Tensor | None = None,
    ids: Tensor | None = None,
    temperature: float | Tensor = 0.1,
    bias: float | Tensor = -10.0,
    gather: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Tell the pairs of a batch from all other pairs of a query and a key, each by itself: the loss of SigLIP.

    ``-ln sigma(l)`` of the true key of a query and ``-ln sigma(-l)`` of every other key, with
    ``l = queries . keys / temperature + bias - log_q``; the loss of a query is the sum over keys. It is that of
    :func:`local_nce`, whose ``ln(N - 1)`` the bias learns.

    O(R B^2 d) time. Scores are computed in blocks, and once more for the gradient. Where there are R processes, their
    keys go round, a process holding those of one other at a time: memory is O(B d) and a block.

    Parameters
    ----------
    queries : Tensor of floats, shape (B, d)
        What is asked.
    keys : Tensor of floats, shape (B, d)
        ``keys[i]`` is the true answer to ``queries[i]``.
    negatives : Tensor of floats, shape (M, d) or (B, m, d), optional
        More keys, true of no query: hard negatives. Those of one query are candidates of all, and M = B m.
    log_q : Tensor of floats, shape (B + M,), optional
        Natural log of the probability of each key, then of each negative, among the candidates of batches; a constant
        of the loss.
    ids : Tensor of integers, shape (B + M,), optional
        What the keys, then the negatives, stand for. Other keys with the id of the true one are left out.
    temperature : float or Tensor of floats of one element, > 0
        What the scalar products are divided by. A tensor gets a gradient: of a learned scale, exp(-log_scale).
    bias : float or Tensor of floats of one element
        Added to the logits, so that the many other pairs do not outweigh the true ones at the start. A tensor gets a
        gradient.
    gather : bool
        Whether the keys of other processes are candidates too, where torch.distributed is initialised. All processes
        then have to call this function, and to go backward.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the queries of this process, their sum, or one loss per query.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats. Differentiable in ``queries``, ``keys``, ``negatives`` and ``bias``, in one process also by
        ``torch.func`` and twice.

    Raises
    ------
    InputError
        There is only one candidate; a shape, type or device does not fit, here or between processes; NaN or infinity;
        ``log_q`` above 0.
    NumericalError
        A scalar product of a query and a key is too large for the type.

    References
    ----------
    Zhai, Mustafa, Kolesnikov and Beyer 2023, "Sigmoid loss for language image pre-training", algorithm 1 and section
    3.3 (the ring).

    Examples
    --------
    >>> import torch
    >>> images, texts = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.eye(3)[:, :2]
    >>> bias = torch.tensor(-2.0, requires_grad=True)
    >>> siglip(images, texts, temperature=0.5, bias=bias, reduction="none").detach()
    tensor([0.9470, 0.3808, 3.5132])
    """
    owner = "siglip"
    check_reduction(owner, reduction)
    checked = check_batch(owner, queries, keys, negatives, log_q, ids, temperature, gather)
    how = How(BINARY, checked.scale, of_q=isinstance(bias, Tensor) or checked.joined)  # a ring asks each block for it
    if isinstance(bias, Tensor):
        bias = check_scalar(owner, "bias", bias, queries)
        check_finite(owner, "bias", bias)
    else:
        bias = queries.new_full((), check_real(owner, "bias", bias), dtype=working_dtype(queries))
    facts = [None if fact is None else fact[None] for fact in (checked.log_q, checked.ids)]
    if checked.joined:
        facts = [None if fact is None else all_gather(fact) for fact in facts]
        losses: Tensor = _Ring.apply(how, checked.queries, checked.rows, bias, *facts)  # type: ignore[no-untyped-call]
    else:
        losses = _of_block(how, checked.queries, checked.rows, bias, facts, 0, 0)
    return check_losses(owner, losses, reduction)


def check_losses(owner: str, losses: Tensor, reduction: Reduction) -> Tensor:
    """Return what is asked of losses of rows, if they are finite."""
    if reads_values(losses) and not bool(losses.detach().isfinite().all()):
        raise NumericalError(f"{owner}: a scalar product of queries and keys is too large. Normalise the vectors.")
    return reduce(losses, reduction)


class Checked(NamedTuple):
    """Vectors of this process that can be used."""

    queries: Tensor  # (B, d)
    scale: float  # what their scalar products are still to be multiplied by
    rows: Tensor  # (B + M, d): the keys, then the negatives
    log_q: Tensor | None  # (B + M,)
    ids: Tensor | None  # (B + M,)
    joined: bool  # whether those of other processes are candidates too

    def candidates(self) -> Candidates:
        """Return the keys of all processes, then all negatives."""
        n_pairs, rows, log_q, ids = len(self.queries), self.rows, self.log_q, self.ids
        target = torch.arange(n_pairs, device=rows.device)
        if self.joined:
            target += rank() * n_pairs
            rows = _of_all(rows, n_pairs)
            log_q, ids = (None if facts is None else _of_all(facts, n_pairs) for facts in (log_q, ids))
        if ids is None:
            return Candidates(rows, target, log_q)
        own = ids[target]
        return Candidates(rows, target, log_q, ids, own, ln_count(ids, own))


def check_batch(
    owner: str,
    queries: Tensor,
    keys: Tensor,
    negatives: Tensor | None,
    log_q: Tensor | None,
    ids: Tensor | None,
    temperature: float | Tensor,
    gather: bool,
    name_of_keys: str = "keys",
) -> Checked:
    """Return what can be used; in all processes the same, if they are joined."""
    check_floats(owner, "queries", queries, (None, None))
    check_floats(owner, "keys", keys, queries.shape)
    sides = {"queries": queries, "keys": keys}
    if negatives is not None:
        of_queries = isinstance(negatives, Tensor) and negatives.ndim == 3
        check_floats(owner, "negatives", negatives, (len(queries),) * of_queries + (None, queries.shape[1]))
        sides["negatives"] = negatives = negatives.flatten(0, -2)
    for name, side in sides.items():
        check_same_kind(owner, name, side, "queries", queries)
        check_finite(owner, name, side)
    if keys is queries:  # the compiler takes no tensor twice
        keys = keys.view_as(keys)
    rows = keys if negatives is None else torch.cat([keys, negatives])
    queries, scale = check_temperature(owner, queries, temperature)
    log_q, ids = check_facts(owner, "keys", rows, log_q, ids)
    joined = check_flag(owner, "gather", gather) and n_processes() > 1
    if joined:
        with_facts = {"with_log_q": log_q is not None, "with_ids": ids is not None}
        check_alike(owner, name_of_keys, keys, **with_facts, n_negatives=len(rows) - len(keys))
    elif len(rows) < 2:
        hint = "The negatives are the keys of the other queries. DataLoader(drop_last=True) drops a last batch of one."
        raise InputError(owner, name_of_keys, "two or more: in-batch negatives are the others", "a batch of one", hint)
    return Checked(queries, scale, rows, log_q, ids, joined)


def _of_all(rows: Tensor, n_pairs: int) -> Tensor:
    """Return the rows of all processes: of pairs, then of negatives."""
    joined = join_rows(rows)
    if len(rows) == n_pairs:
        return joined
    by_process = joined.reshape(n_processes(), len(rows), *rows.shape[1:])
    return torch.cat([by_process[:, :n_pairs].flatten(0, 1), by_process[:, n_pairs:].flatten(0, 1)])


def check_temperature(owner: str, queries: Tensor, temperature: float | Tensor) -> tuple[Tensor, float]:
    """Return the queries and by what they are still to be multiplied: those over a tensor carry its gradient."""
    if not isinstance(temperature, Tensor):
        return queries, 1 / check_real(owner, "temperature", temperature, low=0, open_low=True)
    divisor = check_scalar(owner, "temperature", temperature, queries)
    if reads_values(divisor):
        check_real(owner, "temperature", float(temperature.detach()), low=0, open_low=True)
    return queries.to(divisor.dtype) / divisor, 1.0


def check_scalar(owner: str, name: str, value: Tensor, queries: Tensor) -> Tensor:
    """Return a tensor of one element as a number, shape (), in the working type of the queries."""
    if value.numel() != 1 or not value.is_floating_point():
        got = f"{value.dtype} of shape {tuple(value.shape)}"
        raise InputError(owner, name, "a number, or a tensor of floats of one element", got)
    check_device(owner, name, value, "queries", queries)
    return value.reshape(()).to(working_dtype(queries))


def check_facts(
    owner: str, like_name: str, like: Tensor, log_q: Tensor | None, ids: Tensor | None, prefix: str = ""
) -> tuple[Tensor | None, Tensor | None]:
    """Return the logs of probabilities, in the working type, and the ids of vectors."""
    if log_q is not None:
        name = f"{prefix}log_q"
        check_device(owner, name, check_floats(owner, name, log_q, (len(like),)), like_name, like)
        check_log_probabilities(owner, name, log_q, "A key that is in the batch has a probability above 0.")
        log_q = log_q.detach().to(working_dtype(like))
    if ids is not None:
        ids = check_integers(owner, f"{prefix}ids", ids, (len(like),))
        check_device(owner, f"{prefix}ids", ids, like_name, like)
    return log_q, ids


def ln_count(ids: Tensor, own: Tensor) -> Tensor:
    """Return the logs of how often each own id comes: without the number of ids, for which a device would wait."""
    ascending, own = ids.sort().values, own.contiguous()
    return (torch.searchsorted(ascending, own, right=True) - torch.searchsorted(ascending, own)).log()


# -- ranking in both directions at once: of each block of scores, the rows and the columns are taken ------------------
#
# The sum over a column is kept as its logarithm while blocks of rows pass by; processes join theirs. Each then goes
# backward through its own rows of the matrix, for the losses of all rows and columns that they are part of.


class Across(NamedTuple):
    """The queries of all P pairs, as candidates of their keys, which are the first P of all."""

    log_q: Tensor | None  # (P,)
    ids: Tensor | None  # (P,)
    ln_count: Tensor | None  # (B,), of how often the id of each query of this process comes


class Both(NamedTuple):
    """What is constant in the loss."""

    scale: float
    n_pairs: int
    joined: bool  # whether other processes have queries too


def _one_by_one(both: Both, queries: Tensor, candidates: Candidates, across: Across) -> Tensor:
    """Return the mean of the two losses of each pair of this process, in the working type, shape (B,).

    In two passes, whose derivatives have derivatives.
    """
    how, target = How(RANKING, both.scale), _columns_of(candidates)
    own = None if across.ids is None else across.ids[target]
    others = join_rows(queries) if both.joined else queries
    turned = Candidates(others, target, across.log_q, across.ids, own, across.ln_count)
    return (blocked_loss(how, queries, candidates) + blocked_loss(how, candidates.keys[target], turned)) / 2


class _Symmetric(torch.autograd.Function):
    """The same in one pass."""

    @staticmethod
    def forward(ctx: Any, both: Both, queries: Tensor, *parts: Any) -> Tensor:
        candidates, across = Candidates(*parts[: len(Candidates._fields)]), Across(*parts[len(Candidates._fields) :])
        target = _columns_of(candidates)
        losses = torch.empty(len(queries), dtype=working_dtype(queries), device=queries.device)
        row_z, column_z = torch.empty_like(losses), losses.new_full((both.n_pairs,), -torch.inf)
        true = torch.empty_like(losses)
        with without_autocast(queries):
            for rows, _, _, scores in blocks(both.scale, queries, candidates.keys):
                columns = _column_logits(scores, both, across, target[rows, None], rows)
                true[rows] = columns.gather(1, target[rows, None])[:, 0]
                column_z = torch.logaddexp(column_z, columns.logsumexp(0))
                losses[rows], row_z[rows] = RANKING.value(*make_logits(scores, candidates, rows))
        if both.joined:
            column_z = all_gather(column_z[None]).logsumexp(0)
        ctx.both = both
        ctx.save_for_backward(row_z, column_z, queries, *parts)
        return (losses + column_z[target] - true) / 2

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        row_z, column_z, queries, *parts = ctx.saved_tensors
        candidates, across = Candidates(*parts[: len(Candidates._fields)]), Across(*parts[len(Candidates._fields) :])
        target, rest = _columns_of(candidates), (None,) * (len(parts) - 1)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # the gradient is to be differentiated
            wanted = [part for part in (queries, candidates.keys) if part.requires_grad]
            losses = _one_by_one(ctx.both, queries, candidates, across)
            found = iter(torch.autograd.grad(losses, wanted, weight, create_graph=True))
            return None, *(next(found) if p.requires_grad else None for p in (queries, candidates.keys)), *rest
        weight = weight / 2
        of_columns = all_gather(weight) if ctx.both.joined else weight
        of_queries = torch.empty_like(queries)
        of_keys = torch.zeros_like(candidates.keys, dtype=weight.dtype)
        with without_autocast(queries):
            for rows, scaled, keys, slope in blocks(ctx.both.scale, queries, candidates.keys):
                columns = _column_logits(slope, ctx.both, across, target[rows, None], rows)
                columns.sub_(column_z).exp_().mul_(of_columns)
                columns.scatter_add_(1, target[rows, None], -weight[rows, None])
                slope, _ = make_logits(slope, candidates, rows)
                RANKING.slope(slope, target[rows], row_z[rows])
                slope.mul_(weight[rows, None])
                slope[:, : ctx.both.n_pairs] += columns
                of_queries[rows] = torch.mm(slope, keys) * ctx.both.scale
                of_keys.addmm_(slope.T, scaled)
        return None, of_queries, of_keys.to(candidates.keys.dtype), *rest


def _columns_of(candidates: Candidates) -> Tensor:
    assert candidates.target is not None
    return candidates.target


def _column_logits(scores: Tensor, both: Both, across: Across, target: Tensor, rows: slice) -> Tensor:
    """Return the logits of the keys of pairs, (b, P): each column is of one key, and these rows are some of it."""
    logits = scores[:, : both.n_pairs].clone()
    if across.log_q is not None:
        logits.sub_(across.log_q[target])
    if across.ids is not None and across.ln_count is not None:
        hits = (across.ids[target] == across.ids).scatter_(1, target, False)
        logits.masked_fill_(hits, -torch.inf).scatter_add_(1, target, across.ln_count[rows, None].to(logits.dtype))
    return logits


# -- the sigmoid loss; across processes, the keys go round and are held by none ----------------------------------------


class _Ring(torch.autograd.Function):
    """The losses of the queries of this process against the keys of all, of which it has one block at a time."""

    @staticmethod
    def forward(ctx: Any, how: How, queries: Tensor, keys: Tensor, bias: Tensor, *facts: Tensor | None) -> Tensor:
        ctx.how = how
        ctx.save_for_backward(queries, keys, bias, *facts)
        losses = torch.zeros(len(queries), dtype=bias.dtype, device=bias.device)
        for step in range(n_processes()):
            keys = pass_on(keys) if step else keys
            losses += _of_block(how, queries, keys, bias, facts, rank(), (rank() - step) % n_processes())
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, bias, *facts = ctx.saved_tensors
        sums = [torch.zeros_like(part, dtype=bias.dtype) for part in (queries, keys, bias)]
        for step in range(n_processes()):
            parts = [part.detach().requires_grad_() for part in (queries, keys, bias)]
            with torch.enable_grad():
                whose = (rank() - step) % n_processes()
                losses = _of_block(ctx.how, parts[0], parts[1], parts[2], facts, rank(), whose)
            for total, part in zip(sums, torch.autograd.grad(losses, parts, weight), strict=True):
                total += part
            # The gradient of a block goes round with it, and is home in the end.
            keys, sums[1] = pass_on(keys), pass_on(sums[1])
        return None, sums[0].to(queries.dtype), sums[1].to(keys.dtype), sums[2], None, None


def _of_block(
    how: How, queries: Tensor, keys: Tensor, bias: Tensor, facts: Sequence[Tensor | None], me: int, whose: int
) -> Tensor:
    """Return the losses against the keys of one process, shape (B,); facts, log q and ids, have a row for each."""
    log_q, ids = (None if every is None else every[whose] for every in facts)
    own = None if facts[1] is None else facts[1][me, : len(queries)]
    target = torch.arange(len(queries), device=keys.device) if whose == me else None
    shift = -bias.expand(len(keys)) if log_q is None else log_q - bias
    return blocked_loss(how, queries, Candidates(keys, target, shift, ids, own))
