"""Experiments of the sources: the registry, ranges, data that are missing or others, pages, the command."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import nearfar as nf
from nearfar.cli import main
from nearfar.errors import InputError
from nearfar.reproduce import DataFile, Experiment, Findings, Line, Outcome, Panel, Setting
from nearfar.reproduce.experiment import bounds, carry_out, line, shown

FAST = ("ant-table-14", "sneer-gradients")  # what needs no data, and no time


def given(*lines, files=()):
    panel = Panel("curve", "x", "y", {"a": ([1, 2], [3, 4])}, log="y")
    return Experiment(
        "toy", "a paper", "table 1", "claim", "setting", "nowhere", lambda _: Findings(lines, [panel]), files
    )


def test_there_is_an_entry_for_each_source():
    every = nf.reproduce.experiments()
    assert {name.partition("-")[0] for name in every} == {"edrep", "word2dm", "nce", "sneer", "ant"}
    assert all(name == found.name for name, found in every.items())
    for found in every.values():
        assert found.claim.endswith(".")
        assert found.differs.endswith((".", ". "))
        assert all(len(file.md5) == 32 for file in found.files)


@pytest.mark.parametrize("name", FAST)
def test_experiments_hold(name):
    if nf.reproduce.experiments()[name].needs:
        pytest.importorskip(nf.reproduce.experiments()[name].needs)
    found = nf.reproduce.run(name, quick=True)
    assert [one.what for one in found.findings.lines if not one.holds] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:AnchorEmbedding.export. .* were in no batch")  # films without a rating
@pytest.mark.parametrize("name", sorted(set(nf.reproduce.experiments()) - set(FAST)))
def test_quick_experiments_hold(name, shared_data):
    found = nf.reproduce.run(name, quick=True, data=shared_data)
    assert [one.what for one in found.findings.lines if not one.holds] == []


@pytest.mark.slow
def test_one_thread_gives_the_same_figures_again(shared_data):
    runs = [nf.reproduce.run("word2dm-ambiguity", quick=True, data=shared_data, n_jobs=1) for _ in range(2)]
    assert runs[0].rows() == runs[1].rows()


def test_a_line_has_the_mean_its_interval_and_its_range():
    one = line("what", [1.0, 2.0, 3.0], (1.5, 2.5), "2")
    assert one.mean == 2
    assert one.half_width == pytest.approx(4.302653 / math.sqrt(3))  # Student's t with 2 degrees of freedom
    assert one.holds
    assert not line("what", 3.0, (0, 2.5)).holds
    assert not line("what", math.nan, (-math.inf, math.inf)).holds  # a figure that is no number is never in its range
    assert line("what", 3.0, (0, 5)).half_width is None
    assert shown(one) == "2 ± 2.5 (n = 3)"
    assert [bounds(replace(one, within=w)) for w in ((0, 1), (-math.inf, 2), (3, math.inf))] == [
        "0 to 1",
        "at most 2",
        "at least 3",
    ]


def test_missing_and_other_data_are_named(tmp_path):
    file = DataFile("set/file.txt", "d41d8cd98f00b204e9800998ecf8427e", "the set of somebody")  # the sum of nothing
    toy = given(line("a", 1, (0, 2)), files=(file,))
    with pytest.raises(
        InputError, match=r"file.txt is not there. It is the set of somebody. Name the folder by --data"
    ):
        carry_out(toy, Setting(data=tmp_path))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.txt").write_text("other")
    with pytest.raises(InputError, match=r"is another file than the one that the ranges are for: its MD5 sum is"):
        carry_out(toy, Setting(data=tmp_path))
    (tmp_path / "set" / "file.txt").write_text("")
    assert carry_out(toy, Setting(data=tmp_path)).holds


def test_the_page_has_both_values_and_the_picture(tmp_path):
    toy = given(line("error", [0.1, 0.2], (0, 1), ".15"), line("other", 2, (0, 1)))
    found = carry_out(toy, Setting())
    assert not found.holds
    page = found.markdown("toy.svg")
    assert "| error | .15 | 0.15 ± 0.64 (n = 2) | 0 to 1 | yes |" in page
    assert "| other | – | 2 | 0 to 1 | NO |" in page
    assert "![table 1](toy.svg)" in page
    found.draw(tmp_path / "toy.svg")
    first = (tmp_path / "toy.svg").read_bytes()
    found.draw(tmp_path / "toy.svg")
    assert first == (tmp_path / "toy.svg").read_bytes()
    assert b"<svg" in first


def test_a_map_is_drawn_as_points(tmp_path, rng):
    panel = Panel("map", points=rng.normal(size=(20, 2)), labels=np.arange(20) % 3)
    Outcome(given(), Findings([], [panel] * 5), 0.0, True).draw(tmp_path / "maps.png")
    assert (tmp_path / "maps.png").read_bytes()[:4] == b"\x89PNG"


def test_the_command_lists_runs_and_fails_where_a_value_left_its_range(capsys, fails, shown, monkeypatch, tmp_path):
    assert "nce-optima\t" in shown("reproduce", "--list")
    assert {"name", "item", "source", "files"} == set(json.loads(shown("reproduce", "--json"))[0])
    assert "there is no experiment 'no-such'; nearfar reproduce --list names them." in fails("reproduce", "no-such")
    good, bad = given(line("a", 1, (0, 2))), replace(given(line("b", 5, (0, 2), "1")), name="bad")
    monkeypatch.setattr("nearfar.reproduce.experiments", lambda: {"toy": good, "bad": bad})
    assert main(["reproduce", "toy", "-o", str(tmp_path / "pages")]) == 0
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == ["toy.md", "toy.svg"]
    capsys.readouterr()
    assert main(["reproduce", "toy", "bad"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == ["a\t-\t1\t0 to 2\tyes", "b\t1\t5\t0 to 2\tNO"]
    assert "bad: NOT all in their ranges" in said.err
    assert main(["reproduce", "bad", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)[0]
    assert rows["holds"] is False
    assert rows["lines"] == [
        {"what": "b", "published": "1", "ours": 5.0, "half_width": None, "n": 1, "within": [0, 2], "holds": False}
    ]


def test_the_command_says_where_data_belong(fails, tmp_path):
    said = fails("reproduce", "sneer-gallery", "--data", tmp_path)
    assert f"{tmp_path / 's1k' / 's1k.csv.gz'} is not there" in said
    assert "Name the folder by --data" in said


def test_lines_are_frozen():
    with pytest.raises(AttributeError):
        Line("a", (1.0,), (0, 1)).what = "b"


def test_figures_that_were_not_measured_leave_the_ranges_of_quick_runs(monkeypatch):
    from types import SimpleNamespace

    from nearfar.reproduce import words

    monkeypatch.setattr(words, "_text", lambda _setting: None)
    fitted = SimpleNamespace(fit=lambda _text: SimpleNamespace(vectors_=None))
    models = dict.fromkeys(words._models(Setting(quick=True)), lambda _seed: fitted)
    monkeypatch.setattr(words, "_models", lambda _setting: models)
    for rho in (-0.4, 0.4):
        monkeypatch.setattr(nf.evaluate, "word_similarity", lambda *_, rho=rho: SimpleNamespace(rho=rho))
        monkeypatch.setattr(nf.evaluate, "phrases", lambda *_, rho=rho, **__: SimpleNamespace(rho=rho))
        for run in (words._similarity, words._phrases):
            lines = run(Setting(quick=True)).lines
            assert len(lines) > 6
            assert not any(one.holds for one in lines)


@pytest.mark.parametrize("quick", [True, False])
def test_an_area_that_was_not_measured_leaves_the_ranges_of_the_gallery(monkeypatch, quick):
    from types import SimpleNamespace

    from nearfar.reproduce import maps

    sets = ["iris", "s1k"] if quick else ["iris", "s1k", "digits", "swiss roll"]
    stub = SimpleNamespace(fit_transform=lambda X: X)
    monkeypatch.setattr(maps, "_data", lambda _setting: dict.fromkeys(sets, (np.zeros((3, 2)), np.zeros(3))))
    methods = dict.fromkeys(maps._methods(), lambda **_: stub)
    monkeypatch.setattr(maps, "_methods", lambda: methods)
    for auc in (0.05, 0.85):
        monkeypatch.setattr(nf.evaluate, "neighborhoods", lambda *_, auc=auc, **__: SimpleNamespace(auc=auc))
        lines = maps._gallery(Setting(quick=quick)).lines
        assert len(lines) == 14 * len(sets)
        assert not any(one.holds for one in lines)


def test_the_whole_gallery_is_drawn(monkeypatch, tmp_path):
    """Groups have colours, and so have the numbers along the roll."""
    from types import SimpleNamespace

    from nearfar.reproduce import maps

    monkeypatch.setattr(maps, "_s1k", lambda _setting: (np.zeros((3, 2)), np.array([0, 1, 1])))
    methods = dict.fromkeys(list(maps._methods())[:1], lambda **_: SimpleNamespace(fit_transform=lambda X: X[:, :2]))
    monkeypatch.setattr(maps, "_methods", lambda: methods)
    monkeypatch.setattr(nf.evaluate, "neighborhoods", lambda *_, **__: SimpleNamespace(auc=0.5))
    found = maps._gallery(Setting(quick=False))
    assert [panel.title.partition(", ")[2] for panel in found.panels] == ["iris", "s1k", "digits", "swiss roll"]
    assert [panel.values is None for panel in found.panels] == [True, True, True, False]
    Outcome(given(), found, 0.0, False).draw(tmp_path / "maps.png")
    assert (tmp_path / "maps.png").stat().st_size > 5_000
