"""What the documentation quotes of measurements is what the result files say, the same on every page."""

import re
from pathlib import Path

import pytest

from lab.quoted import QUOTED

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {
    str(path.relative_to(ROOT)): " ".join(path.read_text("utf-8").split())
    for path in PAGES
    if not {"_build", "generated"} & set(path.parts)
}


@pytest.mark.parametrize("pattern", QUOTED)
def test_a_figure_that_is_quoted_is_that_of_the_result_files(pattern):
    expected = QUOTED[pattern]()
    found = {(page, match.groups()) for page, text in TEXTS.items() for match in re.finditer(pattern, text)}
    assert found, "no page quotes this"
    assert [(page, said) for page, said in sorted(found) if said != expected] == []


def test_nothing_is_called_unmeasured():
    """Figures have stood below such words; what is not known is not mentioned."""
    for page, text in TEXTS.items():
        assert not re.search(r"not yet (been )?measured|not been measured|never measured|unmeasured", text), page
