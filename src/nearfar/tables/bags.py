"""Bags of objects: the sum, mean or largest components of the vectors of each, for any table."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from nearfar._core.checks import check_choice, check_flag, check_integer, check_real
from nearfar._core.tensors import check_device, check_floats, check_ids, check_integers, reads_values
from nearfar.errors import InputError

Mode = Literal["sum", "mean", "max"]


class EmbeddingBag(torch.nn.Module):
    """One vector for each bag of objects, made of those of a table, with the calls of ``torch.nn.EmbeddingBag``.

    Parameters
    ----------
    table : torch.nn.Module
        Any table of this module, or ``torch.nn.Embedding``: called with ids, it returns their vectors.
    mode : {"mean", "sum", "max"}, default="mean"
        How the vectors of a bag become one.
    max_norm : float, > 0, optional
        Longer vectors of the table are scaled to this length, in the call: parameters stay as they are.
    padding_idx : int, optional
        An object that bags leave out, and do not count; that of the table if left out. Counted from the end of a table
        that knows its ``num_embeddings`` if it is negative.
    include_last_offset : bool, default=False
        Whether ``offsets`` ends with the number of ids.

    Raises
    ------
    InputError
        An argument that cannot be used.

    References
    ----------
    Bags of words in one vector: Joulin et al. (2017), "Bag of tricks for efficient text classification", EACL.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> bag = nf.nn.EmbeddingBag(nf.nn.AnchorEmbedding(1_000, 16, n_anchors=10), mode="sum")
    >>> bag(torch.tensor([3, 1, 4, 1, 5]), offsets=torch.tensor([0, 2])).shape  # 3 and 1; 4, 1 and 5
    torch.Size([2, 16])
    """

    def __init__(
        self,
        table: torch.nn.Module,
        mode: Mode = "mean",
        *,
        max_norm: float | None = None,
        padding_idx: int | None = None,
        include_last_offset: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(table, torch.nn.Module):
            raise InputError("EmbeddingBag", "table", "a table, a module that is called with ids", type(table).__name__)
        self.table = table
        self.mode = check_choice("EmbeddingBag", "mode", mode, ("sum", "mean", "max"))
        self.max_norm = None if max_norm is None else check_real("EmbeddingBag", "max_norm", max_norm, 0, open_low=True)
        self.padding_idx: int | None = getattr(table, "padding_idx", None)
        if padding_idx is not None:
            n: int = getattr(table, "num_embeddings", 0)  # of another module none is known
            found = check_integer("EmbeddingBag", "padding_idx", padding_idx, -n, n - 1 if n else None)
            self.padding_idx = found if found >= 0 else found + n
        self.include_last_offset = check_flag("EmbeddingBag", "include_last_offset", include_last_offset)

    def forward(self, ids: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return the vectors of bags.

        Parameters
        ----------
        ids : Tensor of integers, shape (B, m) or (n,)
            Bags of m objects each; or one bag after the other, with ``offsets``.
        offsets : Tensor of integers, shape (B,), or (B + 1,) with ``include_last_offset``
            Where each bag begins in ``ids`` (n,): 0 first, none before the one in front of it.
        per_sample_weights : Tensor of floats, shape of ``ids``, optional
            What each vector is multiplied by; with ``mode="sum"`` alone.

        Returns
        -------
        Tensor, shape (B, d)
            0 for a bag without objects.

        Raises
        ------
        InputError
            Shapes that do not fit, offsets that do not ascend from 0, weights with another mode.
        """
        owner = "EmbeddingBag"
        ids = check_ids(owner, ids, next(self.table.parameters()).device)
        flat = ids.flatten()
        if offsets is None:  # bags of m objects each
            if ids.ndim != 2:
                expected = "of shape (B, m), or given with offsets"
                raise InputError(owner, "ids", expected, f"shape {tuple(ids.shape)}")
            n_bags = len(ids)
            bags = torch.arange(n_bags, device=ids.device).repeat_interleave(ids.shape[1])
        else:
            if ids.ndim != 1:
                raise InputError(owner, "ids", "of shape (n,) where offsets are given", f"shape {tuple(ids.shape)}")
            begins = check_integers(owner, "offsets", offsets, (None,))
            check_device(owner, "offsets", begins, "ids", ids)
            if reads_values(begins):
                ascend = bool((begins.diff() >= 0).all()) and int(begins[0]) == 0 and int(begins[-1]) <= len(ids)
                if not ascend or (self.include_last_offset and int(begins[-1]) != len(ids)):
                    end = f"to {len(ids)}, the number of ids" if self.include_last_offset else f"to at most {len(ids)}"
                    raise InputError(owner, "offsets", f"ascending from 0 {end}", str(begins[:8].tolist()))
            begins = begins[:-1] if self.include_last_offset else begins
            n_bags = len(begins)
            bags = torch.searchsorted(begins, torch.arange(len(ids), device=ids.device), right=True) - 1
        vectors: Tensor = self.table(flat)
        if self.max_norm is not None:
            lengths = vectors.norm(dim=1, keepdim=True)
            vectors = vectors * (self.max_norm / lengths.clamp(min=torch.finfo(lengths.dtype).tiny)).clamp(max=1)
        if per_sample_weights is not None:
            if self.mode != "sum":
                raise InputError(owner, "per_sample_weights", 'given with mode="sum" alone', f"mode={self.mode!r}")
            weights = check_floats(owner, "per_sample_weights", per_sample_weights, tuple(ids.shape))
            check_device(owner, "per_sample_weights", weights, "ids", ids)
            vectors = vectors * weights.flatten()[:, None].to(vectors.dtype)
        counted = torch.ones_like(flat, dtype=torch.bool) if self.padding_idx is None else flat != self.padding_idx
        places = bags[:, None].expand_as(vectors)
        if self.mode == "max":
            low = vectors.masked_fill(~counted[:, None], -torch.inf)
            found = vectors.new_full((n_bags, vectors.shape[1]), -torch.inf).scatter_reduce(0, places, low, "amax")
            return found.masked_fill(found == -torch.inf, 0)
        kept = vectors.masked_fill(~counted[:, None], 0)
        sums = vectors.new_zeros(n_bags, vectors.shape[1]).index_add(0, bags, kept)
        if self.mode == "sum":
            return sums
        counts = sums.new_zeros(n_bags).index_add(0, bags, counted.to(sums.dtype))
        return sums / counts.clamp(min=1)[:, None]

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return f"mode={self.mode!r}" + ("" if self.max_norm is None else f", max_norm={self.max_norm:g}")
