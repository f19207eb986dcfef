"""Every loss in every context of real training: it works."""

import pytest

torch = pytest.importorskip("torch")

import loss_contexts as given  # noqa: E402

QUICK = {"global_nce", "in_batch_nce", "siglip"}
CELLS = [
    pytest.param(loss, name, marks=[] if loss in QUICK and name != "full graph" else pytest.mark.slow)
    for loss in given.LOSSES
    for name in given.CONTEXTS
]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize(("loss", "context"), CELLS)
def test_a_loss_works(loss, context):
    given.CONTEXTS[context](given.LOSSES[loss])
