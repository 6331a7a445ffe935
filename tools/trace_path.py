"""Count the files that a reader of `identify` visits: files with a function that a two-joint CSV calls.

python tools/trace_path.py            the number of files, and of changes of package in the order of first calls
python tools/trace_path.py --list     the files too, in that order

Kernels, equations, parameters, algebra and robots are not counted, because they only compute.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from types import FrameType

import numpy as np

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


def trace_calls(path: Path, robot: mindyn.Robot) -> list[tuple[str, str]]:
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
        mindyn.identify(robot, mindyn.read_log(path, robot))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return [item for item in called if item[0].split("/")[0] not in EXCLUDED]


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    robot = mindyn.load_robot("planar2")
    with tempfile.TemporaryDirectory() as folder:
        calls = trace_calls(write_log(Path(folder), robot), robot)
    files = list(dict.fromkeys(file for file, _ in calls))
    packages = [file.split("/")[0] for file, _ in calls]
    changes = sum(item != other for item, other in pairwise(packages))
    print(f"{len(files)} files, {changes} changes of package in the order of first calls")
    for file in files if given.list else ():
        print(file)


if __name__ == "__main__":
    main()
