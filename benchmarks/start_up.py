"""Print the start-up of commands as a multiple of `python -c "import numpy"`, in processor time, with bytecode present.

Run `python -m benchmarks.start_up`. Runs alternate, and the fastest of each counts; ratios thus hardly depend on the
machine or its load. The tests count imported modules instead (tests/cli/test_start_up.py).
"""

from __future__ import annotations

import subprocess
import sys
from compileall import compile_dir
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory

import numpy as np

import mindyn
from mindyn.cli.main import COMMANDS
from mindyn.kernels.model import compile_model
from mindyn.logs.log import log_from_arrays
from mindyn.robots.loading import load_robot

REPETITIONS = 7
ROBOT = "puma560"


def measure_processor_time(words: list[str], folder: Path) -> float:
    """Return the processor time in seconds of a Python process."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, check=False)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_logs(folder: Path) -> None:
    """Write a log with its sidecar, one without, one whose sidecar is not confirmed, and one that fits the robot.

    The torques of the others fit no robot, so that the drafts try every correction.
    """
    t = np.arange(0, 4, 0.01)
    arm = load_robot(ROBOT)
    motion = np.column_stack([np.sin((k + 1) * t) for k in range(6)])
    for name in ("known", "bare", "draft"):
        log_from_arrays(arm, t, motion, motion).save(folder / f"{name}.csv", arm)
    speeds = np.arange(1, 7)
    qd, qdd = speeds * np.cos(t[:, None] * speeds), -speeds * speeds * motion
    tau = compile_model(arm).inverse_dynamics(motion, qd, qdd)
    log_from_arrays(arm, t, motion, tau).save(folder / "sound.csv", arm)
    for name in ("bare", "sound"):
        (folder / f"{name}.csv.toml").unlink()
    sidecar = folder / "draft.csv.toml"
    sidecar.write_text("draft = true\n" + sidecar.read_text())


def main() -> None:
    """Print a row for each command."""
    compile_dir(Path(mindyn.__file__).parent, quiet=1)  # bytecode is not written if PYTHONDONTWRITEBYTECODE is set
    program = ["-m", "mindyn"]
    cases = {"import numpy": ["-c", "import numpy"], "mindyn --help": [*program, "--help"]}
    cases |= {f"mindyn {name} --help": [*program, name, "--help"] for name in COMMANDS}
    lines = [f"check {ROBOT}", *(f"log {name}.csv {ROBOT}" for name in ("known", "bare", "sound"))]
    lines.append(f"identify {ROBOT} draft.csv")
    cases |= {f"mindyn {line}": [*program, *line.split()] for line in lines}
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_logs(folder)
        best = dict.fromkeys(cases, float("inf"))
        for _ in range(REPETITIONS):
            for case, words in cases.items():
                best[case] = min(best[case], measure_processor_time(words, folder))
    for case, seconds in best.items():
        print(f"| {case} | {seconds / best['import numpy']:.1f} |")


if __name__ == "__main__":
    main()
