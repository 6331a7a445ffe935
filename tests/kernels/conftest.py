"""Kernel tests compile into a cache of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINDYN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
