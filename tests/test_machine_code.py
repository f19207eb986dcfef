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
    assert len(found) == 1 and len(found.pop().strip()) == 40
