"""Dry friction of passive joints in loops that are solved for: it slips as the tree's does, and sticks as it must."""

from __future__ import annotations

from dataclasses import replace

import casadi
import cvxpy
import numpy as np
import pytest
from closed_models import closed_model
from closeness import SAME_ALGEBRA, assert_close, assert_negligible
from raising import raises

import mindyn
from mindyn.equations.loop_constraints import open_tree
from mindyn.foundation.errors import Code, InputError
from mindyn.motions.simulation.controllers import ComputedTorque, SineMotion, convert_to_law
from mindyn.motions.simulation.rollouts import roll_out
from mindyn.robots.drive_matrices import friction_matrix
from mindyn.robots.parts import Drive, ExtraTorque

CONVEX = 1e-6
"""Tolerance of an interior-point solver."""
ALIKE = 1e-9
"""One step's arithmetic in two orders, under feedback."""
STEPS = 3e-4
"""Fixed steps of 0.2 ms against events."""


def five_bar(*coulomb):
    """With drives on all joints; Coulomb torques in the order of the joints."""
    robot = mindyn.load_robot("five_bar")
    rotors = [2e-3 if name in robot.primary_names else 0.0 for name in robot.joint_names]
    drives = [
        Drive(name, 10.0 if rotor else 1.0, viscous=0.2, coulomb=level, rotor_inertia=rotor)
        for name, rotor, level in zip(robot.joint_names, rotors, coulomb, strict=True)
    ]
    return replace(robot, drives=tuple(drives))


def push(t, q, qd):  # noqa: ARG001 - a torque of time alone
    return np.array([8.0, 15.0, 10.0]) * np.sin(np.array([3.0, 4.0, 5.0]) * t) + np.array([0.0, -25.0, 10.0])


EVERYWHERE = five_bar(3.0, 3.0, 1.5, 3.0, 1.0)
SOME = five_bar(0.0, 3.0, 1.5, 0.0, 0.0)


@pytest.mark.parametrize("robot", [EVERYWHERE, SOME], ids=["all joints", "one primary and one passive joint"])
def test_events_and_fixed_steps_move_alike_and_slipping_friction_is_the_trees(robot):
    start = {"seconds": 1.0, "q0": [0, 0.1, -1.2], "with_drives": True, "rate_hz": 200}
    motion = mindyn.simulate(robot, push, **start)
    fixed = mindyn.simulate(robot, push, **start, method="fixed", longest_step_s=2e-4)
    assert motion.events > 3
    assert motion.stuck.any()
    assert_close(fixed.q, motion.q, STEPS)
    whole = closed_model(robot).motion(motion.q, motion.qd)
    levels = np.array([drive.coulomb for drive in robot.drives])
    speeds = whole.qd @ friction_matrix(robot).T
    slipping = (np.abs(speeds[:, levels > 0]) > 1e-6).all(axis=1)
    torques = (np.sign(speeds) * levels) @ friction_matrix(robot)  # of the tree's joints
    expected = np.einsum("nik,ni->nk", whole.W, torques)
    assert slipping.sum() > 50
    assert_close(motion.friction[slipping], expected[slipping], SAME_ALGEBRA)


def test_at_rest_accelerations_are_the_least_that_friction_leaves():
    """They minimise (a - free)^T M (a - free) / 2 + sum c |F a|, whichever frictions share what they hold."""
    robot, p = EVERYWHERE, np.array([0.2, 0.3, -1.0])
    smooth = replace(robot, drives=tuple(replace(drive, coulomb=0.0) for drive in robot.drives))
    model = mindyn.compile_model(smooth, with_drives=True)
    M, gravity = model.inertia_matrix(p), model.gravity(p)
    F = friction_matrix(robot) @ closed_model(robot).motion(p[None]).W[0]
    levels = np.array([drive.coulomb for drive in robot.drives])
    rng, held = np.random.default_rng(0), 0
    for size in (1.0, 3.0, 5.0, 8.0, 20.0):
        tau = gravity + size * rng.uniform(-1, 1, 3)
        result = mindyn.simulate(
            robot, lambda *_, tau=tau: tau, seconds=0.001, q0=p, with_drives=True, rate_hz=1000
        ).qdd[0]
        a = cvxpy.Variable(3)
        free = np.linalg.solve(M, tau - gravity)
        cost = cvxpy.quad_form(a - free, (M + M.T) / 2) / 2 + levels @ cvxpy.abs(F @ a)
        cvxpy.Problem(cvxpy.Minimize(cost)).solve(
            solver="CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13
        )
        assert_negligible(result - a.value, np.abs(free).max(), CONVEX)
        held += bool(np.abs(result).max() < 1e-6)
    assert 0 < held < 5


def test_a_declared_stribeck_formula_on_a_passive_joint_acts_through_the_loop():
    formula = "(1 + 0.5 * exp(-((qd / 0.2) ** 2))) * tanh(qd / 0.01)"
    robot = replace(five_bar(0, 0, 0, 0, 0), extras=(ExtraTorque("stribeck_pin", "joint3", formula, 2.0),))
    p, pd, pdd = np.array([0.1, 0.2, -1.1]), np.array([0.4, -0.3, 0.5]), np.array([1.0, 2.0, -3.0])
    whole = closed_model(robot).motion(p[None], pd[None], pdd[None])
    tree = mindyn.compile_model(open_tree(robot), with_drives=True).inverse_dynamics(whole.q, whole.qd, whole.qdd)
    expected = (whole.W[0].T @ tree[0][:, None])[:, 0]
    assert_close(mindyn.compile_model(robot, with_drives=True).inverse_dynamics(p, pd, pdd), expected, SAME_ALGEBRA)
    tau = expected
    motion = mindyn.simulate(robot, lambda *_: tau, seconds=0.001, q0=p, qd0=pd, with_drives=True, rate_hz=1000)
    assert_close(motion.qdd[0], pdd, 1e-9)


def test_computed_torque_compensates_friction_of_passive_joints():
    wanted = SineMotion([0, 0.1, -1.2], [[0.3, 0.3, 0.2]], [[0.5, 0.7, 0.9]], [[0.3, 1, 2]])
    q, qd, _ = wanted(0.0)
    controller = ComputedTorque(EVERYWHERE, wanted, 400.0, 40.0, with_drives=True)
    motion = mindyn.simulate(
        EVERYWHERE, controller, seconds=0.5, q0=q, qd0=qd, with_drives=True, control_rate_hz=2000.0
    )
    assert np.abs(motion.q - wanted.rows(motion.t)[0]).max() < 2e-4


def test_a_law_of_rollouts_reads_all_joints_or_the_primary_ones():
    """Computed torque is a function of all joints where loops are solved for: the step knows them."""
    press = mindyn.load_robot("slider_crank")
    wanted = SineMotion([0.5], [[0.8]], [[0.7]], [[1.0]])
    controller = ComputedTorque(press, wanted, 400.0, 40.0, with_drives=True)
    law = convert_to_law(controller)
    q, qd, _ = wanted(0.0)
    called = mindyn.simulate(press, controller, seconds=0.1, q0=q, qd0=qd, with_drives=True, method="fixed")
    signals = law.signals(called.t[:-1])
    result = roll_out(press, q, qd, law.function, dt=1e-3, steps=100, with_drives=True, signals=signals)
    assert_close(result.q[0], called.q, ALIKE)
    assert_close(result.tau[0], called.tau[:-1], ALIKE)
    stranger = casadi.SX.sym("q", 4)
    with raises(InputError, code=Code.WRONG_SHAPE, subject="q"):
        roll_out(press, q, qd, casadi.Function("f", [stranger], [stranger[:1]], ["q"], ["tau"]), dt=1e-3, steps=2)
