"""Code of a user, with twenty-one mistakes: type checkers find them (`make check`), and nothing else.

Each mistake stands on a line of its own that is told to be ignored, beside the line as it should be: to ignore what
was not found is an error. Nothing here is run.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

import nearfar as nf
from nearfar.contracts import Floats

Rows = NDArray[np.float64]


class OwnKernel:
    def weight(self, f: Floats) -> Floats:
        return np.asarray(np.exp(-f))

    def slope(self, f: Floats) -> Floats:
        return np.asarray(-np.exp(-f))


class HalfAKernel:
    def weight(self, f: Floats) -> Floats:
        return np.asarray(np.exp(-f))


def says_when_to_stop(progress: nf.callbacks.Progress) -> bool:
    return progress.loss < 0.1


def takes_nothing() -> bool:
    return True


def draws_maps(X: Rows) -> Rows:
    nf.TSNE(perplexty=3)  # type: ignore[call-arg]
    nf.TSNE(perplexity=3, dof=0.8, metric="cosine", random_state=0)
    nf.TSNE(kernel="student-t")  # type: ignore[call-arg]
    nf.SSNE().kernel.weight(X)
    nf.UMAP(min_dst=0.3)  # type: ignore[call-arg]
    nf.UMAP(min_dist=0.3, n_neighbors=10)
    nf.NeighborEmbedding(divergence="kullback")  # type: ignore[arg-type]
    nf.NeighborEmbedding(divergence="jensen-shannon", kernel=nf.kernels.Exponential(), normalization="row")
    nf.NeighborEmbedding(kernel=HalfAKernel())  # type: ignore[arg-type]
    nf.NeighborEmbedding(kernel=OwnKernel(), divergence=nf.divergences.NeRV(0.2), far=nf.far.ExactField())
    nf.TSNE(init="components")  # type: ignore[arg-type]
    nf.TSNE(init=X[:, :2]).fit(X.tolist())
    nf.SSNE(callbacks=[takes_nothing])  # type: ignore[list-item]
    nf.SSNE(callbacks=[says_when_to_stop, nf.callbacks.Checkpoint("run.safetensors"), lambda progress: None])
    nf.InhomogeneousTSNE(learn="all")  # type: ignore[arg-type]
    nf.InhomogeneousTSNE(learn="global").fit(X).degrees_of_freedom_.mean()
    nf.TSNE().fit("rows.csv")  # type: ignore[arg-type]
    nf.TSNE().fit(nf.Affinities(30).fit(X))
    found = nf.TSNE().fit(X).embedding  # type: ignore[attr-defined]
    found = nf.TSNE().fit(X).embedding_
    return np.asarray(found, np.float64)


def learns_vectors(relation: nf.Relation, texts: Sequence[Sequence[str]]) -> nf.Embedding:
    nf.EDRep(n_components=16, schedule="slow")  # type: ignore[arg-type]
    nf.EDRep(n_components=16, schedule="cosine", far=nf.far.GaussianMixture(), init=np.ones((9, 16)))
    nf.EDRep().fit(relation.random_wlak(3))  # type: ignore[attr-defined]
    nf.EDRep().fit(relation.random_walk(3), resume="run.safetensors").transform(relation.normalized())
    nf.SkipGram(windw=3)  # type: ignore[call-arg]
    nf.SkipGram(window=3, n_epochs=2).fit(texts)
    nf.Word2DM(n_components="ten")  # type: ignore[arg-type]
    nf.Word2DM(n_components=10).fit(texts)
    return nf.EDRep(random_state=np.random.default_rng(0)).fit(relation).vectors_


def learns_tables(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    nf.nn.AnchorEmbedding("1000", 64, 100)  # type: ignore[arg-type]
    nf.nn.AnchorEmbedding(1000, 64, 100)
    nf.nn.global_nce(scores, target, reducton="sum")  # type: ignore[call-arg]
    return nf.nn.global_nce(scores, target, reduction="sum")


def uses_vectors(vectors: nf.Embedding, index: nf.index.EmbeddingIndex, relation: nf.Relation) -> list[float]:
    vectors.most_simlar("a", topn=3)  # type: ignore[attr-defined]
    scores = [score for _, score in vectors.most_similar("a", topn=3)]
    total: int = relation.row_sums  # type: ignore[assignment]
    total = int(relation.row_sums.sum())
    index.search("a", tpon=3)  # type: ignore[call-arg]
    index.search("a", topn=3)
    nf.evaluate.link_prediction(relation)  # type: ignore[call-arg]
    nf.evaluate.link_prediction(relation, nf.EDRep(16))
    nf.Vocabularies(["a"], [1])  # type: ignore[attr-defined]
    return [score / total for score in scores]
