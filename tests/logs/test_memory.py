"""A stream needs memory for a few blocks, however long the log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from recordings import STATED, sines

SCRIPT = """
import re, sys
from pathlib import Path
from recordings import STATED, arm
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.pipeline import condition_stream
from mindyn.logs.read_log import scan_log
# The kernel's ru_maxrss starts from the size of the process that started this one; this mark does not.
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024
before = peak()
columns = {key: value for key, value in STATED["columns"].items() if key != "velocity"}
scan = scan_log(sys.argv[1], arm(), metadata={**STATED, "columns": columns})
settings = Conditioning(motion_hz=20.0)
print(sum(map(len, condition_stream(arm(), scan, settings))))
print(peak() - before)
"""


def least_rows_and_growth(path):
    """The same of the run that needs less: on a busy machine, polars at times reads far ahead."""
    return min(rows_and_growth(path), rows_and_growth(path))


def rows_and_growth(path):
    """Samples of a streamed log and how many MB the process grew by, libraries loaded before."""
    tests = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {tests}\n{SCRIPT}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    return tuple(map(int, done.stdout.split()))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the memory mark of Linux")
def test_memory_does_not_grow_with_the_log(tmp_path):
    rows = 1_000_000
    table = pl.DataFrame({name: column for name, column in sines(rows).table().items() if not name.startswith("v_")})
    noise = np.random.default_rng(0).normal(
        scale=1e-6, size=rows
    )  # so that Parquet cannot shrink the columns to nothing
    table = table.with_columns((pl.exclude("t") + pl.Series("noise", noise)).name.keep())
    table.write_parquet(tmp_path / "long.parquet")
    table[:400_000].write_parquet(tmp_path / "short.parquet")
    assert STATED["side"] == "joint"
    short, long = (least_rows_and_growth(tmp_path / name) for name in ("short.parquet", "long.parquet"))
    assert (short[0], long[0]) == (400_000 - 100, rows - 100)
    samples_alone = rows * 6 * 4 * 8 / 2**20
    assert long[1] < 1.5 * samples_alone, "no more than a few blocks, whatever the machine's allocators keep"
    assert long[1] - short[1] < 60, f"{short[1]} MB for 400 000 rows, {long[1]} MB for 1 000 000"
