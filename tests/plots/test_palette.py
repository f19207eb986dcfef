"""Colours: seen on what is behind them, told apart, and by place where there are many."""

import numpy as np
import pytest

from nearfar.plots.palette import BACKS, COLOURS, GREY, LIGHT_END, SCALE, colours_of_groups, contrast, oklab, rgb_of


def apart(colours: np.ndarray) -> np.ndarray:
    """Return the distances of colours in Oklab, of which 0.02 is seen."""
    lab = oklab(colours)
    return np.linalg.norm(lab[:, None] - lab, axis=2) + 9 * np.eye(len(lab))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("n", [2, 10, 12, 13, 60, pytest.param(120, marks=pytest.mark.slow)])
def test_colours_are_seen_and_told_apart(n: int, dark: bool) -> None:
    centres = np.random.default_rng(n).normal(size=(n, 2))
    colours = colours_of_groups(centres, dark=dark)
    assert colours.shape == (n, 3)
    assert contrast(colours, BACKS[dark]).min() >= 3
    assert apart(colours).min() > 0.05
    away = np.linalg.norm(centres[:, None] - centres, axis=2)
    nearest = np.argsort(away, axis=1)[:, 1:4]
    assert np.take_along_axis(apart(colours), nearest, axis=1).min() > 0.075
    assert np.linalg.norm(oklab(colours) - oklab(rgb_of(GREY)), axis=1).min() > 0.08
    assert np.hypot(*oklab(colours)[:, 1:].T).min() > 0.04  # none is a grey


def test_few_groups_have_the_same_colours_everywhere() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 5, 12):
        found = colours_of_groups(rng.normal(size=(n, 2)))
        np.testing.assert_array_equal(found, [rgb_of(colour) for colour in COLOURS[:n]])
    assert colours_of_groups(np.empty((0, 2))).shape == (0, 3)


def test_the_hue_goes_by_the_direction_on_the_map() -> None:
    turn = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    lab = oklab(colours_of_groups(np.column_stack([np.cos(turn), np.sin(turn)])))
    hues = np.exp(1j * np.arctan2(lab[:, 2], lab[:, 1]))
    steps = abs(np.angle(hues * np.roll(hues, 1).conj()))
    assert np.median(steps) < np.pi / 4  # by chance it is twice that
    mean = np.mean(hues * np.exp(-1j * turn))  # the turn of the hue follows that of the place
    assert abs(mean) > 0.6  # by chance 0.1


def test_the_scale_of_values_has_no_grey_and_is_seen() -> None:
    colours = np.array([rgb_of(colour) for colour in SCALE[:LIGHT_END]])
    assert np.hypot(*oklab(colours)[:, 1:].T).min() > 0.07
    assert (np.diff(oklab(colours)[:, 0]) > 0).all()
