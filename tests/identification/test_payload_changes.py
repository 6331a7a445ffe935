"""Logs of one robot with different loads are distinguished from logs of different motions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from identification.diagnosed import diagnostic_data
from identification.test_candidates import record_log

import mindyn
from mindyn.identification.diagnostics import payload_differences

SETTINGS = mindyn.EquationSettings(
    mindyn.Conditioning(motion_hz=None, delay_s=0.0), friction=mindyn.Friction("tanh", 0.05)
)


@pytest.fixture(scope="module")
def arm():
    return replace(mindyn.load_robot("planar2"), drives=(), extras=())


def diagnose(arm, *carried):
    """Diagnose logs of different motions; carried: mass in kg and how far out it is held."""
    logs = []
    for k, (mass, out) in enumerate(carried):
        robot = arm.with_payload(mass=mass, com=(out, 0.0, 0.0), inertia=0.02 * np.eye(3)) if mass else arm
        logs.append(record_log(robot, 12.0, 9.0 + 2 * k, noise=0.02, seed=k))
    return payload_differences.run(diagnostic_data(arm, logs, SETTINGS))


def test_the_log_with_the_load_is_named_with_its_mass(arm):
    (result,) = diagnose(arm, (0.0, 0.0), (0.0, 0.0), (12.0, 0.3))
    assert result.message.startswith("log 3 ")
    assert result.value == pytest.approx(12.0, abs=1.5)
    (result,) = diagnose(arm, (12.0, 0.3), (0.0, 0.0))
    assert result.message.startswith("log 1 ")


def test_logs_are_named_by_their_files(arm):
    loaded = arm.with_payload(mass=12.0, com=(0.3, 0.0, 0.0), inertia=0.02 * np.eye(3))
    logs = [record_log(robot, 12.0, 9.0 + k, noise=0.02, seed=k) for k, robot in enumerate((arm, loaded))]
    named = [replace(log, name=f"run{k}.csv") for k, log in enumerate(logs)]
    (result,) = payload_differences.run(diagnostic_data(arm, named, SETTINGS))
    assert "run1.csv" in result.message
    assert "run0.csv" not in result.message


def test_a_load_in_another_grasp_is_not_another_mass(arm):
    (result,) = diagnose(arm, (12.0, 0.0), (12.0, 0.6))
    assert "or the same payload in another grasp" in result.message


def test_other_motions_are_not_reported_as_other_loads(arm):
    assert diagnose(arm, (12.0, 0.3), (12.0, 0.3), (12.0, 0.3)) == []
    assert diagnose(arm, (0.0, 0.0)) == []


def test_a_payload_change_within_a_log_is_reported(arm):
    loaded = arm.with_payload(mass=12.0, com=(0.3, 0.0, 0.0), inertia=0.02 * np.eye(3))
    before, after = (record_log(robot, 24.0, 9.0, noise=0.02, seed=3) for robot in (arm, loaded))
    half = len(before) // 2
    log = replace(before, tau=np.concatenate([before.tau[:half], after.tau[half:]]))
    (result,) = payload_differences.run(diagnostic_data(arm, log, SETTINGS))
    assert "at about 50 % of log 1" in result.message
    assert result.value == pytest.approx(12.0, abs=1.5)
    assert payload_differences.run(diagnostic_data(arm, before, SETTINGS)) == []
