"""Identify a geared PUMA 560 with four methods from one noisy recording; compare torque errors and simulated motions.

Positions come from encoders of 1000 counts per turn at 200 Hz and are differentiated twice, as in Yoshida's chapter 3.
The drawing follows figures 3.6.2-3.6.4: the measured motion, and the motion of each model under the measured torque.
"""

from pathlib import Path

import numpy as np

import mindyn
from mindyn.comparison import BenchSetting
from mindyn.estimators import ClosedLoopInstruments
from mindyn.validation import compare_trajectories

robot = mindyn.load_robot("puma560_yoshida")
bench = BenchSetting(seconds=10.0, torque_noise=0.01).bench(robot)
recording = bench.trial(0).samples
loop = {"control_rate_hz": bench.setting.control_rate_hz, "initial": "reference"}

methods = {
    "least squares": mindyn.LeastSquares(),
    "momentum difference": mindyn.EnergyDifference("momentum"),
    "closed-loop instruments": ClosedLoopInstruments(bench.controller, **loop),
    "output error": mindyn.OutputError(bench.controller, **loop),
}
clean = bench.clean
size = np.sqrt((clean.tau**2).mean(axis=0))
motions = {}
print("torque error on another, clean motion, % of each joint's torque; position error of the simulated motion, mrad")
rows = mindyn.build_rows(robot, recording)
for name, method in methods.items():
    found = method.fit(rows)
    wrong = np.sqrt(((found.predict(clean) - clean.tau) ** 2).mean(axis=0)) / size
    motions[name] = compare_trajectories(found, recording)
    astray = 1e3 * motions[name].rms
    print(f"{name:24} {' '.join(f'{100 * w:6.2f}' for w in wrong)}  |  {' '.join(f'{a:6.2f}' for a in astray)}")

COLOURS = dict(zip(methods, ("#dc2626", "#7c3aed", "#059669", "#2563eb"), strict=True))


def polyline(t, values, low, high, top, colour, width=1.0):
    """One curve in a strip 90 high that begins at `top`."""
    points = zip(40 + 560 * t / t[-1], top + 90 * (high - values) / (high - low), strict=True)
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in list(points)[::4])
    return f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


height = 40 + 110 * robot.joint_count
svg = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" font-family="sans-serif" font-size="11">',
    f'<rect width="640" height="{height}" fill="white"/><text x="40" y="14">difference of simulated and measured '
    "position, mrad, under the measured torque</text>",
]
for k, colour in enumerate(COLOURS.values()):
    svg.append(f'<text x="{40 + 150 * k}" y="28" fill="{colour}">{list(COLOURS)[k]}</text>')
for joint, joint_name in enumerate(robot.joint_names):
    top = 36 + 110 * joint
    errors = {name: 1e3 * (m.simulated - m.measured)[:, joint] for name, m in motions.items()}
    reach = max(np.abs(e).max() for e in errors.values())
    svg.append(f'<text x="4" y="{top + 48}">{joint_name[-1]}</text><text x="604" y="{top + 8}">{reach:.1f}</text>')
    svg.append(f'<line x1="40" y1="{top + 45}" x2="600" y2="{top + 45}" stroke="#cbd5e1"/>')
    svg += [polyline(motions[n].t, e, -reach, reach, top, COLOURS[n]) for n, e in errors.items()]
Path("methods.svg").write_text("\n".join([*svg, "</svg>"]))
print("wrote methods.svg")
