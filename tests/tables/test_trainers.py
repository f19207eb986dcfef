"""AnchorEmbedding in the trainers of Lightning and transformers themselves: clipping, checkpoints, tying, a budget."""

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.usefixtures("one_torch_thread"),
    pytest.mark.filterwarnings("ignore"),  # of the two packages: loggers, workers, what they deprecate
]


@pytest.fixture
def models(monkeypatch):
    """Return the module of models."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # nothing here is fetched
    for name in ("lightning.pytorch", "transformers", "accelerate"):
        pytest.importorskip(name)
    import trainer_models

    return trainer_models


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"gradient_clip_val": 1.0}, marks=pytest.mark.slow),
        pytest.param({"gradient_clip_val": 0.5, "gradient_clip_algorithm": "value"}, marks=pytest.mark.slow),
    ],
)
def test_lightning_clips_and_the_budget_holds(models, tmp_path, options):
    model, _ = models.fitted(tmp_path, models.STEPS // 10, **options)
    assert len(model.losses) == models.STEPS
    assert sum(model.losses[-5:]) < 0.8 * sum(model.losses[:5])
    assert model.budget.done
    assert model.table.n_parameters <= models.BUDGET
    assert (model.table.values >= 0).all()


@pytest.mark.slow
def test_lightning_goes_on_from_a_checkpoint_to_the_same_bits(models, tmp_path):
    whole, _ = models.fitted(tmp_path, 4, gradient_clip_val=1.0)
    _, trainer = models.fitted(tmp_path, 2, gradient_clip_val=1.0)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    rest, _ = models.fitted(tmp_path, 4, checkpoint=tmp_path / "half.ckpt", gradient_clip_val=1.0)
    assert rest.losses == whole.losses[models.STEPS // 2 :]
    for name, part in whole.state_dict().items():
        assert torch.equal(part, rest.state_dict()[name]), name


@pytest.mark.parametrize("accumulate", [pytest.param(1, marks=pytest.mark.slow), 2])
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


@pytest.mark.slow
def test_transformers_goes_on_from_a_checkpoint_to_the_same_bits(models, tmp_path):
    whole = models.small()
    models.trained(whole, tmp_path, save_strategy="steps", save_steps=models.STEPS // 2)
    rest = models.small()
    models.trained(rest, tmp_path, resume=str(tmp_path / f"checkpoint-{models.STEPS // 2}"))
    for name, part in whole.state_dict().items():
        assert torch.equal(part, rest.state_dict()[name]), name


def test_a_resized_model_of_transformers_trains_on(models, tmp_path):
    model = models.small()
    models.trained(model, tmp_path, n_steps=3)
    model.get_input_embeddings().resize(models.V + 2)
    model.resize_token_embeddings(models.V + 2)
    assert model.config.vocab_size == models.V + 2
    models.trained(model, tmp_path, n_steps=3)
    assert model(models.successors(n=2)).logits.shape == (2, 6, models.V + 2)
