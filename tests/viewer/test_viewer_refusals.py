"""What the map page refuses."""

import numpy as np
import pytest
from refusals import Made, With, refused

import nearfar as nf
from nearfar.errors import DataError, InputError

Y = np.random.default_rng(0).normal(size=(4, 2))
EMB = nf.Embedding(np.eye(4), list("abcd"))
ROWS = np.random.default_rng(1).normal(size=(30, 4))
DRAWN, OTHER = (nf.TSNE(perplexity=9, max_iter=5, random_state=0).fit(rows) for rows in (ROWS, ROWS[:29]))
MAPPED = nf.Embedding(ROWS)


def ragged(folder):
    (folder / "ragged.csv").write_text("who,tag\na,1\nb\n")
    return With(metadata=folder / "ragged.csv")


def with_images(images):
    pytest.importorskip("PIL")
    return EMB.map(Y, images=images)


test_refusals = refused(
    {
        "map": lambda **given: EMB.map(**({"positions": Y} | given)),
        "of a fit": lambda **given: MAPPED.map(**({"positions": DRAWN} | given)),
        "save": lambda path: EMB.map(Y).save(path),
        "images": with_images,
    },
    [
        ("map", "metadata", {"tag": [1, 2, 3]}, InputError, "4 rows, or a column with the ids; got 3 rows"),
        (
            "map",
            "metadata",
            With(metadata={"who": ["x"]}, id_column="who"),
            InputError,
            "none of them; 'who' holds 'x'",
        ),
        ("map", "metadata", With(metadata={"who": ["a", "a"]}, id_column="who"), InputError, "several for 'a'"),
        ("map", "id_column", With(metadata={"tag": [1, 2, 3, 4]}, id_column="who"), InputError, "of 'tag'; got 'who'"),
        ("map", "metadata", {"tag": [1, 2, 3, 4], "b": [1]}, InputError, "columns of one length"),
        ("map", "metadata", 7, InputError, "a frame, a mapping of columns, or the path of a CSV file"),
        ("map", "metadata", "no.csv", InputError, "a CSV file that is there"),
        ("map", "every line", Made(ragged), DataError, "got 1 on line 3"),
        ("map", "label", With(metadata={"tag": list("xyxy")}, label="x"), InputError, "one of 'tag'; got 'x'"),
        ("map", "label", "tag", InputError, "given with metadata only"),
        ("map", "color", With(metadata={"tag": list("xyxy")}, color="x"), InputError, "'tag', 'missing neighbours', "),
        ("map", "positions", nf.Embedding(Y[:3], list("abc")), InputError, "a place for every id; got none for 'd'"),
        ("map", "positions", np.zeros((4, 3)), InputError, "of shape (4, 2), a row for each id; got shape (4, 3)"),
        ("map", "positions", np.where(Y[2, 1] == Y, np.nan, Y), InputError, "finite; got NaN or infinity at 'c'"),
        ("map", "metric", "nothing", InputError, "one of"),
        ("map", "stability", True, InputError),
        ("of a fit", "stability", "yes", InputError),
        ("of a fit", "stability", nf.evaluate.map_stability(OTHER, n_refits=1, max_iter=5), InputError),
        ("of a fit", "color", "stability", InputError, "one of ", "; got 'stability'"),
        ("save", "path", "map.gif", InputError, "a file name ending in .html"),
        ("images", "images", ["no.png"] * 4, InputError, "their files, bytes or arrays; got ", "no.png", " for 'a'"),
        ("images", "images", [None] * 3, InputError, "4, one for each id; got 3"),
        ("images", "images", [b"no image"] * 4, InputError, "cannot identify image file"),
    ],
)
