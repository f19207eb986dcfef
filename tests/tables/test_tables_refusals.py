"""What tables, their optimisers and their schedules refuse: a row for each."""

import math

import numpy as np
import pytest
from refusals import Made, With, refused

torch = pytest.importorskip("torch")

import nearfar as nf  # noqa: E402
from nearfar import nn  # noqa: E402
from nearfar.errors import InputError, NumericalError  # noqa: E402

V, D, K = 23, 5, 7
NAN, INF = math.nan, math.inf
IDS, TWO = torch.tensor([3, 1, 3, 22, 0, 7, 7, 2]), torch.tensor([0, 2])
EDGE = nf.Relation.from_edges([("a", "b")])
GOAL = torch.ones(V, D)


def made(**options):
    torch.manual_seed(0)
    return nn.AnchorEmbedding(**{"num_embeddings": V, "embedding_dim": D, "n_anchors": K, "nnz_per_row": 3, **options})


def small(**options):
    return nn.QuantizedEmbedding(**{"num_embeddings": V, "embedding_dim": D, **options})


def pairs(n=V):
    return nn.RelatedPairs(nf.Relation.from_edges([(0, n - 1)]))


def loaded(**changes):
    """Load a state of which some parts were changed."""
    layer = made()
    found = layer.state_dict()
    layer.load_state_dict(found | {name: change(found[name]) for name, change in changes.items()})


def infinite(values):
    return values.index_fill(0, IDS[[0, 5]], INF)


def exported(layer, **numbers):
    """Export a layer in which numbers are none."""
    for name, number in numbers.items():
        getattr(layer, name).data[2, 1] = number
    layer.export()


def bags(ids=IDS, mode="mean", last=False, **given):
    return nn.EmbeddingBag(torch.nn.Embedding(V, D), mode, include_last_offset=last)(ids, **given)


def optimizer(cls, **given):
    return cls(**{"params": [torch.zeros(2, requires_grad=True)], "lr": 0.1, **given})


def nbant(**given):
    return nn.NBANT(**{"layers": made(penalty=0.01), "anchor_price": 1, "initial": 3, **given})


def changed(call):
    """Call with a search, which has to be as it was if that fails."""

    def door(**given):
        search = nbant(layers=[made(), made()])
        try:
            call(search, **given)
        finally:
            assert search.history == []
            assert [layer.n_active for layer in search.layers] == [3, 3]

    return door


def budget(**given):
    return nn.ParameterBudget(**{"layers": made(), "n_steps": 10, "n_parameters": 500, **given})


DOORS = {
    "AnchorEmbedding": made,
    "a call": lambda ids: made()(ids),
    "logits": lambda **given: made().logits(**{"hidden": torch.ones(2, D), **given}),
    "resize": lambda num_embeddings: made(padding_idx=20).resize(num_embeddings),
    "selection": lambda anchor_ids: nn.AnchorEmbedding.selection(V, D, anchor_ids),
    "from_pretrained": lambda **given: nn.AnchorEmbedding.from_pretrained(**{"vectors": GOAL, "n_anchors": K, **given}),
    "n_active": lambda n_active: setattr(made(), "n_active", n_active),
    "zeros_fixed": lambda zeros_fixed: setattr(made(), "zeros_fixed", zeros_fixed),
    "export": lambda **given: made().export(**given),
    "export of what failed": lambda **given: exported(made(), **given),
    "load_state_dict": loaded,
    "set_related": lambda pairs, anchor_ids=IDS[1:2]: made(n_anchors=1, anchor_ids=anchor_ids).set_related(pairs),
    "RelatedPairs": nn.RelatedPairs,
    "neighbors": lambda row: pairs().neighbors(row),
    "unrelated_overlap": lambda **given: nn.unrelated_overlap(**{"layer": made(), "pairs": pairs(), **given}),
    "anchor_overlap": lambda **given: nn.anchor_overlap(**{"anchors": torch.ones(3, 2), **given}),
    "softmax_mixture": lambda **given: nn.softmax_mixture(**{"tables": [made()], "ids": IDS, **given}),
    "TiedLogits": nn.TiedLogits,
    "choose_anchors": lambda **given: nn.choose_anchors(**{"n_anchors": 2, "counts": [1, 2], **given}),
    "QuantizedEmbedding": small,
    "whole numbers": lambda ids: small()(ids),
    "whole numbers of": nn.QuantizedEmbedding.from_pretrained,
    "whole numbers, exported": lambda **given: small().export(**given),
    "whole numbers that failed": lambda **given: exported(small(), **given),
    "whole numbers, resized": lambda num_embeddings: small(padding_idx=2).resize(num_embeddings),
    "whole numbers, packed": lambda self: small().pack().resize(self),
    "SelectionEmbedding": lambda **given: nn.SelectionEmbedding(V, D, **given),
    "prune": lambda threshold: nn.SelectionEmbedding(V, D).prune(threshold),
    "EmbeddingBag": lambda **given: nn.EmbeddingBag(**{"table": torch.nn.Embedding(V, D), **given}),
    "bags": bags,
    "ProxSGD": lambda **given: optimizer(nn.ProxSGD, **given),
    "ProxYogi": lambda **given: optimizer(nn.ProxYogi, **given),
    "a group": lambda **given: optimizer(nn.ProxAdam).add_param_group({"params": [torch.nn.Parameter(GOAL)], **given}),
    "NBANT": nbant,
    "NBANT.step": changed(lambda search, validation_loss: search.step(validation_loss)),
    "NBANT.load_state_dict": changed(lambda search, **new: search.load_state_dict({**search.state_dict(), **new})),
    "nbant_objective": lambda **given: nn.nbant_objective(
        **{"loss": 1, "nnz": 1, "n_anchors": 1, "penalty": 0, "anchor_price": 1, **given}
    ),
    "ParameterBudget": budget,
    "ParameterBudget.load_state_dict": lambda state: budget().load_state_dict(state),
    "compress": lambda **given: nf.compress(**{"vectors": GOAL.numpy(), "n_anchors": 4, "nnz_per_row": 2, **given}),
}
WRONG_IDS = [
    (torch.tensor([0, V]), InputError, "ids from 0 to 23"),
    (torch.tensor([-1] * 30), InputError, "ids from -1 to -1"),
    (torch.tensor([0.5]), InputError, "integers"),
    ([1, 2], InputError, "tensor"),
    (torch.zeros(2, dtype=torch.long, device="meta"), InputError, "on the device of the table"),
]
test_refusals = refused(
    DOORS,
    [
        *((door, "ids", *row) for door in ("a call", "whole numbers") for row in WRONG_IDS),
        ("AnchorEmbedding", "n_anchors", V + 1, InputError, "at most num_embeddings, 23"),
        ("AnchorEmbedding", "n_anchors", 0, InputError),
        ("AnchorEmbedding", "penalty", -1.0, InputError),
        ("AnchorEmbedding", "padding_idx", V, InputError, f"an integer in [-{V}, {V - 1}]; got {V}"),
        ("AnchorEmbedding", "sparse", 1, InputError),
        ("AnchorEmbedding", "std", 0, InputError),
        ("AnchorEmbedding", "anchor_ids", torch.zeros(K, dtype=torch.long), InputError, "one of them twice"),
        ("AnchorEmbedding", "anchor_ids", torch.arange(K) + V, InputError),
        ("AnchorEmbedding", "anchors", torch.ones(K, D + 1), InputError),
        ("logits", "hidden", torch.ones(2, D + 1), InputError),
        ("logits", "ids", torch.ones(3, 4, dtype=torch.long), InputError),
        ("resize", "num_embeddings", K - 1, InputError),
        ("resize", "num_embeddings", 20, InputError, "more than 20, a row of padding or an anchor"),
        ("selection", "anchor_ids", torch.tensor([1, 1]), InputError),
        ("from_pretrained", "vectors", GOAL * NAN, InputError, "finite"),
        ("from_pretrained", "freeze", 1, InputError),
        ("n_active", "n_active", 0, InputError),
        ("n_active", "n_active", K + 1, InputError),
        ("zeros_fixed", "zeros_fixed", 1, InputError),
        ("export", "ids", ["a", "b"], InputError, "23, one for each; got 2"),
        ("export", "ids", ["a"] * 23, InputError, "distinct; got 'a' more than once"),
        ("export", "anchor_names", ["a", "b"], InputError, "7, one for each; got 2"),
        ("export", "path", Made(lambda folder: folder / "nowhere" / "x.safetensors"), InputError, "folder that exists"),
        ("export", "path", Made(lambda folder: folder / "x.pt"), InputError, "one of the suffixes"),
        ("export of what failed", "anchors", NAN, InputError, "finite"),
        ("export of what failed", "values", NAN, InputError, "finite in float32, and >= 0"),
        ("export of what failed", "values", INF, InputError, "finite"),
        ("export of what failed", "parameters", With(values=3e38), InputError, "vectors fit float32"),
        ("load_state_dict", "columns", With({"slots.columns": lambda old: old + K}), InputError, "in 0 .. 6"),
        ("load_state_dict", "values", With({"slots.values": lambda old: -old}), InputError, "finite and >= 0"),
        ("load_state_dict", "values", With({"slots.values": infinite}), InputError, "got others in 2 rows: 3, 7"),
        ("load_state_dict", "anchors", lambda _: torch.ones(K + 1, D), InputError, "(7, 5); got shape (8, 5)"),
        ("load_state_dict", "_extra_state", torch.Tensor.double, InputError, "as they were stored; got torch.float64"),
        ("load_state_dict", "slots", With({"slots.columns": torch.fliplr}), InputError, "an average of tables"),
        ("load_state_dict", "n_active", With(_extra_state=lambda _: torch.tensor([K + 1, 0])), InputError),
        ("load_state_dict", "state", With(_extra_state=lambda _: torch.tensor([K, 0])), InputError, "a bit for each"),
        ("set_related", "pairs", With(pairs=pairs(), anchor_ids=None), InputError, "anchor_ids"),
        ("set_related", "pairs", EDGE, InputError, "RelatedPairs"),
        ("set_related", "pairs", pairs(V + 1), InputError),
        ("RelatedPairs", "relation", [(0, 1)], InputError, "a Relation"),
        ("RelatedPairs", "ids", With(relation=EDGE), InputError),
        ("RelatedPairs", "ids", With(relation=EDGE, ids=["a", "b", "a"]), InputError),
        ("RelatedPairs", "relation", With(relation=EDGE, ids=["a", "c"]), InputError, "1 of 2 ids", "'b'"),
        ("neighbors", "row", V, InputError),
        ("unrelated_overlap", "layer", torch.ones(3, 3), InputError),
        ("unrelated_overlap", "pairs", EDGE, InputError),
        ("unrelated_overlap", "n_sampled", 1, InputError),
        ("anchor_overlap", "anchors", torch.ones(3), InputError),
        ("anchor_overlap", "absolute", 1, InputError),
        ("softmax_mixture", "tables", [], InputError),
        ("softmax_mixture", "tables", [torch.nn.Embedding(V, D)], InputError),
        ("softmax_mixture", "tables", [made(), made(embedding_dim=D + 1)], InputError),
        ("softmax_mixture", "ids", torch.tensor([V]), InputError),
        ("TiedLogits", "table", torch.nn.Embedding(3, 2), InputError, "an AnchorEmbedding; got Embedding"),
        ("choose_anchors", "n_anchors", 3, InputError),
        ("choose_anchors", "method", "best", InputError),
        ("choose_anchors", "vectors", With(method="k-means++"), InputError, "given for method"),
        ("choose_anchors", "vectors", GOAL, InputError, "one for each object"),
        ("choose_anchors", "document_counts", With(method="tf-idf", document_counts=[-1, 2]), InputError),
        ("choose_anchors", "n_documents", With(method="tf-idf", document_counts=[3, 2], n_documents=2), InputError),
        ("choose_anchors", "counts", With(method="random", counts=None), InputError),
        ("QuantizedEmbedding", "num_embeddings", 0, InputError),
        ("QuantizedEmbedding", "rank", D + 1, InputError),
        ("QuantizedEmbedding", "bits", 9, InputError),
        ("QuantizedEmbedding", "bits", 0, InputError),
        ("SelectionEmbedding", "std", 0, InputError),
        ("SelectionEmbedding", "padding_idx", V, InputError),
        ("prune", "threshold", NAN, InputError),
        ("whole numbers of", "vectors", GOAL / 0, InputError, "finite"),
        ("whole numbers, exported", "ids", ["a", "b"], InputError, "23, one for each; got 2"),
        ("whole numbers, exported", "path", Made(lambda folder: folder / "x.pt"), InputError, "one of the suffixes"),
        ("whole numbers that failed", "parameters", With(vectors=NAN), InputError, "finite", "Training has failed"),
        ("whole numbers, resized", "num_embeddings", 2, InputError, "above padding, 2"),
        ("whole numbers, packed", "self", V + 1, InputError, "a table that is not packed"),
        ("EmbeddingBag", "table", torch.ones(3, 4), InputError),
        ("EmbeddingBag", "mode", "median", InputError),
        ("EmbeddingBag", "max_norm", 0, InputError),
        ("EmbeddingBag", "include_last_offset", 1, InputError),
        ("EmbeddingBag", "padding_idx", V, InputError, f"in [-{V}, {V - 1}]"),
        ("EmbeddingBag", "padding_idx", -V - 1, InputError, f"in [-{V}, {V - 1}]"),
        ("bags", "ids", IDS, InputError, "of shape (B, m), or given with offsets"),
        ("bags", "ids", With(ids=IDS.reshape(4, 2), offsets=TWO), InputError, "of shape (n,) where offsets are given"),
        ("bags", "offsets", TWO + 1, InputError),
        ("bags", "offsets", torch.tensor([0, 3, 2]), InputError),
        ("bags", "offsets", torch.tensor([0, 9]), InputError, "to at most 8"),
        ("bags", "offsets", With(offsets=TWO, last=True), InputError, "to 8, the number of ids"),
        ("bags", "per_sample_weights", With(offsets=TWO, per_sample_weights=torch.ones(8)), InputError, 'mode="sum"'),
        ("bags", "per_sample_weights", With(mode="sum", offsets=TWO, per_sample_weights=torch.ones(7)), InputError),
        ("ProxSGD", "lr", 0, InputError),
        ("ProxSGD", "params", [torch.zeros(2, dtype=torch.cfloat, requires_grad=True)], InputError),
        ("ProxYogi", "initial", -1, InputError),
        ("a group", "lr", -1.0, InputError, "a finite number > 0"),
        ("a group", "betas", (0.9, 1.0), InputError),
        ("a group", "eps", 0.0, InputError, "a finite number > 0"),
        ("a group", "weight_decay", -0.1, InputError, "a finite number >= 0"),
        ("a group", "momentum", 0.9, InputError, "left out of a group; its options are lr, betas, eps, weight_decay"),
        ("NBANT", "layers", [], InputError),
        ("NBANT", "layers", 3, InputError),
        ("NBANT", "layers", [made(), torch.nn.Embedding(3, 4)], InputError),
        ("NBANT", "layers", [made()] * 2, InputError, "one of them twice"),
        ("NBANT", "anchor_price", 0, InputError),
        ("NBANT", "anchor_price", 0.009, InputError, "at least penalty, 0.01"),
        ("NBANT", "penalty", -1, InputError),
        ("NBANT", "initial", 0, InputError),
        ("NBANT", "initial", K + 1, InputError, "at most the n_anchors of each layer, 7"),
        ("NBANT", "step_size", 0, InputError),
        ("NBANT", "tied", 1, InputError),
        ("NBANT.step", "validation_loss", "low", InputError),
        ("NBANT.step", "validation_loss", torch.tensor(1 + 1j), InputError),
        *(("NBANT.load_state_dict", "n_active", n, InputError) for n in ([0, 0], [K + 1] * 2, [3, 4], ["a", "a"])),
        *(("NBANT.load_state_dict", "state", With(new), InputError) for new in ({"n_active": [3]}, {"history": None})),
        ("nbant_objective", "loss", NAN, InputError),
        ("nbant_objective", "nnz", -1, InputError),
        ("nbant_objective", "n_anchors", 0, InputError),
        ("nbant_objective", "anchor_price", With(penalty=2), InputError, "at least penalty, 2"),
        ("ParameterBudget", "layers", [made(), torch.nn.Linear(2, 2)], InputError),
        ("ParameterBudget", "n_parameters", With(nbytes=900), InputError, "not both; got both"),
        ("ParameterBudget", "n_parameters", None, InputError, "given, or nbytes, and not both; got neither"),
        ("ParameterBudget", "n_parameters", K * D - 1, InputError, "at least 35; got 34. The anchors alone"),
        ("ParameterBudget", "nbytes", With(n_parameters=None, nbytes=10), InputError, f"{4 * (K * D + V + 1)}; got 10"),
        ("ParameterBudget", "n_steps", 0, InputError),
        ("ParameterBudget", "optimizer", 3, InputError),
        ("ParameterBudget", "end", With(start=0.7), InputError),
        ("ParameterBudget.load_state_dict", "state", {"step": 1}, InputError, "that of a budget of 1 table"),
        ("compress", "n_anchors", V + 1, InputError),
        ("compress", "n_anchors", 0, InputError),
        ("compress", "nnz_per_row", 5, InputError),
        ("compress", "nnz_per_row", 0, InputError),
        ("compress", "nonnegative", 1, InputError),
        ("compress", "n_iter", -1, InputError),
        ("compress", "n_jobs", 0, InputError),
        ("compress", "vectors", np.ones((0, 3)), InputError),
        ("compress", "vectors", np.full((10, 2), NAN), InputError),
        ("compress", "vectors", np.full((10, 2), 1e300), InputError, "small enough for float32"),
    ],
)


@pytest.mark.parametrize("loss", [NAN, torch.tensor([-INF])])
def test_a_loss_that_is_not_finite_names_the_epoch(loss):
    with pytest.raises(NumericalError, match=r"the validation loss is (nan|-inf) after epoch 1; .* not changed"):
        DOORS["NBANT.step"](validation_loss=loss)
