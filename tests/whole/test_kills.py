"""A few of the kills of `make kills`: at random moments of what writes; the old file or the new one is whole."""

import kills
import pytest

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning"),
]


@pytest.mark.parametrize(
    "name",
    [
        "fit, EDRep",
        "relation",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("save .safetensors", "encoded text")),
    ],
)
def test_a_kill_leaves_the_old_or_the_new_and_the_next_one_goes_on(name):
    case = next(case for case in kills.cases() if case.name == name)
    kills.kill(kills.ready(case, 1), kills.random.Random(3), 2)


def test_the_kills_would_find_a_half_file(tmp_path):
    def act(folder):
        with (folder / "x").open("w") as file:
            file.write("a" * 20)
            file.flush()
            kills.time.sleep(60)  # killed here, on a busy machine, too
            file.write("a" * 20)

    case = kills.Case(
        "half", kills.nothing, act, lambda folder: len((folder / "x").read_text()) if (folder / "x").exists() else 0
    )
    with pytest.raises(ValueError, match="neither the old nor the new one"):
        kills.kill(kills.Ready(case, (0, 40), 1.0), kills.random.Random(3), 1)
