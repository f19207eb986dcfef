"""Each tutorial is what its notebook says, and the notebook of ambiguous words still finds what its page tells."""

import re
from pathlib import Path

import pytest
from scripts import loaded

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parents[2] / "docs"


tutorial = loaded(DOCS / "make_tutorials.py")
every_tutorial = pytest.mark.parametrize("source", tutorial.SOURCES, ids=lambda path: path.stem)


def page_of(source):
    return (tutorial.PAGES / f"{source.stem.replace('_', '-')}.md").read_text("utf-8")


@every_tutorial
def test_the_page_has_all_cells_in_their_order(source):
    page, at = page_of(source), 0
    for cell in tutorial.cells(source.read_text("utf-8")):
        at = page.index(f"```python\n{cell.body}\n```" if cell.is_code else cell.body, at)
    assert page.endswith(tutorial.FOOT.format(source.stem))
    assert "Traceback" not in page


@every_tutorial
def test_pictures_are_small_and_none_is_left_over(source):
    title = source.stem.replace("_", "-")
    shown = re.findall(rf"!\[.*\]\(\.\./images/{title}/(\d+\.svg)\)", page_of(source))
    files = list((tutorial.IMAGES / title).iterdir())
    assert shown == sorted(path.name for path in files)
    assert len(shown) == sum(cell.body.endswith("\nfigure") for cell in tutorial.cells(source.read_text("utf-8")))
    for path in files:
        assert path.stat().st_size < 400_000
        assert path.read_text("utf-8").count("<use") > 10  # something is drawn


@pytest.mark.slow
@every_tutorial
def test_every_tutorial_runs(source):
    tutorial.carry_out(source)


def test_cells_are_run_as_in_a_notebook(tmp_path):
    source = '''"""Not on the page."""
# %% [markdown]
# # Title
#
# Text.

# %%
from matplotlib.figure import Figure
n = 2
print("n is", n)
n + 1

# %%
figure = Figure()
figure.subplots().set(title="nothing")
figure

# %%
for k in range(n):
    pass
'''
    found, names = tutorial.cells(source), {}
    assert [cell.is_code for cell in found] == [False, True, True, True]
    for cell in found[1:]:
        tutorial.run(cell, names)
    assert [cell.printed for cell in found] == ["", "n is 2\n3", "", ""]
    assert [type(figure) for figure in found[2].figures] == [Figure]
    (tmp_path / "images" / "a-page").mkdir(parents=True)
    (tmp_path / "images" / "a-page" / "9.svg").touch()
    tutorial.write("a_page", found, tmp_path, tmp_path / "images")
    page = (tmp_path / "a-page.md").read_text("utf-8")
    assert page.startswith("# Title\n\nText.\n\n```python\nfrom matplotlib")
    assert "```text\nn is 2\n3\n```" in page
    assert "![nothing](../images/a-page/1.svg)" in page
    assert [path.name for path in (tmp_path / "images" / "a-page").iterdir()] == ["1.svg"]


@pytest.mark.slow
def test_the_notebook_still_finds_what_the_page_tells():
    names = {}
    for cell in tutorial.cells((DOCS / "tutorials" / "ambiguous_words.py").read_text("utf-8")):
        if cell.is_code:
            tutorial.run(cell, names)
    truth = names["truth"]
    for found in names["entropies"].values():
        assert found[truth > 0].min() > found[truth == 0].max()
    assert {"try", "suite"} <= set(names["ranked"][:40])
    assert {"to", "of"} <= set(names["ranked"][-30:])
    assert len(names["pairs"]) == 5
