"""`nf.read`: whatever it is goes to the reader that fits, and the repr says what it was taken for, and why."""

import io
import json
import os
import warnings
from itertools import product

import edge_files
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.io
import scipy.sparse as sp
from quick import often

import nearfar as nf
from nearfar.errors import DataError, FileFormatError, InputError, NearfarError, NearfarWarning
from nearfar.reading import Points, files

GRAPH = nx.les_miserables_graph()
EDGES = [(a, b, known["weight"]) for a, b, known in GRAPH.edges(data=True)]
LIKES = pd.DataFrame({"user": ["ann", "bob", "ann"], "item": ["tea", "tea", "ink"]})


@pytest.fixture
def people(rng):
    """A table with names, labels, and columns of different kinds and scales."""
    frame = pd.DataFrame({"name": [f"p{k}" for k in range(20)], "age": rng.normal(size=20), "pay": rng.normal(size=20)})
    frame["pay"] *= 1000
    return frame.assign(plan=list("xy") * 10, species=["s", "t"] * 10)


class TestRelations:
    def same(self, found):
        wanted = nf.Relation.from_edges(GRAPH)
        assert found.row_ids.rows(wanted.row_ids).min() >= 0
        assert found.nnz == wanted.nnz
        return repr(found)

    def test_pairs_in_a_file(self, tmp_path):
        path = tmp_path / "map"  # named as a command
        path.write_text("from,to,times\n" + "".join(f"{a},{b},{w}\n" for a, b, w in EDGES))
        told = self.same(nf.read(path))
        assert told.endswith(
            "of columns 'from' -> 'to' with weight 'times' (commas, a header),"
            " a graph: two columns are named as the ends of an edge>"
        )

    @pytest.mark.parametrize("form", ["graphml", "gexf", "gml"])
    def test_graphs_in_files(self, form, tmp_path):
        path = tmp_path / "graph.xml"  # told by how it begins
        getattr(nx, f"write_{form}")(GRAPH, path)
        assert "a graph: a G" in self.same(nf.read(str(path)))

    @pytest.mark.parametrize("given", [GRAPH, EDGES, iter(EDGES), pd.DataFrame(EDGES, columns=["from", "to", "n"])])
    def test_in_memory(self, given):
        assert "a graph: " in self.same(nf.read(given))

    def test_igraph(self):
        igraph = pytest.importorskip("igraph")
        assert nf.read(igraph.Graph.Ring(5)).shape == (5, 5)

    def test_pytorch_geometric(self):
        data = pytest.importorskip("torch_geometric.data")
        torch = pytest.importorskip("torch")
        both = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        weight = torch.tensor([1.0, 1, 3, 3])
        given = data.Data(torch.ones(4, 3), edge_index=both, edge_weight=weight)
        found = nf.read(given)
        assert repr(found).endswith("a graph: it is one of torch_geometric>")
        assert found.to_scipy().toarray().tolist() == [[0, 1, 0, 0], [1, 0, 3, 0], [0, 3, 0, 0], [0, 0, 0, 0]]

    def test_edge_index_and_tensors_of_numbers(self):
        torch = pytest.importorskip("torch")
        assert nf.read(torch.tensor([[0, 1], [1, 2]])).shape == (3, 3)
        assert isinstance(nf.read(torch.eye(3)), Points)

    def test_two_kinds_by_their_names(self, tmp_path, recwarn):
        LIKES.to_parquet(tmp_path / "likes.parquet")
        for given in (LIKES, pl.from_pandas(LIKES), tmp_path / "likes.parquet"):
            found = nf.read(given)
            assert found.shape == (2, 2)
            assert not found.is_square
            assert "a relation of two kinds: 'user' and 'item' by their names" in repr(found)
        assert [str(told.message) for told in recwarn if told.category is NearfarWarning] == []

    def test_matrices(self, tmp_path):
        A = sp.random(9, 4, 0.5, format="csr", random_state=0)
        scipy.io.mmwrite(tmp_path / "m.mtx", A)
        for given in (A, tmp_path / "m.mtx"):
            np.testing.assert_allclose(nf.read(given).to_scipy().toarray(), A.toarray(), rtol=1e-6)

    def test_whole_numbers_in_two_columns_are_pairs_unless_it_is_said(self, tmp_path):
        numbers = np.array([[1, 2], [3, 4], [5, 1], [2, 2]])
        (tmp_path / "n.txt").write_text("\n".join("{},{}".format(*row) for row in numbers))
        for given in (numbers, pd.DataFrame(numbers), tmp_path / "n.txt"):
            assert isinstance(nf.read(given), nf.Relation)
            assert nf.read(given, kind="table").shape[1] == 2

    def test_a_folder_that_was_stored(self, tmp_path):
        nf.Relation.from_edges(GRAPH).save(tmp_path / "stored")
        self.same(nf.read(tmp_path / "stored"))


class TestTables:
    def test_files_and_frames_of_one_table_are_the_same_points(self, people, tmp_path):
        people.to_csv(tmp_path / "a.csv", index=False)
        people.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
        people.to_parquet(tmp_path / "a.parquet")
        people.to_json(tmp_path / "a.data", orient="records", lines=True)
        found = [nf.read(tmp_path / f"a.{end}") for end in ("csv", "tsv", "parquet", "data")]
        found += [nf.read(people), nf.read(pl.from_pandas(people)), nf.read(people.set_index("name"))]
        for points in found:
            np.testing.assert_allclose(points, found[0].vectors, rtol=1e-6)
            assert list(points.ids) == people["name"].tolist()
            assert points.known["id"] == people["name"].tolist()
            assert points.known["label"] == people["species"].tolist()
            others = people.drop(columns=["name", "species"])
            assert list(points.known) == ["id", "label", *others]
            numbers = others.select_dtypes("number")
            assert all(points.known[name] == pytest.approx(numbers[name].tolist()) for name in numbers)
            assert "labels 'species', a table: " in repr(points)
        assert (len(found[0]), found[0].shape) == (20, (20, 4))  # a plan has two coordinates

    def test_workbooks(self, people, tmp_path):
        pytest.importorskip("openpyxl")
        people.to_excel(tmp_path / "a.xlsx", index=False)
        assert nf.read(tmp_path / "a.xlsx").shape == (20, 4)

    def test_every_estimator_takes_points(self, rng):
        X = rng.normal(size=(40, 3))
        points = nf.read(pd.DataFrame(X, index=[f"p{k}" for k in range(40)]))
        positions = nf.MDS(max_iter=5).fit(points).vectors_
        assert list(positions.ids) == list(points.ids)
        np.testing.assert_array_equal(positions.vectors, nf.MDS(max_iter=5).fit(X).embedding_)

    @pytest.mark.filterwarnings("ignore:The 'future")  # of pandas, from anndata
    def test_annotated(self, rng, tmp_path):
        anndata = pytest.importorskip("anndata")
        names, genes = (pd.Index([f"{k}" for k in range(n)], dtype=object) for n in (12, 4))
        obs = pd.DataFrame({"leiden": pd.Categorical(list("ab") * 6)}, names)
        cells = anndata.AnnData(rng.normal(size=(12, 4)), obs, pd.DataFrame(index=genes))
        cells.write_h5ad(tmp_path / "cells.h5ad")
        for given in (cells, tmp_path / "cells.h5ad"):
            found = nf.read(given)
            assert found.shape == (12, 4)
            assert list(found.known["leiden"]) == list("ab") * 6


class TestVectors:
    def test_numpy_with_ids_beside(self, rng, tmp_path):
        X = rng.normal(size=(3, 5))
        np.save(tmp_path / "users.npy", X)
        assert isinstance(nf.read(tmp_path / "users.npy"), Points)
        (tmp_path / "users.txt").write_text("ann\nbob\neve\n")
        found = nf.read(tmp_path / "users.npy")
        np.testing.assert_array_equal(found["bob"], X[1])
        assert "vectors: an array of NumPy with ids in users.txt" in repr(found)
        assert "users.txt" not in repr(found.subset(["ann"]))  # of which that is not true

    def test_words(self, tmp_path):
        text = ". . 0.1 0.2 0.3\ncat 0.1 0.5 0.3\nnew york 1 2 3\nsea 1 2 5\nrum 1 2 6\nice 1 1 1\n"
        for file, head in (("glove.txt", ""), ("words", "6 3\n"), ("words.vec", "6 3\n")):
            (tmp_path / file).write_text(head + text)
            found = nf.read(tmp_path / file)
            assert list(found) == [". .", "cat", "new york", "sea", "rum", "ice"]
            assert found["cat"].tolist() == pytest.approx([0.1, 0.5, 0.3])

    def test_safetensors(self, tmp_path):
        from safetensors.numpy import save_file

        rows, others = np.eye(4, dtype=np.float32), np.ones((2, 2), np.float32)
        nf.Embedding(rows).save(tmp_path / "own.safetensors")
        save_file({"w.weight": rows, "bias": np.zeros(4)}, tmp_path / "one.safetensors")
        save_file({"item_embed": rows, "dense": others}, tmp_path / "named.safetensors")
        save_file({"a": rows, "b": others}, tmp_path / "two.safetensors")
        for file in ("own", "one", "named"):
            np.testing.assert_array_equal(nf.read(tmp_path / f"{file}.safetensors").vectors, rows)
        with pytest.raises(FileFormatError, match=r"'a' .*'b'"):
            nf.read(tmp_path / "two.safetensors")

    def test_frames_with_a_column_of_vectors(self):
        frame = pd.DataFrame({"word": ["a", "b"], "vector": [[1.0, 2], [3.0, 4]]})
        for given in (frame, pl.from_pandas(frame)):
            assert nf.read(given)["b"].tolist() == [3, 4]

    def test_what_is_read_already_stays(self):
        emb = nf.Embedding([[1.0, 2]])
        assert nf.read(emb) is emb
        assert repr(emb) == "Embedding(1 x 2 float64, ids [0])"


class TestTexts:
    def test_files_folders_and_lists(self, tmp_path):
        text = "The sea, the ship.\nA ship on the sea\n"
        (tmp_path / "book.txt").write_text(text)
        for given in (tmp_path / "book.txt", tmp_path, text.splitlines()):
            assert nf.read(given).vocabulary().counts.tolist() == [3, 2, 2, 1, 1]
        assert repr(nf.read(tmp_path)).endswith("a text: a folder of 1 text; words without punctuation>")

    def test_a_folder_of_other_files(self, tmp_path):
        for file in ("a.csv", "b.csv", "c.png", "d.txt"):
            (tmp_path / file).write_text("a b\n")
        with pytest.raises(InputError, match=r"a folder of 2 \.csv, 1 \.png, 1 \.txt\. Name one"):
            nf.read(tmp_path)
        assert isinstance(nf.read(tmp_path, kind="text"), nf.Corpus)


class TestRefusals:
    @pytest.mark.parametrize("name", ["foreign", pytest.param("foreign_more", marks=pytest.mark.slow)])
    def test_files_of_others(self, name, tmp_path):
        """Each is read, or refused in words of ours."""
        for file in edge_files.blocks(name):
            path = tmp_path / file.slug
            path.write_text(file.text, "utf-8")
            try:
                said = repr(nf.read(path))
            except NearfarError as error:
                said = str(error)
            assert ": " in said, file.slug

    def test_what_is_no_file(self, tmp_path):
        (tmp_path / "empty.csv").write_text("")
        with pytest.raises(DataError, match="which is empty"):
            nf.read(tmp_path / "empty.csv")

    def test_lines_of_neighbours(self, tmp_path):
        (tmp_path / "metis").write_text("4 3\n2\n1 3\n2 4\n3\n")
        with pytest.raises(DataError, match="lines of numbers"):
            nf.read(tmp_path / "metis")

    @pytest.mark.parametrize("end", [".npy", ".xlsx", ".h5ad", ".safetensors", ".parquet"])
    def test_damage(self, end, tmp_path):
        (tmp_path / f"file{end}").write_bytes(b"\x00\x01 no such file")
        with pytest.raises(NearfarError):
            nf.read(tmp_path / f"file{end}")


def test_of_a_huge_file_a_sample_is_read_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_SAMPLE", 1 << 16)
    path = tmp_path / "huge.csv"
    path.write_text("".join(f"u{k},u{k + 1}\n" for k in range(10_000)))
    try:
        os.truncate(path, 100 * 10**9)
    except OSError:
        pytest.skip("no sparse files here")
    with pytest.warns(NearfarWarning, match=r"has 100\.0 GB: the first 0\.1 MB were read, as a sample"):
        found = nf.read(path)
    assert 1000 < found.nnz < 20_000
    assert found.neighbors("u1") == [("u0", 1.0), ("u2", 1.0)]


GROUPS = product((("user", "item"), ("age", "pay", "rent", "size")), (1, 50))


@pytest.mark.parametrize(("names", "n_groups"), often(GROUPS, lambda names, n: n == 1 and "item" in names))
def test_of_a_huge_parquet_file_some_row_groups_are_read(tmp_path, monkeypatch, rng, names, n_groups):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n = 120_000 // len(names)
    draw = (lambda: rng.integers(n, size=n)) if len(names) == 2 else (lambda: rng.normal(size=n))
    table = pa.table({name: draw() for name in names})
    parquet.write_table(table, tmp_path / "huge.parquet", row_group_size=n // n_groups, use_dictionary=False)
    whole = nf.read(tmp_path / "huge.parquet")
    monkeypatch.setattr(files, "_HUGE", 1 << 18)
    monkeypatch.setattr(files, "_ROWS_READ", 1 << 16)
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with pytest.warns(NearfarWarning, match=r"of \d+0,000 rows were read, as a sample"):
            found = nf.read(tmp_path / "huge.parquet")
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < table.nbytes / 2
    assert type(found) is type(whole)
    size = found.nnz if len(names) == 2 else len(found)
    assert n / 100 < size < n / 4
    if len(names) == 4 and n_groups > 1:
        assert np.isin(found.vectors[-5:], whole.vectors[-2 * n // n_groups :]).all()  # from its end, too


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of anndata with later packages
@pytest.mark.parametrize("sparse", [None, "csr", "csc"])
def test_of_huge_annotated_data_some_rows_are_read(tmp_path, monkeypatch, rng, sparse):
    """Columns of categories, and of numbers with gaps."""
    anndata = pytest.importorskip("anndata")
    path, X = tmp_path / "huge.h5ad", rng.normal(size=(1000, 20)) * (rng.random((1000, 20)) < 0.5)
    kinds = pd.Categorical.from_codes(np.arange(1000) % 2, pd.Index(["a", "b"], dtype=object))
    age = pd.array([None if row == 7 else row for row in range(1000)], "Int64")
    names, genes = (pd.Index([f"{what}{k}" for k in range(n)], dtype=object) for what, n in (("cell", 1000), ("g", 20)))
    obs = pd.DataFrame({"kind": kinds, "age": age}, names)
    held = X if sparse is None else sp.coo_matrix(X).asformat(sparse)
    anndata.AnnData(held, obs, pd.DataFrame(index=genes)).write_h5ad(path)
    np.testing.assert_array_equal(np.asarray(nf.read(path)), X)
    monkeypatch.setattr(files, "_HUGE", 1000)
    monkeypatch.setattr(files, "_ROWS_READ", 30_000)
    with pytest.warns(NearfarWarning, match=r"of 1,000 rows were read, as a sample"):
        found = nf.read(path)
    rows = [int(name[4:]) for name in found.ids]
    assert 100 < len(rows) < 400
    assert rows[0] < 100
    assert rows[-1] > 900
    np.testing.assert_array_equal(np.asarray(found), X[rows])
    assert found.known["kind"] == ["ab"[row % 2] for row in rows]
    assert found.known["age"] == [None if row == 7 else row for row in rows]


@pytest.mark.parametrize("mode", ["r", "rb"])
@pytest.mark.parametrize(
    "content",
    [
        "a,b\nb,c\nc,a\n",
        "name,weight,height\n" + "".join(f"n{i},{i}.5,{i * i % 7}.25\n" for i in range(20)),
        "The sea is wide and blue.\nThe ship sails on the sea.\nA bird flies over the ship.\n" * 4,
    ],
    ids=["edges", "table", "text"],
)
def test_an_open_file_is_what_its_path_is(tmp_path, content, mode):
    (tmp_path / "given").write_text(content)
    with (tmp_path / "given").open(mode) as file:
        found, expected = nf.read(file), nf.read(tmp_path / "given")
    assert type(found) is type(expected)
    assert str(found).partition(",")[2] == str(expected).partition(",")[2]  # behind the name of the file


def test_an_open_file_may_hold_what_another_tool_wrote():
    graph = nx.karate_club_graph()
    texts = [json.dumps(nx.node_link_data(graph)).encode(), b'{"from": "a", "to": "b"}\n{"from": "b", "to": "c"}\n']
    for write in (nx.write_graphml, nx.write_gexf):
        write(graph, file := io.BytesIO())
        texts.append(file.getvalue())
    sizes = [nf.read(io.BytesIO(text)).shape for text in texts]
    assert sizes == [(34, 34), (3, 3), (34, 34), (34, 34)]
    assert nf.read(io.StringIO(texts[0].decode())).shape == (34, 34)


def test_a_square_of_distances_is_told_and_stays_as_it_is(tmp_path):
    D = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) * 7.5
    for name in ("", "place"):
        pd.DataFrame(D, list("abcdef"), list("abcdef")).rename_axis(name).to_csv(tmp_path / "far.csv")
        with pytest.warns(NearfarWarning, match="may be distances between the rows: metric='precomputed'"):
            found = nf.read(tmp_path / "far.csv")
        np.testing.assert_array_equal(found.vectors, D)
        assert found.ids.to_list() == list("abcdef")
    pd.DataFrame(D + np.eye(6), list("abcdef"), list("abcdef")).to_csv(tmp_path / "near.csv")
    assert "distances" not in str(nf.read(tmp_path / "near.csv"))


def test_the_row_that_sums_up_the_others_is_left_out_and_that_is_said(tmp_path):
    rows = "".join(f"town {i},{i + 0.5},{2 * i + 0.25},{9.5 - i}\n" for i in range(14))
    (tmp_path / "towns.csv").write_text(f"place,2020,2021,2022\n{rows}Total,98,185.5,42\n")
    with pytest.warns(NearfarWarning, match="the last row, 'Total', sums up the others"):
        assert nf.read(tmp_path / "towns.csv").ids.to_list() == [f"town {i}" for i in range(14)]


def test_a_count_is_a_weight_before_a_share(tmp_path):
    rows = "".join(f"player {i % 5},E{i % 7:02},{i % 4 + 1},{i % 9 + 0.5}\n" for i in range(30))
    (tmp_path / "openings.csv").write_text(f"player,opening,n_games,score_pct\n{rows}")
    assert nf.read(tmp_path / "openings.csv").describe()["columns"]["weight"] == "n_games"


def test_names_with_commas_between_semicolons_are_no_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("height, cm;weight, kg\n1,5;2,5\n1,7;2,9\n")
    assert nf.read(tmp_path / "t.csv").vectors.tolist() == [[1.5, 2.5], [1.7, 2.9]]


@pytest.mark.slow
def test_thousands_of_columns(tmp_path):
    lines = [
        ",".join(f"gene{k}" for k in range(1200)),
        *[",".join(f"{k * row % 97}.5" for k in range(1200)) for row in (1, 2, 3)],
    ]
    (tmp_path / "wide.csv").write_text("\n".join(lines))
    assert nf.read(tmp_path / "wide.csv").vectors.shape == (3, 1200)


def rows_of(names, *forms, n=24):
    """Return a table of so many rows; each is one of the forms in turn, with eight digits that are drawn, and k."""
    draws = np.random.default_rng(0).integers(10, size=(n, 8)).tolist()
    return "\n".join([names, *(forms[k % len(forms)].format(*draws[k], k=k + 10) for k in range(n))]) + "\n"


HITS = [{"user": f"u{k % 3}", "item": f"i{k}"} for k in range(9)]
OF_EDGES = [
    (rows_of("Context,Relation,Related context", "1{0},cuts,1{1}"), (0, 2)),
    (rows_of("Ligand Name,Target Name,Target Source Organism", "L{0},T{1}y,h", "M{0},T{1}y,m"), (0, 1)),
    (rows_of("NIF emisor;NIF receptor;IVA;Total", "B{0};B{1}1;.{2};{2}.{0}"), (0, 1)),
    (rows_of("fisher_mmsi,carrier_mmsi,lat,lon,km", "41{0}00,35{1}00,{2}.5,{0}.{1},.{k}"), (0, 1)),  # two keys
    (rows_of("RIV_ID,NEXT_DOWN,LENGTH_KM,FLOW", "2{k}00,21{0}00,{0}.{1},{1}.5"), (0, 1)),
    (rows_of("pupil,friend_1,friend_2,friend_3", "p{k},q{0},q{1}9,q{2}"), (0, 1)),
    (rows_of("infectee,infector,room", "N{k},N{0},{1}", "N{k},N{1},"), (0, 1)),  # a room that some lack is no weight
    ("EXTF;700;21;a;13;2024;x\n" + rows_of("Konto;Gegenkonto;Text;Umsatz", "a{0};b{1};q;{0}"), (0, 1)),
    *((json.dumps({"page": 1, "hits": HITS}, indent=indent), None) for indent in (None, 2)),
    (json.dumps(nx.node_link_data(GRAPH, edges="links"), indent=2), None),
]


@pytest.mark.parametrize(("text", "ends"), OF_EDGES)
def test_edges_that_people_have(text, ends, tmp_path):
    path = tmp_path / ("a.csv" if ends else "a.json")
    path.write_text(text)
    names = text.split("\n")[text.startswith("EXTF")].replace(";", ",").split(",")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)
        for found in (nf.read(path), nf.Relation.from_edges(path, bipartite=None)):
            assert isinstance(found, nf.Relation)
            taken = found.describe()["columns"] if ends else {}
            assert not ends or [taken["source"], taken["target"]] == [names[end] for end in ends]
            assert taken.get("weight") != "room"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Run\t9\n\n" + rows_of("Well\tSample\tCT\tSD\tTm", "A{k}\tS{0}\t{0}.{1}\t{1}.{0}\t{2}.{0}"), "as a title"),
        (rows_of("site;date;pH;PO4", "E1;2020-01-{k};7,{0};<0,02", "E2;2020-01-{k};7,{1};0,{0}"), "'<0,02'"),
        (rows_of("name,uic,x,y", "s{k},84{0}{1}{k}0,{0}.{1},{1}.{0}"), "as many digits"),
    ],
)
def test_points_that_people_have(text, told, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.warns(NearfarWarning, match=told):
        assert isinstance(nf.read(tmp_path / "a.csv"), Points)


def test_texts_that_people_have(tmp_path):
    said = [
        {"id": k, "tags": ["a"], "body": f"the red letter number {k} of the queen about her ships"} for k in range(20)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, said)))
    forms = "N {k}\tAct {0}{k}\tletters of year {k}\tum {k}9\t", "N {k}\t\tletters of year {k}\tum {k}9\tTown {0}{k}"
    (tmp_path / "a.tsv").write_text(rows_of("Signatur\tTitel\tInhalt\tZeit\tOrt", *forms))
    assert all(isinstance(nf.read(tmp_path / name), nf.Corpus) for name in ("a.jsonl", "a.tsv"))
