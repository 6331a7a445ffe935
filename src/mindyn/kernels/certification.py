"""Compare a model's equations with plain Newton-Euler once; the cache of kernels remembers those that passed."""

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
    "the geometry is nearly degenerate: load with snap=True if the file rounds its angles, or use "
    'parameters="standard" and the structural base set'
)


Alternative = tuple[Parameters | None, bool]
"""Parameters of the equation (None: the model's own), and whether its frames may be moved."""


def list_alternatives(*, reducible: bool, movable: bool) -> list[Alternative]:
    """Return what to try if a model's own equation deviates.

    `reducible` says that base parameters were chosen automatically, so that standard parameters may replace them;
    `movable` says the same of moved frames and the source's own.
    """
    ways: list[Alternative] = [("standard", True)] if reducible else []
    return [*ways, ("standard" if reducible else None, False)] if movable else ways


def certify_equation(
    traced: Callable[[Parameters | None, bool], Function],
    witness: ReferenceDynamics,
    others: Sequence[Alternative],
) -> tuple[Function, tuple[str, ...]]:
    """Return the equation and no notes if it agrees with Newton-Euler, otherwise the first alternative that does and a
    note.

    Parameters
    ----------
    traced : callable
        Traces the equation with the given parameters (None: the model's own), in moved frames or not.
    witness : ReferenceDynamics
        The reference to compare with.
    others : sequence of Alternative
        Alternatives in the order in which they are tried.

    Raises
    ------
    RobotError
        If no alternative agrees.
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
            where = "" if moved else " in the frames of the file"
            shorter = f"the shorter form has an error of {deviation.size:.1e} at joint {joint!r}"
            return function, (f"{name} is computed from {whose}{where}: {shorter}",)
    raise deviation_error(robot, name, last, NEARLY_DEGENERATE_HINT)


def load_or_compute_deviation(function: Function, witness: ReferenceDynamics) -> Deviation:
    """Return the deviation of an equation from standard parameters, from the cache if this function was compared
    before.
    """
    if witness.base is not None and witness.base.survivors is None and witness.base.form == "numeric":
        return Deviation(0, 0.0)  # a constrained set is valid only for parameters that satisfy the constraints

    options = (witness.drives, witness.parameters)
    key = ("certificate", function.serialize(), repr(hashable_content(witness.robot)), repr(options))
    try:
        joint, size = np.frombuffer(
            load_or_build(key, lambda: _encode_passing(equation_deviation(function, witness)), prune=False)
        )
    except _DeviationError as error:
        return error.deviation
    return Deviation(int(joint), float(size))


class _DeviationError(Exception):
    def __init__(self, deviation: Deviation) -> None:
        super().__init__()
        self.deviation = deviation


def _encode_passing(deviation: Deviation) -> bytes:
    if deviation.is_wrong:
        raise _DeviationError(deviation)
    return np.array([float(deviation.joint), deviation.size]).tobytes()
