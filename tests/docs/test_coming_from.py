"""The pages "Coming from": the other package answers what its page shows, from the data that nearfar gets there."""

import ast
import doctest
import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "coming-from").glob("*-*.md"))
PAGES += [PAGES[0].with_name(f"{name}.md") for name in ("gensim", "node2vec", "opentsne")]
PACKAGES = {"torch-embedding": "torch", "opentsne": "openTSNE", "umap-learn": "umap", "scikit-learn": "sklearn"}
NUMBER = re.compile(r"\d+\.\d*")
CLOSE = 0.03  # of a share, for other versions


def answered(code, names):
    """Run lines, and return what the last one is."""
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "page", "exec"), names)
    return repr(eval(compile(ast.Expression(last.value), "page", "eval"), names))


def parts_of(page):
    """Return the data and nearfar's lines as doctests, the other package's lines, and what these show."""
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ours = [body for kind, body in blocks if kind == "python" and body.startswith(">>>")]
    theirs = [body for kind, body in blocks if kind == "python" and not body.startswith(">>>")]
    shown = [body for kind, body in blocks if kind == "text"]
    assert len(theirs) == len(shown) == 1
    return ours, theirs[0], shown[0].strip()


def test_every_page_is_here():
    assert {page.stem for page in PAGES} == {page.stem for page in PAGES[0].parent.glob("*.md")} - {"index"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of others
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_other_package_answers_what_the_page_shows(page, tmp_path, monkeypatch):
    pytest.importorskip(PACKAGES.get(page.stem, page.stem.replace("-", "_")))
    monkeypatch.chdir(tmp_path)
    ours, theirs, shown = parts_of(page.read_text("utf-8"))
    names = {}
    for example in doctest.DocTestParser().get_examples(ours[0]) if len(ours) > 1 else ():
        exec(example.source, names)  # the data
    found = answered(theirs, names)
    assert NUMBER.sub("#", found) == NUMBER.sub("#", shown)
    for one, other in zip(NUMBER.findall(found), NUMBER.findall(shown), strict=True):
        assert float(one) == pytest.approx(float(other), abs=CLOSE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_nearfar_answers_the_same_in_kind(page):
    """The answers differ in their digits alone: doctests check those of nearfar."""
    ours, _, shown = parts_of(page.read_text("utf-8"))
    wanted = [example.want.strip() for block in ours for example in doctest.DocTestParser().get_examples(block)]
    assert NUMBER.sub("#", shown) in [NUMBER.sub("#", want) for want in wanted]
