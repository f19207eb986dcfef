"""Kernels of the squared distance: values, slopes, limits, and the compiled twins."""

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import often
from sklearn.base import clone

from nearfar import kernels as _kernels
from nearfar._core.jit import bind, jit
from nearfar._core.vector import FAST
from nearfar.contracts import Kernel as KernelContract
from nearfar.kernels import (
    Exponential,
    HeavyTailed,
    InhomogeneousStudentT,
    Kernel,
    StudentT,
    as_kernel,
    compiled_kernel,
    parameter_of_each,
    squared_distances,
)

ALL = [
    Exponential(),
    Exponential(0.3),
    StudentT(),
    HeavyTailed(),
    HeavyTailed(2.5, 0.4),
    HeavyTailed(0.0, 2.0),
    InhomogeneousStudentT(),
    InhomogeneousStudentT(0.7),
]
kernels = pytest.mark.parametrize("kernel", ALL, ids=repr)
F = np.array([0.0, 1e-9, 0.01, 0.37, 1.0, 7.3, 55.0, 900.0])


@kernels
def test_weight_is_one_at_zero_and_falls(kernel):
    w = kernel.weight(F)
    assert w[0] == 1
    assert (np.diff(w[2:]) < 0).all()


@kernels
def test_log_weight_is_the_logarithm_of_the_weight(kernel):
    seen = kernel.weight(F) > 1e-300
    np.testing.assert_allclose(kernel.log_weight(F)[seen], np.log(kernel.weight(F)[seen]), rtol=1e-12, atol=1e-15)
    assert np.isfinite(kernel.log_weight(F)).all()


@kernels
def test_slope_is_the_derivative_of_the_weight(kernel):
    f = F[2:6]
    step = 6e-6 * np.maximum(f, 0.1)
    difference = (kernel.weight(f + step) - kernel.weight(f - step)) / (2 * step)
    np.testing.assert_allclose(kernel.slope(f), difference, rtol=1e-7)


@kernels
def test_shape_and_dtype_are_kept(kernel):
    for dtype in (np.float32, np.float64):
        f = F.astype(dtype).reshape(2, 4)
        for method in (kernel.weight, kernel.log_weight, kernel.slope):
            assert method(f).shape == f.shape
            assert method(f).dtype == dtype


def test_a_heavy_tail_lies_between_exponential_and_student_t():
    np.testing.assert_allclose(HeavyTailed(0.0, 0.7).weight(F), Exponential(0.7).weight(F), rtol=1e-14)
    np.testing.assert_allclose(HeavyTailed(1e-7, 0.7).weight(F[:6]), Exponential(0.7).weight(F[:6]), rtol=1e-4)
    np.testing.assert_allclose(HeavyTailed(1.0, 1.0).weight(F), StudentT().weight(F), rtol=1e-14)
    np.testing.assert_allclose(HeavyTailed(1.0, 0.4).weight(F), 1 / (1 + 0.4 * F), rtol=1e-14)
    np.testing.assert_allclose(HeavyTailed(1e-12).slope(F), Exponential().slope(F), rtol=1e-9)


def test_degrees_of_freedom_lead_from_student_t_to_the_exponential():
    np.testing.assert_allclose(InhomogeneousStudentT(1.0).weight(F), StudentT().weight(F), rtol=1e-14)
    np.testing.assert_allclose(InhomogeneousStudentT(1e9).weight(F[:6]), Exponential(0.5).weight(F[:6]), rtol=1e-6)


@pytest.mark.parametrize("make", [Exponential, InhomogeneousStudentT])
def test_a_parameter_per_point_is_that_of_its_row(make):
    values = [0.5, 1.5, 4.0]
    f = np.random.default_rng(0).random((3, 5))
    for method in ("weight", "log_weight", "slope"):
        rows = [getattr(make(value), method)(row) for value, row in zip(values, f, strict=True)]
        np.testing.assert_allclose(getattr(make(values), method)(f), rows, rtol=1e-15)
    assert compiled_kernel(make(values)) is None
    assert parameter_of_each(make(values)) in make().get_params()
    assert parameter_of_each(make(0.5)) is None


@jit(fastmath=FAST, error_model="numpy")
def _all_of(kernel, parameters, f, out):
    for i in range(len(f)):
        out[0, i] = kernel.weight(f[i], *parameters)
        out[1, i] = kernel.log_weight(f[i], *parameters)
        out[2, i] = kernel.neg_log_slope(f[i], *parameters)


# In float64 the exact field is compared with the definition for each kernel: see test_fields.py.
@pytest.mark.parametrize(
    ("kernel", "dtype"),
    often(
        product(ALL, (np.float32, np.float64)), lambda kernel, dtype: dtype == np.float32 or kernel == HeavyTailed(0.5)
    ),
    ids=repr,
)
def test_compiled_is_plain(kernel, dtype):
    f = np.concatenate([F, np.random.default_rng(1).random(100) * 60]).astype(dtype)
    out = np.empty((3, len(f)), dtype)
    found = compiled_kernel(kernel)
    bind(_all_of, found.functions)(tuple(map(dtype, found.parameters)), f, out)
    exact = f.astype(np.float64)
    w = kernel.weight(exact)
    single = dtype == np.float32
    np.testing.assert_allclose(out[0], w, rtol=1e-5 if single else 1e-13, atol=2e-38 if single else 4e-308)
    np.testing.assert_allclose(out[1], kernel.log_weight(exact), rtol=1e-6 if single else 1e-13, atol=3e-7 * single)
    seen = w > 1e-300
    np.testing.assert_allclose(out[2][seen], -kernel.slope(exact)[seen] / w[seen], rtol=1e-6 if single else 1e-13)


@jit(fastmath=FAST, error_model="numpy")
def _exp_and_logs(x, out):
    for i in range(len(x)):
        out[0, i] = _kernels.exp(-x[i])
        out[1, i] = _kernels.ln(x[i])
        out[2, i] = _kernels.ln1p(x[i])


@given(st.lists(st.floats(2.0**-60, 80.0, width=32), min_size=1, max_size=40))
def test_float32_exponential_and_logarithms(values):
    x = np.array(values, np.float32)
    out = np.empty((3, len(x)), np.float32)
    _exp_and_logs(x, out)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(out[0], np.exp(-exact), rtol=1e-5)
    np.testing.assert_allclose(out[1], np.log(exact), rtol=3e-7, atol=2e-7)
    np.testing.assert_allclose(out[2], np.log1p(exact), rtol=3e-7, atol=2e-7)


def test_squared_distances_do_not_cancel():
    X = np.array([[1e6, 1.0], [1e6, 1.0 + 1e-6]])
    assert squared_distances(X, X)[0, 1] == pytest.approx(1e-12, rel=1e-3)


def test_ones_own_kernel_needs_two_methods():
    class Cauchy(Kernel):
        def weight(self, f):
            return 1 / (1 + 2 * f)

        def slope(self, f):
            return -2 * (1 + 2 * f) ** -2

    np.testing.assert_allclose(Cauchy().log_weight(F), -np.log1p(2 * F), atol=1e-15)
    assert compiled_kernel(Cauchy()) is None
    assert isinstance(Cauchy(), KernelContract)
    assert isinstance(as_kernel("test", Cauchy()), Cauchy)


def test_names_stand_for_defaults():
    assert as_kernel("X", "student-t") == StudentT()
    assert as_kernel("X", "heavy-tailed") == HeavyTailed()
    assert as_kernel("X", "exponential") == Exponential()


@kernels
def test_parts_are_values(kernel):
    assert clone(kernel) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    for name, value in kernel.get_params().items():
        assert kernel.with_params(**{name: value + 1}).get_params()[name] == value + 1
