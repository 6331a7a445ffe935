"""An estimate reduced to what matters along a motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from raising import raises

import mindyn
from mindyn.equations import reduce_model
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.essential import reduce_estimate
from mindyn.logs.samples import Samples


def exciting(robot, rows=400):
    rng = np.random.default_rng(0)
    t = np.linspace(0, 10, rows)[:, None]
    w, phase = rng.uniform(1, 4, (3, robot.joint_count)), rng.uniform(0, 6, (3, robot.joint_count))
    q = sum(0.4 * np.sin(a * t + b) for a, b in zip(w, phase, strict=True))
    qd = sum(0.4 * a * np.cos(a * t + b) for a, b in zip(w, phase, strict=True))
    qdd = sum(-0.4 * a**2 * np.sin(a * t + b) for a, b in zip(w, phase, strict=True))
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    return Samples(robot.joint_names, q, qd, qdd, tau, 40.0, np.zeros(rows, dtype=np.int64))


def test_reducing_an_estimate_is_reducing_the_robot_it_found():
    robot = mindyn.load_robot("puma560")
    # A rotor that merges with its link would count as the link's; without rotors both are the same bodies.
    robot = replace(robot, drives=tuple(replace(drive, rotor_inertia=0.0) for drive in robot.drives))
    samples = exciting(robot)
    estimate = mindyn.LeastSquares().fit(equations(robot, samples))
    reduced = reduce_estimate(estimate, samples, tolerance=0.05)
    expected = reduce_model(robot, samples.q, samples.qd, samples.qdd, tolerance=0.05)
    assert reduced.kept == expected.kept < len(reduced.energies)
    assert_close(np.abs(reduced.energies[:5]), np.abs(expected.energies[:5]), 1e-6)
    full = reduce_estimate(estimate, samples, keep=len(reduced.energies))
    assert full.torque_error[-1].max() < 1e-9 * reduced.torque_size.max()


@pytest.mark.parametrize("wrong", [{"tolerance": -1.0}, {"tolerance": float("nan")}, {"keep": 3.5}, {"keep": 99}])
def test_impossible_wishes_are_rejected(wrong):
    robot = mindyn.load_robot("planar2")
    motion = np.random.default_rng(0).normal(size=(3, 20, 2))
    with raises(InputError, Code.OUT_OF_RANGE, next(iter(wrong))):
        reduce_model(robot, *motion, **wrong)
