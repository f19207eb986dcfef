"""The tables, figures and statements of the five sources that run on one machine, each by one command.

``nearfar reproduce NAME`` on the command line; in Python, :func:`experiments` and :func:`run`. The experiments
themselves are a part of the lab: a wheel carries them in this folder, a checkout has them in ``lab/papers``.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from nearfar._core.checks import check_choice
from nearfar._core.names import public_names
from nearfar.errors import NearfarError
from nearfar.reproduce.experiment import DataFile, Experiment, Findings, Line, Outcome, Panel, Setting, carry_out

__all__ = ["DataFile", "Experiment", "Findings", "Line", "Outcome", "Panel", "Setting", "experiments", "run"]

_FAMILIES = ("edrep", "words", "contrastive", "maps", "anchors")
_IN_A_CHECKOUT = Path(__file__).absolute().parents[3] / "lab" / "papers"
if _IN_A_CHECKOUT.is_dir():
    __path__.append(str(_IN_A_CHECKOUT))


def experiments() -> dict[str, Experiment]:
    """Return every experiment by its name.

    Returns
    -------
    dict of str to Experiment

    Raises
    ------
    NearfarError
        If this installation came without the experiments.

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.reproduce.experiments()["nce-sampled-softmax"].item
    'lemmas C.1 and C.2'
    """
    found: dict[str, Experiment] = {}
    for family in _FAMILIES:
        name = f"nearfar.reproduce.{family}"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise NearfarError(
                f"The experiments of the papers are not in this installation: {name} is missing. A wheel of nearfar has"
                " them. Run: pip install --force-reinstall nearfar"
            ) from None
        found |= {experiment.name: experiment for experiment in module.EXPERIMENTS}
    return found


def run(
    name: str, *, quick: bool = False, data: str | os.PathLike[str] | None = None, n_jobs: int | None = None
) -> Outcome:
    """Run one experiment of the sources and compare it with what was published.

    Parameters
    ----------
    name : str
        One of :func:`experiments`.
    quick : bool
        Smaller data and fewer repeats: at most a minute. The ranges are those of the quick run.
    data : path, optional
        The folder with the data; by default that in the environment variable ``NEARFAR_DATA``, or ``data``.
    n_jobs : int, optional
        Threads; all processors by default. With one, the figures are the same bit for bit in each run.

    Returns
    -------
    Outcome
        The lines of the table with published value, ours and its range; ``holds``, ``markdown()``, ``draw(path)``.

    Raises
    ------
    InputError
        If there is no such experiment, or if its data are missing or others.

    Examples
    --------
    >>> import nearfar as nf
    >>> found = nf.reproduce.run("ant-table-14")
    >>> found.holds, found.findings.lines[0].published
    (True, '4.61')
    """
    every = experiments()
    check_choice("reproduce.run", "name", name, tuple(every))
    folder = Path(os.environ.get("NEARFAR_DATA", "data") if data is None else data)
    return carry_out(every[name], Setting(quick=quick, data=folder, n_jobs=n_jobs))


if not TYPE_CHECKING:
    __getattr__, __dir__ = public_names(__name__, __all__)
