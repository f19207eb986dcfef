"""Skip-gram in 60 lines of NumPy: on the same windows, the vectors of nf.SkipGram. Then read nearfar/methods/words.py.

Mikolov, Sutskever, Chen, Corrado & Dean (2013), eq. (4): of a word o around a centre c, with noise words n, minimise

    - ln sigma(x_o . y_c)  -  sum_n ln sigma(-x_o . y_n).
"""

from __future__ import annotations

import pydoc_data.topics
import re
from collections import Counter

import numpy as np


def learn(X, Y, windows):
    """Move rows of X and Y by each window, (words around, centre and noise, rate); return the mean loss of a pair."""
    loss, n_pairs = 0.0, 0
    for around, outs, rate in windows:
        outs = outs[np.append(True, outs[1:] != outs[0])]  # noise that is the centre does not count
        x, y, truth = X[around], Y[outs], np.arange(len(outs)) == 0
        scores = x @ y.T
        loss += np.logaddexp(0, np.where(truth, -scores, scores)).sum()
        n_pairs += scores.size
        G = rate * (truth - 1 / (1 + np.exp(-scores)))
        np.add.at(X, around, G @ y)  # a word may come twice
        np.add.at(Y, outs, G.T @ x)
    return loss / n_pairs


def draw(sentences, counts, rate, rng, window=5, n_noise=5, sample=1e-3):
    """Draw the windows of sentences of word numbers: frequent words are thinned, noise is drawn by count^0.75."""
    rarity = sample * counts.sum() / counts
    keep, noise = np.sqrt(rarity) + rarity, np.cumsum(counts**0.75)
    for k, sentence in enumerate(sentences):
        words = sentence[rng.random(len(sentence)) < keep[sentence]]
        drawn = np.searchsorted(noise, noise[-1] * rng.random((len(words), n_noise)), side="right")
        for i, reach in enumerate(rng.integers(1, window + 1, len(words))):
            around = np.r_[words[max(0, i - reach) : i], words[i + 1 : i + 1 + reach]]
            if len(around):
                yield around, np.r_[words[i], drawn[i]], max(1e-4, rate(k))


if __name__ == "__main__":
    text = [re.findall("[a-z]+", line.lower()) for line in " ".join(pydoc_data.topics.topics.values()).split(".")]
    found = Counter(word for sentence in text for word in sentence)
    words = [word for word, count in found.most_common() if count >= 5]
    number = {word: i for i, word in enumerate(words)}
    sentences = [np.array([number[w] for w in sentence if w in number], int) for sentence in text]
    counts, rng, n_epochs = np.array([found[word] for word in words]), np.random.default_rng(0), 5
    X, Y = (rng.random((len(words), 32)) - 0.5) / 32, np.zeros((len(words), 32))
    for epoch in range(n_epochs):
        rate = lambda k, e=epoch: 0.025 * (1 - (e + k / len(sentences)) / n_epochs)  # noqa: E731
        print(f"epoch {epoch + 1}: loss {learn(X, Y, draw(sentences, counts, rate, rng)):.3f}")
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    print("like 'class':", [words[i] for i in np.argsort(-X @ X[number["class"]])[1:9]])
