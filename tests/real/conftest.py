"""Real robots and logs: found through MINDYN_REAL_DATA, skipped with a reason where it is not set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = os.environ.get("MINDYN_REAL_DATA")
    if not folder:
        pytest.skip("MINDYN_REAL_DATA is not set: the real logs are not part of the repository")
    return Path(folder)
