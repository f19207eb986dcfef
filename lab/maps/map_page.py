"""The map page of 10^4, 10^5 and 10^6 points: size of the file, time to make it, first picture and time of a frame.

The browser is headless Chromium with its driver (Debian: chromium, chromium-driver), which draws WebGL in software: a
graphics card is faster. Vectors have 16 components and 300 groups; positions keep the groups and little within them.
Ids are words with numbers, and two columns go with them.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import timed
from lab.records import Record, pick

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


def run(file: ResultFile, given: Namespace) -> None:
    for n in given.sizes:
        if key := file.new(n):
            emb, Y, metadata = points(n)
            page, making = timed(emb.map, Y, metadata=metadata, metric="euclidean")
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "map.html")
                _, writing = timed(page.save, path)
                runs = [looked_at(path) for _ in range(given.repeats)]
                seen = {name: [run[name] for run in runs] for name in runs[0]}
                file.add({**key, "megabytes": path.stat().st_size / 1e6, "making": making, "writing": writing, **seen})


def told(section: Section, records: list[Record]) -> None:
    """Points, ids, two columns, neighbours and which are torn. First picture: from the start to the drawn points;
    complete: all is read; frame: while zooming. Medians, headless Chromium, WebGL in software.
    """
    for what, name, bar, unit in (("size", "megabytes", 25, "MB"), ("first picture", "first", 5, "s")):
        target = section.target(f"map page of a million points: {what}", f"≤ {bar} {unit}")
        for r in pick(records, n=1_000_000):
            found = float(np.median(r[name]))
            target.tell(f"{found:.1f} {unit}", found <= bar)
    section.rows(
        "points | file | making it | writing | first picture | complete | frame",
        "{n:,} | {megabytes:.1f} MB | {making:.0f} s | {writing:.1f} s | {first:.2f} s | {ready:.2f} s | {frame:.2f} s",
        records,
    )


EXPERIMENT = Experiment("The page of a map", run, "n").takes(sizes=(10_000, 100_000, 1_000_000), repeats=5)
