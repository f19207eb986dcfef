# %% [markdown]
# # Single cells and genes
#
# You have a table of counts, cells by genes, and want a map of the cells that you may believe, and genes that act
# together. The table here is drawn: three cell types, one of which matures along a path, with 300 genes. Your own is an
# AnnData object: `nf.TSNE().fit(adata)` takes `adata.X`, or the PCA in `adata.obsm` if it is there; so does `nearfar
# map cells.h5ad`.

# %%
import numpy as np

import nearfar as nf

rng = np.random.default_rng(0)
n_cells, n_genes = 900, 300
kind = rng.integers(3, size=n_cells)
age = np.where(kind == 2, rng.uniform(size=n_cells), 0)
programs = rng.gamma(0.3, size=(5, n_genes))  # of three types, and early and late of the third
activity = np.stack([kind == 0, kind == 1, kind == 2, age, (kind == 2) * (1 - age)], 1).astype(float)
depth = rng.lognormal(7, 0.4, size=(n_cells, 1))
rate = (activity + 0.05) @ programs
counts = rng.poisson(depth * rate / rate.sum(1, keepdims=True))
print(counts.shape, f"{(counts == 0).mean():.0%} zeros")

# %% [markdown]
# ## From counts to a map
#
# The usual preparation: equal depth, logarithm, principal components. Then t-SNE and UMAP.

# %%
from sklearn.decomposition import PCA

X = np.log1p(1e4 * counts / counts.sum(1, keepdims=True))
components = PCA(20, random_state=0).fit_transform(X)
maps = {
    "t-SNE": nf.TSNE(perplexity=30, random_state=0, n_jobs=1).fit_transform(components),
    "UMAP": nf.UMAP(random_state=0, n_jobs=1).fit_transform(components),
}
figure = nf.plots.small_multiples(maps, labels=np.array(["A", "B", "C"])[kind])[0].figure
figure

# %% [markdown]
# Cells that are measured later go through the same preparation, and into the map as it is.

# %%
pca = PCA(20, random_state=0).fit(X[100:])
est = nf.TSNE(random_state=0, n_jobs=1).fit(pca.transform(X[100:]))
placed = est.transform(pca.transform(X[:100]))
nearest = np.linalg.norm(placed[:, None] - est.embedding_, axis=2).argmin(axis=1)
print(f"{(kind[100:][nearest] == kind[:100]).mean():.0%} of new cells lie at a cell of their type")

# %% [markdown]
# ## Where the map is to be believed
#
# No map in the plane keeps all neighbours. `neighborhoods` counts how many it keeps, and, point by point, which it
# does not: `missing` are neighbours in the data that are far away in the map, `false` the other way round.

# %%
for name, drawn in maps.items():
    kept = nf.evaluate.neighborhoods(components, drawn, n_neighbors=15, n_jobs=1)
    print(f"{name}: trustworthiness {kept.trustworthiness[15]:.3f}, area under R_NX {kept.auc:.3f}")
points = nf.evaluate.neighborhoods(components, maps["t-SNE"], n_neighbors=15, per_point=True, n_jobs=1)
worst = np.argsort(-points.missing[15])[:3]
print("cells whose neighbours the map tore away:", worst, points.missing[15][worst].round(2))

# %% [markdown]
# The path of the third type is a question about distances along it. Rank correlation of the age with the first
# direction of that type's part of the map:

# %%
from scipy.stats import spearmanr

for name, drawn in maps.items():
    of_c = drawn[kind == 2]
    along = PCA(1).fit_transform(of_c)[:, 0]
    print(f"{name}: {abs(spearmanr(along, age[kind == 2])[0]):.2f}")

# %% [markdown]
# ## Genes that act together
#
# Two genes are related if their counts rise and fall together among cells of one type, here the third. Correlations
# above a threshold are a relation; `EDRep` turns it into vectors, in which genes of one program are alike.

# %%
correlation = np.corrcoef(X[kind == 2].T)
np.fill_diagonal(correlation, 0)
related = np.where(correlation > 0.2, correlation, 0)
genes = (
    nf.EDRep(n_components=8, random_state=0, n_jobs=1)
    .fit(nf.Relation.from_matrix(related, [f"gene {i}" for i in range(n_genes)]).normalized())
    .vectors_
)
program = programs.argmax(0)
marker = int(np.argmax(programs[3]))
found = genes.most_similar(f"gene {marker}", topn=10)
print("nearest to the marker of maturity:", [name for name, _ in found[:4]])
print("of the same program:", sum(program[int(name.split()[1])] == 3 for name, _ in found), "of 10")

# %% [markdown]
# ## Pairs of genes
#
# Known pairs of things that interact are a relation too, whose vectors tell which other pairs may interact. The pairs
# here are drawn: genes in six pathways. A part of them is hidden, and a classifier learns from the cosines which pairs
# interact.

# %%
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

graph = nf.datasets.dcsbm(300, n_communities=6, mean_degree=15, alpha=6.0, random_state=0)
pairs = rng.permutation(graph.edges)
known, hidden = np.split(pairs, [len(pairs) * 7 // 10])
relation = nf.Relation.from_edges(known).normalized()
emb = nf.EDRep(n_components=16, temperature=0.1, random_state=0, n_jobs=1).fit(relation).vectors_
edges = {tuple(pair) for pair in np.sort(graph.edges, axis=1).tolist()}
others = [(a, b) for a, b in rng.integers(300, size=(3 * len(hidden), 2)).tolist() if a < b and (a, b) not in edges]
asked = [*hidden.tolist(), *others[: len(hidden)]]
cosine = [[emb.similarity(a, b) if a in emb and b in emb else 0.0] for a, b in asked]
interact = np.arange(len(asked)) < len(hidden)
print(f"ROC AUC {cross_val_score(LogisticRegression(), cosine, interact, cv=3, scoring='roc_auc').mean():.2f}")

# %% [markdown]
# - **Hidden pairs** must not be among those that make the vectors, in either order. For graphs,
#   [`link_prediction`](judging-graphs.md#link-prediction) takes care of this.
# - **Degrees.** If the pairs without interaction are of objects that interact with nobody, the degrees tell almost
#   everything. Compare with them, and score pairs whose objects both have known pairs. An object without one has no
#   vector.
# - **Temperature.** Below 1, vectors tell single pairs better; at 1 they tell groups. Choose it on other pairs.
#
# On the published pairs of Gene2Vec EDRep is ahead ([benchmarks](../benchmarks.md)). The EDRep paper makes its vectors
# of all of these pairs, those that do not interact too, so its figures (92 % against 84 %) are of another task.
#
# Go on: [maps](maps.md), [evaluating maps](judging-maps.md), [the map page](map-page.md) with metadata and trust
# colours, [other tools](embeddings.md#scanpy) such as scanpy.
