"""Checkpoints of which one thing was altered, with a checksum that fits: run by test_damaged_checkpoints.py."""

import functools
import tempfile
from pathlib import Path

import numpy as np

import nearfar as nf
from nearfar._core import checkpoint
from nearfar.callbacks import Checkpoint


@functools.cache
def text():
    """Encoded when a test wants it: that compiles, and this module is imported where it is not run, too."""
    return nf.Corpus([["the", "sea", "the", "ship"], ["a", "sea", "b", "c"]] * 20).encode(min_count=1)


@functools.cache
def graph():
    return nf.Relation.from_edges([(k, k * k % 40) for k in range(40)] + [(k, (k + 1) % 40) for k in range(40)])


QUICK = {"n_jobs": 1, "random_state": 0, "n_epochs": 4}
WORDS = {**QUICK, "n_components": 3, "sample": 0, "min_count": 1}

MODELS = {
    "SkipGram": (nf.SkipGram, WORDS, text),
    "SkipGram, Adam": (nf.SkipGram, {**WORDS, "optimizer": "adam"}, text),
    "Word2DM": (nf.Word2DM, {**WORDS, "n_factors": 2, "optimizer": "adam"}, text),
    "clusters": (nf.MultiSenseWord2DM, {**WORDS, "optimizer": "adam"}, text),
    "columns": (nf.MultiSenseWord2DM, {**WORDS, "variant": "columns"}, text),
    "EDRep": (nf.EDRep, {**QUICK, "n_components": 4}, graph),
    "EDRep, clusters": (nf.EDRep, {**QUICK, "n_components": 4, "n_clusters": 2}, graph),
    "EDRep, two sides": (nf.EDRep, {**QUICK, "n_components": 4, "two_sided": True}, graph),
}
WITH_FACTS = ("SkipGram", "columns", "EDRep", "EDRep, clusters")  # one of each way to go on from facts
AFTER = {"EDRep, clusters": 6}  # calls until the checkpoint is as large as it gets; 2 for the others

FAR_OFF = 1 << 40


def generator(name):
    """Facts of the state of another generator, which is a sound one."""
    state = getattr(np.random, name)(1).state
    return checkpoint.json.loads(checkpoint.json.dumps(state, default=checkpoint._plain))


def with_position(name, where, position):
    state = generator(name)
    (state if where == "buffer_pos" else state["state"])[where] = position
    return state


FACTS = {
    "no generator": {"rng": None},
    "a function as the generator": {"rng": {"bit_generator": "seterr"}},
    "a class as the generator": {"rng": {"bit_generator": "Generator"}},
    "a state of another generator": {"rng": {**generator("PCG64"), "bit_generator": "SFC64"}},
    "MT19937 behind its buffer": {"rng": with_position("MT19937", "pos", FAR_OFF // 2**12)},
    "MT19937 before its buffer": {"rng": with_position("MT19937", "pos", -(1 << 30))},
    "Philox before its buffer": {"rng": with_position("Philox", "buffer_pos", -(1 << 28))},
    "a state that is a text": {"rng": {**generator("PCG64"), "state": "state"}},
    "a state too large": {"rng": {**generator("PCG64"), "state": {"state": 1 << 200, "inc": 1}}},
    "a seed that is a text": {"split": "1", "epoch": "1"},
    "a seed that is negative": {"split": -1, "epoch": -1},
    "a seed that is a fraction": {"split": 1.5, "epoch": 1.5},
}


def altered_arrays(arrays):
    """Yield (what was done, all arrays)."""
    for name, array in arrays.items():
        yield f"{name} left out", {key: value for key, value in arrays.items() if key != name}
        yield f"{name} short", {**arrays, name: array[: len(array) // 2]}
        if array.ndim == 2:
            yield f"{name} narrow", {**arrays, name: np.ascontiguousarray(array[:, :-1])}
            yield f"{name} flat", {**arrays, name: array.ravel()}
        other = np.float32 if array.dtype == np.float64 else np.float64
        yield f"{name} of another type", {**arrays, name: array.astype(other)}
        if array.dtype.kind == "i":
            for number in (-FAR_OFF, FAR_OFF, -2, 2**63 - 1):
                if number < 0 or number > 2**62 or name in ("labels", "known", "allowed"):
                    yield f"{name} with {number}", {**arrays, name: np.full_like(array, number)}
    yield "losses long", {**arrays, "losses": np.ones(50)}
    yield "one more", {**arrays, "more": np.ones(3)}


def cases():
    """Everything that may be altered, for every model."""
    path = Path(tempfile.mkdtemp(), "run.safetensors")
    for model, (make, params, made) in MODELS.items():
        data = made()
        calls = iter(range(1, 100))
        stop = AFTER.get(model, 2)
        callbacks = [Checkpoint(path, every=1), lambda _, calls=calls, stop=stop: next(calls) == stop]
        make(**params, callbacks=callbacks).fit(data)
        snapshot = checkpoint.read(path)
        facts, identity = snapshot.facts, snapshot.identity

        def resume(arrays, facts, make=make, params=params, data=data, identity=identity):
            path.unlink()
            checkpoint.write("test", path, checkpoint.Snapshot(arrays, facts, identity))
            return make(**params).fit(data, resume=path)

        yield f"{model}: as it was", lambda s=snapshot, resume=resume: resume(s.arrays, s.facts)
        for what, arrays in altered_arrays(snapshot.arrays):
            made_again = ("sums left out", "labels left out", "one more")
            earlier = ("losses short", "validation_losses short")  # no more than an earlier epoch
            if what in (made_again if model.startswith("EDRep") else earlier):
                continue
            yield f"{model}: {what}", lambda a=arrays, f=facts, resume=resume: resume(a, f)
        for what, fact in FACTS.items() if model in WITH_FACTS else ():
            known = {name: value for name, value in fact.items() if name in facts}
            yield f"{model}: {what}", lambda a=snapshot.arrays, f={**facts, **known}, resume=resume: resume(a, f)
        for name in ("PCG64DXSM", "Philox", "SFC64", "MT19937") if model in WITH_FACTS else ():
            other = {**facts, "rng": generator(name)}
            yield f"{model}: as it was, with {name}", lambda a=snapshot.arrays, f=other, resume=resume: resume(a, f)
