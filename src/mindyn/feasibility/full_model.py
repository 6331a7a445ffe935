"""`full_model`: a robot with the parameters of every link and drive, behind an estimate's base values."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import ExportError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.conic import ConicError, Program, Rows, matrix_of_triangle
from mindyn.feasibility.consistent import SAME, judge_consistent
from mindyn.feasibility.nearest import relative_metric, with_values
from mindyn.feasibility.physical_space import PhysicalSpace, physical_values, space_of
from mindyn.feasibility.priors import Prior, prior_of
from mindyn.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.regression.friction import STRIBECK_SPEED
from mindyn.robots.parts import Drive, ExtraTorque, Link
from mindyn.robots.robot import Robot

FORMULAS: Final = {
    "asymmetric": "abs(qd)",
    "root": "sign(qd) * sqrt(abs(qd))",
    "square": "qd * abs(qd)",
    "cubic": "qd ** 3",
    "stribeck": f"sign(qd) * exp(-abs(qd) / {STRIBECK_SPEED})",
}
"""Friction shapes as extra torques of a robot."""
MARGIN: Final = 1e-2
"""Part of the room that a link has which it keeps when it moves towards the prior: exact values stay physical."""
EDGE: Final = 1e-6
"""A link whose smallest eigenvalue is a smaller part of the largest is at the edge of what is physical."""
SPANNED: Final = 1e-10
"""Singular values that are a smaller part of the largest are zero."""
LEAST_FORCED: Final = 1e-3
"""kg; least mass of a link that is written although nothing has its values."""


def full_model(estimate: Estimate, prior: Robot | Literal["robot"] | None = None, *, force: bool = False) -> Robot:
    """The robot with standard parameters of every link, rotor inertia and friction, whose torques are the estimate's.

    prior  where base values leave open which link has what: nearest to it ("robot": the robot's own inertials; a
           `Robot` with the same links), or with the least total mass; left out, a consistent fit's own values
    force  an estimate that no arm can have gives links that no body can be

    Friction shapes become extra torques. What has no place in a robot is named in its notes: declared columns, friction
    that turns over as tanh or stop (it follows the sign of the speed here).
    """
    space = space_of(estimate.regressor)
    notes: list[str] = []
    x = physical_values(estimate, space)
    if x is None or prior is not None:
        x = _standard(estimate, space, x, prior, notes, force=force)
    return _robot(estimate, space, x, notes)


def _standard(
    estimate: Estimate,
    space: PhysicalSpace,
    x: Array | None,
    prior: Robot | Literal["robot"] | None,
    notes: list[str],
    *,
    force: bool,
) -> Array:
    """Standard parameters nearest to the prior, from known ones x or those that prove the estimate consistent."""
    own = x is not None
    if x is None:
        answer = judge_consistent(estimate)
        if not answer.holds and not force:
            raise ExportError(
                f"the estimate is not physically consistent: {answer.sentence}",
                hint="make_feasible(estimate) moves it the least (mindyn export --mend); "
                "force=True (--force) gives links that no body can be",
            )
        if not answer.holds:
            notes.append(f"forced: {answer.sentence}")
            return _forced(estimate, space)
        x = space.inside(np.array(list(answer.witness["physical"].values())))
    believed = prior_of(estimate.robot, prior, "euclidean")
    notes += believed.notes
    return space.inside(_nearest_to_prior(space, x, believed, drives_stay=own))


def _nearest_to_prior(space: PhysicalSpace, x: Array, prior: Prior, *, drives_stay: bool) -> Array:
    """Of all physical parameters with the dynamics of x those nearest to the prior; a fit's own drives stay.

    A link that is at the edge of what is physical stays as it is: the values leave it no room, nor a solver.
    """
    units, cones = space.units, space.cone_rows(space.units)
    start = x / units
    room = [_room(rows, start) for rows in cones[: space.link_count]]
    held = np.full(space.size, drives_stay)
    for i, thin in enumerate(room):
        held[space.link(i)] = thin <= 0
    ties = _independent_rows(np.vstack([space.matrix * units, np.eye(space.size)[held]]))
    program = Program(space.size)
    program.add_rows(Rows("zero", ties, -ties @ start))
    program.add_rows(*(_further_in(rows, MARGIN * thin) for rows, thin in zip(cones, room, strict=False) if thin > 0))
    if not drives_stay:
        program.add_rows(*cones[space.link_count :])
    prior.add_to(program, space, units, 1.0, 1.0)
    try:
        found = program.solve().x
    except ConicError:
        return x
    return with_values(space, units * found, space.matrix @ x)


def _room(rows: Rows, v: Array) -> float:
    """The smallest eigenvalue of a link's matrix, zero where it is a mere part of the largest."""
    values = np.linalg.eigvalsh(matrix_of_triangle(rows.matrix @ v))
    return float(values[0]) if values[0] > EDGE * values[-1] else 0.0


def _independent_rows(rows: Array) -> Array:
    """An orthonormal basis of the space that rows span."""
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(Vt[s > SPANNED * s[0]])


def _further_in(rows: Rows, margin: float) -> Rows:
    """The rows of a link with all eigenvalues at least `margin`."""
    offset = rows.offset.copy()
    offset[[0, 2, 5, 9]] -= margin  # the diagonal
    return Rows(rows.kind, rows.matrix, offset, rows.order)


def _forced(estimate: Estimate, space: PhysicalSpace) -> Array:
    """x with the estimate's link values and positive masses, whatever the tensors; drives as near as they can be."""
    W, units = relative_metric(space, estimate.beta), space.units
    masses = np.zeros((space.link_count, space.size))
    masses[range(space.link_count), range(0, PARAMETERS_PER_LINK * space.link_count, PARAMETERS_PER_LINK)] = 1.0
    program = Program(space.size)
    program.add_squares(W @ space.matrix * units, W @ estimate.beta)
    program.add_squares(SAME * np.eye(space.size), np.zeros(space.size))
    program.add_rows(Rows("nonnegative", masses, np.full(space.link_count, -LEAST_FORCED)))
    signed = np.eye(space.size)[list(space.signed)]
    if len(signed):
        program.add_rows(Rows("nonnegative", signed, np.zeros(len(signed))))
    x = units * program.solve().x
    x[list(space.signed)] = np.maximum(x[list(space.signed)], 0.0)
    return np.asarray(x)


def _robot(estimate: Estimate, space: PhysicalSpace, x: Array, notes: list[str]) -> Robot:
    robot = estimate.robot
    links = tuple(Link(link.name, x[space.link(i)], link.shapes) for i, link in enumerate(robot.links))
    start = PARAMETERS_PER_LINK * robot.joint_count
    drives = robot.drives
    if space.base.drives:
        stop = start + len(DRIVE_PARAMETERS) * len(drives)
        values = x[start:stop].reshape(-1, len(DRIVE_PARAMETERS)).tolist()
        drives = tuple(_with_values(drive, *row) for drive, row in zip(drives, values, strict=True))
        start = stop
    extras = robot.extras
    if space.base.drives:
        extras = tuple(replace(one, coefficient=float(v)) for one, v in zip(extras, x[start:], strict=False))
    shapes = _shape_torques(estimate, dict(zip(space.labels, x, strict=True)), notes)
    return replace(robot, links=links, drives=drives, extras=(*extras, *shapes), notes=(*robot.notes, *notes))


def _with_values(drive: Drive, rotor_inertia: float, viscous: float, coulomb: float, offset: float) -> Drive:
    return replace(drive, rotor_inertia=rotor_inertia, viscous=viscous, coulomb=coulomb, offset=offset)


def _shape_torques(estimate: Estimate, values: dict[str, float], notes: list[str]) -> list[ExtraTorque]:
    """Friction beyond viscous and Coulomb as extra torques; what several joints' speeds decide is named in notes."""
    made, friction = [], estimate.regressor.friction
    taken = {one.name for one in estimate.robot.extras}

    def name(wanted: str) -> str:
        return next(one for k in count(1) if (one := wanted if k == 1 else f"{wanted}_{k}") not in taken)

    for drive in estimate.robot.drives:
        number = estimate.robot.joint_index(drive.joint) + 1
        for shape in friction.shapes:
            value = float(values.get(f"f_{shape}{number}", 0.0))
            if value and drive.coupling and drive.side == "motor":
                notes.append(f"left out: f_{shape}{number} of a motor that several joints turn")
            elif value:
                made.append(ExtraTorque(name(f"{shape}_{drive.joint}"), drive.joint, FORMULAS[shape], value))
    for joint in friction.joint_side:
        number = estimate.robot.joint_index(joint) + 1
        for label, formula in ((f"fvj{number}", "qd"), (f"fcj{number}", "sign(qd)")):
            if values.get(label):
                made.append(ExtraTorque(name(f"{label}_{joint}"), joint, formula, float(values[label])))
    if friction.direction != "sign":
        notes.append(f"left out: friction turns over at once, not as {friction.direction} of width {friction.width:g}")
    return made
