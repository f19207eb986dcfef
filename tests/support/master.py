"""The master equation of maps, as tests ask for it: :class:`nearfar.methods.maps.AllPairs` at some positions."""

from unittest.mock import patch

from nearfar.methods import maps


def value_and_gradient(Y, P, kernel, divergence, normalization, *, exaggeration=1.0, weights=None, block=None):
    """Return the cost of a map and its gradient, so many rows at a time."""
    with patch.object(maps, "_ENTRIES", maps._ENTRIES if block is None else block * len(Y)):
        pairs = maps.AllPairs(P, kernel, divergence, normalization, weights=weights)
    gradient, value = pairs.evaluate(Y, exaggeration, cost=True)
    return value, gradient
