"""Two towers in Lightning: in-batch negatives with log q, a learned temperature, and batches larger than memory.

Users choose items by popularity and by kind, as in docs/guide/retrieval.md. The towers are encoded in chunks, so that a
batch, and with it the number of negatives, is not bounded by what activations take. With several devices
(``strategy="ddp"``) the items of all are candidates.
"""

from __future__ import annotations

import lightning.pytorch as lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import nearfar as nf

N_USERS, N_ITEMS, N_KINDS, SEEN, HELD_OUT = 400, 300, 4, 20, 10


class Tower(torch.nn.Module):
    """Any module that returns vectors."""

    def __init__(self, n: int, n_components: int = 16) -> None:
        super().__init__()
        self.vectors = torch.nn.Embedding(n, n_components)
        torch.nn.init.normal_(self.vectors.weight, std=0.1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(self.vectors(ids))


class TwoTowers(lightning.LightningModule):
    """One tower of users, one of items, and the scale of their scores."""

    def __init__(self, chunk_size: int = 250) -> None:
        super().__init__()
        self.users, self.items = Tower(N_USERS), Tower(N_ITEMS)
        self.log_scale = torch.nn.Parameter(torch.tensor(5.0).log())
        self.ranking = nf.nn.InBatchNCE()  # with how often items come, counted in all processes; a checkpoint has it
        self.chunk_size = chunk_size

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        users, items = batch
        queries, keys = (
            nf.nn.encode_in_chunks(tower, ids.split(self.chunk_size))
            for tower, ids in ((self.users, users), (self.items, items))
        )
        loss = self.ranking(queries * self.log_scale.exp(), keys, ids=items)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        towers = [*self.users.parameters(), *self.items.parameters()]
        return torch.optim.Adam([{"params": towers, "lr": 0.03}, {"params": [self.log_scale], "lr": 0.01}])

    @torch.no_grad()
    def recall(self, seen: torch.Tensor, held_out: torch.Tensor, k: int = 10) -> float:
        """Return the share of held-out items among the first k of all that were not seen."""
        scores = self.users(torch.arange(N_USERS)) @ self.items(torch.arange(N_ITEMS)).T
        ranked = scores.scatter(1, seen, -torch.inf).topk(k).indices
        return (ranked[:, :, None] == held_out[:, None]).any(1).float().mean().item()


def choices(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what each user chose, (N_USERS, SEEN), and chose later."""
    generator = torch.Generator().manual_seed(seed)
    tastes, kinds = (torch.randint(N_KINDS, (n,), generator=generator) for n in (N_USERS, N_ITEMS))
    chances = torch.where(tastes[:, None] == kinds, 10.0, 1.0) / torch.arange(1.0, N_ITEMS + 1)
    chosen = torch.multinomial(chances, SEEN + HELD_OUT, generator=generator)
    chosen = chosen[:, torch.randperm(SEEN + HELD_OUT, generator=generator)]
    return chosen[:, :SEEN], chosen[:, SEEN:]


def main(max_epochs: int = 4) -> tuple[TwoTowers, float]:
    lightning.seed_everything(0, verbose=False)
    seen, held_out = choices()
    pairs = TensorDataset(torch.arange(N_USERS).repeat_interleave(SEEN), seen.flatten())
    # Processes need batches of one size: the last, smaller one is left out.
    data = DataLoader(pairs, batch_size=500, shuffle=True, drop_last=True)
    model = TwoTowers()
    trainer = lightning.Trainer(
        max_epochs=max_epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False
    )
    trainer.fit(model, data)
    return model, model.cpu().recall(seen, held_out)


if __name__ == "__main__":
    towers, found = main()
    print(f"recall at 10: {found:.3f}, temperature {(-towers.log_scale).exp().item():.3f}")
