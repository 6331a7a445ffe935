"""One BLAS thread: tests run in several processes, and threads of small products only wait for each other.

No terminal: whoever runs the tests may have stated the columns of one. Files whose oracle is not installed are left
out, and the header of the run says which; tests that ask for one on the way are skipped.
"""

from __future__ import annotations

import ast
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop("COLUMNS", None)

TESTS = Path(__file__).parent
OPTIONAL = ("cvxpy", "h5py", "jsonschema", "mcap", "moto", "mpmath", "mujoco", "pinocchio", "playwright", "rosbags")
MISSING = {name for name in OPTIONAL if find_spec(name) is None}


@cache
def needed(path: Path) -> frozenset[str]:
    """Missing packages that a file imports at its top, itself or through helpers of the tests."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        found |= {name.split(".")[0] for name in names} & MISSING
        for name in names:
            for folder in (TESTS, path.parent):
                helper = folder / f"{name.replace('.', '/')}.py"
                if helper.is_file() and helper != path:
                    found |= needed(helper)
    return frozenset(found)


# Modules that tests import are rewritten like tests: their asserts hold under `python -O` too.
helpers = [path.relative_to(TESTS).with_suffix("") for path in TESTS.rglob("*.py") if not path.name.startswith("test_")]
pytest.register_assert_rewrite(*{name for path in helpers for name in (path.name, ".".join(path.parts))} - {"conftest"})

left_out = {path: needed(path) for path in TESTS.rglob("test_*.py") if MISSING and needed(path)}
collect_ignore = [str(path) for path in left_out]


def pytest_report_header() -> list[str]:
    return (
        [f"{len(left_out)} files of tests left out: not installed are {', '.join(sorted(MISSING))}"] if MISSING else []
    )


def _skipped_where_missing():
    """Runs a test; one that asks on the way for a package that is not here is skipped. Where all are, nothing is."""
    from mindyn.errors import MissingExtraError  # not above: NumPy reads the threads when it is imported

    try:
        return (yield)
    except (ModuleNotFoundError, MissingExtraError) as error:
        if MISSING and (isinstance(error, MissingExtraError) or (error.name or "").split(".")[0] in MISSING):
            pytest.skip(f"without {', '.join(sorted(MISSING))}: {error}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    return (yield from _skipped_where_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    return (yield from _skipped_where_missing())
