"""The figures of the EDRep paper: how good the normaliser is, what it costs a fit, communities by hardness."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice, product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.papers.experiment import DataFile, Experiment, Findings, Panel, Setting, Table, line
from lab.peers.random_features import RFA, Performer

from .approximation import EXPERIMENTS as OF_THE_MIXTURE
from .approximation import PAPER, median_errors, planted
from .elsewhere import OF_EDREP
from .spectral import bethe_hessian
from .words import WIKI, articles

Gradient = Literal["paper", "full"]

_CONTACTS = DataFile(
    "sociopatterns/SFHH_tij.dat.gz",
    "1b42630d0657c1851e2edfe717125941",
    "contacts of the SFHH conference (sociopatterns.org): a time and two people in each line",
)
_GENES = tuple(
    DataFile(
        f"gene2vec/{name}.txt.xz", md5, f"{name}.txt of predictionData of github.com/jingcheng-du/Gene2vec, packed"
    )
    for name, md5 in (
        ("train_text", "9e84f35ba45c44ee9b1fcee74acc68ce"),
        ("train_label", "d3ab735ee9d1e90b187fcac9815b8383"),
    )
)


def _word_vectors(setting: Setting) -> NDArray[np.float32]:
    model = nf.SkipGram(n_components=100, learning_rate=0.025, random_state=0)  # word2vec's
    return model.fit(nf.Corpus(articles(setting))).embedding_


def _figure_1(setting: Setting) -> Findings:
    """Vectors of words (skip-gram, 100 components) and of digits (64 pixels), mean norm 1, float32; exact Z of a sample
    of rows in float64.

    Differs: The paper takes 1,000 rows of six sets of word vectors of the NLPL repository. The numbers behind its
    curves are not printed.
    """
    words = _word_vectors(setting)
    from sklearn.datasets import load_digits

    pixels = load_digits().data
    sets = {"words": words, "digits": pixels - pixels.mean(axis=0)}
    n_rows, draws = setting.pick(2000, 500), range(setting.pick(10, 3))
    lines = Table()
    panels = []
    for name, vectors in sets.items():
        X = np.ascontiguousarray(vectors / np.linalg.norm(vectors, axis=1).mean(), dtype=np.float32)
        sizes, rivals = (1, 2, 5, 10), {"Performer": Performer, "RFA": RFA}
        ways: dict[str, dict[str, Any]] = {str(k): {"n_clusters": k} for k in sizes}
        ways |= {title: {"method": kind(1000)} for title, kind in rivals.items()}
        found = median_errors(X, n_rows, draws, ways)
        for k in sizes:
            lines.add(f"{name}: mixture of {k}, median relative error of Z", found[str(k)], (0, 0.02))
        curves = {"mixture": (list(sizes), [float(np.mean(found[str(k)])) for k in sizes])}
        for title in rivals:
            values = found[title]
            ratio = np.array(values) / np.mean(found["1"])
            lines.add(f"{name}: error of {title}, D = 1,000, over that of one Gaussian", ratio, (1.5, np.inf))
            curves[f"{title}, D = 1,000"] = ([1, 10], [float(np.mean(values))] * 2)
        panels.append(Panel(f"{name}, n = {len(X):,}", "Gaussians", "median relative error of Z", curves, log="y"))
    return Findings(lines, panels)


def _figure_2(setting: Setting) -> Findings:
    """Planted communities, 3,000 nodes, propensities NegBin(3, .3), 32 components, 25 epochs, learning rate .7. The
    loss is eq. (5) with the exact normaliser, in float64.

    Differs: The paper compares vectors, not losses, on graphs without communities (figure 2C). Eq. (6) leaves out a
    term, S'X, whatever the far field; two exact twins tell that apart from the mixture: no number of Gaussians closes
    the gap of eq. (6).
    """
    alphas, graphs = setting.pick((2.0, 3.0, 3.6), (3.0,)), range(setting.pick(3, 1))

    gaps: dict[tuple[Gradient, int], list[float]] = {}
    agreement: dict[tuple[Gradient, int], list[float]] = {}
    curves: dict[str, tuple[Any, Any]] = {}
    for alpha, index in product(alphas, graphs):
        relation, communities, start = planted(alpha, index)
        fits = list(watched_fits(relation, start, setting.pick((2, 5, 10), (5,))))
        [exact] = [losses[-1] for gradient, k, _, losses in fits if (gradient, k) == ("full", 0)]
        for gradient, k, vectors, losses in fits:
            gaps.setdefault((gradient, k), []).append(losses[-1] - exact)
            nmi = nf.evaluate.communities(vectors, communities, random_state=0).nmi
            agreement.setdefault((gradient, k), []).append(nmi)
            if alpha == 3.0 and index == 0 and k in (0, 1):
                far = "exact" if k == 0 else "one Gaussian"
                what = "eq. (6)" if gradient == "paper" else "whole gradient"
                curves[f"{far}, {what}"] = (range(len(losses)), losses)
    lines = Table()
    for (gradient, k), values in gaps.items():
        what = "eq. (6)" if gradient == "paper" else "whole gradient"
        far = "exact far field" if k == 0 else f"mixture of {k}"
        if (gradient, k) != ("full", 0):
            inside = (-0.002, 0.02) if gradient == "full" else (-0.002, 0.08)
            lines.add(f"{what}, {far}: exact loss above the exact twin's (nats a node)", values, inside)
    best = np.array(agreement["full", 0])
    for (gradient, k), values in agreement.items():
        if k and gradient == "paper":
            lines.add(
                f"eq. (6), mixture of {k}: NMI less that of the exact twin", np.array(values) - best, (-0.05, 0.1)
            )
    return Findings(lines, [Panel("alpha = 3.0", "epoch", "exact loss (nats a node)", curves)])


def exact_loss(P: Any, vectors: NDArray[Any]) -> float:
    """Return eq. (5) with the exact normaliser, r = 1 and p0 uniform, for each node."""
    X = vectors.astype(np.float64)
    total = X.sum(axis=0)
    near, far = np.sum(X * (P @ X)), nf.log_normalizers(X, method="exact").sum()
    return float((far - near + total @ total / len(X)) / len(X))


def fit_watched(
    relation: nf.Relation, start: NDArray[Any], far: Any, gradient: Gradient
) -> tuple[NDArray[np.float32], list[float]]:
    """Return the vectors, and the exact loss before the first and after each of 25 epochs."""
    P = relation.to_scipy()
    losses = [exact_loss(P, start)]
    how: dict[str, Any] = {"n_epochs": 25, "learning_rate": 0.7, "random_state": 0, "verbose": 0}
    look = lambda progress: losses.append(exact_loss(P, progress.state.X))  # noqa: E731
    model = nf.EDRep(32, gradient=gradient, far=far, init=start, callbacks=[look], **how)
    return model.fit(relation).embedding_, losses


def watched_fits(
    relation: nf.Relation, start: NDArray[Any], several: Sequence[int]
) -> Iterator[tuple[Gradient, int, NDArray[np.float32], list[float]]]:
    """Yield gradient, number of Gaussians (0: exact; 1; several), vectors and losses of fits from the same start.

    Several Gaussians are those of clusters of what one Gaussian led to.
    """
    gradients: tuple[Gradient, ...] = ("paper", "full")
    for gradient in gradients:
        fit = partial(fit_watched, relation, start, gradient=gradient)
        yield gradient, 0, *fit("exact")
        first, losses = fit(nf.far.GaussianMixture())
        yield gradient, 1, first, losses
        for k in several:
            labels = nf.far.spherical_kmeans(first, k, rng=np.random.default_rng(0)).labels
            yield gradient, k, *fit(nf.far.GaussianMixture(labels=labels))


def _figure_3_communities(setting: Setting) -> Findings:
    """Planted communities, propensities U(3, 12)^6, mean degree 10, four classes; giant component; NMI of k-means.

    Differs: 10,000 nodes here, 30,000 in the paper. The claims are tested by `python -m lab run communities`, which has
    as many, and DeepWalk.
    """
    n = setting.pick(10_000, 3_000)
    alphas = setting.pick((0.8, 1.4, 2.0, 2.6, 3.19, 3.8, 4.4), (0.8, 2.6, 3.6))

    def spectral(A: Any, seed: int) -> NDArray[np.float64]:
        start = np.random.default_rng(seed).standard_normal(A.shape[0])
        return bethe_hessian(A.astype(np.float64), 4, start)

    def on_walks(A: Any, seed: int) -> NDArray[Any]:
        return nf.EDRep(32, random_state=seed).fit(nf.Relation.from_matrix(A).random_walk(3)).embedding_

    methods: dict[str, Callable[[Any, int], Any]] = {"EDRep": on_walks, "spectral": spectral}
    found: dict[tuple[str, float], list[float]] = {}
    seconds: dict[tuple[str, float], list[float]] = {}
    for alpha in alphas:
        for index in range(setting.pick(5, 1)):
            given: dict[str, Any] = {"c_out": 4.0} if alpha == 3.19 else {"alpha": alpha}
            seed = np.random.default_rng([round(1000 * alpha), index])
            graph = nf.datasets.dcsbm(n, 4, 10.0, random_state=seed, **given)
            giant = np.flatnonzero(nf.evaluate.giant_component(graph))
            A, labels = graph.adjacency[giant][:, giant], graph.labels[giant]
            for name, method in methods.items():
                start = time.process_time()
                vectors = method(A, index)
                seconds.setdefault((name, alpha), []).append(time.process_time() - start)
                nmi = nf.evaluate.communities(vectors, labels, random_state=0).nmi
                found.setdefault((name, alpha), []).append(nmi)
    lines = Table()
    for alpha in alphas:
        mine, theirs = found["EDRep", alpha], found["spectral", alpha]
        if alpha == 3.19:
            for name in ("EDRep", "spectral"):
                lines.add(f"{name}: NMI at c_out = 4 (alpha 3.19)", found[name, alpha], (0.62, 0.74))
        elif alpha < 1:
            lines.add(f"EDRep: NMI at alpha = {alpha:g}, below what can be detected", mine, (0, 0.05))
        else:
            lines.add(f"EDRep: NMI at alpha = {alpha:g}", mine, (0.01, 1.0))
        if alpha >= 2:
            lines.add(f"EDRep less spectral: NMI at alpha = {alpha:g}", np.array(mine) - theirs, (-0.04, 0.2))
    picture = {name: (alphas, [float(np.mean(found[name, alpha])) for alpha in alphas]) for name in methods}
    times = {name: (alphas, [float(np.mean(seconds[name, alpha])) for alpha in alphas]) for name in methods}
    return Findings(
        lines,
        [
            Panel(f"planted communities, n = {n:,}", "alpha", "NMI", picture),
            Panel("processor time, compiling included", "alpha", "seconds", times, log="y"),
        ],
    )


WINDOW = 600  # seconds of a slice of contacts


def outbreaks(contacts: Path) -> Iterator[tuple[int, dict[tuple[Hashable, Hashable], str]]]:
    """Yield the outbreaks that do not die out at once, each with its seed."""
    for seed in count():
        states = nf.datasets.simulate_sir(contacts, 0.15, 0.01, window=WINDOW, random_state=seed)
        if list(states.values()).count("I") >= 0.05 * len(states):
            yield seed, states


def _figure_3_spreading(setting: Setting) -> Findings:
    """Contacts of the SFHH conference in slices of 10 minutes; 50 outbreaks of SIR with beta = .15 and mu = .01; as
    many observed states as people.

    Differs: The paper takes P as one row-normalised step; so does one of the two fits here, the other takes walks of
    three steps. Its DeepWalk walks 15 steps, ours in lab/graphs/spreading.py 40; its regression tells infected from
    not, ours S, I and R. It has 180 windows of about 15 minutes and draws observed states anew 50 times; here are 128
    slices of 10 minutes with contacts, and 50 outbreaks. Empty rows count in the normaliser only. What the time alone
    tells (most of it) is in lab/tables/graphs.md.
    """
    contacts = setting.data / _CONTACTS.path
    relation = nf.Relation.from_contacts(contacts, window=WINDOW)
    drawn = [states for _, states in islice(outbreaks(contacts), setting.pick(50, 6))]

    ways: dict[str, tuple[type[nf.EDRep | nf.SkipGram], int]] = {
        "EDRep": (nf.EDRep, 3),
        "EDRep, one row-normalised step": (nf.EDRep, 1),
        "skip-gram on the same walks": (nf.SkipGram, 3),
    }
    lines, curves = Table(), {}
    for name, (model, steps) in ways.items():
        macro, accuracy, gap = [], [], []
        vectors = model(30, random_state=0).fit(relation.random_walk(steps)).vectors_
        for number, states in enumerate(drawn):
            found = nf.evaluate.reconstruct_spreading(vectors, states, random_state=number)
            macro.append(found.repeats["macro_f1"])
            accuracy.append(found.repeats["accuracy"])
            gap.append(found.repeats["curve_error"])
            if number == 0:
                hours = (np.array(found.times) - found.times[0]) / 3600
                curves["true"] = (hours, found.infected / found.n_active)
                curves[name] = (hours, found.told / found.n_active)
        inside = (0.6, 0.8) if model is nf.EDRep else (0.5, 0.8)
        lines.add(f"{name}: macro F1 of S, I and R", macro, inside)
        lines.add(f"{name}: accuracy", accuracy, inside)
        lines.add(f"{name}: mean error of the share of infected", gap, (0.05, 0.18))
    return Findings(lines, [Panel("the first outbreak", "hours", "share of infected", curves)])


def gene_pairs(setting: Setting) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return pairs of genes that interact, pairs that do not, each once, and how many genes there are."""
    number: dict[str, int] = {}
    with setting.open(_GENES[0].path) as file:
        pairs = np.array([[number.setdefault(name, len(number)) for name in row.split()] for row in file])
    with setting.open(_GENES[1].path) as file:
        interact = np.array([row.strip() == "1" for row in file if row.strip()])
    pairs, n = np.sort(pairs, axis=1), len(number)
    different = pairs[:, 0] != pairs[:, 1]
    positive, negative = (np.unique(pairs[different & (interact == kind)], axis=0) for kind in (True, False))
    keys = positive[:, 0] * n + positive[:, 1]
    return positive, negative[~np.isin(negative[:, 0] * n + negative[:, 1], keys)], n


@dataclass(frozen=True)
class Genes:
    """Pairs of genes by number: those that make the vectors, and labelled ones that teach and test a regression."""

    n: int
    positive: NDArray[np.int64]
    learn: tuple[NDArray[np.int64], NDArray[np.bool_]]
    test: tuple[NDArray[np.int64], NDArray[np.bool_]]


def read_genes(setting: Setting, seed: int, share: float = 0.7) -> Genes:
    """Read the pairs and split them: a third of those that do not make the vectors teaches."""
    rng = np.random.default_rng(seed)
    *both, n = gene_pairs(setting)
    positive, negative = (rng.permutation(part) for part in both)
    n_seen = round(share * len(positive))
    hidden = positive[n_seen:]
    negative = negative[: len(hidden)]
    third = len(hidden) // 3

    def labelled(part: slice) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        return np.concatenate([hidden[part], negative[part]]), np.repeat([True, False], [len(hidden[part])] * 2)

    return Genes(n, positive[:n_seen], labelled(slice(third)), labelled(slice(third, None)))


def cosines(vectors: NDArray[Any], pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cosines of pairs of rows, (n, 1); 0 where there is a row of zeros."""
    a, b = (vectors[pairs[:, side]].astype(np.float64) for side in (0, 1))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    found: NDArray[np.float64] = (np.einsum("ij,ij->i", a, b) / np.where(norms > 0, norms, 1.0))[:, None]
    return found


def told_apart(F: NDArray[Any], labels: NDArray[np.bool_], G: NDArray[Any], truth: NDArray[np.bool_]) -> float:
    """Return the mean accuracy of both classes in the test, by a logistic regression of what teaches."""
    from sklearn.linear_model import LogisticRegression

    right = LogisticRegression(C=1e6, class_weight="balanced").fit(F, labels).predict(G) == truth
    return float((right[truth].mean() + right[~truth].mean()) / 2)


def _genes(setting: Setting) -> Findings:
    """70 % of the interacting pairs make the vectors, others teach the regression and test it; no pair is in two parts.
    Gene2Vec is skip-gram on pairs as sentences of two words.

    Differs: Interacting pairs of the same labelled set stand in for the paper's pairs of co-expressed genes, which is
    easier: the vectors see pairs of the kind that is asked for. The paper takes P as one row-normalised step and
    teaches with 70 % of the labelled pairs; here are walks of three steps and one step.
    """
    found: dict[str, list[float]] = {}
    for seed in range(setting.pick(3, 1)):
        genes = read_genes(setting, seed)
        pairs = nf.Relation.from_edges(genes.positive)
        common: dict[str, Any] = {"random_state": seed}
        models = {
            "EDRep, temperature .1": nf.EDRep(200, temperature=0.1, **common),
            "EDRep": nf.EDRep(200, **common),
            "EDRep, one row-normalised step": nf.EDRep(200, **common),
            "Gene2Vec (skip-gram on pairs)": nf.SkipGram(
                200, window=1, min_count=1, sample=0, learning_rate=0.025, n_epochs=setting.pick(10, 3), **common
            ),
        }
        for name, model in models.items():
            texts = [[str(a), str(b)] for a, b in genes.positive.tolist()]
            relation = pairs.random_walk(1 if "one" in name.split() else 3)
            fitted = model.fit(texts) if isinstance(model, nf.SkipGram) else model.fit(relation)
            vectors = fitted.vectors_
            X = np.zeros((genes.n, 200))
            X[[int(str(key)) for key in vectors.ids]] = vectors.vectors
            (learn, labels), (test, truth) = genes.learn, genes.test
            right = told_apart(cosines(X, learn), labels, cosines(X, test), truth)
            found.setdefault(name, []).append(100 * right)
    inside = {
        "EDRep, temperature .1": (97.0, 99.5),
        "EDRep": (94.0, 98.0),
        "EDRep, one row-normalised step": (94.0, 98.5),
        "Gene2Vec (skip-gram on pairs)": (88.0, 98.0),
    }
    return Findings([line(f"{name}: accuracy (%)", values, inside[name]) for name, values in found.items()])


EXPERIMENTS = (
    *OF_THE_MIXTURE,
    *OF_EDREP,
    Experiment("edrep-figure-1", PAPER, "figure 1", _figure_1, (WIKI,)),
    Experiment("edrep-figure-2", PAPER, "figure 2, the loss", _figure_2),
    Experiment("edrep-figure-3-communities", PAPER, "figure 3A, small", _figure_3_communities),
    Experiment("edrep-figure-3-spreading", PAPER, "figure 3E-F", _figure_3_spreading, (_CONTACTS,)),
    Experiment("edrep-genes", PAPER, "section 4.2: pairs of genes", _genes, _GENES),
)
