"""Calls of a layer as operators of torch, which a graph of ``torch.compile`` holds whole: nothing in them is traced.

Which rows a batch reads, and what they ask for, is known only when it runs. An operator runs it as it is, finds its
layer by a number, and returns dense gradients.
"""

# ruff: noqa: ARG001 - operators have the tensors whose gradients they return as arguments

from __future__ import annotations

import itertools
import weakref
from typing import Protocol

import torch
from torch import Tensor

from nearfar._core.tensors import Context


class GraphLayer(Protocol):
    """What the operators need of a layer."""

    def _vectors(self, ids: Tensor) -> Tensor:
        """Return vectors of objects."""

    def _vector_gradients(self, ids: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of values and anchors."""

    def _all_logits(self, mixed: Tensor) -> Tensor:
        """Return products of all rows of T with ``mixed`` (n, K)."""

    def _logit_gradients(self, mixed: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of ``mixed`` and of the values."""


_NUMBERED: weakref.WeakValueDictionary[int, GraphLayer] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


def is_exporting() -> bool:
    """Return whether ``torch.export`` traces, since torch 2.7: its own function says so of any graph in torch 2.11."""
    return bool(getattr(torch.compiler, "_is_exporting_flag", False))


def number_layer(layer: GraphLayer) -> int:
    """Return the number by which the operators find a layer."""
    number = next(_NUMBERS)
    _NUMBERED[number] = layer
    return number


@torch.library.custom_op("nearfar::anchor_vectors", mutates_args=())
def anchor_vectors(ids: Tensor, values: Tensor, anchors: Tensor, layer: int) -> Tensor:
    """Return vectors of objects (..., d)."""
    return _NUMBERED[layer]._vectors(ids)


@anchor_vectors.register_fake
def _(ids: Tensor, values: Tensor, anchors: Tensor, layer: int) -> Tensor:
    return anchors.new_empty(*ids.shape, anchors.shape[1])


@torch.library.custom_op("nearfar::anchor_vectors_backward", mutates_args=())
def _vectors_backward(slope: Tensor, ids: Tensor, values: Tensor, anchors: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    return _NUMBERED[layer]._vector_gradients(ids, slope)


@_vectors_backward.register_fake
def _(slope: Tensor, ids: Tensor, values: Tensor, anchors: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(values), torch.empty_like(anchors)


class _OfLayer(Context):
    layer: int


def _keep_ids(ctx: _OfLayer, inputs: tuple[*tuple[Tensor, ...], int], output: Tensor) -> None:
    *tensors, ctx.layer = inputs
    ctx.save_for_backward(*tensors)


anchor_vectors.register_autograd(
    lambda ctx, slope: (None, *_vectors_backward(slope.contiguous(), *ctx.saved_tensors, ctx.layer), None),
    setup_context=_keep_ids,
)


@torch.library.custom_op("nearfar::anchor_logits", mutates_args=())
def anchor_logits(mixed: Tensor, values: Tensor, layer: int) -> Tensor:
    """Return logits (n, V) from Q = H A' (n, K)."""
    return _NUMBERED[layer]._all_logits(mixed)


@anchor_logits.register_fake
def _(mixed: Tensor, values: Tensor, layer: int) -> Tensor:
    return mixed.new_empty(mixed.shape[0], values.shape[0])


@torch.library.custom_op("nearfar::anchor_logits_backward", mutates_args=())
def _logits_backward(slope: Tensor, mixed: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    return _NUMBERED[layer]._logit_gradients(mixed, slope)


@_logits_backward.register_fake
def _(slope: Tensor, mixed: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(mixed), torch.empty_like(values)


anchor_logits.register_autograd(
    lambda ctx, slope: (*_logits_backward(slope.contiguous(), *ctx.saved_tensors, ctx.layer), None),
    setup_context=_keep_ids,
)
