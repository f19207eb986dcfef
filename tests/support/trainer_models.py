"""Models in trainers of Lightning and of transformers, which take a while to import: used by test_trainers.py."""

import lightning.pytorch as lightning
import torch
import transformers

import nearfar as nf

V, D, K, R, STEPS = 40, 8, 6, 4, 40
BUDGET = V * D // 2


def successors(n=320, length=6):
    """Return sentences in which a word says the next one, (n, length)."""
    start = torch.randint(V, (n, 1), generator=torch.Generator().manual_seed(3))
    return (start + 3 * torch.arange(length)) % V


def table():
    return nf.nn.AnchorEmbedding(V, D, K, nnz_per_row=R, penalty=1e-4, sparse=False)


# -- Lightning --------------------------------------------------------------------------------------------------------


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.map = table(), torch.nn.Linear(D, D)
        self.head = nf.nn.TiedLogits(self.table, True)
        self.budget = nf.nn.ParameterBudget(self.table, n_steps=STEPS, n_parameters=BUDGET)
        self.losses: list[float] = []

    def training_step(self, words, _):
        scores = self.head(self.map(self.table(words[:, :-1])).tanh())
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
        self.losses.append(loss.item())
        return loss

    def on_train_batch_end(self, *_) -> None:
        self.budget.step()

    def on_save_checkpoint(self, checkpoint) -> None:
        checkpoint["budget"] = self.budget.state_dict()

    def on_load_checkpoint(self, checkpoint) -> None:
        self.budget.load_state_dict(checkpoint["budget"])

    def configure_optimizers(self):
        optimizer = nf.nn.ProxAdam(self.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def fitted(tmp_path, n_epochs, checkpoint=None, **options):
    torch.manual_seed(0)
    model = Module()
    trainer = lightning.Trainer(
        max_epochs=n_epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        **options,
    )
    rows = torch.utils.data.DataLoader(successors(), batch_size=32)
    trainer.fit(model, rows, ckpt_path=checkpoint)
    return model, trainer


# -- transformers -----------------------------------------------------------------------------------------------------


class Small(transformers.GPT2LMHeadModel):
    """As the guide has it."""

    def __init__(self, config) -> None:
        super().__init__(config)
        self.set_input_embeddings(table())
        self.set_output_embeddings(nf.nn.TiedLogits(self.get_input_embeddings()))


def small():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=V,
        n_embd=D,
        n_layer=1,
        n_head=2,
        n_positions=8,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    return Small(config)


class Budget(transformers.TrainerCallback):
    """As the guide has it."""

    def __init__(self, budget) -> None:
        self.budget = budget

    def on_step_end(self, args, state, control, **_) -> None:
        self.budget.step()

    def on_save(self, args, state, control, **_) -> None:
        torch.save(self.budget.state_dict(), f"{args.output_dir}/checkpoint-{state.global_step}/budget.pt")

    def on_train_begin(self, args, state, control, **_) -> None:
        if state.global_step:  # it goes on from a checkpoint
            self.budget.load_state_dict(torch.load(f"{args.output_dir}/checkpoint-{state.global_step}/budget.pt"))


def trained(model, folder, n_steps=STEPS, resume=None, **options):
    """Train by the Trainer, which clips, and return it."""
    optimizer = nf.nn.ProxAdam(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, STEPS)
    chosen = {"max_steps": n_steps, "per_device_train_batch_size": 16, "max_grad_norm": 1.0, "logging_steps": 5}
    chosen |= {"use_cpu": True, "report_to": [], "disable_tqdm": True, "save_strategy": "no", **options}
    args = transformers.TrainingArguments(str(folder), **chosen)
    rows = [{"input_ids": row, "labels": row} for row in successors(n=STEPS * 16)]
    trainer = transformers.Trainer(model, args, train_dataset=rows, optimizers=(optimizer, schedule))
    trainer.remove_callback(transformers.PrinterCallback)
    layer = model.get_input_embeddings()
    trainer.add_callback(Budget(nf.nn.ParameterBudget(layer, n_steps=STEPS, n_parameters=BUDGET)))
    trainer.train(resume_from_checkpoint=resume)
    return trainer
