"""Names of far fields: one register for those of the softmax, one for those of maps."""

import click
import numpy as np
import pytest

import nearfar as nf
from nearfar.cli.embed import embed
from nearfar.engines import Setting, place_of
from nearfar.errors import InputError
from nearfar.far.fields import Summed
from nearfar.far.registry import FAR_FIELDS, FIELDS, field_of_map

SOFTMAX = {"gaussian-mixture", "exact", "performer", "rfa", "noise"}
MAPS = {"exact", "fft", "barnes-hut"}


@pytest.fixture(autouse=True)
def no_names_of_ones_own(monkeypatch):
    monkeypatch.setattr(FAR_FIELDS, "own", {})
    monkeypatch.setattr(FIELDS, "own", {})


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 4))


class OwnField:
    """Pair by pair, and what was asked of it; what a field of one's own needs, and no more."""

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


def test_the_built_in_names() -> None:
    assert set(nf.far.registered()) == SOFTMAX
    assert set(nf.far.registered_fields()) == MAPS
    assert nf.far.registered()["exact"] is nf.far.Exact
    assert nf.far.registered_fields()["exact"] is nf.far.ExactField


def test_the_command_line_lists_the_names_of_the_softmax() -> None:
    [far] = [option for option in embed.params if option.name == "far"]
    assert isinstance(far.type, click.Choice)
    assert tuple(far.type.choices) == FAR_FIELDS.names


MAP = {"max_iter": 60, "early_exaggeration_iter": 30, "random_state": 0, "n_jobs": 1}


SLOWLY = [pytest.param(make, marks=pytest.mark.slow) for make in (nf.NeRV, nf.JSE, nf.HSSNE)]


@pytest.mark.parametrize("make", [nf.TSNE, *SLOWLY, nf.WSSNE, nf.NeighborEmbedding])
def test_a_registered_field_is_as_good_as_the_object(make, X) -> None:
    nf.far.register_field("mine", OwnField)
    before = OwnField.asked
    by_name = make(perplexity=8, far="mine", **MAP).fit(X)
    assert OwnField.asked > before
    np.testing.assert_array_equal(by_name.embedding_, make(perplexity=8, far=OwnField(), **MAP).fit(X).embedding_)
    assert by_name.get_params()["far"] == "mine"
    assert by_name.transform(X[:3]).shape == (3, 2)


def test_a_built_in_field_with_parameters_of_its_own_has_a_name(X) -> None:
    nf.far.register_field("coarse", lambda: nf.far.MeshField(tolerance=0.1))
    coarse = nf.TSNE(perplexity=8, far="coarse", **MAP).fit(X).embedding_
    given = nf.TSNE(perplexity=8, far=nf.far.MeshField(tolerance=0.1), **MAP).fit(X).embedding_
    np.testing.assert_array_equal(coarse, given)
    assert abs(coarse - nf.TSNE(perplexity=8, far="fft", **MAP).fit(X).embedding_).max() > 0


def test_a_registered_far_field_keeps_its_parameters(X) -> None:
    nf.far.register("few", lambda: nf.far.Noise(n_samples=3))
    by_name = nf.log_normalizers(X, method="few", n_samples=40, random_state=1)
    by_object = nf.log_normalizers(X, method=nf.far.Noise(n_samples=3), random_state=1)
    np.testing.assert_array_equal(by_name, by_object)
    assert nf.far.estimate_error(X, far="few", random_state=0).median > 0


def test_a_built_in_name_that_is_replaced_is_called_without_arguments(X) -> None:
    """A factory takes no arguments, so ``n_samples`` is not for it."""
    nf.far.register("noise", lambda: nf.far.Exact())
    np.testing.assert_array_equal(nf.log_normalizers(X, method="noise"), nf.log_normalizers(X, method="exact"))


@pytest.mark.parametrize(
    ("register", "name", "factory", "message"),
    [
        ("register", "mine", nf.far.ExactField, "what makes a far field of the softmax; .*register_field"),
        ("register_field", "mine", nf.far.Exact, "what makes a field of maps; .*EDRep.* register gives"),
        ("register", "mine", dict, "FarField of nearfar.contracts"),
        ("register_field", "mine", dict, "Field of nearfar.contracts"),
        ("register_field", "mine", nf.far.NoisePairs, "what makes a field of maps; got NoisePairs"),
        ("register", "mine", lambda: nf.far.Exact, "far field of the softmax"),
        ("register", "mine", lambda n: nf.far.Exact(), "a class or a function without arguments; .*lambda"),
        ("register_field", "mine", lambda n: nf.far.ExactField(), "factory must be a class or a function without arg"),
        ("register", 3, nf.far.Exact, "name must be a string"),
        ("register_field", 3, nf.far.ExactField, "name must be a string"),
        ("register_field", "mine", 3, "factory must be a class"),
        ("register_field", "fft", nf.far.ExactField, "name must be another than those of the library; got 'fft'"),
        ("register_field", "noise", nf.far.ExactField, "name must be another than those of the library"),
        ("register_field", "auto", nf.far.ExactField, "name must be another than those of the library"),
        ("register_field", "rfa", nf.far.ExactField, "It names a far field of the softmax, see register"),
        ("register", "fft", nf.far.Exact, "It names a field of maps, see register_field"),
        ("register", "auto", nf.far.Exact, "name must be one that means nothing else"),
    ],
)  # fmt: skip
def test_what_cannot_be_registered_is_refused_at_once(register, name, factory, message) -> None:
    names = FAR_FIELDS.names, FIELDS.names
    with pytest.raises(InputError, match=f"^{register}: .*{message}"):
        getattr(nf.far, register)(name, factory)
    assert (FAR_FIELDS.names, FIELDS.names) == names


def test_a_name_of_ones_own_is_in_one_register() -> None:
    nf.far.register("mine", nf.far.Exact)
    with pytest.raises(InputError, match="register_field: name must be one that means nothing else; got 'mine'"):
        nf.far.register_field("mine", nf.far.ExactField)
    nf.far.register("mine", nf.far.Noise)
    assert isinstance(nf.far.far_field("mine"), nf.far.Noise)


@pytest.mark.parametrize("far", ["own", "performer", nf.far.Exact(), nf.far.Noise(3)])
@pytest.mark.parametrize("engine", [None, "plain", "threads"])
def test_a_map_refuses_far_fields_of_the_softmax(far, engine, X) -> None:
    nf.far.register("own", nf.far.Exact)
    message = r"TSNE: far must be one of 'auto', .*softmax: EDRep, log_normalizers and estimate_error take it"
    with pytest.raises(InputError, match=message):
        nf.TSNE(perplexity=8, far=far, engine=engine, **MAP).fit(X)


@pytest.mark.parametrize("far", ["own", "fft", nf.far.MeshField()])
def test_the_softmax_refuses_fields_of_maps(far, X) -> None:
    nf.far.register_field("own", OwnField)
    message = "must be one of 'gaussian-mixture', .* It is a field of maps: TSNE and its family take it"
    with pytest.raises(InputError, match=f"EDRep: far {message}"):
        nf.EDRep(2, far=far).fit(np.ones((5, 5)))
    with pytest.raises(InputError, match=f"log_normalizers: method {message}"):
        nf.log_normalizers(X, method=far)
    with pytest.raises(InputError, match=f"estimate_error: far {message}"):
        nf.far.estimate_error(X, far=far)


@pytest.mark.parametrize("far", ["other", 3, None, nf.far.ExactField])
def test_what_is_of_no_kind_is_refused(far, X) -> None:
    with pytest.raises(InputError, match="TSNE: far must be one of 'auto', 'exact', 'fft', 'barnes-hut', 'noise' or a"):
        nf.TSNE(perplexity=8, far=far, **MAP).fit(X)


@pytest.mark.parametrize("engine", ["plain", "threads"])
def test_a_place_answers_about_a_registered_field(engine, X) -> None:
    nf.far.register_field("mine", OwnField)
    field = field_of_map("mine", owner="TSNE")
    Y, term = X[:, :2].copy(), nf.far.Term("weight")
    with place_of(engine, Setting(owner="TSNE", n_jobs=1, P=None)) as place:
        asked: nf.contracts.AskOfMap = place.far(Summed(field), Y, nf.kernels.StudentT())
    [found] = asked.potentials([term])
    np.testing.assert_array_equal(asked.total([term]).gradient, found.gradient)
    np.testing.assert_allclose(found.value[0], sum(1 / (1 + np.sum((Y[0] - y) ** 2)) for y in Y[1:]))
