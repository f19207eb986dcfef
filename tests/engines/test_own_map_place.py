"""A place of one's own that draws maps, too: written from the guide, it gives the maps and vectors of threads."""

import numpy as np
import pytest
from own_map_place import MapPieces
from own_place import PIECE, Pieces

import nearfar as nf
from nearfar.errors import InputError
from nearfar.far import NoisePairs

N = 61
assert N % PIECE  # the last piece is shorter


def points() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 5)) + 6 * rng.integers(0, 3, (N, 1))


MAPS = {
    "t-SNE": (nf.TSNE, {"far": "exact"}),
    "t-SNE, mesh": (nf.TSNE, {"far": "fft"}),
    "t-SNE, three components": (nf.TSNE, {"far": "exact", "n_components": 3}),
    "by row": (nf.TASNE, {"far": "exact"}),
    "by row, mesh": (nf.TASNE, {"far": "fft"}),
    "Jensen-Shannon": (nf.JSE, {"far": "exact"}),
    "Jensen-Shannon, mesh": (nf.JSE, {"far": "fft"}),
    "two potentials": (nf.NeRV, {"far": "exact"}),
    "weighted": (nf.WSSNE, {"far": "exact"}),
    "weighted, mesh": (nf.WSSNE, {"far": "fft"}),
    "sampled": (nf.UMAP, {}),
    "ranked": (nf.TSNE, {"far": NoisePairs(4, objective="global")}),
}


# One of each way in which a map goes through its pairs, in the type that loops are compiled for anyway.
OFTEN = ["t-SNE", "by row", "Jensen-Shannon", "weighted, mesh", "sampled"]


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *((case, np.float32) for case in OFTEN),
        *(pytest.param(case, np.float64, marks=pytest.mark.slow) for case in MAPS),
    ],
)
def test_it_draws_the_map_of_threads(case, dtype):
    make, parameters = MAPS[case]
    start = np.random.default_rng(1).normal(size=(N, parameters.get("n_components", 2))).astype(dtype)
    common = {"perplexity": 8, "max_iter": 20, "early_exaggeration_iter": 8, "random_state": 0, "n_jobs": 1}
    here, there = (
        make(**common, **parameters, init=start, engine=engine).fit(points()) for engine in ("threads", MapPieces())
    )
    rtol = 1e-6 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(there.embedding_, here.embedding_, rtol=rtol, atol=rtol / 10)
    np.testing.assert_allclose(there.cost_curve_, here.cost_curve_, rtol=rtol)
    assert np.linalg.norm(here.embedding_ - start) > 0.1 * np.linalg.norm(start)


def test_empty_rows_of_a_relation_are_drawn():
    A = np.zeros((N, N))
    i = np.arange(0, N - 20)  # 20 isolates: more than two pieces without a pair
    A[i, np.roll(i, 1)] = 1
    start = np.random.default_rng(1).normal(size=(N, 2)).astype(np.float32)
    common = {"max_iter": 20, "init": start, "far": "exact", "random_state": 0}
    here, there = (
        nf.TASNE(**common, engine=engine).fit(nf.Relation.from_matrix(A)) for engine in ("threads", MapPieces())
    )
    np.testing.assert_allclose(there.embedding_, here.embedding_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(40, 40), (40, 25)], ids=["one side", "two sides"])
def test_it_runs_edrep_as_well(shape):
    P = np.random.default_rng(1).random(shape)
    relation, common = nf.Relation.from_matrix(P * (P < 0.2)), {"n_components": 4, "n_epochs": 6, "random_state": 0}
    here, there = (nf.EDRep(**common, engine=engine).fit(relation) for engine in ("threads", MapPieces()))
    np.testing.assert_allclose(there.loss_curve_, here.loss_curve_, rtol=1e-5)
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=2e-4)
    if shape[0] != shape[1]:
        np.testing.assert_allclose(there.context_embedding_, here.context_embedding_, atol=2e-4)


def test_a_place_without_pairs_draws_no_map():
    with pytest.raises(InputError, match=r"^TSNE: engine must be .* a Place; got .*Pieces object.* without pairs\."):
        nf.TSNE(perplexity=5, engine=Pieces()).fit(points())
