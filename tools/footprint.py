"""Print the size of all installed packages, and the packages that each first command of mindyn imports.

python tools/footprint.py                    this environment
python tools/footprint.py clean/bin/python   another environment with mindyn
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = (
    ("--help",),
    ("--version",),
    ("robots",),
    ("base", "puma560"),
    ("doctor",),
    ("count", "puma560"),
    ("simulate", "planar2", "--seconds", "6", "--out", "run.csv"),
    ("log", "run.csv", "planar2"),
    ("identify", "planar2", "run.csv", "--out", "run"),
    ("check", "run"),
    ("export", "run", "--to", "urdf", "--out", "arm.urdf"),
)
"""First commands, in an order in which each finds what it reads."""
HEAVY = ("numpy", "scipy", "polars", "casadi", "llvmlite", "clarabel", "pydantic", "rich", "typer")
SIZES = """
import json
from importlib.metadata import distributions
sizes = {}
for one in distributions():
    files = [one.locate_file(file) for file in one.files or ()]
    sizes[one.name] = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
print(json.dumps(sizes))
"""
IMPORTS = """
import io, json, sys, time
from contextlib import redirect_stdout, redirect_stderr
begin = time.perf_counter()
from mindyn.__main__ import main
sys.argv = ["mindyn", *sys.argv[1:]]
with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
    try:
        main()
    except SystemExit as ended:
        if ended.code not in (None, 0, 3):  # 3: findings
            raise
taken = time.perf_counter() - begin
print(json.dumps([sorted({name.split(".")[0] for name in sys.modules}), taken]))
"""


def measure(python: str, code: str, *arguments: str, folder: str | None = None) -> object:
    """Run a program and return the JSON that it prints."""
    done = subprocess.run([python, "-c", code, *arguments], check=True, capture_output=True, text=True, cwd=folder)
    return json.loads(done.stdout.splitlines()[-1])


def main(python: str) -> None:
    """Print both tables."""
    python = str(Path(python).absolute())  # commands run in another folder; links are not resolved
    sizes = measure(python, SIZES)
    assert isinstance(sizes, dict)
    print(f"{sum(sizes.values()):7.0f} MB in {len(sizes)} packages")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:12]:
        print(f"{size:7.1f} MB  {name}")
    with tempfile.TemporaryDirectory(prefix="mindyn-footprint-") as folder:
        for command in COMMANDS:
            modules, taken = measure(python, IMPORTS, *command, folder=folder)  # type: ignore[misc]
            loaded = ", ".join(name for name in HEAVY if name in modules)
            print(f"mindyn {command[0]:10} {taken:5.2f} s  imports: {loaded}")


if __name__ == "__main__":
    main(*sys.argv[1:] or [sys.executable])
