"""Machine code is found again by another process."""

import os
import subprocess
import sys

PROGRAM = """
from nearfar._core.jit import source_digest
from nearfar.evaluate.neighborhoods import euclidean_rows
print(source_digest(euclidean_rows).hex())
"""


def test_the_name_of_machine_code_does_not_depend_on_how_python_orders_a_set():
    found = set()
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        found.add(subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True).stdout)
    assert len(found) == 1
    assert len(found.pop().strip()) == 40


FIT = """
import numpy as np, nearfar as nf
from nearfar.divergences.stress import Stress

class Absolute(Stress):
    degree = 1

    @staticmethod
    def cost_and_slope(r, f):
        d = np.sqrt(f)
        return abs(r - d), {slope} * np.sign(d - r) / max(d, 1e-12)

nf.MDS(stress=Absolute(), max_iter=1, n_jobs=1).fit(np.arange(12.0).reshape(6, 2) ** 2)
"""


def test_code_for_a_part_of_ones_own_is_kept_by_what_it_does(tmp_path):
    kept = []
    for slope in (1, 1, 2):
        program = FIT.format(slope=slope)
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"NEARFAR_CACHE_DIR": str(tmp_path)}, check=True
        )
        kept.append(sorted(path.name for path in tmp_path.iterdir() if "stress_rows" in path.name))
    assert len(kept[0]) == 1
    assert kept[0] == kept[1]
    assert len(kept[2]) == 2
