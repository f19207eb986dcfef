"""What tests of several folders compare with, and the disk that takes no more."""

import resource
from contextlib import contextmanager

import numpy as np


def assert_same_arrays(ours, expected):
    """Compare arrays one by one, types included; None stands for one that is not there."""
    for a, b in zip(ours, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def central_differences(function, A, step=6e-6):
    """Slopes of a function in every entry of A, which is moved in place and put back."""
    slopes = np.empty_like(A)
    for index in np.ndindex(A.shape):
        at, values = A[index], []
        for sign in (1, -1):
            A[index] = at + sign * step
            values.append(function(A))
        A[index] = at
        slopes[index] = (values[0] - values[1]) / (2 * step)
    return slopes


def assert_is_gradient(G, function, A, tolerance=1e-6, step=6e-6):
    """Compare with central differences along three directions, drawn at random: in each of them every entry moves."""
    for direction in np.random.default_rng(0).normal(size=(3, *A.shape)):
        rise = (function(A + step * direction) - function(A - step * direction)) / (2 * step)
        assert abs((G * direction).sum() - rise) <= tolerance * np.abs(G * direction).max()


@contextmanager
def full_disk(size):
    """Let no file grow beyond a size: the system's own limit stands for a full disk."""
    before, highest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, highest))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, highest))
