"""`full_model`: a robot with the parameters of every link and drive, behind an estimate's base values."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import ExportError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.conic import ConicError, Program, Rows
from mindyn.feasibility.consistent import SAME, judge_consistent
from mindyn.feasibility.nearest import relative_metric, with_values
from mindyn.feasibility.physical_space import PhysicalSpace, space_of
from mindyn.feasibility.physically_consistent import physical_values
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
"""Part of the room that values leave every link which the full model keeps clear: exact values stay physical."""
LEAST_FORCED: Final = 1e-3
"""kg; least mass of a link that is written although nothing has its values."""


def full_model(estimate: Estimate, prior: Robot | Literal["robot"] | None = None, *, force: bool = False) -> Robot:
    """The robot with standard parameters of every link, rotor inertia and friction, whose torques are the estimate's.

    prior  where base values leave open which link has what: nearest to it ("robot": the robot's own inertials; a
           `Robot` with the same links), or with the least total mass; left out, a consistent fit's own values
    force  an estimate that no arm can have gives links that no body can be

    Friction shapes become extra torques; declared columns have no place in a robot and are named in its notes.
    """
    space = space_of(estimate.regressor)
    x = physical_values(estimate, space) if prior is None else None
    notes: list[str] = []
    if x is None:
        x = _standard(estimate, space, prior, notes, force=force)
    return _robot(estimate, space, x, notes)


def _standard(
    estimate: Estimate, space: PhysicalSpace, prior: Robot | Literal["robot"] | None, notes: list[str], *, force: bool
) -> Array:
    answer = judge_consistent(estimate)
    if answer.holds:
        room = space.thinnest(np.array(list(answer.witness["physical"].values())))
        return space.inside(_nearest_to_prior(estimate, space, prior, notes, MARGIN * max(room, 0.0)))
    if not force:
        raise ExportError(
            f"the estimate is not physically consistent: {answer.sentence}",
            hint="make_feasible(estimate) moves it the least; force=True gives links that no body can be",
        )
    notes.append(f"forced: {answer.sentence}")
    return _forced(estimate, space)


def _nearest_to_prior(
    estimate: Estimate,
    space: PhysicalSpace,
    prior: Robot | Literal["robot"] | None,
    notes: list[str],
    margin: float,
) -> Array:
    """x with the estimate's beta that is nearest to the prior, every link with `margin` to what no body can be.

    The values stand in equations; where they leave a solver no room, at the edge of what is physical, in squares.
    """
    believed = prior_of(estimate.robot, prior, "euclidean")
    notes += believed.notes
    try:
        x = _solved(estimate, space, believed, margin, exact=True)
    except ConicError:
        x = _solved(estimate, space, believed, 0.0, exact=False)
    return with_values(space, x, estimate.beta)


def _solved(estimate: Estimate, space: PhysicalSpace, prior: Prior, margin: float, *, exact: bool) -> Array:
    units, compact = space.units, space.compact_rows()
    program = Program(space.size)
    if exact:
        program.add_rows(Rows("zero", space.matrix * units, -estimate.beta))
    else:
        W = relative_metric(space, estimate.beta)
        program.add_squares(W @ space.matrix * units, W @ estimate.beta)
    program.add_rows(
        *(_further_in(rows, margin) for rows in space.cone_rows(units)),
        Rows(compact.kind, compact.matrix * units, compact.offset),
    )
    weight = 1.0 if exact else SAME**2
    prior.add_to(program, space, units, weight, weight)
    return np.asarray(units * program.solve().x)


def _further_in(rows: Rows, margin: float) -> Rows:
    """The rows of a link with all eigenvalues at least `margin`."""
    if rows.kind != "semidefinite":
        return rows
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
    extras = tuple(replace(extra, coefficient=float(v)) for extra, v in zip(robot.extras, x[start:], strict=False))
    shapes = _shape_torques(estimate, dict(zip(space.labels, x, strict=True)), notes)
    return replace(robot, links=links, drives=drives, extras=(*extras, *shapes), notes=(*robot.notes, *notes))


def _with_values(drive: Drive, rotor_inertia: float, viscous: float, coulomb: float, offset: float) -> Drive:
    return replace(drive, rotor_inertia=rotor_inertia, viscous=viscous, coulomb=coulomb, offset=offset)


def _shape_torques(estimate: Estimate, values: dict[str, float], notes: list[str]) -> list[ExtraTorque]:
    """Friction beyond viscous and Coulomb as extra torques; what several joints' speeds decide is named in notes."""
    made, friction = [], estimate.regressor.friction
    for drive in estimate.robot.drives:
        number = estimate.robot.joint_index(drive.joint) + 1
        for shape in friction.shapes:
            value = float(values.get(f"f_{shape}{number}", 0.0))
            if value and drive.coupling and drive.side == "motor":
                notes.append(f"left out: f_{shape}{number} of a motor that several joints turn")
            elif value:
                made.append(ExtraTorque(f"{shape}_{drive.joint}", drive.joint, FORMULAS[shape], value))
    for joint in friction.joint_side:
        number = estimate.robot.joint_index(joint) + 1
        for label, formula in ((f"fvj{number}", "qd"), (f"fcj{number}", "sign(qd)")):
            if values.get(label):
                made.append(ExtraTorque(f"{label}_{joint}", joint, formula, float(values[label])))
    notes += [f"left out: the declared column {one.name!r}" for one in estimate.regressor.extra]
    return made
