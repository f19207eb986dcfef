"""A far field of the softmax and a field of maps of one's own: what they need, and no more."""

import numpy as np

import nearfar as nf
from nearfar.contracts import FarField


class Quadratic(FarField):
    """Z by the second-order Taylor series of the exponential."""

    def prepare(self, Y, n_active, rng, n_jobs):
        self.terms = (n_active, Y.sum(axis=0), Y.T @ Y)

    def evaluate(self, X, log_z, force):
        n_active, total, outer = self.terms
        Z = n_active + X @ total + np.einsum("ij,ij->i", X @ outer, X) / 2
        log_z[:] = np.log(Z)
        force[:] = (total + X @ outer) / Z[:, None]


class OwnField:
    """Pair by pair, and how often it was asked."""

    asked = 0

    def __init__(self):
        self.exact = nf.far.ExactField()

    def place(self, Y, kernel, n_jobs):
        type(self).asked += 1
        self.exact.place(Y, kernel, n_jobs)

    def evaluate(self, terms):
        return self.exact.evaluate(terms)

    def total(self, terms):
        return self.exact.total(terms)
