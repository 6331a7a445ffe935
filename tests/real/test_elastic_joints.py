"""Elastic joints of a real robot with two encoders, and no elasticity where encoders see none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from honesty.repeated_runs import load_panda
from logs.real_sets import real_log, real_robot

import mindyn
from mindyn.identification import identify_elasticity, predict_deflection

ROBOT = Path(__file__).parents[2] / "leaderboard" / "robots" / "kuka_kr300.toml"
COLUMNS = {"position": "rec.act_pos_se_deg", "motor_position": "rec.act_pos_mot_deg", "time": "rec.time_cont"}
SIDES = {"position": "joint", "motor_position": "joint", "torque": "motor"}
PUBLISHED = {"joint2": 7.5189e6, "joint3": 4.0999e6}
"""Stiffness in the model of the recordings (para.c_rad_ff), N m/rad; that of joint1 is 4.58e6."""


@pytest.fixture(scope="module")
def recordings(real_data):
    robot = mindyn.load_robot(ROBOT)
    known = real_log("kuka_kr300", "traj_A.mat").metadata
    columns = {**COLUMNS, "torque": known.columns["torque"]}
    metadata = {"joints": known.joints, "gears": known.gears, "position_offset": known.position_offset}
    return {
        name: mindyn.read_log(
            real_data / "kuka_kr300" / f"traj_{name}.mat",
            robot,
            columns=columns,
            units={"time": "s", "position": "deg", "torque": "N m"},
            side=SIDES,
            metadata=metadata,
        )
        for name in "ABC"
    }


@pytest.fixture(scope="module")
def models(recordings):
    """Return the link model of every pair of runs, by the run that is not in it."""
    robot = mindyn.load_robot(ROBOT)
    return {run: mindyn.identify(robot, [log for name, log in recordings.items() if name != run]) for run in "ABC"}


def test_stiffness_agrees_between_runs_and_with_the_published_one(recordings, models):
    """K of each run alone, with the link model of the two others."""
    runs = {run: identify_elasticity(models[run], recordings[run]) for run in "ABC"}
    for name, published in PUBLISHED.items():
        lows, highs = zip(*(elasticity[name].compliance_interval for elasticity in runs.values()), strict=True)
        assert 0 < max(lows) < min(highs), name
        assert sum(low <= 1 / published <= high for low, high in zip(lows, highs, strict=True)) >= 2
    for elasticity in runs.values():
        first = elasticity["joint1"]
        assert first.state == "not separable"
        assert "rotor inertia" in first.reason
        assert np.isnan(first.stiffness)
        for wrist in ("joint4", "joint5", "joint6"):  # their links have no encoder
            assert elasticity[wrist].state == "unusable"


def test_deflection_of_the_held_out_run(recordings, models):
    elasticity = identify_elasticity(models["C"], [recordings["A"], recordings["B"]])
    error = predict_deflection(elasticity, models["C"], recordings["C"]).error
    assert error[1] < 0.12
    assert error[2] < 0.14
    for name, published in PUBLISHED.items():
        low, high = elasticity[name].stiffness_interval
        assert elasticity[name].is_determined
        assert low < published < high
    assert abs(elasticity["joint2"].time_offset_s - 0.003) < 2e-4


@pytest.mark.parametrize(
    "name", [pytest.param("ur10", marks=pytest.mark.full), "panda", pytest.param("tx40", marks=pytest.mark.full)]
)
@pytest.mark.usefixtures("real_data")
def test_rigid_robots_have_no_elasticity(name):
    """Their encoders are on one side; a copy with its own noise and clock shows no deflection."""
    if name == "panda":
        robot, log = load_panda()
    elif name == "ur10":
        robot, log = real_robot("ur10_unisa"), real_log("ur10_unisa", "ur10_exciting_trajectory.csv").between(0, 1720)
    else:
        robot, log = real_robot("staubli_tx40"), real_log("staubli_tx40", "pos_read_data.csv").between(0, 12_000)
    rng = np.random.default_rng(0)
    step = float(np.median(np.diff(log.time)))
    late = np.column_stack([np.interp(log.time - 0.3 * step, log.time, column) for column in log.q.T])
    motor = late + 1e-5 * rng.standard_normal(log.q.shape)
    estimate = mindyn.identify(robot, log)
    elasticity = identify_elasticity(estimate, replace(log, motor_q=motor))
    assert not any(joint.is_determined for joint in elasticity.joints)
