"""Fitted friction takes power and rises up to the velocity limit; undetermined coefficients are small."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises
from scipy.optimize import minimize

import mindyn
from mindyn.foundation.errors import Code, InputError, UnknownNameError
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.logs.log import log_from_arrays
from mindyn.regression.build_rows import build_rows
from mindyn.regression.friction import Friction
from mindyn.regression.friction_limits import (
    INDEPENDENT,
    SPEED_COUNT,
    UNKNOWN_LIMIT_RAD_S,
    FrictionLimits,
    friction_limits,
    prior_precision,
)
from mindyn.regression.regressor import Regressor
from mindyn.regression.settings import EquationSettings
from mindyn.robots.friction_laws import FITTED_SHAPES, FRICTION_LAWS
from mindyn.robots.parts import Limits

STRIBECK_RAD_S = FRICTION_LAWS["stribeck"].constants["speed"]


def arm(ratio=1.0, side="joint", velocity=None):
    """A planar arm without gravity, whose first joint has this drive and velocity limit."""
    robot = mindyn.load_robot("planar2")
    joints = (replace(robot.joints[0], limits=Limits(velocity=velocity)), *robot.joints[1:])
    drives = (mindyn.Drive("joint1", ratio, side=side), mindyn.Drive("joint2", side="joint"))
    return replace(robot, joints=joints, gravity=np.zeros(3), drives=drives, extras=())


def friction_torque(regressor, beta, speeds):
    """Torque of the first joint that moves alone at constant speeds, without its offset."""
    qd = np.column_stack([speeds, np.zeros_like(speeds)])
    directions = regressor.directions(0 * qd, qd, np.zeros(len(qd), dtype=np.int64), 100.0)
    kinds = np.array([parameter.kind for parameter in regressor.parameters])
    values = np.where(np.isin(kinds, ["offset", "rotor", "link"]), 0.0, beta)
    return regressor.dense(regressor.parts(0 * qd, qd, 0 * qd, directions))[:, 0] @ values


@pytest.mark.parametrize(("ratio", "side"), [(1.0, "joint"), (60.0, "motor"), (-60.0, "motor")])
@pytest.mark.parametrize("shapes", [*combinations(FITTED_SHAPES, 1), *combinations(FITTED_SHAPES, 2), FITTED_SHAPES])
def test_values_within_the_limits_are_those_that_brake_and_rise(ratio, side, shapes):
    """By the torque of the regressor at other speeds than those of the rows, for values on both sides of the limits."""
    velocity = 3.0
    regressor = Regressor(arm(ratio, side, velocity), Friction("sign", 0.0, shapes, without=(("joint2", shapes[0]),)))
    space, limits = space_of(regressor), friction_limits(regressor)
    speeds = np.append(np.geomspace(velocity / SPEED_COUNT**2, velocity, 401), STRIBECK_RAD_S)
    rising = speeds >= (STRIBECK_RAD_S if "stribeck" in shapes else 0.0)
    rng, agreed = np.random.default_rng(3), []
    expected = [k for k, p in enumerate(space.columns) if p.link_or_joint == "joint1" and p.is_friction]
    # Of the order of torques per unit: a motor's friction is multiplied by the ratio, and by its square.
    sizes = np.array(
        [{"viscous": ratio**-2, "coulomb": abs(1 / ratio)}.get(space.columns[k].kind, 1.0) for k in expected]
    )
    for _ in range(60):
        x = np.zeros(space.size)
        x[expected] = sizes * rng.normal(size=len(expected))
        x[list(space.nonnegative)] = 2 * np.abs(x[list(space.nonnegative)])
        beta, least = space.matrix @ x, np.inf
        for sign in (-1.0, 1.0):
            low, torque, high = (
                sign * friction_torque(regressor, beta, sign * speeds * factor) for factor in (1 - 1e-6, 1, 1 + 1e-6)
            )
            slope = ((high - low) / 2e-6)[rising]  # times the speed
            least = min(least, torque.min() / np.abs(torque).max(), slope.min() / np.abs(torque).max())
        inside = bool((limits.rows @ beta >= 0).all())
        assert inside is bool((space.braking_rows @ x >= 0).all())
        if least >= 0 or least < -1e-2:  # between, speeds between those of the rows decide
            agreed.append(inside is bool(least >= 0))
    assert len(agreed) > 30
    assert all(agreed)


def test_a_joint_without_a_velocity_limit_is_limited_up_to_ten():
    regressor = Regressor(arm(), Friction("sign", 0.0, ("square",)))
    limits, names = friction_limits(regressor), regressor.names
    beta = np.zeros(len(names))
    beta[[names.index("fv1"), names.index("f_square1")]] = 1.0, -0.999 / (2 * UNKNOWN_LIMIT_RAD_S)
    assert (limits.rows @ beta >= 0).all()
    beta[names.index("f_square1")] *= 1.01
    assert not (limits.rows @ beta >= 0).all()


def test_the_nearest_values_within_limits_are_those_of_another_solver():
    rng = np.random.default_rng(0)
    for _ in range(10):
        root, G, beta = rng.normal(size=(8, 5)), rng.normal(size=(4, 5)), rng.normal(size=5)
        matrix = root.T @ root
        result = FrictionLimits(G).apply(matrix, beta, np.arange(5))
        expected = minimize(
            lambda b, beta=beta, matrix=matrix: (b - beta) @ matrix @ (b - beta),
            np.zeros(5),
            jac=lambda b, beta=beta, matrix=matrix: 2 * matrix @ (b - beta),
            constraints={"type": "ineq", "fun": lambda b, G=G: G @ b},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert_close(result, expected.x, 1e-5)
        assert (G @ result > -1e-9).all()


def one_way_log(robot, seed=0, noise=0.02, slowest=-0.03, stribeck=0.0):
    """A fast, short motion whose first joint turns one way, or nearly: v and |v| are nearly collinear."""
    rng = np.random.default_rng(seed)
    t = np.arange(0, 6, 0.01)
    mean = slowest + 0.3 * 5.1
    q = np.column_stack([mean * t + 0.3 * np.sin(5.1 * t), 0.8 * np.sin(2.3 * t + 1.0)])
    qd = np.column_stack([mean + 0.3 * 5.1 * np.cos(5.1 * t), 0.8 * 2.3 * np.cos(2.3 * t + 1.0)])
    qdd = np.column_stack([-0.3 * 5.1**2 * np.sin(5.1 * t), -0.8 * 2.3**2 * np.sin(2.3 * t + 1.0)])
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    tau[:, 0] += stribeck * np.exp(-qd[:, 0] / 0.1)
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    return log_from_arrays(robot.joint_names, t, q, tau, qd)


def test_a_collinear_shape_stays_small():
    """v and |v| of a joint that turns one way: free coefficients cancel, and are wrong the other way."""
    robot = replace(arm(), drives=(mindyn.Drive("joint1", viscous=80.0, coulomb=20.0), mindyn.Drive("joint2")))
    settings = EquationSettings(friction=Friction("tanh", 0.05, ("asymmetric",)))
    rows = build_rows(robot, one_way_log(robot, noise=0.1), settings)
    free, limited = (LeastSquares(friction_rule=kind).fit(rows) for kind in ("free", "dissipative"))
    back = [friction_torque(fit.regressor, fit.beta, np.array([-2.0]))[0] for fit in (free, limited)]
    assert abs(back[0] + 180.0) > 90.0
    assert abs(back[1] + 180.0) < 45.0


@pytest.mark.parametrize(
    "estimator", [LeastSquares(), LeastSquares(friction_rule="regularised"), mindyn.PhysicallyConsistent()], ids=repr
)
def test_an_offset_and_coulomb_friction_that_one_direction_does_not_separate_stay_small(estimator):
    """More friction at the lowest speeds looks like a large offset that nearly all of Coulomb friction cancels."""
    robot = replace(
        arm(), drives=(mindyn.Drive("joint1", viscous=8.0, coulomb=20.0, offset=4.0), mindyn.Drive("joint2"))
    )
    log = one_way_log(robot, slowest=0.15, stribeck=40.0)
    fit = estimator.fit(build_rows(robot, log, EquationSettings(friction=Friction("tanh", 0.05))))
    beta = dict(zip(fit.names, fit.beta, strict=True))
    back = friction_torque(fit.regressor, fit.beta, np.array([-2.0]))[0] + beta["fo1"]
    if getattr(estimator, "friction_rule", "") == "free":
        assert abs(back + 32.0) > 100.0
    else:
        assert abs(back + 32.0) < 12.0  # the direction that was not driven is known up to twice the offset
        assert abs(beta["fo1"]) < 1.0


def test_the_prior_adds_what_is_left_of_a_column_after_the_others():
    """By the residual of a least-squares problem, for several matrices at once."""
    rng = np.random.default_rng(1)
    columns = rng.normal(size=(5, 40, 4))
    columns[:, :, 0] = columns[:, :, 1] - columns[:, :, 3] + np.geomspace(1e-3, 1, 5)[:, None] * columns[:, :, 0]
    left = [float(np.linalg.lstsq(Y[:, 1:], Y[:, 0])[1][0]) for Y in columns]
    expected = np.maximum(0.0, INDEPENDENT * (columns[:, :, 0] ** 2).sum(axis=1) - left)
    assert (expected > 0).sum() == 3
    assert_close(prior_precision(columns.swapaxes(1, 2) @ columns), expected, 1e-6)


def test_a_limited_fit_equals_a_free_one_that_is_within_limits():
    robot = replace(
        arm(),
        drives=(mindyn.Drive("joint1", viscous=4.0, coulomb=1.0), mindyn.Drive("joint2", viscous=1.0, coulomb=0.5)),
    )
    rows = build_rows(robot, one_way_log(robot), EquationSettings(friction=Friction("tanh", 0.05)))
    assert_close(LeastSquares(friction_rule="dissipative").fit(rows).beta, LeastSquares().fit(rows).beta, SAME_ALGEBRA)


def test_unknown_names_are_rejected():
    with raises(InputError, Code.UNKNOWN_NAME, "loose"):
        LeastSquares(friction_rule="loose")
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "elbow"):
        Regressor(arm(), Friction("sign", 0.0, ("root",), without=(("elbow", "root"),)))
    with raises(InputError, Code.INVALID_VALUE):
        Friction("sign", 0.0, ("root",), without=(("joint1",),))


def test_friction_of_single_joints_is_stored():
    friction = Friction(
        "tanh", 0.05, ("root", "load"), reference=(1.0,), without=(("joint1", "load"), ("joint2", "root"))
    )
    assert Friction.from_dict(friction.to_dict()) == friction
    assert friction.shapes_of("joint1") == ("root",)
    assert friction.without_load() == Friction("tanh", 0.05, ("root",), without=(("joint2", "root"),))
    rest = friction.exclude([("joint2", "load")], ("joint1", "joint2"))
    assert rest == friction.without_load()
    names = Regressor(arm(), friction.without_load()).names
    assert [name for name in names if name.startswith("f_")] == ["f_root1"]
