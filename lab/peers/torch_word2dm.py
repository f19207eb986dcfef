"""Word2DM in PyTorch, batched, with sparse gradients: a program of its own, for an interpreter that has PyTorch.

    PYTHON lab/peers/torch_word2dm.py INPUT.npz OUTPUT.json OPTIMIZER RATE BATCH N_JOBS

The input holds ``inputs`` (pairs,) and ``outs`` (pairs, 1 + K), the true one first, and tables ``B`` and ``C`` of shape
(words, n, m). The output holds the ``seconds`` of one pass in batches, forward, backward and step, and its mean
``loss``, nats. The score is tr(A_t A_o), written as |C_oᵀ B_t|² or with the matrices formed, whichever is quicker
in the first batches.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def train(
    python: str,
    tables: tuple[NDArray[Any], NDArray[Any]],
    pairs: tuple[NDArray[Any], NDArray[Any]],
    optimizer: str,
    rate: float,
    batch: int,
    n_jobs: int,
) -> dict[str, Any]:
    """Return what the other process wrote; its seconds do not hold imports and reading."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.json"
        np.savez(given, B=tables[0], C=tables[1], inputs=pairs[0], outs=pairs[1])
        command = [python, __file__, str(given), str(found), optimizer, str(rate), str(batch), str(n_jobs)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        result: dict[str, Any] = json.loads(found.read_text())
        return result


def main() -> None:
    import torch

    source, target, name, rate, batch, n_jobs = sys.argv[1:]
    torch.set_num_threads(int(n_jobs))
    with np.load(source) as file:
        n, m = file["B"].shape[1:]
        inputs, outs = (torch.from_numpy(file[key].astype(np.int64)) for key in ("inputs", "outs"))
        tables = [
            torch.nn.Embedding.from_pretrained(
                torch.from_numpy(file[key].reshape(-1, n * m)), freeze=False, sparse=True
            )
            for key in ("B", "C")
        ]
    weights = [table.weight for table in tables]
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.SparseAdam}
    optimizer = kinds[name](weights, lr=float(rate))
    signs = torch.ones(outs.shape[1])
    signs[1:] = -1

    def step(first: int, formed: bool) -> float:
        t, o = inputs[first : first + int(batch)], outs[first : first + int(batch)]
        B, C = tables[0](t).view(-1, n, m), tables[1](o).view(len(t), -1, n, m)
        if formed:
            around, out = B @ B.transpose(1, 2), C @ C.transpose(2, 3)
            scores = (around[:, None] * out).sum((2, 3))
        else:  # all columns of the outs side by side, so that it is one product for each pair
            product = C.permute(0, 1, 3, 2).reshape(len(t), -1, n) @ B
            scores = product.square().view(len(t), o.shape[1], -1).sum(2)
        losses = torch.nn.functional.softplus(-signs * scores)
        losses[:, 1:] = losses[:, 1:] * (o[:, 1:] != o[:, :1])
        loss = losses.sum()
        optimizer.zero_grad()
        (loss / len(t) if name == "adam" else loss).backward()
        optimizer.step()
        return float(loss.detach())

    def timed(formed: bool) -> float:
        start = time.perf_counter()
        step(0, formed)
        return time.perf_counter() - start

    formed = min((min(timed(way) for _ in range(4)), way) for way in (False, True))[1]
    start = time.perf_counter()
    total = sum(step(first, formed) for first in range(0, len(inputs), int(batch)))
    seconds = time.perf_counter() - start
    counted = len(inputs) + int((outs[:, 1:] != outs[:, :1]).sum())
    result = {"seconds": seconds, "loss": total / counted, "formed": formed, "torch": torch.__version__}
    Path(target).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
