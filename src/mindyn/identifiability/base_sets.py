"""`base_parameters`: every base set by the name of its form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import cast

from numpy.typing import ArrayLike

from mindyn.equations.loop_closure import loop_closure
from mindyn.errors import InputError, MissingPhysicsError, RobotError, UnknownNameError
from mindyn.identifiability.numeric import numeric_base
from mindyn.identifiability.random_states import Source
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.parallelogram import parallelogram_base
from mindyn.parameters.structural import structural_base
from mindyn.robots.robot import Robot

FORMS = ("structural", "lin", "gautier", "mayeda", "general", "numeric")
"""structural: exact for any tree; lin, gautier, mayeda, general: closed forms; numeric: from random states."""

_CLOSED_FORMS = {
    "lin": ("mindyn.parameters.lin", "lin_base"),
    "gautier": ("mindyn.parameters.gautier_khalil", "gautier_khalil_base"),
    "mayeda": ("mindyn.parameters.mayeda", "mayeda_base"),
    "general": ("mindyn.parameters.general", "general_base"),
}
_OF_LOOPS = ("structural", "mayeda", "numeric")
_OF_DRIVES = ("structural", "numeric")


def base_parameters(
    robot: Robot,
    form: str = "structural",
    *,
    drives: bool = False,
    priority: Sequence[str] | None = None,
    constraints: ArrayLike | None = None,
    seed: int = 0,
    home: ArrayLike | None = None,
) -> BaseParameters:
    """The base parameters of a robot in the given form; `notes` says which method made them.

    A robot with dependent joints has the closed form of parallelograms where that covers it, else the numeric set.

    drives       with rotor inertias, friction and offsets: forms structural and numeric
    priority     form numeric: labels in the order in which they are removed
    constraints  form numeric: (c, p) C with C phi = 0
    seed         form numeric: of the random states
    home         (n,) of a robot with loops: a closed configuration in the assembly that is meant; near q = 0 without
    """
    if form not in FORMS:
        raise UnknownNameError(
            f"no form {form!r} of base parameters; the forms are: {', '.join(FORMS)}",
            hint="structural serves every robot without loops",
        )
    if (priority is not None or constraints is not None) and form != "numeric":
        raise InputError(f"priority and constraints belong to form 'numeric', not to {form!r}")
    if drives and form not in _OF_DRIVES:
        raise InputError(f"form {form!r} knows no drives; with drives=True use one of: {', '.join(_OF_DRIVES)}")
    if drives and not (robot.drives or robot.extras):
        raise MissingPhysicsError(f"robot {robot.name!r} states no drives, but drives=True asks for their parameters")
    if form == "numeric":
        source: Source = "torque" if drives else "energy"
        return numeric_base(
            robot, source, priority=priority, constraints=constraints, drives=drives, seed=seed, home=home
        )
    if robot.has_dependents:
        return _with_loops(robot, form, drives=drives, seed=seed, home=home)
    if form == "structural":
        found = structural_base(robot, drives=drives)
        return _checked_extras(found, seed) if drives and robot.extras else found
    module, name = _CLOSED_FORMS[form]
    return cast(BaseParameters, getattr(import_module(module), name)(robot))


def _checked_extras(found: BaseParameters, seed: int) -> BaseParameters:
    """The structural set, or the numeric one where links or drives can imitate an extra torque."""
    sampled = numeric_base(found.robot, "torque", drives=True, seed=seed)
    if sampled.count == found.count:
        return found
    note = f"extra torques depend on link or drive parameters: {sampled.count} parameters, found numerically"
    return replace(sampled, notes=(*sampled.notes, note))


def _with_loops(robot: Robot, form: str, *, drives: bool, seed: int, home: ArrayLike | None) -> BaseParameters:
    """The closed form of parallelograms, or the numeric set with a note that says why."""
    if form not in _OF_LOOPS:
        raise RobotError(
            f"form {form!r} describes open chains, and robot {robot.name!r} has {robot.dependence}",
            hint=f"use one of: {', '.join(_OF_LOOPS)}",
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
