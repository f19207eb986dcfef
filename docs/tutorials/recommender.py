# %% [markdown]
# # From likes to recommendations, in a small table
#
# For recommender engineers. You know which user liked which item. You want the next items for each user, from vectors
# that an index can serve, in a table that fits.
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
# ## A baseline: popularity
#
# Recall at 10 is the share of the held-out items among ten recommended ones, items known to be liked left out.


# %%
def recall(found):
    return np.mean([len(set(row) & set(held)) / len(held) for row, held in zip(found, test)])


counts = np.bincount(train.ravel(), minlength=n_items)
order = np.argsort(-counts)
popular = [[i for i in order if i not in set(seen)][:10] for seen in train.tolist()]
print(f"popularity: {recall(popular):.3f}")

# %% [markdown]
# ## Vectors of users and items
#
# The relation is bipartite. `p0` takes popularity out of the vectors, and `popularity` puts it back into the score: see
# [retrieval](retrieval.md) for why. `exclude` leaves out what a user has.

# %%
relation = nf.Relation.from_edges(
    ((int(user), int(item)) for user, row in enumerate(train) for item in row), bipartite=True
)
model = nf.EDRep(n_components=16, temperature=0.5, p0=relation.column_sums, random_state=0, n_jobs=1)
model = model.fit(relation.normalized())
found, scores = model.vectors_.recommend(
    list(range(n_users)), topn=10, exclude=train.tolist(), popularity=relation.column_sums
)
print(f"EDRep: {recall(found.tolist()):.3f}")

# %% [markdown]
# How many recommendations does it take? Recall by their number:

# %%
sizes = (1, 2, 5, 10, 20, 50)
longer, _ = model.vectors_.recommend(
    list(range(n_users)), topn=50, exclude=train.tolist(), popularity=relation.column_sums
)
most = [[i for i in order if i not in set(seen)][:50] for seen in train.tolist()]
figure = Figure(figsize=(5, 3), layout="constrained")
axes = figure.subplots()
for name, lists in {"EDRep": longer.tolist(), "popularity": most}.items():
    axes.plot(sizes, [recall([row[:k] for row in lists]) for k in sizes], marker="o", label=name)
axes.set(title="recall of held-out likes", xlabel="recommendations", ylabel="recall", xscale="log")
axes.legend()
figure

# %% [markdown]
# ## The same with a trained tower, in PyTorch
#
# With features of users you train a network against in-batch negatives. Items that are popular come often as negatives;
# `InBatchNoise` corrects for that.

# %%
import torch

torch.set_num_threads(1)
pairs = torch.tensor([(user, item) for user, row in enumerate(train.tolist()) for item in row])


def fit(table, optimizer, n_epochs=12, after=lambda: None):
    user_table = torch.nn.Embedding(n_users, 16)
    torch.nn.init.normal_(user_table.weight, std=0.3)
    of_users = torch.optim.Adam(user_table.parameters(), lr=0.02)
    noise = nf.nn.InBatchNoise(n_items, counts=torch.from_numpy(counts))
    for _ in range(n_epochs):
        for batch in pairs[torch.randperm(len(pairs))].split(1000):
            who, what = batch.T
            loss = nf.nn.in_batch_nce(
                user_table(who), table(what), temperature=0.5, log_q=noise.log_prob(what), ids=what
            )
            for part in (of_users, optimizer):
                part.zero_grad()
            loss.backward()
            for part in (of_users, optimizer):
                part.step()
        after()
    with torch.no_grad():
        scores = user_table.weight @ table(torch.arange(n_items)).T
    scores[pairs[:, 0], pairs[:, 1]] = -torch.inf
    return recall(scores.topk(10).indices.tolist())


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
# On data this small the differences between models say little; real figures on MovieLens 1M are on the [benchmarks
# page](../benchmarks.md). Go on: [retrieval](retrieval.md), [anchors](anchors.md), [small tables](small-tables.md).
