"""What is said once, where somebody waits for the compiler."""

import io
import sys

import numpy as np
import pytest

from nearfar._core import slow
from nearfar._core.jit import jit
from nearfar.cli import main


class Terminal(io.StringIO):
    """A stream that somebody reads."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    """A process that has compiled nothing."""
    monkeypatch.setattr(slow, "_left", slow._SLOW)


def shown_on(stream, monkeypatch):
    """Let what is said go there; pytest has streams of its own around each test."""
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_it_is_said_at_the_first_slow_moment_and_once(monkeypatch):
    terminal = shown_on(Terminal(), monkeypatch)
    slow.compiled(0.6 * slow._SLOW)
    assert terminal.getvalue() == ""
    for _ in range(3):
        slow.compiled(0.6 * slow._SLOW)
    assert terminal.getvalue().count("nearfar warmup does it ahead.\n") == 1


def test_it_is_said_of_what_is_compiled_and_not_of_what_it_calls_again(monkeypatch, tmp_path):
    terminal = shown_on(Terminal(), monkeypatch)
    monkeypatch.setattr("nearfar._core.jit.cache_folder", lambda: tmp_path)
    monkeypatch.setattr(slow, "_left", 1e-9)
    spent = []
    monkeypatch.setattr(
        "nearfar._core.numba_private.compiled", lambda seconds: (spent.append(seconds), slow.compiled(seconds))
    )
    inner = jit(lambda x: x + 1)
    outer = jit(lambda x: inner(x) * 2)
    assert outer(np.float32(3)) == 8
    assert len(spent) == 1
    assert terminal.getvalue().count("\n") == 1
    outer(np.float32(5))
    assert len(spent) == 1


def test_a_log_and_a_quiet_command_are_told_nothing(monkeypatch):
    terminal = shown_on(Terminal(), monkeypatch)
    assert main(["info", "nowhere.npz", "--json", "-q"]) == 2  # of no such option: it has none
    slow.compiled(2 * slow._SLOW)
    assert "warmup" not in terminal.getvalue()
    monkeypatch.setattr(slow, "_left", slow._SLOW)
    log = shown_on(io.StringIO(), monkeypatch)
    slow.compiled(2 * slow._SLOW)
    assert log.getvalue() == ""


def test_a_session_is_told(monkeypatch):
    log = shown_on(io.StringIO(), monkeypatch)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    slow.compiled(2 * slow._SLOW)
    assert "kept" in log.getvalue()


def test_the_command_compiles(monkeypatch, capsys):
    monkeypatch.setattr("nearfar.cli.warmup.warmup", lambda: 1.25)
    assert main(["warmup"]) == 0
    assert capsys.readouterr().err == "compiled in 1.2 s\n"
    assert main(["warmup", "-q"]) == 0
    assert capsys.readouterr().err == ""
