"""A log whose torque is zero, empty or absent: `log` and `identify` say so and claim nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from cli.program import mindyn_program

import mindyn

GUIDE = "no-torque-sensor"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a robot with inertial parameters and effort limits, and its sidecar."""
    path = tmp_path_factory.mktemp("logs") / "good.csv"
    assert mindyn_program("simulate", "puma560", "--out", path, "--seconds", 3, "--seed", 2).code == 0
    return path


def spoil(log: Path, how: str, suffix: str = ".csv") -> Path:
    frame = pl.read_csv(log)
    torques = [name for name in frame.columns if name.endswith("torque")]
    if how == "absent":
        frame = frame.drop(torques)
    else:
        value = pl.lit(0.0 if how == "zero" else None, dtype=pl.Float64)
        frame = frame.with_columns(value.alias(name) for name in torques)
    path = log.with_name(f"{how}{suffix}")
    frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    return path


@pytest.mark.parametrize("how", ["zero", "empty", "absent"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_drafts_say_that_there_is_no_torque(log, how, suffix):
    path = spoil(log, how, suffix)
    ended = mindyn_program("log", path, "puma560", "--json")
    draft = json.loads(ended.out)
    assert "columns.torque" in draft["questions"]
    assert not [entry for entry in draft["lines"] if entry["key"] in ("units.torque", "side.torque")]
    text = json.dumps(draft)
    assert "no torque" in text
    assert GUIDE in text
    assert "inertial parameters" not in text
    confirmed = mindyn_program("log", path, "puma560", "--confirm")
    assert (confirmed.code, GUIDE in confirmed.err) == (1, True)
    assert not path.with_name(f"{path.name}.toml").exists()


@pytest.mark.parametrize("how", ["zero", "empty"])
def test_identification_says_that_there_is_no_torque(log, how):
    path = spoil(log, how)
    sidecar = path.with_name(f"{path.name}.toml")
    sidecar.write_text(log.with_name(f"{log.name}.toml").read_text())
    ended = mindyn_program("identify", "puma560", path)
    assert (ended.code, "no torque" in ended.err, GUIDE in ended.err) == (1, True, True)
    assert "units.torque" not in ended.err
    if how == "zero":
        inspected = mindyn_program("log", path, "puma560")
        assert (inspected.code, "no torque" in inspected.err) == (0, True)
    sidecar.unlink()


def test_position_targets_are_used_instead_of_a_torque_of_zeros(tmp_path, log):
    frame = pl.read_csv(spoil(log, "zero"))
    robot = mindyn.load_robot("puma560")
    targets = [(pl.col(f"{name}.position") + 0.01).alias(f"{name}.target") for name in robot.joint_names]
    frame.with_columns(targets).write_csv(tmp_path / "targets.csv")
    draft = json.loads(mindyn_program("log", tmp_path / "targets.csv", "puma560", "--json").out)
    assert "columns.target" in {entry["key"] for entry in draft["lines"]}
