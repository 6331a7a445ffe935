"""The best place of an added mass is that of a brute-force search."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from raising import raises

from mindyn import base_parameters, load_robot
from mindyn.equations import place_point_mass, reduce_model
from mindyn.equations.catalogue import build_equation
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, InputError


@pytest.fixture(scope="module")
def case():
    robot = load_robot("planar2")
    t = np.linspace(0, 6, 60)[:, None]
    q = np.array([0.8, 1.2]) * np.sin(t * np.array([0.5, 0.9]))
    qd, qdd = np.gradient(q, t[1, 0], axis=0), np.zeros_like(q)
    return robot, base_parameters(robot), (q, qd, qdd)


def test_a_counterweight_takes_the_least_torque(case):
    robot, base, motion = case
    low, high = (-1.0, -0.2, 0.0), (1.0, 0.2, 0.0)
    placement = place_point_mass(base, "link2", 5.0, low, high, motion)
    Y = build_equation(robot, "standard_regressor")
    rows = np.array([np.array(Y(*sample)) for sample in zip(*motion, strict=True)])
    tau = rows @ robot.phi

    def cost(position):
        phi = np.concatenate([np.zeros(10), phi_about_origin(5.0, np.array(position), np.zeros((3, 3)))])
        return (((rows @ (robot.phi + phi)) ** 2).mean(axis=0) / (tau**2).mean(axis=0)).mean()

    grid = list(product(np.linspace(-1, 1, 81), np.linspace(-0.2, 0.2, 9), [0.0]))
    best = min(map(cost, grid))
    assert placement.value <= best * (1 + 1e-9)
    assert placement.value < 0.9 * placement.without
    assert abs(placement.value - cost(placement.position)) < 1e-9 * placement.value
    assert placement.without == pytest.approx(1.0)


def test_the_simplest_place_changes_the_least(case):
    _, base, motion = case
    placement = place_point_mass(base, "link1", 2.0, (-0.5, -0.5, -0.5), (0.5, 0.5, 0.5), motion, aim="simplest")
    assert np.abs(placement.position[:2]).max() < 1e-3  # on the first axis nothing is seen of it
    assert placement.value < 1e-5
    free = place_point_mass(base, "link2", (0.0, 3.0), (-0.5, -0.5, -0.5), (0.5, 0.5, 0.5), motion, aim="simplest")
    assert free.mass < 1e-6


def test_invalid_placements_raise(case):
    _, base, motion = case
    with raises(InputError, Code.OUT_OF_RANGE, "mass"):
        place_point_mass(base, "link2", 1.0, (0, 0, 1), (0, 0, 0), motion)
    with raises(InputError, Code.OUT_OF_RANGE, "mass"):
        place_point_mass(base, "link2", -1.0, (0, 0, 0), (0, 0, 0), motion)
    with raises(InputError, Code.NOT_IDENTIFIABLE, base.robot.root.name):
        place_point_mass(base, base.robot.root.name, 1.0, (0, 0, 0), (1, 1, 1), motion)


def test_components_ranked_on_states_have_torque_errors_of_the_motion(case):
    robot, _, motion = case
    rng = np.random.default_rng(0)
    states = rng.uniform(-3, 3, (2, 50, 2))
    by_states, by_motion = reduce_model(robot, *motion, states=tuple(states)), reduce_model(robot, *motion)
    assert np.allclose(by_states.torque_size, by_motion.torque_size)
    assert not np.allclose(by_states.energies, by_motion.energies)
    assert by_states.torque_error[-1].max() < 1e-9 * by_motion.torque_size.max()
    with raises(InputError, Code.WRONG_SHAPE, "states"):
        reduce_model(robot, *motion, states=(states[0], states[1][:3]))
