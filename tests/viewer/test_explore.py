"""``nearfar explore``: the data of a map in embedding-atlas, on this computer alone."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nearfar as nf
from nearfar.errors import InputError
from nearfar.viewer import explore

NASTY = "<script>window.hacked = 1</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Any:
    rng = np.random.default_rng(0)
    made = tmp_path_factory.mktemp("explore")
    ids = [NASTY, "\u202eright to left", *(f"point {i}" for i in range(2, 60))]
    emb = nf.Embedding(rng.normal(size=(60, 5)), ids, context_vectors=rng.normal(size=(9, 5)), context_ids=range(9))
    emb.save(made / "x.safetensors")
    nf.Embedding(rng.normal(size=(60, 2)), ids).save(made / "map.safetensors")
    lines = [f'"{key}",{"north" if i % 3 else "<b>south</b>"},{i / 7}' for i, key in enumerate(ids) if i != 5]
    (made / "facts.csv").write_text("name,Id,height\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return made


def test_numbers_and_dates_are_handed_over_as_they_are():
    pytest.importorskip("pyarrow")
    known = {
        "user": [234944292198770675 + row if row % 7 else None for row in range(60)],
        "day": np.datetime64("2020-01-01") + np.arange(60),
        "year": np.datetime64("1960", "Y") + np.arange(60),
        "huge": [10**30 + row for row in range(60)],
    }
    X = np.random.default_rng(0).normal(size=(60, 3))
    page = nf.Embedding(X).map(X[:, :2], metadata=known, metric="euclidean", n_jobs=1)
    user, day, year, huge = (explore._of_scale(column).to_pylist() for column in page.columns)
    assert user == known["user"]
    assert day == known["day"].tolist()
    assert [date.year for date in year] == list(range(1960, 2020))
    assert huge == [str(value) for value in known["huge"]]


def test_a_port_in_use_is_said_or_passed_over(monkeypatch):
    monkeypatch.setattr(explore, "require", lambda *_: None)
    monkeypatch.setattr(explore, "PORT", 20_000 + os.getpid() % 10_000)
    with explore.listen() as first, explore.listen() as second:
        ports = [each.getsockname() for each in (first, second)]
        assert [host for host, _ in ports] == ["127.0.0.1"] * 2
        assert ports[0][1] < ports[1][1]
        with pytest.raises(InputError, match=rf"port must be free; got {ports[0][1]}: Address already in use"):
            explore.listen(ports[0][1])
        monkeypatch.setattr(explore, "_TRIED", 0)
        with pytest.raises(InputError, match="none from"):
            explore.listen(None)
    with pytest.raises(InputError, match="port must be"):
        explore.listen(70_000)


def test_the_package_that_is_missing_is_named_before_anything_is_computed(folder, monkeypatch, fails):
    monkeypatch.setitem(sys.modules, "embedding_atlas", None)
    told = fails("explore", folder / "x.safetensors")
    assert "nearfar explore needs embedding_atlas" in told
    assert "pip install 'nearfar[explore]'" in told
    assert "map" not in told


@pytest.fixture(scope="module")
def server(folder) -> Iterator[Any]:
    """Yield what the command says of itself, and its process."""
    pytest.importorskip("embedding_atlas.server")
    command = [sys.executable, "-m", "nearfar", "explore", "x.safetensors", "--map", "map.safetensors", "--no-open"]
    command += ["--metadata", "facts.csv", "--json", "-q"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = ""
        assert process.stdout is not None
        while (line := process.stdout.readline()) and line != "}\n":
            said += line
        try:
            yield json.loads(said + "}"), process
        finally:
            process.kill()


def fetch(address: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20) as answer:
        return answer.read()


@pytest.mark.slow
def test_map_neighbours_and_metadata_are_handed_over(server, folder):
    import pyarrow.parquet

    said, _ = server
    assert (said["n"], said["drawn"]) == (60, False)
    given = json.loads(fetch(said["address"] + "/data/metadata.json"))["props"]["data"]
    assert given["projection"] == {"x": "map_x", "y": "map_y"}
    table = pyarrow.parquet.read_table(io.BytesIO(fetch(said["address"] + "/data/dataset.parquet")))
    emb, placed = (nf.Embedding.load(folder / name) for name in ("x.safetensors", "map.safetensors"))
    assert table["id"].to_pylist() == list(emb)
    assert table.column_names[:4] == ["id", "Id 2", "height", "missing neighbours"]  # one name for id and Id in DuckDB
    assert table["Id 2"].to_pylist()[:6] == ["<b>south</b>", "north", "north", "<b>south</b>", "north", None]
    assert np.array_equal(np.column_stack([table["map_x"], table["map_y"]]), placed.vectors.astype(np.float32))
    near = table[given["neighbors"]][7].as_py()
    away = np.linalg.norm(emb.vectors - emb.vectors[7], axis=1)
    assert near["ids"] == np.argsort(away)[1:16].tolist()
    assert np.allclose(near["distances"], np.sort(away)[1:16], rtol=1e-5)


@pytest.mark.slow
def test_nobody_else_is_answered(server):
    address, port = server[0]["address"], int(server[0]["address"].rpartition(":")[2])
    assert b"<title>Embedding Atlas" in fetch(address)
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            fetch(address, **headers)
    with pytest.raises(ConnectionRefusedError):  # what listens on all addresses answers here, too
        socket.create_connection(("127.0.0.2", port), timeout=5)


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")), reason="needs chromium")
def test_the_page_in_a_browser(server, tmp_path):
    pytest.importorskip("selenium")
    from test_viewer_browser import started, wait

    browser = started(tmp_path)
    try:
        browser.get(server[0]["address"])
        wait(browser, "return document.body.innerText.includes('60 / 60 points')", 60)
        wait(browser, "return document.body.innerText.includes('point 2')", 60)
        shown = browser.execute_script("return document.body.innerText")
        assert NASTY in shown
        assert "<b>south</b>" in shown
        assert browser.execute_script("return window.hacked") is None
        asked = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
        assert [name for name in asked if not name.startswith(server[0]["address"])] == []
    finally:
        browser.quit()


@pytest.mark.slow
def test_ctrl_c_ends_it(server):  # the last one: the server is gone
    _, process = server
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0
