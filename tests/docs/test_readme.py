"""The front page: why, in the first screen, and a first example for who has installed nothing else."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
EXTRAS = ("matplotlib", "networkx", "pandas", "polars", "pyarrow", "torch", "usearch", "faiss", "gensim", "PIL")
HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hidden())
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in {names} else find_spec(name, *more)
"""


def test_the_first_screen_says_why_with_a_figure_each():
    first = TEXT.partition("## Try it")[0]
    reasons = dict(re.findall(r"^- \*\*In place of (.+?)\*\*: (.*?)(?=\n- |\n\n)", first, re.MULTILINE | re.DOTALL))
    assert set(reasons) == {"node2vec", "openTSNE or umap-learn", "gensim", "an ANT of your own"}
    assert all(re.search(r"\d", said) for said in reasons.values())
    assert len(first.splitlines()) <= 25


# What takes long, on less: the page as it is runs in `make test-all`.
LESS = {
    "load_digits(return_X_y=True)": "load_digits(n_class=2, return_X_y=True)",
    "\n(1797, 2)": "\n(360, 2)",
    "Corpus(pydoc_data.topics.topics.values(),": "Corpus([*pydoc_data.topics.topics.values()][::6],",
}


def test_all_examples_run(tmp_path, monkeypatch):
    for name in ("torch", "matplotlib"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    text = TEXT
    for whole, part in LESS.items():
        assert text.count(whole) == 1
        text = text.replace(whole, part)
    page = doctest.DocTestParser().get_doctest(text, {}, "README.md", None, 0)
    assert len(page.examples) > 20
    assert doctest.DocTestRunner().run(page).failed == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"digits.html", "digits.png", "people.safetensors"}


@pytest.mark.slow  # a process that compiles nothing anew, but fits a map of all digits
def test_the_first_example_runs_with_what_every_install_has(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[:2]
    lines = [one.source for block in blocks for one in doctest.DocTestParser().get_examples(block)]
    code = HIDDEN.format(names=EXTRAS) + "".join(lines)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "digits.html").stat().st_size > 100_000
