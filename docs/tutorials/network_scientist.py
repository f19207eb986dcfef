# %% [markdown]
# # A graph: groups and missing links
#
# You have a graph and want to know which nodes belong together, and which links are missing. The graph is that of the
# characters of *Les Misérables*, which comes with networkx: two are linked if they are in a chapter together, and the
# weight says in how many.

# %%
import networkx as nx
import numpy as np
from matplotlib.figure import Figure

import nearfar as nf

graph = nx.les_miserables_graph()
relation = nf.Relation.from_edges(graph)
print(relation)

# %% [markdown]
# ## Vectors of nodes
#
# `random_walk(3)` relates each node to all within three steps, weighted by how often a random walk gets there. `EDRep`
# gives related nodes similar vectors. For a small graph a few components are enough.

# %%
model = nf.EDRep(n_components=8, random_state=0, n_jobs=1).fit(relation.random_walk(3))
people = model.vectors_
for name in ("Javert", "Marius", "Myriel"):
    print(name, [other for other, _ in people.most_similar(name, topn=4)])

# %% [markdown]
# ## Groups
#
# k-means on the vectors finds groups. Modularity says how much denser a group is inside than by chance. networkx's
# greedy method, which maximises modularity, is the comparison.

# %%
from sklearn.cluster import KMeans

labels = KMeans(5, n_init=10, random_state=0).fit_predict(people.vectors)
groups = [{people.ids[i] for i in np.flatnonzero(labels == k)} for k in range(5)]
greedy = nx.community.greedy_modularity_communities(graph, weight="weight")
for name, found in {"vectors": groups, "greedy": greedy}.items():
    print(f"modularity, {name}: {nx.community.modularity(graph, found):.2f}")
for group in sorted(groups, key=len, reverse=True)[:3]:
    print(len(group), sorted(group, key=lambda name: -graph.degree(name))[:5])

# %% [markdown]
# ## A picture
#
# t-SNE maps the relation itself; no vectors are needed. Colours are the groups above.

# %%
drawn = nf.TSNE(random_state=0, n_jobs=1).fit(relation.normalized()).vectors_
figure = Figure(figsize=(7, 5))
axes = figure.subplots()
axes.set_title("Les Misérables")
nf.plots.scatter(drawn, labels=labels, words=True, names="none", ax=axes)
figure

# %% [markdown]
# ## Missing links
#
# `link_prediction` hides a fifth of the edges, but keeps a random spanning tree. The vectors of the remaining graph
# then predict which pairs are hidden edges. An AUC of 0.5 is chance.


# %%
def method(left):
    return nf.EDRep(n_components=8, random_state=0, n_jobs=1).fit(left.random_walk(3))


links = nf.evaluate.link_prediction(relation, method, held_out=0.2, n_repeats=5, random_state=0)
for feature in ("dot", "hadamard", "l2"):
    low, high = links.auc_interval[feature]
    print(f"{feature}: AUC {links.auc[feature]:.2f} ({low:.2f} to {high:.2f})")

# %% [markdown]
# Which pairs of important characters without a link are most alike? These are candidates for a link that the data lack:

# %%
main = [name for name in people.ids if graph.degree(name) >= 10]
pairs = [(people.similarity(a, b), a, b) for a in main for b in main if a < b and not graph.has_edge(a, b)]
for score, a, b in sorted(pairs, reverse=True)[:4]:
    print(f"{score:.2f}  {a} - {b}")

# %% [markdown]
# Go on: [which relation for which graph](choosing.md), [communities](communities.md), [evaluating graph
# embeddings](judging-graphs.md), [the map page](map-page.md).
