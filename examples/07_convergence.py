"""Online identification of a PUMA 560 by least squares and by instruments, as an SVG [Yoshida 1996, figure 3.6.1].

The accelerations are noisy, as after two differences of an encoder: least squares underestimates inertias, and
instrumental variables do not.
"""

from pathlib import Path

import numpy as np

import mindyn
from mindyn.identification import RecursiveInstruments

robot = mindyn.load_robot("puma560")
model = mindyn.compile_model(robot, with_drives=True)
rng = np.random.default_rng(0)

rows, rate, first = 20_000, 200.0, 2000
t = np.arange(rows)[:, None] / rate
w, phase = rng.uniform(0.5, 4.0, (4, 6)), rng.uniform(0, 6.3, (4, 6))
q = sum(0.3 * np.sin(a * t + b) for a, b in zip(w, phase, strict=True))
qd = sum(0.3 * a * np.cos(a * t + b) for a, b in zip(w, phase, strict=True))
qdd = sum(-0.3 * a**2 * np.sin(a * t + b) for a, b in zip(w, phase, strict=True))
tau = model.inverse_dynamics(q, qd, qdd)
measured = qdd + rng.normal(scale=1.0, size=qdd.shape)

batch = mindyn.Samples(
    robot.joint_names, q[:first], qd[:first], measured[:first], tau[:first], rate, np.zeros(first, int)
)
settings = mindyn.EquationSettings(drive_parameters="stated")
start = mindyn.make_feasible(mindyn.LeastSquares().fit(mindyn.build_rows(robot, batch, settings)))
largest = np.abs(measured[:first]).max(axis=0)
methods = {
    "least squares": mindyn.RecursiveLeastSquares(robot),
    "instruments": RecursiveInstruments(start, largest_acceleration=largest),
}
shown = ("Izz1R", "Izz2R")
truth = dict(zip(model.base.names, model.base.values, strict=True))
counts = []
curves = {(method, name): [] for method in methods for name in shown}
for k in range(rows):
    for online in methods.values():
        online.update(q[k], qd[k], measured[k], tau[k])
    if k >= first and k % 250 == 0:
        counts.append(k)
        for method, online in methods.items():
            values = dict(zip(model.base.names, online.beta, strict=False))
            for name in shown:
                curves[method, name].append(values[name] / truth[name])

for (method, name), values in curves.items():
    print(f"{name} by {method}: {values[0]:.3f} of its value after {counts[0]} samples, {values[-1]:.3f} at the end")


def line(values: list[float], colour: str, dash: str) -> str:
    points = " ".join(
        f"{40 + 560 * k / rows:.1f},{170 - 120 * np.clip(v - 1, -1, 1):.1f}"
        for k, v in zip(counts, values, strict=True)
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>'


colours, dashes = {"Izz1R": "#2563eb", "Izz2R": "#dc2626"}, {"least squares": "4 3", "instruments": "none"}
svg = [
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 340" font-family="sans-serif" font-size="12">',
    '<rect width="640" height="340" fill="white"/><line x1="40" y1="170" x2="600" y2="170" stroke="#94a3b8"/>',
    *(line(values, colours[name], dashes[method]) for (method, name), values in curves.items()),
    '<text x="40" y="20">estimate over true value, +-1, of Izz1R (blue) and Izz2R (red), against samples</text>',
    '<text x="40" y="38">dashed: least squares; solid: instrumental variables</text>',
    f'<text x="600" y="330" text-anchor="end">{rows} samples</text></svg>',
]
Path("convergence.svg").write_text("\n".join(svg))
print("wrote convergence.svg")
