"""Small tables of vectors from other papers, beside anchors: what they hold of objects, and how a call finds a row.

Vectors of object i::

    HashTable               sum_j P[i, j] B[h_j(i)]             rows shared by hash functions, weighted
    BucketTable             a row of its own, or of a bucket    rows shared by a hash function
    QuotientRemainderTable  Q[i // m] * R[i mod m]
    MixedDimensionTable     short vectors for rare objects, made longer by linear maps
    LowRankTable            U W
    TensorTrainTable        a product of small matrices, one for each digit of i
    ShrinkingTable          entries or rows that a proximal step makes 0: sparse CBOW, group lasso
    VocabularyDropoutTable  rows that are dropped where they bear much noise

Svenstrup, Hansen & Winther (2017), "Hash embeddings for efficient word representations"; Weinberger et al. (2009),
"Feature hashing for large scale multitask learning", with rows for frequent objects as in the baseline "hash embed" of
Anchor & Transform; Shi et al. (2020), "Compositional embeddings using complementary partitions"; Ginart et al. (2019),
"Mixed dimension embeddings", algorithms 1 and 2; Lan et al. (2020), "ALBERT", section 3.1; Hrinchuk et al. (2019),
"Tensorized embedding layers"; Sun et al. (2016), "Sparse word embeddings using l1 regularized online learning", zeros
by proximal steps where they have dual averaging; Yuan & Lin (2006), the group lasso; Chen et al. (2019), "How large a
vocabulary does text classification need?", noise for each object of a call where they have it for each document.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

PRIME = 2**31 - 1  # of the hash functions


def normal(*shape: int, std: float) -> nn.Parameter:
    """Return a parameter drawn from N(0, std^2)."""
    return nn.Parameter(std * torch.randn(shape))


def draw_hashes(n_hashes: int) -> Tensor:
    """Return the numbers (n_hashes, 2) of functions ((a i + b) mod p) mod n: Carter & Wegman (1979)."""
    rng = np.random.default_rng(0)
    return torch.from_numpy(np.stack([rng.integers(1, PRIME, n_hashes), rng.integers(0, PRIME, n_hashes)], axis=1))


def hashed(ids: Tensor, hashes: Tensor, n_buckets: int) -> Tensor:
    """Return the buckets (n, n_hashes) of objects (n,)."""
    return (ids[:, None] * hashes[:, 0] + hashes[:, 1]) % PRIME % n_buckets


class PeerTable(nn.Module):
    """Vectors (V, d) of objects: a table makes parameters, and computes rows from them; buffers say what is whose."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim

    def rows(self, ids: Tensor) -> Tensor:
        """Return the vectors (n, d) of objects (n,)."""
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:
        if ids.numel() >= self.num_embeddings:  # most objects are in it: all are made
            every, places = torch.arange(self.num_embeddings), ids
        else:
            every, places = torch.unique(ids, return_inverse=True)
        return self.rows(every).index_select(0, places.flatten()).reshape(*ids.shape, self.embedding_dim)

    @property
    def weight(self) -> Tensor:
        """All vectors, (V, d)."""
        return self.rows(torch.arange(self.num_embeddings))

    @property
    def n_parameters(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.parameters())


class HashTable(PeerTable):
    """A weighted sum of shared vectors: which ones, hash functions say; how much of each is learned."""

    hashes: Tensor

    def __init__(self, n: int, d: int, n_buckets: int, *, n_hashes: int, std: float) -> None:
        super().__init__(n, d)
        self.register_buffer("hashes", draw_hashes(n_hashes))
        self.importance = normal(n, n_hashes, std=1 / math.sqrt(n_hashes))
        self.buckets = normal(n_buckets, d, std=std)

    def rows(self, ids: Tensor) -> Tensor:
        at = hashed(ids, self.hashes, len(self.buckets))
        shared = self.buckets.index_select(0, at.flatten()).reshape(*at.shape, self.embedding_dim)
        return (self.importance.index_select(0, ids)[:, :, None] * shared).sum(1)


class BucketTable(PeerTable):
    """Rows of their own for the most frequent objects; a hash function says which of some buckets others share."""

    place: Tensor

    def __init__(self, n: int, d: int, counts: Tensor, n_frequent: int, *, n_buckets: int, std: float) -> None:
        super().__init__(n, d)
        place = n_frequent + hashed(torch.arange(n), draw_hashes(1), n_buckets)[:, 0]
        place[counts.argsort(descending=True, stable=True)[:n_frequent]] = torch.arange(n_frequent)
        self.register_buffer("place", place.int())
        self.vectors = normal(n_frequent + n_buckets, d, std=std)

    def rows(self, ids: Tensor) -> Tensor:
        return self.vectors.index_select(0, self.place[ids])


class QuotientRemainderTable(PeerTable):
    """The product of the rows of an object's quotient and remainder by m: no two objects have the same two."""

    def __init__(self, n: int, d: int, n_remainders: int, *, std: float) -> None:
        super().__init__(n, d)
        self.quotients = normal(-(-n // n_remainders), d, std=math.sqrt(std))
        self.remainders = normal(n_remainders, d, std=math.sqrt(std))

    def rows(self, ids: Tensor) -> Tensor:
        m = len(self.remainders)
        return self.quotients.index_select(0, ids // m) * self.remainders.index_select(0, ids % m)


class MixedDimensionTable(PeerTable):
    """Long vectors for frequent objects, short ones for rare objects, which a linear map makes longer.

    Objects, the most frequent first, are cut into blocks of equal mass. Block i, of n_i objects, has vectors of length
    ``base_dim (n_i / n_0)^-temperature``, rounded to a power of 2.
    """

    block_of: Tensor
    place: Tensor

    def __init__(
        self, n: int, d: int, counts: Tensor, *, n_blocks: int, temperature: float, base_dim: int, std: float
    ) -> None:
        super().__init__(n, d)
        order = counts.argsort(descending=True, stable=True)
        sorted_counts = counts[order].double()
        mass = sorted_counts.cumsum(0)
        share = (n_blocks * (mass - sorted_counts) / mass[-1]).long().clamp(max=n_blocks - 1)
        _, numbers, sizes = torch.unique(share, return_inverse=True, return_counts=True)
        start = sizes.cumsum(0) - sizes
        block_of, place = torch.empty_like(numbers), torch.empty_like(numbers)
        block_of[order] = numbers
        place[order] = torch.arange(n) - start[numbers]
        self.register_buffer("block_of", block_of.short())
        self.register_buffer("place", place.int())
        lengths = [base_dim * (k / int(sizes[0])) ** -temperature for k in sizes.tolist()]
        dims = [min(2 ** max(round(math.log2(x)), 0), d) for x in lengths]
        self.blocks = nn.ParameterList(normal(k, dim, std=std) for k, dim in zip(sizes.tolist(), dims, strict=True))
        self.maps = nn.ParameterDict(
            {str(i): normal(dim, d, std=1 / math.sqrt(dim)) for i, dim in enumerate(dims) if dim != d}
        )

    def rows(self, ids: Tensor) -> Tensor:
        blocks, parts, places = self.block_of[ids], [], []
        for number, vectors in enumerate(self.blocks):
            of_block = torch.nonzero(blocks == number)[:, 0]
            found = vectors.index_select(0, self.place[ids[of_block]])
            parts.append(found @ self.maps[str(number)] if str(number) in self.maps else found)
            places.append(of_block)
        return torch.cat(parts)[torch.cat(places).argsort()]


class LowRankTable(PeerTable):
    """Short vectors and one linear map for all."""

    def __init__(self, n: int, d: int, rank: int, *, std: float) -> None:
        super().__init__(n, d)
        self.vectors = normal(n, rank, std=std)
        self.map = normal(rank, d, std=1 / math.sqrt(rank))

    def rows(self, ids: Tensor) -> Tensor:
        return self.vectors.index_select(0, ids) @ self.map


class TensorTrainTable(PeerTable):
    """E[(i_1 .. i_N), (j_1 .. j_N)] is a product of N small matrices, G_k[i_k, j_k].

    The digits i_k of an object's id are those of a number whose bases are ``row_shape``, the first digit the largest.
    """

    def __init__(
        self, n: int, d: int, row_shape: Sequence[int], dim_shape: Sequence[int], rank: int, *, std: float
    ) -> None:
        super().__init__(n, d)
        ranks = [1, *[rank] * (len(row_shape) - 1), 1]
        each = (std**2 / math.prod(ranks)) ** (1 / (2 * len(row_shape)))
        shapes = zip(pairwise(ranks), row_shape, dim_shape, strict=True)
        self.cores = nn.ParameterList(normal(left, v, k, right, std=each) for (left, right), v, k in shapes)

    def rows(self, ids: Tensor) -> Tensor:
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


class PrunedTable(PeerTable):
    """Vectors, and which of them, or of their entries, are kept: ``kept`` (V, 1) or (V, d)."""

    kept: Tensor

    def __init__(self, n: int, d: int, *, rows: bool, std: float) -> None:
        super().__init__(n, d)
        self.vectors = normal(n, d, std=std)
        self.register_buffer("kept", torch.ones(n, 1 if rows else d, dtype=torch.bool))

    @property
    def scores(self) -> Tensor:
        """Absolute values (V, d) of entries, or lengths (V, 1) of rows."""
        vectors = self.vectors.detach()
        return vectors.norm(dim=1, keepdim=True) if self.kept.shape[1] == 1 else vectors.abs()

    @property
    def present(self) -> Tensor:
        """What is left, of the shape of ``kept``."""
        return self.kept & (self.scores > 0)

    @property
    def n_parameters(self) -> int:
        """Number of parameters that are left: entries that are not 0, or d for each row that is left."""
        return int(self.present.sum()) * (self.embedding_dim // self.kept.shape[1])

    @torch.no_grad()
    def prune(self, threshold: float) -> None:
        """Take out, for good, whatever has a score of at most ``threshold``: it reads as 0, and has no gradient."""
        self.kept.logical_and_(self.scores > threshold)
        self.vectors.mul_(self.kept)

    def rows(self, ids: Tensor) -> Tensor:
        return self.vectors.index_select(0, ids) * self.kept[ids]


class ShrinkingTable(PrunedTable):
    """Entries (sparse CBOW) or rows (group lasso) that become 0 by the proximal step of their absolute sizes."""

    @torch.no_grad()
    def shrink(self, threshold: float) -> None:
        """Make all shorter by ``threshold``, the learning rate times the price, and 0 where they are shorter."""
        scores = self.scores
        self.vectors.mul_((scores - threshold).clamp_(min=0) / scores.clamp_(min=torch.finfo(scores.dtype).tiny))


class VocabularyDropoutTable(PrunedTable):
    """Noise for each object, as much as its vector bears: rows E_i (1 + sqrt(a_i) z) in training; who bears much goes.

    The rates a_i are learned: ``divergence`` asks for large ones, the loss for small ones where a vector matters.
    """

    def __init__(self, n: int, d: int, *, std: float) -> None:
        super().__init__(n, d, rows=True, std=std)
        self.log_rate = nn.Parameter(torch.full((n, 1), -3.0))

    @property
    def scores(self) -> Tensor:
        """How little noise an object bears, -log a_i, (V, 1)."""
        return -self.log_rate.detach()

    @property
    def present(self) -> Tensor:
        """Objects that are left."""
        return self.kept

    def divergence(self) -> Tensor:
        """Return the divergence of all vectors from their prior: Molchanov et al. (2017), eq. 14."""
        x = self.log_rate.clamp(-10, 10)
        return (0.63576 * (1 - torch.sigmoid(1.8732 + 1.48695 * x)) + 0.5 * softplus(-x)).sum()

    def rows(self, ids: Tensor) -> Tensor:
        found = super().rows(ids)
        if not self.training:
            return found
        spread = self.log_rate.index_select(0, ids).clamp(-10, 10).mul(0.5).exp()
        return found * (1 + spread * torch.randn_like(found))
