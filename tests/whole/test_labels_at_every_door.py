"""Labels, values and metadata mean the same wherever they are given: by id, and none where there is none."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from quick import often

import nearfar as nf
from nearfar.errors import InputError, NearfarWarning, UnknownIdError

pytest.importorskip("matplotlib")

N = 40
SIDES = np.repeat([[4.0, 0, 1], [0, 4, 1]], N // 2, axis=0)
X = SIDES + np.random.default_rng(0).normal(size=(N, 3))
LABELS = ["left"] * (N // 2) + ["right"] * (N // 2)
KINDS = {
    "text": [f"node {row}" for row in range(N)],
    "row numbers": [*range(N)],
    "row numbers in another order": [*range(N // 2, N), *range(N // 2)],
    "numbers from 1": [*range(1, N + 1)],
}
RING = [(row, (row + 1) % N) for row in range(N)] + [(row, (row + 3) % N) for row in range(0, N, 2)]


def anchored(vectors, ids):
    return nf.AnchoredEmbedding(abs(vectors[:, :2]), np.eye(2), ids)


def drawn(axes):
    collection = axes.collections[0]
    return collection.get_offsets().data.tolist(), collection.get_facecolors().tolist()


def page_of(emb, labels):
    [column] = emb.map(emb.vectors[:, :2], metadata={"label": labels}, metric="euclidean", n_jobs=1).columns
    return [[*column.names, None][code] if column.names else code for code in column.values.tolist()]


def chosen(emb, labels):
    graph = nf.Relation.from_edges([(emb.ids[a], emb.ids[b]) for a, b in RING])
    found = nf.evaluate.select(lambda _, **__: emb, {"x": [1]}, graph, labels, n_repeats=1, random_state=0)
    return found.score


judge = nf.evaluate
ONCE = {"fractions": 0.5, "n_repeats": 1, "random_state": 0}
DOORS = {
    "scatter labels": lambda emb, labels: drawn(nf.plots.scatter(emb, labels, names="none")),
    "scatter values": lambda emb, labels: drawn(nf.plots.scatter(emb, values=as_values(labels))),
    "scatter words": lambda emb, labels: [text.get_text() for text in nf.plots.scatter(emb, words=labels).texts],
    "small multiples": lambda emb, labels: drawn(nf.plots.small_multiples([emb, emb], labels)[1]),
    "page": page_of,
    "communities": lambda emb, labels: judge.communities(emb, labels, n_init=1, random_state=0, n_jobs=1).nmi,
    "neighborhoods": lambda emb, labels: judge.neighborhoods(emb, emb.vectors, labels=labels, n_jobs=1).accuracy,
    "node classification": lambda emb, labels: judge.node_classification(emb, labels, **ONCE).micro,
    "select": chosen,
    "anchors": lambda emb, labels: judge.anchor_purity(anchored(emb.vectors, emb.ids), labels, random_state=0).purity,
}


def as_values(labels):
    number = {"left": 1.5, "right": 7}
    if hasattr(labels, "map"):
        return labels.map(number)
    return {k: number[v] for k, v in labels.items()} if isinstance(labels, dict) else [number[v] for v in labels]


# The door of each reader with the ids that positions are taken for.
READERS = ("scatter labels", "page", "communities")
OFTEN = {(door, "row numbers in another order") for door in READERS} | {
    ("communities", "text"),
    ("page", "row numbers"),
}


@pytest.mark.parametrize(("door", "kind"), often(product(DOORS, KINDS), OFTEN))
def test_a_series_or_a_mapping_goes_by_id_and_all_else_by_row(door, kind):
    ids, use = KINDS[kind], DOORS[door]
    emb = nf.Embedding(X, ids)
    by_row = use(emb, LABELS)
    order = np.random.default_rng(1).permutation(N)
    series = pd.Series(LABELS, index=ids).iloc[order]
    forms = [series, series.to_dict()]
    if door in READERS and kind == "row numbers in another order":  # by which the others go, too
        forms += [series.astype("category"), pd.Series(LABELS, index=ids).sort_index(), np.array(LABELS), tuple(LABELS)]
    for given in forms:
        assert use(emb, given) == by_row
    wrong = pd.Series(LABELS, index=[f"none of {row}" for row in range(N)])
    if door == "page" and kind == "row numbers":  # the ids may be no more than that
        with pytest.warns(NearfarWarning, match="no column holds the ids: row k goes to id k"):
            assert use(emb, wrong) == by_row
    else:
        with pytest.raises(InputError):
            use(emb, wrong)


@pytest.mark.parametrize("door", often(DOORS, READERS))
def test_numbered_rows_of_other_ids_are_said(door):
    emb, use = nf.Embedding(X, KINDS["text"]), DOORS[door]
    text = "no column holds the ids" if door == "page" else "has the index 0 to 39, which was taken for row numbers"
    with pytest.warns(NearfarWarning, match=text) as caught:
        found = use(emb, pd.Series(LABELS))
    assert caught[0].filename == __file__
    assert found == use(emb, LABELS)


@pytest.mark.parametrize("door", ["scatter labels", "communities", "neighborhoods", "node classification"])
def test_rows_without_ids_go_by_row_and_have_no_mapping(door):
    use, rows = DOORS[door], Rows(X)
    shuffled = pd.Series(LABELS, index=np.random.default_rng(0).permutation(N))
    assert use(rows, shuffled) == use(rows, LABELS)
    with pytest.raises(InputError, match="labels must be one per row with vectors that have no ids; got dict"):
        use(rows, shuffled.to_dict())


class Rows(np.ndarray):
    """An array that has the attribute which the doors here read."""

    vectors = property(np.asarray)

    def __new__(cls, given):
        return np.asarray(given).view(cls)


MISSING = {
    "list with None": lambda labels: labels,
    "list with NaN": lambda labels: [float("nan") if label is None else label for label in labels],
    "list with empty text": lambda labels: [label or "" for label in labels],
    "string": lambda labels: pd.Series(labels, dtype="string"),
    "category": lambda labels: pd.Series(labels, dtype="category"),
    "object": lambda labels: pd.Series(labels, dtype=object),
    "whole numbers": lambda labels: pd.Series([label and len(label) for label in labels], dtype="Int64"),
    "yes or no": lambda labels: pd.Series([label and label == "left" for label in labels], dtype="boolean"),
    "dates": lambda labels: pd.to_datetime(pd.Series([label and f"2020-01-0{len(label)}" for label in labels])),
    "polars": pl.Series,
    "masked": lambda labels: np.ma.masked_array([label or "x" for label in labels], [not label for label in labels]),
}


# One of each way to say that there is none; what holds them differs in the long run.
SAID = {"category"}


GAPS = [None if row % 7 == 3 else label for row, label in enumerate(LABELS)]
KNOWN = np.array([label is not None for label in GAPS])


@pytest.fixture(scope="module")
def of_known():
    """Scores of the rows that have a label, without the others."""
    kept, labels = X[KNOWN], [label for label in GAPS if label]
    return {
        "micro": judge.node_classification(kept, labels, **ONCE).micro,
        "purity": judge.anchor_purity(anchored(kept, range(KNOWN.sum())), labels, random_state=0).purity,
        "nmi": judge.communities(kept, labels, n_init=1, random_state=0).nmi,
    }


@pytest.mark.parametrize("form", often(MISSING, SAID))
def test_a_missing_label_is_none_of_the_groups(form, of_known):
    given, rows, emb = MISSING[form](GAPS), X[:, :2], nf.Embedding(X)
    texts = [text.get_text() for text in nf.plots.scatter(rows, given, names="legend").get_legend().get_texts()]
    assert len(texts) == 3
    assert texts[-1] == "no label"
    shown = page_of(emb, given)
    assert [label is None for label in shown] == [not there for there in KNOWN]
    assert len(set(shown)) == 3
    words = [text.get_text() for text in nf.plots.scatter(rows, words=given).texts]
    assert len(words) <= KNOWN.sum()
    assert not {"nan", "None", "<NA>", "NaT", ""} & {*words}
    found = judge.node_classification(emb, given, **ONCE)
    assert (found.n_scored, found.n_labels) == (KNOWN.sum(), 2)
    assert found.micro == of_known["micro"]
    purity = judge.anchor_purity(anchored(X, range(N)), given, random_state=0)
    assert purity.purity == of_known["purity"]
    assert len(set(purity.labels)) <= 2
    for refuse in (judge.communities, lambda emb, labels: judge.neighborhoods(emb, X, labels=labels)):
        with pytest.raises(InputError, match=r"labels must be given for every scored row; got .* first \[3, 10, 17"):
            refuse(emb, given)
    scores = judge.communities(emb, given, nodes=KNOWN, n_init=1, random_state=0)
    assert scores.n_scored == KNOWN.sum()
    assert scores.nmi == of_known["nmi"]


def test_states_that_are_not_known_are_told():
    rng = np.random.default_rng(0)
    ids = [(node, time) for node in "abcdefgh" for time in range(5)]
    states = {key: "SI"[row % 2] for row, key in enumerate(ids)}
    emb = nf.Embedding(rng.normal(size=(N, 2)), ids)
    fewer = {key: state for row, (key, state) in enumerate(states.items()) if row % 9}
    use = lambda given: judge.reconstruct_spreading(emb, given, observed=20, n_repeats=1, random_state=0)  # noqa: E731
    accuracy = use(fewer).accuracy
    for nothing in (None, float("nan"), pd.NA, ""):
        marked = {key: fewer.get(key, nothing) for key in states}
        for given in (marked, pd.Series(marked)):
            found = use(given)
            assert set(found.states.values()) == {"S", "I"}
            assert (found.n_scored, found.accuracy) == (len(fewer) - 20, accuracy)
    with pytest.warns(NearfarWarning, match=r"infected='X' is no known state \('S', 'I'\): the"):
        judge.reconstruct_spreading(emb, states, infected="X", n_repeats=1, random_state=0)
    twice = pd.concat([pd.Series(states), pd.Series(states)[:1]])
    with pytest.raises(InputError, match="states must be one for each id; got an index with equal labels"):
        use(twice)


def test_a_mask_of_nodes_and_a_frame_of_places_go_by_id():
    emb = nf.Embedding(X, KINDS["text"])
    mask = np.arange(N) % 3 > 0
    shuffled = pd.Series(mask, index=KINDS["text"]).sample(frac=1, random_state=0)
    one, two = (judge.communities(emb, LABELS, nodes=nodes, n_init=1, random_state=0) for nodes in (mask, shuffled))
    assert (one.nmi, one.n_scored) == (two.nmi, two.n_scored)
    places = pd.DataFrame(X[:, :2], index=KINDS["text"])
    pages = [
        emb.map(given, metric="euclidean", n_jobs=1) for given in (X[:, :2], places.sample(frac=1, random_state=0))
    ]
    np.testing.assert_array_equal(pages[0].positions, pages[1].positions)
    with pytest.raises(UnknownIdError, match="positions: id must be one that it holds; got 'node 0'"):
        emb.map(places.rename({"node 0": "node x"}), metric="euclidean")


def test_columns_of_metadata_with_keys_of_their_own_go_by_these():
    emb = nf.Embedding(np.eye(4), ["a", "b", "c", "d"])
    one, other = pd.Series({"d": 4, "c": 3, "b": 2, "a": 1}), pd.Series({"b": "y", "a": "x", "c": "z"})
    for table in ({"one": one, "other": other}, {"one": one.to_dict(), "other": other.to_dict()}):
        found = emb.map(np.eye(4)[:, :2], metadata={**table, "third": list("dcba")}, metric="euclidean").columns
        values = [[[*column.names, None][code] for code in column.values] for column in found]
        assert values == [["1", "2", "3", "4"], ["x", "y", "z", None], ["a", "b", "c", "d"]]
    twice = pd.Series([1, 2, 3, 4], list("aabc"))
    with pytest.raises(
        InputError, match=r"metadata\['twice'\] must be one for each id; got an index with equal labels"
    ):
        emb.map(np.eye(4)[:, :2], metadata={"twice": twice, "one": one})
    numbered = nf.Embedding(np.eye(4), [1, 2, 3, 4])
    with pytest.warns(NearfarWarning, match="no column holds the ids: row k goes to id k"):
        [column] = numbered.map(np.eye(4)[:, :2], metadata=pd.DataFrame({"tag": list("abcd")})).columns
    assert column.values.tolist() == [0, 1, 2, 3]  # and not the three that 0 .. 3 have in common with the ids


@pytest.mark.slow
@pytest.mark.parametrize("door", ["communities", "scatter labels", "node classification"])
def test_rows_with_an_index_go_by_it(door):
    order = np.random.default_rng(2).permutation(N)
    names = pd.Index(KINDS["text"])
    frame, cells = pd.DataFrame(X, index=names), SimpleNamespace(X=X, obsm={}, obs_names=names)
    judged = {"scatter labels": nf.plots.scatter, "communities": judge.communities}.get(door, judge.node_classification)
    seed = {"scatter labels": {}, "communities": {"random_state": 0}}.get(door, ONCE)
    result = {"scatter labels": drawn, "communities": lambda found: found.nmi}.get(door, lambda found: found.micro)
    by_row = result(judged(frame, LABELS, **seed))
    for given in (frame, cells):
        obs = pd.Series(LABELS, names, dtype="category").iloc[order]
        assert result(judged(given, obs, **seed)) == by_row
