"""What every contrastive loss promises: reductions, gradients, masks, half precision, no matter of order, errors.

The losses are those of ``registry.LOSSES``; a line there takes a new one in. What a loss is, by hand or by a twin in
NumPy, stands in test_losses.py.
"""

import importlib
import inspect
import math

import pytest

torch = pytest.importorskip("torch")

from registry import LOSSES  # noqa: E402

TARGET = torch.tensor([2, 0, 3, 1, 0])
SCORES = torch.tensor(
    [
        [0.31, -0.62, 0.05, 0.88],
        [-0.17, 0.44, 0.93, -0.71],
        [0.52, 0.11, -0.35, 0.67],
        [-0.84, 0.26, 0.39, -0.08],
        [0.73, -0.29, -0.96, 0.15],
    ],
    dtype=torch.float64,
)  # cosines, so that losses of these are served too; no two alike


@pytest.fixture(params=LOSSES)
def loss(request):
    """A loss with its options: of scores, target and reduction."""
    name, options = LOSSES[request.param]
    module, _, function = name.rpartition(":")
    found = getattr(importlib.import_module(module or "nearfar.nn"), function)
    columns = {key for key, value in options.items() if isinstance(value, list)}

    def call(scores, target=TARGET, order=slice(None), **more):
        tensors = {key: torch.tensor(options[key], dtype=torch.float64)[..., order] for key in columns}
        return found(scores, target, **{**options, **tensors, **more})

    call.function = found
    return call


def test_arguments_have_the_names_of_all_losses(loss):
    names = list(inspect.signature(loss.function).parameters)
    assert names[:2] == ["scores", "target"]
    assert names[-2:] == ["reduction", "ignore_index"]


def test_reductions_are_of_one_loss_per_row(loss):
    rows = loss(SCORES, reduction="none")
    assert rows.shape == (5,)
    assert rows.isfinite().all()
    assert rows.dtype == torch.float64
    assert float(rows.max() - rows.min()) > 1e-3
    torch.testing.assert_close(loss(SCORES, reduction="sum"), rows.sum())
    torch.testing.assert_close(loss(SCORES), rows.mean())
    one_by_one = [loss(SCORES[i : i + 1], TARGET[i : i + 1]) for i in range(5)]
    torch.testing.assert_close(rows, torch.stack(one_by_one))


def test_the_gradient_is_that_of_finite_differences(loss):
    weights = torch.tensor([0.5, 2.0, -1.0, 3.0, 1.0], dtype=torch.float64)  # an error in a row would show
    scores = SCORES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: weights @ loss(s, reduction="none"), [scores])
    assert scores.equal(SCORES)  # the caller's scores are not written to


def test_gradients_have_gradients(loss):
    weights = torch.tensor([0.5, 2.0, -1.0, 3.0, 1.0], dtype=torch.float64)
    masked = SCORES.masked_fill(SCORES[0, 0] == SCORES, -math.inf)  # noise of the first row
    for scores in (SCORES, masked):
        fixed = scores.isinf()
        given = scores.masked_fill(fixed, 0).requires_grad_()
        assert torch.autograd.gradgradcheck(
            lambda s, fixed=fixed: weights @ loss(s.masked_fill(fixed, -math.inf), reduction="none"),
            [given],
            fast_mode=True,
        )


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_torch_func_takes_the_loss_and_many_at_once(loss):
    from torch.func import grad, jvp, vmap

    (each,) = torch.autograd.grad(loss(given := SCORES.clone().requires_grad_(), reduction="sum"), given)
    torch.testing.assert_close(grad(lambda s: loss(s, reduction="sum"))(SCORES), each)
    rows = vmap(grad(lambda s, t: loss(s[None], t[None])))(SCORES, TARGET)
    torch.testing.assert_close(rows, each)
    _, along = jvp(lambda s: loss(s, reduction="sum"), (SCORES,), (SCORES.cos(),))
    torch.testing.assert_close(along, (each * SCORES.cos()).sum())


def test_the_order_of_candidates_does_not_matter(loss):
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(loss(SCORES[:, order], order.argsort()[TARGET], order), loss(SCORES))
    turned = SCORES.T.contiguous().T
    torch.testing.assert_close(loss(turned), loss(SCORES))


def test_a_masked_candidate_has_no_gradient(loss):
    masked = torch.zeros(5, 4, dtype=torch.bool)
    masked[torch.arange(5), (TARGET + 1) % 4] = True
    scores = SCORES.masked_fill(masked, -math.inf).requires_grad_()
    value = loss(scores)
    value.backward()
    assert value.isfinite()
    assert scores.grad.isfinite().all()
    assert not scores.grad[masked].any()
    assert scores.grad[~masked].any()


@pytest.mark.parametrize("ignore_index", [-100, 3, 7])
def test_a_row_without_a_target_is_ignored(loss, ignore_index):
    """Its scores may be anything: it is as if it were not there."""
    target = TARGET.index_fill(0, torch.tensor([1, 2]), ignore_index)
    left = (target != ignore_index).nonzero()[:, 0]
    assert len(left) == 3
    scores = SCORES.index_fill(0, torch.tensor([1]), math.nan).index_fill(0, torch.tensor([2]), -math.inf)
    scores.requires_grad_()
    kept = SCORES[left].requires_grad_()
    for reduction in ("sum", "mean"):
        value = loss(scores, target, reduction=reduction, ignore_index=ignore_index)
        expected = loss(kept, target[left], reduction=reduction)
        torch.testing.assert_close(value, expected)
    value.backward()
    expected.backward()
    torch.testing.assert_close(scores.grad[left], kept.grad)
    assert not scores.grad[[1, 2]].any()
    rows = loss(scores, target, reduction="none", ignore_index=ignore_index)
    assert rows.shape == (5,)
    torch.testing.assert_close(rows[left], loss(kept, target[left], reduction="none"))
    assert rows[[1, 2]].tolist() == [0, 0]


def test_rows_are_ignored_with_noise_of_each_row(loss):
    if "log_q" not in inspect.signature(loss.function).parameters:
        pytest.skip("knows no noise")
    log_q = torch.linspace(-3, -1, 20, dtype=torch.float64).reshape(5, 4)
    target = TARGET.index_fill(0, torch.tensor([1, 2]), -100)
    rows = torch.tensor([0, 3, 4])
    torch.testing.assert_close(loss(SCORES, target, log_q=log_q), loss(SCORES[rows], target[rows], log_q=log_q[rows]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(loss, dtype):
    narrow = SCORES.to(dtype).requires_grad_()
    wide = narrow.detach().float().requires_grad_()
    values = [loss(scores) for scores in (narrow, wide)]
    assert values[0].dtype == torch.float32
    assert values[0].item() == values[1].item()
    for value in values:
        value.backward()
    torch.testing.assert_close(narrow.grad, wide.grad.to(dtype))
