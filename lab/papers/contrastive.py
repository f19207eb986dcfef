"""The statements of the notes on noise-contrastive estimation: on worlds so small that every outcome is summed.

Nothing is sampled but where a line says so: p(y|x) and the noise are tables, expected losses are sums over all that can
be drawn, so ours are exact to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import nearfar as nf
from lab.papers.experiment import Experiment, Findings, Panel, Setting, Table, one_torch_thread

if TYPE_CHECKING:
    from torch import Tensor

    from nearfar.contrastive.mutual_information import BoundName

_NOTES = "K. Stratos, notes on noise contrastive estimation"
_EXACT = 1e-9  # what sums in float64 leave


def _world() -> tuple[Tensor, dict[str, Tensor]]:
    """Return a joint distribution of 3 x and 4 y, and four kinds of noise q(y|x)."""
    import torch

    joint = torch.tensor(
        [[0.11, 0.02, 0.17, 0.05], [0.01, 0.21, 0.06, 0.03], [0.09, 0.04, 0.04, 0.17]], dtype=torch.float64
    )
    skew = torch.tensor([0.1, 0.15, 0.05, 0.7], dtype=torch.float64)
    own = torch.tensor([[0.6, 0.2, 0.1, 0.1], [0.3, 0.3, 0.3, 0.1], [0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)
    noise = {
        "the marginal": joint.sum(0).expand(3, 4),
        "uniform": torch.full((3, 4), 0.25, dtype=torch.float64),
        "another": skew.expand(3, 4),
        "one for each x": own,
    }
    return joint, noise


def _outcomes(joint: Tensor, q: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return x, the n candidates (the true one first) and the probability of all that can be drawn."""
    import torch

    n_x, n_y = joint.shape
    tuples = torch.cartesian_prod(*[torch.arange(n_y)] * n)
    x = torch.arange(n_x).repeat_interleave(len(tuples))
    ids = tuples.repeat(n_x, 1)
    return x, ids, joint[x, ids[:, 0]] * q[x[:, None], ids[:, 1:]].prod(1)


def _expected(loss: Any, scores: Tensor, joint: Tensor, q: Tensor, n: int) -> Tensor:
    """Return the expected loss of a table of scores (X, Y)."""
    import torch

    x, ids, weight = _outcomes(joint, q, n)
    value: Tensor = weight @ loss(scores[x[:, None], ids], torch.zeros(len(x), dtype=torch.int64), reduction="none")
    return value


def _slope(loss: Any, scores: Tensor, joint: Tensor, q: Tensor, n: int) -> float:
    """Return the largest entry of the gradient of the expected loss: 0 where the loss is least, as it is convex."""
    import torch

    at = scores.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(_expected(loss, at, joint, q, n), at)
    return float(gradient.abs().max())


def _optima(_: Setting) -> Findings:
    """3 x, 4 y, four kinds of noise, N = 2 to 5, every outcome summed. The expected loss is convex in a free table of
    scores, so it is least where its gradient is 0.

    Differs: Nowhere for these statements. PMI is the optimum with noise from the marginal only: see the line of
    another.
    """
    import torch

    joint, noise = _world()
    p = joint / joint.sum(1, keepdim=True)
    lines, shifts = Table(), torch.tensor([[0.0], [2.0], [-1.5]], dtype=torch.float64)  # ln C_x
    for name, q in noise.items():
        ratio = (p / q).log()
        slopes = [_slope(nf.nn.local_nce, ratio - math.log(n - 1), joint, q, n) for n in (2, 3, 4, 5)]
        lines.add(f"local NCE, noise: {name}: slope at ln p/q - ln(N - 1), N = 2..5", max(slopes), (0, _EXACT))
        slopes = [_slope(nf.nn.global_nce, ratio + shifts, joint, q, n) for n in (2, 3, 4, 5)]
        lines.add(f"global NCE, noise: {name}: slope at ln p/q + ln C_x, N = 2..5", max(slopes), (0, _EXACT))
    skewed = noise["another"]
    pmi = (joint / (joint.sum(1, keepdim=True) * joint.sum(0))).log()
    wrong = _slope(nf.nn.local_nce, pmi - math.log(2), joint, skewed, 3)
    lines.add("local NCE, noise: another: slope at PMI - ln(N - 1), N = 3", wrong, (0.01, 1))
    for name, q in noise.items():
        ranked, logs = (p / q).log() + shifts, (p / q).log() - math.log(2)
        gap = (nf.nn.recover_conditional(ranked, q.log()).exp() - p).abs().max()
        lines.add(f"global NCE, noise: {name}: error of eq. (2) at the best scores", float(gap), (0, _EXACT))
        gap = (nf.nn.recover_conditional(logs, q.log(), loss="local", n_candidates=3).exp() - p).abs().max()
        lines.add(f"local NCE, noise: {name}: error of the recovered p(y|x), N = 3", float(gap), (0, _EXACT))
    uniform = (p / noise["uniform"]).log() + shifts
    gap = (nf.nn.recover_conditional(uniform).exp() - p).abs().max()
    lines.add("global NCE, noise: uniform: error of eq. (2) without ln q", float(gap), (0, _EXACT))
    return Findings(lines)


def _appendices(_: Setting) -> Findings:
    """3 x and 4 y, every outcome summed; the hinge loss on 2,000 rows of random scores.

    Differs: Nowhere.
    """
    import torch

    joint, _noise = _world()
    p, (n_x, n_y) = joint / joint.sum(1, keepdim=True), joint.shape
    rows, target = torch.arange(n_x).repeat_interleave(n_y), torch.arange(n_y).repeat(n_x)
    weight, shifts = joint.flatten(), torch.tensor([[0.3], [-2.0], [1.0]], dtype=torch.float64)
    best = (joint.log() + shifts).requires_grad_()
    losses = nf.nn.global_nce(best[rows], target, reduction="none")  # all candidates: the cross entropy
    (slope,) = torch.autograd.grad(weight @ losses, best)
    lines = Table()
    lines.add("cross entropy: slope at ln p(x, y) + ln C_x", float(slope.abs().max()), (0, _EXACT))
    gap = weight @ losses.detach() + (joint * p.log()).sum()
    lines.add("cross entropy at these scores less the entropy of y given x", float(gap.abs()), (0, _EXACT))
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(2 * rng.normal(size=(2000, n_y)))
    true = torch.from_numpy(rng.integers(n_y, size=2000))
    own = scores.gather(1, true[:, None])[:, 0]
    others = scores.scatter(1, true[:, None], -math.inf).amax(1)
    least = nf.nn.hinge(scores, true, reduction="none") - (own - others <= 0).double()
    lines.add("hinge loss less the zero-one loss, 2,000 rows: the least", float(least.min()), (0, 1))
    at_ends, share = torch.from_numpy(rng.normal(0, 3, (2, 2000))), torch.from_numpy(rng.uniform(size=2000))

    def of_margin(margin: Tensor) -> Tensor:
        first = torch.zeros(len(margin), dtype=torch.int64)
        return nf.nn.hinge(torch.stack([margin, torch.zeros_like(margin)], 1), first, reduction="none")

    chord = share * of_margin(at_ends[0]) + (1 - share) * of_margin(at_ends[1])
    least = chord - of_margin(share * at_ends[0] + (1 - share) * at_ends[1])
    lines.add("hinge loss of the margin: 2,000 chords less the curve, the least", float(least.min()), (-_EXACT, 1))
    return Findings(lines)


def _bound(setting: Setting) -> Findings:
    """The best scores, ln p/q with q the marginal, on 3 x and 4 y; every outcome summed.

    Differs: Nowhere. The condition that q is the marginal is needed: the last line.
    """
    import torch

    joint, noise = _world()
    p, q = joint / joint.sum(1, keepdim=True), noise["the marginal"]
    information = float((joint * (p / q).log()).sum())
    sizes = (2, 3, 4, 5) if setting.quick else (2, 3, 4, 5, 6, 7)
    found = [math.log(n) - float(_expected(nf.nn.global_nce, (p / q).log(), joint, q, n)) for n in sizes]
    lines = Table()
    for n, value in zip(sizes, found, strict=True):
        within = 0, min(information, math.log(n))
        lines.add(f"ln N - loss of the best scores, N = {n}", value, within)
    lines.add("I(X; Y)", information, (0.28, 0.29))
    lines.add("least rise with N", np.diff(found).min(), (0, 1))
    rng, highest = np.random.default_rng(0), -math.inf
    for n, size, _draw in product((2, 3, 4), (0.1, 1.0, 3.0), range(100)):
        scores = (p / q).log() * int(rng.integers(2)) + torch.from_numpy(size * rng.normal(size=p.shape))
        highest = max(highest, math.log(n) - float(_expected(nf.nn.global_nce, scores, joint, q, n)))
    lines.add("ln N - loss of 900 tables of scores, N = 2 to 4: the highest", highest, (-10, information))
    skewed = noise["another"]
    above = math.log(5) - float(_expected(nf.nn.global_nce, (p / skewed).log(), joint, skewed, 5)) - information
    lines.add("the same above I with noise that is not the marginal, N = 5", above, (0.01, 1))
    curves = {"ln N - loss": (sizes, found), "I(X; Y)": (sizes, [information] * len(sizes))}
    return Findings(lines, [Panel("bound of the best critic", "N", "nats", curves)])


def _jensen_shannon(_: Setting) -> Findings:
    """Four kinds of noise, N = 2 to 5, every outcome summed; the game with 300 noises drawn for each x.

    Differs: Nowhere.
    """
    import torch

    joint, noise = _world()
    p = joint / joint.sum(1, keepdim=True)
    share_of_x = joint.sum(1)

    def divergence(q: Any, share: float) -> float:
        middle = share * p + (1 - share) * q
        kl = share * (p * (p / middle).log()).sum(1) + (1 - share) * (q * (q / middle).log()).sum(1)
        return float(share_of_x @ kl)

    lines = Table()
    for name, q in noise.items():
        gaps = []
        for n in (2, 3, 4, 5):
            entropy = -math.log(1 / n) / n - (1 - 1 / n) * math.log1p(-1 / n)
            least = float(_expected(nf.nn.local_nce, (p / q).log() - math.log(n - 1), joint, q, n))
            gaps.append(abs(least - n * (entropy - divergence(q, 1 / n))))
        lines.add(f"noise: {name}: least loss less N (H(1/N) - JS), N = 2..5", max(gaps), (0, _EXACT))
    game = -float(_expected(nf.nn.local_nce, (p / p).log(), joint, p, 2))
    least = -math.log(4)
    within = least - _EXACT, least + _EXACT
    lines.add("value of the game with noise that is the data (GAN), N = 2", game, within)
    off = -float(_expected(nf.nn.local_nce, (p / noise["uniform"]).log(), joint, noise["uniform"], 2))
    lines.add("the same with uniform noise", off, (least, 0))
    rng, above = np.random.default_rng(0), []
    for _draw in range(300):
        q = torch.from_numpy(rng.dirichlet(np.ones(4), 3))
        best = (p / q).log()
        value = -float(_expected(nf.nn.local_nce, best, joint, q, 2))
        other = -float(_expected(nf.nn.local_nce, best + torch.from_numpy(rng.normal(size=p.shape)), joint, q, 2))
        above.append((value, other - value))
    values, rises = zip(*above, strict=True)
    lines.add("value of the game with 300 other noises: the least", min(values), (least, 0))
    lines.add("value with other discriminators less that with the best, 300 noises: the largest", max(rises), (-10, 0))
    slope = _slope(nf.nn.local_nce, torch.zeros_like(p), joint, p, 2)
    lines.add("slope at a discriminator of 1/2, noise that is the data, N = 2", slope, (0, _EXACT))
    return Findings(lines)


def _sampled_softmax(setting: Setting) -> Findings:
    """Five classes, every draw of m negatives summed.

    Differs: C.2 replaces E[1/Ẑ] by 1/E[Ẑ] in its proof. By Jensen's inequality the first is larger, so the component of
    the true class is biased as well unless q is proportional to exp s. Ours shows the bias.
    """
    import torch

    scores = torch.tensor([1.1, -0.6, 0.3, -1.4, 0.8], dtype=torch.float64)
    true, others = 2, [0, 1, 3, 4]
    exact = scores.softmax(0) - torch.nn.functional.one_hot(torch.tensor(true), 5)
    weights = {"uniform": torch.ones(5, dtype=torch.float64), "q ∝ exp -s": (-scores).exp(), "q ∝ exp s": scores.exp()}
    sizes = (1, 2, 3) if setting.quick else (1, 2, 3, 4, 5)
    lines, curves = Table(), {}
    for name, weight in weights.items():
        q = torch.zeros(5, dtype=torch.float64)
        q[others] = weight[others] / weight[others].sum()
        biases, off, of_draws = [], [], list[float]()
        for m in sizes:
            drawn = torch.cartesian_prod(*[torch.tensor(others)] * m).reshape(-1, m)
            theta = scores.clone().requires_grad_()
            of_true, of_others = theta[true].expand(len(drawn)), theta[drawn]
            losses = nf.nn.sampled_softmax(of_true, of_others, q.log()[drawn], reduction="none")
            chance = q[drawn].prod(1)
            (gradient,) = torch.autograd.grad(chance @ losses, theta)
            biases.append(gradient - exact)
            z = float(chance @ (losses.detach() + scores[true]).exp())
            off.append(abs(z / float(scores.exp().sum()) - 1))
            if name == "q ∝ exp s":
                of_draws.append(float((losses.detach() - (scores.logsumexp(0) - scores[true])).abs().max()))
        lines.add(f"C.1, noise {name}: relative error of E[Ẑ], m = 1..{sizes[-1]}", max(off), (0, _EXACT))
        own = [float(bias[true]) for bias in biases]
        inside = (0.0, _EXACT) if name == "q ∝ exp s" else (0.003, 0.5)
        for m, value in zip(sizes, own, strict=True):
            lines.add(f"C.2, noise {name}: bias of the true component, m = {m}", abs(value), inside)
        rest = [float(bias[others].abs().max()) for bias in biases]
        for m, value in zip(sizes, rest, strict=True):
            lines.add(f"C.2, noise {name}: bias of the other components, m = {m}", value, inside)
        curves[name] = (sizes, [float(bias.abs().max()) for bias in biases])
    lines.add(f"q*: loss of a draw less the whole loss, the largest, m = 1..{sizes[-1]}", max(of_draws), (0, _EXACT))
    kept = scores.softmax(0)[others]
    gap = (kept / kept.sum() - q[others]).abs().max()  # q is that of the last noise, q*
    lines.add("p of all, drawn targets excluded, less q*: the largest difference", float(gap), (0, _EXACT))
    return Findings(lines, [Panel("bias of the gradient", "number of negatives m", "largest component", curves)])


def _consistency(setting: Setting) -> Findings:
    """Log-linear models of two parameters whose normaliser varies with x, noise log q given, one draw of noise; every
    outcome summed, worlds of several seeds.

    Differs: The text of this paper is not at hand.
    """
    import torch

    truth = torch.tensor([1.0, -0.7], dtype=torch.float64)
    q = torch.tensor([0.3, 0.1, 0.25, 0.35], dtype=torch.float64).expand(3, 4)
    stretch = np.array([[[1.0]], [[0.3]], [[2.0]]])
    worlds = []
    for seed in range(setting.pick(10, 3)):
        features = torch.from_numpy(np.random.default_rng([7, seed]).normal(size=(3, 4, 2)) * stretch)
        worlds.append((features, (features @ truth).softmax(1) / 3))

    def error(loss: Any, features: Tensor, joint: Tensor, n_offsets: int = 0) -> float:
        free = torch.zeros(2 + n_offsets, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([free], max_iter=300, tolerance_grad=1e-11, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            table = features @ free[:2] + (free[2:, None] if n_offsets else 0)
            x, ids, weight = _outcomes(joint, q, 2)
            rows, target = table[x[:, None], ids], torch.zeros(len(x), dtype=torch.int64)
            value: Tensor = weight @ loss(rows, target, q.log()[x[:, None], ids], reduction="none")
            value.backward()  # type: ignore[no-untyped-call]
            return value

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        return float((free.detach()[:2] - truth).norm())

    rows = {
        "ranking": (nf.nn.global_nce, 0, (0.0, 1e-3)),
        "binary": (nf.nn.local_nce, 0, (0.05, 2.0)),
        "binary, one offset": (nf.nn.local_nce, 1, (0.05, 2.0)),
        "binary, an offset for each x": (nf.nn.local_nce, 3, (0.0, 1e-3)),
    }
    lines = Table()
    for name, (loss, n, within) in rows.items():
        found = [error(loss, *world, n) for world in worlds]
        lines.add(f"{name}: distance of the parameters from the truth", found, within)
    rng = np.random.default_rng(5)
    features, joint = worlds[0]
    sizes = (300, 3_000, 30_000, 300_000, 3_000_000)
    seen = [
        torch.from_numpy(rng.multinomial(n, joint.numpy().ravel() / float(joint.sum())).reshape(3, 4) / n)
        for n in sizes
    ]
    curves = {
        "ranking": (sizes, [error(nf.nn.global_nce, features, part) for part in seen]),
        "binary": (sizes, [error(nf.nn.local_nce, features, part) for part in seen]),
    }
    lines.add("ranking, 3 million examples drawn: distance", curves["ranking"][1][-1], (0, 0.02))
    lines.add("binary, 3 million examples drawn: distance", curves["binary"][1][-1], (0.05, 2.0))
    return Findings(lines, [Panel("error with data", "examples", "distance from the truth", curves, log="xy")])


def _efficiency(setting: Setting) -> Findings:
    """Asymptotic covariances of a log-linear model, exactly, for 2 x and 3 y.

    Differs: The text of this paper is not at hand.
    """
    import torch

    truth = torch.tensor([1.0, -0.7], dtype=torch.float64)
    features = torch.from_numpy(np.random.default_rng(7).normal(size=(2, 3, 2)) * [[[1.0]], [[0.3]]])
    p = (features @ truth).softmax(1)
    q = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64).expand(2, 3)
    joint = torch.tensor([[0.45], [0.55]], dtype=torch.float64) * p
    centred = features - (p[:, :, None] * features).sum(1, keepdim=True)
    best = torch.linalg.inv(torch.einsum("xy,xyi,xyj->ij", joint, centred, centred))  # of maximum likelihood
    draws = np.array([1, 2, 4, 8, 16] if setting.quick else [1, 2, 4, 8, 16, 32, 64])
    own = torch.cat((features, torch.eye(2, dtype=torch.float64)[:, None].expand(2, 3, 2)), 2)
    cases = {
        "ranking": (nf.nn.global_nce, features, truth),
        "binary, an offset for each x": (nf.nn.local_nce, own, torch.cat((truth, -(features @ truth).logsumexp(1)))),
    }
    lines = Table()
    curves = {}
    for name, (loss, phi, free) in cases.items():
        gaps = [float(_covariance(loss, phi, free, q, joint, int(k))[:2, :2].trace() / best.trace()) - 1 for k in draws]
        slope = float(np.diff(np.log(gaps[-2:]))[0] / np.diff(np.log(draws[-2:]))[0])
        lines.add(f"{name}: slope of ln(MSE / MSE of maximum likelihood - 1) in ln K", slope, (-1.1, -0.9))
        lines.add(f"{name}: excess error at K = {draws[-1]}", gaps[-1], (0, 0.1))
        curves[name] = (draws, gaps)
    return Findings(lines, [Panel("loss of efficiency", "draws of noise K", "excess error", curves, log="xy")])


def _covariance(loss: Any, features: Tensor, free: Tensor, q: Tensor, joint: Tensor, k: int) -> Tensor:
    """Return the asymptotic covariance of the estimate from n examples, times n: H^-1 G H^-1, exactly."""
    import torch

    n_x, n_y = joint.shape
    drawn = torch.tensor(list(combinations_with_replacement(range(n_y), k)))  # each unordered draw once
    counts = torch.nn.functional.one_hot(drawn, n_y).sum(1).double()
    ways = math.lgamma(k + 1) - torch.lgamma(counts + 1).sum(1)
    x, y, row = (i.flatten() for i in torch.meshgrid(*map(torch.arange, (n_x, n_y, len(drawn))), indexing="ij"))
    weight = joint[x, y] * (ways[row] + (counts[row] * q.log()[x]).sum(1)).exp()
    ids = torch.cat((y[:, None], drawn[row]), 1)
    phi, log_q, target = features[x[:, None], ids], q.log()[x[:, None], ids], torch.zeros(len(x), dtype=torch.int64)

    def gradients(at: Tensor) -> Tensor:
        scores = (phi @ at).requires_grad_()
        (slope,) = torch.autograd.grad(loss(scores, target, log_q, reduction="sum"), scores)
        return torch.einsum("rn,rnd->rd", slope, phi)

    each = gradients(free)
    middle = (each * weight[:, None]).T @ each
    steps = 1e-5 * torch.eye(len(free), dtype=torch.float64)
    curvature = torch.stack([weight @ (gradients(free + step) - gradients(free - step)) / 2e-5 for step in steps])
    inverse = torch.linalg.inv(curvature)
    covariance: Tensor = inverse @ middle @ inverse.T
    return covariance


D = 20  # coordinates of the Gaussians


def correlation(information: float) -> float:
    """Return the correlation of each coordinate at which pairs of Gaussians have so many nats."""
    return math.sqrt(-math.expm1(-2 * information / D))


def gaussians(information: float, n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return n pairs of Gaussians."""
    rng = np.random.default_rng([seed, round(information)])
    rho = correlation(information)
    x, noise = (rng.standard_normal((n, D), dtype=np.float32) for _ in range(2))
    return x, np.float32(rho) * x + np.float32(math.sqrt(1 - rho**2)) * noise


def log_ratio(information: float, offset: float = 0.0) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the exact critic, log p(x, y) / (p(x) p(y)), plus an offset."""
    rho = correlation(information)
    scale = 1 / (2 * (1 - rho**2))

    def critic(x: Tensor, y: Tensor) -> Tensor:
        squares = x.square().sum(1)[:, None] + y.square().sum(1)
        return information + offset - scale * (rho**2 * squares - 2 * rho * (x @ y.T))

    return critic


def _mutual_information(setting: Setting) -> Findings:
    """Pairs of correlated Gaussians in 20 coordinates. Exact critics on batches of 1,024; a trained separable critic on
    batches of 64.

    Differs: The texts of these papers are not at hand.
    """
    import warnings

    levels, seeds = setting.pick((2.0, 4.0, 6.0, 8.0, 10.0), (2.0, 10.0)), range(setting.pick(3, 2))
    lines = Table()
    curves: dict[str, tuple[ArrayLike, ArrayLike]] = {"I": (levels, levels)}
    with warnings.catch_warnings(), one_torch_thread():
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)  # that a bound is at its ceiling is what is shown
        exact_bounds: tuple[tuple[BoundName, float], ...] = (("infonce", 0.0), ("nwj", 1.0), ("dv", 0.0))
        for bound, offset in exact_bounds:
            means = []
            for level in levels:
                n = setting.pick(2**17, 2**15)
                values = [
                    nf.nn.estimate_mutual_information(
                        *gaussians(level, n, seed),
                        bound=bound,
                        critic=log_ratio(level, offset),
                        batch_size=1024,
                        random_state=seed,
                    ).value
                    for seed in seeds
                ]
                means.append(float(np.mean(values)))
                high = math.log(1024) + 1e-4 if bound == "infonce" else 1.1 * level
                low = 0.6 * min(level, math.log(1024)) if bound == "infonce" else 0.85 * level
                lines.add(f"{bound}, exact critic, I = {level:g} nats, N = 1,024", values, (low, high))
            curves[f"{bound}, exact critic"] = (levels, tuple(means))
        steps = setting.pick(2000, 300)
        means = []
        for level in levels:
            values = []
            for seed in seeds:
                x, y = gaussians(level, 64 * (steps + 50), seed)
                found = nf.nn.estimate_mutual_information(
                    x, y, bound="infonce", batch_size=64, n_steps=steps, held_out=51 * 64 / len(x), random_state=seed
                )
                values.append(found.value)
            means.append(float(np.mean(values)))
            lines.add(f"infonce, trained critic, I = {level:g} nats, N = 64", values, (0.2, math.log(64)))
        curves["infonce, trained, N = 64"] = (levels, tuple(means))
    return Findings(lines, [Panel("bounds on the information of Gaussians", "I (nats)", "estimate (nats)", curves)])


EXPERIMENTS = (
    Experiment("nce-optima", _NOTES, "sections 1 and 2", _optima),
    Experiment("nce-appendices", _NOTES, "appendices A and B", _appendices),
    Experiment("nce-infonce-bound", _NOTES, "corollary 1.2", _bound),
    Experiment("nce-jensen-shannon", _NOTES, "lemma 2.1 and corollary 2.2", _jensen_shannon),
    Experiment("nce-sampled-softmax", _NOTES, "lemmas C.1 and C.2", _sampled_softmax),
    Experiment("nce-consistency", "Z. Ma and M. Collins, EMNLP 2018", "consistency of both losses", _consistency),
    Experiment("nce-efficiency", "Z. Ma and M. Collins, EMNLP 2018", "efficiency", _efficiency),
    Experiment(
        "nce-mutual-information",
        "D. McAllester and K. Stratos, AISTATS 2020; B. Poole and others, ICML 2019",
        "bounds on mutual information",
        _mutual_information,
    ),
)
