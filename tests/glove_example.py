"""GloVe, written outside the library: an estimator on a relation that keeps to all that those of the library do."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy.sparse import coo_array

import nearfar as nf
from nearfar.base import RelationEmbedder, as_relation, identity_of
from nearfar.errors import InputError


class GloVe(RelationEmbedder):
    """Vectors whose dot products are log weights (Pennington, Socher & Manning 2014, "GloVe", EMNLP, eq. 8).

    Minimises ``sum_ij f(P_ij) (x_i . y_j + b_i + c_j - ln P_ij)² / 2`` over the entries of a relation P, with
    ``f(p) = min(p / p_max, 1) ** 0.75``, by AdaGrad, all entries at a time.
    """

    _capabilities = frozenset({"relation-input", "matrix-input", "deterministic", "any-n-jobs", "two-sided", "resume"})

    def __init__(self, n_components=50, *, p_max=100.0, learning_rate=0.05, n_epochs=50, callbacks=None,
                 random_state=None, n_jobs=None, verbose=0):  # fmt: skip
        self.n_components, self.p_max, self.learning_rate, self.n_epochs = n_components, p_max, learning_rate, n_epochs
        self.callbacks, self.random_state, self.n_jobs, self.verbose = callbacks, random_state, n_jobs, verbose

    def fit(self, relation, y=None, *, resume=None):
        relation = as_relation(relation)
        P = coo_array(relation.to_scipy())
        jobs, n = 1 if self.n_jobs is None else self.n_jobs, self.n_components
        limits = {"n_components": (n, min(P.shape)), "n_epochs": (self.n_epochs, 10**9), "n_jobs": (jobs, 999)}
        for name, (value, high) in limits.items():
            if not (isinstance(value, int) and 1 <= value <= high):
                raise InputError("GloVe", name, f"an integer from 1 to {high}", repr(value))
        if not P.nnz:
            raise InputError("GloVe", "relation", "one with entries", "none")
        target, weight = np.log(P.data), np.minimum(P.data / self.p_max, 1) ** 0.75
        i, j = P.coords

        who = {"callbacks": self.callbacks, "verbose": self.verbose, "identity": lambda: identity_of(self, relation, 1)}
        trainer = nf.callbacks.Trainer("GloVe", self.n_epochs, **who)
        if resume is None:
            tables, losses = self._start(P.shape), []
        else:
            tables, facts = trainer.resume(resume, "Resume with the same relation and parameters.")
            losses = facts["losses"]
        rows, columns = tables["rows"], tables["columns"]
        state = SimpleNamespace(X=rows[:, :-2], snapshot=lambda: (tables, {"losses": losses}))
        with trainer:
            for epoch in range(len(losses), self.n_epochs):
                error = np.einsum("kd,kd->k", rows[i], columns[j]) - target
                losses.append(float((weight * error**2).mean() / 2))
                G = coo_array((weight * error, (i, j)), P.shape).tocsr()
                for name, gradient, constant in (("rows", G @ columns, -1), ("columns", G.T @ rows, -2)):
                    gradient[:, constant] = 0
                    tables[name] -= self.learning_rate * gradient / np.sqrt(tables[f"{name}.squares"])
                    tables[f"{name}.squares"] += gradient**2
                if trainer.tell(epoch + 1, losses[-1], self.learning_rate, state):
                    break
        self.embedding_, self.context_embedding_ = rows[:, :-2].copy(), columns[:, :-2].copy()
        self.loss_curve_, self._ids = np.array(losses), (relation.row_ids, relation.column_ids)
        return self

    def _start(self, shape):
        rng, tables = np.random.default_rng(self.random_state), {}
        for name, n, constant in (("rows", shape[0], -1), ("columns", shape[1], -2)):
            tables[name] = (rng.random((n, self.n_components + 2)) - 0.5) / (self.n_components + 1)
            tables[name][:, constant] = 1
            tables[f"{name}.squares"] = np.ones_like(tables[name])
        return tables

    @property
    def vectors_(self):
        self._check_fitted("vectors_")
        sides = {"context_vectors": self.context_embedding_, "context_ids": self._ids[1]}
        return nf.Embedding(self.embedding_, self._ids[0], **sides, parameters=self.get_params(deep=False))
