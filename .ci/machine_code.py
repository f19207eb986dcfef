"""Compile the usual fits for every processor of the level that wheels are made for, on Linux and x86-64 alone.

``NEARFAR_CACHE_DIR=FOLDER python .ci/machine_code.py``
"""

import os
import platform

from nearfar._core.code_files import LEVEL

if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = LEVEL  # read where numba is imported first
    import nearfar

    nearfar.warmup()
