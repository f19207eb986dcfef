"""What an embedding finds: what is near, what does not belong, tracks of nodes, and items for users."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.by_id import goes_by_index, index_of
from nearfar._core.checks import (
    check_choice,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_numbers,
    check_real,
    from_tensor,
)
from nearfar._core.ids import Ids
from nearfar._core.parts import RowsInParts
from nearfar._core.types import Floats, RowNumbers, Series
from nearfar._core.warn import warn_user
from nearfar.embedding.labelled import Labelled, as_list
from nearfar.engines.registry import on_a_cluster, on_cluster
from nearfar.errors import InputError, UnknownIdError
from nearfar.search.products import LeftOut, best_rows, nearest_rows, row_norms, unit_rows

Item = Hashable | Floats
"""An id, or a vector: an array of floats."""
Items = Item | Sequence[Item]
Queries = Floats | Sequence[Floats] | Sequence[Sequence[float]] | Iterable[Hashable]
"""Vectors, or ids."""
Found = list[tuple[Hashable, float]]
"""Ids and their scores, best first."""
Answers = tuple[NDArray[np.int64] | NDArray[np.object_], NDArray[np.float64]]
"""Ids of many queries and their scores, shape (q, topn) each; None, or -1 for integers, and -inf behind the last."""
Metric = Literal["cosine", "dot"]


@runtime_checkable
class Seen(Protocol):
    """What says what a user has seen: a :class:`nearfar.Relation` of users and items."""

    @property
    def row_ids(self) -> Ids:
        """The users."""

    @property
    def column_ids(self) -> Ids:
        """The items."""

    @property
    def operator(self) -> Entries:
        """Which items each user has."""


class Entries(Protocol):
    """Stored entries of a matrix."""

    def columns_of(self, rows: RowNumbers) -> tuple[NDArray[np.integer], RowNumbers]:
        """Return the columns of the entries of some rows, one row after the other, and how many each row has."""


class Question(NamedTuple):
    """Queries, as a search takes them: vectors, and rows that are left out of each answer, those asked for included.

    ``unmet`` is one of the ids to leave out if none of them is here.
    """

    vectors: Floats
    left_out: LeftOut
    unmet: Hashable = None


class Near(Labelled):
    """Ids and rows in which something can be found."""

    def similarity(self, a: Item, b: Item) -> float:
        """Return the cosine of the angle between two items.

        Parameters
        ----------
        a, b : id, or ndarray of floats of shape (d,)

        Returns
        -------
        float
            In [-1, 1]; 0 if one of the vectors is zero.

        Raises
        ------
        UnknownIdError
            If an id is not there.

        Examples
        --------
        >>> import nearfar as nf
        >>> nf.Embedding([[1, 0], [1, 1]], ids=["a", "b"]).similarity("a", "b").__round__(4)
        0.7071
        """
        pair = [self._vector(f"{type(self).__name__}.similarity", name, item) for name, item in (("a", a), ("b", b))]
        left, right = unit_rows(np.stack(pair))
        return float(np.clip(left @ right, -1.0, 1.0))

    def most_similar(
        self,
        positive: Items | None = None,
        negative: Items | None = None,
        topn: int = 10,
        *,
        restrict_vocab: int | None = None,
    ) -> Found:
        """Return the ids nearest in cosine to the mean of some items, less that of others.

        Parameters
        ----------
        positive, negative : id, vector, or list of ids and vectors, optional
            Each counts with its direction only: the query is the sum of the positive unit vectors less the negative
            ones (as in gensim, which however takes a vector that is no id at its full length). A vector is a NumPy
            array of floats, shape (d,); an array of shape (k, d) is k of them; a tuple is one id.
        topn : int
            How many to return at most.
        restrict_vocab : int, optional
            Look among the first so many ids alone, of words the most frequent ones.

        Returns
        -------
        list of (id, float)
            Best first; ties in the order of the rows. The ids of the query are left out. O(n d) time.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If there is neither a positive nor a negative item, or a vector has another length.

        Source: Mikolov, Yih & Zweig 2013, "Linguistic regularities in continuous space word representations", section
        4.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[1, 0], [1, 1], [0, 1], [-1, 1]], ids=["e", "ne", "n", "nw"])
        >>> emb.most_similar(positive=["ne", "nw"], negative="e", topn=1)[0][0]
        'n'
        """
        owner = f"{type(self).__name__}.most_similar"
        topn = check_integer(owner, "topn", topn, low=1)
        plus, minus = self._items(owner, "positive", positive), self._items(owner, "negative", negative)
        if not plus and not minus:
            raise InputError(owner, "positive", "at least one id or vector", "none")
        vectors = [self._vector(owner, "positive", item) for item in plus]
        vectors += [self._vector(owner, "negative", item) for item in minus]
        signs = np.repeat([1.0, -1.0], [len(plus), len(minus)])
        query = unit_rows((signs @ unit_rows(np.stack(vectors)))[None, :])
        asked = {self._ids.get(item) for item in plus + minus if not _is_vector(item)} - {-1}  # of words made of parts
        n = len(self)
        if restrict_vocab is not None:
            n = min(n, check_integer(owner, "restrict_vocab", restrict_vocab, low=1))
        among = self if n == len(self) else self._like(self._taken(np.arange(n)), self._ids.take(np.arange(n)))
        k = min(topn + len(asked), n)
        if not k:
            return []
        rows, scores = nearest_rows(query, among._vectors, k, norms=among._row_norms())
        kept = ~np.isin(rows[0], sorted(asked))
        return self._named(rows[0][kept][:topn], scores[0][kept][:topn])

    def rank(self, a: Item, b: Hashable) -> int:
        """Return which place an id has among the ids that are nearest to an item: 1 is the nearest.

        Parameters
        ----------
        a : id, or ndarray of floats of shape (d,)
            Itself it is no neighbour.
        b : id

        Returns
        -------
        int
            One more than there are ids with a higher cosine.

        Raises
        ------
        UnknownIdError
            If an id is not there.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[1, 0], [3, 1], [0, 2]], ids=["ann", "bob", "cem"])
        >>> emb.rank("ann", "bob"), emb.rank("ann", "cem")
        (1, 2)
        """
        owner = f"{type(self).__name__}.rank"
        query, row = self._vector(owner, "a", a), self._row(owner, b)
        (found,), (scores,) = nearest_rows(unit_rows(query[None]), self._vectors, len(self), norms=self._row_norms())
        score = scores[np.flatnonzero(found == row)[0]]
        closer = found[scores > score]
        own = -1 if _is_vector(from_tensor(a)) else self._ids.get(a)
        return int((closer != own).sum()) + 1

    def track(self, node: Hashable) -> tuple[list[Hashable], Floats]:
        """Return the trajectory of a node of which there are several vectors: its times, and its vector at each.

        Parameters
        ----------
        node : hashable
            The first part of ids that are pairs (node, time), such as those of
            :meth:`nearfar.Relation.from_contacts`.

        Returns
        -------
        times : list
            The second parts, ascending.
        vectors : ndarray of shape (number of times, d)
            In this order.

        Raises
        ------
        UnknownIdError
            If no id is a pair that begins with the node.
        InputError
            If no id is a pair, or its times have no order.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[0, 1], [1, 0], [1, 1]], ids=[("ann", 20), ("bob", 20), ("ann", 0)])
        >>> times, vectors = emb.track("ann")
        >>> times, vectors.tolist()
        ([0, 20], [[1.0, 1.0], [0.0, 1.0]])
        """
        owner = f"{type(self).__name__}.track"
        pairs = [(row, key) for row, key in enumerate(self._ids) if type(key) is tuple and len(key) == 2]
        if not pairs:
            got = f"ids such as {self._ids[0]!r}" if len(self) else "no ids"
            raise InputError(owner, "embedding", "of ids that are pairs (node, time)", got)
        rows = {key[1]: row for row, key in pairs if key[0] == node}
        if not rows:
            raise UnknownIdError(owner, [node], "It takes the first part of ids that are pairs of a node and a time.")
        try:
            times = sorted(rows)
        except TypeError:
            got = f"{', '.join(map(repr, list(rows)[:3]))} of {node!r}"
            raise InputError(owner, "embedding", "of times that have an order", got) from None
        return times, np.asarray(self._vectors[np.array([rows[at] for at in times])])

    def doesnt_match(self, ids: Iterable[Hashable]) -> Hashable:
        """Return the id that is least similar to the mean of all: which one does not belong to the others.

        Parameters
        ----------
        ids : iterable of at least three distinct ids

        Returns
        -------
        id
            The one with the smallest cosine with the sum of the unit vectors; the first of several.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If there are fewer than three.

        Notes
        -----
        Source: the method of the same name of gensim's ``KeyedVectors``.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[3, 1], [2, 1], [1, 4], [4, 1]], ids=["tea", "milk", "ship", "rum"])
        >>> emb.doesnt_match(["tea", "ship", "rum"])
        'ship'
        """
        owner = f"{type(self).__name__}.doesnt_match"
        chosen = Ids(as_list(owner, "ids", ids), owner=owner)
        if len(chosen) < 3:
            raise InputError(owner, "ids", "at least three ids", f"{len(chosen)}")
        units = unit_rows(np.asarray(self._vectors_of(owner, chosen)))
        return chosen[int(np.argmin(units @ units.sum(axis=0)))]

    def search(
        self,
        Q: Queries,
        topn: int = 10,
        *,
        metric: Metric = "cosine",
        exclude: Iterable[Iterable[Hashable]] | None = None,
        n_jobs: int | None = None,
        engine: str | None = None,
    ) -> Answers:
        """Return the nearest ids of many queries at once, exactly.

        Parameters
        ----------
        Q : ndarray of floats, shape (q, d), list of q vectors, or iterable of q ids
            Where Q holds ids, each id is left out of its own answer.
        topn : int
            How many for each query; all there are if there are fewer.
        metric : {"cosine", "dot"}
            Cosine of the angle, or scalar product.
        exclude : iterable of q iterables of ids, optional
            Ids to leave out of the answer to each query, such as what a user has seen. Others than those of this
            embedding count for nothing; if none is of it, a warning says so.
        n_jobs : int, optional
            Number of threads; all processors by default. The result does not depend on it.
        engine : {"threads", "dask"}, optional
            Where vectors are searched: on threads of this process, or in parts on the workers of a Dask cluster, that
            of the ``dask.distributed.Client`` in use, else one of this machine that ends with the search. By default on
            a cluster where the vectors are in parts and a client is in use. The result does not depend on it.

        Returns
        -------
        ids : ndarray, shape (q, topn), int64 if all ids are integers, otherwise of objects
        scores : ndarray, shape (q, topn), float64
            Best first; ties in the order of the rows. Where less than ``topn`` is left for a query, its row is filled
            at the end: the score is -inf there, the id None, or -1 if all ids are integers. If less is left for each,
            there are as many columns as the longest answer has. O(q n d) time, 8 MiB for each thread beside the result.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If the vectors have another length or hold NaN.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[1, 0], [3, 1], [0, 2]], ids=["ann", "bob", "cem"])
        >>> ids, scores = emb.search(["ann", "cem"], topn=1)
        >>> ids.tolist(), scores.round(3).tolist()
        ([['bob'], ['bob']], [[0.949], [0.316]])
        >>> emb.search(["ann", "cem"], topn=1, exclude=[["bob"], []])[0].tolist()
        [['cem'], ['bob']]
        """
        owner = f"{type(self).__name__}.search"
        topn = check_integer(owner, "topn", topn, low=1)
        check_choice(owner, "metric", metric, ("cosine", "dot"))
        workers = check_n_jobs(owner, n_jobs)
        asked = self._question(owner, Q, exclude)
        warn_of_unmet(owner, asked.unmet, "an id of these", self._ids)
        return self._answers(owner, asked, topn, metric, workers, engine)

    def _answers(
        self, owner: str, asked: Question, topn: int, metric: str, n_jobs: int, engine: str | None = None
    ) -> Answers:
        """Return the ids and the scores of the rows nearest to each query."""
        queries, left_out, _ = asked
        k = min(topn, len(self) - left_out.fewest)
        if not k:
            return self._ids_of(np.empty((len(queries), 0), np.int64)), np.empty((len(queries), 0))
        skip = left_out if len(left_out.rows) else None
        if on_a_cluster(owner, engine, by_default=isinstance(self._vectors, RowsInParts)):
            rows, scores = on_cluster("nearest vectors")(owner, queries, self._vectors, k, metric, skip)
        else:
            norms = self._row_norms()
            rows, scores = best_rows(owner, queries, self._vectors, k, metric, norms, skip=skip, n_jobs=n_jobs)
        return self._ids_of(rows), scores

    def _ids_of(self, rows: RowNumbers) -> NDArray[np.int64] | NDArray[np.object_]:
        """Return the ids of rows; None, or -1 where all ids are integers, for what is no row."""
        if not rows.size:
            return self._ids.to_numpy()[np.empty(rows.shape, np.int64)]
        named: NDArray[Any] = self._ids.to_numpy()[rows]
        named[rows < 0] = -1 if self._ids.is_integer else None
        return named

    def _question(self, owner: str, Q: Queries, exclude: Iterable[Iterable[Hashable]] | None) -> Question:
        """Return queries, each a vector or an id, and the distinct rows to leave out of the answer to each."""
        own: RowNumbers | None = None
        Q = from_tensor(Q)
        if isinstance(Q, list):
            Q = [from_tensor(item) for item in Q]
        if isinstance(Q, list) and Q and (_is_vector(Q[0]) or isinstance(Q[0], list)):  # no list is an id
            Q = check_matrix(owner, "Q", Q)
        if _is_vector(Q):
            vectors = self._as_vectors(owner, "Q", Q)
            queries = check_matrix(owner, "Q", Q if vectors is Q else np.atleast_2d(vectors), columns=self.n_components)
        else:
            asked = list(as_list(owner, "Q", Q, "an array of shape (q, d) or a list of ids"))
            queries, own = self._vectors_of(owner, asked), self._ids.rows(asked)
        if exclude is None:
            return Question(queries, LeftOut.of_own(own, len(queries)))
        expected = f"lists of ids, one for each query ({len(queries)})"
        if isinstance(exclude, (str, bytes)) or not isinstance(exclude, Iterable):
            raise InputError(owner, "exclude", expected, repr(exclude))
        lists = [list(as_list(owner, "exclude", ids, expected)) for ids in exclude]
        if len(lists) != len(queries):
            raise InputError(owner, "exclude", expected, f"{len(lists)}")
        ids = list(chain.from_iterable(lists))
        rows = self._ids.rows(ids)
        unmet = ids[0] if ids and (rows < 0).all() else None
        return Question(queries, LeftOut.of(rows, np.array(list(map(len, lists)), np.int64), own), unmet)

    def recommend(
        self,
        users: Hashable | Iterable[Hashable] | Floats,
        topn: int = 10,
        *,
        exclude: Seen | Iterable[Hashable] | Iterable[Iterable[Hashable]] | None = None,
        base_measure: ArrayLike | Mapping[Hashable, float] | Series | None = None,
        n_jobs: int | None = None,
    ) -> Found | Answers:
        """Return the best of the other side for one user or for several; of one kind of nodes, whom to follow.

        The score is ``x . y / temperature``, the temperature being that of the parameters (else 1), and with a base
        measure w the logarithm of it more: ``x . y / T + ln w``, the logit of the softmax. Where that was fitted with
        one, it is here.

        Parameters
        ----------
        users : id, ndarray of floats of shape (d,), iterable of ids, or ndarray of shape (q, d)
            One user or several; vectors for users that are not here, such as those of ``transform``. A tuple is one id.
        topn : int, default=10
            How many items for each.
        exclude : Relation, or iterable of ids (one user) or of q such iterables (several), optional
            What a user has seen: items that are left out. Of a relation of users and items what its rows hold. Of one
            kind of nodes a node itself is left out, too.
        base_measure : array-like of shape (m,), mapping or Series from items to numbers, optional
            w in place of that of the fit: how often each item is chosen, in the order of the items' ids or by id, such
            as ``likes.column_sums``. One of weight 0 counts as half of the least. All ones leave it out.
        n_jobs : int, optional
            Number of threads; all processors by default. The result does not depend on it.

        Returns
        -------
        list of (id, float), or two ndarrays of shape (q, topn)
            For one user items and scores, best first. For several the ids and the scores as of :meth:`search`, filled
            with None (-1 if all ids are integers) and -inf for users for whom fewer than ``topn`` items are left. An
            item with a vector of zeros is never recommended.

        Raises
        ------
        UnknownIdError
            If a user is not there.
        InputError
            If an argument cannot be used.

        Warns
        -----
        NearfarWarning
            Without a base measure, of users with a vector of zeros: all items are equal for them. If no id in
            ``exclude`` is an item.

        Notes
        -----
        O(q m d) time. Vectors of two towers: ``nf.Embedding(users, ids, context_vectors=items, context_ids=item_ids,
        parameters={"temperature": T})``.

        References
        ----------
        Yi et al. (2019), "Sampling-bias-corrected neural modeling for large corpus item recommendations" (the
        logarithm of the frequency).

        Examples
        --------
        >>> import nearfar as nf
        >>> items = {"context_vectors": [[2, 1], [1, 2], [1, 0]], "context_ids": ["tea", "rum", "gin"]}
        >>> emb = nf.Embedding([[1, 0], [0, 1]], ["ann", "bob"], **items)
        >>> emb.recommend("ann", 2, exclude=["tea"])
        [('rum', 1.0), ('gin', 1.0)]
        >>> emb.recommend(["ann", "bob"], 1)[0].tolist()
        [['tea'], ['rum']]
        >>> emb.recommend("ann", 1, exclude=["tea"], base_measure={"rum": 2, "gin": 6})[0][0]
        'gin'
        """
        owner = f"{type(self).__name__}.recommend"
        one_side = self._context_vectors is None
        items, topn = self if one_side else self.context, check_integer(owner, "topn", topn, low=1)
        workers = check_n_jobs(owner, n_jobs)
        names: list[Hashable] | None = None
        users = from_tensor(users)
        if _is_vector(users):
            queries = check_matrix(owner, "users", np.atleast_2d(users), columns=self.n_components)
            single = users.ndim == 1
        else:
            single = isinstance(users, (str, bytes, tuple)) or not isinstance(users, Iterable)
            names = [cast("Hashable", users)] if single else list(as_list(owner, "users", users))
            queries = self._vectors_of(owner, names)
        seen, counts = np.empty(0, np.int64), np.zeros(len(queries), np.int64)
        if exclude is not None:
            seen, counts, first = _seen(owner, exclude, names, len(queries), items.ids, single=single)
            warn_of_unmet(owner, None if (seen >= 0).any() else first, "an item", items.ids)
        base_measure = self.base_measure if base_measure is None else base_measure
        log_p = None if base_measure is None else items._log_measure(owner, base_measure)
        unknown = np.flatnonzero(~queries.any(axis=1))
        if log_p is None and unknown.size:
            who = "row" if names is None else repr(names[int(unknown[0])])
            text = f"{owner}: nothing is known of {unknown.size} users, such as {who}: all items are equal for them."
            warn_user(f"{text} Give base_measure=, for the most popular ones.")
        rows = np.flatnonzero(items._row_norms())
        own = None if names is None or not one_side else items.ids.rows(names)
        if len(rows) < len(items):
            numbers = np.full(len(items) + 1, -1)  # the last one: for -1
            numbers[rows] = np.arange(len(rows))
            seen, own = numbers[seen], None if own is None else numbers[own]
            items = items.subset([items.ids[int(row)] for row in rows])
        temperature = check_real(owner, "temperature", self.parameters.get("temperature", 1.0), low=0, open_low=True)
        queries = queries / temperature
        catalogue: Near = items
        if log_p is not None:
            columns = np.column_stack((items.vectors, log_p[rows].astype(items.vectors.dtype)))
            catalogue = Near._of(columns, items.ids)
            queries = np.column_stack((queries, np.ones(len(queries), queries.dtype)))
        asked = catalogue._question(owner, queries, None)._replace(left_out=LeftOut.of(seen, counts, own))
        ids, scores = catalogue._answers(owner, asked, topn, "dot", workers)
        return list(zip(ids[0].tolist(), scores[0].tolist(), strict=True)) if single else (ids, scores)

    def _log_measure(self, owner: str, measure: ArrayLike | Mapping[Hashable, float] | Series) -> NDArray[np.float64]:
        """Return the logarithm of how often each id is chosen, of the ids never chosen that of half the least."""
        index = index_of(measure)
        if index is not None and goes_by_index(owner, "base_measure", index, self._ids):
            measure = cast("Series", measure).to_dict()
        if isinstance(measure, Mapping):
            measure = [measure.get(key, 0) for key in self._ids]
        column = check_numbers(owner, "base_measure", measure).reshape(-1, 1)
        counts = check_matrix(owner, "base_measure", column, rows=len(self)).astype(np.float64)
        if (counts < 0).any() or not counts.any():
            got = f"{counts.min():g} as the least and {counts.max():g} as the largest"
            raise InputError(owner, "base_measure", ">= 0, and above 0 for some item", got)
        logarithms: NDArray[np.float64] = np.log(np.maximum(counts[:, 0], counts[counts > 0].min() / 2))
        return logarithms

    # -- vectors of items ------------------------------------------------------------------------------------------

    def _items(self, owner: str, name: str, items: Items | None) -> list[Item]:
        items = from_tensor(items)
        return _as_items(self._as_vectors(owner, name, items) if _is_vector(items) else items)

    def _as_vectors(self, owner: str, name: str, items: Floats) -> Floats:  # noqa: ARG002 - for subclasses
        """Return other forms of vectors, such as matrices, as vectors; anything else unchanged."""
        return items

    def _vector(self, owner: str, name: str, item: object) -> Floats:
        item = from_tensor(item)
        if not _is_vector(item):
            return self._vector_of(owner, item)
        rows = np.atleast_2d(self._as_vectors(owner, name, item))
        vector: Floats = check_matrix(owner, name, rows, columns=self.n_components, rows=1)[0]
        return vector

    def _row_norms(self) -> NDArray[np.float64]:
        if self._norms is None:
            self._norms = row_norms(self._vectors)
        return self._norms

    def _named(self, rows: RowNumbers, scores: NDArray[np.float64]) -> Found:
        """Return the ids of rows, with their scores."""
        return [(self._ids[row], score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True)]


def warn_of_unmet(owner: str, unmet: Hashable, what: str, ids: Ids) -> None:
    """Warn, where the caller was called, that no id of ``exclude``, such as ``unmet``, is there; not of None."""
    if unmet is not None and len(ids):
        text = f"{owner}: exclude has no effect: none of its ids is {what}, such as {ids[0]!r}; got {unmet!r}."
        warn_user(text)


def _is_vector(item: object) -> TypeGuard[Floats]:
    return isinstance(item, np.ndarray) and item.dtype.kind == "f"


def _seen(
    owner: str,
    exclude: Seen | Iterable[Hashable] | Iterable[Iterable[Hashable]],
    names: list[Hashable] | None,
    n_users: int,
    items: Ids,
    *,
    single: bool,
) -> tuple[RowNumbers, RowNumbers, Hashable]:
    """Return the rows of what the users have seen, one user after the other, how many each has, and one of the ids."""
    expected = f"lists of ids, one for each query ({n_users})"
    if isinstance(exclude, Seen):
        if names is None:
            hint = "Or give the users by their ids."
            raise InputError(owner, "exclude", "lists of ids where users are vectors", repr(exclude), hint)
        users, counts = exclude.row_ids.rows(names), np.zeros(n_users, np.int64)
        known = items.rows(exclude.column_ids)
        if (known < 0).all() and (items.rows(exclude.row_ids) >= 0).any():
            hint = "Give its transpose, exclude.T."
            raise InputError(owner, "exclude", "a relation whose columns are items", "one whose rows are items", hint)
        columns, counts[users >= 0] = exclude.operator.columns_of(users[users >= 0])
        first = exclude.column_ids[int(columns[0])] if len(columns) else None
        return known[columns], counts, first
    if single:
        seen = [list(as_list(owner, "exclude", exclude))]
    else:
        seen = [list(as_list(owner, "exclude", ids, expected)) for ids in as_list(owner, "exclude", exclude)]
    if len(seen) != n_users:
        raise InputError(owner, "exclude", expected, f"{len(seen)}")
    ids = [*chain.from_iterable(seen)]
    return items.rows(ids), np.array([len(some) for some in seen], np.int64), ids[0] if ids else None


def _as_items(items: object) -> list[Item]:
    if items is None:
        return []
    if isinstance(items, np.ndarray) and items.ndim > 0:
        return [items] if _is_vector(items) and items.ndim == 1 else list(items)
    return [from_tensor(item) for item in items] if isinstance(items, list) else [items]
