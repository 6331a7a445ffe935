"""No geometry gives a silently wrong torque: near special axes and offsets, at any size, from any source."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE
from fuzz.near_special import Truth, check_case, random_case
from raising import raises
from robots import random_robot, with_random_drives

import mindyn
from mindyn import base_parameters, compile_model, load_robot, write_toml
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import rot_x
from mindyn.foundation.errors import Code, RobotError
from mindyn.foundation.findings import Kind
from mindyn.parameters import structural
from mindyn.parameters.base_set_verification import MAX_RELATIVE_ERROR, tree_deviation
from mindyn.parameters.structural import structural_base
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot

CHUNK = 10


@pytest.mark.parametrize("chunk", range(50))
def test_torques_near_special_geometry(chunk):
    for seed in range(10**6 + chunk * CHUNK, 10**6 + (chunk + 1) * CHUNK):
        result = check_case(random_case(seed), thorough=False, compiled=seed % 10 == 0)
        assert not result.wrong, f"seed {seed}: {result.wrong}"


@pytest.mark.parametrize("seed", [800, 10129])
def test_digits_that_moved_frames_would_lose_are_kept(seed):
    """Offsets and angles far below the links' size: right in the file's own frames, with a note."""
    case = random_case(seed)
    result = check_case(case, thorough=False, compiled=False)
    assert not result.wrong
    model = compile_model(case.robot)
    model.casadi("inverse_dynamics"), model.casadi("inertia_matrix")
    has_note = any("in the frames of the file" in note for note in model.notes)
    assert has_note == bool(result.fallbacks)
    assert has_note or seed == 800  # whose digits are lost or not by the rounding of the processor


def test_a_joint_that_carries_little_of_large_forces():
    """At joint2 1e-7 of the forces within remain; Pinocchio's own torque is 3e-10 off there."""
    assert not check_case(random_case(14425), thorough=False, compiled=True).wrong


@pytest.mark.parametrize("formulation", ["kane", "mlc"])
def test_a_formulation_that_loses_digits_at_some_states_is_rejected(formulation):
    with raises(RobotError, Code.INACCURATE, "joint6"):
        mindyn.build_equation(random_case(16299).robot, "inverse_dynamics", formulation=formulation)


def chain_of_twists(alphas, lengths, gravity=(0.0, -9.81, 0.0)) -> Robot:
    """Revolute joints: each axis turned about x by its twist, at its length along x."""
    rng = np.random.default_rng(0)
    joints, links = [], []
    for i, (alpha, length) in enumerate(zip(alphas, lengths, strict=True)):
        origin = Pose(rot_x(np.cos(alpha), np.sin(alpha)), (length, 0.0, 0.0))
        joints.append(Joint(f"joint{i + 1}", "revolute", f"link{i}", f"link{i + 1}", origin))
        scale = max(lengths) if max(lengths) > 1e-6 else 0.4
        points, masses = rng.normal(size=(8, 3)) * 0.2 * scale, rng.uniform(0.1, 1.0, 8)
        bodies = [phi_about_origin(m, p, np.zeros((3, 3))) for m, p in zip(masses, points, strict=True)]
        links.append(Link(f"link{i + 1}", sum(bodies)))
    return Robot("twisted", Link("link0"), tuple(joints), tuple(links), np.array(gravity))


def error_of(robot: Robot) -> float:
    truth, model = Truth(robot), compile_model(robot)
    s = truth.states
    motion = list(zip(s.q, s.qd, s.qdd, strict=True))
    tau = np.array([np.array(model.casadi("inverse_dynamics")(*item)).ravel() for item in motion])
    Y = np.array([np.array(model.casadi("regressor")(*item)) for item in motion])
    expected = truth.torques(s.q, s.qd, s.qdd)
    assert model._notes == ()
    return max(truth.error(tau, expected), truth.error(Y @ model.base.values, expected))


@pytest.mark.parametrize("angle", [1.1e-5, 1.2e-5, 1.4e-5, 1.6e-5, 1e-12, 1e-8, 1e-3])
def test_axes_just_off_parallel(angle):
    assert error_of(chain_of_twists((0.0, angle), (0.0, 0.4))) < MAX_RELATIVE_ERROR


def test_a_thousandth_of_a_degree():
    assert error_of(chain_of_twists(np.radians((0.0, 0.001, 90.0)), (0.0, 0.4, 0.3))) < MAX_RELATIVE_ERROR


@pytest.mark.parametrize("scale", [0.03, 0.01, 1e-3, 1e3])
def test_small_and_large_arms(scale):
    for twists in ((0.0, 0.0, np.pi / 2), (0.0, np.pi / 2, 1e-7), (np.pi / 2, 0.0, 0.3)):
        assert error_of(chain_of_twists(twists, scale * np.array([0.0, 0.4, 0.3]))) < MAX_RELATIVE_ERROR


def test_an_offset_that_is_rounding():
    assert error_of(chain_of_twists((0.0, np.pi / 2, 0.0), (0.0, 6e-17, 0.0))) < MAX_RELATIVE_ERROR


def test_a_lock_that_makes_axes_nearly_parallel():
    robot = chain_of_twists((0.0, np.pi / 2, 0.3, 0.0), (0.0, 0.2, 0.4, 0.3))
    locked = chain_of_twists((0.0, 0.3, -0.3, 0.0), (0.0, 0.2, 0.4, 0.3)).lock({"joint2": 1.3e-5})
    assert error_of(robot.lock({"joint2": np.pi / 2 - 1.3e-5})) < MAX_RELATIVE_ERROR
    assert error_of(locked) < MAX_RELATIVE_ERROR


@pytest.mark.parametrize("name", ["puma560", "ur10", "stanford"])
def test_a_payload_leaves_the_base_set(name):
    robot = load_robot(name)
    loaded = robot.with_payload(3.0, (0.1, 0.02, 0.05), np.diag([0.01, 0.02, 0.015]))
    for drives in (False, True) if robot.drives else (False,):
        item, other = structural_base(robot, with_drives=drives), structural_base(loaded, with_drives=drives)
        assert item.names == other.names
        assert item.matrix.tobytes() == other.matrix.tobytes()


def test_a_tolerance_drops_more_parameters_with_a_note():
    robot = chain_of_twists((0.0, 1e-6), (0.0, 0.4))
    strict, loose = base_parameters(robot), base_parameters(robot, tolerance=1e-3)
    assert loose.count == structural_base(chain_of_twists((0.0, 0.0), (0.0, 0.4))).count < strict.count
    assert any("tolerance 0.001" in note and "m g L" in note for note in loose.notes)
    assert any("nearly degenerate" in note for note in strict.notes)


def test_near_degenerate_notes_reach_the_model():
    notes = compile_model(chain_of_twists((0.0, 1e-6), (0.0, 0.4))).notes
    assert any("'joint2' is nearly degenerate" in note for note in notes)


@pytest.mark.parametrize("seed", range(10))
def test_base_sets_with_drives_keep_their_torques(seed):
    robot = with_random_drives(random_case(2 * 10**6 + seed).robot, seed)
    assert tree_deviation(structural_base(robot, with_drives=True)).size < MAX_RELATIVE_ERROR


@pytest.mark.usefixtures("broken")
class TestABrokenReductionIsCaught:
    """The reduction drops one column too many on purpose: nothing wrong comes back."""

    @pytest.fixture
    def broken(self, monkeypatch, tmp_path):
        monkeypatch.setenv("MINDYN_CACHE_DIR", str(tmp_path))
        honest = structural.choose_columns
        monkeypatch.setattr(structural, "choose_columns", lambda A, order, floor: honest(A, order, floor)[1:])

    def test_base_sets_fall_back(self):
        robot = random_robot(5)
        base = base_parameters(robot)
        assert base.form == "standard"
        assert any("all standard parameters are kept" in note for note in base.notes)

    def test_models_fall_back(self):
        robot = load_robot("ur10")
        truth, model = Truth(robot), compile_model(robot)
        s = truth.states
        expected = truth.torques(s.q, s.qd, s.qdd)
        assert truth.error(model.inverse_dynamics(s.q, s.qd, s.qdd), expected) < ORACLE
        assert truth.error(model.regressor(s.q, s.qd, s.qdd) @ model.base.values, expected) < ORACLE
        assert any("computed from standard parameters" in note for note in model.notes)

    def test_equations_are_rejected_by_joint(self):
        with raises(RobotError, Code.INACCURATE):
            mindyn.build_equation(load_robot("puma560"), "inverse_dynamics")

    def test_loops_fall_back(self):
        robot = load_robot("parallelogram_arm")
        model = compile_model(robot)
        model.casadi("inverse_dynamics")
        assert any("computed from standard parameters" in note for note in model.notes[-1:])


def test_a_form_that_does_not_hold_is_rejected():
    robot = chain_of_twists((0.0, 1e-8, np.pi / 2), (0.0, 0.4, 0.3))
    for form in ("lin", "gautier", "general"):
        with contextlib.suppress(RobotError):
            assert tree_deviation(base_parameters(robot, form)).size < MAX_RELATIVE_ERROR
    with raises(RobotError, Code.UNSUPPORTED, "joint2"):
        base_parameters(robot, "mayeda")


def test_rotations_with_few_digits_are_accepted():
    R = np.round(random_robot(3).joints[0].origin.rotation, 7)
    pose = Pose(R)
    assert np.abs(pose.rotation @ pose.rotation.T - np.eye(3)).max() < 1e-15
    assert np.abs(pose.rotation - R).max() < 1e-6
    joint = replace(random_robot(3).joints[0], origin=pose)
    assert error_of(replace(random_robot(3), joints=(joint, *random_robot(3).joints[1:]))) < MAX_RELATIVE_ERROR


def test_axes_nearly_parallel_are_noted_wherever_the_robot_comes_from(tmp_path):
    robot = chain_of_twists((0.0, 1.3e-5, 0.5), (0.0, 0.4, 0.3))
    write_toml(robot, tmp_path / "arm.toml")
    turned = chain_of_twists((0.0, 0.3, -0.3), (0.0, 0.2, 0.4)).lock({"joint2": 1e-6})
    for item in (robot, load_robot(tmp_path / "arm.toml"), turned):
        (note,) = (note for note in item.findings if note.kind == Kind.NEARLY_PARALLEL_AXES)
        assert "from being parallel to that of 'joint1'" in note.message
    tilted = replace(load_robot("puma560"), gravity=np.array([1e-4, 0.0, -9.81]))
    assert [note.message[:41] for note in tilted.findings] == ["the axis of 'joint1' deviates by 1.0e-05 "]
    assert replace(tilted, gravity=np.array([0.0, 0.0, -9.81])).findings == ()
