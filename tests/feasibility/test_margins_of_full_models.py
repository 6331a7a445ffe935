"""Full models keep the dynamics of an estimate, and give every link a margin from the boundary of the physical set.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SOLVED, assert_close
from raising import raises
from small_arms import check_base_values, divergence_of, planar_arm, slope_of, space_of_base
from stand_in import stand_in

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.inertia import mass_com_inertia, phi_about_origin, pseudo_inertia
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.checks.consistent_values import _find_innermost, arm_witness, check_values
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.priors import Prior, build_prior, child_joint_positions, guess_balls
from mindyn.identification.feasibility.full_models.full_model import (
    _add_margins,
    _build_robot,
    _describe_transition,
    _force_parameters,
    _link_margins,
    _move_to_prior,
    _width_rows,
    build_full_model,
)
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.robots.parts import ExtraTorque


@pytest.fixture(scope="module")
def space():
    return space_of(Regressor(with_estimated_drives(planar_arm([0.5]))))


def solid(space, widths=(0.02, 0.03)):
    x = np.zeros(space.size)
    for i, (mass, width) in enumerate(zip((2.0, 3.0), widths, strict=True)):
        x[space.link(i)] = phi_about_origin(mass, np.array([0.2, 0.0, 0.0]), width * np.eye(3))
    x[20:] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    return x


def test_the_margin_of_a_link_is_its_smallest_eigenvalue_unless_negligible(space):
    D = np.diag([2.0, 2.0, 2.0, 1.0])
    x = solid(space)
    expected = [np.linalg.eigvalsh(D @ pseudo_inertia(x[space.link(i)]) @ D)[0] for i in range(2)]
    assert_close(_link_margins(space, x), expected, ORACLE)
    flat = solid(space)
    flat[space.link(0)] = phi_about_origin(2.0, np.zeros(3), np.diag([0.1, 0.1, 0.2 - 1e-7]))
    assert _link_margins(space, flat)[0] == 0.0
    assert _link_margins(space, flat)[1] > 0
    outside = solid(space)
    outside[space.link(1)] = phi_about_origin(2.0, np.zeros(3), np.diag([0.1, 0.1, 0.3]))
    assert _link_margins(space, outside)[1] == 0.0


def test_a_link_is_no_wider_than_a_multiple_of_its_length(space):
    x = solid(space)
    for link, length in ((0, 0.5), (1, 0.5)):  # that of the robot for the last, which carries no joint
        row = _width_rows(space, link, 2.0)
        phi = x[space.link(link)]
        r = 2.0 * length
        assert_close(row.matrix @ (x / space.units), [phi[0] - phi[[4, 6, 9]].sum() / 2 / r**2], ORACLE)
        assert (row.kind, row.offset.tolist()) == ("nonnegative", [0.0])
    long = space_of(Regressor(with_estimated_drives(planar_arm([0.9, 0.1], 3))))
    row = _width_rows(long, 0, 1.0)
    ball = phi_about_origin(1.0, np.zeros(3), np.eye(3))
    moved = np.zeros(long.size)
    moved[long.link(0)] = ball
    assert_close(row.matrix @ (moved / long.units), [1.0 - 1.5 / 0.81], ORACLE)


def test_unknown_links_are_balls_between_their_joints(space):
    x = solid(space)
    known = x[space.link(0)]
    assert [child_joint_position.tolist() for child_joint_position in child_joint_positions(space, 0)] == [
        [0.5, 0.0, 0.0]
    ]
    assert child_joint_positions(space, 1) == []
    first, second = guess_balls(space, (None, None), [0, 1], np.array([2.5, 3.0]))
    mass, com, J = mass_com_inertia(first)
    assert_close([mass, *com], [2.5, 0.25, 0, 0], ORACLE)
    assert_close(J, 0.4 * 2.5 * 0.25**2 * np.eye(3), ORACLE)
    mass, com, J = mass_com_inertia(second)
    assert mass == 3.0
    assert not com.any()
    assert_close(J, 0.4 * 3.0 * 0.05**2 * np.eye(3), ORACLE)
    kept, _ = guess_balls(space, (known, None), [1], np.array([2.5, 3.0]))
    assert kept is known


def test_links_of_smallest_mass_get_a_margin_within_their_dynamics(space):
    thin = solid(space, (1e-9, 1e-9))
    result = _add_margins(space, thin, drives_stay=True)
    assert_close(space.matrix @ result, space.matrix @ thin, 1e-8)
    assert_close(result[20:], thin[20:], SOLVED)
    enough = 1e-2 * 2.5
    assert max(_link_margins(space, thin)) < 1e-6
    rooms = _link_margins(space, result)
    assert_close(rooms[0], enough, 1e-2)
    assert 0.7 * enough < rooms[1] < enough  # as much as its known inertia allows


def test_the_nearest_to_a_prior_keeps_the_dynamics(space):
    x = solid(space)
    wanted = solid(space, (0.025, 0.01))
    prior = Prior(tuple(wanted[space.link(i)] for i in range(2)), "euclidean", ())
    for stay in (True, False):
        result = _move_to_prior(space, x, prior, [], drives_stay=stay)
        assert_close(space.matrix @ result, space.matrix @ x, 1e-8)
        assert divergence_of(prior, space, result) < divergence_of(prior, space, x)
        assert min(_link_margins(space, result)) > 0
    # What dynamics leave free has no slope at the minimum, where no condition binds.
    free = np.linalg.svd(np.vstack([space.matrix, np.eye(space.size)[20:]]) * space.units)[2]
    rank = np.linalg.matrix_rank(np.vstack([space.matrix, np.eye(space.size)[20:]]) * space.units)
    stayed = _move_to_prior(space, x, prior, [], drives_stay=True)
    slope = free[rank:] @ (slope_of(prior, space, stayed) * space.units)
    assert np.abs(slope).max() < 1e-3 * np.abs(slope_of(prior, space, x) * space.units).max()
    lightest = _move_to_prior(space, x, build_prior(planar_arm([0.5]), None), [], drives_stay=True)
    assert lightest[space.masses].sum() < 0.9 * x[space.masses].sum()


def estimate(space, x, friction=None, robot=None):
    result = with_estimated_drives(planar_arm([0.5])) if robot is None else robot
    regressor = Regressor(result, friction or Friction())
    return stand_in(robot=result, regressor=regressor, beta=space.matrix @ x, physical=None)


def test_parameters_become_links_and_drives(space):
    x = solid(space)
    notes: list[str] = []
    robot = _build_robot(estimate(space, x), space, x, notes, fitted=False)
    assert_close(robot.phi, x[:20], EXACT)
    got = [[value.rotor_inertia, value.viscous, value.coulomb, value.offset] for value in robot.drives]
    assert got == [[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]]
    assert notes == []
    soft = estimate(space, x, Friction("tanh", 0.25))
    sharp = _build_robot(soft, space, x, notes, fitted=False)
    assert notes == [_describe_transition(soft.regressor.friction)]
    assert sharp.findings[-1].kind == "completed parameters"
    assert [item.coulomb for item in sharp.drives] == [0.3, 0.7]
    smooth = _build_robot(soft, space, x, [], fitted=True)
    assert [drive.coulomb for drive in smooth.drives] == [0.0, 0.0]
    assert sorted(extra.joint for extra in smooth.extras) == ["joint1", "joint2"]
    flat = x.copy()
    flat[space.link(1)] = phi_about_origin(2.0, np.zeros(3), np.diag([0.1, 0.1, 0.2]))
    result: list[str] = []
    _build_robot(estimate(space, flat), space, flat, result, fitted=False)
    assert len(result) == 1
    assert result[0].endswith(": link2")


def test_coefficients_of_extra_torques_follow_the_drives():
    bare = with_estimated_drives(planar_arm([0.5]))
    robot = replace(bare, extras=(ExtraTorque("spring", "joint2", "q", 3.0), ExtraTorque("twist", "joint1", "q", 1.0)))
    item = space_of(Regressor(robot))
    x = np.zeros(item.size)
    x[:20] = solid(space_of(Regressor(bare)))[:20]
    x[20:28] = 0.1
    x[28:] = [7.0, 8.0]
    result = _build_robot(estimate(item, x, robot=robot), item, x, [], fitted=False)
    assert [(extra.name, extra.coefficient) for extra in result.extras] == [("spring", 7.0), ("twist", 8.0)]


def test_forced_values_have_positive_masses_and_the_torques_of_links(space):
    x = solid(space)
    x[space.labels.index("fc1")] = -0.4
    bad = estimate(space, x)
    result = _force_parameters(bad, space)
    assert (result[space.masses] >= 0.9e-3).all()
    assert 0 <= result[space.labels.index("fc1")] < 1e-9
    off = space.matrix @ result - bad.beta
    wrong = [name for name, item in zip(space.names, off, strict=True) if abs(item) > 1e-3]
    assert wrong == ["fc1"]


def test_an_unknown_friction_of_a_full_model_raises(space):
    with raises(InputError, Code.UNKNOWN_NAME, "smooth"):
        build_full_model(estimate(space, solid(space)), friction_at_zero="smooth")


def test_the_innermost_arm_is_at_most_a_kilogram_inside(space):
    x = solid(space)
    result, margin = _find_innermost(space, space.matrix @ x, SimpleNamespace(x=None))
    assert_close(space.matrix @ result, space.matrix @ x, 1e-8)
    assert_close(margin, min(0.2, space.smallest_eigenvalue(result)), SOLVED)  # fv1, or the thinnest link
    assert (result[list(space.nonnegative)] > 0.19).all()  # rotor inertias too, of which the links' take up the rest
    assert space.smallest_eigenvalue(result) >= space.smallest_eigenvalue(x) - 1e-9
    item = arm_witness(space, x)
    assert item["masses"] == {"link1": 2.0, "link2": 3.0}
    assert item["physical"]["fc2"] == 0.7


def test_an_arm_without_drives_has_an_innermost_one_too(space):
    """Nothing bounds how far inside the drives are that there are none of, but for the one kilogram of all margins."""
    alone = space_of_base(base_parameters(planar_arm([0.5])))
    x = solid(space)[: alone.size]
    result, margin = _find_innermost(alone, alone.matrix @ x, SimpleNamespace(x=None))
    assert_close(alone.matrix @ result, alone.matrix @ x, 1e-8)
    assert margin == alone.smallest_margin(result) > alone.smallest_margin(x) > 0


def test_answers_mention_values_on_the_boundary(space):
    inside = check_values(space, space.matrix @ solid(space))
    assert inside.holds
    assert inside.witness["distance"] < 1e-9
    edge = solid(space)
    edge[space.labels.index("fc1")] = 0.0
    answer = check_values(space, space.matrix @ edge)
    assert answer.holds
    assert answer.witness["distance"] <= 1e-5
    for wrong in (np.zeros(3), np.full(len(space.names), np.nan)):
        with raises(InputError, Code.WRONG_SHAPE, "values"):
            check_values(space, wrong)
    alone = check_base_values(space.base, (space.matrix @ solid(space))[: space.base.count].tolist())
    assert alone.holds
