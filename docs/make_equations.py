"""Write docs/equations.md, where each equation of a paper stands and in which fits it runs: ``make_equations.py``.

An equation is named once in ``nearfar/methods``, by a comment at its line, or above it where that is long: ``# eq. (6):
what it says``, or ``# Word2DM eq. (5): ...`` where a file is of several papers; a symbol of a source without numbers by
``# symbol q_ij: what it is``. Elsewhere the comment begins with its source: ``# ANT eq. (34): what it says``, ``# NCE
notes, lemma C.1: what it says``.

The fits of ``FITS`` are carried out and watched: the page says of each equation and fit whether its line ran, whether
its compiled form did, or neither. Nobody sees a line of compiled code at work; its form is seen when it is called.
``NOT_HERE`` has the equations of the sources that no line computes. The tests find the page out of date.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from make_follow import At, graph, points, t_sne, text

import nearfar as nf
from nearfar.engines import threads
from nearfar.engines.threads import words

HERE = Path(__file__).parent
SOURCE = Path(nf.__file__).parent
PAPERS = {
    "affinities": "Neighbours: van der Maaten & Hinton 2008; Lee, Peluffo-Ordóñez & Verleysen 2015",
    "density": "Maps that keep densities: Narayan, Berger & Cho 2021",
    "descent": "The descent of a map: van der Maaten & Hinton 2008",
    "edrep": "EDRep, Dall'Amico & Belliardo, arXiv 2303.17475 v3",
    "noise_maps": "Maps with sampled repulsion: Damrich, Böhm, Hamprecht & Kobak 2023",
    "maps": 'Maps, Melville, "Deriving embedding gradients"; a kernel for each point: Kitazono et al. 2016',
    "tails": "Maps that learn the tail of their kernel",
    "words": "Words: SGNS, Mikolov et al. 2013; Word2DM, Meyer & Lewis 2020",
}
FORMS = {**threads.FORMS, **threads.FORMS_OF_PAIRS, **words.FORMS}
EDREP, MAPS, NOISE = (f"engines/threads/{name}.py" for name in ("edrep", "maps", "noise"))
LOOPS = {
    "mixture": At(EDREP, "energy = log_counts[a] + _energy("),
    "loss_gradient": At(EDREP, "ri * (force[i, c] + "),
    "sphere_step": At(EDREP, "x[c] = stay * x[c] - move * g[c]"),
    "attraction": At(MAPS, "gx += k * dx"),
    "momentum_step": At(MAPS, "v = momentum * v - learning_rate"),
    "next_gain": At(MAPS, "gain = gain_of(gains[i, c]"),
    "global_pull": At(NOISE, "share = own[t] / (w + W)"),
}
"""The line of a formula's equation in its compiled loop; of other loops the first line is named."""
CALLS = {"next_gain": "momentum_step"}
"""The formula whose compiled form has that of another in it."""
_NAMED = re.compile(r"# (?:symbol )?((?<=symbol )\S+|(?:\w+ )?eqs?\. \(\d+\)|the step): (.*)$")

SOURCES = "EDRep|SGNS|Word2DM|NCE notes|Gradients|ANT|NeRV|ws-SNE"
_ELSEWHERE = re.compile(rf"# ((?:{SOURCES})(?:,| (?=eqs?\. |algorithm |appendix |definition )) ?[^:]+): (.*)$")


class Equation(NamedTuple):
    """An equation, and where it stands."""

    name: str
    says: str
    module: str
    line: int
    formula: str


def equations(module: Path) -> list[Equation]:
    """Return the equations that a module of ``nearfar/methods`` names, in the order of their names."""
    return sorted(_named(module, _NAMED, module.stem))


@functools.cache
def elsewhere() -> list[Equation]:
    """Return the equations that stand in other modules, in the order of their names; a module is its path."""
    found = []
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).as_posix()
        if not module.startswith("methods/"):
            found += _named(path, _ELSEWHERE, module)
    return sorted(found)


def _named(path: Path, form: re.Pattern[str], module: str) -> list[Equation]:
    text = path.read_text("utf-8")
    if not any(map(form.search, text.splitlines())):  # most modules: nothing is parsed
        return []
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for name, says in form.findall(line):
            around = (node for node in functions if node.lineno <= number <= (node.end_lineno or 0))
            found.append(Equation(name, says, module, number, max(around, key=lambda node: node.lineno).name))
    return found


# ---------------------------------------------------------------- the fits that are watched


def _map(make: Callable[..., Any], n: int = 150, **given: Any) -> Any:
    """Return another map, of a few iterations."""
    short = {"max_iter": 60, "early_exaggeration_iter": 30, "random_state": 0, "n_jobs": 1, "perplexity": 10}
    return make(**{**short, **given}).fit(points(n))


def _losses() -> None:
    """Call the losses and bounds of the notes on noise-contrastive estimation."""
    import torch

    scores = torch.tensor([[1.0, 0.2, -0.5], [0.3, 0.8, 0.1]], dtype=torch.float64, requires_grad=True)
    target, log_q = torch.tensor([0, 1]), torch.full((2, 3), 1 / 3, dtype=torch.float64).log()
    total = nf.nn.global_nce(scores, target) + nf.nn.local_nce(scores, target) + nf.nn.hinge(scores, target)
    (total + nf.nn.sampled_softmax(scores[:, 0], scores[:, 1:], log_q[:, 1:])).backward()
    nf.nn.recover_conditional(scores.detach(), log_q)
    nf.nn.recover_conditional(scores.detach(), log_q, loss="local", n_candidates=3)
    square = scores.detach()[:, :2]
    nf.nn.info_nce_bound(square)
    nf.nn.js_objective(square)
    nf.nn.AdaptiveNoise(lambda: torch.zeros(3)).sample((2, 2))


def _anchors() -> None:
    """Train a small table of anchors by ProxAdam, with what is related, and ask for logits."""
    import torch

    table = nf.nn.AnchorEmbedding(6, 4, 3, nnz_per_row=3, penalty=1e-3, anchor_ids=torch.arange(3))
    pairs = nf.nn.RelatedPairs(nf.Relation.from_edges([(0, 3), (1, 4)]))
    table.set_related(pairs)
    optimizer = nf.nn.ProxAdam(table.parameters(), lr=0.01)
    for _ in range(2):
        loss = table(torch.arange(6)).square().sum() + nf.nn.unrelated_overlap(table, pairs)
        loss = loss + nf.nn.anchor_overlap(table.anchors, absolute=True)
        loss = loss + table.logits(torch.ones(2, 4)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    growing = nf.nn.AnchorEmbedding(6, 4, 3, nnz_per_row=3, penalty=1e-3)
    course = nf.nn.NBANT([growing], anchor_price=1e-2, penalty=1e-3, initial=2)
    for value in (1.0, 1.1, 1.2, 1.3):
        course.step(value)
    nf.nn.softmax_mixture([table, growing], torch.arange(6))


def _contacts() -> None:
    nf.Relation.from_contacts([(0, "a", "b"), (20, "a", "b"), (40, "b", "c")], window=20)


def _edrep(n: int, d: int) -> None:
    nf.EDRep(d, n_epochs=3, random_state=0, n_jobs=1).fit(graph(n))


def _in_words(make: Callable[..., Any], *given: Any, **more: Any) -> None:
    make(*given, n_epochs=1, n_jobs=1, random_state=0, **more).fit(text(200))


FITS: dict[str, Callable[[], object]] = {
    "EDRep, 77 nodes": lambda: _edrep(77, 8),
    "EDRep, 5,000 nodes": lambda: _edrep(5000, 32),
    "exact Z": lambda: nf.log_normalizers(points(150) / 20, method="exact", n_jobs=1),
    "t-SNE, 150": lambda: t_sne(150, 10),
    "t-SNE, 1,000": lambda: t_sne(1000, 30),
    "t-SNE, 5,000": lambda: t_sne(5000, 30),
    "densities kept": lambda: _map(nf.TSNE, density_weight=0.5).density_correlation_,
    "sampled repulsion": lambda: _map(nf.TSNE, far="noise"),
    "learned nu": lambda: _map(nf.InhomogeneousTSNE),
    "learned alpha": lambda: _map(nf.HSSNE, alpha="learn"),
    "skip-gram": lambda: _in_words(nf.SkipGram, 8),
    "skip-gram, torch": lambda: _in_words(nf.SkipGram, 8, engine="torch"),
    "Word2DM": lambda: _in_words(nf.Word2DM, 4, 4),
    "Word2DM, torch": lambda: _in_words(nf.Word2DM, 4, 4, engine="torch"),
    "losses of NCE": _losses,
    "a table of anchors": _anchors,
    "contacts": _contacts,
    "NeRV, 150": lambda: _map(nf.NeRV),
    "JSE, 150": lambda: _map(nf.JSE),
    "SSNE, 150": lambda: _map(nf.SSNE),
    "HSSNE, 150": lambda: _map(nf.HSSNE),
    "ws-SNE, 150": lambda: _map(nf.WSSNE),
    "MDS, 150": lambda: nf.MDS(random_state=0, n_jobs=1, max_iter=5).fit(points(150)),
}
_OF_MAPS = ("t-SNE, 150", "t-SNE, 1,000", "t-SNE, 5,000")
COLUMNS = {
    "affinities": _OF_MAPS,
    "density": ("densities kept",),
    "descent": _OF_MAPS,
    "edrep": ("EDRep, 77 nodes", "EDRep, 5,000 nodes", "exact Z"),
    "noise_maps": ("sampled repulsion",),
    "maps": (*_OF_MAPS, "learned nu"),
    "tails": ("learned alpha",),
    "words": ("skip-gram", "skip-gram, torch", "Word2DM", "Word2DM, torch"),
}
Ran = set[tuple[str, int]]
"""Lines that ran: paths under ``nearfar`` and numbers."""


@contextmanager
def _called(ran: Ran) -> Iterator[None]:
    """Note the call of a compiled form by its first line: nobody sees one of its lines."""

    def noted(form: Any) -> Callable[..., Any]:
        code = form.py_func.__code__

        def call(*given: Any) -> Any:
            ran.add((Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_firstlineno))
            return form(*given)

        return call

    of_words = [(vars(sys.modules[form.py_func.__module__]), form.__name__) for form in words.FORMS.values()]
    others: list[tuple[Any, Any]] = [(threads.FORMS, formula) for formula in threads.FORMS]
    before = [(of, name, of[name]) for of, name in [*of_words, *others] if hasattr(of[name], "py_func")]
    for of, name, form in before:
        of[name] = noted(form)
    try:
        yield
    finally:
        for of, name, form in before:
            of[name] = form


def lines_of(fit: Callable[[], object]) -> Ran:
    """Return the lines of ``nearfar`` that run in a fit, of the modules that name equations or have compiled forms.

    A fit has one worker: those of several are threads of an earlier fit, which nobody watches.
    """
    named = {f"methods/{path.name}" for path in (SOURCE / "methods").glob("[a-z]*.py")}
    named |= {one.module for one in elsewhere()}
    named |= {Path(inspect.getsourcefile(_code(form)) or "").relative_to(SOURCE).as_posix() for form in FORMS.values()}
    files = {str(SOURCE / module): module for module in named}
    ran: Ran = set()

    def trace(frame: FrameType, event: str, _given: object) -> Any:
        module = files.get(frame.f_code.co_filename)
        if module is None:
            return None
        if event == "line":
            ran.add((module, frame.f_lineno))
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        with _called(ran):
            fit()
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]
    return set(ran)  # threads that live on may add to the other one


def _code(form: Any) -> Any:
    return getattr(form, "py_func", form).__code__


def _statement(module: str, line: int) -> range:
    """Return the lines of the statement at a line, or of the next one where it holds a comment alone."""
    tree = ast.parse((SOURCE / module).read_text("utf-8"))
    simple = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    around = [node for node in simple if node.lineno <= line <= (node.end_lineno or 0)]
    found = around[0] if around else min((n for n in simple if n.lineno > line), key=lambda node: node.lineno)
    return range(found.lineno, (found.end_lineno or found.lineno) + 1)


def compiled(equation: Equation) -> tuple[str, range, int] | None:
    """Return the compiled form of an equation's formula, None if there is none.

    That is its module, the lines that are seen where it is called, and the line where the equation runs.
    """
    name = CALLS.get(equation.formula, equation.formula)
    for formula, form in FORMS.items():
        if (formula.__module__.rpartition(".")[2], formula.__name__) == (equation.module, name):
            lines, first = inspect.getsourcelines(_code(form))
            module, loop = Path(_code(form).co_filename).relative_to(SOURCE).as_posix(), LOOPS.get(equation.formula)
            return module, range(first, first + len(lines)), first if loop is None else loop.line()
    return None


def place(equation: Equation, ran: Ran) -> str:
    """Return where an equation runs in a fit: at its line, in its compiled form, in both, or nowhere."""
    module = equation.module if equation.module.endswith(".py") else f"methods/{equation.module}.py"
    places = [str(equation.line)] if any((module, n) in ran for n in _statement(module, equation.line)) else []
    form = compiled(equation)
    if form and any((form[0], n) in ran for n in form[1]):
        places.append(f"`{form[0]}`, {form[2]}")
    return "; ".join(places) or "–"


# ---------------------------------------------------------------- what no line computes

INSIDE = "inside compiled code"
NOT_HERE = {
    "Word2DM eqs. (1), (2), (3)": "skip-gram and its step: SGNS eq. (4) above; (2) is misprinted",
    "Word2DM eqs. (5), (6), (7)": "eq. (4) in other forms, with the squares of lemma A.2",
    "Word2DM property A.1": "a scalar product of the entries of A_t and A_o, in eq. (4)",
    "Word2DM lemma A.2": "the entries of B_oᵀ B_t are not formed: A_t and A_o are; the lab tests the lemma",
    "NCE notes, lemma 1.1, corollary 1.2": "an entropy: B(θ) of section 1.2 at its best scores, ln N - H",
    "NCE notes, eqs. (1), (3)": "what the best scores tell; the losses come to them, which the tests show",
    "NCE notes, eq. (4)": "an entropy: the expectation of the binary loss, section 2, at its best scores",
    "NCE notes, eq. (5)": "the expectation of the ranking loss over all candidates, section 1",
    "NCE notes, eqs. (6), (7), (8)": "gradients, by torch from the losses; the lab tests (8)",
    "ANT eqs. (1), (6)": "the loss is the caller's; the price of T is in eqs. (2), (3)",
    "ANT eq. (4)": "the scaled likelihood of the derivation",
    "ANT eqs. (5), (20), (21), (36)": "eq. (34) in other places",
    "ANT eqs. (7) to (19)": "the Indian buffet process and its limit of small variance: a derivation of eq. (34)",
    "ANT eqs. (22) to (31)": "Bregman divergences: squared error and cross-entropy, the caller's loss",
}
"""Numbered equations of the sources that no line computes, and what of them the code has."""


def page(watched: Mapping[str, Ran]) -> str:
    """Return the text of the page from the lines that ran in each fit."""
    lines = [
        "# Equations: where each stands",
        "",
        "An equation of `nearfar/methods` stands in one place, as a formula on arrays of any kind, which NumPy and",
        "torch run as it is written. Threads have a compiled form of some, which the tests compare with the formula.",
        "The fits at the head of a table were watched: a number is the line of the formula where it ran, a file the",
        "compiled form that was called, with its line there, – neither. No line inside compiled code is seen at work.",
        "`master` is a definition, which no fit calls: over all pairs fits run what ε stands in, else maps in linear",
        "time. The terms are those of the paper, its misprints under [errata](sources.md#errata). *NCE notes* are",
        "Stratos'; *Gradients*, Melville's, have no numbers, and sum ordered pairs: gradients of distances are twice",
        "those of stresses that count a pair once. *NeRV*: Venna, Peltonen, Nybo, Aidos & Kaski 2010; *ws-SNE*: Yang,",
        "Peltonen & Kaski 2014.",
        "",
    ]
    for module in sorted((SOURCE / "methods").glob("[a-z]*.py")):
        fits = COLUMNS[module.stem]
        lines += [f"## {PAPERS[module.stem]}", "", f"In `nearfar/methods/{module.name}`.", ""]
        lines += [
            f"| equation or symbol | says | line | formula | {' | '.join(fits)} |",
            "|---" * (4 + len(fits)) + "|",
        ]
        for one in equations(module):
            name, says = (text.replace("|", r"\|") for text in one[:2])
            places = " | ".join(place(one, watched[fit]) for fit in fits)
            lines.append(f"| {name} | `{says}` | {one.line} | `{one.formula}` | {places} |")
        lines.append("")
    lines += ["## Elsewhere", "", "In `nearfar/`.", ""]
    lines += ["| equation | says | module, line | function | runs in |", "|---|---|---|---|---|"]
    for one in elsewhere():
        says = one.says.replace("|", r"\|")
        fits = [name for name, ran in watched.items() if place(one, ran) != "–"]
        where = ", ".join(fits) or INSIDE
        lines.append(f"| {one.name} | `{says}` | `{one.module}`, {one.line} | `{one.formula}` | {where} |")
    lines += ["", "## Equations that no line computes", "", "| equation | why, or what of it there is |", "|---|---|"]
    lines += [f"| {name} | {why} |" for name, why in NOT_HERE.items()]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    (HERE / "equations.md").write_text(page({name: lines_of(fit) for name, fit in FITS.items()}), "utf-8")
