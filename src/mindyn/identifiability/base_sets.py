"""`base_parameters`: every base set by the name of its form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.drives import load_dependent_extras, load_friction_error
from mindyn.equations.loop_closure import home_closure, loop_closure, with_home
from mindyn.errors import InputError, MissingPhysicsError, NearlyDegenerateError, RobotError, UnknownNameError
from mindyn.identifiability.numeric import numeric_base, reduced_tree_base
from mindyn.identifiability.random_states import RowSource, make_regressors, typical_rates
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.certificate import (
    Deviation,
    append_drive_parameters,
    compute_deviation,
    sample_links,
    standard_set,
    tree_deviation,
)
from mindyn.parameters.parallelogram import parallelogram_base
from mindyn.parameters.structural import structural_base
from mindyn.robots.robot import Robot, require_robot

FORMS = ("structural", "lin", "gautier", "mayeda", "general", "numeric")
"""structural: exact for any tree; lin, gautier, mayeda, general: closed forms; numeric: from random states."""

_CLOSED_FORMS = {
    "lin": ("mindyn.parameters.lin", "lin_base"),
    "gautier": ("mindyn.parameters.gautier_khalil", "gautier_khalil_base"),
    "mayeda": ("mindyn.parameters.mayeda", "mayeda_base"),
    "general": ("mindyn.parameters.general", "general_base"),
}
LOOP_STATES = 4

_LOOP_FORMS = ("structural", "mayeda", "numeric")
_DRIVE_FORMS = ("structural", "numeric")


def base_parameters(
    robot: Robot,
    form: str = "structural",
    *,
    drives: bool = False,
    priority: Sequence[str] | None = None,
    constraints: ArrayLike | None = None,
    seed: int = 0,
    home: ArrayLike | None = None,
    tolerance: float | None = None,
) -> BaseParameters:
    """The base parameters of a robot in the given form; `notes` says which method made them.

    Every set is compared with plain Newton-Euler on standard parameters before it is returned. One that deviates is
    refused, except for forms structural and numeric: a set that keeps more parameters comes in its place, with a note.

    A robot with dependent joints has the closed form of parallelograms where that covers it, else the numeric set.

    drives       with rotor inertias, friction and offsets: forms structural and numeric
    priority     form numeric: labels in the order in which they are removed
    constraints  form numeric: (c, p) C with C phi = 0
    seed         form numeric: of the random states
    tolerance    form structural: parameters that show by less than this, in the robot's own units, are dropped too
    home         (n,) of a robot with loops: a closed configuration in the assembly that is meant; near q = 0 without
    """
    require_robot(robot, "base parameters are those of")
    if form not in FORMS:
        raise UnknownNameError(
            f"no form {form!r} of base parameters; the forms are: {', '.join(FORMS)}",
            hint="structural serves every robot without loops",
        )
    if (priority is not None or constraints is not None) and form != "numeric":
        raise InputError(f"priority and constraints belong to form 'numeric', not to {form!r}")
    if tolerance is not None and form != "structural":
        raise InputError(f"tolerance belongs to form 'structural', not to {form!r}")
    if drives and form not in _DRIVE_FORMS:
        raise InputError(f"form {form!r} knows no drives; with drives=True use one of: {', '.join(_DRIVE_FORMS)}")
    if drives and not (robot.drives or robot.extras):
        raise MissingPhysicsError(f"robot {robot.name!r} states no drives, but drives=True asks for their parameters")
    if drives and (loaded := load_dependent_extras(robot)):
        raise load_friction_error(
            loaded[0], "it is not linear in the parameters of the links, so that no base set has it"
        )
    if form == "numeric":
        source: RowSource = "torque" if drives else "energy"
        try:
            sampled = numeric_base(
                robot, source, priority=priority, constraints=constraints, drives=drives, seed=seed, home=home
            )
            return sampled if constraints is not None else _certify_set(sampled, home)
        except NearlyDegenerateError as error:
            if priority is not None or constraints is not None:
                raise
            return _keep_more(robot, error.message, drives=drives, seed=seed, home=home)
    if robot.has_dependents:
        left_open = home_closure(with_home(robot, home)).notes
        found = _base_of_dependents(robot, form, drives=drives, seed=seed, home=home)
        return replace(found, notes=(*left_open, *found.notes)) if left_open else found
    if form == "structural":
        found = structural_base(robot, drives=drives, tolerance=tolerance)
        if tolerance is not None:
            return found  # what is dropped on request shows; its note says by how much
        found = _certify_set(found)
        return _check_extras(found, seed) if drives and robot.extras else found
    module, name = _CLOSED_FORMS[form]
    return _certify_set(cast(BaseParameters, getattr(import_module(module), name)(robot)))


def _certify_set(base: BaseParameters, home: ArrayLike | None = None) -> BaseParameters:
    """The set, where it gives the torques of standard parameters; see `base_parameters` for where it does not."""
    robot = base.robot
    if robot.extras and base.drives and base.form != "structural":
        return base  # columns of extra torques are compared where they are sampled
    deviation = _deviation(base, home)
    if not deviation.is_wrong:
        return base
    joint = robot.primary_joints[deviation.joint].name
    off = f"{deviation.size:.1e} off at joint {joint!r} beside the terms of its torque"
    if base.form == "structural":
        note = f"the reduction to base parameters would be {off}: all standard parameters are kept"
        return standard_set(robot, drives=base.drives, note=note)
    raise NearlyDegenerateError(
        f"form {base.form!r} does not hold for robot {robot.name!r}: its torques would be {off}; the geometry is "
        "nearly degenerate there",
        hint='use form="structural", or load with snap=True if the file rounds its angles',
    )


def _base_of_dependents(robot: Robot, form: str, *, drives: bool, seed: int, home: ArrayLike | None) -> BaseParameters:
    """The set of a robot with dependent joints; where its geometry is nearly degenerate, one that keeps more."""
    try:
        return _certify_set(_base_with_loops(robot, form, drives=drives, seed=seed, home=home), home)
    except NearlyDegenerateError as error:
        if form != "structural":
            raise
        return _keep_more(robot, error.message, drives=drives, seed=seed, home=home)


def _keep_more(robot: Robot, why: str, *, drives: bool, seed: int, home: ArrayLike | None) -> BaseParameters:
    """Return a set of a nearly degenerate robot that keeps what shows ever so little: its torques are right."""
    tree = structural_base(robot, drives=drives)
    kept_more = (
        (reduced_tree_base(tree, seed=seed, home=home), "numeric, among the open tree's parameters"),
        (tree, "the open tree's parameters, some of which show only together"),
    )
    for found, which in kept_more:
        if not _deviation(found, home).is_wrong:
            return replace(found, notes=(f"{which}: {why}", *found.notes))
    return standard_set(robot, drives=drives, note=f"{why}: all standard parameters are kept")


def _deviation(base: BaseParameters, home: ArrayLike | None) -> Deviation:
    return _deviation_in_loops(base, home) if base.robot.has_dependents else tree_deviation(base)


def _deviation_in_loops(base: BaseParameters, home: ArrayLike | None) -> Deviation:
    """Of a set of a robot with loops, in its primary joints, at states that made no part of it."""
    robot = base.robot
    rows = make_regressors(robot, drives=base.drives, home=home)
    rng = np.random.default_rng(12345)
    q = rows.random_positions(rng, LOOP_STATES)
    speeds, accelerations = typical_rates(robot)
    qd, qdd = rng.uniform(-1, 1, (2, *q.shape))
    qd, qdd = qd * speeds, qdd * accelerations
    links = sample_links(robot)
    if base.drives and robot.drives:
        links = append_drive_parameters(robot, links)
    Y = rows.torque_rows(q, qd, qdd)[..., : links.shape[1]]
    return compute_deviation(base, Y[np.isfinite(Y).all(axis=(1, 2))], links)


def _check_extras(found: BaseParameters, seed: int) -> BaseParameters:
    """The structural set, or the numeric one where links or drives can imitate an extra torque."""
    sampled = numeric_base(found.robot, "torque", drives=True, seed=seed)
    if sampled.count == found.count:
        return found
    note = f"extra torques depend on link or drive parameters: {sampled.count} parameters, found numerically"
    return replace(sampled, notes=(*sampled.notes, note))


def _base_with_loops(robot: Robot, form: str, *, drives: bool, seed: int, home: ArrayLike | None) -> BaseParameters:
    """The closed form of parallelograms, or the numeric set with a note that says why."""
    if form not in _LOOP_FORMS:
        raise RobotError(
            f"form {form!r} describes open chains, and robot {robot.name!r} has {robot.dependence}",
            hint=f"use one of: {', '.join(_LOOP_FORMS)}",
        )
    if drives:
        base = numeric_base(robot, "torque", drives=True, seed=seed, home=home)
        return replace(base, notes=("numeric: no closed form covers dependent joints with drives", *base.notes))
    if robot.mimics:
        base = numeric_base(robot, seed=seed, home=home)
        return replace(base, notes=("numeric: no closed form covers mimic joints", *base.notes))
    closed = loop_closure(robot, home).home
    try:
        return parallelogram_base(robot, closed)
    except RobotError as uncovered:
        if form == "mayeda":
            raise
        base = numeric_base(robot, seed=seed, home=home)
        return replace(base, notes=(f"numeric: {uncovered.message}", *base.notes))
