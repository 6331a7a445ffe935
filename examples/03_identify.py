"""Identify a PUMA 560 from a noisy log: print true value, estimate and deviation, then the error on held-out rows."""

from dataclasses import replace

import numpy as np

import mindyn
from mindyn.regression import with_estimated_drives

robot = with_estimated_drives(mindyn.load_robot("puma560"))
robot = replace(robot, drives=tuple(replace(drive, viscous=2.0) for drive in robot.drives))
model = mindyn.compile_model(robot, with_drives=True)


def recording(seed: int, rows: int = 4000, rate: float = 200.0):
    """Return a log with five sines for each joint, encoder steps of 2e-5 rad and torque noise of 0.1 N m."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows) / rate
    w = 2 * np.pi * rng.uniform(0.1, 0.8, (5, 6))
    a, angle = rng.uniform(0.1, 0.3, (5, 6)), t[:, None, None] * w + rng.uniform(0, 2 * np.pi, (5, 6))
    q, qd, qdd = (a * np.sin(angle)).sum(1), (a * w * np.cos(angle)).sum(1), -(a * w**2 * np.sin(angle)).sum(1)
    tau = model.inverse_dynamics(q, qd, qdd) + 0.1 * rng.standard_normal((rows, 6))
    return mindyn.log_from_arrays(robot.joint_names, t, np.round(q / 2e-5) * 2e-5, tau)


estimate = mindyn.identify(robot, recording(1), progress=print)
print(estimate.status)

truth = dict(zip(estimate.base.names, estimate.base.values, strict=True))
print("\nparameter   true      found     deviation")
for name in ("Izz1R", "mcx2R", "mcy2", "Izz2R", "mcy3R", "fv1", "fc1", "fv2", "fc2"):
    deviation = estimate.deviations[estimate.names.index(name)]
    print(f"{name:8} {truth[name]:9.4f} {estimate.value(name):9.4f} {deviation:9.4f}")

print()
print(mindyn.validate(estimate, recording(2)))
