"""What a notebook shows: short, telling, and nothing of the data as markup."""

import functools
import sys
import tempfile
import warnings

import numpy as np
import pytest
from quick import often

import nearfar as nf

SETUP = """
import networkx as nx, numpy as np, pandas as pd, nearfar as nf
from sklearn.base import clone
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
    *(f"nf.{name}(perplexity=3, **drawn).fit(X)" for name in ("TSNE", "UMAP", "NeighborEmbedding")),
    *(f"nf.TSNE(perplexity=3, **drawn).fit({data})" for data in ("frame", "nf.Embedding(X)", "X.tolist()")),
    "nf.TSNE(**drawn).fit(relation)",
    "nf.TSNE(**drawn).fit(nx.karate_club_graph())",
    "nf.TSNE(**drawn).fit(nf.Affinities(3).fit(X))",
    "nf.TSNE(metric='precomputed', perplexity=3, **drawn).fit(abs(X[:, :1] - X[:, 0]))",
    *(f"nf.MDS({options}).fit({data})" for options, data in (("**drawn", "X"), ("init='random', **drawn", "frame"))),
    *(f"clone(edrep).fit({data})" for data in ("relation", "nx.karate_club_graph()", "relation.to_scipy()")),
    "nf.EDRep(2, two_sided=True, n_clusters=2, p0=np.ones(5), **small).fit(relation)",
    *(f"nf.{name}(2, **trained).fit(text)" for name in MODELS),
    "nf.SkipGram(2, **trained).fit(relation)",
    "nf.Affinities([3, 5]).fit(X)",
    "[mapped.affinities_, mapped.relation_, mapped.vectors_]",
    "nf.Word2DM(2, **trained).fit(text).pull_",
    "nf.MultiSenseWord2DM(2, **trained).fit(text).senses_",
    "relation",
    "nf.Relation.from_edges([('a', 1), ('b', 1)], bipartite=True)",
    "vectors",
    "nf.Embedding(X, context_vectors=X[:9], parameters={'init': list(range(10**5)), 'p0': np.ones(10**5)})",
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
LONG = tuple(f"nf.evaluate.{name}(" for name in ("map_stability", "link_prediction", "node_classification", "select"))
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
_DISPLAYS = ["html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript"]


class Printer:
    """The part of IPython's pretty printer that an object's own method may use."""

    def __init__(self):
        self.written = ""

    def text(self, text):
        self.written += text


def shown(value):
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


@pytest.fixture(scope="module")
def value_of():
    """Return the last value of a cell, which is run once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(SETUP, names := {})
    return functools.cache(lambda cell: eval(cell, names | {"torch": sys.modules.get("torch")}))


# What a table of facts says, of the last values of some cells.
SAID = {
    "relation": ["Relation 5 x 5", "entries</th>", "memory</th>", " bytes</td>"],
    "vectors": ["Embedding", "components"],
    "nf.Embedding(X, context_vectors=X[:9], parameters={'estimator': 'EDRep', 'window': 5})": [
        *("other side", "<summary>made by EDRep</summary>", "window")
    ],
    "density": ["DensityEmbedding", "3 x 3"],
    "nf.AnchoredEmbedding(X, rng.normal(size=(4, 3)))": ["AnchoredEmbedding", "anchors</th>", ">4</td>"],
    "nf.Corpus(iter(text))": ["an iterable"],
    "nf.Corpus(text).encode(min_count=1)": ["sentences", "the (160)"],
    "nf.EDRep(3)": ["EDRep(n_components=3)", "not fitted"],
    "clone(edrep).fit(relation)": ["fitted", "loss", "shape (5, 2)"],
    "nf.MDS(**drawn).fit(X)": ["MDS(", "stress", "shape (40, 2)"],
    "mapped": ["TSNE(", "cost", "shape (40, 2)"],
}


@pytest.mark.parametrize("cell", SAID)
def test_a_notebook_shows_a_table_of_facts(cell, value_of):
    html = value_of(cell)._repr_html_()
    assert html.startswith("<div><b>")
    assert "n_" not in html or cell not in ("relation", "vectors")  # words, not attributes
    for text in SAID[cell]:
        assert text in html.replace("&#x27;", "'"), text


def test_a_corpus_is_not_read_to_be_shown(tmp_path):
    def once():
        raise AssertionError("read")
        yield

    corpus = nf.Corpus(once())
    assert corpus._repr_html_()
    (tmp_path / "text.txt").write_text("the sea\n")
    corpus = nf.Corpus(tmp_path / "text.txt", lowercase=True)
    assert repr(corpus).startswith("<Corpus of ")
    assert repr(corpus).endswith("text.txt, lower case>")
    corpus.vocabulary()
    assert repr(corpus).endswith("lower case, read>")
    assert "tokens" in corpus._repr_html_()


# -- every public object, as the last value of a cell -----------------------------------------------------------------


@pytest.mark.parametrize("cell", often(CELLS, lambda cell: not cell.startswith(LONG)))
def test_each_display_is_short_and_whole_and_silent(cell, value_of, capfd):
    check_displays(value_of(cell), capfd)


@pytest.mark.parametrize("cell", OF_TORCH)
def test_each_display_of_tables_and_losses(cell, value_of, capfd):
    pytest.importorskip("torch")
    check_displays(value_of(cell), capfd)


def check_displays(value, capfd):
    capfd.readouterr()
    for kind, text in shown(value):
        assert " object at 0x" not in text
        assert kind == "repr" or "<script>a" not in text
        assert 0 < len(text) < (1500 if kind == "repr" else 4000) or isinstance(value, nf.viewer.MapPage)
    assert capfd.readouterr() == ("", "")


def test_every_public_class_that_holds_something_is_displayed(value_of):
    """Classes without a display of their own are those of torch's manner, protocols, and bases."""
    pytest.importorskip("torch")
    held = {type(part) for cell in CELLS for part in _parts(value_of(cell))}
    public = {getattr(module, name) for module in (nf, nf.evaluate, nf.datasets, nf.index) for name in module.__all__}
    own = {kind for kind in public if isinstance(kind, type)}
    rest = {"Communities", "CommunityScores", "SenseInduction", "SpreadingReconstruction"}  # plain records of numbers
    assert {kind.__name__ for kind in own - held} <= rest | {"MapPage"}


def _parts(value):
    return value if isinstance(value, list) else [value]


def test_many_rows_take_no_longer(monkeypatch):
    n = 50_000
    ids, zeros = [f"id {i}" for i in range(n)], np.zeros((n, 1), np.float32)
    plain, vocabulary = nf.Embedding(zeros, ids), nf.Vocabulary(ids, np.ones(n, np.int64))
    two = nf.Embedding(zeros, ids, context_vectors=zeros, context_ids=ids[::-1])

    def refused(*_arguments, **_options):
        raise AssertionError("went through all ids")

    for name in ("__iter__", "to_list", "to_numpy"):
        monkeypatch.setattr(type(plain.ids), name, refused)
    for value in (plain, two, vocabulary, plain.ids):
        assert all(len(text) < 1000 for _, text in shown(value))


@pytest.mark.slow
def test_a_long_parameter_is_not_gone_through():
    class Long(list):
        def __iter__(self):
            for k in range(10**5):
                assert k < 20, "went through all of it"
                yield k

    long = Long(range(10**5))
    for value in (nf.EDRep(p0=long), nf.Embedding(np.eye(2), parameters={"init": long}), nf.Affinities(long)):
        assert all(len(text) < 1500 for _, text in shown(value))
    assert "p0=[0, 1, 2, 3, 4, 5, ...]" in repr(nf.EDRep(p0=list(range(10**5))))
    assert "init=<ndarray of shape (500, 2)>" in repr(nf.TSNE(init=np.ones((500, 2))))
    assert repr(nf.EDRep(p0=np.array([1.0, 2.0]))) == "EDRep(p0=array([1., 2.]))"


def test_what_a_relation_has_not_counted_is_not_counted_to_be_shown(monkeypatch):
    relation = nf.Relation.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("d", "d")], directed=True).random_walk(3)
    relation.__dict__.pop("isolates", None)
    with monkeypatch.context() as patch:
        patch.setattr(type(relation.operator), "matmat", None)
        patch.setattr(type(relation.operator), "row_sums", None)
        assert "entries" in relation._repr_html_()
    assert relation.sinks.size == 0
    assert "sinks" not in relation._repr_html_()
    ends = nf.Relation.from_edges([("a", "b")], directed=True)
    assert ends.sinks.size == 1
    assert "sinks" in ends._repr_html_()


def run(setup, cells):
    """Execute a notebook of these cells, and return what each has put out."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (setup, *cells)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the loop that runs it
        manager = nbclient.NotebookClient(book, timeout=300, kernel_name="python3", allow_errors=True)
        manager.km = manager.create_kernel_manager()
        manager.km.transport, manager.km.ip = "ipc", tempfile.mktemp(prefix="nearfar-kernel-")
        manager.execute()
    return [cell.outputs for cell in book.cells[1:]]


def check_executed(setup, cells):
    for cell, outputs in zip(cells, run(setup, cells), strict=True):
        assert [output.output_type for output in outputs] == ["execute_result"], (cell, outputs)
        assert outputs[0].data["text/plain"]


@pytest.mark.slow
def test_an_executed_notebook_shows_the_last_value_of_a_cell():
    setup = "import numpy as np, nearfar as nf\nX = np.random.default_rng(0).normal(size=(100, 4))"
    check_executed(setup, ["nf.TSNE()", "nf.TSNE(max_iter=250).fit(X)", "nf.EDRep()", "nf.Embedding(X)"])


@pytest.mark.slow
def test_an_executed_notebook_shows_every_object():
    check_executed(SETUP, CELLS)
