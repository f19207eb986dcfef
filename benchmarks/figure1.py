"""How good the mixture of Gaussians is on real vectors: scalar products and Z, against random features at equal time.

    python benchmarks/figure1.py            # 10 million words, 5,000 exact rows, 10 draws of each rival
    python benchmarks/figure1.py --quick    # 3 million words, 1,500 exact rows, 5 draws

Vectors: words (skip-gram by gensim on the Wikipedia text, 100 components, raw), and scikit-learn's digits (64 pixels,
centred); each once with mean norm 1, once with unit rows; float32. For 1, 2, 5 and 10 clusters: the distance between
the distribution of a row's scalar products and the mixture's (Kolmogorov-Smirnov), the relative error of Z, and the
time of all Z, clustering included. Performer and RFA then get as many random directions as fit into that time, and
1,000 as in the paper. Time is processor time of one worker, best of several runs, so that other load does not count.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

import nearfar as nf
from _common import DATA, IMAGES, ResultFile, drawing, say
from nearfar.far import spherical_kmeans

KEYS = ("kind", "data", "scaling", "method", "n_clusters", "budget")
CLUSTERS = (1, 2, 5, 10)
RIVALS = ("performer", "rfa")
SCALINGS = ("mean norm 1", "unit rows")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def word_vectors(n_tokens: int) -> np.ndarray:
    """Train once; later runs take the vectors from the temporary folder."""
    cache = Path(tempfile.gettempdir()) / "nearfar-benchmarks" / f"words-{n_tokens}.npy"
    if cache.exists():
        return np.load(cache)
    from gensim.models import Word2Vec

    sentences: list[list[str]] = []
    with lzma.open(DATA / "wiki_text8_style" / "wiki_100M.txt.xz", "rt") as file:
        left = n_tokens
        for article in file:
            words = article.split()[:left]
            sentences += [words[i : i + 1000] for i in range(0, len(words), 1000)]
            left -= len(words)
            if left <= 0:
                break
    say(f"training word vectors on {n_tokens - left:,} tokens")
    vectors = Word2Vec(sentences, vector_size=100, sg=1, min_count=5, workers=2, epochs=5, seed=1).wv.vectors
    cache.parent.mkdir(exist_ok=True)
    np.save(cache, vectors)
    return vectors


def digit_vectors() -> np.ndarray:
    from sklearn.datasets import load_digits

    pixels = load_digits().data
    return pixels - pixels.mean(axis=0)


def rescaled(vectors: np.ndarray, scaling: str) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / (norms if scaling == "unit rows" else norms.mean()), dtype=np.float32)


def labels_of(X: np.ndarray, n_clusters: int, seed: int = 0) -> np.ndarray:
    return spherical_kmeans(X, n_clusters, rng=np.random.default_rng(seed), n_init=1, max_iter=5).labels


def mixture_cdf(X: np.ndarray, row: int, labels: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return what the mixture takes the distribution of ``x_row . y`` to be."""
    total = np.zeros_like(at)
    for a in np.unique(labels):
        scores = X[labels == a].astype(np.float64) @ X[row].astype(np.float64)
        # The projection of a Gaussian is a Gaussian, with mean and variance of the projections.
        total += len(scores) / len(X) * norm.cdf(at, scores.mean(), max(scores.std(), 1e-12))
    return total


def ks_distances(X: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    distances = []
    for row in rows:
        scores = np.sort(X @ X[row]).astype(np.float64)
        gap = mixture_cdf(X, row, labels, scores) - np.arange(len(X)) / len(X)
        distances.append(max(gap.max(), (1 / len(X) - gap).max()))
    return np.array(distances)


def processor_time(X: np.ndarray, repeats: int, **options: Any) -> float:
    """Return the seconds of one processor for all log-normalisers."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        nf.log_normalizers(X, random_state=0, n_jobs=1, **options)
        best = min(best, time.process_time() - start)
    return best


def affordable(X: np.ndarray, method: str, seconds: float, repeats: int) -> int:
    """Return the number of random directions that fit into ``seconds``: time is a line in it."""
    few, many = 64, 512
    short, long = (processor_time(X, repeats, method=method, n_features=f) for f in (few, many))
    return max(1, round(few + (seconds - short) * (many - few) / (long - short)))


def relative_errors(X: np.ndarray, rows: np.ndarray, exact: np.ndarray, seeds: range, **options: Any) -> np.ndarray:
    """Return |Z / exact - 1| of the chosen rows, one line per seed."""
    found = [nf.log_normalizers(X, rows=rows, random_state=seed, **options) for seed in seeds]
    return np.abs(np.expm1(np.array(found) - exact))


def summary(errors: np.ndarray) -> dict[str, Any]:
    return {
        "quantiles": [float(f"{v:.4g}") for v in np.quantile(errors, QUANTILES)],
        "median": float(f"{np.median(errors):.4g}"),
        "mean": float(f"{errors.mean():.4g}"),
        "median_by_draw": [float(f"{v:.4g}") for v in np.median(errors, axis=1)],
    }


def measure(results: ResultFile, data: str, X: np.ndarray, scaling: str, n_rows: int, n_draws: int) -> None:
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
        results.add({"kind": "error", **base, "budget": budget, **options, **times, **ratio, **record})
        say(f"{data}, {scaling}: {method} D={n_features} ({budget}) {times} median {record['median']:.2e} {ratio}")

    for k in CLUSTERS:
        options = {"method": "gaussian-mixture", "n_clusters": k}
        seconds = processor_time(X, repeats, **options)
        record = summary(relative_errors(X, rows, exact, draws if k > 1 else range(1), **options))
        results.add({"kind": "error", **base, "budget": None, **options, "seconds": round(seconds, 5), **record})
        say(f"{data}, {scaling}: mixture of {k}, {seconds:.4f} s, median error {record['median']:.2e}")
        for method in RIVALS:
            fitting = affordable(X, method, seconds, repeats)
            rival(method, fitting, f"time of {k} clusters", record["median"])
        distances = ks_distances(X, rows[:: max(1, len(rows) // 200)], labels_of(X, k))
        ks = {"median": round(float(np.median(distances)), 5), "q95": round(float(np.quantile(distances, 0.95)), 5)}
        results.add({"kind": "cdf", **base, "method": "gaussian-mixture", "n_clusters": k, "budget": None, **ks})
    for method in RIVALS:
        rival(method, 1000, "D = 1000", None)


@drawing(8)
def draw(results: ResultFile, sets: dict[tuple[str, str], np.ndarray]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(sets), figsize=(3.2 * len(sets), 5.6), squeeze=False)
    for column, ((data, scaling), X) in enumerate(sets.items()):
        draw_cdf(axes[0, column], X)
        axes[0, column].set_title(f"{data}, {scaling}")
        errors = [r for r in results.records if (r["kind"], r["data"], r["scaling"]) == ("error", data, scaling)]
        draw_errors(axes[1, column], errors)
    axes[0, 0].set_ylabel("share of the others below")
    axes[1, 0].set_ylabel("relative error of Z")
    figure.tight_layout()
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / "figure1.svg", metadata={"Date": None})


def draw_cdf(ax: Any, X: np.ndarray) -> None:
    """Three rows: their scalar products, and what mixtures of 1 and 5 make of them."""
    labels = {k: labels_of(X, k) for k in (1, 5)}
    for color, row in zip(("C0", "C1", "C2"), np.random.default_rng(1).choice(len(X), 3, replace=False), strict=True):
        scores = X @ X[row]
        at = np.linspace(*np.quantile(scores, [0.001, 0.999]), 200)
        ax.plot(at, np.searchsorted(np.sort(scores), at) / len(X), color=color, lw=2.5, alpha=0.4)
        for k, style in ((1, ":"), (5, "-")):
            ax.plot(at, mixture_cdf(X, row, labels[k], at), color=color, ls=style, lw=1)
    for label, style in (("data", {"lw": 2.5, "alpha": 0.4}), ("1 cluster", {"ls": ":"}), ("5 clusters", {"lw": 1})):
        ax.plot([], [], color="grey", label=label, **style)
    ax.legend(frameon=False)
    ax.set_xlabel("scalar product with a row")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer words, rows and draws")
    arguments = parser.parse_args()
    n_tokens, n_rows, n_draws = (3_000_000, 1500, 5) if arguments.quick else (10_000_000, 5000, 10)
    vectors = {"words": word_vectors(n_tokens), "digits": digit_vectors()}
    results = ResultFile("figure1", KEYS)
    sets = {(data, scaling): rescaled(v, scaling) for data, v in vectors.items() for scaling in SCALINGS}
    for (data, scaling), X in sets.items():
        measure(results, data, X, scaling, n_rows, n_draws)
    draw(results, sets)
    worst = min(r["times_mixture"] for r in results.records if "times_mixture" in r)
    say(f"median error of a rival at equal time: at least {worst} times that of the mixture")


if __name__ == "__main__":
    main()
