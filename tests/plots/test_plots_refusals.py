"""What the pictures refuse."""

import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from refusals import refused

import nearfar as nf
from nearfar.errors import InputError, MissingDependencyError

X = np.arange(40.0).reshape(20, 2) ** 1.5
NAMES = np.array(["a", "b"])[np.arange(20) % 2]
DAYS = np.datetime64("2020-01-01") + np.arange(20)
EMB = nf.Embedding(X, [f"p{k}" for k in range(20)])
JUDGED = nf.evaluate.neighborhoods(X, X + [[0.0, 1.0]] * 20)

test_refusals = refused(
    {
        "plots.scatter": lambda **given: nf.plots.scatter(**({"vectors": X} | given)),
        "with labels": lambda **given: nf.plots.scatter(X, NAMES, **given),
        "plots.small_multiples": lambda **given: nf.plots.small_multiples(**({"maps": {"a": X}} | given)),
        "multiples with labels": lambda maps: nf.plots.small_multiples(maps, NAMES),
        "plots.rnx_curves": lambda **given: nf.plots.rnx_curves(**({"results": {"a": JUDGED}} | given)),
    },
    [
        ("plots.scatter", "vectors", np.ones(3), InputError, "plots.scatter", "two-dimensional"),
        ("plots.scatter", "vectors", np.ones((3, 1)), InputError, "two columns"),
        ("plots.scatter", "vectors", np.ones((0, 2)), InputError, "at least one row"),
        ("plots.scatter", "vectors", [[np.inf, 0.0]], InputError, "finite"),
        ("plots.scatter", "labels", [1, 2], InputError, "of shape (20,)"),
        ("plots.scatter", "labels", [0.5, *range(19)], InputError, "names of groups; got numbers such as 0.5"),
        ("plots.scatter", "labels", X[:, 0] + 0.5, InputError, "Give numbers as values="),
        ("plots.scatter", "values", [1, 2], InputError, "of shape (20,)"),
        ("plots.scatter", "values", NAMES, InputError, "numbers or dates; got", "Give names of groups as labels="),
        ("plots.scatter", "values", DAYS - DAYS[0], InputError, "numbers or dates; got timedelta such as"),
        ("plots.scatter", "values", DAYS.astype("M8[s]") + 10**12, InputError, "dates of the years 1 to 9999"),
        ("with labels", "values", np.arange(20), InputError, "None with labels"),
        ("plots.scatter", "names", "everywhere", InputError, "one of 'auto'"),
        ("plots.scatter", "path", "a.gif", InputError, "a file name ending in .png"),
        ("plots.scatter", "path", 3, InputError, "a path"),
        ("plots.scatter", "words", ["a"], InputError, "True, False or of shape (20,), one per vector; got shape (1,)"),
        ("plots.scatter", "words", "abcd", InputError, "True, False or of shape (20,)"),
        ("plots.scatter", "words", True, InputError, "a text for each vector, unless these are an Embedding; got True"),
        ("plots.small_multiples", "maps", {}, InputError, "plots.small_multiples", "at least one; got none"),
        ("plots.small_multiples", "maps", [], InputError, "at least one; got none"),
        ("plots.small_multiples", "maps", 3, InputError, "maps, or a mapping of titles to maps"),
        ("plots.small_multiples", "maps", "X", InputError, "maps, or a mapping of titles to maps"),
        ("plots.small_multiples", "maps", {"a": X[:, :1]}, InputError, "maps['a']", "two columns; got shape (20, 1)"),
        ("plots.small_multiples", "maps", [X, [[np.nan, 0.0]]], InputError, "maps[1]", "finite"),
        ("multiples with labels", "maps", [X, X[:9]], InputError, "maps[1] must be of 20 rows, like the first; got 9"),
        ("multiples with labels", "maps", [EMB, EMB.subset(EMB.ids[::-1])], InputError, "maps[1]", "subset(first.ids)"),
        ("plots.small_multiples", "labels", NAMES[:9], InputError, "of shape (20,)"),
        ("plots.small_multiples", "values", NAMES, InputError, "numbers"),
        ("plots.small_multiples", "columns", 0, InputError, "an integer >= 1"),
        ("plots.small_multiples", "path", "film.gif", InputError, "a file name ending in .png, .svg, .pdf"),
        ("plots.rnx_curves", "results", {}, InputError, "plots.rnx_curves", "a mapping of names"),
        ("plots.rnx_curves", "results", [1], InputError, "a mapping of names"),
        (
            "plots.rnx_curves",
            "results",
            {"t-SNE": 0.5},
            InputError,
            "results['t-SNE']",
            "evaluate.neighborhoods; got 0.5",
        ),
        ("plots.rnx_curves", "path", "a.gif", InputError, "a file name ending in .png"),
    ],
)


@pytest.mark.parametrize("draw", [nf.plots.scatter, lambda X: nf.plots.small_multiples([X]), nf.plots.rnx_curves])
def test_without_matplotlib_it_says_what_to_install(monkeypatch, draw) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'nearfar\[plot\]'"):
        draw(X)
