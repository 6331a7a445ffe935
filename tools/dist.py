"""Build sdist and wheel from a clean copy of the last commit, twice, and run the wheel in an empty environment.

Both builds must have the same bytes, `twine check` must accept them, the sdist must have every committed file, the
workflows must pass zizmor, the repository must pass sp-repo-review, and `mindyn` must run without other packages.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def run(*command: object, **options: object) -> str:
    """Run a command that must succeed; return its output."""
    done = subprocess.run([*map(str, command)], check=True, text=True, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
    return str(done.stdout)


def build(folder: Path) -> dict[str, str]:
    """Build from a clean copy of the last commit; return the names and hashes of the files."""
    copy, out = folder / "copy", folder / "out"
    copy.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x", "-C", copy], input=archive, check=True)
    stamp = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    run(sys.executable, "-m", "build", "--outdir", out, copy, env=os.environ | {"SOURCE_DATE_EPOCH": stamp})
    return {item.name: hashlib.sha256(item.read_bytes()).hexdigest() for item in sorted(out.iterdir())}


def check_repository() -> None:
    """Run the checks of a release that need no build."""
    tools = Path(sys.executable).parent
    for command in (
        ["check-manifest", ROOT],
        ["zizmor", "--offline", "--quiet", ROOT / ".github"],
        ["sp-repo-review", ROOT],
    ):
        run(tools / str(command[0]), *command[1:])
        print(f"{command[0]}: ok")


def size_of(folder: Path) -> float:
    """Return the size of a folder in MB."""
    return sum(item.stat().st_size for item in folder.rglob("*") if item.is_file() and not item.is_symlink()) / 1e6


def try_wheel(wheel: Path, folder: Path, *, demo: bool) -> None:
    """Install only the wheel, and run it outside the source folder."""
    home = folder / "empty"
    venv.create(home, with_pip=True)
    binaries = home / ("Scripts" if os.name == "nt" else "bin")
    before = size_of(home)
    run(binaries / "python", "-m", "pip", "install", "--quiet", wheel)
    print(f"a clean environment takes {size_of(home) - before:.0f} MB more with {wheel.name}")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    clean["MINDYN_CACHE_DIR"] = str(folder / "cache")
    for command in (["--version"], ["base", "puma560"], ["robots"], *([["demo", "--out", "demo"]] if demo else [])):
        run(binaries / "mindyn", *command, cwd=folder, env=clean)
        print(f"mindyn {' '.join(command)}: ok")
    run(binaries / "python", "-m", "pip", "check")


def main() -> int:
    """Build, compare, check and run; return 1 if the builds differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", action="store_true", help="also run the demo in the empty environment")
    parser.add_argument("--no-install", action="store_true", help="only build and compare")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mindyn-dist-") as name:
        folder = Path(name)
        first, second = build(folder / "one"), build(folder / "two")
        if first != second:
            print(f"the builds differ:\n{first}\n{second}")
            return 1
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(folder / "one" / "out", DIST)
        print(run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir()))
        check_repository()
        for file, digest in first.items():
            print(f"{digest}  {file}  {(DIST / file).stat().st_size / 1e3:.0f} kB")
        if not given.no_install:
            (wheel,) = DIST.glob("*.whl")
            try_wheel(wheel, folder, demo=given.demo)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
