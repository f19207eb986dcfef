"""Experiments of the papers: the registry, ranges, data that are missing or others, pages, the command."""

import json
import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import nearfar as nf
from lab.__main__ import main
from lab.papers import elsewhere, experiments, maps, words
from lab.papers.experiment import DataFile, Experiment, Findings, Outcome, Panel, Setting, line
from lab.results import ResultFile

FAST = ("ant-table-14", "sneer-gradients")  # what needs no data, and no time


def given(*lines, files=()):
    panel = Panel("curve", "x", "y", {"a": ([1, 2], [3, 4])}, log="y")

    def run(_):
        """setting. Differs: nowhere"""
        return Findings(lines, [panel])

    return Experiment("toy", "a paper", "table 1", run, files)


def test_there_is_an_entry_for_each_source():
    every = experiments()
    assert {name.partition("-")[0] for name in every} == {"edrep", "word2dm", "nce", "sneer", "ant"}
    for found in every.values():
        assert found.differs.endswith((".", ". "))
        assert all(len(file.md5) == 32 or file.head for file in found.files)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:AnchorEmbedding.export. .* were in no batch")  # films without a rating
@pytest.mark.parametrize("name", sorted({name for name, one in experiments().items() if one.here} - set(FAST)))
def test_quick_experiments_hold(name, shared_data):
    pytest.importorskip("torch")
    found = experiments()[name].carry_out(Setting(quick=True, data=shared_data))
    assert [one.what for one in found.findings.lines if not one.as_before] == []


# The gradients are those that tests/maps compares.
@pytest.mark.parametrize("name", [FAST[0], pytest.param(FAST[1], marks=pytest.mark.slow)])
def test_the_command_runs_an_experiment_keeps_its_figures_and_prints_its_page(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setattr("lab.results.ResultFile", partial(ResultFile, folder=tmp_path))
    with pytest.raises(SystemExit) as left:
        main(["run", name, "--quick"])
    assert left.value.code == 0
    page = capsys.readouterr().out
    assert f"Run it: `python -m lab run {name} --quick`" in page
    [record] = json.loads((tmp_path / "papers.json").read_text())["records"]
    assert (record["name"], record["quick"]) == (name, True)
    assert len(record["lines"]) == page.count("| yes |") > 10


def test_a_line_has_the_mean_its_interval_and_its_range():
    one = line("what", [1.0, 2.0, 3.0], (1.5, 2.5))
    assert one.mean == 2
    assert one.half_width == pytest.approx(4.302653 / math.sqrt(3))  # Student's t with 2 degrees of freedom
    assert one.as_before
    assert not line("what", 3.0, (0, 2.5)).as_before
    assert not line("what", math.nan, (-math.inf, math.inf)).as_before  # what is no number is never in its range
    assert line("what", 3.0, (0, 5)).half_width is None
    assert one.cells() == ("what", "2 ± 2.5 (n = 3)", "1.5 to 2.5", "yes")
    assert line("what", 3, (-math.inf, 2)).cells() == ("what", "3", "at most 2", "NO")
    assert line("what", 3, (3, math.inf)).cells()[2:] == ("at least 3", "yes")


def test_missing_and_other_data_are_named(tmp_path):
    file = DataFile("set/file.txt", "d41d8cd98f00b204e9800998ecf8427e", "the set of somebody")  # the sum of nothing
    toy = given(line("a", 1, (0, 2)), files=(file,))
    with pytest.raises(
        SystemExit, match=r"file.txt is not there. It is the set of somebody. Name the folder by --data"
    ):
        toy.carry_out(Setting(data=tmp_path))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.txt").write_text("other")
    with pytest.raises(SystemExit, match=r"is another file than the one that the ranges are for"):
        toy.carry_out(Setting(data=tmp_path))
    (tmp_path / "set" / "file.txt").write_text("")
    assert toy.carry_out(Setting(data=tmp_path)).as_before


def test_a_file_that_was_never_here_is_known_by_its_head(tmp_path):
    file = DataFile("file.csv", "", "the set of somebody", "userId,movieId")
    with pytest.raises(SystemExit, match=r"file.csv is not there. It is the set of somebody"):
        file.check(tmp_path)
    (tmp_path / "file.csv").write_text("user,film,mark\n")
    with pytest.raises(
        SystemExit, match=r"begins with 'user,film,mark', not with 'userId,movieId'. It should be the set"
    ):
        file.check(tmp_path)
    (tmp_path / "file.csv").write_text("userId,movieId,rating\n")
    file.check(tmp_path)


def test_vectors_that_are_not_here_are_read_and_judged(tmp_path, monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    rows = "".join(f"wort {number} {' '.join(map(str, row))}\n" for number, row in enumerate(vectors.tolist()))
    (tmp_path / "nlpl" / "30").mkdir(parents=True)
    (tmp_path / "nlpl" / "30" / "model.txt").write_text(f"60 4\n{rows}")
    monkeypatch.setattr(elsewhere, "SETS", {30: (60, 4)})
    setting = Setting(quick=True, data=tmp_path)
    np.testing.assert_array_equal(elsewhere.read_vectors(setting, "nlpl/30/model.txt"), vectors)
    lines = experiments()["edrep-figure-1-nlpl"].run(setting).lines
    assert len(lines) == 10
    exact = line_of(lines, "NLPL 30, unit rows: mixture of 1, median relative error of Z")
    assert 0 < exact.mean < 0.1
    assert elsewhere._of_nlpl(30).head == "60 4"


@pytest.mark.slow
def test_ratings_that_are_not_here_are_read_and_judged(tmp_path):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    (tmp_path / "ml-25m").mkdir()
    rows = [f"{1 + user},{10 * film},{rng.integers(1, 11) / 2},0" for user in range(100) for film in range(1, 41)]
    (tmp_path / "ml-25m" / "ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *rows]))
    films = [f'{10 * film},"Film, the {film}th",Comedy|Drama' for film in range(1, 43)]
    (tmp_path / "ml-25m" / "movies.csv").write_text("\n".join(["movieId,title,genres", *films]))
    one, setting = experiments()["ant-movielens-25m"], Setting(quick=True, data=tmp_path)
    for file in one.files:
        file.check(tmp_path)
    found = elsewhere.read_films(setting)
    assert (found.n_users, found.n_items, len(found.ratings.marks)) == (100, 40, 4000)
    assert found.genres[0] == ["Comedy", "Drama"]
    assert found.ratings.marks[0] == float(rows[0].split(",")[2])
    lines = one.run(setting).lines
    assert [one.what for one in lines[:2]] == ["plain: MSE in the test", "plain: parameters"]
    assert line_of(lines, "plain: parameters").mean == 16 * 140
    assert all(np.isfinite(one.mean) for one in lines)


@pytest.mark.slow
def test_text_that_is_not_here_is_read_and_judged(tmp_path):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    (tmp_path / "wikitext-103").mkdir()
    for part, n in (("train", 2000), ("test", 1000)):
        words = [f"w{number}" for number in [*range(3000), *rng.zipf(1.3, n).clip(1, 3000)]] + ["<unk>"]
        (tmp_path / "wikitext-103" / f"wiki.{part}.tokens").write_text(" \n " + " ".join(words))
    lines = experiments()["ant-wikitext-103"].run(Setting(quick=True, data=tmp_path)).lines
    assert [one.what for one in lines[::2]] == [
        "plain table: perplexity in the test",
        "ANT, 16 times fewer: perplexity in the test",
    ]
    assert all(1 < one.mean < 1e5 for one in lines)


def line_of(lines, what):
    (found,) = (one for one in lines if one.what == what)
    return found


def test_a_run_tells_its_figures_and_draws_its_picture(tmp_path):
    toy = given(line("error", [0.1, 0.2], (0, 1)), line("other", 2, (0, 1)))
    found = toy.carry_out(Setting())
    assert not found.as_before
    page = found.markdown()
    assert "| error | 0.15 ± 0.64 (n = 2) | 0 to 1 | yes |" in page
    assert "| other | 2 | 0 to 1 | NO |" in page
    assert toy.image_name(found.findings.panels) == "toy.svg"
    found.draw(tmp_path / "toy.svg")
    first = (tmp_path / "toy.svg").read_bytes()
    found.draw(tmp_path / "toy.svg")
    assert first == (tmp_path / "toy.svg").read_bytes()
    assert b"<svg" in first


def test_figures_that_were_not_measured_leave_the_ranges_of_quick_runs(monkeypatch):
    monkeypatch.setattr(words, "_text", lambda _setting: None)
    fitted = SimpleNamespace(fit=lambda _text: SimpleNamespace(vectors_=None))
    models = dict.fromkeys(words._models(Setting(quick=True)), lambda _seed: fitted)
    monkeypatch.setattr(words, "_models", lambda _setting: models)
    for rho in (-0.4, 0.4):
        monkeypatch.setattr(nf.evaluate, "word_similarity", lambda *_, rho=rho: SimpleNamespace(rho=rho))
        monkeypatch.setattr(nf.evaluate, "phrases", lambda *_, rho=rho, **__: SimpleNamespace(rho=rho))
        for name in ("word2dm-similarity", "word2dm-phrases"):
            lines = experiments()[name].run(Setting(quick=True)).lines
            assert len(lines) > 6
            assert not any(one.as_before for one in lines)


@pytest.mark.parametrize("quick", [True, False])
def test_an_area_that_was_not_measured_leaves_the_ranges_of_the_gallery(monkeypatch, quick):
    sets = ["iris", "s1k"] if quick else ["iris", "s1k", "digits", "swiss roll"]
    stub = SimpleNamespace(fit_transform=lambda X: X)
    monkeypatch.setattr(maps, "_data", lambda _setting: dict.fromkeys(sets, (np.zeros((3, 2)), np.zeros(3))))
    methods = dict.fromkeys(maps._methods(), lambda **_: stub)
    monkeypatch.setattr(maps, "_methods", lambda: methods)
    for auc in (0.05, 0.85):
        monkeypatch.setattr(nf.evaluate, "neighborhoods", lambda *_, auc=auc, **__: SimpleNamespace(auc=auc))
        lines = experiments()["sneer-gallery"].run(Setting(quick=quick)).lines
        assert len(lines) == 14 * len(sets)
        assert not any(one.as_before for one in lines)


@pytest.mark.slow
def test_the_whole_gallery_is_drawn(monkeypatch, tmp_path):
    """Groups have colours, and so have the numbers along the roll."""
    monkeypatch.setattr(maps, "_s1k", lambda _setting: (np.zeros((3, 2)), np.array([0, 1, 1])))
    methods = dict.fromkeys(list(maps._methods())[:1], lambda **_: SimpleNamespace(fit_transform=lambda X: X[:, :2]))
    monkeypatch.setattr(maps, "_methods", lambda: methods)
    monkeypatch.setattr(nf.evaluate, "neighborhoods", lambda *_, **__: SimpleNamespace(auc=0.5))
    found = experiments()["sneer-gallery"].run(Setting(quick=False))
    assert [panel.title.partition(", ")[2] for panel in found.panels] == ["iris", "s1k", "digits", "swiss roll"]
    assert [panel.values is None for panel in found.panels] == [True, True, True, False]
    Outcome(replace(given(), name="maps"), found, 0.0, False).draw(tmp_path / "maps.png")
    assert (tmp_path / "maps.png").stat().st_size > 5_000
