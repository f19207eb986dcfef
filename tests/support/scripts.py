"""Scripts that are no part of a package."""

import importlib.util
import sys


def loaded(path):
    """Return a script as a module of the name of its file; it may import those beside it, as when it is run."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module
