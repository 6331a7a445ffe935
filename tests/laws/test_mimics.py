"""Dynamics with mimic joints, q = A p + b, equal those of Pinocchio's tree projected by A^T."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from closed_models import closed_model
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from messages import messages
from oracles.pinocchio_oracle import pinocchio_model
from raising import raises
from robots import random_robot, with_random_drives

import mindyn
from mindyn import base_parameters, compile_model
from mindyn.equations.loop_closure import affine_closure, loop_closure
from mindyn.equations.loop_constraints import open_tree
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.errors import Code, RobotError
from mindyn.robots import Mimic
from mindyn.robots.parts import Drive, Joint, Link, Loop

SEEDS = range(8)


def mimicking(seed: int) -> mindyn.Robot:
    """Return a random tree of 3 to 7 joints; some mimic another one, also in chains, with offsets and signs."""
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, joints=int(rng.integers(3, 8)))
    order = rng.permutation(len(robot.joints))
    mimics = [
        Mimic(robot.joint_names[i], robot.joint_names[rng.choice(order[:k])], *rng.uniform(-2, 2, 2))
        for k, i in enumerate(order)
        if k and (k == 1 or rng.random() < 0.5)
    ]
    return replace(robot, mimics=tuple(mimics))


def by_hand(robot):
    """Return A and b of q = A p + b, computed by following each joint to the joint it mimics."""
    A, b = np.zeros((len(robot.joints), robot.joint_count)), np.zeros(len(robot.joints))
    of = {m.joint: m for m in robot.mimics}

    def position(name, p):
        if name not in of:
            return p[robot.primary_names.index(name)]
        return of[name].multiplier * position(of[name].of, p) + of[name].offset

    for i, name in enumerate(robot.joint_names):
        b[i] = position(name, np.zeros(A.shape[1]))
        A[i] = [position(name, unit) - b[i] for unit in np.eye(A.shape[1])]
    return A, b


@pytest.mark.parametrize("seed", SEEDS)
def test_dynamics_equal_the_projected_tree_of_pinocchio(seed):
    robot = mimicking(seed)
    A, b = by_hand(robot)
    model, tree = compile_model(robot), pinocchio_model(open_tree(robot))
    data = tree.createData()
    p, pd, pdd = np.random.default_rng(seed).uniform(-1, 1, (3, A.shape[1]))
    q, qd, qdd = A @ p + b, A @ pd, A @ pdd
    assert_close(model.inverse_dynamics(p, pd, pdd), A.T @ pin.rnea(tree, data, q, qd, qdd), ORACLE)
    M = pin.crba(tree, data, q)
    M = A.T @ (np.triu(M) + np.triu(M, 1).T) @ A
    assert_close(model.inertia_matrix(p), M, ORACLE)
    bias = A.T @ pin.rnea(tree, data, q, qd, 0 * qd)
    assert_close(model.bias(p, pd), bias, ORACLE)
    tau = model.inverse_dynamics(p, pd, pdd)
    assert_close(model.inverse_dynamics(p, pd, model.forward_dynamics(p, pd, tau)), tau, ORACLE)
    assert_close(model.energy(p, pd)[0], pin.computeKineticEnergy(tree, data, q, qd), ORACLE)
    C = model.coriolis(p, pd)
    assert_close(C @ pd + model.gravity(p), bias, ORACLE)
    link = robot.link_names[-1]
    pin.framesForwardKinematics(tree, data, q)
    assert_close(model.forward_kinematics(p, link), data.oMf[tree.getFrameId(link)].homogeneous, ORACLE)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_number_of_base_parameters_is_the_rank_of_the_projected_regressor(seed):
    robot = mimicking(seed)
    base = base_parameters(robot)
    model = compile_model(robot)
    # Multipliers that differ little are distinguishable only over many turns.
    x = np.random.default_rng(seed).uniform(-1, 1, (3, 150, robot.joint_count)) * np.reshape([9, 4, 4], (3, 1, 1))
    A, b = by_hand(robot)
    tree, rows = pinocchio_model(open_tree(robot)), []
    data = tree.createData()
    for p, pd, pdd in zip(*x, strict=True):
        rows.append(A.T @ pin.computeJointTorqueRegressor(tree, data, A @ p + b, A @ pd, A @ pdd))
    Y = np.vstack(rows)
    singular = np.linalg.svd(Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-12 * np.linalg.norm(Y)), compute_uv=False)
    assert base.count == int((singular > 1e-9 * singular[0]).sum())
    assert model.base.count == base.count
    assert_close(model.regressor(*x) @ model.base.values, model.inverse_dynamics(*x), ORACLE)


def test_drives_and_their_couplings_act_through_mimics():
    robot = with_random_drives(mimicking(3), 3)
    A, b = by_hand(robot)
    full, plain = compile_model(robot, with_drives=True), compile_model(robot)
    tree = compile_model(open_tree(robot), with_drives=True)
    p, pd, pdd = np.random.default_rng(0).uniform(-1, 1, (3, A.shape[1]))
    expected = A.T @ tree.inverse_dynamics(A @ p + b, A @ pd, A @ pdd)
    assert_close(full.inverse_dynamics(p, pd, pdd), expected, SAME_ALGEBRA)
    assert np.abs(expected - plain.inverse_dynamics(p, pd, pdd)).max() > 0.1


def test_a_chain_of_mimics_is_multiplied_out():
    robot = random_robot(1, joints=4, tree=False)
    chain = (Mimic("joint4", "joint3", -2.0, 0.1), Mimic("joint3", "joint1", 3.0, -0.2))
    affine = affine_closure(replace(robot, mimics=chain))
    assert affine.matrix.tolist() == [[1, 0], [0, 1], [3, 0], [-6, 0]]
    assert_close(affine.offset, [0, 0, -0.2, 0.5], SAME_ALGEBRA)


def test_mimic_joints_inside_a_loop_move_it():
    """The second input joint of a five-bar mimics the first: one degree of freedom, coupler angles by Newton."""
    five_bar = mindyn.load_robot("five_bar")
    robot = replace(five_bar, mimics=(Mimic("joint4", "joint2", -0.3, -1.0),))
    free, tied = closed_model(five_bar), closed_model(robot)
    assert tied.primary_names == ("joint1", "joint2")
    p, pd, pdd = np.random.default_rng(0).uniform(-0.3, 0.3, (3, 5, 2))
    A = np.array([[1.0, 0], [0, 1], [0, -0.3]])
    wide = p @ A.T + np.array([0, 0, -1.0])
    expected = free.inverse_dynamics(wide, pd @ A.T, pdd @ A.T) @ A
    assert_close(tied.inverse_dynamics(p, pd, pdd), expected, ORACLE)
    assert_close(tied.motion(p, pd, pdd).qdd, free.motion(wide, pd @ A.T, pdd @ A.T).qdd, ORACLE)


def test_a_parallelogram_with_a_mimic_has_an_exact_closure():
    plain = mindyn.load_robot("palletiser")
    closure = loop_closure(replace(plain, mimics=(Mimic("joint_crank", "joint2", 0.5, 0.2),)))
    assert closure.affine is not None
    p = np.array([[0.1, 0.2, -0.3]])
    wide = np.array([[0.1, 0.2, -0.3, 0.3]])
    assert_close(closure.positions(p), loop_closure(plain).positions(wide), SAME_ALGEBRA)


def gripper(*mimics: Mimic, **options) -> mindyn.Robot:
    joints = [
        Joint(name, "prismatic" if name == "finger" else "revolute", parent, f"{name}_link")
        for name, parent in (("wrist", "base"), ("knuckle", "wrist_link"), ("finger", "knuckle_link"))
    ]
    links = [Link(joint.child, np.array([1.0, 0.1, 0.2, 0.3, 1, 0, 1, 0, 0, 1])) for joint in joints]
    return mindyn.Robot("gripper", Link("base"), tuple(joints), tuple(links), mimics=mimics, **options)


@pytest.mark.parametrize(
    ("mimics", "code", "subject"),
    [
        ((Mimic("finger", "thumb"),), Code.UNKNOWN_NAME, "thumb"),
        (
            (Mimic("finger", "wrist"), Mimic("wrist", "knuckle"), Mimic("knuckle", "finger")),
            Code.INVALID_STRUCTURE,
            "finger",
        ),
        ((Mimic("finger", "wrist"), Mimic("finger", "knuckle")), Code.DUPLICATE, "finger"),
        ((Mimic("thumb", "wrist"),), Code.UNKNOWN_NAME, "thumb"),
    ],
    ids=["unknown", "cycle", "twice", "no such joint"],
)
def test_wrong_mimics_are_rejected_by_name(mimics, code, subject):
    with raises(mindyn.MindynError, code, subject):
        gripper(*mimics)


def test_a_joint_cannot_mimic_itself_or_with_an_invalid_multiplier():
    with raises(RobotError, Code.INVALID_STRUCTURE, "finger"):
        Mimic("finger", "finger")
    with raises(RobotError, Code.NOT_FINITE, "multiplier of the mimic joint 'finger'"):
        Mimic("finger", "wrist", float("nan"))
    loop = Loop("pin", "finger_link", "base", Pose(), Pose(), ("finger",))
    with raises(RobotError, Code.INVALID_STRUCTURE, "finger"):
        gripper(Mimic("finger", "wrist"), loops=(loop,))


def test_locking_a_joint_holds_those_that_mimic_it():
    robot = gripper(Mimic("finger", "knuckle", 0.5, 0.1), Mimic("knuckle", "wrist", 2.0), drives=(Drive("finger"),))
    wrist = replace(robot, mimics=(robot.mimics[0],))
    locked = wrist.lock({"knuckle": 0.4})
    assert locked.joint_names == ("wrist",)
    assert not locked.mimics
    assert not locked.drives
    by_hand_locked = replace(wrist, mimics=()).lock({"knuckle": 0.4, "finger": 0.3})
    assert_close(locked.phi, by_hand_locked.phi, SAME_ALGEBRA)
    alone = wrist.lock({"finger": 0.3})
    assert alone.joint_names == alone.primary_names == ("wrist", "knuckle")
    with raises(RobotError, Code.INVALID_STRUCTURE, "gripper"):
        robot.lock({"wrist": 0.0})


def test_a_chain_keeps_its_mimics_and_reports_lost_ones():
    robot = gripper(Mimic("finger", "knuckle", 0.5, 0.1), Mimic("knuckle", "wrist", 2.0))
    beyond = robot.subchain("wrist_link", "finger_link")
    assert beyond.joint_names == ("knuckle", "finger")
    assert not beyond.mimics
    assert "now move independently: finger, knuckle" in " ".join(map(str, messages(beyond)))
    assert robot.subchain("base", "finger_link").mimics == (
        Mimic("finger", "wrist", 1.0, 0.1),
        Mimic("knuckle", "wrist", 2.0),
    )


@pytest.mark.parametrize("deviation", [1e-3, 1e-4])
def test_nearly_parallel_axes_keep_parameters_that_depend_on_the_deviation(deviation):
    body = np.array([2.0, 0.2, 0.1, 0.4, 0.19, -0.01, 0.2, -0.04, -0.02, 0.08])
    tilted = Pose(np.array([[1, 0, 0], [0, 1, -deviation], [0, deviation, 1]]), (0.3, 0, 0))
    names = ["base", "a", "b", "c"]
    joints = [Joint(f"j{k}", "revolute", names[k], names[k + 1], tilted) for k in range(3)]
    robot = mindyn.Robot("tilted", Link("base"), tuple(joints), tuple(Link(name, body) for name in names[1:]))
    robot = replace(robot, mimics=(Mimic("j2", "j1", -1.0, 0.0),))
    base = base_parameters(robot)
    assert base.count <= base_parameters(open_tree(robot)).count < 30
    if deviation < 1e-3:  # the numerical set itself resolves a larger one
        assert "open tree's parameters" in base.notes[0]
    p, pd, pdd = np.random.default_rng(0).uniform(-3, 3, (3, 2))
    A, tree = np.array([[1, 0], [0, 1], [0, -1]]), pinocchio_model(open_tree(robot))
    expected = A.T @ pin.rnea(tree, tree.createData(), A @ p, A @ pd, A @ pdd)
    Y = compile_model(robot, base=base).regressor(p, pd, pdd)
    assert_close(Y @ base.values, expected, ORACLE)
