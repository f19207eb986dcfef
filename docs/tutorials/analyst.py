# %% [markdown]
# # A table with mixed columns
#
# Each row is a customer, a house, a patient; some columns are numbers, some are categories. You want to see which rows
# are alike, which are odd, and what drives the groups.

# %%
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import nearfar as nf

rng = np.random.default_rng(0)
n = 600
segment = rng.integers(4, size=n)
table = pd.DataFrame(
    {
        "age": rng.normal(30 + 10 * segment, 5).round(),
        "income": rng.lognormal(10 + 0.2 * (segment % 2), 0.2).round(-2),
        "visits": rng.poisson(3 + 4 * (segment == 2)),
        "plan": np.array(["basic", "basic", "family", "gold"])[np.where(rng.uniform(size=n) < 0.8, segment, 0)],
        "region": rng.choice(["north", "south", "west"], n),
    },
    index=[f"customer {i}" for i in range(n)],
)
print(table.head(3))

# %% [markdown]
# ## From columns to distances
#
# `nf.prepare` puts numbers on one scale, skewed ones on a logarithmic one, and makes a column of 0 and 1 of each
# category, divided by the square root of 2: rows that differ in a category are at distance 1. Row numbers, ids and
# labels are left out. It says what it did with each column.

# %%
X = nf.prepare(table)
print(X)

# %% [markdown]
# ## Which method?
#
# `nf.choose` looks at the data and says what suits it and why; here it advises `nf.prepare`, too.

# %%
print(nf.choose(table))

# %% [markdown]
# ## The map, and what explains it
#
# Ids of a data frame's index travel with the map. Colour it by each column in turn: a column that drives the groups
# shows clean colours.

# %%
est = nf.TSNE(random_state=0, n_jobs=1).fit(X)
drawn = est.vectors_
figure = Figure(figsize=(8, 3.4), layout="constrained")
left, right = figure.subplots(1, 2)
nf.plots.scatter(drawn, labels=table["plan"], ax=left)
left.set_title("plan")
nf.plots.scatter(drawn, values=table["age"], ax=right)
right.set_title("age")
figure

# %% [markdown]
# Rows that are alike, and rows that are like no other:

# %%
print([name for name, _ in nf.Embedding(X.vectors - X.vectors.mean(0), X.ids).most_similar("customer 0", topn=3)])
affinities = nf.Affinities(15, n_jobs=1).fit(X)
odd = np.argsort(-affinities.distances_.mean(1))[:3]
print(table.iloc[odd])

# %% [markdown]
# ## When distances matter: MDS
#
# t-SNE keeps neighbours. To read distances between groups, use metric scaling, and look at its stress.

# %%
scaled = nf.MDS(random_state=0, n_jobs=1).fit(X)
print(f"Kruskal's stress {scaled.kruskal_stress_:.3f}")
for name, one in {"t-SNE": drawn.vectors, "MDS": scaled.embedding_}.items():
    kept = nf.evaluate.neighborhoods(X, one, n_jobs=1)
    print(f"{name}: area under R_NX {kept.auc:.3f}, rank correlation of distances {kept.spearman:.3f}")

# %% [markdown]
# ## New rows
#
# The map knows how its columns were coded. `transform` places new rows in it, and leaves it as it is; `grow` makes them
# part of it, and old points hardly move. Rows go by their ids: those that are known stay what they are.

# %%
new = table.iloc[[0, 1]].set_axis(["new 0", "new 1"]).assign(age=[30, 60])
print(est.transform(new).shape)
grown = est.grow(pd.concat([table, new]))
print(len(table), "rows, then", len(grown.vectors_), grown.growth_.status[-3:].tolist())

# %% [markdown]
# Go on: [which method for which data](choosing.md), [multidimensional scaling](mds.md), [the map page](map-page.md),
# which joins all columns as metadata.
