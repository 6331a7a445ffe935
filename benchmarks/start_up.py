"""Print the start-up of commands as a multiple of `python -c "import numpy"`, in processor time, with bytecode present.

    python -m benchmarks.start_up [--record]

Runs alternate, and the fastest of each counts; ratios thus hardly depend on the
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
from benchmarks.sections import Section, arguments, publish
from benchmarks.timing import this_machine
from mindyn.cli.main import COMMANDS
from mindyn.kernels.model import compile_model
from mindyn.logs.log import log_from_arrays
from mindyn.robots.loading import load_robot

ABOUT = (
    'Processor time of a new process with bytecode present, as a multiple of `python -c "import numpy"`; the fastest '
    "of seven runs that alternate. `known.csv` has a sidecar; that of `draft.csv` is a draft, which is an error. The "
    "torque of `bare.csv` fits no robot file, so that every correction is tried; that of `sound.csv` fits."
)
NOTE = (
    "Required: at most 2.5 for `--help`, 4.5 for `check` and `log`. A log without a sidecar exceeds it. NumPy takes "
    "1.0 of it and polars, which reads the file, about 1.2. CasADi and llvmlite take about 0.7, two traced equations "
    "of the robot 0.7, and 90 joint zeros on 300 rows, if the torque does not fit the robot file, 0.7."
)
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
    record = arguments(__doc__).parse_args().record
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
    multiples = {case: f"{seconds / best['import numpy']:.1f}" for case, seconds in best.items()}
    helps = sorted(float(multiple) for case, multiple in multiples.items() if case.endswith("--help"))
    table = [("command", "multiple"), ("`--help` of the program and of every command", f"{helps[0]} to {helps[-1]}")]
    table += [
        (f"`{case}`", multiples[case]) for case in multiples if case.startswith("mindyn") and "--help" not in case
    ]
    section = Section(
        "start_up", "Start-up of commands", "python -m benchmarks.start_up", this_machine(), [ABOUT], table, [NOTE]
    )
    publish(section, record=record)


if __name__ == "__main__":
    main()
