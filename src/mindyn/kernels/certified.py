"""Equations of a model, once compared with plain Newton-Euler; that they passed is kept with the cached kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mindyn.algebra.values import content
from mindyn.equations.catalogue import Function
from mindyn.equations.certificate import Witness, equation_deviation, refusal
from mindyn.equations.traces import Parameters
from mindyn.numerics.cache import cached
from mindyn.parameters.certificate import Deviation

HINT = (
    "the geometry is nearly degenerate: load with snap=True if the file rounds its angles, or take "
    'parameters="standard" and the structural base set'
)


Way = tuple[Parameters | None, bool]
"""Parameters that an equation is made of, None for the model's own; and whether frames may be moved for it."""


def other_ways(*, reducible: bool, movable: bool) -> list[Way]:
    """What may be tried where a model's own equation deviates.

    reducible  base parameters were its makers' choice, which standard ones may replace
    movable    frames were, too, and may be the source's own
    """
    ways: list[Way] = [("standard", True)] if reducible else []
    return [*ways, ("standard" if reducible else None, False)] if movable else ways


def certified(
    traced: Callable[[Parameters | None, bool], Function],
    witness: Witness,
    others: Sequence[Way],
) -> tuple[Function, tuple[str, ...]]:
    """The equation if it holds, and no note; else the first of other ways to it that holds, with a note; else an error.

    traced  makes the equation, with parameters as the model has them (None) or as they are named, in frames that may be
            moved or not
    others  what else may be tried, in that order
    """
    function = traced(None, True)
    deviation = kept_deviation(function, witness)
    if not deviation.is_wrong:
        return function, ()
    robot, name, last = witness.robot, function.name(), deviation
    for parameters, moved in others:
        function = traced(parameters, moved)
        last = kept_deviation(function, witness)
        if not last.is_wrong:
            joint = robot.primary_joints[deviation.joint].name
            whose = "standard parameters" if parameters == "standard" else "its parameters"
            where = "" if moved else " in the file's own frames"
            shorter = f"in fewer operations it would be {deviation.size:.1e} off at joint {joint!r}"
            return function, (f"{name} is computed from {whose}{where}: {shorter}",)
    raise refusal(robot, name, last, HINT)


def kept_deviation(function: Function, witness: Witness) -> Deviation:
    """Of an equation from standard parameters; from the cache where this very function was compared before."""
    if witness.base is not None and witness.base.survivors is None and witness.base.form == "numeric":
        return Deviation(0, 0.0)  # parameters under constraints: right for those that obey them alone

    told = (witness.drives, witness.parameters)
    key = ("certificate", function.serialize(), repr(content(witness.robot)), repr(told))
    try:
        joint, size = np.frombuffer(cached(key, lambda: _passed(equation_deviation(function, witness)), prune=False))
    except _Deviates as found:
        return found.deviation
    return Deviation(int(joint), float(size))


class _Deviates(Exception):
    def __init__(self, deviation: Deviation) -> None:
        super().__init__()
        self.deviation = deviation


def _passed(found: Deviation) -> bytes:
    if found.is_wrong:
        raise _Deviates(found)
    return np.array([float(found.joint), found.size]).tobytes()
