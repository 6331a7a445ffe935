"""Online identification of a PUMA 560: how two parameters converge with the number of samples, as an SVG."""

from pathlib import Path

import numpy as np

import mindyn

robot = mindyn.load_robot("puma560")
model = mindyn.compile_model(robot, drives=True)
rng = np.random.default_rng(0)

rows, rate = 20_000, 200.0
t = np.arange(rows)[:, None] / rate
w, phase = rng.uniform(0.5, 4.0, (4, 6)), rng.uniform(0, 6.3, (4, 6))
q = sum(0.3 * np.sin(a * t + b) for a, b in zip(w, phase, strict=True))
qd = sum(0.3 * a * np.cos(a * t + b) for a, b in zip(w, phase, strict=True))
qdd = sum(-0.3 * a**2 * np.sin(a * t + b) for a, b in zip(w, phase, strict=True))
tau = model.inverse_dynamics(q, qd, qdd) + rng.normal(scale=[2.0, 2.0, 1.0, 0.5, 0.5, 0.5], size=(rows, 6))

online = mindyn.RecursiveLeastSquares(robot)
shown = ("Izz1R", "Izz3R")
truth = dict(zip(model.base.names, model.base.values, strict=True))
counts, curves = [], {name: [] for name in shown}
for k in range(rows):
    online.update(q[k], qd[k], qdd[k], tau[k])
    if k >= 500 and k % 250 == 0:
        result = online.estimate()
        counts.append(k)
        for name in shown:
            curves[name].append(result.value(name) / truth[name])

for name in shown:
    first, last = curves[name][0], curves[name][-1]
    print(f"{name}: {first:.3f} of its value after {counts[0]} samples, {last:.3f} after {counts[-1]}")


def line(values: list[float], colour: str) -> str:
    points = " ".join(
        f"{40 + 560 * k / rows:.1f},{170 - 120 * np.clip(v - 1, -1, 1):.1f}"
        for k, v in zip(counts, values, strict=True)
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


svg = [
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 340" font-family="sans-serif" font-size="12">',
    '<rect width="640" height="340" fill="white"/><line x1="40" y1="170" x2="600" y2="170" stroke="#94a3b8"/>',
    line(curves["Izz1R"], "#2563eb"),
    line(curves["Izz3R"], "#dc2626"),
    '<text x="40" y="20">estimate over true value, +-1, of Izz1R (blue) and Izz3R (red), against samples</text>',
    f'<text x="600" y="330" text-anchor="end">{rows} samples</text></svg>',
]
Path("convergence.svg").write_text("\n".join(svg))
print("wrote convergence.svg")
