"""Names on the map, what is grey, the first view: what a reader of the picture must be able to rely on."""

import sys

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.collections import PathCollection  # noqa: E402
from matplotlib.colors import to_rgba  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.image import imread  # noqa: E402

import nearfar as nf  # noqa: E402
from nearfar._core import warn  # noqa: E402
from nearfar.errors import NearfarWarning  # noqa: E402
from nearfar.plots import names as map_names  # noqa: E402
from nearfar.plots import scatter  # noqa: E402
from nearfar.plots.groups import noise_among, togetherness  # noqa: E402
from nearfar.plots.names import ink_of, wrapped  # noqa: E402
from nearfar.plots.palette import contrast, rgb_of  # noqa: E402

GREY = to_rgba("#BBBBBB")[:3]


def planted(groups: int, n: int, noise: float = 0.2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return points of groups on a jittered grid, and their labels; -1 is spread over all."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil(groups**0.5))
    centres = 8.0 * np.array([divmod(k, side) for k in range(groups)]) + rng.uniform(-2, 2, (groups, 2))
    labels = rng.integers(0, groups, n)
    xy = centres[labels] + rng.normal(size=(n, 2))
    lost = rng.random(n) < noise
    xy[lost] = rng.uniform(-4, 8 * side, (lost.sum(), 2))
    return xy, np.where(lost, -1, labels)


def names_of(ax) -> list:
    """Return the texts that name groups: not what is written at the edges."""
    return [text for text in ax.texts if not hasattr(text, "xycoords")]


def boxes(texts) -> np.ndarray:
    return np.array([text.get_window_extent().extents for text in texts])


def overlaps(found: np.ndarray) -> int:
    apart = (found[:, None, :2] >= found[:, 2:] - 0.5) | (found[:, None, 2:] <= found[:, :2] + 0.5)
    return int((~(apart.any(axis=2) | np.eye(len(found), dtype=bool))).sum())


@pytest.mark.slow
def test_many_topics_beside_noise_in_the_picture_and_on_the_page(tmp_path) -> None:
    """More topics than fixed colours: all named and coloured, noise neither; nothing is cut off at the edge."""
    xy, labels = planted(14, 240)
    noise = "-1_said_would_new_also"
    topics = np.array([f"{k}_words_of_this_topic" for k in range(14)] + [noise])[labels]
    ax = scatter(xy, topics, title="Topics", path=tmp_path / "x.png")
    ax.figure.draw_without_rendering()
    assert ax.get_legend() is None
    found, whole = boxes(ax.texts), ax.figure.bbox.extents
    assert (found[:, :2] >= whole[:2]).all()
    assert (found[:, 2:] <= whole[2:]).all()
    assert [text.get_text() for text in ax.texts if hasattr(text, "xycoords")] == ["240 points", f"grey: {noise}"]
    assert overlaps(boxes(names_of(ax))) == 0
    assert {name.get_text().replace("\n", "") for name in names_of(ax)} == set(topics) - {noise}
    picture = imread(tmp_path / "x.png")[..., :3]
    assert (picture[:, -2:] > 0.5).all()  # no ink: a name that is cut off would be there
    assert (picture[:, :2] > 0.5).all()
    dots = next(c for c in ax.collections if isinstance(c, PathCollection)).get_facecolors()
    grey = np.isclose(dots[:, :3], GREY).all(axis=1)
    assert grey.sum() == (topics == noise).sum()
    assert len(np.unique(dots[~grey, :3], axis=0)) == 14
    page = nf.Embedding(xy).map(metadata={"topic": topics.tolist()})
    named = [name for _, name in page.labels]
    assert sorted(named) == sorted(set(topics) - {noise})
    sizes = [np.count_nonzero(topics == name) for name in named]
    assert sizes == sorted(sizes, reverse=True)
    facts = nf.viewer.drawn.group_facts(page.columns[0], xy, np.arange(240))
    shades = dict(zip(page.columns[0].names, facts["shades"], strict=True))
    assert shades.pop(noise) == -1
    assert len({facts["light"][shade] for shade in shades.values()}) == 14


def test_a_name_is_near_its_group_or_a_line_leads_there() -> None:
    xy, labels = planted(12, 400)
    ax = scatter(xy, labels)
    ax.figure.draw_without_rendering()
    ends = np.array([line.get_xydata()[-1] for line in ax.lines]).reshape(-1, 2)
    place = ax.transData.transform
    for name, box in zip(names_of(ax), boxes(names_of(ax)), strict=True):
        mine = place(xy[labels == int(name.get_text())])
        gaps = np.maximum(np.maximum(box[:2] - mine, mine - box[2:]), 0)
        near = np.hypot(*gaps.T).min() < 12 * ax.figure.dpi / 72
        led = (
            (np.linalg.norm(mine[:, None] - place(ends), axis=2).min() < 12 * ax.figure.dpi / 72)
            if len(ends)
            else False
        )
        assert near or led, name.get_text()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_a_name_lies_on_its_group_or_beside_it_but_not_half(seed: int) -> None:
    rng = np.random.default_rng(seed)
    away, angle = 10 * np.sqrt(rng.random(4000)), 2 * np.pi * rng.random(4000)
    disc = np.column_stack([away * np.cos(angle), away * np.sin(angle)])
    others = [rng.normal(size=(400, 2)) + place for place in ([14, 3], [-13, -6], [2, 14])]
    ax = scatter(
        np.concatenate([disc, *others]), np.repeat(["harbour winter river", "b", "c", "d"], [4000, *[400] * 3])
    )
    ax.figure.draw_without_rendering()
    name = next(name for name in names_of(ax) if name.get_text().startswith("harbour"))
    left, low, right, top = name.get_window_extent().extents
    grid = [(x, y) for x in np.linspace(left, right, 9) for y in np.linspace(low, top, 9)]
    on = np.hypot(*ax.transData.inverted().transform(grid).T) < 10
    assert not 0.1 < on.mean() < 0.9


def test_larger_groups_have_larger_names_and_colours_of_names_can_be_read() -> None:
    rng = np.random.default_rng(0)
    sizes = [20, 100, 400]
    labels = np.repeat(["small", "middle", "large"], sizes)
    xy = np.repeat([[0.0, 0], [20, 0], [0, 20]], sizes, axis=0) + rng.normal(size=(520, 2))
    names = sorted(names_of(scatter(xy, labels)), key=lambda name: name.get_fontsize())
    assert [name.get_text() for name in names] == ["small", "middle", "large"]
    for name in names:
        assert contrast(np.array(to_rgba(name.get_color())[:3])) >= 4.5
    assert contrast(ink_of(rgb_of("#FFFF00"))) >= 4.5


@pytest.mark.slow
def test_a_far_part_of_a_group_has_a_smaller_second_name() -> None:
    xy, labels = planted(6, 1200, noise=0.0)
    xy[(labels == 2) & (np.arange(1200) % 3 == 0)] += [40.0, 0.0]
    second = [name for name in names_of(scatter(xy, labels)) if name.get_text() == "2"]
    first, other = sorted(second, key=lambda name: -name.get_fontsize())
    assert other.get_fontsize() < first.get_fontsize()
    assert other.get_position()[0] > first.get_position()[0] + 20


@pytest.mark.slow
def test_names_keep_apart_in_axes_that_are_given_and_those_without_room_are_told() -> None:
    xy, labels = planted(12, 150, noise=0.0)
    left, right = Figure(figsize=(9, 4), layout="constrained").subplots(1, 2)
    names = names_of(scatter(xy, labels, ax=left))
    left.figure.draw_without_rendering()
    assert len(names) == 12
    assert overlaps(boxes(names)) == 0
    small = Figure(figsize=(0.6, 0.6)).add_subplot()
    with pytest.warns(NearfarWarning, match="no room for the names of .* groups, such as .*Give larger axes"):
        scatter(xy, labels, ax=small)
    [note] = [text.get_text() for text in small.texts if "without a name" in text.get_text()]
    assert note == f"{12 - len(names_of(small))} groups without a name"
    assert right.has_data() is False


def test_groups_that_do_not_hold_together_have_a_legend() -> None:
    rng = np.random.default_rng(0)
    xy = rng.normal(size=(500, 2))
    mixed, split = rng.choice(["male", "female"], 500), np.where(xy[:, 0] < 0, "left", "right")
    assert abs(togetherness(xy, (mixed == "male").astype(int))) < 0.15
    assert togetherness(xy, (split == "left").astype(int)) > 0.8
    assert togetherness(xy, np.zeros(500, int)) == 1
    assert togetherness(xy[:2], np.array([0, -1])) == 0
    assert scatter(xy, mixed).get_legend() is not None
    assert scatter(xy, split).get_legend() is None
    assert [name.get_text() for name in names_of(scatter(xy, mixed, names="map"))] == ["female", "male"]


@pytest.mark.parametrize("n", [600, pytest.param(5000, marks=pytest.mark.slow)])
def test_noise_and_unknown_are_grey_fainter_and_below(n: int, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["nearfar.plots.scatter"], "_SHADED_FROM", 4000)
    xy, labels = planted(4, n)
    forms = labels, np.where(labels < 0, None, labels), np.where(labels < 0, "noise", labels.astype(str))
    for given in forms if n == 600 else forms[:1]:
        ax = scatter(xy, given, names="none")
        if n == 600:
            colours = next(c for c in ax.collections if isinstance(c, PathCollection)).get_facecolors()
            grey = np.isclose(colours[:, :3], GREY).all(axis=1)
            assert grey.sum() == (labels < 0).sum()
            assert grey[: grey.sum()].all()  # drawn first
            assert colours[grey, 3].max() < colours[~grey, 3].min()
        else:
            below, above = ax.images
            drawn = below.get_array()[..., 3] > 0
            np.testing.assert_allclose(below.get_array()[drawn][:, :3], np.tile(GREY, (drawn.sum(), 1)), atol=1e-6)
            assert not np.isclose(above.get_array()[above.get_array()[..., 3] > 0][:, :3], GREY).all(axis=1).any()
            assert below.get_array()[..., 3].max() < above.get_array()[..., 3].max()


def test_unknown_values_are_below_the_known() -> None:
    rng = np.random.default_rng(0)
    xy, values = rng.normal(size=(5000, 2)), np.full(5000, np.nan)
    values[rng.permutation(5000)[:60]] = rng.random(60)
    colours = scatter(xy, values=values).collections[0].get_facecolors()
    grey = np.isclose(colours[:, :3], GREY).all(axis=1)
    assert grey[:4940].all()
    assert not grey[4940:].any()


@pytest.mark.parametrize(
    ("names", "noise"),
    [
        (["-1", "0", "1"], ["-1"]),
        (["-1_said_would", "0_a", "noise"], ["-1_said_would", "noise"]),
        (["Unlabelled", "T cell", "unknown"], ["Unlabelled", "unknown"]),
        (["-1", "1"], []),  # two classes
        (["-2", "-1", "0"], []),
        (["-1", "-1.5", "white noise", "outlier detection"], ["-1"]),
        (["-1"], ["-1"]),
    ],
)
def test_what_is_noise(names: list[str], noise: list[str]) -> None:
    assert [names[at] for at in noise_among(names)] == noise


def test_one_outlier_does_not_hide_the_others() -> None:
    rng = np.random.default_rng(0)
    xy = rng.normal(size=(300, 2))
    xy[7] = [400.0, -90.0]
    ax = scatter(xy, np.where(xy[:, 0] < 0, "left", "right"))
    ax.figure.draw_without_rendering()
    inner = xy[np.arange(300) != 7]
    for (low, high), values in ((ax.get_xlim(), inner[:, 0]), (ax.get_ylim(), inner[:, 1])):
        assert low < values.min() < values.max() < high
        assert high - low < 3 * np.ptp(values)
    assert "1 point outside" in [text.get_text() for text in ax.texts]
    marks = ax.collections[-1]
    assert len(marks.get_offsets()) == 1  # at the edge on the right
    assert inner[:, 0].max() < marks.get_offsets()[0][0] <= ax.get_xlim()[1]
    rare = np.vstack([rng.normal(size=(900, 2)), rng.normal(60, 1, size=(100, 2))])  # a group is no outlier
    assert scatter(rare).get_xlim()[1] > 60
    assert scatter(np.ones((40, 2))).get_xlim()[0] < 1
    many = np.vstack([rng.normal(size=(990, 2)), rng.uniform(200, 900, size=(10, 2))])  # one in a hundred
    ax = scatter(many)
    assert ax.get_xlim()[1] < 6
    assert "10 points outside" in [text.get_text() for text in ax.texts]


def test_contours_are_behind_groups_of_many_points() -> None:
    xy, labels = planted(4, 1200, noise=0.1)
    ax = scatter(xy, labels)
    [dots] = [c for c in ax.collections if isinstance(c, PathCollection)]
    behind = [c for c in ax.collections if not isinstance(c, PathCollection)]
    assert len(behind) == 2 * 4
    assert max(c.get_zorder() for c in behind) < dots.get_zorder()
    assert [c for c in scatter(xy[:900], labels[:900]).collections if not isinstance(c, PathCollection)] == []


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [1, 3])
def test_contours_follow_each_piece_of_a_group(pieces: int) -> None:
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(6), 200)
    places = rng.uniform(0, 30, size=(6, pieces, 2))
    xy = places[group, rng.integers(pieces, size=1200)] + 0.15 * rng.normal(size=(1200, 2))
    drawn = [c for c in scatter(xy, group.astype(str)).collections if not isinstance(c, PathCollection)]
    corners = np.concatenate([path.vertices for one in drawn for path in one.get_paths()])
    away = np.linalg.norm(corners[::7, None] - xy, axis=2).min(axis=1)
    assert np.quantile(away, 0.9) < 2.5 * 0.15


def test_few_points_away_from_their_group_have_no_contour() -> None:
    xy, labels = planted(2, 1200, noise=0.0)
    for astray, parts in ((3, 1), (200, 2)):
        xy[np.flatnonzero(labels == 0)[:astray]] = 40.0 + np.random.default_rng(1).normal(size=(astray, 2))
        lines = [c for c in scatter(xy, labels).collections if not isinstance(c, PathCollection)][1::2]
        [outline] = lines[0].get_paths()
        assert len(outline.to_polygons()) == parts


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("T cell", "T cell"),
        ("CD4-positive, alpha-beta memory T cell", "CD4-positive,\nalpha-beta\nmemory T cell"),
        ("12_said_would_new_also", "12_said_would_\nnew_also"),
        ("财务报表分析与信用卡业务", "财务报表分析与信用卡业务"),
        ("x" * 50, f"{'x' * 20}\n{'x' * 20}\n{'x' * 10}"),
    ],
)
def test_names_are_wrapped(name: str, shown: str) -> None:
    assert wrapped(name) == shown


def test_very_long_names_are_cut_off() -> None:
    shown = wrapped("the complete name of a pathway that nobody could ever read on a map " * 3)
    assert shown.endswith(" …")
    assert len(shown.split("\n")) == 3
    assert max(map(len, shown.split("\n"))) <= 28


@pytest.mark.slow
def test_the_order_of_groups_is_that_of_categories_numbers_and_dates() -> None:
    xy = np.random.default_rng(0).normal(size=(90, 2))

    def legend(labels) -> list[str]:
        return [text.get_text() for text in scatter(xy, labels, names="legend").get_legend().get_texts()]

    assert legend(["10", "1", "2"] * 30) == ["1", "2", "10"]
    assert legend(["cluster 10", "cluster 1", "cluster 2"] * 30) == ["cluster 1", "cluster 2", "cluster 10"]
    assert legend(np.array([10, 1, 2] * 30)) == ["1", "2", "10"]
    days = pd.to_datetime(["2024-10-01", "2023-12-01", "2024-02-01"] * 30)
    assert legend(days) == ["2023-12-01", "2024-02-01", "2024-10-01"]
    for ordered in (True, False):
        sizes = pd.Categorical(["large", "small", "middle"] * 30, ["small", "middle", "large"], ordered=ordered)
        assert legend(sizes) == ["small", "middle", "large"]


def test_titles_are_on_the_left_with_what_is_known_below(tmp_path) -> None:
    emb = nf.Embedding(np.random.default_rng(0).normal(size=(1200, 2)), parameters={"estimator": "TSNE"})
    ax = scatter(emb, title="Words", path=tmp_path / "x.png")
    assert (ax.get_title(), ax.title.get_ha(), ax.title.get_weight()) == ("Words", "left", "bold")
    assert [text.get_text() for text in ax.texts] == ["1,200 points, TSNE"]
    ax.figure.draw_without_rendering()
    [below] = boxes(ax.texts)
    title = ax.title.get_window_extent()
    assert ax.get_window_extent().y1 <= below[1] < below[3] <= title.y0 + 1
    assert abs(title.x0 - below[0]) < 4
    assert [text.get_text() for text in scatter(emb, title="Words", subtitle="of 1850").texts] == ["of 1850"]
    assert len(scatter(emb, title="Words", subtitle="").texts) == 0


def test_letters_that_no_font_has_are_boxes_and_told_of_once(tmp_path, monkeypatch) -> None:
    warn._SAID.clear()
    monkeypatch.setattr(map_names, "_others", list)
    xy = np.random.default_rng(0).normal(size=(24, 2))
    with pytest.warns() as told:
        ax = scatter(xy, ["财务报表", "신용카드", "plain"] * 8, title="财务", path=tmp_path / "x.png")
    assert len(told) == 1
    assert "Install one that has them, such as Noto Sans CJK" in str(told[0].message)
    scatter(xy, ["财务报表", "plain", "plain"] * 8, words=["务"] * 24, path=tmp_path / "x.png")  # warnings are errors
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"□" * 4, "plain"}


@pytest.mark.slow
def test_letters_that_the_font_lacks_come_from_another(tmp_path) -> None:
    """DejaVu Sans has Armenian; here it is not the font of the picture."""
    xy = np.random.default_rng(0).normal(size=(24, 2))
    with matplotlib.rc_context({"font.family": "STIXGeneral"}):
        ax = scatter(xy, ["Հայերեն $5", "plain"] * 12, title="Հայ", words=["է"] * 24, path=tmp_path / "x.png")
    plain, other = ax.get_legend().get_texts()
    assert (other.get_text(), other.get_fontfamily()[0]) == ("Հայերեն $5", "STIXGeneral")
    assert "DejaVu Sans" in other.get_fontfamily()
    assert plain.get_fontfamily() == ["STIXGeneral"]
