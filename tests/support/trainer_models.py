"""A model in the trainer of transformers, which takes a while to import: used by test_trainers.py."""

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
