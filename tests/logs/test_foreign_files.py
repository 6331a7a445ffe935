"""Files of a sidecar stay in the folder of the log, and a file that is not a log is not quoted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, MindynError
from mindyn.foundation.safe_reading import ALLOW_OUTSIDE_FILES
from mindyn.identification.log_drafts import draft_log
from mindyn.logs.log_errors import LogError

sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))
from hostile_logs import SIDECAR, csv_text, write_sidecar

ARM = mindyn.load_robot("planar2")
FILES = 'files = { torque = "%s" }\n'


def log_beside(folder, file):
    """Write a log whose torques its sidecar looks for in `file`."""
    (folder / "run").mkdir()
    path = write_sidecar(folder / "run" / "log.csv", SIDECAR + FILES % file)
    path.write_text(csv_text())
    (folder / "torque.csv").write_text(csv_text())
    (folder / "run" / "link.csv").symlink_to(folder / "torque.csv")
    (folder / "run" / "inside").mkdir()
    (folder / "run" / "inside" / "torque.csv").write_text(csv_text())
    return path


@pytest.mark.parametrize(("file", "name"), [(r"a\u0000b.csv", "a\0b.csv"), ("loop.csv", "loop.csv")])
def test_a_name_that_no_file_can_have_is_an_error_of_the_log(tmp_path, file, name):
    path = log_beside(tmp_path, file)
    (tmp_path / "run" / "loop.csv").symlink_to("loop.csv")
    for read in (mindyn.read_log, mindyn.scan_log):
        with raises(LogError, code=Code.UNREADABLE, subject=name):
            read(path, ARM)


@pytest.mark.parametrize("file", ["../torque.csv", "inside/../../torque.csv", "link.csv", "{absolute}"])
def test_a_sidecar_names_no_file_outside_the_folder_of_its_log(tmp_path, file):
    path = log_beside(tmp_path, file.format(absolute=tmp_path / "torque.csv"))
    for read in (mindyn.read_log, mindyn.scan_log):
        with raises(LogError, code=Code.UNSAFE_INPUT, subject="files.torque"):
            read(path, ARM)
    assert len(mindyn.read_log(path, ARM, outside_files=True)) == 400
    held = ALLOW_OUTSIDE_FILES.set(True)
    try:
        scan = mindyn.scan_log(path, ARM)
    finally:
        ALLOW_OUTSIDE_FILES.reset(held)
    assert len(next(iter(scan.opening()))) == 400, "what was allowed here is allowed where the log is opened anew"


def test_files_inside_and_files_of_the_call_are_read(tmp_path):
    path = log_beside(tmp_path, "inside/torque.csv")
    assert len(mindyn.read_log(path, ARM)) == 400
    assert len(mindyn.read_log(path, ARM, metadata={"files": {"torque": "../torque.csv"}})) == 400


SECRET = "correct-horse-battery"


@pytest.mark.parametrize(
    "text",
    [
        f"root:x:0:0:{SECRET}:/root:/bin/sh\ndaemon:x:1:1:{SECRET}:/usr/sbin:/bin/sh\n",
        f"[default]\nkey = {SECRET}\nother = {SECRET}\n",
        f"-----BEGIN KEY-----\n{SECRET}\n{SECRET}\n-----END KEY-----\n",
        f"name,password\nalice,{SECRET}\nbob,{SECRET}\n",
        f"# {SECRET}\n{SECRET} {SECRET}\n{SECRET} none\n",
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".txt", ".jsonl", ".npz", ".mat", ".h5", ".parquet", ".mcap", ".db3"])
def test_a_file_that_is_not_a_log_is_not_quoted(tmp_path, text, suffix):
    path = write_sidecar(tmp_path / f"log{suffix}")
    path.write_text(text)
    for use in (mindyn.read_log, draft_log):
        with raises(MindynError, (Code.UNREADABLE, Code.WRONG_FORMAT)) as error:
            use(path, ARM)
        assert SECRET not in str(error.value)
