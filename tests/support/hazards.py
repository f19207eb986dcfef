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
        say(f"{name} -> ")
        try:
            use()
        except Exception as error:  # whatever it is, the test looks at it
            say(f"{type(error).__name__} {' '.join(str(error).split())}\n")
        else:
            say("nothing\n")


def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def outcomes(module):
    """Return what each case of a module raised, by its name: type and message, or how it ended the process."""
    return {name.partition(" ")[2]: came for name, came in _outcomes().items() if name.startswith(f"{module} ")}


@functools.cache
def _outcomes():
    return dict(line.partition(" -> ")[::2] for line in lines_of([sys.executable, __file__]))


def lines_of(command, n=0):
    """Return a line of each case, n at least, of a script that takes the number of the first one and may end early.

    It says "name -> " before a case and what came of it afterwards; where a case ends it, that is said.
    """
    found = []
    while True:
        done = subprocess.run([*command, str(len(found))], capture_output=True, text=True, timeout=3600, check=False)
        found += done.stdout.splitlines()
        if done.returncode:
            assert done.stdout, done.stderr
            found[-1] += f"ended the process: {done.returncode} {' '.join(done.stderr[-2000:].split())}".strip()
        elif len(found) >= n:
            return found


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
