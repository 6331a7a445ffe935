"""Measure memory and time of a fit of 10 million rows of q and tau from Parquet.

    python -m benchmarks.identification.streaming [--rows ROWS] [--record]

It writes the log of a 6-joint arm to a temporary folder (about 1 GB for 10 million rows), with row groups of default
size and then as a single group. Another process reads each file block by block and prints its peak memory.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import polars as pl

import mindyn
from benchmarks.sections import Section, arguments, publish, spaced
from benchmarks.timing import this_machine

ROBOT, RATE_HZ = "puma560", 1000.0
STATED = {
    "columns": {"time": "t", "position": "q{i}", "torque": "tau{i}"},
    "units": {"time": "s", "position": "rad", "torque": "N m"},
    "side": "joint",
}
PART_ROWS = 500_000


def simulate_rows(model: mindyn.Model, start: int, rows: int) -> pl.DataFrame:
    """Return rows of a motion that does not repeat, with torque noise and encoder steps."""
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
    model = mindyn.compile_model(mindyn.load_robot(ROBOT), with_drives=True)
    parts = [simulate_rows(model, start, min(PART_ROWS, rows - start)) for start in range(0, rows, PART_ROWS)]
    pl.concat(parts).write_parquet(path, row_group_size=rows if one_group else None)


def peak_mb() -> int:
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024


def fit(path: Path) -> None:
    robot = mindyn.load_robot(ROBOT)
    settings = mindyn.Conditioning(motion_hz=20.0, delay_s=0.0)
    start = perf_counter()
    rows = mindyn.build_rows(
        robot, mindyn.scan_log(path, robot, metadata=STATED), mindyn.EquationSettings(settings, 10.0, 10)
    )
    estimate = mindyn.LeastSquares().fit(rows)
    truth = mindyn.base_parameters(robot, with_drives=True).values
    json.dump(
        {
            "samples": rows.count,
            "seconds": perf_counter() - start,
            "peak_mb": peak_mb(),
            "deviation": float(np.abs(estimate.beta - truth).max()),
        },
        sys.stdout,
    )


def measure(folder: Path, rows: int, *, one_group: bool) -> tuple[str, ...]:
    """Return a row of the table: time and memory of a process that reads the file."""
    path = folder / "long.parquet"
    write_log(path, rows, one_group=one_group)
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, "--fit", str(path)], check=True, stdout=subprocess.PIPE, text=True
    )
    content = json.loads(done.stdout)
    return (
        "one" if one_group else "as written by default",
        f"{path.stat().st_size / 1e6:.0f} MB",
        f"{content['seconds']:.0f} s",
        f"{content['peak_mb']} MB",
        f"{content['deviation']:.2g}",
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--fit", type=Path, help="fit this file and print what that took: the other process")
    options = parser.parse_args()
    if options.fit:
        fit(options.fit)
        return
    with tempfile.TemporaryDirectory() as folder:
        table = [("row groups", "file", "time", "total memory", "largest deviation of a parameter")]
        table += [measure(Path(folder), options.rows, one_group=item) for item in (False, True)]
    publish(
        Section(
            "streaming",
            "Logs larger than memory",
            "python -m benchmarks.identification.streaming",
            this_machine("polars"),
            [
                f"{spaced(options.rows)} rows of q and tau of a 6-joint arm in Parquet: filtered, differentiated, "
                "and fitted with a parallel filter. The memory is that of the whole process, Python and its "
                "libraries included."
            ],
            table,
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
