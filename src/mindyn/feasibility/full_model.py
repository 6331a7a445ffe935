"""`full_model`: a robot with the parameters of every link and drive, behind an estimate's base values.

Friction of an estimate beyond what drives state becomes extra torques. Friction k acts on the speed u = w . qd (w: what
the motor turns with the joints, joint side) with a direction s, the sign of u or what the fit took for it, and its
torque on joint j is value * w_j * law(u, s, load) (`mindyn.robots.friction_laws`); the load is the one that the gear
has of all joints, l . load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.inertia import phi_about_origin
from mindyn.algebra.values import Array
from mindyn.errors import ExportError, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.conic import DIAGONAL_PLACES, ConeRows, ConicError, ConicProgram, matrix_of_triangle
from mindyn.feasibility.consistent import CONSISTENT_DISTANCE, check_consistent
from mindyn.feasibility.nearest import match_values, relative_metric
from mindyn.feasibility.physical_space import MIN_LENGTH_M, PhysicalSpace, physical_values, space_of
from mindyn.feasibility.priors import Prior, build_prior
from mindyn.findings import Kind as FindingKind
from mindyn.findings import info
from mindyn.notation import DRIVE_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.parameter import Kind, friction_label, joint_side_parameters
from mindyn.regression.friction import Friction
from mindyn.robots.drive_matrices import drive_load_matrix, friction_matrix
from mindyn.robots.friction_laws import FRICTION_LAWS
from mindyn.robots.parts import Drive, ExtraTorque, Link
from mindyn.robots.robot import Robot

KEPT_MARGIN_FRACTION: Final = 1e-2
"""Part of the room that a link has which it keeps when it moves towards the prior: exact values stay physical."""
EDGE_EIGENVALUE_RATIO: Final = 1e-6
"""A link whose smallest eigenvalue is a smaller part of the largest is at the edge of what is physical."""
MIN_EIGENVALUE_RATIO: Final = 1e-2
"""Least eigenvalue that a link should have, as part of the mean mass, lengths in units of the robot's."""
GYRATION_LIMITS: Final = (1.0, 2.0, None)
"""Radii of gyration about the joint that a link may have, tried in turn, as multiples of its length."""
NULL_SINGULAR_VALUE: Final = 1e-10
"""Singular values that are a smaller part of the largest are zero."""
BISECTION_STEPS: Final = 30
"""Of the way from the parameters nearest to the prior to those known to be inside."""
MIN_FORCED_MASS_KG: Final = 1e-3
"""kg; least mass of a link that is written although nothing has its values."""


def full_model(
    estimate: Estimate,
    prior: Robot | Literal["robot"] | None = "robot",
    *,
    friction: Literal["sign", "fitted"] = "sign",
    force: bool = False,
) -> Robot:
    """The robot with standard parameters of every link, rotor inertia and friction, whose torques are the estimate's.

    prior  where base values leave open which link has what: nearest to the inertials of a `Robot` with the same links,
           or of the estimate's own ("robot"; a fit near a prior of all links keeps its values), and of links that
           state none, or a placeholder, nearest to a ball between their joints. None: the least total mass
    friction  "sign": Coulomb friction of the drives, as simulations and other formats know it; "fitted": turning over
              as in the fit, where that was tanh, by extra torques: for code that shall give the estimate's torques
    force  an estimate that no arm can have gives links that no body can be

    Friction shapes become extra torques. Notes of the robot name friction that turns over otherwise than in the fit,
    and links at the edge of what a body can be.
    """
    if friction not in ("sign", "fitted"):
        raise InputError(f'friction = {friction!r}; it may be "sign" or "fitted"')
    space = space_of(estimate.regressor)
    notes: list[str] = []
    x = physical_values(estimate, space)
    held = estimate.physical
    near = held is not None and set(held.prior_links) == set(estimate.robot.link_names)
    if x is None or not (near and prior == "robot"):
        x = _complete_parameters(estimate, space, x, prior, notes, force=force)
    return _build_robot(estimate, space, x, notes, fitted=friction == "fitted")


def _complete_parameters(
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
        answer = check_consistent(estimate)
        if not answer.holds and not force:
            raise ExportError(
                f"the estimate is not physically consistent: {answer.reason}",
                hint="make_feasible(estimate) moves it the least (mindyn export --feasible); "
                "force=True (--force) gives links that no body can be",
            )
        if not answer.holds:
            notes.append(f"forced: {answer.sentence}")
            return _force_parameters(estimate, space)
        x = space.move_inside(np.array(list(answer.witness["physical"].values())))
    light = _move_to_prior(space, x, build_prior(estimate.robot, None, "euclidean"), [], drives_stay=own)
    if prior is None:
        return _move_inside(space, light, x)
    believed = build_prior(estimate.robot, prior, "euclidean")
    notes += believed.notes
    unknown = [i for i, phi in enumerate(believed.links) if phi is None]
    believed = replace(believed, links=_fill_with_balls(space, light, believed.links, unknown))
    roomy = _add_margins(space, light, drives_stay=own)
    return _move_inside(space, _move_to_prior(space, roomy, believed, unknown, drives_stay=own), x)


def _move_inside(space: PhysicalSpace, x: Array, known: Array) -> Array:
    """x moved towards physical parameters of the same dynamics until every link is a solid body.

    Both have the same base values, and so has all between them; `space.inside` alone would move them a little.
    """
    if space.is_inside(x):
        return x
    low, high = 0.0, 1.0
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if space.is_inside(x + middle * (known - x)) else (middle, high)
    return space.move_inside(x + high * (known - x))


def _fill_with_balls(
    space: PhysicalSpace, x: Array, links: Sequence[Array | None], unknown: Sequence[int]
) -> tuple[Array | None, ...]:
    """The links' phi; of those of which nothing is known, a ball midway to the joints that they carry.

    Its mass is the link's in x, parameters of the least total mass, or the mean of all links where that is more.
    """
    masses, made = x[space.masses], list(links)
    for i in unknown:
        middle = np.mean([np.zeros(3), *_child_joint_positions(space, i)], axis=0)
        radius = max(MIN_LENGTH_M, float(np.linalg.norm(middle)))
        mass = max(float(masses[i]), float(masses.mean()))
        made[i] = phi_about_origin(mass, middle, 0.4 * mass * radius**2 * np.eye(3))
    return tuple(made)


def _child_joint_positions(space: PhysicalSpace, link: int) -> list[Array]:
    """Where the joints that a link carries are on it."""
    name = space.robot.links[link].name
    return [joint.origin.translation for joint in space.robot.joints if joint.parent == name]


def _add_margins(space: PhysicalSpace, x: Array, *, drives_stay: bool) -> Array:
    """x moved within its dynamics until every link that can be is a solid body, not a point or a plate."""
    units, cones = space.units, space.cone_rows(space.units)
    start, enough = x / units, MIN_EIGENVALUE_RATIO * float(x[space.masses].mean())
    program = ConicProgram(space.size)
    rooms = program.add_variables(space.link_count)
    program.cost[space.masses] = KEPT_MARGIN_FRACTION / enough
    program.cost[rooms] = -1.0
    held = np.eye(space.size)[PARAMETERS_PER_LINK * space.link_count :] if drives_stay else np.zeros((0, space.size))
    ties = _independent_rows(np.vstack([space.matrix * units, held]))
    program.add_rows(ConeRows("zero", ties, -ties @ start))
    for i, rows in enumerate(cones[: space.link_count]):
        wider = np.hstack([rows.matrix, np.zeros((len(rows.offset), space.link_count))])
        wider[DIAGONAL_PLACES, space.size + i] = -enough
        program.add_rows(ConeRows(rows.kind, wider, rows.offset, rows.order))
    one = np.hstack([np.zeros((space.link_count, space.size)), np.eye(space.link_count)])
    program.add_rows(ConeRows("nonnegative", np.vstack([one, -one]), np.repeat([0.0, 1.0], space.link_count)))
    if not drives_stay:
        program.add_rows(*cones[space.link_count :])
    try:
        found = program.solve().x[: space.size]
    except ConicError:
        return x
    return match_values(space, units * found, space.matrix @ x)


def _move_to_prior(space: PhysicalSpace, x: Array, prior: Prior, unknown: Sequence[int], *, drives_stay: bool) -> Array:
    """Of all physical parameters with the dynamics of x those nearest to the prior; a fit's own drives stay.

    Unknown links are as compact as the values allow. Links that the values leave at the edge of what is physical leave
    a solver no room either: where it fails, they stay as they are.
    """
    room = _link_margins(space, x)
    for wide in GYRATION_LIMITS if unknown else (None,):
        for thin_stay in (False, True):
            held = np.full(space.size, drives_stay)
            for i, thin in enumerate(room):
                held[space.link(i)] = thin_stay and thin <= 0
            try:
                slim = [] if wide is None else [_width_rows(space, i, wide) for i in unknown if room[i] > 0]
                return _solve_nearest(space, x, prior, room, held, slim)
            except ConicError:
                continue
    return x


def _solve_nearest(
    space: PhysicalSpace,
    x: Array,
    prior: Prior,
    room: Sequence[float],
    held: NDArray[np.bool_],
    slim: Sequence[ConeRows],
) -> Array:
    """The nearest with what is held, and with further conditions on links."""
    units, cones = space.units, space.cone_rows(space.units)
    ties = _independent_rows(np.vstack([space.matrix * units, np.eye(space.size)[held]]))
    program = ConicProgram(space.size)
    program.add_rows(ConeRows("zero", ties, -ties @ (x / units)))
    for i, (rows, thin) in enumerate(zip(cones, room, strict=False)):
        if not held[space.link(i)].any():
            program.add_rows(_shift_cone(rows, KEPT_MARGIN_FRACTION * thin))
    program.add_rows(*slim)
    if not held[PARAMETERS_PER_LINK * space.link_count :].any():
        program.add_rows(*cones[space.link_count :])
    prior.add_to(program, space, units, 1.0, 1.0)
    return match_values(space, units * program.solve().x, space.matrix @ x)


def _width_rows(space: PhysicalSpace, link: int, wide: float) -> ConeRows:
    """tr(Sigma) <= r^2 m of one link, Sigma about its frame's origin, tr(Sigma) = tr(J) / 2."""
    r = wide * max([space.length, *(float(np.linalg.norm(end)) for end in _child_joint_positions(space, link))])
    row = np.zeros((1, space.size))
    row[0, space.link(link)] = np.array([r**2, 0, 0, 0, -0.5, 0, -0.5, 0, 0, -0.5]) * space.link_units / r**2
    return ConeRows("nonnegative", row, np.zeros(1))


def _link_margins(space: PhysicalSpace, x: Array) -> list[float]:
    """The room of every link."""
    return [_link_margin(rows, x / space.units) for rows in space.cone_rows(space.units)[: space.link_count]]


def _link_margin(rows: ConeRows, v: Array) -> float:
    """The smallest eigenvalue of a link's matrix, zero where it is a mere part of the largest."""
    values = np.linalg.eigvalsh(matrix_of_triangle(rows.matrix @ v))
    return float(values[0]) if values[0] > EDGE_EIGENVALUE_RATIO * values[-1] else 0.0


def _independent_rows(rows: Array) -> Array:
    """An orthonormal basis of the space that rows span."""
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(Vt[s > NULL_SINGULAR_VALUE * s[0]])


def _shift_cone(rows: ConeRows, margin: float) -> ConeRows:
    """The rows of a link with all eigenvalues at least `margin`."""
    offset = rows.offset.copy()
    offset[DIAGONAL_PLACES] -= margin
    return ConeRows(rows.kind, rows.matrix, offset, rows.order)


def _force_parameters(estimate: Estimate, space: PhysicalSpace) -> Array:
    """x with the estimate's link values and positive masses, whatever the tensors; drives as near as they can be."""
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
    links = tuple(Link(link.name, x[space.link(i)], link.shapes) for i, link in enumerate(robot.links))
    start = PARAMETERS_PER_LINK * robot.joint_count
    drives = robot.drives
    if space.base.drives:
        stop = start + len(DRIVE_PARAMETERS) * len(drives)
        table = x[start:stop].reshape(-1, len(DRIVE_PARAMETERS)).tolist()
        drives = tuple(_replace_drive_values(drive, *row) for drive, row in zip(drives, table, strict=True))
        start = stop
    extras = robot.extras
    if space.base.drives:
        extras = tuple(replace(one, coefficient=float(v)) for one, v in zip(extras, x[start:], strict=False))
    values = {one.identity: float(v) for one, v in zip(space.columns, x, strict=True)}
    shapes = friction_torques(robot, friction, values, fitted=fitted)
    if fitted and friction.direction == "tanh":
        drives = tuple(replace(drive, coulomb=0.0) for drive in drives)
    elif friction.direction != "sign":
        notes.append(_describe_transition(friction))
    if thin := [link.name for link, room in zip(links, _link_margins(space, x), strict=True) if room <= 0]:
        notes.append(f"at the edge of what a body can be: {', '.join(thin)}")
    return replace(
        robot,
        links=links,
        drives=drives,
        extras=(*extras, *shapes),
        findings=(*robot.findings, *(info(FindingKind.COMPLETED_PARAMETERS, note) for note in notes)),
    )


def _replace_drive_values(drive: Drive, rotor_inertia: float, viscous: float, coulomb: float, offset: float) -> Drive:
    return replace(drive, rotor_inertia=rotor_inertia, viscous=viscous, coulomb=coulomb, offset=offset)


def _describe_transition(friction: Friction) -> str:
    """What a model with sign(u) leaves out of a fitted direction that turns over gradually."""
    over = (
        f"{friction.width:g} rad/s of speed"
        if friction.direction == "tanh"
        else f"{2 * friction.width:g} rad of travel"
    )
    return f"in this model Coulomb friction changes sign at once; in the fit it did so over {over}"


def friction_torques(
    robot: Robot, friction: Friction, values: Mapping[tuple[Kind, str, str], float], *, fitted: bool
) -> list[ExtraTorque]:
    """Friction shapes and joint-side friction; with `fitted` Coulomb friction too, turning over as in the fit.

    values  of the fit's parameters by their place
    """
    width = friction.width if fitted and friction.direction == "tanh" else 0.0
    made: list[ExtraTorque] = []
    taken = {one.name for one in robot.extras}
    shares = drive_load_matrix(robot) if friction.needs_load else None
    for source, wanted, shape, weights, value in _friction_terms(robot, friction, values, coulomb=width > 0):
        for j in np.flatnonzero(weights) if value else ():
            joint = robot.joint_names[j]
            u = _format_sum(weights, int(j), "qd")
            load = "load" if shares is None or source < 0 else _format_sum(shares[:, source], int(j), "load")
            formula = FRICTION_LAWS[shape].text(u, f"tanh({u} / {width!r})" if width else f"sign({u})", load)
            name = wanted if wanted.endswith(joint) else f"{wanted}_on_{joint}"
            name = next(one for k in count(1) if (one := name if k == 1 else f"{name}_{k}") not in taken)
            taken.add(name)
            made.append(ExtraTorque(name, joint, formula, float(value * weights[j])))
    return made


def _friction_terms(
    robot: Robot, friction: Friction, values: Mapping[tuple[Kind, str, str], float], *, coulomb: bool
) -> Iterator[tuple[int, str, str, Array, float]]:
    """Number of the drive (-1: none), name, shape, w (n,) and value of every friction."""
    for k, (drive, row) in enumerate(zip(robot.drives, friction_matrix(robot), strict=True)):
        joint, scale = drive.joint, drive.ratio if drive.side == "motor" else 1.0
        if coulomb:
            value = abs(scale) * values.get(("coulomb", joint, "fc"), 0.0)
            yield k, f"coulomb_{joint}", "direction", row / scale, value
        for shape in friction.shapes:
            yield k, f"{shape}_{joint}", shape, row / scale, values.get(("friction", joint, friction_label(shape)), 0.0)
    for joint in friction.joint_side:
        unit = np.eye(robot.joint_count)[robot.joint_index(joint)]
        for one, shape in zip(joint_side_parameters(robot, joint), ("speed", "direction"), strict=True):
            yield -1, f"{one.name}_{joint}", shape, unit, values.get(one.identity, 0.0)


def _format_sum(weights: Array, joint: int, variable: str) -> str:
    """The weighted sum of a variable over joints as a formula of one of them: its own, or a sum by number."""
    if np.count_nonzero(weights) == 1 and weights[joint]:
        return variable if weights[joint] == 1.0 else f"({float(weights[joint])!r} * {variable})"
    return "(" + " + ".join(f"{float(w)!r} * {variable}{j + 1}" for j, w in enumerate(weights) if w) + ")"
