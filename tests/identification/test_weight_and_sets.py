"""Weight that the lengths do not allow, and one log of a set that differs; sound sets have no such finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from honesty.arms import Recording, random_arm, record_log, remove_masses
from honesty.spoiled import GIVEN_SETTINGS, holding_torque, simulate_pendulum

import mindyn
from mindyn.foundation.findings import Kind
from mindyn.identification.diagnostics import (
    contact_segments,
    implausible_weight,
    motion_quality,
    payload_differences,
    torque_signals,
    zeros_and_gravity,
)
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.identification.diagnostics.implausible_weight import find_reaches
from mindyn.regression.build_rows import build_rows

HOW = Recording(seconds=10.0, noise=0.01)


@pytest.fixture(scope="module")
def arm():
    return random_arm(9003, 4, shoulder=True)


@pytest.fixture(scope="module")
def logs(arm):
    return [replace(record_log(arm, HOW, 50 + k), name=f"run{k}.csv") for k in range(3)]


def data_of(robot, logs):
    rows = build_rows(robot, logs, GIVEN_SETTINGS)
    conditioned = rows._data.all_samples
    fit = mindyn.LeastSquares().fit(rows)
    return DiagnosticData(robot, fit, rows, conditioned.samples, logs, conditioned.logs)


@pytest.mark.parametrize("factor", [1.0, 1000.0, 1e-3, 0.05])
def test_weight_that_no_arm_of_that_reach_has_is_found_without_masses(arm, logs, factor):
    scaled = [replace(logs[0], tau=factor * logs[0].tau)]
    findings = implausible_weight.run(data_of(remove_masses(arm), scaled))
    assert [finding.kind for finding in findings] == ([] if factor == 1.0 else [Kind.IMPLAUSIBLE_WEIGHT])
    assert implausible_weight.run(data_of(arm, scaled)) == [], "masses of a file are compared with the torque instead"


def test_reaches_are_lengths_of_chains():
    puma = mindyn.load_robot("puma560")
    steps = [float(np.linalg.norm((joint.origin @ joint.tip).translation)) for joint in puma.joints]
    last = np.mean([step for step in steps if step > 0])
    along = [np.linalg.norm(X.translation) for joint in puma.joints for X in (joint.origin, joint.tip)]
    assert find_reaches(puma)[0] == pytest.approx(sum(along[1:]) + last)
    assert (np.diff(find_reaches(puma)) <= 0).all()


def test_a_log_without_gravity_is_detected_and_named(arm, logs):
    assert zeros_and_gravity.run(data_of(remove_masses(arm), logs)) == []
    compensated = replace(logs[1], tau=logs[1].tau - holding_torque(arm, logs[1].q, arm.gravity))
    for robot in (arm, remove_masses(arm)):
        (finding,) = zeros_and_gravity.run(data_of(robot, [logs[0], compensated, logs[2]]))
        assert finding.kind is Kind.ABSENT_GRAVITY
        assert "in log run1.csv" in finding.message


def test_a_double_pendulum_on_free_joints_carries_no_other_load():
    """Its torque is noise and an offset: the motion identifies nothing, and no log lacks gravity or has a load."""
    robot, logs = simulate_pendulum(np.random.default_rng(3))
    data = data_of(robot, logs)
    assert [finding.kind for finding in motion_quality.run(data)] == [Kind.POOR_MOTION]
    assert payload_differences.run(data) == []
    assert not any("in log" in finding.message for finding in zeros_and_gravity.run(data))


@pytest.mark.parametrize("hertz", [8.0, 12.0])
def test_a_residual_of_a_mode_is_vibration(arm, logs, hertz):
    """And not a reason to check signs and columns."""
    log = logs[0]
    size = np.sqrt((log.tau**2).mean(axis=0))
    shaking = replace(log, tau=log.tau + size * np.sin(2 * np.pi * hertz * log.time)[:, None])
    findings = torque_signals.run(data_of(arm, [shaking]))
    kinds = {finding.kind for finding in findings}
    assert Kind.FAST_RESIDUAL in kinds
    assert Kind.UNEXPLAINED_TORQUE not in kinds
    (finding,) = [finding for finding in findings if finding.kind is Kind.FAST_RESIDUAL]
    assert set(finding.joints) == set(arm.joint_names)
    slow = replace(log, tau=log.tau + size * np.sin(2 * np.pi * 0.9 * log.time)[:, None])
    assert Kind.FAST_RESIDUAL not in {finding.kind for finding in torque_signals.run(data_of(arm, [slow]))}


@pytest.mark.parametrize(("milliseconds", "count"), [(20, 0), (60, 0), (300, 1)])
def test_impacts_that_are_shorter_than_a_contact_are_none(arm, logs, milliseconds, count):
    log = logs[0]
    pushed = np.abs(log.time - 5.0) < milliseconds / 2000
    tau = log.tau + 20 * np.sqrt((log.tau**2).mean(axis=0)) * pushed[:, None]
    assert len(contact_segments.run(data_of(arm, [replace(log, tau=tau)]))) == count


def test_residuals_at_the_ends_of_a_log_are_not_reported_as_contact(arm, logs):
    """A delay of 60 ms is applied by moving the motion, which is then extrapolated."""
    log = logs[0]
    data = data_of(arm, [log])
    late = data.residuals.copy()
    late[:15] += 30 * late.std(axis=0)
    data.__dict__["residuals"] = late
    assert not contact_segments.run(data)
    data.__dict__["residuals"] = np.roll(late, 500, axis=0)
    assert len(contact_segments.run(data)) == 1
