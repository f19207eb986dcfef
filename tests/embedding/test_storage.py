"""Files: what comes back is what went in, what is damaged is refused, and no half file is ever seen."""

import datetime
import errno
import gzip
import os
import stat
import struct
import warnings

import numpy as np
import pytest
from any_text import any_text
from comparisons import full_disk
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import nearfar as nf
from nearfar._core import atomic
from nearfar._core.atomic import atomic_write
from nearfar._core.ids import Ids
from nearfar.embedding.content import Content, text_id
from nearfar.embedding.files import FORMATS, registry
from nearfar.errors import FileFormatError, InputError, NearfarWarning

WORDS = ["ann", "b ob", "Zoë", "", "50%", "%20", "new\u00a0york", "日本", "tab\tid", "a\nb", "'\"\\,"]
EVERYTHING = [".safetensors", ".npz"]

function_scoped = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def emb(rng):
    return nf.Embedding(rng.standard_normal((len(WORDS), 4)).astype(np.float32), WORDS)


def numbers(rng, n, d, dtype=np.float32):
    """Irregular numbers: large, tiny, subnormal, negative zero."""
    X = (rng.standard_normal((n, d)) * 10.0 ** rng.integers(-40, 38, (n, d))).astype(dtype)
    X.flat[0] = -0.0
    return X


def roundtrip(emb, path, **kwargs):
    emb.save(path, **kwargs)
    return nf.Embedding.load(path, **kwargs)


def assert_clean(folder, *names):
    assert sorted(p.name for p in folder.iterdir()) == sorted(names)


@pytest.fixture(params=FORMATS)
def name(request):
    """Every format."""
    if FORMATS[request.param].requires is not None:
        pytest.importorskip(FORMATS[request.param].requires[0])
    return request.param


@pytest.fixture
def kind(name):
    return FORMATS[name]


@pytest.fixture
def path(kind, tmp_path):
    return tmp_path / f"x{kind.suffixes[0]}"


class TestContract:
    """What every registered format keeps to."""

    def test_every_bit_of_float32_and_text_comes_back(self, rng, kind, tmp_path):
        emb = nf.Embedding(numbers(rng, 5, 3), ["ann", "Zoë", "50%", "new york", "日本"])
        for suffix in kind.suffixes:
            assert roundtrip(emb, tmp_path / f"x{suffix}").equals(emb)

    def test_many_rows_one_row_no_rows(self, rng, path):
        many = nf.Embedding(rng.standard_normal((4099, 2)).astype(np.float32), [f"w {i}" for i in range(4099)])
        for emb in (many, many.subset(["w 7"])):
            assert roundtrip(emb, path).equals(emb)
        none = many.subset([])
        none.save(path)
        try:
            assert nf.Embedding.load(path).vectors.shape == (0, 2)
        except FileFormatError as error:
            assert "an empty file" in str(error)  # noqa: PT017 - where no line tells the number of columns

    def test_both_sides_come_back_or_the_loss_is_said(self, emb, kind, path):
        emb = emb.subset(["ann", "50%", "Zoë"])
        two = nf.Embedding(emb.vectors, emb.ids, context_vectors=emb.vectors[:2], context_ids=[3, "x"],
                           parameters={"n": 3})  # fmt: skip
        if kind.keeps_both_sides:
            again = roundtrip(two, path)
            assert again.equals(two)
            assert again.parameters == two.parameters
            return
        with pytest.warns(NearfarWarning, match="context vectors are left out") as caught:
            two.save(path)
        assert caught[0].filename == __file__
        assert nf.Embedding.load(path).equals(emb)

    def test_same_content_same_bytes(self, emb, path):
        emb = emb.subset(["ann", "50%"])
        emb.save(path)
        first = path.read_bytes()
        emb.save(path)
        assert path.read_bytes() == first

    def test_an_error_while_writing_leaves_the_old_file(self, emb, path, tmp_path, monkeypatch):
        old = nf.Embedding([[1, 2]], ["old"])
        old.save(path)
        names = [p.name for p in tmp_path.iterdir()]

        def full(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space left"):
                emb.subset(["ann", "50%"]).save(path)
        assert nf.Embedding.load(path).equals(old)
        assert_clean(tmp_path, *names)

    # NumPy 2.0 leaves the archive to the garbage collection, which finds its file closed.
    @pytest.mark.filterwarnings("ignore:.*ZipFile.__del__:pytest.PytestUnraisableExceptionWarning")
    def test_a_disk_that_takes_no_more_leaves_the_old_file(self, rng, path, tmp_path):
        old = nf.Embedding([[1, 2]], ["old"])
        old.save(path)
        names = [p.name for p in tmp_path.iterdir()]
        large = nf.Embedding(rng.standard_normal((900, 20)).astype(np.float32))
        with pytest.raises(OSError, match=r"File too large|could not write"), full_disk(20_000):
            large.save(path)
        assert nf.Embedding.load(path).equals(old)
        assert_clean(tmp_path, *names)

    def test_a_damaged_file_is_refused(self, emb, path):
        emb.subset(["ann", "50%", "Zoë"]).save(path)
        good = path.read_bytes()
        for bad in (b"", good[: len(good) // 2], good[: len(good) // 3], b"\x00\xff" * 40, b"{}"):
            path.write_bytes(bad)
            with pytest.raises(FileFormatError, match=f"^{path.parent}/x[^\n]*: file must be [^\n]*; got [^\n]*$"):
                nf.Embedding.load(path)

    @function_scoped
    @given(st.binary(max_size=80))
    @example(b"1 1\n")
    @example(b"+1 1\n%%% 1\n")
    def test_any_bytes_are_read_or_refused(self, path, data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NearfarWarning)
            for content in (data, b"2 1\n" + data):
                path.write_bytes(content)
                path.with_name(f"x.metadata{path.suffix}").write_bytes(content)
                try:
                    nf.Embedding.load(path)
                except FileFormatError as error:
                    assert "\n" not in str(error)  # noqa: PT017

    def test_numbers_that_are_not_finite_are_refused(self, kind, path):
        kind.write(Content(np.full((2, 2), np.inf, np.float32), Ids(["a", "b"])), path)
        with pytest.raises(FileFormatError, match="vectors are finite"):
            nf.Embedding.load(path)


KINDS_OF_IDS = {
    "range": [0, 1],
    "integers": [7, -3],
    "large": [2**63 + 5, 2**63 + 6],
    "keys": [2**62, 2**63 - 1],
    "text": ["ann", "b ob"],
    "empty": ["", "50%"],
    "tabs": ["a\tb", "c"],
    "lines": ["a\nb", "c"],
    "nul": ["a\0b", "c"],
    "surrogate": ["\ud800", "c"],
    "mixture": [1, "a"],
    "one as text": [1, "1"],
    "floats": [1.5, 2.0],
    "bytes": [b"x", b"y"],
    "dates": [datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1, 3)],
    "tuples": [("ann", 40), ("bob", 20)],
    "nothing": [None, "a"],
    "sets": [frozenset({1}), "a"],
}


def test_what_a_format_cannot_hold_is_known_before_a_fit(name, path):
    """What passes the check is saved and comes back, as text where the format knows that alone; all else is refused."""
    for kind, ids in KINDS_OF_IDS.items():
        emb = nf.Embedding(np.eye(2, dtype=np.float32), ids)
        told = []
        for ask in (lambda: registry.check_output("test", path, name, ids=[emb.ids]), lambda: emb.save(path)):  # noqa: B023
            try:
                ask()
            except InputError as error:
                told.append(str(error))
        assert told in ([], 2 * told[:1]), kind
        if not told:
            found = nf.Embedding.load(path, name)
            assert found.ids.to_list() in (ids, [text_id(key) for key in ids]), kind
            assert np.array_equal(found.vectors, emb.vectors), kind


class TestRoundTrip:
    @pytest.mark.parametrize("suffix", EVERYTHING)
    def test_everything(self, rng, tmp_path, suffix):
        ids = [1, "1", 1.5, (1, ("a", None)), b"\x00\xff", None, False, float("-inf"), 2**80, "\ud800"]
        ids += [datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)]
        emb = nf.Embedding(
            numbers(rng, len(ids), 3, np.float64),
            ids,
            context_vectors=numbers(rng, 2, 3, np.float32),
            context_ids=["x", "y z"],
            parameters={"n": 3, "far": object(), "nested": {"a": [1.5, None, True]}, "rate": float("nan")},
        )
        again = roundtrip(emb, tmp_path / f"x{suffix}")
        assert again.equals(emb)
        assert [type(key) for key in again] == [type(key) for key in emb]
        assert again.parameters["nested"] == {"a": [1.5, None, True]}
        assert again.parameters["far"] == "<object object>"
        assert again.parameters["rate"] == "nan"

    @pytest.mark.parametrize("suffix", EVERYTHING)
    def test_kinds_of_ids_on_both_sides(self, rng, tmp_path, suffix):
        X = rng.standard_normal((3, 2))
        for ids, context_ids in [(None, None), ([5, -3, 2**62], ["p", "q", "r"]), (["a", "b", "c"], [(1, 2), 4, "x"])]:
            emb = nf.Embedding(X, ids, context_vectors=-X, context_ids=context_ids)
            assert roundtrip(emb, tmp_path / f"x{suffix}").equals(emb)

    @function_scoped
    @given(st.lists(st.text(st.characters(exclude_categories=[]), max_size=6), min_size=1, max_size=8, unique=True))
    @example(["%", "", " "])
    @example(["+1 2", "a"])
    def test_any_text_survives(self, tmp_path, ids):
        emb = nf.Embedding(np.arange(len(ids) * 2).reshape(-1, 2), ids)
        for suffix in (".safetensors", ".npz", ".txt", ".bin"):
            assert list(roundtrip(emb, tmp_path / f"x{suffix}")) == ids

    @function_scoped
    @given(
        st.lists(
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text() | st.binary(),
                lambda inner: st.lists(inner, max_size=3).map(tuple),
                max_leaves=5,
            ),
            min_size=1,
            max_size=6,
            unique_by=lambda key: key,
        )
    )
    def test_any_mixture_survives(self, tmp_path, ids):
        emb = nf.Embedding(np.zeros((len(ids), 1)), ids)
        again = roundtrip(emb, tmp_path / "x.safetensors")
        assert repr(list(again)) == repr(list(emb))

    @function_scoped
    @given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
    def test_any_float32_survives_text(self, tmp_path, values):
        emb = nf.Embedding(np.array([values], np.float32), ["a"])
        for suffix in (".txt", ".tsv"):
            assert roundtrip(emb, tmp_path / f"x{suffix}").equals(emb)

    def test_strides_do_not_matter(self, rng, tmp_path):
        X = rng.standard_normal((6, 8)).astype(np.float32)
        emb = nf.Embedding(X[::2, ::-2])
        assert roundtrip(emb, tmp_path / "x.safetensors").equals(nf.Embedding(X[::2, ::-2].copy()))


def test_the_suffix_or_the_word_tells_the_format(emb, tmp_path):
    for name in ("A.SafeTensors", "a.b.vec.gz", "a#b.npz"):
        assert roundtrip(emb, tmp_path / name).equals(emb)
    assert roundtrip(emb, tmp_path / "words.dat", format="word2vec-text").equals(emb)
    assert nf.Embedding.from_word2vec(tmp_path / "words.dat", binary=False).equals(emb)


class TestNative:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "x.safetensors"
        X = np.array([[1.5, -2], [0, 3], [4, 5]], np.float32)
        nf.Embedding(
            X, ["a", "bé", "c"], context_vectors=X[:2], context_ids=[4, 7], parameters={"checksum": "0" * 64}
        ).save(path)
        return path

    def test_any_reader_of_safetensors_reads_it(self, path):
        from safetensors.numpy import load_file

        arrays = load_file(path)
        assert arrays["vectors"].tolist() == [[1.5, -2], [0, 3], [4, 5]]
        assert arrays["context_vectors"].dtype == np.float32
        assert arrays["context_ids"].tolist() == [4, 7]
        assert arrays["ids.data"].tobytes().decode() == "abéc"

    def test_a_change_of_any_byte_is_refused(self, path):
        good = path.read_bytes()
        for at in range(0, len(good), 3):
            path.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
            with pytest.raises(FileFormatError):
                nf.Embedding.load(path)
        path.write_bytes(good)
        assert nf.Embedding.load(path)["bé"].tolist() == [0, 3]

    def test_a_file_cut_short_or_grown_is_refused(self, path):
        good = path.read_bytes()
        for length in (*range(60), *range(60, len(good), 17), len(good) - 1):
            path.write_bytes(good[:length])
            with pytest.raises(FileFormatError):
                nf.Embedding.load(path)
        path.write_bytes(good + b"\0")
        with pytest.raises(FileFormatError, match="cut short or altered"):
            nf.Embedding.load(path)


class TestAtomicWrite:
    def test_replaces_and_keeps_permissions(self, tmp_path):
        path = tmp_path / "x"
        with atomic_write(path) as file:
            file.write(b"one")
        umask = os.umask(0)
        os.umask(umask)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
        path.chmod(0o604)
        with atomic_write(path) as file:
            file.write(b"two")
            assert path.read_bytes() == b"one"
        assert path.read_bytes() == b"two"
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
        assert_clean(tmp_path, "x")

    def test_follows_symbolic_links(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "folder" / "x")
        with atomic_write(tmp_path / "link") as file:
            file.write(b"one")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "folder" / "x").read_bytes() == b"one"

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError(), OSError(errno.ENOSPC, "No space left")])
    def test_an_error_leaves_the_old_file(self, tmp_path, error):
        path = tmp_path / "x"
        path.write_bytes(b"old")

        def write():
            with atomic_write(path) as file:
                file.write(b"new")
                raise error

        with pytest.raises(type(error)):
            write()
        assert path.read_bytes() == b"old"
        assert_clean(tmp_path, "x")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_without_permission(self, emb, tmp_path):
        tmp_path.chmod(0o500)
        with pytest.raises(InputError, match="that you may write to"):
            emb.save(tmp_path / "x.npz")
        tmp_path.chmod(0o700)


class TestDamage:
    @function_scoped
    @given(data=st.data(), suffix=st.sampled_from([".safetensors", ".npz", ".parquet"]))
    def test_never_gives_other_vectors(self, tmp_path, data, suffix):
        emb = nf.Embedding(np.arange(12, dtype=np.float32).reshape(4, 3), ["a", "b b", "", "é"])
        path = tmp_path / f"x{suffix}"
        emb.save(path)
        bad = bytearray(path.read_bytes())
        for at in data.draw(st.lists(st.integers(0, len(bad) - 1), min_size=1, max_size=4, unique=True)):
            bad[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(bytes(bad))
        try:
            again = nf.Embedding.load(path)
        except FileFormatError:
            return
        assert suffix != ".safetensors"
        assert again.equals(emb)


class TestWord2vec:
    @pytest.mark.parametrize("binary", [False, True])
    def test_gensim_reads_ours(self, emb, tmp_path, binary):
        KeyedVectors = pytest.importorskip("gensim.models").KeyedVectors

        path = tmp_path / ("x.bin" if binary else "x.vec")
        emb.save(path)
        theirs = KeyedVectors.load_word2vec_format(path, binary=binary)
        assert np.array_equal(theirs.vectors, emb.vectors)
        assert theirs.index_to_key[:5] == ["ann", "b%20ob", "Zoë", "%", "50%25"]
        plain = [w for w in WORDS if w and not set(w) & set(" \t\n")]
        emb.subset(plain).save(path)
        theirs = KeyedVectors.load_word2vec_format(path, binary=binary)
        assert theirs.index_to_key == plain
        assert list(nf.Embedding.from_word2vec(path)) == plain  # the suffix tells which of the two

    @pytest.mark.parametrize("binary", [False, True])
    def test_we_read_gensims(self, rng, tmp_path, binary):
        KeyedVectors = pytest.importorskip("gensim.models").KeyedVectors

        names = ["ann", "Zoë", "50%", "%20", "new\u00a0york"]
        theirs = KeyedVectors(3)
        theirs.add_vectors(names, rng.standard_normal((5, 3)) if binary else numbers(rng, 5, 3))
        theirs.save_word2vec_format(tmp_path / "theirs", binary=binary)
        ours = nf.Embedding.from_word2vec(tmp_path / "theirs", binary=binary)
        assert list(ours) == names
        assert np.array_equal(ours.vectors, theirs.vectors)

    def test_text_with_spaces_in_ids_by_others(self, rng, tmp_path):
        KeyedVectors = pytest.importorskip("gensim.models").KeyedVectors

        names = ["New York", ". . .", "a  b\u3000c", "plain"]  # what gensim writes and cannot read again
        theirs = KeyedVectors(3)
        theirs.add_vectors(names, numbers(rng, 4, 3))
        theirs.save_word2vec_format(tmp_path / "theirs.vec")
        ours = nf.Embedding.load(tmp_path / "theirs.vec")
        assert list(ours) == names
        assert np.array_equal(ours.vectors, theirs.vectors)

    def test_files_by_others_are_taken_literally(self, tmp_path):
        path = tmp_path / "x.txt"
        path.write_bytes("3 2\n100%25 1 2 \n%20\t3\t4\r\n\u00a0  5e0   -6\n\n".encode())
        emb = nf.Embedding.load(path)
        assert list(emb) == ["100%25", "%20", "\u00a0"]
        assert emb.vectors.tolist() == [[1, 2], [3, 4], [5, -6]]

    def test_binary_with_and_without_line_feeds(self, tmp_path):
        a, b = struct.pack("<2f", 1, 2), struct.pack("<2f", 3, 4)
        for data in (b"a " + a + b"b " + b, b"a " + a + b"\nb " + b + b"\n"):
            (tmp_path / "x.bin").write_bytes(b"2 2\n" + data)
            emb = nf.Embedding.load(tmp_path / "x.bin")
            assert list(emb) == ["a", "b"]
            assert emb.vectors.tolist() == [[1, 2], [3, 4]]

    def test_words_cut_within_a_letter(self, tmp_path):
        (tmp_path / "x.txt").write_bytes(b"1 1\nZo\xc3 1\n")
        assert list(nf.Embedding.load(tmp_path / "x.txt")) == ["Zo\\xc3"]

    def test_repeated_words(self, tmp_path):
        (tmp_path / "x.txt").write_bytes(b"4 1\na 1\nb 2\na 3\nc 4\n")
        with pytest.warns(NearfarWarning, match="1 repeated ids") as caught:
            emb = nf.Embedding.load(tmp_path / "x.txt")
        assert caught[0].filename == __file__
        assert dict(zip(emb, emb.vectors.ravel().tolist(), strict=True)) == {"a": 1, "b": 2, "c": 4}

    @pytest.mark.parametrize("suffix", [pytest.param(".txt", marks=pytest.mark.slow), ".vec.gz"])
    def test_a_text_without_a_first_line(self, tmp_path, suffix):
        """As GloVe writes them; also of more rows than are read at once."""
        rng = np.random.default_rng(0)
        emb = nf.Embedding(rng.standard_normal((5000, 3)).astype(np.float32), [f"w{k}" for k in range(5000)])
        emb.save(tmp_path / "whole.txt")
        text = (tmp_path / "whole.txt").read_bytes().split(b"\n", 1)[1]
        (tmp_path / f"x{suffix}").write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
        assert nf.Embedding.load(tmp_path / f"x{suffix}").equals(emb)
        assert nf.Embedding.from_word2vec(tmp_path / f"x{suffix}").equals(emb)

    def test_a_text_without_a_first_line_of_odd_words(self, tmp_path):
        (tmp_path / "x.txt").write_bytes(b"12 1 2\n. . 3 4\nnan 5 6\n12 7 8\n\n")
        with pytest.warns(NearfarWarning, match="1 repeated ids") as caught:
            emb = nf.Embedding.load(tmp_path / "x.txt")
        assert caught[0].filename == __file__
        assert dict(zip(emb, emb.vectors.tolist(), strict=True)) == {"12": [1, 2], ". .": [3, 4], "nan": [5, 6]}
        (tmp_path / "x.txt").write_bytes(b"a 1 2\nb 3 4")
        with pytest.warns(NearfarWarning, match="may have been cut short") as caught:
            assert list(nf.Embedding.load(tmp_path / "x.txt")) == ["a", "b"]
        assert caught[0].filename == __file__

    @given(st.data())
    @function_scoped
    def test_a_binary_file_cut_anywhere_is_refused(self, tmp_path, data):
        emb = nf.Embedding(np.arange(6).reshape(3, 2), ["a", "b b", "ccc"])
        emb.save(tmp_path / "x.bin")
        good = (tmp_path / "x.bin").read_bytes()
        cut = data.draw(st.integers(0, len(good) - 2))  # the last line feed may be missing
        (tmp_path / "x.bin").write_bytes(good[:cut])
        with pytest.raises(FileFormatError):
            nf.Embedding.load(tmp_path / "x.bin")
        (tmp_path / "x.bin").write_bytes(good + b"more")
        with pytest.raises(FileFormatError, match="after the last"):
            nf.Embedding.load(tmp_path / "x.bin")

    def test_a_line_that_may_have_been_cut_is_told(self, tmp_path):
        (tmp_path / "x.txt").write_bytes(b"1 1\na 12")
        with pytest.warns(NearfarWarning, match="no line end after its last row; it may have been cut short") as caught:
            assert nf.Embedding.load(tmp_path / "x.txt")["a"] == 12
        assert caught[0].filename == __file__

    def test_a_packed_file_cut_short(self, emb, tmp_path):
        for suffix in (".vec.gz", ".bin.gz"):
            emb.save(tmp_path / f"x{suffix}")
            packed = (tmp_path / f"x{suffix}").read_bytes()
            for bad in (packed[:-9], packed[:40] + b"\xff\xff" + packed[42:]):
                (tmp_path / f"x{suffix}").write_bytes(bad)
                with pytest.raises(FileFormatError, match="gzip"):
                    nf.Embedding.load(tmp_path / f"x{suffix}")


class TestNpz:
    def test_files_by_others(self, tmp_path):
        path = tmp_path / "x.npz"
        np.savez(path, vectors=np.eye(2, dtype=np.int8), ids=np.array(["a", "bb"]))
        assert nf.Embedding.load(path)["bb"].tolist() == [0, 1]
        np.savez(path, vectors=np.eye(2))
        assert list(nf.Embedding.load(path)) == [0, 1]


class TestParquet:
    def test_tables_by_others(self, tmp_path):
        polars = pytest.importorskip("polars")
        path = tmp_path / "x.parquet"
        polars.DataFrame({"vector": [[1.0, 2.0], [3.0, 4.0]], "more": [0, 0], "id": ["a", "b"]}).write_parquet(path)
        emb = nf.Embedding.load(path)
        assert emb["b"].tolist() == [3, 4]
        assert emb.vectors.dtype == np.float64


class TestProjector:
    def test_is_what_a_projector_reads(self, tmp_path):
        nf.Embedding([[1.5, -2], [0, 3]], ["a b", "c"]).save(tmp_path / "map.tsv")
        assert (tmp_path / "map.tsv").read_text() == "1.5\t-2\n0\t3\n"
        assert (tmp_path / "map.metadata.tsv").read_text() == "a b\nc\n"

    def test_metadata_by_others(self, tmp_path):
        (tmp_path / "x.tsv").write_bytes(b"1\t2\r\n3\t4")
        (tmp_path / "x.metadata.tsv").write_bytes(b"word\tcount\na\t5\nb\t6\n")
        assert list(nf.Embedding.load(tmp_path / "x.tsv")) == ["a", "b"]
        (tmp_path / "x.metadata.tsv").write_bytes(b"a\r\nb\r\n")
        assert list(nf.Embedding.load(tmp_path / "x.tsv")) == ["a", "b"]


@pytest.mark.parametrize("suffix", [".vec", ".bin", pytest.param(".vec.gz", marks=pytest.mark.slow)])
def test_the_longest_ids_come_back(tmp_path, suffix):
    for key in ("a" * 65536, " " * 21845):
        emb = nf.Embedding(np.eye(2, dtype=np.float32), [key, "b"])
        assert roundtrip(emb, tmp_path / f"x{suffix}").equals(emb)


def test_what_cannot_be_read_does_not_take_the_place_of_what_can(emb, name, path, tmp_path, monkeypatch):
    """Bytes that the disk did not keep are seen before the old file goes."""
    if name == "projector":
        pytest.skip("two files, read as they are")
    old = emb.subset(emb.ids.to_list()[:1])
    old.save(path)
    whole = atomic._force_and_check

    def of_half(file, check, temporary, target):
        os.truncate(temporary, temporary.stat().st_size // 2)
        whole(file, check, temporary, target)

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "_force_and_check", of_half)
        with pytest.raises(OSError, match=r"could not be read .*; what was there before stays"):
            emb.save(path)
    assert nf.Embedding.load(path).equals(old)
    assert_clean(tmp_path, path.name)


def test_files_are_written_when_python_ends_and_starts_no_threads(emb, tmp_path, monkeypatch):
    def refuses(*_):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(atomic.ThreadPoolExecutor, "submit", refuses)
    emb.save(tmp_path / "x.safetensors")
    assert nf.Embedding.load(tmp_path / "x.safetensors").equals(emb)
