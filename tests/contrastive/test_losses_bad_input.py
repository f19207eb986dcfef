"""Bad input of contrastive losses and in-batch candidates: the message names the argument, what came, what to do."""

import math
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import nearfar.nn as nn  # noqa: E402
from nearfar.errors import InputError, MissingDependencyError, NumericalError  # noqa: E402

INF = math.inf
SCORES, TARGET = torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]]), torch.tensor([2, 0])
LOG_Q = torch.tensor([0.5, 0.25, 0.25]).log()
QUERIES, KEYS = torch.tensor([[1.0, 0.5], [0.0, 2.0], [1.0, 1.0]]), torch.eye(3)[:, :2]
LOSSES = [nn.global_nce, nn.local_nce, nn.full_softmax, nn.hinge, nn.debiased_nce]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
with_noise = pytest.mark.parametrize("loss", [nn.global_nce, nn.local_nce], ids=lambda loss: loss.__name__)


def changed(tensor, *index_and_value):
    copy = tensor.clone()
    copy[index_and_value[:-1]] = index_and_value[-1]
    return copy


def refuses(call, *parts):
    with pytest.raises(InputError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


SCORES_THAT_CANNOT_BE_USED = {
    "rank 1": (SCORES[0], "scores must be of 2 dimension(s), shape (*, *); got 1 dimension(s), shape (3,)"),
    "rank 3": (SCORES[None], "got 3 dimension(s), shape (1, 2, 3)"),
    "no rows": (SCORES[:0], "scores must be of shape (*, *); got shape (0, 3)"),
    "one candidate": (
        SCORES[:, :1],
        "scores must be of two columns or more; got shape (2, 1). The true candidate needs",
    ),
    "integers": (SCORES.long(), "scores must be a tensor of floating-point numbers; got torch.int64"),
    "complex": (SCORES.to(torch.complex64), "got torch.complex64"),
    "a list": (SCORES.tolist(), "scores must be a tensor; got list. Convert it by torch.as_tensor."),
    "an array": (SCORES.numpy(), "scores must be a tensor; got ndarray."),
    "NaN": (changed(SCORES, 1, 1, math.nan), "scores must be free of NaN and +inf; got NaN. Only -inf has a meaning"),
    "+inf": (changed(SCORES, 0, 1, INF), "got +inf"),
    "masked": (changed(SCORES, 0, 2, -INF), "scores must be finite at the target; got -inf. A true candidate cannot"),
}
TARGETS_THAT_CANNOT_BE_USED = {
    "too large": (torch.tensor([2, 3]), "target must be a column of scores, in 0..2; got 3"),
    "negative": (torch.tensor([-1, 0]), "target must be a column of scores, in 0..2; got -1"),
    "too many": (torch.tensor([0, 1, 2]), "target must be of shape (2,); got shape (3,)"),
    "rank": (TARGET[:, None], "target must be of 1 dimension(s), shape (2,); got 2 dimension(s), shape (2, 1)"),
    "floats": (TARGET.float(), "target must be a tensor of integers; got torch.float32"),
    "flags": (TARGET > 0, "target must be a tensor of integers; got torch.bool"),
    "a number": (0, "target must be a tensor; got int"),
    "device": (
        TARGET.to("meta"),
        "target must be on the device of scores, cpu; got meta. Move it: target = target.to(",
    ),
}
NOISE_THAT_CANNOT_BE_USED = {
    "probability zero": (changed(LOG_Q, 1, -INF), "log_q must be finite; got -inf. A candidate that was drawn has a"),
    "NaN": (changed(LOG_Q, 1, math.nan), "log_q must be finite; got NaN"),
    "+inf": (changed(LOG_Q, 1, INF), "log_q must be finite; got +inf"),
    "shape": (LOG_Q[:2], "log_q must be of shape (3,); got shape (2,)"),
    "rows": (LOG_Q.expand(4, 3), "log_q must be of shape (2, 3); got shape (4, 3)"),
    "rank": (LOG_Q[None, None], "log_q must be of 1 dimension(s), shape (3,)"),
    "integers": (LOG_Q.long(), "log_q must be a tensor of floating-point numbers; got torch.int64"),
    "a list": (LOG_Q.tolist(), "log_q must be a tensor; got list"),
    "device": (LOG_Q.to("meta"), "log_q must be on the device of scores, cpu; got meta"),
}


@every_loss
@pytest.mark.parametrize("case", SCORES_THAT_CANNOT_BE_USED)
def test_scores_that_cannot_be_used(loss, case):
    scores, message = SCORES_THAT_CANNOT_BE_USED[case]
    target = TARGET[:0] if case == "no rows" else TARGET * (case != "one candidate")
    refuses(lambda: loss(scores, target), f"{loss.__name__}: ", message)


@every_loss
@pytest.mark.parametrize("case", TARGETS_THAT_CANNOT_BE_USED)
def test_targets_that_cannot_be_used(loss, case):
    target, message = TARGETS_THAT_CANNOT_BE_USED[case]
    refuses(lambda: loss(SCORES, target), f"{loss.__name__}: ", message)


@every_loss
def test_scores_on_another_device_and_unknown_reductions(loss):
    refuses(lambda: loss(SCORES.to("meta"), TARGET), "target must be on the device of scores, meta; got cpu")
    refuses(lambda: loss(SCORES, TARGET, reduction="batchmean"), "reduction must be one of 'mean', 'sum', 'none'")
    refuses(lambda: loss(SCORES, TARGET, reduction=None), "got None")


@with_noise
@pytest.mark.parametrize("case", NOISE_THAT_CANNOT_BE_USED)
def test_noise_that_cannot_be_used(loss, case):
    log_q, message = NOISE_THAT_CANNOT_BE_USED[case]
    refuses(lambda: loss(SCORES, TARGET, log_q), f"{loss.__name__}: ", message)


@with_noise
def test_types_of_scores_and_noise_may_differ(loss):
    expected = loss(SCORES, TARGET, LOG_Q)
    assert loss(SCORES, TARGET.to(torch.uint8), LOG_Q.double()).dtype == torch.float32
    torch.testing.assert_close(loss(SCORES.half(), TARGET, LOG_Q), expected)
    torch.testing.assert_close(loss(SCORES.double(), TARGET, LOG_Q), expected.double())


def test_a_row_without_noise_has_nothing_to_be_told_from():
    scores = SCORES.clone()
    scores[1, torch.arange(3) != TARGET[1]] = -INF
    message = "local_nce: scores must be of noise that is not masked in every row; got row 1 with all noise masked"
    refuses(lambda: nn.local_nce(scores, TARGET, LOG_Q), message, "Set the target of such a row to ignore_index.")
    left = nn.local_nce(scores, TARGET.index_fill(0, torch.tensor([1]), -100), LOG_Q)
    torch.testing.assert_close(left, nn.local_nce(SCORES[:1], TARGET[:1], LOG_Q))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_bad_example_is_found_in_half_precision_too(dtype):
    refuses(lambda: nn.global_nce(changed(SCORES, 1, 1, math.nan).to(dtype), TARGET), "got NaN")
    refuses(lambda: nn.global_nce(changed(SCORES, 0, 1, 3e38).half().to(dtype), TARGET), "got +inf")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 0.0}, "hinge: margin must be a finite number > 0; got 0.0"),
        ({"margin": INF}, "got inf"),
        ({"margin": "1"}, "got '1'"),
        ({"negatives": "easy"}, "negatives must be one of 'hardest', 'semi-hard', 'sum'; got 'easy'"),
    ],
)
def test_options_of_hinge_that_cannot_be_used(options, message):
    refuses(lambda: nn.hinge(SCORES, TARGET, **options), message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "debiased_nce: temperature must be a finite number > 0; got 0"),
        ({"class_prior": 1.0}, "class_prior must be a finite number in [0, 1); got 1.0"),
        ({"class_prior": -0.1}, "got -0.1"),
        ({"concentration": -1}, "concentration must be a finite number >= 0; got -1"),
        ({}, "scores must be in [-1, 1] when class_prior is above 0; got 3. Give cosines"),
    ],
)
def test_options_of_debiased_nce_that_cannot_be_used(options, message):
    refuses(lambda: nn.debiased_nce(SCORES, TARGET, **options), message)


def test_debiased_nce_needs_noise_in_every_row():
    scores = torch.tensor([[0.1, -INF, -INF], [0.5, 0.0, -1.0]])
    refuses(lambda: nn.debiased_nce(scores, torch.tensor([0, 0])), "a row with all noise masked")
    assert nn.debiased_nce(scores[1:], torch.tensor([0])) > 0
    one = torch.tensor([[1.0, -1.0]]).bfloat16() * 1.0078125  # cosines of bfloat16 are rounded
    assert nn.debiased_nce(one, torch.tensor([0])) > 0


TRUE, NOISE, NOISE_LOG_Q = SCORES[:, 0], SCORES, LOG_Q
IDS = torch.tensor([7, 8]), torch.tensor([1, 7, 3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SCORES, NOISE, NOISE_LOG_Q), "true_scores must be of 1 dimension(s), shape (2,); got 2 dimension(s)"),
        ((TRUE, NOISE[0], NOISE_LOG_Q), "noise_scores must be of 2 dimension(s)"),
        ((TRUE[:1], NOISE, NOISE_LOG_Q), "true_scores must be of shape (2,); got shape (1,)"),
        ((TRUE, NOISE[:, :0], NOISE_LOG_Q[:0]), "noise_scores must be of shape (*, *); got shape (2, 0)"),
        ((TRUE.double(), NOISE, NOISE_LOG_Q), "true_scores must be of the type of noise_scores, torch.float32; got"),
        ((changed(TRUE, 0, -INF), NOISE, NOISE_LOG_Q), "true_scores must be finite; got -inf"),
        ((changed(TRUE, 0, math.nan), NOISE, NOISE_LOG_Q), "true_scores must be free of NaN and +inf; got NaN"),
        ((TRUE, changed(NOISE, 0, 0, INF), NOISE_LOG_Q), "noise_scores must be free of NaN and +inf; got +inf"),
        ((TRUE, NOISE, changed(LOG_Q, 0, -INF)), "noise_log_q must be finite; got -inf. A candidate that was drawn"),
        ((TRUE, NOISE, LOG_Q[:2]), "noise_log_q must be of shape (3,)"),
        ((TRUE, NOISE, None), "noise_log_q must be a tensor; got NoneType"),
        ((TRUE, NOISE, NOISE_LOG_Q.to("meta")), "noise_log_q must be on the device of noise_scores, cpu; got meta"),
        ((TRUE, NOISE, NOISE_LOG_Q, IDS[0]), "noise_ids must be given together with true_ids; got None"),
        ((TRUE, NOISE, NOISE_LOG_Q, None, IDS[1]), "true_ids must be given together with noise_ids; got None"),
        ((TRUE, NOISE, NOISE_LOG_Q, IDS[1], IDS[1]), "true_ids must be of shape (2,); got shape (3,)"),
        ((TRUE, NOISE, NOISE_LOG_Q, IDS[0], IDS[0]), "noise_ids must be of shape (3,); got shape (2,)"),
        (
            (TRUE, NOISE, NOISE_LOG_Q, IDS[0], IDS[1].expand(3, 3)),
            "noise_ids must be of shape (2, 3); got shape (3, 3)",
        ),
        ((TRUE, NOISE, NOISE_LOG_Q, IDS[0], IDS[1].float()), "noise_ids must be a tensor of integers"),
        ((TRUE, NOISE, NOISE_LOG_Q, IDS[0].to("meta"), IDS[1]), "true_ids must be on the device of noise_scores"),
    ],
)
def test_sampled_softmax_of_what_cannot_be_used(arguments, message):
    refuses(lambda: nn.sampled_softmax(*arguments), "sampled_softmax: ", message)


@pytest.mark.parametrize("function", [nn.in_batch_nce, nn.in_batch_scores], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("queries", "keys", "options", "message"),
    [
        (QUERIES[:1], KEYS[:1], {}, "keys must be two or more: in-batch negatives are the others; got a batch of one."),
        (QUERIES[0], KEYS, {}, "queries must be of 2 dimension(s)"),
        (QUERIES, KEYS[:2], {}, "keys must be of shape (3, 2); got shape (2, 2)"),
        (QUERIES, KEYS[:, :1], {}, "keys must be of shape (3, 2); got shape (3, 1)"),
        (QUERIES.half(), KEYS, {}, "keys must be of the type of queries, torch.float16; got torch.float32. Convert it"),
        (QUERIES, KEYS.to("meta"), {}, "keys must be on the device of queries, cpu; got meta"),
        (QUERIES.long(), KEYS.long(), {}, "queries must be a tensor of floating-point numbers"),
        (changed(QUERIES, 0, 0, math.nan), KEYS, {}, "queries must be finite; got NaN"),
        (QUERIES, changed(KEYS, 0, 0, -INF), {}, "keys must be finite; got -inf"),
        (QUERIES, KEYS, {"temperature": 0}, "temperature must be a finite number > 0; got 0"),
        (QUERIES, KEYS, {"gather": 1}, "gather must be True or False; got 1"),
        (QUERIES, KEYS, {"ids": torch.tensor([1, 2])}, "ids must be of shape (3,); got shape (2,)"),
        (QUERIES, KEYS, {"ids": ["a", "b", "c"]}, "ids must be a tensor; got list"),
        (
            QUERIES,
            KEYS,
            {"ids": torch.tensor([1, 2, 3]).to("meta")},
            "ids must be on the device of keys, cpu; got meta",
        ),
    ],
)
def test_batches_that_cannot_be_used(function, queries, keys, options, message):
    refuses(lambda: function(queries, keys, **options), f"{function.__name__}: ", message)


@pytest.mark.parametrize(
    ("log_q", "message"),
    [
        (
            changed(LOG_Q, 0, -INF),
            "log_q must be finite; got -inf. A key that is in the batch has a probability above 0.",
        ),
        (LOG_Q[:2], "log_q must be of shape (3,)"),
        (LOG_Q.to("meta"), "log_q must be on the device of keys, cpu; got meta"),
        (LOG_Q.long(), "log_q must be a tensor of floating-point numbers"),
    ],
)
def test_in_batch_noise_that_cannot_be_used(log_q, message):
    refuses(lambda: nn.in_batch_nce(QUERIES, KEYS, log_q=log_q), "in_batch_nce: ", message)


NO_LOGS = {
    "probabilities": (
        [0.5, 0.2, 0.3],
        "numbers from 0.2 to 0.5, which look like probabilities. Give their logs: {name} = {name}.log().",
    ),
    "probabilities of many ids": ([1e-8, 1e-8, 3e-8], "which look like probabilities"),
    "counts": ([12.0, 1.0, 400.0], "numbers from 1 to 400, which look like counts. Give logs of shares: {name} = ("),
    "logs of counts": ([2.5, 0.0, 6.0], "numbers from 0 to 6. Probabilities are at most 1"),
    "logs and a wrong one": ([-2.5, 0.01, -1.0], "numbers from -2.5 to 0.01. Probabilities are at most 1"),
}
TAKE_LOG_Q = {
    "global_nce": lambda q: nn.global_nce(SCORES, TARGET, q),
    "local_nce": lambda q: nn.local_nce(SCORES, TARGET, q),
    "local_nce, per row": lambda q: nn.local_nce(SCORES, TARGET, q.expand(2, 3)),
    "sampled_softmax": lambda q: nn.sampled_softmax(TRUE, NOISE, q),
    "in_batch_nce": lambda q: nn.in_batch_nce(QUERIES, KEYS, log_q=q),
    "recover_conditional": lambda q: nn.recover_conditional(SCORES, q),
    "recover_conditional, local": lambda q: nn.recover_conditional(SCORES, q, "local", 5),
    "self_normalization": lambda q: nn.self_normalization(SCORES, q, 5),
}


@pytest.mark.parametrize("function", TAKE_LOG_Q)
@pytest.mark.parametrize("case", NO_LOGS)
def test_what_is_no_log_of_a_probability_is_refused(function, case):
    values, message = NO_LOGS[case]
    name = "noise_log_q" if function == "sampled_softmax" else "log_q"
    expected = f"{function.split(',')[0]}: {name} must be logs of probabilities, at most 0; got "
    for given in (torch.tensor(values), torch.tensor(values, dtype=torch.float64)):
        refuses(lambda given=given: TAKE_LOG_Q[function](given), expected, message.format(name=name))


@pytest.mark.parametrize("function", TAKE_LOG_Q)
def test_logs_of_probabilities_may_be_rounded(function):
    for values in ([0.0, 0.0, 0.0], [-3.0, -1.0, 1e-7], [-1e3, -2e3, -3e3]):
        assert TAKE_LOG_Q[function](torch.tensor(values)) is not None
    narrow = torch.tensor([-3.0, -1.0, 0.004]).to(torch.bfloat16)
    assert TAKE_LOG_Q[function](narrow) is not None


def test_in_batch_scores_beyond_the_type_are_told():
    with pytest.raises(NumericalError, match=r"in_batch_nce: a scalar product .* too large. Normalise the vectors"):
        nn.in_batch_nce(QUERIES * 1e30, KEYS * 1e30)
    scores, target = nn.in_batch_scores(QUERIES * 1e30, KEYS * 1e30)
    refuses(lambda: nn.global_nce(scores, target), "scores must be free of NaN and +inf; got +inf")
    assert nn.in_batch_nce(QUERIES.half() * 2e4, KEYS.half() * 2e4).isfinite()  # beyond float16, not beyond float32


def test_inputs_are_left_as_they_were():
    given = [SCORES.clone(), TARGET.clone(), LOG_Q.clone()]
    for loss in (nn.global_nce, nn.local_nce):
        loss(given[0].requires_grad_(), *given[1:]).backward()
        assert all(torch.equal(a, b) for a, b in zip(given, (SCORES, TARGET, LOG_Q), strict=True))
        given[0] = given[0].detach()
    log_q = LOG_Q.clone()
    assert nn.in_batch_nce(QUERIES, KEYS, log_q=log_q).isfinite()
    assert torch.equal(log_q, LOG_Q)


def test_scores_that_were_changed_before_going_backward_are_told():
    scores = SCORES.clone().requires_grad_()
    held = scores * 1
    loss = nn.global_nce(held, TARGET)
    held.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_without_torch_the_room_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import nearfar as nf\n"
        "try:\n    nf.nn\nexcept nf.errors.MissingDependencyError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == str(MissingDependencyError("nearfar.nn", "torch", "torch")), done.stderr
    assert "pip install 'nearfar[torch]'" in done.stdout
