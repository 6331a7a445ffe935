"""Two links projected in closed form: nearest points of cones, the minor of the matrix, and invariants."""

from __future__ import annotations

import numpy as np
from closeness import SAME_ALGEBRA, assert_close
from small_arms import TwoLinks, project_on_circular_cone

from mindyn.identification.feasibility.projections.yoshida_projection import project_on_polyhedral_cone

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
