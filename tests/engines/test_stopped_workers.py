"""Workers that are silent, and what a cluster of one's own listens on."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from engine_cases import ran

from nearfar.engines.dask import client as cluster
from nearfar.errors import NearfarWarning, NumericalError


@pytest.fixture(scope="module", autouse=True)
def distributed():
    """It is loaded where these tests are run, not wherever they are looked for."""
    pytest.importorskip("distributed")


class Task:
    status = "pending"


class Cluster:
    """A client whose answer never comes; at each look it tells the next of some states: heartbeats, and tasks."""

    def __init__(self, *states):
        self.states, self.looks, self.replaced = states, 0, threading.Event()
        self.scheduler = self
        self.restart_workers = "restart_workers"

    def gather(self, _tasks):
        threading.Event().wait(10)
        return []

    def scheduler_info(self, n_workers):
        assert n_workers == -1
        self.looks += 1
        self.beats, self.tasks = self.states[min(self.looks, len(self.states)) - 1]
        return {"workers": {worker: {"last_seen": beat} for worker, beat in self.beats.items()}}

    def processing(self):
        return {"w": ["task"] * self.tasks}

    def sync(self, function, workers, **_options):
        assert function == "restart_workers"
        self.ended = workers
        self.replaced.set()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.005)


def test_tasks_that_wait_for_workers_that_are_gone_are_told_of():
    # first the new worker is not there yet; then it does something, and then nothing
    client = Cluster(({}, 0), ({}, 0), ({"w": 1}, 1), *(({"w": beat}, 0) for beat in range(2, 9)))
    with pytest.raises(NumericalError, match="all workers of the cluster ended at once"):
        cluster.gathered("Here", client, [Task()])
    assert client.looks == 3 + cluster.IDLE


def test_a_worker_that_is_silent_is_told_of_and_replaced_once_and_nobody_left_is_an_error():
    silent = [({"a": 1, "b": look // 5}, 1) for look in range(9)]  # b is slow
    client = Cluster(*silent, *[({"b": look // 5}, 1) for look in range(9, 30)], ({}, 0))
    with (
        pytest.warns(NearfarWarning, match=r"Here: no sign of life since \d\d:\d\d:\d\d from a\. ") as warned,
        pytest.raises(NumericalError, match=r"Here: no worker is left beside those that were silent, a; end their"),
    ):
        cluster.gathered("Here", client, [Task()])
    assert len(warned) == 1
    assert client.replaced.wait(5)
    assert client.ended == ["a"]
    assert client.looks == 30 + 3 * cluster.SILENT


def test_a_worker_that_cannot_be_replaced_is_an_error():
    client = Cluster(({"a": 1}, 1))
    with (
        pytest.warns(NearfarWarning, match="no sign of life"),
        pytest.raises(NumericalError, match=r"Here: a is silent and could not be replaced; end its process\. "),
    ):
        cluster.gathered("Here", client, [Task()])
    assert client.looks == 1 + 3 * cluster.SILENT


def test_a_scheduler_that_does_not_answer_is_told_of():
    class Silent(Cluster):
        def scheduler_info(self, n_workers):
            threading.Event().wait(10 + n_workers)

    with pytest.raises(NumericalError, match=r"Here: the scheduler of the cluster did not answer for 0 s"):
        cluster.gathered("Here", Silent(), [Task()])


def test_what_was_asked_of_a_worker_that_is_gone_is_asked_again():
    class Gone(Cluster):
        asked = 0

        def gather(self, _tasks):
            self.asked += 1
            if self.asked == 1:
                assert self.replaced.wait(5)
                raise OSError("closed")
            return ["answer"]

    client = Gone(({"a": 1}, 1))
    with pytest.warns(NearfarWarning, match="no sign of life"):
        assert cluster.gathered("Here", client, [Task()]) == ["answer"]
    assert client.asked == 2


LISTENING = """
import sys
from nearfar.engines.dask.client import client_of

if __name__ == "__main__":
    with client_of("Here"):
        print("listening", flush=True)
        sys.stdin.read()
"""


def processes_of(process: int) -> list[int]:
    """Return a process and all that it started."""
    found = [process]
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        for child in path.read_text().split():
            found += processes_of(int(child))
    return found


def listened_on(processes: list[int]) -> set[str]:
    """Return the addresses on which processes listen, as the kernel writes them."""
    links = [file for process in processes for file in Path(f"/proc/{process}/fd").iterdir() if file.is_symlink()]
    sockets = {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink())))}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(fields[1].partition(":")[0])
    return found


@pytest.mark.slow  # starts processes
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads what Linux tells of connections")
def test_a_cluster_of_ones_own_listens_on_the_loopback_alone(tmp_path):
    (tmp_path / "listening.py").write_text(LISTENING)
    program = [sys.executable, "-W", "ignore", str(tmp_path / "listening.py")]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline() == "listening\n"
        processes = processes_of(running.pid)
        assert len(processes) > 2
        assert listened_on(processes) == {"0100007F"}  # 127.0.0.1
        running.stdin.close()
        assert running.wait(60) == 0


@pytest.mark.slow
def test_a_fit_with_a_stopped_worker_ends_with_the_same_bits(tmp_path):
    expected = ran(tmp_path, "stopped", 2, "never")
    assert expected["told"].tolist() == []
    for n_workers, when in ((2, "near"), (1, "fetch")):
        found = ran(tmp_path, "stopped", n_workers, when)
        assert len(found["told"]) == 1, when
        assert f" from {found['stopped']}. " in found["told"][0]
        assert (found["X"] == expected["X"]).all(), when
