"""What the pages say of the sources: quoted as it stands, tested by intervals, made from the result files."""

import json
import math
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from lab.papers import FAMILIES, experiments
from lab.papers.claims import FAILS, HOLDS, UNDECIDED, Bounds, Claim, Results, Sample, plain, stands_in
from lab.papers.pages import page, said

ROOT = Path(__file__).parents[2]
SOURCES = Path(os.environ.get("NEARFAR_SOURCES", ROOT.parent / "shared" / "sources"))
with_sources = pytest.mark.skipif(not SOURCES.is_dir(), reason="the texts of the sources are not here")
FEW = 30  # lines of all pages that are not tested for another reason than data that are not here


@pytest.fixture(scope="module")
def results():
    return Results()


def text_of(family):
    return (SOURCES / said(family).SOURCE).read_text("utf-8")


@pytest.mark.parametrize(("test", "sample", "verdict"), [
    ("above 1", Sample(2, 0.5, 3), HOLDS),
    ("above 1", Sample(1.2, 0.5, 3), UNDECIDED),
    ("above 1", Sample(0.8, 0.5, 3), UNDECIDED),
    ("above 1", Sample(0.2, 0.5, 3), FAILS),
    ("below 1", Sample(0.2, 0.5, 3), HOLDS),
    ("below 1", Sample(2, 0.5, 3), FAILS),
    ("above 1", Sample(1, 0, 1), FAILS),
    ("at least 1", Sample(1, 0, 1), HOLDS),
    ("at most 1", Sample(1.1, 0, 1), FAILS),
    ("0 to 1", Sample(0.5, 0.6, 3), UNDECIDED),
    ("0 to 1", Sample(3, 0.6, 3), FAILS),
    ("-1e-09 to 1e-09", Sample(1e-6, 0, 1), FAILS),
    ("above 0", Sample(math.nan, 0, 1), FAILS),
    ("above 0", Sample(math.nan, math.nan, 3), UNDECIDED),
])  # fmt: skip
def test_a_sentence_holds_if_the_whole_interval_passes(test, sample, verdict):
    bounds = Bounds.read(test)
    assert bounds.verdict(sample) == verdict
    assert str(bounds) == test


def test_a_test_that_cannot_be_read_is_an_error():
    for test in ("over 1", "at 1", "above", "more than 1"):
        with pytest.raises((KeyError, ValueError)):
            Bounds.read(test)


def test_a_sample_is_the_mean_and_half_of_its_interval():
    found = Sample.of([1.0, 2.0, 3.0])
    assert (found.mean, found.n) == (2, 3)
    assert found.half == pytest.approx(4.302653 / math.sqrt(3))
    assert Sample.of([5.0]) == Sample(5, 0, 1)
    assert found.less(Sample(1, found.half, 4)) == Sample(1, pytest.approx(found.half * math.sqrt(2)), 3)
    with pytest.raises(LookupError, match="no value"):
        Sample.of([])


def test_a_claim_has_a_measure_and_a_test_or_says_why_not():
    for more in (
        {},
        {"measure": lambda _: [1]},
        {"test": Bounds.read("above 0")},
        {"why": "w", "measure": lambda _: [1]},
    ):
        with pytest.raises(ValueError, match="a measure and a test, or says why not"):
            Claim("section 1", "words", "what", **more)


def test_a_reason_beside_a_measure_leaves_it_undecided(results):
    claim = Claim("section 1", "words", "what", lambda _: [2.0], Bounds.read("above 1"), why="the batches differ")
    assert claim.cells(results)[4:] == ("2", "above 1", f"{UNDECIDED}: the batches differ")


def test_what_was_not_measured_is_an_error(tmp_path):
    empty = Results(tmp_path)
    assert empty.records("figure1") == []
    with pytest.raises(LookupError, match="edrep-genes has no line 'a'"):
        empty.line("edrep-genes", "a")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_page_is_what_the_result_files_say(family, results):
    written = (ROOT / "lab" / "tables" / "papers" / f"{family}.md").read_text("utf-8")
    assert written == page(family, results), "run: python -m lab page papers"


@pytest.mark.parametrize("family", FAMILIES)
def test_each_line_ends_in_a_verdict_or_a_reason(family, results):
    for claim in said(family).CLAIMS:
        sample, verdict = claim.sample(results), claim.cells(results)[-1]
        if sample is None:
            assert re.fullmatch(r"not (tested|run): .{10,}", verdict)
        else:
            ends = (sample.mean - sample.half, sample.mean + sample.half)
            assert (verdict == HOLDS) == (all(map(claim.test.passes, ends)) and not claim.why)
            assert verdict.startswith(UNDECIDED) or not claim.why


def test_few_lines_are_not_tested():
    every = [claim for family in FAMILIES for claim in said(family).CLAIMS]
    assert len(every) > 430
    assert sum(claim.why.startswith("not tested") for claim in every) <= FEW


def test_every_experiment_was_run_whole_and_has_a_page(results):
    assert set(results.papers) == {name for name, one in experiments().items() if one.here}
    content = json.loads((ROOT / "lab" / "results" / "papers.json").read_text("utf-8"))
    assert all(0 <= r["run"] < len(content["runs"]) for r in content["records"])
    folder = ROOT / "lab" / "tables" / "papers"
    drawn = {r["image"] for r in results.papers.values() if r["image"]}
    assert {path.name for path in folder.iterdir()} == drawn | {f"{family}.md" for family in FAMILIES}


@with_sources
@pytest.mark.parametrize("family", FAMILIES)
def test_the_words_stand_in_the_source(family):
    text = plain(text_of(family))
    assert [claim.says for claim in said(family).CLAIMS if not stands_in(claim.says, text)] == []


@with_sources
@pytest.mark.parametrize("family", FAMILIES)
def test_printed_figures_stand_in_the_source(family):
    text = re.sub(r"(?<=\d),(?=\d)", "", text_of(family))
    if family == "edrep":  # whose sets have a point before thousands
        text = re.sub(r"(?<=\d\d)\.(?=\d{3}\b)", "", text)
    numbers = Counter(re.findall(r"\d+(?:\.\d+)?", text))
    for claim in said(family).CLAIMS:
        for number in re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d)", "", claim.printed)):
            short = number.rstrip("0").rstrip(".") if "." in number else number
            assert numbers[number] or numbers[short] or numbers[f"{short}.0"], claim


@pytest.mark.slow
@with_sources
def test_the_tables_are_those_of_the_source_and_whole():
    lines = [line for line in text_of("anchors").splitlines() if line.count("\t") >= 5 and "Method" not in line]
    rows = [(table, row) for table in said("anchors").TABLES for row in table.rows]
    found = set()
    for table, row in rows:
        marked, cells = row[-1] == "bold", row[:-1] if table.columns[-1] == "bold" else row
        cells = cells if table.columns[0] == "anchors" else cells[1:]
        same = [k for k, line in enumerate(lines) if all(_has(line, cell) for cell in cells)]
        assert same, (table.title, row)
        if table.columns[-1] == "bold":
            assert all(lines[k].rstrip().endswith("</b>") == marked for k in same)
        found |= set(same)
    assert [line for k, line in enumerate(lines) if k not in found and "<i>" not in line] == []


def _has(line, cell):
    cells = {plain(part) for part in line.split("\t")}
    return plain(cell) in cells or plain(cell.replace("*", "")) in cells


def test_quotations_are_compared_without_marks():
    text = plain("With $\\kappa = 1$ we reach\nup to **40$\\times$** re-\nduction<sup>3</sup>, see [1](#page).")
    assert stands_in("κ = 1 we reach ... 40× reduction", text)
    assert not stands_in("40× ... κ = 1", text)
    assert not stands_in("30×", text)
    formula = plain("= -\\log 4 for a lower-\nrank x-y")
    assert stands_in("= −log 4 for a lowerrank x-y", formula)
    assert not stands_in("= log 4", formula)
    assert not stands_in("rank xy", formula)
