"""Arrays and columns of data that nobody should give, for every estimator, evaluator and plot: part of `make fuzz`.

A draw is one call of something public with arguments of which some are hostile: masked, of odd types, not finite,
huge, empty, sparse with indices that lead nowhere, columns of mixed or missing values. What comes of it is finite, or
an error of nearfar; nothing else: no other exception, no warning but nearfar's, no NaN or infinity that nobody is told
of, no end of the process. A draw depends on its number and the seed alone; `--again N` makes one of them once more.
"""

import argparse
import contextlib
import dataclasses
import datetime
import decimal
import faulthandler
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from hazards import lines_of, of_command, say
from scipy import sparse
from sparse_entries import FAULTS

import nearfar as nf
from nearfar.errors import NearfarError, NearfarWarning
from nearfar.relations.neighbors import nearest_neighbors

N, D = 24, 4  # of a sound matrix
SLOW = 30  # seconds for one draw


DOCUMENTED = re.compile(r"quantile_intervals|Word2DM.pull_|log_prob|MDS.kruskal_stress_")
"""Results that may hold NaN or infinity, as their documentation says."""


BY_SHAPE = ("choose",)
"""What looks at the shape of an array alone, and may be given masked ones."""


class UnsoundError(Exception):
    """A result holds numbers that are not finite, or masked ones were taken."""


# -- hostile matrices --------------------------------------------------------------------------------------------------


def _set(value: object) -> Callable[[np.random.Generator, np.ndarray], np.ndarray]:
    """Return what puts a value into some entries."""

    def change(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            X = X.astype(object if not isinstance(value, float) else np.float64)
        if X.size:
            X.reshape(-1)[rng.integers(0, X.size, rng.integers(1, 4))] = value
        return X

    return change


def _times(factor: float, dtype: str = "f8") -> Callable[[np.random.Generator, np.ndarray], np.ndarray]:
    def change(_rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return (X * factor).astype(dtype)

    return change


def _zero_rows(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[rng.integers(0, len(X), 3)] = 0
    return X


def _equal_rows(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    return X[rng.integers(0, min(3, len(X)), len(X))]


def _masked(rng: np.random.Generator, X: np.ndarray) -> np.ma.MaskedArray:
    return np.ma.masked_array(X.copy(), mask=rng.random(X.shape) < rng.choice([0, 0.05, 1]))


def _read_only(_rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.flags.writeable = False
    return X


def _strided(_rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    wide = np.zeros((*X.shape, 3), X.dtype)
    wide[..., 1] = X
    return wide[..., 1]


def _structured(_rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    made = np.zeros(X.shape, [("x", "f8"), ("y", "i4")])
    made["x"] = X
    return made


def _ragged(_rng: np.random.Generator, X: np.ndarray) -> list:
    return [list(row)[: k % max(len(row), 1) + 1] for k, row in enumerate(X)]


def _frame(rng: np.random.Generator, X: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])
    with contextlib.suppress(Exception):  # of what is no column
        frame["c0"] = COLUMNS[str(rng.choice(list(COLUMNS)))](rng, len(X))
    if rng.random() < 0.1:
        frame.columns = ["same"] * frame.shape[1]
    if rng.random() < 0.1:
        frame.index = ["twice"] * len(frame)
    return frame


def _polars(_rng: np.random.Generator, X: np.ndarray) -> object:
    import polars

    return polars.DataFrame({f"c{k}": [None, *column[1:]] for k, column in enumerate(X.T.tolist())})


def _tensor(rng: np.random.Generator, X: np.ndarray) -> object:
    import torch

    made = torch.tensor(X.astype(np.float64))
    return [made.requires_grad_(), made.to(torch.bfloat16), made.to_sparse(), made, made.to(torch.complex64)][
        rng.integers(5)
    ]


MATRICES: dict[str, Callable[[np.random.Generator, np.ndarray], object]] = {
    "sound": lambda _, X: X,
    "masked": _masked,
    "NaN": _set(np.nan),
    "infinity": _set(np.inf),
    "minus infinity": _set(-np.inf),
    "one huge": _set(3e38),
    "one huge float64": _set(1e300),
    "float32 at 1e38": _times(1e38, "f4"),
    "float32 at 1e19": _times(1e19, "f4"),
    "float64 at 1e38": _times(1e38),
    "float64 at 1e200": _times(1e200),
    "float64 at 1e308": _times(1e308),
    "float32 at 1e-30": _times(1e-30, "f4"),
    "float64 at 1e-300": _times(1e-300),
    "zeros": _times(0.0),
    "zero rows": _zero_rows,
    "equal rows": _equal_rows,
    "ones": lambda _, X: np.ones_like(X),
    "negative": lambda _, X: -np.abs(X) - 1,
    "float16": _times(1.0, "f2"),
    "big-endian float64": _times(1.0, ">f8"),
    "big-endian float32": _times(1.0, ">f4"),
    "big-endian int": _times(1.0, ">i4"),
    "long double": _times(1.0, "g"),
    "int8": _times(50.0, "i1"),
    "int64, large": _times(2.0**60, "i8"),
    "uint64": lambda _, X: (np.abs(X) * 2.0**62).astype("u8"),
    "bool": lambda _, X: X > 0,
    "complex": _times(1.0, "c16"),
    "objects": lambda _, X: X.astype(object),
    "None": _set(None),
    "pd.NA": _set(pd.NA),
    "text": _set("a"),
    "digits": lambda _, X: X.astype(str),
    "digits as objects": lambda _, X: X.astype(str).astype(object),
    "bytes": lambda _, X: X.astype("S8"),
    "decimals": _set(decimal.Decimal("1.5")),
    "long integers": _set(10**400),
    "dictionaries": _set({}),
    "np.ma.masked": _set(np.ma.masked),
    "complex objects": _set(1j),
    "dates": lambda _, X: np.full(X.shape, "2020-01-01", "M8[D]"),
    "durations": lambda _, X: np.full(X.shape, 3, "m8[h]"),
    "structured": _structured,
    "np.matrix": lambda _, X: np.asmatrix(X),
    "by columns": lambda _, X: np.asfortranarray(X),
    "strided": _strided,
    "backwards": lambda _, X: X[::-1, ::-1],
    "read-only": _read_only,
    "list": lambda _, X: X.tolist(),
    "ragged": _ragged,
    "one row": lambda _, X: X[:1],
    "two rows": lambda _, X: X[:2],
    "no rows": lambda _, X: X[:0],
    "no columns": lambda _, X: X[:, :0],
    "one column": lambda _, X: X[:, :1],
    "a row less": lambda _, X: X[:-1],
    "a column less": lambda _, X: X[:, :-1],
    "one dimension": lambda _, X: X.ravel(),
    "three dimensions": lambda _, X: X[None],
    "a number": lambda _, X: np.float64(X.sum()),
    "nothing": lambda _, X: None,
    "a word": lambda _, X: "abc",
    "a set": lambda _, X: set(X.ravel().tolist()),
    "a dictionary": lambda _, X: {"a": X},
    "a generator": lambda _, X: (row for row in X),
    "frame": _frame,
    "polars": _polars,
    "tensor": _tensor,
}


def _broken(rng: np.random.Generator, A: sparse.csr_array) -> object:
    return FAULTS[str(rng.choice(list(FAULTS)))](A.copy()) if A.nnz > 30 and np.diff(A.indptr).all() else A


def _twice(rng: np.random.Generator, A: sparse.csr_array) -> sparse.coo_array:
    rows, columns = A.nonzero()
    take = rng.integers(0, max(len(rows), 1), 2 * len(rows))
    data = np.asarray(A[rows, columns]).ravel()[take] if len(rows) else np.zeros(0)
    dtype = rng.choice(["f8", "i1", "u1", "?", "f4"])
    made = sparse.coo_array(((data * 60).astype(dtype), (rows[take], columns[take])), shape=A.shape)
    if rng.random() < 0.5:
        order = np.argsort(made.row, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(made.row, minlength=A.shape[0])))
        return sparse.csr_array((made.data[order], made.col[order], starts), shape=A.shape)
    return made


def _typed(rng: np.random.Generator, A: sparse.csr_array) -> sparse.csr_array:
    """Return entries of a type that SciPy's own functions do not know."""
    A = A.copy()
    dtype = rng.choice(["f2", ">f8", ">f4", "g", "c16", "i8", "u1", "?", "O"])
    A.data = A.data.astype(dtype)
    if rng.random() < 0.3:
        A.indices, A.indptr = A.indices.astype(rng.choice(["i8", ">i4", "u4"])), A.indptr.astype("i8")
    return A


def _valued(rng: np.random.Generator, A: sparse.csr_array) -> sparse.csr_array:
    A = A.copy()
    if A.nnz:
        A.data[rng.integers(0, A.nnz, 2)] = rng.choice([np.nan, np.inf, -np.inf, 3e38, 1e300, -1.0, 0.0, 1e-320])
    return A


SPARSE: dict[str, Callable[[np.random.Generator, sparse.csr_array], object]] = {
    "sound": lambda _, A: A,
    "broken": _broken,
    "twice": _twice,
    "typed": _typed,
    "valued": _valued,
    "times 1e38": lambda _, A: A.astype(np.float32) * np.float32(1e38),
    "times 1e200": lambda _, A: A * 1e200,
    "times 1e-30": lambda _, A: A.astype(np.float32) * np.float32(1e-30),
    "empty": lambda _, A: sparse.csr_array(A.shape),
    "no rows": lambda _, A: sparse.csr_array((0, A.shape[1])),
    "no columns": lambda _, A: sparse.csr_array((A.shape[0], 0)),
    "zero rows": lambda rng, A: sparse.csr_array(_zero_rows(rng, A.toarray())),
    "other format": lambda rng, A: A.asformat(str(rng.choice(["csc", "coo", "bsr", "dia", "lil", "dok"]))),
    "matrix": lambda _, A: sparse.csr_matrix(A),
    "one dimension": lambda _, A: sparse.coo_array(A.toarray().ravel()),
}


# -- hostile columns ---------------------------------------------------------------------------------------------------

COLUMNS: dict[str, Callable[[np.random.Generator, int], object]] = {
    "whole numbers": lambda rng, n: rng.integers(0, 3, n),
    "numbers": lambda rng, n: rng.normal(size=n),
    "numbers with NaN": lambda rng, n: np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
    "infinite": lambda rng, n: np.where(rng.random(n) < 0.3, np.inf, rng.normal(size=n)),
    "all NaN": lambda rng, n: np.full(n, np.nan),
    "huge": lambda rng, n: rng.normal(size=n) * 1e308,
    "masked": lambda rng, n: np.ma.masked_array(rng.normal(size=n), mask=rng.random(n) < 0.4),
    "all masked": lambda rng, n: np.ma.masked_array(np.arange(n), mask=True),
    "masked text": lambda rng, n: np.ma.masked_array(["abc"[k % 3] for k in range(n)], mask=rng.random(n) < 0.4),
    "float16": lambda rng, n: rng.normal(size=n).astype("f2"),
    "big-endian": lambda rng, n: rng.normal(size=n).astype(">f8"),
    "text": lambda rng, n: ["ab$c_"[k % 5] for k in range(n)],
    "text with None": lambda rng, n: ["a" if k % 2 else None for k in range(n)],
    "text with NaN": lambda rng, n: ["a" if k % 2 else np.nan for k in range(n)],
    "text with NA": lambda rng, n: pd.array(["a" if k % 2 else None for k in range(n)], dtype="string"),
    "whole numbers with NA": lambda rng, n: pd.array([k % 3 if k % 2 else None for k in range(n)], dtype="Int64"),
    "numbers with NA": lambda rng, n: pd.array([k / 7 if k % 2 else None for k in range(n)], dtype="Float64"),
    "mixed": lambda rng, n: [["a", 1, 2.5, None, (1, 2)][k % 5] for k in range(n)],
    "lists": lambda rng, n: [[1, 2]] * n,
    "sets": lambda rng, n: [{"a"}] * n,
    "dictionaries": lambda rng, n: [{}] * n,
    "bytes": lambda rng, n: [b"a"] * n,
    "bools": lambda rng, n: rng.random(n) < 0.5,
    "bools with NA": lambda rng, n: pd.array([k % 2 == 0 if k % 3 else None for k in range(n)], dtype="boolean"),
    "complex": lambda rng, n: rng.normal(size=n) + 1j,
    "dates": lambda rng, n: pd.Series(pd.date_range("2020-01-01", periods=n)).mask(rng.random(n) < 0.3),
    "numpy dates": lambda rng, n: np.where(rng.random(n) < 0.3, np.datetime64("NaT"), np.datetime64("2020-01-01", "D")),
    "python dates": lambda rng, n: [datetime.date(2020, 1, 1 + k % 28) for k in range(n)],
    "durations": lambda rng, n: np.arange(n).astype("m8[s]"),
    "category": lambda rng, n: pd.Series(pd.Categorical([None if k % 5 == 0 else "abc"[k % 3] for k in range(n)])),
    "ordered category": lambda rng, n: pd.Series(pd.Categorical([k % 3 for k in range(n)], ordered=True)),
    "Series by other index": lambda rng, n: pd.Series(rng.integers(0, 3, n), index=rng.permutation(n)),
    "Series of strangers": lambda rng, n: pd.Series(rng.integers(0, 3, n), index=[f"x{k}" for k in range(n)]),
    "Series of twins": lambda rng, n: pd.Series(rng.integers(0, 3, n), index=[0] * n),
    "a dictionary": lambda rng, n: {k: "ab"[k % 2] for k in range(0, n, 2)},
    "one value": lambda rng, n: ["a"] * n,
    "all different": lambda rng, n: [f"name {k}" for k in range(n)],
    "one short": lambda rng, n: ["a", "b"] * (n // 2 - 1),
    "empty": lambda rng, n: [],
    "no list": lambda rng, n: "abc",
    "a number": lambda rng, n: 3,
    "a matrix": lambda rng, n: rng.integers(0, 2, (n, 3)),
    "a column of a matrix": lambda rng, n: rng.integers(0, 2, (n, 1)),
    "sparse": lambda rng, n: sparse.csr_array(rng.integers(0, 2, (n, 3))),
    "a generator": lambda rng, n: (k % 3 for k in range(n)),
    "a frame": lambda rng, n: pd.DataFrame({"a": rng.integers(0, 3, n)}),
    "large whole numbers": lambda rng, n: 2**53 + rng.integers(0, 3, n),
    "beyond int64": lambda rng, n: [2**70 + k % 3 for k in range(n)],
    "negative": lambda rng, n: -1 - rng.integers(0, 3, n),
    "objects": lambda rng, n: np.array([object() for _ in range(n)]),
}


class Draw:
    """Arguments of one call, each hostile or sound, and what they are in words."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])
        self.name = str(self.rng.choice(list(TARGETS)))
        self.words: list[str] = []
        self.must_be_refused = False

    def _hostile(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def _drawn(self, kinds: Mapping[str, Callable], sound: object, given: object) -> object:
        name = str(self.rng.choice(list(kinds))) if self._hostile() else ""
        self.words.append(name or "sound")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = kinds[name](self.rng, given) if name else sound
        self.must_be_refused |= kinds is MATRICES and isinstance(found, np.ma.MaskedArray) and np.ma.is_masked(found)
        return found

    def rows(self, n: int = N, d: int = D, *, is_sparse: bool = True) -> object:
        """Rows of numbers."""
        X = self.rng.normal(size=(n, d)) * [3, *[1] * (d - 1)]
        if is_sparse and self.rng.random() < 0.3:
            A = sparse.csr_array(np.where(self.rng.random(X.shape) < 0.6, X, 0))
            return self._drawn(SPARSE, A, A)
        return self._drawn(MATRICES, X, X)

    def square(self, n: int = N) -> object:
        """Distances, similarities, weights of edges."""
        X = self.rng.normal(size=(n, 3))
        A = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
        what = self.rng.integers(7)
        if what == 0:
            A = A.max() - A
        elif what == 1:
            A = np.abs(self.rng.normal(size=(n, n)))
        elif what == 2:
            A += self.rng.normal(size=A.shape) * 10.0 ** -self.rng.integers(3, 17)
        elif what == 3:
            A = A[np.triu_indices(n, 1)][None]
        elif what == 4:
            A[self.rng.integers(n)] = 0
        if A.shape[0] == n and self.rng.random() < 0.3:
            made = sparse.csr_array(np.where(self.rng.random(A.shape) < 0.6, A, 0))
            return self._drawn(SPARSE, made, made)
        found = self._drawn(MATRICES, A, A)
        return np.ravel(found) if what == 3 and isinstance(found, np.ndarray) else found

    def column(self, n: int = N) -> object:
        """One value for each row."""
        return self._drawn(COLUMNS, ["abc"[k % 3] for k in range(n)], n)

    def cubes(self, n: int) -> object:
        """Matrices of n rows, positive semi-definite where they are sound."""
        X = self.rng.normal(size=(N, n, n))
        found = self._drawn(MATRICES, None, (X @ X.transpose(0, 2, 1)).reshape(N, -1))
        if found is None:
            return X @ X.transpose(0, 2, 1)
        is_whole = isinstance(found, np.ndarray) and found.shape == (N, n * n)
        return found.reshape(N, n, n) if is_whole and not isinstance(found, np.matrix) else found

    def vector(self, n: int) -> object:
        """Numbers, one for each of something."""
        found = self.rows(n, 1, is_sparse=False)
        return found.ravel() if isinstance(found, np.ndarray) and found.ndim == 2 else found

    def pick(self, *choices: object) -> object:
        """One of some sound values."""
        return choices[self.rng.integers(len(choices))]


# -- what is called ----------------------------------------------------------------------------------------------------

QUICK = {"n_jobs": 1, "random_state": 0}
MAP = {**QUICK, "max_iter": 3, "perplexity": 3}
MAPS = dict.fromkeys(("TSNE", "SSNE", "ASNE", "TASNE", "NeRV", "JSE", "WSSNE", "InhomogeneousTSNE"), MAP)
MAPS |= {"NeighborEmbedding": MAP, "HSSNE": {**MAP, "alpha": 0.3}, "MDS": {**QUICK, "max_iter": 3}}
MAPS |= {"UMAP": {**QUICK, "max_iter": 3, "n_neighbors": 4}}
RELATIONS = {
    "EDRep": {**QUICK, "n_components": 3, "n_epochs": 2},
    "SkipGram": {**QUICK, "n_components": 3, "n_epochs": 1},
    "Word2DM": {**QUICK, "n_components": 3, "n_factors": 2, "n_epochs": 1},
    "MultiSenseWord2DM": {**QUICK, "n_components": 3, "n_senses": 2, "n_epochs": 1},
}
METRICS = ("euclidean", "euclidean", "cosine", "manhattan", "haversine", "correlation", "jaccard", "seuclidean")
SOUND = np.random.default_rng(0).normal(size=(N, D))
TWO_SIDED = nf.Embedding(SOUND, context_vectors=SOUND[::-1])
PAIRS = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
WORDS = nf.Embedding(SOUND[:3], ids=list("abc"))
WEIGHTS = np.exp(-((SOUND[:, None] - SOUND) ** 2).sum(-1)) * (1 - np.eye(N))


@cache
def _index() -> nf.index.EmbeddingIndex:
    return nf.Embedding(SOUND).index("lists")


def _map(name: str) -> Callable[[Draw], object]:
    def call(draw: Draw) -> object:
        given = draw.rng.random() < 0.4
        metric = "precomputed" if given else str(draw.pick(*METRICS))
        draw.words.append(f"metric={metric}")
        d = 2 if metric == "haversine" else D
        parameters = {**MAPS[name], "metric": metric}
        init = draw.rng.random() < 0.2
        if init:
            parameters["init"] = draw.rows(N, 2)
        estimator = getattr(nf, name)(**parameters).fit(draw.square() if given else draw.rows(N, d))
        if draw.rng.random() < 0.3:
            return estimator, estimator.transform(draw.rows(5, N) if given else draw.rows(5, d))
        return estimator

    return call


def _relation(name: str) -> Callable[[Draw], object]:
    def call(draw: Draw) -> object:
        parameters = dict(RELATIONS[name])
        if draw.rng.random() < 0.3 and name in ("EDRep", "SkipGram"):
            parameters["init"] = draw.rows(N, 3)
        given = draw.square()
        if draw.rng.random() < 0.5:
            given = nf.Relation.from_matrix(given)
        estimator = getattr(nf, name)(**parameters).fit(given)
        if name == "EDRep" and draw.rng.random() < 0.4:
            return estimator, estimator.transform(draw.rows(4, N))
        return estimator

    return call


def _affinities(draw: Draw) -> object:
    metric = str(draw.pick(*METRICS, "precomputed", "precomputed"))
    draw.words.append(f"metric={metric}")
    made = nf.Affinities(3, metric=metric, n_jobs=1, random_state=0)
    made.fit(draw.square() if metric == "precomputed" else draw.rows(N, 2 if metric == "haversine" else D))
    return made, made.relation_.to_scipy()


def _pair(draw: Draw) -> object:
    indices, distances = nearest_neighbors(SOUND, 8, n_jobs=1)
    wrong = draw.pick("indices", "distances")
    change = MATRICES[str(draw.rng.choice(list(MATRICES)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = change(draw.rng, indices if wrong == "indices" else distances)
    draw.words.append(f"{wrong}: {type(given).__name__}")
    pair = (given, distances) if wrong == "indices" else (indices, given)
    return getattr(nf, str(draw.pick("TSNE", "UMAP")))(**MAPS["TSNE"], metric="precomputed").fit(pair)


def _nearest(draw: Draw) -> object:
    metric = str(draw.pick(*METRICS, "precomputed"))
    draw.words.append(f"metric={metric}")
    X = draw.square() if metric == "precomputed" else draw.rows(N, 2 if metric == "haversine" else D)
    return nearest_neighbors(X, 3, metric=metric, n_jobs=1, random_state=0)


def _embedding(draw: Draw) -> object:
    ids = draw.column() if draw.rng.random() < 0.3 else None
    made = nf.Embedding(draw.rows(), ids=ids)
    return made.vectors, made.most_similar(draw.rows(1, D)) if draw.rng.random() < 0.5 else None


def _search(draw: Draw) -> object:
    made = nf.Embedding(SOUND)
    found = made.search(draw.rows(3, D), 4, metric=str(draw.pick("cosine", "dot", "euclidean")), n_jobs=1)
    return found.scores if hasattr(found, "scores") else found


def _normalizers(draw: Draw) -> object:
    method = str(draw.pick("gaussian-mixture", "exact", "noise"))
    rows = draw.vector(3) if draw.rng.random() < 0.3 else None
    other = draw.rows() if draw.rng.random() < 0.4 else None
    return nf.log_normalizers(draw.rows(), other, rows=rows, method=method, n_jobs=1, random_state=0)


def _neighborhoods(draw: Draw) -> object:
    metric = str(draw.pick("euclidean", "cosine", "manhattan", "precomputed", "jaccard", "correlation"))
    draw.words.append(f"metric={metric}")
    X = draw.square() if metric == "precomputed" else draw.rows()
    labels = draw.column() if draw.rng.random() < 0.4 else None
    per_point = draw.rng.random() < 0.2
    given = {"labels": labels, "metric": metric, "per_point": per_point, "n_jobs": 1, "random_state": 0}
    return nf.evaluate.neighborhoods(X, draw.rows(N, 2), **given)


def _communities(draw: Draw) -> object:
    nodes = draw.column() if draw.rng.random() < 0.2 else None
    return nf.evaluate.communities(draw.rows(), draw.column(), nodes=nodes, n_init=1, random_state=0, n_jobs=1)


def _classification(draw: Draw) -> object:
    return nf.evaluate.node_classification(draw.rows(), draw.column(), fractions=0.5, n_repeats=1, random_state=0)


def _links(draw: Draw) -> object:
    method = lambda relation: nf.EDRep(**RELATIONS["EDRep"]).fit(relation)  # noqa: E731
    given = {"n_repeats": 1, "random_state": 0}
    return nf.evaluate.link_prediction(draw.square(), method, **given)


def _ranking(draw: Draw) -> object:
    known = draw.square() if draw.rng.random() < 0.5 else None
    given = {"k": 3, "n_jobs": 1, "baselines": known is not None, "random_state": 0}
    return nf.evaluate.ranking(nf.Embedding(draw.rows()), draw.square(), exclude=known, **given).to_dict()


def _stability(draw: Draw) -> object:
    return nf.evaluate.stability([nf.Embedding(draw.rows()), nf.Embedding(SOUND)], 3, n_jobs=1, random_state=0)


def _map_stability(draw: Draw) -> object:
    est = nf.TSNE(perplexity=3, max_iter=20, random_state=0, n_jobs=1).fit(draw.rows())
    return nf.evaluate.map_stability(est, n_refits=1, max_iter=5, random_state=0).moved


def _align(draw: Draw) -> object:
    return nf.align(nf.Embedding(draw.rows()), nf.Embedding(SOUND))


def _scatter(draw: Draw) -> object:
    what, values = draw.rng.integers(3), None
    labels = draw.column() if what == 1 else None
    if what == 2:
        values = draw.column()
    axes = nf.plots.scatter(draw.rows(N, 2), labels, values=values, names=str(draw.pick("auto", "legend")))
    return _drawn_figure(axes)


def _multiples(draw: Draw) -> object:
    labels = draw.column() if draw.rng.random() < 0.5 else None
    return _drawn_figure(nf.plots.small_multiples([draw.rows(N, 2), SOUND[:, :2]], labels)[0])


def _drawn_figure(axes: object) -> None:
    from matplotlib import pyplot

    axes.figure.canvas.draw()
    pyplot.close("all")


def _page(draw: Draw) -> object:
    columns = {"a": draw.column(), "b": draw.column()} if draw.rng.random() < 0.6 else None
    page = nf.Embedding(SOUND).map(draw.rows(N, 2), metadata=columns, n_jobs=1)
    return page.positions, page.distances


TARGETS: dict[str, Callable[[Draw], object]] = {
    **{name: _map(name) for name in MAPS},
    **{name: _relation(name) for name in RELATIONS},
    "Affinities": _affinities,
    "a pair of arrays": _pair,
    "nearest_neighbors": _nearest,
    "classical_mds": lambda draw: (
        nf.classical_mds(draw.square(), metric="precomputed", n_jobs=1)
        if draw.rng.random() < 0.5
        else nf.classical_mds(draw.rows(), n_jobs=1)
    ),
    "Embedding": _embedding,
    "search": _search,
    "log_normalizers": _normalizers,
    "estimate_error": lambda draw: nf.far.estimate_error(draw.rows(), n_rows=8, random_state=0, n_jobs=1),
    "neighborhoods": _neighborhoods,
    "communities": _communities,
    "node_classification": _classification,
    "link_prediction": _links,
    "ranking": _ranking,
    "stability": _stability,
    "map_stability": _map_stability,
    "align": _align,
    "scatter": _scatter,
    "page": _page,
    "small_multiples": _multiples,
    "giant_component": lambda draw: nf.evaluate.giant_component(draw.square()),
    "compress": lambda draw: nf.compress(draw.rows(), 4, 2, n_iter=2, random_state=0, n_jobs=1).vectors,
    "CategoricalNoise": lambda draw: {"log_prob": nf.nn.CategoricalNoise(draw.vector(6)).log_prob(_torch_ids())},
    "UnigramNoise": lambda draw: {"log_prob": nf.nn.UnigramNoise(draw.vector(6)).log_prob(_torch_ids())},
    "InBatchNoise": lambda draw: nf.nn.InBatchNoise(6, draw.vector(6)),
    "choose_anchors": lambda draw: nf.nn.choose_anchors(
        3,
        str(draw.pick("frequency", "coreset", "k-means++")),
        counts=draw.vector(N),
        vectors=draw.rows(),
        random_state=0,
    ),
    "estimate_mutual_information": lambda draw: nf.nn.estimate_mutual_information(
        draw.rows(N, 3), draw.rows(N, 3), batch_size=4, n_steps=2, random_state=0
    ),
    "k_E": lambda draw: nf.hyponymy.k_E(draw.rows(3, 3), draw.rows(3, 3)),
    "loewner": lambda draw: nf.hyponymy.loewner(draw.rows(3, 3), draw.rows(3, 3)),
    "scaled": lambda draw: nf.hyponymy.scaled(draw.rows(3, 3)),
    "choose": lambda draw: str(nf.choose(draw.rows() if draw.rng.random() < 0.5 else draw.square())),
    "Relation.from_edges": lambda draw: nf.Relation.from_edges(draw.rows(N, int(draw.pick(2, 3)))).to_scipy(),
    "Relation @": lambda draw: nf.Relation.from_matrix(WEIGHTS) @ draw.rows(N, 2),
    "EDRep(p0=)": lambda draw: nf.EDRep(**RELATIONS["EDRep"], p0=draw.vector(N)).fit(WEIGHTS),
    "WSSNE(weights=)": lambda draw: nf.WSSNE(**MAP, weights=draw.vector(N)).fit(SOUND),
    "InhomogeneousTSNE(degrees_of_freedom=)": lambda draw: nf.InhomogeneousTSNE(
        **MAP, degrees_of_freedom=draw.vector(N)
    ).fit(SOUND),
    "recommend": lambda draw: TWO_SIDED.recommend(draw.rows(2, D), 3, base_measure=draw.vector(N), n_jobs=1)[1],
    "index": lambda draw: _index().search(draw.rows(2, D), 3, n_jobs=1)[1],
    "DensityEmbedding": lambda draw: nf.DensityEmbedding(draw.cubes(3)).vectors,
    "AnchoredEmbedding": lambda draw: nf.AnchoredEmbedding(draw.rows(N, 3), draw.rows(3, D)).vectors,
    "SenseEmbedding": lambda draw: nf.SenseEmbedding(draw.rows(4, D), PAIRS, weights=draw.vector(4)).vectors,
    "Vocabulary": lambda draw: nf.Vocabulary(list("abcd"), draw.vector(4)).counts,
    "spherical_kmeans": lambda draw: nf.far.spherical_kmeans(draw.rows(), 2, rng=0),
    "compose": lambda draw: nf.compose(WORDS, verb=draw.vector(D), subject="b", object="c", method="mult"),
    "similarity": lambda draw: nf.Embedding(SOUND).similarity(draw.vector(D), 3),
    "labels of clusters": lambda draw: nf.log_normalizers(SOUND, labels=draw.column(), n_clusters=3, n_jobs=1),
    "global_nce": lambda draw: nf.nn.global_nce(draw.rows(4, 3, is_sparse=False), _torch_ids() % 3),
    "dcsbm": lambda draw: nf.datasets.dcsbm(N, 2, 3.0, theta=draw.vector(N), random_state=0, n_jobs=1),
}


def _torch_ids() -> object:
    import torch

    return torch.arange(4)


# -- what came of it ---------------------------------------------------------------------------------------------------


def parts_of(found: object, name: str) -> Iterator[tuple[str, object]]:
    """Yield what a result is made of, with the name of each part."""
    if isinstance(found, Mapping):
        yield from ((f"{name}[{key}]", value) for key, value in found.items())
    elif isinstance(found, (list, tuple)):
        yield from ((name, value) for value in found)
    elif sparse.issparse(found):
        yield name, found.data
    elif dataclasses.is_dataclass(found) and not isinstance(found, type):
        yield from ((f"{name}.{field.name}", getattr(found, field.name)) for field in dataclasses.fields(found))
    elif hasattr(found, "get_params"):
        results = [key for key in vars(found) if key.endswith("_") and not key.startswith("_")]
        yield from ((f"{type(found).__name__}.{key}", getattr(found, key)) for key in results)


def numbers_of(found: object, name: str = "result") -> Iterator[tuple[str, np.ndarray]]:
    """Yield all arrays of numbers of a result, with the name of each."""
    if hasattr(found, "detach"):
        found = found.detach().numpy()
    if isinstance(found, (np.ndarray, float, np.floating)):
        if np.asarray(found).dtype.kind == "f":
            yield name, np.asarray(found)
        return
    for part, value in parts_of(found, name):
        yield from numbers_of(value, part)


def call(draw: Draw) -> str:
    """Make a draw, and judge what comes of it; return what was called."""
    name = draw.name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NearfarWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"pandas|matplotlib|torch")
        found = TARGETS[name](draw)
    if draw.must_be_refused and name not in BY_SHAPE:
        raise UnsoundError("masked entries were taken")
    for part, array in numbers_of(found):
        if not np.isfinite(array).all() and not DOCUMENTED.search(part):
            raise UnsoundError(f"{part}: {np.count_nonzero(~np.isfinite(array))} of {array.size} not finite")
    return name


def told(seed: int, number: int) -> str:
    """Make a draw; return "taken", "refused", or what was called, where and how it went wrong, in a line."""
    draw = Draw(seed, number)
    try:
        call(draw)
    except Exception as error:
        if isinstance(error, NearfarError) and str(error):
            return "refused"
        frames = traceback.extract_tb(error.__traceback__)
        place = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if "/nearfar/" in f.filename][-1:]
        where = f"{draw.name}: {type(error).__name__} at {(place or ['the draw'])[0]}"
        return " ".join(f"{where} ({', '.join(draw.words)}): {error!r:.300}".split())
    return "taken"


def main() -> int:
    """Make draws in processes of their own, and say what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=10_000, help="draws")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--again", type=int, help="make this draw alone, and show what it raises")
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    matplotlib.use("Agg")
    if options.again is not None:
        draw = Draw(options.seed, options.again)
        sys.stdout.write(f"{draw.name}\n{call(draw)}: taken ({', '.join(draw.words)})\n")
        return 0
    if options.first is not None:
        faulthandler.enable()
        for number in range(options.first, min(options.first + 1000, options.n)):
            faulthandler.dump_traceback_later(SLOW, exit=True)
            say(f"{number} -> ")
            say(f"{told(options.seed, number)}\n")
        return 0
    command = [sys.executable, sys.argv[0], "-n", str(options.n), "--seed", str(options.seed), "--first"]
    found = [line.partition(" -> ")[2] for line in lines_of(of_command(command), options.n)]
    wrong: dict[str, list[str]] = {}
    for number, line in enumerate(found):
        if line not in ("taken", "refused"):
            wrong.setdefault(line.partition(" (")[0], []).append(f"{number}: {line}")
    for place, lines in wrong.items():
        sys.stdout.write(f"{place}\t{len(lines)}\t{lines[0]}\n")
    counts = ", ".join(f"{found.count(what)} {what}" for what in ("taken", "refused"))
    sys.stdout.write(f"{options.n} draws of arrays ({counts}); seed {options.seed}; {len(wrong)} places went wrong\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
