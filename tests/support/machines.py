"""The tests of numbers as on other machines: processors, kinds of BLAS, locale, time zone, random order.

``make test-machines`` runs all of MACHINES, one after the other; ``make test-machines MACHINE=nehalem`` runs one. numba
makes machine code for the processor named, in a folder of its own; this processor must have its instructions.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
# By name numba takes the features of this machine too, but for "generic": none are given.
MACHINES = {
    "native": {"OPENBLAS_CORETYPE": "Haswell", "TZ": "Pacific/Kiritimati", "NEARFAR_TEST_ORDER": "1"},
    "haswell": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "", "LC_ALL": "C", "PYTHONUTF8": "0"},
    "nehalem": {
        "NUMBA_CPU_NAME": "nehalem",
        "NUMBA_CPU_FEATURES": "",
        "OPENBLAS_CORETYPE": "Nehalem",
        "TZ": "America/St_Johns",
    },
    "generic": {"NUMBA_CPU_NAME": "generic", "LC_ALL": "C", "PYTHONUTF8": "0", "NEARFAR_TEST_ORDER": "2"},
}
FOLDERS = (
    "_core", "contrastive", "divergences", "embedding", "engines", "estimators", "evaluate", "far", "maps", "methods",
    "relations", "tables", "text", "words",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machines", nargs="*", default=list(MACHINES), help="which of MACHINES")
    parser.add_argument("-n", default="2", help="processes; 0: without xdist")
    given = parser.parse_args()
    folders = [f"tests/{name}" for name in FOLDERS]
    failed = []
    for name in given.machines:
        print(f"== {name}: {' '.join(f'{key}={value}' for key, value in MACHINES[name].items())}", flush=True)
        with tempfile.TemporaryDirectory() as kernels:
            environment = {**os.environ, **MACHINES[name], "NEARFAR_CACHE_DIR": kernels}
            command = [sys.executable, "-m", "pytest", "-q", "-n", given.n, "--dist", "loadfile", *folders]
            if subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode:
                failed.append(name)
    print(f"failed: {' '.join(failed)}" if failed else f"{len(given.machines)} machines passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
