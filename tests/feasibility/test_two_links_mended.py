"""Two links mended in closed form: nearest points of cones, the minor of the inertia matrix, what is kept."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close, assert_negligible

from mindyn.errors import InputError
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


def test_the_nearest_point_of_a_circular_cone_is_on_it_and_no_other_is_nearer():
    rng = np.random.default_rng(0)
    for p in rng.normal(size=(40, 3)):
        found = project_on_circular_cone(p)
        assert found[2] >= np.hypot(found[0], found[1]) - SAME_ALGEBRA
        angle, height = rng.uniform(0, 2 * np.pi, 400), rng.uniform(0, 3, 400)
        size = height * rng.uniform(0, 1, 400)
        others = np.stack([size * np.cos(angle), size * np.sin(angle), height], axis=1)
        assert (np.linalg.norm(others - p, axis=1) >= np.linalg.norm(found - p) - SAME_ALGEBRA).all()
    inside, below = np.array([0.3, 0.4, 0.6]), np.array([0.3, 0.4, -0.6])
    assert (project_on_circular_cone(inside) == inside).all()
    assert (project_on_circular_cone(below) == 0).all()
    facets = np.eye(3)
    assert_close(project_on_polyhedral_cone(np.array([1.0, -2.0, 3.0]), facets), [1.0, 0.0, 3.0], SAME_ALGEBRA)


@pytest.mark.parametrize("arm", [ARM, TwoLinks(0.3, 0.5, 0.8, -0.6, 0.9), TwoLinks(2.0, 0.1, 0.5, 0.2, 0.9)])
def test_what_is_mended_keeps_its_sum_and_the_way_of_its_centre(arm):
    try:
        found = project_two_links(arm)
    except InputError:
        arm = TwoLinks(arm.J1 + 1.0, arm.J2 + 1.0, 1.4 * arm.Rx, 1.4 * arm.Ry, arm.L)
        found = project_two_links(arm)
    assert not arm.is_possible
    assert found.is_possible
    assert_close(found.J1 + found.J2, arm.J1 + arm.J2, SAME_ALGEBRA)
    assert (found.J1 >= found.J2) == (arm.J1 >= arm.J2)
    assert_close(found.J1 * found.J2, 1.02 * found.L**2 * (found.Rx**2 + found.Ry**2), SAME_ALGEBRA)
    assert_negligible(found.Rx * arm.Ry - found.Ry * arm.Rx, arm.Rx**2 + arm.Ry**2, SAME_ALGEBRA)


def test_a_possible_arm_stays_and_an_impossible_sum_is_refused():
    good = TwoLinks(2.0, 1.0, 0.5, 0.2, 0.9)
    assert project_two_links(good) is good
    with pytest.raises(InputError, match="have the sum"):
        project_two_links(TwoLinks(0.1, -0.3, 0.8, -0.6, 0.9))
