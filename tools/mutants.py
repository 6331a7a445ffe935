"""Find single faults (mutants) of the code that no test detects.

    python tools/mutants.py map tests/regression tests/estimators ...   record which test runs which line, and its time
    python tools/mutants.py run --count 240 --seed 1                    apply one fault at a time and run its tests
    python tools/mutants.py list                                        list the surviving mutants

All commands write to `build/mutants` and continue where they were stopped. A mutant is caught if a quick test that runs
its line fails or takes many times its processor time. Mutants that survive the first tests are run with more tests. The
sample depends only on the seed and on the text of each mutant, so a change of other code does not change it. Mutants
that no result can show are excluded (`faults.py` lists them). Source files must not change during a run. Tests run in
forked processes that have imported all modules, in which the functions of the mutated module get new code. Faults
outside functions (constants, defaults) are tested in processes that import the mutated module. No source file is
modified.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from faults import Mutant, MutantModule, compile_mutant, functions_by_file, mutants_of, replace_code, sample_mutants
from lines_of_tests import (
    BUILD,
    LAYERS,
    NOT_RUN,
    ROOT,
    SOURCE,
    import_everything,
    import_outside,
    map_lines,
    read_map,
    run_in_fork,
)

MOST_TESTS = 40
MOST_SECONDS = 3.0
"""Total time of the tests of a mutant, measured without it; at most `MOST_OF_FILE` tests of one file come first."""
MOST_OF_FILE = 8
WALL_TIME_RATIO = 8
"""Limit of wall time relative to the limit of processor time: the machine may be busy."""
PASSES = 3
TEST_GROWTH = 4
"""Factor by which the number and the time of the tests grow from one pass to the next."""
SEARCHED_LINES = 8
"""Number of previous lines to search if no test is known to run a line."""


@cache
def modules_imported_by(file: str) -> frozenset[str]:
    """Return the modules of the package that a test file imports."""
    return frozenset(re.findall(r"^from (mindyn[.\w]*) import", (ROOT / file).read_text(), re.MULTILINE))


def find_tests_near(tests_by_line: dict[int, set[str]], line: int) -> set[str]:
    """Return the tests of a line, or of the closest previous line that has tests (for long statements and new
    lines).
    """
    return next(
        (tests_by_line[k] for k in range(line, max(0, line - SEARCHED_LINES), -1) if tests_by_line.get(k)), set()
    )


def select_tests(
    mutant: Mutant,
    seconds: dict[str, float],
    lines: dict[str, dict[int, set[str]]],
    tried: Collection[str] = (),
    more: int = 1,
) -> list[str]:
    """Return the quickest tests that run the line, first from test files that import the module or have its name.

    For lines that run on import, and lines that no test is known to run (such as those of moved files), also take the
    tests whose file imports the module.

    tried  tests that the mutant has survived
    more   number and time of the tests relative to the first pass
    """
    tests_by_line = lines.get(mutant.file, {})
    module = ".".join(Path(mutant.file).with_suffix("").parts[1:])
    tests = find_tests_near(tests_by_line, mutant.line) if mutant.in_function else set().union(*tests_by_line.values())
    if not (mutant.in_function and tests):
        tests = tests | {test for test in seconds if module in modules_imported_by(test.partition("::")[0])}

    def of_module(test: str) -> bool:
        file = test.partition("::")[0]
        return module in modules_imported_by(file) or Path(mutant.file).stem in file

    waiting = sorted(tests - set(tried), key=lambda item: (not of_module(item), seconds[item], item))
    of_file: Counter[str] = Counter()
    first, rest = [], []
    for test in waiting:
        of_file[test.partition("::")[0]] += 1
        near = of_file[test.partition("::")[0]] <= MOST_OF_FILE * (3 if of_module(test) else 1)
        (first if near else rest).append(test)
    chosen, spent = [], 0.0
    for test in [*first, *rest]:
        if not chosen or (len(chosen) < more * MOST_TESTS and spent + seconds[test] <= more * MOST_SECONDS):
            chosen.append(test)
            spent += seconds[test]
    return sorted(chosen, key=lambda entry: (seconds[entry], entry))


class TestSession:
    """A pytest session that collects the tests of some files and runs selected tests in forked processes."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __call__(self, work: Callable[[TestSession], None]) -> None:
        """Collect the tests, then call `work`."""
        import pytest

        self.work = work
        how = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
        pytest.main([*how, *self.files], plugins=[self])

    def pytest_runtestloop(self, session: Any) -> bool:
        """Call `work` instead of running all tests."""
        self.items = {item.nodeid: item for item in session.items}
        self.functions = functions_by_file()
        gc.freeze()  # garbage collection in forked processes then copies no shared memory
        self.work(self)
        return True

    def run(self, tests: list[str]) -> int:
        """Return 1 as soon as a test fails, otherwise 0; called in a forked process."""
        from _pytest.runner import runtestprotocol

        items = [self.items[test] for test in tests]
        try:
            for item, after in zip(items, [*items[1:], None], strict=True):
                if any(report.failed for report in runtestprotocol(item, log=False, nextitem=after)):
                    return 1
        except BaseException:
            return 1
        return 0


def find_outcome(mutant: Mutant, tests: list[str], processor_s: float, collected: TestSession | None) -> str:
    """Run the tests in a forked process; return "caught", "late" or "survived"."""
    path = ROOT / mutant.file

    def run_tests() -> int:
        code = compile_mutant(mutant)
        if collected is not None:
            replace_code(collected.functions[str(path)], code)
            return collected.run(tests)
        import pytest

        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        sys.meta_path.insert(0, MutantModule(name, path, code))
        return int(pytest.main(["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", *tests]))

    code = run_in_fork(run_tests, processor_s, round(WALL_TIME_RATIO * processor_s))
    if code == NOT_RUN:
        raise RuntimeError(f"{mutant.key} was not run by any test: is mindyn imported from {SOURCE}?")
    if code in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM):
        return "late"
    return "survived" if code == 0 else "caught"


def known_outcomes() -> dict[str, dict[str, Any]]:
    """Read the outcomes of earlier runs; the last one counts."""
    record = BUILD / "outcomes.jsonl"
    read = map(json.loads, record.read_text().splitlines()) if record.exists() else ()
    return {item["key"]: item for item in read}


def list_mutants(layers: Collection[str]) -> list[Mutant]:
    """List the mutants of all files of some packages, folders or files, such as "logs" or "logs/units.py"."""
    places = [SOURCE / "mindyn" / layer for layer in layers]
    files = [path for place in places for path in ([place] if place.suffix else sorted(place.rglob("*.py")))]
    return [mutant for path in files for mutant in mutants_of(path)]


def run(count: int, seed: int, layers: list[str], again: bool, passes: int, share: tuple[int, int]) -> None:
    """Sample mutants and write the outcome of each; survivors are run with more tests in the next pass.

    share  (k, n): process k of n, each of which runs every n-th mutant
    """
    import_outside()
    os.chdir(ROOT)
    seconds, lines = read_map()
    chosen = sample_mutants(list_mutants(layers), count, seed)
    (BUILD / "sample.json").write_text(json.dumps([item.key for item in chosen]))
    known = known_outcomes()
    waiting = [item for item in chosen[share[0] :: share[1]] if again or item.key not in known]
    for number in range(passes):
        known = known_outcomes()
        waiting = [item for item in waiting if known.get(item.key, {}).get("outcome") not in ("caught", "late")]
        choices = {
            item.key: select_tests(item, seconds, lines, known.get(item.key, {}).get("tests", ()), TEST_GROWTH**number)
            for item in waiting
        }
        run_once([item for item in waiting if choices[item.key] or item.key not in known], choices, seconds)


def run_once(waiting: list[Mutant], choices: dict[str, list[str]], seconds: dict[str, float]) -> None:
    """Run the selected tests of each mutant; those in functions run in a process that has imported everything."""
    child = os.fork()
    if child == 0:
        import_everything()
        inner = [item for item in waiting if item.in_function]
        files = sorted({test.partition("::")[0] for item in inner for test in choices[item.key]})
        TestSession(files)(lambda collected: run_tests(inner, choices, seconds, collected))
        os._exit(0)
    os.waitpid(child, 0)
    run_tests([item for item in waiting if not item.in_function], choices, seconds, None)


def run_tests(
    mutants: list[Mutant], choices: dict[str, list[str]], seconds: dict[str, float], collected: TestSession | None
) -> None:
    """Run the tests of one mutant after the other and write the outcomes."""
    known = known_outcomes()
    for number, mutant in enumerate(mutants, 1):
        survived, tests = known.get(mutant.key, {}).get("tests", []), choices[mutant.key]
        if collected is not None:
            tests = [test for test in tests if test in collected.items]
        allowed_s = 10 + 4 * sum(seconds[test] for test in tests)
        result = find_outcome(mutant, tests, allowed_s, collected) if tests else "survived" if survived else "not run"
        with (BUILD / "outcomes.jsonl").open("a") as file:
            tried = [*survived, *tests]
            file.write(json.dumps({"key": mutant.key, **asdict(mutant), "outcome": result, "tests": tried}) + "\n")
        shown = f"{mutant.file}:{mutant.line}  {mutant.before}  ->  {mutant.after}"
        sys.stderr.write(f"{number}/{len(mutants)} {result:9} {shown}\n")
        sys.stderr.flush()


def print_survivors() -> None:
    """Print counts and survivors of the last sample."""
    known = known_outcomes()
    sampled = [known[key] for key in json.loads((BUILD / "sample.json").read_text()) if key in known]
    caught = sum(item["outcome"] in ("caught", "late") for item in sampled)
    print(f"{len(sampled)} mutants, {caught} caught ({caught / max(1, len(sampled)):.1%})")
    every = list_mutants(LAYERS)
    excluded = Counter(item.excluded for item in every if item.excluded)
    print(f"{sum(excluded.values())} of {len(every)} mutants are excluded from the sample:", end=" ")
    print(", ".join(f"{reason} ({count})" for reason, count in excluded.most_common()))
    for item in sorted(sampled, key=lambda entry: (entry["file"], entry["line"])):
        if item["outcome"] != "caught":
            print(f"{item['outcome']:9} {item['file']}:{item['line']}  {item['before']}  ->  {item['after']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("map").add_argument("tests", nargs="+")
    entry = commands.add_parser("run")
    entry.add_argument("--count", type=int, default=240)
    entry.add_argument("--seed", type=int, default=1)
    entry.add_argument("--layers", nargs="+", default=list(LAYERS), help="packages, folders or files; default: all")
    entry.add_argument("--again", action="store_true", help="run survivors of earlier runs again")
    entry.add_argument(
        "--passes", type=int, default=PASSES, help="number of passes, each with more tests for survivors"
    )
    entry.add_argument("--share", type=int, nargs=2, default=(0, 1), help="K N: run part K (from 0) of N")
    commands.add_parser("list")
    given = parser.parse_args()
    if given.command == "map":
        map_lines(given.tests)
    elif given.command == "run":
        run(given.count, given.seed, given.layers, given.again, given.passes, tuple(given.share))
    else:
        print_survivors()
