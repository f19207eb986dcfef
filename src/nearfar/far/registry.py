"""What far fields share, and their names. There are two kinds, and each has a register of its own.

A *far field* of the softmax answers blocks of rows about ``log Z_i`` (:class:`nearfar.contracts.FarField`); EDRep takes
it. A *field* of a map answers about potentials of all points (:class:`nearfar.contracts.Field`); t-SNE and its family
take it. A name of one's own is in one of the two registers, so it never means two things.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_numbers
from nearfar._core.parameters import Part
from nearfar.contracts import FarField, Field
from nearfar.engines import found
from nearfar.errors import InputError, NearfarError

if TYPE_CHECKING:
    from nearfar.far.fields import NoisePairs

T = TypeVar("T", FarField, Field)

_INHERITS = "One of your own inherits from nearfar.contracts.FarField."
NOT_FIELDS = ("auto", "noise")
"""What ``far`` of a map says beside the names of fields: chosen by the size of the data; pairs are sampled."""


# What the far fields of the softmax share.


class FarPart(Part, FarField):
    """Base of the far fields of the softmax: parameters, and beside them the state that ``prepare`` leaves.

    A subclass is a frozen dataclass whose fields are its parameters.
    """

    keeps_others = False
    force_is_optional = True

    _state: Any = None

    def __post_init__(self) -> None:
        """Refuse a base measure that is no vector of finite numbers >= 0."""
        if self.weights is None:
            return
        w = check_numbers(type(self).__name__, "weights", self.weights, "one number per object")
        if w.ndim != 1 or w.dtype.kind not in "iuf" or not (np.isfinite(w).all() and (w >= 0).all() and w.any()):
            expected = "one number per object, finite, >= 0 and not all 0"
            raise InputError(type(self).__name__, "weights", expected, f"{w.dtype} of shape {w.shape}")

    def of_columns(self, columns: NDArray[np.int64]) -> Self:
        """Return the far field for some columns of a relation alone: with what it knows of each.

        Parameters
        ----------
        columns : ndarray of int64, shape (m,)
            Their numbers, ascending.

        Returns
        -------
        FarPart
        """
        params = self.get_params()
        known = [name for name in ("labels", "weights") if params.get(name) is not None]  # a number for each column
        return self.with_params(**{name: np.asarray(params[name])[columns] for name in known}) if known else self

    @property
    def prepared(self) -> Any:
        """What ``prepare`` has left.

        Raises
        ------
        NearfarError
            It was not called.
        """
        if self._state is None:
            raise NearfarError(f"{type(self).__name__}: prepare must be called before evaluate.")
        return self._state


# Their names.


@dataclass
class Register(Generic[T]):
    """What makes the far fields of one kind, by name.

    Parameters
    ----------
    kind : type
        The protocol that each of them keeps to.
    what, function, takers : str
        For messages: what one of them is, the function that gives one a name, and who takes the names.
    built_in : dict of str to str
        Where the classes of the built-in ones are, "module:class"; they are loaded when they are asked for.
    words : tuple of str
        What else is said in the place of a name.
    """

    kind: type[object]
    what: str
    function: str
    takers: str
    built_in: dict[str, str]
    words: tuple[str, ...] = ()
    own: dict[str, Callable[[], T]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the built-in ones first."""
        return tuple(dict.fromkeys((*self.built_in, *self.own)))

    def add(self, name: str, factory: Callable[[], T], other: Register[FarField] | Register[Field]) -> None:
        """Keep a name; refuse one that the other register has, and what is not of this kind."""
        if not isinstance(name, str):
            raise InputError(self.function, "name", "a string", repr(name))
        if name in (*other.names, *other.words) and name not in self.names:
            hint = f"It names {other.what}, see {other.function}."
            raise InputError(self.function, "name", "one that means nothing else", repr(name), hint)
        if not callable(factory):
            raise InputError(self.function, "factory", "a class or a function without arguments", repr(factory))
        try:
            made: object = factory()
        except TypeError as error:
            hint = "A function without arguments can call it: lambda: MyField(3)."
            expected = "a class or a function without arguments"
            raise InputError(self.function, "factory", expected, f"{factory!r} ({error})", hint) from error
        if not isinstance(made, self.kind) or isinstance(made, type):
            hint = other.hint(made) or f"{self.kind.__name__} of nearfar.contracts says what that is."
            raise InputError(self.function, "factory", f"what makes {self.what}", repr(made), hint)
        self.own[name] = factory

    def hint(self, asked: object) -> str:
        """Return who takes what was given in place of the other kind, nothing if it is not of this one."""
        of_kind = isinstance(asked, self.kind) and not isinstance(asked, type)
        if of_kind or (isinstance(asked, str) and asked in self.names):
            return f"It is {self.what}: {self.takers} take it, and {self.function} gives it a name."
        return ""


FAR_FIELDS: Register[FarField] = Register(
    FarField,
    "a far field of the softmax",
    "register",
    "EDRep, log_normalizers and estimate_error",
    {
        "gaussian-mixture": "nearfar.far.gaussian_mixture:GaussianMixture",
        "exact": "nearfar.far.exact:Exact",
        "noise": "nearfar.far.exact:Noise",
    },
)
FIELDS: Register[Field] = Register(
    Field,
    "a field of maps",
    "register_field",
    "TSNE and its family",
    {
        "exact": "nearfar.far.fields:ExactField",
        "fft": "nearfar.far.mesh:MeshField",
        "barnes-hut": "nearfar.far.barnes_hut:BarnesHutField",
    },
    NOT_FIELDS,
)


def register(name: str, factory: Callable[[], FarField]) -> None:
    """Give a far field of the softmax a name, by which EDRep, ``log_normalizers`` and ``estimate_error`` know it.

    Parameters
    ----------
    name : str
        One that is already there is replaced.
    factory : callable
        Called without arguments, now and at each use, returns a new :class:`nearfar.contracts.FarField`: mostly its
        class.

    Raises
    ------
    InputError
        The name is no string, or names a field of maps; the factory cannot be called without arguments, or does not
        return a far field of the softmax.

    See Also
    --------
    register_field : for the fields of maps.

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.far.register("small sample", lambda: nf.far.Noise(n_samples=10))
    >>> nf.far.far_field("small sample")
    Noise(n_samples=10)
    """
    FAR_FIELDS.add(name, factory, FIELDS)


def register_field(name: str, factory: Callable[[], Field]) -> None:
    """Give a field of maps a name, by which ``far`` of :class:`nearfar.NeighborEmbedding` and its recipes know it.

    Parameters
    ----------
    name : str
        One of your own is replaced; those of the library are not.
    factory : callable
        Called without arguments, now and at each use, returns a new :class:`nearfar.contracts.Field`: mostly its class.

    Raises
    ------
    InputError
        The name is no string, is built in, or names a far field of the softmax; the factory cannot be called without
        arguments, or does not return a field of maps.

    See Also
    --------
    register : for the far fields of the softmax.

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> nf.far.register_field("coarse mesh", lambda: nf.far.MeshField(tolerance=0.05))
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> nf.TSNE(perplexity=10, max_iter=50, far="coarse mesh", random_state=0).fit_transform(X).shape
    (60, 2)
    """
    if isinstance(name, str) and name in (*FIELDS.built_in, *FIELDS.words):
        hint = "A map takes these in their own ways, by the size of the data and the divergence."
        raise InputError("register_field", "name", "another than those of the library", repr(name), hint)
    FIELDS.add(name, factory, FAR_FIELDS)


def far_field(far: str | FarField, *, owner: str = "far_field", argument: str = "far") -> FarField:
    """Return an unprepared far field of the softmax, from its name or from an object.

    Parameters
    ----------
    far : str or FarField
        ``"gaussian-mixture"``, ``"exact"``, ``"noise"`` or a name given to
        :func:`nearfar.far.register`, with their defaults; or an object of a class that inherits from
        :class:`nearfar.contracts.FarField`. One of nearfar's own is copied, so that the caller's stays as it is.
    owner, argument : str
        Who asks, for messages.

    Returns
    -------
    FarField

    Raises
    ------
    InputError
        Another name, or an object without these methods.

    Examples
    --------
    >>> far_field("noise")
    Noise(n_samples=1000)
    """
    if isinstance(far, str) and (far in FAR_FIELDS.own or far in FAR_FIELDS.built_in):
        makes: Callable[[], FarField] = FAR_FIELDS.own.get(far) or found(FAR_FIELDS.built_in[far])
        return makes()
    if not isinstance(far, FarField) or isinstance(far, type):
        expected = f"one of {', '.join(map(repr, FAR_FIELDS.names))}, or a far field object"
        hint = FIELDS.hint(far) or ("" if isinstance(far, str) else _INHERITS)
        raise InputError(owner, argument, expected, repr(far), hint)
    return far.with_params() if isinstance(far, Part) else far


def field_of_map(far: object, *, owner: str) -> str | Field | NoisePairs:
    """Return what ``far`` of a map says: the name of a built-in field as it is, or an object.

    Parameters
    ----------
    far : str, Field or NoisePairs
        ``"auto"``, ``"noise"``, ``"exact"``, ``"fft"``, ``"barnes-hut"``; a name given to
        :func:`nearfar.far.register_field`; or an object. One of nearfar's own is copied.
    owner : str
        Who asks, for messages.

    Raises
    ------
    InputError
        Another name, or an object of another kind.
    """
    from nearfar.far.fields import NoisePairs

    if far == "noise":
        return NoisePairs()
    if isinstance(far, str) and (far in FIELDS.built_in or far in FIELDS.words):
        return far
    if isinstance(far, str) and far in FIELDS.own:
        return FIELDS.own[far]()
    if not isinstance(far, (Field, NoisePairs)) or isinstance(far, type):
        names = ", ".join(map(repr, ("auto", *FIELDS.names, "noise")))
        raise InputError(owner, "far", f"one of {names} or a field of nearfar.far", repr(far), FAR_FIELDS.hint(far))
    return far.with_params() if isinstance(far, Part) else far
