"""Warnings in the name of the line that called the library."""

from __future__ import annotations

import sys
import warnings

from nearfar.errors import NearfarWarning

_SAID: set[str] = set()


def warn_user(text: str) -> None:
    """Warn of something; the warning names the line of the user's code that led here, however deep this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("nearfar."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, NearfarWarning, stacklevel=level)


def warn_once(text: str) -> None:
    """Warn of something that stays as it is as long as the process lives."""
    if text not in _SAID:
        _SAID.add(text)
        warn_user(text)
