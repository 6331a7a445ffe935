"""Every function of a model takes an empty batch and returns an empty result of the right shape."""

from __future__ import annotations

import numpy as np
import pytest
from robots import random_robot

import mindyn
from mindyn.robots.loading import load_robot

FUNCTIONS = {
    "inverse_dynamics": 3,
    "inertia_matrix": 1,
    "bias": 2,
    "gravity": 1,
    "coriolis": 2,
    "forward_dynamics": 3,
    "standard_regressor": 3,
    "regressor": 3,
    "energy": 2,
    "energy_regressor": 2,
}
ROBOTS = {
    "tree": lambda: random_robot(3, joints=4, tree=True),
    "turret": lambda: load_robot("five_bar"),
    "slider-crank": lambda: load_robot("slider_crank"),
    "parallelogram": lambda: load_robot("parallelogram_arm"),
}
EMPTY = [(0,), (2, 0), (0, 3)]


@pytest.fixture(scope="module", params=sorted(ROBOTS))
def robot(request):
    return ROBOTS[request.param]()


def shapes(function, count, width, batch, *more):
    empty, single = (function(*[np.zeros((*b, width))] * count, *more) for b in (batch, (1,)))
    return empty.shape, (*batch, *single.shape[1:])


@pytest.mark.parametrize("batch", EMPTY)
def test_model_functions_accept_empty_batches(robot, batch):
    model, width = mindyn.compile_model(robot), robot.joint_count
    for name, count in FUNCTIONS.items():
        actual, expected = shapes(getattr(model, name), count, width, batch)
        assert actual == expected, name
    for name in ("forward_kinematics", "geometric_jacobian"):
        actual, expected = shapes(getattr(model, name), 1, width, batch, robot.link_names[-1])
        assert actual == expected, name
    wrenches = model.inverse_dynamics_with_wrenches(
        *[np.zeros((*batch, width))] * 3, np.zeros((*batch, len(robot.links), 6))
    )
    assert wrenches.shape == (*batch, width)
