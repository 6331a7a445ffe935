"""Swapped or reversed columns and another gravity are the only finding, although the file has no masses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from honesty.arms import remove_masses
from honesty.spoiled import GIVEN_SETTINGS, draw_log, visible_findings

import mindyn
from mindyn.foundation.findings import Kind


def findings_of(robot, log):
    return visible_findings(mindyn.identify(robot, log, mindyn.LeastSquares(), GIVEN_SETTINGS))


@pytest.mark.parametrize("has_masses", [False, True])
@pytest.mark.parametrize("seed", [1, 102])
def test_swapped_torques_are_the_only_finding(seed, has_masses):
    _, _, robot, log, _ = draw_log(seed)
    order = [0, 2, 1, *range(3, len(robot.joint_names))]
    (finding,) = findings_of(robot if has_masses else remove_masses(robot), replace(log, tau=log.tau[:, order]))
    assert finding.kind is Kind.SWAPPED_TORQUES
    assert set(finding.joints) == set(robot.joint_names[1:3])


@pytest.mark.parametrize("has_masses", [False, True])
def test_a_reversed_position_is_found_at_its_joint(has_masses):
    _, _, robot, log, _ = draw_log(3)
    signs = np.where(np.arange(len(robot.joint_names)) == 1, -1.0, 1.0)
    reversed_log = replace(log, q=signs * log.q, qd=None if log.qd is None else signs * log.qd)
    (finding,) = findings_of(robot if has_masses else remove_masses(robot), reversed_log)
    assert finding.kind is Kind.WRONG_TORQUE_SIGN
    assert finding.joints == (robot.joint_names[1],)
    assert "position" in finding.message


def test_another_gravity_is_found_without_masses():
    _, _, robot, log, _ = draw_log(1)
    (finding,) = findings_of(replace(remove_masses(robot), gravity=np.array([9.81, 0.0, 0.0])), log)
    assert finding.kind is Kind.WRONG_GRAVITY


@pytest.mark.parametrize("seed", [0, 4])
def test_a_correct_log_has_no_such_finding(seed):
    _, _, robot, log, _ = draw_log(seed)
    assert findings_of(remove_masses(robot), log) == []
