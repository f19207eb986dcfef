"""The losses of vectors as they are written in the papers, on whole matrices: what the blocked ones are held to."""

import torch
from torch.nn.functional import logsigmoid


def ranking(queries, keys, log_q=None, ids=None, target=None, temperature=1.0):
    """A loss per query: of its key among all keys, which may be more; with ids, of its item; or of shares."""
    logits = queries @ keys.T / temperature - (0 if log_q is None else log_q)
    n, true = len(queries), torch.arange(len(queries))
    if target is not None:
        return -(target * logits.log_softmax(1)).sum(1)
    if ids is not None:
        same = ids[:n, None] == ids
        others = same.clone()
        others[true, true] = False
        own = ~others & same
        logits = torch.where(others, -torch.inf, logits + own * same.sum(1, keepdim=True).log())
    return -logits.log_softmax(1)[true, true]


def supervised(vectors, labels, log_q=None, temperature=1.0):
    """L_out of each vector by loops; None where its label comes once."""
    losses = []
    for i in range(len(vectors)):
        others = [j for j in range(len(vectors)) if j != i]
        logits = torch.stack([vectors[i] @ vectors[j] / temperature for j in others])
        logits = logits if log_q is None else logits - log_q[others]
        true = [k for k, j in enumerate(others) if labels[j] == labels[i]]
        losses.append(-logits.log_softmax(0)[true].mean() if true else None)
    return losses


def sigmoid(queries, keys, log_q=None, ids=None, temperature=0.1, bias=-10.0):
    """A loss per query: of each key by itself; other keys with the id of the true one are left out."""
    logits = queries @ keys.T / temperature + bias - (0 if log_q is None else log_q)
    n = len(queries)
    sign = -torch.ones_like(logits)
    sign[torch.arange(n), torch.arange(n)] = 1
    losses = -logsigmoid(sign * logits)
    if ids is not None:
        losses = losses * ((ids[:n, None] != ids) | (sign > 0))
    return losses.sum(1)
