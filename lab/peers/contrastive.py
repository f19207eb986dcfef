"""contrastive-ne, whose environment has PyTorch: a program of its own.

    PYTHON lab/peers/contrastive.py INPUT.npz OUTPUT.npz MODE S N_JOBS

The input holds ``rows`` and ``columns`` of a graph and a ``start``; the output the ``map`` and the ``seconds`` it took.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def optimize(
    python: str, graph: Any, start: NDArray[Any], mode: str, s: float | None, n_jobs: int
) -> tuple[NDArray[Any], float]:
    """Return map and seconds, measured in the other process after its imports."""
    entries = graph.tocoo()
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, rows=entries.row, columns=entries.col, start=start)
        command = [python, __file__, str(given), str(found), mode, "none" if s is None else str(s), str(n_jobs)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        with np.load(found) as file:
            return file["map"], float(file["seconds"])


def main() -> None:
    import torch
    from cne import CNE
    from scipy.sparse import csr_matrix

    source, target, mode, s, n_jobs = sys.argv[1:]
    torch.set_num_threads(int(n_jobs))
    with np.load(source) as file:
        start = file["start"]
        rows, columns = file["rows"], file["columns"]
    graph = csr_matrix((np.ones(len(rows)), (rows, columns)), (len(start), len(start)))
    more: dict[str, Any] = {} if s == "none" else {"s": float(s)}
    began = time.perf_counter()
    model = CNE(loss_mode=mode, negative_samples=5, seed=0, device="cpu", embd_dim=start.shape[1], **more)
    map_ = model.fit_transform(init=start.astype(np.float32), graph=graph)
    np.savez(target, map=map_, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main()
