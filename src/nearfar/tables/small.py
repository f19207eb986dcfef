"""The base of small embedding tables: their calls, their whole matrix, and what of them is no parameter."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar._core.checks import check_flag, check_integer, check_real
from nearfar._core.coded import Coded
from nearfar._core.ids import Ids, check_names
from nearfar._core.tensors import check_finite, check_floats, check_ids, check_padding_idx, check_within
from nearfar.embedding.files.content import Content
from nearfar.embedding.files.registry import check_output
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.tables.slots import Formed, row_slices


class FormedTable(Formed):
    """The vectors of a small table, which it is no use to write to."""

    owner = "small table"
    hint = "Initialise the parameters of the layer, or freeze the layer itself; for other uses clone the weight."


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

    @property
    def _device(self) -> torch.device:
        return next(self.parameters()).device

    def _rows(self, ids: Tensor) -> Tensor:
        """Return the vectors (n, d) of objects (n,)."""
        raise NotImplementedError

    def _rows_of_call(self, ids: Tensor) -> Tensor:
        """Return the same as a call takes them: with noise, where there is any in training."""
        return self._rows(ids)

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
            flat = ids.flatten().long()
            rows = self._without_padding(flat, self._rows_of_call(flat))
            return rows.reshape(*ids.shape, self.embedding_dim)
        checked = check_ids(self._owner, ids, self._device)
        check_within(self._owner, "ids", checked, self.num_embeddings)
        if checked.numel() >= self.num_embeddings:  # most objects are in it: all are made
            ids, places = torch.arange(self.num_embeddings, device=self._device), checked
        else:
            ids, places = torch.unique(checked, return_inverse=True)
        return take_rows(self._without_padding(ids, self._rows_of_call(ids)), places)

    def _without_padding(self, ids: Tensor, rows: Tensor) -> Tensor:
        return rows if self.padding_idx is None else rows.masked_fill((ids == self.padding_idx)[:, None], 0)

    @property
    def weight(self) -> Tensor:
        """The whole table, (V, d), made anew at each access; gradients go to the parameters.

        To write to it raises InputError.
        """
        every = torch.arange(self.num_embeddings, device=self._device)
        blocks = row_slices(self.num_embeddings, self.embedding_dim)
        rows = [self._without_padding(ids, self._rows(ids)) for ids in map(every.__getitem__, blocks)]
        return torch.cat(rows).as_subclass(FormedTable)

    @classmethod
    def from_pretrained(
        cls, vectors: Tensor, freeze: bool = True, **options: float | str | Tensor | Sequence[int] | None
    ) -> Self:
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
        Where there is a closed form it is taken; elsewhere parameters descend from a random start, which
        ``torch.manual_seed`` seeds.
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
        self._descend(vectors, lr=0.05 * float(vectors.square().mean().sqrt()))

    @torch.enable_grad()
    def _descend(self, vectors: Tensor, lr: float, n_steps: int = 400) -> None:
        optimizer = torch.optim.Adam(self.parameters(), lr=max(lr, 1e-6))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
        n_rows = min(len(vectors), max(1024, len(vectors) // 16))
        for _ in range(n_steps):
            ids = torch.randperm(len(vectors), device=vectors.device)[:n_rows]
            optimizer.zero_grad()
            (self._rows(ids) - vectors[ids]).square().mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()

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
            The row of padding is left out, or there is no place for so many.
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
        """Bytes that the layer holds: parameters, and what says which of them belong to an object."""
        return sum(p.nbytes for p in self.parameters())

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
            float32. The object of ``padding_idx``, which has no vector, is left out.

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
        kept = np.delete(np.arange(self.num_embeddings), [] if self.padding_idx is None else [self.padding_idx])
        made = self._exported(kept, names.take(kept))
        if path is not None:
            made.save(path)
        return made

    def _exported(self, kept: NDArray[np.intp], names: Ids) -> Embedding:
        """Return the embedding of the objects that are kept."""
        with torch.no_grad():
            vectors = self.weight.as_subclass(Tensor).to("cpu", torch.float32).numpy()[kept]
        return Embedding._from_content(Content(vectors, names, parameters={"layer": self._owner}))

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}, n_parameters={self.n_parameters}"


class CodedTable(SmallTable, Coded):
    """A table with whole numbers or truths beside its parameters: hash functions, places, what was pruned."""

    @property
    def nbytes(self) -> int:
        """Bytes that the layer holds: parameters, and what says which of them belong to an object."""
        return super().nbytes + sum(code.nbytes for code in self._codes.values())


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
