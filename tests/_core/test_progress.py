"""The progress line: on a terminal only, and only where asked for; the logger has no handler of ours."""

import io
import itertools
import logging
import sys
import time

import click
import numpy as np
import pytest
from quick import with_slow

import nearfar as nf
from nearfar._core.progress import ProgressLine, logger
from nearfar.cli import _cli, main


def every_command(group: click.Group, name: str = "nearfar") -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for key, command in group.commands.items():
        inner = isinstance(command, click.Group)
        found |= every_command(command, f"{name} {key}") if inner else {f"{name} {key}": command}
    return found


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


@pytest.fixture
def seconds(monkeypatch):
    """A clock of which each look takes so many seconds, and no notebook, which another test may have started."""
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)

    def make(step):
        clock = itertools.count(0.0, step)
        monkeypatch.setattr("nearfar._core.progress.monotonic", lambda: next(clock))

    return make


def test_what_is_quick_writes_nothing_to_a_log(capsys, seconds):
    seconds(4)
    draw(3)
    assert capsys.readouterr() == ("", "")


def test_a_log_gets_a_line_every_ten_seconds(capsys, seconds):
    seconds(4)
    with ProgressLine("fitting", 1000, 1, unit="epoch") as line:
        for _ in range(7):
            line.update(loss=0.5)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "fitting: 4/1,000, 0.2 epoch/s, loss 0.5, 3,984 s left",
        "fitting: 7/1,000, 0.2 epoch/s, loss 0.5, 3,972 s left",
    ]
    with ProgressLine("reading", None, 1, unit="byte") as line:
        for _ in range(4):
            line.update(5_000_000)
    assert capsys.readouterr().err == "reading: 20,000,000/?, 1.25 M byte/s\n"
    with ProgressLine("reading", 9, 0) as line:
        for _ in range(9):
            line.update()
    assert capsys.readouterr().err == ""


def test_a_notebook_gets_one_line_that_is_taken_away(capsys, seconds, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    seconds(1)
    draw(3, loss=2.0)
    first, second = "fitting: 2/3, 1.0 epoch/s, loss 2, 1 s left", "fitting: 3/3, 1.0 epoch/s, loss 2, 0 s left"
    assert capsys.readouterr().err == f"\r{first}\r{second}\r{' ' * len(first)}\r"


def test_a_process_without_standard_error(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    draw(3)


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


@pytest.mark.parametrize("silent", [0.0, 60.0])
@pytest.mark.parametrize("quiet", [False, True])
def test_a_silent_command_says_on_a_terminal_that_it_is_at_work(terminal, capsys, monkeypatch, tmp_path, silent, quiet):
    path = tmp_path / "x.npz"
    nf.Embedding(np.eye(3), ["ann", "bob", "cem"]).save(path)
    slow = nf.Embedding.load

    def load(*arguments):
        time.sleep(0.02 if silent else 0.3)
        return slow(*arguments)

    monkeypatch.setattr(nf.Embedding, "load", load)
    monkeypatch.setattr("nearfar.cli.shared._SILENT", silent)
    stream = terminal()
    before = sys.stdout, sys.stderr
    arguments = (
        ["compress", str(path), "-o", str(tmp_path / "y.safetensors"), "--n-anchors", "2", "--nnz-per-row", "1", "-q"]
        if quiet
        else ["info", str(path)]
    )
    assert main(arguments) == 0
    assert (sys.stdout, sys.stderr) == before
    assert ("at work" in stream.getvalue()) == (silent == 0 and not quiet)
    assert ("x.npz" in capsys.readouterr().out) != quiet  # the answer is whole, and no control characters are in it


def test_a_command_in_a_log_says_nothing_of_that(capsys, monkeypatch):
    monkeypatch.setattr("nearfar.cli.shared._SILENT", 0.0)
    assert main(["--version"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", sorted(every_command(_cli).keys() - {"nearfar warmup"}))  # which answers nothing
def test_every_command_answers_in_json(command):
    assert "--json" in {option for parameter in every_command(_cli)[command].params for option in parameter.opts}


@pytest.mark.parametrize("kind", with_slow(["lists"], slow=["usearch", "faiss"]))
def test_building_an_index_tells_how_far_it_is(kind, rng, terminal):
    pytest.importorskip("faiss" if kind == "lists" else kind)
    emb = nf.Embedding(rng.standard_normal((300, 4)))
    stream = terminal()
    quiet = emb.index(kind, n_jobs=1)
    assert stream.getvalue() == ""
    index = emb.index(kind, n_jobs=1, verbose=1)
    assert "indexing" in stream.getvalue()
    assert "300/300" in stream.getvalue()
    assert all((a == b).all() for a, b in zip(index.search([3, 7]), quiet.search([3, 7]), strict=True))
    stream = terminal()
    index.add(nf.Embedding(rng.standard_normal((20, 4)), range(300, 320)), n_jobs=1, verbose=1)
    assert "320/320" in stream.getvalue()
