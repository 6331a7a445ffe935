"""The commands of docs/guides/whole-chain.md for any robots, as they stand there.

    python -m benchmarks.identification.whole_chain panda path/to/ur5.urdf [--quick]

--quick  a motion that is hardly searched for, and no report: for tests

Limits that a robot's file does not state are assumed (2 rad/s, 100 N m). Ends with 1 where a command fails.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import mindyn

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "whole-chain.md"
CHECKED_NO = 3
"""Exit code of `mindyn check` where the answer is no."""
SENSORS = 'rate_hz = 100.0\nposition_noise = 1e-5\ntorque_noise = 0.3\nnoise_side = "joint"\n'


def commands(robot: str, quick: bool) -> list[list[str]]:
    """The lines of the page with the robot in place of arm.urdf."""
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [shlex.split(line) for line in block.splitlines() if line.startswith("mindyn ")]
    created = [[robot if word == "arm.urdf" else word for word in line] for line in lines]
    more = {"excite": ["--starts", "1", "--deadline-s", "3"], "identify": ["--no-report"]} if quick else {}
    return [[*line, *more.get(line[1], [])] for line in created]


def files(robot: mindyn.Robot) -> dict[str, str]:
    """What the lines take from the folder that they run in."""
    lacking = [joint for joint in robot.joints if not (joint.limits.velocity and joint.limits.effort)]
    cell = "velocity = 2.0\neffort = 100.0\n" if lacking else ""
    drive = '[[drive]]\njoint = "{}"\nratio = 1.0\nrotor_inertia = 0.05\nviscous = 1.0\ncoulomb = 0.8\nside = "joint"\n'
    drives = "" if robot.drives else "".join(drive.format(joint.name) for joint in robot.joints)
    return {"cell.toml": cell, "drives.toml": drives, "sensors.toml": SENSORS}


def started(words: list[str], folder: Path) -> tuple[int, str]:
    """Exit code and stderr of `mindyn words...` in a folder."""
    program = [sys.executable, "-c", "from mindyn.cli.main import run; run()", *words]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def run(robot: str, quick: bool, folder: Path, start: Callable[[list[str], Path], tuple[int, str]] = started) -> int:
    """Run the chain in a folder; how many of its commands failed."""
    for name, text in files(mindyn.load_robot(robot)).items():
        (folder / name).write_text(text)
    failed = 0
    for line in commands(robot, quick):
        code, message = start(line[1:], folder)
        allowed = (0, CHECKED_NO) if line[1] == "check" else (0,)
        if code not in allowed:
            failed += 1
            print(f"{shlex.join(line)} ended with {code}:\n{message}")
    return failed


def main() -> int:
    """Run the chain for every robot that is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="+")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    failed = 0
    for robot in given.robots:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(robot)
            count = run(str(path.resolve()) if path.exists() else robot, given.quick, Path(folder))
        print(f"{robot}: {'all commands' if not count else f'{count} commands failed'}")
        failed += count
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
