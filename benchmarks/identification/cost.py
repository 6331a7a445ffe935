"""Processor time of identification beside another version's: rows in memory, a stream, and with nothing stated.

    python -m benchmarks.identification.cost --before CHECKOUT [part ...]

memory      300 000 samples of a PUMA 560 with friction columns to parameters
stream      1 000 000 rows of Parquet, filtered, differentiated and fitted with columns and torque filtered alike
automatic   100 000 rows with nothing stated: all candidates of either version
candidates  the same with the candidates of 90d9a94 alone: no friction that grows with the load, no offsets left out, no
            physically consistent fits; intervals and doubts are those of either version

Each part runs in a process of its own with the sources of this checkout, then with those of the other, on the same
rows, one thread of BLAS, machine code compiled before; the least of three runs (automatic, candidates: of one). Of the
last two wall time is printed too, on one core and on two; use it on an idle machine only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

import mindyn
from benchmarks.identification.streaming import PART_ROWS, ROBOT, STATED, part_of_log

ROOT = Path(__file__).parents[2]
COMMON = f"""
import os, sys, time
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[2])])
import numpy as np
import mindyn
robot, path, stated = mindyn.load_robot({ROBOT!r}), sys.argv[1], {STATED!r}
def least(run, count):
    run() if count > 1 else None
    taken = []
    for _ in range(count):
        start, begun = time.process_time(), time.perf_counter()
        run()
        taken.append((time.process_time() - start, time.perf_counter() - begun))
    print(*min(taken))
"""
PARTS = {
    "memory": """
from mindyn.kernels.model import compile_model
from mindyn.regression.row_blocks import gather
from mindyn.regression.information import solve
from mindyn.regression.regressor import Regressor, with_estimated_drives
robot, rng = with_estimated_drives(robot), np.random.default_rng(0)
q, qd, qdd = rng.uniform(-2, 2, (3, 300_000, robot.joint_count))
tau = compile_model(robot, drives=True).inverse_dynamics(q, qd, qdd)
tau += 0.1 * rng.standard_normal(tau.shape)
samples = mindyn.Samples(robot.joint_names, q, qd, qdd, tau, 1000.0, np.zeros(len(q), dtype=np.int64))
regressor = Regressor(robot)
least(lambda: solve(*gather(regressor, samples).stacked()), 3)
""",
    "stream": """
settings = mindyn.Conditioning(position_cutoff_hz=20.0, delay_s=0.0)
def run():
    scan = mindyn.scan_log(path, robot, metadata=stated)
    if hasattr(mindyn, "build_rows"):
        rows = mindyn.build_rows(robot, scan, mindyn.EquationSettings(settings, 10.0, 10))
        return mindyn.LeastSquares().fit(rows)
    stream = mindyn.condition_stream(robot, scan, settings)
    return mindyn.LeastSquares(filter_hz=10.0, decimation=10).fit(robot, stream)
least(run, 3)
""",
    "candidates": """
try:
    from mindyn.identification.selection import choose, tune
except ImportError:  # 90d9a94 itself
    pass
else:
    tune.add_load_friction = lambda trials, best: best
    tune.DROPPED_TOGETHER = (("rotor",),)
    choose.best_estimator = lambda robot, trials, setting, settings, dropped: (
        mindyn.LeastSquares(covariance="correlated", dropped=dropped), ()
    )
log = mindyn.read_log(path, robot, metadata=stated).take(slice(100_000))
mindyn.identify(robot, log.take(slice(5_000)))
least(lambda: mindyn.identify(robot, log), 1)
""",
    "automatic": """
log = mindyn.read_log(path, robot, metadata=stated).take(slice(100_000))
mindyn.identify(robot, log.take(slice(5_000)))
least(lambda: mindyn.identify(robot, log), 1)
""",
}
ON_TWO_CORES = ("candidates", "automatic")


def seconds(part: str, sources: Path, path: Path, cores: int = 1) -> tuple[float, float]:
    """Processor time, and time on the wall, on some cores."""
    own = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MINDYN_CACHE_DIR": str(path.parent / "code")}
    run = subprocess.run(
        [sys.executable, "-c", COMMON + PARTS[part], str(path), str(cores)],
        env={**os.environ, **own, "PYTHONPATH": str(sources / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    processor, wall = map(float, run.stdout.splitlines()[-1].split())
    return processor, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all if left out")
    parser.add_argument("--before", type=Path, required=True, help="a checkout of another version")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        model = mindyn.compile_model(mindyn.load_robot(ROBOT), drives=True)
        pl.concat([part_of_log(model, start, PART_ROWS) for start in (0, PART_ROWS)]).write_parquet(path)
        for part in options.parts or PARTS:
            (now, wall), (then, _) = (seconds(part, sources, path) for sources in (ROOT, options.before.resolve()))
            print(f"{part:10} {now:7.2f} s, before {then:7.2f} s: {then / now:.2f} times as fast", flush=True)
            if part in ON_TWO_CORES:
                both, on_two = seconds(part, ROOT, path, cores=2)
                print(
                    f"  two cores {both:7.2f} s; on the wall {on_two:.2f} s, on one {wall:.2f} s: {wall / on_two:.2f}"
                )


if __name__ == "__main__":
    main()
