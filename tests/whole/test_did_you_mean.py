"""A name that is spelt nearly as one that is there: the message says which. One that is far from all names none."""

import pickle
import sys
import time

import numpy as np
import pandas as pd
import pytest

import nearfar as nf
from nearfar import errors
from nearfar.cli import main
from nearfar.errors import InputError, UnknownIdError, did_you_mean

CITIES = nf.Embedding(np.eye(4), ["paris", "london", "rome", "Århus"])


@pytest.mark.parametrize(
    ("module", "asked", "meant"),
    [
        ("nearfar", "tsne", "TSNE"),
        ("nearfar", "skip_gram", "SkipGram"),
        ("nearfar", "gravity", None),
        ("nearfar.evaluate", "neighbourhoods", "neighborhoods"),
        ("nearfar.errors", "InputErorr", "InputError"),
        ("nearfar.density.hyponymy", "entailmant", None),
        ("nearfar", "Word2Vec", "SkipGram"),
        ("nearfar", "Node2Vec", "EDRep"),
        ("nearfar", "node2vec", "EDRep"),
        ("nearfar", "InfoNCE", "nn.InBatchNCE"),
        ("nearfar", "trustworthiness", "evaluate.neighborhoods"),
        ("nearfar.evaluate", "trustworthiness", "neighborhoods"),
        ("nearfar.plots", "Word2Vec", None),
    ],
)
def test_names_of_modules(module, asked, meant):
    __import__(module)
    with pytest.raises(AttributeError) as caught:
        getattr(sys.modules[module], asked)
    told = f"module {module!r} has no attribute {asked!r}"
    assert str(caught.value) == (told if meant is None else f"{told}. Did you mean {meant!r}?")
    assert (caught.value.name, caught.value.obj) == (asked, None)  # Python has no second hint then
    assert not hasattr(sys.modules[module], "__wrapped__")


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: nf.NeighborEmbedding(kernel="studentt").fit(np.eye(9)), "student-t"),
        (lambda: nf.TSNE(engine="thread").fit(np.eye(9)), "threads"),
        (lambda: nf.EDRep(2, far="gausian-mixture").fit(np.ones((9, 9))), "gaussian-mixture"),
        (lambda: nf.EDRep(2, schedule="Linear").fit(np.ones((9, 9))), "linear"),
        (lambda: nf.TSNE().set_params(perplexty=3), "perplexity"),
        (lambda: nf.far.Noise().with_params(n_sample=3), "n_samples"),
        (lambda: CITIES.save("x.npz", format="npzz"), "npz"),
        (lambda: CITIES.map(np.eye(4)[:, :2], metadata={"colour": list("aabb")}, color="color"), "colour"),
        (lambda: nf.Relation.from_edges(pd.DataFrame({"who": ["a"], "whom": ["b"]}), source="whoo"), "who"),
    ],
)
def test_words_columns_and_parameters(call, meant):
    with pytest.raises(InputError, match=rf"\. Did you mean {meant!r}\?"):
        call()


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: nf.EDRep(n_component=2), "n_components"),
        (lambda: nf.EDRep(vector_size=2), "n_components"),
        (lambda: nf.MDS(seed=2), "random_state"),
        (lambda: nf.Affinities(perplexty=3), "perplexity"),
        (lambda: nf.TSNE(n_iter=500), "max_iter"),
        (lambda: nf.UMAP(epochs=500), "max_iter"),
        (lambda: nf.SkipGram(vector_size=100, workers=2), "n_components'\\? Did you mean 'n_jobs"),
        (lambda: nf.read([("a", "b")], knd="graph"), "kind"),
        (lambda: nf.choose([("a", "b")], kinds="graph"), "kind"),
        (lambda: nf.communities([("a", "b")], nmber=2), "number"),
        (lambda: nf.Relation.from_edges([("a", "b")], weigth=2), "weight"),
        (lambda: nf.SkipGram(epochs=5), "n_epochs"),
    ],
)
def test_parameters_of_other_packages(call, meant):
    with pytest.raises(TypeError, match=rf"its parameters are .*\. Did you mean '{meant}'\?"):
        call()


def test_names_of_other_packages_stand_for_what_is_here():
    public = {name for module in (nf, nf.evaluate) for name in module.__all__} | {"nn"}
    parameters = {name for one in (nf.EDRep, nf.TSNE, nf.SkipGram, nf.MDS) for name in one().get_params()}
    nn = {"InBatchNCE", "in_batch_nce", "symmetric_nce", "sampled_softmax"}  # of nn, which needs torch
    for names in errors._ELSEWHERE.values():
        assert {name.rpartition(".")[2] for name in names} <= public | parameters | nn


def test_one_thing_is_no_plural():
    assert [errors.counted(n, "community") for n in (0, 1, 2000)] == [
        "0 communities",
        "1 community",
        "2,000 communities",
    ]
    assert [errors.counted(n, "key") for n in (1, 2)] == ["1 key", "2 keys"]


def test_a_parameter_of_init():
    with pytest.raises(TypeError, match=r"its parameters are .*Did you mean 'perplexity'\?"):
        nf.TSNE(perplexty=3)
    with pytest.raises(TypeError) as caught:
        nf.TSNE(gravity=3)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "asked", "meant"),
    [
        (CITIES.__getitem__, "parys", "paris"),
        (CITIES.most_similar, "Lodnon", "london"),
        (lambda key: CITIES.subset(["rome", key]), "árhus", "Århus"),
        (lambda key: CITIES.search([key]), "romme", "rome"),
        (nf.Vocabulary(["ship", "sea"], [2, 1]).__getitem__, "shipp", "ship"),
        (nf.Relation.from_edges([("anna", "bob"), ("bob", "carla")]).neighbors, "ana", "anna"),
        (lambda key: nf.evaluate.node_classification(CITIES, {key: 1, "rome": 2}), "pariss", "paris"),
        (lambda key: CITIES.index("faiss").search([key]), "pari", "paris"),
    ],
)
def test_ids(call, asked, meant):
    with pytest.raises(UnknownIdError, match=rf"Did you mean {meant!r}\?") as caught:
        call(asked)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.hint == caught.value.hint
    assert caught.value.args == (asked,)


@pytest.mark.parametrize("asked", ["madrid", "x", "", 17, ("a", 1), None, 3.5, "p" * 1000])
def test_what_is_far_from_all_names_none(asked):
    with pytest.raises(UnknownIdError) as caught:
        CITIES[asked]
    assert "Did you mean" not in str(caught.value)


def test_ids_that_differ_in_a_number_are_different_on_purpose():
    assert did_you_mean("user 17", ["user 18", "user 1"]) == ""
    assert did_you_mean("usr 17", ["user 17", "user 1"]) == "Did you mean 'user 17'?"
    assert did_you_mean("rome", range(10)) == ""


def test_short_words_of_other_letters_are_other_words():
    assert did_you_mean("gpu", ["cpu", "cuda"], 0.5) == ""
    assert did_you_mean("pac", ["pca", "pcb"], 0.5) == "Did you mean 'pca'?"
    assert did_you_mean("PCA", ["pca"]) == "Did you mean 'pca'?"


@pytest.mark.slow
def test_many_ids_are_looked_through_only_for_a_message():
    N = 50_000
    ids = nf.Embedding(np.zeros((N, 1), np.float32), [f"name {i} of {i * 7919 % 1000003}" for i in range(N)])
    assert "nobody" not in ids
    begun = time.perf_counter()
    for _ in range(100):
        with pytest.raises(KeyError) as caught:
            ids["nmae 17 of 134623"]
    assert time.perf_counter() - begun < 1
    assert "Did you mean 'name 17 of 134623'?" in str(caught.value)
    assert time.perf_counter() - begun < 20


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("map table.csv --labels specis --plot out.png", "species"),
        ("embed edges.csv -o out.npz --columns soruce,target", "source"),
        ("convert vectors.npz out.npz --to npzz", "npz"),
    ],
)
def test_the_command_line(command, meant, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text(
        "name,a,b,c,species\n" + "".join(f"n{i},{i}.5,{i % 3},{i % 7},s\n" for i in range(40))
    )
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    CITIES.save("vectors.npz")
    assert main(command.split()) == 2
    assert f"Did you mean {meant!r}?" in capsys.readouterr().err


def test_of_many_names_the_first_are_shown():
    frame = pd.DataFrame(np.zeros((2, 65)), columns=[*(f"c{k:02}" for k in range(64)), "town"])
    with pytest.raises(InputError, match=r"'c11', \.\.\. \(53 more\); got 'twon'. Did you mean 'town'\?"):
        nf.Relation.from_edges(frame, source="twon")
