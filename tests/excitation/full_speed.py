"""Settings of designs with whole limits and no floor, and designs by one flat set of options."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import mindyn

FULL_SPEED = {
    "speed": 1.0,
    "acceleration": 1.0,
    "floor": None,
    "clearance_m": 0.01,
    "tracking_error_m": 0.0,
    "tip_speed": float("inf"),
}


def design_motion(robot: mindyn.Robot, **options: Any) -> Any:
    """Design a motion by options that are merged from several tables; the fields of settings are among them."""
    groups = {
        "motion": mindyn.MotionSettings,
        "safety": mindyn.SafetySettings,
        "log": mindyn.ExpectedLog,
        "search": mindyn.SearchSettings,
    }
    for group, kind in groups.items():
        names = {field.name for field in fields(kind)} & set(options)
        options[group] = kind(**{name: options.pop(name) for name in names})
    return mindyn.design_motion(robot, **options)
