"""The gallery shows every map, and its lines of code do what they say."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from quick import often
from scripts import loaded

pytest.importorskip("matplotlib")

from PIL import Image
from sklearn.datasets import load_digits

import nearfar as nf
from nearfar.errors import NearfarWarning

DOCS = Path(__file__).resolve().parents[2] / "docs"


gallery = loaded(DOCS / "make_gallery.py")
PAGE = gallery.PAGE.read_text("utf-8")
rows = pytest.mark.parametrize("row", gallery.ROWS, ids=lambda row: row.name)


def test_every_map_has_a_row():
    names = [name for name in nf.__all__ if name != "nn"]  # which needs torch
    maps = {n for n in names if isinstance(c := getattr(nf, n), type) and issubclass(c, nf.NeighborEmbedding)}
    missing = [
        name for name in maps | {"MDS", "classical_mds"} if not any(f"nf.{name}(" in r.code for r in gallery.ROWS)
    ]
    assert missing == []
    for stress in ("sstress", "sammon"):
        assert any(f'stress="{stress}"' in row.code for row in gallery.ROWS)
    assert len({row.image for row in gallery.ROWS}) == len({row.name for row in gallery.ROWS}) == len(gallery.ROWS)


@rows
def test_the_page_shows_the_row(row):
    (line,) = [line for line in PAGE.splitlines() if f"/{row.image})" in line]
    assert f"`{row.code}`" in line
    assert f"**{row.name}**" in line
    assert -0.1 < float(re.search(r"\| ([\d.]+) \|$", line)[1]) < 1
    with Image.open(DOCS / "images" / "gallery" / row.image) as picture:
        assert picture.format == "WEBP"
        assert len(picture.convert("RGB").getcolors(10**6)) > 100  # something is drawn


def test_pictures_are_small_and_none_is_left_over():
    files = list((DOCS / "images" / "gallery").iterdir())
    assert {path.name for path in files} == {row.image for row in gallery.ROWS}
    beside = [DOCS / "images" / "beside" / name for name in re.findall(r"images/beside/(\S+?)\)", PAGE)]
    assert len(beside) == len(gallery.CASES) * len(gallery.DRAWS)
    page = list((DOCS / "images" / "page").iterdir())
    told = "".join((DOCS / name).read_text("utf-8") for name in ("index.md", "guide/map-page.md"))
    assert [path.name for path in page if f"images/page/{path.name}" not in told] == []
    assert max(path.stat().st_size for path in files + beside + page) < 120_000


ROWS = {row.name: row for row in gallery.ROWS}
QUICK = {"t-SNE", "UMAP", "HSSNE", "NeRV", "metric MDS", "SSTRESS", "Sammon", "classical MDS", "PCA"}


@pytest.mark.parametrize("name", often(ROWS, QUICK))
def test_the_line_of_code_draws_a_map(name, monkeypatch):
    fit = nf.NeighborEmbedding.fit  # in the default 1,000 iterations nothing happens that 60 do not show
    short = {"max_iter": 60, "early_exaggeration_iter": 30}
    monkeypatch.setattr(
        nf.NeighborEmbedding, "fit", lambda est, *given, **named: fit(est.set_params(**short), *given, **named)
    )
    X, digit = load_digits(n_class=3, return_X_y=True)
    X, digit = X[:66], digit[:66]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)
        Y = ROWS[name].draw(X)
    assert Y.shape == (66, 2)
    assert np.isfinite(Y).all()
    assert nf.evaluate.neighborhoods(X, Y, labels=digit).accuracy[5] > 0.8


def test_a_row_is_drawn_alone_and_the_others_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "PAGE", tmp_path / "gallery.md")
    monkeypatch.setattr(gallery, "IMAGES", tmp_path / "images")
    monkeypatch.setattr(gallery, "load_digits", lambda **_: tuple(a[:80] for a in load_digits(return_X_y=True)))
    pca = next(row for row in gallery.ROWS if row.name == "PCA")
    monkeypatch.setattr(gallery, "ROWS", [pca])
    gallery.main(["PCA"])
    before = (tmp_path / "gallery.md").read_text("utf-8")
    again = gallery.Row("another", "X[:, [20, 21]]", "Two pixels.")
    monkeypatch.setattr(gallery, "ROWS", [pca, again])
    gallery.main(["another"])
    after = (tmp_path / "gallery.md").read_text("utf-8")
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    assert {path.name for path in (tmp_path / "images").iterdir()} == {"pca.webp", "another.webp"}
    with pytest.raises(SystemExit, match="no such row: UMAP"):
        gallery.main(["UMAP"])


def test_the_first_page_shows_what_its_code_draws():
    shown = gallery.examples()
    pictures = {path.name: path for path in gallery.FRONT_IMAGES.iterdir()}
    assert {"", *pictures} == set(shown)
    for name, path in pictures.items():
        drawn = name.replace(".png", ".html") if name == "page.png" else name
        assert f'"{drawn}"' in shown[name].splitlines()[-1]
        assert path.stat().st_size < 150_000
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert len(picture.convert("RGB").getcolors(10**6)) > 20  # something is drawn
