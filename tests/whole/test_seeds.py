"""Bars of tests stand on several seeds: by the record that is kept, and, where they are near, measured again."""

import pytest
import seeds

RECORD = seeds.read()
NEAR = 4.0  # spreads


def test_no_bar_is_nearer_than_twice_the_spread_over_seeds():
    near = [(row["nearest"], bar) for (_, bar), row in RECORD.items() if row["margin"] < seeds.TWICE * row["spread"]]
    assert RECORD
    assert not near


def test_a_bar_that_was_changed_is_measured_anew():
    files = {seeds.ROOT / test.split("::")[0] for test, _ in RECORD}
    assert not RECORD.keys() - seeds.bars(files), "run python tests/support/seeds.py with these tests"


@pytest.mark.slow
def test_near_bars_hold_with_every_seed():
    near = {(row["nearest"], bar) for (_, bar), row in RECORD.items() if row["margin"] < NEAR * row["spread"]}
    measured = seeds.measure(sorted({test for test, _ in near}))
    assert {key: ends for key, ends in measured.items() if any(low > high for low, high in ends)} == {}
    assert near <= {key for key, ends in measured.items() if len(ends) == len(seeds.SEEDS)}
