"""What EDRep refuses, by its name and that of the argument: parameters, relations, starts, new rows, growth, tasks."""

import functools

import numpy as np
import pytest
from own_far_field import Quadratic
from refusals import Made, With, refused
from scipy.sparse import csr_array

import nearfar as nf
from nearfar.errors import DataError, InputError, NotFittedError, UnknownIdError

A = 1 - np.eye(9)
A[3] = A[:, 3] = 0  # an isolate
NAMES = list("abcdefghi")
NAMED = nf.Relation.from_matrix(A, ids=NAMES)
EDGES = [("a", "x"), ("b", "x"), ("b", "y"), ("c", "y"), ("c", "z"), ("a", "z")]
STRANGER = nf.Relation.from_edges([("new", "q")], bipartite=True)
EQUAL = np.ones((9, 2))
NOT_FINITE = np.where(np.eye(9, 2) > 0, np.nan, 1)


def edrep(relation, **fixed):
    """Return the door of a fit: its parameters."""
    return lambda **given: nf.EDRep(**{"n_components": 2, "n_epochs": 1, "random_state": 0, **fixed} | given).fit(
        relation
    )


@functools.cache
def fitted(two_sided=False):
    return nf.EDRep(2, n_epochs=1, random_state=0).fit(A[:8, :6] + 0.1 if two_sided else NAMED)


def gaussian_mixture(**given):
    far = nf.far.GaussianMixture(**given)
    far.prepare(np.eye(6, 2), 6, np.random.default_rng(0), 1)


def state_of_another(folder):
    """A checkpoint of a fit of other relations."""
    path = folder / "run.safetensors"
    keep = nf.callbacks.Checkpoint(path)
    nf.EDRep(2, n_epochs=1, random_state=0, callbacks=[keep]).fit(np.ones((4, 4)))
    return path


DOORS = {
    "EDRep": edrep(A),
    "EDRep of two sides": edrep(np.ones((8, 6))),
    "EDRep of arrows": edrep(nf.Relation.from_edges(EDGES, directed=True).random_walk(3)),
    "EDRep of two kinds": edrep(nf.Relation.from_edges(EDGES, bipartite=True)),
    "EDRep of words": edrep(NAMED),
    "EDRep.fit": lambda **given: nf.EDRep(2, n_epochs=1, random_state=0).fit(**({"relation": A} | given)),
    "EDRep.transform": lambda **given: fitted().transform(**given),
    "EDRep().grow": lambda **given: nf.EDRep().grow(**given),
    "EDRep.grow": lambda **given: fitted().grow(**({"relation": NAMED} | given)),
    "EDRep.grow of two sides": lambda **given: fitted(True).grow(**given),
    "GaussianMixture": gaussian_mixture,
}

test_refusals = refused(
    DOORS,
    [
        ("EDRep", "n_components", 0, InputError, "an integer >= 1; got 0"),
        ("EDRep", "n_components", 2.5, InputError, "an integer >= 1; got 2.5"),
        ("EDRep", "n_components", 10, InputError, "at most 9, the number of objects of the smaller side; got 10"),
        ("EDRep", "n_components", 1, InputError, "at least 2 with constraint='sphere'; got 1", "constraint='ball'"),
        ("EDRep", "n_clusters", 0, InputError, "an integer >= 1; got 0"),
        ("EDRep", "n_clusters", 9, InputError, "at most 8, the objects with a relation; got 9"),
        ("EDRep", "n_clusters", With(n_clusters=2, far="exact"), InputError, "1 unless far="),
        ("EDRep", "n_epochs", 0, InputError, "an integer >= 1; got 0"),
        ("EDRep", "learning_rate", 0, InputError, "a finite number in (0, 1]; got 0"),
        ("EDRep", "learning_rate", 1.5, InputError, "a finite number in (0, 1]; got 1.5"),
        ("EDRep", "schedule", "up", InputError, "one of 'linear'"),
        ("EDRep", "gradient", "newton", InputError, "one of 'auto'"),
        ("EDRep", "far", "near", InputError, "one of"),
        ("EDRep", "far", With(far=Quadratic(), gradient="full"), InputError, "knows the gradient of the others"),
        ("EDRep", "far", With(far=Quadratic(), base_measure="uniform"), InputError, "one that takes a base measure"),
        ("EDRep", "constraint", "cube", InputError, "one of 'sphere', 'ball'"),
        ("EDRep", "temperature", 0, InputError, "at least 0.001 in size; got 0"),
        ("EDRep", "temperature", "cold", InputError, "a finite number"),
        ("EDRep", "temperature", float("inf"), InputError, "a finite number"),
        ("EDRep of two sides", "temperature", -1.0, InputError, "> 0 with two sides; got -1.0"),
        ("EDRep", "two_sided", "yes", InputError, "True or False"),
        ("EDRep of two sides", "two_sided", False, InputError, "True or None where the relation is not square"),
        ("EDRep", "p0", [1, 2], InputError, "one number per column, of shape (9,); got an array of shape (2,)"),
        ("EDRep", "p0", [-1] * 9, InputError, "finite, >= 0, and positive for some object with a relation"),
        ("EDRep", "p0", 3, InputError, "0, or one number per column, of shape (9,); got 3"),
        ("EDRep", "p0", "uniform", InputError, "0, or one number per column"),
        ("EDRep", "p0", ["a"] * 9, InputError, "0, or one number per column"),
        ("EDRep", "base_measure", np.ones(8), InputError, "one for each of 9 columns", "shape (8,)"),
        ("EDRep", "base_measure", "popular", InputError, "one of 'degrees'"),
        ("EDRep", "base_measure", np.ones(9), InputError, "0 for a column without relations", "for 1", ": 3"),
        ("EDRep", "base_measure", np.arange(9) % 3, InputError, "> 0 for a column with relations; got", "No row"),
        ("EDRep", "refine", 2, InputError, "a finite number in [0, 1]; got 2"),
        ("EDRep", "refine", With(refine=0.5, far="exact"), InputError, "0 or None unless far='gaussian-mixture'"),
        ("EDRep", "init", np.ones((9, 3)), InputError, "of 2 columns"),
        ("EDRep", "init", NOT_FINITE, InputError, "finite; got NaN"),
        ("EDRep", "init", EQUAL, InputError, "of rows that differ; got 8 equal rows"),
        ("EDRep of words", "init", nf.Embedding(EQUAL, NAMES), InputError, "of rows that differ; got 8 equal rows"),
        ("EDRep of words", "init", nf.Embedding(np.eye(9), NAMES), InputError, "of 2 columns, as n_components says"),
        ("EDRep", "random_state", "x", InputError, "an integer >= 0; got 'x'"),
        ("EDRep", "n_jobs", 0, InputError, "an integer >= 1; got 0"),
        ("EDRep", "tol", -1, InputError, "a finite number >= 0; got -1"),
        ("EDRep", "verbose", "x", InputError, "an integer >= 0; got 'x'"),
        ("EDRep", "callbacks", 3, InputError, "a sequence of callables; got 3"),
        ("EDRep", "callbacks", "stop", InputError, "a sequence of callables; got stop"),
        ("EDRep", "callbacks", [print, None], InputError, "a sequence of callables"),
        ("EDRep of arrows", "storage", Made(str), InputError, "None"),
        ("EDRep of two kinds", "storage", Made(str), InputError, "None"),
        ("EDRep", "storage", 3, InputError, "a path; got 3"),
        ("EDRep", "storage", "s3://bucket/nodes", InputError, "a path, not a URL; got 's3://bucket/nodes'"),
        ("EDRep", "task", "clusters", InputError, "one of 'links', 'items'"),
        ("EDRep", "task", "items", InputError, "one for a relation of one kind"),
        ("EDRep of two kinds", "task", "links", InputError, "one for a relation of two kinds"),
        ("EDRep of two kinds", "task", "communities", InputError, "Groups of rows: task='labels'"),
        ("EDRep.fit", "edges", With(relation="edges.csv"), InputError, "a file that exists"),
        ("EDRep.fit", "P", With(relation=A * 1e-38), InputError, "of weights whose sum is between", "Multiply them"),
        ("EDRep.fit", "relation", nf.Embedding(EQUAL), InputError, "an Embedding of 9 vectors", "Affinities().fit"),
        ("EDRep.fit", "resume", Made(state_of_another), InputError, "a checkpoint of this very fit"),
        ("EDRep.fit", "resume", Made(lambda folder: folder / "nothing"), InputError, "a file that exists"),
        ("EDRep.fit", "resume", 3, InputError, "a path; got 3"),
        ("EDRep.transform", "P_new", np.ones((2, 8)), InputError, "of 9 columns", "got shape (2, 8)"),
        ("EDRep.transform", "P_new", csr_array((2, 10)), InputError, "of 9 columns", "got shape (2, 10)"),
        ("EDRep.transform", "P_new", np.ones(9), InputError, "two-dimensional", "P_new.reshape(1, -1)"),
        ("EDRep.transform", "P_new", [["a"] * 9], InputError, "an array of numbers; got list"),
        ("EDRep.transform", "A", With(P_new=-A), DataError, "finite and non-negative"),
        ("EDRep.transform", "A", With(P_new=np.full((2, 9), np.nan)), DataError, "finite and non-negative"),
        ("EDRep.transform", "edges", With(P_new="edges.csv"), InputError, "a file that exists"),
        ("EDRep.transform", "A", With(P_new=nf.Embedding(EQUAL)), InputError, "got an Embedding of 9 vectors"),
        ("EDRep.transform", "id", With(P_new=STRANGER), UnknownIdError, "'q'"),
        ("EDRep().grow", "EDRep", With(relation=A), NotFittedError, "fitted; got an instance that is not. Call fit"),
        ("EDRep.grow", "n_epochs", 0, InputError, "an integer >= 1; got 0"),
        ("EDRep.grow", "relation", A, InputError, "known by id; got none of its 9 ids (0, 1"),
        ("EDRep.grow", "relation", A[:, :8] + 0.1, InputError, "of as many sides as that of the fit; got shape"),
        ("EDRep.grow", "relation", nf.Embedding(EQUAL), InputError, "got an Embedding of 9 vectors"),
        ("EDRep.grow of two sides", "relation", A, InputError, "of as many sides as that of the fit; got shape"),
        ("GaussianMixture", "centers", With(n_clusters=2, centers=np.eye(3)), InputError, "without labels"),
        ("GaussianMixture", "centers", np.eye(3), InputError, "of 2 columns, as the others; got shape (3, 3)"),
    ],
)


def test_a_growth_that_is_refused_leaves_the_estimator_as_it_was():
    est = nf.EDRep(2, n_epochs=1, random_state=0).fit(NAMED)
    before = est.vectors_
    for refused_growth in ({"relation": A}, {"relation": NAMED, "n_epochs": 0}):
        with pytest.raises(InputError):
            est.grow(**refused_growth)
        assert est.vectors_.equals(before)
