"""What far fields refuse: those of the softmax, fields of maps, their names, and who takes them."""

import numpy as np
import pytest
from refusals import refused

import nearfar as nf
from nearfar.errors import InputError, NearfarError, NumericalError
from nearfar.far import BarnesHutField, Exact, ExactField, GaussianMixture, MeshField, Noise, NoisePairs, Term
from nearfar.far.registry import FAR_FIELDS, FIELDS
from nearfar.kernels import Exponential, Kernel, StudentT

ROWS = np.random.default_rng(0).normal(size=(6, 3))
GAP = np.where(np.arange(6)[:, None] == 2, 0.0, ROWS)  # row 2 is absent
PLANE, SPACE = ROWS[:, :2].astype(np.float32), ROWS.astype(np.float32)
FIELD = {"ExactField": (ExactField, PLANE), "MeshField": (MeshField, PLANE), "BarnesHutField": (BarnesHutField, SPACE)}


@pytest.fixture(autouse=True)
def names_of_ones_own(monkeypatch):
    monkeypatch.setattr(FAR_FIELDS, "own", {"own": Exact})
    monkeypatch.setattr(FIELDS, "own", {"own field": ExactField})


class WithoutFormulas(Kernel):
    def weight(self, f):
        return 1 / (1 + f) ** 3


def prepare(far, Y=GAP, n_active=5):
    far.prepare(Y, n_active, np.random.default_rng(0), 1)


def placed(name, Y=None, kernel=StudentT(), charges=None, terms="weight"):  # noqa: B008
    make, rows = FIELD[name]
    field = make()
    field.place(rows if Y is None else Y, kernel, 1)
    field.evaluate([Term(terms, charges)])


DOORS = {
    "GaussianMixture": GaussianMixture,
    "GaussianMixture.prepare": lambda n_active=5, n_clusters=1, labels=None: prepare(
        GaussianMixture(n_clusters, labels), n_active=n_active
    ),
    "Noise": Noise,
    "Noise.prepare": lambda n_active: prepare(Noise(), n_active=n_active),
    "Exact.prepare": lambda n_active: prepare(Exact(), n_active=n_active),
    "MeshField": lambda **given: MeshField(**given) if "tolerance" in given else placed("MeshField", **given),
    "BarnesHutField": lambda **given: (
        BarnesHutField(**given) if "angle" in given else placed("BarnesHutField", **given)
    ),
    "ExactField": lambda **given: placed("ExactField", **given),
    "spherical_kmeans": lambda X=GAP, n_clusters=2, **given: nf.far.spherical_kmeans(
        X, n_clusters, rng=np.random.default_rng(0), **given
    ),
    "far_field": lambda far: nf.far.far_field(far),
    "log_normalizers": lambda X=ROWS[:5], **given: nf.log_normalizers(X, **given),
    "few samples": lambda **given: nf.log_normalizers(ROWS, method="noise", **given),
    "two clusters": lambda **given: nf.log_normalizers(ROWS[:5], n_clusters=2, **given),
    "estimate_error": lambda X=ROWS, **given: nf.far.estimate_error(X, **given),
    "register": lambda name="mine", factory=Exact: nf.far.register(name, factory),
    "register_field": lambda name="mine", factory=ExactField: nf.far.register_field(name, factory),
    "TSNE": lambda far: nf.TSNE(perplexity=2, max_iter=1, far=far).fit(ROWS),
    "TSNE on four": lambda far: nf.TSNE(4, perplexity=1.5, far=far).fit(ROWS),
    "TSNE in NumPy": lambda far: nf.TSNE(perplexity=2, engine="plain", far=far).fit(ROWS),
    "EDRep": lambda far: nf.EDRep(2, far=far).fit(np.ones((5, 5))),
}
SOFTMAX, MAPS = "It is a far field of the softmax: EDRep, log_normalizers", "It is a field of maps: TSNE and its family"
OTHER = "It names a field of maps, see register_field", "It names a far field of the softmax, see register"
OWN = "another than those of the library"
test_refusals = refused(
    DOORS,
    [
        ("GaussianMixture", "n_clusters", 0, InputError, "an integer >= 1; got 0"),
        *(("GaussianMixture", "labels", bad, InputError, "one integer") for bad in ([[0, 1]], [0.0, 1.0], [])),
        *(("GaussianMixture", "labels", bad, InputError, "or -1 where absent") for bad in ([0, -2], [-1, -1])),
        ("GaussianMixture.prepare", "labels", [0, 1, 0], InputError, "of length 6"),
        ("GaussianMixture.prepare", "labels", [0, 1, 0, 1, 1, 1], InputError, "all but the 5 present objects; got 6"),
        ("GaussianMixture.prepare", "n_clusters", 6, InputError, "at most 5"),
        ("Noise", "n_samples", True, InputError, "an integer >= 1"),
        ("Noise.prepare", "n_active", 4, InputError, "the number of rows that are not zero"),
        ("Exact.prepare", "n_active", 4, InputError, "the number of rows that are not zero"),
        *(("MeshField", "tolerance", bad, InputError) for bad in (0.0, 0.2, np.nan, "low")),
        *(("BarnesHutField", "angle", bad, InputError) for bad in (-0.1, 1.5, np.nan, "wide")),
        *(
            (field, "kernel", bad, InputError, "formulas")
            for field in FIELD
            for bad in (WithoutFormulas(), Exponential([1.0, 2]))
        ),
        *(
            (field, "Y", bad, InputError, "a float32 or float64 array")
            for field in FIELD
            for bad in (PLANE[0], PLANE.astype(int), PLANE[:0], PLANE[:, :0], [[1.0, 2.0]])
        ),
        *((field, "charges", np.ones(4), InputError, "of shape (6,)") for field in FIELD),
        *((field, "terms", "energy", InputError, "of the potentials 'weight' and 'entropy'") for field in FIELD),
        ("MeshField", "Y", SPACE, InputError, "of one or two components"),
        ("BarnesHutField", "Y", np.zeros((5, 4)), InputError, "of one to three components; got 4"),
        ("spherical_kmeans", "n_clusters", 0, InputError, "an integer >= 1"),
        ("spherical_kmeans", "n_clusters", 6, InputError, "at most 5, the rows that are not zero; got 6"),
        ("spherical_kmeans", "n_init", 0, InputError, "an integer >= 1"),
        ("spherical_kmeans", "max_iter", 0, InputError, "an integer >= 1"),
        ("spherical_kmeans", "X", np.full((3, 2), np.nan), InputError, "finite"),
        *(("far_field", "far", bad, InputError, "one of") for bad in ("mixture", 3, None, Exact)),
        *(
            ("EDRep", "far", bad, InputError, "one of 'gaussian-mixture'", MAPS)
            for bad in ("own field", "fft", MeshField())
        ),
        ("log_normalizers", "method", MeshField(), InputError, "one of 'gaussian-mixture'", MAPS),
        ("log_normalizers", "method", "svd", InputError, "one of"),
        ("log_normalizers", "X", [[1.0, np.nan]], InputError, "finite"),
        ("log_normalizers", "X", [1.0, 2.0], InputError, "two-dimensional"),
        *(
            ("log_normalizers", "X", np.empty(of), InputError, "at least one row and one column")
            for of in ((0, 3), (3, 0))
        ),
        ("log_normalizers", "X", "words", InputError, "a matrix of numbers"),
        ("log_normalizers", "Y", np.ones((4, 2)), InputError, "of 3 columns; got 2"),
        ("log_normalizers", "Y", [[1.0, np.inf, 0.0]], InputError, "finite"),
        ("log_normalizers", "Y", np.empty((0, 3)), InputError, "at least one row"),
        *(("log_normalizers", "rows", bad, InputError, "in 0..4") for bad in ([0, 5], [-1])),
        *(("log_normalizers", "rows", bad, InputError, "a list of integers") for bad in ([0.5], [True, False], 3)),
        ("log_normalizers", "n_clusters", 6, InputError, "at most 5"),
        *(("log_normalizers", "n_clusters", bad, InputError, "an integer >= 1") for bad in (0, 1.5)),
        *(("log_normalizers", "labels", bad, InputError, "5 integers") for bad in ([0, 1], [0.0] * 5)),
        *(("log_normalizers", "labels", [0, 1, 0, 1, bad], InputError, "in 0..4", str(bad)) for bad in (-1, 5)),
        ("two clusters", "labels", [0, 1, 2, 1, 0], InputError, "in 0..1"),
        ("few samples", "n_samples", 0, InputError, "an integer >= 1"),
        ("log_normalizers", "temperature", 0, InputError, "not 0; got 0"),
        ("log_normalizers", "temperature", "cold", InputError, "a finite number"),
        ("log_normalizers", "n_jobs", 0, InputError, "an integer >= 1"),
        ("log_normalizers", "random_state", -1, InputError, "an integer >= 0"),
        ("estimate_error", "n_rows", 7, InputError, "an integer >= 8"),
        ("estimate_error", "confidence", 1.0, InputError, "a finite number in (0.0, 1.0)"),
        ("estimate_error", "far", "nothing", InputError, "one of"),
        ("estimate_error", "far", "fft", InputError, MAPS),
        ("estimate_error", "X", [[np.nan]], InputError, "finite"),
        ("estimate_error", "Y", np.ones((3, 9)), InputError, "of 3 columns"),
        ("register", "name", 3, InputError, "a string"),
        ("register", "name", "fft", InputError, OTHER[0]),
        *(("register", "name", bad, InputError, "one that means nothing else") for bad in ("auto", "own field")),
        ("register", "factory", ExactField, InputError, "what makes a far field of the softmax", "register_field"),
        ("register", "factory", dict, InputError, "FarField of nearfar.contracts"),
        ("register", "factory", lambda: Exact, InputError, "far field of the softmax"),
        ("register", "factory", lambda n: Exact(), InputError, "without arguments", "lambda"),
        ("register", "factory", 3, InputError, "a class"),
        ("register_field", "name", 3, InputError, "a string"),
        *(("register_field", "name", bad, InputError, OWN) for bad in ("fft", "noise", "auto")),
        ("register_field", "name", "own", InputError, OTHER[1]),
        ("register_field", "factory", Exact, InputError, "what makes a field of maps", "EDRep", "register gives"),
        ("register_field", "factory", dict, InputError, "Field of nearfar.contracts"),
        ("register_field", "factory", NoisePairs, InputError, "what makes a field of maps; got NoisePairs"),
        ("register_field", "factory", lambda n: ExactField(), InputError, "a class or a function without arguments"),
        ("register_field", "factory", 3, InputError, "a class"),
        *(
            ("TSNE", "far", bad, InputError, "one of 'auto'", SOFTMAX)
            for bad in ("own", "gaussian-mixture", Exact(), Noise(3))
        ),
        ("TSNE in NumPy", "far", "own", InputError, "one of 'auto'", SOFTMAX),
        *(("TSNE", "far", bad, InputError, "one of 'auto', 'exact', 'fft'") for bad in ("other", 3, None, ExactField)),
        ("TSNE on four", "far", "barnes-hut", InputError, "'exact' for more than three components"),
        ("TSNE on four", "far", "fft", InputError, "'exact' for more than two components"),
    ],
)


@pytest.mark.parametrize("field", [make() for make, _ in FIELD.values()], ids=repr)
def test_a_field_is_placed_first_and_asked_about_something(field):
    with pytest.raises(NearfarError, match="place must be called"):
        field.evaluate([Term("weight")])
    field.place(PLANE, StudentT(), 1)
    assert field.evaluate([]) == []


@pytest.mark.parametrize("field", [MeshField(), BarnesHutField()], ids=repr)
def test_positions_that_no_field_can_sum_over(field):
    for value in (np.nan, np.inf):
        Y = np.zeros((50_000, 2), np.float32)
        Y[[4, 40_000], 1] = value
        with pytest.raises(NumericalError, match=r"2 positions are NaN or infinite, first \[4, 40000\]"):
            field.place(Y, StudentT(), 2)
    with pytest.raises(NumericalError, match="too far apart"):
        field.place(np.array([[-3e38, 0.0], [3e38, 1.0]], np.float32), StudentT(), 1)
