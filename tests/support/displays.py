"""What a notebook does with the last value of a cell: every display of every kind of public object."""

from collections.abc import Iterator

import numpy as np

import nearfar as nf

SETUP = """
import networkx as nx, numpy as np, pandas as pd, nearfar as nf
from nearfar.callbacks import Checkpoint, EarlyStopping, Progress
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 4)).astype("float32")
frame = pd.DataFrame(X, columns=list("abcd"), index=[f"p{i}" for i in range(40)])
tag = "<script>a"
relation = nf.Relation.from_edges([(tag, "b"), ("b", "c"), ("c", tag), ("c", "d"), ("d", "e")]).random_walk(2)
text = [["the", "sea", "and", "the", "sky"], ["the", "ship", "and", "the", "shore"]] * 40
words = ["king", "queen", "man", "woman", "cup"]
vectors = nf.Embedding([[1, 1, 0], [1, 0, 1], [0.1, 1, 0], [0.1, 0, 1], [-1, 1, 1]], ids=words)
small = dict(random_state=0, n_jobs=1)
drawn = dict(small, max_iter=5)
mapped = nf.TSNE(perplexity=3, **drawn).fit(X)
graph = nf.datasets.dcsbm(60, 2, 10.0, alpha=4.5, random_state=0)
density = nf.DensityEmbedding.from_factors(rng.normal(size=(5, 3, 3)), words)
edrep = nf.EDRep(2, n_epochs=2, **small)
trained = dict(small, n_epochs=1, min_count=1, sample=0)
"""

MAPS = ("TSNE", "UMAP", "SSNE", "ASNE", "TASNE", "HSSNE", "JSE", "NeRV", "WSSNE", "InhomogeneousTSNE")
MODELS = ("SkipGram", "Word2DM", "MultiSenseWord2DM")

# Expressions, as the last lines of cells: of every public class that a call returns or a user makes.
CELLS = [
    *(f"nf.{name}()" for name in (*MAPS, *MODELS, "NeighborEmbedding", "MDS", "EDRep", "Affinities")),
    *(f"nf.{name}(perplexity=3, **drawn).fit(X)" for name in (*MAPS, "NeighborEmbedding")),
    *(f"nf.TSNE(perplexity=3, **drawn).fit({data})" for data in ("frame", "nf.Embedding(X)", "X.tolist()")),
    "nf.TSNE(**drawn).fit(relation)",
    "nf.TSNE(**drawn).fit(nx.karate_club_graph())",
    "nf.TSNE(**drawn).fit(nf.Affinities(3).fit(X))",
    "nf.TSNE(metric='precomputed', perplexity=3, **drawn).fit(abs(X[:, :1] - X[:, 0]))",
    *(f"nf.MDS({options}).fit({data})" for options, data in (("**drawn", "X"), ("init='random', **drawn", "frame"))),
    *(f"edrep.fit({data})" for data in ("relation", "nx.karate_club_graph()", "relation.to_scipy()")),
    "nf.EDRep(2, two_sided=True, n_clusters=2, p0=np.ones(5), **small).fit(relation)",
    *(f"nf.{name}(2, **trained).fit({data})" for name in MODELS for data in ("text", "relation")),
    "nf.Affinities([3, 5]).fit(X)",
    "[mapped.affinities_, mapped.relation_, mapped.vectors_]",
    "nf.Word2DM(2, **trained).fit(text).pull_",
    "nf.MultiSenseWord2DM(2, **trained).fit(text).senses_",
    "relation",
    "nf.Relation.from_edges([('a', 1), ('b', 1)], bipartite=True)",
    "vectors",
    "nf.Embedding(X, context_vectors=X[:9], parameters={'init': list(range(10**6)), 'p0': np.ones(10**6)})",
    "density",
    "nf.AnchoredEmbedding(X, rng.normal(size=(4, 3)))",
    "nf.Corpus(text)",
    "nf.Corpus(text).vocabulary()",
    "nf.Corpus(text).encode(min_count=1)",
    "nf.choose(relation)",
    "vectors.index(kind='faiss')",
    "nf.Embedding(X).map(mapped.embedding_)",
    "graph",
    "nf.datasets.planted_senses(random_state=0)",
    "nf.log_normalizers(X)",
    # Parts.
    *(f"nf.far.{name}()" for name in ("Exact", "GaussianMixture", "Noise", "NoisePairs")),
    *(f"nf.far.{name}()" for name in ("ExactField", "MeshField", "BarnesHutField")),
    *(f"nf.kernels.{name}(np.ones(10**4).tolist())" for name in ("Exponential", "InhomogeneousStudentT")),
    "[nf.kernels.StudentT(), nf.kernels.HeavyTailed(), nf.kernels.Multiscale([nf.kernels.Exponential()] * 3)]",
    *(f"nf.divergences.{name}()" for name in ("KL", "ReverseKL", "NeRV", "JensenShannon", "MetricStress", "SStress")),
    "nf.divergences.Sammon()",
    # Callbacks.
    "[Checkpoint('run.safetensors'), EarlyStopping()]",
    "Progress(1, 9, 0.5, 0.1, X)",
    # Judgements.
    "nf.align(nf.Embedding(X), nf.Embedding(X))",
    "nf.evaluate.neighborhoods(X, mapped.embedding_)",
    "nf.evaluate.map_stability(mapped, n_refits=1, max_iter=5)",
    "nf.evaluate.stability([nf.Embedding(X), nf.Embedding(X[:, :2])], k=3)",
    "nf.evaluate.communities(X, [0, 1] * 20, random_state=0)",
    "nf.evaluate.link_prediction(graph, nf.EDRep(2, n_epochs=1, **small), n_repeats=2, random_state=0)",
    "nf.evaluate.ranking(nf.Embedding(X), [(0, 1), (1, 2), (2, 3)], exclude=[(0, 3)], k=2)",
    "nf.evaluate.node_classification(nf.Embedding(X), [0, 1] * 20, fractions=0.5, random_state=0)",
    "nf.evaluate.select(nf.EDRep(2, **small), {'n_epochs': [1, 2]}, graph.relation, graph.labels, random_state=0)",
    "nf.evaluate.word_similarity(vectors, [('king', 'queen', 9), ('king', 'cup', 1), ('man', 'cup', 2)])",
    "nf.evaluate.word_analogies(vectors, [('man', 'king', 'woman', 'queen')])",
    "nf.evaluate.phrases(vectors, [({'subject': w, 'verb': 'cup'}, {'subject': w, 'verb': 'man'}, 3) for w in words])",
    "nf.evaluate.ambiguity(density, ['king'], [9, 8, 7, 6, 5], n_equal=2)",
    "nf.evaluate.anchor_purity(nf.AnchoredEmbedding(np.eye(2), np.eye(2)), ['x', 'y'], random_state=0)",
]
OF_TORCH = [
    "nf.nn.AnchorEmbedding(100, 8, n_anchors=4)",
    "nf.nn.QuantizedEmbedding(100, 8, bits=2)",
    "nf.nn.TiedLogits(nf.nn.AnchorEmbedding(100, 8, n_anchors=4))",
    "nf.nn.ProxAdam(nf.nn.AnchorEmbedding(100, 8, n_anchors=4).parameters())",
    "nf.nn.RelatedPairs(relation, [tag, *'bcde'])",
    "nf.nn.UnigramNoise(torch.ones(10**4))",
    "nf.nn.self_normalization(torch.zeros(5000, 3))",
    "nf.nn.SeparableCritic(4, 4)",
]
N = 200_000
_DISPLAYS = ["html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript"]


class Printer:
    """The part of IPython's pretty printer that an object's own method may use."""

    def __init__(self) -> None:
        self.written = ""

    def text(self, text: str) -> None:
        self.written += text


def shown(value: object) -> Iterator[tuple[str, str]]:
    """Yield each display of a value by its kind, as a notebook asks for them; whatever they raise is raised."""
    yield "repr", repr(value)
    for kind in _DISPLAYS:
        method = getattr(value, f"_repr_{kind}_", None)
        if method is not None:
            yield kind, str(method())
    if hasattr(value, "_repr_pretty_"):
        value._repr_pretty_(printer := Printer(), False)
        yield "pretty", printer.written
    if hasattr(value, "_repr_mimebundle_"):
        yield "mimebundle", str(value._repr_mimebundle_(include=None, exclude=None))


def large() -> dict[str, object]:
    """Objects of many rows, in which little else is."""
    ids = [f"id {i}" for i in range(N)]
    zeros = np.zeros((N, 1), np.float32)
    return {
        "embedding": nf.Embedding(zeros, ids),
        "two sides": nf.Embedding(zeros, ids, context_vectors=zeros, context_ids=ids[::-1]),
        "vocabulary": nf.Vocabulary(ids, np.ones(N, np.int64)),
        "ids": nf.Embedding(zeros, ids).ids,
    }
