"""Measure a worker of a fleet: memory with a log of 10 million rows, and speed compared with a streamed fit.

    python -m benchmarks.fleet.cost [--rows 10000000]

The exit code is 1 above 600 MB, or below 0.8 times the rows per second of processor time of `LeastSquares` on
`scan_log` in one process.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

import mindyn
from benchmarks.identification.streaming import ROBOT, STATED, peak_mb, write_log
from mindyn.applications.fleet.factor_files import Factor, Generation
from mindyn.applications.fleet.gather_one_log import Task, gather_or_exclude
from mindyn.regression.regressor import with_estimated_drives

SETTINGS = mindyn.Conditioning(rate_hz=1000.0, stamps="uniform", motion_hz=20.0, delay_s=0.0)
EQUATION_SETTINGS = mindyn.EquationSettings(SETTINGS, 10.0, 10)
LEAST_RATIO, MOST_MB = 0.8, 600


def pickle_generation(path: Path) -> bytes:
    """Return the data that the driver sends with every log."""
    robot = with_estimated_drives(mindyn.load_robot(ROBOT))
    values = mindyn.base_parameters(robot, with_drives=True).values
    resolved = mindyn.build_rows(robot, mindyn.scan_log(path, robot, metadata=STATED), EQUATION_SETTINGS).settings
    return pickle.dumps(Generation(robot, resolved, values))


def process_log(path: Path, sent: bytes) -> Factor:
    log = gather_or_exclude(sent, Task(path, str(path), "changed:1", {"robot_id": "a"}, 0.0, STATED))
    assert isinstance(log, Factor), log.reason
    return log


def measure(path: Path) -> None:
    """Print the measurement; runs in its own process, and the first log only warms the worker."""
    robot = mindyn.load_robot(ROBOT)
    times: dict[str, list[float]] = {"worker": [], "fit": []}
    sent = pickle_generation(path)
    for _ in range(3):
        start = process_time()
        factor = process_log(path, sent)
        times["worker"].append(process_time() - start)
        start = process_time()
        mindyn.LeastSquares().fit(
            mindyn.build_rows(robot, mindyn.scan_log(path, robot, metadata=STATED), EQUATION_SETTINGS)
        )
        times["fit"].append(process_time() - start)
    best = {name: min(spent[1:]) for name, spent in times.items()}
    json.dump({"rows": factor.rows, **best}, sys.stdout)


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        json.dump(
            {"rows": process_log(Path(sys.argv[2]), pickle_generation(Path(sys.argv[2]))).rows, "peak_mb": peak_mb()},
            sys.stdout,
        )
        return
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_log(path, 1_000_000, one_group=False)
        speed = _run_measurement("--measure", path)
        write_log(path, options.rows, one_group=False)
        size = path.stat().st_size
        memory = _run_measurement("--memory", path)
    ratio = speed["fit"] / speed["worker"]
    per_hour = 3600 * speed["rows"] / speed["worker"]
    spent = f"worker {speed['worker']:.2f} s, streamed fit {speed['fit']:.2f} s, ratio {ratio:.2f}"
    print(f"{speed['rows']:.0f} rows: {spent}")
    print(f"{per_hour:.3g} rows, {per_hour * size / options.rows / 1e9:.3g} GB of Parquet per core-hour")
    print(f"{memory['rows']:.0f} rows in one log: {memory['peak_mb']:.0f} MB")
    sys.exit(ratio < LEAST_RATIO or memory["peak_mb"] > MOST_MB)


def _run_measurement(mode: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", __spec__.name, mode, str(path)]
    content: dict[str, float] = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    )
    return content


if __name__ == "__main__":
    main()
