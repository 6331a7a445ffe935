"""Logs that cannot identify their robot are said to be so, with the reason; sound ones are not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program
from honesty.arms import motion as make_motion
from honesty.arms import torque
from honesty.coverage import draw_recording, find_true_values
from honesty.spoiled import (
    ERRORS,
    GIVEN_SETTINGS,
    SOUND,
    UNFIT,
    build_faulty_log,
    draw_log,
    run_trial,
    visible_findings,
)
from identification.diagnosed import diagnostic_data

import mindyn
from mindyn.cli.exit_codes import ExitCode
from mindyn.foundation.findings import Kind, Severity
from mindyn.identification.diagnostics import motion_quality, time_offsets
from mindyn.identification.diagnostics.diagnose import diagnose
from mindyn.logs.log import log_from_arrays, write_log
from mindyn.regression.build_rows import build_rows
from mindyn.robots.parts import Limits


@pytest.mark.parametrize(("number", "fault"), list(enumerate([*ERRORS, *UNFIT], start=12)))
def test_what_is_wrong_with_a_log_is_named(number, fault):
    assert run_trial(number, fault)["good"]


def test_swapped_torques_of_the_same_shape_are_named_by_their_sizes():
    assert run_trial(7, "swapped")["good"]


@pytest.mark.parametrize("number", range(3))
def test_a_correct_log_has_no_finding(number):
    result = run_trial(number, SOUND)
    assert result["good"]
    assert result["usable"]


def test_the_verdict_names_reason_and_remedy_before_the_numbers():
    robot, log = build_faulty_log(3, "one joint")
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), GIVEN_SETTINGS)
    assert not estimate.data.identifiable.holds
    assert estimate.findings[0].kind == Kind.STILL_JOINT
    assert estimate.findings[0].severity is Severity.ERROR
    assert estimate.findings[0].remedy.startswith("Record a motion of every joint")
    assert visible_findings(estimate) == [estimate.findings[0]]


def test_if_no_joint_moves_the_remedy_is_the_unit_of_the_position():
    robot, log = build_faulty_log(3, SOUND)
    turned = replace(log, q=1e-3 * log.q, qd=None, qdd=None)
    estimate = mindyn.identify(robot, turned, mindyn.LeastSquares(), GIVEN_SETTINGS)
    assert estimate.findings[0].kind == Kind.STILL_JOINT
    assert "units.position" in estimate.findings[0].remedy
    assert "--lock" not in estimate.findings[0].remedy


def test_the_verdict_is_saved(tmp_path):
    robot, log = build_faulty_log(4, "constant speed")
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), GIVEN_SETTINGS)
    estimate.save(tmp_path / "estimate.json")
    loaded = mindyn.load_estimate(tmp_path / "estimate.json")
    assert loaded.data.identifiable == estimate.data.identifiable
    assert loaded.findings == estimate.findings
    assert estimate.data.identifiable.uncertainty > 1


def test_rounded_torques_are_not_reported_as_saturated():
    _, _, robot, log, _ = draw_log(5)
    rounded = replace(log, tau=np.round(log.tau / (0.02 * np.ptp(log.tau, axis=0))) * 0.02 * np.ptp(log.tau, axis=0))
    findings = diagnose(diagnostic_data(robot, rounded, GIVEN_SETTINGS))
    assert not any(finding.kind == Kind.SATURATED_TORQUE for finding in findings)


def test_uncertainty_is_that_of_other_motion():
    """For a valid log it bounds the error on other motions; for a short log it is larger."""
    _, _, robot, log, _ = draw_log(2)
    whole, short = (diagnostic_data(robot, item, GIVEN_SETTINGS).uncertainty for item in (log, log.take(slice(0, 400))))
    assert 0 < whole < 0.1
    assert short > 2 * whole


def test_offsets_of_joints_that_turn_one_way_are_uncertain_by_the_friction():
    """They are not separate from Coulomb friction, which bounds them."""
    arm, how, robot, log, _ = draw_log(2)
    t, q, qd, qdd = make_motion(arm, how, 2)
    drift = 1.5 * np.abs(qd).max(axis=0)
    q, qd = q + t[:, None] * drift, qd + drift
    log = log_from_arrays(arm.joint_names, t, q, torque(arm, q, qd, qdd) + 0.01 * log.tau)
    robot = replace(robot, joints=tuple(replace(joint, limits=Limits(-20.0, 20.0, 5.0)) for joint in robot.joints))
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(friction_rule="regularised"), GIVEN_SETTINGS)
    assert not visible_findings(estimate)
    assert 0.01 < estimate.data.identifiable.uncertainty < 1


def test_slow_motion_without_acceleration_is_an_error_whatever_is_selected():
    """Selected filters leave rows, and dropped inertias are not certain to be zero."""
    estimate = mindyn.identify(*build_faulty_log(0, "constant speed"))
    assert estimate.values.dropped
    assert [finding.kind for finding in visible_findings(estimate)] == [Kind.POOR_MOTION]


def test_truths_of_the_simulation_have_a_value_for_every_parameter():
    arm, how, robot, log, _ = draw_log(1)
    estimate = mindyn.LeastSquares().fit(build_rows(robot, log, GIVEN_SETTINGS))
    assert find_true_values(estimate, arm, how).shape == estimate.beta.shape
    assert draw_recording(0).period_s


def test_the_command_prints_the_error_first_and_exits_with_no(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    robot = mindyn.load_robot("planar2")
    time = np.arange(0, 8, 0.01)
    q = 0.5 + 0.3 * np.sin(np.outer(time, [2.0, 3.1]))
    noise = np.random.default_rng(0).standard_normal(q.shape)
    sides = {"position": "joint", "torque": "joint"}
    write_log(robot, time, {"position": q, "torque": 3 * noise}, tmp_path / "log.csv", sides)
    done = mindyn_program("identify", "planar2", "log.csv", "--json")
    assert done.code == ExitCode.NO
    answer = json.loads(done.out)
    assert not answer["identifiable"]["holds"]
    (visible,) = [
        finding for finding in answer["findings"] if finding["severity"] != "info" and finding["explained_by"] is None
    ]
    assert visible["kind"] == Kind.UNRELATED_TORQUE
    assert "error    the torque does not follow the motion" in done.err


@pytest.mark.parametrize(
    ("uncertainty", "is_consistent", "severities"),
    [
        (0.9, False, []),
        (1.5, False, [Severity.ERROR]),
        (1.5, True, [Severity.WARNING]),
        (4.5, True, [Severity.ERROR]),
    ],
)
def test_physical_consistency_makes_up_for_some_uncertainty(uncertainty, is_consistent, severities):
    _, _, robot, log, _ = draw_log(0)
    data = diagnostic_data(robot, log, GIVEN_SETTINGS, uncertainty=uncertainty, is_consistent=is_consistent)
    assert [item.severity for item in motion_quality.run(data)] == severities


def test_a_torque_that_leads_is_named():
    robot, log = build_faulty_log(47, "late joint")  # joint 2 is 40 ms late; the others shifted, it leads
    rows = round(0.08 * 100)
    tau = log.tau[:-rows].copy()
    tau[:, 1] = log.tau[rows:, 1]
    ahead = diagnostic_data(robot, replace(log.take(slice(0, -rows)), tau=tau), GIVEN_SETTINGS)
    (result,) = time_offsets.run(ahead)
    assert result.joints == ("joint2",)
    assert result.value == pytest.approx(-0.04, abs=0.015)
