"""Joint springs: extra torques that are linear in the position of their joint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.robots.expressions import NUMPY_FUNCTIONS, parse_formula
from mindyn.robots.parts import ExtraTorque

_TRIAL_POSITIONS: Final = np.array([0.0, 1.0, -1.3, 0.37, 2.9, -7.1])
"""Positions at which a formula is evaluated, rad or m."""
_LINEARITY_TOLERANCE: Final = 1e-12
"""Largest deviation from a line, relative to the largest value, of a linear formula."""


@dataclass(frozen=True, slots=True)
class Spring:
    """Spring of a joint: the drive must provide stiffness * (q - rest); N m/rad or N/m, and rad or m."""

    stiffness: float
    rest: float

    def to_extra_torque(self, joint: str) -> ExtraTorque:
        """Return the spring as an extra torque."""
        formula = "q" if self.rest == 0 else f"q - {self.rest!r}" if self.rest > 0 else f"q + {-self.rest!r}"
        return ExtraTorque(f"spring of {joint}", joint, formula, self.stiffness)


def find_springs(extras: Sequence[ExtraTorque]) -> dict[str, Spring]:
    """Return the spring of each joint: the sum of its linear extra torques."""
    lines: dict[str, tuple[float, float]] = {}
    for extra in extras:
        if (line := _fit_line(extra)) is not None:
            slope, constant = lines.get(extra.joint, (0.0, 0.0))
            lines[extra.joint] = slope + line[0], constant + line[1]
    return {joint: Spring(k, -c / k if c else 0.0) for joint, (k, c) in lines.items() if k or not c}


def is_spring(extra: ExtraTorque) -> bool:
    """Whether an extra torque is linear in the position of its joint."""
    return _fit_line(extra) is not None


def _fit_line(extra: ExtraTorque) -> tuple[float, float] | None:
    """Return (slope, value at q = 0) of a torque that is linear in q with nonzero slope, else None."""
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
