"""The row space of the torque regressor, sampled: the oracle of base parameters."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from oracles.pinocchio_oracle import body_parameter_map, pinocchio_model

from mindyn.robots.drive_matrices import friction_matrix, gear_matrix


def sample_rows(robot, seed: int, samples: int = 60, rotors: bool = False) -> np.ndarray:
    """Stacked torque regressors of Pinocchio at random states, in the source's link frames.

    rotors  with columns of rotor inertia and torque offset
    """
    model = pinocchio_model(robot)
    data = model.createData()
    rng = np.random.default_rng(seed)
    n = robot.joint_count
    maps = [body_parameter_map(joint.tip) for joint in robot.joints]
    G, F = gear_matrix(robot), friction_matrix(robot)
    blocks = []
    for _ in range(samples):
        q, qd, qdd = rng.uniform(-3, 3, (3, n))
        Y = np.reshape(pin.computeJointTorqueRegressor(model, data, q, qd, qdd), (n, -1))
        Y = np.hstack([Y[:, 10 * i : 10 * i + 10] @ T for i, T in enumerate(maps)])
        if rotors:
            Y = np.hstack([Y, G.T * (G @ qdd), F.T])
        blocks.append(Y)
    return np.vstack(blocks)


def row_space(rows: np.ndarray, rtol: float = 1e-10) -> tuple[np.ndarray, float]:
    """Orthonormal basis (rank, p), and the gap: first dropped over last kept singular value."""
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    rank = int((s > rtol * s[0]).sum())
    gap = s[rank] / s[rank - 1] if rank < len(s) else 0.0
    return Vt[:rank], float(gap)


def assert_spans_row_space(matrix: np.ndarray, rows: np.ndarray) -> None:
    """Count equals the rank, and every row of K lies in the row space."""
    basis, gap = row_space(rows)
    assert gap < 1e-4, f"the oracle's own rank is unclear: gap {gap:.1e}"
    assert len(matrix) == len(basis), f"{len(matrix)} parameters, rank {len(basis)}"
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    residual = np.abs(unit - unit @ basis.T @ basis).max()
    assert residual < 1e-7, f"row outside the row space by {residual:.1e}"
    assert np.linalg.matrix_rank(unit) == len(basis)
