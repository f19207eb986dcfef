"""Small embedding tables from shorter vectors or factors: unequal lengths, low rank, tensor trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from nearfar._checks import check_integer, check_real
from nearfar.errors import InputError
from nearfar.nn._small_table import SmallTable, by_frequency, normal, take_rows


class MixedDimensionEmbedding(SmallTable):
    """Mixed dimensions: frequent objects have long vectors, rare ones short vectors that a linear map makes longer.

    Objects, the most frequent first, are cut into blocks of equal mass: each has the same share of all occurrences.
    Block i, of n_i objects, has vectors of length d_i = base_dim (n_i / n_0)^-temperature, rounded to a power of 2.

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    counts : Tensor, shape (V,)
        How often each object occurs; not all 0.
    n_blocks : int, >= 1, default=8
        Number of blocks; there are fewer where one object has more than the share of a block.
    temperature : float, >= 0, default=0.4
        How fast vectors become shorter; with 0 all are equally long.
    base_dim : int, >= 1, optional
        Length of the vectors of the most frequent objects, d_0; ``embedding_dim`` if left out, and never more.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start.
    padding_idx : int, optional
        An object whose vector is 0; counted from the end if it is negative.

    Attributes
    ----------
    blocks : torch.nn.ParameterList
        Vectors (n_i, d_i) of each block.
    maps : torch.nn.ParameterDict
        Linear maps (d_i, d) by the number of the block; none where d_i = d.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    Notes
    -----
    ``n_parameters`` is the sum of n_i d_i, and of d_i d where d_i differs from d.

    References
    ----------
    Ginart et al. (2019), "Mixed dimension embeddings with application to memory-efficient recommendation systems",
    arXiv 1909.11810, algorithms 1 and 2.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> counts = 1e6 / torch.arange(1, 10_001)
    >>> table = nf.nn.MixedDimensionEmbedding(10_000, 64, counts, n_blocks=4)
    >>> table(torch.tensor([[3, 1, 4], [1, 5, 9]])).shape
    torch.Size([2, 3, 64])
    >>> [tuple(block.shape) for block in table.blocks]
    [(6, 64), (69, 32), (791, 8), (9134, 4)]
    """

    block_of: Tensor
    place: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        counts: Tensor,
        *,
        n_blocks: int = 8,
        temperature: float = 0.4,
        base_dim: int | None = None,
        std: float = 1.0,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        check_integer(self._owner, "n_blocks", n_blocks, low=1)
        check_real(self._owner, "temperature", temperature, low=0)
        first = embedding_dim if base_dim is None else check_integer(self._owner, "base_dim", base_dim, low=1)
        order = by_frequency(self._owner, counts, num_embeddings).cpu()
        sorted_counts = counts.cpu()[order].double()
        mass = sorted_counts.cumsum(0)
        if mass[-1] == 0:
            raise InputError(self._owner, "counts", "of at least one object that occurs", "zeros")
        share = (n_blocks * (mass - sorted_counts) / mass[-1]).long().clamp(max=n_blocks - 1)
        _, numbers, sizes = torch.unique(share, return_inverse=True, return_counts=True)
        start = sizes.cumsum(0) - sizes
        block_of, place = torch.empty_like(numbers), torch.empty_like(numbers)
        block_of[order] = numbers
        place[order] = torch.arange(num_embeddings) - start[numbers]
        self.register_buffer("block_of", block_of.short())
        self.register_buffer("place", place.int())
        lengths = [first * (n / int(sizes[0])) ** -temperature for n in sizes.tolist()]
        dims = [min(2 ** max(round(math.log2(x)), 0), embedding_dim) for x in lengths]
        self.blocks = torch.nn.ParameterList(
            normal(n, k, std=self._std) for n, k in zip(sizes.tolist(), dims, strict=True)
        )
        self.maps = torch.nn.ParameterDict(
            {str(i): normal(k, embedding_dim, std=1 / math.sqrt(k)) for i, k in enumerate(dims) if k != embedding_dim}
        )

    def _rows(self, ids: Tensor) -> Tensor:
        blocks = self.block_of[ids]
        made, found = [], []
        for number, vectors in enumerate(self.blocks):
            mine = torch.nonzero(blocks == number)[:, 0]
            rows = take_rows(vectors, self.place[ids[mine]])
            made.append(rows @ self.maps[str(number)] if str(number) in self.maps else rows)
            found.append(mine)
        return torch.cat(made)[torch.cat(found).argsort()]


class LowRankEmbedding(SmallTable):
    """A table of low rank, E = U W: short vectors and one linear map for all.

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    rank : int, >= 1
        Length of the short vectors, r; at most d.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start.
    padding_idx : int, optional
        An object whose vector is 0; counted from the end if it is negative.

    Attributes
    ----------
    vectors : torch.nn.Parameter, shape (V, r)
        U.
    map : torch.nn.Parameter, shape (r, d)
        W.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    Notes
    -----
    ``n_parameters`` is V r + r d.

    References
    ----------
    Lan et al. (2020), "ALBERT: a lite BERT for self-supervised learning of language representations", ICLR,
    section 3.1.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> table = nf.nn.LowRankEmbedding(10_000, 64, rank=4)
    >>> table(torch.tensor([[3, 1, 4], [1, 5, 9]])).shape
    torch.Size([2, 3, 64])
    >>> table.n_parameters == 10_000 * 4 + 4 * 64
    True
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        rank: int,
        *,
        std: float = 1.0,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        check_integer(self._owner, "rank", rank, low=1, high=embedding_dim)
        self.vectors = normal(num_embeddings, rank, std=self._std)
        self.map = normal(rank, embedding_dim, std=1 / math.sqrt(rank))

    def _rows(self, ids: Tensor) -> Tensor:
        return take_rows(self.vectors, ids) @ self.map


class TensorTrainEmbedding(SmallTable):
    """A table as a tensor train: E[(i_1 .. i_N), (j_1 .. j_N)] is a product of N small matrices, G_k[i_k, j_k].

    The digits i_k of an object's id are those of a number whose bases are ``row_shape``, the first digit the largest.

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    row_shape : sequence of int, each >= 1
        v_1 .. v_N, whose product is at least V.
    dim_shape : sequence of int, each >= 1
        d_1 .. d_N, whose product is d.
    rank : int, >= 1
        Size r of the matrices; the first has one row and the last one column.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start.
    padding_idx : int, optional
        An object whose vector is 0; counted from the end if it is negative.

    Attributes
    ----------
    cores : torch.nn.ParameterList
        G_k, shape (r_{k-1}, v_k, d_k, r_k), with r_0 = r_N = 1 and r elsewhere.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    Notes
    -----
    ``n_parameters`` is the sum of r_{k-1} v_k d_k r_k.

    References
    ----------
    Hrinchuk et al. (2019), "Tensorized embedding layers for efficient model compression", arXiv 1901.10787, section 3.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> table = nf.nn.TensorTrainEmbedding(10_000, 64, (20, 20, 25), (4, 4, 4), rank=8)
    >>> table(torch.tensor([[3, 1, 4], [1, 5, 9]])).shape
    torch.Size([2, 3, 64])
    >>> table.n_parameters == 20 * 4 * 8 + 8 * 20 * 4 * 8 + 8 * 25 * 4
    True
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        row_shape: Sequence[int],
        dim_shape: Sequence[int],
        rank: int,
        *,
        std: float = 1.0,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        self.row_shape, self.dim_shape = self._shape("row_shape", row_shape), self._shape("dim_shape", dim_shape)
        n_cores = len(self.row_shape)
        if math.prod(self.row_shape) < num_embeddings:
            expected = f"numbers whose product is num_embeddings, {num_embeddings}, or more"
            raise InputError(self._owner, "row_shape", expected, self.row_shape)
        if len(self.dim_shape) != n_cores or math.prod(self.dim_shape) != embedding_dim:
            expected = f"as many numbers as row_shape, {n_cores}, whose product is embedding_dim, {embedding_dim}"
            raise InputError(self._owner, "dim_shape", expected, self.dim_shape)
        check_integer(self._owner, "rank", rank, low=1)
        ranks = [1, *[rank] * (n_cores - 1), 1]
        each = (self._std**2 / math.prod(ranks)) ** (1 / (2 * n_cores))
        shapes = zip(pairwise(ranks), self.row_shape, self.dim_shape, strict=True)
        self.cores = torch.nn.ParameterList(normal(left, v, d, right, std=each) for (left, right), v, d in shapes)

    def _shape(self, name: str, given: Sequence[int]) -> tuple[int, ...]:
        if not isinstance(given, (tuple, list)) or not given:
            raise InputError(self._owner, name, "a tuple of integers", repr(given))
        return tuple(check_integer(self._owner, name, length, low=1) for length in given)

    def _rows(self, ids: Tensor) -> Tensor:
        return self._product(ids, len(self.cores))[:, :, 0]

    def _product(self, ids: Tensor, n_cores: int) -> Tensor:
        """Return the products (n, d_1 .. d_k, r_k) of the first cores: ids are numbers of the first digits."""
        core: Tensor = self.cores[n_cores - 1]
        _, v, d, right = core.shape
        if n_cores == 1:
            return core[0].index_select(0, ids)
        first, places = torch.unique(ids // v, return_inverse=True)
        before = self._product(first, n_cores - 1).index_select(0, places)  # (n, components so far, left)
        factors = core.transpose(0, 1).index_select(0, ids % v)  # (n, left, d, right)
        return (before @ factors.flatten(2)).reshape(len(ids), before.shape[1] * d, right)
