"""Small robots whose inertia matrices can be searched by brute force, and that search."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from mindyn.foundation.algebra.inertia import phi_about_origin, pseudo_inertia
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.identification.feasibility.checks.consistent_values import check_values
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.kernels.model import compile_model
from mindyn.regression.regressor import Regressor
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot


def planar_arm(lengths, joints=2):
    """Revolute joints about parallel vertical axes; lengths[i] from joint i + 1 to joint i + 2."""
    names = ["base", *(f"link{k + 1}" for k in range(joints))]
    origins = [IDENTITY, *(Pose(np.eye(3), np.array([L, 0.0, 0.0])) for L in lengths)]
    result = [
        Joint(f"joint{k + 1}", "revolute", names[k], names[k + 1], origins[k], np.array([0.0, 0.0, 1.0]))
        for k in range(joints)
    ]
    return Robot("planar", Link("base"), tuple(result), tuple(map(Link, names[1:])), np.array([0.0, 0.0, -9.81]))


def long_rod_on_a_slide():
    """A rod of 2 m, 3 kg that turns on a slide: the slide determines its mass, only the data determine its width."""
    rod = phi_about_origin(3.0, np.array([1.0, 0.0, 0.0]), np.diag([0.01, 1.0, 1.0]))
    slide = phi_about_origin(1.0, np.zeros(3), np.diag([0.01, 0.01, 0.01]))
    joints = (
        Joint("slide", "prismatic", "base", "table", axis=np.array([1.0, 0.0, 0.0])),
        Joint("hinge", "revolute", "table", "rod", axis=np.array([0.0, 1.0, 0.0])),
    )
    links = (Link("table", slide), Link("rod", rod))
    return Robot("slide", Link("base"), joints, links, np.array([0.0, 0.0, -9.81]))


def regressor_matrices(base, beta, q):
    """M (N, n, n) by the standard regressor at unit accelerations, with the embedded parameters."""
    model = compile_model(base.robot, with_drives=base.with_drives)
    rest, phi = np.zeros_like(q), base.embedding @ beta
    held = model.standard_regressor(q, rest, rest) @ phi
    columns = [model.standard_regressor(q, rest, rest + unit) @ phi - held for unit in np.eye(q.shape[1])]
    return np.stack(columns, axis=2)


def grid(ranges, points):
    """(points^d, n) of the joints with a range; the others at their one position."""
    axes = [np.linspace(low, high, points) if high > low else np.array([low]) for low, high in ranges]
    return np.array(list(product(*axes)))


def space_of_base(base):
    """The physical parameters behind a base set."""
    return space_of(Regressor(base.robot, base=base))


def check_base_values(base, values):
    """Whether some links have these base values."""
    return check_values(space_of_base(base), np.asarray(values, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class TwoLinks:
    """Base values of a planar two-link arm: J1 (with m2 L^2), J2 kg m^2, Rx, Ry kg m of link 2, L m of link 1."""

    J1: float
    J2: float
    Rx: float
    Ry: float
    L: float

    @property
    def is_possible(self):
        """Return whether J1, J2 > 0 and J1 J2 > L^2 (Rx^2 + Ry^2); then the minor of order 1 is positive too."""
        return self.J1 > 0 and self.J2 > 0 and self.L**2 * (self.Rx**2 + self.Ry**2) < self.J1 * self.J2

    @property
    def second_minor(self):
        """Return p_2 for the functions (cos 2 theta_2, sin 2 theta_2, 1)."""
        Rx, Ry, L2 = self.Rx, self.Ry, self.L**2
        return np.array([-L2 * (Rx**2 - Ry**2) / 2, L2 * Rx * Ry, self.J1 * self.J2 - L2 * (Rx**2 + Ry**2) / 2])


def project_on_circular_cone(p):
    """Return the nearest point to p (3,) of the cone p_3 >= |(p_1, p_2)|."""
    n = float(np.hypot(p[0], p[1]))
    if n <= p[2]:
        return p
    if n <= -p[2]:
        return np.zeros(3)
    s = (n + p[2]) / 2
    return np.array([s * p[0] / n, s * p[1] / n, s])


def _scaled(space, phi):
    """The pseudo-inertia of parameters in units of 1 kg and the length of a space."""
    return pseudo_inertia(phi / space.link_units)


def divergence_of(prior, space, x):
    """tr(P0^-1 P) - log det P, or |P - P0|^2 / |P0|^2 in scaled units, summed over the links with a prior P0."""
    total = 0.0
    for i, phi in enumerate(prior.links):
        if phi is not None:
            P, P0 = pseudo_inertia(x[space.link(i)]), pseudo_inertia(phi)
            off = np.linalg.norm(_scaled(space, x[space.link(i)] - phi)) / np.linalg.norm(_scaled(space, phi))
            entropic = np.trace(np.linalg.inv(P0) @ P) - np.linalg.slogdet(P)[1]
            total += entropic if prior.divergence == "entropic" else off**2
    return total


def slope_of(prior, space, x):
    """The gradient (size,) of `divergence_of`."""
    slope = np.zeros(space.size)
    for i, phi in enumerate(prior.links):
        if phi is not None:
            link = space.link(i)
            change = np.linalg.inv(pseudo_inertia(phi)) - np.linalg.inv(pseudo_inertia(x[link]))
            off, size = _scaled(space, x[link] - phi), np.linalg.norm(_scaled(space, phi)) ** 2
            units = np.eye(len(phi))
            slope[link] = (
                [np.trace(pseudo_inertia(unit) @ change) for unit in units]
                if prior.divergence == "entropic"
                else [2 * (_scaled(space, unit) * off).sum() / size for unit in units]
            )
    return slope
