"""Lin's recursive procedure: recovery, its columns against the paper's, its spread, and what it says of bad data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import DERIVATIVE, SAME_ALGEBRA, assert_close
from equations import equations
from raising import raises
from recovered import exact_samples
from robots import random_robot, with_random_drives

from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.identification.estimators.last_link_first import LastLinkFirst
from mindyn.parameters.lin import lin_base, lin_structure
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor, build_regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.loading import load_robot

LIN = EquationSettings(base_form="lin")

RECOVERY = 1e-8


def serial(seed):
    return random_robot(seed, joints=1 + seed % 6, tree=False)


@pytest.mark.parametrize("seeds", [range(k, k + 10) for k in range(0, 60, 10)])
def test_recovers_the_mlc_of_random_serial_robots(seeds):
    for seed in seeds:
        robot = serial(seed)
        samples = exact_samples(robot, count=120, seed=seed)
        estimate = LastLinkFirst().fit(equations(robot, samples, base_form="lin"))
        assert estimate.base.form == "lin"
        assert not estimate.values.unidentifiable
        assert_close(estimate.beta, lin_base(robot).values, RECOVERY)
        assert_close(estimate.predict(samples), samples.tau, RECOVERY)


def test_robots_of_the_recovery_have_both_kinds_of_joints_in_every_group():
    kinds = {(joint.kind, joint.group) for seed in range(60) for joint in lin_structure(serial(seed)).joints}
    groups = ("sliding", "parallel", "spatial")
    assert kinds == {*(("prismatic", g) for g in groups), *(("revolute", g) for g in groups[1:])}


def test_later_torques_know_nothing_of_earlier_parameters():
    regressor = build_regressor(serial(5), LIN)
    for joint, columns in enumerate(regressor.columns):
        owners = [int(regressor.names[k].rsplit("_", 1)[1]) for k in columns]
        assert min(owners) == joint + 1


def test_columns_of_the_last_revolute_joint_are_those_of_the_paper():
    """[Lin 1995, eq. 97]: U11-22: -w_x w_y, U33: wd_z, U12: w_x^2 - w_y^2, U13: wd_x - w_y w_z, U23: wd_y + w_x w_z."""
    robot = random_robot(4, joints=3, tree=False, special=True, gravity=(0.0, 0.0, -9.81))
    structure = lin_structure(robot)
    assert structure.joints[-1].kind == "revolute"
    assert structure.joints[-1].group == "spatial"
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.uniform(-2, 2, (3, 50, 3))
    w, wd = last_rates(structure, q, qd, qdd)
    x, y, z = w.T
    paper = [-x * y, wd[:, 2], x * x - y * y, wd[:, 0] - y * z, wd[:, 1] + x * z]
    regressor = build_regressor(robot, LIN)
    Y = regressor.dense(regressor.parts(q, qd, qdd))[:, -1]
    columns = [regressor.names.index(f"{name}_3") for name in ("U11-22", "U33", "U12", "U13", "U23")]
    assert_close(Y[:, columns], np.stack(paper, axis=1), SAME_ALGEBRA)


def last_rates(structure, q, qd, qdd):
    """w, wd of the last link in its own frame: w_i = R_i^T w_(i-1) + qd e3, by plain vectors in the root frame."""
    found_w, found_wd = [], []
    for k in range(len(q)):
        R, w, wd = np.eye(3), np.zeros(3), np.zeros(3)
        for i, joint in enumerate(structure.joints):
            turns = joint.kind == "revolute"
            c, s = (np.cos(q[k, i]), np.sin(q[k, i])) if turns else (1.0, 0.0)
            R = R @ joint.row.pose.rotation @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
            if turns:
                wd = wd + qdd[k, i] * R[:, 2] + np.cross(w, qd[k, i] * R[:, 2])
                w = w + qd[k, i] * R[:, 2]
        found_w.append(R.T @ w)
        found_wd.append(R.T @ wd)
    return np.array(found_w), np.array(found_wd)


def test_joint_side_friction_is_found_with_the_mlc():
    robot = serial(9)
    samples = exact_samples(robot)
    viscous, coulomb = np.linspace(0.5, 1.5, robot.joint_count), np.linspace(0.2, 0.1, robot.joint_count)
    samples = replace(samples, tau=samples.tau + viscous * samples.qd + coulomb * np.sign(samples.qd))
    estimate = LastLinkFirst().fit(
        equations(robot, samples, friction=Friction(joint_side=robot.joint_names), base_form="lin")
    )
    assert_close([estimate.value(f"fvj{i + 1}") for i in range(robot.joint_count)], viscous, RECOVERY)
    assert_close([estimate.value(f"fcj{i + 1}") for i in range(robot.joint_count)], coulomb, RECOVERY)


@pytest.mark.parametrize("seeds", [range(k, k + 6) for k in range(0, 24, 6)])
def test_drives_are_found_with_the_mlc_coupled_gears_too(seeds):
    for seed in seeds:
        robot = with_random_drives(serial(seed), seed)
        samples = exact_samples(robot, count=250, seed=seed)
        estimate = LastLinkFirst().fit(equations(robot, samples, base_form="lin"))
        assert not estimate.values.unidentifiable
        assert_close(estimate.beta, estimate.base.values, RECOVERY)
        assert_close(estimate.predict(samples), samples.tau, RECOVERY)
        assert_close(
            estimate.base.transform_to(Regressor(robot).base) @ estimate.beta, Regressor(robot).base.values, RECOVERY
        )


def test_the_geared_puma_is_found_from_the_last_link():
    robot = load_robot("puma560_yoshida")
    estimate = LastLinkFirst().fit(equations(robot, exact_samples(robot), base_form="lin"))
    assert {"fc6", "fv5", "Im4", "fo1"} <= set(estimate.names)
    assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_deviations_equal_those_of_repetitions():
    robot = random_robot(2, joints=2, tree=False)
    samples, fits = exact_samples(robot, count=80), []
    for seed in range(200):
        noise = 0.1 * np.random.default_rng(seed).standard_normal(samples.tau.shape)
        fits.append(LastLinkFirst().fit(equations(robot, replace(samples, tau=samples.tau + noise), base_form="lin")))
    spread = np.std([fit.beta for fit in fits], axis=0)
    stated = np.sqrt(np.mean([fit.deviations**2 for fit in fits], axis=0))
    assert np.abs(spread / stated - 1).max() < 0.25  # 200 repetitions: a standard deviation to 5 %, worst of a dozen


def test_every_joint_has_its_condition():
    robot = serial(11)
    estimate = LastLinkFirst().fit(equations(robot, exact_samples(robot), base_form="lin"))
    conditions = estimate.provenance.notes["joint_conditions"]
    assert tuple(conditions) == robot.joint_names
    assert all(1 <= value < 100 for value in conditions.values())
    worst = max(conditions, key=conditions.get)
    assert repr(worst) in estimate.status


def test_a_joint_whose_rows_leave_parameters_open_is_named():
    robot = random_robot(0, joints=3, tree=False, special=False, gravity=(0.0, 0.0, -9.81))
    samples = exact_samples(robot)
    still = np.zeros_like(samples.qd)
    estimate = LastLinkFirst().fit(equations(robot, replace(samples, qd=still, qdd=still), base_form="lin"))
    assert estimate.values.unidentifiable
    assert estimate.provenance.notes["joint_conditions"][robot.joint_names[-1]] is None
    assert estimate.values.unidentifiable[0] in estimate.status
    assert np.isinf(estimate.deviations[[estimate.names.index(name) for name in estimate.values.unidentifiable]]).all()


def test_what_it_cannot_treat_is_rejected_by_name():
    robot = serial(3)
    tree = next(
        item for item in (random_robot(k, joints=5, tree=True) for k in range(20)) if item.parents.count(-1) > 1
    )
    with raises(MindynError, Code.UNSUPPORTED, "lin"):
        LastLinkFirst().fit(equations(tree, exact_samples(tree), base_form="lin"))
    with raises(InputError, Code.DISAGREEMENT, "joint_names"):
        LastLinkFirst().fit(equations(robot, exact_samples(serial(4)), base_form="lin"))
    with raises(InputError, Code.TOO_LITTLE_DATA, "joint1"):
        LastLinkFirst().fit(equations(robot, exact_samples(robot, count=3), base_form="lin"))


def test_errors_of_a_later_joint_are_handed_on_with_the_opposite_sign():
    """The values are linear in the torques: the covariance across joints from how each torque moves them."""
    robot = random_robot(2, joints=2, tree=False)
    rows = equations(robot, exact_samples(robot, count=120, seed=2), base_form="lin")
    whole, sigma, beta = rows.information, 0.01, lin_base(robot).values
    separate = whole.columns[1]

    def fitted(moved=None):
        factors = []
        for joint, (columns, factor, count) in enumerate(zip(whole.columns, whole.factors, whole.counts, strict=True)):
            created = factor.copy()
            created[:, -1] = factor[:, :-1] @ beta[columns]
            created[-1, -1] = sigma * np.sqrt(count - len(columns))  # a residual of variance sigma^2
            if joint == 1 and moved is not None:
                created[moved, -1] += 1.0
            factors.append(created)
        return LastLinkFirst().fit(
            Rows.of_information(rows.regressor, replace(whole, factors=tuple(factors)), rows.settings)
        )

    first = fitted()
    moves = np.array([fitted(k).beta - first.beta for k in range(len(separate))])
    expected = sigma**2 * moves.T @ moves
    before = np.setdiff1d(np.arange(len(beta)), separate)
    scales = np.sqrt(np.diag(first.covariance))
    units = np.outer(scales, scales)
    for part in (np.ix_(separate, separate), np.ix_(before, separate)):
        assert_close((first.covariance / units)[part], (expected / units)[part], DERIVATIVE)
    assert (np.diag(first.covariance)[before] > np.diag(expected)[before]).all()
