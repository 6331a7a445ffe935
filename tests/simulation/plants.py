"""Small plants with known motions, and what the laws of simulation are stated with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from robots import random_robot, with_random_drives

from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.kernels.model import compile_model
from mindyn.robots.drive_matrices import drive_parameters, friction_matrix, reflected_inertia
from mindyn.robots.parts import Drive, Joint, Link
from mindyn.robots.robot import Robot

CONSERVED = 1e-8
"""Energy of a frictionless motion of 10 s, relative."""
INTEGRATED = 1e-8
"""Two integrators with tolerances near rounding, after a second of an arm's motion."""
QUADRATURE = 1e-5
"""An integral over samples at 10 kHz of an integrand that jumps when friction sticks."""


def nothing(_t, q, _qd):
    return np.zeros_like(q)


def constant(tau):
    return lambda _t, _q, _qd: tau


def swinging(tau, frequency):
    return lambda t, _q, _qd: tau * np.cos(frequency * t)


def block(coulomb=0.0, *, mass=2.0, slope=0.0, viscous=0.0) -> Robot:
    """A mass on a slide along x that gravity pulls along with `slope` m/s^2."""
    slide = Joint("slide", "prismatic", "base", "block", axis=np.array([1.0, 0.0, 0.0]))
    link = Link("block", phi_about_origin(mass, np.zeros(3), np.eye(3)))
    drive = Drive("slide", ratio=3.0, viscous=viscous, coulomb=coulomb, side="joint")
    return Robot("block", Link("base"), (slide,), (link,), np.array([slope, 0.0, -9.81]), drives=(drive,))


WEAK = (0.0, 0.3, -0.9)
"""Gravity that dry friction of a few N m can hold."""


def arm(seed: int, joints: int = 4, stronger: float = 1.0, **options) -> Robot:
    """A random arm with drives at either side, some coupled; without offsets, which would drive it.

    stronger  factor on the Coulomb friction
    """
    robot = with_random_drives(random_robot(seed, joints=joints, **options), seed)
    drives = tuple(replace(drive, coulomb=stronger * drive.coulomb, offset=0.0) for drive in robot.drives)
    return replace(robot, drives=drives)


def without_coulomb(robot: Robot) -> Robot:
    return replace(robot, drives=tuple(replace(drive, coulomb=0.0) for drive in robot.drives))


def total_energy(robot: Robot, q, qd, *, drives: bool) -> np.ndarray:
    """Kinetic and potential energy, rotors included."""
    energy = compile_model(replace(robot, drives=())).energy(q, qd).sum(axis=-1)
    if not drives:
        return energy
    return energy + 0.5 * np.einsum("...i,ij,...j->...", qd, reflected_inertia(robot), qd)


def friction_law(robot: Robot, motion):
    """(s, lam, c): speeds of the drives' friction and the torques recovered from the joints' friction, (N, m) each."""
    levels = drive_parameters(robot)[2::4]
    F = friction_matrix(robot)[levels > 0]
    lam = np.linalg.lstsq(F.T, motion.friction.T, rcond=None)[0].T
    return motion.qd @ F.T, lam, levels[levels > 0]
