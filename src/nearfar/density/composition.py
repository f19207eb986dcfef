"""Meaning of phrases from the density matrices, or the vectors, of their words.

Of two things one operates on the other, f(op, arg). With the verb as operator ``subject verb object`` is f(f(verb,
object), subject); with the nouns as operators it is f(subject, f(object, verb)); an adjective always operates on its
noun. What f is the method says. Every result has trace 1.

=============  =======================================  ==========================================================
method         f(op, arg), before the trace is made 1    remarks
=============  =======================================  ==========================================================
"phaser"       √op arg √op                               also called BMult
"fuzz"         Σ p_i P_i arg P_i, op = Σ p_i P_i         also called KMult; P_i projects onto an eigenspace of op
"mult"         op ∘ arg                                  elementwise
"spider"       U [(Uᵀ op U) ∘ (Uᵀ arg U)] Uᵀ             "mult" in another basis U
"diag"         diag(op) ∘ diag(arg)                      "mult" of the diagonals only
"traced_add"   (tr(op) arg + tr(arg) op) / 2n            pair by pair: in "s v o" the subject counts for half
"add"          the sum of the matrices of all words      all count alike
"kronecker"    (S ⊗ O) ∘ (V ⊗ V) of "s v o", n² x n²     with one noun or none it is "mult"
"verb"         the verb alone                            without a verb: the noun without its adjectives
=============  =======================================  ==========================================================

Sources: Coecke & Meichanetzidis 2020, "Meaning updating of density matrices" (phaser, fuzz, spider); Lewis 2019,
"Compositional hyponymy with positive operators" (mult, diag, traced addition, KMult, BMult); Meyer & Lewis 2020,
"Modelling lexical ambiguity with density matrices", section 3 (order, Kronecker); Grefenstette & Sadrzadeh 2011,
"Experimenting with transitive verbs in a DisCoCat" (the Kronecker method of vectors).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_choice, check_matrix
from nearfar._core.names import public_names
from nearfar.contracts import Floats
from nearfar.density import matrices as algebra
from nearfar.density.embedding import DensityEmbedding
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.search.products import unit_rows

__all__ = ["METHODS", "VECTOR_METHODS", "compose", "phrase_similarities"]

Method = Literal["phaser", "fuzz", "mult", "spider", "diag", "traced_add", "add", "kronecker", "verb"]
METHODS: tuple[Method, ...] = get_args(Method)
VECTOR_METHODS = ("mult", "add", "kronecker", "verb")

_NOTHING = 1e-7  # a trace product of two density matrices that rounding in float32 does not tell from 0
_LITTLE = 0.01  # one below which that rounding shows as negative eigenvalues, once the trace is made 1
_ROLES = ("verb", "subject", "object")

Word = Hashable | NDArray[np.floating]
"""An id, or something composed before; of a noun, a tuple of them, too."""

Stack = NDArray[np.float64]  # (k, n, n) of matrices, or (k, d) of vectors
_OPERATIONS: dict[str, Callable[[Stack, Stack], Stack]] = {
    "phaser": algebra.phaser,
    "fuzz": algebra.fuzz,
    "diag": algebra.diagonal_product,
    "traced_add": algebra.traced_sum,
}


def compose(
    embedding: Embedding,
    *,
    verb: Word = None,
    subject: Word = None,
    object: Word = None,  # noqa: A002 - the grammar's word
    method: Method = "phaser",
    operator: Literal["verb", "noun"] = "verb",
    basis: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return the meaning of a phrase: ``subject verb object``, or any part of it.

    Parameters
    ----------
    embedding : DensityEmbedding or Embedding
        The words.
    verb : id, or ndarray of floats of shape (n, n), optional
        The verb. An array is something composed before, a matrix or, of an Embedding, a vector of shape (d,).
    subject, object : id, ndarray or tuple of them, optional
        Nouns; a tuple is a noun with its adjectives before it, ``("big", "dog")`` (unless it is itself an id). A
        subject alone is a noun phrase, an object needs a verb.
    method : {"phaser", "fuzz", "mult", "spider", "diag", "traced_add", "add", "kronecker", "verb"}
        How one matrix operates on another, see :mod:`nearfar.density.composition`. For vectors "mult", "add",
        "kronecker" and "verb".
    operator : {"verb", "noun"}
        Which of verb and noun operates on the other. It matters to "phaser", "fuzz" and "traced_add".
    basis : array-like, shape (n, n), optional
        For "spider": orthonormal vectors as columns.

    Returns
    -------
    ndarray, shape (n, n), float64
        A density matrix: positive semi-definite, of trace 1; shape (n², n²) for "kronecker" of subject, verb and
        object. Zero, as for a word of which nothing is known, where what operates and what it operates on have nothing
        in common (before its trace is made 1, the result has one below 1e-7) or one of them is zero; "add" and "verb"
        do not know this. Of an Embedding a vector of length 1, shape (d,) or (d²,), or zero.

    Raises
    ------
    UnknownIdError
        If a word is not there.
    InputError
        If there is no word, or an object without a verb, or subject and object without one; if the method is not one
        for vectors, or the basis is missing, not wanted or not orthonormal.

    See Also
    --------
    DensityEmbedding.most_similar : Takes the matrix that is returned.

    Notes
    -----
    Phaser and fuzz are neither commutative nor associative. Before the trace is made 1, both have the trace tr(op arg);
    where op and arg commute both are the matrix product. Vectors are taken at length 1.

    Source: Coecke & Meichanetzidis 2020, "Meaning updating of density matrices"; Meyer & Lewis 2020, "Modelling lexical
    ambiguity with density matrices" (CoNLL), section 3; Lewis 2019, "Compositional hyponymy with positive operators".

    Examples
    --------
    >>> import nearfar as nf
    >>> factors = [[[1, 0], [0, 1]], [[1, 0], [0, 0.2]], [[0.2, 0], [0, 1]]]
    >>> words = nf.DensityEmbedding.from_factors(factors, ["bank", "flooded", "lent"])
    >>> phrase = nf.compose(words, verb="flooded", subject="bank")
    >>> phrase.round(2)
    array([[0.96, 0.  ],
           [0.  , 0.04]])
    >>> words.most_similar(phrase, topn=1)[0][0]
    'flooded'
    """
    task = _Task("compose", embedding, method, operator, basis)
    factors = task.compose([{"verb": verb, "subject": subject, "object": object}])
    whole = factors[0][0]
    return whole if len(factors) == 1 else np.kron(whole, factors[1][0])


def phrase_similarities(
    embedding: Embedding,
    left: Sequence[Mapping[str, Word]],
    right: Sequence[Mapping[str, Word]],
    *,
    method: Method = "phaser",
    operator: Literal["verb", "noun"] = "verb",
    basis: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return the similarity of each phrase on the left with the one beside it on the right.

    The same as composing all of them by :func:`compose` and taking cosines, without the large matrices of "kronecker".

    Parameters
    ----------
    embedding : DensityEmbedding or Embedding
        The words.
    left, right : sequence of k mappings
        Each a phrase: the arguments ``verb``, ``subject`` and ``object`` of :func:`compose`, of those that it has.
        The two phrases of a pair have the same of them.
    method, operator, basis
        As for :func:`compose`.

    Returns
    -------
    ndarray, shape (k,), float64
        ``tr(AB) / (‖A‖ ‖B‖)``, in [0, 1]; of vectors the cosine. 0 where one of the two is zero.

    Raises
    ------
    UnknownIdError
        If a word is not there.
    InputError
        As for :func:`compose`, and if the two sides do not fit together.

    Source: Meyer & Lewis 2020, "Modelling lexical ambiguity with density matrices" (CoNLL), section 4.

    Examples
    --------
    >>> import nearfar as nf
    >>> factors = [[[1, 0], [0, 1]], [[1, 0], [0, 0.2]], [[0.2, 0], [0, 1]]]
    >>> words = nf.DensityEmbedding.from_factors(factors, ["bank", "flooded", "lent"])
    >>> flooded, lent = ({"subject": "bank", "verb": verb} for verb in ("flooded", "lent"))
    >>> nf.composition.phrase_similarities(words, [flooded], [lent]).round(2)
    array([0.08])
    """
    owner = "phrase_similarities"
    task = _Task(owner, embedding, method, operator, basis)
    if len(left) != len(right):
        raise InputError(owner, "right", f"as many phrases as left, {len(left)}", str(len(right)))
    kinds: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for k, pair in enumerate(zip(left, right, strict=True)):
        kinds.setdefault(tuple(task.shape_of(phrase) for phrase in pair), []).append(k)
    found = np.empty(len(left))
    for numbers in kinds.values():
        a, b = (task.compose([side[k] for k in numbers]) for side in (left, right))
        if len(a) != len(b):
            raise InputError(owner, "right", "phrases with what those on the left have", "others, with kronecker")
        # The cosine of Kronecker products is the product of the cosines.
        found[numbers] = functools.reduce(np.multiply, [_cosines(*factors) for factors in zip(a, b, strict=True)])
    return found


@dataclass
class _Task:
    """What is composed of, and how; the methods work on stacks of phrases of one kind."""

    owner: str
    embedding: Embedding
    method: str
    operator: str
    basis: ArrayLike | None

    def __post_init__(self) -> None:
        if not isinstance(self.embedding, Embedding):
            raise InputError(self.owner, "embedding", "a DensityEmbedding or an Embedding", repr(self.embedding))
        check_choice(self.owner, "operator", self.operator, ("verb", "noun"))
        self.dense = isinstance(self.embedding, DensityEmbedding)
        check_choice(self.owner, "method", self.method, METHODS)
        if not self.dense and self.method not in VECTOR_METHODS:
            hint = "The others need a DensityEmbedding."
            expected = "one of " + ", ".join(map(repr, VECTOR_METHODS)) + " for vectors"
            raise InputError(self.owner, "method", expected, repr(self.method), hint)
        if (self.basis is not None) != (self.method == "spider"):
            raise InputError(self.owner, "basis", "given with the method 'spider', and only then", repr(self.basis))
        if self.basis is not None:
            n = self.embedding.order  # type: ignore[attr-defined]
            self.axes = check_matrix(self.owner, "basis", self.basis, rows=n, columns=n).astype(np.float64)
            if np.abs(self.axes.T @ self.axes - np.eye(n)).max() > algebra.TOLERANCE:
                raise InputError(self.owner, "basis", "orthonormal columns", "others")

    def shape_of(self, phrase: Mapping[str, Word]) -> tuple[int, ...]:
        """Return how many words a phrase has for the verb, the subject and the object."""
        if unknown := set(phrase) - set(_ROLES):
            raise InputError(self.owner, "phrase", f"of {', '.join(_ROLES)}", repr(sorted(unknown)[0]))
        counts = tuple(len(self._words(phrase.get(role))) for role in _ROLES)
        if not any(counts):
            raise InputError(self.owner, "phrase", "at least one word", "none")
        if counts[2] and not counts[0]:
            raise InputError(self.owner, "verb", "given where there is an object", "None", "A noun alone: subject.")
        if counts[0] > 1:
            raise InputError(self.owner, "verb", "one word", repr(phrase["verb"]))
        return counts

    def compose(self, phrases: Sequence[Mapping[str, Word]]) -> tuple[Stack, ...]:
        """Return phrases of one kind as a stack, or as two stacks whose Kronecker products they are."""
        counts = self.shape_of(phrases[0])
        verbs, subjects, objects = (
            [self._stack(role, [self._words(phrase.get(role))[i] for phrase in phrases]) for i in range(count)]
            for role, count in zip(_ROLES, counts, strict=True)
        )
        if self.method == "verb":
            return ((verbs or subjects[-1:])[0],)
        if self.method == "add":
            words = verbs + subjects + objects
            return (self._normalised(functools.reduce(np.add, words) / len(words)),)
        operate = _OPERATIONS.get(self.method, np.multiply)
        if self.method == "spider":
            operate = functools.partial(algebra.spider, basis=self.axes)

        def pair(op: Stack, arg: Stack) -> Stack:
            return self._normalised(operate(op, arg))

        def pair_back(arg: Stack, op: Stack) -> Stack:
            return pair(op, arg)

        # An adjective operates on what follows it.
        nouns = [functools.reduce(pair_back, reversed(words)) for words in (subjects, objects) if words]
        if not verbs:
            return (nouns[0],)
        if self.method == "kronecker" and len(nouns) == 2:
            a, b = (pair(noun, verbs[0]) for noun in nouns)
            axes = tuple(range(1, a.ndim))
            there = a.any(axis=axes, keepdims=True) & b.any(axis=axes, keepdims=True)  # where one is zero both are
            return a * there, b * there
        # The object first.
        return (functools.reduce(pair if self.operator == "verb" else pair_back, reversed(nouns), verbs[0]),)

    def _words(self, item: Word) -> tuple[Word, ...]:
        if item is None:
            return ()
        if isinstance(item, tuple) and item not in self.embedding:
            if not item:
                raise InputError(self.owner, "phrase", "at least one word in a tuple", "()")
            return item
        return (item,)

    def _stack(self, role: str, items: list[Word]) -> Stack:
        embedding = self.embedding
        if not any(isinstance(item, np.ndarray) for item in items):
            rows: Floats = embedding._vectors_of(self.owner, cast("list[Hashable]", items))
        elif isinstance(embedding, DensityEmbedding):
            rows = algebra.svec(np.stack([embedding._state(self.owner, role, item) for item in items]))
        else:
            rows = np.stack([embedding._vector(self.owner, role, item) for item in items])
        if not self.dense:
            return unit_rows(rows)
        return algebra.of_trace_one(algebra.smat(rows.astype(np.float64)))

    def _normalised(self, stack: Stack) -> Stack:
        if not self.dense:
            return unit_rows(stack)
        traces = algebra.trace(stack)
        found = np.where(traces[:, None, None] > _NOTHING, stack, 0.0)
        little = (traces > _NOTHING) & (traces < _LITTLE)
        found[little] = algebra.positive_part(found[little])
        return algebra.of_trace_one(found)


def _cosines(a: Stack, b: Stack) -> NDArray[np.float64]:
    flat = [unit_rows(side.reshape(len(side), -1)) for side in (a, b)]
    found: NDArray[np.float64] = np.einsum("ki,ki->k", *flat)
    return np.clip(found, -1.0, 1.0)


public_names(__name__, __all__)
