"""Two links projected in closed form: nearest points of cones, the minor of the matrix, and invariants."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close, assert_negligible
from raising import raises

from mindyn.errors import Code, InputError
from mindyn.feasibility.yoshida_projection import (
    TwoLinks,
    project_on_circular_cone,
    project_on_polyhedral_cone,
    project_two_links,
)

ARM = TwoLinks(0.5, 0.3, 0.8, -0.6, 0.9)
"""J1 J2 = 0.15 < L^2 (Rx^2 + Ry^2) = 0.81: no arm has them."""


def test_the_second_minor_is_the_determinant_of_the_inertia_matrix():
    theta = np.linspace(0, 2 * np.pi, 17)
    functions = np.stack([np.cos(2 * theta), np.sin(2 * theta), np.ones(17)])
    coupling = ARM.L * (ARM.Rx * np.cos(theta) - ARM.Ry * np.sin(theta))
    assert_close(ARM.second_minor @ functions, ARM.J1 * ARM.J2 - coupling**2, SAME_ALGEBRA)


def test_the_projection_on_a_circular_cone_is_the_nearest_point():
    rng = np.random.default_rng(0)
    for p in rng.normal(size=(40, 3)):
        result = project_on_circular_cone(p)
        assert result[2] >= np.hypot(result[0], result[1]) - SAME_ALGEBRA
        angle, height = rng.uniform(0, 2 * np.pi, 400), rng.uniform(0, 3, 400)
        size = height * rng.uniform(0, 1, 400)
        others = np.stack([size * np.cos(angle), size * np.sin(angle), height], axis=1)
        assert (np.linalg.norm(others - p, axis=1) >= np.linalg.norm(result - p) - SAME_ALGEBRA).all()
    inside, below = np.array([0.3, 0.4, 0.6]), np.array([0.3, 0.4, -0.6])
    assert (project_on_circular_cone(inside) == inside).all()
    assert (project_on_circular_cone(below) == 0).all()
    facets = np.eye(3)
    assert_close(project_on_polyhedral_cone(np.array([1.0, -2.0, 3.0]), facets), [1.0, 0.0, 3.0], SAME_ALGEBRA)


@pytest.mark.parametrize("arm", [ARM, TwoLinks(0.3, 0.5, 0.8, -0.6, 0.9), TwoLinks(2.0, 0.1, 0.5, 0.2, 0.9)])
def test_the_projection_keeps_the_sum_and_the_direction_of_the_centre(arm):
    try:
        result = project_two_links(arm)
    except InputError:
        arm = TwoLinks(arm.J1 + 1.0, arm.J2 + 1.0, 1.4 * arm.Rx, 1.4 * arm.Ry, arm.L)
        result = project_two_links(arm)
    assert not arm.is_possible
    assert result.is_possible
    assert_close(result.J1 + result.J2, arm.J1 + arm.J2, SAME_ALGEBRA)
    assert (result.J1 >= result.J2) == (arm.J1 >= arm.J2)
    assert_close(result.J1 * result.J2, 1.02 * result.L**2 * (result.Rx**2 + result.Ry**2), SAME_ALGEBRA)
    assert_negligible(result.Rx * arm.Ry - result.Ry * arm.Rx, arm.Rx**2 + arm.Ry**2, SAME_ALGEBRA)


def test_a_possible_arm_stays_and_an_impossible_sum_raises():
    good = TwoLinks(2.0, 1.0, 0.5, 0.2, 0.9)
    assert project_two_links(good) is good
    with raises(InputError, Code.NOT_FEASIBLE, "J1, J2"):
        project_two_links(TwoLinks(0.1, -0.3, 0.8, -0.6, 0.9))
