"""What commands print and reports show, on one log of each family of tests/honesty/screens.py."""

from __future__ import annotations

import pytest
from honesty.screens import CHECKS, ROOT, Worker, run_check


@pytest.fixture(scope="module")
def worker():
    with Worker(ROOT) as process:
        yield process


@pytest.mark.parametrize("families", CHECKS, ids="-".join)
def test_no_rule_fails(worker, families):
    assert run_check(worker, families, 2) == dict.fromkeys(families, False)
