"""Swing a two-link arm up by iLQR, with exact linear models from the kernels.

One call of `derivatives` of forward dynamics linearises x' = f(x, u) along the whole trajectory. The derivatives are
exact: no finite differences, no step size.
"""

import numpy as np

import mindyn

STEP, STEPS = 0.02, 100
robot = mindyn.load_robot("planar2")
model = mindyn.compile_model(robot)
slopes = model.derivatives("forward_dynamics")
n = robot.joint_count
goal = np.array([np.pi / 2, 0.0, 0.0, 0.0])  # upright, at rest; it hangs at -pi/2
at_end = np.diag([1e4, 1e4, 1e3, 1e3])
on_the_way, effort = STEP * np.diag([1.0, 1.0, 0.1, 0.1]), STEP * 1e-6 * np.eye(n)


def step(x, u):
    """Return the next state by a semi-implicit Euler step."""
    qd = x[n:] + STEP * model.forward_dynamics(x[:n], x[n:], u)
    return np.concatenate([x[:n] + STEP * qd, qd])


def linearise(xs, us):
    """Return A = df/dx (T, 4, 4) and B = df/du (T, 4, 2) along a trajectory."""
    by_q, by_qd, by_tau = slopes(xs[:, :n], xs[:, n:], us)
    eye = np.broadcast_to(np.eye(n), by_q.shape)
    speed = np.concatenate([STEP * by_q, eye + STEP * by_qd], axis=2)
    place = np.concatenate([eye, 0 * eye], axis=2) + STEP * speed
    return np.concatenate([place, speed], axis=1), np.concatenate([STEP**2 * by_tau, STEP * by_tau], axis=1)


def roll_out(x0, us, xs=None, gains=None, share=1.0):
    """Return the trajectory under torques, optionally with feedback around an earlier trajectory, and its cost."""
    states, torques, cost = [x0], [], 0.0
    for k, u in enumerate(us):
        if gains is not None:
            feed, K = gains[k]
            u = u + share * feed + K @ (states[-1] - xs[k])
        e = states[-1] - goal
        cost += 0.5 * (e @ on_the_way @ e + u @ effort @ u)
        torques.append(u)
        states.append(step(states[-1], u))
    e = states[-1] - goal
    return np.array(states), np.array(torques), cost + 0.5 * e @ at_end @ e


def gains_of(xs, us, damping):
    """Return feed-forward and feedback of every step, computed backwards."""
    A, B = linearise(xs[:-1], us)
    V, v, result = at_end, at_end @ (xs[-1] - goal), []
    for k in reversed(range(len(us))):
        Qx, Qu = on_the_way @ (xs[k] - goal) + A[k].T @ v, effort @ us[k] + B[k].T @ v
        Qxx, Qux = on_the_way + A[k].T @ V @ A[k], B[k].T @ V @ A[k]
        Quu = effort + B[k].T @ V @ B[k] + damping * np.eye(n)
        feed, K = -np.linalg.solve(Quu, Qu), -np.linalg.solve(Quu, Qux)
        V, v = Qxx + Qux.T @ K, Qx + Qux.T @ feed
        V = (V + V.T) / 2
        result.append((feed, K))
    return result[::-1]


x0 = np.array([-np.pi / 2, 0.0, 0.0, 0.0])
xs, us, cost = roll_out(x0, np.tile(model.gravity(x0[:n]), (STEPS, 1)))
damping = 1e-3
for iteration in range(1, 61):  # noqa: B007
    gains = gains_of(xs, us, damping)
    better = next((r for s in 0.5 ** np.arange(8) if (r := roll_out(x0, us, xs, gains, s))[2] < cost), None)
    if better is None:
        damping *= 10
        continue
    settled = cost - better[2] < 1e-6 * cost
    xs, us, cost = better
    if settled:
        break
print(f"cost {cost:.4g} after {iteration} iterations; the arm ends {np.abs(xs[-1] - goal).max():.1e} from upright")
print(f"largest torque {np.abs(us).max():.0f} N m, holding level takes {np.abs(model.gravity(np.zeros(n))).max():.0f}")
