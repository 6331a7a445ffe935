"""`identify` with any estimator and any robot: a right result, or an error that names its subject."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from estimators.recovered import exact_samples, smooth_samples
from estimators.test_streams import SETTINGS, noisy_log, revolute_robot, write_and_scan
from raising import raises
from robots import random_robot

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import Drive


def driven_parallelogram(joints, coulomb=1.0):
    robot = mindyn.load_robot("parallelogram_planar")
    named = [name for name in robot.joint_names if name in joints]
    friction = {"viscous": 0.5, "coulomb": coulomb, "offset": 0.2}
    return replace(robot, drives=tuple(Drive(name, 50.0, rotor_inertia=1e-4, **friction) for name in named))


@pytest.mark.parametrize("joints", [("joint1", "joint_crank"), ("joint2",), ("joint1", "joint2")])
def test_drives_of_a_parallelogram_are_recovered(joints):
    robot = driven_parallelogram(joints)
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 600)))
    assert_close(estimate.beta, estimate.base.values, 1e-8)


@pytest.mark.parametrize("friction", [Friction(), Friction("tanh", 0.05), Friction("tanh", 0.05, ("square",))])
def test_drives_that_a_loop_keeps_in_step_share_their_friction(friction, tmp_path):
    robot = driven_parallelogram(mindyn.load_robot("parallelogram_planar").joint_names)
    samples = smooth_samples(robot, 3000)
    estimate = LeastSquares().fit(equations(robot, samples, friction=friction))
    assert not estimate.values.unidentifiable
    if friction == Friction():
        assert_close(estimate.predict(samples), samples.tau, 1e-9)
    estimate.save(tmp_path / "estimate.json")
    assert_close(mindyn.load_estimate(tmp_path / "estimate.json").predict(samples), estimate.predict(samples), 1e-12)


@pytest.mark.parametrize("form", ["energy", "momentum"])
def test_energy_and_momentum_of_a_parallelogram(form):
    robot = driven_parallelogram(("joint1", "joint_crank"), coulomb=0.0)
    fit = mindyn.EnergyDifference(form=form, reversals="within")
    estimate = fit.fit(equations(robot, smooth_samples(robot, 4000)))
    assert_close(estimate.beta, Regressor(robot).base.values, 1e-6)


def test_reversals_of_a_parallelogram_are_avoided():
    robot = driven_parallelogram(("joint1", "joint2"))
    estimate = mindyn.EnergyDifference(form="momentum").fit(equations(robot, smooth_samples(robot, 6000)))
    assert_close(estimate.beta, Regressor(robot).base.values, 1e-3)


def test_instrumental_variables_of_a_parallelogram():
    robot = driven_parallelogram(("joint1", "joint_crank"))
    estimate = mindyn.InstrumentalVariables().fit(equations(robot, smooth_samples(robot, 4000)))
    assert_close(estimate.beta, Regressor(robot).base.values, 1e-8)


@pytest.mark.parametrize(
    "estimator", [mindyn.InstrumentalVariables(), mindyn.EnergyDifference(), mindyn.EnergyDifference(form="momentum")]
)
def test_what_needs_all_rows_refuses_a_stream(estimator, tmp_path):
    robot = revolute_robot()
    with raises(InputError, Code.UNSUPPORTED, "samples"):
        mindyn.identify(
            robot, write_and_scan(noisy_log(robot, 3000), robot, tmp_path), estimator, EquationSettings(SETTINGS)
        )


def test_last_link_first_identifies_a_robot_without_drives():
    robot = random_robot(3, joints=3, tree=False)
    s = smooth_samples(robot, 3000)
    log = log_from_arrays(s.joint_names, np.arange(3000) / s.rate_hz, s.q, s.tau, s.qd, s.qdd)
    estimate = mindyn.identify(robot, log, mindyn.LastLinkFirst(), EquationSettings(AS_LOGGED))
    assert_close(estimate.beta, estimate.base.values, 1e-6)
