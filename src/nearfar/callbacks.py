"""Callbacks, called after every epoch of a fit with a `Progress`, and the `Trainer` that calls them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from nearfar._core.checks import check_callbacks, check_integer, check_path, check_real
from nearfar._core.names import public_names
from nearfar._core.notebook import brief_fields
from nearfar._core.progress import ProgressLine
from nearfar._core.types import Arrays
from nearfar._core.warn import warn_user
from nearfar.errors import InputError

__all__ = ["Checkpoint", "EarlyStopping", "Progress", "Trainer"]


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
    identity: Callable[[], dict[str, object]] = field(default=dict, repr=False)
    __repr__ = brief_fields


Callback = Callable[[Progress], bool | None]
"""What is called with a :class:`Progress`; True ends the fit."""


class Trainer:
    """What all fits have in common: a progress line, callbacks, the order to stop, and going on from a checkpoint.

    Every estimator of the library runs inside one; an estimator of your own can, too. It is a context manager::

        with Trainer("MyModel", n_epochs, callbacks=callbacks, verbose=1) as trainer:
            for epoch in range(n_epochs):
                ...
                if trainer.tell(epoch + 1, loss, learning_rate, state):
                    break

    Parameters
    ----------
    owner : str
        Name of the estimator, for the progress line and in errors.
    n_epochs : int
        Epochs, or iterations, planned.
    callbacks : sequence of callable, optional
        Each is called with a :class:`Progress`; a true answer of any of them ends the fit.
    verbose : int, default=0
        0 draws no progress line.
    unit : str, default="epoch"
        What the progress line counts.
    total : int, optional
        How many of them there are; by default ``n_epochs``.
    identity : callable, optional
        Returns what tells this fit from others, as plain values; checkpoints keep it.
    keeps : bool, default=False
        Whether Ctrl-C ends the ``with`` block as a callback that says stop does, with a warning, once an epoch is done.
        What comes after the block then keeps what was learned. Before that, and where other code called the fit that
        would go on with it (an evaluation, scikit-learn's search, the command line), KeyboardInterrupt comes out.
    note : str, default=""
        What the progress line says of the fit after its owner.

    Raises
    ------
    InputError
        If the callbacks are no sequence of callables.

    Warns
    -----
    NearfarWarning
        Ctrl-C ended the block.

    Examples
    --------
    >>> import nearfar as nf
    >>> seen = []
    >>> with nf.callbacks.Trainer("Halving", 9, callbacks=[lambda p: p.loss < 0.2]) as trainer:
    ...     for epoch in range(9):
    ...         seen.append(0.5**epoch)
    ...         if trainer.tell(epoch + 1, seen[-1], learning_rate=1.0, state=seen):
    ...             break
    >>> seen
    [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(
        self,
        owner: str,
        n_epochs: int,
        *,
        callbacks: Sequence[Callback] | None = None,
        verbose: int = 0,
        unit: str = "epoch",
        total: int | None = None,
        identity: Callable[[], dict[str, object]] = dict,
        keeps: bool = False,
        note: str = "",
    ) -> None:
        self.owner, self.n_epochs, self.identity, self.keeps = owner, n_epochs, identity, keeps
        self.done = 0
        self.callbacks, self.unit = check_callbacks(owner, callbacks), "iteration" if unit == "iteration" else "epoch"
        self.stopped = False
        label = ", ".join(filter(None, (owner, note)))
        self._line = ProgressLine(label, n_epochs if total is None else total, verbose, unit) if verbose else None
        self._started = time.perf_counter()

    def __enter__(self) -> Trainer:
        if self._line is not None:
            self._line.__enter__()
        self._started = time.perf_counter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self._line is not None:
            self._line.__exit__(kind, error, trace)
        if not (isinstance(error, KeyboardInterrupt) and self.keeps and self.done):
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:  # who would go on with half of a fit as if it were whole
            if frame.f_globals.get("__name__", "").startswith(_WOULD_GO_ON):
                return False
            frame = frame.f_back
        self.stopped = True
        text = f"what was learned until {self.unit} {self.done} of {self.n_epochs} is kept."
        warn_user(f"{self.owner}: interrupted; {text}")
        return True

    def advance(self, steps: int = 1) -> None:
        """Move the progress line on within an epoch.

        Parameters
        ----------
        steps : int, default=1
            How many units.
        """
        if self._line is not None:
            self._line.update(steps)

    def tell(self, epoch: int, loss: float, learning_rate: float, state: object, steps: int = 1) -> bool:
        """Move the progress line, call every callback, and return whether one of them said stop.

        Parameters
        ----------
        epoch : int
            Epochs done, from 1.
        loss : float
            Of the epoch.
        learning_rate : float
            Of the epoch.
        state : object
            Where the fit stands. :class:`Checkpoint` asks it for ``snapshot()``.
        steps : int, default=1
            Units by which the progress line moves on; 0 where :meth:`advance` moved it.

        Returns
        -------
        bool
            It stays in ``stopped``.
        """
        self.done = epoch
        if self._line is not None:
            self._line.update(steps, loss)
        if self.callbacks:
            seconds = time.perf_counter() - self._started
            progress = Progress(epoch, self.n_epochs, float(loss), learning_rate, state, seconds, self.identity)
            answers = [bool(callback(progress)) for callback in self.callbacks]  # each is called, also after a stop
            self.stopped = any(answers)
        return self.stopped

    def resume(self, path: str | os.PathLike[str], hint: str) -> tuple[Arrays, dict[str, object]]:
        """Return the arrays and facts of a checkpoint of this very fit.

        Parameters
        ----------
        path : path-like
            What :class:`Checkpoint` wrote.
        hint : str
            What to do about a checkpoint of another fit.

        Returns
        -------
        (dict of ndarray, dict)
            As the state's ``snapshot()`` gave them; the arrays are writable.

        Raises
        ------
        InputError
            If there is no such file, or it is of another fit: says in what it differs.
        FileFormatError
            If it is damaged, or no checkpoint.
        """
        from nearfar._core import checkpoint

        file = check_path(f"{self.owner}.fit", "resume", path)
        if not checkpoint.is_folder(file):
            check_path(f"{self.owner}.fit", "resume", path, exists=True)
        snapshot = checkpoint.read(file)
        checkpoint.check_same(f"{self.owner}.fit", repr(str(file)), snapshot.identity, self.identity(), hint)
        return snapshot.arrays, snapshot.facts


_WOULD_GO_ON = ("sklearn.", "nearfar.cli", "nearfar.evaluate", "nearfar.scanpy", "nearfar.viewer")


@dataclass(frozen=True)
class Checkpoint:
    """A callback that keeps the state of a fit in a file, from which ``fit(..., resume=path)`` continues it.

    A resumed fit ends with the same bits as one that was never interrupted, on the same machine and versions of the
    libraries. The file has the size of the vectors; it holds no pickle, and a checksum. It appears whole or not at all:
    whatever interrupts the fit or the writing leaves the one before. It is not removed when the fit ends. Where vectors
    stay on the workers of a cluster (``EDRep(storage=...)``), it is a folder in which each worker writes its parts; all
    of them must see that folder.

    Parameters
    ----------
    path : path-like
        The file; by custom ``.safetensors``. Or the folder. Replaced at each writing.
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
        from nearfar._core.atomic import check_target
        from nearfar._core.checkpoint import is_folder

        path = check_path("Checkpoint", "path", self.path)
        if not is_folder(path):
            check_target("Checkpoint", path)
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
        from nearfar._core import checkpoint

        arrays, facts = progress.state.snapshot()
        checkpoint.write("Checkpoint", self.path, checkpoint.Snapshot(arrays, facts, progress.identity()))


@dataclass(frozen=True)
class EarlyStopping:
    """A callback that ends a fit when the loss of what is held out falls no more.

    For models that hold out a part (``validation_fraction`` of a :class:`nearfar.SkipGram`). The vectors are those of
    the last epoch.

    Parameters
    ----------
    patience : int, default=1
        Stop when so many epochs in a row brought no lower loss than before them.
    tol : float, default=0.0
        Lower means: by more than this share of it.

    Raises
    ------
    InputError
        If a parameter cannot be used (at once), or nothing is held out (after the first epoch).

    Examples
    --------
    >>> import nearfar as nf
    >>> text = ["the sea the ship the shore", "the sky the wind the cloud"] * 4000
    >>> stop = nf.callbacks.EarlyStopping(patience=2, tol=0.01)
    >>> model = nf.SkipGram(
    ...     8, n_epochs=50, sample=0, validation_fraction=0.2, callbacks=[stop], random_state=0, n_jobs=1
    ... ).fit(text)
    >>> model.n_epochs_ < 50
    True
    """

    patience: int = 1
    tol: float = 0.0

    def __post_init__(self) -> None:
        check_integer("EarlyStopping", "patience", self.patience, low=1)
        check_real("EarlyStopping", "tol", self.tol, low=0, high=1, open_high=True)

    def __call__(self, progress: Progress) -> bool:
        """Return whether to stop.

        Parameters
        ----------
        progress : Progress
            From a fit whose ``state`` has ``validation_losses``.

        Returns
        -------
        bool
        """
        losses = getattr(progress.state, "validation_losses", ())
        if not losses:
            expected = "one that holds something out"
            raise InputError("EarlyStopping", "the fit", expected, "none", "Set validation_fraction.")
        if len(losses) <= self.patience:
            return False
        return bool(min(losses[-self.patience :]) >= min(losses[: -self.patience]) * (1 - self.tol))


public_names(__name__, __all__)
