"""The way of one number through a fit: its lines run, in the order of the page, and stand where the page says."""

from pathlib import Path

import pytest
from quick import often
from scripts import loaded

pytest.importorskip("torch")  # in which skip-gram runs by its formula

make_follow = loaded(Path(__file__).resolve().parents[2] / "docs" / "make_follow.py")


WAYS = {way.title: way for way in make_follow.WAYS}


@pytest.mark.parametrize("title", often(WAYS, ["EDRep", "SkipGram"]))
def test_a_number_goes_as_the_page_says(title):
    assert list(make_follow.wrong(WAYS[title])) == []


def test_the_page_has_the_lines_of_now():
    assert (make_follow.HERE / "follow.md").read_text("utf-8") == make_follow.page(), "run: python docs/make_follow.py"


def test_a_step_in_another_order_or_that_stands_nowhere_is_told():
    way = make_follow.WAYS[0]
    turned = way._replace(fits={"77 nodes": way.fits["77 nodes"]}, steps=way.steps[::-1])
    assert any("after the step before" in told for told in make_follow.wrong(turned))
    with pytest.raises(LookupError, match=r"methods/edrep.py must hold 'g \+= of_all' on one line"):
        make_follow.At("methods/edrep.py", "g += of_all").line()
