"""Small embedding tables in which objects share rows: hashing, and quotients with remainders."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearfar._checks import check_integer
from nearfar.nn._small_table import SmallTable, by_frequency, draw_hashes, hashed, normal, take_rows


class HashEmbedding(SmallTable):
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

    hashes: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        n_buckets: int,
        *,
        n_hashes: int = 2,
        std: float = 1.0,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        check_integer(self._owner, "n_buckets", n_buckets, low=1)
        check_integer(self._owner, "n_hashes", n_hashes, low=1)
        self.register_buffer("hashes", draw_hashes(n_hashes))
        self.importance = normal(num_embeddings, n_hashes, std=1 / math.sqrt(n_hashes))
        self.buckets = normal(n_buckets, embedding_dim, std=self._std)

    def _rows(self, ids: Tensor) -> Tensor:
        shared = take_rows(self.buckets, hashed(ids, self.hashes, len(self.buckets)))
        return (take_rows(self.importance, ids)[:, :, None] * shared).sum(1)


class BucketEmbedding(SmallTable):
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

    place: Tensor

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
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        check_integer(self._owner, "n_frequent", n_frequent, low=0, high=num_embeddings)
        check_integer(self._owner, "n_buckets", n_buckets, low=1)
        order = by_frequency(self._owner, counts, num_embeddings)
        place = n_frequent + hashed(torch.arange(num_embeddings), draw_hashes(1), n_buckets)[:, 0]
        place[order[:n_frequent].cpu()] = torch.arange(n_frequent)
        self.register_buffer("place", place.int())
        self.vectors = normal(n_frequent + n_buckets, embedding_dim, std=self._std)

    def _rows(self, ids: Tensor) -> Tensor:
        return take_rows(self.vectors, self.place[ids])


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
