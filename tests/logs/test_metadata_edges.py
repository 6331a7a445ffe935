"""Statements, sidecars and readers at their edges: what is said once, where it is looked for, what is put back.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.schemas import _is_type
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.formats import formats
from mindyn.logs.formats.formats import open_table
from mindyn.logs.formats.parquet_table import _SAVED_STDERR, hide_panic_text
from mindyn.logs.log import Log, write_log
from mindyn.logs.log_errors import LogError, raise_together
from mindyn.logs.metadata import LogMetadata, find_faults, find_key_faults, find_sidecar
from mindyn.logs.resolving import _resolve_time_base
from mindyn.robots.loading import load_robot


def test_an_unknown_key_is_one_fault():
    faults = find_faults({"colums": {"time": "t"}, "rate_hz": 100.0, "side": 3})
    assert len(faults) == 2
    assert "has no entry 'colums'" in faults[0].message
    merged = LogMetadata().merge_with({"units": {"time": "s"}}).merge_with({"units": {"torque": "A"}})
    assert dict(merged.units) == {"time": "s", "torque": "A"}


def test_faults_are_raised_together_and_their_hints_once():
    one, two = (LogError(name, hint="look", code=Code.AMBIGUOUS, subject=name) for name in ("one", "two"))
    raise_together([], "run.csv")
    with raises(LogError, code=Code.AMBIGUOUS, subject="one") as alone:
        raise_together([one], "run.csv")
    assert alone.value is one
    with raises(LogError, code=Code.AMBIGUOUS, subject="one") as known:
        raise_together([one, two], "run.csv")
    assert known.value.message.splitlines() == ["the metadata of run.csv has 2 errors:", "1. one", "   look", "2. two"]


def test_a_sidecar_is_looked_for_where_the_log_was_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_sidecar(Path("run.csv")) is None
    Path("logs.toml").write_text("")
    assert find_sidecar(Path("run.csv")) == Path("logs.toml")
    Path("run.log.toml").write_text("")
    assert find_sidecar(Path("run.csv")) == Path("run.log.toml")
    Path("run.csv.toml").write_text("")
    with raises(LogError, code=Code.AMBIGUOUS, subject="run.csv"):
        find_sidecar(Path("run.csv"))


def test_readers_turn_the_standard_error_back_when_the_last_is_done():
    def where():
        return os.stat(2).st_ino, os.stat(2).st_dev

    before = where()
    with hide_panic_text():
        away = where()
        assert away != before
        with hide_panic_text():
            assert where() == away
        assert where() == away
    assert where() == before
    assert not _SAVED_STDERR


def test_what_breaks_off_is_known_by_its_form(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("odd")

    robot = load_robot("planar2")
    monkeypatch.setattr(formats, "_open_bag", broken)
    (tmp_path / "bag").mkdir()
    with raises(LogError, code=Code.UNREADABLE, subject="bag"):
        open_table(tmp_path / "bag", robot, LogMetadata())
    (tmp_path / "run.csv").write_text("x")
    monkeypatch.setitem(formats.LOG_FORMATS, ".csv", broken)
    with raises(LogError, code=Code.UNREADABLE, subject="run.csv"):
        open_table(tmp_path / "run.csv", robot, LogMetadata())
    (tmp_path / "none.csv").write_text("")
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="none.csv"):
        open_table(tmp_path / "none.csv", robot, LogMetadata())


def test_numbers_of_files_are_those_that_can_be_squared_or_are_known():
    assert _is_type(9.9e307, "number")
    assert not _is_type(1.1e308, "number")
    assert not _is_type(float("nan"), "number")
    assert not _is_type(True, "number")
    assert not _is_type(1.5, "integer")
    assert _is_type(-3, "integer")


def test_measured_stamps_are_not_treated_as_bursts():
    even = np.arange(2000) * 0.01
    stamps = even[7::8].repeat(8) + 1e-3 * np.tile(np.arange(8), 250) / 8
    q = np.column_stack([np.sin(3 * even), np.cos(2 * even)])
    log = Log(("a", "b"), stamps, q, q, np.arange(2000))
    result, notes = _resolve_time_base(Conditioning(rate_hz=100.0, stamps="measured"), [log])
    assert (result.stamps, result.longest_gap_rows, notes) == ("measured", 2.5, [])


@pytest.mark.parametrize("key", ["rate_hz", "side", "columns", "joints", "separator"])
def test_a_question_mark_is_invalid_for_every_key(key):
    (fault,) = find_key_faults(key, "?")
    assert fault.message == f"{key} is still a question"
    assert "replace the ?" in fault.hint
    assert find_key_faults("units", {"torque": "?", "time": "s"})[0].message == "units.torque is still a question"


@pytest.mark.parametrize("names", [("a", "b"), ("a b", "c,d")])
def test_joints_whose_names_no_header_holds_are_counted(tmp_path, names):
    robot = load_robot("planar2")
    joints = tuple(replace(joint, name=name) for joint, name in zip(robot.joints, names, strict=True))
    robot = replace(robot, joints=joints, drives=())
    t = np.arange(20) / 100
    q = np.column_stack([np.sin(3 * t), np.cos(2 * t)])
    path = tmp_path / "run.csv"
    write_log(
        robot,
        t,
        {"position": q, "torque": 2 * q},
        path,
        side={"position": "joint", "torque": "motor"},
        accept=("rate",),
    )
    stated = tomllib.loads((tmp_path / "run.csv.toml").read_text())
    plain = names == ("a", "b")
    assert stated.get("joints") == (None if plain else list(names))
    assert stated["columns"]["position"] == ("{joint}.position" if plain else "position{i}")
    assert stated["side"] == {"position": "joint", "torque": "motor"}
    assert stated["accept"] == ["rate"]
    assert set(stated["units"]["torque"].values()) == {"N m"}
    header = path.read_text().splitlines()[0]
    assert header == (
        "time,a.position,b.position,a.torque,b.torque" if plain else "time,position1,position2,torque1,torque2"
    )
    with raises(InputError, code=Code.UNSUPPORTED, subject="run.txt"):
        write_log(robot, t, {"position": q}, tmp_path / "run.txt", side={"position": "joint"})
