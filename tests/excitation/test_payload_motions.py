"""Motions for payloads determine a load on a known arm better than motions for the arm do."""

from __future__ import annotations

import numpy as np
from excitation.full_speed import FULL_SPEED, design_motion
from raising import raises
from robots import random_robot

import mindyn
from mindyn.foundation.errors import Code
from mindyn.motions.excitation.design_inputs import known_rows
from mindyn.motions.excitation.motion_columns import Columns
from mindyn.regression.regressor import with_estimated_drives

ROBOT = random_robot(12, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))


def load_volume(design) -> float:
    """Logarithm of the volume of the confidence region of load and friction, by the regressor along the motion."""
    columns = Columns(design.robot, with_drives=True, speeds=design.limits.velocity)
    q, qd, qdd, _ = design.sample(100.0)
    Y = columns.dense(columns.signed_entries(q, qd, qdd)) / design.noise[:, None]
    K, n = columns.base.matrix, design.robot.joint_count
    friction = [10 * n + 4 * k + part for k in range(n) for part in (1, 2, 3)]
    U, s, _ = np.linalg.svd(K[:, [*range(10 * n - 10, 10 * n), *friction]], full_matrices=False)
    rows = (Y @ U[:, s > 1e-9 * s[0]]).reshape(-1, int((s > 1e-9 * s[0]).sum()))
    return -float(np.linalg.slogdet(rows.T @ rows)[1])


def test_a_motion_for_payloads_shows_the_load_better():
    settings = {"seconds": 6.0, "family": mindyn.Fourier(3, ramp_s=1.0), "starts": 2, "noise": 0.5, **FULL_SPEED}
    arm, load = (design_motion(ROBOT, purpose=item, **settings) for item in ("arm", "payload"))
    assert load_volume(load) < load_volume(arm)


def test_what_a_load_moves_is_not_taken_as_known():
    columns = Columns(with_estimated_drives(ROBOT), with_drives=True, speeds=np.ones(3))
    known, K = known_rows(columns, "payload"), columns.base.matrix
    moved = [*range(20, 30), *(30 + 4 * drive + part for drive in range(3) for part in (1, 2, 3))]
    assert np.abs(known @ K[:, moved]).max() < 1e-9 * np.abs(known).max()
    assert len(known) + np.linalg.matrix_rank(K[:, moved]) == columns.count
    assert not len(known_rows(columns, "arm"))
    with raises(mindyn.MindynError, Code.UNKNOWN_NAME, "hand"):
        known_rows(columns, "hand")


def test_of_a_robot_with_loops_the_load_is_on_the_end_that_no_loop_holds():
    robot = mindyn.load_robot("palletiser")
    columns = Columns(robot, with_drives=False, speeds=np.ones(robot.joint_count))
    known, K = known_rows(columns, "payload"), columns.base.matrix
    end = 10 * robot.link_index("link4")
    assert np.abs(known @ K[:, end : end + 10]).max() < 1e-9 * np.abs(known).max()
    assert len(known) + np.linalg.matrix_rank(K[:, end : end + 10]) == columns.count
