# %% [markdown]
# # Contacts over time: who is infected when?
#
# For epidemiologists. You have contacts: who met whom, and when. A few people are tested at some times. What are the
# states of all others?
#
# The contacts here are drawn: 60 people in three groups, meetings over five days, mostly within a group. Your own are a
# file or a data frame with two columns of people and one of times:
# `nf.Relation.from_contacts("contacts.csv", window=900)`.

# %%
import numpy as np
from matplotlib.figure import Figure

import nearfar as nf

rng = np.random.default_rng(0)
n_people, hours = 60, 120
group = np.arange(n_people) % 3
contacts = []
for hour in range(hours):
    if 8 <= hour % 24 < 18:  # by day
        for _ in range(25):
            i = int(rng.integers(n_people))
            near = np.flatnonzero(group == group[i]) if rng.uniform() < 0.9 else np.arange(n_people)
            j = int(rng.choice(near[near != i]))
            contacts.append((f"p{i}", f"p{j}", hour))
print(len(contacts), "contacts, such as", contacts[0])

# %% [markdown]
# ## Time in the ids
#
# `from_contacts` makes one node of each person at each time with a contact, and relates a person to itself and to the
# people met at their *next* contact: the supra-adjacency matrix of DyANE. Whatever spreads goes along these relations,
# forward in time.

# %%
relation = nf.Relation.from_contacts(contacts, window=2)
model = nf.EDRep(n_components=16, random_state=0, n_jobs=1).fit(relation.random_walk(5))
people = model.vectors_
first = people.ids[0]
print(relation)
print(first, "is near", [other for other, _ in people.most_similar(first, topn=3)])

# %% [markdown]
# `track` follows one person through time:

# %%
times, path = people.track("p0")
print(times[:6], path.shape)

# %% [markdown]
# ## An outbreak
#
# An infection starts with one person, spreads with probability .3 at each contact, and ends with probability .02 in
# each slice.

# %%
states = nf.datasets.simulate_sir(contacts, 0.3, 0.02, window=2, initial=["p0"], random_state=1)
print({state: sum(found == state for found in states.values()) for state in "SIR"})

# %% [markdown]
# ## Its reconstruction
#
# As many observations as there are people: each is tested once in expectation, at a random time. A logistic regression
# on the vectors tells the states of all others.

# %%
found = nf.evaluate.reconstruct_spreading(people, states, n_repeats=10, random_state=0)
for name, score in {"accuracy": found.accuracy, "macro F1": found.macro_f1}.items():
    low, high = found.intervals[name.replace(" ", "_").lower()]
    print(f"{name}: {score:.2f} ({low:.2f} to {high:.2f}), {found.n_observed} observed, {found.n_scored} told")

# %%
figure = Figure(figsize=(6, 3), layout="constrained")
axes = figure.subplots()
axes.plot(found.times, found.infected / found.n_active, label="true")
axes.plot(found.times, found.told / found.n_active, "--", label="told from the vectors")
axes.set(title="share of infected people among those met", xlabel="hour", ylabel="share")
axes.legend()
figure

# %% [markdown]
# Chance is the share of the most frequent state. Go on: [contacts with times](contacts.md), with real contacts of a
# conference in the [benchmarks](../benchmarks.md).
