"""Machine code that was kept is found by the next process."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from nearfar._core.jit import source_digest
from nearfar.tables.compress import code_rows
print(source_digest(code_rows).hex())
"""


def test_the_name_of_machine_code_is_the_same_in_all_processes():
    # Options such as fastmath are sets, whose order is not that of another process.
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
