"""The nearest physically consistent parameters in a metric, and the contradiction that the way there proves.

minimise |W (B x - beta)|^2 over physical x. Physical x form a cone, so the shift r = B x* - beta of the minimum is a
certificate by itself (Moreau): y = W^T W r has y.B x >= 0 for every physical x, but y.beta = -|W r|^2 < 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.algebra.inertia import tensor_from_entries
from mindyn.algebra.values import Array
from mindyn.feasibility.conic import Program, Rows
from mindyn.feasibility.physical_space import PhysicalSpace

HEAVINESS: Final = 1e-9
"""Cost of a kilogram beside squared relative distances: what beta leaves open takes the least mass, nothing else moves."""


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Physical x, its beta, the shift from the given beta, its length |W r|, and the certificate y (0 where d = 0)."""

    x: Array
    beta: Array
    distance: float
    certificate: Array


def nearest_consistent(space: PhysicalSpace, beta: Array, W: Array, rows: tuple[Rows, ...] = ()) -> Nearest:
    """The physical parameters whose beta is nearest, |W (B x - beta)| least; `rows` are further conditions on x."""
    units = space.units
    program = Program(space.size)
    program.add_squares(W @ space.matrix * units, W @ beta)
    program.cost[space.masses] = HEAVINESS
    program.add_rows(*space.cone_rows(units), *(_in_units(one, units) for one in rows))
    x = units * program.solve().x
    moved = space.matrix @ x
    shift = W @ (moved - beta)
    return Nearest(x, moved, float(np.linalg.norm(shift)), W.T @ shift)


def _in_units(rows: Rows, units: Array) -> Rows:
    return Rows(rows.kind, rows.matrix * units, rows.offset, rows.order)


def certificate_slack(space: PhysicalSpace, y: Array) -> float:
    """The least y.B x over physical x of unit size: the smallest eigenvalue of what y asks of any link or sign.

    y.B x = <C_i, pseudo-inertia of link i> + c.signed + e.free: not negative for all physical x when every C_i is
    positive semidefinite, every c is not negative and every e is zero. Friction shapes count as free.
    """
    asked = (space.matrix.T @ y) * space.units
    free = np.ones(space.size, dtype=bool)
    worst = []
    for i in range(space.link_count):
        free[space.link(i)] = False
        worst.append(np.linalg.eigvalsh(_adjoint(asked[space.link(i)]))[0])
    signed = list(space.signed)
    free[signed] = False
    return float(min([*worst, *asked[signed], -np.abs(asked[free]).max(initial=0.0)]))


def _adjoint(c: Array) -> Array:
    """C (4, 4) with <C, pseudo_inertia(phi)> = c.phi: J = tr(Sigma) E - Sigma, so c_J.J = <tr(G) E - G, Sigma>."""
    G = tensor_from_entries(c[4:] * np.array([1.0, 0.5, 1.0, 0.5, 0.5, 1.0]))
    C = np.zeros((4, 4))
    C[:3, :3] = G.trace() * np.eye(3) - G
    C[:3, 3] = C[3, :3] = c[1:4] / 2
    C[3, 3] = c[0]
    return C
