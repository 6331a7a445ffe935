"""Count the files that a reader of `identify` visits: files with a function that a two-joint CSV calls.

    python tools/trace_path.py            files, changes of package, and returns to packages already left
    python tools/trace_path.py --given    with all settings and the estimator given: nothing is selected
    python tools/trace_path.py --all      with the packages that only compute
    python tools/trace_path.py --list     the files too, in the order of first calls

Without `--all`, kernels, equations, parameters, algebra and robots are not counted. Everything runs in one process.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from types import FrameType

import numpy as np

os.environ["MINDYN_CORES"] = "1"  # a profile does not see what workers call

import mindyn

SOURCE = Path(mindyn.__file__).parent
EXCLUDED = ("kernels", "equations", "parameters", "algebra", "robots", "numerics")
SIDECAR = """side = "joint"
[columns]
time = "t"
position = ["q1", "q2"]
torque = ["tau1", "tau2"]
[units]
time = "s"
position = "rad"
torque = "N m"
"""


def write_log(folder: Path, robot: mindyn.Robot) -> Path:
    """Write a CSV of 20 s and its sidecar file."""
    t = np.arange(2000) / 100
    q = np.column_stack([np.sin(t) + 0.3 * np.sin(3.1 * t), np.cos(1.7 * t)])
    qd, qdd = np.gradient(q, t, axis=0), np.gradient(np.gradient(q, t, axis=0), t, axis=0)
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    tau = tau + 0.01 * tau.std(axis=0) * np.random.default_rng(0).standard_normal(tau.shape)
    path = folder / "run.csv"
    np.savetxt(path, np.column_stack([t, q, tau]), delimiter=",", header="t,q1,q2,tau1,tau2", comments="")
    Path(f"{path}.toml").write_text(SIDECAR)
    return path


def identify_given(path: Path, robot: mindyn.Robot) -> None:
    """Identify with all settings and the estimator given."""
    conditioning = mindyn.Conditioning(100.0, "uniform", motion_hz=20.0, delay_s=0.0, edge_s=0.1)
    settings = mindyn.EquationSettings(conditioning, 8.0, 3, mindyn.Friction("tanh", 0.05))
    mindyn.identify(robot, mindyn.read_log(path, robot), mindyn.LeastSquares(), settings)


def trace_calls(path: Path, robot: mindyn.Robot, *, is_given: bool) -> list[tuple[str, str]]:
    """Return (file, function) of every function called under `SOURCE`, in the order of first calls."""
    called: dict[tuple[str, str], None] = {}

    def see(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Bodies of modules and classes run as calls too, when they are imported: they are not optimised code.
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(str(SOURCE)):
            called[str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname] = None

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        if is_given:
            identify_given(path, robot)
        else:
            mindyn.identify(robot, mindyn.read_log(path, robot))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(called)


def count_returns(packages: list[str]) -> int:
    """Return how often a list of packages comes back to a package that it has left."""
    left: set[str] = set()
    returns = 0
    for before, after in pairwise(packages):
        if after != before:
            left.add(before)
            returns += after in left
    return returns


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option in ("--given", "--all", "--list"):
        parser.add_argument(option, action="store_true")
    chosen = parser.parse_args()
    robot = mindyn.load_robot("planar2")
    with tempfile.TemporaryDirectory() as folder:
        calls = trace_calls(write_log(Path(folder), robot), robot, is_given=chosen.given)
    if not chosen.all:
        calls = [item for item in calls if item[0].split("/")[0] not in EXCLUDED]
    files = list(dict.fromkeys(file for file, _ in calls))
    packages = [file.split("/")[0] for file in files]
    changes = sum(item != other for item, other in pairwise(packages))
    returns = count_returns(packages)
    print(f"{len(files)} files, {changes} changes of package in the order of first visits, {returns} returns")
    for file in files if chosen.list else ():
        print(file)


if __name__ == "__main__":
    main()
