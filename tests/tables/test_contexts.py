"""Every table in every context of real models: it works, or says at the first call why not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch_contexts as given  # noqa: E402

ROOT = Path(__file__).parents[2]
# Other tests of tables train them.
QUICK = {"AnchorEmbedding": given.QUICK - {"eager"}, "QuantizedEmbedding": {"deepcopy", "saved", "accumulation"}}
pytestmark = [pytest.mark.usefixtures("one_torch_thread"), pytest.mark.filterwarnings("ignore")]


def cells():
    for table in given.TABLES:
        for context in given.CONTEXTS:
            quick = context in QUICK.get(table, ())
            yield pytest.param(table, context, marks=[] if quick else pytest.mark.slow)


@pytest.mark.parametrize(("table", "context"), [*cells()])
def test_a_table_works_or_says_why_not(table, context, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if context in given.NEEDED:
        pytest.importorskip(given.NEEDED[context])
    if context == "export" and torch.__version__.startswith("2.6."):
        pytest.skip("tables are exported from torch 2.7 on")
    refused = given.REFUSED.get((table, context))
    if refused is None:
        given.CONTEXTS[context](table, tmp_path)
    else:
        with pytest.raises(Exception, match=refused):
            given.CONTEXTS[context](table, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("context", [*given.PROCESSES])
def test_tables_in_two_processes(context, tmp_path):
    if context == "fully_shard" and torch.__version__.startswith("2.6."):
        pytest.skip("fully_shard of torch 2.6 fails without a GPU")
    script, address = ROOT / "tests" / "support" / "torch_contexts.py", (tmp_path / "meet").as_uri()
    runs = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", script, context, str(rank), address, tmp_path],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(2)
    ]
    for run in runs:
        said = dict(line.split("\t") for line in run.communicate(timeout=240)[0].splitlines())
        assert said.keys() == given.TABLES.keys()
        for table, text in said.items():
            refused = given.REFUSED.get((table, context))
            assert not text if refused is None else re.search(refused, text), (table, text)
