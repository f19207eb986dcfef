"""Choose parameters of a method by what its vectors are for: labels of nodes, or links of a graph.

scikit-learn's grid search splits the rows that a method is fitted to. A relation has no such rows: without its other
objects an object has no relations. So what is split here is what the vectors are asked for. The choice is made on one
part, and the score is told on another that took no part in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nearfar._core.checks import check_choice, check_integer, check_random_state, check_real
from nearfar._core.notebook import brief_fields
from nearfar._core.types import Doubles, Labels, Seed
from nearfar.errors import InputError
from nearfar.evaluate import graphs
from nearfar.evaluate.labels import labelled_rows
from nearfar.relations.matrix import as_relation

if TYPE_CHECKING:
    from nearfar.base import RelationLike
    from nearfar.datasets import Graph

_OWNER = "evaluate.select"
_FOLDS = 3
_MEASURES = {"labels": ("micro", "macro"), "links": ("auc", "ap")}

Setting = dict[str, object]


@dataclass(frozen=True, eq=False)
class Selection:
    """The parameters that did best, what they may be expected to score, and all that were tried.

    Parameters
    ----------
    best_params : dict
        The setting with the best mean over the repeats in ``table``; the first of equals.
    score : float
        What was chosen scored on parts that took no part in the choice: in each repeat a choice is made and tested;
        this is the mean of the tests.
    interval : (float, float), or None with one repeat
        Its 95 % interval, for other splits of these labels or edges.
    measure : str
        What was measured: ``"micro"``, ``"macro"``, ``"auc"`` or ``"ap"``.
    table : list of dict
        One for each setting, in the order of the grid: ``"params"``; ``"score"`` and ``"interval"`` in the parts that
        choose; ``"n_chosen"``, the number of repeats that chose it.
    estimator : object
        What the method found for the whole relation with ``best_params``: a fitted estimator, or what a callable
        returned.
    repeats : dict
        ``repeats["choice"]`` and ``repeats["test"]``: the scores of every setting in the parts that choose and that
        test, shape (n_repeats, n_settings).
    """

    best_params: Setting
    score: float
    interval: tuple[float, float] | None
    measure: str
    table: list[dict[str, object]]
    estimator: object = field(repr=False)
    repeats: dict[str, Doubles] = field(repr=False)
    __repr__ = brief_fields


def select(
    method: graphs.Method,
    grid: Mapping[str, Sequence[object]],
    relation: RelationLike | Graph,
    labels: Labels | None = None,
    *,
    measure: str | None = None,
    feature: str | None = None,
    held_out: float = 0.5,
    n_repeats: int = 5,
    random_state: Seed = None,
) -> Selection:
    """Try all settings of a grid, choose by labels or by hidden links, and tell the score of the choice elsewhere.

    Parameters
    ----------
    method : estimator or callable
        An estimator is cloned, gets the parameters and is fitted to the relation. A callable takes the relation and
        the parameters by name, and returns an Embedding, an array of shape (n, d), or a fitted estimator: for walks
        ``lambda graph, **params: nf.EDRep(**params).fit(graph.random_walk(3))``.
    grid : dict of str to sequence
        Values to try by the name of the parameter; all combinations are tried.
    relation : Relation, Graph, matrix, graph of networkx, igraph or PyTorch Geometric, or edges
        What the method is fitted to. To choose by links it must be the graph itself, not walks on it, as in
        :func:`link_prediction`.
    labels : mapping, pandas Series, array-like or sparse matrix, optional
        Labels of the rows, in the forms of :func:`node_classification`. Without labels, links are what counts.
    measure : {"micro", "macro", "auc", "ap"}, optional
        With labels ``"micro"`` (default) or ``"macro"`` F1, as in :func:`node_classification`; without, ``"auc"``
        (default) or ``"ap"``, as in :func:`link_prediction`.
    feature : {"hadamard", "l1", "l2", "average", "dot"}, optional
        What describes a pair; ``"hadamard"`` by default. Without labels only.
    held_out : float, in (0, 1), default=0.5
        With labels the share of the nodes with a label that test; without, the share of the edges that are hidden.
    n_repeats : int, default=5
        Number of splits. With labels the method is fitted once for each setting, else once for each setting and split.
    random_state : int, Generator, RandomState or None
        For the splits; the estimator has its own.

    Returns
    -------
    Selection

    Raises
    ------
    InputError
        A grid without settings, or with a name that is no parameter; a measure or feature that does not belong to
        labels or links; what :func:`node_classification` and :func:`link_prediction` refuse.

    Warns
    -----
    NearfarWarning
        Without labels, if the relation has directions, or fewer edges can be hidden than were asked for.

    Notes
    -----
    With labels, each repeat splits the labelled nodes at random. Three-fold cross-validation on the one part chooses;
    then a classifier trained on this part is tested on the other. The method sees the whole relation, and no label.

    Without labels, each repeat hides edges of the graph, as :func:`link_prediction` does. A third of them, and as many
    pairs without an edge, train a classifier, another third chooses, the last tests. The best setting for a graph with
    fewer edges need not be the best for the whole: hide fewer (``held_out``) where that matters.

    ``score`` belongs to the procedure, choice included. The best score in ``table`` is too high for that, and more so
    the more settings were tried. A difference within the intervals is no reason to prefer a setting.

    References
    ----------
    Cawley & Talbot (2010), On over-fitting in model selection and subsequent selection bias in performance evaluation,
    Journal of Machine Learning Research 11, section 5: the choice is part of what is tested.

    Examples
    --------
    >>> import nearfar as nf
    >>> graph = nf.datasets.dcsbm(200, 3, 15.0, alpha=4.5, random_state=0)
    >>> found = nf.evaluate.select(
    ...     nf.EDRep(8, random_state=0),
    ...     {"temperature": [0.5, 1]},
    ...     graph.relation.random_walk(3),
    ...     graph.labels,
    ...     n_repeats=2,
    ...     random_state=0,
    ... )
    >>> found.best_params["temperature"] in (0.5, 1), found.score > 0.7
    (True, True)
    >>> found.estimator.embedding_.shape
    (200, 8)
    """
    kind = "links" if labels is None else "labels"
    graphs.check_method(_OWNER, method)
    settings = _settings(grid)
    n_repeats = check_integer(_OWNER, "n_repeats", n_repeats, low=1)
    held_out = check_real(_OWNER, "held_out", held_out, 0, 1, open_low=True, open_high=True)
    measure = check_choice(_OWNER, "measure", measure or _MEASURES[kind][0], _MEASURES[kind])
    rng = check_random_state(_OWNER, random_state)
    from sklearn.base import clone

    methods: list[graphs.Method]
    if hasattr(method, "fit"):
        methods = [clone(method).set_params(**one) for one in settings]
    else:
        methods = [partial(method, **one) for one in settings]
    whole = as_relation(relation, _OWNER)
    scores = np.empty((len(methods), n_repeats, 2, 2))  # where it is chosen and tested, by the two measures
    if labels is not None:
        if feature is not None:
            raise InputError(_OWNER, "feature", "left out with labels", repr(feature), "It describes pairs.")
        rows, indicators = labelled_rows(_OWNER, labels, whole.shape[0], whole.row_ids)
        n_train = len(rows) - round(held_out * len(rows))
        if not _FOLDS <= n_train < len(rows):
            expected = f"such that at least {_FOLDS} rows with a label choose and one tests"
            raise InputError(_OWNER, "held_out", expected, f"{held_out} of {len(rows)} rows")
        orders = [rng.permutation(len(rows)) for _ in range(n_repeats)]
        for at, one in enumerate(methods):
            X = graphs.standardised(graphs.fitted_rows(_OWNER, one, whole)[0][rows])
            for repeat, order in enumerate(orders):
                folds = np.array_split(order[:n_train], _FOLDS)
                others = [np.concatenate(folds[:k] + folds[k + 1 :]) for k in range(_FOLDS)]
                by_fold = [graphs.score_split(X, indicators, *split) for split in zip(others, folds, strict=True)]
                scores[at, repeat, 0] = np.mean(by_fold, axis=0)
                scores[at, repeat, 1] = graphs.score_split(X, indicators, order[:n_train], order[n_train:])
    else:
        feature = check_choice(_OWNER, "feature", feature or "hadamard", graphs.FEATURES)
        graph = graphs.undirected(_OWNER, whole)
        n_hidden = graphs.number_hidden(_OWNER, graph, held_out, 3)
        for repeat in range(n_repeats):
            left, (train, *parts) = graphs.hide(graph, n_hidden, 3, rng)
            for at, one in enumerate(methods):
                vectors, log_base = graphs.fitted_rows(_OWNER, one, left)
                scores[at, repeat] = [graphs.score_pairs(vectors, train, part, feature, log_base) for part in parts]
    choice, test = scores[..., _MEASURES[kind].index(measure)].transpose(2, 1, 0)
    chosen = choice.argmax(axis=1)
    told = test[np.arange(n_repeats), chosen]
    best = int(choice.mean(axis=0).argmax())
    table: list[dict[str, object]] = [
        {
            "params": setting,
            "score": float(values.mean()),
            "interval": graphs.interval_of(values),
            "n_chosen": int((chosen == at).sum()),
        }
        for at, (setting, values) in enumerate(zip(settings, choice.T, strict=True))
    ]
    final = methods[best]
    return Selection(
        best_params=settings[best],
        score=float(told.mean()),
        interval=graphs.interval_of(told),
        measure=measure,
        table=table,
        estimator=final.fit(whole) if hasattr(final, "fit") else final(whole),
        repeats={"choice": choice, "test": test},
    )


def _settings(grid: object) -> list[Setting]:
    """Return all combinations of a grid, the last name varying fastest."""
    expected = "a dict of the values to try, a list for each parameter"
    if not isinstance(grid, Mapping) or not grid:
        raise InputError(_OWNER, "grid", expected, repr(grid))
    for name, values in grid.items():
        listed = not isinstance(values, (str, bytes)) and isinstance(values, (Sequence, np.ndarray))
        if not isinstance(name, str) or not listed or not len(values):
            raise InputError(_OWNER, "grid", expected, f"{name!r}: {values!r}")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
