"""The lab from the command line.

    python -m lab list                         every experiment, by family
    python -m lab run NAME [--seeds 3 ...]     measure what the result file of an experiment lacks; --help: its options
    python -m lab repeat FAMILY                all experiments of a family, and its page
    python -m lab page [FAMILY ...]            write pages and pictures from the result files

    python -m lab page papers                  write what the sources say and whether it holds, into lab/tables/papers

``--data FOLDER`` says where the data are. An experiment of the papers prints its figures, and ends with 1 if one is out
of the range of our earlier runs; with ``--quick`` it takes a minute at most, and the pages do not have it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PAPERS = "papers"


def main(words: list[str]) -> None:
    words = _without_data(words)
    if words[:1] == ["list"] and len(words) == 1:
        _list()
    elif words[:1] == ["run"] and len(words) > 1:
        _run(words[1], words[2:])
    elif words[:1] in (["page"], ["repeat"]):
        from lab import pages
        from lab.papers import pages as papers

        every = pages.FAMILIES if words[0] == "repeat" else (*pages.FAMILIES, PAPERS)
        families = [name for name in words[1:] if name in every]
        if families != words[1:] or (not families and words[0] == "repeat"):
            sys.exit(f"name some of the families {', '.join(every)}")
        if words[0] == "repeat":
            _repeat(families)
        if PAPERS in families or not families:
            papers.write()
        if families != [PAPERS]:
            pages.write([name for name in families if name != PAPERS] or pages.FAMILIES)
    else:
        sys.exit(__doc__)


def _without_data(words: list[str]) -> list[str]:
    """Take --data FOLDER out of the arguments; processes that are started find it in the environment."""
    for at, word in enumerate(words):
        name, _, folder = word.partition("=")
        if name == "--data":
            taken = words[at : at + 2 - bool(folder)]
            if not (folder or taken[1:]):
                sys.exit("--data FOLDER: where the data of the experiments are")
            os.environ["NEARFAR_DATA"] = str(Path(folder or taken[1]).absolute())
            return words[:at] + words[at + len(taken) :]
    return words


def _list() -> None:
    from lab.experiment import FAMILIES, experiments_of
    from lab.papers import experiments

    for family in FAMILIES:
        for one in experiments_of(family):
            print(f"{family:12} {one.name:20} {one.title}{'; data: ' * bool(one.data)}{', '.join(one.data)}")
    for name, paper in experiments().items():
        print(f"{'papers':12} {name:20} {paper.item} of {paper.source}")


def _run(name: str, words: list[str]) -> None:
    from lab.experiment import experiment
    from lab.papers import experiments

    if name in experiments():
        _run_paper(name, words)
    else:
        experiment(name).measure(words)


def _repeat(families: list[str]) -> None:
    """Measure what families lack, but what needs another checkout, or a package that is not here."""
    from lab.experiment import NOWHERE, experiments_of

    for one in (one for family in families for one in experiments_of(family) if one.name not in NOWHERE):
        options = one.command.split()
        try:
            one.measure([] if any(word.isupper() for word in options) else options)  # an address, an interpreter
        except ImportError as error:
            print(f"{one.name} is left out: {error}", file=sys.stderr)


def _run_paper(name: str, words: list[str]) -> None:
    """Run an experiment of the papers; keep its figures with machine and versions, and draw its picture."""
    from lab.data import DATA
    from lab.papers import experiments
    from lab.papers.experiment import Setting
    from lab.results import TABLES, ResultFile

    quick = "--quick" in words
    found = experiments()[name].carry_out(Setting(quick, DATA))
    panels = found.findings.panels
    image = None if quick else found.experiment.image_name(panels)
    record = {"name": name, "quick": quick, "seconds": round(found.seconds, 1), "image": image, "lines": found.rows()}
    ResultFile("papers", ("name", "quick")).add(record)
    if image:
        found.draw(TABLES / "papers" / image)
    print(found.markdown())
    sys.exit(0 if found.as_before else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
