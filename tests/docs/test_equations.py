"""Where the equations stand: once each, at the lines that a page of the documentation names."""

import ast
import re
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
    names = ["SGNS eq. (4)", "Word2DM eq. (5)", "Word2DM eq. (8)"]
    text = "".join(path.read_text("utf-8") for path in METHODS.glob("*.py"))
    assert re.findall(r"# (\w+ eq\. \(\d+\)): ", text) == names
    assert [one.name for one in make_equations.equations(METHODS / "words.py")] == names


def test_the_page_says_where_they_stand_now():
    found = (ROOT / "docs" / "equations.md").read_text("utf-8")
    assert found == make_equations.page(), "run: python docs/make_equations.py"
    for path in METHODS.glob("[a-z]*.py"):
        for one in make_equations.equations(path):
            assert one.name in path.read_text("utf-8").splitlines()[one.line - 1]


def test_each_symbol_of_neighbours_is_named_in_one_place():
    assert [one.name for one in make_equations.equations(METHODS / "affinities.py")] == ["D", "H", "p_ij", "p_j|i"]


@pytest.mark.parametrize("name", ["affinities", "edrep", "words"])
def test_the_text_of_a_method_knows_no_place(name):
    imported = hops.imports_of(METHODS / f"{name}.py", hops.modules_of(ROOT / "src"))
    assert all(module.startswith(("nearfar.contracts", "nearfar._core", "nearfar.errors")) for module in imported)


def test_word_models_have_one_fit():
    for module in ("skipgram", "word2dm", "multisense"):
        tree = ast.parse((WORDS / f"{module}.py").read_text("utf-8"))
        named = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert named
        assert not {"fit", "partial_fit"} & named
