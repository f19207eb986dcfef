# %% [markdown]
# # From likes to recommendations, in a small table
#
# You know which user liked which item, and want the next items for each user, from vectors that an index can serve, in
# a table that fits.
#
# The likes are drawn: 600 users and 300 items, six tastes, popular and rare items.

# %%
import numpy as np
from matplotlib.figure import Figure

import nearfar as nf

rng = np.random.default_rng(0)
n_users, n_items, n_tastes = 600, 300, 6
taste_of_user, taste_of_item = rng.dirichlet([0.1] * n_tastes, n_users), rng.dirichlet([0.1] * n_tastes, n_items)
popularity = 1 / np.arange(1, n_items + 1) ** 0.4
weights = (taste_of_user @ taste_of_item.T + 0.005) * popularity
chance = weights / weights.sum(1, keepdims=True)
likes = np.array([rng.choice(n_items, 24, replace=False, p=row) for row in chance])
train, test = likes[:, :20], likes[:, 20:]
print(train.size, "likes to learn from,", test.size, "to find")

# %% [markdown]
# ## Vectors of users and items
#
# The relation is bipartite. `task="items"` sets what is left open: each user counts by the square root of the number of
# likes, popularity is a base measure of the softmax, and hidden likes choose the temperature. `recommend` returns items
# and scores, best first, as two arrays for a list of users.
#
# - `exclude` leaves out what a user has: ids, or the relation of all that were seen.
# - The score is `x . y / temperature` and the logarithm of the base measure. So vectors say how much *more* often a
#   user chooses an item than others do ([why](retrieval.md)). Where little-known items are wanted,
#   `base_measure=np.ones(n_items)` leaves it out.
# - An item of which nothing is known is never recommended. A user of whom nothing is known gets the popular items.


# %%
def relation_of(likes):
    pairs = ((int(user), int(item)) for user, row in enumerate(likes) for item in row)
    return nf.Relation.from_edges(pairs, bipartite=True)


relation, hidden = relation_of(train), relation_of(test)
model = nf.EDRep(task="items", random_state=0, n_jobs=1).fit(relation)
print(model.choice_)
found, scores = model.vectors_.recommend(list(range(n_users)), topn=5, exclude=train.tolist())
print(found[0])

# %% [markdown]
# `ranking` tells how many held-out items come first, also by what needs no vectors. Where that is ahead, use it.


# %%
def ranked(emb, k=10, **how):
    return nf.evaluate.ranking(emb, hidden, exclude=relation, k=k, random_state=0, **how)


print(ranked(model, baselines=True))

# %% [markdown]
# A new user, who is not in the model, is placed by `transform`. Any vector can stand instead of an id:

# %%
new = nf.Relation.from_edges([("new", item) for item in train[0].tolist()], bipartite=True)
nearest = model.vectors_.recommend(model.transform(new)[0], topn=5, exclude=train[0].tolist())
print([item for item, score in nearest])

# %% [markdown]
# How many recommendations does it take? Recall by their number:

# %%
sizes = (1, 2, 5, 10, 20, 50)
longer = [ranked(model, k, baselines=True) for k in sizes]
figure = Figure(figsize=(5, 3), layout="constrained")
axes = figure.subplots()
axes.plot(sizes, [found.recall for found in longer], marker="o", label="EDRep")
for name in ("EASE", "popularity"):
    axes.plot(sizes, [found.baselines[name].recall for found in longer], marker="o", label=name)
axes.set(title="recall of held-out likes", xlabel="recommendations", ylabel="recall", xscale="log")
axes.legend()
figure

# %% [markdown]
# ## The same with a trained tower, in PyTorch
#
# With features of users you train a network against in-batch negatives. Items that are popular come often as negatives;
# `InBatchNCE` counts them and corrects for that, so no base measure is added. Both sides go into an `Embedding`.

# %%
import torch

torch.set_num_threads(1)
pairs = torch.tensor([(user, item) for user, row in enumerate(train.tolist()) for item in row])


def fit(table, optimizer, n_epochs=12, after=lambda: None):
    user_table = torch.nn.Embedding(n_users, 16)
    torch.nn.init.normal_(user_table.weight, std=0.3)
    of_users = torch.optim.Adam(user_table.parameters(), lr=0.02)
    loss_of = nf.nn.InBatchNCE(temperature=0.5)
    for _ in range(n_epochs):
        for batch in pairs[torch.randperm(len(pairs))].split(1000):
            who, what = batch.T
            loss = loss_of(user_table(who), table(what), ids=what)
            for part in (of_users, optimizer):
                part.zero_grad()
            loss.backward()
            for part in (of_users, optimizer):
                part.step()
        after()
    with torch.no_grad():
        users, items = user_table.weight.numpy(), table(torch.arange(n_items)).numpy()
    towers = nf.Embedding(users, context_vectors=items, parameters={"temperature": 0.5})
    return ranked(towers).recall


torch.manual_seed(0)
plain = torch.nn.Embedding(n_items, 16)
torch.nn.init.normal_(plain.weight, std=0.3)
print(f"table of {plain.weight.numel():,} numbers: {fit(plain, torch.optim.Adam(plain.parameters(), lr=0.02)):.3f}")

# %% [markdown]
# ## A small table
#
# `AnchorEmbedding` stores each item as a sparse mixture of few anchors. `ParameterBudget` raises the price of an entry
# until the table fits, then fixes the zeros.

# %%
torch.manual_seed(0)
small = nf.nn.AnchorEmbedding(n_items, 16, n_anchors=20, nnz_per_row=20, anchors=0.3 * torch.randn(20, 16))
optimizer = nf.nn.ProxAdam(small.parameters(), lr=0.02)
budget = nf.nn.ParameterBudget(small, n_steps=12, n_parameters=1600)
found = fit(small, optimizer, after=budget.step)
print(f"anchors, {small.n_parameters:,} numbers: {found:.3f}")

# %% [markdown]
# Which films, songs or articles is an anchor about? `explain` names the anchors of an item, `anchor_objects` the items
# of an anchor:

# %%
exported = small.export()
print(exported.explain(0)[:2])
print([name for name, _ in exported.anchor_objects(0, topn=5)])

# %% [markdown]
# ## Which method
#
# On MovieLens 1M, with 32 components (`python -m lab run recommend`). Recall@k is hits over min(k, items held out);
# NDCG@k counts a hit at rank r as $1 / \log_2(r + 1)$.
#
# ```{include} ../../lab/tables/items.md
# :start-after: "<!-- recommend: table -->"
# :end-before: "<!-- recommend: end -->"
# ```
#
# - The next like: EASE is ahead in the first ten; `EDRep(task="items")`, PureSVD, `SkipGram` on the relation with $\ln
#   p$ added, ALS and towers are close to each other. Towers with 200 anchors for the films are behind.
# - A random part of the likes: recall@20 of `EDRep(task="items")` is .360, of EASE .347, of ALS .339, of PureSVD .309
#   (`python -m lab run baselines`). Without the task `EDRep` is worse than a list of popular films.
# - Towers, where users or items have features, and for new items: see [Retrieval](retrieval.md#on-movielens-1m).
#
# Go on: [retrieval](retrieval.md), [anchors](anchors.md), [small tables](small-tables.md).
#
# **Sources.** Harper & Konstan 2015 (MovieLens); Steck 2019 (EASE); Hu, Koren & Volinsky 2008 (ALS); Rendle et al.
# 2009 (BPR); Cremonesi, Koren & Turrin 2010 (PureSVD); Yi et al. 2019 (log q); Järvelin & Kekäläinen 2002 (NDCG); Liang
# et al. 2021 (anchors).
