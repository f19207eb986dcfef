"""Tables of databases: what comes back is what went in, a table that is there is safe, a failure leaves nothing."""

import importlib
import sqlite3
import sys
from types import SimpleNamespace

import numpy as np
import postgres_server
import pytest

import nearfar as nf
from nearfar.cli import main
from nearfar.embedding import files
from nearfar.errors import FileFormatError, InputError, MissingDependencyError, NearfarWarning

TEXT = ["ann", "Zoë", "50%", "new york", "日本", "", 'it\'s "quoted"', "tab\tid", "a\nb", "<script>"]


def numbers(rng, n, d):
    """Irregular numbers of float32: large, tiny, subnormal, negative zero."""
    X = (rng.standard_normal((n, d)) * 10.0 ** rng.integers(-40, 38, (n, d))).astype(np.float32)
    X.flat[0] = -0.0
    return X


def sqlite_file(folder):
    pytest.importorskip("sqlite_vec")
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.importorskip("pysqlite3")
    return f"{folder}/x.sqlite"


@pytest.fixture
def sqlite_place(tmp_path):
    file = sqlite_file(tmp_path)
    return lambda name: f"{file}#{name}"


@pytest.fixture
def lance_place(tmp_path):
    pytest.importorskip("lancedb")
    return lambda name: f"{tmp_path}/{name}.lance"


@pytest.fixture(scope="module")
def server():
    """The address of a running server."""
    pytest.importorskip("psycopg")
    folder = postgres_server.programs()
    if folder is None:
        pytest.skip("no PostgreSQL with pgvector here: tests/support/postgres_server.py says how to get one")
    with postgres_server.running(folder) as address:
        yield address


@pytest.fixture
def postgres(server):
    """The address of an empty database."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS public")
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return server


@pytest.fixture
def postgres_place(postgres):
    return lambda name: f"{postgres}#{name}"


@pytest.fixture(params=["sqlite", "lance", "postgres"])
def place(request):
    """What gives the address of a table by its name."""
    return request.getfixturevalue(f"{request.param}_place")


KNOWN = {
    "genre": ["jazz", "rock", ""],
    "year": [1999, -1, 2**62],
    "score": [0.5, None, 2.0],
    "ok": [True, False, True],
}


class TestContract:
    """What every database keeps to."""

    def test_ids_parameters_and_vectors_come_back_to_the_bit(self, rng, place):
        for at, ids in enumerate([TEXT, [7, -1, 2**62, 0, *range(20, 26)]]):
            emb = nf.Embedding(numbers(rng, len(ids), 3), ids, parameters={"seed": 1, "of": [1.5, None]})
            emb.save(place(f"t{at}"))
            again = nf.Embedding.load(place(f"t{at}"))
            assert again.equals(emb)
            assert again.parameters == emb.parameters

    def test_many_rows_one_row_no_rows(self, rng, place):
        many = nf.Embedding(rng.standard_normal((4099, 2)).astype(np.float32), [f"w {i}" for i in range(4099)])
        for name, emb in {"many": many, "one": many.subset(["w 7"]), "none": many.subset([])}.items():
            emb.save(place(name))
            assert nf.Embedding.load(place(name)).equals(emb)

    def test_a_table_has_a_name_of_its_own_or_a_common_one(self, rng, place):
        emb = nf.Embedding(numbers(rng, 2, 3))
        for name in ("my table", 'a"b', "from") if "#" in place("t") else ("a-b.c", "from"):
            emb.save(place(name))
            assert nf.Embedding.load(place(name)).equals(emb)

    def test_a_table_that_is_there_is_refused_replaced_or_added_to(self, rng, place):
        old, new = (nf.Embedding(numbers(rng, 3, 4), ids) for ids in (["a", "b", "c"], ["d", "e", "f"]))
        old.save(place("t"))
        with pytest.raises(InputError, match=r"path must be a table that is not there yet; got .*t. if_exists="):
            new.save(place("t"))
        with pytest.raises(InputError, match="path must be a table that is not there yet"):
            files.registry.check_output("nearfar embed", place("t"))  # before any work
        assert nf.Embedding.load(place("t")).equals(old)
        new.save(place("t"), if_exists="append")
        both = nf.Embedding(np.concatenate([old.vectors, new.vectors]), [*old, *new])
        assert nf.Embedding.load(place("t")).equals(both)
        with pytest.raises(InputError, match="ids must be other ids than those in"):
            nf.Embedding(numbers(rng, 2, 4), ["g", "b"]).save(place("t"), if_exists="append")
        assert nf.Embedding.load(place("t")).equals(both)
        nf.Embedding(numbers(rng, 3, 2), [1, 2, 3]).save(place("t"), if_exists="replace")
        assert nf.Embedding.load(place("t")).shape == (3, 2)
        with pytest.raises(InputError, match="if_exists must be one of"):
            new.save(place("t"), if_exists="overwrite")

    def test_rows_of_another_kind_are_not_added(self, rng, place):
        emb = nf.Embedding(numbers(rng, 3, 4), ["a", "b", "c"])
        emb.save(place("t"))
        for other in (nf.Embedding(numbers(rng, 1, 5), ["d"]), nf.Embedding(numbers(rng, 1, 4), [5])):
            with pytest.raises(InputError, match=r"must be a table for ids that are .* and vectors of . numbers"):
                other.save(place("t"), if_exists="append")
        assert nf.Embedding.load(place("t")).equals(emb)

    def test_what_a_table_cannot_hold_is_refused_before_there_is_one(self, rng, place):
        X = np.ones((2, 2))
        for ids in (["a", 1], ["a", ("b", 1)], ["a", "\ud800"]):
            with pytest.raises(InputError, match="ids must be"):
                nf.Embedding(X, ids).save(place("t"))
        with pytest.raises(InputError, match=r"path must be a (table|file|folder) that"):
            nf.Embedding.load(place("t"))

    def test_an_error_while_writing_leaves_what_was_there(self, rng, place, monkeypatch):
        emb = nf.Embedding(rng.standard_normal((9000, 2)).astype(np.float32))
        emb.save(place("t"))
        content = emb._content()
        X = content.vectors

        class Broken:
            """Vectors of which the second block cannot be had."""

            shape, dtype = X.shape, X.dtype

            def __len__(self):
                return len(emb)

            def __getitem__(self, rows):
                if rows.start > 4000:
                    raise OSError("no more rows")
                return X[rows]

        content.vectors = Broken()
        kind = files.FORMATS[files.registry.format_of("test", place("t"))]
        for name, how in (("t", "replace"), ("new", "fail")):
            target = files.registry.target_of("test", kind, place(name), how)
            with pytest.raises(OSError, match="no more rows"):
                kind.write(content, target)
        assert nf.Embedding.load(place("t")).equals(emb)
        with pytest.raises(InputError, match="path must be a table that is there"):
            nf.Embedding.load(place("new"))

    def test_a_nul_in_an_id_comes_back_or_is_refused(self, rng, place):
        emb = nf.Embedding(numbers(rng, 2, 3), ["a\0b", "a\0c"])
        try:
            emb.save(place("t"))
        except InputError as error:
            assert error.argument == "ids"  # noqa: PT017
        else:
            assert nf.Embedding.load(place("t")).equals(emb)

    def test_the_other_side_is_left_out_with_a_word(self, rng, place):
        two = nf.Embedding(numbers(rng, 2, 3), ["a", "b"], context_vectors=numbers(rng, 1, 3), context_ids=["c"])
        with pytest.warns(NearfarWarning, match="context vectors are left out"):
            two.save(place("t"))
        assert nf.Embedding.load(place("t")).equals(two.side("vectors"))

    def test_quantised_and_anchored_vectors_are_written_as_floats(self, rng, place):
        emb = nf.Embedding(rng.standard_normal((9, 4)).astype(np.float32))
        emb.save(place("q"), quantize="int8")
        assert np.array_equal(nf.Embedding.load(place("q")).vectors, emb.quantize("int8").vectors)
        anchored = nf.AnchoredEmbedding(rng.random((4, 3)) + 0.1, rng.standard_normal((3, 2)).astype(np.float32))
        anchored.save(place("a"))
        assert np.array_equal(nf.Embedding.load(place("a")).vectors, anchored.vectors)

    def test_float64_is_rounded_and_what_float32_lacks_is_refused(self, rng, place):
        X = rng.standard_normal((3, 2))
        nf.Embedding(X).save(place("t"))
        assert np.array_equal(nf.Embedding.load(place("t")).vectors.astype(np.float32), X.astype(np.float32))
        if not place("u").endswith(".lance"):
            with pytest.raises(InputError, match="vectors must be numbers that float32 can hold"):
                nf.Embedding(X * 1e60).save(place("u"))

    def test_the_command_line_takes_it(self, rng, place, tmp_path, fails, shown):
        emb = nf.Embedding(numbers(rng, 3, 4), ["ann", "bob", "cem"])
        emb.save(tmp_path / "a.safetensors")
        assert main(["convert", f"{tmp_path}/a.safetensors", place("t")]) == 0
        told = fails("convert", f"{tmp_path}/a.safetensors", place("t"))
        assert "path must be a table that is not there yet" in told
        assert "nearfar convert --if-exists replace replaces it, --if-exists append adds rows" in told
        assert main(["convert", f"{tmp_path}/a.safetensors", place("t"), "--if-exists", "replace"]) == 0
        assert main(["convert", place("t"), f"{tmp_path}/b.safetensors"]) == 0
        assert nf.Embedding.load(tmp_path / "b.safetensors").equals(emb)
        assert main(["similar", place("t"), "ann", "--topn", "1"]) == 0
        assert "ann, bob, cem" in shown("info", place("t"))


class TestMetadata:
    """Columns beside id and vector."""

    @staticmethod
    def lines(place):
        """Return the lines of the table t by the database's own program, without the vectors."""
        names = ["id", "genre", "year", "score", "ok"]
        if place("t").endswith(".lance"):
            import lancedb

            folder, _, _ = place("t").rpartition("/")
            table = lancedb.connect(folder).open_table("t").to_arrow()
            return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))
        base = place("t").rpartition("#")[0]
        if base.startswith("postgres"):
            import psycopg

            with psycopg.connect(base) as server:
                return sorted(server.execute(f"SELECT {', '.join(names)} FROM t").fetchall())
        with TestSqlite().connect(base) as database:
            return sorted(database.execute(f"SELECT {', '.join(names)} FROM t").fetchall())

    def test_columns_are_there_for_others_and_can_be_added_to(self, rng, place):
        emb = nf.Embedding(numbers(rng, 3, 4), ["a", "b", "c"], parameters={"seed": 1})
        emb.save(place("t"), metadata=KNOWN | {"id": ["a", "b", "c"]})
        assert nf.Embedding.load(place("t")).equals(emb)
        assert self.lines(place) == sorted(zip("abc", *KNOWN.values(), strict=True))
        more = nf.Embedding(numbers(rng, 2, 4), ["d", "e"])
        added = {"ok": [False, True], "who": ["e", "d"], "year": [5, 6], "score": [None, 1], "genre": ["x", "y"]}
        more.save(place("t"), metadata=added, id_column="who", if_exists="append")
        assert self.lines(place)[3:] == [("d", "y", 6, 1.0, True), ("e", "x", 5, None, False)]
        before = self.lines(place)
        last = nf.Embedding(numbers(rng, 1, 4), ["f"])
        whole = {"genre": ["z"], "year": [1], "score": [1.0], "ok": [True]}
        for wrong in ({"year": ["soon"]}, {"extra": [1]}):
            with pytest.raises(InputError, match=r"metadata must be columns of .*, which has 'genre' \(text\), 'year'"):
                last.save(place("t"), metadata=whole | wrong, if_exists="append")
        assert self.lines(place) == before
        emb.save(place("t"), metadata={"other": [1, 2, 3]}, if_exists="replace")
        assert nf.Embedding.load(place("t")).equals(emb)

    def test_rows_without_metadata_leave_gaps_or_are_refused(self, rng, place):
        emb, more = (nf.Embedding(numbers(rng, len(ids), 4), ids) for ids in (["a", "b", "c"], ["d"]))
        emb.save(place("t"), metadata=KNOWN | {"id": ["a", "b", "c"]})
        if ".sqlite" in place("t"):
            with pytest.raises(
                InputError, match=r"metadata must be given for each column of .*t; got none for 'genre'"
            ):
                more.save(place("t"), if_exists="append")
            with pytest.raises(InputError, match="metadata must be without gaps where the table has none"):
                more.save(place("t"), metadata=KNOWN | {"id": ["d", 1, 2], "genre": [None] * 3}, if_exists="append")
            assert nf.Embedding.load(place("t")).equals(emb)
        else:
            more.save(place("t"), if_exists="append")
            assert self.lines(place)[3] == ("d", None, None, None, None)

    def test_names_of_columns(self, rng, place):
        emb = nf.Embedding(numbers(rng, 2, 3))
        if ".sqlite" in place("t"):
            for name in ("my genre", "größe", "a;b", "distance", "K"):
                with pytest.raises(InputError, match=f"metadata must be columns whose names are letters.*got {name}"):
                    emb.save(place("t"), metadata={name: [1, 2]})
            with pytest.raises(InputError, match="distinct without case"):
                emb.save(place("t"), metadata={"a": [1, 2], "A": [1, 2]})
            with pytest.raises(InputError, match="at most 16 columns without gaps for this format; got 17"):
                emb.save(place("t"), metadata={f"c{i}": [1, 2] for i in range(17)})
            many = {f"c{i}": [1, 2] for i in range(16)} | {f"d{i}": [True, None] for i in range(16)}
            emb.save(place("t"), metadata=many)
            return
        for name in ("my genre", "größe", 'a"b', "d", "select"):
            emb.save(place("t"), metadata={name: [1, 2]}, if_exists="replace")
            emb.side("vectors").subset([0]).save(place("u"), metadata={name: [1]}, if_exists="replace")
            assert nf.Embedding.load(place("t")).equals(emb)
        if place("t").startswith("postgres"):
            with pytest.raises(InputError, match="metadata must be columns whose names have at most 63 bytes"):
                emb.save(place("t"), metadata={"ö" * 32: [1, 2]}, if_exists="replace")
            with pytest.raises(InputError, match="metadata must be text that the server can hold, without NUL"):
                emb.save(place("t"), metadata={"t": ["a\0b", ""]}, if_exists="replace")
            assert nf.Embedding.load(place("t")).equals(emb)

    def test_sqlite_filters_by_them(self, rng, sqlite_place):
        emb = nf.Embedding(rng.standard_normal((50, 8)), [f"w{i}" for i in range(50)])
        emb.save(sqlite_place("t"), metadata={"group": [i % 5 for i in range(50)]})
        query = emb.vectors[7].astype(np.float32).tobytes()
        with TestSqlite().connect(sqlite_place("t").partition("#")[0]) as database:
            found = database.execute(
                'SELECT id FROM t WHERE vector MATCH ? AND k = 5 AND "group" = 3', (query,)
            ).fetchall()
        allowed = [f"w{i}" for i in range(3, 50, 5)]
        assert [key for (key,) in found] == [key for key, _ in emb.subset(["w7", *allowed]).most_similar("w7", topn=5)]

    def test_the_command_line(self, rng, place, tmp_path, capsys):
        emb = nf.Embedding(numbers(rng, 3, 4), ["a", "b", "c"])
        emb.save(tmp_path / "a.safetensors")
        (tmp_path / "k.csv").write_text("gene,genre,year,score,ok\nb,x,2,,5\na,y,1,.5,6\nc,z,3,2,7\n")
        assert main(["convert", f"{tmp_path}/a.safetensors", place("t"), "--metadata", f"{tmp_path}/k.csv"]) == 0
        assert self.lines(place) == [("a", "y", 1, 0.5, 6), ("b", "x", 2, None, 5), ("c", "z", 3, 2.0, 7)]
        assert main(["similar", place("t"), "a", "--topn", "1"]) == 0


class TestSqlite:
    @pytest.fixture
    def file(self, tmp_path):
        return sqlite_file(tmp_path)

    def connect(self, file):
        module = (
            sqlite3 if hasattr(sqlite3.Connection, "enable_load_extension") else importlib.import_module("pysqlite3")
        )
        database = module.connect(file)
        database.enable_load_extension(True)
        importlib.import_module("sqlite_vec").load(database)
        return database

    def test_others_find_the_nearest(self, rng, file):
        emb = nf.Embedding(rng.standard_normal((50, 8)), [f"w{i}" for i in range(50)])
        emb.save(file)
        query = emb.vectors[7].astype(np.float32).tobytes()
        found = (
            self.connect(file)
            .execute("SELECT id, distance FROM embedding WHERE vector MATCH ? AND k = 4", (query,))
            .fetchall()
        )
        assert found[0][0] == "w7"
        wanted = emb.most_similar("w7", topn=3)
        assert [key for key, _ in found[1:]] == [key for key, _ in wanted]
        np.testing.assert_allclose([1 - far for _, far in found[1:]], [near for _, near in wanted], atol=1e-6)

    def test_other_tables_of_the_file_stay(self, rng, file):
        with self.connect(file) as database:
            database.execute("CREATE TABLE people (name TEXT)")
            database.execute("INSERT INTO people VALUES ('ann')")
        database.close()
        nf.Embedding(numbers(rng, 2, 3)).save(file)
        assert self.connect(file).execute("SELECT * FROM people").fetchall() == [("ann",)]
        with pytest.raises(InputError, match=r"a table that is not there yet; got .*#people"):
            nf.Embedding(numbers(rng, 2, 3)).save(f"{file}#people")
        with pytest.raises(FileFormatError, match="one with the columns 'id' and 'vector'; got columns name"):
            nf.Embedding.load(f"{file}#people")
        with pytest.raises(InputError, match="It has 'embedding'; #NAME behind the path names one"):
            nf.Embedding.load(f"{file}#items")

    def test_tables_by_others(self, file):
        with self.connect(file) as database:
            database.execute("CREATE TABLE plain (vector BLOB, id INTEGER, more TEXT)")
            database.execute("INSERT INTO plain VALUES (?, 5, 'x')", (np.array([1, 2], np.float32).tobytes(),))
            database.execute("CREATE VIEW seen AS SELECT vector, more AS id FROM plain")
            database.execute("CREATE TABLE ragged (vector BLOB, id INTEGER)")
            database.executemany("INSERT INTO ragged VALUES (?, ?)", [(b"\0" * 8, 1), (b"\0" * 4, 2)])
            database.execute("CREATE TABLE texts (vector TEXT, id INTEGER)")
            database.execute("INSERT INTO texts VALUES ('[1, 2]', 1)")
            database.execute("CREATE TABLE twice (vector BLOB, id TEXT)")
            database.executemany("INSERT INTO twice VALUES (?, 'a')", [(b"\0" * 8,)] * 2)
            database.execute("CREATE VIRTUAL TABLE small USING vec0(id INTEGER PRIMARY KEY, vector int8[8])")
        database.close()
        assert (
            nf.Embedding.load(f"{file}#plain")[5].tolist() == nf.Embedding.load(f"{file}#seen")["x"].tolist() == [1, 2]
        )
        for name, message in {
            "ragged": "one whose vectors are float32, all of one length",
            "texts": "one whose vectors are float32, all of one length",
            "twice": "one whose ids are distinct",
            "small": "one of sqlite-vec with a column 'vector' of floats",
        }.items():
            with pytest.raises(FileFormatError, match=f"#{name}: table must be {message}"):
                nf.Embedding.load(f"{file}#{name}")

    def test_files_that_are_none_or_are_not_there(self, rng, file, tmp_path):
        emb = nf.Embedding(numbers(rng, 2, 3))
        with pytest.raises(InputError, match="no such file"):
            nf.Embedding.load(file)
        (tmp_path / "x.sqlite").write_bytes(b"no database " * 100)
        for use in (emb.save, nf.Embedding.load):
            with pytest.raises(InputError, match="path must be a SQLite database; got another file"):
                use(file)
        with pytest.raises(InputError, match="in a folder that exists"):
            emb.save(tmp_path / "nowhere" / "x.db")

    def test_a_full_disk_leaves_the_old_table_or_no_file(self, rng, file, tmp_path, monkeypatch):
        from nearfar.embedding.files import sqlite

        old = nf.Embedding(numbers(rng, 2, 3))
        old.save(file)
        module = sqlite._module(files.DatabaseTable("test", file))
        connect = module.connect

        def small(*args, **kwargs):
            database = connect(*args, **kwargs)
            database.execute("PRAGMA max_page_count = 40")
            return database

        monkeypatch.setattr(module, "connect", small)
        large = nf.Embedding(rng.standard_normal((5000, 64)))
        with pytest.raises(OSError, match="No space left"):
            large.save(file, if_exists="replace")
        assert nf.Embedding.load(file).equals(old)
        with pytest.raises(OSError, match="No space left"):
            large.save(tmp_path / "new.sqlite")
        assert [path.name for path in tmp_path.iterdir()] == ["x.sqlite"]

    def test_a_table_of_ours_by_others(self, rng, file):
        with self.connect(file) as database:
            database.execute("CREATE TABLE nearfar (words TEXT)")
        database.close()
        with pytest.raises(InputError, match="a database that SQLite can write to; got table nearfar has 1 columns"):
            nf.Embedding(numbers(rng, 2, 3)).save(file)
        assert self.connect(file).execute("SELECT name FROM sqlite_master").fetchall() == [("nearfar",)]

    def test_vectors_that_are_too_long_are_refused(self, file, tmp_path):
        with pytest.raises(InputError, match="a table that sqlite-vec can make; got vec0 constructor error: Dimension"):
            nf.Embedding(np.ones((1, 9000))).save(file)
        assert not list(tmp_path.iterdir())

    def test_a_database_that_is_being_written_to(self, rng, file, monkeypatch):
        from nearfar.embedding.files import sqlite

        monkeypatch.setattr(sqlite, "_WAIT", 0.01)
        nf.Embedding(numbers(rng, 2, 3)).save(file)
        other = self.connect(file)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InputError, match="a database that nobody else is using"):
            nf.Embedding(numbers(rng, 2, 3)).save(f"{file}#new")
        other.close()

    def test_a_table_that_is_replaced_while_it_is_read(self, rng, file, monkeypatch):
        from nearfar.embedding.files import sqlite

        monkeypatch.setattr(sqlite, "_WAIT", 0.01)
        old, new = (nf.Embedding(numbers(rng, 2, 3), parameters={"version": n}) for n in range(2))
        old.save(file)
        read = sqlite._parameters

        def and_replace(database, place):
            told = read(database, place)
            monkeypatch.setattr(sqlite, "_parameters", read)
            with pytest.raises(InputError, match="a database that nobody else is using"):
                new.save(file, if_exists="replace")
            return told

        monkeypatch.setattr(sqlite, "_parameters", and_replace)
        loaded = nf.Embedding.load(file)
        assert loaded.equals(old)
        assert loaded.parameters == {"version": 0}

    def test_what_another_has_written_is_not_removed(self, rng, file, monkeypatch):
        from nearfar.embedding.files import sqlite

        emb, check = nf.Embedding(numbers(rng, 2, 3)), sqlite._check_new

        def after_another(place, database):
            monkeypatch.setattr(sqlite, "_check_new", check)
            database.execute("ROLLBACK")
            emb.save(f"{file}#theirs")
            raise KeyboardInterrupt

        monkeypatch.setattr(sqlite, "_check_new", after_another)
        with pytest.raises(KeyboardInterrupt):
            emb.save(f"{file}#mine")
        assert nf.Embedding.load(f"{file}#theirs").equals(emb)

    def test_what_is_missing_is_named(self, rng, tmp_path, monkeypatch):
        emb = nf.Embedding(numbers(rng, 2, 3))
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "sqlite_vec", None)
            with pytest.raises(MissingDependencyError, match=r"needs sqlite_vec.*pip install 'nearfar\[sqlite-vec\]'"):
                emb.save(tmp_path / "x.sqlite")
        pytest.importorskip("sqlite_vec")
        monkeypatch.setitem(sys.modules, "sqlite3", SimpleNamespace(Connection=object))
        monkeypatch.setitem(sys.modules, "pysqlite3", None)
        with pytest.raises(MissingDependencyError, match=r"sqlite3 of this Python.*'nearfar\[sqlite-vec\]'"):
            emb.save(tmp_path / "x.sqlite")
        assert not list(tmp_path.iterdir())


class TestLance:
    def test_others_find_the_nearest_and_float64_stays(self, rng, lance_place, tmp_path):
        emb = nf.Embedding(rng.standard_normal((50, 8)), [f"w{i}" for i in range(50)])
        emb.save(lance_place("t"))
        assert nf.Embedding.load(lance_place("t")).equals(emb)
        table = importlib.import_module("lancedb").connect(tmp_path).open_table("t")
        found = table.search(emb["w7"]).distance_type("cosine").limit(4).to_arrow()["id"].to_pylist()
        assert found == ["w7", *(key for key, _ in emb.most_similar("w7", topn=3))]

    def test_what_is_no_table(self, rng, lance_place, tmp_path):
        emb = nf.Embedding(numbers(rng, 2, 3))
        pa = importlib.import_module("pyarrow")
        table = pa.table({"id": [1, 2], "words": ["a", "b"]})
        importlib.import_module("lancedb").connect(tmp_path).create_table("other", table)
        (tmp_path / "empty.lance").mkdir()
        (tmp_path / "file.lance").write_bytes(b"x")
        with pytest.raises(FileFormatError, match=r"other.lance: table must be a table with .* got columns id, words"):
            nf.Embedding.load(lance_place("other"))
        with pytest.raises(InputError, match="a table that is not there yet"):
            emb.save(lance_place("other"))
        with pytest.raises(FileFormatError, match=r"empty.lance: table must be one of LanceDB; got \S"):
            nf.Embedding.load(lance_place("empty"))
        for path, message in {
            lance_place("file"): r"a folder FOLDER/NAME.lance; got '.*file.lance' \(a file\)",
            lance_place("my table"): "letters, digits, _, - and",
            lance_place("t") + "#items": "The table 'items' is .*items.lance",
            lance_place("no/where"): "in a folder that exists",
        }.items():
            with pytest.raises(InputError, match=message):
                emb.save(path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.lance", "file.lance", "other.lance"]

    def test_a_full_disk_is_an_os_error(self, rng, lance_place, tmp_path, monkeypatch):
        from nearfar.embedding.files import lance

        def full(*args, **kwargs):
            raise RuntimeError("LanceError(IO): Generic LocalFileSystem error: No space left on device (os error 28)")

        pytest.importorskip("lancedb")
        monkeypatch.setattr(lance, "_connected", lambda folder: SimpleNamespace(create_table=full))
        with pytest.raises(OSError, match="No space left on device"):
            nf.Embedding(numbers(rng, 2, 3)).save(lance_place("t"))
        assert not list(tmp_path.iterdir())

    def test_what_is_missing_is_named(self, rng, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "lancedb", None)
        with pytest.raises(MissingDependencyError, match=r"needs lancedb.*'nearfar\[lancedb\]'"):
            nf.Embedding(numbers(rng, 2, 3)).save(tmp_path / "x.lance")

    def test_what_another_has_written_is_not_removed(self, rng, tmp_path, monkeypatch):
        lance = pytest.importorskip("nearfar.embedding.files.lance")
        pytest.importorskip("lancedb")
        emb, put = nf.Embedding(numbers(rng, 2, 3)), lance._put_in_place

        def after_another(*args):
            monkeypatch.setattr(lance, "_put_in_place", put)
            emb.save(tmp_path / "x.lance")
            put(*args)

        monkeypatch.setattr(lance, "_put_in_place", after_another)
        with pytest.raises(InputError, match="a table that nobody else is writing to"):
            nf.Embedding(numbers(rng, 2, 3)).save(tmp_path / "x.lance")
        assert nf.Embedding.load(tmp_path / "x.lance").equals(emb)
        assert [path.name for path in tmp_path.iterdir()] == ["x.lance"]


class TestPostgres:
    @pytest.fixture
    def connection(self, postgres):
        with importlib.import_module("psycopg").connect(postgres, autocommit=True) as connection:
            yield connection

    def test_others_find_the_nearest(self, rng, postgres_place, connection):
        emb = nf.Embedding(rng.standard_normal((50, 8)), [f"w{i}" for i in range(50)])
        emb.save(postgres_place("t"))
        found = connection.execute(
            "SELECT id FROM t ORDER BY vector <=> (SELECT vector FROM t WHERE id = 'w7') LIMIT 4"
        )
        assert [key for (key,) in found] == ["w7", *(key for key, _ in emb.most_similar("w7", topn=3))]
        connection.execute("CREATE INDEX ON t USING hnsw (vector vector_cosine_ops)")

    def test_tables_of_schemas_and_tables_by_others(self, rng, postgres_place, connection):
        emb = nf.Embedding(numbers(rng, 2, 3), ["a", "b"])
        connection.execute("CREATE SCHEMA IF NOT EXISTS shop")
        emb.save(postgres_place("shop.items"), if_exists="replace")
        assert connection.execute("SELECT count(*) FROM shop.items").fetchone() == (2,)
        assert nf.Embedding.load(postgres_place("shop.items")).equals(emb)
        connection.execute("CREATE TABLE small (id smallint, more text, vector vector)")
        connection.execute("COMMENT ON TABLE small IS 'what others say of it'")
        connection.execute("INSERT INTO small VALUES (5, 'x', '[1, 2]'), (3, 'y', '[0, 1]')")
        connection.execute("CREATE VIEW seen AS SELECT id::varchar AS id, vector::halfvec(2) FROM small")
        assert nf.Embedding.load(postgres_place("small")).equals(nf.Embedding([[1, 2], [0, 1]], [5, 3]))
        assert nf.Embedding.load(postgres_place("seen"))["5"].tolist() == [1, 2]
        nf.Embedding([[3, 4]], [9]).save(postgres_place("small2"))
        for change, message in {
            "INSERT INTO small VALUES (7, 'z', '[1]')": "one whose vectors have one length; got 1 and 2",
            "UPDATE small SET vector = NULL": "one without gaps in the columns 'id' and 'vector'",
            "DROP VIEW seen; ALTER TABLE small ALTER id TYPE float": "'id' of integers or text .* got id double",
            "ALTER TABLE small DROP vector CASCADE": "and a column 'vector' of pgvector",
        }.items():
            connection.execute(change)
            with pytest.raises(FileFormatError, match=f"#small: table must be .*{message}"):
                nf.Embedding.load(postgres_place("small"))

    def test_a_server_that_is_down_or_refuses(self, rng, postgres, tmp_path, fails):
        emb = nf.Embedding(numbers(rng, 2, 3))
        down = f"postgresql://ann:secret@/shop?host={tmp_path}#items"
        for use in (emb.save, nf.Embedding.load):
            with pytest.raises(
                InputError, match=r"path must be the address of a server that answers; got .*No such file"
            ):
                use(down)
        nf.Embedding(numbers(rng, 2, 3)).save(tmp_path / "a.npz")
        told = fails("convert", f"{tmp_path}/a.npz", down)
        assert "server that answers" in told
        assert "secret" not in told
        with pytest.raises(InputError, match='database "nowhere" does not exist'):
            emb.save(postgres.replace("/postgres?", "/nowhere?"))
        with pytest.raises(InputError, match="an address such as postgresql://user@server/database#table"):
            emb.save(postgres + "&colour=red")

    def test_what_the_server_refuses(self, rng, postgres_place, connection):
        emb = nf.Embedding(numbers(rng, 2, 3), ["a", "b\0c"])
        with pytest.raises(InputError, match="ids must be text that the server can hold, without NUL"):
            emb.save(postgres_place("t"))
        emb = nf.Embedding(numbers(rng, 2, 3))
        with pytest.raises(InputError, match='a table that you may use; got schema "nowhere" does not exist'):
            emb.save(postgres_place("nowhere.t"))
        emb.save(postgres_place("t"))
        connection.execute("CREATE VIEW seen AS SELECT * FROM t")
        with pytest.raises(InputError, match="a table that nothing else depends on; got cannot drop table t"):
            emb.save(postgres_place("t"), if_exists="replace")
        with pytest.raises(InputError, match=r"a table that is there; got .*#other. #NAME behind the address"):
            nf.Embedding.load(postgres_place("other"))

    def test_vectors_that_are_too_long_are_refused(self, postgres_place):
        with pytest.raises(InputError, match=r"a table that .*got dimensions for type vector cannot exceed 16000"):
            nf.Embedding(np.ones((1, 16001), np.float32)).save(postgres_place("t"))

    def test_a_full_disk_is_an_os_error_and_leaves_the_table(self, rng, postgres_place, connection):
        emb = nf.Embedding(numbers(rng, 2, 3), [1, 2])
        emb.save(postgres_place("t"))
        connection.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.id > 8) EXECUTE FUNCTION full_disk()"
        )
        with pytest.raises(OSError, match=r"No space left on device, says the server .could not extend file"):
            nf.Embedding(numbers(rng, 7, 3), range(3, 10)).save(postgres_place("t"), if_exists="append")
        assert nf.Embedding.load(postgres_place("t")).equals(emb)

    def test_no_table_of_others_is_dropped(self, rng, postgres, postgres_place):
        emb = nf.Embedding(numbers(rng, 2, 3))
        with importlib.import_module("psycopg").connect(postgres, autocommit=True) as connection:
            connection.execute("CREATE TABLE orders (id bigint)")
            connection.execute("INSERT INTO orders VALUES (7)")
            for attempt in (emb.save, lambda place, **how: files.registry.check_output("nearfar embed", place, **how)):
                with pytest.raises(InputError, match=r"a table that nearfar wrote, to be replaced; got another.*#NAME"):
                    attempt(postgres_place("orders"), if_exists="replace")
            assert connection.execute("SELECT id FROM orders").fetchall() == [(7,)]

    def test_a_database_without_pgvector(self, rng, server):
        connect = importlib.import_module("psycopg").connect
        with connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE bare")
            connection.execute("CREATE ROLE guest LOGIN")
        place = server.replace("tester@/postgres", "guest@/bare")
        emb = nf.Embedding(numbers(rng, 2, 3))
        with pytest.raises(InputError, match="a database with the extension pgvector; got permission denied"):
            emb.save(place)
        emb.save(server.replace("/postgres", "/bare"))  # may make it ready, and does
        with pytest.raises(InputError, match="a table that you may use; got permission denied"):
            emb.save(place + "#mine")

    def test_no_summary_has_the_password(self, rng, server, postgres, tmp_path, capsys):
        nf.Embedding(numbers(rng, 2, 3)).save(tmp_path / "a.npz")
        place = postgres.replace("tester@", "tester:secret@") + "#t"
        assert main(["convert", f"{tmp_path}/a.npz", place, "--json"]) == 0
        assert main(["info", place]) == 0
        (tmp_path / "edges.csv").write_text("a,b\n1,2\n2,3\n3,1\n")
        assert main(["embed", f"{tmp_path}/edges.csv", "-o", place + "2", "--n-components", "2"]) == 0
        captured = capsys.readouterr()
        assert "tester:***@" in captured.out
        assert "tester:***@" in captured.err
        assert "secret" not in captured.out + captured.err
        (tmp_path / "text.txt").write_text("the tide takes the boat\n" * 30)
        command = [
            "words",
            "train",
            f"{tmp_path}/text.txt",
            "-o",
            place + "3",
            "--n-components",
            "4",
            "--n-epochs",
            "1",
        ]
        assert main([*command, "--min-count", "1", "--sample", "0", "-q"]) == 0
        assert len(nf.Embedding.load(place + "3")) == 4

    def test_no_message_has_the_password(self):
        place = files.DatabaseTable("t", "postgresql://ann:s3c/ret@server/shop?sslpassword=other", "items")
        assert "other" not in str(place)
        for text in ("postgresql://ann:secret@server/shop", "postgresql:///shop?user=ann&password=secret#t"):
            assert "secret" not in files.tables.without_password(text)

    def test_what_is_missing_is_named(self, rng, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(MissingDependencyError, match=r"needs psycopg.*'nearfar\[postgres\]'"):
            nf.Embedding(numbers(rng, 2, 3)).save("postgresql://server/shop")


def test_no_table_of_others_is_dropped(tmp_path):
    """Whoever keeps a table of the same name keeps it."""
    file = sqlite_file(tmp_path)
    emb = nf.Embedding(np.eye(2, dtype=np.float32), ["a", "b"])
    emb.save(f"{file}#mine")
    module = sys.modules.get("pysqlite3", sqlite3)
    with module.connect(file) as database:
        database.execute("CREATE TABLE embedding (id TEXT, vector BLOB)")
        database.execute("INSERT INTO embedding VALUES ('theirs', x'00')")
        database.execute("INSERT INTO nearfar VALUES ('embedding', '{}')")  # of one that was dropped
    for name in ("embedding", "nearfar", "mine_chunks"):
        for attempt in (emb.save, lambda place, **how: files.registry.check_output("nearfar embed", place, **how)):
            with pytest.raises(InputError, match=r"a table that nearfar wrote, to be replaced; got another.*#NAME"):
                attempt(f"{file}#{name}", if_exists="replace")
    with module.connect(file) as database:
        assert database.execute("SELECT id FROM embedding").fetchall() == [("theirs",)]
    emb.subset(["b"]).save(f"{file}#mine", if_exists="replace")
    assert nf.Embedding.load(f"{file}#mine").ids.to_list() == ["b"]
