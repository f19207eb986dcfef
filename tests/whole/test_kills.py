"""A few of the kills of `make kills`: at random moments of what writes; the old file or the new one is whole."""

import kills
import pytest
from quick import with_slow


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
@pytest.mark.parametrize("name", with_slow(["relation"], slow=["fit, EDRep", ".safetensors", "text"]))
def test_a_kill_leaves_the_old_or_the_new_and_the_next_one_goes_on(name):
    case = next(case for case in kills.cases() if case.name == name)
    kills.kill(kills.ready(case, 1), kills.random.Random(3), 2)
