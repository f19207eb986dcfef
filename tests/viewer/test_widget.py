"""The page as a widget, and images on its cards."""

import base64
import io
import json
import re
import zlib

import numpy as np
import pytest

import nearfar as nf
from nearfar.errors import InputError, MissingDependencyError


@pytest.fixture(scope="module")
def page() -> nf.viewer.MapPage:
    rng = np.random.default_rng(0)
    return nf.Embedding(rng.normal(size=(300, 2)), [f"row {k}" for k in range(300)]).map()


def test_the_widget_holds_the_page_and_knows_what_is_selected(page) -> None:
    pytest.importorskip("anywidget")
    widget = page.widget()
    assert widget._page == page.html().encode()
    assert widget.selected == []
    seen = []
    widget.observe(lambda change: seen.append(change["new"]), "selected")
    in_file = page.order()
    assert sorted(in_file) == list(range(300))
    places = [int(np.flatnonzero(in_file == row)[0]) for row in (17, 3)]
    widget._points = np.array(places, "<u4").tobytes()  # as the page says it
    assert widget.selected == ["row 3", "row 17"]
    widget._points = b""
    assert seen == [["row 3", "row 17"], []]
    widget._points = memoryview(np.array(places, "<u4").tobytes())  # what a kernel gets
    assert widget.selected == ["row 3", "row 17"]


def test_ids_that_are_set_select_on_the_page(page) -> None:
    pytest.importorskip("anywidget")
    widget, in_file = page.widget(), page.order()
    widget.selected = ["row 17", "row 3"]
    assert widget.selected == ["row 17", "row 3"]  # as they were given
    assert sorted(in_file[np.frombuffer(widget._points, "<u4")]) == [3, 17]
    with pytest.raises(InputError, match=r"selected must be ids of points, such as .*row 0.*; got 'row 300'"):
        widget.selected = ["row 3", "row 300"]
    assert widget.selected == ["row 17", "row 3"]
    widget.selected = []
    assert widget._points == b""


def test_the_order_of_the_file_is_that_of_the_page(page) -> None:
    [packed] = re.findall('id="block-ids">([A-Za-z0-9+/=]*)<', page.html())
    ids = zlib.decompress(base64.b64decode(packed)).decode().split("\0")
    assert ids == [page.ids[int(row)] for row in page.order()]


def test_a_large_page_is_shown_as_a_widget_where_there_are_widgets(page, monkeypatch) -> None:
    assert page._repr_mimebundle_() == {}  # small: the frame, which the file of the notebook keeps
    monkeypatch.setattr("nearfar.viewer.page._SMALL", 1000)
    assert ".widget() shows it with anywidget" in page._repr_html_()
    pytest.importorskip("anywidget")
    shown = page._repr_mimebundle_()
    data = shown[0] if isinstance(shown, tuple) else shown
    assert "application/vnd.jupyter.widget-view+json" in data


def test_without_anywidget_it_says_what_to_install(page, monkeypatch) -> None:
    from nearfar.viewer import widget

    widget.widget_class.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "anywidget", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'nearfar\[notebook\]'"):
        page.widget()


def images_in(page: nf.viewer.MapPage) -> list:
    from PIL import Image

    opened = []
    for address in page.images:
        kind, _, packed = address.partition(";base64,")
        assert not address or kind == "data:image/webp"
        opened.append(Image.open(io.BytesIO(base64.b64decode(packed))) if address else None)
    return opened


def test_images_are_small_copies_within_the_page(tmp_path) -> None:
    Image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    large = Image.fromarray(rng.integers(0, 256, (200, 400, 3), dtype=np.uint8))
    large.save(tmp_path / "large.png")
    given = {
        "file": tmp_path / "large.png",
        "name": str(tmp_path / "large.png"),
        "bytes": (tmp_path / "large.png").read_bytes(),
        "pixels": pixels,
        "numbers": np.arange(16.0).reshape(4, 4),
        "pillow": large,
        "none": None,
    }
    emb = nf.Embedding(rng.normal(size=(7, 2)), list(given)[::-1])
    page = emb.map(images=given)
    shown = dict(zip(emb.ids, images_in(page), strict=True))
    for name in ("file", "name", "bytes", "pillow"):
        assert shown[name].size == (96, 48)
    np.testing.assert_array_equal(np.asarray(shown["pixels"].convert("RGB")), pixels)
    assert np.ptp(np.asarray(shown["numbers"])) == 255
    assert shown["none"] is None
    text = page.html()
    [packed] = re.findall('id="block-images">([A-Za-z0-9+/=]*)<', text)
    stored = zlib.decompress(base64.b64decode(packed)).decode().split("\0")
    assert stored == [page.images[row] for row in page.order()]
    [header] = re.findall('id="block-header">([A-Za-z0-9+/=]*)<', text)
    assert json.loads(zlib.decompress(base64.b64decode(header)))["images"] is True
    array = nf.Embedding(rng.normal(size=(5, 2))).map(images=rng.random((5, 8, 8)))
    assert [image.size for image in images_in(array)] == [(8, 8)] * 5
