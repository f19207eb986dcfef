"""GloVe, written outside the library: two formulas, a descent in the verbs of a Place, and the estimator around it."""

import numpy as np
from scipy.sparse import csr_array

import nearfar as nf
from nearfar.base import RelationEmbedder, as_relation, identity_of
from nearfar.engines import VERBS, Setting, asked_engine, place_of
from nearfar.errors import InputError

SIDES = ("X", "b", "X.squares", "b.squares"), ("Y", "c", "Y.squares", "c.squares")
"""The tables of each side: vectors, constants, and the sums of the squares of their gradients."""


def pull(mine, theirs, log_p, weight):
    """Return the gradient of an entry in x and in b, and its cost."""
    (x, b), (y, c) = mine, theirs
    error = (x * y).sum(1) + b + c - log_p
    return (weight * error)[:, None] * y, weight * error, weight * error**2 / 2


def adagrad(moving, of_vectors, of_constants, cost, *, rate):
    """Take a step with some rows of a side; return the sum of their costs before."""
    vectors, constants, *squares = moving
    for table, total, g in zip((vectors, constants), squares, (of_vectors, of_constants), strict=True):
        table -= rate * g / total**0.5
        total += g * g
    return (cost.sum(),)


class State:
    """Where a fit stands, for callbacks: tables are fetched when somebody looks."""

    def __init__(self, place, tables, losses):
        self.place, self.tables, self.losses = place, tables, losses
        self.rows = {name: place.bring(table) for name, table in tables.items()}

    X = property(lambda self: self.place.fetch(self.rows["X"], self.tables["X"]))

    def snapshot(self):
        found = {name: self.place.fetch(rows, self.tables[name]) for name, rows in self.rows.items()}
        return found, {"losses": self.losses}


class GloVe(RelationEmbedder):
    """Vectors whose dot products are log weights (Pennington, Socher & Manning 2014, "GloVe", EMNLP, eq. 8).

    Minimises ``sum_ij f(P_ij) (x_i . y_j + b_i + c_j - ln P_ij)² / 2`` over the entries of a relation P, with
    ``f(p) = min(p / p_max, 1) ** 0.75``, by AdaGrad: all rows take a step, then all columns.
    """

    def __init__(self, n_components=50, *, p_max=100.0, learning_rate=0.05, n_epochs=50, callbacks=None,
                 random_state=None, n_jobs=None, verbose=0, engine=None):  # fmt: skip
        self.n_components, self.p_max, self.learning_rate, self.n_epochs = n_components, p_max, learning_rate, n_epochs
        self.callbacks, self.random_state, self.n_jobs, self.verbose = callbacks, random_state, n_jobs, verbose
        self.engine = engine

    def fit(self, relation, y=None, *, resume=None):
        not_on = {"dask": "It sums over pairs of one machine."}
        engine = asked_engine("GloVe", self.engine, not_on=not_on, verbs=(*VERBS, "pairs")) or "threads"
        relation = as_relation(relation)
        P, jobs = csr_array(relation.to_scipy()), 1 if self.n_jobs is None else self.n_jobs
        limits = {"n_components": (self.n_components, min(P.shape)), "n_epochs": (self.n_epochs, 10**9)}
        for name, (value, high) in {**limits, "n_jobs": (jobs, 999)}.items():
            if not (isinstance(value, int) and 1 <= value <= high):
                raise InputError("GloVe", name, f"an integer from 1 to {high}", repr(value))
        if not P.nnz:
            raise InputError("GloVe", "relation", "one with entries", "none")

        who = {"callbacks": self.callbacks, "verbose": self.verbose, "identity": lambda: identity_of(self, relation, 1)}
        trainer = nf.callbacks.Trainer("GloVe", self.n_epochs, **who)
        hint = "Resume with the same relation and parameters."
        tables, facts = (self._start(P.shape), {"losses": []}) if resume is None else trainer.resume(resume, hint)
        with place_of(engine, Setting(owner="GloVe", n_jobs=jobs, P=relation.operator)) as place, trainer:
            state = State(place, tables, facts["losses"])
            self._descend(state, [self._entries(P), self._entries(csr_array(P.T))], trainer)
            tables, facts = state.snapshot()
        self.embedding_, self.context_embedding_ = tables["X"], tables["Y"]
        self.loss_curve_, self._ids = np.array(facts["losses"]), (relation.row_ids, relation.column_ids)
        return self

    def _start(self, shape):
        rng, tables, d = np.random.default_rng(self.random_state), {}, self.n_components
        for n, names in zip(shape, SIDES, strict=True):
            table = (rng.random((n, d + 1)) - 0.5) / (d + 1)
            tables |= zip(names, (table[:, :d].copy(), table[:, d].copy(), np.ones((n, d)), np.ones(n)), strict=True)
        return tables

    def _entries(self, P):
        pattern = P.indptr, P.indices.astype(np.int32)
        return pattern, np.log(P.data), np.minimum(P.data / self.p_max, 1) ** 0.75

    def _descend(self, state, entries, trainer):
        place, rows, rate = state.place, state.rows, self.learning_rate
        for epoch in range(len(state.losses), self.n_epochs):
            costs = []
            for (pattern, *numbers), own, other in zip(entries, SIDES, SIDES[::-1], strict=True):
                mine, theirs = ([rows[name] for name in names[:2]] for names in (own, other))
                gradients = place.pairs(pull, pattern, mine, theirs, *numbers)
                moved, cost = place.each(adagrad, tuple(rows[name] for name in own), *gradients, rate=rate)
                rows |= zip(own, moved, strict=True)
                costs.append(float(cost) / len(numbers[0]))
            state.losses.append(costs[0])  # of all entries, before the rows moved
            if trainer.tell(epoch + 1, costs[0], rate, state):
                break

    @property
    def vectors_(self):
        self._check_fitted("vectors_")
        sides = {"context_vectors": self.context_embedding_, "context_ids": self._ids[1]}
        return nf.Embedding(self.embedding_, self._ids[0], **sides, parameters=self.get_params(deep=False))
