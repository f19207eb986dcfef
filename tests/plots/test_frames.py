"""Pictures of an optimisation: the frames a fit leaves, side by side and one after the other."""

import pickle
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402
from PIL import Image  # noqa: E402
from sklearn.base import clone  # noqa: E402

import nearfar as nf  # noqa: E402
from nearfar.callbacks import Frame, Frames, Progress  # noqa: E402
from nearfar.errors import InputError, MissingDependencyError  # noqa: E402
from nearfar.plots import animation, scatter, small_multiples  # noqa: E402

N = 40
RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(N, 4)) * [3.0, 2.0, 1.0, 0.5]
LABELS = np.array(["pear", "apple", "fig"])[np.arange(N) % 3]


def moments(count: int = 3, d: int = 2) -> list[Frame]:
    """Frames of a map that grows and drifts, the same whatever test asks first."""
    start = np.random.default_rng(1).normal(size=(N, d)).astype(np.float32)
    return [Frame(50 * k, 1.0 / (k + 1), start * 10.0**k + 3 * k) for k in range(count)]


def squeezed(count: int = 3) -> list[Frame]:
    """The same, and squeezed from frame to frame."""
    return [replace(frame, positions=frame.positions / [1, frame.iteration // 50 + 1]) for frame in moments(count)]


def dots(ax) -> np.ndarray:
    return np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])


# -- the callback ----------------------------------------------------------------------------------------------------


def fit(frames: Frames, cls=nf.TSNE, **options):
    short = {"perplexity": 5, "max_iter": 230, "early_exaggeration_iter": 100, "random_state": 0, "n_jobs": 1}
    return cls(**{**short, **options}, callbacks=[frames]).fit(DATA)


@pytest.mark.parametrize(
    ("every", "kept"),
    [
        (50, [0, 50, 100, 150, 200, 230]),
        (1, [0, 50, 100, 150, 200, 230]),
        (100, [0, 100, 200, 230]),
        (120, [0, 150, 230]),  # the next look after 120 iterations
        (500, [0, 230]),
    ],
)
def test_some_looks_and_always_the_first_and_the_last(every: int, kept: list[int]) -> None:
    frames = Frames(every)
    est = fit(frames)
    assert [frame.iteration for frame in frames] == kept
    assert len(frames) == len(kept)
    np.testing.assert_array_equal(frames[-1].positions, est.embedding_)
    costs = dict(est.cost_curve_.tolist())
    assert [frame.cost for frame in frames] == [costs[iteration] for iteration in kept]


def test_frames_are_copies_in_float32_and_do_not_change_the_fit() -> None:
    frames, X = Frames(), RNG.normal(size=(N, 2))
    frames(Progress(1, 9, 0.5, 1.0, SimpleNamespace(X=X)))
    assert frames[0].positions.dtype == np.float32
    np.testing.assert_array_equal(frames[0].positions, X.astype(np.float32))
    X32 = X.astype(np.float32)
    frames(Progress(2, 9, 0.5, 1.0, SimpleNamespace(X=X32)))
    assert not np.shares_memory(frames[-1].positions, X32)
    seen = fit(frames)
    assert not any(np.shares_memory(frame.positions, seen.embedding_) for frame in frames)
    np.testing.assert_array_equal(seen.set_params(callbacks=None).fit(DATA).embedding_, fit(Frames()).embedding_)


def test_a_new_fit_empties_it_and_a_fit_that_is_stopped_keeps_its_end() -> None:
    frames = Frames(100)
    fit(frames)
    fit(frames, max_iter=60, early_exaggeration_iter=30)
    assert [frame.iteration for frame in frames] == [0, 60]
    nf.TSNE(perplexity=5, max_iter=500, random_state=0, callbacks=[frames, lambda p: p.epoch == 150]).fit(DATA)
    assert [frame.iteration for frame in frames] == [0, 100, 150]


def test_other_models_have_frames_too() -> None:
    frames = Frames(every=4)
    nf.MDS(max_iter=10, tol=0, init="random", random_state=0, callbacks=[frames]).fit(DATA)
    assert [frame.iteration for frame in frames] == [1, 5, 9, 10]
    assert frames[0].cost > frames[-1].cost
    edges = nf.Relation.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]).random_walk(2)
    nf.EDRep(3, n_epochs=6, random_state=0, callbacks=[frames]).fit(edges)
    assert [frame.iteration for frame in frames] == [1, 5, 6]
    assert frames[-1].positions.shape == (4, 3)
    assert len(small_multiples(frames)) == 3


def test_frames_are_a_good_parameter() -> None:
    frames = Frames(every=7)
    assert repr(frames) == "Frames(every=7)"
    assert pickle.loads(pickle.dumps(frames)).every == 7
    est = fit(frames)
    again = clone(est)
    assert again.callbacks[0].every == 7
    again.fit(DATA[:20])
    assert frames[-1].positions.shape == (N, 2)  # a clone has frames of its own
    assert est.vectors_.vectors.shape == (N, 2)


def test_a_map_of_many_points_is_kept_in_the_order_of_its_data(monkeypatch) -> None:
    monkeypatch.setattr("nearfar.maps.solver._SORT_FROM", 10)
    frames = Frames()
    est = fit(frames)
    np.testing.assert_array_equal(frames[-1].positions, est.embedding_)


@pytest.mark.parametrize("every", [0, -1, 2.5, "50", None])
def test_frames_refuse(every) -> None:
    with pytest.raises(InputError, match="Frames: every must be an integer >= 1"):
        Frames(every)


# -- side by side ----------------------------------------------------------------------------------------------------


def test_frames_side_by_side() -> None:
    frames = moments(5)
    axes = small_multiples(frames, LABELS, title="five moments")
    assert [ax.get_title() for ax in axes] == [f"iteration {50 * k}" for k in range(5)]
    figure = axes[0].figure
    assert figure.axes == axes  # three columns; the sixth place is empty
    assert figure.get_suptitle() == "five moments"
    assert axes[0].get_subplotspec().get_gridspec().get_geometry() == (2, 3)
    for ax, frame in zip(axes, frames, strict=True):
        np.testing.assert_allclose(np.sort(dots(ax), axis=0), np.sort(frame.positions, axis=0), rtol=1e-6)
        assert ax.get_legend() is None
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["apple", "fig", "pear"]


@pytest.mark.parametrize(
    ("count", "columns", "shape"), [(1, None, (1, 1)), (16, None, (4, 4)), (5, 2, (3, 2)), (2, 9, (1, 2))]
)
def test_sizes(count: int, columns: int | None, shape: tuple[int, int]) -> None:
    axes = small_multiples(moments(count), columns=columns)
    assert axes[0].get_subplotspec().get_gridspec().get_geometry() == shape
    width, height = axes[0].figure.get_size_inches()
    assert width / shape[1] == pytest.approx(height / shape[0], rel=0.15)  # nearly squares


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


def test_frames_of_more_columns_are_seen_in_the_plane_of_the_last() -> None:
    frames = moments(3, d=5)
    last = dots(scatter(frames[-1].positions))
    axes = small_multiples(frames)
    np.testing.assert_allclose(dots(axes[2]), last, rtol=1e-5, atol=1e-4)
    spread = [np.sort(np.ptp(dots(ax), axis=0)) for ax in axes]
    np.testing.assert_allclose(spread[0] * 100, spread[2], rtol=1e-4)  # the same map at another scale, not turned


def test_a_key_of_many_groups_fits() -> None:
    figure = small_multiples([DATA], np.arange(N))[0].figure
    figure.canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.y0 < box.y1 <= figure.bbox.height


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_files(tmp_path, suffix: str, magic: bytes) -> None:
    path = tmp_path / f"frames{suffix}"
    small_multiples(moments(2), LABELS, path=path)
    assert path.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [path]


# -- one after the other ---------------------------------------------------------------------------------------------


def pictures(path) -> tuple[list[np.ndarray], list[int]]:
    with Image.open(path) as film:
        shown, milliseconds = [], []
        for at in range(film.n_frames):
            film.seek(at)
            shown.append(np.asarray(film.convert("RGB")))
            milliseconds.append(film.info["duration"])
        assert film.info["loop"] == 0  # for ever
    return shown, milliseconds


def box_of(picture: np.ndarray) -> tuple[int, int, int, int]:
    """The extent of what is drawn in colour."""
    rows, columns = np.nonzero(np.ptp(picture.astype(int), axis=2) > 60)
    return rows.min(), rows.max(), columns.min(), columns.max()


def test_frames_one_after_the_other(tmp_path) -> None:
    path = animation(squeezed(3), tmp_path / "film.gif", between=1, per_second=10)
    assert path == tmp_path / "film.gif"
    assert list(tmp_path.iterdir()) == [path]
    shown, milliseconds = pictures(path)
    assert len(shown) == 5  # three frames and two in between; the last is held
    assert milliseconds[:-1] == [100] * 4
    assert milliseconds[-1] == 1000
    assert shown[0].shape == (600, 570, 3)
    for picture in (shown[0], shown[2], shown[4]):  # each frame fills the picture, whatever its scale
        top, bottom, left, right = box_of(picture)
        assert max(bottom - top, right - left) > 0.8 * 570
    edges = [picture[:, :12] for picture in shown]  # the frame round the map does not move, nor by parts of a pixel
    assert (edges[0] != 255).any()
    assert all(np.array_equal(edge, edges[0]) for edge in edges)


def test_a_map_that_only_grows_stands_still(tmp_path) -> None:
    path = animation(moments(3), tmp_path / "film.gif", between=1, per_second=10)
    shown, milliseconds = pictures(path)  # nothing but the title changes
    assert milliseconds == [200, 200, 1000]
    assert all(np.array_equal(picture[40:], shown[0][40:]) for picture in shown)


def test_points_move_in_straight_lines(monkeypatch, tmp_path) -> None:
    seen = []
    drawn = Figure.savefig

    def watch(self, *args, **kwargs):
        seen.append((self.axes[0].get_title(), dots(self.axes[0]), self.axes[0].get_xlim()))
        return drawn(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", watch)
    first = np.array([[0.0, 0.0], [2.0, 1.0], [1.0, 2.0]])
    animation([first, 10 * first[[1, 0, 2]]], tmp_path / "film.gif", between=1, per_second=1)
    assert len(seen) == 3
    middle = np.array([[0.0, 0.0], [2.0, 1.0], [1.0, 2.0]]) - 1
    middle[:2] = (middle[0] + middle[1]) / 2
    np.testing.assert_allclose(np.sort(seen[1][1], axis=0), np.sort(middle, axis=0), atol=1e-12)
    assert len({limits for _, _, limits in seen}) == 1


def test_titles_and_key(monkeypatch, tmp_path) -> None:
    seen = []
    monkeypatch.setattr(
        "matplotlib.animation.PillowWriter.grab_frame",
        lambda self, **kwargs: seen.append((self.fig.axes[0].get_title(), len(self.fig.legends), len(self.fig.axes))),
    )
    monkeypatch.setattr("matplotlib.animation.PillowWriter.finish", lambda self: Path(self.outfile).touch())
    animation(moments(2), tmp_path / "film.gif", LABELS, between=0, per_second=1)
    assert seen == [("iteration 0", 1, 1), ("iteration 50", 1, 1)]
    seen.clear()
    animation(moments(2), tmp_path / "film.gif", values=DATA[:, 0], between=0, per_second=1)
    assert [axes for *_, axes in seen] == [2, 2]


def test_a_single_frame_and_points_in_one_place(tmp_path) -> None:
    shown, milliseconds = pictures(animation([np.ones((4, 2))], tmp_path / "film.gif", per_second=5))
    assert len(shown) == 1
    assert milliseconds == [1000]


def test_a_failed_film_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "film.gif"
    path.write_bytes(b"old")

    def full_disk(self, *args, **options) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full_disk)
    with pytest.raises(OSError, match="No space left"):
        animation(moments(2), path, between=0)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_settings_are_left_alone(tmp_path) -> None:
    before = dict(matplotlib.rcParams)
    animation(moments(2), tmp_path / "film.gif", between=0, per_second=1)
    small_multiples(moments(2))
    assert dict(matplotlib.rcParams) == before


def test_mp4_needs_ffmpeg(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("matplotlib.animation.FFMpegWriter.isAvailable", lambda: False)
    with pytest.raises(InputError, match=r"path must be a \.gif where the program ffmpeg is not found; got 'film.mp4'"):
        animation(moments(2), tmp_path / "film.mp4")
    monkeypatch.undo()
    from matplotlib.animation import FFMpegWriter

    if not FFMpegWriter.isAvailable():
        pytest.skip("ffmpeg is not installed")
    assert animation(moments(2), tmp_path / "film.mp4", between=0).read_bytes()[4:8] == b"ftyp"


# -- what is refused -------------------------------------------------------------------------------------------------

MAPS = {"a": DATA, "b": DATA[:, :2]}


@pytest.mark.parametrize(
    ("maps", "options", "message"),
    [
        (Frames(), {}, "maps must be frames, .* at least one; got none. Frames are kept by a fit with callbacks="),
        ({}, {}, "at least one; got none"),
        ([], {}, "at least one; got none"),
        (3, {}, "maps must be frames, maps, or a mapping of titles to maps"),
        ("DATA", {}, "maps must be frames, maps, or a mapping of titles to maps"),
        ({"a": DATA[:, :1]}, {}, r"maps\['a'\] must be of at least one row and two columns; got shape \(40, 1\)"),
        ([DATA, [[np.nan, 0.0]]], {}, r"maps\[1\] must be finite"),
        ([DATA, DATA[:9]], {"labels": LABELS}, r"maps\[1\] must be of 40 rows, like the first; got 9"),
        ([*moments(1), *moments(1, d=3)], {}, "maps must be frames of one fit; got different numbers of columns"),
        (MAPS, {"labels": LABELS[:9]}, r"labels must be of shape \(40,\)"),
        (MAPS, {"labels": LABELS, "values": DATA[:, 0]}, "values must be None with labels"),
        (MAPS, {"values": LABELS}, "values must be numbers"),
        (MAPS, {"values": [1.0]}, r"values must be of shape \(40,\)"),
        (MAPS, {"columns": 0}, "columns must be an integer >= 1"),
        (MAPS, {"path": "film.gif"}, "path must be a file name ending in .png, .svg, .pdf"),
    ],
)
def test_bad_arguments_of_small_multiples(maps, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        small_multiples(maps, **options)
    assert str(caught.value).startswith("plots.small_multiples: ")


@pytest.mark.parametrize(
    ("frames", "options", "message"),
    [
        (Frames(), {}, "frames must be frames, .* got none"),
        ([DATA, DATA[:9]], {}, r"frames\[1\] must be of 40 rows, like the first; got 9"),
        ([DATA], {"labels": LABELS[:9]}, r"labels must be of shape \(40,\)"),
        ([DATA], {"path": "film.png"}, "path must be a file name ending in .gif, .mp4; got 'film.png'"),
        ([DATA], {"path": None}, "path must be a path"),
        ([DATA], {"path": "nowhere/film.gif"}, "path must be in a folder that exists"),
        ([DATA], {"between": -1}, "between must be an integer >= 0"),
        ([DATA], {"per_second": 0}, "per_second must be an integer >= 1"),
    ],
)
def test_bad_arguments_of_animation(frames, options: dict, message: str, tmp_path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        animation(frames, **{"path": tmp_path / "film.gif", **options})
    assert str(caught.value).startswith("plots.animation: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("draw", [small_multiples, lambda maps: animation(maps, "film.gif")])
def test_without_matplotlib_it_says_what_to_install(monkeypatch, draw) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'nearfar\[plot\]'"):
        draw([DATA])


def test_progress_is_all_that_frames_need() -> None:
    frames = Frames(every=2)
    state = type("State", (), {"X": np.arange(6.0).reshape(3, 2)})()
    for epoch in range(1, 7):
        frames(Progress(epoch, 6, 1.0 / epoch, 0.1, state))
    assert [frame.iteration for frame in frames] == [1, 3, 5, 6]
