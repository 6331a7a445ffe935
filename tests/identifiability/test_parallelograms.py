"""Base parameters of arms with a parallelogram: theorem 2.5.1, corrected, against the sampled row space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_negligible
from identifiability.loop_oracle import LoopOracle
from identifiability.parallelogram_arms import PUBLISHED, arm, close_angles, home_of, in_other_frames, random_entry
from parameters.oracle import assert_spans_row_space
from raising import raises

from mindyn import load_robot
from mindyn.equations.identifiability.numeric import numeric_base
from mindyn.equations.loop_closure import loop_closure, with_home
from mindyn.foundation.errors import Code, RobotError
from mindyn.parameters.parallelogram import parallelogram_base

RANDOM_ARMS = 400


def oracle_rows(robot, entry, samples: int = 40) -> np.ndarray:
    oracle = LoopOracle(robot)
    rng = np.random.default_rng(7)
    size = entry["n_dof"]
    rows = []
    for _ in range(samples):
        theta, pd, pdd = rng.uniform(-3, 3, (3, size))
        rows.append(oracle.torque_rows(close_angles(entry, theta), pd, pdd))
    return np.vstack(rows)


@pytest.mark.parametrize("entry", PUBLISHED, ids=lambda entry: entry["name"])
def test_published_arms_have_the_published_count_and_the_sampled_row_space(entry):
    robot = arm(entry)
    base = parallelogram_base(robot, home_of(entry))
    assert base.count == entry["expected_base_count"]
    assert_spans_row_space(base.matrix, oracle_rows(robot, entry))


@pytest.mark.parametrize("seed", range(RANDOM_ARMS))
def test_random_arms_have_the_sampled_row_space(seed):
    entry = random_entry(seed)
    robot = in_other_frames(arm(entry, seed), seed + 1000)
    base = parallelogram_base(robot, home_of(entry))
    assert_spans_row_space(base.matrix, oracle_rows(robot, entry, samples=25))


@pytest.mark.parametrize("entry", PUBLISHED, ids=lambda entry: entry["name"])
def test_the_numeric_method_finds_the_same_space(entry):
    robot = arm(entry)
    closed_form = parallelogram_base(robot, home_of(entry))
    numeric = numeric_base(with_home(robot, home_of(entry)))
    assert numeric.count == entry["expected_base_count"]
    T = numeric.transform_to(closed_form)
    assert np.linalg.cond(T) < 1e4


def test_bundled_arms_equal_the_published_ones():
    counts = {"parallelogram_planar": 4, "semi_direct_drive": 18, "palletiser": 25, "parallelogram_arm": 39}
    for name, count in {**counts, "parallelogram_scara": 9}.items():
        assert parallelogram_base(load_robot(name)).count == count
    assert parallelogram_base(load_robot("parallelogram_arm", gravity=(2.0, 1.0, -9.0))).count == 41
    assert parallelogram_base(load_robot("parallelogram_planar", gravity=(2.0, 1.0, -9.0))).count == 8


def test_the_count_does_not_depend_on_where_the_loop_is_cut():
    """[Yoshida 1996, remark to theorem 2.5.1]: the tree may carry the rod instead of the crank."""
    robot = load_robot("palletiser")
    crank, rod, forearm = (robot.joint_index(name) for name in ("joint_crank", "joint_rod", "joint3"))
    loop = robot.loops[0]
    # The rod hangs on link 3 at the old pin; the new pin joins rod and crank.
    hung = replace(robot.joints[rod], parent="link3", origin=loop.first_pose, tip=loop.second_pose.inverse())
    joints = (*robot.joints[: forearm + 2], hung, robot.joints[crank])
    links = (*robot.links[: forearm + 2], robot.links[rod], robot.links[crank])
    elbow = robot.joints[rod].origin
    pin = replace(loop, first="rod", second="crank", first_pose=type(elbow)(), second_pose=elbow)
    recut = replace(robot, joints=joints, links=links, loops=(pin,))
    closure = loop_closure(recut, [0.0, 0.0, 0.0, 0.0, -np.pi / 2, 0.0])
    assert closure.affine is not None
    assert_negligible(closure.constraints.gaps(closure.home[None]), 1.0, SAME_ALGEBRA)
    base, original = parallelogram_base(recut, closure.home), parallelogram_base(robot)
    order = [*range(40), *range(50, 60), *range(40, 50)]
    residual = base.matrix[:, order] - base.matrix[:, order] @ np.linalg.pinv(original.matrix) @ original.matrix
    assert base.count == original.count
    assert_negligible(residual, 1.0, 1e-12)


def test_structures_outside_the_theorem_raise():
    with raises(RobotError, Code.UNSUPPORTED, "five_bar"):
        parallelogram_base(load_robot("five_bar"))
    with raises(RobotError, Code.UNSUPPORTED, "puma560"):
        parallelogram_base(load_robot("puma560"))
    with raises(RobotError, Code.UNSUPPORTED, "palletiser"):
        parallelogram_base(load_robot("palletiser", gravity=(0, 0, 0)))
    with raises(RobotError, Code.NOT_CONVERGED, "parallelogram"):
        parallelogram_base(load_robot("palletiser"), [0, 0, 1, 0, 0, 0])
