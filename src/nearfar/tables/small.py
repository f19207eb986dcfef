"""Small embedding tables with the calls of ``torch.nn.Embedding``: :class:`SmallTable`, and two of its kind.

Vectors of object i::

    QuantizedEmbedding    q(U) B    q: odd whole numbers of a few bits
    SelectionEmbedding    E         entries are taken out that a penalty made small
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor

from nearfar._core.checks import check_flag, check_integer, check_real
from nearfar._core.ids import Ids, check_names
from nearfar._core.tensors import Coded, check_finite, check_floats, check_ids, check_padding_idx, check_within
from nearfar.embedding.content import Content
from nearfar.embedding.files.registry import check_output
from nearfar.embedding.packed import MOST_BITS, ROW_SCALES, UNIT_SCALE, CodedRows
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.tables.slots import Formed, HasFormed, row_slices

_FIT_STEPS = 400
_SPREAD = 0.1  # standard deviation, at the start, of what is rounded to -1 .. 1


class FormedTable(Formed):
    """The vectors of a small table, which it is no use to write to."""

    owner = "small table"
    hint = "Initialise the parameters of the layer, or freeze the layer itself; for other uses clone the weight."
    tied = "To tie the output to it: torch.nn.functional.linear(hidden, table.weight)."


class SmallTable(Coded, HasFormed):
    """Vectors (V, d) of objects; a subclass makes its parameters, and computes rows from them in ``_rows``.

    Whole numbers and truths beside the parameters are kept as :class:`Coded` says.
    """

    formed = FormedTable

    def __init__(self, num_embeddings: int, embedding_dim: int, std: float, padding_idx: int | None) -> None:
        super().__init__()
        self.num_embeddings = check_integer(self._owner, "num_embeddings", num_embeddings, low=1)
        self.embedding_dim = check_integer(self._owner, "embedding_dim", embedding_dim, low=1)
        self._std = check_real(self._owner, "std", std, low=0, open_low=True)
        self.padding_idx = check_padding_idx(self._owner, padding_idx, self.num_embeddings)

    @property
    def _owner(self) -> str:
        return type(self).__name__

    @property
    def _device(self) -> torch.device:
        return next(self.parameters()).device

    def _rows(self, ids: Tensor) -> Tensor:
        """Return the vectors (n, d) of objects (n,)."""
        raise NotImplementedError

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
        if torch.compiler.is_compiling():  # which ids are different is known only when the graph runs
            return self._vectors(ids.flatten().long()).reshape(*ids.shape, self.embedding_dim)
        checked = check_ids(self._owner, ids, self._device)
        check_within(self._owner, "ids", checked, self.num_embeddings)
        if checked.numel() >= self.num_embeddings:  # most objects are in it: all are made
            ids, places = torch.arange(self.num_embeddings, device=self._device), checked
        else:
            ids, places = torch.unique(checked, return_inverse=True)
        return take_rows(self._vectors(ids), places)

    def _vectors(self, ids: Tensor) -> Tensor:
        """Return the vectors (n, d) of objects (n,), 0 for padding."""
        rows = self._rows(ids)
        return rows if self.padding_idx is None else rows.masked_fill((ids == self.padding_idx)[:, None], 0)

    @property
    def weight(self) -> Tensor:
        """The whole table, (V, d), made anew at each access; gradients go to the parameters.

        To write to it raises InputError.
        """
        every = torch.arange(self.num_embeddings, device=self._device)
        blocks = row_slices(self.num_embeddings, self.embedding_dim)
        return torch.cat([self._vectors(every[block]) for block in blocks]).as_subclass(FormedTable)

    @classmethod
    def from_pretrained(cls, vectors: Tensor, freeze: bool = True, **options: float | None) -> Self:
        """Return a table near to vectors that exist already, by least squares.

        Parameters
        ----------
        vectors : Tensor of floats, shape (V, d)
            The table to come near to.
        freeze : bool, default=True
            Whether nothing is to be trained any more, as in ``torch.nn.Embedding.from_pretrained``.
        **options
            Arguments of the class but V and d.

        Returns
        -------
        SmallTable
            Of this class.

        Raises
        ------
        InputError
            ``vectors`` is no finite matrix, or an argument cannot be used.

        Notes
        -----
        The steps of a fit take random rows, which ``torch.manual_seed`` seeds.
        """
        owner = f"{cls.__name__}.from_pretrained"
        wanted = check_floats(owner, "vectors", vectors, (None, None)).detach()
        check_finite(owner, "vectors", wanted)
        frozen = check_flag(owner, "freeze", freeze)
        layer = cast("Callable[..., Self]", cls)(*wanted.shape, **options).to(wanted)
        with torch.no_grad():
            layer._fit(wanted)
        return layer.requires_grad_(not frozen)

    def _fit(self, vectors: Tensor) -> None:
        """Make the rows such as the vectors (V, d)."""
        raise NotImplementedError

    def resize(self, num_embeddings: int) -> Self:
        """Change the number of objects in place: new ones come after the others, and start as in a new table.

        Parameters
        ----------
        num_embeddings : int, >= 1
            New number of objects, V. With fewer, the last objects are left out.

        Returns
        -------
        SmallTable
            The layer itself. Parameters are new: make the optimiser after this.

        Raises
        ------
        InputError
            The row of padding is left out, or the table cannot change.
        """
        n = check_integer(f"{self._owner}.resize", "num_embeddings", num_embeddings, low=1)
        if self.padding_idx is not None and self.padding_idx >= n:
            raise InputError(f"{self._owner}.resize", "num_embeddings", f"above padding, {self.padding_idx}", n)
        self._resize(n)
        self.num_embeddings = n
        return self

    def _resize(self, n: int) -> None:
        """Change what belongs to single objects."""
        raise NotImplementedError

    @property
    def n_parameters(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.parameters())

    @property
    def nbytes(self) -> int:
        """Bytes that the layer holds: parameters, and what is kept beside them."""
        return sum(part.nbytes for part in (*self.parameters(), *self._codes.values()))

    def export(self, path: str | os.PathLike[str] | None = None, ids: Iterable[Hashable] | None = None) -> Embedding:
        """Return the vectors as an embedding that needs no torch, and write it to a file.

        Parameters
        ----------
        path : path-like, optional
            Where to write it.
        ids : iterable of hashable, of length V, optional
            Distinct names of the objects; 0 .. V - 1 by default.

        Returns
        -------
        Embedding
            float32, with a row for each object: that of padding is 0.

        Raises
        ------
        InputError
            If names are not distinct and as many as there are objects, the path cannot be written to, or a parameter
            is not finite.
        """
        owner = f"{self._owner}.export"
        if path is not None:
            check_output(owner, path)
        names = check_names(owner, "ids", ids, self.num_embeddings)
        if not all(torch.isfinite(p).all() for p in self.parameters()):
            raise InputError(owner, "parameters", "finite", "NaN or infinity", "Training has failed before.")
        made = self._exported(names)
        if path is not None:
            made.save(path)
        return made

    def _exported(self, names: Ids) -> Embedding:
        """Return the embedding of all objects."""
        with torch.no_grad():
            vectors = self.weight.as_subclass(Tensor).to("cpu", torch.float32).numpy()
        return Embedding._from_content(Content(vectors, names, parameters={"layer": self._owner}))

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}, n_parameters={self.n_parameters}"


def resized(old: torch.nn.Parameter, n: int, std: float) -> torch.nn.Parameter:
    """Return a parameter of n rows: those that are there, and new ones from N(0, std^2)."""
    n_new = max(n - len(old), 0)
    drawn = std * torch.randn(n_new, *old.shape[1:], dtype=old.dtype, device=old.device)
    return torch.nn.Parameter(torch.cat([old.detach()[:n], drawn]), requires_grad=old.requires_grad)


def take_rows(table: Tensor, ids: Tensor) -> Tensor:
    """Return the rows (..., k) of a table (n, k); on a CPU its gradient is faster than an embedding's."""
    return table.index_select(0, ids.flatten()).reshape(*ids.shape, table.shape[1])


def normal(*shape: int, std: float) -> torch.nn.Parameter:
    """Return a parameter drawn from N(0, std^2)."""
    return torch.nn.Parameter(std * torch.randn(shape))


def whole_numbers(x: Tensor, half: float) -> Tensor:
    """Return the k of the levels (k + 1/2) / h that are nearest, whole numbers from -h to h - 1."""
    return torch.floor(x * half).clamp(-half, half - 1)


class _Rounded(torch.autograd.Function):
    """(k + 1/2) / h for the whole k that is nearest, from -h to h - 1; the gradient passes as if nothing were rounded.

    It stops where a number is outside and would go further out.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, half: float) -> Tensor:
        ctx.save_for_backward(x)
        return (whole_numbers(x, half) + 0.5) / half  # written in place, it has no gradient in graphs of torch 2.11

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return slope.masked_fill((x.abs() > 1) & (slope * x < 0), 0), None


class QuantizedEmbedding(SmallTable):
    """A table that is trained as whole numbers of a few bits, E = q(U) B: what is trained is what is stored.

    U (V, r) is rounded in each call to one of 2^bits levels, and B maps the rounded rows to vectors: a number for each
    component, or a matrix (r, d) if a ``rank`` is given. Gradients pass to U as if nothing were rounded.
    ``from_pretrained`` scales each row by its length besides, to a byte: the next power of 2^(1/4).

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

    ``n_parameters`` is V r, and d or r d. An object takes r bits / 8 bytes, rounded up, and one more in a table that
    has scales or a row of padding, whose scale is 0.

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
        self._half = float(2 ** (self.bits - 1))
        if rank is not None:
            check_integer(self._owner, "rank", rank, low=1, high=embedding_dim)
        self.vectors = normal(num_embeddings, rank or embedding_dim, std=_SPREAD)
        if self.padding_idx is not None:
            self._codes["scales"] = self._code_scales(torch.ones(num_embeddings))
        with torch.no_grad():
            scale = self._std / self._rounded(self.vectors).square().mean().sqrt()
            if rank is None:
                self.basis = torch.nn.Parameter(scale.expand(embedding_dim).clone())
            else:
                self.basis = normal(rank, embedding_dim, std=1 / math.sqrt(rank))
                self.basis.mul_(scale)

    def _rows(self, ids: Tensor) -> Tensor:
        if self.vectors is not None:
            rounded = self._rounded(take_rows(self.vectors, ids))
        else:  # q(U) from its codes
            codes = self._code("codes")[ids]
            places = (codes[:, :, None] >> torch.arange(8, device=codes.device, dtype=torch.uint8)) & 1
            places = places.flatten(1)[:, : self._width * self.bits].reshape(len(ids), self._width, self.bits)
            powers = 2.0 ** torch.arange(self.bits, device=codes.device)
            rounded = ((places.float() @ powers + 0.5) / self._half - 1).to(self.basis.dtype)
        if "scales" in self._codes:
            rounded = rounded * self._row_scales(self._code("scales")[ids])
        return rounded * self.basis if self.basis.ndim == 1 else rounded @ self.basis

    def _row_scales(self, codes: Tensor) -> Tensor:
        """Return the scales (n, 1) that bytes (n,) stand for."""
        return torch.as_tensor(ROW_SCALES, device=codes.device)[codes.int(), None].to(self.basis.dtype)

    def _code_scales(self, lengths: Tensor) -> Tensor:
        """Return the bytes of the scales nearest to lengths (n,): of length 0 and of padding that of 0."""
        codes = (UNIT_SCALE + 4 * lengths.log2()).round().clamp(1, 255).masked_fill(lengths == 0, 0)
        if self.padding_idx is not None:
            codes[self.padding_idx] = 0
        return codes.to(torch.uint8)

    def _rounded(self, x: Tensor) -> Tensor:
        return _Rounded.apply(x, self._half)  # type: ignore[no-untyped-call]

    def _fit(self, vectors: Tensor) -> None:
        short, basis = vectors.clone(), torch.ones_like(self.basis)
        if basis.ndim == 2:  # the nearest product of this rank
            left, sizes, right = torch.linalg.svd(vectors.double(), full_matrices=False)
            n = min(len(sizes), self._width)
            short = vectors.new_zeros(len(vectors), self._width)
            short[:, :n] = (left * sizes)[:, :n]
            basis.zero_()[:n] = right[:n]
        codes = self._code_scales(short.square().mean(1).sqrt())
        short, vectors = (x / self._row_scales(codes).clamp(min=1e-12) for x in (short, vectors))
        self._codes.pop("scales", None)  # the fit is that of rows of length 1
        widths = 2 * short.std(0).clamp(min=1e-12)
        self.vectors = torch.nn.Parameter(short / widths)
        self.basis.copy_(basis * (widths if basis.ndim == 1 else widths[:, None]))
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _FIT_STEPS)
        n_rows = min(len(vectors), max(1024, len(vectors) // 16))
        for _ in range(_FIT_STEPS):
            ids = torch.randperm(len(vectors), device=vectors.device)[:n_rows]
            optimizer.zero_grad()
            with torch.enable_grad():
                loss = (self._rows(ids) - vectors[ids]).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        self._codes["scales"] = codes

    def _resize(self, n: int) -> None:
        if self.vectors is None:
            raise InputError(f"{self._owner}.resize", "self", "a table that is not packed", "one that is")
        self.vectors = resized(self.vectors, n, _SPREAD)
        if "scales" in self._codes:
            kept = self._code("scales")[:n]
            self._codes["scales"] = torch.cat([kept, kept.new_full((n - len(kept),), UNIT_SCALE)])

    @property
    def _width(self) -> int:
        return self.basis.shape[0]

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
            codes = np.zeros((self.num_embeddings, self._code_width), np.uint8)
            if not self.vectors.is_meta:
                codes = self._packed().codes
            self._codes["codes"] = torch.from_numpy(codes)
            self.register_parameter("vectors", None)
        return self

    def _packed(self) -> CodedRows:
        """Return rows as codes, and the basis of odd numbers and the scales that go with them."""
        basis = (self.basis.detach().float() / (2 * self._half)).cpu().numpy()
        scales = self._code("scales").cpu().numpy() if "scales" in self._codes else None
        if self.vectors is None:
            return CodedRows(self._code("codes").cpu().numpy(), basis, self.bits, scales)
        with torch.no_grad():
            whole = whole_numbers(self.vectors.float(), self._half) + self._half
        return CodedRows.of(whole.long().cpu().numpy(), basis, self.bits, scales)

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *args: Any) -> None:
        if (extra := state.get(f"{prefix}_extra_state")) is not None:
            packed, codes = f"{prefix}vectors" not in state, self.num_embeddings * self._code_width
            self._codes.pop("scales", None)
            if len(extra) == packed * codes + self.num_embeddings:
                self._codes["scales"] = torch.empty(self.num_embeddings, dtype=torch.uint8, device="cpu")
            if packed and len(extra):
                self.pack()
        super()._load_from_state_dict(state, prefix, *args)

    @property
    def n_parameters(self) -> int:
        """Number of parameters, those that were packed too."""
        return self.num_embeddings * self._width + self.basis.numel()

    @property
    def stored_nbytes(self) -> int:
        """Bytes of codes, scales and basis, as :meth:`export` and :meth:`pack` keep them."""
        return self.num_embeddings * (self._code_width + ("scales" in self._codes)) + 4 * self.basis.numel()

    @property
    def _code_width(self) -> int:
        """Bytes of the codes of a row."""
        return -(-self._width * self.bits // 8)

    def _exported(self, names: Ids) -> Embedding:
        """Return codes and basis, which become float32 when rows are read."""
        parameters = {"layer": self._owner, "bits": self.bits, "padding_idx": self.padding_idx}
        return Embedding._from_content(Content(self._packed(), names, parameters=parameters))

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return f"{super().extra_repr()}, bits={self.bits}"


class SelectionEmbedding(SmallTable):
    """An ordinary table whose entries are selected by their size: slimming.

    ``penalty`` is a term for the loss, which an optimiser follows by its subgradient; entries become small, and
    ``prune`` takes them out.

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
    kept : Tensor of bool, shape (V, d)
        What has not been taken out by ``prune``.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids.

    Notes
    -----
    ``n_parameters`` counts the entries that are not 0. In training the table is as large as any.

    References
    ----------
    Liu et al. (2017), "Learning efficient convolutional networks through network slimming", ICCV.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> table = nf.nn.SelectionEmbedding(100, 4)
    >>> optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    >>> goal = (torch.arange(100) < 20).float()[:, None].expand(100, 4)
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (0.5 * (table(torch.arange(100)) - goal).square().sum() + 0.1 * table.penalty()).backward()
    ...     optimizer.step()
    >>> table.prune(0.1)
    >>> table.n_parameters == 20 * 4
    True
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, *, std: float = 1.0, padding_idx: int | None = None
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, std, padding_idx)
        self.vectors = normal(num_embeddings, embedding_dim, std=self._std)
        self._codes["kept"] = torch.ones(num_embeddings, embedding_dim, dtype=torch.bool, device="cpu")

    @property
    def kept(self) -> Tensor:
        """What has not been taken out by ``prune``."""
        return self._code("kept")

    def _rows(self, ids: Tensor) -> Tensor:
        return take_rows(self.vectors, ids) * self.kept[ids]

    def _fit(self, vectors: Tensor) -> None:
        self.vectors.copy_(vectors)

    def _resize(self, n: int) -> None:
        self.vectors = resized(self.vectors, n, self._std)
        kept = self.kept[:n]
        self._codes["kept"] = torch.cat([kept, kept.new_ones(n - len(kept), kept.shape[1])])

    @property
    def scores(self) -> Tensor:
        """Absolute values (V, d), which ``prune`` compares with its threshold."""
        return self.vectors.detach().abs()

    @property
    def n_parameters(self) -> int:
        """Number of entries that are left: those that are not 0."""
        return int((self.kept & (self.scores > 0)).sum())

    def penalty(self) -> Tensor:
        """Return the sum of all absolute values, to be added to a loss at a price.

        Returns
        -------
        Tensor, shape ()
        """
        return self.vectors.abs().sum()

    def prune(self, threshold: float) -> None:
        """Take out, for good, entries of at most ``threshold``: they read as 0, and have no gradient.

        Parameters
        ----------
        threshold : float
            The largest absolute value that is taken out.
        """
        check_real(f"{self._owner}.prune", "threshold", threshold)
        with torch.no_grad():
            self._codes["kept"] = self.kept & (self.scores > threshold)
            self.vectors.mul_(self.kept)
