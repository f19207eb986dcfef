"""A checkpoint of which anything was altered is refused before a kernel sees it; none ends the process."""

import json

import altered_checkpoints
import hazards
import numpy as np
import pytest

import nearfar as nf
from nearfar._core import checkpoint
from nearfar._core.arrays import read_arrays, write_arrays
from nearfar.callbacks import Checkpoint
from nearfar.errors import FileFormatError


@pytest.fixture(scope="module")
def outcomes():
    """What each fit raised that went on from an altered checkpoint."""
    return hazards.outcomes("altered_checkpoints")


@pytest.mark.slow
@pytest.mark.parametrize("model", altered_checkpoints.MODELS)
def test_altered_checkpoints_are_refused(outcomes, model):
    cases = {name: raised for name, raised in outcomes.items() if name.startswith(f"{model}: ")}
    sound = {name: raised for name, raised in cases.items() if ": as it was" in name}
    assert set(sound.values()) == {"nothing"}
    assert len(sound) == (5 if model in altered_checkpoints.WITH_FACTS else 1)
    altered = {name: raised for name, raised in cases.items() if name not in sound}
    assert len(altered) >= 12
    # Another number of rows may be that of another relation, and is told as that.
    expected = ("FileFormatError", "InputError EDRep.fit: resume must be a state of")
    assert not {name: raised for name, raised in altered.items() if not raised.startswith(expected)}
    assert all("run.safetensors: file must be a checkpoint" in said for said in altered.values() if "File" in said)


@pytest.mark.parametrize("what", ["facts", "identity"])
@pytest.mark.parametrize("text", ["", "[]", "{", "3", "[" * 100_000, '{"rng": NaN'], ids=lambda text: text[:20])
def test_metadata_that_are_none(tmp_path, what, text):
    path = tmp_path / "run.safetensors"
    nf.EDRep(2, n_epochs=1, random_state=0, callbacks=[Checkpoint(path)]).fit(altered_checkpoints.graph())
    arrays, metadata = read_arrays(path)
    metadata.pop("checksum")
    write_arrays("test", path, arrays, {**metadata, what: text})
    with pytest.raises(FileFormatError, match=r"run\.safetensors: file must be a checkpoint"):
        nf.EDRep(2, n_epochs=1, random_state=0).fit(altered_checkpoints.graph(), resume=path)


@pytest.mark.parametrize("name", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
def test_every_generator_of_numpy_goes_on_where_it_was(name):
    rng = np.random.Generator(getattr(np.random, name)(3))
    rng.random(7, np.float32)
    stored = json.loads(json.dumps(rng.bit_generator.state, default=checkpoint._plain))
    np.testing.assert_array_equal(checkpoint.generator_of(stored).random(9), rng.random(9))
