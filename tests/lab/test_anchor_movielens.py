"""The benchmark of small tables on MovieLens: its split, its training, and what the page says of its records."""

import pytest
from result_files import told

torch = pytest.importorskip("torch")

import nearfar as nf  # noqa: E402
from lab.papers.ratings import Films, Ratings, split_of, squared_error  # noqa: E402
from lab.records import frontier_at  # noqa: E402
from lab.small import methods  # noqa: E402
from lab.small.factorisation import fit, n_bytes  # noqa: E402
from lab.small.methods import ANT, FIRST_ANCHORS, METHODS, NBANT, RELATIVES  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")
SETTING = {"lr": 0.05, "l2": 1e-3, "l2_anchors": 1e-5, "n_anchors": 6, "dense_epochs": 8, "last_lr": 0.005}
SETTING |= {"batch_size": 200}


@pytest.fixture
def films():
    """Users and items of two components, of which every rating is known but for noise."""
    generator = torch.Generator().manual_seed(3)
    users, items = (torch.randn(n, 2, generator=generator) for n in (60, 50))
    pairs = torch.cartesian_prod(torch.arange(60), torch.arange(50))
    noise = 0.1 * torch.randn(len(pairs), generator=generator)
    marks = (users[pairs[:, 0]] * items[pairs[:, 1]]).sum(1) + 3 + noise
    return Films(Ratings(pairs[:, 0], pairs[:, 1], marks), 60, 50, [["Drama"]] * 50)


def test_a_split_takes_each_rating_once(films) -> None:
    parts = split_of(films, 0)
    assert [len(part.marks) for part in (parts.train, parts.validation, parts.test)] == [2400, 300, 300]
    pairs = [torch.stack(part[:2], dim=1) for part in (parts.train, parts.validation, parts.test)]
    assert len(torch.unique(torch.cat(pairs), dim=0)) == 3000
    assert torch.equal(split_of(films, 0).test.users, parts.test.users)
    assert not torch.equal(split_of(films, 1).test.users, parts.test.users)


@pytest.mark.slow
def test_a_course_ends_within_the_budget_and_keeps_zeros(films, monkeypatch) -> None:
    monkeypatch.setattr(methods, "FIRST_PRICE", 1e-3)  # few ratings: each entry is worth more
    split = split_of(films, 0)
    run = fit(ANT, films, split, SETTING, 0, 500, most_epochs=40)
    users, items = run.model.users, run.model.items
    assert run.course.done
    assert run.model.n_parameters == users.n_parameters + items.n_parameters <= 500
    assert users.zeros_fixed
    assert items.zeros_fixed
    assert squared_error(run.model, films, split.validation) == pytest.approx(run.validation, rel=1e-6)
    spread = (split.test.marks - split.train.marks.mean()).square().mean().item()
    assert squared_error(run.model, films, split.test) < 0.2 * spread
    with pytest.raises(nf.errors.InputError, match="n_parameters must be at least 192; got 10"):
        fit(ANT, films, split, SETTING, 0, 10, most_epochs=12)


@pytest.mark.slow
def test_nbant_changes_no_number_once_the_price_rises(films) -> None:
    setting = {**SETTING, "dense_epochs": 4, "price": 3e-6, "batch_size": 600}
    run = fit(NBANT, films, split_of(films, 0), setting, 0, most_epochs=9)
    assert len(run.scheduler.history) == 4
    assert run.scheduler.history[0]["n_anchors"] == [FIRST_ANCHORS] * 2
    assert run.course.price >= 3e-6


def test_any_two_modules_are_trained_and_counted(films) -> None:
    setting = METHODS["uncompressed"].draw(0)
    assert setting == METHODS["uncompressed"].draw(0) != METHODS["uncompressed"].draw(1)
    run = fit(METHODS["3 components"], films, split_of(films, 0), setting, 0, most_epochs=2)
    assert run.model.n_parameters == 3 * 110
    assert n_bytes(run.model.users) == 4 * 3 * 60


# ---------------------------------------------------------------- the section


def record(part, method, test, size, *, seed=0, trial=0, budget=None, n_anchors=None, validation=0.7):
    found = {"part": part, "method": method, "budget": budget, "trial": trial, "seed": seed, "n_anchors": n_anchors}
    found |= {"validation": validation, "test": test, "cpu_seconds": 1.0}
    found |= {"n_parameters": size, "n_bytes": 5 * (size or 0)}
    if "ANT" in method:
        found |= {"active": n_anchors or 12, "path": [10, 11, 12, 12]}
        found |= {"purity": 0.6, "chance": 0.4, "purity_of_ten": 0.7, "chance_of_ten": 0.5}
    return found


def trials_and_finals(method, tests, size, budget=None):
    tried = [record("trial", method, 0.0, size, budget=budget)]
    return tried + [record("final", method, x, size, seed=s, budget=budget) for s, x in enumerate(tests)]


def test_a_frontier_is_straight_between_what_no_other_beats() -> None:
    points = [(10.0, 3.0), (20.0, 1.0), (15.0, 4.0)]
    assert [frontier_at(x, points) for x in (5.0, 10.0, 15.0, 20.0, 30.0)] == [3.0, 3.0, 2.0, 1.0, 1.0]


def test_the_best_of_other_small_tables_at_one_size() -> None:
    anchor_movielens = told("small.anchor_movielens")

    records = trials_and_finals("ANT", [0.74, 0.742], 57_000, 60_000)
    records += trials_and_finals("low rank", [0.75], 58_668, 60_000)
    records += trials_and_finals("low rank", [0.7], 29_334, 30_000)  # of another size
    records += trials_and_finals("6 components", [0.745], 58_476)
    records += trials_and_finals("uncompressed", [0.73], 155_936)
    section = anchor_movielens(records)
    target = section.targets[2]
    assert target.met
    assert target.measured == "0.7400 against 0.7450 of 6 components (-0.0050), 1 seeds, best of 2"
    assert section.targets[3].met is None
    assert "None of them is better than ANT." in " ".join(section.lines)
    assert any("| 60 % (40 %) | 70 % (50 %) |" in line for line in section.lines)
    records += trials_and_finals("hash embeddings", [0.7395], 60_000, 60_000)
    section = anchor_movielens(records)
    assert section.targets[2].met is False
    assert "Better than ANT: hash embeddings." in " ".join(section.lines)
    records = [r for r in records if r["method"] != "hash embeddings"]
    records += [record("trial", "ANT", 0.0, 57_000, budget=60_000, trial=1, validation=0.8)]
    target = anchor_movielens(records).targets[2]  # tuned more than the others
    assert target.met is None
    assert target.measured.endswith("; so far 1 trials against 2")


@pytest.mark.slow
def test_every_relative_is_within_its_budget_and_is_trained(films) -> None:
    split = split_of(films, 0)
    for method in RELATIVES:
        setting = {**method.draw(0), "batch_size": 800, "lr": 0.03, "last_lr": 0.01, "l2": 1e-3}
        setting |= {"n_blocks": 2, "base_dim": 4}  # every object has as many ratings: blocks are alike
        if method.course:
            setting["dense_epochs"] = 2
        run = fit(method, films, split, setting, 0, 1200, most_epochs=4)
        assert 600 <= run.model.n_parameters <= 1200, method.name
        assert run.epoch > setting.get("dense_epochs", 0), method.name
