"""Files whose content is nonsense though their checksums fit: one clear error, whatever a parser would have raised."""

import gzip
import json
import struct
import zipfile
import zlib
from itertools import product

import numpy as np
import pytest
from quick import often

import nearfar as nf
from nearfar._core import atomic
from nearfar.callbacks import Checkpoint
from nearfar.errors import DataError, FileFormatError, InputError

DEEP = "[" * 200_000
SHORT = {"ids": lambda text: text[:20]}  # names of tests go through the environment
GRAPH = nf.Relation.from_edges([(0, 1), (1, 2), (2, 3)])


def embedding(rng):
    return nf.Embedding(rng.standard_normal((4, 2)).astype(np.float32), list("abcd"))


def density(rng):
    return nf.DensityEmbedding.from_factors(rng.standard_normal((4, 3, 2)), list("abcd"))


def anchored(rng):
    return nf.AnchoredEmbedding(rng.random((4, 3)) + 0.1, rng.standard_normal((3, 2)).astype(np.float32), list("abcd"))


def senses(rng):
    ids = [("a", 0), ("a", 2), ("b", 0), ("c", 1)]
    context = rng.standard_normal((3, 2)).astype(np.float32)
    vectors = rng.standard_normal((4, 2)).astype(np.float32)
    return nf.SenseEmbedding(vectors, ids, weights=[0.5, 0.5, 1, 1], context_vectors=context)


MADE = [embedding, density, anchored, senses]


# -- the native file --------------------------------------------------------------------------------------------------


def rewrite(path, alter, body=None):
    """Write a native file with an altered header, and a checksum that fits."""
    from nearfar._core import arrays

    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    alter(header)
    about = {**header.pop("__metadata__"), "checksum": "0" * 64}
    text = json.dumps({"__metadata__": about, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + (content[8 + size :] if body is None else body))
    with path.open("rb") as file:
        zeroed, _ = arrays._read_header(path, file)
        digest = arrays.hashlib.blake2b(zeroed + file.read(), digest_size=32).hexdigest()
    path.write_bytes(path.read_bytes().replace(b"0" * 64, digest.encode(), 1))


def retyped(dtype, times):
    """Numbers of another type, as many bytes."""

    def alter(header):
        name = "vectors" if "vectors" in header else "X" if "X" in header else "anchors"
        header[name]["dtype"] = dtype
        header[name]["shape"][0] *= times

    return alter


def metadata(name, value):
    def alter(header):
        header["__metadata__"].pop(name)
        if value is not None:
            header["__metadata__"][name] = value

    return alter


HEADERS = {
    "BF16": retyped("BF16", 2),
    "F8_E4M3": retyped("F8_E4M3", 4),
    "BOOL": retyped("BOOL", 4),
    "a shape of (0, 2^63)": lambda h: h.update(more={"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}),
    "a shape of (0, 2^62)": lambda h: h.update(more={"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]}),
    "deep parameters": metadata("parameters", DEEP),
    "a list of parameters": metadata("parameters", "[]"),
    "a long number": metadata("parameters", '{"a":' + "9" * 5000 + "}"),
    "no parameters": metadata("parameters", None),
    "no ids": metadata("ids", None),
    "ids of another kind": metadata("ids", "json"),
    "a version too large": metadata("version", "1e400"),
}


@pytest.mark.parametrize(
    ("make", "what"), often(product(MADE, HEADERS), lambda make, what: make is embedding or what in ("BF16", "no ids"))
)
def test_native_files(tmp_path, rng, make, what):
    path = tmp_path / "x.safetensors"
    made = make(rng)
    made.save(path)
    rewrite(path, lambda header: None)
    assert type(made).load(path).ids == made.ids  # as it was
    rewrite(path, HEADERS[what])
    if what == "a shape of (0, 2^62)" and make is not embedding:
        return  # an array that is not asked for
    with pytest.raises(FileFormatError, match=r"x\.safetensors: file must be"):
        type(made).load(path)


@pytest.mark.parametrize("what", ["BF16", "F8_E4M3", "BOOL", "a shape of (0, 2^63)"])
def test_checkpoints(tmp_path, what):
    path = tmp_path / "x.safetensors"
    nf.EDRep(2, n_epochs=1, random_state=0, callbacks=[Checkpoint(path)]).fit(GRAPH)
    rewrite(path, HEADERS[what])
    with pytest.raises((FileFormatError, InputError), match=r"x\.safetensors: file must be|a state of \[4\] rows"):
        nf.EDRep(2, n_epochs=1, random_state=0).fit(GRAPH, resume=path)


# -- NumPy's archive --------------------------------------------------------------------------------------------------


def npy(header, content=b"\0" * 16):
    """An array file with a header of one's own."""
    text = header.encode()
    text += b" " * (-(11 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


ARRAYS = {
    "a shape of (0, 2^63)": "{'descr':'<f4','fortran_order':False,'shape':(0,9223372036854775808),}",
    "a shape of (2^62, 4)": "{'descr':'<f4','fortran_order':False,'shape':(4611686018427387904,4),}",
    "more than there is": "{'descr':'<f4','fortran_order':False,'shape':(1000000000000,4),}",
    "a negative shape": "{'descr':'<f4','fortran_order':False,'shape':(-1,4),}",
    "a shape of 1e400": "{'descr':'<f4','fortran_order':False,'shape':(1e400,),}",
    "a deep header": "(" * 5000,
    "an open bracket": "{'descr':'<f4','fortran_order':False,'shape':(4,",
    "objects": "{'descr':'|O','fortran_order':False,'shape':(1,),}",
    "records": "{'descr':[('a','<f4')],'fortran_order':False,'shape':(4,),}",
    "long texts": "{'descr':'<U2000000000','fortran_order':False,'shape':(1,),}",
}


@pytest.mark.parametrize("what", ARRAYS)
def test_headers_of_arrays(tmp_path, what):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vectors.npy", npy(ARRAYS[what]))
    with pytest.raises(FileFormatError, match=r"x\.npz: file must be"):
        nf.Embedding.load(path)
    folder = tmp_path / "stored"
    nf.Relation.from_edges([("a", "b"), ("b", "c")], storage=folder)
    size = (folder / "indices.npy").stat().st_size
    (folder / "indices.npy").write_bytes(npy(ARRAYS[what], b"").ljust(size, b"\0")[:size])
    with pytest.raises(FileFormatError, match="stored: folder must be"):
        nf.Relation.open(folder)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_archives_that_unpack_without_a_bound(tmp_path, method):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("vectors.npy", npy("{'descr':'<f4','fortran_order':False,'shape':(2,2),}"))
    with pytest.raises(FileFormatError, match=r"packed as NumPy does, .*; got another method for vectors\.npy"):
        nf.Embedding.load(path)
    np.savez_compressed(path, vectors=np.eye(3))
    assert len(nf.Embedding.load(path)) == 3


def test_an_archive_whose_files_begin_before_it(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, vectors=np.eye(3))
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x05\x06") + 16  # where the directory begins
    content[at : at + 4] = (int.from_bytes(content[at : at + 4], "little") + 9999).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"x\.npz: file must be a complete npz file; got"):
        nf.Embedding.load(path)


@pytest.mark.parametrize("text", [DEEP, "[]", "3", "{", "{}", '{"format":1e400}', '{"format":[]}'], **SHORT)
def test_metadata_of_an_archive(tmp_path, text):
    path = tmp_path / "x.npz"
    np.savez(path, vectors=np.eye(3), metadata=np.array(text))
    with pytest.raises(FileFormatError, match=r"x\.npz: file must be"):
        nf.Embedding.load(path)


# -- texts, vocabularies and stored folders ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [b"1e400", b"9" * 30, b"9" * 5000, b"\xc2\xb2", b"\xff", b"0x2", b"-1", b""])
def test_vocabularies(tmp_path, count):
    path, folder = tmp_path / "words.tsv", tmp_path / "encoded"
    last = b"a\xff\t3" if count == b"\xff" else b"a\t" + count
    path.write_bytes(b"word\tcount\nthe\t9\n" + last + b"\n")
    with pytest.raises(DataError, match="must be lines of a word, a tab and a count; got line 3: "):
        nf.Vocabulary.load(path)
    nf.Corpus([["a", "b", "a"]]).encode(min_count=1, folder=folder)
    (folder / "vocabulary.tsv").write_bytes(path.read_bytes())
    with pytest.raises(FileFormatError, match=r"encoded: folder must be what was written; got vocabulary\.tsv of"):
        nf.EncodedCorpus.open(folder)
    text = json.loads((folder / "text.json").read_text())
    del text["files"]["vocabulary.tsv"], text["checksums"]["vocabulary.tsv"], text["checksum"]
    (folder / "text.json").write_text(json.dumps({**text, "checksum": atomic._checksum_of(text)}))
    with pytest.raises(
        FileFormatError, match=r"encoded: folder must be what was written; got an altered vocabulary\.tsv"
    ):
        nf.EncodedCorpus.open(folder)
    text["checksums"]["vocabulary.tsv"] = zlib.crc32(path.read_bytes())
    (folder / "text.json").write_text(json.dumps({**text, "checksum": atomic._checksum_of(text)}))
    with pytest.raises(FileFormatError, match=r"encoded: folder must be one with a readable vocabulary\.tsv"):
        nf.EncodedCorpus.open(folder)


@pytest.mark.parametrize("name", ["n_tokens", "n_entries", "shape", "weighted", "symmetric", "ids", "files"])
def test_headers_of_folders(tmp_path, name, monkeypatch):
    folder = tmp_path / "stored"
    if name == "n_tokens":
        nf.Corpus([["a", "b", "a"]]).encode(min_count=1, folder=folder)
        path, use = folder / "text.json", nf.EncodedCorpus.open
    else:
        nf.Relation.from_edges([("a", "b", 2.0), ("b", "c", 1.0)], storage=folder)
        path, use = folder / "relation.json", lambda folder: nf.Relation.open(folder).row_ids.to_list()
    header = json.loads(path.read_text())
    monkeypatch.setattr(atomic, "_checksum_of", lambda content: content.get("checksum"))  # it fits
    other = "1" if name in ("weighted", "symmetric") else "true"
    for value in ("1e400", "2.0", '"2"', "-1", "9" * 20, "null", DEEP, other):
        new = {"shape": f"[3, {value}]", "files": f'{{"indptr.npy": {value}}}'}.get(name, value)
        path.write_text(json.dumps({**header, name: "@"}).replace('"@"', new))
        with pytest.raises(FileFormatError, match=r"stored: (folder|file) must be"):
            use(folder)


@pytest.mark.parametrize("first", ["999999999999999 9", "1 999999999999999", "4000000000 300"])
@pytest.mark.parametrize("ending", [".txt", ".bin", ".txt.gz", ".bin.gz"])
def test_first_lines_that_promise_too_much(tmp_path, first, ending):
    path = tmp_path / f"x{ending}"
    text = f"{first}\nthe 1 2 3\n".encode()
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    with pytest.raises(FileFormatError, match=r"x\.\w+(\.gz)?: file must be one of \d+ rows"):
        nf.Embedding.load(path)


def test_numbers_too_large_for_a_float(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("2 2\na 1 1e400\nb 1 2\n")
    with pytest.raises(FileFormatError, match=r"x\.txt: file must be one whose vectors are finite"):
        nf.Embedding.load(path)


@pytest.mark.slow
def test_tables_of_numbers_with_other_line_ends_and_endless_fields(tmp_path, fails):
    from nearfar.reading.points import read_table

    path = tmp_path / "x.csv"
    for ends in (b"\r", b"\r\n", b"\n"):
        path.write_bytes(ends.join([b"name,a,b", b"ann,1,2", b"bob,3,4", b""]))
        found = read_table(str(path), None, None, owner="nearfar map")
        np.testing.assert_array_equal(found.vectors, [[1, 2], [3, 4]])
    path.write_bytes(b'height,weight\n1.5,2.5\n"' + b"3" * 140_000)
    with pytest.raises(
        DataError, match=r"every line must be complete, below 16 MiB, with every quote closed; got .* on line 3"
    ):
        read_table(str(path), None, None, owner="nearfar map")
    assert "with every quote closed" in fails("map", path, "-o", tmp_path / "x.npz")
    nf.Embedding(np.eye(4), range(4)).save(tmp_path / "x.npz")
    for labels, told in ((path.read_bytes(), "with every quote closed"), (b"1,a\n" + b"9" * 5000 + b",b", "999")):
        path.write_bytes(labels)
        assert told in fails("evaluate", "labels", tmp_path / "x.npz", path)
