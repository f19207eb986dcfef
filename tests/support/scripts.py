"""Scripts that are no part of a package."""

import importlib.util
import sys


def loaded(path):
    """Return a script as a module of the name of its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
