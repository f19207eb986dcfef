"""One file is one thing at every door: of the same kind and the same columns, or refused by all."""

import io
import re
import warnings

import edge_files
import pytest

import nearfar as nf
from nearfar.errors import NearfarError

KINDS = {"Points": "table", "Corpus": "text", "Embedding": "vectors"}


def everyday():
    """Files as people have them, by name, each with what it is."""
    text = (edge_files.FOLDER / "everyday.txt").read_text(encoding="utf-8")
    for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, body = block.split("\n", 1)
        name, kind = head.split(" | ")
        yield name, kind, body


def read(reader, source, **options):
    """What a door makes of a file; the refusal in place of that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)
        try:
            return reader(source, **options)
        except NearfarError as error:
            return error


def kind_of(found):
    if isinstance(found, nf.Relation):
        return "graph" if found.is_square else "two kinds"
    return KINDS.get(type(found).__name__, "nodes" if "nodes, no edges" in str(found) else str(found))


@pytest.mark.parametrize(("name", "kind", "text"), list(everyday()), ids=[name for name, *_ in everyday()])
def test_files_as_people_have_them(name, kind, text, tmp_path):
    (tmp_path / name).write_text(text)
    found = read(nf.read, tmp_path / name)
    assert kind_of(found) == kind
    edges = read(nf.Relation.from_edges, tmp_path / name)
    assert isinstance(edges, nf.Relation) == (kind in ("graph", "two kinds"))


@pytest.mark.parametrize("name", [name for name in edge_files.COLLECTIONS if name.startswith("head")])
def test_the_front_door_and_the_reader_of_edges_agree(name, tmp_path):
    apart = {}
    for file in edge_files.blocks(name):
        path = tmp_path / re.sub(r"\W", "_", file.slug)
        path.write_text(file.text, "utf-8", newline="")
        found, edges = read(nf.read, path), read(nf.Relation.from_edges, path)
        both = [one.describe()["columns"] if isinstance(one, nf.Relation) else None for one in (found, edges)]
        if both[0] != both[1]:
            apart[file.slug] = both
    assert not apart


def test_an_open_file_is_read_as_the_file_is(tmp_path):
    for name, kind, text in everyday():
        if kind in ("graph", "two kinds"):
            (tmp_path / name).write_text(text)
            of_path, of_file = (read(nf.Relation.from_edges, source) for source in (tmp_path / name, io.StringIO(text)))
            assert of_path.describe()["columns"] == of_file.describe()["columns"], name
