"""The map page in a real browser: Chromium with its driver (Debian: chromium, chromium-driver), through selenium.

``apt-get install chromium chromium-driver`` and the extra [dev] bring both; without them these tests are skipped.
"""

import csv
import io
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import nearfar as nf

webdriver = pytest.importorskip("selenium.webdriver")
ActionBuilder = pytest.importorskip("selenium.webdriver.common.actions.action_builder").ActionBuilder
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")]
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
    *("--window-size=1300,900", "--screen-info={1600x1200}"),
)
N = 400
FORMULA = '=HYPERLINK("http://x","y")'
NASTY = "<script>window.hacked = 1</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> nf.viewer.MapPage:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(4, 6)) * 6, N // 4, axis=0) + rng.normal(size=(N, 6))
    emb = nf.Embedding(X, [NASTY, "\u202eright to left", FORMULA, *(f"point {i}" for i in range(3, N))])
    Y = X[:, :2].copy()
    Y[10] += 12  # torn from its neighbours
    kinds = ["north", "east", "south", "<b>west</b>"]
    metadata = {"kind": [kinds[i * 4 // N] for i in range(N)], "height": X[:, 2].tolist()}
    return emb.map(Y, metadata=metadata, metric="euclidean", title="Four <i>clusters</i>")


@pytest.fixture(scope="module")
def browser(page, tmp_path_factory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("page")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={folder / 'profile'}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    several = "profile.default_content_setting_values.automatic_downloads"
    options.add_experimental_option("prefs", {"download.default_directory": str(folder), several: 1})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.folder = folder
    driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    try:
        opened(driver, page.html(), "map.html")
        yield driver
    finally:
        driver.quit()


def wait(driver: Any, script: str, seconds: float = 20.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = driver.execute_script(script)
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {script}")


def opened(driver: Any, html: str | None, name: str = "other.html") -> None:
    """Open a page, which is written first; without one that which is there."""
    if html is not None:
        (driver.folder / name).write_text(html, encoding="utf-8")
    driver.get((driver.folder / name).as_uri())
    wait(driver, "const d = document.documentElement.dataset; return 'ready' in d || 'failed' in d")
    assert driver.execute_script("return document.documentElement.dataset.failed") is None


@pytest.fixture
def back(browser) -> Iterator[None]:
    """The page of all tests is open again after a test of another."""
    yield
    opened(browser, None, "map.html")


@pytest.fixture(autouse=True)
def cleared(request) -> None:
    if "browser" in request.fixturenames:
        driver = request.getfixturevalue("browser")
        keys(driver, webdriver.Keys.ESCAPE)
        driver.execute_script("return nearfarMap.plot.reset()")
        driver.execute_async_script("nearfarMap.colour(0).then(arguments[0])")


def keys(driver: Any, *pressed: str) -> None:
    webdriver.ActionChains(driver).send_keys(*pressed).perform()


def place(driver: Any, row: int) -> tuple[float, float]:
    """Return where a point is in the window, by its row in the file."""
    return tuple(driver.execute_script(f"return nearfarMap.placeOf({row})"))


def row_of(driver: Any, key: str) -> int:
    script = (
        "for (let i = 0; i < nearfarMap.header.n; i++) if (nearfarMap.idOf(i) === arguments[0]) return i; return -1"
    )
    return driver.execute_script(script, key)


def mouse(driver: Any, *steps: tuple[float, float]) -> Any:
    """Return a chain that has moved through some places of the window."""
    actions = ActionBuilder(driver)
    for x, y in steps:
        actions.pointer_action.move_to_location(int(x), int(y))
    return actions


def text(driver: Any, name: str) -> str:
    return driver.execute_script(f"return document.getElementById('{name}').textContent")


def picture(driver: Any) -> np.ndarray:
    """Return the PNG that the page saves, as pixels."""
    import base64

    import matplotlib.image

    script = """const done = arguments[0];
    nearfarMap.picture().then((blob) => { const reader = new FileReader();
    reader.onload = () => done(reader.result.split(",")[1]); reader.readAsDataURL(blob); });"""
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(driver.execute_async_script(script))), format="png")


def near(pixels: np.ndarray, colour: str) -> int:
    wanted = np.array([int(colour[c : c + 2], 16) for c in (1, 3, 5)]) / 255
    return int((np.abs(pixels[..., :3] - wanted).max(axis=2) < 0.2).sum())


def test_the_points_are_drawn_offline_in_the_colours_of_their_categories(browser):
    pixels = picture(browser)
    for colour in ("#0072B2", "#D55E00", "#009E73", "#CC79A7"):
        assert near(pixels, colour) > 300
    wrong = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert wrong == []


def test_nothing_of_the_data_is_run_or_shown_as_markup(browser):
    assert browser.execute_script("return window.hacked") is None
    assert text(browser, "title") == "Four <i>clusters</i>"
    assert "<b>west</b>" in text(browser, "legend")
    browser.execute_script("nearfarMap.pin(arguments[0])", row_of(browser, NASTY))
    assert text(browser, "card").startswith(NASTY)
    assert browser.execute_script("return document.querySelectorAll('#card script, #legend b').length") == 0


def test_a_point_under_the_mouse_has_a_card(browser):
    row = row_of(browser, "point 10")  # it lies apart
    x, y = place(browser, row)
    mouse(browser, (x - 30, y), (x, y), (x + 1, y)).perform()
    wait(browser, "return !document.getElementById('card').hidden")
    assert "point 10" in text(browser, "card")
    assert "north" in text(browser, "card")


def test_a_click_shows_the_neighbours_in_the_data_and_which_are_torn(browser, page):
    row = row_of(browser, "point 10")
    x, y = place(browser, row)
    mouse(browser, (x - 30, y), (x, y)).perform()
    actions = mouse(browser, (x, y))
    actions.pointer_action.click()
    actions.perform()
    wait(browser, f"return nearfarMap.state().pinned === {row}")
    shown = browser.execute_script(f"return nearfarMap.neighboursOf({row}).map(e => [nearfarMap.idOf(e.row), e.torn])")
    assert [key for key, _ in shown] == [page.ids[j] for j in page.neighbors[10]]
    assert [torn for _, torn in shown] == page.torn[10].tolist()
    assert all(page.torn[10])
    assert "15 of 15 far away in the map" in text(browser, "card")
    assert near(picture(browser), "#D55E00") > near(picture(browser), "#CC79A7")  # dashed lines in the colour of loss


def test_search_finds_ids_and_columns(browser):
    field = browser.find_element("id", "search")
    field.send_keys("point 39")
    wait(browser, "return nearfarMap.state().hits === 11")  # 39, 390 .. 399
    assert text(browser, "found").startswith("point 39point 390")
    field.send_keys(webdriver.Keys.ENTER)
    wait(browser, f"return nearfarMap.state().pinned === {row_of(browser, 'point 39')}")
    field.clear()
    field.send_keys("south")
    wait(browser, f"return nearfarMap.state().hits === {N // 4}")


def test_a_legend_filters_and_csv_holds_what_is_shown(browser):
    browser.execute_script("document.querySelectorAll('#legend li')[0].click()")
    wait(browser, f"return nearfarMap.state().shown === {N * 3 // 4}")
    rows = list(csv.reader(io.StringIO(browser.execute_script("return nearfarMap.table()"))))
    assert rows[0] == ["id", "x", "y", "kind", "height", "missing neighbours", "false neighbours"]
    assert len(rows) == 1 + N * 3 // 4
    assert all(len(row[4].lstrip("-")) <= 12 for row in rows[1:])  # as precise as the file, without digits of noise
    hidden = browser.execute_script("return document.querySelectorAll('#legend li')[0].textContent").rpartition(" (")[0]
    assert hidden not in {row[3] for row in rows[1:]}


def test_colours_of_numbers_and_of_trust(browser, page):
    choice = browser.find_element("id", "colour")
    options = [option.text for option in choice.find_elements("tag name", "option")]
    assert options == ["(none)", "kind", "height", "missing neighbours", "false neighbours"]
    before = picture(browser)
    browser.execute_async_script("nearfarMap.colour(2).then(arguments[0])")
    assert near(picture(browser), "#440154") > 50  # points that lost nothing, at the dark end
    assert "0 %100 %" in text(browser, "legend")
    assert not np.array_equal(before, picture(browser))
    shares = browser.execute_script("return Array.from(nearfarMap.columns[2].values)")
    assert np.mean(shares) == pytest.approx(page.missing.mean(), abs=1e-6)
    assert f"{round(100 * page.missing.mean())} % are far away in the map" in text(browser, "shares")
    assert browser.execute_script("return document.querySelectorAll('#curve .curve').length") == 1


def test_csv_has_no_formulas_and_keeps_numbers_and_positions(browser, page):
    browser.execute_script("nearfarMap.select(arguments[0])", [row_of(browser, FORMULA), *range(0, N, 7)])
    rows = list(csv.reader(io.StringIO(browser.execute_script("return nearfarMap.table()"))))
    assert "'" + FORMULA in {row[0] for row in rows}
    heights = [row[4] for row in rows[1:]]
    assert any(height.startswith("-") for height in heights)
    assert np.isfinite([float(height) for height in heights]).all()
    known = dict(zip(map(str, page.ids), page.positions, strict=True))
    for key, x, y, *_ in rows[1:]:
        np.testing.assert_allclose([float(x), float(y)], known[key.lstrip("'")], atol=1e-3)


def test_files_are_saved(browser):
    for button, name in (("csv", "points.csv"), ("png", "map.png")):
        browser.execute_script(f"document.getElementById('{button}').click()")
        target = Path(browser.folder) / name
        end = time.monotonic() + 10
        while not (target.exists() and target.stat().st_size) and time.monotonic() < end:
            time.sleep(0.05)
        assert target.stat().st_size > 1000
        target.unlink()


def test_keys_zoom_and_move_and_the_theme_changes(browser):
    row = row_of(browser, "point 10")
    x, _ = place(browser, row)
    browser.execute_script("document.getElementById('plot').focus()")
    keys(browser, webdriver.Keys.ARROW_LEFT)
    wait(browser, f"return nearfarMap.placeOf({row})[0] > {x + 5}")
    keys(browser, "0")
    wait(browser, f"return Math.abs(nearfarMap.placeOf({row})[0] - {x}) < 1")
    keys(browser, "+")
    wait(browser, "return nearfarMap.plot.get('cameraDistance') < 0.9")
    dark = browser.execute_script("return nearfarMap.state().dark")
    browser.execute_script("document.getElementById('theme').click()")
    assert browser.execute_script("return nearfarMap.state().dark") is not dark
    assert browser.execute_script("return document.documentElement.dataset.theme") == ("light" if dark else "dark")
    opened(browser, None, "map.html")
    assert browser.execute_script("return nearfarMap.state().dark") is not dark
    browser.execute_script("document.getElementById('theme').click()")


def test_colours_suit_what_is_behind_them_and_filters_stay(browser):
    browser.execute_script("document.querySelectorAll('#legend li')[0].click()")
    wait(browser, f"return nearfarMap.state().shown === {N * 3 // 4}")
    assert near(picture(browser), "#009E73") > 300
    browser.execute_script("document.getElementById('theme').click()")
    assert near(picture(browser), "#1FB58A") > 300
    assert browser.execute_script("return nearfarMap.state().shown") == N * 3 // 4
    browser.execute_async_script("nearfarMap.colour(2).then(arguments[0])")
    lightness = browser.execute_script("return nearfarMap.plot.get('pointColor').map((c) => c[0] + c[1] + c[2])")
    assert min(lightness) > 0.9  # #440154, the end of the scale on white, has .6
    browser.execute_script("document.getElementById('theme').click()")


def test_close_points_have_their_ids(browser):
    named = "return Number(document.getElementById('overlay').dataset.ids)"
    assert browser.execute_script(named) == 0
    row = row_of(browser, "point 250")
    go = f"nearfarMap.plot.zoomToLocation([nearfarMap.x[{row}], nearfarMap.y[{row}]], 0.1).then(arguments[0])"
    browser.execute_async_script(go)
    wait(browser, named + " > 3")


def test_a_window_larger_than_the_screen_shows_all_points(page, tmp_path):
    """As a page is that is zoomed out: the picture of the points was as large as the screen at most."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS[:-2], "--window-size=1300,1100", "--screen-info={800x600}"):
        options.add_argument(flag)
    page.save(tmp_path / "page.html")
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER)) as small:
        small.get((tmp_path / "page.html").as_uri())
        wait(small, "return 'ready' in document.documentElement.dataset")
        found = small.execute_script("const c = nearfarMap.plot.get('renderer').canvas; return [c.width, c.height]")
        assert found == small.execute_script("return [innerWidth * devicePixelRatio, innerHeight * devicePixelRatio]")
        assert small.execute_script("return innerHeight > screen.availHeight")


def test_a_canvas_that_the_browser_refuses_is_tried_again(browser, back, page):
    call = "return createScatterplot({ canvas"
    assert call in page.html()
    opened(browser, page.html().replace(call, "if (tried < 3) throw new Error('lost'); " + call))
    browser.execute_async_script("nearfarMap.colour(0).then(arguments[0])")
    assert near(picture(browser), "#0072B2") > 300
    x, y = place(browser, row_of(browser, "point 10"))
    mouse(browser, (x - 30, y), (x, y), (x + 1, y)).perform()  # the new canvas has the keys, mice and fingers
    wait(browser, "return !document.getElementById('card').hidden")


def test_fingers_move_and_pinch(browser):
    row = row_of(browser, "point 10")
    x, _ = place(browser, row)

    def touch(kind: str, *points: tuple[int, int]) -> None:
        given = [{"x": px, "y": py, "id": number} for number, (px, py) in enumerate(points)]
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": given})

    touch("touchStart", (300, 300))
    touch("touchMove", (360, 300))
    touch("touchEnd")
    wait(browser, f"return nearfarMap.placeOf({row})[0] > {x + 20}")
    touch("touchStart", (300, 300), (400, 300))
    touch("touchMove", (250, 300), (450, 300))
    touch("touchEnd")
    wait(browser, "return nearfarMap.plot.get('cameraDistance') < 0.9")


def test_labels_of_the_categories_are_on_the_map(browser):
    wait(browser, "return Number(document.getElementById('overlay').dataset.labels) === 4")
    browser.execute_script("document.getElementById('names').click()")
    browser.execute_script("document.getElementById('names').click()")
    assert [label[1] for label in browser.execute_script("return nearfarMap.header.labels")] == [
        "<b>west</b>", "east", "north", "south"
    ]  # fmt: skip


def test_cards_and_csv_have_the_numbers_and_dates_of_the_metadata(browser, back):
    rng, n = np.random.default_rng(0), 60
    days = [str(day) for day in np.datetime64("2019-12-31") + np.arange(n)]
    known = {
        "user": [None if k == 7 else value for k, value in enumerate(rng.integers(10**17, 10**18, n).tolist())],
        "seconds": (1_700_000_000 + 61 * np.arange(n)).tolist(),
        "price": [round(1_234_567 + value, 2) for value in rng.uniform(0, 9, n).tolist()],
        "count": (1000 + 17 * np.arange(n)).tolist(),
        "weight": rng.normal(size=n).astype(np.float32),
    }
    X = rng.normal(size=(n, 4))
    emb = nf.Embedding(X, [f"doc {k}" for k in range(n)])
    metadata = {**known, "day": np.array(days, "M8[D]"), "id": [f"doc {k}" for k in range(n)]}
    opened(browser, emb.map(X[:, :2].copy(), metadata=metadata, metric="euclidean", n_jobs=1).html())
    lines = list(csv.DictReader(io.StringIO(browser.execute_script("return nearfarMap.table()"))))
    assert len(lines) == n
    for line in lines:
        row = int(line["id"].removeprefix("doc "))
        assert line["day"] == days[row]
        assert np.float32(line["weight"]) == known["weight"][row]
        for name in ("user", "seconds", "price", "count"):
            assert line[name] == ("" if known[name][row] is None else str(known[name][row]))
    browser.execute_script("nearfarMap.pin(arguments[0])", row_of(browser, "doc 3"))
    card = text(browser, "card")
    for name in ("user", "seconds", "price", "count"):
        assert f"{name}{known[name][3]}" in card
    assert f"day{days[3]}" in card
    browser.execute_async_script("nearfarMap.colour(5).then(arguments[0])")
    assert "2019-12-312020-02-27" in text(browser, "legend")
    browser.execute_async_script("nearfarMap.colour(1).then(arguments[0])")
    assert "1,700,000,0361,700,003,563" in text(browser, "legend")
    slider = "const s = document.querySelectorAll('#legend input')[0]; s.value = 50; s.oninput()"
    browser.execute_script(slider)
    wait(browser, f"return nearfarMap.state().shown < {n}")
    kept = [
        int(row["seconds"]) for row in csv.DictReader(io.StringIO(browser.execute_script("return nearfarMap.table()")))
    ]
    middle = np.quantile(known["seconds"], [0.01, 0.99]).mean()
    assert sorted(kept) == [one for one in known["seconds"] if middle <= one <= np.quantile(known["seconds"], 0.99)]
    browser.find_element("id", "search").send_keys(str(known["user"][11]))
    wait(browser, "return nearfarMap.state().hits === 1")


def test_a_map_of_a_relation_shows_what_is_related(browser, back):
    graph = nx.les_miserables_graph()
    graph.add_node("Nobody")
    est = nf.TSNE(random_state=0, max_iter=300, n_jobs=1).fit(graph)
    opened(browser, est.vectors_.map(est, n_jobs=1).html())
    shares = browser.execute_script("return document.getElementById('shares').textContent")
    assert shares.startswith("Of up to 15 strongest relations of a point, ")
    assert "of those that the map shows are not related. Area" in shares
    for name, told in (("Perpetue", "Most related, all near in the map:SimpliceFantine"), ("Nobody", "to any:")):
        browser.execute_script("nearfarMap.pin(arguments[0])", row_of(browser, name))
        card = browser.execute_script("return document.getElementById('card').textContent")
        assert card.endswith(told)
        assert "missing neighbours0 %" in card


def test_a_lasso_that_ends_on_a_point_selects_and_pins_none(browser):
    rows = [row for row in range(N) if browser.execute_script(f"return nearfarMap.idOf({row})").startswith("point 1")]
    x, y = np.median([place(browser, row) for row in rows], axis=0)
    row = min(rows, key=lambda row: np.hypot(*np.subtract(place(browser, row), (x, y))))
    x, y = place(browser, row)
    corners = [(x, y), (x - 60, y - 60), (x + 60, y - 60), (x + 60, y + 60), (x - 60, y + 60), (x, y)]
    browser.execute_script("document.getElementById('lasso').click()")
    cards, actions = [], mouse(browser, corners[0])
    actions.pointer_action.pointer_down()
    actions.perform()
    for corner in corners[1:]:
        actions = mouse(browser, corner)
        actions.pointer_action.pause(0.1)
        actions.perform()
        cards.append(not browser.execute_script("return document.getElementById('card').hidden"))
    actions = ActionBuilder(browser)
    actions.pointer_action.pointer_up()
    actions.perform()
    wait(browser, "return nearfarMap.state().selection")
    time.sleep(0.6)
    state = browser.execute_script("return nearfarMap.state()")
    assert state["pinned"] == -1
    assert len(state["selection"]) > 1
    assert not any(cards)
    assert text(browser, "selection") == f"{len(state['selection'])} points selected"
    assert len(browser.execute_script("return nearfarMap.table()").splitlines()) == 1 + len(state["selection"])


INSIDE = """const stage = document.getElementById('stage'), [w, h] = [stage.clientWidth, stage.clientHeight];
let out = 0; for (let i = 0; i < nearfarMap.header.n; i++) { const [x, y] = nearfarMap.placeOf(i);
if (x < 0 || y < 0 || x > w || y > h) out++; } return out"""


def test_points_stay_in_a_window_that_becomes_narrow(browser):
    before = browser.execute_script("return nearfarMap.x[0]")
    browser.set_window_size(560, 900)
    wait(browser, f"return Math.abs(nearfarMap.x[0] - {before}) > 1e-3")
    wait(browser, INSIDE.replace("return out", "return out === 0"))
    opened(browser, None, "map.html")  # that is narrow from the start
    wait(browser, INSIDE.replace("return out", "return out === 0"))
    browser.set_window_size(1300, 900)
    wait(browser, f"return Math.abs(nearfarMap.x[0] - {before}) < 1e-3")
    assert browser.execute_script(INSIDE) == 0


def test_search_answers_while_one_types(browser):
    field, counts = browser.find_element("id", "search"), []
    for letter in "point 39":
        field.send_keys(letter)
        typed = field.get_attribute("value").strip()
        expected = sum(typed in f"point {i}" for i in range(3, N)) + (typed in "right to left") * 0
        counts.append(browser.execute_script("return nearfarMap.state().hits"))
        if len(typed) > 4:
            assert counts[-1] == expected
    field.send_keys(webdriver.Keys.BACKSPACE)
    assert browser.execute_script("return nearfarMap.state().hits") == 111  # 3, 30 .. 39, 300 .. 399
    assert text(browser, "found").endswith("111 found")


def test_many_groups_and_noise(browser, back):
    rng = np.random.default_rng(0)
    groups, n = 60, 3000
    centres = 10.0 * np.array([divmod(k, 8) for k in range(groups)])
    labels = rng.integers(-1, groups, n)
    xy = np.where(labels[:, None] < 0, rng.uniform(0, 75, (n, 2)), centres[labels] + rng.normal(size=(n, 2)))
    xy[0] = [4000.0, 5000.0]
    names = [f"{k}_words of topic" if k >= 0 else "-1_the_of" for k in labels]
    half = np.where(np.arange(n) % 7 == 0, "", np.where(xy[:, 0] < 40, "left", "right")).tolist()
    opened(browser, nf.Embedding(xy).map(metadata={"topic": names, "half": half}).html())
    shown = wait(browser, "return nearfarMap.names().length > 40 && nearfarMap.names()")
    assert not any(name["text"].startswith("-1") for name in shown)
    boxes = np.array(
        [[*np.subtract(s["at"], np.divide(s["size"], 2)), *np.add(s["at"], np.divide(s["size"], 2))] for s in shown]
    )
    apart = (boxes[:, None, :2] >= boxes[:, 2:] - 0.5) | (boxes[:, None, 2:] <= boxes[:, :2] + 0.5)
    assert (apart.any(axis=2) | np.eye(len(boxes), dtype=bool)).all()
    width, height = browser.execute_script(
        "const s = document.getElementById('stage'); return [s.clientWidth, s.clientHeight]"
    )
    assert (boxes >= 0).all()
    assert (boxes <= [width, height, width, height]).all()
    # Noise is last in the legend, grey, and first among what is drawn.
    items = browser.execute_script("return Array.from(document.querySelectorAll('#legend li'), (e) => e.textContent)")
    assert items[-1].startswith("-1_the_of")
    colours = browser.execute_script("return nearfarMap.plot.get('pointColor').length")
    assert colours == groups + 1
    facts = browser.execute_script("return nearfarMap.columns[0]")
    assert len(set(facts["light"])) == groups
    assert facts["shades"][facts["names"].index("-1_the_of")] == -1
    first = browser.execute_script("return nearfarMap.drawn().slice(0, 20)")
    assert {names[int(browser.execute_script(f"return nearfarMap.idOf({row})"))] for row in first} == {"-1_the_of"}
    # One point that is far away does not hide the others, and its place is not lost.
    assert browser.execute_script(INSIDE) == 0
    assert np.ptp(browser.execute_script("return Array.from(nearfarMap.x)")) > 1
    assert "1 far outside: drawn at the edge." in text(browser, "remarks")
    rows = list(csv.reader(io.StringIO(browser.execute_script("return nearfarMap.table()"))))
    assert next([float(x), float(y)] for key, x, y, *_ in rows[1:] if key == "0") == [4000.0, 5000.0]
    # Names follow the column that colours.
    browser.execute_async_script("nearfarMap.colour(1).then(arguments[0])")
    wait(browser, "return nearfarMap.names().length === 2")
    assert {name["text"] for name in browser.execute_script("return nearfarMap.names()")} == {"left", "right"}


def test_images_are_on_the_cards(browser, back):
    pytest.importorskip("PIL")
    rng = np.random.default_rng(0)
    images = [None if k == 3 else rng.integers(0, 256, (8, 12), dtype=np.uint8) for k in range(40)]
    opened(browser, nf.Embedding(rng.normal(size=(40, 2))).map(images=images).html())
    browser.execute_script("nearfarMap.pin(arguments[0])", row_of(browser, "5"))
    size = "const i = document.querySelector('#card img'); return i && i.complete && [i.naturalWidth, i.naturalHeight]"
    assert wait(browser, size) == [12, 8]
    browser.execute_script("nearfarMap.pin(arguments[0])", row_of(browser, "3"))
    assert browser.execute_script("return document.querySelector('#card img')") is None


def test_the_widget_hears_what_is_selected_in_its_frame(browser, back, page):
    """The script of the widget with a model that only remembers."""
    import base64
    from importlib import resources

    script = resources.files("nearfar.viewer").joinpath("assets", "widget.js").read_text("utf-8")
    packed = base64.b64encode(page.html().encode()).decode()
    harness = f"""<!doctype html><body><script type="module">
    {script}
    const bytes = Uint8Array.from(atob("{packed}"), (c) => c.charCodeAt(0));
    window.kept = {{ _page: new DataView(bytes.buffer) }};
    const model = {{
      get: (name) => kept[name], set: (name, value) => (kept[name] = value), save_changes: () => (window.saved = true),
      on: (what, call) => (window.told = call), off: () => undefined
    }};
    kept._points = new DataView(new ArrayBuffer(0));
    window.end = render({{ model, el: document.body }});
    </script></body>"""
    (browser.folder / "harness.html").write_text(harness)
    browser.get((browser.folder / "harness.html").as_uri())
    browser.switch_to.frame(wait(browser, "return document.querySelector('iframe')"))
    wait(browser, "return 'ready' in document.documentElement.dataset")
    browser.execute_script("nearfarMap.select([3, 5, 8])")
    browser.switch_to.default_content()
    heard = "return window.saved && Array.from(new Uint32Array(kept._points.buffer))"
    assert wait(browser, heard) == [3, 5, 8]
    browser.execute_script("window.saved = false; window.postMessage({ nearfar: 'selected', points: [1] }, '*')")
    time.sleep(0.2)
    assert not browser.execute_script("return window.saved")  # only its own frame is heard
    # What Python sets is selected on the page, which does not say it again.
    browser.execute_script("kept._points = new DataView(Uint32Array.from([4, 7]).buffer); told()")
    browser.switch_to.frame(browser.execute_script("return document.querySelector('iframe')"))
    wait(browser, "return String(nearfarMap.state().selection) === '4,7'")
    assert "2 points selected" in text(browser, "selection")
    chosen = browser.execute_script(
        "return Array.from(nearfarMap.plot.get('selectedPoints'), (s) => nearfarMap.drawn()[s])"
    )
    assert sorted(chosen) == [4, 7]
    browser.switch_to.default_content()
    assert not browser.execute_script("return window.saved")
    browser.execute_script("kept._points = new DataView(new ArrayBuffer(0)); told()")
    browser.switch_to.frame(browser.execute_script("return document.querySelector('iframe')"))
    wait(browser, "return nearfarMap.state().selection === null")
    browser.switch_to.default_content()


def test_stability_is_a_colour(browser, back):
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(3, 6) * 9, 20, axis=0) + rng.normal(size=(60, 6))
    est = nf.TSNE(perplexity=9, max_iter=60, random_state=0).fit(X)
    page = nf.Embedding(X).map(est, stability=True, color="stability")
    page.stability[7] = np.nan
    opened(browser, page.html())
    assert browser.execute_script("return nearfarMap.columns.map((c) => c.name)")[-1] == "stability"
    assert (
        browser.execute_script("return document.querySelector('#colour').selectedOptions[0].textContent") == "stability"
    )
    shown = browser.execute_script(
        "return Array.from(nearfarMap.columns.at(-1).values, (v, i) => [nearfarMap.idOf(i), Number.isNaN(v) ? -1 : v])"
    )
    known = np.where(np.isnan(page.stability), -1, page.stability)
    np.testing.assert_allclose([dict(shown)[str(k)] for k in range(60)], known, atol=0.002)


def test_arrows_lead_from_where_points_were(browser, back):
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(60, 2))
    before = Y.copy()
    before[7], before[9] = Y[20], Y[9] + 1e-4  # that is not far
    before[11] = np.nan
    metadata = {"status": ["moved" if i == 7 else "known" for i in range(60)], "other": ["a", "b"] * 30}
    metadata |= {f"{name} before": before[:, c].tolist() for c, name in enumerate("xy")}
    grown = nf.Embedding(Y, [f"p{i}" for i in range(60)]).map(metadata=metadata)
    opened(browser, grown.html())
    moved = row_of(browser, "p7")
    assert browser.execute_script("return nearfarMap.arrows()") == [moved]
    start = browser.execute_script(f"return nearfarMap.cameFrom({moved})")
    np.testing.assert_allclose(start, place(browser, row_of(browser, "p20")), atol=0.1)
    browser.execute_async_script("nearfarMap.colour(1).then(arguments[0])")
    assert browser.execute_script("return nearfarMap.arrows()") == []
    browser.execute_script(f"nearfarMap.pin({moved})")
    assert browser.execute_script("return nearfarMap.arrows()") == [moved]
