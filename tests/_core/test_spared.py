"""What SciPy loads of numpy is loaded when somebody looks into it."""

import subprocess
import sys


def in_new_process(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_rooms_of_numpy_that_nobody_uses_are_not_loaded_and_work_where_somebody_does():
    code = """
import sys, nearfar as nf
waits = sum("SciPy" in type(one).__name__ for one in sys.meta_path)
nf.Relation
print(waits, sum("SciPy" in type(one).__name__ for one in sys.meta_path))
print("scipy" in sys.modules, "numpy.f2py.rules" in sys.modules, "numpy.testing._private.utils" in sys.modules)
import numpy as np
np.testing.assert_array_equal(1, 1)
from numpy.testing import assert_allclose
print(assert_allclose is np.testing.assert_allclose, bool(np.f2py.get_include()))
"""
    assert in_new_process(code) == ["0", "0", "True", "False", "False", "True", "True"]


def test_where_scipy_is_there_before_nothing_changes():
    code = """
import sys, scipy.sparse, numpy.testing as before, nearfar as nf
nf.Relation
print(type(before).__name__, sum("SciPy" in type(one).__name__ for one in sys.meta_path))
"""
    assert in_new_process(code) == ["module", "0"]
