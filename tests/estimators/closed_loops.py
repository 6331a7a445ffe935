"""Arms that follow sines under a controller, and the samples of their motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from robots import random_robot, with_random_drives

from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import log_from_arrays
from mindyn.logs.pipeline import condition
from mindyn.motions.simulation.controllers import ComputedTorque, SineMotion
from mindyn.motions.simulation.sensors import Sensors, measure
from mindyn.motions.simulation.simulate import simulate

CONTROL_HZ = 500.0
GRAVITY = (0.0, 0.0, -9.81)


def driven_arm(seed, joints=2, coulomb=1.0):
    """A serial arm whose rotors keep its inertia matrix well conditioned; `coulomb` scales its dry friction."""
    robot = with_random_drives(random_robot(seed, joints=joints, tree=False, special=False, gravity=GRAVITY), seed)
    drives = (
        replace(drive, coulomb=coulomb * drive.coulomb, rotor_inertia=0.2 + drive.rotor_inertia)
        for drive in robot.drives
    )
    return replace(robot, drives=tuple(drives))


def sines(robot, seed=0, amplitude=0.4):
    rng = np.random.default_rng(seed)
    n = robot.joint_count
    frequency, phase = rng.uniform(0.2, 1.2, (4, n)), rng.uniform(0, 2 * np.pi, (4, n))
    return SineMotion(np.zeros(n), amplitude * rng.uniform(0.5, 1.0, (4, n)), frequency, phase)


def tracking(robot, reference):
    return ComputedTorque(robot, reference, 400.0, 40.0, with_drives=bool(robot.drives))


def simulate_tracking(robot, controller, *, seconds=3.0, method="adaptive", rate_hz=100.0):
    """The motion that the controller makes of its reference."""
    q0, qd0, _ = controller.reference(0.0)
    return simulate(
        robot,
        controller,
        seconds=seconds,
        q0=q0,
        qd0=qd0,
        rate_hz=rate_hz,
        control_rate_hz=CONTROL_HZ,
        with_drives=bool(robot.drives),
        method=method,
        longest_step_s=1e-3,
    )


def encoder_samples(robot, motion, *, position_noise=0.0, torque_noise=0.0, seed=0, rate_hz=100.0):
    """What is left of a motion after noisy sensors and central differences."""
    sensors = Sensors(rate_hz, position_noise=position_noise, torque_noise=torque_noise, seed=seed)
    read = measure(replace(robot, drives=()), motion, sensors)
    log = log_from_arrays(robot.joint_names, read.t, read.position, read.torque)
    raw = Conditioning(motion_hz=None, edge_s=0.0, stamps="uniform")
    return condition(robot, log, raw).samples
