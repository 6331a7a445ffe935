"""Compare the processor time to compile the kernels of a long arm with another version, and to count operations.

    python -m benchmarks.kernels.compile_cost --before CHECKOUT [--joints 60] [equation ...]

The arm is that of `joints.py`. Each equation is traced and compiled for batches in a new process, with the sources of
this checkout and then of the other; the default is all equations that both have, which takes some minutes. Caches are
not read. `counting` is `operation_counts` of the model of 20 joints, compared with its compilation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
EQUATIONS = (
    *("inverse_dynamics", "inertia_matrix", "bias", "gravity", "coriolis", "forward_dynamics"),
    *("standard_regressor", "regressor", "energy", "energy_regressor"),
)
COUNTED = 20
"""Joints of the arm whose operations are counted."""
CODE = """
import sys, time
from benchmarks.kernels.joints import build_arm
import mindyn
name, joints = sys.argv[1], int(sys.argv[2])
mindyn.compile_model(build_arm(2)).kernel("gravity").compile()
model = mindyn.compile_model(build_arm(joints))
start = time.process_time()
if name == "counting":
    model.operation_counts
elif name == "all":
    for one in model.operation_counts:
        model.kernel(one).compile()
else:
    model.kernel(name).compile()
print(time.process_time() - start)
"""


def seconds(name: str, joints: int, sources: Path) -> float:
    """Return the processor time of one process, without its start."""
    with tempfile.TemporaryDirectory() as empty:
        paths = os.pathsep.join([str(sources / "src"), str(ROOT)])
        single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MINDYN_CACHE_DIR": empty}
        run = subprocess.run(
            [sys.executable, "-c", CODE, name, str(joints)],
            env={**os.environ, **single, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return float(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("equations", nargs="*", help=f"{' '.join(EQUATIONS)} and counting if left out")
    parser.add_argument("--before", type=Path, required=True, help="a checkout of another version")
    parser.add_argument("--joints", type=int, default=60)
    options = parser.parse_args()
    now = before = 0.0
    for name in options.equations or (*EQUATIONS, "counting"):
        if name == "counting":
            counted, compiled = (seconds(item, COUNTED, ROOT) for item in ("counting", "all"))
            print(f"counting operations of {COUNTED} joints {counted:.2f} s; with compilation {compiled:.2f} s")
            continue
        entry, other = (seconds(name, options.joints, sources) for sources in (ROOT, options.before.resolve()))
        now, before = now + entry, before + other
        print(f"{name:22} {entry:6.2f} s, before {other:6.2f} s: {entry / other:.2f}", flush=True)
    if before:
        print(f"together {now:.1f} s, before {before:.1f} s: {now / before:.2f}")


if __name__ == "__main__":
    main()
