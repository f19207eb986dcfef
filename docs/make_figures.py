"""Draw the picture of the idea page: ``python docs/make_figures.py`` writes docs/images/near-and-far.svg.

The file is committed; run this again after a change here. The same script gives the same file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, FancyArrowPatch

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#9AA0A6"
ME = 4
NEAR = (1, 2, 7)
CENTRES = np.array([[-1.5, 0.6], [1.7, 1.1], [1.0, -1.6]])


def objects() -> tuple[np.ndarray, np.ndarray]:
    """Return positions, shape (36, 2), of three loose groups, and the group of each."""
    rng = np.random.default_rng(5)
    groups = np.repeat([0, 1, 2], 12)
    spread = np.array([[0.55, 0.40], [0.45, 0.60], [0.60, 0.35]])
    return CENTRES[groups] + rng.normal(size=(36, 2)) * spread[groups], groups


def arrow(ax: Axes, start: np.ndarray, end: np.ndarray, colour: str, width: float) -> None:
    ax.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=colour, lw=width, shrinkA=4, shrinkB=4)
    )


def frame(ax: Axes, title: str) -> None:
    ax.set(xlim=(-3.1, 3.3), ylim=(-2.7, 2.7), xticks=[], yticks=[], aspect="equal")
    ax.set_title(title, fontsize=11)
    for spine in ax.spines.values():
        spine.set_visible(False)


def draw_near(ax: Axes, points: np.ndarray) -> None:
    """Draw the attraction of one object by its observed relations."""
    frame(ax, "near field: observed relations attract")
    ax.scatter(*points.T, s=16, color=GREY)
    for other in NEAR:
        arrow(ax, points[ME], points[other], GREEN, 1.6)
    ax.scatter(*points[list(NEAR)].T, s=26, color=GREEN)
    ax.scatter(*points[ME], s=48, color=ORANGE, zorder=3)


def draw_all_pairs(ax: Axes, points: np.ndarray) -> None:
    """Draw the repulsion by all others: one term each."""
    frame(ax, "far field: all other objects repel")
    for other in range(len(points)):
        if other != ME:
            ax.plot(*zip(points[ME], points[other], strict=True), color=BLUE, lw=0.5, alpha=0.45)
    ax.scatter(*points.T, s=16, color=GREY, zorder=2)
    away = points[ME] - points.mean(axis=0)
    arrow(ax, points[ME], points[ME] + 1.1 * away / np.linalg.norm(away), BLUE, 2.2)
    ax.scatter(*points[ME], s=48, color=ORANGE, zorder=3)


def draw_summary(ax: Axes, points: np.ndarray, groups: np.ndarray) -> None:
    """Draw the approximate repulsion: a mean and a covariance per group."""
    frame(ax, "approximation: one Gaussian per group")
    for group in range(3):
        members = points[groups == group]
        mean, covariance = members.mean(axis=0), np.cov(members.T)
        values, vectors = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        for scale, alpha in ((2, 0.16), (3.6, 0.10)):
            width, height = scale * np.sqrt(values[::-1])
            ax.add_patch(Ellipse(mean, width, height, angle=angle, color=BLUE, alpha=alpha, lw=0))
        ax.plot(*zip(points[ME], mean, strict=True), color=BLUE, lw=1.4)
        ax.scatter(*mean, s=22, marker="x", color=BLUE)
    away = points[ME] - points.mean(axis=0)
    arrow(ax, points[ME], points[ME] + 1.1 * away / np.linalg.norm(away), BLUE, 2.2)
    ax.scatter(*points[ME], s=48, color=ORANGE, zorder=3)


def main() -> None:
    rcParams["svg.hashsalt"] = "nearfar"  # reproducible element names
    rcParams["svg.fonttype"] = "path"
    figure = Figure(figsize=(11.5, 3.6), layout="constrained")
    FigureCanvasSVG(figure)
    points, groups = objects()
    left, middle, right = figure.subplots(1, 3)
    draw_near(left, points)
    draw_all_pairs(middle, points)
    draw_summary(right, points, groups)
    path = Path(__file__).parent / "images" / "near-and-far.svg"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")


if __name__ == "__main__":
    main()
