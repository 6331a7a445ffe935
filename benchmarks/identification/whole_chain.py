"""Run the commands of docs/guides/whole-chain.md for any robots.

    python -m benchmarks.identification.whole_chain panda path/to/ur5.urdf [--quick]

--quick  a short search for the motion, and no report: for tests

Missing limits of a robot file are assumed (2 rad/s, 100 N m). The exit code is 1 if a command fails.
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


def read_commands(robot: str, quick: bool) -> list[list[str]]:
    """Return the commands of the page for the robot."""
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [shlex.split(line) for line in block.splitlines() if line.startswith("mindyn ")]
    created = [[robot if word == "arm.urdf" else word for word in line] for line in lines]
    more = {"excite": ["--starts", "1", "--deadline-s", "12"], "identify": ["--no-report"]} if quick else {}
    return [[*line, *more.get(line[1], [])] for line in created]


def list_input_files(robot: mindyn.Robot) -> dict[str, str]:
    """Return the files that the commands read: name and text."""
    lacking = [joint for joint in robot.joints if not (joint.limits.velocity and joint.limits.effort)]
    cell = "velocity = 2.0\neffort = 100.0\n" if lacking else ""
    drive = '[[drive]]\njoint = "{}"\nratio = 1.0\nrotor_inertia = 0.05\nviscous = 1.0\ncoulomb = 0.8\nside = "joint"\n'
    drives = "" if robot.drives else "".join(drive.format(joint.name) for joint in robot.joints)
    return {"cell.toml": cell, "drives.toml": drives, "sensors.toml": SENSORS}


def run_command(words: list[str], folder: Path) -> tuple[int, str]:
    """Run `mindyn words...` in a folder; return the exit code and stderr."""
    program = [sys.executable, "-c", "from mindyn.cli.main import run; run()", *words]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def run(
    robot: str, quick: bool, folder: Path, start: Callable[[list[str], Path], tuple[int, str]] = run_command
) -> int:
    """Run the commands in a folder; return the number of failed commands."""
    for name, text in list_input_files(mindyn.load_robot(robot)).items():
        (folder / name).write_text(text)
    failed = 0
    for line in read_commands(robot, quick):
        code, message = start(line[1:], folder)
        allowed = (0, CHECKED_NO) if line[1] == "check" else (0,)
        if code not in allowed:
            failed += 1
            print(f"{shlex.join(line)} ended with {code}:\n{message}")
    return failed


def main() -> int:
    """Run the commands for every given robot."""
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
