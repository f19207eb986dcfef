"""Cases that may end the process: run in another one, and again from the next case after one that did.

A module yields its ``cases``; a test calls ``outcomes`` with its name. They are run by a forked process, which has what
the tests have imported and compiled.
"""

import importlib
import multiprocessing
import os
import subprocess
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path


def _run(module, first, file):
    """Run (name, function) from one on; write what each raised."""
    warnings.simplefilter("ignore")
    for name, use in [*importlib.import_module(module).cases()][first:]:
        say(f"{name} -> ", file)
        try:
            use()
        except Exception as error:  # whatever it is, the test looks at it
            say(f"{type(error).__name__} {' '.join(str(error).split())}\n", file)
        else:
            say("nothing\n", file)


def say(text, file=None):
    print(text, end="", file=file, flush=True)


def outcomes(module):
    """Return what each case of a module raised, by its name: type and message, or how it ended the process."""
    return dict(line.partition(" -> ")[::2] for line in lines_of(partial(_forked, module)))


def _forked(module, first):
    """Return what a forked process wrote from a case on, and the code it ended with."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons tell of threads
        child = multiprocessing.get_context("fork").Process(target=_run, args=(module, first, file), daemon=True)
        child.start()
        child.join(3600)
        file.seek(0)
        return file.read(), child.exitcode


def of_command(command):
    """Return a function that runs a script with the number of its first case: what it said, and how it ended if so."""

    def run(first):
        done = subprocess.run([*command, str(first)], capture_output=True, text=True, timeout=3600, check=False)
        return done.stdout, done.returncode and f"{done.returncode} {' '.join(done.stderr[-2000:].split())}".strip()

    return run


def lines_of(run, n=0):
    """Return a line of each case, n at least, of what takes the number of the first one and may end early.

    It says "name -> " before a case and what came of it afterwards; where a case ends it, that is said.
    """
    found = []
    while True:
        said, ended = run(len(found))
        found += said.splitlines()
        if ended != 0:
            assert said, ended
            found[-1] += f"ended the process: {ended}"
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
