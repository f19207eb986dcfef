"""Fixtures that several test modules use."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(20240607)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets beside the repository; the test is skipped where there is none."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no shared data beside the repository")
    return SHARED_DATA


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt: a shell that starts this in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
