"""Small embedding tables from the literature, to compare with anchors. All share the base :class:`SmallTable`.

Vectors of object i::

    HashEmbedding               sum_j P[i, j] B[h_j(i)]             rows shared by hash functions, weighted
    BucketEmbedding             a row of its own, or of a bucket    rows shared by a hash function
    QuotientRemainderEmbedding  Q[i // m] * R[i mod m]
    MixedDimensionEmbedding     short vectors for rare objects, made longer by linear maps
    LowRankEmbedding            U W
    QuantizedEmbedding          q(U) B                              q: odd whole numbers of a few bits
    TensorTrainEmbedding        a product of small matrices, one for each digit of i
    SelectionEmbedding          entries or rows that a penalty, or a threshold, makes 0
    VocabularyDropoutEmbedding  rows that are dropped where they bear much noise
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from nearfar._core.checks import check_choice, check_integer, check_real
from nearfar._core.ids import Ids
from nearfar._core.tensors import Context, check_floats, check_integers
from nearfar.embedding.files.content import Content
from nearfar.embedding.quantized import MOST_BITS, CodedRows
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.tables.small import CodedTable, SmallTable, normal, resized, take_rows

PRIME = 2**31 - 1  # of the hash functions
_SPREAD = 0.1  # standard deviation, at the start, of what is rounded to -1 .. 1


def draw_hashes(n_hashes: int, seed: int) -> Tensor:
    """Return the numbers (n_hashes, 2) of functions ((a i + b) mod p) mod n: Carter & Wegman (1979)."""
    rng = np.random.default_rng(seed)  # the same in all processes, which torch's need not be
    return torch.from_numpy(np.stack([rng.integers(1, PRIME, n_hashes), rng.integers(0, PRIME, n_hashes)], axis=1))


def hashed(ids: Tensor, hashes: Tensor, n_buckets: int) -> Tensor:
    """Return the buckets (n, n_hashes) of objects (n,)."""
    return (ids[:, None] * hashes[:, 0] + hashes[:, 1]) % PRIME % n_buckets


def by_frequency(owner: str, counts: object, n: int) -> Tensor:
    """Return the objects, the most frequent first; the smaller id first where counts are the same."""
    check = check_integers if isinstance(counts, Tensor) and not counts.is_floating_point() else check_floats
    checked = check(owner, "counts", counts, (n,))
    low, high = float(checked.min()), float(checked.max())
    if not low >= 0 or high == torch.inf:
        raise InputError(owner, "counts", "finite numbers, none below 0", f"numbers from {low:g} to {high:g}")
    return checked.cpu().argsort(descending=True, stable=True)


def factor(rows: Tensor, short: Tensor, to_long: Tensor) -> None:
    """Write the nearest product of rank r: short rows (n, r) and a map (r, d) of length 1."""
    left, sizes, right = torch.linalg.svd(rows.double(), full_matrices=False)
    n = min(len(sizes), short.shape[1])
    short.zero_()[:, :n] = (left * sizes)[:, :n]
    to_long.zero_()[:n] = right[:n]


class HashEmbedding(CodedTable):
    """Hash embeddings: a vector is a weighted sum of shared vectors, e_i = sum_j P[i, j] B[h_j(i)].

    Which of the shared vectors B an object has is drawn by hash functions; how much of each, its row of P, is learned.

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    n_buckets : int, >= 1
        Number of shared vectors; several times fewer than objects.
    n_hashes : int, >= 1, default=2
        Shared vectors of an object, k.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start.
    padding_idx : int, optional
        An object whose vector is 0; counted from the end if it is negative.
    seed : int, >= 0, default=0
        Of the hash functions.

    Attributes
    ----------
    importance : torch.nn.Parameter, shape (V, k)
        P.
    buckets : torch.nn.Parameter, shape (n_buckets, d)
        B.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    Notes
    -----
    ``n_parameters`` is n_buckets d + V k. Every object has a row of P of its own. The paper lets these rows be shared
    too, and may append them to the vectors.

    References
    ----------
    Svenstrup, Hansen & Winther (2017), "Hash embeddings for efficient word representations", NeurIPS, section 3.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> table = nf.nn.HashEmbedding(10_000, 64, n_buckets=500)
    >>> table(torch.tensor([[3, 1, 4], [1, 5, 9]])).shape
    torch.Size([2, 3, 64])
    >>> table.n_parameters == 500 * 64 + 10_000 * 2
    True
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        n_buckets: int,
        *,
        n_hashes: int = 2,
        std: float = 1.0,
        padding_idx: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        check_integer(self._owner, "n_buckets", n_buckets, low=1)
        check_integer(self._owner, "n_hashes", n_hashes, low=1)
        self._codes["hashes"] = draw_hashes(n_hashes, check_integer(self._owner, "seed", seed, low=0))
        self.importance = normal(num_embeddings, n_hashes, std=1 / math.sqrt(n_hashes))
        self.buckets = normal(n_buckets, embedding_dim, std=self._std)

    @property
    def hashes(self) -> Tensor:
        """Numbers (k, 2) of the hash functions."""
        return self._code("hashes")

    def _rows(self, ids: Tensor) -> Tensor:
        shared = take_rows(self.buckets, hashed(ids, self.hashes, len(self.buckets)))
        return (take_rows(self.importance, ids)[:, :, None] * shared).sum(1)

    def _resize(self, n: int) -> None:
        self.importance = resized(self.importance, n, 1 / math.sqrt(self.importance.shape[1]))


class BucketEmbedding(CodedTable):
    """Rows of their own for the most frequent objects; all others share the rows of some buckets, by a hash function.

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    counts : Tensor, shape (V,)
        How often each object occurs.
    n_frequent : int, >= 0
        How many objects have a row of their own.
    n_buckets : int, >= 1, default=1000
        Rows that the others share.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start.
    padding_idx : int, optional
        An object whose vector is 0; counted from the end if it is negative.
    seed : int, >= 0, default=0
        Of the hash functions.

    Attributes
    ----------
    vectors : torch.nn.Parameter, shape (n_frequent + n_buckets, d)
        Those of the frequent objects, most frequent first, then those of the buckets.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    Notes
    -----
    ``n_parameters`` is (n_frequent + n_buckets) d.

    References
    ----------
    Weinberger et al. (2009), "Feature hashing for large scale multitask learning", ICML; with rows for frequent words,
    the baseline "hash embed" of Liang et al. (2021), "Anchor & Transform", section 4.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> counts = torch.arange(10_000, 0, -1)
    >>> table = nf.nn.BucketEmbedding(10_000, 64, counts, n_frequent=200, n_buckets=300)
    >>> table(torch.tensor([[3, 1, 4], [1, 5, 9]])).shape
    torch.Size([2, 3, 64])
    >>> table.n_parameters == (200 + 300) * 64
    True
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        counts: Tensor,
        n_frequent: int,
        *,
        n_buckets: int = 1000,
        std: float = 1.0,
        padding_idx: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        check_integer(self._owner, "n_frequent", n_frequent, low=0, high=num_embeddings)
        check_integer(self._owner, "n_buckets", n_buckets, low=1)
        order = by_frequency(self._owner, counts, num_embeddings)
        self._n_frequent = n_frequent
        self._hashes = hashes = draw_hashes(1, check_integer(self._owner, "seed", seed, low=0))
        with torch.device("cpu"):  # a layer may be made on meta
            place = n_frequent + hashed(torch.arange(num_embeddings), hashes, n_buckets)[:, 0]
            place[order[:n_frequent]] = torch.arange(n_frequent)
        self._codes["place"] = place.int()
        self.vectors = normal(n_frequent + n_buckets, embedding_dim, std=self._std)

    @property
    def place(self) -> Tensor:
        """Rows (V,) of ``vectors`` that objects have."""
        return self._code("place")

    def _rows(self, ids: Tensor) -> Tensor:
        return take_rows(self.vectors, self.place[ids])

    def _fit(self, vectors: Tensor) -> None:
        place = self.place.long()
        counts = place.bincount(minlength=len(self.vectors)).clamp(min=1)
        self.vectors.copy_(torch.zeros_like(self.vectors).index_add_(0, place, vectors) / counts[:, None])

    def _resize(self, n: int) -> None:
        with torch.device("cpu"):
            new = self._n_frequent + hashed(torch.arange(n), self._hashes, len(self.vectors) - self._n_frequent)[:, 0]
        old = self.place.cpu()[:n]
        self._codes["place"] = torch.cat([old, new[len(old) :].int()])


class QuotientRemainderEmbedding(SmallTable):
    """Compositional codes: a vector is the product of the rows of an object's quotient and remainder.

    e_i = Q[i // m] * R[i mod m], component by component: no two objects have the same two rows.

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    n_remainders : int, >= 1
        By what ids are divided, m; at most V. The table is smallest where it is the root of V.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start.
    padding_idx : int, optional
        An object whose vector is 0; counted from the end if it is negative.

    Attributes
    ----------
    quotients : torch.nn.Parameter, shape (ceil(V / m), d)
        Q.
    remainders : torch.nn.Parameter, shape (m, d)
        R.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    Notes
    -----
    ``n_parameters`` is (ceil(V / m) + m) d.

    References
    ----------
    Shi et al. (2020), "Compositional embeddings using complementary partitions for memory-efficient recommendation
    systems", KDD, section 2, with the operation that does best there.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> table = nf.nn.QuotientRemainderEmbedding(10_000, 64, n_remainders=300)
    >>> table(torch.tensor([[3, 1, 4], [1, 5, 9]])).shape
    torch.Size([2, 3, 64])
    >>> table.n_parameters == (34 + 300) * 64
    True
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        n_remainders: int,
        *,
        std: float = 1.0,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        check_integer(self._owner, "n_remainders", n_remainders, low=1, high=num_embeddings)
        each = math.sqrt(self._std)
        self.quotients = normal(-(-num_embeddings // n_remainders), embedding_dim, std=each)
        self.remainders = normal(n_remainders, embedding_dim, std=each)

    def _rows(self, ids: Tensor) -> Tensor:
        m = len(self.remainders)
        return take_rows(self.quotients, ids // m) * take_rows(self.remainders, ids % m)

    def _resize(self, n: int) -> None:
        self.quotients = resized(self.quotients, -(-n // len(self.remainders)), math.sqrt(self._std))


class MixedDimensionEmbedding(CodedTable):
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
        order = by_frequency(self._owner, counts, num_embeddings)
        sorted_counts = counts.cpu()[order].double()
        mass = sorted_counts.cumsum(0)
        if mass[-1] == 0:
            raise InputError(self._owner, "counts", "of at least one object that occurs", "zeros")
        share = (n_blocks * (mass - sorted_counts) / mass[-1]).long().clamp(max=n_blocks - 1)
        _, numbers, sizes = torch.unique(share, return_inverse=True, return_counts=True)
        start = sizes.cumsum(0) - sizes
        block_of, place = torch.empty_like(numbers), torch.empty_like(numbers)
        block_of[order] = numbers
        place[order] = torch.arange(num_embeddings, device="cpu") - start[numbers]
        self._codes.update(block_of=block_of.short(), place=place.int())
        lengths = [first * (n / int(sizes[0])) ** -temperature for n in sizes.tolist()]
        dims = [min(2 ** max(round(math.log2(x)), 0), embedding_dim) for x in lengths]
        self.blocks = torch.nn.ParameterList(
            normal(n, k, std=self._std) for n, k in zip(sizes.tolist(), dims, strict=True)
        )
        self.maps = torch.nn.ParameterDict(
            {str(i): normal(k, embedding_dim, std=1 / math.sqrt(k)) for i, k in enumerate(dims) if k != embedding_dim}
        )

    @property
    def block_of(self) -> Tensor:
        """Blocks (V,) of objects."""
        return self._code("block_of")

    @property
    def place(self) -> Tensor:
        """Rows (V,) that they have there."""
        return self._code("place")

    def _rows(self, ids: Tensor) -> Tensor:
        blocks = self.block_of[ids]
        parts, places = [], []
        if torch.compiler.is_compiling():  # how many are of a block is known only when the graph runs
            every, found = self.place[ids], torch.zeros_like(self.blocks[0][:1, :1])
            for number, vectors in enumerate(self.blocks):
                rows = take_rows(vectors, every.clamp(max=len(vectors) - 1))
                rows = rows @ self.maps[str(number)] if str(number) in self.maps else rows
                found = torch.where((blocks == number)[:, None], rows, found)
            return found
        for number, vectors in enumerate(self.blocks):
            of_block = torch.nonzero(blocks == number)[:, 0]
            rows = take_rows(vectors, self.place[ids[of_block]])
            parts.append(rows @ self.maps[str(number)] if str(number) in self.maps else rows)
            places.append(of_block)
        return torch.cat(parts)[torch.cat(places).argsort()]

    def _fit(self, vectors: Tensor) -> None:
        for number, block in enumerate(self.blocks):
            objects = torch.nonzero(self.block_of == number)[:, 0]
            rows = vectors[objects[self.place[objects].argsort()]]
            if str(number) in self.maps:
                factor(rows, block, self.maps[str(number)])
            else:
                block.copy_(rows)

    def _resize(self, n: int) -> None:
        old, last = min(n, self.num_embeddings), len(self.blocks) - 1
        block_of, place = self.block_of.cpu()[:old], self.place.cpu()[:old]
        first = len(self.blocks[last])  # what comes is rare
        new = torch.arange(n - old, dtype=place.dtype, device="cpu")
        self._codes["block_of"] = torch.cat([block_of, torch.full_like(new, last).to(block_of.dtype)])
        self._codes["place"] = torch.cat([place, first + new])
        self.blocks[last] = resized(self.blocks[last], first + len(new), self._std)


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
        self, num_embeddings: int, embedding_dim: int, rank: int, *, std: float = 1.0, padding_idx: int | None = None
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        check_integer(self._owner, "rank", rank, low=1, high=embedding_dim)
        self.vectors = normal(num_embeddings, rank, std=self._std)
        self.map = normal(rank, embedding_dim, std=1 / math.sqrt(rank))

    def _rows(self, ids: Tensor) -> Tensor:
        return take_rows(self.vectors, ids) @ self.map

    def _fit(self, vectors: Tensor) -> None:
        factor(vectors, self.vectors, self.map)

    def _resize(self, n: int) -> None:
        self.vectors = resized(self.vectors, n, self._std)


def whole_numbers(x: Tensor, half: float) -> Tensor:
    """Return the k of the levels (k + 1/2) / h that are nearest, whole numbers from -h to h - 1."""
    return torch.floor(x * half).clamp(-half, half - 1)


class _Rounded(torch.autograd.Function):
    """(k + 1/2) / h for the whole k that is nearest, from -h to h - 1; the gradient passes as if nothing were rounded.

    It stops where a number is outside and would go further out.
    """

    @staticmethod
    def forward(ctx: Context, x: Tensor, half: float) -> Tensor:
        ctx.save_for_backward(x)
        return (whole_numbers(x, half) + 0.5) / half  # written in place, it has no gradient in graphs of torch 2.11

    @staticmethod
    def backward(ctx: Context, slope: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return slope.masked_fill((x.abs() > 1) & (slope * x < 0), 0), None


class QuantizedEmbedding(CodedTable):
    """A table that is trained as whole numbers of a few bits, E = q(U) B: what is trained is what is stored.

    U (V, r) is rounded in each call to one of 2^bits levels, and B maps the rounded rows to vectors: a number for each
    component, or a matrix (r, d) if a ``rank`` is given. Gradients pass to U as if nothing were rounded.

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    bits : int, from 1 to 8, default=4
        Of a number of q(U).
    rank : int, >= 1, optional
        Numbers of an object, r; at most d. Left out: d, and B is diagonal.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start.
    padding_idx : int, optional
        An object whose vector is 0; counted from the end if it is negative.

    Attributes
    ----------
    vectors : torch.nn.Parameter, shape (V, r), or None
        U, before it is rounded. What is outside of -1 .. 1 is rounded to the outermost level. None after ``pack``.
    basis : torch.nn.Parameter, shape (d,) or (r, d)
        B.
    stored_nbytes : int
        Bytes of codes and basis, as :meth:`export` and :meth:`pack` keep them; a ``state_dict`` too, after that.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    See Also
    --------
    nearfar.Embedding.quantize : rounds a table that is trained already, with a scale for each row.

    Notes
    -----
    Levels are (k + 1/2) / h for k = -h .. h - 1, with h = 2^(bits - 1): none of them is 0. U starts near 0, with a
    standard deviation of 0.1, whatever ``std`` is; 0.01 to 0.04 is a learning rate for Adam that suits it, and a tenth
    of that for ``basis``, which all objects move. Let it fall to 0 in the end, or numbers go on jumping between levels.

    ``n_parameters`` is V r, and d or r d. An object takes r bits / 8 bytes, rounded up.

    References
    ----------
    Bengio, Léonard & Courville (2013), "Estimating or propagating gradients through stochastic neurons", arXiv
    1308.3432, for gradients that pass through; Esser et al. (2020), "Learned step size quantization", ICLR, for scales
    that are learned. There, the levels are whole multiples of the scale, and its gradient is divided by a constant.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> table = nf.nn.QuantizedEmbedding(10_000, 64, bits=2, rank=16)
    >>> table(torch.tensor([[3, 1, 4], [1, 5, 9]])).shape
    torch.Size([2, 3, 64])
    >>> table.stored_nbytes == 10_000 * 16 * 2 // 8 + 16 * 64 * 4
    True
    >>> embedding = table.export()  # needs no torch
    >>> embedding.nbytes == table.stored_nbytes
    True
    """

    vectors: torch.nn.Parameter | None

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        bits: int = 4,
        rank: int | None = None,
        std: float = 1.0,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        self.bits = check_integer(self._owner, "bits", bits, low=1, high=MOST_BITS)
        if rank is not None:
            check_integer(self._owner, "rank", rank, low=1, high=embedding_dim)
        self.vectors = normal(num_embeddings, rank or embedding_dim, std=_SPREAD)
        with torch.no_grad():
            scale = self._std / self._rounded(self.vectors).square().mean().sqrt()
            if rank is None:
                self.basis = torch.nn.Parameter(scale.expand(embedding_dim).clone())
            else:
                self.basis = normal(rank, embedding_dim, std=1 / math.sqrt(rank))
                self.basis.mul_(scale)

    def _rows(self, ids: Tensor) -> Tensor:
        rounded = self._levels(ids) if self.vectors is None else self._rounded(take_rows(self.vectors, ids))
        return rounded * self.basis if self.basis.ndim == 1 else rounded @ self.basis

    def _rounded(self, x: Tensor) -> Tensor:
        found: Tensor = _Rounded.apply(x, self._half)  # type: ignore[no-untyped-call]
        return found

    @property
    def _half(self) -> float:
        return float(2 ** (self.bits - 1))

    def _fit(self, vectors: Tensor) -> None:
        short, basis = vectors.clone(), torch.ones_like(self.basis)
        if basis.ndim == 2:
            factor(vectors, short := vectors.new_empty(len(vectors), self._width), basis)
        widths = 2 * short.std(0).clamp(min=1e-12)
        self.vectors = torch.nn.Parameter(short / widths)
        self.basis.copy_(basis * (widths if basis.ndim == 1 else widths[:, None]))
        self._descend(vectors, lr=0.01)

    def _resize(self, n: int) -> None:
        if self.vectors is None:
            raise InputError(f"{self._owner}.resize", "self", "a table that is not packed", "one that is")
        self.vectors = resized(self.vectors, n, _SPREAD)

    @property
    def _width(self) -> int:
        return self.basis.shape[0]

    def _levels(self, ids: Tensor) -> Tensor:
        """Return rows (n, r) of q(U) from their codes."""
        codes = self._code("codes")[ids]
        places = (codes[:, :, None] >> torch.arange(8, device=codes.device, dtype=torch.uint8)) & 1
        places = places.flatten(1)[:, : self._width * self.bits].reshape(len(ids), self._width, self.bits)
        powers = 2.0 ** torch.arange(self.bits, device=codes.device)
        return ((places.float() @ powers + 0.5) / self._half - 1).to(self.basis.dtype)

    def pack(self) -> QuantizedEmbedding:
        """Keep the codes of U in its place: the layer, and its ``state_dict``, then take ``stored_nbytes``.

        U is trained no more. A state that was packed packs the layer that it is loaded into.

        Returns
        -------
        QuantizedEmbedding
            The layer itself.

        Examples
        --------
        >>> import nearfar as nf
        >>> table = nf.nn.QuantizedEmbedding(1_000, 16, bits=4).pack()
        >>> sum(part.nbytes for part in table.state_dict().values()) == table.nbytes == table.stored_nbytes
        True
        """
        if self.vectors is not None:
            codes = np.zeros((self.num_embeddings, -(-self._width * self.bits // 8)), np.uint8)
            if not self.vectors.is_meta:
                codes = self._packed(slice(None)).codes
            self._codes["codes"] = torch.from_numpy(codes)
            self.register_parameter("vectors", None)
        return self

    def _packed(self, rows: slice | NDArray[np.intp]) -> CodedRows:
        """Return rows as codes, and the basis of odd numbers that goes with them."""
        basis = (self.basis.detach().float() / (2 * self._half)).cpu().numpy()
        if self.vectors is None:
            return CodedRows(self._code("codes").cpu().numpy()[rows], basis, self.bits)
        with torch.no_grad():
            whole = whole_numbers(self.vectors.float(), self._half) + self._half
        return CodedRows.of(whole.long().cpu().numpy()[rows], basis, self.bits)

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *args: Any) -> None:
        if len(state.get(f"{prefix}_extra_state", ())) and f"{prefix}vectors" not in state:
            self.pack()
        super()._load_from_state_dict(state, prefix, *args)

    @property
    def n_parameters(self) -> int:
        """Number of parameters, those that were packed too."""
        return self.num_embeddings * self._width + self.basis.numel()

    @property
    def stored_nbytes(self) -> int:
        """Bytes of codes and basis, as :meth:`export` keeps them; :meth:`pack` keeps the row of padding, too."""
        n = self.num_embeddings - (self.padding_idx is not None)
        return n * -(-self._width * self.bits // 8) + 4 * self.basis.numel()

    def _exported(self, kept: NDArray[np.intp], names: Ids) -> Embedding:
        """Return codes and basis, which become float32 when rows are read."""
        parameters = {"layer": self._owner, "bits": self.bits, "padding_idx": self.padding_idx}
        return Embedding._from_content(Content(self._packed(kept), names, parameters=parameters))

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return f"{super().extra_repr()}, bits={self.bits}"


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
        self.row_shape = self._check_shape("row_shape", row_shape)
        self.dim_shape = self._check_shape("dim_shape", dim_shape)
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

    def _check_shape(self, name: str, shape: Sequence[int]) -> tuple[int, ...]:
        if not isinstance(shape, (tuple, list)) or not shape:
            raise InputError(self._owner, name, "a tuple of integers", repr(shape))
        return tuple(check_integer(self._owner, name, length, low=1) for length in shape)

    def _resize(self, n: int) -> None:
        most = math.prod(self.row_shape)
        if n > most:
            raise InputError(f"{self._owner}.resize", "num_embeddings", f"at most the product of row_shape, {most}", n)

    def _rows(self, ids: Tensor) -> Tensor:
        return self._product(ids, len(self.cores))[:, :, 0]

    def _product(self, ids: Tensor, n_cores: int) -> Tensor:
        """Return the products (n, d_1 .. d_k, r_k) of the first cores: ids are numbers of the first digits."""
        core: Tensor = self.cores[n_cores - 1]
        _, v, d, right = core.shape
        if n_cores == 1:
            return core[0].index_select(0, ids)
        first, places = ids // v, None
        if not torch.compiler.is_compiling():
            first, places = torch.unique(first, return_inverse=True)
        before = self._product(first, n_cores - 1)  # (n, components so far, left)
        before = before if places is None else before.index_select(0, places)
        factors = core.transpose(0, 1).index_select(0, ids % v)  # (n, left, d, right)
        return (before @ factors.flatten(2)).reshape(len(ids), before.shape[1] * d, right)


class SelectionTable(CodedTable):
    """Vectors (V, d), and which of them, or of their entries, are kept: ``kept`` (V, 1) or (V, d)."""

    vectors: torch.nn.Parameter

    def _start(self, width: int) -> None:
        self.vectors = normal(self.num_embeddings, self.embedding_dim, std=self._std)
        self._codes["kept"] = torch.ones(self.num_embeddings, width, dtype=torch.bool, device="cpu")

    @property
    def kept(self) -> Tensor:
        """What has not been taken out by ``prune``."""
        return self._code("kept")

    def _fit(self, vectors: Tensor) -> None:
        self.vectors.copy_(vectors)

    def _resize(self, n: int) -> None:
        self.vectors = resized(self.vectors, n, self._std)
        kept = self.kept[:n]
        self._codes["kept"] = torch.cat([kept, kept.new_ones(n - len(kept), kept.shape[1])])

    @property
    def _present(self) -> Tensor:
        return self.kept

    @property
    def scores(self) -> Tensor:
        """What is compared with the threshold of ``prune``."""
        raise NotImplementedError

    def prune(self, threshold: float) -> None:
        """Take out, for good, whatever has a score of at most ``threshold``: it reads as 0, and has no gradient.

        Parameters
        ----------
        threshold : float
            The largest score that is taken out.
        """
        check_real(f"{self._owner}.prune", "threshold", threshold)
        with torch.no_grad():
            self._codes["kept"] = self.kept & (self.scores > threshold)
            self.vectors.mul_(self.kept)

    def _rows(self, ids: Tensor) -> Tensor:
        return take_rows(self.vectors, ids) * self.kept[ids]

    @property
    def n_parameters(self) -> int:
        """Number of parameters that are left: entries that are not 0, or d for each row that is left."""
        return int(self._present.sum()) * (self.embedding_dim // self.kept.shape[1])


class SelectionEmbedding(SelectionTable):
    """An ordinary table whose entries, or rows, are selected by their size: slimming, sparse CBOW, group lasso.

    ``penalty`` is a term for the loss, which an optimiser follows by its subgradient; entries become small, and
    ``prune`` takes them out (slimming). ``shrink`` is the proximal step of the same penalty, to be called after the
    optimiser's own; it makes exact zeros (sparse CBOW; of rows: group lasso).

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    unit : {"entries", "rows"}, default="entries"
        What is selected: single entries, by their absolute values, or rows, by their lengths.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start.
    padding_idx : int, optional
        An object whose vector is 0; counted from the end if it is negative.

    Attributes
    ----------
    vectors : torch.nn.Parameter, shape (V, d)
        E.
    kept : Tensor of bool, shape (V, d) or (V, 1)
        What has not been taken out by ``prune``.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    Notes
    -----
    ``n_parameters`` counts the entries that are not 0, or d for each row that is not 0. In training the table is as
    large as any.

    References
    ----------
    Liu et al. (2017), "Learning efficient convolutional networks through network slimming", ICCV: the subgradient.
    Sun et al. (2016), "Sparse word embeddings using l1 regularized online learning", IJCAI: zeros in E itself; they
    reach them by dual averaging. Yuan & Lin (2006), "Model selection and estimation in regression with grouped
    variables", JRSS B 68: the group lasso.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> table = nf.nn.SelectionEmbedding(100, 4, unit="rows")
    >>> optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    >>> goal = (torch.arange(100) < 20).float()[:, None].expand(100, 4)
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (0.5 * (table(torch.arange(100)) - goal).square().sum()).backward()
    ...     optimizer.step()
    ...     table.shrink(0.1 * 0.2)  # the learning rate times the price of a unit of length
    >>> table.n_parameters == 20 * 4
    True
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        unit: Literal["entries", "rows"] = "entries",
        std: float = 1.0,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        self.unit = check_choice(self._owner, "unit", unit, ("entries", "rows"))
        self._start(embedding_dim if unit == "entries" else 1)

    @property
    def scores(self) -> Tensor:
        """Absolute values (V, d) of entries, or lengths (V, 1) of rows."""
        with torch.no_grad():
            return self.vectors.abs() if self.unit == "entries" else self.vectors.norm(dim=1, keepdim=True)

    @property
    def _present(self) -> Tensor:
        return self.kept & (self.scores > 0)

    def penalty(self) -> Tensor:
        """Return the sum of all absolute values, or of the lengths of all rows, to be added to a loss at a price.

        Returns
        -------
        Tensor, shape ()
        """
        return self.vectors.abs().sum() if self.unit == "entries" else self.vectors.norm(dim=1).sum()

    def shrink(self, threshold: float) -> None:
        """Make all entries, or all rows, shorter by ``threshold``, and 0 where they are shorter than that.

        Parameters
        ----------
        threshold : float, >= 0
            The learning rate times the price: with plain gradient descent this is the proximal step of the penalty.
        """
        check_real(f"{self._owner}.shrink", "threshold", threshold, low=0)
        with torch.no_grad():
            scores = self.scores
            self.vectors.mul_((scores - threshold).clamp_(min=0) / scores.clamp_(min=torch.finfo(scores.dtype).tiny))


class VocabularyDropoutEmbedding(SelectionTable):
    """Variational vocabulary dropout: noise for each object, as much as its vector bears; who bears much is dropped.

    In training the vector of object i is E_i (1 + sqrt(a_i) z), z from N(0, 1) for each component, drawn anew for each
    distinct object of a call where gradients are asked for. The rates a_i are learned: ``divergence`` asks for large
    ones, the loss for small ones where a vector matters. After training ``prune(-t)`` drops the objects with
    log a_i >= t.

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start.
    padding_idx : int, optional
        An object whose vector is 0; counted from the end if it is negative.

    Attributes
    ----------
    vectors : torch.nn.Parameter, shape (V, d)
        E.
    log_rate : torch.nn.Parameter, shape (V, 1)
        log a_i; -3 at first, between -10 and 10 wherever it is used.
    kept : Tensor of bool, shape (V, 1)
        Objects that have not been dropped by ``prune``.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    Notes
    -----
    ``n_parameters`` counts d for each object that is left; rates are needed in training only. The paper draws noise for
    each document, and starts log a_i between 0 and 3.

    References
    ----------
    Chen et al. (2019), "How large a vocabulary does text classification need? A variational approach to vocabulary
    selection", NAACL, section 3. Divergence: Molchanov et al. (2017), "Variational dropout sparsifies deep neural
    networks", ICML, eq. 14.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> table = nf.nn.VocabularyDropoutEmbedding(100, 4, std=0.1)
    >>> optimizer = torch.optim.Adam(table.parameters(), lr=0.05)
    >>> goal = (torch.arange(100) < 20).float()[:, None].expand(100, 4)
    >>> for _ in range(200):
    ...     optimizer.zero_grad()
    ...     loss = (table(torch.arange(100)) - goal).square().sum() + table.divergence()
    ...     loss.backward()
    ...     optimizer.step()
    >>> table.prune(0.0)
    >>> table.n_parameters == 20 * 4
    True
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, *, std: float = 1.0, padding_idx: int | None = None
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        self._start(1)
        self.log_rate = torch.nn.Parameter(torch.full((num_embeddings, 1), -3.0))

    def _resize(self, n: int) -> None:
        super()._resize(n)
        self.log_rate = resized(self.log_rate, n, 0.0)
        with torch.no_grad():
            self.log_rate[self.num_embeddings :] = -3.0

    @property
    def scores(self) -> Tensor:
        """How little noise an object bears, -log a_i, (V, 1)."""
        return -self.log_rate.detach()

    def divergence(self) -> Tensor:
        """Return the divergence of all vectors from their prior: the loss of one data set is to be added to it.

        Returns
        -------
        Tensor, shape ()
        """
        x = self.log_rate.clamp(-10, 10)
        return (0.63576 * (1 - torch.sigmoid(1.8732 + 1.48695 * x)) + 0.5 * softplus(-x)).sum()

    def _rows_of_call(self, ids: Tensor) -> Tensor:
        rows = self._rows(ids)
        if not self.training:
            return rows
        spread = take_rows(self.log_rate, ids).clamp(-10, 10).mul(0.5).exp()
        if torch.compiler.is_compiling():  # ids may be repeated, and then have the same noise
            noise = take_rows(torch.randn_like(self.vectors), ids)
        else:
            noise = torch.randn_like(rows)
        return rows * (1 + spread * noise)
