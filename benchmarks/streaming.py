"""10 million rows of q and tau from Parquet to parameters: filtered, differentiated and fitted in bounded memory.

    python benchmarks/streaming.py [rows] [--one-group]

Writes the log of a 6-joint arm to a temporary folder (about 1 GB for 10 million rows), then starts a second process
that reads it block by block, and prints that process's peak memory.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import polars as pl

import mindyn

ROBOT, RATE_HZ = "puma560", 1000.0
STATED = {
    "columns": {"time": "t", "position": "q{i}", "torque": "tau{i}"},
    "units": {"time": "s", "position": "rad", "torque": "N m"},
    "side": "joint",
}
PART_ROWS = 500_000


def part_of_log(model: mindyn.Model, start: int, rows: int) -> pl.DataFrame:
    """Sums of sines that do not repeat, torque with noise, positions with the steps of an encoder."""
    rng = np.random.default_rng(0)
    n = model.robot.joint_count
    w, a, phase = 2 * np.pi * rng.uniform(0.05, 0.5, (4, n)), rng.uniform(0.1, 0.4, (4, n)), rng.uniform(0, 6, (4, n))
    angle = (start + np.arange(rows))[:, None, None] / RATE_HZ * w + phase
    q = (a * np.sin(angle)).sum(axis=1)
    motion = (a * w * np.cos(angle)).sum(axis=1), -(a * w**2 * np.sin(angle)).sum(axis=1)
    tau = model.inverse_dynamics(q, *motion) + np.random.default_rng(start).normal(scale=0.5, size=q.shape)
    columns = {"t": (start + np.arange(rows)) / RATE_HZ}
    columns |= {f"q{i + 1}": np.round(q[:, i] * 1e5) / 1e5 for i in range(n)}
    columns |= {f"tau{i + 1}": tau[:, i] for i in range(n)}
    return pl.DataFrame(columns)


def write_log(path: Path, rows: int, *, one_group: bool) -> None:
    model = mindyn.compile_model(mindyn.load_robot(ROBOT), drives=True)
    parts = [part_of_log(model, start, min(PART_ROWS, rows - start)) for start in range(0, rows, PART_ROWS)]
    pl.concat(parts).write_parquet(path, row_group_size=rows if one_group else None)


def peak_mb() -> int:
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024


def fit(path: Path) -> None:
    robot = mindyn.load_robot(ROBOT)
    settings = mindyn.Conditioning(position_cutoff_hz=20.0, delay_s=0.0)
    start = perf_counter()
    stream = mindyn.condition_stream(mindyn.scan_log(path, robot, stated=STATED), robot, settings)
    found = mindyn.LeastSquares(filter_hz=10.0, decimation=10).fit(robot, stream)
    print(found.status)
    truth = mindyn.base_parameters(robot, drives=True).values
    print(f"largest deviation from the truth: {np.abs(found.beta - truth).max():.3g}")
    print(f"{stream.count} samples in {perf_counter() - start:.1f} s, peak memory {peak_mb()} MB in all")


def main() -> None:
    if sys.argv[1:2] == ["--fit"]:
        fit(Path(sys.argv[2]))
        return
    numbers = [int(value) for value in sys.argv[1:] if value.isdigit()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.parquet"
        write_log(path, numbers[0] if numbers else 10_000_000, one_group="--one-group" in sys.argv)
        print(f"{path.stat().st_size / 1e6:.0f} MB of Parquet")
        subprocess.run([sys.executable, __file__, "--fit", str(path)], check=True)


if __name__ == "__main__":
    main()
