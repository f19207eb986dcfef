"""What functions of torch with derivatives of their own share, so that ``torch.func`` and double backward take them."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function

F = TypeVar("F", bound=type[Function])


def transformable(function: F) -> F:
    """Give a function of torch a derivative in a direction, its ``along``, and let ``torch.func.vmap`` take it.

    Each entry of a batch is computed by itself: what goes in blocks of rows goes on in them. The derivative is of
    ``function.Along``, since torch compiles no function that has one.
    """

    def vmap(info: Any, in_dims: tuple[Any, ...], *given: Any) -> tuple[Any, ...]:
        picked = [
            [x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(given, in_dims, strict=True)]
            for i in range(info.batch_size)
        ]
        found = zip(*(apply(function, *one) for one in picked), strict=True)
        stacked = tuple(None if parts[0] is None else torch.stack(parts) for parts in found)
        return stacked, tuple(None if part is None else 0 for part in stacked)

    function.vmap = staticmethod(vmap)  # type: ignore[method-assign]
    function.Along = type(function.__name__, (function,), {"jvp": staticmethod(function.along)})  # type: ignore[attr-defined]
    return function


def apply(function: type[Function], *given: object) -> Any:
    """Apply a function that is :func:`transformable`."""
    return (function if torch.compiler.is_compiling() else function.Along).apply(*given)  # type: ignore[attr-defined]


def keep(ctx: Any, *tensors: Tensor | None) -> None:
    """Keep tensors for the gradient and for the derivative in a direction."""
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
