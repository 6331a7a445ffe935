"""The check for positive definite matrices: brute force, tables of Yoshida, drives, ranges and errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises
from robots import random_robot, with_random_drives
from small_arms import grid, regressor_matrices

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError, UnknownNameError
from mindyn.identification.feasibility.checks.positive_definite import (
    check_positive_definite,
    joint_ranges,
    sample_configurations,
    smallest_eigenvalues,
)
from mindyn.identification.feasibility.conditions.inertia_matrix_family import InertiaMatrixFamily
from mindyn.kernels.model import compile_model
from mindyn.papers.yoshida_robot import yoshida_puma
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Limits

SAMPLING = 0.004
"""Tolerance of fractions of configurations: three standard deviations for 200000 random ones, and as much again."""


def some_base(seed):
    """Base sets of robots of two and three joints, revolute and prismatic, some with drives."""
    robot = random_robot(seed, joints=2 + seed % 2)
    robot = with_random_drives(robot, seed) if seed % 3 == 0 else robot
    return base_parameters(robot, with_drives=bool(robot.drives))


@pytest.mark.parametrize("seed", range(16))
def test_the_check_agrees_with_a_fine_grid_of_an_independent_equation(seed):
    """Random values around the robot's own: some possible, some not."""
    base = some_base(seed)
    family = InertiaMatrixFamily(base)
    ranges = joint_ranges(family)
    q = grid(ranges, 121)
    rng = np.random.default_rng(seed)
    for size in (0.0, 0.2, 0.6, 2.0):
        beta = base.values + size * rng.normal(size=base.count) * np.abs(base.values)
        M = regressor_matrices(base, beta, q) * family.scales * family.scales[:, None]
        brute = float(np.linalg.eigvalsh(M)[:, 0].min())
        answer = check_positive_definite((base, beta), count=20_000, rng=seed)
        result, largest = answer.witness["smallest_eigenvalue"], float(np.abs(M).max())
        assert result <= brute + SAME_ALGEBRA * largest
        assert result >= brute - 2e-3 * largest  # the grid's own coarseness
        assert answer.holds is (result > 0)
        if size == 0:
            assert answer.holds


def test_both_verdicts_occur_among_the_random_values():
    rng = np.random.default_rng(0)
    bases = [some_base(seed) for seed in range(16)]
    verdicts = {
        check_positive_definite(
            (base, base.values + rng.normal(size=base.count) * np.abs(base.values)), count=2000
        ).holds
        for base in bases
    }
    assert verdicts == {True, False}


def test_the_witness_is_a_configuration_with_that_eigenvalue_and_direction():
    robot = yoshida_puma("table1")
    witness = check_positive_definite(replace(robot, drives=()), count=5000).witness
    placed = [witness["configuration"].get(name) for name in robot.joint_names]
    q = np.array([0.0 if item is None else np.radians(item["position"]) for item in placed])
    u = np.array([witness["direction"][name] for name in robot.joint_names])
    M = compile_model(robot).inertia_matrix(q)
    assert_close(M @ u, witness["smallest_eigenvalue"] * u, 1e-6)
    assert "joint1" not in witness["configuration"]  # M does not depend on it


TABLES = [
    ("table1", False, 0.735, -0.0605, (-107, -150, -2, -32, -139), ["joint5", "joint4"]),
    ("table2", False, 1.0, -2.165, (-47, -90, 48, -34, -145), ["joint3", "joint2"]),
    ("table3", False, 0.460, -0.0079, (-60, -101, -134, -14, -133), ["joint4", "joint6"]),
    ("table1", True, 0.0, 0.0868, (-83, -161, 31, 120, 140), None),
    ("table2", True, 0.259, -1.235, (179, -85, 125, 104, -31), ["joint1"]),
    ("table3", True, 0.0, 0.1695, (62, 108, 175, -169, 130), None),
]
"""Set, drives, failing part, smallest eigenvalue, where (deg, joints 2 to 6), direction: 200000 configurations each."""


@pytest.mark.parametrize(("table", "drives", "part", "eigenvalue", "place", "joints"), TABLES)
def test_checks_of_yoshidas_tables_equal_independent_results(table, drives, part, eigenvalue, place, joints):
    robot = yoshida_puma(table)
    answer = check_positive_definite(robot if drives else replace(robot, drives=()))
    witness = answer.witness
    assert answer.holds is (eigenvalue > 0)
    assert abs(witness["failing_fraction"] - part) < SAMPLING
    digits = 3 if abs(eigenvalue) > 1 else 4
    assert round(witness["smallest_eigenvalue"], digits) == eigenvalue
    assert joints is None or witness["joints"][: len(joints)] == joints
    assert nearest_image(witness["configuration"], place) < 1.0
    assert f"{witness['smallest_eigenvalue']:.4g} kg m^2 at joint2 = " in answer.sentence


def nearest_image(configuration, place):
    """Largest difference in degrees, turned by half a turn of joint 2 and of the wrist where M has that symmetry."""
    result = np.array([item["position"] for item in configuration.values()])
    images = []
    for half in (0.0, 180.0):
        for wrist in (False, True):
            image = result + np.array([half, 0, 0, 0, 0])
            if wrist:
                image = np.array([image[0], image[1], image[2] + 180, -image[3], image[4] + 180])
            images.append(np.abs((image - place + 180) % 360 - 180).max())
    return min(images)


def test_the_minors_of_yoshidas_tables_fail_as_computed_independently():
    robots = {table: replace(yoshida_puma(table), drives=()) for table in ("table1", "table2", "table3")}
    minors = {table: check_positive_definite(robot).witness for table, robot in robots.items()}
    leading = {t: np.array(minor["failing_minors"]["leading"]) for t, minor in minors.items()}
    assert np.abs(leading["table1"] - [0, 0, 0, 0.07, 0.41, 0.73]).max() < 0.01
    assert np.abs(leading["table3"] - [0, 0, 0, 0.06, 0.12, 0.46]).max() < 0.01
    first = np.array(minors["table2"]["failing_minors"]["first"])
    assert np.abs(first - [0.11, 0, 0.89, 0, 0, 0]).max() < 0.01
    assert abs(minors["table1"]["failing_minors"]["trailing"][1] - 0.37) < 0.01
    assert minors["table3"]["failing_minors"]["trailing"][1] == 0
    assert minors["table1"]["smallest_diagonal"]["joint4"] == pytest.approx(-0.030, abs=5e-4)
    assert minors["table3"]["smallest_diagonal"]["joint4"] == pytest.approx(-0.0033, abs=1e-4)
    lowest = [minors["table2"]["smallest_diagonal"][f"joint{k}"] for k in (3, 4, 5)]
    assert np.abs(np.array(lowest) - [-1.03, -0.036, -0.052]).max() < 5e-3


def test_configurations_fill_the_ranges_evenly_and_follow_the_seed():
    ranges = np.array([[0.0, 0.0], [-1.0, 3.0], [2.0, 5.0]])
    q = sample_configurations(ranges, 4000, 3)
    assert (q >= ranges[:, 0]).all()
    assert (q <= ranges[:, 1]).all()
    counts = np.histogram2d(q[:, 1], q[:, 2], bins=10)[0]
    assert counts.min() > 30  # of 40
    assert not np.allclose(q, sample_configurations(ranges, 4000, 4))


def test_prismatic_joints_need_a_range_only_if_the_inertia_depends_on_them():
    robot = load_robot("stanford")
    bare = replace(robot, joints=tuple(replace(joint, limits=Limits()) for joint in robot.joints))
    with raises(MissingPhysicsError, Code.MISSING_VALUE, "joint3"):
        check_positive_definite(bare)
    given = check_positive_definite(bare, ranges={"joint3": (0.2, 0.5)}, count=2000)
    assert 0.2 <= given.witness["configuration"]["joint3"]["position"] <= 0.5
    first = random_robot(0, joints=1, tree=False)
    sliding = replace(first, joints=(replace(first.joints[0], kind="prismatic", limits=Limits()),))
    assert check_positive_definite(sliding).holds


def test_a_singular_matrix_leaves_the_question_undecided():
    base = base_parameters(random_robot(2, joints=2, tree=False))
    answer = check_positive_definite((base, np.zeros(base.count)), count=100)
    assert answer.holds is None
    assert answer.sentence.startswith("undecided")


def test_values_that_cannot_be_checked_raise():
    robot = yoshida_puma()
    with raises(InputError, Code.WRONG_SHAPE, "values"):
        check_positive_definite((robot, np.ones(5)))
    with raises(InputError, Code.NOT_FINITE, "3"):
        check_positive_definite((robot, np.array([1.0, 1.0, 1.0, np.nan])))
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "elbow"):
        check_positive_definite(robot, ranges={"elbow": (0, 1)})
    with raises(InputError, Code.OUT_OF_RANGE, "joint2"):
        check_positive_definite(robot, ranges={"joint2": (1, 0)})
    with raises(InputError, Code.WRONG_TYPE, "str"):
        check_positive_definite("puma560")
    with raises(InputError, Code.OUT_OF_RANGE, "count"):
        check_positive_definite(robot, count=0)


def test_eigenvalues_do_not_depend_on_the_chunk_size():
    base = some_base(5)
    family = InertiaMatrixFamily(base)
    q = sample_configurations(joint_ranges(family), 45_000, 0)
    whole = np.linalg.eigvalsh(family.matrices(q, base.values))[:, 0]
    assert_close(smallest_eigenvalues(family, base.values, q), whole, SAME_ALGEBRA)
