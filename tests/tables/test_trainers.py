"""AnchorEmbedding in the trainer of transformers itself: clipping, tying, a budget, more words."""

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.slow,  # to import the package alone takes two seconds of three
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore"),  # of the package: loggers, workers, what they deprecate
]


@pytest.fixture
def models(monkeypatch):
    """Return the module of models."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # nothing here is fetched
    for name in ("transformers", "accelerate"):
        pytest.importorskip(name)
    import trainer_models

    return trainer_models


@pytest.mark.parametrize("accumulate", [1, 2])
def test_transformers_trains_saves_and_loads(models, tmp_path, accumulate):
    model = models.small()
    trainer = models.trained(model, tmp_path, gradient_accumulation_steps=accumulate)
    losses = [record["loss"] for record in trainer.state.log_history if "loss" in record]
    assert losses[-1] < 0.8 * losses[0]
    assert all(record["grad_norm"] < float("inf") for record in trainer.state.log_history if "loss" in record)
    made = model.get_input_embeddings()
    assert (made.values >= 0).all()
    assert made.n_parameters <= models.BUDGET
    model.save_pretrained(tmp_path / "model")
    again = models.Small.from_pretrained(tmp_path / "model")
    assert again.get_output_embeddings().__dict__["table"] is again.get_input_embeddings()
    model.eval(), again.eval()
    ids = models.successors(n=3)
    assert torch.equal(again(ids).logits, model(ids).logits)
    assert again.generate(ids[:1, :2], max_length=6, do_sample=False, pad_token_id=0).shape == (1, 6)
    assert made.export().shape == (models.V, models.D)


def test_a_resized_model_of_transformers_trains_on(models, tmp_path):
    model = models.small()
    models.trained(model, tmp_path, n_steps=3)
    model.get_input_embeddings().resize(models.V + 2)
    model.resize_token_embeddings(models.V + 2)
    assert model.config.vocab_size == models.V + 2
    models.trained(model, tmp_path, n_steps=3)
    assert model(models.successors(n=2)).logits.shape == (2, 6, models.V + 2)
