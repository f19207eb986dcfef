"""Five people who meet the library for the first time get what is right; each command compiles what it needs anew."""

import subprocess
import sys
from importlib.util import find_spec

import newcomers
import pytest


@pytest.mark.slow
@pytest.mark.parametrize("name", newcomers.PEOPLE)
def test_what_they_get_is_right(name):
    if any(find_spec(package) is None for package in newcomers.PEOPLE[name].needs):
        pytest.skip("a package is missing")
    command = [sys.executable, newcomers.__file__, name, "--seconds", "30"]  # other tests run beside it
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(newcomers.PEOPLE[name].commands)} commands" in done.stdout
