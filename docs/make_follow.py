"""Write docs/follow.md, the way of one number through a fit, by file and line: ``python docs/make_follow.py``.

A step is a piece of a line of the package, which stands there once. Both fits of a method are carried out, and each of
their steps must run after the one before. Of compiled code nobody sees a line at work: it must stand in the module, and
the line that calls it must run where a step names that.
"""

from __future__ import annotations

import ast
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

import nearfar as nf
from nearfar.maps.objective import _FEW_ENTRIES, EXACT_UP_TO
from nearfar.methods.descent import DOWN, EARLY_MOMENTUM, LATE_MOMENTUM, LEAST, UP
from nearfar.relations.kernels import FEW_ENTRIES, FEW_ROWS
from nearfar.search.lists import FEW as FEW_POINTS

HERE = Path(__file__).parent
SOURCE = Path(nf.__file__).parent
T_SNE = nf.TSNE()


@functools.cache
def read(module: str) -> tuple[list[str], list[ast.ClassDef | ast.FunctionDef]]:
    """Return the lines of a module, and its classes and functions."""
    text = (SOURCE / module).read_text("utf-8")
    named = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    return text.splitlines(), named


class At(NamedTuple):
    """A line of the package: its module, and a piece of it that stands nowhere else there.

    Compiled code has the line that calls it, if that is known.
    """

    module: str
    code: str
    is_compiled: bool = False
    caller: At | None = None

    @property
    def watched(self) -> At | None:
        """The line that must run."""
        return self.caller if self.is_compiled else self

    def line(self) -> int:
        """Return its number."""
        lines, _ = read(self.module)
        found = [number for number, line in enumerate(lines, 1) if self.code in line]
        if len(found) != 1:
            raise LookupError(f"{self.module} must hold {self.code!r} on one line; got {found}")
        return found[0]

    def told(self) -> str:
        """Return file, line and function as the page has them."""
        line, (_, named) = self.line(), read(self.module)
        around = [node for node in named if node.lineno <= line <= (node.end_lineno or 0)]
        names = ".".join(node.name for node in sorted(around, key=lambda node: node.lineno))
        return f"`{self.module}`, {line}, `{names}`"


class Step(NamedTuple):
    """What happens to the number, and where in each fit; None where it does not happen, one place for all fits."""

    says: str
    places: tuple[At | None, ...]

    def at(self, fit: int) -> At | None:
        """Return where it happens in a fit."""
        return self.places[fit if len(self.places) > 1 else 0]


class Way(NamedTuple):
    """A method, its number, some fits of it by what they are called, the steps, and what a reader needs before.

    ``equations`` are those of the paper, each with how its step begins.
    """

    title: str
    number: str
    fits: dict[str, Callable[[], object]]
    steps: Sequence[Step]
    before: Sequence[str] = ()
    equations: Mapping[str, str] = {}


def step(says: str, *places: tuple[str, ...] | None) -> Step:
    """Return a step by its lines: a module and a piece of code.

    Where nobody sees it at work "compiled " is before the module, and module and code of its caller may come last.
    """
    found: list[At | None] = []
    for one in places:
        at = None if one is None else At(one[0].removeprefix("compiled "), one[1], one[0].startswith("compiled "))
        found.append(at if at is None or one is None or len(one) == 2 else at._replace(caller=At(*one[2:])))
    return Step(says, tuple(found))


def t_sne(n: int, perplexity: float) -> nf.TSNE:
    """Fit a map in a few iterations."""
    short = {"max_iter": 60, "early_exaggeration_iter": 30, "random_state": 0, "n_jobs": 1}
    return nf.TSNE(perplexity=perplexity, **short).fit(points(n))


def graph(n: int) -> nf.Relation:
    """Return the walks of a random graph."""
    rng = np.random.default_rng(0)
    return nf.Relation.from_edges(np.column_stack((np.repeat(np.arange(n), 5), rng.integers(0, n, 5 * n)))).random_walk(
        3
    )


def points(n: int) -> np.ndarray:
    """Return points of eight groups."""
    rng = np.random.default_rng(0)
    return (4 * rng.normal(size=(8, 20))[rng.integers(0, 8, n)] + rng.normal(size=(n, 20))).astype(np.float32)


def text(n: int) -> list[str]:
    """Return sentences of random words."""
    rng = np.random.default_rng(0)
    return [" ".join(f"w{word}" for word in row) for row in rng.zipf(1.5, (n, 10)).clip(1, 500)]


FITTING, EDREP, PLAIN = "estimators/fitting.py", "methods/edrep.py", "engines/plain.py"
FORMS, MIXTURE = "engines/threads/edrep.py", "far/gaussian_mixture.py"
THREADS_OF_EDREP = f"compiled {FORMS}"
OBJECTIVE, KERNELS = "maps/objective.py", "kernels.py"
DRAWING, SOLVER, MAPS = "maps/drawing.py", "maps/solver.py", "methods/maps.py"
AFFINITIES, DESCENT, FORMS_OF_MAPS = "methods/affinities.py", "methods/descent.py", "engines/threads/maps.py"
THREADS_OF_MAPS, FIELDS, MESH = f"compiled {FORMS_OF_MAPS}", "compiled far/fields.py", "compiled far/mesh.py"
MAKES_MESH = "far/mesh.py"
WORDS, WINDOWS, ON_DEVICE = "words/model.py", "words/windows.py", "engines/torch/words.py"
SKIPGRAM, LOOPS = "words/skipgram.py", "compiled words/skipgram.py"
NEIGHBORS = (THREADS_OF_MAPS, "k = scalar(both) * scalar(kernel.neg_log_slope(f, *parameters))")
GAIN, VELOCITY = (THREADS_OF_MAPS, "gain = gain_of(gains[i, c]"), (THREADS_OF_MAPS, "v = momentum * v - learning_rate")

WAYS = [
    Way(
        "EDRep",
        "one component of one vector, x_i",
        {
            "77 nodes": lambda: nf.EDRep(8, n_epochs=3, random_state=0).fit(graph(77)),
            "5,000 nodes": lambda: nf.EDRep(32, n_epochs=3, random_state=0, n_jobs=1).fit(graph(5000)),
        },
        [
            step('The gradient is chosen, here "forward".', (FITTING, 'gradient = "full" if with_base')),
            step("r_i is the sum of the row of P; p0 is uniform.", (FITTING, "r, columns = P.row_sums")),
            step("The step is that on the sphere.", (FITTING, 'step = CONSTRAINTS[p["constraint"]].step')),
            step("What is settled runs.", ("estimators/edrep.py", "self._keep(settings, run(settings")),
            step(
                f"The place is chosen: plain up to {FEW_ROWS:,} rows and {FEW_ENTRIES:,} entries.",
                ("engines/__init__.py", 'return "plain" if P.is_small'),
            ),
            step("x_i is drawn from a normal distribution.", (EDREP, "standard_normal(out=X[a:b]")),
            step("It is put on the sphere.", (EDREP, "np.divide(X, norms[:, None], out=X, where")),
            step("Yᵀ p0 and Xᵀ r are summed.", (EDREP, "of_sides = [(sides[1], p0)")),
            step("An epoch begins: its rate η.", (EDREP, "while (rate := rate_of(state))")),
            step("The far field takes in all vectors.", (EDREP, "asked = place.far(state.far, others")),
            step("Of both places it is the plain one that has it do so.", (PLAIN, "far.prepare(others, n_active")),
            step("The sums of vectors and of their products are made, over blocks.", (EDREP, "@ y, y.T @ y")),
            step("A cluster has μ and Ω.", (MIXTURE, "found = [gaussian(")),
            step("They are made of the sums, eq. (3).", (EDREP, "# eq. (3)")),
            step("A formula is named that takes them, eq. (2).", (MIXTURE, "return mixture, (")),
            step("The place takes the form that it has of it.", (PLAIN, "self._form, self._numbers = forms")),
            step("The pull of all rows is asked for.", (EDREP, "pull = place.near(P, others")),
            step(
                "It is P X. Of a walk, threads make the last product as rows move, from a copy.",
                ("relations/operators.py", "value = kept[transposed] @ "),
                (
                    "compiled relations/kernels.py",
                    "def product(",
                    "relations/operators.py",
                    "self._run(kernels.product, self._W",
                ),
            ),
            step(
                "Threads put their forms in the place of eq. (6) and of the step.",
                None,
                ("engines/threads/__init__.py", "name: FORMS.get("),
            ),
            step(
                "The rows move, in one block or many.",
                (PLAIN, "found = formula(X, *rows, **shared)"),
                ("engines/threads/__init__.py", "return form(x, *(None if"),
            ),
            step("The far field is asked about x_i.", (EDREP, "else far(x if temperature == 1")),
            step(
                "log Z_i and its gradient, eq. (2).",
                (EDREP, "# eq. (2)"),
                (THREADS_OF_EDREP, "energy += x[j] * (mean[j] + half", FORMS, "mixture_rows(x, log_counts"),
            ),
            step(
                "The gradient is put together, eq. (6).",
                (EDREP, "# eq. (6)"),
                (THREADS_OF_EDREP, "ri * (force[i, c] + ", FORMS, "loss = loss_gradient_rows(x, pull"),
            ),
            step(
                "x_i takes its step on the sphere.",
                (EDREP, "# the step:"),
                (THREADS_OF_EDREP, "x[c] = stay * x[c] - move * g[c]", EDREP, "step(x, g if temperature"),
            ),
            step("Its part of Yᵀ p0 and Xᵀ r is summed.", (EDREP, "reshape(len(weights), -1) @ x")),
            step("The loss of the epoch is told, eqs. (4) and (5).", (EDREP, "# eq. (5)")),
            step("x_i leaves the place.", (FITTING, "sides = [place.fetch(rows, brought)")),
            step("It is in embedding_.", ("estimators/edrep.py", "self.embedding_, self.context_embedding_ = ")),
        ],
        [
            "Eqs. (1) to (6) and the step stand in `methods/edrep.py`, as formulas on a block of rows. A place runs",
            "them: of 77 nodes the plain one, as they are; of 5,000 threads, which have a compiled form of eq. (2),",
            "eq. (6) and the step (`FORMS` in `engines/threads/edrep.py`), and run all else as it is: `Threads` is",
            "a `Plain`, of which `Asked` takes the form of eq. (2), and `Threads.each` the others. There",
            "`_mixture` and `_loss_gradient` call the loops `mixture_rows` and `loss_gradient_rows`. These lines run",
            "for any number of components, epochs and threads.",
            "",
            "Two equations are not quite those of the paper. The graph is undirected, so the gradient is",
            '`"forward"`: eq. (6) with P X for (P + Pᵀ) X, and without p0 Xᵀ r; `gradient="paper"` has both.',
            "In eq. (3) Ω is divided by n, not n - 1; eq. (2) gives Z, not Z / m, and its gradient is the last term of",
            "eq. (6); the step also puts the length of x_i right. There is one cluster, all the time; T is 1. After",
            "the fit eqs. (2) and (3) run once more, on a sample of rows, for `far_check_`.",
            "",
        ],
        {
            "eq. (2)": "log Z_i and its gradient",
            "eq. (3)": "They are made of the sums",
            "eq. (6)": "The gradient is put together",
            "the step": "x_i takes its step",
        },
    ),
    Way(
        "t-SNE",
        "one coordinate of one point, y_i",
        {
            "150 points": lambda: t_sne(150, 10),
            "1,000 points": lambda: t_sne(1000, 30),
            "5,000 points": lambda: t_sne(5000, 5),
        },
        [
            step("TSNE is KL by pair, under Student's t.", ("maps/recipes.py", 'return Parts(KL(), kernel, "pair")')),
            step("What is minimised, and how, is settled.", (DRAWING, "settings = MapSettings(owner, divergence")),
            step("The precision of row i is that of the perplexity.", (AFFINITIES, "# symbol H:")),
            step("Its p_j\\|i are worked out again where they are read.", (AFFINITIES, "# symbol p_j|i:")),
            step("1/n is what divides them, so that their sum is 1.", (OBJECTIVE, "P.factors = np.full(")),
            step("y_i starts where principal components say.", (SOLVER, "axes = np.linalg.eigh(")),
            step(
                "The field is chosen by the number of points.",
                None,
                (DRAWING, "return ExactField()"),
                (DRAWING, "return MeshField(accuracy.few"),
            ),
            step(f"Tails are long: the last momentum is {LATE_MOMENTUM[0]}.", (DESCENT, "longest, momentum = reach")),
            step(
                f"The first phase: ε is early_exaggeration, momentum {EARLY_MOMENTUM}.",
                (DESCENT, "phases = [Phase(early_iter, early, rate"),
            ),
            step("The last: ε is 1.", (DESCENT, "phases.append(Phase(left, late")),
            step("A phase begins.", (DESCENT, "minimised = objective.early(phase.kernel)")),
            step("An iteration: the gradient is asked for.", (DESCENT, "gradient, own = minimised.evaluate(")),
            step(
                "p_j\\|i are divided by n as they are read.",
                None,
                *[(OBJECTIVE, "block.data *= np.repeat(factors")] * 2,
            ),
            step(
                f"p_ij is made of both rows, once; of more than {_FEW_ENTRIES:,} p_j\\|i in `objective.py`, by strips.",
                None,
                *[(AFFINITIES, "# symbol p_ij:")] * 2,
            ),
            step(
                "Under KL s_ij is p_ij, whatever q is.", None, *[(OBJECTIVE, "fixed = formulas.fixed(self.p_ij)")] * 2
            ),
            step("The field of all points is asked for.", None, *[(MAPS, "potentials = field.evaluate(")] * 2),
            step(
                "Points are charges; these are spread on a mesh.", None, None, (MAKES_MESH, "spread(points, mesh, one,")
            ),
            step(
                "The potential there is their convolution with the kernel.",
                None,
                None,
                (MAKES_MESH, "fields, error = "),
            ),
            step("It is a product of waves.", None, None, (MAKES_MESH, "add_product(transformed[k].view(")),
            step(
                "The kernel, w = 1 / (1 + f): of one pair, or log w on the mesh, once. -w'/w is w.",
                (KERNELS, "one / (one + f)  # Gradients, t-dist"),
                (f"compiled {KERNELS}", "one / (one + f)  # Gradients, t-dist"),
                (f"compiled {KERNELS}", "return -ln1p(f)"),
            ),
            step("w is made of log w there, once.", None, None, (MAKES_MESH, "w = np.exp(log_w)")),
            step(
                "q_ij is w_ij / S; of more points it is not formed.",
                (MAPS, "((w + back) / 2 if by_pair and"),
                None,
                None,
            ),
            step(
                "Φ_i, the sum of w_ij over j, is summed.",
                None,
                (FIELDS, "w0 += value"),
                (MESH, "phi, along, across = _interpolate("),
            ),
            step(
                "The gradient of Φ_i, -2 Σ_j w_ij (-w'/w) (y_i - y_j).",
                None,
                (FIELDS, "out[k, i] = -2.0 * sums[k]"),
                (MESH, "gradient[i, 0] = per_step * (along"),
            ),
            step("S, the normaliser, is the sum of all Φ_i.", None, *[(MAPS, "totals = place.each(sums")] * 2),
            step("Near forces are asked for.", None, *[(MAPS, "of_pairs = place.pairs(")] * 2),
            step("ε is a factor of them.", None, *[(FORMS_OF_MAPS, "factor = dtype.type(2 * exaggeration")] * 2),
            step(
                "k_ij becomes forces, with ε; of more points its near part p_ij (-w'/w).",
                (MAPS, "gradient += forces(Y, (exaggeration * D_both"),
                NEIGHBORS,
                NEIGHBORS,
            ),
            step(
                "Its far part joins them, the repulsion: the gradient of Φ times -2 M / S.",
                None,
                *[(MAPS, "gradient += xp.asarray(-2 * (b * xp.log(S)")] * 2,
            ),
            step("The gain γ of the coordinate grows or falls.", (DESCENT, "# symbol γ:"), GAIN, GAIN),
            step("The velocity takes momentum and gradient; y_i moves.", (DESCENT, "# symbol v:"), VELOCITY, VELOCITY),
            step("Before each look the mean is put to 0.", (DESCENT, "Y -= Y.mean(axis=0")),
            step("The cost is kept; a map that does not get better stops.", (SOLVER, "state.costs.append(cost * ")),
            step("y_i is in embedding_, in the order of the rows.", (DRAWING, "self.embedding_ = state.X")),
        ],
        [
            "`master` in `methods/maps.py` is the definition: q_ij, k_ij, and the gradient of all pairs. Up to",
            f"{FEW_POINTS} points run it in NumPy, by blocks of rows (`AllPairs`, there). Of more, k_ij is formed for",
            "near pairs alone, where KL needs no q_ij: `LinearMap.evaluate`, below it, sums the near part of k_ij",
            "over the pairs whose p_ij is not 0, by the formula `attraction`, and takes the far part from a field,",
            "which sums Φ_i = Σ_j w_ij over all points but i: pair by pair, stepping over i, or of more than",
            f"{EXACT_UP_TO:,} on a mesh, of which it takes off what a point finds of itself. There `_interpolate`",
            "reads Φ_i and its slopes in mesh steps, to which `per_step` gives their unit. S is Σ_i Φ_i. Under KL by",
            "pair strengths s_ij are the p_ij, which the near loop has as `fixed`; it forms w_ij / S too, and does",
            "not use it. The sum of p_ij is 1, so M is -1; b, entropy and charges have no part. w_ij is the kernel;",
            "k_ij is what the gradient has before y_i - y_j: 4 ε p_ij (-w'/w) of the near part, which is the formula",
            "of one pair at every size, 4 q_ij (-w'/w) of the far one. The descent, and its step, stand in",
            "`methods/descent.py`.",
            "",
            f"By default perplexity is {T_SNE.perplexity:g} over three times as many neighbours, and ε is "
            f"{T_SNE.early_exaggeration:g} for {T_SNE.early_exaggeration_iter} iterations.",
            f"Momentum is {EARLY_MOMENTUM}, then {LATE_MOMENTUM[0]}; a gain grows by {UP} or falls to {DOWN} of "
            f"itself, to {LEAST} at least.",
            "",
            "Threads have compiled forms of `attraction` and `momentum_step` (`FORMS` and `FORMS_OF_PAIRS` in",
            "`engines/threads/maps.py`), and run the other formulas as they are.",
            "",
        ],
        {
            "calibration": "The precision of row i",
            "w_ij": "The kernel, ",
            "q_ij": "q_ij is w_ij / S",
            "Φ_i": "Φ_i, the sum",
            "its gradient": "The gradient of Φ_i",
            "S": "S, the normaliser",
            "near part of k_ij": "k_ij becomes forces",
            "its far part": "Its far part joins",
            "exaggeration": "ε is a factor",
            "momentum": "The velocity takes",
        },
    ),
    Way(
        "SkipGram",
        "one component of the vector of a word, x_t",
        {
            "by the formula, in torch": lambda: nf.SkipGram(8, n_epochs=1, engine="torch", random_state=0).fit(
                text(200)
            ),
            "on threads": lambda: nf.SkipGram(8, n_epochs=1, n_jobs=1, random_state=0).fit(text(200)),
        },
        [
            step("The words become numbers.", (WORDS, "encoded = text.encode(min_count")),
            step("The learning rate is chosen by the text.", (WORDS, "rate, before = self._first_rate(source)")),
            step("x_t starts at random.", (SKIPGRAM, "X = (rng.random((source.n_rows, d)")),
            step("An epoch begins: each block has a rate and a seed.", (WORDS, "rates = np.maximum(first * (1 - done")),
            step(
                "Words are left out at random, the more frequent the more often.",
                (ON_DEVICE, "kept = torch.rand(len(words)"),
                (WINDOWS, "n, n_sentences = kept_words(text"),
            ),
            step(
                "A window is drawn around each of the others, with noise.",
                (ON_DEVICE, "yield inputs, there, torch.cat"),
                (WINDOWS, "n_windows, n_sentences = draw_windows((words"),
            ),
            step(
                "Scores become errors, g = T - σ(x . y), eq. (4).",
                ("methods/words.py", "# SGNS eq. (4)"),
                (LOOPS, "slope, cost = slope_and_loss(scores"),
            ),
            step(
                "x_t takes its step.",
                (ON_DEVICE, "table.index_add_(0, flat, added"),
                (LOOPS, "total = multiply_add(g[a, o], load(Y, np.int64(now[o]) * width + k"),
            ),
            step("The loss of the epoch is told.", (WORDS, "state.losses.append(loss)")),
            step("x_t is in embedding_.", (SKIPGRAM, "self.embedding_, self.context_embedding_ = np")),
        ],
    ),
]


def not_followed(fit: Callable[[], object], steps: Sequence[At]) -> Iterator[At]:
    """Yield the step that does not run after those before it, and all that come later."""
    lines = [(str(SOURCE / at.module), at.line()) for at in steps]
    files, reached = {path for path, _ in lines}, 0

    def trace(frame: FrameType, event: str, _given: object) -> Any:
        nonlocal reached
        path = frame.f_code.co_filename
        if path in files and event == "line" and reached < len(lines) and lines[reached] == (path, frame.f_lineno):
            reached += 1
        return trace if path in files else None

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        fit()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    yield from steps[reached:]


def wrong(way: Way) -> Iterator[str]:
    """Yield what the page says of a method and its fits do not do."""
    for number, (told, fit) in enumerate(way.fits.items()):
        places = [at for one in way.steps if (at := one.at(number)) is not None]
        for at in places:
            at.line()
        for at in not_followed(fit, [at.watched for at in places if at.watched]):
            yield f"{way.title} of {told}: {at.module} does not come to {at.code!r} after the step before"


def row(told: str, one: Step, n: int) -> str:
    """Return a row of a table: what happens, and where in each of n fits."""
    places = ["-" if (at := one.at(number)) is None else at.told() for number in range(n)]
    cells = [place if place == "-" or place not in places[:k] else "the same" for k, place in enumerate(places)]
    return f"| {told} | {' | '.join(cells)} |"


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Follow one number",
        "",
        "Where a number goes in a fit, by file, line and function of `src/nearfar/`. Lines run in this order; of",
        "compiled code it is the line in the loop. Equations are those of the papers, see",
        "[where each stands](equations.md).",
        "",
    ]
    for way in WAYS:
        head = [f"| {' | '.join(('', *way.fits))} |", "|---" * (1 + len(way.fits)) + "|"]
        lines += [f"## {way.title}: {way.number}", "", *way.before]
        if way.equations:
            found = {
                name: next(one for one in way.steps if one.says.startswith(says))
                for name, says in way.equations.items()
            }
            lines += [*head, *(row(name, one, len(way.fits)) for name, one in found.items()), "", "All steps:", ""]
        lines += [*head, *(row(one.says, one, len(way.fits)) for one in way.steps), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    if faults := [fault for way in WAYS for fault in wrong(way)]:
        sys.exit("\n".join(faults))
    (HERE / "follow.md").write_text(page(), "utf-8")
