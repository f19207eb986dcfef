"""Small models of torch that tests of several parts use."""

import torch


class Tied(torch.nn.Module):
    """A table, and a head that is tied to it."""

    def __init__(self, table, head):
        super().__init__()
        self.table, self.head = table, head(table)

    def forward(self, ids):
        """Return the scores of all objects after each."""
        return self.head(self.table(ids))
