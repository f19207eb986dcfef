"""The tables, figures and statements of the five sources that run on one machine, each by one command.

``nearfar reproduce NAME`` on the command line; in Python, :func:`experiments` and :func:`run`.
"""

from __future__ import annotations

import os
from pathlib import Path

from nearfar._core.checks import check_choice
from nearfar.reproduce.experiment import DataFile, Experiment, Findings, Line, Outcome, Panel, Setting, carry_out

__all__ = ["DataFile", "Experiment", "Findings", "Line", "Outcome", "Panel", "Setting", "experiments", "run"]


def experiments() -> dict[str, Experiment]:
    """Return every experiment by its name.

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.reproduce.experiments()["nce-sampled-softmax"].item
    'lemmas C.1 and C.2'
    """
    from nearfar.reproduce import anchors, contrastive, edrep, maps, words

    families = (edrep, words, contrastive, maps, anchors)
    return {experiment.name: experiment for family in families for experiment in family.EXPERIMENTS}


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
