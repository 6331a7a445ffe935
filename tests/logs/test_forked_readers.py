"""A process that was forked after polars had been used says so; it does not wait for threads that it does not have."""

from __future__ import annotations

import subprocess
import sys

import pytest
from logs.every_format import planar_motion, write_recording

PROGRAM = """
import multiprocessing, sys
import mindyn
from mindyn.foundation.processes import executors

executors._POLARS_TIMEOUT_S = 2.0
before, path = sys.argv[1:]
robot = mindyn.load_robot("planar2")


def read(_):
    try:
        return len(mindyn.read_log(path, robot))
    except mindyn.MindynError as error:
        return str(error).replace("\\n", " ")


if __name__ == "__main__":
    if before == "mindyn":
        read(0)
    elif before == "polars":
        import polars
        polars.scan_parquet(path).collect_schema() if path.endswith("parquet") else polars.read_csv(b"a")
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, *map(str, pool.map(read, [0, 1])), sep="|", flush=True)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere processes are not forked by default")
@pytest.mark.parametrize("before", ["mindyn", "polars", "nothing"])
@pytest.mark.parametrize("form", ["csv", "parquet", "json lines", "npz"])
def test_reading_in_a_forked_process_ends(tmp_path, form, before):
    path = write_recording(tmp_path, form, planar_motion(50))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-W", "ignore", program, before, path]
    forked, spawned = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    assert spawned == "spawn|50|50"
    if form == "npz" or before == "nothing":
        assert forked == "fork|50|50"
    else:
        assert forked.count("this process was forked") == 2
        assert "spawn" in forked
