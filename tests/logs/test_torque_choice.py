"""`mindyn log` asks which columns are the torque if names do not decide."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from cli.program import mindyn_program

import mindyn

T = np.arange(0, 6, 0.01)
SIGNALS = {
    "several": ("Torque{i}", "TorqueSensor{i}", "TrqFilt{i}", "Current{i}"),
    "one and a model": ("Torque{i}", "TorqueModel{i}", "TorqueCmptd{i}"),
    "one measured": ("Torque{i}", "MeasuredTorque{i}"),
}


def write_log(path, names):
    robot = mindyn.load_robot("planar2")
    q = np.column_stack([np.sin(T) + 0.3 * np.sin(3.1 * T), np.cos(1.7 * T)])
    qd, qdd = np.gradient(q, T, axis=0), np.gradient(np.gradient(q, T, axis=0), T, axis=0)
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    columns = {"time": T}
    for i in (1, 2):
        columns |= {f"Pos{i}": q[:, i - 1], f"AccCmptd{i}": qdd[:, i - 1]}
        columns |= {name.format(i=i): (1 + 0.1 * k) * tau[:, i - 1] for k, name in enumerate(names)}
    pl.DataFrame(columns).write_csv(path)
    return path


def test_several_torques_are_a_question_that_confirm_does_not_skip(tmp_path):
    path = write_log(tmp_path / "run.csv", SIGNALS["several"])
    drafted = mindyn_program("log", path, "planar2")
    assert all(f'"{name}"' in drafted.out for name in SIGNALS["several"])
    ended = mindyn_program("log", path, "planar2", "--confirm", "--state", "units.torque=N m")
    assert ended.code != 0
    assert "columns.torque" in ended.err
    assert not path.with_name("run.csv.toml").exists()
    answers = ("--state", "columns.torque=TrqFilt{i}", "--state", "units.torque=N m", "--state", "side=joint")
    assert mindyn_program("log", path, "planar2", "--confirm", *answers).code == 0
    assert "TrqFilt{i}" in path.with_name("run.csv.toml").read_text()


@pytest.mark.parametrize(("case", "chosen"), [("one and a model", "Torque{i}"), ("one measured", "MeasuredTorque{i}")])
def test_a_model_torque_is_no_candidate_and_measured_decides(tmp_path, case, chosen):
    drafted = mindyn_program("log", write_log(tmp_path / "run.csv", SIGNALS[case]), "planar2")
    assert f'columns.torque = "{chosen}"' in drafted.out


def test_a_computed_acceleration_is_not_used(tmp_path):
    drafted = mindyn_program("log", write_log(tmp_path / "run.csv", ("Torque{i}",)), "planar2")
    assert "columns.acceleration" not in drafted.out
