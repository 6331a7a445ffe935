"""Run one long study by name: make study NAME=safe-motions [SECONDS=600].

A study records each case under build/ when it is done, so that a stopped run continues where it ended.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STUDIES = {
    "safe-motions": (
        "benchmarks/studies/safe_motions.py",
        "designed motions against the meshes of the original robot files",
    ),
}
"""Name: script and what it measures. A script accepts --seconds (0: until all cases are done)."""


def main(arguments: list[str]) -> int:
    """Run the named script with the remaining arguments; list the names if there is no such study."""
    name, *options = arguments or [""]
    if name not in STUDIES:
        print(f"no study {name!r}; the studies are:" if name else "make study NAME=..., one of:", file=sys.stderr)
        for known, (_, purpose) in STUDIES.items():
            print(f"  {known:16} {purpose}", file=sys.stderr)
        return 2
    return subprocess.run([sys.executable, ROOT / STUDIES[name][0], *options], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
