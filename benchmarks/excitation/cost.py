"""Compare processor time and criterion of designed motions with those of another version.

    python -m benchmarks.excitation.cost --before CHECKOUT [robot:criterion:seed ...]

20 s, 5 harmonics, full limits and no floor, as in earlier versions; kernels are compiled before the measurement. Each
design runs in its own process, with the sources of this checkout and then of the other. A smaller criterion is better.
The result of a single search varies by chance: use several seeds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
DESIGNS = tuple(
    f"{name}:{kind}:{seed}" for seed in (0, 1) for name in ("puma560", "panda", "scara") for kind in ("D", "condition")
)
CODE = """
import sys, time
import mindyn
name, kind, seed = sys.argv[1].split(":")
robot = mindyn.load_robot(name)
full = {"speed": 1.0, "acceleration": 1.0}
stated = {"effort": 200.0} if name == "scara" else {}  # which its file does not have
given = {"limits": mindyn.MotionLimits.of(robot, **stated), "rng": int(seed)}
given["safety"] = mindyn.SafetySettings(floor=None)
search = {}
if hasattr(mindyn, "MotionSettings"):
    given["motion"] = mindyn.MotionSettings(**full)
    search["criterion"] = kind
else:  # another version, in which these were arguments
    given |= {**full, "criterion": kind}
mindyn.design_motion(robot, search=mindyn.SearchSettings(deadline_s=0.0, **search), **given)
start = time.process_time()
design = mindyn.design_motion(robot, search=mindyn.SearchSettings(**search), **given)
print(time.process_time() - start, design.criteria[kind])
"""


def measure_design(which: str, sources: Path) -> tuple[float, float]:
    """Design a motion in a new process; return the processor time (s) and the logarithm of the criterion."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", CODE, which],
        env={**os.environ, **one_thread, "PYTHONPATH": str(sources / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds, value = map(float, run.stdout.split())
    return seconds, float(np.log(value)) if which.split(":")[1] in ("condition", "joints") else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("designs", nargs="*", metavar="robot:criterion:seed", help=f"default: {' '.join(DESIGNS)}")
    parser.add_argument("--before", type=Path, required=True, help="checkout of another version")
    options = parser.parse_args()
    times, changes = [], []
    for which in options.designs or DESIGNS:
        (now, value), (then, old) = (measure_design(which, sources) for sources in (ROOT, options.before.resolve()))
        times.append(then / now)
        changes.append(value - old)
        print(
            f"{which:22} {now:6.2f} s, before {then:6.2f} s: {then / now:.2f} times as fast; "
            f"log criterion {value:.3f}, before {old:.3f}",
            flush=True,
        )
    print(
        f"{len(times)} designs: {np.exp(np.mean(np.log(times))):.2f} times as fast, log criterion "
        f"{np.mean(changes):+.3f} on average ({min(changes):+.3f} to {max(changes):+.3f})"
    )


if __name__ == "__main__":
    main()
