"""The loss of sentence-transformers: by hand, with what stands in for a model, and in the trainer itself."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import normalize  # noqa: E402

import nearfar.nn as nn  # noqa: E402
from nearfar.contrastive.sentences import text_ids  # noqa: E402


class Model(torch.nn.Module):
    """The mean of the vectors of tokens, with dropout; writes into what it gets, as models do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.words = torch.nn.Embedding(50, 8, dtype=torch.float64)
        self.dropout = torch.nn.Dropout(0.3)

    def forward(self, features):
        mask = features["attention_mask"][:, :, None]
        features["sentence_embedding"] = (self.dropout(self.words(features["input_ids"])) * mask).sum(1) / mask.sum(1)
        return features


def column(*texts, left=False):
    """Tokens of texts, padded to the longest on either side."""
    longest = max(map(len, texts))
    pads = [[0] * (longest - len(text)) for text in texts]
    rows = [pad + text if left else text + pad for text, pad in zip(map(list, texts), pads, strict=True)]
    mask = [
        [0] * len(p) + [1] * len(t) if left else [1] * len(t) + [0] * len(p) for t, p in zip(texts, pads, strict=True)
    ]
    return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(mask)}


QUERIES = column((1, 2), (3,), (4, 5, 6), (7, 8))
ANSWERS = column((11, 12), (13, 14, 15), (11, 12), (16,))  # the first comes twice
WORSE = column((13, 14, 15), (17, 18), (19,), (20, 21, 22, 23))  # the answer of another among them


def test_it_is_the_ranking_loss_with_ids_and_frequencies_of_texts():
    model = Model().eval()
    loss = nn.SentenceRankingLoss(model, temperature=0.1)
    ids = torch.tensor([0, 1, 0, 2, 1, 3, 4, 5])
    counts = ids.bincount()[ids]
    loss.ranking.noise.observe(text_ids("test", ANSWERS, 4) % loss.ranking.noise.n)
    queries, keys, negatives = (normalize(model(dict(c))["sentence_embedding"]) for c in (QUERIES, ANSWERS, WORSE))
    model.train(), model.dropout.eval()
    value = loss([QUERIES, ANSWERS, WORSE], None)
    # What is estimated of a batch alone is how often each text comes in it, on average of the gaps between.
    log_q = loss.ranking.noise.log_prob(
        torch.cat([text_ids("test", c, 4) for c in (ANSWERS, WORSE)]) % loss.ranking.noise.n
    )
    expected = nn.in_batch_nce(queries, keys, negatives=negatives, ids=ids, log_q=log_q, temperature=0.1)
    torch.testing.assert_close(value, expected)
    assert log_q[counts == 2].min() > log_q[counts == 1].max()
    assert "sentence_embedding" not in QUERIES


def test_texts_are_told_by_their_tokens_wherever_the_padding_is():
    texts = ((1, 2), (2, 1), (1, 2, 3), (1,), (1, 1), (2, 1))
    right, left = (text_ids("test", column(*texts, left=left), 6) for left in (False, True))
    assert torch.equal(right, left)
    assert right[1] == right[5]
    assert len(set(right.tolist())) == 5
    flat = {
        "input_ids": torch.tensor([token for text in texts for token in text]),
        "offsets": torch.tensor([0, 2, 4, 7, 8, 10]),
    }
    of_bags = text_ids("test", flat, 6)
    assert of_bags[1] == of_bags[5]
    assert len(set(of_bags.tolist())) == 5
    many = text_ids("test", {"input_ids": torch.cartesian_prod(*[torch.arange(40)] * 3)}, 40**3)
    assert len(many.unique()) == 40**3
    assert (many % 2**10).bincount().max() < 2 * 40**3 / 2**10  # they spread over buckets


def test_frequencies_are_learned_in_training_alone():
    loss = nn.SentenceRankingLoss(Model(), n_buckets=64)
    loss.model.eval()
    loss([QUERIES, ANSWERS])
    assert loss.ranking.noise._code("_drawn") == 0
    loss.model.train()
    for _ in range(20):
        loss([QUERIES, ANSWERS])
    ids = text_ids("test", ANSWERS, 4) % 64
    torch.testing.assert_close(loss.ranking.noise.log_prob(ids).exp(), torch.tensor([0.5, 0.25] * 2), rtol=0.1, atol=0)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_chunks_have_the_gradient_of_the_whole(size):
    found = []
    for chunk_size in (None, size):
        loss = nn.SentenceRankingLoss(Model(), chunk_size=chunk_size)
        loss.model.dropout.eval()
        value = loss([QUERIES, ANSWERS, WORSE])
        value.backward()
        found.append((value.detach(), loss.model.words.weight.grad))
    torch.testing.assert_close(*found)


def test_the_gradient_reaches_the_model_and_is_right():
    model = Model().eval()
    loss = nn.SentenceRankingLoss(model)

    def of_words(weight):
        return torch.func.functional_call(loss, {"model.words.weight": weight}, ([QUERIES, ANSWERS, WORSE],))

    assert torch.autograd.gradcheck(of_words, model.words.weight, fast_mode=True)


@pytest.mark.slow  # a process that imports torch
def test_the_package_is_not_imported():
    code = "import sys, nearfar.nn; print('sentence_transformers' in sys.modules, 'lightning' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["False", "False"]


# -- the package itself


@pytest.fixture
def package(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # nothing here is fetched
    pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    return pytest.importorskip("sentence_transformers")


def made_model():
    """A model of the package with a tokenizer of its own, from nothing: of vectors of tokens."""
    from sentence_transformers import SentenceTransformer, models
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = {"[PAD]": 0, "[UNK]": 1, **{f"w{i}": i + 2 for i in range(60)}}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    return SentenceTransformer(modules=[models.StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages
@pytest.mark.usefixtures("one_torch_thread", "package")
def test_the_trainer_takes_it_in_place_of_its_own(tmp_path):
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    from datasets import Dataset

    pairs = [(f"w{i} w{i + 1}", f"w{(7 * i) % 30 + 30} w{i}") for i in range(20)] * 5
    data = Dataset.from_dict({"query": [q for q, _ in pairs], "answer": [a for _, a in pairs]})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=4, per_device_train_batch_size=10, learning_rate=0.1, report_to=[],
        logging_steps=10, save_strategy="no", use_cpu=True, seed=0,
    )  # fmt: skip
    model = made_model()
    loss = nn.SentenceRankingLoss(model)
    trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=loss)
    trainer.train()
    losses = [record["loss"] for record in trainer.state.log_history if "loss" in record]
    assert losses[-1] < 0.5 * losses[0]
    assert int(loss.ranking.noise._code("_drawn")) == 400
    assert trainer.evaluate(data)["eval_loss"] < losses[0]

    # Without the correction, and with no text twice, it is the loss of the package itself.
    features = [
        model.preprocess(texts) for texts in (["w1 w2", "w3", "w4 w5"], ["w6", "w7 w8", "w9"], ["w10", "w11", "w12"])
    ]
    model.eval()
    theirs = MultipleNegativesRankingLoss(model)([dict(part) for part in features], None)
    mine = nn.SentenceRankingLoss(model)([dict(part) for part in features], None)
    torch.testing.assert_close(mine, theirs)
    assert set(loss.get_config_dict()) == {"temperature", "chunk_size", "n_buckets", "gather"}
