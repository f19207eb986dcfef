"""Small tables by bytes: how each is made to fit, what is special in its training, and what a server would keep of it.

A table is trained as a module that turns ids into vectors. Afterwards it is *served*: as an array of vectors that come
out of the bytes that are counted, which are those of packed codes, scales, codebooks, anchors, weights and indices.
What a method draws at random (hash functions, a rotation) is a seed, and costs nothing. A new way to hold a table is a
pair of functions and a line in ``kinds``.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

import nearfar as nf
from lab.peers.small_tables import HashTable, LowRankTable

Setting = dict[str, Any]
Matrix = NDArray[np.float32]


class Served(NamedTuple):
    """Vectors (V, d) as a server has them, and the bytes that it keeps for them."""

    vectors: Tensor
    n_bytes: int


class Course:
    """What a method does while it trains; this one does nothing."""

    def __init__(self, tables: Sequence[Any], setting: Setting, n_bytes: int, n_steps: int) -> None:
        self.tables, self.setting, self.n_bytes, self.n_steps = tables, setting, n_bytes, n_steps
        self.n_done = 0

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """Return an optimiser of the tables, which starts anew."""
        of_bases = [p for table in self.tables for name, p in table.named_parameters() if name.endswith("basis")]
        known = {id(p) for p in of_bases}
        others = [p for table in self.tables for p in table.parameters() if id(p) not in known]
        groups = [{"params": others}, *([{"params": of_bases, "lr": lr / 10}] if of_bases else [])]
        return torch.optim.Adam(groups, lr=lr, fused=True)

    def price(self) -> Tensor | float:
        """Return what is added to the loss of a batch."""
        return 0.0

    def step(self) -> bool:
        """Tell whether the tables were changed, so that they need a new optimiser."""
        self.n_done += 1
        return False

    def validated(self, error: Callable[[], float], part: float) -> None:
        """Take what computes the error of an epoch, and which part of the training is over."""


class Descent:
    """The steps of a training: tables by the optimiser of their course, the rest by Adam; rates fall linearly."""

    def __init__(self, course: Course, lr: float, rest: Sequence[nn.Parameter], lr_of_rest: float) -> None:
        self.course, self.lr, self.lr_of_rest = course, lr, lr_of_rest
        self.optimizer = course.optimizer(lr)
        self.starts = [group["lr"] for group in self.optimizer.param_groups]
        self.rest = torch.optim.Adam(rest, lr=lr_of_rest, fused=True)
        self.n_done = 0

    def step(self, loss: Tensor) -> None:
        """Go a step down the loss of a batch and the price of the tables."""
        self.optimizer.zero_grad()
        self.rest.zero_grad()
        (loss + self.course.price()).backward()
        left = max(0.02, 1 - self.n_done / self.course.n_steps)
        for optimizer, starts in ((self.optimizer, self.starts), (self.rest, [self.lr_of_rest])):
            for group, start in zip(optimizer.param_groups, starts, strict=True):
                group["lr"] = start * left
            optimizer.step()
        self.n_done += 1
        if self.course.step():
            self.optimizer = self.course.optimizer(self.lr)


@dataclass(frozen=True)
class Kind:
    """A way to hold a table in so many bytes.

    Parameters
    ----------
    make : callable
        Makes tables from the counts of the objects of each, d, the bytes of all together and a setting; None if that is
        too few.
    served : callable
        Returns what is served of a trained table, given the bytes that it may have.
    settings : tuple of dict
        What is tried with the first seed; the best in the validation is trained with the others.
    course : type
        What is special in its training.
    trained : str
        Methods of the same word are served from one training, where size and setting of the table are the same.
    """

    make: Callable[[Sequence[Tensor], int, int, Setting], list[nn.Module] | None]
    served: Callable[[Any, int, Setting], Served]
    settings: tuple[Setting, ...] = ({},)
    course: type[Course] = Course
    trained: str = ""


def trained_of(kind: Kind, seed: int, setting: Setting, tables: Sequence[nn.Module]) -> tuple[Any, ...]:
    """Return what tells one training from another: how tables are rounded afterwards does not."""
    sizes = tuple(sum(p.numel() for p in table.parameters()) for table in tables)
    return kind.trained, seed, setting["rate"], setting["std"], setting.get("lengths"), sizes


def stored(embedding: nf.Embedding) -> Served:
    """Return what a file of an embedding brings back, and its bytes without the header."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.safetensors")
        embedding.save(path)
        header = int.from_bytes(path.read_bytes()[:8], "little")
        return Served(torch.from_numpy(nf.Embedding.load(path).vectors.copy()), path.stat().st_size - 8 - header)


def plain(n: int, d: int, std: float) -> nn.Embedding:
    table = nn.Embedding(n, d)
    nn.init.normal_(table.weight, std=std)
    return table


class Frequent(nn.Module):
    """Rows for the most frequent objects, and one, the last, for all others.

    Which row an object has costs nothing: objects are thought to be numbered by their frequency.
    """

    def __init__(self, table: Any, counts: Tensor) -> None:
        super().__init__()
        order = counts.argsort(descending=True, stable=True)
        self.table = table
        self.place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
        self.place.clamp_(max=table.num_embeddings - 1)

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.table(self.place[ids])
        return found

    @property
    def weight(self) -> Tensor:
        return self(torch.arange(len(self.place)))


class Beside(nn.Module):
    """Several tables beside each other, so that frequent objects have longer vectors of their own."""

    def __init__(self, parts: Sequence[Frequent]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, ids: Tensor) -> Tensor:
        return torch.cat([part(ids) for part in self.parts], dim=-1)


def served_of(table: nn.Module, keep: Callable[[Any], nf.Embedding]) -> Served:
    """Return what a file of the rows that ``keep`` makes of a table brings back, for all objects."""
    if isinstance(table, Beside):
        found = [served_of(part, keep) for part in table.parts]
        return Served(torch.cat([part.vectors for part in found], dim=1), sum(part.n_bytes for part in found))
    if not isinstance(table, Frequent):
        return stored(keep(table))
    vectors, n_bytes = stored(keep(table.table))
    return Served(vectors[table.place], n_bytes)


# ---------------------------------------------------------------- whole numbers, trained as such


def whole_numbers(counts: Sequence[Tensor], d: int, n_bytes: int, setting: Setting) -> list[nn.Module] | None:
    """Return tables of the longest vectors that fit, for all objects or for a part of them, the most frequent.

    With ``blocks``, pairs of a width and a share of the bytes, tables of these widths lie beside each other, each for
    the most frequent objects, as many as fit into its share.
    """
    if "blocks" in setting:
        return blocks_of_whole_numbers(counts, n_bytes, setting)
    bits, own = setting["bits"], setting.get("own", 1)
    sizes = [min(len(c), int(own * len(c)) + 1) for c in counts]
    for width in range(2 * d, 0, -1):
        if sum(sizes) * -(-width * bits // 8) + 4 * len(counts) * width <= n_bytes:
            options = {"bits": bits, "std": setting["std"]}
            tables = [nf.nn.QuantizedEmbedding(size, width, **options) for size in sizes]
            return [Frequent(table, c) for table, c in zip(tables, counts, strict=True)] if own < 1 else [*tables]
    return None


def blocks_of_whole_numbers(counts: Sequence[Tensor], n_bytes: int, setting: Setting) -> list[nn.Module] | None:
    bits, rows, tables = setting["bits"], sum(map(len, counts)), []
    for c in counts:
        room = n_bytes * len(c) / rows
        sizes = [int(share * room - 4 * width) // -(-width * bits // 8) for width, share in setting["blocks"]]
        if min(sizes) < 2:
            return None
        parts = [
            Frequent(nf.nn.QuantizedEmbedding(min(size, len(c)), width, bits=bits, std=setting["std"]), c)
            for size, (width, _) in zip(sizes, setting["blocks"], strict=True)
        ]
        tables.append(Beside(parts))
    return [*tables]


def whole_numbers_served(table: nn.Module, _n_bytes: int, _setting: Setting) -> Served:
    return served_of(table, lambda rows: rows.export())


# ---------------------------------------------------------------- anchors


def row_bits(setting: Setting) -> tuple[float, float, float]:
    """Return bits of an anchor's number, of an entry, and of a row, in a file."""
    k = setting["n_anchors"]
    index = (k - 1).bit_length()
    if setting["quantize"]:
        return 8, 4 + index, k.bit_length()
    return 32, 32 + 8, 8


def anchors_fit(counts: Sequence[Tensor], d: int, n_bytes: int, setting: Setting) -> int:
    """Return how many parameters fit into so many bytes; 0 if the anchors alone do not."""
    of_anchor, of_entry, of_row = row_bits(setting)
    k, rows = setting["n_anchors"], sum(len(c) for c in counts)
    left = 8 * n_bytes - len(counts) * k * (d * of_anchor + 64 * bool(setting["quantize"])) - rows * of_row - 64
    return int(left // of_entry) + len(counts) * k * d if left > 0 else 0


def mixtures(counts: Sequence[Tensor], d: int, n_bytes: int, setting: Setting) -> list[nn.Module] | None:
    k = setting["n_anchors"]
    n_parameters = anchors_fit(counts, d, n_bytes, setting)
    if n_parameters - len(counts) * k * d < sum(len(c) for c in counts) / 10:
        return None
    tables: list[nn.Module] = []
    for c in counts:
        slots = min(setting["slots"], k)
        table = nf.nn.AnchorEmbedding(len(c), d, k, nnz_per_row=slots, penalty=2e-6)
        with torch.no_grad():
            table.anchors.mul_(setting["anchor_std"])
            table.values.mul_(setting["row_std"])
        tables.append(table)
    for table in tables:
        table.n_most = n_parameters  # type: ignore[assignment]
    return tables


class Budgeted(Course):
    """The penalty is found by the budget; what is 0 then stays 0, and an optimiser starts anew."""

    def __init__(self, tables: Sequence[Any], setting: Setting, n_bytes: int, n_steps: int) -> None:
        super().__init__(tables, setting, n_bytes, n_steps)
        self.budget = nf.nn.ParameterBudget(tables, n_steps=n_steps, n_parameters=tables[0].n_most)

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        anchors = {"params": [t.anchors for t in self.tables], "lr": lr * self.setting["of_anchors"]}
        return nf.nn.ProxAdam([anchors, {"params": [t.values for t in self.tables]}], lr=lr)

    def price(self) -> Tensor | float:
        """Return the price of anchors: with long ones T could be small, and its price without effect."""
        found: Tensor = self.setting["l2_anchors"] * sum(t.anchors.square().sum() for t in self.tables)
        return found

    def step(self) -> bool:
        return self.budget.step()


class Growing(Budgeted):
    """The number of anchors is looked for until the budget begins to set prices: NBANT."""

    def __init__(self, tables: Sequence[Any], setting: Setting, n_bytes: int, n_steps: int) -> None:
        super().__init__(tables, setting, n_bytes, n_steps)
        price = (1 + tables[0].embedding_dim) * 2e-6
        self.nbant = nf.nn.NBANT(list(tables), anchor_price=price, initial=tables[0].n_anchors // 2)

    def validated(self, error: Callable[[], float], part: float) -> None:
        if part < 0.3:
            self.nbant.step(error())


def mixtures_served(table: nf.nn.AnchorEmbedding, _n_bytes: int, setting: Setting) -> Served:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)  # objects that no batch has met
        made = table.export()
    return stored(made.quantize(setting["quantize"]) if setting["quantize"] else made)


# ---------------------------------------------------------------- plain rows, and what rounds them afterwards


def rows_of(width: Callable[[int, Setting], int]) -> Callable[..., list[nn.Module] | None]:
    """Return what makes plain tables of as many components as fit, given the bytes for a row."""

    def make(counts: Sequence[Tensor], d: int, n_bytes: int, setting: Setting) -> list[nn.Module] | None:
        r = min(width(n_bytes // sum(len(c) for c in counts), setting), d)
        if r < 1:
            return None
        return [plain(len(c), r, setting["std"]) for c in counts]

    return make


def short_served(table: nn.Module, _n_bytes: int, setting: Setting) -> Served:
    def keep(rows: nn.Embedding) -> nf.Embedding:
        embedding = nf.Embedding(rows.weight.detach().numpy())
        return embedding.quantize(setting["quantize"]) if setting["quantize"] else embedding

    return served_of(table, keep)


def full_rows(counts: Sequence[Tensor], d: int, _n_bytes: int, setting: Setting) -> list[nn.Module]:
    return [plain(len(c), d, setting["std"]) for c in counts]


def clusters(X: Matrix, k: int, n_iter: int = 12, seed: int = 0) -> tuple[Matrix, NDArray[np.int64]]:
    """Return centroids (k, d) of rows by Lloyd's algorithm, and the nearest of each row."""
    rng = np.random.default_rng(seed)
    centres = X[rng.choice(len(X), k, replace=False)].copy()
    for _ in range(n_iter + 1):
        nearest = (np.square(centres).sum(1) - 2 * X @ centres.T).argmin(1)
        sizes = np.bincount(nearest, minlength=k)
        sums = np.stack([np.bincount(nearest, x, k) for x in X.T], axis=1)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres).astype(np.float32)
    return centres, (np.square(centres).sum(1) - 2 * X @ centres.T).argmin(1)


def product_served(table: nn.Embedding, n_bytes: int, _setting: Setting) -> Served:
    """Return product quantisation (Jégou et al. 2011), with the parts and bits that fit and err least."""
    X = np.ascontiguousarray(table.weight.detach().numpy())
    n, d = X.shape
    best: tuple[float, Matrix, int] | None = None
    for bits in (4, 6, 8):
        k = 2**bits
        fits = [m for m in range(1, d + 1) if d % m == 0 and n * -(-m * bits // 8) + 4 * k * d <= n_bytes]
        if not fits:
            continue
        parts = np.split(X, fits[-1], axis=1)
        found = np.concatenate([centres[of] for centres, of in (clusters(part, k) for part in parts)], axis=1)
        error = float(np.square(found - X).sum())
        if best is None or error < best[0]:
            best = error, found, n * -(-fits[-1] * bits // 8) + 4 * k * d
    if best is None:
        return Served(torch.zeros(n, d), 1 << 60)
    return Served(torch.from_numpy(best[1]), best[2])


def rabit_served(table: nn.Embedding, n_bytes: int, _setting: Setting) -> Served:
    """Return RaBitQ (Gao & Long 2024): signs after a random rotation into m dimensions, and a bfloat16 for each row.

    The row is the unbiased estimate: the signs times |x| / <o, s>, o being the rotated unit row, s its signs.
    """
    X = table.weight.detach()
    n, d = X.shape
    m = 8 * (n_bytes // n - 2)
    if m < d:
        return Served(torch.zeros(n, d), 1 << 60)
    rotation = torch.linalg.qr(torch.randn(m, d, generator=torch.Generator().manual_seed(0)))[0]
    turned = X @ rotation.T
    signs = torch.where(turned > 0, 1.0, -1.0)
    scale = turned.square().sum(1) / (turned * signs).sum(1).clamp_min(1e-20)
    return Served(scale.bfloat16().float()[:, None] * (signs @ rotation), n * (m // 8 + 2))


# ---------------------------------------------------------------- other tables that are trained small


def low_rank(counts: Sequence[Tensor], d: int, n_bytes: int, setting: Setting) -> list[nn.Module] | None:
    rank = min(n_bytes // 4 // (sum(len(c) for c in counts) + d * len(counts)), d)
    return [LowRankTable(len(c), d, rank, std=setting["std"]) for c in counts] if rank else None


def hashed(counts: Sequence[Tensor], d: int, n_bytes: int, setting: Setting) -> list[nn.Module] | None:
    rows, k = sum(len(c) for c in counts), setting["n_hashes"]
    left = n_bytes // 4 - rows * k
    sizes = [left * len(c) // rows // d for c in counts]
    if min(sizes) < 2:
        return None
    return [HashTable(len(c), d, size, n_hashes=k, std=setting["std"]) for c, size in zip(counts, sizes, strict=True)]


def frequent(counts: Sequence[Tensor], d: int, n_bytes: int, setting: Setting) -> list[nn.Module] | None:
    """Return rows for the most frequent objects and one for all others."""
    rows, r = sum(len(c) for c in counts), min(setting["components"], d)
    of_row = r // 2 + 2 if setting["quantize"] else 4 * r
    sizes = [n_bytes * len(c) // rows // of_row for c in counts]
    if min(sizes) < 2:
        return None
    return [Frequent(plain(min(size, len(c)), r, setting["std"]), c) for c, size in zip(counts, sizes, strict=True)]


def parameters_served(table: Any, _n_bytes: int, _setting: Setting) -> Served:
    return Served(table.weight.clone(), sum(p.nbytes for p in table.parameters()))


# ---------------------------------------------------------------- slimming


def entries(counts: Sequence[Tensor], d: int, _n_bytes: int, setting: Setting) -> list[nn.Module]:
    return [nf.nn.SelectionEmbedding(len(c), d, std=setting["std"]) for c in counts]


class Pruned(Course):
    """With a penalty for two fifths of the steps; then the smallest entries are taken out, and the rest goes on."""

    def __init__(self, tables: Sequence[Any], setting: Setting, n_bytes: int, n_steps: int) -> None:
        super().__init__(tables, setting, n_bytes, n_steps)
        self.at = int(0.4 * n_steps)

    def price(self) -> Tensor | float:
        if self.n_done >= self.at:
            return 0.0
        found: Tensor = self.setting["l1"] * sum(table.penalty() for table in self.tables)
        return found

    def step(self) -> bool:
        super().step()
        if self.n_done != self.at:
            return False
        d, rows = self.tables[0].embedding_dim, sum(t.num_embeddings for t in self.tables)
        index, count = (d - 1).bit_length(), d.bit_length()
        fixed = rows * count + len(self.tables) * (8 * d * d + 64 * d if self.setting["quantize"] else 0) + 64
        n_kept = int((8 * self.n_bytes - fixed) // ((4 if self.setting["quantize"] else 32) + index))
        scores = torch.cat([table.scores.flatten() for table in self.tables])
        if n_kept < len(scores):
            threshold = scores.topk(max(n_kept, 1) + 1).values[-1].item()
            for table in self.tables:
                table.prune(threshold)
        return True


def slim_served(table: nf.nn.SelectionEmbedding, _n_bytes: int, setting: Setting) -> Served:
    """Return rows without zeros: numbers, indices and counts; if rounded, in the file of mixtures of unit vectors."""
    weight = table.weight.numpy()
    d = weight.shape[1]
    if setting["quantize"]:
        return stored(nf.AnchoredEmbedding(csr_array(weight), np.eye(d, dtype=np.float32)).quantize("int4"))
    bits = np.count_nonzero(weight) * (32 + (d - 1).bit_length()) + len(weight) * d.bit_length()
    return Served(table.weight.clone(), -(-bits // 8))


# ---------------------------------------------------------------- clustered compositional embeddings


class Clustered(nn.Module):
    """CCE (Tsang & Ahle 2023): each part of a vector is a row that is looked up plus one that is hashed.

    At first both are hashed; ``cluster`` makes k groups of what was learned, looks rows up by group from then on, and
    starts the hashed ones anew at 0.
    """

    def __init__(self, n: int, d: int, parts: int, k: int, std: float) -> None:
        super().__init__()
        self.n, self.k, self.parts = n, k, parts
        each = std / math.sqrt(2)
        self.main = nn.Parameter(each * torch.randn(parts, k, d // parts))
        self.helper = nn.Parameter(each * torch.randn(parts, k, d // parts))
        self.pointers = torch.randint(k, (parts, n))
        self.hashes = torch.randint(k, (parts, n))
        self.learned = False

    def forward(self, ids: Tensor) -> Tensor:
        found = [self.main[j][self.pointers[j][ids]] + self.helper[j][self.hashes[j][ids]] for j in range(self.parts)]
        return torch.cat(found, dim=-1)

    @torch.no_grad()
    def cluster(self) -> None:
        rows = self(torch.arange(self.n)).chunk(self.parts, dim=1)
        for j, part in enumerate(rows):
            centres, nearest = clusters(part.numpy(), self.k, seed=j)
            self.main[j].copy_(torch.from_numpy(centres))
            self.pointers[j] = torch.from_numpy(nearest)
            self.hashes[j] = torch.randint(self.k, (self.n,))
            self.helper[j].zero_()
        self.learned = True

    @property
    def n_bytes(self) -> int:
        return self.n * -(-self.parts * (self.k - 1).bit_length() // 8) + 4 * (self.main.numel() + self.helper.numel())


def clustered(counts: Sequence[Tensor], d: int, n_bytes: int, setting: Setting) -> list[nn.Module] | None:
    """Return tables of as many parts as fit, each of k rows."""
    rows, k = sum(len(c) for c in counts), setting["k"]
    for parts in range(d, 0, -1):
        size = rows * -(-parts * (k - 1).bit_length() // 8) + len(counts) * 8 * k * d
        if d % parts == 0 and size <= n_bytes:
            return [Clustered(len(c), d, parts, k, setting["std"]) for c in counts]
    return None


class Reclustered(Course):
    """Two clusterings, after a quarter and half of the steps."""

    def step(self) -> bool:
        super().step()
        if self.n_done not in (self.n_steps // 4, self.n_steps // 2):
            return False
        for table in self.tables:
            table.cluster()
        return True


def clustered_served(table: Clustered, _n_bytes: int, _setting: Setting) -> Served:
    with torch.no_grad():
        return Served(table(torch.arange(table.n)).detach(), table.n_bytes)


# ---------------------------------------------------------------- all


def kinds(
    std: float, anchors: Setting, whole: Sequence[Setting], others: Sequence[Setting], selection: Sequence[Setting] = ()
) -> dict[str, Kind]:
    """Return the methods of a task; all have as many settings.

    Parameters
    ----------
    std : float
        Standard deviation that tables start with.
    anchors : dict
        Settings of anchors; of their numbers and rates all pairs are tried.
    whole : sequence of dict
        What is tried of whole numbers.
    others : sequence of dict
        What is tried of all others.
    selection : sequence of dict
        What is tried of rounded rows of frequent objects; 8 numbers and ``others`` if left out.
    """
    start = {"std": std}

    def tried(**setting: Any) -> tuple[Setting, ...]:
        return tuple({**start, **setting, **other} for other in others)

    def of_anchors(**more: Any) -> tuple[Setting, ...]:
        fixed = {name: value for name, value in anchors.items() if name not in {"numbers", "rates"}}
        pairs = ((k, rate) for k in anchors["numbers"] for rate in anchors["rates"])
        return tuple({**start, **fixed, "n_anchors": k, **more, "rate": rate} for k, rate in pairs)

    def grown(times: int, **more: Any) -> tuple[Setting, ...]:
        sizes = ((s, times * s["n_anchors"]) for s in of_anchors(**more))
        return tuple({**s, "n_anchors": k, "slots": k} for s, k in sizes)

    short = rows_of(lambda width, _: width // 4)
    return {
        "whole numbers": Kind(whole_numbers, whole_numbers_served, tuple({**start, **s} for s in whole)),
        "ANT": Kind(mixtures, mixtures_served, of_anchors(quantize=None), Budgeted),
        "ANT + int4": Kind(mixtures, mixtures_served, of_anchors(quantize="int4"), Budgeted),
        "NBANT": Kind(mixtures, mixtures_served, grown(1, quantize=None), Growing),
        "NBANT + int4": Kind(mixtures, mixtures_served, grown(2, quantize="int4"), Growing),
        "short rows": Kind(short, short_served, tried(quantize=None), trained="rows"),
        "int8 rows": Kind(rows_of(lambda w, _: w - 2), short_served, tried(quantize="int8"), trained="rows"),
        "int4 rows": Kind(rows_of(lambda w, _: 2 * w - 4), short_served, tried(quantize="int4"), trained="rows"),
        "low rank": Kind(low_rank, parameters_served, tried()),
        "hash": Kind(hashed, parameters_served, tried(n_hashes=1)),
        "frequency selection": Kind(frequent, short_served, tried(components=4, quantize=None)),
        "frequency selection + int4": Kind(
            frequent, short_served, tuple({**start, **s} for s in selection) or tried(components=8, quantize="int4")
        ),
        "product quantisation": Kind(full_rows, product_served, tried(), trained="rows"),
        "RaBitQ": Kind(full_rows, rabit_served, tried(), trained="rows"),
        "CCE": Kind(clustered, clustered_served, tried(k=64), Reclustered),
        "slimming": Kind(entries, slim_served, tried(l1=1e-6, quantize=None), Pruned),
        "slimming + int4": Kind(entries, slim_served, tried(l1=1e-6, quantize="int4"), Pruned),
    }
