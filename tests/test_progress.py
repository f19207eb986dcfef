"""The progress line: on a terminal only, and only where asked for; the logger has no handler of ours."""

from __future__ import annotations

import io
import itertools
import logging

import pytest

from nearfar._core.progress import ProgressLine, logger


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Make standard error a terminal, within the test itself: pytest puts its own in place before each phase."""

    def make() -> Terminal:
        stream = Terminal()
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "160")
        return stream

    return make


def draw(total, verbose=1, loss=None):
    with ProgressLine("fitting", total, verbose, unit="epoch") as line:
        for _ in range(3):
            line.update(loss=loss)


def test_silent_when_not_a_terminal(capsys):
    draw(3)
    assert capsys.readouterr() == ("", "")


def test_silent_without_verbose(terminal):
    stream = terminal()
    draw(3, verbose=0)
    assert stream.getvalue() == ""


def test_drawn_on_a_terminal_with_label_and_loss(terminal):
    stream = terminal()
    draw(3, loss=-1.2345678)
    shown = stream.getvalue()
    assert "fitting" in shown
    assert "3/3" in shown
    assert "loss -1.23457" in shown


def test_unknown_total_is_a_question_mark(terminal):
    stream = terminal()
    draw(None)
    assert "3/?" in stream.getvalue()


def test_rate_is_shown_in_the_unit(terminal, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("rich.console.monotonic", lambda: float(next(clock)))
    stream = terminal()
    draw(3)
    assert "epoch/s" in stream.getvalue()


def fail_half_way(line):
    with line:
        line.update()
        raise RuntimeError("half way")


def test_the_line_is_taken_away_after_an_error(terminal):
    terminal()
    line = ProgressLine("fitting", 3)
    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way(line)
    assert not line._progress.live.is_started


def test_logger_is_the_standard_one_without_handlers():
    assert logger is logging.getLogger("nearfar")
    assert logger.handlers == []
    assert logger.level == logging.NOTSET
