"""Ridge regression on Pinocchio's regressor: an example of a method file."""

from dataclasses import replace

import numpy as np
from scipy.signal import butter, sosfiltfilt

from mindyn import to_pinocchio

name = "ridge"
CUTOFF_HZ, WIDTH = 10.0, 0.02
PENALTIES = 10.0 ** np.arange(-10, 0)


def fit(robot, logs):
    import pinocchio

    unit = np.eye(10)[0]  # the regressor does not depend on the masses
    model = to_pinocchio(replace(robot, links=tuple(replace(link, phi=unit) for link in robot.links)))
    data = model.createData()

    def columns(log):
        """Return (n, N, p): standard parameters, viscous and Coulomb friction, offset and rotor inertia."""
        rate = (len(log) - 1) / (log.time[-1] - log.time[0])
        sections = butter(4, min(CUTOFF_HZ, 0.4 * rate), fs=rate, output="sos")
        q = sosfiltfilt(sections, log.q, axis=0)
        qd = np.gradient(q, log.time, axis=0)
        qdd = np.gradient(qd, log.time, axis=0)
        rows = zip(q, qd, qdd, strict=True)
        links = np.array([pinocchio.computeJointTorqueRegressor(model, data, *row).copy() for row in rows])
        drives = [shape[:, :, None] * np.eye(q.shape[1]) for shape in (qd, np.tanh(qd / WIDTH), np.ones_like(qd), qdd)]
        return np.concatenate([links, *drives], axis=2).transpose(1, 0, 2)

    X = np.concatenate([columns(log) for log in logs], axis=1)
    tau = np.concatenate([log.tau for log in logs]).T
    size = tau.std(axis=1, keepdims=True)  # joints count alike
    X, tau = X / size[:, :, None], tau / size
    scale = np.maximum(np.sqrt((X**2).sum(axis=(0, 1))), 1e-12)

    def solve(rows, penalty):
        A = (X[:, rows] / scale).reshape(-1, len(scale))
        return np.linalg.solve(A.T @ A + penalty * np.eye(len(scale)), A.T @ tau[:, rows].ravel()) / scale

    even, odd = np.array_split(np.arange(tau.shape[1]), 2)
    best = min(PENALTIES, key=lambda penalty: np.square(X[:, odd] @ solve(even, penalty) - tau[:, odd]).sum())
    beta = solve(np.arange(tau.shape[1]), best)
    return lambda log: (columns(log) @ beta).T
