"""Graded hyponymy: how far one density matrix is part of another, as "dog" is of "animal".

A is below B in the Löwner order, ``A ⊑ B``, if B - A is positive semi-definite: B has all that A has, and perhaps more.
Meanings seldom are below one another exactly; three grades say how nearly.

=========  ================================================  ==================================================
grade      of A in B                                         range
=========  ================================================  ==================================================
k_hyp      the largest k with ``kA ⊑ B``, at most 1          [0, 1]; 1 if A ⊑ B, 0 if A reaches where B does not
k_E        ``1 - |E| / |A|``, E the negative part of B - A   [0, 1]; 1 if A ⊑ B, 0 if they share nothing
k_BA       ``tr(B - A) / tr|B - A|``                         [-1, 1]; 1 if A ⊑ B, -1 if B ⊑ A and not A = B
=========  ================================================  ==================================================

All depend on the size of the matrices. Two different ones of trace 1 are never in order, and their k_BA is 0: of words
:func:`of_words` takes the matrices with their largest eigenvalue made 1, as :func:`scaled` does.

Sources: Bankova, Coecke, Lewis & Marsden 2019, "Graded hyponymy for compositional distributional semantics" (Journal of
Language Modelling 6), the order and k_hyp; Lewis 2019, "Compositional hyponymy with positive operators" (RANLP), k_E
and k_BA; Balkır, Sadrzadeh & Coecke 2016, "Distributional sentence entailment using density matrices", the idea.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_choice, check_real, from_tensor
from nearfar._core.names import public_names
from nearfar._core.types import Doubles, Floats
from nearfar.density.embedding import DensityEmbedding
from nearfar.density.matrices import DEGENERATE, TOLERANCE, check_matrices, smat, svec
from nearfar.density.matrices import symmetric_rows as symmetric
from nearfar.errors import InputError

__all__ = ["MEASURES", "k_BA", "k_E", "k_hyp", "loewner", "of_words", "scaled"]

MEASURES = ("k_E", "k_hyp", "k_BA", "loewner")

Grades = Doubles | np.float64
"""Of stacks of matrices, and of one pair."""
Answers = NDArray[np.bool_] | np.bool_

_BLOCK = 4096  # pairs at a time


def loewner(A: ArrayLike, B: ArrayLike, *, tolerance: float = DEGENERATE) -> Answers:
    """Return whether ``A ⊑ B``: B - A is positive semi-definite.

    Parameters
    ----------
    A, B : array-like, shape (..., n, n), symmetric and positive semi-definite
        Matrices, of any size and trace, or stacks of them that broadcast.
    tolerance : float, default=1e-6
        Eigenvalues of B - A above minus this, times the largest eigenvalue of A and B, count as 0.

    Returns
    -------
    ndarray, shape (...), bool
        A NumPy bool for one pair.

    Raises
    ------
    InputError
        If the matrices are not symmetric, finite and positive semi-definite beyond rounding, or do not fit together.

    References
    ----------
    Bankova, Coecke, Lewis & Marsden (2019), "Graded hyponymy for compositional distributional semantics".

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> dog, cat = np.diag([1.0, 0, 0.5]), np.diag([0, 1.0, 0.5])
    >>> animal = np.diag([1.0, 1, 0.5])
    >>> nf.hyponymy.loewner([dog, animal], [animal, cat])
    array([ True, False])
    """
    return _below(*_pair("loewner", A, B, tolerance))


def k_hyp(A: ArrayLike, B: ArrayLike, *, tolerance: float = DEGENERATE) -> Grades:
    """Return the largest k in [0, 1] for which ``kA ⊑ B``.

    Parameters
    ----------
    A, B : array-like, shape (..., n, n), symmetric and positive semi-definite
        Matrices, of any size and trace, or stacks of them that broadcast.
    tolerance : float, default=1e-6
        Eigenvalues of B up to this times its largest count as 0, and so does what A has in their eigenvectors, up to
        this times the largest eigenvalue of A.

    Returns
    -------
    ndarray, shape (...), float64
        ``1 / λ_max(B⁺ A)``, or 1 if that is more; 0 if A reaches beyond the support of B. A NumPy float for one pair.

    Raises
    ------
    InputError
        If the matrices are not symmetric, finite and positive semi-definite beyond rounding, or do not fit together.

    Notes
    -----
    What decides is the direction in which B has least for what A has there. Of matrices that were learned this may be
    a direction of noise: k_E looks at all of them.

    References
    ----------
    Bankova, Coecke, Lewis & Marsden (2019), "Graded hyponymy for compositional distributional semantics": the theorem
    on the value of k.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> nf.hyponymy.k_hyp(np.diag([0.5, 0.25]), np.diag([0.25, 0.25]))
    np.float64(0.5)
    >>> nf.hyponymy.k_hyp(np.eye(2), np.diag([1.0, 0]))
    np.float64(0.0)
    """
    return _largest_part(*_pair("k_hyp", A, B, tolerance))


def k_E(A: ArrayLike, B: ArrayLike, *, tolerance: float = DEGENERATE) -> Grades:  # noqa: N802 - the name of the paper
    """Return ``1 - |E| / |A|``, E being the least that makes ``A ⊑ B + E``, by the norm of Frobenius.

    Parameters
    ----------
    A, B : array-like, shape (..., n, n), symmetric and positive semi-definite
        Matrices, of any size and trace, or stacks of them that broadcast.
    tolerance : float, default=1e-6
        Eigenvalues of B - A between minus and plus this, times the largest eigenvalue of A and B, count as 0.

    Returns
    -------
    ndarray, shape (...), float64
        In [0, 1], and 1 exactly where :func:`loewner` holds; 0 where A and B share nothing. A NumPy float for one pair.

    Raises
    ------
    InputError
        If the matrices are not symmetric, finite and positive semi-definite beyond rounding, or do not fit together.

    Notes
    -----
    E is the negative part of B - A: its negative eigenvalues, made positive, with their eigenvectors.

    References
    ----------
    Lewis (2019), "Compositional hyponymy with positive operators", RANLP.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> nf.hyponymy.k_E(np.diag([4.0, 3, 0]), np.diag([4.0, 0, 1]))
    np.float64(0.4)
    """
    return _covered(*_pair("k_E", A, B, tolerance))


def k_BA(A: ArrayLike, B: ArrayLike, *, tolerance: float = DEGENERATE) -> Grades:  # noqa: N802 - the name of the paper
    """Return how far B - A is positive: the sum of its eigenvalues over that of their sizes.

    Parameters
    ----------
    A, B : array-like, shape (..., n, n), symmetric and positive semi-definite
        Matrices, of any size and trace, or stacks of them that broadcast.
    tolerance : float, default=1e-6
        Eigenvalues of B - A between minus and plus this, times the largest eigenvalue of A and B, count as 0.

    Returns
    -------
    ndarray, shape (...), float64
        In [-1, 1]: 1 exactly where :func:`loewner` holds, A = B included; else ``k_BA(A, B) = -k_BA(B, A)``, -1 where
        ``B ⊑ A``. A NumPy float for one pair.

    Raises
    ------
    InputError
        If the matrices are not symmetric, finite and positive semi-definite beyond rounding, or do not fit together.

    Notes
    -----
    Where A and B have the same trace, and are not the same, this is 0.

    References
    ----------
    Lewis (2019), "Compositional hyponymy with positive operators", RANLP.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> nf.hyponymy.k_BA(np.diag([4.0, 3, 0]), np.diag([4.0, 0, 1]))
    np.float64(-0.5)
    """
    return _balance(*_pair("k_BA", A, B, tolerance))


def scaled(A: ArrayLike) -> Doubles:
    """Return matrices divided by their largest eigenvalues.

    Parameters
    ----------
    A : array-like, shape (..., n, n), symmetric and positive semi-definite
        Of any size and trace.

    Returns
    -------
    ndarray, shape (..., n, n), float64
        With 1 as their largest eigenvalue, so that the identity is above all; zero matrices stay zero.

    Raises
    ------
    InputError
        If the matrices are not symmetric, finite and positive semi-definite beyond rounding.

    References
    ----------
    Lewis (2019), "Compositional hyponymy with positive operators", RANLP, for this scale of meanings.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> nf.hyponymy.scaled(np.diag([0.5, 0.3, 0.2]))
    array([[1. , 0. , 0. ],
           [0. , 0.6, 0. ],
           [0. , 0. , 0.4]])
    """
    return _divided(*_checked("scaled", "A", A))


def of_words(
    embedding: DensityEmbedding,
    narrower: Iterable[Hashable] | NDArray[np.floating],
    broader: Iterable[Hashable] | NDArray[np.floating],
    *,
    measure: Literal["k_E", "k_hyp", "k_BA", "loewner"] = "k_E",
) -> Doubles | NDArray[np.bool_]:
    """Return how far words are part of others, pair by pair.

    Parameters
    ----------
    embedding : DensityEmbedding
        The words.
    narrower, broader : iterable of k ids, or ndarray of floats of shape (k, n, n) or (n, n)
        A list of ids, or matrices such as those of phrases, on either side. One on one side is compared with all on the
        other.
    measure : {"k_E", "k_hyp", "k_BA", "loewner"}
        Which grade of the first in the second, see :mod:`nearfar.density.hyponymy`.

    Returns
    -------
    ndarray, shape (k,), float64
        Of the matrices scaled to a largest eigenvalue of 1; bool for "loewner". NaN, or False, where nothing is known
        of one of the two words.

    Raises
    ------
    UnknownIdError
        If an id is not there.
    InputError
        If the two sides are not as many, or a matrix is not positive semi-definite.

    References
    ----------
    Bankova, Coecke, Lewis & Marsden (2019), "Graded hyponymy for compositional distributional semantics"; Lewis (2019),
    "Compositional hyponymy with positive operators".

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> meanings = {"dog": np.diag([0.9, 0.1, 0]), "cat": np.diag([0.1, 0.9, 0]), "car": np.diag([0.1, 0, 0.9])}
    >>> meanings["animal"] = meanings["dog"] + meanings["cat"]
    >>> words = nf.DensityEmbedding.from_matrices(list(meanings.values()), meanings)
    >>> nf.hyponymy.of_words(words, ["dog", "cat", "car"], ["animal"]).round(2)
    array([1.  , 1.  , 0.01])
    >>> nf.hyponymy.of_words(words, ["animal"], ["dog"]).round(2)
    array([0.37])
    """
    owner = "of_words"
    if not isinstance(embedding, DensityEmbedding):
        raise InputError(owner, "embedding", "a DensityEmbedding", type(embedding).__name__)
    grade = _GRADES[check_choice(owner, "measure", measure, MEASURES)]
    sides = [_rows(owner, name, embedding, items) for name, items in (("narrower", narrower), ("broader", broader))]
    counts = [len(side) for side in sides]
    if counts[0] != counts[1] and 1 not in counts:
        raise InputError(owner, "broader", f"as many as narrower, {counts[0]}, or one", str(counts[1]))
    n_pairs = max(counts) if min(counts) else 0
    found = np.zeros(n_pairs, bool) if measure == "loewner" else np.full(n_pairs, np.nan)
    for start in range(0, n_pairs, _BLOCK):
        some = slice(start, start + _BLOCK)
        a, b = (_whole(side[some] if len(side) == n_pairs else side) for side in sides)
        graded = grade(*a, *b, DEGENERATE)
        found[some] = np.where((a[1] > 0) & (b[1] > 0), graded, found[some])
    return found


# Of matrices and their largest eigenvalues.


def _below(a: Doubles, top_a: Doubles, b: Doubles, top_b: Doubles, tolerance: float) -> Answers:
    return (_differences(a, top_a, b, top_b, tolerance) >= 0).all(axis=-1)


def _largest_part(a: Doubles, top_a: Doubles, b: Doubles, top_b: Doubles, tolerance: float) -> Grades:
    values, vectors = np.linalg.eigh(b)
    there = values > tolerance * top_b[..., None]
    turned = np.swapaxes(vectors, -1, -2) @ a @ vectors
    beyond = np.where(there, 0.0, np.einsum("...ii->...i", turned)).sum(axis=-1) > tolerance * top_a
    roots = np.sqrt(1.0 / np.where(there, values, np.inf))  # of the eigenvalues of B⁺
    largest = np.linalg.eigvalsh(roots[..., :, None] * turned * roots[..., None, :])[..., -1]
    parts: Doubles = np.where(beyond, 0.0, 1.0 / np.maximum(largest, 1.0))
    return parts[()]


def _covered(a: Doubles, top_a: Doubles, b: Doubles, top_b: Doubles, tolerance: float) -> Grades:
    missing = np.linalg.norm(np.minimum(_differences(a, top_a, b, top_b, tolerance), 0.0), axis=-1)
    size = np.linalg.norm(a, axis=(-2, -1))
    share = np.divide(missing, size, out=np.zeros(missing.shape), where=size > 0)
    covered: Doubles = np.maximum(1.0 - share, 0.0)
    return covered[()]


def _balance(a: Doubles, top_a: Doubles, b: Doubles, top_b: Doubles, tolerance: float) -> Grades:
    values = _differences(a, top_a, b, top_b, tolerance)
    sizes = np.abs(values).sum(axis=-1)
    balance: Doubles = np.divide(values.sum(axis=-1), sizes, out=np.ones(sizes.shape), where=sizes > 0)
    return balance[()]


def _differences(a: Doubles, top_a: Doubles, b: Doubles, top_b: Doubles, tolerance: float) -> Doubles:
    """Return the eigenvalues of B - A, shape (..., n), those that rounding may have made exactly 0."""
    values = np.linalg.eigvalsh(b - a)
    return np.where(np.abs(values) > tolerance * np.maximum(top_a, top_b)[..., None], values, 0.0)


Graded = Callable[[Doubles, Doubles, Doubles, Doubles, float], Grades | Answers]
_GRADES: dict[str, Graded] = {"k_E": _covered, "k_hyp": _largest_part, "k_BA": _balance, "loewner": _below}


# What comes in.


def _rows(
    owner: str, name: str, embedding: DensityEmbedding, items: Iterable[Hashable] | NDArray[np.floating]
) -> Floats:
    """Return ids or matrices as rows, which take half the room."""
    items = from_tensor(items)
    if not (isinstance(items, np.ndarray) and items.dtype.kind == "f"):
        if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
            raise InputError(owner, name, "a list of ids, or matrices", repr(items), "For one id: [id].")
        return embedding._vectors_of(owner, items)
    n = embedding.order
    if items.ndim not in (2, 3) or items.shape[-2:] != (n, n):
        raise InputError(owner, name, f"matrices of shape (k, {n}, {n})", f"shape {items.shape}")
    return svec(_checked(owner, name, items)[0].reshape(-1, n, n))


def _whole(rows: Floats) -> tuple[Doubles, Doubles]:
    """Return rows as scaled matrices, and their largest eigenvalues, which are 1, or 0 of zero."""
    matrices = smat(rows.astype(np.float64))
    largest = np.linalg.eigvalsh(matrices)[..., -1]
    return _divided(matrices, largest), (largest > 0).astype(np.float64)


def _divided(matrices: Floats, largest: Floats) -> Doubles:
    top = largest[..., None, None]
    return np.divide(matrices, top, out=np.zeros(matrices.shape), where=top > 0)


def _pair(owner: str, A: ArrayLike, B: ArrayLike, tol: float) -> tuple[Doubles, Doubles, Doubles, Doubles, float]:
    """Return A and B, each with its largest eigenvalues, and the tolerance."""
    a, b = _checked(owner, "A", A), _checked(owner, "B", B)
    try:
        np.broadcast_shapes(a[1].shape, b[1].shape)
        fits = a[0].shape[-1] == b[0].shape[-1]
    except ValueError:
        fits = False
    if not fits:
        raise InputError(owner, "B", f"of a shape that goes with that of A, {a[0].shape}", f"shape {b[0].shape}")
    return *a, *b, check_real(owner, "tolerance", tol, low=0, high=1)


def _checked(owner: str, name: str, value: ArrayLike) -> tuple[Doubles, Doubles]:
    """Return positive semi-definite matrices, exactly symmetric, and their largest eigenvalues, or raise."""
    matrices = check_matrices(owner, name, value, "(..., n, n)")
    even: Doubles = symmetric(owner, name, matrices.astype(np.float64))
    values = np.linalg.eigvalsh(even)
    if (wrong := values[..., 0] < -TOLERANCE * np.abs(values).max(axis=-1)).any():
        raise InputError(owner, name, "positive semi-definite", f"the eigenvalue {values[wrong][0, 0]:.6g}")
    return even, np.maximum(values[..., -1], 0.0)


public_names(__name__, __all__)
