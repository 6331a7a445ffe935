"""Robots whose loops are solved for are identified in their primary joints: noise-free recovery."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close

import mindyn
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.controllers import SineMotion
from mindyn.regression.build_rows import build_rows
from mindyn.regression.regressor import Regressor
from mindyn.robots.parts import Drive

RECOVERED = 1e-8
INTEGRATED = 1e-5
"""By quadrature of samples at 250 Hz."""


@pytest.fixture(scope="module")
def recorded():
    """A five-bar with drives on its primary joints and friction of a passive one; its motion, torques, base values."""
    robot = mindyn.load_robot("five_bar")
    drives = [Drive(name, viscous=2.0, coulomb=1.0, rotor_inertia=0.05) for name in robot.primary_names]
    robot = replace(robot, drives=(*drives, Drive("joint3", viscous=0.5)))
    frequencies, phases = [[0.5, 0.7, 0.9], [1.1, 1.3, 1.7]], [[0, 1, 2], [1, 2, 3]]
    motion = SineMotion([0, 0.1, -1.3], [[0.6, 0.4, 0.3], [0.3, 0.2, 0.2]], frequencies, phases)
    q, qd, qdd = motion.rows(np.arange(2500) / 250)
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    samples = Samples(robot.primary_names, q, qd, qdd, tau, 250.0, np.zeros(len(q), dtype=np.int64))
    return build_rows(robot, samples), Regressor(robot).base.values


@pytest.mark.parametrize(
    ("estimator", "within"),
    [
        (mindyn.LeastSquares(), RECOVERED),
        (mindyn.InstrumentalVariables(), RECOVERED),
        (mindyn.EnergyDifference(form="momentum"), INTEGRATED),
    ],
    ids=["least squares", "instruments", "momentum"],
)
def test_estimators_that_need_only_logs_recover_the_parameters(recorded, estimator, within):
    rows, truth = recorded
    assert_close(estimator.fit(rows).beta, truth, within)


def test_a_saved_estimate_keeps_loops_mimics_and_home(recorded, tmp_path):
    rows, _ = recorded
    fit = mindyn.LeastSquares().fit(rows)
    fit.save(tmp_path / "estimate.json")
    again = mindyn.load_estimate(tmp_path / "estimate.json")
    assert again.robot == fit.robot
    assert again.robot.loops[0].kind == "pin"
