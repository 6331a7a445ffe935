"""Run the methods of a comparison in the process of the test: starting a process for each takes a second."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from unittest.mock import patch

from mindyn.applications.comparison import isolation


def run_here(command, *, cwd, **options):
    """Take the place of `subprocess.run`."""
    with chdir(cwd):
        isolation.main()
    return subprocess.CompletedProcess((command, options), 0, "", "")


@contextmanager
def methods_in_this_process() -> Iterator[None]:
    """Run methods here, where they may read every file; tests/comparison/test_log_comparison.py tests processes."""
    with patch.object(isolation.subprocess, "run", run_here), patch.object(isolation, "_forbid_reading"):
        yield
