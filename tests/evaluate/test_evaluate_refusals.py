"""What the judges refuse."""

from functools import cache

import networkx as nx
import numpy as np
from refusals import Made, With, refused
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

import nearfar as nf
from nearfar import evaluate
from nearfar.errors import DataError, InputError, NotFittedError, UnknownIdError

RNG = np.random.default_rng(0)
NAMES = [f"n{i}" for i in range(40)]
X0, Y0 = RNG.normal(size=(40, 4)), RNG.normal(size=(40, 2))
HOLES, BLOCKS = np.where(np.eye(40, 4) > 0, np.nan, X0), np.arange(40) % 3
EMB = nf.Embedding(X0, NAMES)
SIDED = nf.Embedding(X0, NAMES, context_vectors=X0[:6], context_ids=list("abcdef"))
CLUB = nx.karate_club_graph()
KINDS = [CLUB.nodes[node]["club"] for node in CLUB]
CLUB = nf.Relation.from_edges(CLUB)
A = (BLOCKS[:, None] == BLOCKS).astype(float) * (1 - np.eye(40))
LIKES = nf.Relation.from_edges([(f"n{u}", item) for u in range(40) for item in "abc"[: u % 3 + 1]], bipartite=True)
DENSITY = nf.DensityEmbedding.from_factors(RNG.normal(size=(24, 4, 3)), [f"w{k}" for k in range(24)])
WORDS = nf.Embedding(RNG.normal(size=(24, 5)), [f"w{k}" for k in range(24)])
VERB = {"verb": "w1", "subject": "w2", "object": "w3"}
PHRASES = [(VERB, VERB | {"verb": "w4"}, 2.0), (VERB, VERB | {"verb": "w5"}, 3.0)]
SLICES = nf.Embedding(np.eye(6), [(who, time) for who in "abc" for time in (0, 1)])
STATES = dict(zip(SLICES.ids, "SIRSIR", strict=True))


class Unfit(nf.EDRep):
    """A method that must not be asked: what is bad is said before."""

    def fit(self, *_):
        raise AssertionError("too early")


class Own:
    """A method with ``fit`` that cannot be cloned."""

    def fit(self, relation):
        return self


def text(written: str | bytes) -> Made:
    """Return a file of ``written``."""

    def make(folder):
        path = folder / "file.txt"
        path.write_bytes(written if isinstance(written, bytes) else written.encode())
        return path

    return Made(make)


@cache  # made where it is asked for: each process collects this file
def a_map():
    return nf.TSNE(perplexity=5, max_iter=5, random_state=0).fit(X0)


@cache
def a_text():
    return nf.Corpus([["sea", "ship", "moon", "tide", "sea|tide"]]).encode(min_count=1)


DOORS = {
    "align": lambda **given: nf.align(**({"a": EMB, "b": EMB} | given)),
    "most_moved": lambda **given: nf.align(EMB, EMB).most_moved(**given),
    "communities": lambda **given: evaluate.communities(**({"vectors": X0, "labels": BLOCKS} | given)),
    "giant_component": evaluate.giant_component,
    "anchor_purity": lambda **given: evaluate.anchor_purity(
        **({"embedding": nf.AnchoredEmbedding(np.eye(3), np.eye(3)), "labels": ["a", "b", "c"]} | given)
    ),
    "link_prediction": lambda **given: evaluate.link_prediction(
        **({"relation": CLUB, "method": lambda _: np.eye(34)} | given)
    ),
    "node_classification": lambda **given: evaluate.node_classification(**({"vectors": EMB, "labels": BLOCKS} | given)),
    "neighborhoods": lambda **given: evaluate.neighborhoods(**({"X": X0, "Y": Y0} | given)),
    "map_stability": lambda **given: evaluate.map_stability(**({"model": a_map()} | given)),
    "phrases": lambda **given: evaluate.phrases(**({"embedding": DENSITY, "items": PHRASES} | given)),
    "ranking": lambda **given: evaluate.ranking(**({"emb": SIDED, "hidden": LIKES} | given)),
    "select": lambda **given: evaluate.select(
        **({"method": Unfit(), "grid": {"temperature": [1, 0.5]}, "relation": CLUB, "labels": KINDS} | given)
    ),
    "plant_pseudowords": lambda **given: evaluate.plant_pseudowords(
        **({"corpus": a_text(), "pairs": [("sea", "ship")]} | given)
    ),
    "sense_induction": lambda **given: evaluate.sense_induction(
        **({"embedding": DENSITY, "pairs": [("x", "y")], "reference": WORDS} | given)
    ),
    "reconstruct_spreading": lambda **given: evaluate.reconstruct_spreading(
        **({"vectors": SLICES, "states": STATES} | given)
    ),
    "stability": lambda **given: evaluate.stability(**({"embeddings": [EMB, EMB]} | given)),
    "word_similarity": lambda **given: evaluate.word_similarity(
        **({"embedding": WORDS, "pairs": [("w1", "w2", 1)]} | given)
    ),
    "word_analogies": lambda **given: evaluate.word_analogies(
        **({"embedding": WORDS, "questions": [("w1", "w2", "w3", "w4")]} | given)
    ),
}

test_refusals = refused(
    DOORS,
    [
        ("align", "b", nf.Embedding(X0[:, :3], NAMES), InputError, "of 4 components, as a; got 3", "stability"),
        ("align", "b", nf.Embedding(X0), InputError, "share at least 4 ids", "'n0'"),
        ("align", "b", EMB.subset(NAMES[:3]), InputError, "at least 4 ids", "got 3"),
        ("align", "b", X0, InputError, "an Embedding; got ndarray"),
        ("align", "a", "a.npz", InputError, "an Embedding; got str"),
        ("align", "scale", 1, InputError, "True or False"),
        ("align", "scale", With(a=SIDED, b=SIDED, scale=True), InputError, "False for a two-sided embedding"),
        ("align", "center", With(a=SIDED, b=SIDED, center=True), InputError, "False for a two-sided embedding"),
        ("align", "b", nf.Embedding(np.zeros((40, 4)), NAMES), InputError, "shared vectors that are not all the same"),
        ("most_moved", "by", "rank", InputError, "one of"),
        ("communities", "vectors", np.ones(4), InputError, "two-dimensional"),
        ("communities", "vectors", HOLES, InputError, "finite"),
        ("communities", "labels", [0, 1], InputError, "of shape (40,)"),
        ("communities", "labels", np.zeros((40, 2)), InputError, "of shape (40,)"),
        ("communities", "labels", [0, "a"] * 20, InputError, "of one type"),
        ("communities", "labels", np.array([0, "a"] * 20, object), InputError, "of one type"),
        ("communities", "labels", ["a"] * 7 + [None] + ["b"] * 32, InputError, "None or NaN in 1 row, first [7]"),
        ("communities", "labels", [np.nan] + [1.0] * 39, InputError, "None or NaN"),
        ("communities", "nodes", np.zeros(40, bool), InputError, "at least one row"),
        ("communities", "nodes", np.ones(39, bool), InputError, "boolean mask of shape"),
        ("communities", "nodes", [0, 40], InputError, "rows in [0, 39]"),
        ("communities", "nodes", [0, 3, 3], InputError, "distinct"),
        ("communities", "nodes", [0.5], InputError, "boolean mask"),
        ("communities", "n_clusters", 0, InputError),
        ("communities", "n_clusters", 41, InputError),
        ("communities", "n_init", 0, InputError),
        ("giant_component", "relation", 7, InputError, "a Relation, edges, a graph or a matrix"),
        ("giant_component", "relation", {"a": "b"}, InputError, "a Relation, edges, a graph or a matrix"),
        ("giant_component", "relation", "edges.csv", InputError, "a file that exists"),
        ("giant_component", "relation", csr_array(np.ones((2, 3))), InputError, "square"),
        ("anchor_purity", "labels", ["a"], InputError, "3, one entry for each object; got 1"),
        ("anchor_purity", "labels", "abc", InputError, "3 labels"),
        ("anchor_purity", "labels", 7, InputError, "3 labels"),
        ("anchor_purity", "labels", [["a"], [["b"]], "c"], InputError, "hashable"),
        ("anchor_purity", "labels", [None, float("nan"), []], InputError, "given for objects that use an anchor"),
        ("anchor_purity", "embedding", EMB, InputError, "an AnchoredEmbedding"),
        ("anchor_purity", "topn", 0, InputError, "an integer"),
        ("link_prediction", "held_out", 0, InputError, "a finite number"),
        ("link_prediction", "held_out", 0.01, InputError, "such that at least 4 edges are held out; got 1"),
        ("link_prediction", "features", "cosine", InputError),
        ("link_prediction", "features", (), InputError),
        ("link_prediction", "features", ("dot", "cosine"), InputError),
        ("link_prediction", "n_repeats", 0, InputError),
        ("link_prediction", "method", 3, InputError, "an estimator, or a callable"),
        ("link_prediction", "method", nf.EDRep, InputError, "an estimator, or a callable"),
        ("link_prediction", "method", Own(), InputError, "an estimator, or a callable"),
        ("link_prediction", "vectors", With(method=lambda _: np.eye(33)), InputError, "of 34 rows; got 33"),
        ("link_prediction", "id", With(method=lambda _: EMB.subset(NAMES[:33])), UnknownIdError, "got 0, 1"),
        ("link_prediction", "relation", LIKES, InputError, "square"),
        ("link_prediction", "relation", nx.cycle_graph(30), InputError, "more than a spanning forest", "1 more"),
        ("link_prediction", "relation", nx.path_graph(30), InputError, "got 29 edges, 0 more"),
        ("link_prediction", "relation", nx.complete_graph(12), InputError, "33 pairs without an edge; got 0"),
        ("node_classification", "labels", [1, 2], InputError, "of 40 rows, one per vector; got 2"),
        ("node_classification", "labels", ["a"] * 40, InputError, "at least two kinds; got 1"),
        ("node_classification", "labels", [None] * 40, InputError, "given for at least two"),
        ("node_classification", "labels", "abcdefghij" * 4, InputError),
        ("node_classification", "labels", np.full((40, 2), 0.5), InputError, "indicators"),
        ("node_classification", "labels", 3, InputError),
        ("node_classification", "labels", {"n1": 1, "n2": 0, "x": 1, "y": 0}, UnknownIdError, "'x', 'y'. Leave them"),
        ("node_classification", "labels", With(vectors=X0, labels={"a": 1}), InputError, "vectors that have no ids"),
        ("node_classification", "fractions", 0, InputError),
        ("node_classification", "fractions", (0.5, 1.0), InputError),
        ("node_classification", "fractions", 0.01, InputError, "at least one row trains and one tests"),
        ("node_classification", "fractions", (), InputError),
        ("node_classification", "n_repeats", 0, InputError),
        ("node_classification", "vectors", HOLES, InputError, "finite"),
        ("node_classification", "relation", With(vectors=X0, relation=A[:9, :9]), InputError, "of 40 rows"),
        ("node_classification", "relation", A, InputError, "of the ids of the vectors; got none of them, but 0"),
        ("neighborhoods", "X", HOLES, InputError, "finite; got NaN", "4 rows, first [0, 1, 2, 3]"),
        ("neighborhoods", "X", csr_array(HOLES), InputError, "finite", "first [0, 1, 2, 3]"),
        ("neighborhoods", "Y", np.where(np.eye(40, 2) > 0, np.inf, Y0), InputError, "finite"),
        ("neighborhoods", "Y", Y0[:39], InputError, "of 40 rows; got 39"),
        ("neighborhoods", "X", With(X=X0[:2], Y=Y0[:2]), InputError, "at least 3 rows; got 2"),
        ("neighborhoods", "Y", Y0[:, :0], InputError, "at least one column"),
        ("neighborhoods", "X", X0[:, :0], InputError, "at least one column"),
        ("neighborhoods", "X", X0[:, 0], InputError, "two-dimensional"),
        ("neighborhoods", "X", csr_array(X0 + 1j), InputError, "a matrix of numbers"),
        ("neighborhoods", "X", np.ones((40, 3)), InputError, "rows that are not all the same"),
        ("neighborhoods", "Y", np.ones((40, 2)), InputError, "rows that are not all the same"),
        ("neighborhoods", "labels", [1, 2], InputError, "of shape (40,)"),
        ("neighborhoods", "labels", [None] * 3 + ["a"] * 37, InputError, "given for every scored row", "[0, 1, 2]"),
        ("neighborhoods", "metric", "eculidean", InputError, "one of 'euclidean'"),
        ("neighborhoods", "X", With(metric="precomputed"), InputError, "a square matrix of distances"),
        ("neighborhoods", "X", With(X=-cdist(X0, X0), metric="precomputed"), DataError, "not neg", "(1560 such"),
        ("neighborhoods", "X", With(X=csr_array(X0), metric="canberra"), InputError, "dense with metric='canberra'"),
        ("neighborhoods", "X", With(X=csr_array(A), metric="precomputed"), InputError, "dense with metric='pre"),
        ("neighborhoods", "X", With(X=np.r_[X0[:39], [[1] * 4]], metric="correlation"), InputError, "such that"),
        (
            "neighborhoods",
            "metric",
            With(X=nf.Relation.from_matrix(A), metric="cosine"),
            InputError,
            "left out where X is",
        ),
        ("neighborhoods", "X", LIKES, InputError, "a relation of objects of one kind"),
        ("neighborhoods", "Y", nf.TSNE(), InputError, "a fitted map; got TSNE, which is not. Call fit"),
        ("neighborhoods", "n_neighbors", 39, InputError, "an integer in [1, 38]; got 39"),
        ("neighborhoods", "n_neighbors", (5, 0), InputError, "an integer"),
        ("neighborhoods", "n_neighbors", (), InputError, "at least one size"),
        ("neighborhoods", "n_neighbors", 5.0, InputError, "an integer"),
        ("neighborhoods", "n_sample", 41, InputError, "an integer in [2, 40]; got 41"),
        ("neighborhoods", "n_sample", 1, InputError, "an integer"),
        ("neighborhoods", "random_state", "seed", InputError),
        ("neighborhoods", "n_jobs", 0, InputError),
        ("neighborhoods", "per_point", "yes", InputError),
        ("map_stability", "model", np.zeros((3, 2)), InputError, "a fitted map such as nearfar.TSNE; got ndarray"),
        ("map_stability", "TSNE", With(model=nf.TSNE()), NotFittedError),
        *(("map_stability", name, 0, InputError) for name in ("n_refits", "max_iter", "share", "radius", "limit")),
        ("phrases", "items", text("a b c\n"), DataError, "a header that names a score", "got line 1: 'a b c'"),
        ("phrases", "items", text("verb noun input\nw1 w2 3\n"), DataError, "the words of two phrases"),
        ("phrases", "items", text("verb noun landmark\nw1 w2 w3\n"), DataError, "a header that names a score"),
        ("phrases", "items", text("verb landmark score\nw1 w2 3\n"), DataError, "a header that names a score"),
        ("phrases", "items", text("subject1 subject2 score\nw1 w2 3\n"), DataError, "a header that names a score"),
        ("phrases", "items", text("verb noun landmark input\na b c 4\na b c\n"), DataError, "of 4 columns", "line 3"),
        ("phrases", "items", text("\nverb noun landmark input\n\na b c high\n"), DataError, "finite number", "line 4"),
        ("phrases", "items", text("verb noun landmark input\na b c nan\n"), DataError, "finite number", "line 2"),
        ("phrases", "items", text("verb,noun,landmark,input\na,,b,4\n"), DataError, "a word in every column", "line 2"),
        ("phrases", "items", text("verb noun landmark input\n"), InputError, "at least one pair of phrases"),
        ("phrases", "items", text(""), InputError, "at least one pair of phrases"),
        ("phrases", "items", text("sent1\tsent2\tscore\na b c and d does too\ta b c\t4\n"), DataError, "line 2: "),
        ("phrases", "items", text("verb1,subject1,verb2,subject2,score\na,b,c,d,6,5\n"), DataError, "of 5 columns"),
        ("phrases", "items", [], InputError, "at least one pair of phrases"),
        ("phrases", "items", [({"verb": "w1"}, {"verb": "w2"})], InputError, "two phrases and a finite score each"),
        ("phrases", "items", [({"verb": "w1"}, {"verb": "w2"}, np.inf)], InputError, "a finite score each"),
        ("phrases", "items", [("w1 w2", "w1 w3", 4)], InputError, "phrases as mappings"),
        ("phrases", "items", [({"verb": "w1", "noun": "w2"}, {"verb": "w2"}, 4)], InputError, "phrases as mappings"),
        ("phrases", "items", [({}, {"verb": "w2"}, 4)], InputError, "phrases as mappings"),
        ("phrases", "items", [({"verb": 3}, {"verb": "w2"}, 4)], InputError, "words, or tuples of words"),
        ("phrases", "items", [({"verb": "w1", "subject": ()}, VERB, 4)], InputError, "words, or tuples of words"),
        ("phrases", "items", "nowhere.txt", InputError),
        ("phrases", "method", "product", InputError),
        ("phrases", "method", With(embedding=WORDS, method="phaser"), InputError, "for vectors"),
        ("phrases", "operator", "adjective", InputError),
        ("phrases", "basis", With(method="spider"), InputError),
        ("phrases", "n_bootstrap", 0, InputError),
        ("phrases", "lowercase", 1, InputError),
        ("phrases", "random_state", "x", InputError),
        ("ranking", "emb", X0, InputError, "an Embedding or a fitted estimator", "got ndarray"),
        ("ranking", "EDRep", With(emb=nf.EDRep()), NotFittedError),
        ("ranking", "hidden", [("n1", "i99")], UnknownIdError, "got 'i99'. ", "leave what is hidden of it out"),
        ("ranking", "hidden", [("bob", "a")], UnknownIdError, "got 'bob'"),
        ("ranking", "hidden", With(emb=EMB, hidden=[("n1", "n1")]), InputError, "none but of a node with itself"),
        ("ranking", "hidden", With(exclude=[("n1", "b"), ("n3", "f")]), InputError, "pairs of exclude; got 1 of"),
        ("ranking", "exclude", [("x", "y")], InputError, "ids that have vectors; got 'x' and 'y'"),
        ("ranking", "exclude", With(baselines=True), InputError, "at least 10 pairs for baselines; got 0"),
        ("ranking", "k", 0, InputError),
        ("select", "grid", {}, InputError, "a dict of the values to try"),
        ("select", "grid", {"temperature": 1.0}, InputError, "got 'temperature': 1.0"),
        ("select", "grid", {"temperature": []}, InputError),
        ("select", "grid", {"far": "exact"}, InputError),
        ("select", "parameter", With(grid={"temprature": [1]}), InputError, "temperature", "temprature"),
        ("select", "method", nf.EDRep, InputError, "an estimator, or a callable"),
        ("select", "measure", "auc", InputError, "one of 'micro', 'macro'; got 'auc'"),
        ("select", "measure", With(measure="micro", labels=None), InputError, "one of 'auc', 'ap'; got 'micro'"),
        ("select", "feature", "dot", InputError, "left out with labels"),
        ("select", "feature", With(feature="cosine", labels=None), InputError, "one of"),
        ("select", "held_out", 0.99, InputError, "at least 3 rows with a label choose and one tests"),
        ("select", "held_out", With(held_out=0.06, labels=None), InputError, "at least 6 edges are held out; got 5"),
        ("select", "held_out", 1, InputError),
        ("select", "n_repeats", 0, InputError),
        ("select", "labels", ["a"] * 34, InputError, "evaluate.select: ", "at least two kinds"),
        ("select", "labels", [1, 2], InputError, "of 34 rows"),
        ("plant_pseudowords", "pairs", [("sea", "ship"), ("ship", "moon")], InputError, "one pair each; got 'ship'"),
        ("plant_pseudowords", "pairs", [("sea", "sea")], InputError, "one pair each; got 'sea'"),
        ("plant_pseudowords", "pairs", ["ab"], InputError, "two words each; got 'ab'"),
        ("plant_pseudowords", "pairs", [("sea", "ship", "moon")], InputError, "two words each"),
        ("plant_pseudowords", "pairs", [("sea", 3)], InputError, "two words each"),
        ("plant_pseudowords", "pairs", [("sea", "tide")], InputError, "no words of the text; got 'sea|tide'"),
        ("plant_pseudowords", "id", With(pairs=[("sea", "whale")]), UnknownIdError, "whale"),
        ("plant_pseudowords", "corpus", [["sea", "ship"]], InputError, "an EncodedCorpus; got list"),
        ("sense_induction", "pairs", [], InputError, "at least one pair"),
        ("sense_induction", "pairs", [("w1", "w2"), ("w2", "w3")], InputError, "one pair each"),
        ("sense_induction", "senses", np.zeros((24, 3, 5)), InputError, "of shape (24, S, 4); got (24, 3, 5)"),
        ("sense_induction", "senses", np.zeros((24, 4)), InputError),
        ("sense_induction", "n_senses", 0, InputError),
        ("sense_induction", "n_neighbors", 0, InputError),
        ("sense_induction", "n_controls", 0.5, InputError),
        ("reconstruct_spreading", "vectors", np.eye(6), InputError, "an Embedding"),
        ("reconstruct_spreading", "vectors", nf.Embedding(np.eye(2), ["a", "b"]), InputError, "(node, time); got 'a'"),
        ("reconstruct_spreading", "states", list(STATES), InputError, "a mapping"),
        ("reconstruct_spreading", "states", {}, InputError, "at least one known state"),
        ("reconstruct_spreading", "states", STATES | {("z", 0): "S"}, UnknownIdError, "same contacts, window and step"),
        ("reconstruct_spreading", "observed", 0, InputError, "an integer in"),
        ("reconstruct_spreading", "observed", 7, InputError, "an integer in"),
        ("reconstruct_spreading", "id", With(observed=[("z", 0)]), UnknownIdError, "No state is known"),
        ("reconstruct_spreading", "observed", [], InputError, "at least one id"),
        ("stability", "embeddings", [], InputError, "a list of at least two embeddings; got 0"),
        ("stability", "embeddings", "a.npz", InputError, "a list of at least two"),
        ("stability", "embeddings", [EMB, nf.Embedding(X0)], InputError, "all share at least three ids; got 0."),
        ("stability", "embeddings", [EMB, nf.Embedding(X0 * 0, NAMES)], InputError, "all zero"),
        ("stability", "embeddings[1]", With(embeddings=[EMB, X0]), InputError, "an Embedding"),
        ("stability", "k", 0, InputError, "an integer"),
        ("stability", "k", 40, InputError, "an integer in [1, 39]"),
        ("stability", "metric", "manhattan", InputError, "one of"),
        ("stability", "n_sample", 1, InputError),
        ("stability", "n_sample", 41, InputError),
        ("word_similarity", "pairs", text("a b 3\na b\n"), DataError, "line 2: 'a b', of 2 fields in place of 3"),
        ("word_similarity", "pairs", text("a\tb\t3\na\tb\t3\t4\n"), DataError, "line 2: ", "4 fields in place of 3"),
        ("word_similarity", "pairs", text("a b\n"), DataError, "lines of two words and a score; got line 1: 'a b'"),
        ("word_similarity", "pairs", text("a\tb\t1.234,5\n"), DataError, "got line 1"),
        ("word_similarity", "pairs", text("a b 3\na b high\n"), DataError, "got line 2: 'a b high'"),
        ("word_similarity", "pairs", text("a,b,7,9\nb,c,1,2\n"), DataError, "may be 7 or 7,9. ", "tabs or semicolons"),
        ("word_similarity", "pairs", text("a,b,score\nc,d,7,9\n"), DataError, "the first line. A number with a comma"),
        ("word_similarity", "pairs", text(b"w1 w2 \xff"), DataError, "text in UTF-8", "on line 1: ", "LATIN2"),
        ("word_similarity", "pairs", "nowhere", InputError),
        ("word_similarity", "pairs", [], InputError, "at least one pair"),
        ("word_similarity", "pairs", [("w1", "w2", "3")], InputError, "two words and a finite score"),
        ("word_analogies", "questions", text(": a\na b c d\na b c\n"), DataError, "lines of four words; got line 3"),
        ("word_analogies", "questions", [], InputError, "at least one question"),
        ("word_analogies", "questions", [("w1", "w2", "w3")], InputError, "four words each"),
        ("word_analogies", "method", "add", InputError),
    ],
)
