"""Between encoders and losses: batches larger than memory, and losses of the leading dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from nearfar._core.checks import check_integer, check_real
from nearfar._core.tensors import check_floats
from nearfar.errors import InputError

Inputs = TypeVar("Inputs")


def encode_in_chunks(encoder: Callable[[Inputs], Tensor], chunks: Iterable[Inputs]) -> Tensor:
    """Encode a batch that is too large for the memory of its activations, chunk by chunk.

    What comes back are the vectors of all chunks, for any loss: its gradient is that of the whole batch at once. The
    activations of a chunk are dropped, and made anew when the gradient has come to its vectors, by the same draws of
    dropout: memory is the vectors, and the activations of one chunk. That costs a second pass forward. It is GradCache
    with the loss left to you.

    Parameters
    ----------
    encoder : callable
        Of a chunk; returns its vectors, a Tensor of floats of shape (n, d). A module, on its devices and in its mode,
        or a function around some. It is called twice for each chunk, and must do the same both times.
    chunks : iterable
        What the encoder is called with, in turn: ``batch.split(32)`` of a tensor, or a list of dicts of them.

    Returns
    -------
    Tensor of floats, shape (B, d)
        The vectors of all chunks, in their order.

    Raises
    ------
    InputError
        There are no chunks, a tensor was not split, or the encoder returns no matrix of floats.

    Notes
    -----
    Normalisation over the batch (BatchNorm) is over chunks here, and its running means see each chunk twice. Without
    gradients (``torch.no_grad``) each chunk is encoded once. Modules in DistributedDataParallel are fine.

    References
    ----------
    Gao, Zhang, Han and Callan 2021, "Scaling deep contrastive learning batch size under memory limited setup"
    (GradCache). Chen, Xu, Zhang and Guestrin 2016, "Training deep nets with sublinear memory cost" (checkpoints).

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> _ = torch.manual_seed(0)
    >>> encoder = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1))
    >>> inputs, answers = torch.randn(2, 96, 8)
    >>> queries, keys = (nf.nn.encode_in_chunks(encoder, part.split(16)) for part in (inputs, answers))
    >>> nf.nn.in_batch_nce(queries, keys).backward()
    >>> queries.shape, encoder[0].weight.grad.isfinite().all().item()
    (torch.Size([96, 32]), True)
    """
    owner = "encode_in_chunks"
    if not callable(encoder):
        raise InputError(owner, "encoder", "callable", encoder)
    if isinstance(chunks, Tensor):
        raise InputError(owner, "chunks", "several", "one tensor", "Split it: chunks=inputs.split(32).")
    from torch.utils.checkpoint import checkpoint

    # Where it may draw random numbers: where its parameters are, and where CUDA is.
    devices = {p.device for p in encoder.parameters()} if isinstance(encoder, torch.nn.Module) else set()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        devices.add(torch.device(torch.cuda.current_device()))
    vectors: list[Tensor] = []
    for chunk in chunks:
        # The states of random numbers are kept of the devices of tensors that are given, and not of those in a chunk
        # that is an object of its own kind.
        places = [torch.empty(0, device=device) for device in devices]
        found = checkpoint(lambda _places, inputs: encoder(inputs), places, chunk, use_reentrant=False)
        width = vectors[0].shape[1] if vectors else None
        vectors.append(check_floats(owner, "what encoder returns", found, (None, width)))
    if not vectors:
        raise InputError(owner, "chunks", "at least one", "none")
    return torch.cat(vectors)


def matryoshka(
    loss: Callable[..., Tensor], *vectors: Tensor, dims: Sequence[int], weights: Sequence[float] | None = None
) -> Tensor:
    """Sum a loss over prefixes of vectors, so that their leading dimensions serve alone (Matryoshka).

    Parameters
    ----------
    loss : callable
        Of as many tensors as there are ``vectors``; returns a loss. If it takes cosines, let it normalise what it gets,
        since a prefix of a vector of length one is shorter.
    *vectors : Tensor of floats, shape (..., d)
        Such as queries and keys.
    dims : sequence of int, in 1..d
        Lengths of the prefixes; have d among them if the whole vectors are to serve too.
    weights : sequence of float, >= 0, optional
        What the loss of each prefix counts; 1 if they are left out.

    Returns
    -------
    Tensor
        The weighed sum, of the shape of the loss.

    Raises
    ------
    InputError
        A length is out of range or comes twice; weights are not as many as lengths, or all 0.

    References
    ----------
    Kusupati et al. 2022, "Matryoshka representation learning", equation 1.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> from torch.nn.functional import normalize
    >>> queries, keys = torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(0))
    >>> def loss(queries, keys):
    ...     return nf.nn.in_batch_nce(normalize(queries), normalize(keys), temperature=0.1)
    >>> both = matryoshka(loss, queries, keys, dims=(2, 8), weights=(0.5, 1.0))
    >>> torch.allclose(both, 0.5 * loss(queries[:, :2], keys[:, :2]) + loss(queries, keys))
    True
    """
    owner = "matryoshka"
    if not callable(loss):
        raise InputError(owner, "loss", "callable", loss)
    widths = [part.shape[-1] for part in vectors if isinstance(part, Tensor) and part.ndim]
    if not vectors or len(widths) < len(vectors):
        raise InputError(owner, "vectors", "tensors of one side or more", [type(part).__name__ for part in vectors])
    lengths = [check_integer(owner, "dims", length, low=1, high=min(widths)) for length in dims]
    if not lengths or len(set(lengths)) < len(lengths):
        raise InputError(owner, "dims", "one length or more, each once", dims)
    shares = [1.0] * len(lengths) if weights is None else [check_real(owner, "weights", w, low=0) for w in weights]
    if len(shares) != len(lengths) or not any(shares):
        raise InputError(owner, "weights", f"{len(lengths)} numbers, not all 0", weights)
    parts = [share * loss(*(part[..., :n] for part in vectors)) for n, share in zip(lengths, shares, strict=True)]
    return torch.stack(parts).sum(0)
