"""Skip-gram with negative sampling (Mikolov et al. 2013), written out: the same bits as `nf.SkipGram`."""

import pydoc_data.topics

import numpy as np

import nearfar as nf
from nearfar.words import alias_table, skipgram_step

PARAMETERS = {"n_components": 32, "window": 5, "n_negative": 5, "sample": 1e-3, "n_epochs": 2, "learning_rate": 0.025}
d, window, K, sample, n_epochs, FIRST_RATE = PARAMETERS.values()
BLOCK, LAST_RATE = 20_000, 1e-4


def random_bits(seed, start, n):
    """Numbers start to start + n of the stream of a seed (splitmix64); the high bits of each are a random integer."""
    z = np.uint64(seed) + np.arange(start + 1, start + n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def below(bits, n):
    return ((bits >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)).astype(np.int64)


corpus = nf.Corpus(pydoc_data.topics.topics.values(), lowercase=True).encode(min_count=5)
counts, n_tokens, n_words = corpus.vocabulary.counts, corpus.n_tokens, len(corpus.vocabulary)
threshold, alias = alias_table(counts**0.75)  # noise comes in proportion to count ** 0.75
kept_share = np.minimum(np.sqrt(sample * counts.sum() / counts) + sample * counts.sum() / counts, 1).astype(np.float32)
sentence_of = np.repeat(np.arange(len(corpus)), np.diff(corpus.ends, prepend=0))

rng = np.random.default_rng(0)
X = (rng.random((n_words, d), np.float32) - np.float32(0.5)) / np.float32(d)  # vectors of the words around a centre
Y = np.zeros((n_words, d), np.float32)  # vectors of centres and of noise
rng.integers(2**63)  # would say what is held out

n_blocks = -(-n_tokens // BLOCK)
n_blocks = min(-(-n_blocks // 16) * 16, n_tokens) if n_blocks > 4 else n_blocks
bounds = np.arange(n_blocks + 1) * n_tokens // n_blocks
for epoch in range(n_epochs):
    for start, stop, seed in zip(bounds, bounds[1:], rng.integers(2**63, size=n_blocks), strict=False):
        rate = max(FIRST_RATE * (1 - (epoch * n_tokens + int(start)) / (n_epochs * n_tokens)), LAST_RATE)
        tokens, sentences = corpus.tokens[start:stop], sentence_of[start:stop]
        kept = (random_bits(seed, 0, stop - start) >> np.uint64(11)) * 2.0**-53 < kept_share[tokens]
        tokens, sentences = tokens[kept], sentences[kept]
        _, place, size = np.unique(sentences, return_inverse=True, return_counts=True)
        words, ends = tokens[size[place] > 1], np.cumsum(size[size > 1])  # one word alone has no context
        bits = random_bits(seed, stop - start, len(words) * (1 + K)).reshape(-1, 1 + K)
        cell = below(bits[:, 1:], n_words)
        low = (bits[:, 1:] & np.uint64(0xFFFFFFFF)) < np.floor(threshold[cell] * 2.0**32)
        outs = np.column_stack([words, np.where((threshold[cell] >= 1) | low, cell, alias[cell])]).astype(np.int32)
        reach, end = window - below(bits[:, 0], window), np.repeat(ends, np.diff(ends, prepend=0))
        begin = np.repeat(ends - np.diff(ends, prepend=0), np.diff(ends, prepend=0))
        for i, (r, first, last) in enumerate(zip(reach, begin, end, strict=True)):
            around = np.concatenate([words[max(first, i - r) : i], words[i + 1 : min(last, i + r + 1)]])
            skipgram_step(around, outs[i], rate, X, Y)
