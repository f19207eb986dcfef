"""``nearfar reproduce``: tables and figures of the sources, ours beside theirs."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from nearfar.cli.options import argument, command, option
from nearfar.cli.shared import answer, jobs_option, json_answer, print_json, print_table

# ruff: noqa: D301 - as in cli/__init__.py


@command("Run an experiment of the papers, ours beside theirs.")
@argument("names", nargs=-1, metavar="[NAME]...")
@option("--list", "listed", is_flag=True, help="List the experiments.")
@option("--quick", is_flag=True, help="Smaller data, fewer repeats: at most a minute each.")
@option("--data", metavar="FOLDER", help="Where the data are. [default: $NEARFAR_DATA, or data]")
@option("-o", "--output", metavar="FOLDER", help="Write NAME.md, and NAME.svg or .png, into this folder.")
@jobs_option
@json_answer
def reproduce(
    names: tuple[str, ...],
    listed: bool,
    quick: bool,
    data: str | None,
    output: str | None,
    n_jobs: int | None,
    as_json: bool,
) -> int:
    """Run experiments of the source papers: published value, ours with its 95 % interval, and the range it must be in.

    The exit code is 1 if a value of ours is out of its range. Data that are missing are named, with what to put where.

    \b
    Examples:
      nearfar reproduce --list
      nearfar reproduce nce-sampled-softmax
      nearfar reproduce edrep-figure-2 --quick -o pages
      nearfar reproduce ant-movielens --data ~/data --json
    """
    from nearfar import reproduce as of_sources
    from nearfar._core.atomic import atomic_write
    from nearfar._core.checks import check_n_jobs, require
    from nearfar.reproduce.experiment import bounds, shown

    every = of_sources.experiments()
    if listed or not names:
        rows = [(name, e.item, e.source, ", ".join(file.path for file in e.files)) for name, e in every.items()]
        answers = [dict(zip(("name", "item", "source", "files"), row, strict=True)) for row in rows]
        answer(answers, ("name", "what", "source", "data"), rows, as_json)
        return 0
    for name in names:
        if name not in every:
            raise click.UsageError(f"there is no experiment {name!r}; nearfar reproduce --list names them.")
    if output is not None:
        require("nearfar reproduce", "matplotlib", "plot")
    folder = _folder(output)
    check_n_jobs("nearfar reproduce", n_jobs)
    told_of, all_hold = [], True
    for name in names:
        found = of_sources.run(name, quick=quick, data=data, n_jobs=n_jobs)
        all_hold &= found.holds
        if folder is not None:
            image = found.image_name()
            if image:
                found.draw(folder / image)
            with atomic_write(folder / f"{name}.md", owner="nearfar reproduce") as file:
                file.write(found.markdown(image).encode())
        told = found.experiment
        if as_json:
            facts = {"name": name, "source": told.source, "item": told.item, "differs": told.differs, "quick": quick}
            told_of.append({**facts, "holds": found.holds, "seconds": found.seconds, "lines": found.rows()})
            continue
        click.echo(f"{told.item} of {told.source}", err=True)
        for part in (f"Published: {told.claim}", f"Here: {told.setting}"):
            click.echo(textwrap.fill(part, 100), err=True)
        print_table(
            ("what", "published", "ours", "range", "holds"),
            [
                (line.what, line.published or "-", shown(line), bounds(line), "yes" if line.holds else "NO")
                for line in found.findings.lines
            ],
        )
        click.echo(textwrap.fill(f"Where they differ: {told.differs}", 100), err=True)
        verdict = "all in their ranges" if found.holds else "NOT all in their ranges"
        click.echo(f"{name}: {verdict}, {found.seconds:.1f} s", err=True)
    if as_json:
        print_json(told_of)
    return 0 if all_hold else 1


def _folder(output: str | None) -> Path | None:
    """Return the folder of the pages, made if it is a new one."""
    if output is None:
        return None
    from nearfar.errors import InputError

    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        expected = "a folder, or the name of a new one"
        raise InputError("nearfar reproduce", "output", expected, f"{output!r} (a file)")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
