"""Critics: modules that score all pairs of a batch, ``critic(x, y)[i, j] = f(x_i, y_j)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nearfar._checks import check_integer
from nearfar.errors import InputError


class SeparableCritic(nn.Module):
    """Scores f(x, y) = g(x) · h(y): two networks and a dot product, so a batch of N takes 2 N passes.

    Parameters
    ----------
    x_dim, y_dim : int
        Columns of x and of y.
    n_components : int, default=32
        Columns of g(x) and h(y).
    hidden : sequence of int, default=(256, 256)
        Widths of the hidden layers of either network, with ReLU after each; none makes it linear.

    Raises
    ------
    InputError
        If a number is no integer of at least 1.

    References
    ----------
    Poole et al. (2019), "On variational bounds of mutual information", section 3.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> critic = nf.nn.SeparableCritic(5, 3)
    >>> critic(torch.zeros(4, 5), torch.zeros(4, 3)).shape
    torch.Size([4, 4])
    """

    def __init__(self, x_dim: int, y_dim: int, n_components: int = 32, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        owner = "SeparableCritic"
        out = check_integer(owner, "n_components", n_components, low=1)
        widths = _check_widths(owner, hidden)
        self.of_x = perceptron(check_integer(owner, "x_dim", x_dim, low=1), widths, out)
        self.of_y = perceptron(check_integer(owner, "y_dim", y_dim, low=1), widths, out)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of all pairs.

        Parameters
        ----------
        x : Tensor of shape (N, x_dim)
            A batch of x.
        y : Tensor of shape (M, y_dim)
            A batch of y.

        Returns
        -------
        Tensor of shape (N, M)
        """
        g, h = self.of_x(x), self.of_y(y)
        scores: Tensor = g @ h.T
        return scores


class JointCritic(nn.Module):
    """Scores f(x, y) by one network of x and y side by side (the "concatenated" critic): N² passes for a batch of N.

    More than a separable critic of the same width can say, for more time. Memory: ``N² hidden`` numbers per layer.

    Parameters
    ----------
    x_dim, y_dim : int
        Columns of x and of y.
    hidden : sequence of int, default=(256, 256)
        Widths of the hidden layers, at least one, with ReLU after each.

    Raises
    ------
    InputError
        If a number is no integer of at least 1, or there is no hidden layer.

    References
    ----------
    Poole et al. (2019), "On variational bounds of mutual information", section 3.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> critic = nf.nn.JointCritic(5, 3)
    >>> critic(torch.zeros(4, 5), torch.zeros(4, 3)).shape
    torch.Size([4, 4])
    """

    def __init__(self, x_dim: int, y_dim: int, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        owner = "JointCritic"
        widths = _check_widths(owner, hidden)
        if not widths:
            hint = "Without one f is a sum of a function of x and one of y, and knows nothing of the pair."
            raise InputError(owner, "hidden", "of at least one layer", hidden, hint)
        # The first layer of (x, y) is a sum of one of x and one of y: it is applied to 2 N rows, not to N².
        self.of_x = nn.Linear(check_integer(owner, "x_dim", x_dim, low=1), widths[0])
        self.of_y = nn.Linear(check_integer(owner, "y_dim", y_dim, low=1), widths[0], bias=False)
        self.of_both = nn.Sequential(nn.ReLU(), perceptron(widths[0], widths[1:], 1))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of all pairs.

        Parameters
        ----------
        x : Tensor of shape (N, x_dim)
            A batch of x.
        y : Tensor of shape (M, y_dim)
            A batch of y.

        Returns
        -------
        Tensor of shape (N, M)
        """
        scores: Tensor = self.of_both(self.of_x(x)[:, None] + self.of_y(y))
        return scores.squeeze(-1)


class BilinearCritic(nn.Module):
    """Scores f(x, y) = xᵀ W y: for vectors that are themselves made by networks, or to see what is linear.

    Parameters
    ----------
    x_dim, y_dim : int
        Columns of x and of y.

    Raises
    ------
    InputError
        If a number is no integer of at least 1.

    References
    ----------
    van den Oord, Li & Vinyals (2018), "Representation learning with contrastive predictive coding", section 2.2.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> critic = nf.nn.BilinearCritic(5, 3)
    >>> critic(torch.zeros(4, 5), torch.zeros(4, 3)).shape
    torch.Size([4, 4])
    """

    def __init__(self, x_dim: int, y_dim: int) -> None:
        super().__init__()
        rows = check_integer("BilinearCritic", "x_dim", x_dim, low=1)
        self.weight = nn.Linear(check_integer("BilinearCritic", "y_dim", y_dim, low=1), rows, bias=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of all pairs.

        Parameters
        ----------
        x : Tensor of shape (N, x_dim)
            A batch of x.
        y : Tensor of shape (M, y_dim)
            A batch of y.

        Returns
        -------
        Tensor of shape (N, M)
        """
        scores: Tensor = x @ self.weight(y).T
        return scores


CRITICS: dict[str, Any] = {"separable": SeparableCritic, "joint": JointCritic, "bilinear": BilinearCritic}


class Columns(nn.Module):
    """Rows of any shape as flat columns of mean 0 and standard deviation 1, as they are in the rows it is made of.

    Mutual information does not change by it, and what a network makes of the unit of a column is no matter any more.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, rows: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        flat = rows.reshape(len(rows), -1).to(dtype)
        varies = flat.amax(dim=0) > flat.amin(dim=0)
        self.register_buffer("mean", flat.mean(dim=0))
        self.register_buffer("scale", torch.where(varies, flat.std(dim=0), 1.0))

    def forward(self, rows: Tensor) -> Tensor:
        """Return (N, columns)."""
        return (rows.reshape(len(rows), -1).to(self.mean.dtype) - self.mean) / self.scale


class OnColumns(nn.Module):
    """A critic of flat, centred and scaled columns."""

    def __init__(self, critic: nn.Module, x: Columns, y: Columns) -> None:
        super().__init__()
        self.critic, self.x, self.y = critic, x, y

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of all pairs, (N, M)."""
        scores: Tensor = self.critic(self.x(x), self.y(y))
        return scores


class Baseline(nn.Module):
    """A number for each x: what a bound needs as log a(x), learned with the critic."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.network = nn.Sequential(columns, perceptron(columns.mean.numel(), (256, 256), 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return (N,)."""
        values: Tensor = self.network(x)
        return values.squeeze(-1)


def named_critic(name: str, x: Columns, y: Columns) -> OnColumns:
    """Return the critic of this name for such columns."""
    return OnColumns(CRITICS[name](x.mean.numel(), y.mean.numel()), x, y)


def perceptron(n_in: int, widths: Sequence[int], n_out: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(n_in, width), nn.ReLU()]
        n_in = width
    return nn.Sequential(*layers, nn.Linear(n_in, n_out))


def _check_widths(owner: str, hidden: Any) -> tuple[int, ...]:
    if not isinstance(hidden, Sequence) or isinstance(hidden, str):
        raise InputError(owner, "hidden", "a sequence of integers", hidden)
    return tuple(check_integer(owner, "hidden", width, low=1) for width in hidden)
