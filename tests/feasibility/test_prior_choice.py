"""Consistent fits: dropped parameters, the selection of the prior weight, the status; load-dependent friction.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from raising import raises
from small_arms import planar_arm
from stand_in import stand_in

from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.fits import prior_and_drive_choice
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent, _format_status
from mindyn.identification.feasibility.fits.prior_and_drive_choice import (
    PriorChoice,
    _fold_errors,
    _select_least_weight,
)
from mindyn.logs.loop_follower import _is_motion, follow_loops
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, triangle_of
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.settings import EquationSettings
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive, ExtraTorque


@pytest.mark.parametrize(
    ("given", "code", "subject"),
    [
        ({"prior_weight": -1e-9}, Code.OUT_OF_RANGE, "prior_weight"),
        ({"prior_weight": np.inf}, Code.OUT_OF_RANGE, "prior_weight"),
        ({"prior_weight": "most"}, Code.OUT_OF_RANGE, "prior_weight"),
        ({"kinds": "some"}, Code.UNKNOWN_NAME, "some"),
        ({"divergence": "plain"}, Code.UNKNOWN_NAME, "plain"),
        ({"prior": "ur10.urdf"}, Code.UNKNOWN_NAME, "ur10.urdf"),
    ],
)
def test_invalid_settings_raise(given, code, subject):
    with raises(InputError, code, subject):
        PhysicallyConsistent(**given)
    for name, wrong, about in (("weights", Code.INVALID_VALUE, "weights"), ("covariance", Code.UNKNOWN_NAME, "none")):
        with raises(InputError, wrong, about):
            PhysicallyConsistent(**{name: "none"})
    assert PhysicallyConsistent(prior_weight=0).needs == "information"
    assert PhysicallyConsistent(covariance="correlated").needs == "samples"


@pytest.fixture(scope="module")
def arm():
    robot = with_estimated_drives(planar_arm([0.5]))
    ball = phi_about_origin(2.0, np.array([0.2, 0.0, 0.0]), 0.02 * np.eye(3))
    return Regressor(replace(robot, links=tuple(replace(link, phi=k * ball) for k, link in enumerate(robot.links, 1))))


def test_parameters_are_dropped_by_name_or_by_kind(arm):
    def zero(*names):
        problem = PhysicallyConsistent(dropped=names)._build_problem(arm)
        return [problem.space.labels[k] for k in problem.zero]

    assert zero() == []
    assert zero("fc2") == ["fc2"]
    assert zero("viscous", "fv1") == ["fv1", "fv2"]
    assert set(zero("rotor")) == {"Im1", "Im2"}
    with raises(InputError, Code.UNKNOWN_NAME, "m1, none"):
        zero("m1", "fc1", "none")


def test_choices_need_folds_or_a_weight(arm):
    problem = PhysicallyConsistent()._build_problem(arm)
    assert problem.prior.is_known
    given = PhysicallyConsistent(prior_weight=0.3, kinds="all")._choose_prior(problem, [1, 2, 3], np.ones(2))
    assert (given.weight, given.dropped_kinds, given.tried) == (0.3, (), ())
    assert PhysicallyConsistent(prior_weight=0.3)._choose_prior(problem, [1], np.ones(2)).weight == 0.3
    nothing = PhysicallyConsistent(prior=None, kinds="all")
    assert nothing._choose_prior(nothing._build_problem(arm), [1, 2], np.ones(2)).weight == 0.0
    lone = SimpleNamespace(blocks=(1,))
    with raises(InputError, Code.TOO_LITTLE_DATA, "prior_weight"):
        PhysicallyConsistent().fit(lone)


def fold(seed, rows=10):
    table = np.random.default_rng(seed).normal(size=(rows, 3))
    return Information(("j",), ("a", "b"), (np.arange(2),), (triangle_of(table),), (rows,)), table


def test_errors_are_those_of_each_fold_by_the_rest(monkeypatch):
    folds = [fold(k, 10 + k) for k in range(3)]

    class Problem:
        space = SimpleNamespace(matrix=2 * np.eye(2))

        def drop_kinds(self, kinds):
            return kinds

    def solve_all(fits, weights):
        """Ridge regression; none with a rotor."""
        stacks = [(information.stacked(weights), weight, kinds) for kinds, information, weight in fits]
        ridge = [(R.T @ R + weight * np.eye(2), R.T @ z, kinds) for (R, z), weight, kinds in stacks]
        return [None if kinds else np.linalg.solve(matrix, right) / 2 for matrix, right, kinds in ridge]

    monkeypatch.setattr(prior_and_drive_choice, "solve_all", solve_all)
    weights, parts = np.array([3.0]), [value for value, _ in folds]
    result, failed, other = _fold_errors(Problem(), parts, weights, [((), 0.5), (("rotor",), 0.5), ((), 0.7)])
    expected = []
    for held in range(3):
        rest = np.vstack([table for k, (_, table) in enumerate(folds) if k != held])
        A, b = rest[:, :2], rest[:, 2]
        beta = np.linalg.solve(3 * A.T @ A + 0.5 * np.eye(2), 3 * A.T @ b)
        outcome = folds[held][1]
        expected.append(3.0 * np.mean((outcome[:, :2] @ beta - outcome[:, 2]) ** 2))
    assert_close(result, expected, ORACLE)
    assert failed.tolist() == [np.inf] * 3
    assert (other != result).all()


@pytest.mark.parametrize(("mean", "least"), [(0.8, 0), (1.6, 1)])
def test_the_least_weight_is_selected_whose_errors_are_not_significantly_larger(mean, least):
    """Four folds: a mean difference is significant from 2.35 standard errors on, which are half of the deviation."""
    scatter = np.array([-1.5, -0.5, 0.5, 1.5]) / np.std([-1.5, -0.5, 0.5, 1.5], ddof=1)
    more = 0.01 * (mean + scatter)
    assert _select_least_weight(np.exp(np.array([more, np.zeros(4)]))) == least


def test_the_status_of_a_consistent_fit():
    information, table = fold(0)
    beta, least = np.array([1.0, 2.0]), np.linalg.lstsq(table[:, :2], table[:, 2], rcond=None)[0]
    size = np.linalg.norm(table[:, 2])
    errors = [100 * np.linalg.norm(table[:, :2] @ b - table[:, 2]) / size for b in (beta, least)]
    plain = stand_in(beta=least, dropped=("x",), settings=EquationSettings())
    prior = SimpleNamespace(is_known=True, sentence="the prior", notes=("a note",))
    problem = SimpleNamespace(prior=prior, compact=False, space=SimpleNamespace(reach=1.25))
    result = _format_status(plain, problem, information, beta, PriorChoice(0.125, ("rotor",), ()))
    assert result.startswith(
        f"1 physically consistent parameters from 10 equations (10 samples of 1 joint) leave {errors[0]:.3g} % of the "
        f"torque unexplained ({errors[1]:.3g} % without the constraint); the prior, weight 0.12. Note: "
    )
    assert "were dropped because they do not improve the prediction of held-out blocks." in result
    assert "Note: links are wider than the known reach of the robot, 1.2 m. Note: a note." in result
    prior.is_known, prior.notes, problem.compact = False, (), True
    bare = _format_status(plain, problem, information, beta, PriorChoice(0.125, (), ()))
    assert bare.endswith("without the constraint); the prior.")


def test_why_friction_may_not_grow_with_the_load(arm):
    assert arm.load_obstacle() == ""
    robot = arm.robot
    bare = Regressor(replace(robot, drives=robot.drives[:1]))
    assert bare.load_obstacle() == "a joint has no drive"
    assert Regressor(replace(robot, drives=())).load_obstacle().startswith("the model has no drives")
    first, second = robot.joint_names
    alike = (Drive(first, 2.0, {second: 1.0}, side="motor"), Drive(second, 1.0, {first: 2.0}, side="motor"))
    assert Regressor(replace(robot, drives=alike)).load_obstacle() == "the gear matrix is singular"
    sprung = Regressor(replace(robot, extras=(ExtraTorque("spring", second, "q", 3.0),)))
    assert sprung.load_obstacle() == ""
    loop = load_robot("slider_crank")  # loops may have it, unless the constant weight of a slide stands in the way
    assert Regressor(loop).load_obstacle() == ""
    loop = replace(loop, gravity=np.array([-9.81, 0.0, 0.0]))
    assert "combines the weight of a link and the offset of a drive" in Regressor(loop).load_obstacle()
    assert arm.rigid.tolist() == [parameter.kind in ("link", "rotor") for parameter in arm.parameters]


def motion(q, qd, segments=None, rate_hz=100.0, name="ram"):
    q, qd = (np.asarray(item, dtype=float)[:, None] for item in (q, qd))
    numbers = np.zeros(len(q), dtype=np.int64) if segments is None else np.asarray(segments)
    return Samples((name,), q, qd, 0 * q, 0 * q, rate_hz, numbers)


def test_rows_are_a_motion_if_positions_follow_their_speeds():
    t = np.arange(50) / 100
    assert _is_motion(motion(np.sin(3 * t), 3 * np.cos(3 * t)))
    assert not _is_motion(motion(np.sin(3 * t), -3 * np.cos(3 * t)))
    assert not _is_motion(motion(np.sin(3 * t), 3 * np.cos(3 * t), rate_hz=30.0))
    rng = np.random.default_rng(0)
    assert not _is_motion(motion(rng.normal(size=50), rng.normal(size=50)))
    assert not _is_motion(motion([0.1], [0.2]))
    slow = 1e-3 * np.sin(3 * t)
    assert _is_motion(motion(slow, 3e-3 * np.cos(3 * t)))
    assert not _is_motion(motion(slow, 1e-3 * np.cos(3 * t))), "speeds a third of what they are"
    pieces = np.concatenate([np.sin(3 * t), 9 + np.sin(3 * t)])
    assert _is_motion(motion(pieces, np.tile(3 * np.cos(3 * t), 2), np.repeat([0, 1], 50)))


def test_samples_get_their_closure_once_and_only_if_loops_must_be_solved():
    plain = load_robot("planar2")
    arrays = np.zeros((4, 3, 2))
    flat = Samples(plain.joint_names, *arrays, 100.0, np.zeros(3, dtype=np.int64))
    assert follow_loops(plain, flat) is flat
    crank = load_robot("slider_crank")
    (name,) = crank.primary_names
    rng = np.random.default_rng(1)
    p = rng.uniform(0.3, 1.2, 8)
    apart = motion(p, rng.normal(size=8), name=name)
    result = follow_loops(crank, apart)
    assert result.dependent_q.shape == (8, len(crank.dependent_names))
    assert result.closure.shape == (8, 2)
    assert result.closure[:, 0].max() < 1e-10
    assert follow_loops(crank, result) is result
    other = motion(p, p, name="other")
    assert follow_loops(crank, other) is other
    t = np.arange(60) / 100
    along = follow_loops(crank, motion(0.6 + 0.2 * np.sin(3 * t), 0.6 * np.cos(3 * t), name=name))
    single = follow_loops(crank, motion(0.6 + 0.2 * np.sin(3 * t), 9 + 0 * t, name=name))
    assert_close(along.dependent_q, single.dependent_q, 1e-8)
