"""Use FIGAROH as a method of the comparison on recorded logs, if it is installed.

    pip install figaroh
    mindyn compare --logs DIR --method identify --method leaderboard/methods/figaroh.py

The method follows FIGAROH's workflow: its regressor with friction, actuator inertia and offset of every joint, its
elimination of columns, its base parameters by two QR decompositions on the training rows, and joints weighted by their
residuals. FIGAROH's filter (a median, then a zero-phase Butterworth filter) needs a cut-off from the user; here four
blocks of the training rows select it, as for the plain pipeline.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from scipy.signal import butter, filtfilt, medfilt

from mindyn import Robot, to_pinocchio

name = "figaroh"
CUTOFFS_HZ = 2.0, 5.0, 10.0, 20.0, 50.0
BLOCKS = 4
MOST_ROWS = 4000  # its regressor is a Python loop: decimate training rows to about this number


def fit(robot: Robot, logs):
    from figaroh.tools.qrdecomposition import QRDecomposer
    from figaroh.tools.regressor import build_regressor_basic, build_regressor_reduced, get_index_eliminate

    unit = np.eye(10)[0]  # the regressor does not depend on the masses
    model = to_pinocchio(replace(robot, links=tuple(replace(link, phi=unit) for link in robot.links)))
    wrapped = SimpleNamespace(model=model, data=model.createData())
    n = model.nv
    kinds = {"has_friction": True, "has_actuator_inertia": True, "has_joint_offset": True}
    step = max(1, sum(map(len, logs)) // MOST_ROWS)

    def regressor(log, cutoff_hz, every=1):
        """Return the regressor (n N, p), joint by joint, and the rows of the log that it uses."""
        rate = (len(log) - 1) / (log.time[-1] - log.time[0])
        taps = butter(4, min(cutoff_hz, 0.4 * rate) / (rate / 2))
        q = np.column_stack([filtfilt(*taps, medfilt(column, 5)) for column in log.q.T])
        qd = np.gradient(q, log.time, axis=0)
        qdd = np.gradient(qd, log.time, axis=0)
        rows = slice(None, None, every)
        config = kinds | {"act_idxv": list(range(n))}
        return build_regressor_basic(wrapped, q[rows], qd[rows], qdd[rows], config), rows

    def gather(cutoff_hz):
        """Return columns (n, N, p) and torques (n, N) of all training logs."""
        parts = [(*regressor(log, cutoff_hz, step), log) for log in logs]
        W = np.concatenate([W.reshape(n, -1, W.shape[1]) for W, _, _ in parts], axis=1)
        return W, np.concatenate([log.tau[rows].T for _, rows, log in parts], axis=1)

    def solve(W, tau):
        """Return the kept columns and their values."""
        stacked, names = W.reshape(-1, W.shape[2]), {f"p{k}": 0.0 for k in range(W.shape[2])}
        gone, left = get_index_eliminate(stacked, names)
        reduced = build_regressor_reduced(stacked, gone)
        decomposer = QRDecomposer()
        base, _, _, phi = decomposer.double_decomposition(tau.ravel(), reduced, left)
        deviations = np.sqrt(((tau.ravel() - base @ phi) ** 2).reshape(n, -1).mean(axis=1))
        weights = np.repeat(1 / np.maximum(deviations, 1e-12), tau.shape[1])
        kept = np.delete(np.arange(W.shape[2]), gone)[decomposer.get_base_indices()]
        return kept, np.linalg.lstsq(base * weights[:, None], tau.ravel() * weights, rcond=None)[0]

    def error(W, tau):
        total = 0.0
        for block in np.array_split(np.arange(tau.shape[1]), BLOCKS):
            rest = np.setdiff1d(np.arange(tau.shape[1]), block)
            kept, phi = solve(W[:, rest], tau[:, rest])
            total += float(((W[:, block][:, :, kept] @ phi - tau[:, block]) ** 2).sum())
        return total

    result = {cutoff: gather(cutoff) for cutoff in CUTOFFS_HZ}
    best = min(result, key=lambda cutoff: error(*result[cutoff]))
    kept, phi = solve(*result[best])
    return lambda log: (regressor(log, best)[0][:, kept] @ phi).reshape(n, -1).T
