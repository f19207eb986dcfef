"""Draw the same maps by nearfar and by datamapplot: ``python docs/make_beside.py`` writes docs/images/beside.

Each picture has at its head the package that drew it and its version; both draw at their defaults, datamapplot with the
fonts of the system. It is told of a font that has Chinese letters, and draws more than ten groups without its glow: of
sixty that takes more than 12 GB of memory. Needs datamapplot, whose font is Roboto, and Noto Sans CJK.
``python docs/make_beside.py 60-nearfar`` draws only this picture. The files are committed.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure
from PIL import Image

import nearfar as nf

IMAGES = Path(__file__).parent / "images" / "beside"
NOISE = 0.1
ENGLISH = ["river", "harbour", "forest", "copper", "orchid", "winter", "signal", "meadow", "island", "ember"]
CHINESE = ["河流", "海港", "森林", "红铜", "兰花", "冬天", "信号", "草地", "岛屿", "余烬"]


@dataclass(frozen=True)
class Case:
    """A map of planted groups: how many points and groups, what these are named with, and the height of its picture."""

    points: int
    groups: int
    words: Sequence[str]
    height: int

    @property
    def title(self) -> str:
        return f"{self.groups} 个主题" if self.words is CHINESE else f"{self.groups} topics"

    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the map, a tenth of its points noise (-1), and labels of one to three words and a number."""
        rng = np.random.default_rng(1)
        centres = rng.normal(size=(self.groups, 12)) * 2.2
        group = rng.choice(self.groups, self.points, p=rng.dirichlet(np.full(self.groups, 2.5)))
        X = centres[group] + rng.normal(size=(self.points, 12))
        lost = rng.random(self.points) < NOISE
        X[lost] = 2.4 * rng.normal(size=(lost.sum(), 12))
        picked = [rng.choice(self.words, rng.integers(1, 4), replace=False) for _ in range(self.groups)]
        names = [" ".join([*words, str(number)]) for number, words in enumerate(picked)]
        return nf.TSNE(random_state=0).fit(X).embedding_, np.array([*names, "-1"])[np.where(lost, -1, group)]


CASES = {
    "10": Case(5000, 10, ENGLISH, 620),
    "60": Case(5000, 60, ENGLISH, 900),
    "100000": Case(100_000, 60, ENGLISH, 900),
    "chinese": Case(5000, 12, CHINESE, 620),
}


def ours(Y: np.ndarray, labels: np.ndarray, case: Case) -> Figure:
    subtitle = f"{case.points:,} points, nearfar {nf.__version__}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "map.png")
        return nf.plots.scatter(Y, labels, title=case.title, subtitle=subtitle, path=path).figure


def theirs(Y: np.ndarray, labels: np.ndarray, case: Case) -> Figure:
    import datamapplot

    named = np.where(labels == "-1", "Unlabelled", labels)  # which it draws in grey
    subtitle = f"{case.points:,} points, datamapplot {version('datamapplot')}"
    more: dict[str, Any] = {"font_family": "Noto Sans CJK SC"} if case.words is CHINESE else {}
    more |= {"title": case.title, "sub_title": subtitle, "add_glow": case.groups <= 10}
    return datamapplot.create_plot(Y, named, use_system_fonts=True, **more)[0]


DRAWS: dict[str, Callable[[np.ndarray, np.ndarray, Case], Figure]] = {"nearfar": ours, "datamapplot": theirs}


def main(pictures: list[str]) -> None:
    matplotlib.use("Agg")
    IMAGES.mkdir(parents=True, exist_ok=True)
    for key, case in CASES.items():
        asked = [name for name in DRAWS if not pictures or f"{key}-{name}" in pictures]
        Y, labels = case.drawn() if asked else (None, None)
        for name in asked:
            raw = io.BytesIO()
            figure = DRAWS[name](Y, labels, case)
            figure.savefig(raw, format="png", dpi=150, facecolor="white", bbox_inches="tight")
            pyplot.close("all")  # theirs take much memory
            picture = Image.open(raw).convert("RGB")
            size = (round(picture.width * case.height / picture.height), case.height)
            target = IMAGES / f"{key}-{name}.webp"
            picture.resize(size, Image.Resampling.LANCZOS).save(target, quality=70, method=6)


if __name__ == "__main__":
    main(sys.argv[1:])
