"""`build_full_model`: build a robot with standard parameters of every link and drive that has the dynamics of an
estimate.

Friction that drives cannot represent becomes extra torques. Friction k acts on the speed u = w . qd (w: rotation of the
motor with the joints, on the joint side) with a direction s, the sign of u or its approximation in the fit. Its torque
on joint j is value * w_j * law(u, s, load) (`mindyn.robots.friction_laws`); the load of the gear is l . load of all
joints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, ExportError, require_choice
from mindyn.foundation.findings import Kind as FindingKind
from mindyn.foundation.findings import info
from mindyn.foundation.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.checks.consistent_values import CONSISTENT_DISTANCE, check_consistent
from mindyn.identification.feasibility.conditions.nearest_values import match_values, relative_metric
from mindyn.identification.feasibility.conditions.physical_space import PhysicalSpace, physical_values, space_of
from mindyn.identification.feasibility.conditions.priors import Prior, build_prior, child_joint_positions, guess_balls
from mindyn.identification.feasibility.optimisation.conic_program import (
    DIAGONAL_PLACES,
    ConeRows,
    ConicError,
    ConicProgram,
    matrix_of_triangle,
)
from mindyn.parameters.parameter import Kind, friction_label, joint_side_parameters
from mindyn.regression.friction import Friction
from mindyn.robots.drive_matrices import drive_load_matrix, friction_matrix
from mindyn.robots.floating_base import BASE_COUNT
from mindyn.robots.parts import ExtraTorque, Link
from mindyn.robots.robot import Robot

KEPT_MARGIN_FRACTION: Final = 1e-2
"""Fraction of its margin that a link keeps when its parameters move towards the prior, so that exact values stay
physical.
"""
EDGE_EIGENVALUE_RATIO: Final = 1e-6
"""If the ratio of the smallest to the largest eigenvalue is below this, a link counts as being on the boundary of the
physical set.
"""
MIN_EIGENVALUE_RATIO: Final = 1e-2
"""Smallest eigenvalue that a link should have, relative to the mean mass, with lengths in units of the robot."""
GYRATION_LIMITS: Final = (1.0, 2.0, None)
"""Largest radii of gyration about the joint, as multiples of the link length; they are tried one after the other."""
NULL_SINGULAR_VALUE: Final = 1e-10
"""Singular values relative to the largest below which they count as zero."""
BISECTION_STEPS: Final = 30
"""Number of bisections between the parameters nearest to the prior and parameters that are known to be physical."""
MIN_FORCED_MASS_KG: Final = 1e-3
"""Smallest mass of a link that is written although its values are not physical, kg."""


def build_full_model(
    estimate: Estimate,
    prior: Robot | Literal["robot"] | None = "robot",
    *,
    friction_at_zero: Literal["sign", "fitted"] = "sign",
    force: bool = False,
) -> Robot:
    """Build a robot with standard parameters of every link, rotor inertia and friction from an estimate.

    The torques of the robot are those of the estimate. Base values do not determine how parameters are distributed over
    the links; this follows from the prior. Friction shapes become extra torques. Findings of the robot name friction
    whose transition around zero velocity differs from the fit, and links on the boundary of the physical set.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    prior : Robot, "robot" or None
        Parameters are nearest to the inertial parameters of a `Robot` with the same links, or of the robot of the
        estimate ("robot"; a fit with a prior for all links keeps its values). Links without inertial parameters, or
        with placeholders, are nearest to a ball between their joints. None: smallest total mass.
    friction_at_zero : {"sign", "fitted"}
        "sign": Coulomb friction of the drives, as simulators and other formats support it. "fitted": the transition
        around zero velocity of the fit (if it was tanh) as extra torques, for code that must reproduce the torques of
        the estimate.
    force : bool
        Accept an estimate that is not physically consistent, and return links with impossible parameters.

    Returns
    -------
    Robot
        The robot, with findings.

    Raises
    ------
    InputError
        If `friction_at_zero` is unknown.
    ExportError
        If the estimate is not physically consistent and `force` is False.
    """
    require_choice(friction_at_zero, ("sign", "fitted"), "friction_at_zero")
    return build_model(estimate, complete_model(estimate, prior, force=force), friction=friction_at_zero)


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """Standard parameters x of every link and drive that have the dynamics of an estimate, and notes about them."""

    space: PhysicalSpace
    x: Array
    notes: tuple[str, ...]


def complete_model(
    estimate: Estimate, prior: Robot | Literal["robot"] | None = "robot", *, force: bool = False
) -> Completion:
    """Return the standard parameters of `build_full_model`."""
    space = space_of(estimate.regressor)
    notes: list[str] = []
    x = physical_values(estimate, space)
    physical = estimate.values.physical
    is_near_prior = estimate.values.projected or (
        physical is not None and set(physical.prior_links) == set(estimate.robot.link_names)
    )
    if x is None or not (is_near_prior and prior == "robot"):
        x = _complete_parameters(estimate, space, x, prior, notes, force=force)
    return Completion(space, x, tuple(notes))


def build_model(estimate: Estimate, completion: Completion, *, friction: Literal["sign", "fitted"] = "sign") -> Robot:
    """Return the robot with the standard parameters of a completion."""
    notes = list(completion.notes)
    return _build_robot(estimate, completion.space, completion.x.copy(), notes, fitted=friction == "fitted")


def _complete_parameters(
    estimate: Estimate,
    space: PhysicalSpace,
    x: Array | None,
    prior: Robot | Literal["robot"] | None,
    notes: list[str],
    *,
    force: bool,
) -> Array:
    """Return the standard parameters nearest to the prior, starting from known x or from the witness of consistency."""
    is_fitted = x is not None
    if x is None:
        answer = check_consistent(estimate)
        if not answer.holds and not force:
            raise ExportError(
                f"the estimate is not physically consistent: {answer.reason}",
                hint="identify with --consistent (PhysicallyConsistent), or project the values with "
                "make_feasible(estimate) (mindyn export --feasible); force=True (--force) writes them as they are",
                code=Code.NOT_FEASIBLE,
                subject=estimate.robot.name,
            )
        if not answer.holds:
            notes.append(f"forced: {answer.sentence}")
            return _force_parameters(estimate, space)
        x = space.move_inside(np.array(list(answer.witness["physical"].values())))
    light = _move_to_prior(space, x, build_prior(estimate.robot, None, "euclidean"), [], drives_stay=is_fitted)
    if prior is None:
        return _move_inside(space, light, x)
    known_prior = build_prior(estimate.robot, prior, "euclidean")
    notes += known_prior.notes
    unknown = [i for i, phi in enumerate(known_prior.links) if phi is None]
    masses = np.maximum(light[space.masses], light[space.masses].mean())
    known_prior = replace(known_prior, links=guess_balls(space, known_prior.links, unknown, masses))
    widened = _add_margins(space, light, drives_stay=is_fitted)
    return _move_inside(space, _move_to_prior(space, widened, known_prior, unknown, drives_stay=is_fitted), x)


def _move_inside(space: PhysicalSpace, x: Array, known: Array) -> Array:
    """Move x towards physical parameters of the same dynamics until every link is a solid body.

    x and `known` have the same base values, and so have all points between them; `space.move_inside` alone would change
    the base values a little.
    """
    if space.is_inside(x):
        return x
    low, high = 0.0, 1.0
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if space.is_inside(x + middle * (known - x)) else (middle, high)
    return space.move_inside(x + high * (known - x))


def _add_margins(space: PhysicalSpace, x: Array, *, drives_stay: bool) -> Array:
    """Move x without changing the dynamics until every link, if possible, is a solid body and not a point or a
    plate.
    """
    units, cones = space.units, space.cone_rows(space.units)
    start, enough = x / units, MIN_EIGENVALUE_RATIO * float(x[space.masses].mean())
    program = ConicProgram(space.size)
    margins = program.add_variables(space.link_count)
    program.cost[space.masses] = KEPT_MARGIN_FRACTION / enough
    program.cost[margins] = -1.0
    fixed = np.eye(space.size)[PARAMETERS_PER_LINK * space.link_count :] if drives_stay else np.zeros((0, space.size))
    ties = _independent_rows(np.vstack([space.matrix * units, fixed]))
    program.add_rows(ConeRows("zero", ties, -ties @ start))
    links = enumerate(cones[: space.link_count], space.size)
    program.add_rows(*(rows.with_margin(k, program.size, enough) for k, rows in links))
    unit_rows = np.hstack([np.zeros((space.link_count, space.size)), np.eye(space.link_count)])
    program.add_rows(
        ConeRows("nonnegative", np.vstack([unit_rows, -unit_rows]), np.repeat([0.0, 1.0], space.link_count))
    )
    if not drives_stay:
        program.add_rows(*cones[space.link_count :])
    try:
        solution = program.solve().x[: space.size]
    except ConicError:
        return x
    return match_values(space, units * solution, space.matrix @ x)


def _move_to_prior(space: PhysicalSpace, x: Array, prior: Prior, unknown: Sequence[int], *, drives_stay: bool) -> Array:
    """Return the physical parameters with the dynamics of x that are nearest to the prior.

    Fitted drives do not change, and unknown links are as compact as the values allow. If links are on the boundary of
    the physical set, the solver has no interior point; if it fails, these links are fixed.
    """
    margins = _link_margins(space, x)
    for limit in GYRATION_LIMITS if unknown else (None,):
        for fix_thin in (False, True):
            fixed = np.full(space.size, drives_stay)
            for i, margin in enumerate(margins):
                fixed[space.link(i)] = fix_thin and margin <= 0
            try:
                width_limits = (
                    [] if limit is None else [_width_rows(space, i, limit) for i in unknown if margins[i] > 0]
                )
                return _solve_nearest(space, x, prior, margins, fixed, width_limits)
            except ConicError:
                continue
    return x


def _solve_nearest(
    space: PhysicalSpace,
    x: Array,
    prior: Prior,
    margins: Sequence[float],
    fixed: NDArray[np.bool_],
    width_limits: Sequence[ConeRows],
) -> Array:
    """Return the nearest parameters with some of them fixed, and with further rows on links."""
    units, cones = space.units, space.cone_rows(space.units)
    ties = _independent_rows(np.vstack([space.matrix * units, np.eye(space.size)[fixed]]))
    program = ConicProgram(space.size)
    program.add_rows(ConeRows("zero", ties, -ties @ (x / units)))
    for i, (rows, margin) in enumerate(zip(cones, margins, strict=False)):
        if not fixed[space.link(i)].any():
            program.add_rows(_shift_cone(rows, KEPT_MARGIN_FRACTION * margin))
    program.add_rows(*width_limits)
    if not fixed[PARAMETERS_PER_LINK * space.link_count :].any():
        program.add_rows(*cones[space.link_count :])
    prior.add_to(program, space, units, 1.0, 1.0)
    return match_values(space, units * program.solve().x, space.matrix @ x)


def _width_rows(space: PhysicalSpace, link: int, limit: float) -> ConeRows:
    """Return the row tr(Sigma) <= r^2 m of one link.

    Sigma is about the origin of its frame, with tr(Sigma) = tr(J) / 2.
    """
    r = limit * max([space.length, *(float(np.linalg.norm(end)) for end in child_joint_positions(space, link))])
    row = np.zeros((1, space.size))
    row[0, space.link(link)] = np.array([r**2, 0, 0, 0, -0.5, 0, -0.5, 0, 0, -0.5]) * space.link_units / r**2
    return ConeRows("nonnegative", row, np.zeros(1))


def _link_margins(space: PhysicalSpace, x: Array) -> list[float]:
    """Return the smallest eigenvalue of the matrix of every link, or zero if it is negligible."""
    cones = space.cone_rows(space.units)[: space.link_count]
    values = [np.linalg.eigvalsh(matrix_of_triangle(rows.matrix @ (x / space.units))) for rows in cones]
    return [float(v[0]) if v[0] > EDGE_EIGENVALUE_RATIO * v[-1] else 0.0 for v in values]


def _independent_rows(rows: Array) -> Array:
    """Return an orthonormal basis of the row space."""
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(Vt[s > NULL_SINGULAR_VALUE * s[0]])


def _shift_cone(rows: ConeRows, margin: float) -> ConeRows:
    """Return the rows of a link, changed so that all eigenvalues are at least `margin`."""
    offset = rows.offset.copy()
    offset[DIAGONAL_PLACES] -= margin
    return replace(rows, offset=offset)


def _force_parameters(estimate: Estimate, space: PhysicalSpace) -> Array:
    """Return x with the link values of the estimate and positive masses, even if the inertia tensors are impossible."""
    W, units = relative_metric(space, estimate.beta), space.units
    masses = np.zeros((space.link_count, space.size))
    masses[range(space.link_count), range(0, PARAMETERS_PER_LINK * space.link_count, PARAMETERS_PER_LINK)] = 1.0
    program = ConicProgram(space.size)
    program.add_squares(W @ space.matrix * units, W @ estimate.beta)
    program.add_squares(CONSISTENT_DISTANCE * np.eye(space.size), np.zeros(space.size))
    program.add_rows(ConeRows("nonnegative", masses, np.full(space.link_count, -MIN_FORCED_MASS_KG)))
    signed = np.eye(space.size)[list(space.nonnegative)]
    if len(signed):
        program.add_rows(ConeRows("nonnegative", signed, np.zeros(len(signed))))
    x = units * program.solve().x
    x[list(space.nonnegative)] = np.maximum(x[list(space.nonnegative)], 0.0)
    return np.asarray(x)


def _build_robot(estimate: Estimate, space: PhysicalSpace, x: Array, notes: list[str], *, fitted: bool) -> Robot:
    robot, friction = estimate.robot, estimate.regressor.friction
    x[: PARAMETERS_PER_LINK * (BASE_COUNT - 1) if robot.has_floating_base else 0] = 0.0
    links = tuple(Link(link.name, x[space.link(i)], link.shapes) for i, link in enumerate(robot.links))
    drives, extras = robot.drives, robot.extras
    if space.base.with_drives:
        start = PARAMETERS_PER_LINK * len(robot.joints)
        stop = start + len(DRIVE_PARAMETERS) * len(drives)
        table = x[start:stop].reshape(-1, len(DRIVE_PARAMETERS)).tolist()
        named_rows: list[dict[str, Any]] = [dict(zip(DRIVE_PARAMETERS, row, strict=True)) for row in table]
        drives = tuple(replace(drive, **row) for drive, row in zip(drives, named_rows, strict=True))
        extras = tuple(replace(extra, coefficient=float(v)) for extra, v in zip(extras, x[stop:], strict=False))
    values = {parameter.identity: float(v) for parameter, v in zip(space.columns, x, strict=True)}
    shapes = friction_as_extras(robot, friction, values, fitted=fitted)
    if fitted and friction.direction == "tanh":
        drives = tuple(replace(drive, coulomb=0.0) for drive in drives)
    elif friction.direction != "sign":
        notes.append(_describe_transition(friction))
    if thin := [link.name for link, margin in zip(links, _link_margins(space, x), strict=True) if margin <= 0]:
        notes.append(f"links on the boundary of the physical set: {', '.join(thin)}")
    return replace(
        robot,
        links=links,
        drives=drives,
        extras=(*extras, *shapes),
        findings=(*robot.findings, *(info(FindingKind.COMPLETED_PARAMETERS, note) for note in notes)),
    )


def _describe_transition(friction: Friction) -> str:
    """Describe the transition of friction around zero velocity, which a model with sign(u) does not have."""
    width = (
        f"{friction.width:g} rad/s of speed"
        if friction.direction == "tanh"
        else f"{2 * friction.width:g} rad of travel"
    )
    return f"Coulomb friction of this model changes sign abruptly; in the fit the transition takes {width}"


def friction_as_extras(
    robot: Robot, friction: Friction, values: Mapping[tuple[Kind, str, str], float], *, fitted: bool
) -> list[ExtraTorque]:
    """Return friction shapes and joint-side friction as extra torques.

    With `fitted`, Coulomb friction is included too, with the transition around zero velocity of the fit. `values` are
    the parameters of the fit in their order.
    """
    width = friction.width if fitted and friction.direction == "tanh" else 0.0
    torques: list[ExtraTorque] = []
    taken = {extra.name for extra in robot.extras}
    gear_loads = drive_load_matrix(robot) if friction.needs_load else None
    for source, base_name, shape, weights, value in _friction_terms(robot, friction, values, coulomb=width > 0):
        for j in np.flatnonzero(weights) if value else ():
            joint = robot.joint_names[j]
            u = _format_sum(weights, int(j), "qd")
            load = "load" if gear_loads is None or source < 0 else _format_sum(gear_loads[:, source], int(j), "load")
            formula = friction.law(shape).text(u, f"tanh({u} / {width!r})" if width else f"sign({u})", load)
            name = base_name if base_name.endswith(joint) else f"{base_name}_on_{joint}"
            name = next(free for k in count(1) if (free := name if k == 1 else f"{name}_{k}") not in taken)
            taken.add(name)
            torques.append(ExtraTorque(name, joint, formula, float(value * weights[j])))
    return torques


def _friction_terms(
    robot: Robot, friction: Friction, values: Mapping[tuple[Kind, str, str], float], *, coulomb: bool
) -> Iterator[tuple[int, str, str, Array, float]]:
    """Yield drive number (-1: none), name, shape, w (n,) and value of every friction term."""
    for k, (drive, row) in enumerate(zip(robot.drives, friction_matrix(robot), strict=True)):
        joint, scale = drive.joint, drive.ratio if drive.side == "motor" else 1.0
        if coulomb:
            value = abs(scale) * values.get(("coulomb", joint, "fc"), 0.0)
            yield k, f"coulomb_{joint}", "direction", row / scale, value
        for shape in friction.shapes:
            yield k, f"{shape}_{joint}", shape, row / scale, values.get(("friction", joint, friction_label(shape)), 0.0)
    for joint in friction.joint_side:
        unit = np.eye(len(robot.joints))[robot.joint_index(joint)]
        for parameter, shape in zip(joint_side_parameters(robot, joint), ("speed", "direction"), strict=True):
            yield -1, f"{parameter.name}_{joint}", shape, unit, values.get(parameter.identity, 0.0)


def _format_sum(weights: Array, joint: int, variable: str) -> str:
    """Return the weighted sum of a variable over joints as a formula of one joint."""
    if np.count_nonzero(weights) == 1 and weights[joint]:
        return variable if weights[joint] == 1.0 else f"({float(weights[joint])!r} * {variable})"
    return "(" + " + ".join(f"{float(w)!r} * {variable}{j + 1}" for j, w in enumerate(weights) if w) + ")"
