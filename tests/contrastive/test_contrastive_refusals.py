"""What losses, noise, bounds and estimates refuse: a row for each."""

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from refusals import With, refused

torch = pytest.importorskip("torch")

from nearfar import nn  # noqa: E402
from nearfar.errors import InputError, MissingDependencyError, NumericalError  # noqa: E402

NAN, INF = math.nan, math.inf
SCORES, TARGET = torch.tensor([[0.5, 0.25, -0.5], [0.5, 0.0, -1.0]]), torch.tensor([2, 0])
LOG_Q = torch.tensor([0.5, 0.25, 0.25]).log()
QUERIES, KEYS = torch.tensor([[1.0, 0.5], [0.0, 2.0], [1.0, 1.0]]), torch.eye(3)[:, :2]
NO_NOISE = torch.tensor([[0.5, 0.0, 1.0], [0.1, -INF, -INF]])
IDS, SHARES = torch.arange(3), torch.full((3, 3), 1 / 3)
FLAT = With(sentence_features=[{"input_ids": IDS, "offsets": IDS}] * 2, chunk_size=2)
ROWS = np.random.default_rng(2).normal(size=(200, 2))


def changed(tensor, *index_and_value):
    copy = tensor.clone()
    copy[index_and_value[:-1]] = index_and_value[-1]
    return copy


def of_scores(loss):
    return lambda **given: loss(**{"scores": SCORES, "target": TARGET, **given})


def of_pairs(loss):
    return lambda **given: loss(**{"queries": QUERIES, "keys": KEYS, **given})


def of_bound(bound):
    return lambda **given: bound(**{"scores": torch.zeros(3, 3), **given})


def estimated(**given):
    return nn.estimate_mutual_information(**{"x": ROWS, "y": ROWS, "batch_size": 10, "n_steps": 2, **given})


def sampled(score_function=lambda: torch.zeros(3, 5), shape=(3, 2)):
    noise = nn.AdaptiveNoise(score_function)
    noise.sample(shape)
    return noise


class Texts(torch.nn.Module):
    """Three vectors, whatever the texts are."""

    def forward(self, _features):
        return {"sentence_embedding": torch.ones(3, 2)}


def text_loss(sentence_features=({"input_ids": IDS},) * 2, **given):
    return nn.SentenceRankingLoss(Texts(), **given)(sentence_features)


OF_SCORES = ("global_nce", "local_nce", "full_softmax", "hinge", "debiased_nce")
OF_PAIRS = ("in_batch_nce", "in_batch_scores", "symmetric_nce", "siglip")
DOORS = {
    **{name: of_scores(getattr(nn, name)) for name in OF_SCORES},
    **{name: of_pairs(getattr(nn, name)) for name in OF_PAIRS},
    "InBatchNCE": of_pairs(nn.InBatchNCE()),
    "sampled_softmax": lambda **given: nn.sampled_softmax(
        **{"true_scores": SCORES[:, 0], "noise_scores": SCORES, "noise_log_q": LOG_Q, **given}
    ),
    "supcon": lambda **given: nn.supcon(**{"vectors": QUERIES, "labels": torch.tensor([0, 1, 0]), **given}),
    "recover_conditional": lambda **given: nn.recover_conditional(**{"scores": SCORES, **given}),
    "self_normalization": lambda **given: nn.self_normalization(**{"scores": SCORES, **given}),
    **{name: of_bound(getattr(nn, name)) for name in ("dv_bound", "nwj_bound", "info_nce_bound", "tuba_bound")},
    **{name: of_bound(getattr(nn, name)) for name in ("interpolated_bound", "smile_bound", "js_objective")},
    "SeparableCritic": lambda **given: nn.SeparableCritic(**{"x_dim": 2, "y_dim": 2, **given}),
    "JointCritic": lambda hidden: nn.JointCritic(2, 2, hidden),
    "estimate_mutual_information": estimated,
    "UniformNoise": nn.UniformNoise,
    "CategoricalNoise": nn.CategoricalNoise,
    "UnigramNoise": lambda **given: nn.UnigramNoise(**{"counts": [1, 2], **given}),
    "InBatchNoise": lambda **given: nn.InBatchNoise(3, **given),
    "InBatchNoise.observe": lambda ids: nn.InBatchNoise(3).observe(ids),
    "a batch": lambda shape: nn.InBatchNoise(3).sample(shape),
    "log_prob": lambda ids: nn.UniformNoise(3).log_prob(ids),
    "sample": lambda shape: nn.UniformNoise(3).sample(shape),
    "AdaptiveNoise": sampled,
    "AdaptiveNoise.log_prob": lambda ids: sampled().log_prob(ids),
    "no sample": lambda ids: nn.AdaptiveNoise(lambda: SCORES).log_prob(ids),
    "encode_in_chunks": lambda **given: nn.encode_in_chunks(
        **{"encoder": torch.nn.Linear(2, 2), "chunks": QUERIES.split(2), **given}
    ),
    "matryoshka": lambda vectors=(QUERIES, KEYS), loss=nn.in_batch_nce, **given: nn.matryoshka(loss, *vectors, **given),
    "SentenceRankingLoss": text_loss,
}
WRONG_SCORES = [  # of all losses of scores
    ("scores", SCORES[0], InputError, "of 2 dimensions, shape (*, *); got 1 dimension, shape (3,)"),
    ("scores", With(scores=SCORES[:0], target=TARGET[:0]), InputError, "of shape (*, *); got shape (0, 3)"),
    ("scores", With(scores=SCORES[:, :1], target=0 * TARGET), InputError, "two columns or more; got shape (2, 1). The"),
    ("scores", SCORES.long(), InputError, "a tensor of floating-point numbers; got torch.int64"),
    ("scores", SCORES.tolist(), InputError, "a tensor; got list. Convert it by torch.as_tensor."),
    ("scores", changed(SCORES, 1, 1, NAN), InputError, "free of NaN and +inf; got NaN. Only -inf has a meaning"),
    ("scores", changed(SCORES, 1, 1, NAN).half(), InputError, "got NaN"),
    ("scores", changed(SCORES, 0, 1, INF), InputError, "got +inf"),
    ("scores", changed(SCORES, 0, 2, -INF), InputError, "finite at the target; got -inf. A true candidate cannot"),
    ("target", torch.tensor([2, 3]), InputError, "a column of scores, in 0..2; got 3"),
    ("target", torch.tensor([-1, 0]), InputError, "a column of scores, in 0..2; got -1"),
    ("target", torch.tensor([0, 1, 2]), InputError, "of shape (2,); got shape (3,)"),
    ("target", TARGET.float(), InputError, "a tensor of integers; got torch.float32"),
    ("target", TARGET > 0, InputError, "a tensor of integers; got torch.bool"),
    ("target", TARGET.to("meta"), InputError, "on the device of scores, cpu; got meta. Move it: target = target.to("),
    ("target", TARGET * 0 - 100, InputError, "a column of scores in at least one row; got ignore_index, -100"),
    ("target", With(target=changed(TARGET, 1, -100), ignore_index=-1), InputError, "got -100"),
    ("ignore_index", 1.5, InputError),
    ("reduction", "batchmean", InputError, "one of 'mean', 'sum', 'none'"),
]
WRONG_LOG_Q = [  # of all that take it for three candidates
    (changed(LOG_Q, 1, -INF), "finite; got -inf. A"),
    (changed(LOG_Q, 1, NAN), "finite; got NaN"),
    (LOG_Q[:2], "of shape (3,); got shape (2,)"),
    (LOG_Q.long(), "a tensor of floating-point numbers; got torch.int64"),
    (LOG_Q.to("meta"), "cpu; got meta"),
    (torch.tensor([0.5, 0.2, 0.3]), "numbers from 0.2 to 0.5, which look like probabilities. Give their logs"),
    (torch.tensor([1e-8, 1e-8, 3e-8]), "which look like probabilities"),
    (torch.tensor([12.0, 1.0, 400.0]).double(), "numbers from 1 to 400, which look like counts. Give logs of shares"),
    (torch.tensor([2.5, 0.0, 6.0]), "numbers from 0 to 6. Probabilities are at most 1"),
    (torch.tensor([-2.5, 0.01, -1.0]), "numbers from -2.5 to 0.01. Probabilities are at most 1"),
]
TAKE_LOG_Q = {
    "global_nce": "log_q",
    "local_nce": "log_q",
    "sampled_softmax": "noise_log_q",
    "in_batch_nce": "log_q",
    "symmetric_nce": "query_log_q",
    "siglip": "log_q",
    "supcon": "log_q",
    "recover_conditional": "log_q",
}
WRONG_PAIRS = [  # of all losses of vectors
    ("must be two or more", With(queries=QUERIES[:1], keys=KEYS[:1]), InputError, "a batch of one", "drop_last=True"),
    ("queries", QUERIES[0], InputError, "of 2 dimensions"),
    ("queries", With(queries=QUERIES[:0], keys=KEYS[:0]), InputError, "of shape (*, *); got shape (0, 2)"),
    ("keys", KEYS[:2], InputError, "of shape (3, 2); got shape (2, 2)"),
    ("keys", With(queries=QUERIES.half()), InputError, "of the type of queries, torch.float16; got torch.float32. Con"),
    ("keys", KEYS.to("meta"), InputError, "on the device of queries, cpu; got meta"),
    ("queries", changed(QUERIES, 0, 0, NAN), InputError, "finite; got NaN"),
    ("keys", changed(KEYS, 0, 0, -INF), InputError, "finite; got -inf"),
    ("negatives", KEYS[:, :1], InputError, "of shape (*, 2); got shape (3, 1)"),
    ("negatives", KEYS[:0], InputError),
    ("negatives", KEYS[None], InputError, "of shape (3, *, 2); got shape (1, 3, 2)"),
    ("negatives", KEYS.double(), InputError, "of the type of queries"),
    ("negatives", KEYS * NAN, InputError, "finite; got NaN"),
    ("negatives", KEYS.tolist(), InputError, "a tensor; got list"),
    ("ids", With(negatives=KEYS, ids=IDS), InputError, "of shape (6,); got shape (3,)"),
    ("ids", IDS.double(), InputError, "a tensor of integers"),
    ("ids", IDS.to("meta"), InputError, "on the device of keys, cpu; got meta"),
    *(("temperature", t, InputError) for t in (0.0, torch.tensor(0.0), torch.tensor([1.0, 2.0]), torch.tensor(2))),
    ("gather", 1, InputError, "True or False; got 1"),
]
test_refusals = refused(
    DOORS,
    [
        *((name, *row) for name in OF_SCORES for row in WRONG_SCORES),
        *((name, of, q, InputError, words) for name, of in TAKE_LOG_Q.items() for q, words in WRONG_LOG_Q),
        *((name, *row) for name in OF_PAIRS for row in WRONG_PAIRS),
        *((name, "reduction", "median", InputError) for name in OF_PAIRS if name != "in_batch_scores"),
        ("global_nce", "log_q", LOG_Q.expand(4, 3), InputError, "of shape (2, 3); got shape (4, 3)"),
        ("global_nce", "target", -SHARES[:2], InputError, "shares, none below 0"),
        ("global_nce", "target", With(scores=changed(SCORES, 0, 1, -INF), target=SHARES[:2]), InputError, "masked"),
        ("local_nce", "scores", With(scores=NO_NOISE, log_q=LOG_Q), InputError, "row 1 with all noise masked. Set the"),
        ("hinge", "margin", 0.0, InputError),
        ("hinge", "margin", INF, InputError),
        ("hinge", "negatives", "easy", InputError, "one of 'hardest', 'semi-hard', 'sum'"),
        ("debiased_nce", "temperature", 0, InputError),
        ("debiased_nce", "class_prior", 1.0, InputError),
        ("debiased_nce", "class_prior", -0.1, InputError),
        ("debiased_nce", "concentration", -1, InputError),
        ("debiased_nce", "scores", SCORES * 6, InputError, "in [-1, 1] when class_prior is above 0; got -6. Give"),
        ("debiased_nce", "scores", NO_NOISE, InputError, "all noise masked"),
        ("sampled_softmax", "true_scores", SCORES, InputError, "of 1 dimension, shape (2,); got 2 dimensions"),
        ("sampled_softmax", "true_scores", SCORES[:1, 0], InputError, "of shape (2,); got shape (1,)"),
        ("sampled_softmax", "true_scores", SCORES[:, 0].double(), InputError, "of the type of noise_scores"),
        ("sampled_softmax", "true_scores", changed(SCORES[:, 0], 0, -INF), InputError, "finite; got -inf"),
        ("sampled_softmax", "noise_scores", SCORES[0], InputError, "of 2 dimensions"),
        ("sampled_softmax", "noise_scores", changed(SCORES, 0, 0, INF), InputError, "free of NaN and +inf; got +inf"),
        ("sampled_softmax", "noise_ids", With(true_ids=TARGET), InputError, "given together with true_ids; got None"),
        ("sampled_softmax", "true_ids", With(noise_ids=IDS), InputError, "given together with noise_ids; got None"),
        ("sampled_softmax", "true_ids", With(true_ids=IDS, noise_ids=IDS), InputError, "of shape (2,)"),
        ("sampled_softmax", "noise_ids", With(true_ids=TARGET, noise_ids=TARGET), InputError, "of shape (3,)"),
        ("sampled_softmax", "true_ids", With(true_ids=TARGET.to("meta"), noise_ids=IDS), InputError, "on the device"),
        ("symmetric_nce", "queries", With(queries=KEYS[:1], keys=KEYS[:1], negatives=KEYS), InputError, "two or more"),
        ("InBatchNCE", "ids", IDS[:2], InputError, "of shape (3,); got shape (2,)"),
        ("InBatchNCE", "ids", None, InputError, "what the keys stand for"),
        ("InBatchNCE", "a batch of one", With(queries=KEYS[:1], keys=KEYS[:1], ids=IDS[:1]), InputError, "drop_last"),
        ("symmetric_nce", "query_ids", IDS[:2], InputError, "of shape (3,)"),
        ("in_batch_nce", "target", SHARES[:, :2], InputError, "of shape (3, 3); got shape (3, 2)"),
        ("in_batch_nce", "target", -SHARES, InputError, "shares, none below 0"),
        ("in_batch_nce", "target", SHARES * 2, InputError, "shares of sum 1 in each row; got 2 in row 0"),
        ("in_batch_nce", "target", SHARES * NAN, InputError, "finite"),
        ("in_batch_nce", "target", IDS, InputError, "of 2 dimension"),
        ("in_batch_nce", "ids", With(target=SHARES, ids=IDS), InputError, "left out where target is given"),
        ("supcon", "labels", IDS, InputError, "of two vectors somewhere; got each of one"),
        ("supcon", "vectors", With(vectors=QUERIES[:1], labels=IDS[:1]), InputError, "two or more"),
        ("supcon", "labels", IDS[:2], InputError, "of shape (3,)"),
        ("supcon", "labels", IDS.double(), InputError, "a tensor of integers"),
        ("supcon", "vectors", QUERIES * INF, InputError, "finite"),
        *(("siglip", "bias", b, InputError) for b in (NAN, torch.tensor([1.0, 2.0]), torch.tensor(1))),
        ("siglip", "bias", torch.tensor(INF), InputError, "finite"),
        ("recover_conditional", "scores", SCORES[0], InputError),
        ("recover_conditional", "scores", SCORES + NAN, InputError, "free of NaN"),
        ("recover_conditional", "loss", "binary", InputError, "one of 'global', 'local'; got 'binary'"),
        ("recover_conditional", "n_candidates", 5, InputError, "left out for loss='global'; got 5"),
        ("recover_conditional", "n_candidates", With(log_q=LOG_Q, loss="local"), InputError, "together with log_q"),
        ("recover_conditional", "n_candidates", With(loss="local", n_candidates=5), InputError, "together with log_q"),
        ("self_normalization", "n_candidates", With(log_q=LOG_Q, n_candidates=1), InputError, "> 1; got 1"),
        ("nwj_bound", "scores", SCORES.numpy(), InputError, "a tensor; got ndarray"),
        ("dv_bound", "scores", torch.zeros(3), InputError, "of 2 dimension"),
        ("dv_bound", "scores", SCORES, InputError, "a square matrix of two rows or more; got shape (2, 3)"),
        ("dv_bound", "scores", torch.zeros(1, 1), InputError, "a square matrix of two rows or more"),
        ("js_objective", "scores", torch.zeros(2, 2, dtype=torch.int64), InputError, "floating-point"),
        ("info_nce_bound", "scores", torch.full((2, 2), NAN), InputError, "finite; got NaN"),
        ("info_nce_bound", "product", With(scores=LOG_Q, product=LOG_Q), InputError, "of 2 dimension"),
        ("info_nce_bound", "product", With(scores=LOG_Q, product=SCORES), InputError, "of shape (3, *)"),
        ("nwj_bound", "product", With(scores=LOG_Q, product=LOG_Q.double()), InputError, "of the type of scores"),
        ("nwj_bound", "product", With(scores=LOG_Q, product=LOG_Q / 0), InputError, "finite"),
        ("nwj_bound", "product", With(scores=LOG_Q, product=LOG_Q.to("meta")), InputError, "on the device of scores"),
        ("tuba_bound", "log_baseline", INF, InputError, "a finite number"),
        ("tuba_bound", "log_baseline", torch.zeros(2), InputError, "of shape (3,)"),
        ("tuba_bound", "log_baseline", With(scores=LOG_Q, product=LOG_Q, log_baseline=LOG_Q), InputError, "a number"),
        ("interpolated_bound", "alpha", 1.5, InputError),
        ("smile_bound", "tau", 0, InputError),
        ("SeparableCritic", "x_dim", 0, InputError),
        ("SeparableCritic", "y_dim", 1.5, InputError),
        ("JointCritic", "hidden", (), InputError, "of at least one layer"),
        ("JointCritic", "hidden", 8, InputError, "a sequence of integers; got 8"),
        *(
            ("estimate_mutual_information", *row)
            for row in (
                ("y", ROWS[:-1], InputError, "as long as x, 200 rows; got 199 rows"),
                ("y", np.where(np.arange(400).reshape(200, 2) == 7, NAN, ROWS), InputError, "finite", "first [3]"),
                ("y", torch.zeros(200, 2, dtype=torch.complex64), InputError, "real numbers"),
                ("y", [["a", "b"]] * 200, InputError, "an array of numbers"),
                ("y", ROWS[:, :0], InputError, "an array of rows"),
                ("y", torch.zeros(200, 2).to_sparse(), InputError, "a dense tensor"),
                ("y", torch.zeros(200, 2, device="meta"), InputError),
                ("batch_size", 1, InputError, ">= 2; got 1"),
                ("batch_size", 300, InputError, "at most 15, half of the 30 pairs that are held out"),
                ("held_out", With(batch_size=40, held_out=0.9), InputError, "such that a batch of 40 is left"),
                ("batch_size", With(batch_size=150, critic=lambda x, y: x @ y.T), InputError, "100, half of the 200"),
                ("held_out", 1.0, InputError),
                ("n_steps", 0, InputError),
                ("learning_rate", 0.0, InputError),
                ("bound", "mine", InputError, "one of 'infonce', 'nwj'"),
                ("alpha", 0.5, InputError, "left out with bound='infonce'; got 0.5"),
                ("tau", With(bound="nwj", tau=1.0), InputError, "left out with bound='nwj'"),
                ("alpha", With(bound="interpolated", alpha=-1), InputError, "a finite number"),
                ("critic", "dot", InputError, "one of 'separable', 'joint', 'bilinear'"),
                ("critic", torch.nn.Linear, InputError, "a module or a function"),
                ("critic", lambda x, y: x * y, InputError, "floating-point numbers of shape (10, 10); got"),
                ("critic", lambda x, y: None, InputError, "a function whose scores"),
                ("critic", torch.nn.Bilinear(2, 2, 1, device="meta"), InputError, "on the device of x, cpu; got meta"),
                ("random_state", -1, InputError),
            )
        ),
        ("UniformNoise", "n", 0, InputError),
        ("CategoricalNoise", "probabilities", [0.5, 0.4], InputError, "sum to 1; got a sum of 0.9"),
        ("CategoricalNoise", "probabilities", [1.5, -0.5], InputError, "none below 0"),
        ("CategoricalNoise", "probabilities", [NAN, 1.0], InputError, "finite"),
        ("CategoricalNoise", "probabilities", torch.eye(3), InputError, "of shape (n,)"),
        ("CategoricalNoise", "probabilities", ["a", "b"], InputError, "numbers"),
        ("UnigramNoise", "counts", [3, -1], InputError, "finite and >= 0; got -1.0 at 1"),
        ("UnigramNoise", "counts", [0, 0], InputError, "positive somewhere; got nothing but zeros"),
        ("UnigramNoise", "power", -1, InputError),
        ("InBatchNoise", "counts", [1, 2], InputError, "of shape (3,); got shape (2,)"),
        ("InBatchNoise", "rate", 1, InputError),
        ("a batch", "batch", With(shape=2), InputError, "there; got none. Call observe(ids) first"),
        ("InBatchNoise.observe", "ids", torch.tensor([3]), InputError, "in 0 .. 2; got ids from 3 to 3"),
        ("InBatchNoise.observe", "ids", torch.empty(0, dtype=int), InputError, "of at least one item"),
        ("log_prob", "ids", torch.tensor([0, -1]), InputError, "in 0 .. 2; got ids from -1 to 0"),
        ("log_prob", "ids", torch.zeros(2), InputError, "a tensor of integers; got torch.float32"),
        ("log_prob", "ids", torch.tensor([True]), InputError, "a tensor of integers; got torch.bool"),
        ("sample", "shape", -1, InputError),
        ("sample", "shape", (2, 1.5), InputError),
        ("AdaptiveNoise", "score_function", 3, InputError, "callable; got 3"),
        ("AdaptiveNoise", "score_function", lambda: [1.0], InputError, "of shape (n,) or (B, n); got list"),
        ("AdaptiveNoise", "score_function", lambda: TARGET, InputError, "got torch.int64 of shape"),
        ("AdaptiveNoise", "score_function", lambda: SCORES * NAN, InputError, "numbers or -inf, a number in each row"),
        ("AdaptiveNoise", "score_function", lambda: torch.full((3, 2), -INF), InputError, "a row of -inf"),
        ("AdaptiveNoise", "shape", 4, InputError, "of first side 3"),
        ("no sample", "sample", With(ids=TARGET), InputError, "there; got none. Call sample"),
        ("AdaptiveNoise.log_prob", "ids", torch.tensor([0]), InputError, "of shape (3, ...); got shape (1,)"),
        ("encode_in_chunks", "encoder", "encoder", InputError, "callable"),
        ("encode_in_chunks", "chunks", QUERIES, InputError, "several; got one tensor. Split it"),
        ("encode_in_chunks", "chunks", [], InputError, "at least one; got none"),
        ("encode_in_chunks", "returns", With(encoder=torch.nn.Flatten(0)), InputError, "of 2 dimension"),
        ("encode_in_chunks", "returns", With(encoder=lambda rows: rows[:, : len(rows)]), InputError, "of shape (*, 2)"),
        ("encode_in_chunks", "returns", With(encoder=lambda rows: rows.tolist()), InputError, "a tensor; got list"),
        *(("matryoshka", "dims", dims, InputError) for dims in ((0, 2), (2, 3), (), (2, 2))),
        ("matryoshka", "weights", With(dims=(1, 2), weights=(1,)), InputError, "2 numbers"),
        ("matryoshka", "weights", With(dims=(1, 2), weights=(0, 0)), InputError, "2 numbers, not all 0"),
        ("matryoshka", "weights", With(dims=(2,), weights=(-1,)), InputError),
        ("matryoshka", "vectors", With(vectors=(), dims=(2,)), InputError, "tensors"),
        ("matryoshka", "vectors", With(vectors=(QUERIES.tolist(),), dims=(2,)), InputError, "tensors"),
        ("matryoshka", "loss", With(loss=3, dims=(2,)), InputError, "callable"),
        ("SentenceRankingLoss", "sentence_features", [{"input_ids": IDS}], InputError, "two columns or more; got 1"),
        ("SentenceRankingLoss", "sentence_features", [{"input_ids": TARGET}] * 2, InputError, "the tokens of 3 texts"),
        ("SentenceRankingLoss", "sentence_features", [{"pixels": KEYS}] * 2, InputError, "'input_ids', the tokens of"),
        ("SentenceRankingLoss", "chunk_size", 0, InputError),
        (
            "SentenceRankingLoss",
            "chunk_size",
            FLAT,
            InputError,
            "left out for a model that takes no padded 'input_ids'",
        ),
        ("SentenceRankingLoss", "n_buckets", 0, InputError),
        ("SentenceRankingLoss", "gather", 1, InputError),
    ],
)


def test_errors_are_pickled():
    with pytest.raises(InputError) as told:
        nn.global_nce(SCORES, TARGET + 9)
    assert pickle.loads(pickle.dumps(told.value)).args == told.value.args


@pytest.mark.parametrize("name", TAKE_LOG_Q)
def test_logs_of_probabilities_may_be_rounded(name):
    for values in ([0.0, 0.0, 0.0], [-3.0, -1.0, 1e-7], [-1e3, -2e3, -3e3]):
        DOORS[name](**{TAKE_LOG_Q[name]: torch.tensor(values)})
    DOORS[name](**{TAKE_LOG_Q[name]: torch.tensor([-3.0, -1.0, 0.004]).to(torch.bfloat16)})


@pytest.mark.parametrize("name", [name for name in OF_PAIRS if name != "in_batch_scores"])
def test_products_that_are_too_large_are_told(name):
    with pytest.raises(NumericalError, match=f"{name}: a scalar product of queries and keys is too large. Normalise"):
        DOORS[name](queries=QUERIES * 1e30, keys=-KEYS * 1e30)
    assert DOORS[name](queries=QUERIES.half() * 2e4, keys=KEYS.half() * 2e4).isfinite()  # beyond float16, not float32


def test_cosines_may_be_rounded():
    one = torch.tensor([[1.0, -1.0]]).bfloat16() * 1.0078125
    assert nn.debiased_nce(one, torch.tensor([0])) > 0


def test_without_torch_the_room_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import nearfar as nf\n"
        "try:\n    nf.nn\nexcept nf.errors.MissingDependencyError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == str(MissingDependencyError("nearfar.nn", "torch", "torch")), done.stderr
    assert "pip install 'nearfar[torch]'" in done.stdout
