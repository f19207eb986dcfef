"""What a notebook shows: short, telling, and nothing of the data as markup."""

import tempfile
import warnings

import displays
import numpy as np
import pytest

import nearfar as nf
from nearfar._core.ids import Ids


@pytest.fixture(scope="module")
def names():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(displays.SETUP, made := {})
    return made


# What a table of facts says, of the last values of some cells.
SAID = {
    "relation": ["Relation 5 x 5", "entries</th>", "memory</th>", " bytes</td>"],
    "vectors": ["Embedding", "components"],
    "nf.Embedding(X, context_vectors=X[:9], parameters={'estimator': 'EDRep', 'window': 5})": [
        *("other side", "<summary>made by EDRep</summary>", "window"),
    ],
    "density": ["DensityEmbedding", "3 x 3"],
    "nf.AnchoredEmbedding(X, rng.normal(size=(4, 3)))": ["AnchoredEmbedding", "anchors</th>", ">4</td>"],
    "nf.Corpus(iter(text))": ["an iterable"],
    "nf.Corpus(text).encode(min_count=1)": ["sentences", "the (160)"],
    "nf.EDRep(3)": ["EDRep(n_components=3)", "not fitted"],
    "edrep.fit(relation)": ["fitted", "loss", "shape (5, 2)"],
    "nf.MDS(**drawn).fit(X)": ["MDS(", "stress", "shape (40, 2)"],
    "mapped": ["TSNE(", "cost", "shape (40, 2)"],
}


@pytest.mark.parametrize("cell", SAID)
def test_a_notebook_shows_a_table_of_facts(cell, names):
    html = eval(cell, names)._repr_html_()
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


@pytest.mark.parametrize("cell", displays.CELLS)
def test_each_display_is_short_and_whole_and_silent(cell, names, capfd):
    check_displays(eval(cell, names), capfd)


@pytest.mark.parametrize("cell", displays.OF_TORCH)
def test_each_display_of_tables_and_losses(cell, names, capfd):
    check_displays(eval(cell, names | {"torch": pytest.importorskip("torch")}), capfd)


def check_displays(value, capfd):
    capfd.readouterr()
    for kind, text in displays.shown(value):
        assert " object at 0x" not in text
        assert kind == "repr" or "<script>a" not in text
        assert 0 < len(text) < (1500 if kind == "repr" else 4000) or isinstance(value, nf.viewer.MapPage)
    assert capfd.readouterr() == ("", "")


def test_every_public_class_that_holds_something_is_displayed(names):
    """Classes without a display of their own are those of torch's manner, protocols, and bases."""
    pytest.importorskip("torch")
    held = {type(part) for cell in displays.CELLS for part in _parts(eval(cell, names))}
    public = {getattr(module, name) for module in (nf, nf.evaluate, nf.datasets, nf.index) for name in module.__all__}
    own = {kind for kind in public if isinstance(kind, type)}
    rest = {"CommunityScores", "SenseInduction", "SpreadingReconstruction"}  # plain records of numbers
    assert {kind.__name__ for kind in own - held} <= rest | {"MapPage"}


def _parts(value):
    return value if isinstance(value, list) else [value]


def test_many_rows_take_no_longer(monkeypatch):
    objects = displays.large()

    def refused(*_arguments, **_options):
        raise AssertionError("went through all ids")

    for name in ("__iter__", "to_list", "to_numpy"):
        monkeypatch.setattr(Ids, name, refused)
    for value in objects.values():
        assert all(len(text) < 1000 for _, text in displays.shown(value))


def test_a_long_parameter_is_not_gone_through():
    class Long(list):
        def __iter__(self):
            for k in range(10**6):
                assert k < 20, "went through all of it"
                yield k

    long = Long(range(10**6))
    for value in (nf.EDRep(p0=long), nf.Embedding(np.eye(2), parameters={"init": long}), nf.Affinities(long)):
        assert all(len(text) < 1500 for _, text in displays.shown(value))
    assert "p0=[0, 1, 2, 3, 4, 5, ...]" in repr(nf.EDRep(p0=list(range(10**6))))
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
    check_executed(displays.SETUP, displays.CELLS)
