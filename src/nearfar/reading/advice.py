"""Which method for which data: one table, from which ``choose``, ``nearfar advise`` and a guide page are made.

The first rule of a kind whose condition holds is the one that counts. Figures are those of the benchmarks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import issparse

from nearfar._core.checks import check_choice
from nearfar._core.frames import is_frame
from nearfar._core.ids import rows_and_ids, which_matrix
from nearfar._core.names import public_names
from nearfar._core.parameters import tells_options
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError, counted
from nearfar.estimators.tasks import DENSE, TASKS, WALK, is_normalized
from nearfar.reading.files import read
from nearfar.reading.given import form_of
from nearfar.reading.graphs import is_graph
from nearfar.reading.preparation import Coding, may_be_distances
from nearfar.relations.matrix import Relation, as_relation
from nearfar.relations.neighbors import check_rows
from nearfar.text.corpus import Corpus
from nearfar.text.encoded import EncodedCorpus

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

    from nearfar.base import RelationLike
    from nearfar.datasets import Graph
    from nearfar.estimators.edrep import EDRep
    from nearfar.maps.mds.estimator import MDS
    from nearfar.maps.neighbor import NeighborEmbedding
    from nearfar.words.skipgram import SkipGram

    Fitted: TypeAlias = EDRep | MDS | NeighborEmbedding | SkipGram

__all__ = ["Advice", "choose"]

_OWNER = "choose"
_STANDS = {"graph": "relation", "two kinds": "relation", "table": "X", "distances": "D"}
_STANDS |= {"vectors": "vectors", "text": "text"}
_LABELS = ("data", "method", "why", "parameters", "instead")


class Rule(NamedTuple):
    """What is recommended for data of one kind, and when: an estimator with options, on a walk of some steps, or none.

    ``n_components`` is at most what the data allow; ``{d}`` stands for it in the command.
    """

    kind: str
    when: str
    estimator: str
    options: Mapping[str, Any]
    command: str
    why: str
    parameters: str
    instead: str
    test: Callable[[dict[str, int]], object] = bool  # of what was counted, which is never nothing
    steps: int = 0
    shown: str = ""
    """What other data have shown, for the guide: advice speaks of the data at hand."""

    def of(self, facts: dict[str, int], words: str) -> Advice:
        """Return what the rule says of data, of which these facts are known."""
        options, d = dict(self.options), self.options.get("n_components")
        if d is not None:
            options["n_components"] = d = min(d, facts.get("most_components", d))
        command = self.command.replace("{d}", str(d))
        near = facts.get("n_entries", 0) / max(facts.get("n", 1), 1)
        steps = 1 if near > DENSE else WALK
        walk = f"random_walk({steps}), for {near:.1f} neighbours a node" if near else _ANY
        texts = command, self.why, self.parameters.format(walk=walk), self.instead
        mixed = bool(facts.get("mixed"))  # it becomes numbers on one scale first
        return Advice(self.kind, facts, words, self.estimator, options, *texts, self.steps, mixed)


_ANY = f"random_walk({WALK}), of more than {DENSE} neighbours a node random_walk(1)"
_GRAPH = "nearfar embed {file} -o OUT --n-components {d}"
_NODES = (
    f'task: "labels" {TASKS["labels"].told}, "links" {TASKS["links"].told}, "communities" {TASKS["communities"].told}.'
    " recommend(node, exclude=relation) ranks whom to link."
)
_FREQUENT = 5  # times that a word comes
_FEW = 91  # rows: t-SNE's neighbourhoods of 30 are a third of the others
_MAP = "perplexity=30 is the number of neighbours that count; reduce more than 50 columns to 50 principal components."
RULES = (
    Rule(
        "graph",
        "rows sum to 1 (walks, probabilities)",
        "EDRep",
        {"n_components": 32},
        _GRAPH,
        "EDRep learns these probabilities as they are, in linear time.",
        "Walk no further: the rows are normalised already.",
        "If weights happen to sum to 1, relation.random_walk(3) reaches further.",
        test=lambda facts: facts["normalized"],
    ),
    Rule(
        "graph",
        "edges go one way",
        "EDRep",
        {"n_components": 32, "two_sided": True},
        _GRAPH + " --directed",
        "Each node gets a vector as source and one as target, so that scores know the direction.",
        _NODES,
        "If directions mean little, read the edges without them: directed=False.",
        test=lambda facts: facts["directed"],
        steps=WALK,
    ),
    Rule(
        "graph",
        "up to 500 nodes",
        "EDRep",
        {"n_components": 16, "task": "communities"},
        _GRAPH + " --task communities",
        "EDRep gives nodes with the same surroundings similar vectors, in milliseconds.",
        _NODES,
        "For a picture alone: nf.TSNE().fit(relation).",
        test=lambda facts: facts["n"] <= 500,
    ),
    Rule(
        "graph",
        "else",
        "EDRep",
        {"task": "labels"},
        "nearfar embed {file} -o OUT --task labels",
        "EDRep gives nodes with the same surroundings similar vectors, in linear time.",
        _NODES,
        'Links: task="links". Labels that say what a node does, not to whom it belongs (word'
        " classes): two fits side by side, temperature 1 and -1. Judge by evaluate.ranking and"
        " evaluate.node_classification.",
        shown="It finds groups about as well as DeepWalk in a hundredth of the time (cora: NMI .473 in 65.2 ms against"
        " .444 in 10.03 s); labels want 128 components (blogcatalog: micro F1 .419 against .394 with 32).",
    ),
    Rule(
        "two kinds",
        "always",
        "EDRep",
        {"task": "items"},
        "nearfar embed {file} -o OUT --bipartite --task items",
        "Rows and columns get vectors in one space; emb.recommend(user, exclude=relation) ranks items for a user.",
        f"task: {TASKS['items'].told}.",
        "With features, and for the next item: towers with nn.InBatchNCE. evaluate.ranking(baselines=True) judges.",
        shown="Towers: recall@10 .3349 on MovieLens against .1727 by popularity.",
    ),
    Rule(
        "table",
        "fewer than 91 rows",
        "MDS",
        {},
        "nearfar map {file} --plot PICTURE --method mds",
        "So few rows have no neighbourhoods of 30: MDS keeps distances.",
        "None to choose. Bring the columns to one scale first.",
        "nf.TSNE(perplexity=5) for neighbours, from 16 rows on.",
        test=lambda facts: facts["n"] < _FEW,
    ),
    Rule(
        "table",
        "up to 1,000,000 rows",
        "TSNE",
        {},
        "nearfar map {file} --plot PICTURE",
        "t-SNE keeps most neighbours, in linear time.",
        _MAP,
        "Judge it by evaluate.neighborhoods; evaluate.map_stability, and nearfar map --stability, say which points have"
        " another place. nf.JSE() often has fewer false neighbours. Tight clusters: nf.UMAP().",
        test=lambda facts: facts["n"] <= 1_000_000,
        shown="Area under R_NX of Fashion-MNIST .490 (NeRV .381, HSSNE .454); 12.49 s for 70,000 rows, 190 s of"
        " processor time and 2.45 GiB for a million. JSE has fewer false neighbours on three of four sets"
        " (trustworthiness of single cells .947, t-SNE .936; not on Fashion-MNIST, .990, t-SNE .993).",
    ),
    Rule(
        "table",
        "else",
        "UMAP",
        {},
        "nearfar map {file} --plot PICTURE --method umap",
        "UMAP samples pairs, which takes a third of t-SNE's time. It keeps fewer neighbours.",
        "min_dist=0.1 says how tight clusters are; more than 50 columns: reduce them to 50 principal components.",
        "nf.TSNE() of a sample of the rows, and transform for the others.",
        shown="70,000 rows were optimised in 3.36 s, by t-SNE in 9.66 s.",
    ),
    Rule(
        "distances",
        "always",
        "MDS",
        {"metric": "precomputed"},
        "",
        "MDS keeps the distances themselves.",
        "stress='sammon' gives small distances more weight.",
        'For neighbours: nf.TSNE(metric="precomputed").',
        shown="As low a stress as SMACOF (20,000 rows: 6.94 s against 133 s).",
    ),
    Rule(
        "vectors",
        "fewer than 91",
        "MDS",
        {"metric": "cosine"},
        "nearfar map {file} --plot PICTURE --method mds --metric cosine",
        "So few vectors have no neighbourhoods of 30: MDS keeps distances. Their similarity is the cosine.",
        "None to choose.",
        "emb.search for neighbours, nf.align to compare with another run.",
        test=lambda facts: facts["n"] < _FEW,
    ),
    Rule(
        "vectors",
        "else",
        "TSNE",
        {"metric": "cosine"},
        "nearfar map {file} --plot PICTURE --metric cosine",
        "Vectors are there already: look at them, search them, or make them smaller. Their similarity is the cosine.",
        "perplexity=30 is the number of neighbours that count.",
        "emb.search for neighbours, nf.compress for a smaller file, nf.align to compare with another run,"
        " evaluate.map_stability for points that have another place.",
    ),
    Rule(
        "text",
        "fewer than 1,000 tokens, or than 50 words that come 5 times",
        "SkipGram",
        {"n_components": 100, "optimizer": "adam", "min_count": 1, "sample": 0},
        "nearfar words train {file} -o OUT --optimizer adam --min-count 1 --sample 0",
        "So short a text trains a model, but teaches it little: every word and every pair counts.",
        "min_count=1 keeps words that come once, sample=0 the frequent ones.",
        "Vectors that others trained on much text: nf.Embedding.load.",
        test=lambda facts: facts["n_tokens"] < 1000 or (facts["n_tokens"] < 1_000_000 and facts["n_frequent"] < 50),
    ),
    Rule(
        "text",
        "else",
        "SkipGram",
        {"n_components": 100},
        "nearfar words train {file} -o OUT",
        "Skip-gram is best on single words.",
        "n_components=100 to 300; window=5; sample=1e-3 thins frequent words.",
        "nf.MultiSenseWord2DM() for ambiguous words and phrases.",
        shown="WordSim-353: .519; multi-sense .417, Word2DM .389 on 4 million words.",
    ),
)
KINDS = tuple(dict.fromkeys(rule.kind for rule in RULES))


@dataclass(frozen=True, repr=False)
class Advice:
    """Which method and parameters suit some data, and why.

    Parameters
    ----------
    kind : {"graph", "two kinds", "table", "distances", "vectors", "text"}
        What the data are taken for.
    facts : dict
        What was counted.
    data : str
        The same in words.
    estimator : str
        The name of the class.
    options : dict
        Its parameters that are not the default.
    command : str
        The method on the command line, empty where there is none; ``{file}`` stands for the file.
    why, parameters, instead : str
        The reason; what the main parameters do; what else could be right.
    steps : int, default=0
        Of the random walk on a relation that is fitted in its place; 0 where it is fitted itself.
    prepared : bool, default=False
        Whether a table is prepared before, by :func:`nearfar.prepare`.
    """

    kind: str
    facts: dict[str, int]
    data: str
    estimator: str
    options: dict[str, object]
    command: str
    why: str
    parameters: str
    instead: str
    steps: int = 0
    prepared: bool = False

    @property
    def code(self) -> str:
        """The method in Python; ``relation``, ``X``, ``D``, ``vectors`` or ``text`` stands for the data."""
        data = _STANDS[self.kind]
        walk, prepared = f"{data}.random_walk({self.steps})", f"nf.prepare({data})"
        given = walk if self.steps else prepared if self.prepared else data
        texts = {name: json.dumps(value) for name, value in self.options.items() if isinstance(value, str)}
        options = ", ".join(f"{name}={value}" for name, value in (self.options | texts).items())
        return f"nf.{self.estimator}({options}).fit({given}).vectors_"

    def fit(self, data: object, **parameters: object) -> Fitted:
        """Do what the code says; return the estimator, fitted.

        Parameters
        ----------
        data : Relation, Corpus, or what has rows
            What the advice is on.
        **parameters
            Of the estimator, beside those of the advice.

        Returns
        -------
        estimator
        """
        import nearfar

        given: Any = data
        given = given.random_walk(self.steps) if self.steps else nearfar.prepare(given) if self.prepared else given
        return getattr(nearfar, self.estimator)(**self.options, **parameters).fit(given)

    @property
    def lines(self) -> list[str]:
        """Five lines: data, method, why, parameters, instead."""
        texts = (self.data, self.code, self.why, self.parameters, self.instead)
        return [f"{label:<12}{text}" for label, text in zip(_LABELS, texts, strict=True)]

    def __repr__(self) -> str:
        return "\n".join(self.lines)


@tells_options
def choose(data: RelationLike | Graph | IntoFrame | Corpus | EncodedCorpus, *, kind: str | None = None) -> Advice:
    """Say which method and parameters suit data, and why; from their kind and size, without a fit.

    Parameters
    ----------
    data : Relation, Graph, graph of networkx or PyTorch Geometric, matrix, frame, AnnData, Embedding or Corpus
        A sparse matrix is a relation: of one kind of objects if it is square, else of two. So are a list of tuples and
        a frame with columns called source and target or the like. A dense matrix or another frame is a table with a row
        for each object.
    kind : {"graph", "two kinds", "table", "distances", "vectors", "text"}, optional
        What the data are, where that is not clear: a square matrix may hold distances, or the weights of a graph.

    Returns
    -------
    Advice
        It shows itself in five lines. O(size of the data) time; a text is counted, not encoded.

    Raises
    ------
    InputError
        If the data are none of these, or are a symmetric dense matrix with a zero diagonal and no kind is given.

    Notes
    -----
    Source: the rules and their figures are those of the guide "Which method for which data" and of the benchmarks.

    Examples
    --------
    >>> import networkx as nx
    >>> import nearfar as nf
    >>> advice = nf.choose(nx.les_miserables_graph())
    >>> advice.kind, advice.code
    ('graph', 'nf.EDRep(n_components=16, task="communities").fit(relation).vectors_')
    >>> print(advice.lines[0])
    data        a graph of 77 nodes and 254 edges, 6.6 per node, 0 nodes without an edge
    """
    if kind is not None:
        check_choice(_OWNER, "kind", kind, KINDS)
    kind, facts, words = _counted(data, kind)
    if kind in ("table", "distances", "vectors") and facts["n"] < 3:
        raise InputError(_OWNER, "data", "of at least 3 rows", f"{facts['n']}", "So few need no map.")
    return next(rule for rule in RULES if rule.kind == kind and rule.test(facts)).of(facts, words)


def _counted(data: Any, kind: str | None) -> tuple[str, dict[str, int], str]:
    """Return what kind of data these are, what was counted, and the same in words."""
    square = is_frame(data) and data.shape[0] == data.shape[1] and may_be_distances(data)
    if is_frame(data) and kind in (None, "table") and not square:
        try:
            data = read(data, kind="table" if kind else None)
        except InputError as error:
            raise InputError(_OWNER, "data", error.expected, error.got, error.hint) from error
    if isinstance(data, (Corpus, EncodedCorpus)):
        if kind not in (None, "text"):
            raise InputError(_OWNER, "kind", "'text' for a Corpus", kind)
        vocabulary = data.vocabulary if isinstance(data, EncodedCorpus) else data.vocabulary()
        n_tokens = data.n_tokens if isinstance(data, EncodedCorpus) else vocabulary.n_tokens
        facts = {"n_tokens": n_tokens, "n_frequent": int((np.asarray(vocabulary.counts) >= _FREQUENT).sum())}
        if isinstance(data, Corpus) and all(len(sentence) < 2 for sentence in data):
            got = f"{counted(n_tokens, 'word')}, each by itself"
            raise InputError(_OWNER, "data", "a text with a sentence of two words", got)
        return "text", facts, f"a text of {counted(n_tokens, 'token')}"
    if kind == "text":
        raise InputError(_OWNER, "data", "a Corpus with kind='text'", type(data).__name__)
    if isinstance(data, Embedding) and kind in (None, "vectors"):
        n, d = data.shape
        return "vectors", {"n": n, "n_components": d}, f"vectors of {counted(n, 'id')} with {counted(d, 'component')}"
    if kind in ("graph", "two kinds") or (kind is None and _is_relation(data)):
        return _counted_relation(data)
    shape = getattr(data, "shape", None)
    if shape is None:
        expected = "a relation, a graph, a matrix, vectors or a corpus"
        hint = f"For a file: nearfar advise {data}" if isinstance(data, str) else ""
        raise InputError(_OWNER, "data", expected, type(data).__name__, hint)
    if len(shape) != 2:
        raise InputError(_OWNER, "data", "two-dimensional", f"shape {tuple(shape)}")
    n, columns = int(shape[0]), int(shape[1])
    if kind == "distances" and n != columns:
        raise InputError(_OWNER, "data", "square with kind='distances'", f"shape {n} x {columns}")
    if kind is None and n == columns and n > 1 and not hasattr(data, "obsm") and may_be_distances(data):
        expected = "'distances', 'graph' or 'table' for a symmetric matrix with a zero diagonal"
        raise InputError(_OWNER, "kind", expected, "None")
    if kind == "distances":
        check_rows(_OWNER, data, "precomputed")  # what a fit refuses is refused here
        return kind, {"n": n}, f"distances between {n:,} objects"
    facts, words = _counted_table(data, n, columns)
    return kind or "table", facts, words


def _counted_table(data: Any, n: int, columns: int) -> tuple[dict[str, int], str]:
    """Return what was counted of a table, and the same in words; "mixed" where its columns were no numbers."""
    facts, told = {"n": n, "n_columns": columns}, f"; {data.told}" if getattr(data, "told", "") else ""
    codings = getattr(getattr(data, "prepared", None), "codings", ())
    if hasattr(data, "obsm") and hasattr(data, "obs_names"):
        which = which_matrix(_OWNER, data)
        facts["n_columns"] = int(data.X.shape[1] if which == "X" else data.obsm[which].shape[1])
        told = ", X" if which == "X" else f", obsm[{which!r}]"
    elif any(coding != Coding(coding.name, "number", fill=coding.fill) for coding in codings):
        facts["mixed"], told = True, f", after nf.prepare: {data.told}"
    check_rows(_OWNER, rows_and_ids(_OWNER, data)[0], "euclidean")
    return facts, f"a table of {counted(n, 'row')} with {counted(facts['n_columns'], 'column')}{told}"


def _is_relation(data: object) -> bool:
    if isinstance(data, str | os.PathLike) or hasattr(data, "read"):  # of text, or of vectors
        return False
    known = isinstance(data, Relation) or issparse(data) or is_graph(data)
    if known or hasattr(data, "shape"):  # a table may have columns of text, too
        return known
    return isinstance(getattr(data, "relation", None), Relation) or form_of(data) == "edges"


def _counted_relation(data: object) -> tuple[str, dict[str, int], str]:
    relation = as_relation(data, _OWNER, "data")
    counts = relation.describe()
    n, m, entries = counts["n_rows"], counts["n_columns"], counts["n_entries"]
    if not relation.is_square:
        if min(n, m) < 2:
            raise InputError(_OWNER, "data", "of two rows and two columns at least", f"a relation of {n} x {m}")
        facts = {"n": n, "n_columns": m, "n_entries": entries, "most_components": min(n, m)}
        words = f"a relation of {counted(n, 'row')} to {counted(m, 'column')} with {counted(entries, 'entry')}"
        return "two kinds", facts, words
    normalized = is_normalized(relation)
    directed = not normalized and not _is_symmetric(relation)
    facts = {"n": n, "n_entries": entries, "isolates": counts["isolates"], "most_components": n}
    facts |= {"directed": directed, "normalized": normalized}
    edges = entries if directed else entries // 2
    words = "a relation" if normalized else "a directed graph" if directed else "a graph"
    of = f"{counted(edges, 'edge')}, {entries / max(n, 1):.1f} per node"
    of = counted(entries, "stored entry") if normalized else of
    alone = counted(counts["isolates"], "node")
    return "graph", facts, f"{words} of {counted(n, 'node')} and {of}, {alone} without an edge"


def _is_symmetric(relation: Relation) -> bool:
    if relation.T is relation:
        return True
    matrix = relation.to_scipy()
    return bool(abs(matrix - matrix.T).max() <= 1e-6 * max(float(matrix.max()), 1e-300))


public_names(__name__, __all__)
