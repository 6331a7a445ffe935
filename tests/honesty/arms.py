"""Random serial arms and what their sensors log: drives with friction that may grow with the load, soft joints.

Made by formulas alone, without integrating motion: positions are given, torques follow by inverse dynamics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import mindyn
from mindyn.algebra.inertia import phi_about_origin
from mindyn.algebra.poses import IDENTITY, Pose
from mindyn.logs.log import Log, log_from_arrays
from mindyn.robots.parts import Drive, Joint, Limits, Link
from mindyn.robots.robot import Robot

TURN_RAD_S = 0.02
"""Speed over which Coulomb friction turns over."""


@dataclass(frozen=True)
class Recording:
    """How a log is made.

    seconds, rate_hz  of the log
    period_s          of a Fourier motion; None: a motion that never repeats
    speed             rms rad/s of the joints, about
    noise             white noise of the torque, part of each joint's rms
    ripple            torque with the joint's angle (cogging), part of each joint's rms
    encoder_rad       resolution of positions
    compliance        rad by which a joint gives way under its rms torque
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
    """A serial arm of 3 to 7 turning joints, heaviest at its base, with a drive on every joint.

    shoulder  the first axis upright and the second across it, then an upper arm and a forearm with length, as arms on a
              floor have them
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


def file_of(arm: Robot, seed: int) -> Robot:
    """What the arm's file says of it: masses 15 % off, centres a centimetre or two, no drives."""
    rng = np.random.default_rng([seed, 1])
    links = []
    for link in arm.links:
        phi = link.phi * rng.uniform(0.8, 1.2)
        phi[1:4] += phi[0] * rng.normal(0, 0.01, 3)
        links.append(replace(link, phi=phi))
    return replace(arm, links=tuple(links), drives=())


def unknown(arm: Robot) -> Robot:
    """The arm's geometry alone."""
    return replace(arm, links=tuple(replace(link, phi=None) for link in arm.links), drives=())


def motion(arm: Robot, how: Recording, seed: int):
    """t, q, qd, qdd: sines of many rates, of whole periods where it repeats; within the limits."""
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
    """Joint torque with drives; friction may grow with the torque of the rigid arm."""
    bare = replace(arm, drives=())
    rigid = np.asarray(mindyn.equation(bare, "inverse_dynamics")(q.T, qd.T, qdd.T)).T
    rotors, viscous, coulomb, offset = (
        np.array([getattr(drive, name) for drive in arm.drives])
        for name in ("rotor_inertia", "viscous", "coulomb", "offset")
    )
    direction = np.tanh(qd / TURN_RAD_S)
    rigid = rigid + rotors * qdd
    return rigid + viscous * qd + (coulomb + load_friction * np.abs(rigid)) * direction + offset


def recorded(arm: Robot, how: Recording, seed: int) -> Log:
    """What the sensors log of a motion."""
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
