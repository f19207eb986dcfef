"""What is said once, where somebody who looks on waits for the compiler: on a terminal, in a session or a notebook."""

from __future__ import annotations

import sys

_SLOW = 1.0  # seconds of compiling in a process after which it is said
_SAID = "nearfar: compiling for this machine. That is kept, so the next time is faster; nearfar warmup does it ahead.\n"
_left = _SLOW


def compiled(seconds: float) -> None:
    """Count what was spent on a function; say at the first slow moment what it is spent on."""
    global _left
    before, _left = _left, _left - seconds
    if before > 0 >= _left and sys.stderr is not None and (sys.stderr.isatty() or hasattr(sys, "ps1")):
        sys.stderr.write(_SAID)


def hush() -> None:
    """Say nothing of it in this process."""
    global _left
    _left = 0.0
