"""What a fit tells after every epoch, and what can be made of it: monitors, stopping rules, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nearfar._checks import check_integer, check_path

__all__ = ["Checkpoint", "Progress"]


@dataclass(frozen=True)
class Progress:
    """Where a fit stands after an epoch; handed to every callback.

    Parameters
    ----------
    epoch : int
        Epochs done, from 1.
    n_epochs : int
        Epochs planned.
    loss : float
        Loss at the start of the epoch, nats per unit of relation weight.
    learning_rate : float
        Of the epoch.
    state : object
        The solver's own state, with the vectors ``state.X`` (and ``state.Y`` of a two-sided fit): look, do not write.
    seconds : float
        Since the fit began or was resumed.
    identity : callable
        Returns what tells this fit from others: its parameters and its relation, as plain values.
    """

    epoch: int
    n_epochs: int
    loss: float
    learning_rate: float
    state: Any
    seconds: float = 0.0
    identity: Callable[[], dict[str, Any]] = dict


@dataclass(frozen=True)
class Checkpoint:
    """A callback that keeps the state of a fit in a file, from which ``fit(..., resume=path)`` continues it.

    A resumed fit ends with the same bits as one that was never interrupted, on the same machine and versions of the
    libraries. The file has the size of the vectors; it holds no pickle, and a checksum. It appears whole or not at all:
    whatever interrupts the fit or the writing leaves the one before. It is not removed when the fit ends.

    Parameters
    ----------
    path : path-like
        The file; by custom ``.safetensors``. Replaced at each writing.
    every : int, default=5
        Epochs between two writings. The last epoch is always kept.

    Raises
    ------
    InputError
        If the path cannot be written to (at once), or is a file that is no checkpoint (at the first writing).
    OSError
        At a writing, if the disk is full or fails: it ends the fit, the file from before is intact.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import nearfar as nf
    >>> rel = nf.Relation.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]).random_walk(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "run.safetensors")
    ...     stop = lambda progress: progress.epoch == 7  # stands for a power cut
    ...     keep = nf.callbacks.Checkpoint(path, every=5)
    ...     _ = nf.EDRep(2, callbacks=[keep, stop], random_state=0).fit(rel)
    ...     resumed = nf.EDRep(2, random_state=0).fit(rel, resume=path)
    >>> whole = nf.EDRep(2, random_state=0).fit(rel)
    >>> bool((resumed.embedding_ == whole.embedding_).all())
    True
    """

    path: str | os.PathLike[str]
    every: int = 5

    def __post_init__(self) -> None:
        from nearfar.storage.atomic import check_target

        check_target("Checkpoint", check_path("Checkpoint", "path", self.path))
        check_integer("Checkpoint", "every", self.every, low=1)

    def __call__(self, progress: Progress) -> None:
        """Write the file if it is time.

        Parameters
        ----------
        progress : Progress
            From a fit whose ``state`` has a method ``snapshot``.
        """
        if progress.epoch % self.every and progress.epoch < progress.n_epochs:
            return
        from nearfar.storage import checkpoint

        arrays, facts = progress.state.snapshot()
        checkpoint.write("Checkpoint", self.path, checkpoint.Snapshot(arrays, facts, progress.identity()))
