"""A file of any format that declares more than it holds is rejected soon and in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mindyn.logs.formats.formats import LOG_FORMATS

ATTACKS = Path(__file__).parents[1] / "attacks"
CLAIMS = {
    ".csv": ("log", "half_a_million_columns"),
    ".jsonl": ("log", "json_lines_of_300_000_keys"),
    ".npz": ("log", "npz_header_of_seven_terabytes"),
    ".mat": ("log", "mat_of_a_shape_that_overflows"),
    ".h5": ("log", "hdf5_without_the_chunks_that_it_declares"),
    ".parquet": ("log", "parquet_footer_longer_than_the_file"),
    ".mcap": ("log", "bag_with_a_record_longer_than_the_file"),
    ".db3": ("log", "bag_of_generated_columns"),
    ".toml": ("robot", "toml_of_escaped_key_parts"),
    ".xml": ("robot", "mjcf_that_attaches_a_hundred_million_bodies"),
    ".json": ("estimate", "estimate_nested_100_000_deep"),
}
"""An attack on the reader of each format; those of one opener are one format."""
MEASURED = """
import json, sys, time
from pathlib import Path
import cases, mindyn, h5py, mcap.reader, mujoco, polars
from mindyn.foundation.errors import MindynError
attacks, run = cases.READERS[sys.argv[1]]
path = attacks[sys.argv[2]](Path(sys.argv[3]))
mindyn.load_robot("planar2")
import mindyn.identification.estimators.estimate_files, mindyn.logs.read_log  # imported before it reads
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak counts from here
def peak():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024
before, start = peak(), time.process_time()
try:
    run(path)
    outcome = "read"
except MindynError:
    outcome = "rejected"
print(json.dumps([outcome, time.process_time() - start, peak() - before]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are reset by Linux alone")
@pytest.mark.parametrize("suffix", CLAIMS)
def test_a_file_that_declares_more_than_it_holds_is_rejected(tmp_path, suffix):
    for package in ("h5py", "mcap", "mujoco"):
        pytest.importorskip(package)
    command = [sys.executable, "-c", MEASURED, *CLAIMS[suffix], str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ATTACKS, timeout=120, check=True)
    outcome, seconds, megabytes = json.loads(ran.stdout.splitlines()[-1])
    assert outcome == "rejected"
    assert seconds < 2
    assert megabytes < 200


def test_every_format_of_logs_has_such_a_file():
    assert {LOG_FORMATS[suffix] for suffix in CLAIMS if suffix in LOG_FORMATS} == set(LOG_FORMATS.values())
