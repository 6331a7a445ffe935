"""Run the commands of the workflow page for a bundled arm and for a published UR5."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from cli.program import mindyn_program

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("whole_chain", ROOT / "benchmarks" / "identification" / "whole_chain.py")
whole_chain = importlib.util.module_from_spec(spec)
spec.loader.exec_module(whole_chain)
commands, run = whole_chain.read_commands, whole_chain.run

UR5 = Path(os.environ.get("MINDYN_ROBOT_FILES", "/nonexistent")) / (
    "ros-industrial/xacro_generated/universal_robots/ur_description/urdf/ur5.urdf"
)
WRITTEN = (
    "motion",
    "run1.csv",
    "result/estimate.json",
    "contact.html",
    "identified.urdf",
    "model.c",
)


def in_this_process(words, folder):
    """Run a command in that folder, without a new process for each command."""
    assert Path.cwd() == folder
    ended = mindyn_program(*words)
    return ended.code, ended.err


@pytest.mark.full
def test_every_command_of_the_chain_works(tmp_path, monkeypatch, capsys):
    """Use the UR5 if its file is available, otherwise the Panda; `make study NAME=chain` runs both in processes."""
    monkeypatch.chdir(tmp_path)
    robot = str(UR5) if UR5.is_file() else "panda"
    assert len(commands(robot, quick=True)) <= 12
    assert run(robot, quick=True, folder=tmp_path, start=in_this_process) == 0, capsys.readouterr().out
    assert not [name for name in WRITTEN if not (tmp_path / name).exists()]
