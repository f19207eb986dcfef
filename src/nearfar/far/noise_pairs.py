"""Sampled repulsion: pairs of noise instead of sums over all pairs of points of a map."""

from __future__ import annotations

from dataclasses import dataclass

from nearfar._checks import check_choice, check_integer, check_real
from nearfar._part import Part
from nearfar.errors import InputError

OBJECTIVES = ("local", "global")
NORMALIZERS = ("t-sne", "umap")


@dataclass(frozen=True)
class NoisePairs(Part):
    """A map learns to tell pairs of neighbours from pairs drawn at random: O(n m) time for any number of components.

    To each pair of neighbours (probability p_ij) come m pairs of noise, drawn evenly from all N = n (n - 1). With the
    similarities w of the map and a = m Zbar / N, the costs are::

        local    C = -sum_ij p_ij ln(w_ij / (w_ij + a))  -  m E ln(a / (w_noise + a))
        global   C = -sum_ij p_ij E ln(w_ij / (w_ij + W_i)),      W_i = sum of w over m noise partners of i

    "local" asks of each pair by itself whether it is noise, and is least where w = Zbar p; "global" asks which of
    m + 1 partners is the neighbour, and is least where w is proportional to p. Both tend to the KL divergence of
    t-SNE as m grows, "local" if Zbar is the sum S of w over all pairs. A larger Zbar draws neighbours together
    and pushes less: with a = 1 the cost is that of UMAP.

    Parameters
    ----------
    n_samples : int, >= 1, default=5
        m, pairs of noise per pair of neighbours, and drawn anew per point in each iteration; at most n - 1.
    objective : {"local", "global"}, default="local"
        Binary (noise-contrastive estimation, negative sampling) or ranking (InfoNCE).
    normalizer : {"t-sne", "umap"} or float, default="t-sne"
        Zbar, for "local" alone, over ordered pairs. ``"t-sne"``: S of the map as it is, estimated in each iteration.
        ``"umap"``: n (n - 1) / m, so that a = 1 and noise is told by w / (w + 1). A number between the two, in
        geometric steps, is a map between the two.

    Raises
    ------
    InputError
        A parameter that cannot be used.

    See Also
    --------
    nearfar.NeighborEmbedding : takes it as ``far``; ``far="noise"`` has the defaults.
    MeshField : all pairs in linear time, for one or two components.

    Notes
    -----
    UMAP has w = 1 / (1 + f) only for its a = b = 1, a graph of its own, and draws noise by degree.

    For KL, by pair, with a built-in kernel. The learning rate of the second phase falls to 0 in a straight line, and
    the reported cost has noise of its own, which stays the same through a fit. In a small map "local" draws more
    noise than m per point, up to all there is: m is what its cost tells, the draws are how well its mean is known.

    References
    ----------
    Damrich, Böhm, Hamprecht & Kobak (2023), "From t-SNE to UMAP with contrastive learning", equations 3 to 7; a is
    their m Zbar / (n choose 2) counted over ordered pairs. Böhm, Berens & Kobak (2022), "Attraction-repulsion spectra
    in neighbor embeddings". Ma & Collins (2018), for "local" and "global".

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> X = np.random.default_rng(0).normal(size=(200, 8))
    >>> far = nf.far.NoisePairs(n_samples=10, normalizer="umap")
    >>> nf.TSNE(3, far=far, perplexity=10, random_state=0).fit_transform(X).shape
    (200, 3)
    """

    n_samples: int = 5
    objective: str = "local"
    normalizer: str | float = "t-sne"

    def __post_init__(self) -> None:
        check_integer("NoisePairs", "n_samples", self.n_samples, low=1)
        check_choice("NoisePairs", "objective", self.objective, OBJECTIVES)
        if not isinstance(self.normalizer, str):
            check_real("NoisePairs", "normalizer", self.normalizer, low=0, open_low=True)
        elif self.normalizer not in NORMALIZERS:
            raise InputError("NoisePairs", "normalizer", "'t-sne', 'umap' or a number > 0", repr(self.normalizer))
        if self.objective == "global" and self.normalizer != "t-sne":
            hint = "A ranking has no normaliser: that is for objective='local'."
            raise InputError("NoisePairs", "normalizer", "left out for objective='global'", repr(self.normalizer), hint)
