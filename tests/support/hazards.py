"""Cases that may end the process: run in another one, and again from the next case after one that did.

A module of ``MODULES`` yields its ``cases``; a test calls ``outcomes`` with its name. All cases are run by one process,
when the first are asked for: most of its time goes into imports.
"""

import functools
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

MODULES = ("altered_checkpoints", "flipped_bits", "sparse_entries")


def _run():
    """Run (name, function) from the one whose number the command line gives; say what each raised."""
    cases = [(f"{module} {name}", use) for module in MODULES for name, use in importlib.import_module(module).cases()]
    os.fsync = lambda descriptor: None  # no power is cut here
    for name, use in cases[int(sys.argv[1]) :]:
        _say(f"{name} -> ")
        try:
            use()
        except Exception as error:  # whatever it is, the test looks at it
            _say(f"{type(error).__name__} {' '.join(str(error).split())}\n")
        else:
            _say("nothing\n")


def _say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def outcomes(module):
    """Return what each case of a module raised, by its name: type and message, or how it ended the process."""
    return {name.partition(" ")[2]: came for name, came in _outcomes().items() if name.startswith(f"{module} ")}


@functools.cache
def _outcomes():
    found = {}
    while True:
        command = [sys.executable, __file__, str(len(found))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        lines = [line.partition(" -> ")[::2] for line in done.stdout.splitlines()]
        found |= dict(lines)
        if done.returncode == 0:
            return found
        assert lines, done.stderr
        found[lines[-1][0]] = f"ended the process: {done.returncode}"


def leave_group(folder):
    """End a process of a group of torch, once all have come so far, without taking the group apart.

    To take it apart waits for a thread that may itself wait for the interpreter: the process would never end. A barrier
    of the group may be left by one process while the other still needs it, and aborts; so each leaves a file.
    """
    import torch

    Path(folder, f"{torch.distributed.get_rank()}.left").touch()
    ends = time.monotonic() + 60
    while len(list(Path(folder).glob("*.left"))) < torch.distributed.get_world_size() and time.monotonic() < ends:
        time.sleep(0.01)
    os._exit(0)


if __name__ == "__main__":
    _run()
