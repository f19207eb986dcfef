"""What an anchor embedding becomes after training: factors in NumPy arrays, which load without torch."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nearfar._core.checks import check_flag, check_integer
from nearfar._core.ids import Ids
from nearfar.embedding.files.registry import check_output
from nearfar.embedding.mixtures import Mixtures, heaviest, unsigned_dtype
from nearfar.embedding.vectors import AnchoredEmbedding
from nearfar.errors import InputError
from nearfar.tables.slots import AnchorTable, row_slices


class AnchorExport(AnchorTable):
    """The part of an anchor embedding that is asked for after training."""

    def export(
        self,
        path: str | os.PathLike[str] | None = None,
        ids: Iterable[Hashable] | None = None,
        *,
        anchor_names: Iterable[Hashable] | None = None,
        int8: bool = False,
    ) -> AnchoredEmbedding:
        """Return anchors and positive entries as an embedding that needs no torch, and write it to a file.

        Parameters
        ----------
        path : path-like, optional
            Where to write it: ``nearfar.Embedding.load`` reads a ``.safetensors`` file of it as what is returned here.
            Other suffixes write vectors, as :meth:`nearfar.Embedding.save` has them.
        ids : iterable of hashable, of length V, optional
            Distinct names of the objects; 0 .. V - 1 by default.
        anchor_names : iterable of hashable, of length K, optional
            Distinct names of the anchors, such as those of the objects that they started from; 0 .. K - 1 by default.
        int8 : bool, default=False
            Whether numbers are rounded to 8 bits, as :meth:`nearfar.AnchoredEmbedding.to_int8` does and says.

        Returns
        -------
        AnchoredEmbedding
            float32; of the active anchors only. The layer stays as it is.

        Raises
        ------
        InputError
            If names are not distinct and as many as there are rows or anchors, the path cannot be written to, or a
            parameter is not finite or, in T, negative.

        Notes
        -----
        Memory beside the layer is that of the result. In a group of processes one may export alone: nothing is sent to
        the others. Of a model in ``DistributedDataParallel`` the layer is in ``model.module``.
        """
        owner = "AnchorEmbedding.export"
        if path is not None:
            check_output(owner, path)
        check_flag(owner, "int8", int8)
        rows = _named(owner, "ids", ids, self.num_embeddings)
        names = _named(owner, "anchor_names", anchor_names, self.n_anchors)
        used = names if self.n_active == self.n_anchors else names.take(np.arange(self.n_active))
        parameters = {
            "layer": "AnchorEmbedding",
            "n_anchors": self.n_active,
            "nnz_per_row": self.nnz_per_row,
            "penalty": self.penalty,
            "padding_idx": self.padding_idx,
        }
        made = AnchoredEmbedding._of(_factors(owner, self, used), rows, parameters)
        made = made.to_int8() if int8 else made
        if path is not None:
            made.save(path)
        return made

    def explain(self, id: int) -> list[tuple[int, float]]:  # noqa: A002
        """Return the anchors that an object is made of.

        Parameters
        ----------
        id : int
            The object, in 0 .. num_embeddings - 1.

        Returns
        -------
        list of (number of an anchor, weight)
            Largest weight first; empty where the vector is 0.

        Raises
        ------
        InputError
            If there is no such object.
        """
        row = check_integer("AnchorEmbedding.explain", "id", id, low=0, high=self.num_embeddings - 1)
        (part,) = _entries("AnchorEmbedding.explain", self, [slice(row, row + 1)])
        return heaviest(part[0], part[1], Ids(self.n_anchors), self.nnz_per_row)

    def anchor_objects(self, anchor: int, topn: int = 10) -> list[tuple[int, float]]:
        """Return what an anchor stands for: the objects with the largest weights on it.

        Parameters
        ----------
        anchor : int
            The anchor, in 0 .. n_active - 1.
        topn : int, >= 1
            How many at most.

        Returns
        -------
        list of (object, weight)
            Largest weight first; objects of weight 0 are left out. It reads all of T: of many anchors, :meth:`export`
            first.

        Raises
        ------
        InputError
            If there is no such anchor, or a parameter is not finite.
        """
        return self.export().anchor_objects(anchor, topn)


def _factors(owner: str, layer: AnchorTable, names: Ids) -> Mixtures:
    anchors = _float32(layer.anchors[: layer.n_active])
    if not np.isfinite(anchors).all():
        raise InputError(owner, "anchors", "finite in float32", "NaN or infinity", "Training has failed before.")
    slices = row_slices(layer.num_embeddings, layer.nnz_per_row)
    weights, columns, counts = map(np.concatenate, zip(*_entries(owner, layer, slices), strict=True))
    mixtures = Mixtures(weights, columns, counts, anchors, names)
    if not mixtures.is_finite():
        raise InputError(owner, "parameters", "such that vectors fit float32", "larger ones")
    return mixtures


def _entries(owner: str, layer: AnchorTable, slices: Iterable[slice]) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield, for slices of rows, the positive entries, their columns in ascending order, and how many rows have."""
    index, count = unsigned_dtype(layer.n_active - 1), unsigned_dtype(layer.nnz_per_row)
    for block in slices:
        values, columns = _float32(layer._current(block)), layer.columns[block].cpu().numpy()
        if not (values >= 0).all() or np.isinf(values).any():
            raise InputError(owner, "values", "finite in float32, and >= 0", "a negative one, infinity or NaN")
        order = columns.argsort(axis=1)
        values, columns = (np.take_along_axis(part, order, axis=1) for part in (values, columns))
        kept = values > 0
        yield values[kept], columns[kept].astype(index), kept.sum(axis=1).astype(count)


def _float32(tensor: torch.Tensor) -> NDArray[np.float32]:
    # A copy: the layer may be trained on.
    array: NDArray[np.float32] = tensor.detach().to("cpu", torch.float32, copy=True).numpy()
    return array


def _named(owner: str, name: str, ids: Iterable[Hashable] | None, n: int) -> Ids:
    if isinstance(ids, (str, bytes)):
        raise InputError(owner, name, "a list of names", repr(ids))
    made = Ids(n) if ids is None else Ids(ids, owner=owner, name=name)
    if len(made) != n:
        raise InputError(owner, name, f"{n}, one for each", f"{len(made)}")
    return made
