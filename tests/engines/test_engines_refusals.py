"""What is asked of an engine that it does not do, or that is not there: refused before any work, in one form."""

import pickle

import numpy as np
import own_parts
import own_place
import pytest
from engine_cases import directed, graph, likes, points
from refusals import Made, With, refused

import nearfar as nf
from nearfar._core.lazy import check_seen
from nearfar.engines.plain import Plain
from nearfar.errors import DataError, InputError, UnknownIdError
from nearfar.relations.neighbors import nearest_neighbors


class NotOpened:
    """A text that must not be read, rows that must not be looked at."""

    def __getattr__(self, name: str):
        pytest.fail(f"work began: {name} was asked for")


class Lame:
    """A place that lacks verbs."""

    bring = near = staticmethod(lambda *given: given[-1])


class OwnExact(nf.far.Exact):
    """Another far field: what it changes is not known to a device."""


class OwnField(nf.far.ExactField):
    """Another field of a map."""


class OwnSkipGram(nf.SkipGram):
    """Another model."""


TEXT = [["a", "b", "c"], ["b", "c"]] * 10
ROWS = points(30)


def made(cls, data, *given, **usual):
    return lambda data=data, **more: cls(*given, **(usual | more)).fit(data() if callable(data) else data)


def bag(sentences, n, **options):
    """A text in parts."""

    def make(_):
        made = pytest.importorskip("dask.bag").from_sequence(sentences, npartitions=n)
        return With(corpus=made, **options)

    return Made(make)


def frames(*changes, **options):
    """Edges in parts, each a change of one frame."""

    def make(_):
        pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask")
        dataframe = pytest.importorskip("dask.dataframe")
        ends = np.random.default_rng(0).integers(40, size=(20, 2))
        first = pandas.DataFrame(ends, columns=["source", "target"]).assign(weight=1.0)
        parts = [dask.delayed(change(first)) for change in changes]
        return With(edges=dataframe.from_delayed(parts, verify_meta=False), **options)

    return Made(make)


def whole(first):
    return first


def renamed(first):
    return first[["source", "target"]].set_axis(["a", "b"], axis=1)


def with_names(first):
    return first.assign(source=first.source.astype(str) + "x")


def negative(first):
    return first.assign(weight=-1.0)


def none_of(first):
    return first[:0]


def stranger(folder):
    (folder / "notes.txt").write_text("mine")
    return folder


def latin(folder):
    (folder / "bad.txt").write_bytes(b"ab \xff")
    return With(corpus=folder / "bad.txt")


def encoded(_):
    return With(corpus=nf.Corpus(["a b"]).encode(min_count=1), engine="dask")


def unknown(_):
    return With(rows=nf.Relation.from_edges([("new", 77)], bipartite=True))


def vocabulary(corpus, **given):
    return nf.Corpus(corpus).vocabulary(**{"engine": "dask", "min_count": 1} | given)


NEAR = {"X": np.eye(5), "k": 2, "device": "cpu"}
HERE = {
    "EDRep": made(nf.EDRep, graph, 4),
    "TSNE": made(nf.TSNE, ROWS, perplexity=5),
    "UMAP": made(nf.UMAP, ROWS),
    "Affinities": made(nf.Affinities, ROWS, 2),
    "MDS": made(nf.MDS, NotOpened()),
    "SkipGram": made(nf.SkipGram, NotOpened(), 4),
    "Word2DM": made(nf.Word2DM, NotOpened(), 4),
    "MultiSenseWord2DM": made(nf.MultiSenseWord2DM, NotOpened(), 4),
    "Affinities, unread": made(nf.Affinities, NotOpened(), 2),
    "TSNE, unread": made(nf.TSNE, NotOpened()),
    "search": lambda engine: nf.Embedding(np.eye(3)).search([1], engine=engine),
    "from_edges": nf.Relation.from_edges,
    "from_corpus": lambda corpus=TEXT, **given: nf.Relation.from_corpus(corpus, **given),
    "Corpus": nf.Corpus,
    "check_seen": lambda storage: check_seen("EDRep", "storage", storage, {"w1": True, "w2": False}),
}
IN_TURN, VERBS = "A window reads what the one before it has moved", "A place has the verbs of nearfar.contracts.Place"
ON_THREADS, ON_DEVICES = "None or 'threads'; got ", "None or one of 'threads', 'torch', 'cuda'; got "
ANY = "None, one of 'plain', 'threads', 'torch'"
WORDS = [
    ("engine", "plain", InputError, f"{ON_DEVICES}'plain'. Compiled code is quicker from the second fit on"),
    ("engine", "dask", InputError, f"{ON_DEVICES}'dask'. {IN_TURN}, so all of a text is trained on one machine"),
    ("engine", Plain(), InputError, f"{IN_TURN}: words do not fit the verbs of a Place"),
]
NAMED = ("EDRep", "TSNE", "Affinities", "MDS", "SkipGram", "Word2DM", "MultiSenseWord2DM")
OF_ALL = [
    *((owner, "engine", "spark", InputError, "None", "'threads'", "; got 'spark'") for owner in NAMED),
    ("EDRep", "engine", "spark", InputError, ANY, "or a Place"),
    ("EDRep", "engine", "plain:1", InputError, "got 'plain:1'"),
    ("EDRep", "engine", 3, InputError, f"got 3 without bring, fetch, near, far, each. {VERBS}"),
    ("EDRep", "engine", Lame(), InputError, f"without fetch, far, each. {VERBS}"),
    ("EDRep", "engine", Plain, InputError, f"or a Place; got the class Plain. {VERBS}"),
    ("EDRep", "storage", With(engine="plain", storage="x"), InputError, "None with engine='plain'", "threads"),
    ("EDRep", "storage", With(engine=Plain(), storage="x"), InputError, "None with a Place; got 'x'"),
    ("EDRep", "storage", With(data=likes, engine="threads", storage="x"), InputError, "None with two sides"),
    ("TSNE", "engine", own_place.Pieces(), InputError, "a Place; got", "without pairs, field."),
    ("TSNE", "far", With(engine="plain", far="fft"), InputError, "'auto' or 'exact' with engine"),
    ("TSNE", "storage", With(engine="plain", storage="x"), InputError, "None with engine='plain'; got 'x'"),
    ("UMAP", "far", With(engine="plain"), InputError, "'auto' or 'exact' with engine='plain'; got"),
    ("TSNE, unread", "engine", Lame(), InputError, "without fetch, far, each, pairs"),
    ("Affinities", "engine", With(engine="plain", data=points(201)), InputError, "for more than 200 rows; got 'plain'"),
    ("Affinities, unread", "engine", Plain(), InputError, "'dask'; got", "A search of neighbours does not fit"),
    *(
        ("MDS", "engine", engine, InputError, ON_THREADS, "Pairs are summed by compiled code")
        for engine in ("plain", "torch", "cuda", "cuda:1", "dask", Plain())
    ),
    *((owner, *row) for owner in ("SkipGram", "Word2DM") for row in WORDS),
    ("MultiSenseWord2DM", "engine", "plain", InputError, f"{ON_THREADS}'plain'. Compiled code is quicker"),
    ("MultiSenseWord2DM", "engine", "dask", InputError, f"{ON_THREADS}'dask'. {IN_TURN}"),
    ("MultiSenseWord2DM", "engine", Plain(), InputError, ON_THREADS, f"{IN_TURN}: words"),
    *(
        ("MultiSenseWord2DM", "engine", engine, InputError, f"{ON_THREADS}{engine!r}. Which sense a window trains")
        for engine in ("torch", "cuda", "cuda:1")
    ),
    ("search", "engine", "gpu", InputError, "one of 'threads', 'dask'"),
    ("from_edges", "edges", frames(whole), InputError, "a Dask frame in the context of a client; got no client"),
    ("from_corpus", "engine", "dask", InputError, "'dask' in the context of a client; got no client"),
    ("Corpus", "source", "file:///nowhere/x", InputError, "the URL of a file that exists; got 'file:///nowhere/x'"),
    ("Corpus", "source", "nosuch://x", InputError, "a URL that fsspec can open; got 'nosuch://x' (Protocol"),
    ("check_seen", "storage", "/a/b", InputError, "in a folder that all workers see; got '/a/b', not seen by w2"),
]
test_refusals = refused(HERE, OF_ALL)


# -- on a device ------------------------------------------------------------------------------------------------------

DEVICE = {
    "EDRep": made(nf.EDRep, graph, 4, n_epochs=1, engine="torch"),
    "TSNE": made(nf.TSNE, ROWS, perplexity=8, max_iter=5, engine="torch"),
    "InhomogeneousTSNE": made(nf.InhomogeneousTSNE, ROWS, perplexity=8, max_iter=5, engine="torch"),
    "Affinities": made(nf.Affinities, np.eye(9), 2, engine="torch"),
    "SkipGram": made(nf.SkipGram, TEXT, 4, min_count=1, engine="torch"),
    "Word2DM": made(nf.Word2DM, TEXT, 4, min_count=1, engine="torch"),
    "OwnSkipGram": made(OwnSkipGram, "a file that is not read.txt", 4, engine="torch"),
    "log_normalizers": lambda **given: nf.log_normalizers(np.eye(4), **{"device": "cpu"} | given),
    "nearest_neighbors": lambda **given: nearest_neighbors(**NEAR | given),
    "InhomogeneousTSNE.transform": lambda engine: (
        nf.InhomogeneousTSNE(perplexity=8, max_iter=5).fit(ROWS).set_params(engine=engine).transform(ROWS[:2])
    ),
    "TSNE.transform": lambda engine: (
        nf.TSNE(perplexity=8, max_iter=5).fit(ROWS).set_params(engine=engine).transform(ROWS[:2])
    ),
}
MIXTURE = "a mixture with labels on a device"
COMPARED = "'euclidean' or 'cosine' of dense X on a device"
SEARCHED = "'auto' or 'exact' on a device; got 'inverted-lists'"
OF_A_DEVICE = [
    *(
        (owner, "engine", "cuda:99", InputError, "a device of this machine; got 'cuda:99' where torch")
        for owner in ("EDRep", "TSNE", "Affinities", "SkipGram", "Word2DM", "TSNE.transform")
    ),
    ("EDRep", "engine", "cuda:meta", InputError, "'cpu', 'cuda', ", "got 'cuda:meta'"),
    ("EDRep", "far", "noise", InputError, "one that runs on a device; got Noise"),
    ("EDRep", "far", OwnExact(), InputError, "one that runs on a device; got OwnExact"),
    ("EDRep", "far", nf.far.GaussianMixture(3), InputError, MIXTURE),
    ("EDRep", "storage", "x", InputError, "None with engine='torch'; got 'x'"),
    ("TSNE", "far", "barnes-hut", InputError, "one that runs on a device; got BarnesHutField"),
    ("TSNE", "far", OwnField(), InputError, "one that runs on a device; got OwnField"),
    ("TSNE", "far", With(far="fft", n_components=3), InputError, "'exact' for more than two components"),
    ("TSNE", "Y", With(far=nf.far.MeshField(), n_components=3), InputError, "of one or two components"),
    ("InhomogeneousTSNE", "engine", "torch", InputError, "'threads' for this divergence, kernel and"),
    ("InhomogeneousTSNE.transform", "engine", "torch", InputError, "None for a kernel with a parameter for each"),
    ("Affinities", "engine", With(engine="cuda:99", metric="precomputed"), InputError, "a device of"),
    ("Affinities", "metric", "manhattan", InputError, COMPARED),
    ("Affinities", "method", "inverted-lists", InputError, SEARCHED),
    ("Affinities", "X", With(data=np.zeros((9, 0))), InputError, "of one column at least"),
    ("SkipGram", "deterministic", True, InputError, "False on a device; got True"),
    ("Word2DM", "deterministic", True, InputError, "False on a device; got True"),
    ("SkipGram", "optimizer", "adam", InputError, "'sgd' on a device; got 'adam'"),
    ("OwnSkipGram", "engine", "torch", InputError, "None for a model without a form in torch", "torch_form"),
    ("log_normalizers", "method", "noise", InputError, "one that runs on a device; got Noise"),
    ("log_normalizers", "method", With(n_clusters=2), InputError, MIXTURE),
    ("log_normalizers", "device", "tpu", InputError, "'cpu'"),
    ("nearest_neighbors", "metric", "manhattan", InputError, f"{COMPARED}; got metric"),
    ("nearest_neighbors", "method", "inverted-lists", InputError, SEARCHED),
    ("nearest_neighbors", "device", "gpu", InputError, "'cpu', 'cuda'"),
    ("nearest_neighbors", "k", 5, InputError, "at most 4"),
    ("nearest_neighbors", "X", With(metric="cosine", X=np.zeros((5, 2))), InputError, "without rows of zeros"),
    ("nearest_neighbors", "X", np.array([[1e200], [-1e200], [0], [1]]), InputError, "whose squares are finite"),
]
test_refusals_of_a_device = pytest.mark.usefixtures("needs_torch")(refused(DEVICE, OF_A_DEVICE))


@pytest.fixture
def needs_torch():
    pytest.importorskip("torch")


# -- on the workers of a cluster --------------------------------------------------------------------------------------


def storage(name="v", **beside):
    return Made(lambda folder: With(storage=folder / name, **beside))


WORKERS = {
    "EDRep": made(nf.EDRep, graph, 4),
    "TSNE": made(nf.TSNE, ROWS, perplexity=3, engine="dask"),
    "UMAP": made(nf.UMAP, ROWS, engine="dask"),
    "InhomogeneousTSNE": made(nf.InhomogeneousTSNE, ROWS, perplexity=3, engine="dask"),
    "NeighborEmbedding": made(nf.NeighborEmbedding, ROWS, perplexity=3, engine="dask"),
    "Affinities": made(nf.Affinities, ROWS, engine="dask"),
    "from_edges": nf.Relation.from_edges,
    "copy": lambda edges: pickle.dumps(nf.Relation.from_edges(edges)),
    "ppmi": lambda edges: nf.Relation.from_edges(edges).ppmi(),
    "from_corpus": lambda corpus=TEXT, **given: nf.Relation.from_corpus(corpus, **given),
    "vocabulary": vocabulary,
    "search": lambda Q: nf.Embedding(np.full((30, 2), 1e300)).search(Q, metric="dot", engine="dask"),
    "transform": lambda rows: nf.EDRep(4, n_epochs=1, engine="threads").fit(directed()).transform(rows, engine="dask"),
}
MESH = "'fft', or 'auto' where that is the mesh, on a cluster"
LETTERS = ["a b", "b c", "c d"]
OF_WORKERS = [
    ("EDRep", "gradient", With(gradient="full", far="exact"), InputError, "'paper' or 'forward' with this far"),
    ("EDRep", "storage", Made(stranger), InputError, "a new folder, or a folder of vectors to replace; got"),
    ("EDRep", "storage", storage("none/v"), InputError, "in a folder that exists"),
    ("EDRep", "far", storage(far="exact"), InputError, "a mixture of known clusters with storage on a cluster"),
    ("EDRep", "far", storage(n_clusters=2), InputError, ", several clusters"),
    ("TSNE", "n_components", 3, InputError, "1 or 2 on a cluster"),
    ("TSNE", "far", "exact", InputError, f"{MESH}; got 'exact'"),
    ("TSNE", "far", "auto", InputError, "got 'auto', which sums pair by pair up to 4000 points"),
    ("TSNE", "far", "noise", InputError, "got 'noise'"),
    ("TSNE", "far", nf.far.BarnesHutField(), InputError, "got BarnesHutField"),
    ("UMAP", "far", With(), InputError, "got NoisePairs"),
    ("InhomogeneousTSNE", "kernel", With(far="fft"), InputError, "the same for all points"),
    ("NeighborEmbedding", "divergence", With(far="fft", kernel=own_parts.Plain()), InputError, "linear"),
    ("Affinities", "perplexity", 40, InputError, "below 29"),
    ("from_edges", "edges", frames(whole, renamed), InputError, "the same columns", "'b'] in partition 1"),
    ("from_edges", "edges", frames(whole, with_names), InputError, "integers in the first", "in partition 1"),
    ("from_edges", "weight", frames(whole, negative), DataError, "got -1 in row 0 of the frame", "partition 1"),
    ("from_edges", "edges", frames(none_of, none_of), DataError, "at least one edge; got 2 empty partitions"),
    ("from_edges", "storage", frames(whole, storage="x"), InputError, "left out for a Dask frame"),
    ("copy", "the relation", frames(whole), InputError, "on this machine, to be copied or pickled"),
    ("ppmi", "the relation", frames(whole), InputError, "a single matrix as it came"),
    ("vocabulary", "source", bag([["a", "b"], "b c"], 2), InputError, "one kind: lists", "in partition 1"),
    ("vocabulary", "source", bag(["a", "b", 7], 3), InputError, "got int among them: 7 of partition 2"),
    ("vocabulary", "source", With(corpus=["a b"]), InputError, "a Dask bag with", "Python objects"),
    ("vocabulary", "source", Made(latin), DataError, "bad.txt', which has bytes that are no UTF-8 at offset 3"),
    ("from_corpus", "source", bag(["", " "], 2), InputError, "text with at least one word; got none"),
    ("from_corpus", "corpus", bag(["a", "b"], 2, min_count=1), InputError, "sentences of at least two words"),
    ("from_corpus", "min_count", bag(LETTERS, 3, min_count=99), InputError, "that at least one word reaches"),
    ("from_corpus", "shift", bag(LETTERS, 3, min_count=1, weighting="ppmi", shift=50), InputError, "got 50"),
    ("from_corpus", "storage", bag(LETTERS, 3, storage="x"), InputError, "left out on a cluster"),
    ("from_corpus", "corpus", Made(encoded), InputError, "a text that is not encoded with engine='dask'"),
    ("search", "Q", np.full((1, 2), 1e300), InputError, "vectors whose scalar products are in"),
    ("search", "id", With(Q=[99]), UnknownIdError, "99"),
    ("transform", "id", Made(unknown), UnknownIdError, "77"),
]
test_refusals_of_workers = pytest.mark.usefixtures("two_parts", "in_use")(refused(WORKERS, OF_WORKERS))
