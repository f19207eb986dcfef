"""What tells a fit from others: its parameters and its relation, as plain values that can be stored and compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfar.errors import InputError
from nearfar.storage.content import jsonable

if TYPE_CHECKING:
    from nearfar._ids import Ids
    from nearfar._parameters import Parameters
    from nearfar.models._base import RelationEmbedder
    from nearfar.relations.matrix import Relation

WITHOUT_EFFECT = ("callbacks", "n_jobs", "verbose")
_DIGEST = "digest "
_PIECE = 1 << 20  # numbers


def identity_of(estimator: RelationEmbedder, relation: Relation, n_jobs: int) -> dict[str, Any]:
    """Return what a fit depends on; arrays and matrices by a digest.

    The relation's digest is that of its product with a fixed vector: every entry takes part, in one cheap product.
    """
    return {"estimator": type(estimator).__name__, **relation_identity(relation, n_jobs), **parameters_of(estimator)}


def relation_identity(relation: Relation, n_jobs: int) -> dict[str, Any]:
    """Return the part of it that tells a relation from others."""
    probe = np.random.default_rng(0).random((relation.shape[1], 1))
    return {
        "relation's shape": list(relation.shape),
        "relation's stored entries": relation.nnz,
        "relation's weights": _digest(relation.operator.matmat(probe, n_jobs=n_jobs)),
        "relation's ids": [digest_of_ids(relation.row_ids), digest_of_ids(relation.column_ids)],
    }


def parameters_of(estimator: Parameters) -> dict[str, Any]:
    """Return the parameters that have an effect on a result."""
    given = estimator.get_params(deep=False)
    return {name: _plain(value) for name, value in given.items() if name not in WITHOUT_EFFECT}


_HINT = "Resume with the same relation and parameters, or start a new fit with init=."


def check_same(
    owner: str, argument: str, path: object, stored: Mapping[str, Any], now: Mapping[str, Any], hint: str = _HINT
) -> None:
    """Refuse to go on with another fit than the stored one.

    Raises
    ------
    InputError
        With everything that differs.
    """
    differs = [
        _difference(name, stored.get(name), now.get(name))
        for name in {**stored, **now}
        if stored.get(name) != now.get(name)
    ]
    if differs:
        raise InputError(
            owner,
            argument,
            "a checkpoint of this very fit",
            f"one that differs in {', '.join(differs)}: {path}",
            hint,
        )


def _difference(name: str, stored: object, now: object) -> str:
    shown = [repr(value) for value in (stored, now)]
    if any(_DIGEST in text or len(text) > 40 for text in shown):
        return f"the {name}"
    return f"the {name} ({shown[0]} there, {shown[1]} here)"


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it, the same for equal values."""
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return type(value).__name__  # a resumed fit takes the generator's state from the checkpoint
    if hasattr(value, "vectors") and hasattr(value, "ids"):  # an Embedding
        sides = [value.vectors] if value.context_vectors is None else [value.vectors, value.context_vectors]
        return [*map(_digest, sides), digest_of_ids(value.ids), repr(value.context_ids)]
    if hasattr(value, "get_params"):
        return [type(value).__name__, {name: _plain(inner) for name, inner in value.get_params().items()}]
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _digest(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return jsonable(value)


def _digest(array: Any) -> str:
    array = np.ascontiguousarray(array)
    text = f"{array.dtype.str} {array.shape}".encode()
    return _DIGEST + hashlib.blake2b(array.view(np.uint8).data, digest_size=16, key=text[:64]).hexdigest()


def digest_of_pieces(array: NDArray[Any]) -> str:
    """Return the digest of an array that may be larger than memory."""
    digest = hashlib.blake2b(array.dtype.str.encode(), digest_size=16)
    for start in range(0, array.size, _PIECE):
        digest.update(np.ascontiguousarray(array[start : start + _PIECE]).view(np.uint8).data)
    return _DIGEST + digest.hexdigest()


def digest_of_ids(ids: Ids) -> str:
    """Return the digest of ids in their order; what says all where they are a range."""
    if ids.is_range:
        return f"0 to {len(ids) - 1}"
    if ids.is_integer:
        return _digest(ids.to_numpy())
    digest = hashlib.blake2b(digest_size=16)
    for key in ids:
        digest.update(repr(key).encode("utf-8", "surrogatepass") + b"\0")
    return _DIGEST + digest.hexdigest()
