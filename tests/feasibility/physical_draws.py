"""Draw physical parameters without the code under test: point masses and unit drives span the physical set."""

from __future__ import annotations

import numpy as np

from mindyn.foundation.algebra.inertia import phi_about_origin


def least_over_point_masses(matrix, y, links, count=4000, seed=0):
    """The least y.K phi over point masses, each link alone, per kg (1 + distance^2)."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((count, 3))
    points = directions * 10.0 ** rng.uniform(-3, 3, (count, 1))
    least = np.inf
    for i in range(links):
        asked = y @ matrix[:, 10 * i : 10 * (i + 1)]
        phis = np.array([phi_about_origin(1.0, p, np.zeros((3, 3))) for p in points])
        least = min(least, float((phis @ asked / (1 + (points**2).sum(axis=1))).min()))
    return least


def energy_functional(model, base_count, q, v):
    """a (p,) with a.beta = v^T M(q) v: positive for every physical beta, by the kernel of the torques alone."""
    still = np.zeros_like(q)
    rows = model.regressor(q, still, v) - model.regressor(q, still, still)
    assert rows.shape == (len(q), base_count)
    return v @ rows
