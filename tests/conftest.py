"""Configure the tests: one BLAS thread, no workers, no terminal width, and no tests whose packages are missing.

`MINDYN_TEST_SEEDS` says how many seeds of each law run: 5 by default, 3 in `make quick`, all in `make full`. Tests that
are marked `full` run only with all seeds, or if they are named.

Tests run in several processes, where BLAS threads of small products only wait for each other. COLUMNS of the user's
terminal must not affect the output. Files that import a missing package are not collected, as the header of the run
reports; tests that need one later are skipped.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("MINDYN_CORES", "1")
os.environ.pop("COLUMNS", None)

TESTS = Path(__file__).parent
OPTIONAL = ("cvxpy", "h5py", "jsonschema", "mcap", "moto", "mpmath", "mujoco", "pinocchio", "playwright", "rosbags")
MISSING = {name for name in OPTIONAL if find_spec(name) is None}


@cache
def find_missing_imports(path: Path) -> frozenset[str]:
    """Return the missing packages that a file imports at its top, directly or through test helpers."""
    missing: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        missing |= {name.split(".")[0] for name in names} & MISSING
        for name in names:
            for folder in (TESTS, path.parent):
                helper = folder / f"{name.replace('.', '/')}.py"
                if helper.is_file() and helper != path:
                    missing |= find_missing_imports(helper)
    return frozenset(missing)


# Helper modules are rewritten like tests, so that their asserts also work under `python -O`; imported modules cannot be
# (tools/mutants.py imports the package `coverage`, which has the name of a helper).
helpers = [path.relative_to(TESTS).with_suffix("") for path in TESTS.rglob("*.py") if not path.name.startswith("test_")]
pytest.register_assert_rewrite(
    *{name for path in helpers for name in (path.name, ".".join(path.parts))} - {"conftest", *sys.modules}
)

test_files = TESTS.rglob("test_*.py") if MISSING else ()
collect_ignore = [str(path) for path in test_files if find_missing_imports(path)]


SEEDS = os.environ.get("MINDYN_TEST_SEEDS", "5")
SEED_NAMES = {"case", "chunk", "seed", "start"}
"""Parameters of tests whose values are seeds of random robots, logs or files."""


LONG_FILES = {
    name: number
    for number, name in enumerate(
        (
            "contracts/test_repository.py",
            "identification/test_servo_arms.py",
            "cli/test_formats_and_commands.py",
            "step_tests/test_step_by_step.py",
            "excitation/test_designed_motions.py",
            "excitation/test_designed_loops.py",
            "excitation/test_safe_motions.py",
            "laws/test_closed_linkages.py",
            "identification/test_wrong_logs.py",
            "excitation/test_whole_turns.py",
            "excitation/test_volumes.py",
            "identification/test_phases.py",
            "estimators/test_constant_torques.py",
            "step_tests/test_step_loops.py",
            "kernels/test_values.py",
            "estimators/test_recovery.py",
            "logs/test_every_format.py",
            "laws/test_loops.py",
            "identification/test_identified_intervals.py",
            "excitation/test_servo_motions.py",
            "cli/test_first_screens.py",
        )
    )
}
"""Files that take ten seconds or more, the longest first. They begin first: no process runs one alone at the end."""


def order_files(items):
    """Put the items of long files first, then those of files with many tests; a file's tests stay in their order."""
    count = Counter(item.path for item in items)
    place = {path: LONG_FILES.get(path.relative_to(TESTS).as_posix(), len(LONG_FILES)) for path in count}
    items.sort(key=lambda item: (place[item.path], -count[item.path], str(item.path)))


def pytest_collection_modifyitems(config, items):
    """Keep `SEEDS` evenly spread seeds of each test, and no test marked `full`; all, if a test is named with its
    parameters.
    """
    if hasattr(config, "workerinput"):  # one of several processes
        order_files(items)
    if SEEDS == "all" or any("[" in argument for argument in config.args):
        return
    seeds: dict[tuple[str, str], dict[int, None]] = {}
    for item in items:
        for name, value in _seeds_of(item):
            seeds.setdefault((item.nodeid.partition("[")[0], name), {})[value] = None
    kept = {key: _spread(list(values), int(SEEDS)) for key, values in seeds.items()}
    dropped = [
        item
        for item in items
        if any(value not in kept[item.nodeid.partition("[")[0], name] for name, value in _seeds_of(item))
        or (item.get_closest_marker("full") and not any("::" in argument for argument in config.args))
    ]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        left = set(map(id, dropped))
        items[:] = [item for item in items if id(item) not in left]


def _seeds_of(item) -> list[tuple[str, int]]:
    given = getattr(item, "callspec", None)
    named = given.params.items() if given else ()
    return [(name, value) for name, value in named if name in SEED_NAMES and type(value) is int]


def _spread(values: list[int], count: int) -> set[int]:
    """Return the first, the last, and evenly spread values between them."""
    if len(values) <= count:
        return set(values)
    return {values[k * (len(values) - 1) // (count - 1)] for k in range(count)}


def pytest_report_header() -> list[str]:
    names = ", ".join(sorted(MISSING))
    return [f"{len(collect_ignore)} test files are not collected; missing packages: {names}"] if MISSING else []


def _skip_if_missing():
    """Run a test; skip it if it needs a missing package. If all packages are installed, skip nothing."""
    from mindyn.foundation.errors import MissingExtraError  # not above: NumPy reads the threads when it is imported

    try:
        return (yield)
    except (ModuleNotFoundError, MissingExtraError) as error:
        if MISSING and (isinstance(error, MissingExtraError) or (error.name or "").split(".")[0] in MISSING):
            pytest.skip(f"without {', '.join(sorted(MISSING))}: {error}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    return (yield from _skip_if_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    return (yield from _skip_if_missing())
