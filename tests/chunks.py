"""Seeds of a chunk: all in `make full`, evenly spread ones otherwise.

A test that draws many robots in one call names their first seed or their chunk, of which conftest.py keeps some.
"""

from __future__ import annotations

import os

KEPT = 10
"""Number of seeds of a chunk outside of `make full`."""


def seeds_of_chunk(first: int, count: int) -> list[int]:
    """Return the seeds first .. first + count - 1 that run."""
    if os.environ.get("MINDYN_TEST_SEEDS") == "all" or count <= KEPT:
        return list(range(first, first + count))
    return [first + round(k * (count - 1) / (KEPT - 1)) for k in range(KEPT)]
