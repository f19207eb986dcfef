"""Where the equations stand: once each, at the lines that a page of the documentation names."""

import ast
import re
from pathlib import Path

import pytest
from scripts import loaded

ROOT = Path(__file__).resolve().parents[2]
METHODS = ROOT / "src" / "nearfar" / "methods"
ESTIMATORS = ROOT / "src" / "nearfar" / "estimators"
WORDS = ROOT / "src" / "nearfar" / "words"
LONGEST, MOST_BRANCHES = 60, 10


make_equations = loaded(ROOT / "docs" / "make_equations.py")
hops = loaded(ROOT / "lab" / "hops.py")


def test_each_equation_of_edrep_is_named_in_one_place():
    text = "".join((METHODS / name).read_text("utf-8") for name in ("normalizers.py", "edrep.py"))
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


def functions_of(path: Path):
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)]


def code_length(node: ast.FunctionDef) -> int:
    """Lines of a function, its docstring not counted."""
    first = node.body[0]
    documented = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
    return node.end_lineno - node.lineno + 1 - documented


def complexity(node: ast.AST) -> int:
    """Ways through a function, as McCabe counts them; functions within it by themselves."""
    count = 1
    for inner in ast.walk(node):
        if isinstance(inner, (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension)):
            count += 1
        elif isinstance(inner, ast.BoolOp):
            count += len(inner.values) - 1
    return count


def test_these_tests_can_count():
    code = 'def f(x):\n    """Say."""\n    if x and x > 1:\n        return [y for y in x]\n    return x\n'
    (node,) = ast.parse(code).body
    assert (code_length(node), complexity(node)) == (4, 4)


@pytest.mark.parametrize("path", [*METHODS.glob("*.py"), *ESTIMATORS.glob("*.py")], ids=lambda path: path.stem)
def test_methods_and_estimators_read_top_to_bottom(path):
    text = path.read_text("utf-8")
    assert not re.search(r"noqa:.*(C901|PLR09)", text)
    for node in functions_of(path):
        assert code_length(node) <= LONGEST, f"{node.name}: {code_length(node)} lines"
        assert complexity(node) <= MOST_BRANCHES, f"{node.name}: {complexity(node)} ways"


@pytest.mark.parametrize("name", ["edrep", "words"])
def test_the_text_of_a_method_is_short_and_knows_no_place(name):
    assert hops.code_lines(METHODS / f"{name}.py") <= 150
    imported = hops.imports_of(METHODS / f"{name}.py", hops.modules_of(ROOT / "src"))
    assert all(module.startswith(("nearfar.contracts", "nearfar._core")) for module in imported)


@pytest.mark.parametrize("path", [ESTIMATORS / "edrep.py", WORDS / "model.py"], ids=lambda path: path.stem)
def test_a_fit_reads_top_to_bottom(path):
    (fit,) = (node for node in functions_of(path) if node.name == "fit")
    assert code_length(fit) <= 30
    assert not [node.name for node in functions_of(path) if code_length(node) > LONGEST]


def test_word_models_have_one_fit():
    for module in ("skipgram", "word2dm", "multisense"):
        assert not {"fit", "partial_fit"} & {node.name for node in functions_of(WORDS / f"{module}.py")}
