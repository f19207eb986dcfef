"""Where the anchors of an embedding table start: which objects they are, and the first rows of T."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nearfar._core.checks import check_choice, check_integer, check_matrix, check_random_state
from nearfar._core.tensors import check_counts, check_vector
from nearfar._core.types import Doubles, Seed
from nearfar._core.units import in_units
from nearfar.errors import InputError

NEEDS = {
    "random": (),
    "frequency": ("counts",),
    "tf-idf": ("counts", "document_counts"),
    "k-means++": ("vectors",),
    "frequency and k-means++": ("counts", "vectors"),
    "coreset": ("vectors",),
}
Method = Literal["random", "frequency", "tf-idf", "k-means++", "frequency and k-means++", "coreset"]


def choose_anchors(
    n_anchors: int,
    method: Method = "frequency",
    *,
    counts: Tensor | ArrayLike | None = None,
    document_counts: Tensor | ArrayLike | None = None,
    n_documents: int | None = None,
    vectors: Tensor | ArrayLike | None = None,
    random_state: Seed = None,
) -> Tensor:
    """Choose the objects that stand as anchors of an :class:`AnchorEmbedding`.

    Parameters
    ----------
    n_anchors : int, >= 1
        How many; at most the number of objects V.
    method : str, default="frequency"
        "frequency": the objects with the largest counts.
        "tf-idf": the largest ``counts * ln(n_documents / document_counts)``.
        "k-means++": one after the other, with a chance proportional to the squared distance from those chosen.
        "frequency and k-means++": half of them, rounded up, by frequency, the others by k-means++ after them.
        "coreset": without replacement, half of the chance the same for all, half by the squared distance from the mean.
        "random": all alike; V is taken from whatever is given.
    counts : Tensor or array_like, shape (V,), >= 0, optional
        How often each object occurs.
    document_counts : Tensor or array_like, shape (V,), >= 0, optional
        In how many documents each object occurs.
    n_documents : int, >= 1, optional
        Number of documents; the largest of ``document_counts`` if it is left out.
    vectors : Tensor or array_like, shape (V, m), optional
        Where the objects are, in any space: vectors known from elsewhere, or counts of contexts.
    random_state : int, numpy.random.Generator or None
        Source of the draws.

    Returns
    -------
    Tensor of int64, shape (n_anchors,)
        Different ids: for the argument ``anchor_ids``.

    Raises
    ------
    InputError
        An argument that cannot be used, or one that the method needs and that is not given.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.1.
    Arthur & Vassilvitskii (2007), "k-means++: the advantages of careful seeding".
    Bachem, Lucic & Krause (2018), "Scalable k-means clustering via lightweight coresets", eq. 4.

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.nn.choose_anchors(2, counts=[3, 14, 15, 9])
    tensor([2, 1])
    """
    owner = "choose_anchors"
    check_choice(owner, "method", method, tuple(NEEDS))
    inputs = {"counts": counts, "document_counts": document_counts, "vectors": vectors}
    for name in NEEDS[method]:
        if inputs[name] is None:
            raise InputError(owner, name, f"given for method {method!r}", None)
    rng = check_random_state(owner, random_state)
    given: dict[str, Doubles] = {}
    if counts is not None:
        given["counts"] = check_counts(owner, counts)
    if document_counts is not None:
        given["document_counts"] = check_vector(owner, "document_counts", document_counts)
    if vectors is not None:
        given["vectors"] = _points(owner, vectors)
    n_objects = _n_objects(owner, given)
    k = check_integer(owner, "n_anchors", n_anchors, low=1, high=n_objects)
    if method == "random":
        chosen = rng.permutation(n_objects)[:k]
    elif method == "frequency":
        chosen = _largest(given["counts"], k)
    elif method == "tf-idf":
        chosen = _largest(_tf_idf(owner, given["counts"], given["document_counts"], n_documents), k)
    elif method == "coreset":
        chosen = _coreset(given["vectors"], k, rng)
    elif method == "k-means++":
        chosen = _k_means_plus_plus(given["vectors"], k, rng.integers(n_objects, size=1), rng)
    else:
        chosen = _k_means_plus_plus(given["vectors"], k, _largest(given["counts"], (k + 1) // 2), rng)
    return torch.from_numpy(np.ascontiguousarray(chosen, np.int64))


def _points(owner: str, vectors: Tensor | ArrayLike) -> Doubles:
    array = vectors.detach().cpu().double().numpy() if isinstance(vectors, Tensor) else vectors
    return np.asarray(in_units(check_matrix(owner, "vectors", array))[0], np.float64)


def _n_objects(owner: str, given: dict[str, Doubles]) -> int:
    sizes = {name: len(values) for name, values in given.items()}
    if not sizes:
        raise InputError(owner, "counts", "given, or vectors", None, "They say how many objects there are.")
    if len(set(sizes.values())) > 1:
        got = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise InputError(owner, list(sizes)[-1], "one for each object", got)
    return next(iter(sizes.values()))


def _largest(weights: Doubles, k: int) -> NDArray[np.int64]:
    return np.argsort(-weights, kind="stable")[:k]


def _tf_idf(owner: str, counts: Doubles, documents: Doubles, n_documents: int | None) -> Doubles:
    if not (np.isfinite(documents).all() and (documents >= 0).all() and documents.any()):
        raise InputError(owner, "document_counts", "finite, >= 0 and positive somewhere", documents)
    largest = int(documents.max())
    n = largest if n_documents is None else check_integer(owner, "n_documents", n_documents, low=largest)
    scores = np.zeros(len(counts))
    seen = documents > 0
    scores[seen] = counts[seen] * np.log(n / documents[seen])
    return scores


def _k_means_plus_plus(
    points: Doubles, k: int, first: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    chosen = list(first)
    nearest = np.full(len(points), np.inf)
    for last in chosen:
        _update_nearest(nearest, points, last)
    nearest[chosen] = 0  # exactly
    while len(chosen) < k:
        total = nearest.sum()
        if total > 0:
            new = int(rng.choice(len(points), p=nearest / total))
        else:  # all that is left lies on an anchor
            new = int(rng.choice(np.setdiff1d(np.arange(len(points)), chosen)))
        chosen.append(new)
        _update_nearest(nearest, points, new)
        nearest[new] = 0
    return np.array(chosen)


def _update_nearest(nearest: Doubles, points: Doubles, to: int) -> None:
    difference = points - points[to]
    np.minimum(nearest, np.einsum("ij,ij->i", difference, difference), out=nearest)


def _coreset(points: Doubles, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    far = ((points - points.mean(0)) ** 2).sum(1)
    chances = np.full(len(points), 1 / len(points))
    if far.sum() > 0:
        chances = chances / 2 + far / far.sum() / 2
    return rng.choice(len(points), size=k, replace=False, p=chances / chances.sum())


# The first rows of T.


def column_dtype(n_anchors: int) -> torch.dtype:
    """Return the smaller type that holds the number of an anchor; gloo, which joins processes, sends no int16."""
    return torch.uint8 if n_anchors <= 2**8 else torch.int32


def random_columns(n_rows: int, n_anchors: int, n_slots: int, out: Tensor) -> None:
    """Fill rows with different columns each, all sets alike: Floyd's draw without replacement, for all rows at once."""
    for slot in range(n_slots):
        last = n_anchors - n_slots + slot
        drawn = torch.randint(last + 1, (n_rows,), device=out.device)
        twice = (out[:, :slot] == drawn[:, None]).any(1)
        out[:, slot] = torch.where(twice, last, drawn).to(out.dtype)


def nonnegative_rows(vectors: Tensor, anchors: Tensor, n_slots: int, sweeps: int = 20) -> tuple[Tensor, Tensor]:
    """Return values and columns (n, r) of T >= 0 with T A near to the vectors (n, d): matching pursuit, row by row.

    Each round takes the anchor along which the remainder falls most, then fits all that are taken by coordinate
    descent. A slot that no anchor helps stays at 0.
    """
    gram, along = anchors @ anchors.T, vectors @ anchors.T
    norms = gram.diagonal().clamp(min=torch.finfo(gram.dtype).tiny)
    values = vectors.new_zeros(len(vectors), n_slots)
    columns = torch.zeros(len(vectors), n_slots, dtype=torch.long, device=vectors.device)
    slope = along.clone()  # minus the derivative of |x - tA|^2 / 2 in all t
    taken = torch.zeros_like(slope, dtype=torch.bool)
    for slot in range(n_slots):
        gain = (slope / norms.sqrt()).masked_fill(taken, -torch.inf)
        columns[:, slot] = gain.argmax(1)
        taken.scatter_(1, columns[:, slot : slot + 1], True)
        for _ in range(sweeps):
            for j in range(slot + 1):
                column = columns[:, j]
                here = slope.gather(1, column[:, None])[:, 0]
                new = (values[:, j] + here / norms[column]).clamp_(min=0)
                slope -= (new - values[:, j])[:, None] * gram[column]
                values[:, j] = new
    return values, columns
