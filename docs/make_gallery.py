"""Draw the galleries: ``python docs/make_gallery.py`` writes docs/guide/gallery.md and the pictures of both galleries.

The page of maps shows every map of the library on one data set, with the line of code for each. To add a method, add a
line to ``ROWS``. ``python docs/make_gallery.py NAME ...`` redraws only the named methods.

The first page, docs/index.md, shows what comes out: its code is run, and what it draws is kept in docs/images/front.
``python docs/make_gallery.py front`` redraws only these. The picture of a page needs Chromium with its driver, and
selenium. All files are committed.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib
import numpy as np
from make_beside import CASES, DRAWS
from make_page_pictures import READY, browser, wait
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import nearfar as nf

HERE = Path(__file__).parent
PAGE, IMAGES = HERE / "guide" / "gallery.md", HERE / "images" / "gallery"
FRONT, FRONT_IMAGES = HERE / "index.md", HERE / "images" / "front"


@dataclass(frozen=True)
class Row:
    """A method: its name, the code that maps X, and what the map shows."""

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
    Row("ws-SNE", "nf.WSSNE(random_state=0).fit_transform(X)", "t-SNE with more space around hubs."),
    Row("UMAP", "nf.UMAP(random_state=0).fit_transform(X)", "Groups of their own, close together inside."),
    Row("t-ASNE", "nf.TASNE(random_state=0).fit_transform(X)", "t-SNE with normalisation per point."),
    Row(
        "inhomogeneous t-SNE",
        "nf.InhomogeneousTSNE(random_state=0).fit_transform(X)",
        "Each point learns the weight of its tail.",
    ),
    Row(
        "HSSNE", "nf.HSSNE(alpha=0.5, random_state=0).fit_transform(X)", "Kernel tails between those of SSNE and t-SNE."
    ),
    Row("SSNE", "nf.SSNE(random_state=0).fit_transform(X)", "Light-tailed kernel: crowding in the centre."),
    Row("SNE", "nf.ASNE(random_state=0).fit_transform(X)", "The original, with normalisation per point."),
    Row("NeRV", "nf.NeRV(lam=0.5, random_state=0).fit_transform(X)", "Penalises false and missed neighbours equally."),
    Row(
        "t-NeRV",
        'nf.NeighborEmbedding(divergence="nerv", random_state=0).fit_transform(X)',
        "NeRV's divergence with t-SNE's kernel.",
    ),
    Row("JSE", "nf.JSE(kappa=0.5, random_state=0).fit_transform(X)", "The same compromise, with bounded cost."),
    Row(
        "t-JSE",
        'nf.NeighborEmbedding(divergence="jensen-shannon", random_state=0).fit_transform(X)',
        "JSE's divergence with t-SNE's kernel.",
    ),
    Row(
        "reverse KL",
        'nf.NeighborEmbedding(divergence="reverse-kl", random_state=0).fit_transform(X)',
        "Penalises false neighbours only: groups are split, but not mixed.",
    ),
    Row("metric MDS", "nf.MDS().fit_transform(X)", "Preserves distances, mainly the large ones."),
    Row(
        "SSTRESS",
        'nf.MDS(stress="sstress").fit_transform(X)',
        "Preserves squared distances, with even more weight on large ones.",
    ),
    Row("Sammon", 'nf.MDS(stress="sammon").fit_transform(X)', "Preserves distances relative to their size."),
    Row("classical MDS", "nf.classical_mds(X)", "Preserves scalar products; equals PCA here."),
    Row("PCA", "PCA(2).fit_transform(X)", "scikit-learn's, for comparison."),
]

HEAD = """# Gallery

All maps of nearfar on the {n:,} handwritten digits of scikit-learn, {p} pixels each. Rows have the code, and the area
under the R_NX curve ([evaluating maps](judging-maps.md)): 1 if all neighbours are preserved, 0 at chance. The methods:
[maps](maps.md), [multidimensional scaling](mds.md). On other data the ranking differs ([benchmarks](../benchmarks.md)).

```python
>>> import nearfar as nf
>>> from sklearn.datasets import load_digits
>>> from sklearn.decomposition import PCA
>>> X, digit = load_digits(return_X_y=True)
>>> X.shape
({n}, {p})

```

| map | method and code | area |
|---|---|---|
"""
ROW = "| ![{0.name}](../images/gallery/{0.image}) | **{0.name}**<br>{0.text}<br>`{0.code}` | {1} |\n"
MANY = """
## Many groups

`nf.plots.scatter(Y, topics, title="60 topics")`: each has a colour by its place and a name where it hides least; noise
(-1) is grey. Beside datamapplot, both at their defaults, but without its glow of many groups, which takes gigabytes:

{beside}
This page is generated by `python docs/make_gallery.py`.
"""


def save(figure: Figure, dpi: int, name: str) -> None:
    """Write a small file; dots are the finest detail of these plots."""
    raw = io.BytesIO()
    figure.savefig(raw, format="png", dpi=dpi, facecolor="white")
    Image.open(raw).convert("RGB").save(IMAGES / name, quality=70, method=6)


def draw_map(Y: np.ndarray, labels: np.ndarray, name: str) -> None:
    figure = Figure(figsize=(5.5, 5.5))
    FigureCanvasAgg(figure)
    nf.plots.scatter(Y, labels, names="none", ax=figure.add_axes((0.01, 0.01, 0.98, 0.98)))
    save(figure, 44, name)


def examples() -> dict[str, str]:
    """Return the code of each example of the first page, by the name of its picture."""
    blocks = re.split(r"^:::\{container\} shown\n", FRONT.read_text("utf-8"), flags=re.MULTILINE)
    names = ["", *(re.search(r"\]\(images/front/(\S+)\)", block)[1] for block in blocks[1:])]  # first the imports
    code = ["\n".join(re.findall(r"^>>> (.*)", block, re.MULTILINE)) for block in blocks]
    return dict(zip(names, code, strict=True))


def photograph(page: Path, target: Path) -> None:
    """Take a picture of a page in a browser."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, browser(Path(folder)) as driver:
        driver.get(page.as_uri())
        wait(driver, READY)
        time.sleep(1.5)  # until all is drawn
        driver.save_screenshot(str(target))


def draw_front() -> None:
    """Run the code of the first page as it stands; plots get a small figure, whose letters can be read on the page."""
    scatter, side_by_side = nf.plots.scatter, nf.plots.small_multiples

    def small(*given: Any, path: str, **named: Any) -> Any:
        figure = Figure(figsize=(4.2, 3.4), dpi=150, layout="constrained")
        axes = scatter(*given, ax=figure.add_subplot(), **named)
        figure.savefig(path)
        return axes

    def several(*given: Any, path: str, **named: Any) -> Any:
        axes = side_by_side(*given, **named)
        axes[0].figure.set(size_inches=(4.6, 4.2), dpi=150)
        axes[0].figure.savefig(path)
        return axes

    pyplot.close("all")  # the first example shall not draw into what was drawn before
    FRONT_IMAGES.mkdir(parents=True, exist_ok=True)
    names: dict[str, Any] = {}
    start, settings = Path.cwd(), {"figure.figsize": (6, 5.2), "savefig.dpi": 150, "font.size": 8}
    patches = mock.patch.multiple(nf.plots, scatter=small, small_multiples=several)
    with tempfile.TemporaryDirectory() as folder, matplotlib.rc_context(settings), patches:
        os.chdir(folder)
        for name, code in examples().items():
            exec(code, names)
            if (page := Path(folder, name).with_suffix(".html")).exists():
                photograph(page, page.with_suffix(".png"))
            if name:
                picture = (
                    Image.open(name).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
                )
                picture.save(FRONT_IMAGES / name, optimize=True)
        os.chdir(start)


def known_areas() -> dict[str, str]:
    """Return the areas on the current page, by image."""
    text = PAGE.read_text("utf-8") if PAGE.exists() else ""
    return dict(re.findall(r"gallery/(\S+\.webp)\) .*\| ([\d.]+) \|$", text, re.MULTILINE))


def beside() -> str:
    """Return a table of the pictures of make_beside.py, a row for each map."""
    heads = [" | ".join(DRAWS), " | ".join("---" for _ in DRAWS)]
    rows = [
        " | ".join(f"![{key}-{name}](../images/beside/{key}-{name}.webp)" for name in DRAWS)
        for key, _ in sorted(CASES.items(), key=lambda item: (-item[1].groups, item[1].points))
    ]
    return "".join(f"| {line} |\n" for line in [*heads, *rows])


def main(names: list[str]) -> None:
    if unknown := set(names) - {row.name for row in ROWS} - {"front"}:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}")
    X, digit = load_digits(return_X_y=True)
    IMAGES.mkdir(parents=True, exist_ok=True)
    areas = known_areas()
    for row in ROWS:
        if not names or row.name in names:
            Y = row.draw(X)
            draw_map(Y, digit, row.image)
            areas[row.image] = f"{nf.evaluate.neighborhoods(X, Y).auc:.3f}"
    if not names or "front" in names:
        draw_front()
    rows = "".join(ROW.format(row, areas[row.image]) for row in ROWS)
    more = MANY.replace("{beside}", beside())
    PAGE.write_text(HEAD.format(n=X.shape[0], p=X.shape[1]) + rows + more, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
