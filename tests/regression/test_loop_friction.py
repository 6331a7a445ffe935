"""Friction of joints that solved loops make dependent: columns are those of the open tree, projected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closed_models import closed_model
from closeness import ORACLE, assert_close

import mindyn
from mindyn.equations.loop_constraints import open_tree
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.controllers import SineMotion
from mindyn.regression.build_rows import build_rows
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor
from mindyn.robots.friction_laws import FITTED_SHAPES
from mindyn.robots.parts import Drive

RECOVERED = 1e-8


def passive():
    """A five-bar with drives on all joints, that of a passive one geared and coupled to the other."""
    robot = mindyn.load_robot("five_bar")
    drives = [Drive(name, 10.0, viscous=0.1, coulomb=0.2, rotor_inertia=1e-3) for name in robot.primary_names]
    geared = Drive("joint3", -2.0, viscous=0.5, coulomb=0.3, coupling={"joint5": 0.7}, side="motor")
    return replace(robot, drives=(*drives, geared, Drive("joint5", viscous=0.1, coulomb=0.1)))


@pytest.mark.parametrize(
    "friction",
    [Friction("tanh", 0.1), Friction("sign", 0.0, FITTED_SHAPES), Friction("stop", 0.05, ("stribeck",))],
    ids=["tanh", "shapes", "stop"],
)
def test_columns_are_the_trees_projected(friction):
    robot, rng = passive(), np.random.default_rng(0)
    t = np.arange(200) / 100
    motion = SineMotion([0, 0.1, -1.2], [[0.3, 0.4, 0.3]], [[0.5, 0.7, 0.9]], [rng.uniform(0, 6, 3)])
    p, pd, pdd = motion.rows(t)
    whole = closed_model(robot).motion(p, pd, pdd)
    closed, tree = Regressor(robot, friction), Regressor(open_tree(robot), friction)
    values = np.zeros(len(t), dtype=np.int64)
    Y = closed.dense(closed.parts(p, pd, pdd, closed.directions(p, pd, values, 100.0)))
    directions = tree.directions(whole.q, whole.qd, values, 100.0)
    expected = np.einsum("nik,nip->nkp", whole.W, tree.dense(tree.parts(whole.q, whole.qd, whole.qdd, directions)))
    names = [parameter.name for parameter in closed.parameters if parameter.kind in ("viscous", "coulomb", "friction")]
    assert len(names) == 5 * (2 + len(friction.shapes))
    separate, theirs = ([regressor.names.index(name) for name in names] for regressor in (closed, tree))
    assert_close(Y[:, :, separate], expected[:, :, theirs], ORACLE)


def test_shapes_of_passive_joints_are_recovered():
    robot, friction = passive(), Friction("tanh", 0.2, ("stribeck",))
    frequencies, phases = [[0.5, 0.7, 0.9], [1.1, 1.3, 1.7]], [[0, 1, 2], [1, 2, 3]]
    motion = SineMotion([0, 0.1, -1.3], [[0.6, 0.4, 0.3], [0.3, 0.2, 0.2]], frequencies, phases)
    p, pd, pdd = motion.rows(np.arange(2500) / 250)
    regressor = Regressor(robot, friction)
    item = np.zeros(len(p), dtype=np.int64)
    truth = np.concatenate([regressor.base.values, np.linspace(0.1, 0.5, 5)])
    tau = regressor.dense(regressor.parts(p, pd, pdd, regressor.directions(p, pd, item, 250.0))) @ truth
    samples = Samples(robot.primary_names, p, pd, pdd, tau, 250.0, item)
    fit = mindyn.LeastSquares().fit(build_rows(robot, samples, mindyn.EquationSettings(friction=friction)))
    assert_close(fit.beta, truth, RECOVERED)
    assert_close(fit.predict(samples), tau, RECOVERED)
