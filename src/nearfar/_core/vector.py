"""Vector primitives: sixteen lanes at a time, for the innermost loops of the kernels.

LLVM does not vectorise a gather of rows with a run-time length by itself, and does not prefetch. These few
intrinsics say it directly; they stay pure Python and are compiled with the kernel that uses them. A vector holds
``LANES`` numbers of the array's own type (float32 or float64); the machine's registers may be shorter, LLVM then splits
it. All loads and stores are masked, ``n`` lanes of them valid, so that a row needs no special end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 16
CACHE_LINE = 64  # bytes
FAST = {"reassoc", "contract", "nsz", "arcp"}
"""For ``njit(fastmath=...)``: sums may be reordered, so that they vectorise; infinities and NaN keep their meaning."""


class VectorType(types.Type):
    """LANES numbers of one floating type."""

    def __init__(self, scalar: Any) -> None:
        self.scalar = scalar
        super().__init__(name=f"Vector({scalar})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        scalar = ir.FloatType() if fe_type.scalar == types.float32 else ir.DoubleType()
        super().__init__(dmm, fe_type, ir.VectorType(scalar, LANES))


def _splat(builder: Any, value: Any, count: int = LANES) -> Any:
    """Return a vector with ``value`` in every lane."""
    vector = ir.VectorType(value.type, count)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def _mask(builder: Any, n: Any, count: int = LANES) -> Any:
    """Return the mask of the lanes below ``n``."""
    i32 = ir.IntType(32)
    lanes = ir.Constant(ir.VectorType(i32, count), list(range(count)))
    return builder.icmp_signed("<", lanes, _splat(builder, builder.trunc(n, i32), count))


def _address(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [at])


def _declare(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def _suffix(vector: Any) -> str:
    return f"v{vector.count}f{32 if isinstance(vector.element, ir.FloatType) else 64}"


@intrinsic
def zeros_like(typingctx: Any, array: Any) -> Any:
    """Return a vector of zeros of the array's type."""
    vector = VectorType(array.dtype)

    def codegen(context: Any, _builder: Any, _signature: Any, _args: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), None)

    return vector(array), codegen


@intrinsic
def load(typingctx: Any, array: Any, at: Any, n: Any) -> Any:
    """Return ``array[at : at + n]`` in the first lanes, zeros in the rest; n <= 0 reads nothing."""
    vector = VectorType(array.dtype)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        kind = context.get_value_type(vector)
        pointer = builder.bitcast(address, kind.as_pointer())
        mask = _mask(builder, args[2])
        name = f"llvm.masked.load.{_suffix(kind)}.p0"
        function = _declare(builder, name, kind, [pointer.type, ir.IntType(32), mask.type, kind])
        align = ir.IntType(32)(array.dtype.bitwidth // 8)
        return builder.call(function, [pointer, align, mask, ir.Constant(kind, None)])

    return vector(array, types.int64, types.int64), codegen


@intrinsic
def store(typingctx: Any, array: Any, at: Any, n: Any, value: Any) -> Any:
    """Write the first ``n`` lanes of ``value`` to ``array[at : at + n]``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        kind = context.get_value_type(value)
        pointer = builder.bitcast(address, kind.as_pointer())
        mask = _mask(builder, args[2])
        name = f"llvm.masked.store.{_suffix(kind)}.p0"
        function = _declare(builder, name, ir.VoidType(), [kind, pointer.type, ir.IntType(32), mask.type])
        align = ir.IntType(32)(array.dtype.bitwidth // 8)
        builder.call(function, [args[3], pointer, align, mask])
        return context.get_dummy_value()

    return types.none(array, types.int64, types.int64, value), codegen


@intrinsic
def multiply_add(typingctx: Any, scale: Any, value: Any, total: Any) -> Any:
    """Return ``scale * value + total``, the scale being a number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(value)
        number = context.cast(builder, args[0], signature.args[0], value.scalar)
        function = _declare(builder, f"llvm.fma.{_suffix(kind)}", kind, [kind, kind, kind])
        return builder.call(function, [_splat(builder, number), args[1], args[2]])

    return value(scale, value, value), codegen


@intrinsic
def multiply_add_lanes(typingctx: Any, left: Any, right: Any, total: Any) -> Any:
    """Return ``left * right + total``, lane by lane."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = context.get_value_type(total)
        function = _declare(builder, f"llvm.fma.{_suffix(kind)}", kind, [kind, kind, kind])
        return builder.call(function, list(args))

    return total(left, right, total), codegen


@intrinsic
def add(typingctx: Any, left: Any, right: Any) -> Any:
    """Return ``left + right``."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.fadd(args[0], args[1])

    return left(left, left), codegen


@intrinsic
def at_most(typingctx: Any, value: Any, limit: Any) -> Any:
    """Return the lanes that are not above ``limit``, a number, as the bits of an integer; NaN is above everything."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = context.cast(builder, args[1], signature.args[1], value.scalar)
        below = builder.fcmp_ordered("<=", args[0], _splat(builder, number))
        return builder.zext(builder.bitcast(below, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(value, limit), codegen


@intrinsic
def lane_sum(typingctx: Any, value: Any) -> Any:
    """Return the sum of the lanes, in any order."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = context.get_value_type(value)
        function = _declare(builder, f"llvm.vector.reduce.fadd.{_suffix(kind)}", kind.element, [kind.element, kind])
        return builder.call(function, [ir.Constant(kind.element, -0.0), args[0]], fastmath=("reassoc",))

    return value.scalar(value), codegen


@intrinsic(prefer_literal=True)
def multiply_rows(
    typingctx: Any,
    X: Any,
    x: Any,
    steps: Any,
    Y: Any,
    y: Any,
    step: Any,
    n_inner: Any,
    Z: Any,
    z: Any,
    width: Any,
    n: Any,
    rows: Any,
    lanes: Any,
) -> Any:
    """Write ``rows`` rows of ``n`` columns of the product X Y, ``lanes`` >= n at a time (both literals).

    X[r, k] lies at ``X[x + r * steps[0] + k * steps[1]]``, row k of Y at ``y + k * step``, row r of what is written at
    ``Z[z + r * width]``. All sums stay in registers; nothing checks an index, and none may be negative.
    """
    height, count = rows.literal_value, lanes.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(context.get_value_type(X.dtype), count)
        left, right, out = (_address(context, builder, signature.args[i], args[i], args[i + 1]) for i in (0, 3, 7))
        down, along = cgutils.unpack_tuple(builder, args[2], 2)
        mask, align = _mask(builder, args[10], count), ir.IntType(32)(X.dtype.bitwidth // 8)
        pointer = kind.as_pointer()
        fetch = _declare(
            builder, f"llvm.masked.load.{_suffix(kind)}.p0", kind, [pointer, ir.IntType(32), mask.type, kind]
        )
        fma = _declare(builder, f"llvm.fma.{_suffix(kind)}", kind, [kind, kind, kind])
        save = _declare(
            builder,
            f"llvm.masked.store.{_suffix(kind)}.p0",
            ir.VoidType(),
            [kind, pointer, ir.IntType(32), mask.type],
        )
        zero = ir.Constant(kind, None)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in range(height)]
        for total in totals:
            builder.store(zero, total)
        starts = [builder.gep(left, [builder.mul(down, down.type(r))]) for r in range(height)]
        with cgutils.for_range(builder, args[6]) as loop:
            at = builder.gep(right, [builder.mul(loop.index, args[5])])
            row = builder.call(fetch, [builder.bitcast(at, pointer), align, mask, zero])
            offset = builder.mul(loop.index, along)
            for start, total in zip(starts, totals, strict=True):
                scale = _splat(builder, builder.load(builder.gep(start, [offset])), count)
                builder.store(builder.call(fma, [scale, row, builder.load(total)]), total)
        for r, total in enumerate(totals):
            at = builder.gep(out, [builder.mul(args[9], args[9].type(r))])
            builder.call(save, [builder.load(total), builder.bitcast(at, pointer), align, mask])
        return context.get_dummy_value()

    i = types.int64
    return types.none(X, i, types.UniTuple(i, 2), Y, i, i, i, Z, i, i, i, rows, lanes), codegen


def _ask_for(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> None:
    pointer = builder.bitcast(_address(context, builder, array_type, array, at), ir.IntType(8).as_pointer())
    i32 = ir.IntType(32)
    function = _declare(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer.type, i32, i32, i32])
    builder.call(function, [pointer, i32(0), i32(2), i32(1)])  # for reading, second-level cache, data


@intrinsic
def prefetch(typingctx: Any, array: Any, at: Any) -> Any:
    """Ask for the cache line of ``array[at]``, into the second-level cache; any address is allowed."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _ask_for(context, builder, signature.args[0], *args)
        return context.get_dummy_value()

    return types.none(array, types.int64), codegen


@intrinsic(prefer_literal=True)
def prefetch_row(typingctx: Any, array: Any, at: Any, n: Any, vectors: Any) -> Any:
    """Ask for ``array[at : at + n]``, at most ``vectors`` (a literal) times LANES of it, into the second-level cache.

    Every cache line is asked for, also the one into which a row reaches that does not begin at the start of a line; so
    ``n >= 1``. Any address is allowed.
    """
    width = vectors.literal_value * LANES
    line = CACHE_LINE * 8 // array.dtype.bitwidth

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)

        def smaller(left: Any, right: Any) -> Any:
            return builder.select(builder.icmp_signed("<", left, right), left, right)

        last = builder.sub(smaller(args[2], i64(width)), i64(1))
        for offset in [smaller(i64(k), last) for k in range(0, width, line)] + [last]:
            _ask_for(context, builder, signature.args[0], args[0], builder.add(args[1], offset))
        return context.get_dummy_value()

    return types.none(array, types.int64, types.int64, vectors), codegen


def read_only(value: Any) -> Any:
    """Return a view that cannot be written, also of a tuple's arrays, so that none is compiled for twice."""
    if isinstance(value, tuple):
        return value._make(map(read_only, value)) if hasattr(value, "_make") else tuple(map(read_only, value))
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def empty_aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an uninitialised array that begins with a cache line, as those of NumPy need not.

    Where rows are gathered from anywhere, a row of 32 float32 is then 2 lines instead of 3.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(dtype).reshape(shape)
