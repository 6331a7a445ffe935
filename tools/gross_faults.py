"""Apply gross faults to a copy of the source, and name the quick test that sees each.

    python tools/gross_faults.py                       each fault alone, with tests/quick
    python tools/gross_faults.py payload-mass urdf-mass  these faults alone
    python tools/gross_faults.py --together            all (or the named) faults in one copy
    python tools/gross_faults.py --whole               with all of `make quick`, also when tests/quick sees nothing

A fault is a change of one place that spoils what the package is for: a factor of ten, a wrong sign, a check that always
agrees. `gross_faults.toml` lists them, at least one for each package. Tests import the copy in `build/gross_faults` by
PYTHONPATH; no source file is modified. The exit code is 1 if no test sees a fault.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".toml")
BUILD = ROOT / "build" / "gross_faults"
QUICK = "tests/quick"
MOST_TESTS = 1
"""Number of tests after which a run ends: the first one that sees the fault."""


@dataclass(frozen=True, slots=True)
class GrossFault:
    """A fault: its name, the file below src/mindyn, and the text before and after, which the file has once."""

    name: str
    file: str
    before: str
    after: str

    @property
    def package(self) -> str:
        """Return the package that the fault is in."""
        return self.file.partition("/")[0]

    def apply_to(self, source: Path) -> None:
        """Replace the text in a source tree; raise `ValueError` if it is not there exactly once."""
        path = source / "mindyn" / self.file
        text = path.read_text()
        if text.count(self.before) != 1:
            raise ValueError(
                f"{self.name}: {self.file} has {text.count(self.before)} times {self.before!r}; correct {TABLE.name}"
            )
        path.write_text(text.replace(self.before, self.after))


def read_faults() -> dict[str, GrossFault]:
    """Read the faults of `gross_faults.toml` by name."""
    faults = [GrossFault(name, **entry) for name, entry in tomllib.loads(TABLE.read_text()).items()]
    return {fault.name: fault for fault in faults}


def run_tests(faults: Sequence[GrossFault], command: Sequence[str], options: str) -> list[str]:
    """Run a command with a copy of the source that has the faults; return the tests that fail."""
    source = BUILD / "src"
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    for fault in faults:
        fault.apply_to(source)
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    paths = {"PYTHONPATH": str(source), "MINDYN_CACHE_DIR": str(BUILD / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    env = os.environ | threads | paths | {"PYTEST_ADDOPTS": options}
    result = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    tests = re.findall(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    if result.returncode and not tests:
        raise RuntimeError(f"{' '.join(command)} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return list(dict.fromkeys(tests))


def find_tests(faults: Sequence[GrossFault], *, whole: bool) -> list[str]:
    """Return tests that see the faults: of tests/quick, or if `whole` and none is there, of `make quick`."""
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", QUICK]
    tests = run_tests(faults, pytest, f"--tb=no --maxfail={MOST_TESTS}")
    if not tests and whole:
        tests = run_tests(faults, ["make", "quick"], f"--tb=no --maxfail={MOST_TESTS}")
    return tests


def main(arguments: Sequence[str]) -> int:
    """Apply the named faults, or all; print the test that sees each; return 1 if one is not seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="faults of gross_faults.toml; default: all")
    parser.add_argument("--together", action="store_true", help="apply all faults at once")
    parser.add_argument("--whole", action="store_true", help="run make quick if tests/quick sees nothing")
    given = parser.parse_args(arguments)
    known = read_faults()
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"no fault {', '.join(map(repr, unknown))}; the faults are: {', '.join(known)}")
    chosen = [known[name] for name in given.names] or list(known.values())
    cases = [chosen] if given.together else [[fault] for fault in chosen]
    missed = 0
    for case in cases:
        begin = time.time()
        tests = find_tests(case, whole=given.whole)
        missed += not tests
        name = case[0].name if len(case) == 1 else f"{len(case)} faults"
        print(f"{name:28} {time.time() - begin:4.0f} s  {', '.join(tests) or 'NOT SEEN'}", flush=True)
    print(f"{len(cases) - missed} of {len(cases)} are seen")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
