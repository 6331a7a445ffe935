"""Random serial arms and simulated logs of their sensors: load-dependent friction, flexible joints, noise.

Motions are formulas and torques come from inverse dynamics, so nothing is integrated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import mindyn
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.logs.log import Log, log_from_arrays
from mindyn.robots.parts import Drive, Joint, Limits, Link
from mindyn.robots.robot import Robot

FRICTION_WIDTH_RAD_S = 0.02
"""Width of the transition of Coulomb friction around zero velocity."""


@dataclass(frozen=True)
class Recording:
    """Settings of a simulated log.

    seconds, rate_hz  length and rate of the log
    period_s          period of the motion; None: it never repeats
    speed             rms speed of the joints, rad/s, approximately
    noise             white noise of the torque relative to the rms of each joint
    ripple            torque that depends on the angle (cogging), relative to the rms of each joint
    encoder_rad       resolution of positions
    compliance        deflection of a joint under its rms torque, rad
    load_friction     growth of Coulomb friction with the rigid torque: s of (fc + s |tau|) sign(qd)
    """

    seconds: float = 24.0
    rate_hz: float = 100.0
    period_s: float | None = None
    speed: float = 0.7
    noise: float = 0.02
    ripple: float = 0.0
    encoder_rad: float = 2e-5
    compliance: float = 0.0
    load_friction: float = 0.0


def random_arm(seed: int, joints: int | None = None, *, shoulder: bool = False) -> Robot:
    """Return a serial arm with 3 to 7 revolute joints, heaviest at its base, with a drive on every joint.

    shoulder  vertical first axis, horizontal second axis, upper arm and forearm, like an arm on a floor
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8)) if joints is None else joints
    names = ["base", *(f"link{i + 1}" for i in range(n))]
    created, links, drives = [], [], []
    size = rng.uniform(0.6, 1.6)
    for i in range(n):
        twist = rng.choice([0.0, np.pi / 2, -np.pi / 2]) if i else rng.choice([0.0, 0.0, np.pi / 2])
        if shoulder and i < 2:
            twist = (0.0, np.pi / 2)[i]
        c, s = np.cos(twist), np.sin(twist)
        turn = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
        step = size * rng.uniform(0.05, 0.4, 3) * rng.integers(0, 2, 3) if i else np.zeros(3)
        if shoulder and i in (2, 3):
            step[0] = size * rng.uniform(0.25, 0.45)
        created.append(
            Joint(
                f"joint{i + 1}",
                "revolute",
                names[i],
                names[i + 1],
                Pose(turn, step),
                np.array([0.0, 0.0, 1.0]),
                IDENTITY,
                Limits(-2.6, 2.6, 2.5),
            )
        )
        mass = 12.0 * size**2 * 0.6**i * rng.uniform(0.7, 1.4) + 0.3
        box = size * rng.uniform(0.08, 0.35, 3) * 0.9**i
        com = box * rng.uniform(-0.6, 0.6, 3)
        if shoulder and i in (1, 2):
            com[0] += size * rng.uniform(0.1, 0.2)
        links.append(Link(names[i + 1], phi_about_origin(mass, com, mass / 12 * np.diag((box**2).sum() - box**2))))
        strength = 9.81 * mass * size
        drives.append(
            Drive(
                f"joint{i + 1}",
                1.0,
                {},
                rotor_inertia=float(0.01 * strength * rng.uniform(0.3, 1.5)),
                viscous=float(0.05 * strength * rng.uniform(0.3, 1.5)),
                coulomb=float(0.05 * strength * rng.uniform(0.3, 1.5)),
                offset=float(0.01 * strength * rng.normal()),
                side="joint",
            )
        )
    gravity = np.array([0.0, 0.0, -9.81])
    return Robot(f"arm{seed}", Link("base"), tuple(created), tuple(links), gravity, drives=tuple(drives))


def build_robot_file(arm: Robot, seed: int) -> Robot:
    """Return the arm as a robot file describes it: wrong masses (up to 20 %) and centres (1 to 2 cm), no drives."""
    rng = np.random.default_rng([seed, 1])
    links = []
    for link in arm.links:
        phi = link.phi * rng.uniform(0.8, 1.2)
        phi[1:4] += phi[0] * rng.normal(0, 0.01, 3)
        links.append(replace(link, phi=phi))
    return replace(arm, links=tuple(links), drives=())


def remove_masses(arm: Robot) -> Robot:
    """Return the arm with its geometry only."""
    return replace(arm, links=tuple(replace(link, phi=None) for link in arm.links), drives=())


def motion(arm: Robot, how: Recording, seed: int):
    """Return t, q, qd, qdd: a sum of sines within the limits, periodic if the motion repeats."""
    rng = np.random.default_rng([seed, 2])
    n = arm.joint_count
    t = np.arange(0, how.seconds, 1 / how.rate_hz)
    if how.period_s is None:
        rates = 2 * np.pi * rng.uniform(0.05, 0.55, (6, n))
    else:
        rates = 2 * np.pi * np.repeat(np.arange(1, 6)[:, None], n, axis=1) / how.period_s
    phases = rng.uniform(0, 2 * np.pi, rates.shape)
    sizes = rng.uniform(0.3, 1.0, rates.shape) / rates
    sizes *= how.speed * np.sqrt(2) / np.sqrt(((sizes * rates) ** 2).sum(axis=0))
    sizes *= np.minimum(1.0, 1.5 / sizes.sum(axis=0))
    angles = t[:, None, None] * rates + phases
    q = rng.uniform(-0.9, 0.9, n) + (sizes * np.sin(angles)).sum(axis=1)
    qd = (sizes * rates * np.cos(angles)).sum(axis=1)
    qdd = -(sizes * rates**2 * np.sin(angles)).sum(axis=1)
    return t, q, qd, qdd


def torque(arm: Robot, q, qd, qdd, load_friction: float = 0.0):
    """Return the joint torque with drives; friction can grow with the torque of the rigid arm."""
    bare = replace(arm, drives=())
    rigid = np.asarray(mindyn.build_equation(bare, "inverse_dynamics")(q.T, qd.T, qdd.T)).T
    rotors, viscous, coulomb, offset = (
        np.array([getattr(drive, name) for drive in arm.drives])
        for name in ("rotor_inertia", "viscous", "coulomb", "offset")
    )
    direction = np.tanh(qd / FRICTION_WIDTH_RAD_S)
    rigid = rigid + rotors * qdd
    return rigid + viscous * qd + (coulomb + load_friction * np.abs(rigid)) * direction + offset


def record_log(arm: Robot, how: Recording, seed: int) -> Log:
    """Return the log of the sensors during a motion."""
    rng = np.random.default_rng([seed, 3])
    t, q, qd, qdd = motion(arm, how, seed)
    tau = torque(arm, q, qd, qdd, how.load_friction)
    size = np.sqrt((tau**2).mean(axis=0))
    if how.compliance:
        q = q + how.compliance * tau / size
    tau = tau + size * how.ripple * np.sin(30 * q + rng.uniform(0, 6, q.shape[1]))
    tau = tau + size * how.noise * rng.normal(size=q.shape)
    q = np.round(q / how.encoder_rad) * how.encoder_rad + 0.3 * how.encoder_rad * rng.normal(size=q.shape)
    return log_from_arrays(arm.joint_names, t, q, tau)
