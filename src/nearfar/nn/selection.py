"""Tables from which entries or whole rows are taken out while they are trained, until few are left."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nearfar._checks import check_choice, check_real
from nearfar.nn._small_table import SmallTable, normal, take_rows

UNITS = ("entries", "rows")


class SelectionTable(SmallTable):
    """Vectors (V, d), and which of them, or of their entries, are kept: ``kept`` (V, 1) or (V, d)."""

    vectors: torch.nn.Parameter
    kept: Tensor

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
            self.kept &= self.scores > threshold
            self.vectors.mul_(self.kept)

    def _rows(self, ids: Tensor) -> Tensor:
        return take_rows(self.vectors, ids) * self.kept[ids]

    @property
    def n_parameters(self) -> int:
        """Number of parameters that are left: entries that are not 0, or rows times d."""
        return int(self.kept.sum()) * (self.embedding_dim // self.kept.shape[1])


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
        unit: str = "entries",
        std: float = 1.0,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        self.unit = check_choice(self._owner, "unit", unit, UNITS)
        self.vectors = normal(num_embeddings, embedding_dim, std=self._std)
        kept = torch.ones(num_embeddings, embedding_dim if unit == "entries" else 1, dtype=torch.bool)
        self.register_buffer("kept", kept)

    @property
    def scores(self) -> Tensor:
        """Absolute values (V, d) of entries, or lengths (V, 1) of rows."""
        with torch.no_grad():
            return self.vectors.abs() if self.unit == "entries" else self.vectors.norm(dim=1, keepdim=True)

    @property
    def n_parameters(self) -> int:
        """Number of parameters that are left: entries that are not 0, or d for each row that is not 0."""
        return int((self.kept & (self.scores > 0)).sum()) * (self.embedding_dim // self.kept.shape[1])

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
        self.vectors = normal(num_embeddings, embedding_dim, std=self._std)
        self.log_rate = torch.nn.Parameter(torch.full((num_embeddings, 1), -3.0))
        self.register_buffer("kept", torch.ones(num_embeddings, 1, dtype=torch.bool))

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

    def _rows(self, ids: Tensor) -> Tensor:
        rows = super()._rows(ids)
        if not (self.training and torch.is_grad_enabled()):
            return rows
        spread = take_rows(self.log_rate, ids).clamp(-10, 10).mul(0.5).exp()
        return rows * (1 + spread * torch.randn_like(rows))
