"""The map page of 10^4, 10^5 and 10^6 points: size of the file, time to make it, first picture and time of a frame.

    python benchmarks/map_page.py
    python benchmarks/map_page.py --sizes 10000 --repeats 1

The browser is headless Chromium with its driver (Debian: chromium, chromium-driver), which draws WebGL in software: a
graphics card is faster. Vectors have 16 components and 300 groups; positions keep the groups and little within them.
Ids are words with numbers, and two columns go with them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from _common import ResultFile, say, timed

KEYS = ("n",)
WORDS = np.array(["alpha", "beta", "gamma", "delta", "omega", "sigma", "kappa"])
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
    *("--window-size=1300,900", "--screen-info={1600x1200}"),
)
ZOOM = """const done = arguments[0], plot = nearfarMap.plot, begin = performance.now();
let left = 10;
const next = () => {
  if (!left--) return done((performance.now() - begin) / 10);
  plot.subscribe("draw", next, 1);
  nearfarMap.move(0.01, 0, 0.97);
};
next();"""


def points(n: int) -> tuple[nf.Embedding, Any, dict[str, Any]]:
    """Return vectors of 300 groups with ids, positions and metadata."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 300, n)
    X = (rng.normal(size=(300, 16))[group] * 2 + rng.normal(size=(n, 16))).astype(np.float32)
    ids = [f"{word}{i}" for i, word in enumerate(WORDS[rng.integers(0, len(WORDS), n)].tolist())]
    metadata = {"group": [f"group {g % 30}" for g in group.tolist()], "value": X[:, 0].tolist()}
    places = rng.uniform(-60, 60, (300, 2))[group]
    return nf.Embedding(X, ids), places + X @ rng.normal(size=(16, 2)) / 4, metadata


def looked_at(file: Path) -> dict[str, float]:
    """Return when Chromium had drawn the points of a page, when all was read, and the time of a frame."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(120)
        driver.get(file.as_uri())
        end = time.monotonic() + 120
        while time.monotonic() < end:
            facts = driver.execute_script("return {...document.documentElement.dataset}")
            if "ready" in facts or "failed" in facts:
                break
            time.sleep(0.1)
        if "failed" in facts:
            raise RuntimeError(facts["failed"])
        frame = driver.execute_async_script(ZOOM)
        return {"first": float(facts["firstPicture"]) / 1e3, "ready": float(facts["ready"]) / 1e3, "frame": frame / 1e3}
    finally:
        driver.quit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    results = ResultFile("map_page", KEYS)
    for n in args.sizes:
        emb, Y, metadata = points(n)
        page, making = timed(lambda emb=emb, Y=Y, m=metadata: emb.map(Y, metadata=m, metric="euclidean"))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "map.html")
            _, writing = timed(lambda page=page, file=file: page.save(file))
            runs = [looked_at(file) for _ in range(args.repeats)]
            seen = {name: [round(run[name], 3) for run in runs] for name in runs[0]}
            row = {"n": n, "megabytes": file.stat().st_size / 1e6, "making": making, "writing": writing, **seen}
            results.add(row)
            say(f"{row}")


if __name__ == "__main__":
    main()
