"""Equations of a model, once compared with plain Newton-Euler; that they passed is kept with the cached kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mindyn.algebra.values import hashable_content
from mindyn.equations.catalogue import Function
from mindyn.equations.certificate import ReferenceDynamics, deviation_error, equation_deviation
from mindyn.equations.traces import Parameters
from mindyn.numerics.cache import load_or_build
from mindyn.parameters.certificate import Deviation

NEARLY_DEGENERATE_HINT = (
    "the geometry is nearly degenerate: load with snap=True if the file rounds its angles, or take "
    'parameters="standard" and the structural base set'
)


Alternative = tuple[Parameters | None, bool]
"""Parameters that an equation is made of, None for the model's own; and whether frames may be moved for it."""


def list_alternatives(*, reducible: bool, movable: bool) -> list[Alternative]:
    """What may be tried where a model's own equation deviates.

    reducible  base parameters were its makers' choice, which standard ones may replace
    movable    frames were, too, and may be the source's own
    """
    ways: list[Alternative] = [("standard", True)] if reducible else []
    return [*ways, ("standard" if reducible else None, False)] if movable else ways


def certify_equation(
    traced: Callable[[Parameters | None, bool], Function],
    witness: ReferenceDynamics,
    others: Sequence[Alternative],
) -> tuple[Function, tuple[str, ...]]:
    """The equation if it holds, and no note; else the first of other ways to it that holds, with a note; else an error.

    traced  makes the equation, with parameters as the model has them (None) or as they are named, in frames that may be
            moved or not
    others  what else may be tried, in that order
    """
    function = traced(None, True)
    deviation = load_or_compute_deviation(function, witness)
    if not deviation.is_wrong:
        return function, ()
    robot, name, last = witness.robot, function.name(), deviation
    for parameters, moved in others:
        function = traced(parameters, moved)
        last = load_or_compute_deviation(function, witness)
        if not last.is_wrong:
            joint = robot.primary_joints[deviation.joint].name
            whose = "standard parameters" if parameters == "standard" else "its parameters"
            where = "" if moved else " in the file's own frames"
            shorter = f"in fewer operations it would be {deviation.size:.1e} off at joint {joint!r}"
            return function, (f"{name} is computed from {whose}{where}: {shorter}",)
    raise deviation_error(robot, name, last, NEARLY_DEGENERATE_HINT)


def load_or_compute_deviation(function: Function, witness: ReferenceDynamics) -> Deviation:
    """Of an equation from standard parameters; from the cache where this very function was compared before."""
    if witness.base is not None and witness.base.survivors is None and witness.base.form == "numeric":
        return Deviation(0, 0.0)  # parameters under constraints: right for those that obey them alone

    told = (witness.drives, witness.parameters)
    key = ("certificate", function.serialize(), repr(hashable_content(witness.robot)), repr(told))
    try:
        joint, size = np.frombuffer(
            load_or_build(key, lambda: _encode_passing(equation_deviation(function, witness)), prune=False)
        )
    except _DeviationError as found:
        return found.deviation
    return Deviation(int(joint), float(size))


class _DeviationError(Exception):
    def __init__(self, deviation: Deviation) -> None:
        super().__init__()
        self.deviation = deviation


def _encode_passing(found: Deviation) -> bytes:
    if found.is_wrong:
        raise _DeviationError(found)
    return np.array([float(found.joint), found.size]).tobytes()
