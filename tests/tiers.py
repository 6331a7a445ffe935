"""How thorough a run of the tests is."""

from __future__ import annotations

import os

IS_FULL = os.environ.get("MINDYN_TEST_SEEDS") == "all"
"""Whether this is `make full`, which tries more cases where `make test` draws some of them."""
