"""``nearfar communities``: which groups a graph has, who is in which, and how sure that is."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearfar.cli.options import argument, command, option, options_of
from nearfar.cli.shared import answer, edge_options, figure, json_answer, read_graph, seed_option, shown, take_edges
from nearfar.errors import counted

if TYPE_CHECKING:
    from nearfar.estimators.communities import Communities

# ruff: noqa: D301 - as in cli/__init__.py

_TOLD = 3  # communities whose members are told, and doubtful ones


@command("Find the communities of a graph.")
@argument("edges")
@option("-o", "--output", metavar="CSV", help="File for id, community, chance and margin of each node.")
@options_of("estimators.communities:communities", "number", number={"type": int})
@options_of("relations.matrix:Relation.from_edges", "bipartite", bipartite={"is_flag": True, "default": None})
@edge_options
@seed_option("communities")
@json_answer
def communities(
    edges: str, output: str | None, number: int | None, random_state: int | None, as_json: bool, **options: Any
) -> None:
    """Find how many communities a graph has, who is in which, and how sure that is; or that there are none.

    EDGES is a file of related pairs, or a folder that embed --storage makes. Of users and items both are in the same
    communities. The table has for each community its number, members, edges inside as a multiple of those that chance
    gives, and its most central members.

    \b
    Examples:
      nearfar communities contacts.csv -o groups.csv
      nearfar communities likes.csv --bipartite --number 5 --json
    """
    import nearfar as nf
    from nearfar._core.atomic import atomic_write, check_target

    if output is not None:
        check_target("nearfar communities", Path(output))
    relation = read_graph(edges, **take_edges(options), bipartite=options["bipartite"])
    found = nf.communities(relation, number=number, random_state=random_state)
    nodes: list[tuple[object, int, float, float]] = []  # of the rows, then of the columns of a relation of two kinds
    for ids, side in ((relation.row_ids, found), (relation.column_ids, found.columns)):
        if side is not None:
            nodes += zip(ids, side.labels.tolist(), side.chance.tolist(), side.margin.tolist(), strict=True)
    if output is not None:
        text = StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(("id", "community", "chance", "margin"))
        table.writerows((shown(key), k, *(f"{share:.4f}" for share in sure)) for key, k, *sure in nodes)
        with atomic_write(output, owner="nearfar communities") as file:
            file.write(text.getvalue().encode())
    if not as_json:
        click.echo("\n".join(in_words(found)), err=True)
    rows = [
        (str(k), figure(int(found.sizes[k]), 0), figure(float(found.strength[k]), 1), ", ".join(map(shown, central)))
        for k, central in enumerate(found.central)
    ]
    named = [dict(zip(("id", "community", "chance", "margin"), row, strict=True)) for row in nodes]
    facts = {"edges": edges, "output": output, **facts_of(found), "nodes": named}
    answer(facts, ("community", "members", "strength", "such as"), rows, as_json)


def in_words(found: Communities) -> list[str]:
    """Return how many communities there are, the members of the largest, and who is doubtful."""
    if found.number == 1:
        return [f"no groups beyond chance (p = {found.p:.2g})"]
    more = f" ({found.most} by the spectrum, which fewer describe more shortly)" if found.most > found.number else ""
    lines = [f"{counted(found.number, 'community')}{more}"]
    sides = [found] if found.columns is None else [found, found.columns]
    for k in range(min(_TOLD, found.number)):
        of = [f"{side.sizes[k]:,}, such as {', '.join(map(shown, side.central[k]))}" for side in sides]
        lines.append(f"  {k}: {'; '.join(of)}")
    unsure = [side.doubtful for side in sides if side.doubtful]
    return lines + [f"  doubtful: {len(ids):,}, such as {', '.join(map(shown, ids[:_TOLD]))}" for ids in unsure]


def facts_of(found: Communities) -> dict[str, object]:
    """Return what is told of communities as JSON."""
    sides = {"": found} if found.columns is None else {"": found, "column_": found.columns}
    facts: dict[str, object] = {"number": found.number, "most": found.most, "p": found.p}
    facts["strength"] = found.strength.tolist()
    for name, side in sides.items():
        told = {"sizes": side.sizes.tolist(), "central": side.central, "doubtful": side.doubtful}
        facts |= {f"{name}{key}": value for key, value in told.items()}
    return facts
