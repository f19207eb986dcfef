"""What a release rests on agrees with itself: lower bounds, targets of the Makefile, the workflow."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def bounds(*extras):
    """Lower bounds by the name of the package."""
    required = [*PROJECT["dependencies"], *(r for extra in extras for r in PROJECT["optional-dependencies"][extra])]
    found = {}
    for requirement in required:
        form = r"([\w-]+)(?:\[.*\])?(?:>=([\d.]+))?(?:,<[\d.]+)?(?:;.*)?"
        name, lower = re.fullmatch(form, requirement.split(";")[0]).groups()
        if name == "nearfar":
            found |= bounds(*re.search(r"\[(.*)\]", requirement)[1].split(","))
        else:
            found[name.lower()] = lower
    return found


def test_the_oldest_versions_are_the_lower_bounds():
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    wanted = bounds("dev")
    assert None not in wanted.values()
    extra = set(pinned) - set(wanted)
    assert all(re.search(rf"^#   {name}: ", "\n".join(lines), re.MULTILINE) for name in extra)
    for name, lower in wanted.items():
        assert pinned[name].split(".")[: lower.count(".") + 1] == lower.split("."), name


def test_each_target_is_explained():
    targets = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split())
    explained = set(re.findall(r"make ([\w-]+)", "".join(re.findall(r"^#   .*$", MAKEFILE, re.MULTILINE))))
    assert targets - explained == {"help"}


def test_the_workflow_runs_what_is_run_here():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    supported = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert jobs["run"]["strategy"]["matrix"]["python"] == supported
    assert jobs["run"]["steps"][-1]["run"] == "bash .ci/run"
    targets = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split())
    nightly = {target.split()[0] for target in jobs["nightly"]["strategy"]["matrix"]["target"]}
    assert {"bounds", "fuzz", "kills", "mutants", "test-oldest", "test-newest", "test-machines"} <= nightly <= targets
    assert set(jobs["dist"]["steps"][2]["run"].split()[1:]) <= targets
