"""Vector primitives: sixteen lanes at a time, for the innermost loops of the kernels.

LLVM does not vectorise a gather of rows with a run-time length by itself, and does not prefetch. These few
intrinsics say it directly; they stay pure Python and are compiled with the kernel that uses them. A vector holds
``LANES`` numbers of the array's own type (float32 or float64); the machine's registers may be shorter, LLVM then splits
it. All loads and stores are masked, ``n`` lanes of them valid, so that a row needs no special end. Where the processor
has no masks, they become a branch for each lane; so there whole vectors are loaded and stored without.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from importlib import import_module
from typing import Any

LANES = 16
_CACHE_LINE = 512  # bits


class _Late:
    """A module that is imported where a function is compiled."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


ir: Any = _Late("llvmlite.ir")
types: Any = _Late("numba.types")
private: Any = _Late("nearfar._core.numba_private")


class _Instruction:
    """What compiled functions call by its name, and numba gets to know when one of them is compiled."""

    def __init__(self, define: Callable[..., object], prefer_literal: bool = False) -> None:
        update_wrapper(self, define)
        self._define, self._prefer_literal = define, prefer_literal

    def __call__(self, *args: object) -> Any:
        raise NotImplementedError(f"{self._define.__name__} is for compiled functions")

    @cached_property
    def _numba_type_(self) -> object:
        return private.instruction_type(self._define, self._prefer_literal)


def _vector(scalar):
    return private.VectorType(scalar, LANES)


def _splat(builder, value, count=LANES):
    """Return a vector with ``value`` in every lane."""
    vector = ir.VectorType(value.type, count)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def _mask(builder, n, count=LANES):
    """Return the mask of the lanes below ``n``."""
    i32 = ir.IntType(32)
    lanes = ir.Constant(ir.VectorType(i32, count), list(range(count)))
    return builder.icmp_signed("<", lanes, _splat(builder, builder.trunc(n, i32), count))


def _suffix(vector) -> str:
    return f"v{vector.count}f{8 * _align(vector)}"


def _align(vector) -> int:
    return 4 if isinstance(vector.element, ir.FloatType) else 8  # bytes


def _load(context, builder, address, n, mask, kind):
    """Return the first ``n`` lanes of a vector at an address, zeros in the rest; the mask is that of ``n``."""
    pointer, zero = builder.bitcast(address, kind.as_pointer()), ir.Constant(kind, None)
    arguments = [pointer, ir.IntType(32)(_align(kind)), mask, zero]
    name = f"llvm.masked.load.{_suffix(kind)}.p0"
    function = private.declare(builder, name, kind, [one.type for one in arguments])
    if private.processor_has(context, "avx"):
        return builder.call(function, arguments)
    result = private.variable(builder, zero)
    with builder.if_else(builder.icmp_signed(">=", n, n.type(kind.count))) as (whole, part):
        with whole:
            builder.store(builder.load(pointer, align=_align(kind)), result)
        with part:
            builder.store(builder.call(function, arguments), result)
    return builder.load(result)


def _store(context, builder, address, n, mask, value) -> None:
    """Write the first ``n`` lanes of a vector to an address; the mask is that of ``n``."""
    pointer = builder.bitcast(address, value.type.as_pointer())
    arguments = [value, pointer, ir.IntType(32)(_align(value.type)), mask]
    name = f"llvm.masked.store.{_suffix(value.type)}.p0"
    function = private.declare(builder, name, ir.VoidType(), [one.type for one in arguments])
    if private.processor_has(context, "avx"):
        builder.call(function, arguments)
        return
    with builder.if_else(builder.icmp_signed(">=", n, n.type(value.type.count))) as (whole, part):
        with whole:
            builder.store(value, pointer, align=_align(value.type))
        with part:
            builder.call(function, arguments)


def _fma(context, builder, left, right, total):
    """Return ``left * right + total``, rounded once; twice if that would take the processor a call for each lane."""
    kind = total.type
    name = "fma" if private.processor_has(context, "fma") else "fmuladd"
    function = private.declare(builder, f"llvm.{name}.{_suffix(kind)}", kind, [kind, kind, kind])
    return builder.call(function, [left, right, total])


@_Instruction
def zeros_like(typingctx, array):
    """Return a vector of zeros of the array's type."""
    vector = _vector(array.dtype)

    def codegen(context, _builder, _signature, _args):
        return ir.Constant(context.get_value_type(vector), None)

    return vector(array), codegen


@_Instruction
def load(typingctx, array, at, n):
    """Return ``array[at : at + n]`` in the first lanes, zeros in the rest; n <= 0 reads nothing."""
    vector = _vector(array.dtype)

    def codegen(context, builder, signature, args):
        address = private.address_of(context, builder, signature.args[0], args[0], args[1])
        return _load(context, builder, address, args[2], _mask(builder, args[2]), context.get_value_type(vector))

    return vector(array, types.int64, types.int64), codegen


@_Instruction
def store(typingctx, array, at, n, value):
    """Write the first ``n`` lanes of ``value`` to ``array[at : at + n]``."""

    def codegen(context, builder, signature, args):
        address = private.address_of(context, builder, signature.args[0], args[0], args[1])
        _store(context, builder, address, args[2], _mask(builder, args[2]), args[3])
        return private.nothing(context)

    return types.none(array, types.int64, types.int64, value), codegen


@_Instruction
def multiply_add(typingctx, scale, value, total):
    """Return ``scale * value + total``, the scale being a number."""

    def codegen(context, builder, signature, args):
        number = private.cast(context, builder, args[0], signature.args[0], value.scalar)
        return _fma(context, builder, _splat(builder, number), args[1], args[2])

    return value(scale, value, value), codegen


@_Instruction
def multiply_add_lanes(typingctx, left, right, total):
    """Return ``left * right + total``, lane by lane."""

    def codegen(context, builder, _signature, args):
        return _fma(context, builder, *args)

    return total(left, right, total), codegen


@_Instruction
def add(typingctx, left, right):
    """Return ``left + right``."""

    def codegen(_context, builder, _signature, args):
        return builder.fadd(args[0], args[1])

    return left(left, left), codegen


@_Instruction
def over_root(typingctx, value, square, least):
    """Return ``value / (sqrt(square) + least)``, lane by lane, ``least`` being a number."""

    def codegen(context, builder, signature, args):
        kind = args[0].type
        number = private.cast(context, builder, args[2], signature.args[2], value.scalar)
        function = private.declare(builder, f"llvm.sqrt.{_suffix(kind)}", kind, [kind])
        return builder.fdiv(args[0], builder.fadd(builder.call(function, [args[1]]), _splat(builder, number)))

    return value(value, value, least), codegen


@_Instruction
def at_most(typingctx, value, limit):
    """Return the lanes that are not above ``limit``, a number, as the bits of an integer; NaN is above everything."""

    def codegen(context, builder, signature, args):
        number = private.cast(context, builder, args[1], signature.args[1], value.scalar)
        below = builder.fcmp_ordered("<=", args[0], _splat(builder, number))
        return builder.zext(builder.bitcast(below, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(value, limit), codegen


@_Instruction
def lane_sum(typingctx, value):
    """Return the sum of the lanes, in any order."""

    def codegen(context, builder, _signature, args):
        kind = context.get_value_type(value)
        function = private.declare(
            builder, f"llvm.vector.reduce.fadd.{_suffix(kind)}", kind.element, [kind.element, kind]
        )
        return builder.call(function, [ir.Constant(kind.element, -0.0), args[0]], fastmath=("reassoc",))

    return value.scalar(value), codegen


@partial(_Instruction, prefer_literal=True)
def multiply_rows(typingctx, X, x, steps, Y, y, step, n_inner, Z, z, width, n, rows, lanes):
    """Write ``rows`` rows of ``n`` columns of the product X Y, ``lanes`` >= n at a time (both literals).

    X[r, k] lies at ``X[x + r * steps[0] + k * steps[1]]``, row k of Y at ``y + k * step``, row r of what is written at
    ``Z[z + r * width]``. All sums stay in registers; nothing checks an index, and none may be negative.
    """
    height, count = rows.literal_value, lanes.literal_value

    def codegen(context, builder, signature, args):
        kind = ir.VectorType(context.get_value_type(X.dtype), count)
        left, right, out = (
            private.address_of(context, builder, signature.args[i], args[i], args[i + 1]) for i in (0, 3, 7)
        )
        down, along = private.unpack(builder, args[2], 2)
        n, mask = args[10], _mask(builder, args[10], count)
        zero = ir.Constant(kind, None)
        totals = [private.variable(builder, zero) for _ in range(height)]
        for total in totals:
            builder.store(zero, total)
        starts = [builder.gep(left, [builder.mul(down, down.type(r))]) for r in range(height)]
        with private.count_to(builder, args[6]) as loop:
            at = builder.gep(right, [builder.mul(loop.index, args[5])])
            row = _load(context, builder, at, n, mask, kind)
            offset = builder.mul(loop.index, along)
            for start, total in zip(starts, totals, strict=True):
                scale = _splat(builder, builder.load(builder.gep(start, [offset])), count)
                builder.store(_fma(context, builder, scale, row, builder.load(total)), total)
        for r, total in enumerate(totals):
            at = builder.gep(out, [builder.mul(args[9], args[9].type(r))])
            _store(context, builder, at, n, mask, builder.load(total))
        return private.nothing(context)

    i = types.int64
    return types.none(X, i, types.UniTuple(i, 2), Y, i, i, i, Z, i, i, i, rows, lanes), codegen


def _ask_for(context, builder, array_type, array, at) -> None:
    pointer = builder.bitcast(private.address_of(context, builder, array_type, array, at), ir.IntType(8).as_pointer())
    i32 = ir.IntType(32)
    function = private.declare(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer.type, i32, i32, i32])
    builder.call(function, [pointer, i32(0), i32(2), i32(1)])  # for reading, second-level cache, data


@_Instruction
def prefetch(typingctx, array, at):
    """Ask for the cache line of ``array[at]``, into the second-level cache; any address is allowed."""

    def codegen(context, builder, signature, args):
        _ask_for(context, builder, signature.args[0], *args)
        return private.nothing(context)

    return types.none(array, types.int64), codegen


@partial(_Instruction, prefer_literal=True)
def prefetch_row(typingctx, array, at, n, vectors):
    """Ask for ``array[at : at + n]``, at most ``vectors`` (a literal) times LANES of it, into the second-level cache.

    Every cache line is asked for, also the one into which a row reaches that does not begin at the start of a line; so
    ``n >= 1``. Any address is allowed.
    """
    width = vectors.literal_value * LANES
    line = _CACHE_LINE // array.dtype.bitwidth

    def codegen(context, builder, signature, args):
        i64 = ir.IntType(64)

        def smaller(left, right):
            return builder.select(builder.icmp_signed("<", left, right), left, right)

        last = builder.sub(smaller(args[2], i64(width)), i64(1))
        for offset in [smaller(i64(k), last) for k in range(0, width, line)] + [last]:
            _ask_for(context, builder, signature.args[0], args[0], builder.add(args[1], offset))
        return private.nothing(context)

    return types.none(array, types.int64, types.int64, vectors), codegen
