"""Pictures: what is drawn, in which colours, files whole or not at all."""

import datetime as dt
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from quick import with_slow

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.collections import PathCollection  # noqa: E402
from matplotlib.colors import to_rgba  # noqa: E402
from matplotlib.dates import num2date  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

import nearfar as nf  # noqa: E402
from nearfar.evaluate import Neighborhoods, neighborhoods  # noqa: E402
from nearfar.plots import rnx_curves, scatter, small_multiples  # noqa: E402
from nearfar.plots.scatter import shade  # noqa: E402


def dots(ax) -> np.ndarray:
    return np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])


def test_two_columns_are_drawn_as_they_are() -> None:
    xy = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.0]])
    ax = scatter(xy, title="three")
    np.testing.assert_array_equal(dots(ax), xy)
    assert ax.get_title() == "three"
    assert ax.get_legend() is None


def test_more_columns_are_turned_to_their_principal_plane() -> None:
    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.normal(size=(6, 2)))[0].T
    inside = rng.normal(size=(200, 2)) * [5.0, 2.0]
    vectors = inside @ plane + 1e-3 * rng.normal(size=(200, 6)) + 7.0
    drawn = dots(scatter(vectors))
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=1e-9)
    assert drawn[:, 0].std() > drawn[:, 1].std() > 1
    true = np.linalg.norm(inside[:, None] - inside, axis=2)
    found = np.linalg.norm(drawn[:, None] - drawn, axis=2)
    np.testing.assert_allclose(found, true, atol=0.05)


def test_groups_get_a_colour_each_and_a_legend() -> None:
    rng = np.random.default_rng(1)
    labels = np.array(["pear", "apple", "fig"])[np.arange(30) % 3]
    xy = rng.normal(size=(30, 2))
    ax = scatter(xy, labels)
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["apple", "fig", "pear"]
    legend_colours = [to_rgba(handle.get_color()) for handle in legend.legend_handles]
    collection = ax.collections[0]
    for point, colour in zip(collection.get_offsets(), collection.get_facecolors(), strict=True):
        label = labels[np.flatnonzero((xy == np.asarray(point)).all(axis=1))[0]]
        expected = legend_colours[["apple", "fig", "pear"].index(label)]
        np.testing.assert_allclose(colour[:3], expected[:3])


def colours_of(ax, xy: np.ndarray) -> np.ndarray:
    """Return the colour in which each row of ``xy`` was drawn."""
    collection = ax.collections[0]
    drawn = np.asarray(collection.get_offsets())
    places = [np.flatnonzero((drawn == point).all(axis=1))[0] for point in xy]
    return collection.get_facecolors()[places, :3]


def test_each_of_many_groups_has_a_colour_and_the_legend_names_the_largest() -> None:
    labels = np.concatenate([np.repeat(np.arange(40), 4), np.arange(100, 120)])
    xy = np.random.default_rng(0).normal(size=(180, 2))
    ax = scatter(xy, labels)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [*map(str, range(40)), "and 20 smaller ones"]
    assert len(np.unique(colours_of(ax, xy), axis=0)) == 60


def test_labels_of_several_types_and_none() -> None:
    xy = np.array([[0.0, 1.0], [2.0, 3.5], [1.0, 1.0], [0.5, 0.2]])
    ax = scatter(xy, np.array([None, "a", 1, float("nan")], dtype=object))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1", "a", "no label"]
    colours = colours_of(ax, xy)
    np.testing.assert_array_equal(colours[0], colours[3])
    assert len(np.unique(colours, axis=0)) == 3
    whole = scatter(xy, [1.0, 2.0, 1.0, float("nan")])
    assert [text.get_text() for text in whole.get_legend().get_texts()] == ["1", "2", "no label"]


def test_values_have_a_colour_bar_and_unknown_ones_are_grey() -> None:
    xy = np.random.default_rng(0).normal(size=(4, 2))
    ax = scatter(xy, values=[0.5, 2.5, np.nan, 1.0])
    assert ax.get_legend() is None
    assert len(ax.figure.axes) == 2
    assert ax.figure.axes[1].get_ylim() == (0.5, 2.5)
    colours = colours_of(ax, xy)
    viridis = matplotlib.colormaps["viridis"]  # without the end that is as light as the paper
    np.testing.assert_allclose(colours[[0, 1, 3]], viridis(np.array([0.0, 7 / 8, 7 / 32]))[:, :3], atol=0.03)
    np.testing.assert_allclose(colours[2], to_rgba("#BBBBBB")[:3])
    assert len(scatter(np.eye(2), values=[np.nan, np.nan]).figure.axes) == 1
    assert len(scatter(np.eye(2), values=[7, 7]).figure.axes) == 2  # integers, all the same


def test_outlying_values_do_not_decide_the_colours() -> None:
    values = np.append(np.linspace(0, 1, 300), 1e6)
    ax = scatter(np.random.default_rng(0).normal(size=(301, 2)), values=values)
    low, high = ax.figure.axes[1].get_ylim()
    assert 0 < low < 0.02
    assert 0.98 < high < 1.01


def test_more_dots_are_smaller_more_transparent_and_a_bitmap() -> None:
    rng = np.random.default_rng(0)
    few, many = (scatter(rng.normal(size=(n, 2))).collections[0] for n in (100, 20_000))
    assert few.get_sizes()[0] > 10 * many.get_sizes()[0]
    assert few.get_facecolors()[0, 3] > many.get_facecolors()[0, 3] > 0.1
    assert many.get_rasterized()
    assert not few.get_rasterized()


def test_of_very_many_dots_the_density_is_drawn(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["nearfar.plots.scatter"], "_SHADED_FROM", 4000)
    rng = np.random.default_rng(0)
    n = 12_000
    side = np.where(np.arange(n) % 4 == 0, -1.0, 1.0)  # a thin cloud on the left, a dense one on the right
    xy = np.column_stack([20 * side + rng.uniform(-3, 3, n), rng.uniform(-3, 3, n)])
    ax = scatter(xy, np.where(side < 0, "thin", "dense"), names="legend", path=tmp_path / "map.png")
    assert not any(isinstance(drawn, PathCollection) for drawn in ax.collections)
    image = ax.images[0]
    picture, (left, right, bottom, top) = np.asarray(image.get_array()), image.get_extent()
    assert left < xy[:, 0].min() < xy[:, 0].max() < right
    assert bottom < xy[:, 1].min() < xy[:, 1].max() < top
    height, width = picture.shape[:2]
    assert (right - left) / width == pytest.approx((top - bottom) / height)  # square pixels
    halves = {"thin": picture[:, : width // 2], "dense": picture[:, width // 2 :]}
    colours = {text.get_text(): to_rgba(h.get_color())[:3] for text, h in zip(*legend_parts(ax), strict=True)}
    for name, half in halves.items():
        drawn = half[..., 3] > 0
        np.testing.assert_allclose(half[drawn][:, :3], np.tile(colours[name], (drawn.sum(), 1)), atol=1e-5)
    assert halves["dense"][..., 3].mean() > halves["thin"][..., 3].mean() > 0
    assert (tmp_path / "map.png").stat().st_size > 1000


def legend_parts(ax) -> tuple:
    legend = ax.get_legend()
    return legend.get_texts(), legend.legend_handles


def test_a_pixel_has_the_mean_colour_of_its_dots() -> None:
    pixels = np.array([7, 7, 7, 7])
    colours = np.array([[1.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, 1.0]])
    picture = shade(pixels, (3, 5), colours)
    np.testing.assert_allclose(picture[1, 2, :3], [0.75, 0, 0.25])
    assert picture[1, 2, 3] >= picture[0, 2, 3] > picture[0, 0, 3] == 0
    np.testing.assert_array_equal(shade(pixels, (3, 5), np.array([0.0, 1.0, 0.0]))[1, 2, :3], [0, 1, 0])


def test_very_many_dots_in_one_place() -> None:
    ax = scatter(np.zeros((60_000, 2)), values=np.ones(60_000))
    assert np.isfinite(ax.images[0].get_array()).all()


def test_draws_on_given_axes_and_leaves_settings_alone() -> None:
    before = dict(matplotlib.rcParams)
    ax = Figure().add_subplot()
    assert scatter(np.eye(3), ax=ax) is ax
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


@pytest.mark.slow
def test_without_axes_pyplot_shows_the_picture(tmp_path) -> None:
    from matplotlib import pyplot

    own = pyplot.figure()
    first = scatter(np.eye(3), ["a", "b", "b"])
    assert first.figure is own  # the current figure, as nothing is drawn there
    assert pyplot.gca() is first
    second = scatter(np.eye(3))
    assert second.figure is pyplot.gcf() is not own  # a picture is never drawn over another
    left, right = pyplot.subplots(1, 2)[1]
    pyplot.sca(left)
    assert scatter(np.eye(3)) is left
    curves = rnx_curves(judged())
    assert curves.figure is pyplot.gcf() is not left.figure
    assert not right.has_data()
    panels = small_multiples({"one": np.eye(3), "two": np.eye(3)})
    assert panels[0].figure is panels[1].figure is pyplot.gcf() is not curves.figure
    there = pyplot.get_fignums()
    written = scatter(np.eye(3), path=tmp_path / "x.png")
    small_multiples([np.eye(3)], path=tmp_path / "y.png")
    rnx_curves(judged(), path=tmp_path / "z.png")
    assert pyplot.get_fignums() == there
    assert not hasattr(written.figure, "number")


@pytest.mark.parametrize(
    ("suffix", "magic"), with_slow([(".png", b"\x89PNG"), (".svg", b"<?xml")], slow=[(".pdf", b"%PDF")])
)
def test_files(tmp_path, suffix: str, magic: bytes) -> None:
    path = tmp_path / f"picture{suffix}"
    scatter(np.eye(4), ["a", "b", "a", "b"], path=path)
    assert path.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [path]  # nothing left beside it


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"old")

    def full_disk(self, file, **options) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full_disk)
    with pytest.raises(OSError, match="No space left"):
        scatter(np.eye(3), path=path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_equal_vectors_can_be_drawn(tmp_path) -> None:
    scatter(np.ones((5, 4)), path=tmp_path / "same.png")
    assert (tmp_path / "same.png").stat().st_size > 100


# ------------------------------------------------------------------------------------------------------- curves


def judged(n: int = 50) -> dict[str, Neighborhoods]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * [4.0, 2.0, 1.0]
    noise = rng.normal(size=(n, 2))
    return {
        "noise": neighborhoods(X, noise),
        "plane": neighborhoods(X, X[:, :2]),
        "some rows": neighborhoods(X, X[:, 1:], n_sample=30, random_state=0),
    }


def test_curves_are_those_of_the_results_over_log_k() -> None:
    results = judged()
    ax = rnx_curves(results, title="three maps")
    assert ax.get_xscale() == "log"
    assert ax.get_title() == "three maps"
    for line, (name, result) in zip(ax.lines, results.items(), strict=True):
        assert line.get_label().startswith(name)
        sizes = line.get_xdata()
        assert (sizes[0], sizes[-1]) == (1, 48)
        np.testing.assert_array_equal(line.get_ydata(), result.r_nx[np.asarray(sizes) - 1])
    assert len({line.get_color() for line in ax.lines}) == 3


def test_areas_are_in_the_legend_largest_first() -> None:
    results = judged()
    texts = [text.get_text() for text in rnx_curves(results).get_legend().get_texts()]
    assert [text.rpartition("  ")[0] for text in texts] == ["plane", "some rows", "noise"]
    assert texts[0].endswith(f"{results['plane'].auc:.3f}")
    assert texts[1].endswith(f"± {results['some rows'].standard_errors['auc']:.3f}")


def test_many_curves_can_be_told_apart() -> None:
    one = judged()["plane"]
    ax = rnx_curves({f"map {i}": one for i in range(14)})
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 14


# -- words at the dots ---------------------------------------------------------------------------------------------


def written(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def boxes_of(ax) -> np.ndarray:
    ax.figure.draw_without_rendering()
    renderer = ax.figure.canvas.get_renderer()
    return np.array([text.get_window_extent(renderer).extents for text in ax.texts])


@pytest.mark.parametrize("options", with_slow([{"labels": np.arange(200) % 3}], slow=[{}, {"title": "many"}]))
def test_words_do_not_lie_on_each_other_and_the_first_come_first(tmp_path, options) -> None:
    rng = np.random.default_rng(0)
    xy = rng.normal(size=(200, 2)) * [3, 1]
    words = [f"{'w' * (1 + k % 9)}{k}" for k in range(200)]
    ax = scatter(xy, words=words, path=tmp_path / "words.png", **options)
    shown = [text for text in written(ax) if text in words]  # with a title it is said how many points there are
    assert shown[0] == words[0]
    assert shown == sorted(shown, key=words.index)
    assert 20 < len(shown) < 200
    boxes = boxes_of(ax)
    apart = (boxes[:, None, :2] >= boxes[:, 2:]) | (boxes[:, None, 2:] <= boxes[:, :2])
    assert (apart.any(axis=2) | np.eye(len(boxes), dtype=bool)).all()
    frame = ax.get_window_extent().extents
    for text, box in zip(ax.texts, boxes, strict=True):
        if text.get_text() in words:
            assert (box[:2] > frame[:2] - 1).all()
            assert (box[2:] < frame[2:] + 1).all()
            np.testing.assert_array_equal(text.xy, xy[words.index(text.get_text())])


@pytest.mark.slow
def test_words_are_the_ids_of_an_embedding_or_any_text(tmp_path, monkeypatch) -> None:
    """Also with signs that mean something to matplotlib, of a map with ids, and on dense pictures."""
    X = np.eye(4)[:, :2] + np.arange(4)[:, None]
    emb = nf.Embedding(X, ids=["a$b$", "_c^", "Köln", "Ωμ"])
    ax = scatter(emb, words=True, path=tmp_path / "ids.svg")
    assert written(ax) == ["a$b$", "_c^", "Köln", "Ωμ"]
    assert written(scatter(emb)) == []
    assert written(scatter(X, words=["", "one", " ", "two"])) == ["one", "two"]
    assert written(scatter(nf.Embedding(X), words=True)) == ["0", "1", "2", "3"]
    monkeypatch.setattr(sys.modules["nearfar.plots.scatter"], "_SHADED_FROM", 800)
    many = np.random.default_rng(0).normal(size=(801, 2))
    assert 50 < len(written(scatter(many, words=[f"word{k}" for k in range(801)]))) <= 300


# ------------------------------------------------------------------------------------- columns of data, and their text


def legend_of(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_missing_labels_are_grey_and_names_are_as_written() -> None:
    xy = np.random.default_rng(0).normal(size=(120, 2))
    gaps = np.arange(120) % 12 == 3
    whole = pd.Series([0, 1] * 60)
    for given in (
        pd.Series(["0", "1"] * 60, dtype="string").mask(gaps),
        pd.Series(["0", "1"] * 60, dtype="string").mask(gaps).tolist(),
        whole.astype("Int64").mask(gaps),
        whole.astype(float).mask(gaps),
        whole.astype("category").mask(gaps),
        np.ma.masked_array(whole, gaps),
    ):
        ax = scatter(xy, given)
        assert legend_of(ax) == ["0", "1", "no label"]
        grey = np.isclose(colours_of(ax, xy), to_rgba("#BBBBBB")[:3]).all(axis=1)
        np.testing.assert_array_equal(grey, gaps)
    dates = pd.Series(pd.to_datetime(["2020-02-01", None, "2020-01-01"] * 40))
    assert legend_of(scatter(xy, dates)) == ["2020-01-01", "2020-02-01", "no label"]
    ordered = pd.Categorical(["high", "low"] * 60, ["low", "middle", "high"], ordered=True)
    assert legend_of(scatter(xy, ordered)) == ["low", "high"]
    assert legend_of(scatter(xy, ["10", "9", "1"] * 40)) == ["1", "9", "10"]
    assert legend_of(scatter(xy, np.array([True, False] * 60))) == ["False", "True"]
    for ax in small_multiples([xy, xy], dates.dt.tz_localize("Europe/Rome")):
        assert ax.figure.legends[0].get_texts()[0].get_text() == "2020-01-01"


@pytest.mark.parametrize("kind", with_slow(["zone"], slow=["polars", "pandas", "numpy", "objects"]))
def test_dates_have_a_colour_bar_of_dates(kind: str) -> None:
    days = pd.Series(pd.to_datetime(["2020-01-01", "2020-03-01", None, "2020-05-01"]))
    given = {
        "pandas": days,
        "zone": days.dt.tz_localize("America/Lima"),
        "numpy": days.to_numpy("M8[D]"),
        "polars": pl.Series([*days.tolist()[:2], None, *days.tolist()[3:]]),
        "objects": [None if day is pd.NaT else day.date() for day in days],
    }[kind]
    xy = np.random.default_rng(0).normal(size=(4, 2))
    ax = scatter(xy, values=given)
    ax.figure.draw_without_rendering()
    bar = ax.figure.axes[1].yaxis
    shown = [text.get_text() for text in bar.get_ticklabels()]
    assert {"Feb", "Mar", "Apr"} <= set(shown)
    low, high = ax.figure.axes[1].get_ylim()
    np.testing.assert_array_equal(num2date([low, high]), [dt.datetime(2020, m, 1, tzinfo=dt.UTC) for m in (1, 5)])
    np.testing.assert_allclose(colours_of(ax, xy)[2], to_rgba("#BBBBBB")[:3])


@pytest.mark.parametrize(
    "odd", with_slow([r"$\alfa$"], slow=["$0-$50", "a_$b^$", "{$}", r"\$1 and \$2", "$$", "\ud800"])
)
def test_text_of_data_is_written_as_it_is(odd: str, tmp_path) -> None:
    """Titles, legends, names and words: $ begins no mathematics, of which some would be none."""
    xy = np.random.default_rng(0).normal(size=(12, 2))
    labels, path = [odd, "b$c$"] * 6, tmp_path / "x.svg"
    texts = []
    for names, where in (("legend", path), ("map", None)):
        ax = scatter(xy, labels, names=names, title=odd, words=[odd] * 12, path=where)
        texts += [ax.title, *ax.texts, *(ax.get_legend().get_texts() if names == "legend" else [])]
    axes = small_multiples({odd: xy, "b$c$": xy}, labels, title=odd)
    figure = axes[0].figure
    texts += [ax.title for ax in axes] + [figure._suptitle, *figure.legends[0].get_texts()]
    ax = rnx_curves({odd: judged()["plane"]}, title=odd)
    texts += [ax.title, *ax.get_legend().get_texts()]
    assert not any(text.get_parse_math() for text in texts)
    assert sum(odd.replace("\ud800", "?") in text.get_text() for text in texts) >= 9
