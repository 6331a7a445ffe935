"""Descents find the lowest eigenvalue of an inertia matrix, also at limits of joints.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from closeness import assert_close

from mindyn.identification.feasibility.checks.positive_definite import _descend, find_lowest


class Valley:
    """M(q) = 2 + sin(q1) + (q2 - 0.3)^2 on the diagonal's first entry, 5 on the second."""

    joints = (SimpleNamespace(kind="revolute", name="a"), SimpleNamespace(kind="prismatic", name="b"))

    def matrices(self, q, _beta):
        q = np.asarray(q)
        M = np.zeros((*q.shape[:-1], 2, 2))
        M[..., 0, 0] = 2 + np.sin(q[..., 0]) + (q[..., 1] - 0.3) ** 2
        M[..., 1, 1] = 5.0
        return M

    def gradients(self, q, _beta, u):
        first = np.column_stack([np.cos(q[:, 0]), 2 * (q[:, 1] - 0.3)])
        return first * (u[:, :1] ** 2)


TURN = np.array([[-np.pi, np.pi], [-1.0, 1.0]])


def test_descents_end_in_the_valley():
    q = np.random.default_rng(0).uniform(TURN[:, 0], TURN[:, 1], (50, 2))
    family = Valley()
    end = _descend(family, None, TURN, np.array([-1.0, 0.9]))
    assert_close(end, [-np.pi / 2, 0.3], 1e-5)
    walled = np.array([[-0.5, 1.0], [0.5, 1.0]])
    assert_close(_descend(family, None, walled, np.array([0.2, 0.8])), [-0.5, 0.5], 1e-6)
    still = np.array([[0.2, 0.2], [0.8, 0.8]])
    assert _descend(family, None, still, np.array([0.2, 0.8])).tolist() == [0.2, 0.8]
    least = family.matrices(q, None)[:, 0, 0]
    for count in (50, 2):
        lowest, value, u = find_lowest(family, None, TURN, q[:count], least[:count])
        assert_close(value, 1.0, 1e-9)
        assert_close([np.sin(lowest[0]), lowest[1]], [-1.0, 0.3], 1e-5)
        assert_close(np.abs(u), [1.0, 0.0], 1e-6)
