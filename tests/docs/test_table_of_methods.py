"""The table of methods, run: each row put together from parts gives the bits of the estimator that has its name."""

import re
from pathlib import Path

import numpy as np
import pytest
from quick import often
from scripts import loaded

import nearfar as nf

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "examples" / "table_of_methods.py"


example = loaded(PATH)
TABLE, GRAPH = example.TABLE, example.GRAPH
OF_WORDS = {"n_epochs": example.EPOCHS, "random_state": 0, "n_jobs": 1}
MAPS = {
    "ASNE": nf.ASNE, "SSNE": nf.SSNE, "t-SNE": nf.TSNE, "HSSNE": nf.HSSNE, "t-ASNE": nf.TASNE, "ws-SNE": nf.WSSNE,
    "inhomogeneous t-SNE": nf.InhomogeneousTSNE, "UMAP": nf.UMAP, "NeRV": nf.NeRV, "JSE": nf.JSE,
}  # fmt: skip
NO_ESTIMATOR = ("InfoNCE, ranking NCE: global_nce, in_batch_nce", "ANT, NBANT")


def words(model, attribute="embedding_"):
    return getattr(model.set_params(**OF_WORDS).fit(GRAPH), attribute)


ESTIMATORS = {
    "EDRep": lambda: nf.EDRep(example.D, random_state=0).fit(GRAPH).embedding_,
    "SGNS (word2vec)": lambda: words(nf.SkipGram(example.D)),
    "Word2DM": lambda: words(nf.Word2DM(4, 4), "factors_").swapaxes(1, 2),
    "multi-sense Word2DM": lambda: words(nf.MultiSenseWord2DM(8, n_senses=2, variant="columns"), "sense_vectors_"),
    **{name: lambda cls=cls: cls(**example.OF_MAPS).fit(GRAPH).embedding_ for name, cls in MAPS.items()},
}


QUICK = {"EDRep", "SGNS (word2vec)", "Word2DM", "t-SNE", "ws-SNE", "UMAP"}


@pytest.mark.parametrize("method", often(ESTIMATORS, QUICK))
def test_the_parts_give_the_bits_of_the_estimator(method):
    found, expected = TABLE[method].cell(), ESTIMATORS[method]()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert np.ptp(found) > 0.1  # something was learned


@pytest.mark.parametrize("stress", [nf.divergences.MetricStress(), nf.divergences.SStress(), nf.divergences.Sammon()])
def test_the_parts_give_the_bits_of_scaling(stress):
    est = nf.MDS(stress=stress, metric="precomputed", max_iter=example.OF_MDS["maxiter"], tol=0, n_jobs=1)
    expected = est.fit(example.DISTANCES).embedding_
    np.testing.assert_array_equal(TABLE["metric MDS, SSTRESS, Sammon"].cell(stress), expected)
    assert est.stress_curve_[-1] < est.stress_curve_[0]


@pytest.mark.slow
@pytest.mark.usefixtures("one_torch_thread")
def test_ranking_is_cross_entropy_less_log_q():
    torch = pytest.importorskip("torch")
    cell = TABLE[NO_ESTIMATOR[0]].cell

    def cross_entropy(scores, target, log_q):
        return torch.nn.functional.cross_entropy(scores - log_q, target)

    found = cell()
    np.testing.assert_allclose(found, cell(cross_entropy), rtol=1e-4, atol=1e-4)
    assert abs(found - cell(lambda scores, target, _: nf.nn.local_nce(scores, target))).max() > 0.1
    # in_batch_nce is the same loss, the keys of the batch being the candidates.
    queries, keys = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = nf.nn.global_nce(queries @ keys.T, torch.arange(8))
    torch.testing.assert_close(nf.nn.in_batch_nce(queries, keys), whole)


@pytest.mark.slow
@pytest.mark.usefixtures("one_torch_thread")
def test_anchors_are_those_of_dense_matrices(monkeypatch):
    """Algorithm 1 of the paper: T <- max(T - lr (g + penalty), 0), with T and A dense."""
    torch = pytest.importorskip("torch")
    layer = example.anchors()

    class Dense(torch.nn.Module):
        def __init__(self):
            super().__init__()
            start = torch.zeros(example.N, 6).scatter(1, layer.columns.long(), layer.values.detach().abs())
            self.T, self.A = torch.nn.Parameter(start), torch.nn.Parameter(layer.anchors.detach().clone())

        def forward(self, ids):
            return (self.T @ self.A)[ids]

        @property
        def weight(self):
            return self.T @ self.A

    dense = Dense()

    class Plain(torch.optim.SGD):
        def step(self):
            super().step()
            with torch.no_grad():
                dense.T.sub_(0.5 * layer.penalty).clamp_(min=0)

    found = TABLE["ANT, NBANT"].cell(layer)
    monkeypatch.setattr(nf.nn, "ProxSGD", Plain)
    np.testing.assert_allclose(found, TABLE["ANT, NBANT"].cell(dense), rtol=1e-3, atol=1e-4)
    assert 0 < layer.nnz < layer.values.numel()  # the proximal step did something


def test_the_rows_are_those_of_the_page():
    text = (ROOT / "docs" / "near-and-far.md").read_text("utf-8").partition("## The table of methods")[2]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[0] == "| method | relation | representation | score | far field | divergence |"
    methods = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.split(" | ")[0].strip("| ")) for line in lines[2:]]
    assert methods == list(TABLE)
    assert {*ESTIMATORS, *NO_ESTIMATOR, "metric MDS, SSTRESS, Sammon"} == set(TABLE)
    assert all(all(row[:-1]) for row in TABLE.values())


def test_the_script_prints_the_table(capsys, monkeypatch):
    monkeypatch.setattr(example, "TABLE", {name: TABLE[name] for name in ("EDRep", "t-SNE")})
    example.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["method", "EDRep", "t-SNE"]
    assert all(int(line.split(" | ")[-1].rstrip("%")) > 80 for line in lines[1:])
