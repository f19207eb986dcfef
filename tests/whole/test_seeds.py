"""Bars of tests stand on several seeds: by the record that is kept, and, where they are near, measured again."""

import numpy as np
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


@pytest.mark.parametrize(
    ("told", "ends"),
    [
        ("0.5 > 0.2", (0.2, 0.5)),
        ("np.float32(2.0) < (1.5 * np.float64(2.0))", (2, 3)),
        ("tensor(-1.) <= -0.5", (-1, -0.5)),
        ("0.25 >= 0.5", (0.5, 0.25)),
    ],
)
def test_numbers_are_read_from_what_pytest_tells(told, ends):
    assert seeds.ends_of(told) == ends


def test_a_margin_is_that_of_the_scale_on_which_it_is_farther():
    assert seeds.margin_of([(-1, 0), (-1, 0.5), (-1, -0.5)]) == pytest.approx((2, 1, 0.5))
    assert seeds.margin_of([(1, 10), (1, 100), (1, 1000)])[1:] == pytest.approx((np.log(100), np.log(10)))
    assert seeds.margin_of([(-1, 1)] * 3) == (np.inf, 2, 0)
    assert seeds.margin_of([(1, -1)] * 3) == (-np.inf, -2, 0)


@pytest.mark.slow
def test_near_bars_hold_with_every_seed():
    near = {(row["nearest"], bar) for (_, bar), row in RECORD.items() if row["margin"] < NEAR * row["spread"]}
    measured = seeds.measure(sorted({test for test, _ in near}))
    assert {key: ends for key, ends in measured.items() if any(low > high for low, high in ends)} == {}
    assert near <= {key for key, ends in measured.items() if len(ends) == len(seeds.SEEDS)}
