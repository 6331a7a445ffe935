"""Angeles, Ma & Rojas 1988, example 1: the Stanford arm along a cycloidal motion, by Kane's equations.

Writes angeles_stanford.svg. The paper prints figures only; values at the ends that all readings of its damaged table
share: |f3(10)| = 29.9205 N, |tau4(10)| = 0.22938 N m, |tau5(0)| = 0.35316 N m.
"""

from pathlib import Path

import numpy as np

import mindyn

robot = mindyn.load_robot("stanford")
torque = mindyn.build_equation(robot, "inverse_dynamics", formulation="kane")

start = np.array([0, np.pi / 2, 0, 0, 0, 0])  # joint 3 is the paper's b3
A, B = np.array([np.pi / 30, -np.pi / 60, 0.01, np.pi / 30, np.pi / 30, np.pi / 30]), 2 * np.pi / 10
times = np.linspace(0, 10, 101)
tau = np.array(
    [
        np.array(torque(start + A * (t - np.sin(B * t) / B), A * (1 - np.cos(B * t)), A * B * np.sin(B * t))).ravel()
        for t in times
    ]
)

print(
    "  t [s]  " + "".join(f"{name:>11}" for name in ("tau1", "tau2", "f3", "tau4", "tau5", "tau6")) + "   [N m], f3 [N]"
)
for t, row in zip(times[::10], tau[::10], strict=True):
    print(f"{t:7.1f}  " + "".join(f"{value:11.5f}" for value in row))

newton_euler = mindyn.build_equation(robot, "inverse_dynamics", parameters="standard")
middle = 37
motion = (
    start + A * (times[middle] - np.sin(B * times[middle]) / B),
    *(A * (1 - np.cos(B * times[middle])), A * B * np.sin(B * times[middle])),
)
same = np.abs(np.array(newton_euler(*motion)).ravel() - tau[middle]).max()
print(f"largest difference from Newton-Euler at t = {times[middle]:.1f} s: {same:.1e}")


def panel(left, top, name, values):
    """Draw one curve in a frame of 240 x 120 pixels, scaled to its range."""
    low, high = values.min(), values.max()
    x = left + 240 * (times - times[0]) / (times[-1] - times[0])
    y = top + 120 - 120 * (values - low) / max(high - low, 1e-12)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f'<rect x="{left}" y="{top}" width="240" height="120" fill="none" stroke="#bbb"/>'
        f'<polyline points="{points}" fill="none" stroke="#06c" stroke-width="1.5"/>'
        f'<text x="{left}" y="{top - 6}">{name}: {low:.3g} .. {high:.3g}</text>'
    )


names = ("tau1 [N m]", "tau2 [N m]", "force 3 along b3 [N]", "tau4 [N m]", "tau5 [N m]", "tau6 [N m]")
panels = [panel(20 + 270 * (i % 3), 30 + 160 * (i // 3), name, tau[:, i]) for i, name in enumerate(names)]
style = 'xmlns="http://www.w3.org/2000/svg" width="830" height="330" font-family="sans-serif" font-size="12"'
Path("angeles_stanford.svg").write_text(f"<svg {style}>{''.join(panels)}</svg>\n")
print("wrote angeles_stanford.svg: six panels over 0 .. 10 s")
