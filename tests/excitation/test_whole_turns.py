"""Motions begin within the turn nearest to home, and change nothing but positions by whole turns."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from cli.program import mindyn_program
from example_robots import example_robot
from excitation.full_speed import design_motion
from oracles.collision_scene import load_scene
from oracles.motion_reference import check_motion, read_motion
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, UnsafeMotionError

TURN = 2 * np.pi
SHORT = ("--seconds", "6", "--harmonics", "2", "--starts", "1", "--deadline-s", "5", "--rate-hz", "50")
QUICK = {
    "seconds": 6.0,
    "family": mindyn.Fourier(2, ramp_s=1.0),
    "starts": 1,
    "deadline_s": 2.0,
}
UR5_HOME = [0, -1.5708, 0, -1.5708, 0, 0]


def middles(motion) -> np.ndarray:
    q = motion.derivative(np.linspace(0, motion.seconds, 2001), 0)
    return (q.min(axis=0) + q.max(axis=0)) / 2


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("home", [None, UR5_HOME])
def test_no_whole_turn_brings_a_motion_closer_to_home_or_zero(seed, home):
    robot = mindyn.load_robot(example_robot("ur5"))
    design = design_motion(robot, home=home, rng=seed, **QUICK)
    q = design.motion.derivative(np.linspace(0, design.seconds, 2001), 0)
    towards = np.zeros(6) if home is None else np.array(home)
    for joint, middle in enumerate(middles(design.motion)):
        for turn in (-TURN, TURN):
            is_inside = (
                q[:, joint].min() + turn >= design.limits.lower[joint]
                and q[:, joint].max() + turn <= design.limits.upper[joint]
            )
            assert not is_inside or abs(middle + turn - towards[joint]) >= abs(middle - towards[joint]) - 1e-9
    assert max(design.used.values()) <= 1


@pytest.mark.parametrize(
    ("name", "home"),
    [("ur5", UR5_HOME), pytest.param("panda", [0, -0.8, 0, -2.4, 0, 1.6, 0.8], marks=pytest.mark.full)],
)
def test_a_usual_home_has_an_approach_that_touches_nothing(name, home, tmp_path):
    """The reference reads the original file with its meshes: Pinocchio places them, coal measures."""
    path = example_robot(name)
    limits, folder = tmp_path / "limits.toml", tmp_path / "motion"
    limits.write_text(f"home = {home}\n")
    done = mindyn_program("excite", str(path), *SHORT, "--limits", str(limits), "--out", str(folder))
    assert done.code == 0, done.err
    assert "approach and return checked" in done.out
    scene = load_scene(path)
    start = json.loads((folder / "motion.json").read_text())["start"]
    for file in ("motion.csv", "rehearsal.csv"):
        motion = read_motion(folder / file)
        q = np.stack(list(motion.q.values()), axis=1)
        assert np.abs(q[[0, -1]] - home).max() < 1e-6
        assert np.abs(q - start).max(axis=1).min() < 0.05
        result = check_motion(scene, motion)
        assert result.is_safe, result
        assert "approach; motion and return" in (folder / file).read_text()


def test_without_home_files_begin_at_the_start_and_players_reject_another_position(tmp_path):
    path = example_robot("ur5")
    done = mindyn_program("excite", str(path), *SHORT, "--out", str(tmp_path / "motion"))
    assert done.code == 0, done.err
    record = json.loads((tmp_path / "motion" / "motion.json").read_text())
    start = np.array(record["start"])
    assert record["approach"] is None
    script = (tmp_path / "motion" / "motion.script").read_text()
    commands = [line.strip() for line in script.splitlines() if not line.startswith("#")]
    assert not [line for line in commands if line.startswith(("movej", "movel", "movep", "movec"))]
    assert commands.index("halt") < next(k for k, line in enumerate(commands) if line.startswith("servoj"))
    first = [float(x) for x in re.search(r"first = \[(.*)\]", script)[1].split(",")]
    assert np.abs(np.array(first) - start).max() < 1e-6
    trajectory = (tmp_path / "motion" / "motion.yaml").read_text()
    position = re.search(r"positions: \[(.*?)\]", trajectory)[1]
    assert np.abs(np.array(position.split(","), float) - start).max() < 1e-6
    for name in ("motion.csv", "rehearsal.csv"):
        motion = read_motion(tmp_path / "motion" / name)
        assert np.abs(np.array([q[0] for q in motion.q.values()]) - start).max() < 1e-6


def test_a_run_rejects_a_robot_that_is_not_at_its_first_position():
    robot = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=2.0, effort=4000.0)
    for home in (None, [0.5, 0.5]):
        run = design_motion(robot, limits=limits, home=home, **QUICK).run()
        first, _, _ = run(0.0)
        run.require_start(first + 0.049)
        for joint, name in enumerate(robot.joint_names):
            for wrong in (0.051, -0.051, TURN):
                away = np.array(first)
                away[joint] += wrong
                with raises(UnsafeMotionError, Code.UNSAFE_MOTION, name):
                    run.require_start(away)


def with_mimic(multiplier: float) -> str:
    """Two continuous joints and a third one that follows the second."""
    text, mimic = '<link name="base"/>', f'<mimic joint="joint2" multiplier="{multiplier}"/>'
    for k in range(1, 4):
        text += (
            f'<link name="link{k}"><inertial><origin xyz="0.1 0.02 0.01"/><mass value="1"/><inertia ixx="0.01" '
            f'iyy="0.012" izz="0.013" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="joint{k}" '
            f'type="continuous"><parent link="{"base" if k == 1 else f"link{k - 1}"}"/><child link="link{k}"/>'
            f'<origin xyz="{0.3 if k > 1 else 0} 0 {0.5 if k == 1 else 0}"/><axis xyz="0 {int(k != 1)} {int(k == 1)}"/>'
            f'<limit velocity="2" effort="50"/>{mimic if k == 3 else ""}</joint>'
        )
    return f'<robot name="arm">{text}</robot>'


@pytest.mark.parametrize(("multiplier", "turns_freely"), [(2.0, True), (0.5, False)])
def test_a_joint_with_a_follower_turns_only_if_the_follower_makes_whole_turns(multiplier, turns_freely, tmp_path):
    from mindyn.motions.excitation.design import Instants, check_times
    from mindyn.motions.excitation.motions import Motion
    from mindyn.motions.excitation.whole_turns import turned_motions

    path = tmp_path / "arm.urdf"
    path.write_text(with_mimic(multiplier))
    robot = mindyn.load_robot(path)
    limits = mindyn.MotionLimits.of(robot, lower=-7.0, upper=7.0)
    problem, bodies = problem_of(robot, limits)
    family = mindyn.Fourier(2, ramp_s=1.0)
    small = 0.05 * np.random.default_rng(0).normal(size=(family.count, 2))
    motion = Motion(family, 6.0, np.array([5.0, 5.0]), small)
    dense = Instants.at(check_times(6.0, family.cycles(6.0)), family, 6.0)
    nearest = turned_motions(problem, motion, dense, bodies, np.zeros(2))[0]
    expected = [5.0 - TURN, 5.0 - TURN if turns_freely else 5.0]
    assert np.abs(nearest.start - expected).max() < 1e-12


def problem_of(robot, limits):
    """Return the problem of a design, and the bodies that it checks."""
    from mindyn.motions.excitation.motion_columns import Columns
    from mindyn.motions.excitation.motion_safety import SafetySettings, safety_of
    from mindyn.motions.excitation.problem import Problem

    columns = Columns(robot, with_drives=False, speeds=limits.velocity)
    safety = safety_of(columns, limits, columns.base.values, SafetySettings(), 0)
    family = mindyn.Fourier(2, ramp_s=1.0)
    zero = np.zeros((columns.count, columns.count))
    problem = Problem(columns, limits, family, 6.0, "D", np.ones(2), 50.0, zero, None, safety.constraints)
    return problem, safety.encounters.bodies
