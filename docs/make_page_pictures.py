"""Take pictures of the page of a map: ``python docs/make_page_pictures.py`` writes docs/images/page.

Needs Chromium with its driver and selenium. The picture of the notebook (``python
docs/make_page_pictures.py notebook``) also needs jupyterlab and anywidget. The files are committed.
"""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import nearfar as nf

IMAGES = Path(__file__).parent / "images" / "page"
WIDTH, HEIGHT = 1000, 640
FLAGS = ("headless=new", "no-sandbox", "use-angle=swiftshader", "enable-unsafe-swiftshader", "hide-scrollbars")
READY = "return 'ready' in document.documentElement.dataset"
CELLS = [
    "import nearfar as nf\nfrom sklearn.datasets import load_digits\nX, digit = load_digits(return_X_y=True)",
    "est = nf.TSNE(random_state=0).fit(X)\n"
    'widget = nf.Embedding(X).map(est, metadata={"digit": digit.tolist()}, title="Digits").widget()\nwidget',
    "len(widget.selected), widget.selected[:5]",
]


@contextmanager
def browser(folder: Path) -> Iterator[Any]:
    """Open a browser."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (*FLAGS, f"window-size={WIDTH},{HEIGHT}", f"user-data-dir={folder / 'profile'}"):
        options.add_argument(f"--{flag}")
    service = webdriver.ChromeService("/usr/bin/chromedriver")
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_script_timeout(120)
    view = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)
    try:
        yield driver
    finally:
        driver.quit()


def wait(driver: Any, script: str, seconds: float = 120.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := driver.execute_script(script):
            return answer
        time.sleep(0.2)
    raise TimeoutError(script)


def keep(driver: Any, name: str) -> None:
    time.sleep(1.5)  # until all is drawn
    picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    picture.save(IMAGES / f"{name}.webp", quality=72, method=6)


def lasso(driver: Any, x: float, y: float, radius: float) -> None:
    """Draw a circle with the lasso."""
    from selenium.webdriver.common.actions.action_builder import ActionBuilder

    actions = ActionBuilder(driver)
    turns = np.linspace(0, 2 * math.pi, 24)
    corners = [(int(x + radius * math.cos(t)), int(y + radius * math.sin(t))) for t in turns]
    actions.pointer_action.move_to_location(*corners[0])
    actions.pointer_action.pointer_down()
    for corner in corners[1:]:
        actions.pointer_action.move_to_location(*corner)
    actions.pointer_action.pointer_up()
    actions.perform()


def hover(driver: Any, x: float, y: float) -> None:
    from selenium.webdriver.common.actions.action_builder import ActionBuilder

    time.sleep(1)
    actions = ActionBuilder(driver)
    actions.pointer_action.move_to_location(int(x) - 3, int(y))
    actions.pointer_action.move_to_location(int(x), int(y))
    actions.perform()


def place_of(driver: Any, digit: str) -> list[float]:
    """Return where a point in the middle of a group is."""
    script = """const { names, values } = nearfarMap.columns[0], at = names.indexOf(arguments[0]);
    const found = Array.from(values.keys()).filter((i) => values[i] === at).map((i) => nearfarMap.placeOf(i));
    const middle = [0, 1].map((c) => found.map((p) => p[c]).sort((a, b) => a - b)[found.length >> 1]);
    const away = (p) => Math.hypot(p[0] - middle[0], p[1] - middle[1]);
    return found.sort((a, b) => away(a) - away(b))[0]"""
    return list(driver.execute_script(script, digit))


def plain(driver: Any) -> None:
    keep(driver, "light")


def selected(driver: Any) -> None:
    driver.execute_script("document.getElementById('theme').click(); document.getElementById('lasso').click()")
    x, y = place_of(driver, "3")
    lasso(driver, x, y, 70)
    hover(driver, x, y)
    keep(driver, "lasso")


def pinned(driver: Any) -> None:
    driver.execute_script("""const of = nearfarMap.columns.find(({ name }) => name === "missing neighbours").values;
    nearfarMap.pin(of.indexOf(Math.max(...of)))""")
    keep(driver, "card")


def pages() -> dict[str, tuple[nf.viewer.MapPage, Callable[[Any], None]]]:
    """Return what is shown, and what is done with it."""
    X, digit = load_digits(return_X_y=True)
    names, pictures = [f"digit {i}" for i in range(len(X))], list(X.reshape(-1, 8, 8))
    emb = nf.Embedding(X, names)
    known: dict[str, Any] = {"metadata": {"digit": digit.astype(str).tolist()}, "images": pictures}
    est = nf.TSNE(random_state=0).fit(emb)
    page = emb.map(est, title="Digits", **known)
    stable = emb.map(est, title="Digits", color="stability", stability=True, **known)
    # Yesterday there was no 9, half of the others, and twenty that are gone today.
    rng = np.random.default_rng(0)
    before = np.flatnonzero((digit != 9) & (rng.random(len(X)) < 0.5))
    old = nf.TSNE(random_state=0).fit(emb.subset([names[row] for row in before]))
    today = emb.subset(sorted(set(names) - {names[row] for row in before[:20]}, key=names.index))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)  # that some rows may belong nowhere
        grown = nf.TSNE(random_state=0).fit(today, pull=old.vectors_)
    of_today = today.map(grown, title="Today, drawn onto yesterday")
    return {
        "light": (page, plain),
        "lasso": (page, selected),
        "card": (page, pinned),
        "stability": (stable, lambda driver: keep(driver, "stability")),
        "growth": (of_today, lambda driver: keep(driver, "growth")),
    }


def draw_notebook(folder: Path) -> None:
    """Run a notebook with the widget in JupyterLab, and select with the lasso there."""
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**cell, "id": f"c{at}", "source": source} for at, source in enumerate(CELLS)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "map.ipynb").write_text(json.dumps(notebook))
    start = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=8877"]
    start += ["--IdentityProvider.token=t", f"--notebook-dir={folder}", "--expose-app-in-browser"]
    with (folder / "log").open("w") as log, subprocess.Popen(start, stdout=log, stderr=log) as server:
        try:
            time.sleep(8)
            with browser(folder) as driver:
                view = {"width": WIDTH, "height": 900, "deviceScaleFactor": 1, "mobile": False}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)
                driver.get("http://127.0.0.1:8877/doc/tree/map.ipynb?token=t")
                wait(driver, "return window.jupyterapp && document.querySelectorAll('.jp-Cell').length >= 3")
                time.sleep(4)
                run(driver, 0)
                run(driver, 1)
                frame = wait(driver, "return document.querySelector('.jp-OutputArea-output iframe')")
                driver.switch_to.frame(frame)
                wait(driver, READY)
                driver.execute_script("document.getElementById('lasso').click()")
                x, y = place_of(driver, "3")
                driver.switch_to.default_content()
                corner = "const r = arguments[0].getBoundingClientRect(); return [r.left, r.top]"
                left, top = driver.execute_script(corner, frame)
                lasso(driver, left + x, top + y, 60)
                time.sleep(2)
                run(driver, 2)
                driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", frame)
                driver.execute_script("document.querySelector('.Toastify')?.remove()")  # whether to hear of news
                keep(driver, "notebook")
        finally:
            server.terminate()


def run(driver: Any, cell: int) -> None:
    script = """const done = arguments[1];
    jupyterapp.shell.currentWidget.content.activeCellIndex = arguments[0];
    jupyterapp.commands.execute("notebook:run-cell").then(() => done(1), (error) => done(String(error)))"""
    driver.execute_async_script(script, cell)


def main(names: list[str]) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if names == ["notebook"]:
            draw_notebook(Path(folder))
            return
        with browser(Path(folder)) as driver:
            for name, (page, shown) in pages().items():
                if names and name not in names:
                    continue
                target = Path(folder, f"{name}.html")
                page.save(target)
                driver.get(target.as_uri())
                wait(driver, READY)
                shown(driver)
                driver.execute_script("localStorage.clear()")


if __name__ == "__main__":
    main(sys.argv[1:])
