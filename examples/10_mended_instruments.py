"""Slow motion of a PUMA 560: least squares finds an impossible arm; mended, it serves instrumental variables.

Encoder noise hides slow accelerations. Least squares shrinks the inertias until the inertia matrix is indefinite, and
such a model expects no accelerations. The nearest possible model does [Yoshida 1996, chapters 3 and 4].
"""

import numpy as np

import mindyn
from mindyn.feasibility import check_positive_definite, project_to_positive_definite
from mindyn.papers import yoshida_puma

robot = yoshida_puma("table3")
rate, rows = 200.0, 4000
G = robot.gear_matrix


def recording(seed: int) -> mindyn.Samples:
    """Twelve slow sines for each joint; encoders of 1000 counts a motor turn; central differences."""
    rng = np.random.default_rng(seed)
    size = np.array([1.1, 1.0, 2.0, 7.0, 7.5, 8.0])  # rad/s^2
    w = np.sqrt(size / 0.8) * rng.uniform(0.3, 1.3, (12, 6))
    a = rng.uniform(0.5, 1.0, w.shape)
    a *= size / np.sqrt((a**2 * w**4).sum(axis=0) / 2)
    angle = np.arange(-1, rows + 1)[:, None, None] / rate * w + rng.uniform(0, 2 * np.pi, w.shape)
    q, qd, qdd = (a * np.sin(angle)).sum(1), (a * w * np.cos(angle)).sum(1), -(a * w**2 * np.sin(angle)).sum(1)
    tau = mindyn.compile_model(robot, drives=True).inverse_dynamics(q, qd, qdd)
    motors = q @ G.T + 2 * np.pi / 1000 * rng.uniform(-0.5, 0.5, q.shape)
    p = motors @ np.linalg.inv(G).T
    speed, acceleration = (p[2:] - p[:-2]) * rate / 2, (p[2:] - 2 * p[1:-1] + p[:-2]) * rate**2
    segments = np.zeros(rows, dtype=np.int64)
    return mindyn.Samples(robot.joint_names, p[1:-1], speed, acceleration, tau[1:-1], rate, segments)


samples = recording(0)
rows = mindyn.build_rows(robot, samples)
plain = mindyn.LeastSquares(weights="ordinary").fit(rows)
print(check_positive_definite(plain).sentence, end="\n\n")

mended = project_to_positive_definite(plain)
print(mended.status, end="\n\n")

found = mindyn.InstrumentalVariables(mended, weights="ordinary").fit(rows)
print(found.status, end="\n\n")

true = dict(zip(found.base.names, found.base.values, strict=True))
print("kg m^2      true  least squares    mended  instrumental variables")
for name in ("Izz1R", "Izz2R", "Izz3R"):
    print(f"{name:6} {true[name]:9.3f} {plain.value(name):14.3f} {mended.value(name):9.3f} {found.value(name):23.3f}")
