"""In-batch ranking with the correction for popularity as a loss of sentence-transformers, which is not imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from nearfar._core.checks import check_integer
from nearfar._core.tensors import check_floats
from nearfar.contrastive.encoders import encode_in_chunks
from nearfar.contrastive.in_batch import InBatchNCE
from nearfar.errors import InputError

Features = Mapping[str, Any]  # what a tokenizer returns of a column of texts, and more that has no rows


class SentenceRankingLoss(torch.nn.Module):
    """Rank the answer to a text before those of the batch, with log q of texts: a loss of sentence-transformers.

    It stands where ``losses.MultipleNegativesRankingLoss(model)`` does, on the same columns: a query, its answer, and,
    if there are more, hard negatives. It is :class:`InBatchNCE` of normalised embeddings, with two things that come
    from the tokens of the texts: ``ids``, so that a text that comes twice in a batch is no negative of itself, and
    ``log_q``, how often each text comes among answers and negatives, estimated as batches go by. Without that, frequent
    answers are ranked too low.

    Parameters
    ----------
    model : SentenceTransformer
        Called with the features of a column; returns a dict with ``"sentence_embedding"``. So may any module.
    temperature : float or Tensor, default=0.05
        What the cosines are divided by: one over the ``scale`` of sentence-transformers.
    chunk_size : int, optional
        Texts are encoded so many at a time, by :func:`encode_in_chunks`: for batches larger than memory.
    n_buckets : int, default=262139
        How many frequencies are kept. Texts whose hashes meet share one.
    gather : bool, default=True
        Whether the answers and negatives of other processes are candidates too.

    Raises
    ------
    InputError
        An argument that cannot be used, or in a call, features without ``"input_ids"`` for each text.

    See Also
    --------
    nearfar.nn.InBatchNCE : the loss of embeddings; ``ranking`` is one, with the frequencies.

    Notes
    -----
    Frequencies are learned while the model is in training. They are buffers of the loss, which trainers do not save:
    training that goes on from a checkpoint estimates them anew.

    References
    ----------
    Yi et al. 2019, "Sampling-bias-corrected neural modeling for large corpus item recommendations" (log q in a stream,
    by hashes). Reimers and Gurevych 2019, "Sentence-BERT: sentence embeddings using siamese BERT-networks".

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> class Bags(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.words = torch.nn.EmbeddingBag(100, 8)
    ...
    ...     def forward(self, features):
    ...         return {"sentence_embedding": self.words(features["input_ids"])}
    >>> loss = nf.nn.SentenceRankingLoss(Bags())  # of sentence-transformers: SentenceTransformer(...)
    >>> questions, answers = (torch.randint(100, (4, 6)) for _ in range(2))
    >>> loss([{"input_ids": questions}, {"input_ids": answers}], None).shape
    torch.Size([])
    """

    def __init__(
        self,
        model: torch.nn.Module,
        temperature: float | Tensor = 0.05,
        *,
        chunk_size: int | None = None,
        n_buckets: int = 262_139,
        gather: bool = True,
    ) -> None:
        super().__init__()
        owner = "SentenceRankingLoss"
        self.model = model
        self.chunk_size = None if chunk_size is None else check_integer(owner, "chunk_size", chunk_size, low=1)
        self.ranking = InBatchNCE(temperature, n_buckets=n_buckets, gather=gather)

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return the loss of a batch.

        Parameters
        ----------
        sentence_features : iterable of dict
            The features of queries, of their answers, and of columns of hard negatives.
        labels : Tensor, optional
            Not used: the answer stands beside its query.

        Returns
        -------
        Tensor, shape ()
            The mean over the queries, in nats.
        """
        owner = "SentenceRankingLoss"
        columns = list(sentence_features)
        if len(columns) < 2:
            hint = "The data have a column of queries, one of answers, and may have some of negatives."
            raise InputError(owner, "sentence_features", "two columns or more", f"{len(columns)}", hint)
        queries, keys, *negatives = (normalize(self._encoded(features), dim=-1) for features in columns)
        ids = torch.cat([text_ids(owner, features, len(queries)) for features in columns[1:]])
        self.ranking.training = self.model.training  # a trainer turns the model, not the loss
        others = torch.cat(negatives) if negatives else None
        return self.ranking.forward(queries, keys, ids=ids, negatives=others)

    def _encoded(self, features: Features) -> Tensor:
        def encode(part: Features) -> Tensor:
            return self.model(dict(part))["sentence_embedding"]  # models write into what they get

        owner, size, tokens = "SentenceRankingLoss", self.chunk_size, features.get("input_ids")
        if size is None:
            return check_floats(owner, "sentence_embedding", encode(features), (None, None))
        if "offsets" in features or not isinstance(tokens, Tensor):
            expected = "left out for a model that takes no padded 'input_ids'"
            raise InputError(owner, "chunk_size", expected, f"{size}")
        n = len(tokens)
        of_rows = {k: v for k, v in features.items() if isinstance(v, Tensor) and v.ndim and len(v) == n}
        chunks = [{**features, **{k: v[i : i + size] for k, v in of_rows.items()}} for i in range(0, n, size)]
        return encode_in_chunks(encode, chunks)

    def get_config_dict(self) -> dict[str, object]:
        """Return what a model card says of the loss."""
        loss = self.ranking
        of_batch = {"chunk_size": self.chunk_size, "n_buckets": loss.noise.n, "gather": loss.gather}
        return {"temperature": float(loss.temperature), **of_batch}


def text_ids(owner: str, features: Features, n: int) -> Tensor:
    """Return a number for each of n texts that equal texts share: a hash of 64 bits of its tokens, in order."""
    tokens = features.get("input_ids")
    if not isinstance(tokens, Tensor):
        raise InputError(owner, "sentence_features", "with 'input_ids', the tokens of texts", sorted(features))
    if "offsets" in features:  # one text after the other, as for torch.nn.EmbeddingBag
        starts = features["offsets"]
        which = torch.searchsorted(starts, torch.arange(len(tokens), device=tokens.device), right=True) - 1
        place = torch.arange(len(tokens), device=tokens.device) - starts[which]
        found = torch.zeros_like(starts, dtype=torch.int64).index_add_(0, which, _mixed(tokens, place))
    else:
        tokens = tokens.unsqueeze(-1) if tokens.ndim == 1 else tokens
        mask = features.get("attention_mask", torch.ones_like(tokens)).long()
        found = (_mixed(tokens, mask.cumsum(1)) * mask).sum(1)  # wherever the padding is
    if len(found) != n:
        hint = "Let the model pad texts: batches flattened for unpadded attention say nothing of each."
        raise InputError(owner, "sentence_features", f"with the tokens of {n} texts", f"of {len(found)}", hint)
    return found


def _mixed(tokens: Tensor, place: Tensor) -> Tensor:
    """Return a hash of each token at its place: the steps of SplitMix64 (Steele, Lea and Flood 2014), which wrap."""
    mixed = tokens.long() * 0x1E3779B97F4A7C15 + place * 0x3F58476D1CE4E5B9
    for shift, factor in ((30, 0x3F58476D1CE4E5B9), (27, 0x14D049BB133111EB)):
        mixed = (mixed ^ (mixed >> shift)) * factor
    return mixed ^ (mixed >> 31)
