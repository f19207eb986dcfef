"""Pictures: what is drawn, in which colours, files whole or not at all."""

from __future__ import annotations

import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.colors import to_rgba  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

import nearfar as nf  # noqa: E402
from nearfar.errors import InputError, MissingDependencyError  # noqa: E402
from nearfar.plots import scatter  # noqa: E402


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


def test_the_smallest_of_many_groups_are_grey() -> None:
    labels = np.concatenate([np.repeat(np.arange(21), 4), np.arange(100, 110)])
    ax = scatter(np.random.default_rng(0).normal(size=(94, 2)), labels)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[-1] == "10 others"
    assert len(texts) == 22
    assert len(ax.collections) == 4  # grey, and three markers
    assert sum(len(c.get_offsets()) for c in ax.collections) == 94


def test_labels_of_several_types() -> None:
    ax = scatter(np.eye(3, 2), np.array([None, "a", 1], dtype=object))
    assert sorted(text.get_text() for text in ax.get_legend().get_texts()) == ["1", "None", "a"]


def test_floats_are_values_and_unknown_ones_grey() -> None:
    values = np.array([0.5, 2.5, np.nan, 1.0])
    ax = scatter(np.random.default_rng(0).normal(size=(4, 2)), values)
    assert ax.get_legend() is None
    assert len(ax.figure.axes) == 2  # the colour bar
    np.testing.assert_array_equal(ax.collections[1].get_array(), [0.5, 2.5, 1.0])
    only_unknown = scatter(np.eye(2), [np.nan, np.nan])
    assert len(only_unknown.collections) == 1


def test_many_dots_are_small_transparent_and_a_bitmap() -> None:
    few, many = scatter(np.random.default_rng(0).normal(size=(100, 2))), scatter(np.zeros((200_000, 2)))
    assert few.collections[0].get_sizes()[0] > 10 * many.collections[0].get_sizes()[0]
    assert few.collections[0].get_alpha() > many.collections[0].get_alpha() > 0.1
    assert many.collections[0].get_rasterized()
    assert not few.collections[0].get_rasterized()


def test_draws_on_given_axes_and_leaves_settings_alone() -> None:
    before = dict(matplotlib.rcParams)
    ax = Figure().add_subplot()
    assert scatter(np.eye(3), ax=ax) is ax
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
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


def test_an_embedding_can_be_drawn() -> None:
    relation = nf.Relation.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    model = nf.EDRep(n_components=3, random_state=0).fit(relation.random_walk(2))
    assert dots(scatter(model.vectors_, list("abcd"))).shape == (4, 2)


def test_equal_vectors_can_be_drawn(tmp_path) -> None:
    scatter(np.ones((5, 4)), path=tmp_path / "same.png")
    assert (tmp_path / "same.png").stat().st_size > 100


@pytest.mark.parametrize(
    ("vectors", "options", "message"),
    [
        (np.ones(3), {}, "two-dimensional"),
        (np.ones((3, 1)), {}, "two columns"),
        (np.ones((0, 2)), {}, "at least one row"),
        ([[np.inf, 0.0]], {}, "finite"),
        (np.ones((3, 2)), {"labels": [1, 2]}, r"labels must be of shape \(3,\)"),
        (np.ones((3, 2)), {"path": "a.gif"}, "path must be a file name ending in .png"),
        (np.ones((3, 2)), {"path": 3}, "path must be a path"),
    ],
)
def test_bad_arguments(vectors, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        scatter(vectors, **options)
    assert str(caught.value).startswith("plots.scatter: ")


def test_without_matplotlib_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'nearfar\[plot\]'"):
        scatter(np.eye(2))
