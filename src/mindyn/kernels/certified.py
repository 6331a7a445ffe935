"""Equations of a model, once compared with plain Newton-Euler; that they passed is kept with the cached kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mindyn.algebra.values import content
from mindyn.equations.catalogue import Function
from mindyn.equations.certificate import Witness, equation_deviation, refusal
from mindyn.equations.traces import Parameters
from mindyn.kernels.cache import cached
from mindyn.parameters.certificate import Deviation

HINT = (
    "the geometry is nearly degenerate: load with snap=True if the file rounds its angles, or take "
    'parameters="standard" and the structural base set'
)


def certified(
    traced: Callable[[Parameters | None], Function], witness: Witness, reducible: bool
) -> tuple[Function, tuple[str, ...]]:
    """The equation if it holds, and no note; else that of standard parameters, with a note; else an error.

    traced     makes the equation, with parameters as the model has them (None) or as they are named
    reducible  whether base parameters were its makers' choice, which standard ones may replace
    """
    function = traced(None)
    deviation = kept_deviation(function, witness)
    if not deviation.is_wrong:
        return function, ()
    robot, name = witness.robot, function.name()
    if not reducible:
        raise refusal(robot, name, deviation, HINT)
    instead = traced("standard")
    if (again := kept_deviation(instead, witness)).is_wrong:
        raise refusal(robot, name, again, HINT)
    joint = robot.primary_joints[deviation.joint].name
    note = (
        f"{name} is computed from standard parameters: reduced to base parameters it would be "
        f"{deviation.size:.1e} off at joint {joint!r}"
    )
    return instead, (note,)


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
