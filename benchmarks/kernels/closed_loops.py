"""Compare inverse dynamics of the five-bar with rnea on the tree and a dense projection, in C++.

python -m benchmarks.kernels.closed_loops
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import replace

import numpy as np

import mindyn
from benchmarks.kernels.native_peer import LIBRARIES, Pointer, library, numbers_of
from mindyn.equations.loop_closure import home_closure
from mindyn.robots.robot import Robot

ROWS = 20_000
REPEATED = 7

LIBRARIES["loop"] = LIBRARIES["peer"]


def draw_motion(robot: Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return closed positions (ROWS, n) and rates of the primary joints."""
    closure, rng = home_closure(robot), np.random.default_rng(0)
    p = closure.home[list(closure.primary)] + rng.uniform(-0.3, 0.3, (200, len(closure.primary)))
    q = np.tile(closure.positions(p), (ROWS // 200, 1))
    return q, *rng.uniform(-2, 2, (2, ROWS, p.shape[1]))


def measure_least_time(run) -> float:
    """Return the processor time of the fastest of several runs."""
    times = []
    for _ in range(REPEATED):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def build_peer(robot: Robot):
    """Return the peer's function of a motion, or None."""
    built = library("loop")
    if built is None:
        return None
    code, loop = ctypes.CDLL(str(built)), robot.loops[0]
    ends = []
    for link, pose in ((loop.first, loop.first_pose), (loop.second, loop.second_pose)):
        index = robot.link_index(link)
        ends += [index + 1.0, *(robot.joints[index].tip @ pose).translation]
    chosen = np.array([float(name in robot.primary_names) for name in robot.joint_names])
    code.loop_make.restype = ctypes.c_void_p
    code.loop_make.argtypes = [ctypes.c_int, *[Pointer] * 4]
    tree = replace(robot, loops=(), home=None)
    handle = code.loop_make(len(robot.joints), *numbers_of(tree), np.array(ends), chosen)
    code.loop_torques.argtypes = [ctypes.c_void_p, *[Pointer] * 4, ctypes.c_long]
    return lambda q, pd, pdd, out: code.loop_torques(handle, q, pd, pdd, out, len(q))


def main() -> None:
    """Print the nanoseconds per sample and their ratio."""
    robot = mindyn.load_robot("five_bar")
    q, pd, pdd = draw_motion(robot)
    kernel, out = mindyn.compile_model(robot).kernel("inverse_dynamics"), np.empty_like(pd)
    tau = kernel(q, pd, pdd)
    ours = measure_least_time(lambda: kernel(q, pd, pdd)) / ROWS * 1e9
    print(f"five_bar inverse dynamics, closure polished and checked: {ours:.1f} ns a sample")
    peer = build_peer(robot)
    if peer is not None:
        peer(q, pd, pdd, out)
        assert np.abs(out - tau).max() < 1e-9 * np.abs(tau).max(), "the two disagree"
        theirs = measure_least_time(lambda: peer(q, pd, pdd, out)) / ROWS * 1e9
        print(f"Pinocchio, rnea on the tree and a dense projection in C++: {theirs:.1f} ns a sample")
        print(f"ratio {theirs / ours:.1f}")


if __name__ == "__main__":
    main()
