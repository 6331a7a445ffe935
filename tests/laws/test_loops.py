"""Laws of closed loops: they stay closed, move as their pins allow, and obey Newton's laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closed_models import closed_model
from closeness import DERIVATIVE, ORACLE, SAME_ALGEBRA, assert_close, assert_negligible
from identifiability.loop_oracle import LoopOracle
from raising import raises
from robots import random_phi

from mindyn import base_parameters, compile_model, load_robot, write_toml
from mindyn.equations import tree_state
from mindyn.equations.loop_closure import affine_closure, loop_closure, with_home
from mindyn.equations.loop_equations import loop_equation
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import rot_x, rot_z
from mindyn.foundation.errors import Code, InputError, RobotError, UnknownNameError
from mindyn.robots.parts import Drive, Joint, Link, Loop
from mindyn.robots.robot import Robot

PARALLELOGRAMS = (
    *("parallelogram_planar", "parallelogram_scara", "semi_direct_drive", "palletiser", "parallelogram_arm"),
)
CONSTRAINED = 1e-8
"""Tolerance of an iterative constraint solver."""


def bennett(twist: float = 0.6) -> Robot:
    """Return Bennett's linkage: four skew axes with one degree of freedom due to its lengths and twists."""
    a, b, beta = 0.5, 0.8, np.arcsin(np.sin(twist) * 0.8 / 0.5)
    shapes = [(a, twist), (b, beta), (a, twist)]
    rng = np.random.default_rng(1)
    joints = [
        Joint(f"j{i + 1}", "revolute", "base" if i == 0 else f"l{i}", f"l{i + 1}", tip=rotated_pose(length, angle))
        for i, (length, angle) in enumerate(shapes)
    ]
    links = [Link(f"l{i + 1}", random_phi(rng)) for i in range(3)]
    pin = Loop("bennett", "l3", "base", Pose(), rotated_pose(b, beta).inverse(), ("j2", "j3"))
    return Robot("bennett", Link("base"), tuple(joints), tuple(links), np.array([1.0, 2.0, -9.0]), loops=(pin,))


def rotated_pose(length: float, twist: float) -> Pose:
    return Pose(rot_x(np.cos(twist), np.sin(twist)), (length, 0, 0))


def bennett_home() -> np.ndarray:
    """Return the closed configuration with j1 = 1 rad, by the half-angle relation of the linkage."""
    a, b = 0.6, np.arcsin(np.sin(0.6) * 0.8 / 0.5)
    other = 2 * np.arctan(np.sin((b + a) / 2) / np.sin((b - a) / 2) / np.tan(0.5))
    return np.array([1.0, other, -1.0])


def antiparallelogram() -> tuple[Robot, np.ndarray]:
    """Return the planar parallelogram in its crossed assembly: the same lengths, but another linkage."""
    robot = load_robot("parallelogram_planar", gravity=(2.0, 1.0, -9.0))
    tip, crank = np.array([0.5, 0.0]), np.array([0.0, 0.3])  # at joint1 = joint_crank = 0
    across = (crank - tip) / np.linalg.norm(crank - tip)
    pin = tip + 2 * (crank @ across) * across - crank  # the corner tip + crank, mirrored in the diagonal
    return robot, np.array([0.0, angle(pin - tip) - np.pi / 2, 0.0, angle(pin - crank)])


def angle(v) -> float:
    return float(np.arctan2(v[1], v[0]))


def four_bar() -> Robot:
    """Return a planar four-bar that cannot turn fully: crank 1.0, coupler 0.9, rocker 0.6, ground 1.2."""
    along = lambda x: Pose(None, (x, 0, 0))  # noqa: E731
    joints = (
        Joint("crank", "revolute", "base", "crank_link"),
        Joint("coupler", "revolute", "crank_link", "coupler_link", along(1.0)),
        Joint("rocker", "revolute", "base", "rocker_link", along(1.2)),
    )
    rng = np.random.default_rng(2)
    links = tuple(Link(joint.child, random_phi(rng)) for joint in joints)
    pin = Loop("four_bar", "coupler_link", "rocker_link", along(0.9), along(0.6), ("coupler", "rocker"))
    return Robot("four_bar", Link("base"), joints, links, np.array([0.0, -9.81, 0.0]), loops=(pin,))


def mechanisms():
    for name in ("five_bar", *PARALLELOGRAMS):
        yield pytest.param(load_robot(name), None, id=name)
    yield pytest.param(bennett(), bennett_home(), id="bennett")
    yield pytest.param(*antiparallelogram(), id="antiparallelogram")
    yield pytest.param(four_bar(), np.array([0.85, -1.0, 1.0]), id="four_bar")


MECHANISMS = list(mechanisms())


def states(dynamics, count: int, seed: int = 0):
    """Return reachable primary states around home."""
    closure = dynamics.closure
    rng = np.random.default_rng(seed)
    size = len(closure.primary)
    p = closure.home[list(closure.primary)] + rng.uniform(-0.6, 0.6, (count, size))
    return p, *rng.uniform(-2, 2, (2, count, size))


@pytest.mark.parametrize(("robot", "home"), MECHANISMS)
def test_loops_stay_closed_and_move_as_their_pins_allow(robot, home):
    dynamics = closed_model(robot, home=home)
    oracle = LoopOracle(robot)
    motion = dynamics.motion(*states(dynamics, 20))
    for q, qd, qdd in zip(motion.q, motion.qd, motion.qdd, strict=True):
        apart, tilt = oracle.gaps(q)
        assert_negligible([*apart, *tilt], 1.0, SAME_ALGEBRA)
        J, bias = oracle.constraint(q, qd)
        assert_negligible(J @ qd, np.abs(J).max() * np.abs(qd).max(), ORACLE)
        assert_negligible(J @ qdd + bias, np.abs(J).max() * np.abs(qdd).max(), ORACLE)


@pytest.mark.parametrize(("robot", "home"), MECHANISMS)
def test_torques_and_regressors_are_those_of_pinocchio_through_the_pins(robot, home):
    dynamics = closed_model(robot, home=home)
    oracle = LoopOracle(robot)
    p, pd, pdd = states(dynamics, 10)
    q = dynamics.motion(p).q
    reference = np.array([oracle.torque_rows(*state) for state in zip(q, pd, pdd, strict=True)])
    assert_close(dynamics.standard_regressor(p, pd, pdd), reference, ORACLE)
    assert_close(dynamics.inverse_dynamics(p, pd, pdd), reference @ robot.phi, ORACLE)


@pytest.mark.parametrize(("robot", "home"), MECHANISMS)
def test_accelerations_are_those_of_the_constrained_tree(robot, home):
    dynamics = closed_model(robot, home=home)
    oracle = LoopOracle(robot)
    p, pd, tau = states(dynamics, 10, seed=3)
    q = dynamics.motion(p).q
    pdd = dynamics.forward_dynamics(p, pd, 5 * tau)
    reference = np.array([oracle.forward_dynamics(*state) for state in zip(q, pd, 5 * tau, strict=True)])
    assert_close(pdd, reference, CONSTRAINED)
    assert_close(dynamics.inverse_dynamics(p, pd, pdd), 5 * tau, ORACLE)


@pytest.mark.parametrize("name", ["five_bar", "semi_direct_drive", "palletiser"])
def test_accelerations_are_those_of_pinocchios_constraint_solver(name):
    robot = load_robot(name)
    dynamics = closed_model(robot)
    oracle = LoopOracle(robot)
    p, pd, tau = states(dynamics, 5, seed=4)
    q = dynamics.motion(p).q
    reference = np.array([oracle.constraint_dynamics(*state) for state in zip(q, pd, 20 * tau, strict=True)])
    assert_close(dynamics.forward_dynamics(p, pd, 20 * tau), reference, CONSTRAINED)


@pytest.mark.parametrize(("robot", "home"), MECHANISMS)
def test_power_is_the_change_of_energy(robot, home):
    dynamics = closed_model(robot, home=home)
    p, pd, pdd = states(dynamics, 10, seed=5)
    step = 1e-5

    def energy(t):
        return dynamics.energy(p + t * pd + t**2 / 2 * pdd, pd + t * pdd).sum(axis=1)

    power = (dynamics.inverse_dynamics(p, pd, pdd) * pd).sum(axis=1)
    assert_close((energy(step) - energy(-step)) / (2 * step), power, DERIVATIVE)


@pytest.mark.parametrize("name", PARALLELOGRAMS)
def test_parallelograms_close_exactly_and_as_casadi_functions(name):
    robot = load_robot(name)
    dynamics = closed_model(robot)
    affine = dynamics.closure.affine
    assert affine is not None
    assert set(np.unique(affine.matrix)) <= {-1.0, 0.0, 1.0}
    p, pd, pdd = states(dynamics, 5)
    expected = {
        "inverse_dynamics": (p, pd, pdd, dynamics.inverse_dynamics(p, pd, pdd)),
        "inertia_matrix": (p, dynamics.inertia_matrix(p)),
        "forward_dynamics": (p, pd, pdd, dynamics.forward_dynamics(p, pd, pdd)),
        "energy": (p, pd, dynamics.energy(p, pd)),
        "energy_regressor": (p, pd, dynamics.energy_regressor(p, pd)),
        "standard_regressor": (p, pd, pdd, dynamics.standard_regressor(p, pd, pdd)),
    }
    for equation, (*inputs, reference) in expected.items():
        function = loop_equation(robot, equation)
        assert function.size_in(0) == (len(dynamics.primary_names), 1)
        values = [np.array(function(*row)) for row in zip(*inputs, strict=True)]
        assert_close(np.reshape(values, reference.shape), reference, ORACLE)


def test_regressors_of_parallelograms_carry_no_rounding_noise():
    """Entries of 1e-17 where the embedding has zeros would make the palletiser's regressor ten times as long."""
    robot = load_robot("palletiser")
    counts = compile_model(robot, base=base_parameters(robot)).operation_counts
    assert counts["regressor"].total < 3.5 * counts["standard_regressor"].total


def move_zeros(robot: Robot, angles) -> Robot:
    """Return the same mechanism with q' = q - angles."""
    turns = [Pose(rot_z(np.cos(angle), np.sin(angle))) for angle in angles]
    joints = [replace(joint, origin=joint.origin @ turn) for joint, turn in zip(robot.joints, turns, strict=True)]
    return replace(robot, joints=tuple(joints))


@pytest.mark.parametrize(
    "angles", [[np.pi / 2, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, -2.0]], ids=["flat at zero", "crossed near zero"]
)
def test_compiled_models_take_a_home(angles):
    plain = load_robot("parallelogram_planar", gravity=(2.0, 1.0, -9.0))
    robot = move_zeros(plain, angles)
    if angles[0]:
        with raises(RobotError, Code.INACCURATE, robot.loops[0].name) as caught:
            compile_model(robot).inverse_dynamics(*np.zeros((3, 2)))
        assert "pass home=" in caught.value.hint
    else:  # another linkage, which is solved numerically
        assert loop_closure(robot).affine is None
    home = loop_closure(plain).positions(np.array([[0.3, 0.1]]))[0] - angles
    base = base_parameters(with_home(robot, home))
    model = compile_model(robot, base=base, home=home)
    q, qd, qdd = np.random.default_rng(0).uniform(-0.5, 0.5, (3, 10, 2))
    there = q - np.array(angles)[[0, 2]]
    expected = compile_model(plain).inverse_dynamics(q, qd, qdd)
    assert_close(model.inverse_dynamics(there, qd, qdd), expected, ORACLE)
    assert_close(model.regressor(there, qd, qdd) @ base.values, expected, ORACLE)
    assert_close(closed_model(robot, home=home).inverse_dynamics(there, qd, qdd), expected, ORACLE)


def test_a_home_without_loops_raises():
    with raises(InputError, Code.UNSUPPORTED, "home"):
        compile_model(load_robot("puma560"), home=np.zeros(6))


def test_a_crossed_parallelogram_is_not_treated_as_a_parallelogram():
    """Equal lengths do not make a parallelogram: the crossed assembly is solved numerically, and stays crossed."""
    robot, home = antiparallelogram()
    closure = loop_closure(robot, home)
    straight = loop_closure(robot)
    assert straight.affine is not None
    assert closure.affine is None
    p = closure.home[list(closure.primary)][None] + 0.3 * np.array([[1.0, -1.0]])
    assert np.abs(closure.positions(p) - straight.positions(p)).max() > 0.1


def test_the_assembly_is_kept_along_a_motion_that_winds_up():
    """Both input links of the five-bar turn twice; the coupler angles come back to where they were."""
    closure = loop_closure(load_robot("five_bar"))
    turns = np.linspace(0, 4 * np.pi, 200)
    p = np.stack([0 * turns, turns, turns - 1.0], axis=1)
    q = closure.positions(p)
    assert_close(q[-1, [2, 4]], q[0, [2, 4]], ORACLE)
    assert np.abs(np.diff(q, axis=0)).max() < 0.2


def test_drives_act_through_the_loop():
    """Friction of a dependent joint reaches the primary ones as W^T."""
    robot = load_robot("five_bar")
    driven = replace(robot, drives=(Drive("joint3", viscous=2.0), Drive("joint2", 10.0, rotor_inertia=0.1)))
    plain, full = closed_model(robot), closed_model(driven, with_drives=True)
    p, pd, pdd = states(plain, 5)
    motion = plain.motion(p, pd, pdd)
    drive = np.zeros_like(motion.q)
    drive[:, 2] = 2.0 * motion.qd[:, 2]
    drive[:, 1] = 10.0**2 * 0.1 * motion.qdd[:, 1]
    expected = np.einsum("njk,nj->nk", motion.W, drive)
    assert_close(full.inverse_dynamics(p, pd, pdd) - plain.inverse_dynamics(p, pd, pdd), expected, ORACLE)


def test_a_loop_that_cannot_close_is_rejected():
    robot = four_bar()
    dynamics = closed_model(robot, home=[0.5, -1.0, 1.0])
    with raises(RobotError, Code.OUT_OF_RANGE, "four_bar"):
        dynamics.inertia_matrix([3.0])
    short = replace(robot, loops=(replace(robot.loops[0], first_pose=Pose(None, (0.01, 0, 0))),))
    with raises(RobotError, Code.NOT_CONVERGED, "four_bar"):
        closed_model(short)


def test_a_singular_configuration_is_rejected_by_name():
    """With coupler and rocker in line, the crank is at its end position and does not determine them."""
    robot = four_bar()
    end = np.arccos((1.0 + 1.2**2 - 1.5**2) / (2 * 1.2))  # triangle of crank 1, ground 1.2 and coupler + rocker 1.5
    closure = loop_closure(robot, [0.5, -1.0, 1.0])
    with raises(RobotError, Code.INACCURATE, "four_bar"):
        closure.velocity_matrix(in_line(end)[None])
    with raises(RobotError, Code.NOT_CONVERGED, "four_bar"):
        closure.positions(np.array([[end]]))
    with raises(RobotError, Code.OUT_OF_RANGE, "four_bar"):
        closure.positions(np.array([[end + 0.05]]))


def in_line(crank: float) -> np.ndarray:
    tip, ground = np.array([np.cos(crank), np.sin(crank)]), np.array([1.2, 0.0])
    direction = (ground - tip) / np.linalg.norm(ground - tip)
    angle = np.arctan2(direction[1], direction[0])
    return np.array([crank, angle - crank, angle + np.pi])


def test_no_step_jumps_over_a_gap_to_another_assembly():
    """With a rocker of 0.68 m the crank cannot pass 0 +- 0.083 rad, less than one step of the walk."""
    robot = four_bar()
    robot = replace(robot, loops=(replace(robot.loops[0], second_pose=Pose(None, (0.68, 0, 0))),))
    closure = loop_closure(robot, [0.85, -1.0, 1.0])
    with raises(RobotError, Code.NOT_CONVERGED, "four_bar"):
        closure.positions(np.array([[-0.85]]))


def test_wrong_descriptions_of_loops_are_rejected():
    robot = load_robot("five_bar")
    loop = robot.loops[0]
    with raises(RobotError, Code.UNKNOWN_NAME, "joint1"):
        loop_closure(replace(robot, loops=(replace(loop, dependent=("joint1", "joint3")),)))
    with raises(RobotError, Code.MISSING_VALUE, "five_bar"):
        loop_closure(replace(robot, loops=(replace(loop, dependent=()),)))
    with raises(RobotError, Code.INVALID_STRUCTURE, "five_bar"):
        loop_closure(replace(robot, loops=(replace(loop, dependent=("joint3",)),)), home=np.zeros(5))
    with raises(RobotError, Code.UNSUPPORTED, "puma560"):
        loop_closure(load_robot("puma560"))
    with raises(RobotError, Code.UNSUPPORTED, "five_bar"):
        affine_closure(robot)
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "torque"):
        loop_equation(robot, "torque")
    with raises(InputError, Code.MISSING_VALUE, "base"):
        loop_equation(load_robot("palletiser"), "regressor")
    with raises(InputError, Code.WRONG_SHAPE, "q"):
        closed_model(robot).inertia_matrix([0.0, 1.0])


def test_home_selects_the_assembly_of_a_loaded_robot(tmp_path):
    """The five-bar folded the other way: elbows of both branches mirrored."""
    from cli.program import mindyn_program

    mirrored = {"joint3": -2 * 1.1863995522992576, "joint5": -2 * 0.9183364294768196}  # by the angles of the file
    folded = load_robot("five_bar", home={name: value + 0.05 for name, value in mirrored.items()})
    assert_close(loop_closure(folded).home[[2, 4]], [*mirrored.values()], ORACLE)
    assert folded == load_robot("five_bar", home=folded.home)
    assert folded != load_robot("five_bar")
    write_toml(folded, tmp_path / "folded.toml")
    assert_close(load_robot(tmp_path / "folded.toml").home, folded.home, ORACLE)
    with raises(RobotError, Code.INVALID_STRUCTURE, "home"):
        load_robot("puma560", home={"joint1": 0.1})
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "elbow"):
        load_robot("five_bar", home={"elbow": 0.1})
    options = [word for name, value in mirrored.items() for word in ("--assembly", f"{name}={value}")]
    ended = mindyn_program("robots", "five_bar", *options)
    assert ended.code == 0, ended.err
    assert "--assembly must be NAME=VALUE, got 'a'" in mindyn_program("base", "five_bar", "--assembly", "a").err


def test_tree_state_needs_rows_of_the_primary_joints():
    for name, width in (("five_bar", 3), ("planar2", 2)):
        robot, valid = load_robot(name), np.zeros((2, width))
        assert tree_state(robot, valid, valid, valid).W.shape == (2, len(robot.joints), width)
        for q in (np.zeros(width), np.zeros((2, width - 1)), np.zeros((2, 7))):
            with raises(InputError, Code.WRONG_SHAPE, "q"):
                tree_state(robot, q)
        with raises(InputError, Code.WRONG_SHAPE, "qd"):
            tree_state(robot, valid, np.zeros((3, width)))
        with raises(InputError, Code.NOT_FINITE, "q"):
            tree_state(robot, np.full((1, width), np.nan))
