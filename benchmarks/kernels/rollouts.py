"""Rollouts compared with Pinocchio in Python and MuJoCo's `rollout`, in one run: 1000 motions of 1 s at 1 kHz,
Runge-Kutta 4.

    python -m benchmarks.kernels.rollouts [--robot ur10] [--threads 1 2] [--record]

Pinocchio is timed on fewer rollouts, one after the other, because each takes the same time.
"""

from __future__ import annotations

import os
from dataclasses import replace
from time import perf_counter

import mujoco
import mujoco.rollout
import numpy as np
import pinocchio as pin

import mindyn
from benchmarks.sections import Section, arguments, publish, ratio, spaced
from benchmarks.timing import measure_best_times, this_machine
from mindyn.motions.simulation.rollouts import compile_rollout
from mindyn.output.export.mjcf_writer import robot_to_mjcf
from mindyn.robots import Limits

ROLLOUTS, STEPS, DT = 1000, 1000, 1e-3
FEW = 4
TARGETS = {"Pinocchio aba in Python": 20, "mujoco.rollout": 3}


def remove_drives_and_limits(robot):
    """Return the chain without drives and limits, which all three simulate."""
    joints = tuple(replace(joint, limits=Limits()) for joint in robot.joints)
    return replace(robot, joints=joints, drives=())


def pinocchio_rollouts(robot, q0, qd0, tau):
    """Simulate the same steps with `pin.aba`, one rollout and one step at a time."""
    model = mindyn.to_pinocchio(robot)
    data, aba = model.createData(), pin.aba
    half, sixth = DT / 2, DT / 6
    values = np.empty((len(q0), STEPS, 2, robot.joint_count))
    for b in range(len(q0)):
        q, v = q0[b], qd0[b]
        for k in range(STEPS):
            u = tau[b, k]
            a1 = aba(model, data, q, v, u).copy()
            v2 = v + half * a1
            a2 = aba(model, data, q + half * v, v2, u).copy()
            v3 = v + half * a2
            a3 = aba(model, data, q + half * v2, v3, u).copy()
            v4 = v + DT * a3
            a4 = aba(model, data, q + DT * v3, v4, u)
            q = q + sixth * (v + 2 * (v2 + v3) + v4)
            v = v + sixth * (a1 + 2 * (a2 + a3) + a4)
            values[b, k] = q, v
    return values


class MujocoRollouts:
    """`mujoco.rollout` with torque actuators and everything that this robot does not need switched off."""

    def __init__(self, robot, threads):
        spec = mujoco.MjSpec.from_string(robot_to_mjcf(robot, force=True))
        for name in robot.joint_names:
            motor = spec.add_actuator(target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            motor.set_to_motor()
        self.model = spec.compile()
        self.model.opt.integrator, self.model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, DT
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_SENSOR
        self.data = [mujoco.MjData(self.model) for _ in range(threads)]
        self.pool = mujoco.rollout.Rollout(nthread=threads if threads > 1 else 0)

    def run(self, q0, qd0, tau):
        start = np.hstack([np.zeros((len(q0), 1)), q0, qd0])
        states, _ = self.pool.rollout([self.model], self.data, start, tau)
        return states


def measure(robot, threads):
    """Return the seconds of 1000 rollouts, ours and each peer's, and the largest difference of positions."""
    rng = np.random.default_rng(0)
    n = robot.joint_count
    q0, qd0 = rng.uniform(-1, 1, (2, ROLLOUTS, n))
    tau = rng.normal(size=(ROLLOUTS, STEPS, n)) * 0.1
    ours, theirs = compile_rollout(robot), MujocoRollouts(robot, threads)
    run = lambda: ours(q0, qd0, {"tau": tau}, dt=DT, steps=STEPS, threads=threads)  # noqa: E731
    seconds = measure_best_times({"ours": run, "mujoco": lambda: theirs.run(q0, qd0, tau)}, 3)
    begin = perf_counter()
    reference = pinocchio_rollouts(robot, q0[:FEW], qd0[:FEW], tau[:FEW])
    seconds["pin"] = (perf_counter() - begin) * ROLLOUTS / FEW
    result, states = run(), theirs.run(q0, qd0, tau)
    differences = {
        "pin": np.abs(result.q[:FEW, 1:] - reference[:, :, 0]).max(),
        "mujoco": np.abs(result.q[:, 1:] - states[:, :, 1 : n + 1]).max(),
    }
    return seconds, differences


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--robot", default="ur10")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, os.cpu_count() or 1}))
    options = parser.parse_args()
    robot = remove_drives_and_limits(mindyn.load_robot(options.robot))
    table = [("threads", "compared with", "mindyn", "other", "ratio", "required", "position difference")]
    for threads in options.threads:
        seconds, differences = measure(robot, threads)
        for key, label in (("pin", "Pinocchio aba in Python"), ("mujoco", "mujoco.rollout")):
            if key == "pin" and threads > 1:
                continue
            times = (f"{seconds['ours']:.3f} s", f"{seconds[key]:.2f} s")
            message = ratio(seconds[key] / seconds["ours"], TARGETS[label])
            difference = f"{differences[key]:.0e} rad"
            table.append((str(threads), label, *times, message, f">= {TARGETS[label]}x", difference))
    publish(
        Section(
            "rollouts",
            "Rollouts",
            "python -m benchmarks.kernels.rollouts",
            this_machine("pin", "mujoco"),
            [
                f"{spaced(ROLLOUTS)} rollouts of {spaced(STEPS)} steps of {DT:g} s of the {robot.name}, classical "
                "Runge-Kutta everywhere; Pinocchio's `aba` is called step by step from Python."
            ],
            table,
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
