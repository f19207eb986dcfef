# %% [markdown]
# # Which words are ambiguous?
#
# An ambiguous word occurs in several kinds of sentences. Its [density matrix](word2dm.md#density-matrices) is a
# mixture, whose entropy measures how mixed it is. This tutorial looks for ambiguous words in a generated text with a
# known answer, and in a real text, the documentation of Python.

# %%
import re
from pydoc_data.topics import topics

import numpy as np
from matplotlib.figure import Figure

import nearfar as nf

# %% [markdown]
# ## A text with a known answer
#
# In `planted_senses` every sentence is about one of six topics, a to f. Most words belong to one topic, twelve to
# several: `e20|d20` occurs in sentences about e and about d. All words have about the same frequency.

# %%
planted = nf.datasets.planted_senses(random_state=0)
print(len(planted.sentences), "sentences,", len(planted.shares), "words")
print(*planted.sentences[7])
for word in planted.ambiguous[::4]:
    print(word, {topic: round(share, 2) for topic, share in planted.shares[word].items()})

# %% [markdown]
# ## Train two models
#
# `Word2DM` learns the matrices directly. `MultiSenseWord2DM` learns one vector per sense, as many as held-out contexts
# require, and builds the matrix from how often each sense is used.

# %%
seed = {"sample": 0, "random_state": 0, "n_jobs": 1}
word2dm = nf.Word2DM(6, 6, ridge=0.05, **seed).fit(planted.sentences)
senses = nf.MultiSenseWord2DM(8, **seed).fit(planted.sentences)

truth = planted.entropy()
entropies = {
    "Word2DM": word2dm.vectors_.entropy(planted.shares),
    "MultiSenseWord2DM": senses.vectors_.entropy(planted.shares),
}
kinds = {
    "one topic": 0,
    "two, 4 : 1": -0.8 * np.log(0.8) - 0.2 * np.log(0.2),
    "two, equal": np.log(2),
    "three": np.log(3),
}
print(f"{'mean entropy':12} {'truth':>10}", *(f"{name:>18}" for name in entropies))
for kind, value in kinds.items():
    of_kind = np.isclose(truth, value)
    print(f"{kind:12} {value:10.2f}", *(f"{found[of_kind].mean():18.2f}" for found in entropies.values()))

# %%
figure = Figure(figsize=(8, 3.3), layout="constrained")
jitter = np.random.default_rng(0).normal(scale=0.012, size=len(truth))
for axes, (name, found) in zip(figure.subplots(1, 2, sharex=True, sharey=True), entropies.items(), strict=True):
    axes.plot([0, 1.15], [0, 1.15], color="#BBBBBB", lw=1)
    axes.scatter(truth + jitter, found, s=14, color=np.where(truth > 0, "#D55E00", "#0072B2"), alpha=0.7, lw=0)
    axes.set(title=name, xlabel="entropy of the shares that were planted")
figure.axes[0].set_ylabel("entropy of the density matrix")
figure

# %% [markdown]
# Each dot is a word. All ambiguous words (orange) lie above all others, one of them barely. `Word2DM` keeps too little
# of a rare sense: the weights of its senses are not frequencies.
#
# ## List the senses
#
# `senses_of` shows the senses of a word, each with its weight and the words nearest to it:

# %%
for word in ("a0", "b5", "c11", "d3", "e0", *planted.ambiguous[4::-2], *planted.ambiguous[8:10]):
    print(word, *(f"| {s.weight:.2f}: " + ", ".join(near for near, _ in s.nearest[:3]) for s in senses.senses_of(word)))
numbers = {word: len(senses.senses_of(word)) for word in planted.shares}
print(sum(numbers[word] > 1 for word in planted.ambiguous), "of the 12 ambiguous words have several senses")
print(sum(n > 1 for word, n in numbers.items() if word not in planted.ambiguous), "of the others")

# %% [markdown]
# The eigenvectors of a matrix are its senses, too, the eigenvalues their weights:

# %%
asked = ["e0", *planted.ambiguous[4::-4], planted.ambiguous[8]]
figure = Figure(figsize=(8, 2.3), layout="constrained")
for axes, word in zip(figure.subplots(1, len(asked), sharey=True), asked, strict=True):
    axes.bar(range(1, 7), np.linalg.eigvalsh(word2dm.vectors_.matrices([word])[0])[::-1], color="#0072B2")
    axes.set(title=word, xlabel="sense", xticks=range(1, 7), ylim=(0, 1.02))
figure.axes[0].set_ylabel("weight")
figure

# %% [markdown]
# ## Disambiguate by a neighbour
#
# In a phrase, words disambiguate one another. With `compose`, one word operates on another (by Phaser, by default), and
# the part of the meaning that fits remains.

# %%
words, word = word2dm.vectors_, planted.ambiguous[0]
print(f"{word} alone: entropy {words.entropy([word])[0]:.2f}")
for neighbour in ("e0", "d0", "a0"):
    phrase = nf.compose(words, subject=(neighbour, word))
    if phrase.any():
        near = [other for other, _ in words.most_similar(phrase, topn=20) if "|" not in other][:5]
        entropy = nf.DensityEmbedding.from_matrices([phrase]).entropy()[0]
        print(f"beside {neighbour}: entropy {entropy:.2f}, near", *near)
    else:
        print(f"beside {neighbour}: nothing in common")

# %%
figure = Figure(figsize=(8, 2.8), layout="constrained")
axes = figure.subplots()
for place, word in enumerate(planted.ambiguous):
    neighbours = [f"{topic}{k}" for topic in planted.shares[word] for k in range(5)]
    phrases = [nf.compose(words, subject=(neighbour, word)) for neighbour in neighbours]
    after = nf.DensityEmbedding.from_matrices(phrases).entropy()
    axes.scatter(np.full(len(after), place), after, s=12, color="#009E73", alpha=0.6, lw=0)
    axes.scatter(place, words.entropy([word]), s=30, color="#D55E00", lw=0)
axes.set_xticks(range(len(planted.ambiguous)), planted.ambiguous, rotation=35, ha="right", fontsize=8)
axes.set(ylabel="entropy", title="alone (orange), and beside words of one of its topics (green)")
figure

# %% [markdown]
# ## A real text
#
# The documentation of Python is part of every Python installation: some 50,000 occurrences of sufficiently frequent
# words, a small text.

# %%
spelled = re.compile("[a-z_]{2,}")
sentences = [
    spelled.findall(part.lower()) for text in topics.values() for part in re.split(r"(?<=[.:;])\s+|\n\n", text)
]
text = nf.Corpus([sentence for sentence in sentences if sentence]).encode(min_count=10)
print(text)

model = nf.Word2DM(12, 12, window=10, ridge=0.02, n_epochs=20, random_state=0, n_jobs=1).fit(text)
words = model.vectors_
counts = dict(zip(text.vocabulary, text.vocabulary.counts.tolist(), strict=True))
known = [word for word in words if counts[word] >= 60]
entropy = dict(zip(known, words.entropy(known).tolist(), strict=True))
ranked = sorted(entropy, key=entropy.get)
print("least:", *ranked[:15])
print("most: ", *ranked[:-16:-1])

# %%
figure = Figure(figsize=(8, 4), layout="constrained")
axes = figure.subplots()
axes.scatter([counts[word] for word in known], [entropy[word] for word in known], s=8, color="#0072B2", alpha=0.5, lw=0)
named = [
    "the",
    "of",
    "set",
    "case",
    "line",
    "return",
    "string",
    "suite",
    "try",
    "must",
    "class",
    "key",
    "default",
    "type",
]
for word in (word for word in named if word in entropy):
    axes.annotate(word, (counts[word], entropy[word]), xytext=(3, 2), textcoords="offset points", fontsize=9)
axes.set(xscale="log", xlabel="how often the word comes", ylabel="entropy")
figure

# %% [markdown]
# The words with the least entropy belong to one subject: `try` and `suite` occur only in the descriptions of
# statements. Those with the most belong to none. In between are words with different meanings in different places:

# %%
for word in ("case", "line", "return", "set"):
    print(f"{word}, entropy {words.entropy([word])[0]:.2f}")
    for sense in words.senses(word, topn=6):
        if sense.weight > 0.1:
            print(f"    {sense.weight:.2f}", *(other for other, _ in sense.nearest))

# %% [markdown]
# There is the `case` of a `match` statement, and "in this case"; a `line` of a file, of a debugger, and of a string.
# Here, too, a neighbour disambiguates:

# %%
for neighbour, word in (("debugger", "line"), ("characters", "line"), ("pattern", "case"), ("parameter", "case")):
    phrase = nf.compose(words, subject=(neighbour, word))
    after = nf.DensityEmbedding.from_matrices([phrase]).entropy()[0]
    near = [other for other, _ in words.most_similar(phrase, topn=8) if other not in (neighbour, word)][:5]
    print(f"{word}: {words.entropy([word])[0]:.2f}, beside {neighbour}: {after:.2f}, near", *near)

# %% [markdown]
# ## Limits
#
# **Entropy is not ambiguity in the sense of a dictionary.** It measures in how many kinds of contexts a word occurs.
# The words with the most entropy above, `to`, `of`, `must`, occur everywhere. Compare words of the same frequency.
#
# **Planted ambiguity is harder to see in real text.** A pseudo-word made of two words has more entropy than the two
# have on average, but most words of the same frequency have even more:

# %%
pairs = [
    ("exception", "characters"),
    ("attribute", "loop"),
    ("class", "string"),
    ("global", "key"),
    ("pattern", "float"),
]
pairs = [pair for pair in pairs if all(word in counts for word in pair)]
merged = nf.evaluate.plant_pseudowords(text, pairs)
again = nf.Word2DM(12, 12, window=10, ridge=0.02, n_epochs=20, random_state=0, n_jobs=1).fit(merged)
for pair in pairs:
    print("{}: {:.2f}, {}: {:.2f}".format(*(x for word in pair for x in (word, words.entropy([word])[0]))), end=", ")
    print(f"merged: {again.vectors_.entropy(['|'.join(pair)])[0]:.2f}")
found = nf.evaluate.sense_induction(again.vectors_, pairs)
print(f"P(larger than for a word of the same frequency) = {found.entropy_auc:.2f}")

# %% [markdown]
# **Entropies of two models, or of two settings, are not comparable.** A matrix with more rows than the text has topics
# fills them with noise: with 17 x 17 numbers instead of 6 x 6, words of one topic have a mean entropy of .94 instead of
# 0. The published form of `Word2DM` learns nothing from a small text: 1.17 for words of one topic, 1.18 for others
# ([failures and remedies](word2dm.md#failures-and-remedies)).
#
# **Small texts need more epochs, and weak signals a smaller ridge.** If 60 % of the words have nothing to do with the
# topic of their sentence, ambiguous words are told from others in 54 % of cases with a ridge of .05, and in 98 % with
# .001.
#
# **Results vary with the seed.** With two seeds, the entropies on the real text have a rank correlation of .94. Train
# twice before you interpret a single word.
