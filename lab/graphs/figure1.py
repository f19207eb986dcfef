"""How good the mixture of Gaussians is on real vectors: scalar products and Z, against random features at equal time.

Vectors: words (skip-gram by gensim on 10 million words of Wikipedia, 100 components, raw), and scikit-learn's digits
(64 pixels, centred); each once with mean norm 1, once with unit rows; float32. For 1, 2, 5 and 10 clusters: the
distance between the distribution of a row's scalar products and the mixture's (Kolmogorov-Smirnov), the relative error
of Z on 5,000 exact rows, and the time of all Z, clustering included. Performer and RFA then get as many random
directions as fit into that time, and 1,000 as in the paper, ten draws of each. Time is processor time of one worker,
best of several runs, so that other load does not count. ``--quick``: 3 million words, 1,500 exact rows, 5 draws.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

import nearfar as nf
from lab.data import articles, digits
from lab.experiment import Experiment, Section
from lab.figures import axes
from lab.measure import cpu_timed, say
from lab.records import Record, duration, groups, number, percent, pick
from lab.results import ResultFile
from nearfar.far import spherical_kmeans

CLUSTERS = (1, 2, 5, 10)
RIVALS = {"performer": "Performer", "rfa": "RFA"}
SCALINGS = ("mean norm 1", "unit rows")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def word_vectors(n_tokens: int) -> NDArray[Any]:
    """Train once; later runs take the vectors from the temporary folder."""
    kept = Path(tempfile.gettempdir()) / "nearfar-benchmarks" / f"words-{n_tokens}.npy"
    if kept.exists():
        return np.load(kept)
    from gensim.models import Word2Vec

    sentences: list[list[str]] = []
    for article in articles(n_tokens):
        words = article.split()
        sentences += [words[i : i + 1000] for i in range(0, len(words), 1000)]
    vectors = Word2Vec(sentences, vector_size=100, sg=1, min_count=5, workers=2, epochs=5, seed=1).wv.vectors
    kept.parent.mkdir(exist_ok=True)
    np.save(kept, vectors)
    return vectors


def rescaled(vectors: NDArray[Any], scaling: str) -> NDArray[Any]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / (norms if scaling == "unit rows" else norms.mean()), dtype=np.float32)


def labels_of(X: NDArray[Any], n_clusters: int, seed: int = 0) -> NDArray[Any]:
    return spherical_kmeans(X, n_clusters, rng=np.random.default_rng(seed), n_init=1, max_iter=5).labels


def mixture_cdf(X: NDArray[Any], row: int, labels: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Return what the mixture takes the distribution of ``x_row . y`` to be."""
    total = np.zeros_like(at)
    for a in np.unique(labels):
        scores = X[labels == a].astype(np.float64) @ X[row].astype(np.float64)
        # The projection of a Gaussian is a Gaussian, with mean and variance of the projections.
        total += len(scores) / len(X) * norm.cdf(at, scores.mean(), max(scores.std(), 1e-12))
    return total


def ks_distances(X: NDArray[Any], rows: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    distances = []
    for row in rows:
        scores = np.sort(X @ X[row]).astype(np.float64)
        gap = mixture_cdf(X, row, labels, scores) - np.arange(len(X)) / len(X)
        distances.append(max(gap.max(), (1 / len(X) - gap).max()))
    return np.array(distances)


def processor_time(X: NDArray[Any], repeats: int, **options: Any) -> float:
    """Return the seconds of one processor for all log-normalisers."""
    return min(cpu_timed(lambda: nf.log_normalizers(X, random_state=0, n_jobs=1, **options))[1] for _ in range(repeats))


def affordable(X: NDArray[Any], method: str, seconds: float, repeats: int) -> int:
    """Return the number of random directions that fit into ``seconds``: time is a line in it."""
    few, many = 64, 512
    short, long = (processor_time(X, repeats, method=method, n_features=f) for f in (few, many))
    return max(1, round(few + (seconds - short) * (many - few) / (long - short)))


def relative_errors(
    X: NDArray[Any], rows: NDArray[Any], exact: NDArray[Any], seeds: range, **options: Any
) -> NDArray[Any]:
    """Return |Z / exact - 1| of the chosen rows, one line per seed."""
    found = [nf.log_normalizers(X, rows=rows, random_state=seed, **options) for seed in seeds]
    return np.abs(np.expm1(np.array(found) - exact))


def summary(errors: NDArray[Any]) -> dict[str, Any]:
    return {
        "quantiles": [float(f"{v:.4g}") for v in np.quantile(errors, QUANTILES)],
        "median": float(f"{np.median(errors):.4g}"),
        "mean": float(f"{errors.mean():.4g}"),
        "median_by_draw": [float(f"{v:.4g}") for v in np.median(errors, axis=1)],
    }


def measure(file: ResultFile, data: str, X: NDArray[Any], scaling: str, n_rows: int, n_draws: int) -> None:
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(len(X), size=min(n_rows, len(X)), replace=False))
    wide = X.astype(np.float64)
    exact = nf.log_normalizers(wide, rows=rows, method="exact")
    base = {"data": data, "scaling": scaling, "n": len(X), "d": X.shape[1], "n_rows": len(rows)}
    repeats, draws = 7, range(n_draws)

    def rival(method: str, n_features: int, budget: str, mixture: float | None) -> None:
        options = {"method": method, "n_features": n_features}
        record = summary(relative_errors(X, rows, exact, draws, **options))
        times = {"seconds": round(processor_time(X, repeats, **options), 5)}
        ratio = {} if mixture is None else {"times_mixture": round(record["median"] / mixture, 1)}
        file.add({"kind": "error", **base, "budget": budget, **options, **times, **ratio, **record})
        say(f"{data}, {scaling}: {method} D={n_features} ({budget}) {times} median {record['median']:.2e} {ratio}")

    for k in CLUSTERS:
        options = {"method": "gaussian-mixture", "n_clusters": k}
        seconds = processor_time(X, repeats, **options)
        record = summary(relative_errors(X, rows, exact, draws if k > 1 else range(1), **options))
        file.add({"kind": "error", **base, "budget": None, **options, "seconds": round(seconds, 5), **record})
        say(f"{data}, {scaling}: mixture of {k}, {seconds:.4f} s, median error {record['median']:.2e}")
        for method in RIVALS:
            fitting = affordable(X, method, seconds, repeats)
            rival(method, fitting, f"time of {k} clusters", record["median"])
        distances = ks_distances(X, rows[:: max(1, len(rows) // 200)], labels_of(X, k))
        ks = {"median": round(float(np.median(distances)), 5), "q95": round(float(np.quantile(distances, 0.95)), 5)}
        file.add({"kind": "cdf", **base, "method": "gaussian-mixture", "n_clusters": k, "budget": None, **ks})
    for method in RIVALS:
        rival(method, 1000, "D = 1000", None)


def run(file: ResultFile, given: Namespace) -> None:
    n_tokens, n_rows, n_draws = (3_000_000, 1500, 5) if given.quick else (10_000_000, 5000, 10)
    X = digits()[0]
    vectors = {"words": word_vectors(n_tokens), "digits": X - X.mean(axis=0)}
    for data, scaling in product(vectors, SCALINGS):
        measure(file, data, rescaled(vectors[data], scaling), scaling, n_rows, n_draws)


def draw(records: list[Record]) -> Any:
    """Draw boxes of the relative error of Z, for each number of clusters and its rivals at equal time."""
    errors = list(groups(pick(records, kind="error"), "data", "scaling"))
    figure, (line,) = axes(1, max(len(errors), 1), 3.2 * max(len(errors), 1), 3.0)
    for ax, (data, scaling, mine) in zip(line, errors, strict=False):
        ax.set_title(f"{data}, {scaling}")
        draw_errors(ax, mine)
    line[0].set_ylabel("relative error of Z")
    return figure


def draw_errors(ax: Any, records: list[dict[str, Any]]) -> None:
    """Boxes from the 5 % to the 95 % quantile, for each number of clusters and its rivals at equal time."""
    boxes, colors = [], []
    for group, budget in enumerate([*CLUSTERS, None]):
        for shift, method in enumerate(("gaussian-mixture", *RIVALS)):
            if method == "gaussian-mixture":
                match = [r for r in records if r.get("n_clusters") == budget and budget is not None]
            else:
                wanted = "D = 1000" if budget is None else f"time of {budget} clusters"
                match = [r for r in records if (r["method"], r["budget"]) == (method, wanted)]
            for r in match:
                low, first, middle, third, high = r["quantiles"]
                boxes.append({"whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high})
                colors.append((f"C{shift}", group + 0.27 * (shift - 1)))
    drawn = ax.bxp(
        boxes,
        positions=[x for _, x in colors],
        widths=0.22,
        showfliers=False,
        patch_artist=True,
        medianprops={"color": "black"},
    )
    for patch, (color, _) in zip(drawn["boxes"], colors, strict=True):
        patch.set_facecolor(color)
    for shift, label in enumerate(("mixture", "Performer", "RFA")):
        ax.plot([], [], "s", color=f"C{shift}", label=label)
    ax.set_yscale("log")
    ax.set_ylim(top=30)  # room for the legend
    ax.set_xticks(range(5), [*map(str, CLUSTERS), "D = 1000"])
    ax.set_xlabel("clusters; rivals in the same time")
    ax.legend(frameon=False, ncol=3, loc="upper center", fontsize=6)


def told(section: Section, records: list[Record]) -> None:
    errors, distances = pick(records, kind="error"), pick(records, kind="cdf")
    target = section.target(
        "Median relative error of Z against Performer and RFA in the same time, words and digits, 1 to 10 clusters",
        "≥ 10 times smaller than both",
    )
    section.picture("figure1", "Relative error of Z: the mixture and its rivals in the same time")
    section.say("""Relative error of Z over rows and draws: median (95 % quantile). D is the number of random
        directions that fit into the time of the mixture, clustering included. Processor time of one worker, best of
        several runs. KS: Kolmogorov-Smirnov distance between a row's scalar products and the mixture, median over
        rows.""")
    ratios: dict[str, list[float]] = {name: [] for name in RIVALS}
    of_time: list[float] = []
    rows = []
    for data, scaling, mine in groups(errors, "data", "scaling"):
        for mixture in pick(mine, method="gaussian-mixture"):
            k = mixture["n_clusters"]
            cells = [data, scaling, f"{k} clusters" if k > 1 else "1 cluster", duration(mixture["seconds"])]
            cells.append(f"{percent(mixture['median'])} ({percent(mixture['quantiles'][-1])})")
            for name in RIVALS:
                rival = pick(mine, method=name, budget=f"time of {k} clusters")
                cells.append(_rival(rival))
                if rival:
                    ratios[name].append(rival[0]["median"] / mixture["median"])
                    of_time.append(rival[0]["seconds"] / mixture["seconds"])
            distance = pick(distances, data=data, scaling=scaling, n_clusters=k)
            rows.append([*cells, number(distance[0]["median"] if distance else None)])
        fixed = [_rival(pick(mine, method=name, budget="D = 1000"), seconds=True) for name in RIVALS]
        rows.append([data, scaling, "(D = 1000)", "–", "–", *fixed, "–"])
    if all(ratios.values()):
        found = (f"{min(r):.0f} to {max(r):.0f} times ({RIVALS[name]})" for name, r in ratios.items())
        said = f"{', '.join(found)}, in {min(of_time):.2f} to {max(of_time):.2f} of the mixture's time"
        target.tell(said, min(map(min, ratios.values())) >= 10)
    section.table(["data", "rows", "mixture", "time", "error", *RIVALS.values(), "KS"], rows)
    sizes = sorted({(r["data"], r["n"], r["d"], r["n_rows"]) for r in errors})
    stated = "; ".join(f"{data}: {n:,} vectors of {d} numbers, {m:,} rows computed exactly" for data, n, d, m in sizes)
    if stated:
        section.say(f"{stated[0].upper()}{stated[1:]}.")


def _rival(records: list[Record], *, seconds: bool = False) -> str:
    if not records:
        return "–"
    r = records[0]
    what = duration(r["seconds"]) if seconds else f"D = {r['n_features']}"
    return f"{percent(r['median'])} ({percent(r['quantiles'][-1])}), {what}"


EXPERIMENT = Experiment(
    "The far field on real vectors (figure 1)",
    ("kind", "data", "scaling", "method", "n_clusters", "budget"),
    run,
    {"quick": False},
    ("wiki_text8_style",),
)
