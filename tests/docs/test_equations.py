"""Where the equations stand: once each, at the lines that a page of the documentation names."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import loaded

ROOT = Path(__file__).resolve().parents[2]
METHODS = ROOT / "src" / "nearfar" / "methods"
WORDS = ROOT / "src" / "nearfar" / "words"


make_equations = loaded(ROOT / "docs" / "make_equations.py")
hops = loaded(ROOT / "lab" / "hops.py")


def test_each_equation_of_edrep_is_named_in_one_place():
    text = (METHODS / "edrep.py").read_text("utf-8")
    for name in [*(f"eq. ({number})" for number in range(1, 7)), "the step", "Algorithm 1"]:
        assert text.count(f"{name}:") + text.count(f"{name},") == 1, name
    assert re.findall(r"eqs?\. \(", text) == ["eq. ("] * 6


def test_each_equation_of_words_is_named_in_one_place():
    names = ["SGNS eq. (4)", "Word2DM eq. (4)", "Word2DM eq. (8)"]
    text = "".join(path.read_text("utf-8") for path in METHODS.glob("*.py"))
    assert re.findall(r"# (\w+ eq\. \(\d+\)): ", text) == names
    assert [one.name for one in make_equations.equations(METHODS / "words.py")] == names


def written():
    """Return the cells of the rows of the page."""
    text = (ROOT / "docs" / "equations.md").read_text("utf-8")
    return [re.split(r"(?<!\\) \| ", row) for row in re.findall(r"^\| (.*) \|$", text, re.M)]


def test_the_page_says_where_they_stand_now():
    rows = written()
    for path in METHODS.glob("[a-z]*.py"):
        fits = make_equations.COLUMNS[path.stem]
        for one in make_equations.equations(path):
            assert one.name in path.read_text("utf-8").splitlines()[one.line - 1]
            named = [
                one.name.replace("|", r"\|"),
                f"`{one.says}`".replace("|", r"\|"),
                str(one.line),
                f"`{one.formula}`",
            ]
            found = [row for row in rows if row[:4] == named]
            assert len(found) == 1, "run: python docs/make_equations.py"
            (row,) = found
            form = make_equations.compiled(one)
            there = f"`{form[0]}`, {form[2]}" if form else "–"
            assert len(row) == 4 + len(fits)
            assert set(row[4:]) <= {"–", str(one.line), there, f"{one.line}; {there}"}
    for one in make_equations.elsewhere():
        assert sum(row[2:4] == [f"`{one.module}`, {one.line}", f"`{one.formula}`"] for row in rows) >= 1, one


def test_what_nothing_is_seen_of_is_compiled():
    inside = {row[2].partition(",")[0] for row in written() if row[-1] == make_equations.INSIDE}
    assert inside == {"`divergences/stress.py`", "`maps/mds/kernels.py`"}


@pytest.mark.slow  # two dozen fits, line by line
def test_the_page_says_what_runs_in_which_fit():
    pytest.importorskip("torch")
    # In a new process: what is remembered from other fits does not run again.
    page = "page({name: lines_of(fit) for name, fit in FITS.items()})"
    command = [sys.executable, "-c", f"from make_equations import *; print({page}, end='')"]
    made = subprocess.run(command, cwd=ROOT / "docs", capture_output=True, encoding="utf-8", check=True).stdout
    assert (ROOT / "docs" / "equations.md").read_text("utf-8") == made, "run: python docs/make_equations.py"


def test_a_line_that_does_not_run_is_told_apart():
    ran = make_equations.lines_of(lambda: make_equations.nf.log_normalizers([[0.0, 1.0]], method="exact", n_jobs=1))
    places = {one.name: make_equations.place(one, ran) for one in make_equations.equations(METHODS / "edrep.py")}
    assert places["eq. (1)"].isdigit()
    assert places["eq. (2)"] == places["eq. (6)"] == "–"


NUMBERED = {"EDRep": 6, "Word2DM": 8, "NCE notes": 8, "ANT": 36}
"""How many numbered equations each source has."""


@pytest.mark.parametrize("source", NUMBERED)
def test_each_numbered_equation_of_a_source_has_a_row(source):
    names = [row[0] for row in written()]
    if source == "EDRep":
        names = [f"EDRep {name}" if name.startswith("eq. ") else name for name in names]
    found = set()
    for name in names:
        if name.startswith(source):
            for first, last in re.findall(r"\((\d+)\)(?: to \((\d+)\))?", name):
                found |= set(range(int(first), int(last or first) + 1))
    assert found == set(range(1, NUMBERED[source] + 1))


def test_each_symbol_of_neighbours_is_named_in_one_place():
    assert [one.name for one in make_equations.equations(METHODS / "affinities.py")] == ["D", "H", "p_ij", "p_j|i"]


@pytest.mark.parametrize("name", ["affinities", "edrep", "words"])
def test_the_text_of_a_method_knows_no_place(name):
    imported = hops.imports_of(METHODS / f"{name}.py", hops.modules_of(ROOT / "src"))
    assert all(module.startswith(("nearfar.contracts", "nearfar._core")) for module in imported)


def test_word_models_have_one_fit():
    for module in ("skipgram", "word2dm", "multisense"):
        tree = ast.parse((WORDS / f"{module}.py").read_text("utf-8"))
        named = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert named
        assert not {"fit", "partial_fit"} & named
