"""Stored relations of which one bit was flipped: run by test_flipped_bits.py.

Says "nothing" where the results are those of the sound relation, "differs" where they are others.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np

import nearfar as nf

BITS = 5  # flips of each file


class DiffersError(Exception):
    """Other results, and no error."""


def results(folder, verify):
    """Return what is made of a relation: products in both directions, sums, ids."""
    rel = nf.Relation.open(folder, verify=verify)
    X = np.arange(2.0 * max(rel.shape), dtype=np.float32).reshape(-1, 2)
    ids = rel.row_ids.to_list(), rel.column_ids.to_list()
    found = rel.matmat(X[: rel.shape[1]]), rel.rmatmat(X[: rel.shape[0]]), rel.row_sums, rel.column_sums
    return ids, [array.tobytes() for array in found], rel.normalized().to_scipy().data.tobytes(), repr(rel)


def cases():
    """Flip bits of each file, in turn, of two relations and of a transpose; with and without verification."""
    rng = np.random.default_rng(3)
    root = Path(tempfile.mkdtemp())
    names = [f"thing {k}" for k in range(40)]
    pairs = [(names[a], names[b], float(w)) for a, b, w in rng.integers(1, 40, (150, 3))]
    users = rng.integers(0, 30, (99, 2))
    makes = {
        "weighted": lambda folder: nf.Relation.from_edges(pairs, directed=True, storage=folder),
        "bipartite": lambda folder: nf.Relation.from_edges(users, bipartite=True, storage=folder),
    }
    for kind, make in makes.items():
        sound = root / kind
        make(sound)
        expected = results(sound, True)  # which makes the transpose, too
        for path, verify in itertools.product(sorted(sound.rglob("*.*")), (False, True)):
            name = str(path.relative_to(sound))
            size = path.stat().st_size
            places = np.unique(rng.integers(0, size, BITS))
            for place, bit in zip(places.tolist(), itertools.cycle(range(8)), strict=False):

                def use(name=name, place=place, bit=bit, verify=verify, sound=sound, expected=expected):
                    path = sound / name
                    content = path.read_bytes()
                    altered = bytearray(content)
                    altered[place] ^= 1 << bit
                    path.write_bytes(altered)
                    try:
                        found = results(sound, verify)
                    finally:
                        path.write_bytes(content)
                    if found != expected:
                        raise DiffersError("other results")

                yield f"{kind}: {name}: {'verified' if verify else 'opened'}: bit {bit} of byte {place}", use
