"""Draw the same maps by nearfar and by datamapplot: ``python docs/make_beside.py`` writes docs/images/beside.

Each picture has at its head the package that drew it and its version; both draw at their defaults, datamapplot with the
fonts of the system. Needs datamapplot, whose font is Roboto, and font-source-sans-pro. ``python docs/make_beside.py
nearfar`` draws only ours. The files are committed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import nearfar as nf

IMAGES = Path(__file__).parent / "images" / "beside"
POINTS, GROUPS, NOISE = 5000, (10,), 0.1
WORDS = [
    "river",
    "harbour",
    "forest",
    "copper",
    "orchid",
    "winter",
    "signal",
    "meadow",
    "island",
    "ember",
    "canyon",
    "lantern",
]
HEIGHT = 620  # pixels


def planted(groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a map of planted groups, a tenth of the points noise (-1), and names of one to three words."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(groups, 12)) * 2.2
    group = rng.choice(groups, POINTS, p=rng.dirichlet(np.full(groups, 2.5)))
    X = centres[group] + rng.normal(size=(POINTS, 12))
    lost = rng.random(POINTS) < NOISE
    X[lost] = 2.4 * rng.normal(size=(lost.sum(), 12))
    names = [" ".join(rng.choice(WORDS, rng.integers(1, 4), replace=False)) + f" {k}" for k in range(groups)]
    return nf.TSNE(random_state=0).fit(X).embedding_, np.array([*names, "-1"])[np.where(lost, -1, group)]


def ours(Y: np.ndarray, labels: np.ndarray, title: str) -> Figure:
    figure = Figure(figsize=(10, 9), dpi=150, layout="constrained")
    subtitle = f"nearfar {nf.__version__}"
    nf.plots.scatter(Y, labels, title=title, subtitle=subtitle, ax=figure.add_subplot())
    return figure


def theirs(Y: np.ndarray, labels: np.ndarray, title: str) -> Figure:
    import datamapplot

    named = np.where(labels == "-1", "Unlabelled", labels)  # which it draws in grey
    subtitle = f"datamapplot {version('datamapplot')}"
    figure, _ = datamapplot.create_plot(Y, named, title=title, sub_title=subtitle, use_system_fonts=True)
    return figure


DRAWS: dict[str, Callable[[np.ndarray, np.ndarray, str], Figure]] = {"nearfar": ours, "datamapplot": theirs}


def main(names: list[str]) -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(parents=True, exist_ok=True)
    for groups in GROUPS:
        Y, labels = planted(groups)
        for name in names or DRAWS:
            raw = io.BytesIO()
            figure = DRAWS[name](Y, labels, f"{groups} groups")
            figure.savefig(raw, format="png", dpi=150, facecolor="white", bbox_inches="tight")
            picture = Image.open(raw).convert("RGB")
            size = (round(picture.width * HEIGHT / picture.height), HEIGHT)
            picture.resize(size, Image.Resampling.LANCZOS).save(IMAGES / f"{groups}-{name}.webp", quality=72, method=6)


if __name__ == "__main__":
    main(sys.argv[1:])
