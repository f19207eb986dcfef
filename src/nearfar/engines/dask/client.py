"""The client of a cluster: found or made, and asked while its workers are watched.

Dask waits for ever for a worker that has stopped, since its connections stay open. So whatever waits for workers is
asked by :func:`answered`, which looks at their heartbeats meanwhile: a worker that is silent for a minute is told of,
and started anew or left out; Dask gives its tasks to others. Looks are counted, not seconds: a clock that is set, or a
client that was stopped itself, makes no worker silent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from nearfar._core.checks import require
from nearfar._core.warn import warn_user
from nearfar.engines import current_client
from nearfar.errors import NumericalError

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")


@contextmanager
def client_of(owner: str) -> Iterator[Client]:
    """Give the client in use, or that of a cluster of this machine's processors, which ends with the context.

    Such a cluster listens on the loopback alone, its dashboard too: neither asks for a password.

    Raises
    ------
    MissingDependencyError
        Dask's ``distributed`` is not installed.
    """
    distributed = require(owner, "distributed", "cluster")
    client = current_client()
    if client is not None:
        yield client
        return
    here = "127.0.0.1"
    with (
        distributed.LocalCluster(host=here, dashboard_address=f"{here}:0") as cluster,
        distributed.Client(cluster) as client,
    ):
        warn_user(
            f"{owner}: engine='dask' found no client, so {len(cluster.workers)} workers were started on this machine;"
            " they end with it. Run it within dask.distributed.Client(...) to use a cluster of your own."
        )
        yield client


PATIENCE, IDLE, SILENT = 10.0, 3, 6
"""Seconds between two looks at workers that have not answered; looks at which none of them did anything before a fit
ends with an error; looks at which one sent no heartbeat before others get its work."""


def rows_of(bounds: Sequence[int]) -> Callable[[int], str]:
    """Return what names the rows of a part."""
    return lambda part: f"rows {bounds[part]} to {bounds[part + 1]}" if part < len(bounds) - 1 else f"part {part}"


def gathered(
    owner: str, client: Client, asked: Sequence[Future], where: Callable[[int], str] = "part {}".format
) -> list[Any]:
    """Return results; where no worker could hold a part, it is named by ``where``.

    Raises
    ------
    NumericalError
        Workers ended again and again, or as for :func:`answered`.
    """
    distributed = require(owner, "distributed", "cluster")
    try:
        return answered(owner, client, asked, client.gather, asked)
    except distributed.KilledWorker as error:
        part = str(error.task).partition("-of-part-")[2].partition("-")[0]
        place = f" at {where(int(part))}" if part.isdigit() else ""
        raise NumericalError(
            f"{owner}: workers of the cluster ended again and again{place} (task {error.task}). They may have too"
            " little memory: give them more, or use more of them."
        ) from error


def answered(owner: str, client: Client, tasks: Sequence[Future], ask: Callable[..., T], *arguments: object) -> T:
    """Return what a call returns that waits for workers; ``tasks`` are those that it waits for.

    Raises
    ------
    NumericalError
        All workers ended or are silent, or the scheduler is.
    """
    watch, answer = Watch(owner, client, tasks), started(ask, *arguments)
    while True:
        if not futures.wait([answer], PATIENCE).done:
            watch.look()
            continue
        try:
            return answer.result()
        except OSError:
            if not watch.left_out:  # of a worker that is gone by now
                raise
            watch.left_out.clear()
            answer = started(ask, *arguments)


def started(call: Callable[..., T], *arguments: object, **options: object) -> futures.Future[T]:
    """Start a call in a thread for which nobody waits at the end: Dask's calls know no limit of time."""
    answer: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(call(*arguments, **options))
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    return answer


class Watch:
    """Looks at the workers of a cluster while somebody waits for them.

    Tasks that prefer a worker wait for it for ever if all workers end at once: Dask looks for another only where one is
    there when the task comes up. That is said, after a while in which nobody worked.

    Parameters
    ----------
    owner : str
        Who waits, for messages.
    client : distributed.Client
    tasks : list of Future
        What is waited for.

    Attributes
    ----------
    left_out : list of str
        The workers whose work went elsewhere.
    """

    def __init__(self, owner: str, client: Client, tasks: Sequence[Future]) -> None:
        self._owner, self._client, self._tasks = owner, client, tasks
        self._heard: dict[str, tuple[object, int]] = {}  # the last heartbeat of each, and looks since it came
        self._idle = self._nobody = 0  # looks
        self.left_out: list[str] = []

    def look(self) -> None:
        """Take in what the workers do, and act where that is nothing."""
        try:
            beats, busy = started(_state, self._client).result(PATIENCE * SILENT)
        except futures.TimeoutError as error:
            raise self._error(f"the scheduler of the cluster did not answer for {PATIENCE * SILENT:.0f} s") from error
        waiting = any(task.status == "pending" for task in self._tasks)
        self._idle = self._idle + 1 if beats and waiting and not busy else 0
        if self._idle == IDLE:
            raise self._error(
                "all workers of the cluster ended at once, and Dask does not give their tasks to the new ones"
            )
        self._nobody = self._nobody + 1 if self.left_out and not beats else 0
        if self._nobody == 3 * SILENT:  # new ones take some time to come
            gone = ", ".join(self.left_out)
            raise self._error(f"no worker is left beside those that were silent, {gone}; end their processes")
        known, self._heard = self._heard, {}
        for worker, beat in beats.items():
            before, looks = known.get(worker, (None, 0))
            self._heard[worker] = (beat, looks + 1 if beat == before else 0)
        stuck = [worker for worker, (_, looks) in self._heard.items() if looks == 3 * SILENT]
        if stuck:
            raise self._error(f"{', '.join(stuck)} is silent and could not be replaced; end its process")
        silent = [worker for worker, (_, looks) in self._heard.items() if looks == SILENT]
        if silent:
            since = time.strftime("%H:%M:%S", time.localtime(time.time() - PATIENCE * SILENT))
            warn_user(
                f"{self._owner}: no sign of life since {since} from {', '.join(silent)}. Such a worker is started anew"
                " if it has a nanny, and left out if not; others do its tasks again, with the same result."
            )
            self.left_out += silent
            started(_replace, self._client, silent)

    def _error(self, what: str) -> NumericalError:
        return NumericalError(f"{self._owner}: {what}. Start again, from a checkpoint where there is one.")


def _state(client: Client) -> tuple[dict[str, object], bool]:
    """Return the time of the last heartbeat of each worker, and whether any has something to do."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return {worker: facts["last_seen"] for worker, facts in workers.items()}, any(client.processing().values())


def _replace(client: Client, silent: list[str]) -> None:
    """Let nannies end and start workers anew, and the scheduler leave out those that have none."""
    reason = f"nearfar-silent-{time.monotonic()}"
    options = {"timeout": 60, "on_error": "return", "wait_for_workers": False, "stimulus_id": reason}
    scheduler: Any = client.scheduler
    client.sync(scheduler.restart_workers, workers=silent, **options)  # the client's own refuses without nannies
