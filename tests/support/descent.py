"""A step of training."""


def descend(optimizer, loss):
    """Step down one loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
