# %% [markdown]
# # A divergence of your own
#
# A neighbour embedding is a divergence between P, the neighbours in the data, and Q, those in the map, times a kernel,
# times a normalisation. You write the divergence in a few lines; the library brings the gradient, linear time,
# `transform` and the evaluation.
#
# The example is the squared Hellinger distance, $\sum (\sqrt p - \sqrt q)^2$ (Im, Verma & Branson 2018). It is
# symmetric and bounded.

# %%
import numpy as np
from sklearn.datasets import load_digits

import nearfar as nf


class Hellinger(nf.divergences.Divergence):
    """The squared Hellinger distance: its value entry by entry, and the derivative in q."""

    def value(self, p, q, uniform=0.0):
        return (np.sqrt(p) - np.sqrt(q)) ** 2

    def derivative(self, p, q, uniform=0.0):
        return 1 - np.sqrt(p / np.maximum(q, np.finfo(q.dtype).tiny))


# %% [markdown]
# That is all that the exact path needs. At the first fit the derivative is compared with differences of the value: a
# wrong sign is refused, with the place.


# %%
class Wrong(Hellinger):
    def derivative(self, p, q, uniform=0.0):
        return -super().derivative(p, q, uniform)


X, digit = load_digits(return_X_y=True)
X, digit = X[:300], digit[:300]
try:
    nf.NeighborEmbedding(divergence=Wrong(), random_state=0).fit(X)
except nf.errors.InputError as error:
    print(error)

# %% [markdown]
# ## Check the gradient, then fit
#
# `cost_and_gradient` gives both at any positions in float64.

# %%
est = nf.NeighborEmbedding(divergence=Hellinger(), random_state=0, n_jobs=1)
small = nf.Affinities(8, n_jobs=1).fit(X[:40])
Y = np.random.default_rng(0).normal(size=(40, 2))
step = np.zeros_like(Y)
step[3, 1] = 1e-5
_, gradient = est.cost_and_gradient(Y, small)
difference = (est.cost_and_gradient(Y + step, small)[0] - est.cost_and_gradient(Y - step, small)[0]) / 2e-5
print(f"gradient {gradient[3, 1]:.8f}, by differences {difference:.8f}")

# %%
maps = {
    "Hellinger": est.fit_transform(X),
    "KL (t-SNE)": nf.TSNE(random_state=0, n_jobs=1).fit_transform(X),
    "reverse KL": nf.NeighborEmbedding(divergence="reverse-kl", random_state=0, n_jobs=1).fit_transform(X),
}
figure = nf.plots.small_multiples(maps, labels=digit)[0].figure
figure

# %% [markdown]
# ## Judge it
#
# One seed is no comparison. Over three seeds, with mean and deviation:

# %%
for name, divergence in {"Hellinger": Hellinger(), "KL": "kl", "reverse KL": "reverse-kl"}.items():
    areas = []
    for seed in range(3):
        est = nf.NeighborEmbedding(divergence=divergence, init="random", random_state=seed, n_jobs=1)
        drawn = est.fit_transform(X)
        areas.append(nf.evaluate.neighborhoods(X, drawn, n_jobs=1).auc)
    print(f"{name:10s} area under R_NX {np.mean(areas):.3f} ± {np.std(areas, ddof=1):.3f}")

# %% [markdown]
# ## Linear time
#
# With `value` and `derivative` alone a fit takes quadratic time. Divergences whose derivative without neighbours is $b
# \ln q$ plus a constant run in linear time: give the formulas as compiled functions. Hellinger's is 1 where $p = 0$: a
# constant, so it can. [Parts of your own](extending.md) shows how, for an alpha-divergence.
