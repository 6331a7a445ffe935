"""Units of a log and their factors to SI."""

from __future__ import annotations

from math import pi
from typing import Final

from mindyn.foundation.errors import Code
from mindyn.logs.log_errors import LogError
from mindyn.logs.servo_presets import COUNT, TICK

RAD_PER_DEGREE: Final = pi / 180

_POSITION_FACTORS: Final = {"rad": 1.0, "deg": RAD_PER_DEGREE, "m": 1.0, "mm": 1e-3}
_VELOCITY_FACTORS: Final = {"rad/s": 1.0, "deg/s": RAD_PER_DEGREE, "rpm": pi / 30, "m/s": 1.0, "mm/s": 1e-3}
UNIT_FACTORS: Final = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "position": _POSITION_FACTORS,
    "velocity": _VELOCITY_FACTORS,
    "acceleration": {"rad/s^2": 1.0, "deg/s^2": RAD_PER_DEGREE, "m/s^2": 1.0, "mm/s^2": 1e-3},
    "torque": {"N m": 1.0, "mN m": 1e-3, "N": 1.0, "mN": 1e-3, "A": 1.0, "mA": 1e-3},
    "target": _POSITION_FACTORS,
    "target_velocity": _VELOCITY_FACTORS,
    "motor_position": _POSITION_FACTORS,
}
"""Factor from each unit to SI, by signal; A and mA are currents and need gains."""

CURRENT_UNITS: Final = ("A", "mA", COUNT)
_LINEAR_UNITS: Final = {"m", "mm", "m/s", "mm/s", "m/s^2", "mm/s^2", "N", "mN"}
_SPELLINGS: Final = {"Nm": "N m", "N*m": "N m", "mNm": "mN m", "mN*m": "mN m", "degree": "deg", "degrees": "deg"}


def unit_factor(signal: str, unit: str, kind: str, joint: str) -> float:
    """Return the SI value of a unit of a signal. Raise `LogError` if the unit does not fit the kind of the joint."""
    unit = _SPELLINGS.get(unit, unit)
    known = UNIT_FACTORS[signal]
    if unit not in known:
        registers = {"position": f", {TICK}", "target": f", {TICK}", "velocity": f", {COUNT}", "torque": f", {COUNT}"}
        valid = f"{', '.join(known)}{registers.get(signal, '')}"
        message = f"units.{signal} = {unit!r} is not a unit of {signal}; valid units: {valid}"
        raise LogError(message, code=Code.WRONG_UNIT, subject=f"units.{signal}")
    if signal != "time" and unit not in CURRENT_UNITS and (unit in _LINEAR_UNITS) != (kind == "prismatic"):
        fitting = [name for name in known if name in CURRENT_UNITS or (name in _LINEAR_UNITS) == (kind == "prismatic")]
        raise LogError(
            f"units.{signal} = {unit!r} does not fit the {kind} joint {joint!r}; valid units: {', '.join(fitting)}",
            hint=f"for a robot with revolute and prismatic joints, set units.{signal} = {{{joint} = ...}} per joint",
            code=Code.WRONG_UNIT,
            subject=f"units.{signal}",
        )
    return known[unit]
