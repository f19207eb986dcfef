"""Write docs/follow.md, the way of one number through a fit, by file and line: ``python docs/make_follow.py``.

A step is a piece of a line of the package, which stands there once. Both fits of a method are carried out, and each of
their steps must run after the one before. Of compiled code nobody sees a line at work: it must stand in the module.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

import nearfar as nf

HERE = Path(__file__).parent
SOURCE = Path(nf.__file__).parent


class At(NamedTuple):
    """A line of the package: its module, and a piece of it that stands nowhere else there."""

    module: str
    code: str
    is_compiled: bool = False

    def line(self) -> int:
        """Return its number."""
        lines = (SOURCE / self.module).read_text("utf-8").splitlines()
        found = [number for number, line in enumerate(lines, 1) if self.code in line]
        if len(found) != 1:
            raise LookupError(f"{self.module} must hold {self.code!r} on one line; got {found}")
        return found[0]


class Step(NamedTuple):
    """What happens to the number, and where: in the small fit and in the large one; None where it does not happen."""

    says: str
    small: At | None
    large: At | None


class Way(NamedTuple):
    """A method, its number, a small and a large fit of it, and the steps."""

    title: str
    number: str
    fits: tuple[tuple[str, Callable[[], object]], tuple[str, Callable[[], object]]]
    steps: Sequence[Step]


def same(says: str, module: str, code: str) -> Step:
    """Return a step that is one line in both fits."""
    return Step(says, At(module, code), At(module, code))


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


EDREP, MAPS, THREADS, WORDS = "methods/edrep.py", "methods/maps.py", "engines/threads", "words/model.py"
WAYS = [
    Way(
        "EDRep",
        "one component of one vector, x_i",
        (
            ("77 nodes", lambda: nf.EDRep(8, n_epochs=3, random_state=0).fit(graph(77))),
            ("5,000 nodes", lambda: nf.EDRep(32, n_epochs=3, random_state=0, n_jobs=1).fit(graph(5000))),
        ),
        [
            same(
                "What is open is settled: the gradient, by the relation.",
                "estimators/settings.py",
                'gradient = "full" if with_base',
            ),
            same("r_i is the sum of the row of P; p0 is uniform.", "estimators/settings.py", "r, columns = P.row_sums"),
            same(
                "A place is opened, and the fit begins there.",
                "estimators/fitting.py",
                "with place_of(engine, setting)",
            ),
            same("x_i is drawn from a normal distribution.", "steps.py", "standard_normal(out=X[a:b]"),
            same("It is put on the sphere.", "steps.py", "np.divide(X, norms[:, None], out=X, where"),
            same("Yᵀ p0 and Xᵀ r are summed.", EDREP, "of_sides = [(sides[1], p0)"),
            same("An epoch begins: the learning rate is looked up.", EDREP, "while (rate := rate_of(state))"),
            same("All vectors become one Gaussian, eq. (3).", "methods/normalizers.py", "# eq. (3)"),
            Step(
                "Its pull is made, P X.",
                At("relations/operators.py", "value = kept[transposed] @ "),
                At("relations/kernels.py", "def product(", is_compiled=True),
            ),
            Step(
                "log Z_i and its gradient are looked up, eq. (2).",
                At("methods/normalizers.py", "# eq. (2)"),
                At(f"{THREADS}/edrep.py", "energy = log_counts[a] + _energy", is_compiled=True),
            ),
            Step(
                "The gradient is put together, eq. (6).",
                At(EDREP, "# eq. (6)"),
                At(f"{THREADS}/edrep.py", "ri * (force[i, c] + ", is_compiled=True),
            ),
            Step(
                "x_i takes its step on the sphere.",
                At(EDREP, "# the step:"),
                At(f"{THREADS}/edrep.py", "x[c] = stay * x[c] - move * g[c]", is_compiled=True),
            ),
            same("The loss of the epoch is told, eqs. (4) and (5).", EDREP, "# eq. (5)"),
            same("Callbacks look at the epoch.", "estimators/fitting.py", "return trainer.tell(state.epoch"),
            same("x_i leaves the place.", "estimators/fitting.py", "sides = [place.fetch(rows, brought)"),
            same("It is in embedding_.", "estimators/edrep.py", "self.embedding_, self.context_embedding_ = "),
        ],
    ),
    Way(
        "t-SNE",
        "one coordinate of one point, y_i",
        (
            (
                "150 points",
                lambda: nf.TSNE(perplexity=10, max_iter=60, early_exaggeration_iter=30, random_state=0, n_jobs=1).fit(
                    points(150)
                ),
            ),
            (
                "5,000 points",
                lambda: nf.TSNE(max_iter=60, early_exaggeration_iter=30, random_state=0, n_jobs=1).fit(points(5000)),
            ),
        ),
        [
            same(
                "What is minimised, and how, is settled.", "maps/drawing.py", "settings = MapSettings(owner, divergence"
            ),
            same("The perplexity of row i is reached.", "methods/affinities.py", "# symbol H:"),
            same("y_i starts where principal components say.", "maps/solver.py", "axes = np.linalg.eigh("),
            Step(
                "p_ij is the mean of both rows; of few points k_ij + k_ji stands for it.",
                None,
                At("methods/affinities.py", "# symbol p_ij:"),
            ),
            same("A phase begins; the first exaggerates P.", MAPS, "minimised = objective.early(phase.kernel)"),
            same("The gradient is asked for, with P exaggerated.", MAPS, "gradient, own = minimised.evaluate("),
            Step(
                "All others are summed, S, and q_ij is w_ij / S; in linear time the push on y_i comes with S.",
                At(MAPS, "((w + back) / 2 if by_pair and"),
                At("far/mesh_loops.py", "def gather(", is_compiled=True),
            ),
            Step(
                "k_ij becomes forces; in linear time those of neighbours alone.",
                At(MAPS, "gradient += forces(Y, (exaggeration * D_both"),
                At(f"{THREADS}/maps.py", "gradient[i, c] = factor * g", is_compiled=True),
            ),
            Step("The push is put to the pull.", None, At("methods/linear_maps.py", "# symbol M:")),
            Step(
                "The gain of the coordinate grows or falls.",
                At(MAPS, "# symbol γ:"),
                At(f"{THREADS}/maps.py", "gain = gain_of(gains[i, c]", is_compiled=True),
            ),
            Step(
                "The velocity is momentum and gradient, and y_i moves.",
                At(MAPS, "# symbol v:"),
                At(f"{THREADS}/maps.py", "v = momentum * v - learning_rate * gain * g", is_compiled=True),
            ),
            same("Before each look the mean is put to 0.", MAPS, "Y -= Y.mean(axis=0"),
            same(
                "The cost is kept; a map that does not get better stops.",
                "maps/solver.py",
                "state.costs.append(cost * self.scale)",
            ),
            same("y_i is in embedding_, in the order of the rows.", "maps/drawing.py", "self.embedding_ = state.X"),
        ],
    ),
    Way(
        "SkipGram",
        "one component of the vector of a word, x_t",
        (
            (
                "by the formula, in torch",
                lambda: nf.SkipGram(8, n_epochs=1, engine="torch", random_state=0).fit(text(200)),
            ),
            ("on threads", lambda: nf.SkipGram(8, n_epochs=1, n_jobs=1, random_state=0).fit(text(200))),
        ),
        [
            same("The words become numbers.", WORDS, "encoded = text.encode(min_count"),
            same("The learning rate is chosen by the text.", WORDS, "rate, before = self._first_rate(source)"),
            same("x_t starts at random.", "words/skipgram.py", "X = (rng.random((source.n_rows, d)"),
            same(
                "An epoch begins: each block has a rate and a seed.",
                WORDS,
                "rates = np.maximum(first * (1 - done / total), last)",
            ),
            Step(
                "Words are left out at random, the more frequent the more often.",
                At("engines/torch/words.py", "kept = torch.rand(len(words)"),
                At("words/windows.py", "n, n_sentences = kept_words(text"),
            ),
            Step(
                "A window is drawn around each of the others, with noise.",
                At("engines/torch/words.py", "yield inputs, there, torch.cat"),
                At("words/windows.py", "n_windows, n_sentences = draw_windows((words"),
            ),
            Step(
                "Scores become errors, g = T - σ(x . y), eq. (4).",
                At("methods/words.py", "# SGNS eq. (4)"),
                At("words/skipgram.py", "_errors(around.size, now, rate if", is_compiled=True),
            ),
            Step(
                "x_t takes its step.",
                At("engines/torch/words.py", "table.index_add_(0, flat, added"),
                At(
                    "words/skipgram.py",
                    "total = multiply_add(g[a, o], load(Y, np.int64(now[o]) * width + k",
                    is_compiled=True,
                ),
            ),
            same("The loss of the epoch is told.", WORDS, "state.losses.append(loss)"),
            same("x_t is in embedding_.", "words/skipgram.py", "self.embedding_, self.context_embedding_ = np"),
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
    for size, (told, fit) in enumerate(way.fits):
        steps = [at for step in way.steps if (at := step[1 + size]) is not None]
        for at in steps:
            at.line()
        for at in not_followed(fit, [at for at in steps if not at.is_compiled]):
            yield f"{way.title} of {told}: {at.module} does not come to {at.code!r} after the step before"


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Follow one number",
        "",
        "Where a number goes in a fit, by file and line of `nearfar/`. Lines run in this order; compiled code has the",
        "line of its loop. The equations are those of the papers, see [where each stands](equations.md).",
        "",
    ]
    for way in WAYS:
        lines += [
            f"## {way.title}: {way.number}",
            "",
            "| step | " + " | ".join(told for told, _ in way.fits) + " |",
            "|---|---|---|",
        ]
        for step in way.steps:
            places = ["-" if at is None else f"`{at.module}`, {at.line()}" for at in step[1:]]
            if places[0] == places[1]:
                places[1] = "the same"
            lines.append(f"| {step.says} | {' | '.join(places)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    if faults := [fault for way in WAYS for fault in wrong(way)]:
        sys.exit("\n".join(faults))
    (HERE / "follow.md").write_text(page(), "utf-8")
