"""`base_parameters`: all base sets by the name of their form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.drives import load_dependent_extras, load_friction_error, require_drives
from mindyn.equations.identifiability.numeric import numeric_base, reduced_tree_base
from mindyn.equations.identifiability.random_states import RowSource, draw_positions, typical_rates
from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.algebra.values import RandomSource, seed_from
from mindyn.foundation.errors import Code, InputError, NearlyDegenerateError, RobotError, unknown_name_error
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.base_set_verification import (
    Deviation,
    append_drive_parameters,
    compute_deviation,
    sample_links,
    standard_set,
    tree_deviation,
)
from mindyn.parameters.gautier_khalil import gautier_khalil_base
from mindyn.parameters.general import general_base
from mindyn.parameters.lin import lin_base
from mindyn.parameters.mayeda import mayeda_base
from mindyn.parameters.parallelogram import parallelogram_base
from mindyn.parameters.structural import structural_base
from mindyn.robots.robot import Robot, require_robot

FORMS = ("structural", "lin", "gautier", "mayeda", "general", "numeric")
"""structural: exact for any tree; lin, gautier, mayeda, general: closed forms; numeric: from random states."""

_CLOSED_FORMS: dict[str, Callable[[Robot], BaseParameters]] = {
    "lin": lin_base,
    "gautier": gautier_khalil_base,
    "mayeda": mayeda_base,
    "general": general_base,
}
LOOP_STATES = 4

_LOOP_FORMS = ("structural", "mayeda", "numeric")
OPTION_FORMS = {
    **{"priority": ("numeric",), "constraints": ("numeric",), "tolerance": ("structural",)},
    "with_drives": ("structural", "numeric"),
}
"""Forms that an option of `base_parameters` applies to."""


def base_parameters(
    robot: Robot,
    form: str = "structural",
    *,
    with_drives: bool = False,
    priority: Sequence[str] | None = None,
    constraints: ArrayLike | None = None,
    rng: RandomSource = 0,
    tolerance: float | None = None,
) -> BaseParameters:
    """Compute the base parameters of a robot: the identifiable combinations of its standard parameters.

    Every set is compared with plain Newton-Euler on standard parameters before it is returned. If a set deviates, forms
    "structural" and "numeric" return a set that keeps more parameters, with a note; other forms raise an error. A robot
    with dependent joints gets the closed form of parallelograms if it applies, otherwise the numeric set.

    Parameters
    ----------
    robot : Robot
        The robot.
    form : {"structural", "lin", "gautier", "mayeda", "general", "numeric"}
        "structural" is exact for any tree; "numeric" uses random states; the others are closed forms of the literature.
    with_drives : bool
        Include rotor inertias, friction and offsets (forms "structural" and "numeric").
    priority : sequence of str, optional
        Labels in the order in which they are removed (form "numeric").
    constraints : array_like, shape (c, p), optional
        C with C phi = 0 (form "numeric"), see `constraint_matrix`.
    rng : int, numpy.random.Generator or None, default 0
        Seed or generator of the random states; None draws others in every call.
    tolerance : float, optional
        Drop parameters with a smaller effect, in the robot's own units (form "structural").

    Returns
    -------
    BaseParameters
        The set; its `notes` say which method was used.

    Raises
    ------
    UnknownNameError
        If there is no such form.
    InputError
        If an option does not apply to the form.
    MissingPhysicsError
        If `with_drives` is True and the robot has no drives.
    RobotError
        If the form does not cover the robot, or the set deviates.

    Examples
    --------
    >>> import mindyn
    >>> len(mindyn.base_parameters(mindyn.load_robot("puma560")))
    36
    """
    seed = seed_from(rng)
    require_robot(robot, "base_parameters")
    if form not in FORMS:
        raise unknown_name_error("form of base parameters", form, FORMS, "the forms are")
    options = {
        "priority": priority,
        "constraints": constraints,
        "tolerance": tolerance,
        "with_drives": with_drives or None,
    }
    for name, value in options.items():
        if value is not None and form not in OPTION_FORMS[name]:
            raise InputError(
                f"{name} is an option of form {' and '.join(map(repr, OPTION_FORMS[name]))}, not of {form!r}",
                code=Code.UNSUPPORTED,
                subject=name,
            )
    if with_drives:
        require_drives(robot)
    if with_drives and (loaded := load_dependent_extras(robot)):
        raise load_friction_error(loaded[0], "it is not linear in the link parameters, so no base set contains it")
    if form == "numeric":
        source: RowSource = "torque" if with_drives else "energy"
        try:
            sampled = numeric_base(
                robot, source, priority=priority, constraints=constraints, with_drives=with_drives, seed=seed
            )
            return sampled if constraints is not None else _certify_set(sampled)
        except NearlyDegenerateError as error:
            if priority is not None or constraints is not None:
                raise
            return _keep_more(robot, error.message, with_drives=with_drives, seed=seed)
    if robot.has_dependents:
        left_open = home_closure(robot).notes
        base = _base_of_dependents(robot, form, with_drives=with_drives, seed=seed)
        return replace(base, notes=(*left_open, *base.notes)) if left_open else base
    if form == "structural":
        base = structural_base(robot, with_drives=with_drives, tolerance=tolerance)
        if tolerance is not None:
            return base  # parameters dropped on request have an effect, which the note states
        base = _certify_set(base)
        return _check_extras(base, seed) if with_drives and robot.extras else base
    return _certify_set(_CLOSED_FORMS[form](robot))


def _certify_set(base: BaseParameters) -> BaseParameters:
    """Return the set if its torques equal those of standard parameters; otherwise do as `base_parameters` describes."""
    robot = base.robot
    if robot.extras and base.with_drives and base.form != "structural":
        return base  # columns of extra torques are compared when they are sampled
    deviation = _deviation(base)
    if not deviation.is_wrong:
        return base
    joint = robot.primary_joints[deviation.joint].name
    off = f"an error of {deviation.size:.1e} at joint {joint!r}, relative to the terms of its torque"
    if base.form == "structural":
        note = f"the reduction to base parameters would have {off}: all standard parameters are kept"
        return standard_set(robot, with_drives=base.with_drives, note=note)
    raise NearlyDegenerateError(
        f"form {base.form!r} does not hold for robot {robot.name!r}: its torques would have {off}; the geometry "
        "is nearly degenerate",
        hint='use form="structural", or load with snap=True if the file rounds its angles',
        subject=base.form,
    )


def _base_of_dependents(robot: Robot, form: str, *, with_drives: bool, seed: int) -> BaseParameters:
    """Return the set of a robot with dependent joints; a larger set if the geometry is nearly degenerate."""
    try:
        if robot.has_floating_base:  # sampled alone, the massless links of the base would have parameters
            return _certify_set(reduced_tree_base(structural_base(robot, with_drives=with_drives), seed=seed))
        return _certify_set(_base_with_loops(robot, form, with_drives=with_drives, seed=seed))
    except NearlyDegenerateError as error:
        if form != "structural":
            raise
        return _keep_more(robot, error.message, with_drives=with_drives, seed=seed)


def _keep_more(robot: Robot, why: str, *, with_drives: bool, seed: int) -> BaseParameters:
    """Return a larger set for a nearly degenerate robot.

    The set keeps parameters with very small effects, so that torques stay exact.
    """
    tree = structural_base(robot, with_drives=with_drives)
    kept_more = (
        (reduced_tree_base(tree, seed=seed), "numeric, among the open tree's parameters"),
        (tree, "the open tree's parameters, some of which are not separately identifiable"),
    )
    for base, which in kept_more:
        if not _deviation(base).is_wrong:
            return replace(base, notes=(f"{which}: {why}", *base.notes))
    return standard_set(robot, with_drives=with_drives, note=f"{why}: all standard parameters are kept")


def _deviation(base: BaseParameters) -> Deviation:
    return _deviation_in_loops(base) if base.robot.has_dependents else tree_deviation(base)


def _deviation_in_loops(base: BaseParameters) -> Deviation:
    """Return the deviation of a set of a robot with loops, in its primary joints, at states that were not used to
    compute the set.
    """
    robot = base.robot
    rows = Regressors(robot, with_drives=base.with_drives)
    rng = np.random.default_rng(12345)
    q = draw_positions(robot, rng, LOOP_STATES)
    speeds, accelerations = typical_rates(robot)
    qd, qdd = rng.uniform(-1, 1, (2, *q.shape))
    qd, qdd = qd * speeds, qdd * accelerations
    links = sample_links(robot)
    if base.with_drives and robot.drives:
        links = append_drive_parameters(robot, links)
    Y = rows.torque_rows(q, qd, qdd)[..., : links.shape[1]]
    return compute_deviation(base, Y[np.isfinite(Y).all(axis=(1, 2))], links)


def _check_extras(base: BaseParameters, seed: int) -> BaseParameters:
    """Return the structural set, or the numeric one if links or drives can imitate an extra torque."""
    sampled = numeric_base(base.robot, "torque", with_drives=True, seed=seed)
    if sampled.count == base.count:
        return base
    note = f"extra torques depend on link or drive parameters: {sampled.count} parameters, found numerically"
    return replace(sampled, notes=(*sampled.notes, note))


def _base_with_loops(robot: Robot, form: str, *, with_drives: bool, seed: int) -> BaseParameters:
    """Return the closed form of parallelograms, or the numeric set with a note that says why."""
    if form not in _LOOP_FORMS:
        raise RobotError(
            f"form {form!r} is for open chains, and robot {robot.name!r} has {robot.dependence}",
            hint=f"use one of: {', '.join(_LOOP_FORMS)}",
            code=Code.UNSUPPORTED,
            subject=form,
        )
    if with_drives or robot.mimics:
        why = f"no closed form covers {'dependent joints with drives' if with_drives else 'mimic joints'}"
    else:
        closed = home_closure(robot).home
        try:
            return parallelogram_base(robot, closed)
        except RobotError as uncovered:
            if form == "mayeda":
                raise
            why = uncovered.message
    base = numeric_base(robot, "torque" if with_drives else "energy", with_drives=with_drives, seed=seed)
    return replace(base, notes=(f"numeric: {why}", *base.notes))
