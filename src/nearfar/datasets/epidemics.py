"""Spreading on contacts with times: susceptible nodes are infected by contacts, infected ones recover (SIR).

In the slices of time of the contacts, one after another: a susceptible node whose contacts with infected ones weigh w
in all is infected with probability 1 - (1 - beta)^w; a node that was infected when the slice began recovers with
probability mu. All contacts of a slice happen at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer, check_random_state, check_real
from nearfar._core.types import Flags, Seed
from nearfar.embedding.vectors import as_list
from nearfar.errors import InputError, UnknownIdError
from nearfar.reading.contacts import cut_into_slices, read_contacts

if TYPE_CHECKING:
    from nearfar._core.types import EdgeSource

_OWNER = "simulate_sir"
STATES = ("S", "I", "R")
_SUSCEPTIBLE, _INFECTED, _RECOVERED = range(3)


def simulate_sir(
    contacts: EdgeSource,
    beta: float,
    mu: float,
    *,
    window: float | timedelta | None = None,
    step: float | timedelta | None = None,
    initial: int | Iterable[Hashable] = 1,
    columns: Sequence[str | int] | None = None,
    end: str | int | None = None,
    weight: str | int | None = None,
    random_state: Seed = None,
) -> dict[tuple[Hashable, Hashable], str]:
    """Let an infection spread over contacts with times, and return the state of every node at every time.

    Parameters
    ----------
    contacts : path, file object, data frame, array or iterable
        As for :meth:`nearfar.Relation.from_contacts`.
    beta : float, in [0, 1]
        Probability that a contact of weight 1 infects.
    mu : float, in [0, 1]
        Probability that an infected node recovers within one step of time.
    window, step : number or timedelta, optional
        Length of a slice of time and from one to the next, as for :meth:`nearfar.Relation.from_contacts`: with the same
        ones the states have the same ids. Where slices overlap, a contact counts in each that it is in.
    initial : int or iterable of nodes, default=1
        Which nodes are infected when the first slice begins: so many, drawn at random from all nodes, or these.
    columns, end, weight
        Which columns hold what, as for :meth:`nearfar.Relation.from_contacts`.
    random_state : int, Generator, RandomState or None
        For the draws.

    Returns
    -------
    dict of {(node, time): "S", "I" or "R"}
        The state when the slice begins, for each slice in which the node has a contact, in the order of the rows of the
        relation of these contacts.

    Raises
    ------
    InputError
        If nobody is infected at the start, more nodes than there are, or an argument cannot be used. That all nodes are
        infected at the start is allowed: nobody is left to be infected.
    UnknownIdError
        If a node of ``initial`` has no contact.

    Notes
    -----
    Recovery goes on where steps of time have no contact. Without a window a step is from one time of a contact to the
    next, however long that takes.

    References
    ----------
    Kermack & McKendrick (1927), "A contribution to the mathematical theory of epidemics". On contacts with times, to be
    reconstructed from vectors: Sato, Oka, Barrat & Cattuto (2021), DyANE.

    Examples
    --------
    >>> import nearfar as nf
    >>> contacts = [("ann", "bob", 0), ("bob", "cem", 20), ("ann", "cem", 40)]
    >>> nf.datasets.simulate_sir(contacts, 1.0, 0.0, initial=["ann"])
    {('ann', 0): 'I', ('bob', 0): 'S', ('bob', 20): 'I', ('cem', 20): 'S', ('ann', 40): 'I', ('cem', 40): 'I'}
    """
    beta, mu = (check_real(_OWNER, name, value, 0, 1) for name, value in (("beta", beta), ("mu", mu)))
    rng = check_random_state(_OWNER, random_state)
    found = read_contacts(_OWNER, contacts, columns=columns, end=end, weight=weight)
    slices = cut_into_slices(_OWNER, found, window, step)
    if isinstance(initial, (int, float, np.number)):
        there = np.unique(slices.pairs % len(slices.nodes))
        first = rng.choice(there, check_integer(_OWNER, "initial", initial, low=1, high=there.size), replace=False)
    else:
        nodes = list(as_list(_OWNER, "initial", initial, "a number or a list of nodes"))
        first = slices.nodes.rows(nodes)
        met = np.isin(first, slices.pairs % len(slices.nodes))
        if not met.all():
            unknown = [nodes[at] for at in np.flatnonzero(~met).tolist()]
            raise UnknownIdError(_OWNER, unknown, "These nodes have no contact.")
        if not nodes:
            raise InputError(_OWNER, "initial", "at least one node", "none", "Nothing would spread.")
    states = np.zeros(len(slices.nodes), np.int8)
    states[first] = _INFECTED
    n = len(slices.nodes)
    pairs_of = np.searchsorted(slices.pairs, np.arange(len(slices.steps) + 1) * n)
    contacts_of = np.searchsorted(slices.slices, np.arange(len(slices.steps) + 1))
    empty = np.diff(slices.steps, append=slices.steps[-1] + 1) - 1
    who, codes = slices.pairs % n, np.empty(len(slices.pairs), np.int8)
    for s in range(len(slices.steps)):
        here, among = slice(*pairs_of[s : s + 2]), slice(*contacts_of[s : s + 2])
        codes[here] = states[who[here]]
        a, b, w = slices.sources[among], slices.targets[among], slices.weights[among]
        infected = states == _INFECTED
        pressure = np.bincount(b, w * infected[a], minlength=n) + np.bincount(a, w * infected[b], minlength=n)
        caught = np.flatnonzero((states == _SUSCEPTIBLE) & (pressure > 0))
        caught = caught[rng.random(caught.size) < 1 - (1 - beta) ** pressure[caught]]
        _recover(states, infected, mu, rng)
        states[caught] = _INFECTED
        if empty[s]:
            _recover(states, states == _INFECTED, 1 - (1 - mu) ** float(empty[s]), rng)
    return {pair: STATES[code] for pair, code in zip(slices.ids(), codes.tolist(), strict=True)}


def _recover(states: NDArray[np.int8], infected: Flags, chance: float, rng: np.random.Generator) -> None:
    ill = np.flatnonzero(infected)
    states[ill[rng.random(ill.size) < chance]] = _RECOVERED
