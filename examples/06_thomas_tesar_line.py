"""Angeles, Ma & Rojas 1988, example 2: Thomas & Tesar's arm, the hand along x = 1.33 m, z = 1.80 m without turning.

Inverse kinematics is numerical. The paper leaves two questions open. It does not give the stroke of y = s(t); here it
is a rest-to-rest 5th-degree step of 0.5 m in 1 s. And theta_4 of table 3, 39.6 degrees, puts the hand at z = 1.24 m.
Writes thomas_tesar_line.svg.
"""

from pathlib import Path

import numpy as np

import mindyn

robot = mindyn.load_robot("thomas_tesar")
pose = mindyn.build_equation(robot, "forward_kinematics", link="link6")
jacobian = mindyn.build_equation(robot, "geometric_jacobian", link="link6")
printed, corrected = (np.radians([0, 68.5, -135, theta4, 90, 90]) for theta4 in (39.6, 93.4))
for name, q in (("39.6 (printed)", printed), ("93.4", corrected)):
    print(f"theta_4 = {name} deg puts the hand at", np.array(pose(q))[:3, 3].round(3), "m; wanted x = 1.33, z = 1.80")


def solve_pose(q, R, p):
    """Return q with rotation R and origin p of the last link, by Newton's method on the pose."""
    for _ in range(50):
        X = np.array(pose(q))
        turn = R @ X[:3, :3].T
        axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / 2
        error = np.concatenate([axis, p - X[:3, 3]])
        if np.abs(error).max() < 1e-12:
            return q
        q = q + np.linalg.solve(np.array(jacobian(q)), error)
    raise SystemExit("inverse kinematics did not converge")


torque = mindyn.build_equation(robot, "inverse_dynamics", formulation="kane")
R, q, tau, times = np.array(pose(corrected))[:3, :3], corrected, [], np.linspace(0, 1, 51)
for t in times:
    s, v, a = (0.5 * np.polyval(c, t) for c in ([6, -15, 10, 0, 0, 0], [30, -60, 30, 0, 0], [120, -180, 60, 0]))
    q = solve_pose(q, R, np.array([1.33, s, 1.80]))
    J = np.array(jacobian(q))
    qd = np.linalg.solve(J, [0, 0, 0, 0, v, 0])
    Jd = (np.array(jacobian(q + 1e-6 * qd)) - np.array(jacobian(q - 1e-6 * qd))) / 2e-6
    qdd = np.linalg.solve(J, np.array([0, 0, 0, 0, a, 0]) - Jd @ qd)
    tau.append(np.array(torque(q, qd, qdd)).ravel())
tau = np.array(tau)
print("  t [s]  " + "".join(f"{'tau' + str(i):>10}" for i in range(1, 7)) + "   [N m]")
for t, row in zip(times[::10], tau[::10], strict=True):
    print(f"{t:7.2f}  " + "".join(f"{value:10.2f}" for value in row))

colours = ("#06c", "#c30", "#393", "#939", "#f90", "#666")
y = 280 - 260 * (tau - tau.min()) / (tau.max() - tau.min())
curves = [" ".join(f"{40 + 500 * t:.1f},{v:.1f}" for t, v in zip(times, column, strict=True)) for column in y.T]
drawn = [f'<polyline points="{c}" fill="none" stroke="{k}"/>' for c, k in zip(curves, colours, strict=True)]
text = f'<text x="40" y="298">0 .. 1 s; {tau.min():.0f} .. {tau.max():.0f} N m; joints 1-6: {", ".join(colours)}</text>'
Path("thomas_tesar_line.svg").write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" width="580" height="310">{"".join(drawn)}{text}</svg>\n'
)
print("wrote thomas_tesar_line.svg")
