"""The gallery of sneer: every method on every data set at hand; and its master equation against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

import nearfar as nf
from lab.papers.experiment import DataFile, Experiment, Findings, Panel, Setting, Table, around, differences

_SNEER = "J. Melville, Deriving embedding gradients (sneer)"
_S1K = DataFile(
    "s1k/s1k.csv.gz",
    "a8cc52d9b795fb86ecef5619112158a9",
    "s1k of github.com/jlmelville/snedata: 1,000 points of a fuzzy simplex in 9-D",
)


def _methods() -> dict[str, Callable[..., Any]]:
    return {
        "ASNE": nf.ASNE,
        "SSNE": nf.SSNE,
        "t-SNE": nf.TSNE,
        "t-ASNE": nf.TASNE,
        "ws-SNE": nf.WSSNE,
        "HSSNE": nf.HSSNE,
        "inhomogeneous t-SNE": nf.InhomogeneousTSNE,
        "NeRV": nf.NeRV,
        "JSE": nf.JSE,
        "reverse KL": lambda **given: nf.NeighborEmbedding(divergence="reverse-kl", **given),
        "UMAP": nf.UMAP,
        "metric MDS": lambda **given: nf.MDS(**_without(given)),
        "SSTRESS": lambda **given: nf.MDS(stress="sstress", **_without(given)),
        "Sammon": lambda **given: nf.MDS(stress="sammon", **_without(given)),
    }


_AREAS = {  # under R_NX, as measured, in the order of the methods
    "iris": (0.695, 0.677, 0.699, 0.708, 0.671, 0.685, 0.698, 0.697, 0.693, 0.655, 0.696, 0.698, 0.684, 0.705),
    "s1k": (0.215, 0.205, 0.409, 0.411, 0.392, 0.327, 0.419, 0.239, 0.366, 0.353, 0.358, 0.167, 0.141, 0.158),
    "digits": (0.406, 0.401, 0.546, 0.550, 0.532, 0.505, 0.529, 0.440, 0.495, 0.515, 0.469, 0.288, 0.228, 0.259),
    "swiss roll": (0.652, 0.639, 0.711, 0.695, 0.693, 0.764, 0.761, 0.709, 0.787, 0.680, 0.636, 0.566, 0.496, 0.590),
}
_SPREAD = 0.012  # the largest standard deviation over seeds 0 to 2 of a method on iris


def _without(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in ("perplexity", "far")}


def _data(setting: Setting) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    from sklearn.datasets import load_digits, load_iris, make_swiss_roll

    digits, digit = load_digits(return_X_y=True)
    iris, species = load_iris(return_X_y=True)
    roll, along = make_swiss_roll(1000, random_state=0)
    found = {
        "iris": (np.unique(iris, axis=0), species[np.unique(iris, axis=0, return_index=True)[1]]),
        "s1k": _s1k(setting),
        "digits": (digits, digit),
        "swiss roll": (roll, along),
    }
    return {name: found[name] for name in ("iris", "s1k")} if setting.quick else found


def _s1k(setting: Setting) -> tuple[NDArray[Any], NDArray[Any]]:
    with setting.open(_S1K.path) as file:
        header = file.readline().strip().replace('"', "").split(",")
        rows = [row.strip().replace('"', "").split(",") for row in file]
    numbers = [i for i, name in enumerate(header) if name.startswith("D")]
    label = next(i for i, name in enumerate(header) if name.lower() == "label")
    points = np.array([[float(row[i]) for i in numbers] for row in rows])
    return points, np.unique([row[label] for row in rows], return_inverse=True)[1]


def _gallery(setting: Setting) -> Findings:
    """Each method at perplexity 32 with this library's start and optimiser, by its area under R_NX.

    Differs: The gallery of sneer's other pages is not at hand. Ours starts from PCA and descends with momentum.
    """
    lines, panels = Table(), []
    seeds = range(setting.pick(3, 1))
    for of, (X, colours) in _data(setting).items():
        coloured: dict[str, Any] = {"values" if colours.dtype.kind == "f" else "labels": colours}
        for name, make in _methods().items():
            areas = []
            for seed in seeds:
                given: dict[str, Any] = {"random_state": seed, "verbose": 0, "perplexity": 32}
                if name == "UMAP":
                    del given["perplexity"]
                Y = make(**given).fit_transform(X)
                areas.append(nf.evaluate.neighborhoods(X, Y).auc)
                if seed == 0:
                    panels.append(Panel(f"{name}, {of}", points=np.asarray(Y), **coloured))
            within = around(_AREAS[of][list(_methods()).index(name)], _SPREAD)
            lines.add(f"{name} on {of}: area under R_NX", areas, within)
    return Findings(lines, panels)


def _jensen_shannon_by_pairs(setting: Setting) -> Findings:
    """JSE with pair-wise normalization, in the setting of the gallery.

    Differs: As the gallery.
    """
    lines = Table()
    for of, (X, _) in _data(setting).items():
        areas = []
        for seed in range(setting.pick(3, 1)):
            how: Any = {"divergence": "jensen-shannon", "kernel": "exponential", "normalization": "pair"}
            Y = nf.NeighborEmbedding(**how, random_state=seed, verbose=0, perplexity=32).fit_transform(X)
            areas.append(nf.evaluate.neighborhoods(X, Y).auc)
        lines.add(f"JSE by pairs on {of}: area under R_NX", areas, (0.1, 0.9))
    return Findings(lines)


def _gradients(_: Setting) -> Findings:
    """Gradients in float64 against central differences at random maps of 40 points; costs of the limits.

    Differs: The source prints reverse KL, JSE and Sammon with slips (errata on the page of sources); ours are the
    mended forms.
    """
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 5)), rng.normal(size=(40, 2)) / 5  # near enough that no q vanishes
    relation = nf.Affinities(8).fit(X)
    lines = Table()
    methods = {
        name: make for name, make in _methods().items() if name not in ("UMAP", "metric MDS", "SSTRESS", "Sammon")
    }
    costs: list[Literal["kl", "reverse-kl", "nerv", "jensen-shannon"]] = ["kl", "reverse-kl", "nerv", "jensen-shannon"]
    kernels: list[Literal["exponential", "student-t", "heavy-tailed"]] = ["exponential", "student-t", "heavy-tailed"]
    sums: list[Literal["row", "pair"]] = ["row", "pair"]
    cells = product(costs, kernels, sums)
    grid = {
        ", ".join(cell): partial(nf.NeighborEmbedding, divergence=cell[0], kernel=cell[1], normalization=cell[2])
        for cell in cells
    }
    every: dict[str, Callable[..., Any]] = {**methods, **grid}
    for name, make in every.items():
        est = make()
        _, gradient = est.cost_and_gradient(Y, relation)
        gaps = []
        for i, a in rng.integers(0, (40, 2), size=(6, 2)):
            step = np.zeros_like(Y)
            step[i, a] = 1e-5
            up, down = (est.cost_and_gradient(Y + sign * step, relation)[0] for sign in (1, -1))
            gaps.append(abs((up - down) / 2e-5 - gradient[i, a]))
        error = max(gaps) / np.abs(gradient).max()
        lines.add(f"{name}: error of the gradient, relative to its largest entry", error, (0, 1e-6))

    def cost(est: Any) -> float:
        return float(est.cost_and_gradient(Y, relation)[0])

    limits = {
        "NeRV with lambda = 1 less ASNE": cost(nf.NeRV(lam=1.0)) - cost(nf.ASNE()),
        "HSSNE with alpha = 1 less t-SNE": cost(nf.HSSNE(alpha=1.0)) - cost(nf.TSNE()),
        "HSSNE with alpha = 1e-9 less SSNE": cost(nf.HSSNE(alpha=1e-9)) - cost(nf.SSNE()),
        "JSE with kappa = 1e-7 less ASNE": cost(nf.JSE(kappa=1e-7)) - cost(nf.ASNE()),
    }
    halved = Y / np.sqrt(2)  # exp(-f / 2) of Y is exp(-f) of it
    few, many = (cost_of_nu(Y, relation, nu) for nu in (1.0, 1e7))
    limits["inhomogeneous t-SNE with nu = 1 less t-ASNE"] = few - cost(nf.TASNE())
    asne = float(nf.ASNE().cost_and_gradient(halved, relation)[0])
    limits["inhomogeneous t-SNE with nu = 1e7 less ASNE at precision 1/2"] = many - asne
    for what, value in limits.items():
        lines.add(f"{what}: cost", abs(value), (0, 1e-5))
    for name, error in _stiffness(rng).items():
        lines.add(f"{name}: k_ij less the printed one, relative to its largest", error, (0, 1e-5))
    nu = rng.uniform(0.5, 20.0, len(Y))
    w = nf.kernels.InhomogeneousStudentT(nu).weight(squareform(pdist(Y, "sqeuclidean")))
    lines.add(
        "nu of each point: largest difference of w_ij and w_ji, relative", np.abs(w / w.T - 1).max(), (1e-3, 10.0)
    )
    w = nf.kernels.StudentT().weight(squareform(pdist(Y, "sqeuclidean")))
    lines.add("t-distribution kernel: largest difference of w_ij and w_ji, relative", np.abs(w / w.T - 1).max(), (0, 0))
    return Findings(lines)


def cost_of_nu(Y: NDArray[Any], relation: Any, nu: float) -> float:
    """Return the cost of a map of inhomogeneous t-SNE whose points all have so many degrees of freedom."""
    est = nf.InhomogeneousTSNE(degrees_of_freedom=nu, learn=False)
    return float(est.cost_and_gradient(Y, relation)[0])


def _stiffness(rng: np.random.Generator) -> dict[str, float]:
    """Return how far k_ij = c'(d) / d of the library's stresses is from the printed one."""
    r, d = rng.uniform(0.5, 2.0, 50), rng.uniform(0.5, 2.0, 50)
    printed = {
        "metric MDS": (nf.divergences.MetricStress, -2 * (r - d) / d),
        "SSTRESS": (nf.divergences.SStress, -4 * (r**2 - d**2)),
        "Sammon mapping": (nf.divergences.Sammon, -2 * (r - d) / (r * d)),
    }
    return {
        name: float(
            np.abs([own.cost_and_slope(*one)[1] for one in zip(r, d * d, strict=True)] - k).max() / abs(k).max()
        )
        for name, (own, k) in printed.items()
    }


_KAPPA, _TAIL = 0.3, 0.6
_KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {  # of f and a beta or nu for each row: w, dw/df
    "exponential": (lambda f, of: np.exp(-of * f), lambda w, _, of: -of * w),
    "t-distribution": (lambda f, _: 1 / (1 + f), lambda w, _f, _of: -(w**2)),
    "heavy-tailed": (lambda f, of: (_TAIL * of * f + 1) ** (-1 / _TAIL), lambda w, _, of: -of * w ** (_TAIL + 1)),
    "inhomogeneous": (lambda f, of: (1 + f / of) ** (-(of + 1) / 2), lambda w, f, of: -(of + 1) / (2 * (f + of)) * w),
}


def _mixed(p: Any, q: Any) -> Any:
    return _KAPPA * p + (1 - _KAPPA) * q


def _kl(a: Any, b: Any) -> Any:
    return a * np.log(a / b)


_COSTS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    # of p and q: the cost of a pair, its derivative as printed, and as mended
    "KL": (_kl, lambda p, q: -p / q, lambda p, q: -p / q),
    "reverse KL": (lambda p, q: _kl(q, p), lambda p, q: np.log(p / q) + 1, lambda p, q: np.log(q / p) + 1),
    "Jensen-Shannon": (
        lambda p, q: _kl(p, _mixed(p, q)) / (1 - _KAPPA) + _kl(q, _mixed(p, q)) / _KAPPA,
        lambda p, q: -np.log(q / _mixed(p, q)) / _KAPPA,
        lambda p, q: np.log(q / _mixed(p, q)) / _KAPPA,
    ),
}
_PARTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "KL(P, Z)": (lambda p, q: _kl(p, _mixed(p, q)), lambda p, q: -(1 - _KAPPA) * p / _mixed(p, q)),
    "KL(Q, Z)": (lambda p, q: _kl(q, _mixed(p, q)), lambda p, q: _KAPPA * p / _mixed(p, q) - np.log(q / _mixed(p, q))),
}
_STRESSES: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    # of r and d: the cost of an ordered pair, and what is printed behind the sum over j, with the factor before it
    "metric MDS": (lambda r, d: (r - d) ** 2, lambda r, d: (r - d) / d, -4),
    "SSTRESS": (lambda r, d: (r**2 - d**2) ** 2, lambda r, d: r**2 - d**2, -8),
    "Sammon mapping": (lambda r, d: (r - d) ** 2 / r, lambda r, d: (r - d) / (r * d), -4),
}


def _off(told: Any, true: Any) -> float:
    """Return the largest difference, relative to the largest entry."""
    return float(np.abs(told - true).max() / np.abs(true).max())


def _sprung(k: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    """Return the sum over j of k_ij (y_i - y_j)."""
    return k.sum(axis=1)[:, None] * Y - k @ Y


def _printed(_: Setting) -> Findings:
    """What is printed, in NumPy and float64, against central differences of the cost that is printed with it: maps of
    10 points, p without symmetry, a beta or nu for each point.

    Differs: In pair-wise normalization w and dC/dq of the library are symmetric; here they are as printed, not.
    """
    rng, n = np.random.default_rng(0), 10
    Y, own = rng.normal(size=(n, 2)), rng.uniform(0.5, 2.0, (n, 1))
    others = ~np.eye(n, dtype=bool)
    weights = np.where(others, rng.uniform(0.1, 1.0, (n, n)), 0)
    lines = Table()

    def squares(Y: NDArray[Any]) -> NDArray[Any]:
        return squareform(pdist(Y, "sqeuclidean"))

    for sums, over in (("row", 1), ("pair", None)):
        p = weights / weights.sum(axis=over, keepdims=True)

        def probabilities(Y: NDArray[Any], kernel: str, over: int | None = over) -> tuple[Any, Any, Any]:
            w = np.where(others, _KERNELS[kernel][0](squares(Y), own), 0)
            S = w.sum(axis=over, keepdims=True)
            return w / S, w, S

        for (cost, (value, *slopes)), kernel in product(_COSTS.items(), _KERNELS):

            def total(Y: NDArray[Any], value: Any = value, kernel: str = kernel, p: Any = p) -> float:
                return float(value(p[others], probabilities(Y, kernel)[0][others]).sum())

            true, (q, w, S) = differences(total, Y), probabilities(Y, kernel)
            for how, slope in zip(("as printed", "mended"), slopes, strict=True):
                D = np.zeros((n, n))
                D[others] = slope(p[others], q[others])
                k = (D - (D * q).sum(axis=over, keepdims=True)) * _KERNELS[kernel][1](w, squares(Y), own) / S
                if cost == "KL" and how == "mended":
                    continue
                error = _off(2 * _sprung(k + k.T, Y), true)
                within = (0, 1e-6) if cost == "KL" or how == "mended" else (0.1, 10)
                lines.add(f"{cost} {how}, {kernel} kernel, {sums}: error of the printed gradient", error, within)
    p, own = (weights + weights.T) / weights.sum() / 2, np.ones((n, 1))
    rows = weights / weights.sum(axis=1, keepdims=True)
    familiar: dict[str, tuple[Any, str, Any, Callable[..., Any]]] = {
        "ASNE": (rows, "exponential", 1, lambda p, q, _: 2 * (p - q + p.T - q.T)),
        "SSNE": (p, "exponential", None, lambda p, q, _: 4 * (p - q)),
        "t-SNE": (p, "t-distribution", None, lambda p, q, w: 4 * w * (p - q)),
    }
    for name, (p, kernel, over, pull) in familiar.items():

        def of_map(Y: NDArray[Any], p: Any = p, kernel: str = kernel, over: Any = over) -> tuple[float, Any, Any]:
            w = np.where(others, _KERNELS[kernel][0](squares(Y), 1.0), 0)
            q = w / w.sum(axis=over, keepdims=True)
            return float(_kl(p[others], q[others]).sum()), q, w

        slope, (q, w) = differences(lambda Y: of_map(Y)[0], Y), of_map(Y)[1:]
        lines.add(f"{name}: error of its printed gradient", _off(_sprung(pull(p, q, w), Y), slope), (0, 1e-6))
    r = squareform(rng.uniform(0.5, 2.0, n * (n - 1) // 2))[others]
    twice = []
    for name, (stress, behind, factor) in _STRESSES.items():

        def double(Y: NDArray[Any], stress: Any = stress) -> float:
            return float(stress(r, np.sqrt(squares(Y)[others])).sum())

        def once(Y: NDArray[Any], stress: Any = stress) -> float:
            return float(stress(r, np.sqrt(squares(Y)[others]))[np.triu(others)[others]].sum())

        k, true = np.zeros((n, n)), differences(double, Y)
        k[others] = factor * behind(r, np.sqrt(squares(Y)[others]))
        lines.add(f"{name}: error of its printed gradient", _off(_sprung(k, Y), true), (0, 1e-6))
        twice.append(float(np.abs(true / differences(once, Y) - 2).max()))
    what = "gradient of the double sum over that of the sum over i < j, less 2, the largest of the three"
    lines.add(what, max(twice), (0, 1e-6))
    p, q, f = rng.uniform(0.1, 1.0, (3, 50))
    of = rng.uniform(0.5, 2.0, 50)
    for name, (value, slope) in {**{cost: three[:2] for cost, three in _COSTS.items()}, **_PARTS}.items():
        true = (value(p, q + 1e-6) - value(p, q - 1e-6)) / 2e-6
        told = slope(p, q)
        if name in _COSTS:  # the constant that sum p = sum q leaves open moves no point: it is taken out of both
            true, told = true - true.mean(), told - told.mean()
        lines.add(f"{name} as printed: error of dC/dq, relative to its largest entry", _off(told, true), (0, 10.0))
    for name, (weight, slope) in _KERNELS.items():
        true = (weight(f + 1e-6, of) - weight(f - 1e-6, of)) / 2e-6
        lines.add(f"{name} kernel: error of the printed dw/df", _off(slope(weight(f, of), f, of), true), (0, 1e-6))
    far, further = ((0.01**-alpha - 1) / alpha for alpha in (1.0, 2.0))
    lines.add("f at which w = .01, alpha = 2 over alpha = 1", further / far, (1, 100))
    X = squares(rng.normal(size=(200, 5)))[0, 1:]
    for name, w in (("alpha = 1", 1 / (1e9 * X + 1)), ("exponential", np.exp(-1e9 * (X - X.min())))):
        share = w[w > 0] / w.sum()
        lines.add(f"{name}: perplexity at a beta of 1e9", np.exp(-(share * np.log(share)).sum()), (0.999, 200))
    return Findings(lines)


EXPERIMENTS = (
    Experiment("sneer-gallery", _SNEER, "the gallery", _gallery, (_S1K,)),
    Experiment("sneer-jse-by-pairs", _SNEER, "JSE by pairs", _jensen_shannon_by_pairs, (_S1K,)),
    Experiment("sneer-gradients", _SNEER, "the master equation and its limits", _gradients),
    Experiment("sneer-printed", _SNEER, "derivatives and gradients as printed", _printed),
)
