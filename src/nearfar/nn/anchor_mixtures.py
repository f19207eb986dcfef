"""Sums of several anchor embeddings whose weights are those of a softmax."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.nn.functional import embedding

from nearfar.errors import InputError
from nearfar.nn._anchor_rows import uncompiled
from nearfar.nn.anchors import AnchorEmbedding


@uncompiled
def softmax_mixture(tables: Sequence[AnchorEmbedding], ids: Tensor) -> Tensor:
    """Return vectors of objects as sums over tables of ``softmax(t) A``: positive weights, their sum 1 in each table.

    T stays sparse: an entry that is 0 counts exp(0) = 1, so that a row without entries is the mean of all anchors, and
    an entry says how far its anchor stands out. Exactly,

        softmax(t) A = (sum of A + sum over nonzero t_a of (exp(t_a) - 1) A_a) / (K + sum of (exp(t_a) - 1)).

    Parameters
    ----------
    tables : sequence of AnchorEmbedding
        One or more, of as many objects and dimensions each.
    ids : Tensor of integers, any shape
        In 0 .. V - 1.

    Returns
    -------
    Tensor, shape (..., d), the dots standing for that of ``ids``
        Of an object that is padding in a table, 0 for that table.

    Raises
    ------
    InputError
        Tables that do not fit together, or ids that are no ids.

    Notes
    -----
    Train the tables by :class:`ProxSGD`, :class:`ProxAdam` or :class:`ProxYogi`. Their own calls, ``logits``,
    ``weight`` and ``export`` are those of T A, without the softmax.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", mixtures of anchors.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> tables = torch.nn.ModuleList(nf.nn.AnchorEmbedding(1_000, 16, n_anchors=10) for _ in range(2))
    >>> nf.nn.softmax_mixture(tables, torch.tensor([[3, 1], [4, 1]])).shape
    torch.Size([2, 2, 16])
    """
    owner = "softmax_mixture"
    checked = _checked(owner, tables)
    rows, places = checked[0]._distinct(owner, ids)
    return embedding(places, reduce(torch.add, (_mixed(table, rows) for table in checked)))


def _mixed(table: AnchorEmbedding, rows: Tensor) -> Tensor:
    vectors = torch.softmax(table._mixtures(rows), 1) @ table.anchors[: table.n_active]
    return vectors.masked_fill((rows == table._padding_row)[:, None], 0)


def _checked(owner: str, tables: object) -> list[AnchorEmbedding]:
    found = list(tables) if isinstance(tables, Sequence | torch.nn.ModuleList) else []
    wrong = next((type(table).__name__ for table in found if not isinstance(table, AnchorEmbedding)), None)
    if not found or wrong is not None:
        raise InputError(owner, "tables", "one AnchorEmbedding or more in a list", wrong or type(tables).__name__)
    shapes = sorted({(table.num_embeddings, table.embedding_dim) for table in found})
    if len(shapes) > 1:
        raise InputError(owner, "tables", "of as many objects and dimensions each", f"{shapes[0]} and {shapes[1]}")
    return found
