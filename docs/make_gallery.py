"""Draw the gallery: ``python docs/make_gallery.py`` writes docs/guide/gallery.md, and pictures to docs/images/gallery.

Every map of the library on one data set, with the line of code that draws it. The files are committed; a method enters
by a line in ``ROWS``. ``python docs/make_gallery.py NAME ...`` draws these again and leaves the pictures of the others.
"""

from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import nearfar as nf

HERE = Path(__file__).parent
PAGE, IMAGES = HERE / "guide" / "gallery.md", HERE / "images" / "gallery"


@dataclass(frozen=True)
class Row:
    """A method: its name, the code that gives the map of X, and what is seen."""

    name: str
    code: str
    text: str

    @property
    def image(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") + ".webp"

    def draw(self, X: np.ndarray) -> np.ndarray:
        return eval(self.code, {"nf": nf, "PCA": PCA, "X": X})  # one of the lines below


ROWS = [
    Row("t-SNE", "nf.TSNE(random_state=0).fit_transform(X)", "Gaps between groups."),
    Row("ws-SNE", "nf.WSSNE(random_state=0).fit_transform(X)", "t-SNE in which hubs take up more room."),
    Row("t-ASNE", "nf.TASNE(random_state=0).fit_transform(X)", "t-SNE with every point normalised by itself."),
    Row(
        "inhomogeneous t-SNE",
        "nf.InhomogeneousTSNE(random_state=0).fit_transform(X)",
        "Every point learns how long its tail is.",
    ),
    Row("HSSNE", "nf.HSSNE(alpha=0.5, random_state=0).fit_transform(X)", "Tails between SSNE's and t-SNE's."),
    Row("SSNE", "nf.SSNE(random_state=0).fit_transform(X)", "Light tails: crowds in the middle."),
    Row("SNE", "nf.ASNE(random_state=0).fit_transform(X)", "The original, each point by itself."),
    Row("NeRV", "nf.NeRV(lam=0.5, random_state=0).fit_transform(X)", "False neighbours cost as much as missed ones."),
    Row(
        "t-NeRV",
        'nf.NeighborEmbedding(divergence="nerv", random_state=0).fit_transform(X)',
        "NeRV's cost, t-SNE's kernel.",
    ),
    Row(
        "JSE", "nf.JSE(kappa=0.5, random_state=0).fit_transform(X)", "The same compromise, and no cost is without end."
    ),
    Row(
        "t-JSE",
        'nf.NeighborEmbedding(divergence="jensen-shannon", random_state=0).fit_transform(X)',
        "JSE's cost, t-SNE's kernel.",
    ),
    Row(
        "reverse KL",
        'nf.NeighborEmbedding(divergence="reverse-kl", random_state=0).fit_transform(X)',
        "Only false neighbours cost: groups are torn, none are mixed.",
    ),
    Row("metric MDS", "nf.MDS().fit_transform(X)", "Distances, the large ones above all."),
    Row("SSTRESS", 'nf.MDS(stress="sstress").fit_transform(X)', "Squared distances: the large ones even more."),
    Row("Sammon", 'nf.MDS(stress="sammon").fit_transform(X)', "Distances, in proportion."),
    Row("classical MDS", "nf.classical_mds(X)", "Scalar products; here the same as PCA."),
    Row("PCA", "PCA(2).fit_transform(X)", "scikit-learn's, to compare with."),
]

HEAD = """# Gallery

Every map that nearfar draws, of one data set: the {n:,} handwritten digits of scikit-learn, {p} pixels each, one colour
per digit. Beside each is the line that draws it, and the area under its R_NX curve ([judging maps](judging-maps.md)): 1
if all neighbours of all sizes are kept, 0 for what chance keeps. What the methods are is told in [maps](maps.md) and
[distances](mds.md); on other data they rank otherwise, see the [benchmarks](../benchmarks.md).

```python
>>> import nearfar as nf
>>> from sklearn.datasets import load_digits
>>> from sklearn.decomposition import PCA
>>> X, digit = load_digits(return_X_y=True)
>>> X.shape
({n}, {p})

```

| map | how | area |
|---|---|---|
"""
ROW = "| ![{0.name}](../images/gallery/{0.image}) | **{0.name}**<br>{0.text}<br>`{0.code}` | {1} |\n"
FRAMES = """
## How a map comes about

The first map again, while it was found: 250 iterations in which neighbours are drawn together twelve times as strongly,
then 500 in which the groups spread. Each moment is drawn at its own scale; the first is three hundred thousand times
smaller than the last.

![t-SNE of the digits, at every hundredth iteration](../images/gallery/frames.webp)

```python
frames = nf.callbacks.Frames(every=100)
nf.TSNE(callbacks=[frames], random_state=0).fit(X)
nf.plots.small_multiples(frames, labels=digit, path="frames.png")
nf.plots.animation(frames, "film.gif", labels=digit)
```

`nf.plots.small_multiples` takes maps by name too, `{"t-SNE": first, "PCA": second}`.

The page is written by `python docs/make_gallery.py`.
"""


def save(figure: Figure, dpi: int, name: str) -> None:
    """Write a small file: nothing on these pictures is finer than a dot."""
    raw = io.BytesIO()
    figure.savefig(raw, format="png", dpi=dpi, facecolor="white")
    Image.open(raw).convert("RGB").save(IMAGES / name, quality=70, method=6)


def draw_map(Y: np.ndarray, labels: np.ndarray, name: str) -> None:
    figure = Figure(figsize=(5.5, 5.5))
    FigureCanvasAgg(figure)
    nf.plots.scatter(Y, labels, names="none", ax=figure.add_axes((0.01, 0.01, 0.98, 0.98)))
    save(figure, 44, name)


def draw_frames(X: np.ndarray, labels: np.ndarray) -> None:
    frames = nf.callbacks.Frames(every=100)
    nf.TSNE(callbacks=[frames], random_state=0).fit(X)
    save(nf.plots.small_multiples(frames, labels)[0].figure, 75, "frames.webp")


def known_areas() -> dict[str, str]:
    """The areas on the page as it is, by image."""
    text = PAGE.read_text("utf-8") if PAGE.exists() else ""
    return dict(re.findall(r"gallery/(\S+\.webp)\) .*\| ([\d.]+) \|$", text, re.MULTILINE))


def main(names: list[str]) -> None:
    if unknown := set(names) - {row.name for row in ROWS} - {"frames"}:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}")
    X, digit = load_digits(return_X_y=True)
    IMAGES.mkdir(parents=True, exist_ok=True)
    areas = known_areas()
    for row in ROWS:
        if not names or row.name in names:
            Y = row.draw(X)
            draw_map(Y, digit, row.image)
            areas[row.image] = f"{nf.evaluate.neighborhoods(X, Y).auc:.3f}"
    if not names or "frames" in names:
        draw_frames(X, digit)
    rows = "".join(ROW.format(row, areas[row.image]) for row in ROWS)
    PAGE.write_text(HEAD.format(n=X.shape[0], p=X.shape[1]) + rows + FRAMES, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
