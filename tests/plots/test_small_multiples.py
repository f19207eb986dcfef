"""Several maps in one picture, side by side."""

import numpy as np
import pandas as pd
import pytest
from quick import with_slow

matplotlib = pytest.importorskip("matplotlib")

import nearfar as nf  # noqa: E402
from nearfar.plots import scatter, small_multiples  # noqa: E402

N = 40
DATA = np.random.default_rng(0).normal(size=(N, 4)) * [3.0, 2.0, 1.0, 0.5]
LABELS = np.array(["pear", "apple", "fig"])[np.arange(N) % 3]


def dots(ax) -> np.ndarray:
    return np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])


def test_a_picture_has_a_title_and_one_legend() -> None:
    axes = small_multiples({f"map {k}": DATA[:, :2] * k for k in range(1, 6)}, LABELS, title="five maps")
    assert [ax.get_title() for ax in axes] == [f"map {k}" for k in range(1, 6)]
    figure = axes[0].figure
    assert figure.axes == axes  # three columns; the sixth place is empty
    assert figure.get_suptitle() == "five maps"
    assert all(ax.get_legend() is None for ax in axes)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["apple", "fig", "pear"]


@pytest.mark.parametrize(
    ("count", "columns", "shape"),
    with_slow([(5, None, (2, 3))], slow=[(1, None, (1, 1)), (5, 2, (3, 2)), (2, 9, (1, 2))]),
)
def test_sizes(count: int, columns: int | None, shape: tuple[int, int]) -> None:
    axes = small_multiples([DATA] * count, columns=columns)
    assert axes[0].get_subplotspec().get_gridspec().get_geometry() == shape
    width, height = axes[0].figure.get_size_inches()
    assert width / shape[1] == pytest.approx(height / shape[0], rel=0.15)  # nearly squares


@pytest.mark.slow
def test_maps_by_name_are_drawn_as_by_themselves_but_smaller() -> None:
    maps = {"data": DATA, "left": DATA[:, :2], "right": nf.Embedding(DATA[:, 2:].astype(np.float32))}
    axes = small_multiples(maps, LABELS)
    assert [ax.get_title() for ax in axes] == list(maps)
    for ax, one in zip(axes, maps.values(), strict=True):
        alone = scatter(one, LABELS)
        np.testing.assert_array_equal(dots(ax), dots(alone))
        np.testing.assert_array_equal(ax.collections[0].get_facecolors(), alone.collections[0].get_facecolors())
        assert ax.collections[0].get_sizes()[0] < alone.collections[0].get_sizes()[0] / 2
    untitled = small_multiples([DATA, DATA[:7, :2]])  # without labels maps may be of different points
    assert [ax.get_title() for ax in untitled] == ["", ""]


def test_values_share_one_bar() -> None:
    axes = small_multiples({"a": DATA[:, :2], "b": DATA[:, 1:3]}, values=DATA[:, 0])
    figure = axes[0].figure
    assert len(figure.axes) == 3
    assert figure.axes[2].get_ylim() == pytest.approx((DATA[:, 0].min(), DATA[:, 0].max()))
    assert not figure.legends
    assert len(small_multiples([DATA], values=np.full(N, np.nan))[0].figure.axes) == 1


@pytest.mark.slow
def test_a_key_of_many_groups_fits() -> None:
    figure = small_multiples([DATA], np.arange(N))[0].figure
    figure.canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.y0 < box.y1 <= figure.bbox.height


@pytest.mark.slow
def test_all_panels_are_drawn_as_the_largest() -> None:
    xy = np.random.default_rng(0).normal(size=(50_100, 2))
    for size in (50_100, 4_000):
        axes = small_multiples([xy[:size], xy[:500]])
        assert [len(ax.images) for ax in axes] == [size // 50_000] * 2
        if size < 50_000:
            assert axes[0].collections[0].get_sizes() == axes[1].collections[0].get_sizes()
            assert axes[0].collections[0].get_alpha() == axes[1].collections[0].get_alpha()


def test_one_long_name_leaves_room_for_the_others_and_the_maps() -> None:
    labels = np.where(
        LABELS == "fig", "the fruit of a tree of the family of the mulberries, eaten fresh or dried", LABELS
    )
    figure = small_multiples([DATA, DATA], labels)[0].figure
    figure.canvas.draw()
    for text in figure.legends[0].get_texts():
        box = text.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert figure.axes[0].get_window_extent().width > 0.2 * figure.bbox.width


def test_an_empty_category_keeps_its_colour() -> None:
    whole = pd.Categorical(LABELS, ["apple", "fig", "pear"])
    kept = LABELS != "fig"
    for ordered in (whole, whole.reorder_categories(["pear", "fig", "apple"])):
        colours = []
        for rows in (np.ones(N, bool), kept):
            legend = scatter(DATA[rows], ordered[rows]).get_legend()
            names = [text.get_text() for text in legend.get_texts()]
            colours.append(dict(zip(names, [h.get_color() for h in legend.legend_handles], strict=True)))
        assert colours[1] == {name: colours[0][name] for name in ordered.categories if name != "fig"}
        page = nf.Embedding(DATA[kept, :2]).map(metadata={"kind": ordered[kept]})
        assert page.columns[0].names == list(ordered.categories)
        legend = page.picture().get_legend()
        assert [h.get_color() for h in legend.legend_handles] == list(colours[1].values())
