"""Missing files get a suggestion, and messages show Windows paths as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, MindynError


@pytest.mark.parametrize(
    ("given", "near"), [("run1.cvs", "run1.csv"), ("rnu1.csv", "run1.csv"), ("amr.urdf", "arm.urdf")]
)
def test_a_misspelled_file_gets_a_suggestion(tmp_path, given, near):
    for name in ("run1.csv", "arm.urdf", "notes.txt"):
        (tmp_path / name).write_text("x")
    robot = mindyn.load_robot("planar2")
    with raises(MindynError, Code.MISSING_FILE) as result:
        mindyn.load_robot(tmp_path / given) if given.endswith("urdf") else mindyn.read_log(tmp_path / given, robot)
    assert near in result.value.hint


def test_backslashes_are_shown_once():
    path = Path("C:\\robots\\arm.urdf")  # one name on other systems
    with raises(MindynError, Code.MISSING_FILE) as result:
        mindyn.load_robot(path)
    assert str(path) in result.value.message
