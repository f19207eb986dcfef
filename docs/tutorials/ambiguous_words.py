# %% [markdown]
# # Which words are ambiguous?
#
# A word that means several things comes in several kinds of sentences. A [density matrix](density.md) has room for
# that: it is nearly pure for a word with one meaning, a mixture for others, and its entropy says how much of a mixture.
# This page looks for ambiguous words twice: in a text that was drawn so that the answer is known, and in a real one,
# the documentation of Python. It ends with what goes wrong.

# %%
import re
from pydoc_data.topics import topics

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

import nearfar as nf

# %% [markdown]
# ## A text of which the answer is known
#
# In `planted_senses` every sentence is about one of six topics, a to f. Most words have one topic; twelve have several,
# and are called after them: `e20|d20` comes in sentences about e and in sentences about d. All words are about as
# frequent.

# %%
planted = nf.datasets.planted_senses(random_state=0)
print(len(planted.sentences), "sentences,", len(planted.shares), "words")
print(*planted.sentences[7])
for word in planted.ambiguous[::4]:
    print(word, {topic: round(share, 2) for topic, share in planted.shares[word].items()})

# %% [markdown]
# ## Two models
#
# `Word2DM` learns the matrices as such. `MultiSenseWord2DM` learns one vector for each sense of a word, here as many as
# contexts ask for, counts how often each is meant, and makes the matrix of that.

# %%
seed = {"sample": 0, "random_state": 0, "n_jobs": 1}
word2dm = nf.Word2DM(6, 6, ridge=0.05, **seed).fit(planted.sentences)
senses = nf.MultiSenseWord2DM(8, new_sense_threshold=0, shrink_window=None, min_sense_count=50, **seed).fit(
    planted.sentences
)

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
# Every dot is a word. All ambiguous words (orange) lie above all others, one of them barely. The sense vectors follow
# the planted shares, as they count. `Word2DM` has equal shares right, but of a word that means one thing in four of
# five cases it keeps too little of the other: what it learns are scores, and the weights of its senses are no
# frequencies.
#
# ## Into what
#
# The eigenvectors of a matrix are its senses, the eigenvalues their weights.

# %%
asked = ["e0", *planted.ambiguous[4::-4], planted.ambiguous[8]]
for word in asked:
    print(word)
    for sense in word2dm.vectors_.senses(word, topn=30):
        if sense.weight > 0.01:
            near = [other for other, _ in sense.nearest if "|" not in other][:5]
            print(f"    {sense.weight:.2f}", *near)

# %%
figure = Figure(figsize=(8, 2.3), layout="constrained")
for axes, word in zip(figure.subplots(1, len(asked), sharey=True), asked, strict=True):
    axes.bar(range(1, 7), np.linalg.eigvalsh(word2dm.vectors_.matrices([word])[0])[::-1], color="#0072B2")
    axes.set(title=word, xlabel="sense", xticks=range(1, 7), ylim=(0, 1.02))
figure.axes[0].set_ylabel("weight")
figure

# %% [markdown]
# ## A neighbour decides
#
# In a phrase, words make one another clear. `compose` lets one word operate on another (by Phaser, if not told
# otherwise): what is left is the part of the meaning that fits.

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
# Is a word part of what another means? `nearfar.hyponymy` grades this, from 0 to 1: a word of topic e is part of
# `e20|d20`, which is more than that.

# %%
word = planted.ambiguous[0]
for narrower, broader in (("e0", word), ("d0", word), ("a0", word), (word, "e0")):
    print(f"{narrower} in {broader}: {nf.hyponymy.of_words(words, [narrower], [broader])[0]:.2f}")

# %% [markdown]
# ## Real text
#
# The documentation of Python comes with Python: some 50,000 words that are frequent enough, a small text.

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
# The words of least entropy belong to one subject: `try` and `suite` come in the descriptions of statements only. Those
# of most entropy belong to none. In between are words that mean one thing here and another there:

# %%
for word in ("case", "line", "return", "set"):
    print(f"{word}, entropy {words.entropy([word])[0]:.2f}")
    for sense in words.senses(word, topn=6):
        if sense.weight > 0.1:
            print(f"    {sense.weight:.2f}", *(other for other, _ in sense.nearest))

# %% [markdown]
# There is a `case` of a `match` statement, and "in this case"; a `line` of a file, at which a debugger stops, and one
# of a string; `return` with a value, and as what leaves a block. A neighbour decides here, too:

# %%
for neighbour, word in (("debugger", "line"), ("characters", "line"), ("pattern", "case"), ("parameter", "case")):
    phrase = nf.compose(words, subject=(neighbour, word))
    after = nf.DensityEmbedding.from_matrices([phrase]).entropy()[0]
    near = [other for other, _ in words.most_similar(phrase, topn=8) if other not in (neighbour, word)][:5]
    print(f"{word}: {words.entropy([word])[0]:.2f}, beside {neighbour}: {after:.2f}, near", *near)

# %% [markdown]
# ## What goes wrong
#
# **Entropy is not what a dictionary means by ambiguity.** It says in how many kinds of contexts a word comes. The words
# of most entropy above, `to`, `of`, `must`, come everywhere, and nobody would call them ambiguous. Compare like with
# like: nouns with nouns, words with others that are as frequent.
#
# **What was planted shows less in real text.** Two words that are made one have more entropy than the two have on
# average. But words of the documentation are mixtures themselves, and most that are as frequent have more:

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
    print(f"made one: {again.vectors_.entropy(['|'.join(pair)])[0]:.2f}")
found = nf.evaluate.sense_induction(again.vectors_, pairs)
print(f"P(more than a word as frequent) = {found.entropy_auc:.2f}")

# %% [markdown]
# **Entropies of two models, or of two settings, are not on one scale.** A matrix with more rows than the text has
# topics fills them with noise. With a fixed number of senses every word uses them all. And as it was published,
# `Word2DM` learns nothing from a small text: its entropies are those of the start (see [what was done about
# it](word2dm.md)).

# %%
trials = {
    "Word2DM, 6 x 6": nf.Word2DM(6, 6, ridge=0.05, **seed),
    "Word2DM, 17 x 17": nf.Word2DM(17, 17, ridge=0.05, **seed),
    "Word2DM as published, 6 x 6": nf.Word2DM.paper(n_components=6, n_factors=6, **seed),
    "three senses for every word": nf.MultiSenseWord2DM(8, n_senses=3, min_sense_count=50, **seed),
}


def report(name, vectors, planted, width=32):
    """Print the mean entropies of both kinds of words, and how often an ambiguous word is above another."""
    truth, found = planted.entropy(), vectors.entropy(planted.shares)
    plain, ambiguous = found[truth == 0], found[truth > 0]
    above = (ambiguous[:, None] > plain).mean()
    print(f"{name:{width}} {plain.mean():10.2f} {ambiguous.mean():10.2f} {above:10.2f}")


print(f"{'':32} {'one topic':>10} {'several':>10} {'P(above)':>10}")
for name, trial in trials.items():
    report(name, trial.fit(planted.sentences).vectors_, planted)

# %% [markdown]
# **Little text needs more passes, and a weak one a smaller ridge.** The `ridge` is the price that makes mixtures. Where
# most words have nothing to do with the topic of their sentence, there is little to be learned, and a price that did no
# harm before turns every word into a mixture of everything. Words of which you know that they are clear tell: theirs
# should be low.

# %%
print(f"{'':51} {'one topic':>10} {'several':>10} {'P(above)':>10}")
for n_sentences, noise, ridge, n_epochs in (
    *((300, 0.0, 0.05, 5), (300, 0.0, 0.05, 20)),
    *((5000, 0.6, 0.05, 5), (5000, 0.6, 0.005, 5), (5000, 0.6, 0.001, 5)),
):
    other = nf.datasets.planted_senses(n_sentences=n_sentences, noise=noise, random_state=0)
    trial = nf.Word2DM(6, 6, ridge=ridge, n_epochs=n_epochs, min_count=1, **seed).fit(other.sentences)
    report(f"{n_sentences} sentences, noise {noise}, ridge {ridge}, epochs {n_epochs}", trial.vectors_, other, 51)

# %% [markdown]
# **Another seed, other numbers.** The text decides most of it, but not all: train twice before you make much of one
# word.

# %%
twin = nf.Word2DM(12, 12, window=10, ridge=0.02, n_epochs=20, random_state=1, n_jobs=1).fit(text)
both = [vectors.entropy(known) for vectors in (words, twin.vectors_)]
print(f"rank correlation of the entropies with two seeds: {spearmanr(*both).statistic:.2f}")
print(f"mean difference for a word: {np.abs(both[0] - both[1]).mean():.2f}")
