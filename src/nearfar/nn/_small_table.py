"""What small embedding tables have in common: the call of ``torch.nn.Embedding``, and their sizes."""

from __future__ import annotations

import torch
from torch import Tensor

from nearfar._checks import check_integer, check_real
from nearfar.errors import InputError
from nearfar.nn._anchor_rows import row_slices, uncompiled
from nearfar.nn._checks import check_floats, check_ids, check_integers, check_padding_idx, check_within

PRIME = 2**31 - 1  # of the hash functions


class SmallTable(torch.nn.Module):
    """Vectors (V, d) of objects; a subclass makes its parameters, and computes rows from them in ``_rows``."""

    def __init__(self, num_embeddings: int, embedding_dim: int, std: float, padding_idx: int | None) -> None:
        super().__init__()
        self.num_embeddings = check_integer(self._owner, "num_embeddings", num_embeddings, low=1)
        self.embedding_dim = check_integer(self._owner, "embedding_dim", embedding_dim, low=1)
        self._std = check_real(self._owner, "std", std, low=0, open_low=True)
        self.padding_idx = check_padding_idx(self._owner, padding_idx, self.num_embeddings)

    @property
    def _owner(self) -> str:
        return type(self).__name__

    def _rows(self, ids: Tensor) -> Tensor:
        """Return the vectors (n, d) of different objects (n,)."""
        raise NotImplementedError

    @uncompiled
    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of objects.

        Parameters
        ----------
        ids : Tensor of integers, any shape
            In 0 .. num_embeddings - 1; any may be repeated, and there may be none.

        Returns
        -------
        Tensor, shape (..., d), the dots standing for that of ``ids``
        """
        device = next(self.parameters()).device
        checked = check_ids(self._owner, ids, device)
        check_within(self._owner, "ids", checked, self.num_embeddings)
        if checked.numel() >= self.num_embeddings:  # most objects are in it: all are made
            return take_rows(self._without_padding(torch.arange(self.num_embeddings, device=device)), checked)
        ids, places = torch.unique(checked, return_inverse=True)
        return take_rows(self._without_padding(ids), places)

    def _without_padding(self, ids: Tensor) -> Tensor:
        rows = self._rows(ids)
        return rows if self.padding_idx is None else rows.masked_fill((ids == self.padding_idx)[:, None], 0)

    @property
    def weight(self) -> Tensor:
        """The whole table, (V, d), made anew at each access, without a gradient."""
        with torch.no_grad():
            device = next(self.parameters()).device
            blocks = row_slices(self.num_embeddings, self.embedding_dim)
            made = [self._without_padding(torch.arange(b.start, b.stop, device=device)) for b in blocks]
            return torch.cat(made)

    @property
    def n_parameters(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.parameters())

    @property
    def nbytes(self) -> int:
        """Bytes that the layer holds: parameters, and what says which of them belong to an object."""
        return sum(t.nbytes for t in (*self.parameters(), *self.buffers()))

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}, n_parameters={self.n_parameters}"


def take_rows(table: Tensor, ids: Tensor) -> Tensor:
    """Return the rows (..., k) of a table (n, k); on a CPU its gradient is faster than an embedding's."""
    return table.index_select(0, ids.flatten()).reshape(*ids.shape, table.shape[1])


def normal(*shape: int, std: float) -> torch.nn.Parameter:
    """Return a parameter drawn from N(0, std^2)."""
    return torch.nn.Parameter(std * torch.randn(shape))


def draw_hashes(n_hashes: int) -> Tensor:
    """Return the numbers (n_hashes, 2) of functions ((a i + b) mod p) mod n: Carter & Wegman (1979)."""
    return torch.stack([torch.randint(1, PRIME, (n_hashes,)), torch.randint(PRIME, (n_hashes,))], dim=1)


def hashed(ids: Tensor, hashes: Tensor, n_buckets: int) -> Tensor:
    """Return the buckets (n, n_hashes) of objects (n,)."""
    return (ids[:, None] * hashes[:, 0] + hashes[:, 1]) % PRIME % n_buckets


def by_frequency(owner: str, counts: object, n: int) -> Tensor:
    """Return the objects, the most frequent first; the smaller id first where counts are the same."""
    if isinstance(counts, Tensor) and not counts.is_floating_point():
        given = check_integers(owner, "counts", counts, (n,))
    else:
        given = check_floats(owner, "counts", counts, (n,))
    low = float(given.min())
    if not low >= 0 or float(given.max()) == torch.inf:
        raise InputError(owner, "counts", "finite numbers, none below 0", f"numbers from {low:g} to {given.max():g}")
    return given.argsort(descending=True, stable=True)
