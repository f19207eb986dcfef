"""Seeded faults: does the suite notice a wrong sign, axis, bound or constant?

    python tests/support/mutants.py              all faults: one line each; fails if one is missed
    python tests/support/mutants.py adam window  those whose name holds one of the words
    python tests/support/mutants.py --check      only whether each piece of code is still found, which takes no time

Each fault changes one piece of the source, which is looked for in the whole package and must be there exactly once, so
that it does not matter in which file it stands. The change is made in a copy of the package, and the tests of the
fault's files run against the copy until one fails. A fault that no test notices is a gap in the tests; one whose code
is not found has to be rewritten with the code.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "nearfar"


class Fault(NamedTuple):
    """A piece of code, in it «what is there→what stands there instead», and the files of tests that should notice."""

    name: str
    change: str
    tests: str

    @property
    def code(self) -> str:
        return re.sub("«(.*?)→(.*?)»", r"\1", self.change, flags=re.DOTALL)

    @property
    def instead(self) -> str:
        return re.sub("«(.*?)→(.*?)»", r"\2", self.change, flags=re.DOTALL)


FAULTS = [
    # -- the command, and what it says first
    Fault("communities: rows are not columns' other side", "(pull * sums«[::-1]→»[side])", "test_found_communities"),
    Fault("communities: a node hears what it said itself", "out «/= gain→*= 1»", "test_found_communities"),
    Fault("communities: pieces in one group", "    if «apart→False»:", "test_found_communities"),
    Fault("communities: smallest first", 'np.argsort(np.argsort(«-→»held, kind="stable"))', "test_found_communities"),
    Fault(
        "map: cosines of one direction apart",
        "out«[out < _ROUNDING] = 0\n        out[np.arange(len(rows)), rows] = 0→ += 0.25»",
        "test_neighborhoods",
    ),
    Fault("command: a flag for a file", '«not getattr(by_name, "is_flag", False)→True»', "test_contacts"),
    Fault("compiler: said again and again", "if «before > →»0 >= _left", "test_slow"),
    # -- EDRep
    Fault("edrep: the far force pulls", "ri * («→-»force[i, c] + ", "test_edrep"),
    Fault("edrep: a step up the gradient", "x[c] = stay * x[c] «-→+» move * g[c]", "test_edrep"),
    Fault("edrep: rate falls an epoch early", "self.start * (1 - «epoch→(epoch + 1)» / self.n_epochs)", "test_edrep"),
    Fault("edrep: the prior in the loss", "prior «+→-»= r[i] * dot_others", "test_edrep"),
    Fault(
        "formula: no sum of rows", "g += «xp.asarray(p0, dtype=x.dtype)[:, None] * of_rows→0»", "test_places test_edrep"
    ),
    Fault("formula: a step off the sphere", "g -= «(x * g).sum(1)[:, None] / there→0» * x", "test_places test_edrep"),
    Fault("formula: a component's share", "force *= xp.asarray(xp.exp(«log_z - total→total - log_z»)", "test_places"),
    Fault("places: others are not copied", "others = others«.copy() if far.keeps_others else others→»", "test_places"),
    Fault(
        "places: pieces of a column start at the first",
        "drawn = self.drawn.part(«self.first + start, self.first +→start,» stop)",
        "test_places",
    ),
    Fault("places: plain place by rows alone", "max(shape) <= FEW_ROWS« and n_entries <= FEW_ENTRIES→»", "test_places"),
    Fault("checkpoint: defaults are not remembered", 'parameters_of({f"{name} in use"«→[:0] or "x"»', "test_callbacks"),
    Fault("far field: all labels", "name: np.asarray(params[name])[«columns→: len(columns)»] for name", "test_places"),
    Fault(
        "relations: a plain product without base", "np.add(«base→0», value, out=out, casting", "test_small_relations"
    ),
    # -- senses in few bits
    Fault(
        "senses: context vectors of few bits become floats",
        "return Embedding«._of(vectors, ids, →(vectors, ids, parameters=»self._parameters)",
        "test_quantized",
    ),
    Fault("senses: those of some words keep all weights", "read_only(self._weights«[of_all]→»)", "test_senses"),
    # -- relations
    Fault(
        "ppmi: columns by the sums of rows",
        "rows, columns = self.row_sums, self.row_sums« if self.symmetric else self.column_sums→»",
        "test_relation",
    ),
    Fault("ppmi: the shift is added", "/ by_chance) «-→+» shift", "test_relation"),
    # -- contacts and spreading
    Fault(
        "contacts: next times swapped", "columns = after[np.concatenate([order[same], «b, a→a, b»])]", "test_contacts"
    ),
    Fault(
        "contacts: slices one early", "np.maximum(_quotient(begins - first - length, pace)« + 1→», 0)", "test_contacts"
    ),
    Fault(
        "spreading: the newly infected recover at once",
        "        «_recover(states, infected, mu, rng)\n        states[caught] = _INFECTED→"
        "states[caught] = _INFECTED\n        _recover(states, states == _INFECTED, mu, rng)»\n",
        "test_spreading",
    ),
    Fault(
        "spreading: one way of a contact", " + «→0 * »np.bincount(a, w * infected[b], minlength=n)", "test_spreading"
    ),
    # -- far fields, kernels, divergences, maps
    Fault("mixture: covariance about the origin", "(outer / count - «→0 * »mean[:, None] * mean)", "test_far_fields"),
    Fault(
        "noise: share inverted", "math.log(«len(present) / size→size / len(present)»)", "test_far_fields test_contracts"
    ),
    Fault("kernel: heavy tail", "return exp(«-→»ln1p(", "test_kernels"),
    Fault("kernel: slope of the heavy tail", "beta / (one + «alpha * →»beta * f)", "test_kernels"),
    Fault("reverse KL: derivative", "np.log(q / floored(p, self.floor, uniform)) «+→-» 1", "test_divergences"),
    Fault("map formula: the far factor", "-2 * (b * xp.log(S) «+→-» M) / S", "test_neighbor_objective"),
    Fault(
        "map formula: charges without the entropy",
        "minus_M -= b * «(xp.log(S) + entropy(xp, S, w, w_ln_w[0], cost)→xp.log(S»)",
        "test_neighbor_objective",
    ),
    Fault("map formula: 1/S of the other row", "((u_ij, w_i), (u_ji, «w_j→w_i»))", "test_places"),
    Fault("map formula: the second of noise", "total = total - «→0 * »xp.stack([xp.roll(row, step, 0)", "test_places"),
    Fault("descent: rows as steep as their sum", "if phase.decays else 1.0)« * scale→»", "test_neighbor_embedding"),
    Fault("descent: the mean is not put to 0", "y += velocity - «→0 * »xp.asarray(moved / n", "test_momentum"),
    Fault("descent, compiled: the mean is not put to 0", "Y[i, c] += v« - mean[c]→»", "test_momentum"),
    Fault("map: a sign in the plain gradient", "[:, None] * Y[rows] «-→+» k @ Y", "test_neighbor_objective"),
    Fault(
        "map: 1/S of another row", "back = «inverse_S[neighbors[t]] if kind[2] else →»scale", "test_neighbor_objective"
    ),
    Fault("map, per point: the force of the other", "out[j] «-→+»= one", "test_per_point"),
    Fault(
        "map: the start under a kernel that is flat at 0",
        "return reach, «math.sqrt(_SQUARES[first]) if first else →»SPREAD",
        "test_extending_maps",
    ),
    Fault("map, noise: the charge of the first", "charges[start« + back * shift→» : stop", "test_noise_maps"),
    Fault("map, new points: a sign of the entropy", "entropy «+→-»= e[j]", "test_map_transform"),
    # -- MDS
    Fault("mds: the weight of a group", "+ k]] += «weight * →»found[c, k]", "test_mds_scale"),
    Fault("mds: force on the other end", "target[j] «-→+»= force", "test_mds"),
    Fault("mds: Sammon's cost", "share * gap« * gap→», share", "test_mds"),
    # -- relations, affinities, neighbours
    Fault("edges: decimals", "(before * power + after) / «power→(10 * power)»", "test_edges"),
    Fault("edges: int64 overflow", "lengths.max() > «19→18»", "test_edges"),
    Fault("affinities: the joint sums to 1", "p.dtype.type(«0.5→1.0» / n)", "test_affinities"),
    Fault(
        "affinities: mean over perplexities",
        "of_rows.astype(np.float32) * np.float32(«1 / several→1»)",
        "test_several_perplexities test_affinities",
    ),
    Fault("affinities: rows of ties but one", "alone = (ties < k«→ - 1») &", "test_affinities"),
    Fault("transpose: rows and columns", "(len(indptr) - 1, n_columns))«.tocsc()→»", "test_relation test_products"),
    Fault("edges: duplicates as they were sorted", "by_columns.has_canonical_format = «True→False»", "test_edges"),
    Fault(
        "search: rows that are left out, block by block",
        "return [(rows[part] «- block * n_rows, queries[part→% n_rows, queries[part[::-1]»])",
        "test_left_out",
    ),
    # -- words and text
    Fault(
        "text: a mark at the end of a piece",
        "part = «next((n for n in (2, 1) if text.endswith(_MARK[:n])), 0)→0»",
        "test_readers_of_text",
    ),
    Fault("binary vectors: rows that begin at no line feed", "usual = n_feeds «== n - 1→< n» or", "test_foreign_files"),
    Fault("senses: a word after is as one before", "words[j]« + after * (j > i)→»", "test_induction"),
    Fault("senses: what is apart", "1 - (3 * own «-→+» between[some]) / 4", "test_induction"),
    Fault("phrases: rounding shows", "«found[little] = algebra.positive_part(found[little])→pass»", "test_composition"),
    Fault("Adam: second moment", "b = multiply_add(kind(1 - BETAS[«1→0»]), square", "test_skipgram test_word_trainer"),
    Fault("word formula: which noise counts", "g *= «counts→1.0»", "test_word_formulas"),
    Fault("word formula: slopes without what is right", "slopes «*→»= g  #", "test_word_formulas"),
    Fault("word formula: eq. (8), the ridge of outs once", "pull_of_y -= ridge * «often * →»D", "test_word_formulas"),
    Fault(
        "word formula: the limit of a step",
        "xp.clip(longest «/ (length + (length == 0))→+ 0 * length», None, 2 * rate)",
        "test_word_formulas",
    ),
    Fault(
        "word formula: noise in its own column", "met = best« if own else [best[0]] * len(best)→»", "test_word_formulas"
    ),
    Fault(
        "word formula: middle of contexts", "a, others = context - middle, centres« - middle→»", "test_word_formulas"
    ),
    Fault(
        "learner: threads that share",
        "if «name == THREADS and training.model.deterministic→False»:",
        "test_word_trainer",
    ),
    Fault(
        "learner: held-out text is trained on", "validation_seeds, [«0.0→1e-3»] * len(validation)", "test_word_trainer"
    ),
    Fault("window: the last word on the right", "min(end, i + reach« + 1→»)", "test_word_trainer"),
    Fault("subsampling: the square root", "«np.sqrt(relative)→relative» + relative", "test_word_trainer"),
    Fault(
        "alias table: rest of a cell", "threshold[high] -= «1.0 - →»threshold[low]", "test_skipgram test_relation_pairs"
    ),
    Fault("vocabulary: min_count itself is kept", "scan.counts >«=→» min_count", "test_text"),
    # -- contrastive losses and tables
    Fault("InfoNCE: log N", "(joint - candidates.logsumexp(dim=1)).mean() «+→-» math.log", "test_mutual_information"),
    Fault("NCE: Jensen-Shannon", "-softplus(-joint).mean() - softplus(«→-»others).mean()", "test_mutual_information"),
    Fault("margin loss: sign", "torch.relu(margin «- true[:, None] +→+ true[:, None] -» noise)", "test_losses"),
    Fault("NB-ANT: price of an anchor", "«(anchor_price - penalty)→anchor_price» * n_anchors", "test_nbant"),
    Fault("small tables: what is outside goes no further", "(x.abs() > 1) & (slope * x «<→>» 0)", "test_small"),
    # -- embedding, search, evaluation
    Fault("density: weight off the diagonal", "1.0, «math.sqrt(0.5)→0.5»", "test_density"),
    Fault("senses: larger entropy wins", "((entropies[k] «>→<» others)", "test_sense_induction test_planted_senses"),
    Fault("search: length of the rows", "X / np.where(norms > 0, norms, 1.0)[:, None]«→ ** 2»", "test_embedding"),
    Fault("align: turned the other way", "R = «U @ Vt→(U @ Vt).T»", "test_alignment"),
    Fault("align: the shift forgets the turn", "factor * «(y_mean @ R)→y_mean»", "test_alignment"),
    Fault("stability: the factor of the jackknife", "«(s - 1)→1» / s * ((left_out", "test_stability"),
    Fault("stability: distances without the lengths", "«-0.5→0.0» * np.einsum", "test_stability"),
    Fault("links: edges of the forest are hidden", "«~→»np.isin(graph.keys, forest", "test_graph_tasks"),
    Fault("links: edges among the other pairs", "drawn«[~np.isin(drawn, edges)]→»", "test_graph_tasks"),
    Fault(
        "links: the same pairs train and test",
        "part = slice(«at * n_hidden // n_parts, (at + 1) *→0,» n_hidden // n_parts)",
        "test_graph_tasks",
    ),
    Fault("labels: number is not known", "guess = rank < «labels.sum(axis=1, keepdims=True)→1»", "test_graph_tasks"),
    Fault("labels: noise lives", "max(found[0], «2 * np.sqrt(c - 1) / c→0.0»)", "test_tasks"),
    Fault("device: what a point finds of itself on the mesh", "gx «-→+»= share * own_x", "test_devices"),
    Fault(
        "device: the changes of a batch in full",
        "torch.«where(alone > 0, -torch.expm1(-all_z) / alone, 1→ones_like(alone»)",
        "test_devices",
    ),
    Fault("device: noise that is the centre", "counts = outs «!= outs[:, :1]→== outs»", "test_devices"),
    Fault("nbant: each process by its own loss", "value = «losses.mean().item()→mine»", "test_anchor_processes"),
    # -- what a file of edges is
    Fault("header: a value that comes again speaks for it", "odds «-→+»= _SURE\n", "test_edges test_what_files_are"),
    Fault("ends: labels of a column are partners", "if again« or _is_label(a, b)→»:", "test_what_files_are"),
    Fault("copies: a slot keeps what it meant", "self.slots.columns.copy_(«→self.slots.»columns)", "test_copies"),
    Fault("weight: distance as is", "if «column.numeric and column.is_distance→False»:", "test_one_door"),
    Fault("amounts: thousands are decimals", 'field.strip("$€£¥₹% ").replace(",", "«→.»")', "test_edges"),
    # -- a machine that others use
    Fault(
        "code files: a group's runs", "facts.st_mode & «(stat.S_IWGRP | stat.S_IWOTH)→stat.S_IWOTH»", "test_code_files"
    ),
    Fault(
        "code files: most recently used go", "for _, size, path in sorted(found«→, reverse=True»):", "test_code_files"
    ),
    Fault(
        "cluster: silent once for good", "looks + «1 if beat == before else 0→(beat == before)»", "test_stopped_workers"
    ),
    Fault(
        "ids: a float 2**53 is exact", "large = np.abs(column) >«=→ 2 *» limit", "test_relations_refusals test_doubts"
    ),
]


def places(code: str) -> list[Path]:
    """Return the files that hold a piece of code, once for each time."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        found += [path] * path.read_text("utf-8").count(code)
    return found


def outcome(fault: Fault) -> tuple[str, str]:
    """Return "caught", "missed" or "broken" for a fault, and the test that failed or what else is to be said."""
    path = places(fault.code)[0]
    files = [str(next((ROOT / "tests").rglob(f"{name}.py"))) for name in fault.tests.split()]
    return tried(path, path.read_text("utf-8").replace(fault.code, fault.instead), files)


def tried(path: Path, text: str, tests: list[str], patience: float | None = None) -> tuple[str, str]:
    """Run tests against a copy of the package in which a module has another text, until one fails."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "nearfar"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / path.relative_to(PACKAGE)).write_text(text, "utf-8")
        environment = {
            "NEARFAR_CACHE_DIR": str(PACKAGE / "__pycache__" / "kernels"),  # only what the fault changes is compiled
            **os.environ,
            "PYTHONPATH": os.pathsep.join([folder, str(ROOT / "tests" / "support")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", *tests]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=patience
            )
        except subprocess.TimeoutExpired:
            return "caught", "the tests do not end"
    if done.returncode < 0:
        return "caught", f"the tests end by signal {-done.returncode}"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if failed:
        return "caught", failed[0].partition(" ")[2].partition(" - ")[0]
    return (
        ("missed", f"by {len(tests)}: {' '.join(tests)[:300]}")
        if done.returncode == 0
        else ("broken", done.stdout[-500:])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only faults whose name holds one of these")
    parser.add_argument("--check", action="store_true", help="only look whether the code of each fault is found once")
    args = parser.parse_args()
    chosen = [fault for fault in FAULTS if not args.words or any(word in fault.name for word in args.words)]
    lost = [
        f"{fault.name}: found {len(places(fault.code))} times: {fault.code}"
        for fault in chosen
        if len(places(fault.code)) != 1
    ]
    if lost or args.check:
        sys.exit("\n".join(lost) or 0)
    not_caught = 0
    for fault in chosen:
        started = time.perf_counter()
        verdict, told = outcome(fault)
        not_caught += verdict != "caught"
        print(f"{verdict:7} {time.perf_counter() - started:5.0f} s  {fault.name:40} {told}", flush=True)
    print(f"{len(chosen) - not_caught} of {len(chosen)} caught")
    sys.exit(not_caught > 0)


if __name__ == "__main__":
    main()
