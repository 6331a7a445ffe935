"""Registers of servos: units of the position, velocity and current registers, from the makers' control tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi
from typing import Final

from mindyn.foundation.errors import Code, suggest_name
from mindyn.logs.log_errors import LogError

PerJointServo = str | Mapping[str, str]
"""Servo of all joints, or of each joint by name."""
TICK: Final = "tick"
"""Unit of positions and targets in steps of the encoder."""
COUNT: Final = "count"
"""Unit of velocities and currents as their registers hold them."""
_TURN: Final = 2 * pi
_DYNAMIXEL_SPEED: Final = 0.229 * pi / 30


@dataclass(frozen=True, slots=True)
class ServoPreset:
    """Registers of a servo.

    ticks_per_turn     steps of the encoder in a turn of the output
    zero_tick          position register at the middle, which counts as zero
    velocity_per_count rad/s per count of the velocity register
    current_per_count  A per count of the current register; None without one
    current_is_torque  whether the current follows the torque, with its sign
    supply_v           range of supply voltages, V
    """

    ticks_per_turn: int
    zero_tick: int
    velocity_per_count: float
    current_per_count: float | None
    current_is_torque: bool
    supply_v: tuple[float, float]

    def describe_current(self) -> str:
        """Return a description of the value in the current register."""
        if self.current_per_count is None:
            return "no current"
        return "motor current" if self.current_is_torque else "supply current without its sign, not a torque"


def _feetech(supply_v: tuple[float, float]) -> ServoPreset:
    return ServoPreset(4096, 2048, _TURN / 4096, 0.0065, False, supply_v)


def _dynamixel(current_per_count: float | None, supply_v: tuple[float, float]) -> ServoPreset:
    return ServoPreset(4096, 2048, _DYNAMIXEL_SPEED, current_per_count, current_per_count is not None, supply_v)


SERVO_PRESETS: Final[Mapping[str, ServoPreset]] = {
    "sts3215": _feetech((4.0, 14.0)),
    "sts3250": _feetech((9.0, 12.6)),
    "xl330": _dynamixel(0.001, (3.7, 6.0)),
    "xc330": _dynamixel(0.001, (3.7, 12.0)),
    "xl430": _dynamixel(None, (6.5, 12.0)),
    "xm430": _dynamixel(0.00269, (10.0, 14.8)),
    "xm540": _dynamixel(0.00269, (10.0, 14.8)),
}
"""Servos by the beginning of their model names: Feetech's memory table, ROBOTIS' control tables."""
ROBOT_SERVOS: Final[Mapping[str, str]] = {
    "so100": "sts3215",
    "so101": "sts3215",
    "so-100": "sts3215",
    "so-101": "sts3215",
    "lekiwi": "sts3215",
}
"""Servo of a robot, by the beginning of its type in a LeRobot dataset."""


def find_preset(model: str) -> ServoPreset:
    """Return the registers of a servo such as sts3215 or xl330-m288; raise `LogError` if it is unknown."""
    for name, preset in SERVO_PRESETS.items():
        if model.lower().startswith(name):
            return preset
    message = f"servo = {model!r} is not known; known servos: {', '.join(SERVO_PRESETS)}"
    hint = suggest_name(model, SERVO_PRESETS, "state units in rad, deg and A instead")
    raise LogError(message, hint=hint, code=Code.UNKNOWN_NAME, subject="servo")


def preset_of(servo: PerJointServo | None, joint: str) -> ServoPreset | None:
    """Return the registers of a joint's servo; None if the metadata do not name a servo."""
    model = servo.get(joint) if isinstance(servo, Mapping) else servo
    return None if model is None else find_preset(model)


def register_factor(signal: str, unit: str, servo: PerJointServo | None, joint: str) -> float | None:
    """Return the SI value of one step of a register's unit; None for other units.

    Raise `LogError` if the servo is missing.
    """
    fits = {TICK: ("position", "target"), COUNT: ("velocity", "target_velocity", "torque")}.get(unit, ())
    if signal not in fits:
        return None
    preset = preset_of(servo, joint)
    if preset is None:
        raise LogError(
            f"units.{signal} = {unit!r} is a register of a servo, but the servo of {joint!r} is missing",
            hint=f"set servo = one of {', '.join(SERVO_PRESETS)}",
            code=Code.MISSING_VALUE,
            subject="servo",
        )
    if signal == "torque" and preset.current_per_count is None:
        message = f"the servo of {joint!r} has no current register"
        raise LogError(message, hint="log its targets", code=Code.UNSUPPORTED, subject="servo")
    if unit == TICK:
        return _TURN / preset.ticks_per_turn
    return preset.velocity_per_count if signal != "torque" else preset.current_per_count


def guess_robot_servo(robot_type: object) -> str | None:
    """Return the servo of a robot type such as so101_follower; None if it is unknown."""
    known = [servo for name, servo in ROBOT_SERVOS.items() if str(robot_type).lower().startswith(name)]
    return known[0] if known else None
