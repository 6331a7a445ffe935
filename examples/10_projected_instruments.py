"""Project an infeasible least-squares estimate of a PUMA 560 and use it for instrumental variables.

The motion is slow, and encoder noise hides its accelerations. Least squares underestimates the inertias until the
inertia matrix is indefinite, and such a model cannot predict accelerations. The nearest physically consistent model
can [Yoshida 1996, chapters 3 and 4].
"""

import numpy as np

import mindyn
from mindyn.identification import check_positive_definite
from mindyn.papers import yoshida_puma

robot = yoshida_puma("table3")
rate, rows = 200.0, 4000
G = robot.gear_matrix


def record(seed: int) -> mindyn.Samples:
    """Return samples of twelve slow sines per joint: encoders of 1000 counts per motor turn, central differences."""
    rng = np.random.default_rng(seed)
    size = np.array([1.1, 1.0, 2.0, 7.0, 7.5, 8.0])  # rad/s^2
    w = np.sqrt(size / 0.8) * rng.uniform(0.3, 1.3, (12, 6))
    a = rng.uniform(0.5, 1.0, w.shape)
    a *= size / np.sqrt((a**2 * w**4).sum(axis=0) / 2)
    angle = np.arange(-1, rows + 1)[:, None, None] / rate * w + rng.uniform(0, 2 * np.pi, w.shape)
    q, qd, qdd = (a * np.sin(angle)).sum(1), (a * w * np.cos(angle)).sum(1), -(a * w**2 * np.sin(angle)).sum(1)
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    motors = q @ G.T + 2 * np.pi / 1000 * rng.uniform(-0.5, 0.5, q.shape)
    p = motors @ np.linalg.inv(G).T
    speed, acceleration = (p[2:] - p[:-2]) * rate / 2, (p[2:] - 2 * p[1:-1] + p[:-2]) * rate**2
    segments = np.zeros(rows, dtype=np.int64)
    return mindyn.Samples(robot.joint_names, p[1:-1], speed, acceleration, tau[1:-1], rate, segments)


samples = record(0)
rows = mindyn.build_rows(robot, samples)
plain = mindyn.LeastSquares(weights="ordinary").fit(rows)
print(check_positive_definite(plain).sentence, end="\n\n")

projected = mindyn.make_feasible(plain)
print(projected.status, end="\n\n")

estimate = mindyn.InstrumentalVariables(projected, weights="ordinary").fit(rows)
print(estimate.status, end="\n\n")

true = dict(zip(estimate.base.names, estimate.base.values, strict=True))
print("kg m^2      true  least squares  projected  instrumental variables")
for name in ("Izz1R", "Izz2R", "Izz3R"):
    print(
        f"{name:6} {true[name]:9.3f} {plain.value(name):14.3f} {projected.value(name):10.3f} "
        f"{estimate.value(name):23.3f}"
    )
