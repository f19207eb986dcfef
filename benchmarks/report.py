"""Write docs/benchmarks.md from the result files; a benchmark without results is listed as not measured.

python benchmarks/report.py
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _anchor_language_section import anchor_language
from _anchor_movielens_section import anchor_movielens
from _anchor_news_section import anchor_news
from _anchor_section import anchor_memory, anchor_steps
from _common import PAGE, RESULTS, write_text
from _compress_section import compress
from _edrep_sections import recommend, temperature, temperature_choice
from _figures import figure1, figure2
from _frontier_section import frontier
from _graph_section import graphs
from _house_section import against, cluster, cluster_maps, cold_start, writers
from _map_sections import (
    index,
    map_page,
    maps_floor,
    maps_grid,
    maps_growth,
    maps_noise,
    maps_per_point,
    maps_quality,
    maps_speed,
    maps_start,
    maps_umap,
    mds,
)
from _mi_section import mutual_information
from _nce_memory_section import nce_memory
from _nce_sections import retrieval, sampled_softmax
from _neighbor_section import neighbors
from _sections import (
    Section,
    Target,
    anything,
    communities,
    gradients,
    growth,
    labelled,
    matmul,
    reading,
    speed,
)
from _senses_section import senses
from _tables import Record, table
from _use_sections import genes, spreading
from _word2dm_section import word2dm
from _word_model_section import word_models
from _word_sections import text, warm_start, word_memory, words


@dataclass(frozen=True)
class Page:
    """Title, result file, command and function of a section; one that may be missing is left out then."""

    title: str
    name: str
    command: str
    write: Callable[[list[Record]], Section]
    may_be_missing: bool = False


PAGES = (
    Page("EDRep against the published package", "speed", "speed.py", speed),
    Page("Communities in planted graphs", "communities", "communities.py --fit all giant", communities),
    Page("Labelled graphs", "labelled_graphs", "labelled_graphs.py", labelled),
    Page("Labels and links of real graphs", "graphs", "graphs.py", graphs),
    Page("Temperature and walk length of EDRep", "temperature", "temperature.py --deepwalk", temperature),
    Page("Choosing the temperature of EDRep", "temperature_choice", "temperature_choice.py", temperature_choice),
    Page("Spreading on contacts with times", "spreading", "spreading.py", spreading),
    Page("Pairs of genes", "genes", "genes.py", genes),
    Page("EDRep on a cluster", "cluster", "cluster.py", cluster),
    Page("Maps on a cluster", "cluster_maps", "cluster_maps.py", cluster_maps),
    Page("Scaling of EDRep", "growth", "growth.py", growth),
    Page("Products of a relation and a matrix", "matmul", "matmul.py", matmul),
    Page("The far field on real vectors (figure 1)", "figure1", "figure1.py", figure1),
    Page("The mixture against the exact far field (figure 2)", "figure2", "figure2.py", figure2),
    Page("Variants of the gradient", "gradient_variants", "gradient_variants.py", gradients),
    Page("Reading edge files", "read_edges", "read_edges.py", reading),
    Page("t-SNE against openTSNE and scikit-learn", "maps_speed", "maps_speed.py", maps_speed),
    Page("All map methods in linear time", "maps_grid", "maps_grid.py", maps_grid),
    Page("Scaling of maps", "maps_growth", "maps_growth.py", maps_growth),
    Page("Quality of maps", "maps_quality", "maps_quality.py", maps_quality),
    Page("How maps with short tails start", "maps_start", "maps_start.py", maps_start),
    Page("The floor of reverse KL and NeRV", "maps_floor", "maps_floor.py", maps_floor),
    Page("Multidimensional scaling", "mds", "mds.py", mds),
    Page("Kernels with a parameter per point", "maps_per_point", "maps_per_point.py", maps_per_point),
    Page("From t-SNE to UMAP", "maps_noise", "maps_noise.py --contrastive PYTHON", maps_noise),
    Page("UMAP against umap-learn", "maps_umap", "maps_umap.py", maps_umap),
    Page("The page of a map", "map_page", "map_page.py", map_page),
    Page("Approximate search", "index", "index.py", index),
    Page("Writers and readers", "writers", "writers.py --postgres ADDRESS", writers),
    Page("Nearest-neighbour search", "neighbors", "neighbors.py --compile --sets pixels components", neighbors),
    Page("Encoding text", "text", "text.py", text),
    Page("Skip-gram against gensim", "words", "words.py", words),
    Page("Density matrices of words", "word2dm", "word2dm.py speed --torch PYTHON", word2dm),
    Page("Word models", "word_models", "word_models.py --cache FOLDER", word_models),
    Page("Senses in a file", "senses", "senses.py --cache FOLDER", senses),
    Page("Memory of word models", "word_memory", "word_memory.py", word_memory),
    Page("Warm starts of Word2DM", "warm_start", "warm_start.py", warm_start),
    Page("Retrieval on MovieLens 1M", "retrieval", "retrieval.py", retrieval),
    Page("Recommendation from likes on MovieLens 1M", "recommend", "recommend.py", recommend),
    Page("Sampled softmax on the Penn Treebank", "sampled_softmax", "sampled_softmax.py", sampled_softmax),
    Page("Mutual information of Gaussians", "mutual_information", "mutual_information.py", mutual_information),
    Page("Memory of contrastive losses", "nce_memory", "nce_memory.py", nce_memory),
    Page("Compressed tables on MovieLens 1M", "anchor_movielens", "anchor_movielens.py", anchor_movielens),
    Page("Quality against bytes", "frontier", "frontier.py --task movielens", frontier),
    Page("Training steps of anchor embeddings", "anchor_steps", "anchor_steps.py", anchor_steps),
    Page("Memory of anchor embeddings in training", "anchor_memory", "anchor_memory.py", anchor_memory),
    Page("Compressed tables in a news classifier", "anchor_news", "anchor_news.py --wordnet FOLDER", anchor_news),
    Page("Compressed tables in a language model", "anchor_language", "anchor_language.py", anchor_language),
    Page("Compressed word vectors", "compress", "compress.py --cache FOLDER", compress),
    Page("Cold start", "compile", "compile.py", cold_start),
    Page("Speed against the version before", "against", "against.py FOLDER", against),
    Page("Transforming new rows", "transform", "transform.py", anything, may_be_missing=True),
    Page("Relations larger than memory", "mapped", "mapped.py", anything, may_be_missing=True),
)

Run = dict[str, Any]


class Surroundings:
    """Machines and versions, numbered in order of first use."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def number_of(self, run: Run) -> int:
        """Return the number of a run's machine and versions, from 1."""
        m = run["machine"]
        where = f"{m['processor']}, {m['processors']} processors, {m['memory_gib']} GiB, {m['system']}"
        packages = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        text = f"{where}; Python {m['python']}, {packages}."
        if text not in self.known:
            self.known.append(text)
        return self.known.index(text) + 1

    def lines(self) -> list[str]:
        return [f"{number}. {text}" for number, text in enumerate(self.known, 1)] or ["Nothing is measured yet."]


MOST_COMMANDS = 4  # that are told one by one


def provenance(content: dict[str, Any], surroundings: Surroundings) -> list[str]:
    """Say when, by which commands and where the records that are left were measured."""
    used = sorted({r["run"] for r in content["records"]})
    runs = [content["runs"][i] for i in used]
    parts = dict.fromkeys(
        f"{r['started'][:10]} by `{r['command']}` (machine {surroundings.number_of(r)})" for r in runs
    )
    if len(parts) > MOST_COMMANDS:
        days = sorted({r["started"][:10] for r in runs})
        scripts = " and ".join(sorted({f"`{' '.join(r['command'].split()[:2])}`" for r in runs}))
        machines = ", ".join(map(str, sorted({surroundings.number_of(r) for r in runs})))
        when = " to ".join(dict.fromkeys((days[0], days[-1])))
        pieces = f"{len(parts)} pieces, which the result file names (machine {machines})"
        return [f"Measured {when} by {scripts} in {pieces}.", ""]
    return [f"Measured {', '.join(parts)}.", ""] if parts else []


def section_of(page: Page, content: dict[str, Any], surroundings: Surroundings) -> tuple[list[Target], list[str]]:
    """Return targets and lines of one section."""
    records = content["records"]
    if page.may_be_missing and not records:
        return [], []
    section = page.write(records)
    measured = [*provenance(content, surroundings), *section.lines] if records else ["Not measured yet."]
    return section.targets, [f"## {page.title}", "", f"Run `python benchmarks/{page.command}`.", "", *measured, ""]


def report(folder: Path = RESULTS) -> str:
    """Return the page."""
    targets: list[Target] = []
    body: list[str] = []
    surroundings = Surroundings()
    for page in PAGES:
        path = folder / f"{page.name}.json"
        content = json.loads(path.read_text()) if path.exists() else {"runs": [], "records": []}
        found, lines = section_of(page, content, surroundings)
        targets += found
        body += lines
    words = {True: "yes", False: "**no**", None: "–"}
    head = [
        "# Benchmarks",
        "",
        "This page is generated from `benchmarks/results/*.json` by `python benchmarks/report.py`; every number",
        "comes from a committed result file. Install the other programs with `pip install 'nearfar[bench]'`.",
        "",
        "## Targets",
        "",
        *table(["what", "target", "measured", "met"], [[t.what, t.target, t.measured, words[t.met]] for t in targets]),
        "",
        "## How to read the numbers",
        "",
        "The machine was shared with other work, so times vary between runs. Methods that are compared alternate.",
        "Times are medians over runs or graphs unless stated otherwise, and a ratio of times is a ratio of",
        "medians. Memory is resident memory. NMI is normalised mutual information with the planted or known",
        "groups; 1 is perfect. A dash means not measured. Machines and versions:",
        "",
        *surroundings.lines(),
        "",
    ]
    return "\n".join(head + body).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--output", type=Path, default=PAGE)
    args = parser.parse_args()
    write_text(args.output, report(args.results))


if __name__ == "__main__":
    main()
