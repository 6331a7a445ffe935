"""Springs of joints: extra torques that are linear in the position of their own joint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.robots.expressions import NUMPY_FUNCTIONS, parse_formula
from mindyn.robots.parts import ExtraTorque

_TRIAL_POSITIONS: Final = np.array([0.0, 1.0, -1.3, 0.37, 2.9, -7.1])
"""Positions at which a formula is tried, rad or m."""
_LINEARITY_TOLERANCE: Final = 1e-12
"""A formula that deviates less from a line there, beside its size, is one."""


@dataclass(frozen=True, slots=True)
class Spring:
    """A spring of a joint: its drive has to bring stiffness * (q - rest); N m/rad or N/m, and rad or m."""

    stiffness: float
    rest: float

    def to_extra_torque(self, joint: str) -> ExtraTorque:
        """The extra torque that says the same."""
        formula = "q" if self.rest == 0 else f"q - {self.rest!r}" if self.rest > 0 else f"q + {-self.rest!r}"
        return ExtraTorque(f"spring of {joint}", joint, formula, self.stiffness)


def find_springs(extras: Sequence[ExtraTorque]) -> dict[str, Spring]:
    """By joint the springs that linear extra torques are, several of one joint as one."""
    found: dict[str, tuple[float, float]] = {}
    for extra in extras:
        if (line := _fit_line(extra)) is not None:
            slope, constant = found.get(extra.joint, (0.0, 0.0))
            found[extra.joint] = slope + line[0], constant + line[1]
    return {joint: Spring(k, -c / k if c else 0.0) for joint, (k, c) in found.items() if k or not c}


def is_spring(extra: ExtraTorque) -> bool:
    """Whether an extra torque is linear in the position of its joint."""
    return _fit_line(extra) is not None


def _fit_line(extra: ExtraTorque) -> tuple[float, float] | None:
    """(slope, value at q = 0) of the torque where it is a line of q that is not level."""
    formula = parse_formula(extra.formula)
    if formula.variables != {"q"}:
        return None
    with np.errstate(all="ignore"):
        values = np.broadcast_to(formula.evaluate({"q": _TRIAL_POSITIONS}, NUMPY_FUNCTIONS), _TRIAL_POSITIONS.shape)
    constant, slope = float(values[0]), float(values[1] - values[0])
    size = float(np.abs(values).max())
    if (
        not np.isfinite(size)
        or slope == 0
        or np.abs(constant + slope * _TRIAL_POSITIONS - values).max() > _LINEARITY_TOLERANCE * size
    ):
        return None
    return extra.coefficient * slope, extra.coefficient * constant
