"""Files of machine code: where they are kept, which of them are run, and which are removed.

The folder is ``NEARFAR_CACHE_DIR`` if that is set, else numba's ``NUMBA_CACHE_DIR``, else ``__pycache__`` beside this
package, or, where that cannot be written, ``nearfar`` in the user's cache folder. Where nothing can be written or read,
the disk is full or a file is damaged, a warning says so once, and code lives as long as the process.

A wheel brings the machine code of the usual fits along, in :data:`SHIPPED`, for processors of :data:`LEVEL` and above;
it is read first, and never written. What it lacks, or was compiled by another version of numba, is compiled.

Whoever can write a file of machine code runs code in the process that reads it. So folder and files must belong to the
user or to root, and nobody else may write them; others are not used. This is checked where the system has owners and
modes, for a file on what was opened, not on its name.

Beyond :data:`LIMIT`, 512 MiB, the files that were not used for the longest time are removed. A file tells by its time
of change when it was last used, to a day. A time in the future, of a clock that went back, counts as now.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from nearfar._core.warn import warn_once

DIGEST = 20  # bytes
LIMIT = 512 << 20
"""Bytes in the folder, of all versions and processes; when it is looked at, it is cut to seven eighths of that."""
_LOOK = LIMIT // 16  # bytes that a process writes between two looks
_DAY = 86_400  # seconds
_OURS = re.compile(rf"[\w.<>]+-[0-9a-f]{{{2 * DIGEST}}}\.nbc")
_UNFINISHED = ".nearfar-code-"
_PACKAGE = Path(__file__).resolve().parents[1]
SHIPPED = _PACKAGE / "_machine_code"
_FEATURES = (
    "avx avx2 bmi bmi2 cmov cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3"
)
LEVEL = "x86-64-v3", ",".join(f"+{one}" for one in _FEATURES.split())
"""Name and features of a processor, as numba has them: those of x86-64 since 2013 to 2015."""


def _warn(text: str) -> None:
    """Warn of something that is the same for all functions."""
    warn_once(f"nearfar: {text}. Set NEARFAR_CACHE_DIR to a folder that only you can write.")


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled code, made if need be; None where none can be written, or none is safe."""
    from numba import config  # which is loaded where anything is compiled, and takes a quarter of a second

    given = os.environ.get("NEARFAR_CACHE_DIR") or config.CACHE_DIR  # type: ignore[attr-defined]
    folders = [Path(given)] if given else [_PACKAGE / "__pycache__" / "kernels"]
    if not given:
        with suppress(RuntimeError):  # nobody's home
            folders.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearfar")
    tried = []
    for folder in folders:
        try:
            known = folder.is_dir()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            danger = _danger(folder.stat())
            if not danger:
                tempfile.TemporaryFile(dir=folder).close()
        except (OSError, ValueError):  # ValueError: a name that none can have
            danger = "cannot be written"
        if danger:
            tried.append(f"{folder} {danger}")
            continue
        if tried and not known:
            _warn(f"compiled code is kept in {folder}, since {tried[0]}")
        return folder
    _warn(f"compiled code can be kept nowhere ({'; '.join(tried)}), so each process compiles again")
    return None


def _danger(facts: os.stat_result) -> str:
    """Return how others could change what a file or folder holds; nothing where they cannot, or nobody can tell."""
    if os.name != "posix":
        return ""
    if facts.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user, number {facts.st_uid}"
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others, mode {stat.S_IMODE(facts.st_mode):o}"
    return ""


def has_features(features: str) -> bool:
    """Whether a processor of these features runs code that was made for :data:`LEVEL`."""
    return {*LEVEL[1].split(",")} <= {*features.split(",")}


def read(path: Path) -> bytes | None:
    """Return what was written, None if it is not there, not whole or not safe.

    What is beside the package's own code is as safe as that.
    """
    try:
        with open(path, "rb", opener=_opened) as file:
            facts = os.fstat(file.fileno())
            danger = "" if path.parent == SHIPPED else _danger(facts)
            data = b"" if danger else file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or error
        _warn(f"compiled code could not be read from {path.parent} ({why}), so it is compiled again each time")
        return None
    if danger:
        _warn(f"a file of compiled code in {path.parent} {danger}, so it is not run but compiled again")
        return None
    if hashlib.blake2b(data[DIGEST:], digest_size=DIGEST).digest() != data[:DIGEST]:
        damaged(path)
        return None
    if path.parent != SHIPPED and abs(time.time() - facts.st_mtime) > _DAY:
        with suppress(OSError):
            os.utime(path)
    return data[DIGEST:]


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))  # who plants a link does not own what it leads to


def damaged(path: Path) -> None:
    """Tell the user that what was read is no machine code."""
    _warn(f"a file of compiled code in {path.parent} is damaged, so it is compiled again")


def write(path: Path, content: bytes) -> None:
    """Write a file, which appears whole or not at all."""
    try:
        handle, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.blake2b(content, digest_size=DIGEST).digest())
                file.write(content)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _count(path.parent, len(content))
    except OSError as error:
        why = error.strerror or error
        _warn(f"compiled code could not be kept in {path.parent} ({why}), so it is compiled again each time")


_left = 0


def _count(folder: Path, n_bytes: int) -> None:
    """Count the bytes that this process writes; at the first ones, and now and then, look at the folder."""
    global _left
    _left -= n_bytes
    if _left < 0:
        _left = _LOOK
        cut(folder, LIMIT)


def cut(folder: Path, limit: int) -> None:
    """Remove the files that were not used for the longest time, if all have more bytes than the limit.

    Others may read, write and remove at the same time: what was opened can be read to its end, and what is gone is
    compiled again.
    """
    found, now = [], time.time()
    for entry in os.scandir(folder):
        ours, unfinished = _OURS.fullmatch(entry.name), entry.name.startswith(_UNFINISHED)
        if ours or unfinished:
            with suppress(OSError):  # somebody else removed it
                facts = entry.stat(follow_symlinks=False)
                if facts.st_mtime > now:
                    os.utime(entry.path)
                if ours or now - facts.st_mtime > _DAY:  # or of a process that was killed
                    found.append((min(facts.st_mtime, now), facts.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return
    for _, size, path in sorted(found):
        with suppress(OSError):
            Path(path).unlink(missing_ok=True)
            total -= size
        if total <= limit * 7 // 8:
            return
