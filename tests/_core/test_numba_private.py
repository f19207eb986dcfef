"""What stands in for the private parts of numba, where these are missing or not known."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nearfar._core import numba_private

LOST = {
    "a newer version": "import numba; numba.__version__ = '0.999.0'",
    "a version without number": "import numba; numba.__version__ = 'unknown'",
    "no class": "from numba import njit; from numba.core import codegen; del codegen.JITCodeLibrary",
    "no method": "from numba.core.compiler import CompileResult; del CompileResult._rebuild",
}
FIT = """
import sys
import numpy as np
import nearfar as nf
rng = np.random.default_rng(0)
edges = rng.integers(0, 4001, (9000, 2))  # too many for SciPy
fit = nf.EDRep(5, n_epochs=3, random_state=0, n_jobs=1).fit(nf.Relation.from_edges(edges).random_walk(2))
found = [fit.embedding_]
"""
SEARCH_AND_WORDS = """
from nearfar.relations.neighbors import VectorIndex
X = rng.normal(size=(3000, 7)).astype("f4")
found.extend(VectorIndex("X", X, cosine=False, recall=1.0, rng=rng, n_jobs=1).neighbors(5))
texts = [[f"w{i}" for i in rng.integers(0, 300, 20)] for _ in range(300)]
for model in (nf.SkipGram, nf.Word2DM, nf.MultiSenseWord2DM):
    fit = model(10, n_epochs=1, random_state=0, n_jobs=1, min_count=1).fit(texts)
    found.append(getattr(fit.embedding_, "vectors", fit.embedding_))
"""


def run(code, *arguments, **environment):
    there = {**os.environ, "PYTHONWARNINGS": "default", **environment}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=there, capture_output=True, text=True, check=True
    )


def arrays(path, code, **environment):
    run(code + "\nnp.savez(sys.argv[1], *found)", str(path), **environment)
    with np.load(path) as found:
        return list(found.values())


def test_the_newest_version_is_the_upper_bound():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    major, minor = map(int, re.search(r'"numba>=[\d.]+,<(\d+)\.(\d+)"', project).groups())
    assert (major, minor - 1) == numba_private.NEWEST


def test_no_other_file_uses_private_parts():
    private = re.compile(r"numba\.(core|np|misc|typed|cpython)\b|targetoptions|no_\w+_wrapper|get_call_template")
    source = Path(numba_private.__file__).parents[1]
    assert [path.name for path in source.rglob("*.py") if private.search(path.read_text("utf-8"))] == [
        "numba_private.py"
    ]


@pytest.mark.parametrize(
    "lost",
    [lost if lost in ("a newer version", "no method") else pytest.param(lost, marks=pytest.mark.slow) for lost in LOST],
)
def test_what_is_lost_is_seen_at_once_and_said_once(lost):
    code = LOST[lost] + "\nfrom nearfar._core import jit, vector\nprint(jit._numba.__name__, vector.LANES)"
    done = run(code)
    assert done.stdout == "nearfar._core.numba_plain 1\n"
    assert done.stderr.count("NearfarWarning: nearfar: numba ") == 1
    assert "compiled again in each process. pip install" in done.stderr


@pytest.mark.slow  # compiled for this alone, and without a cache
@pytest.mark.parametrize("more", ["", SEARCH_AND_WORDS])
def test_a_fit_without_them_is_the_same_to_rounding(tmp_path, more):
    code = tmp_path / "code"
    here = arrays(tmp_path / "here.npz", FIT + more)
    there = arrays(tmp_path / "there.npz", LOST["no method"] + FIT + more, NEARFAR_CACHE_DIR=str(code))
    assert not code.exists()
    assert len(here) == len(there) == (6 if more else 1)
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=2e-6)
