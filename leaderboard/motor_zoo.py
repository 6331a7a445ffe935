"""Write motors of identified robots as entries that drives of robot files may refer to.

The value of a motor is the median over its specimens; its interval reaches from the least to the largest end of their
95 % intervals, so that it contains what differs between specimens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from leaderboard.zoo import FOLDER
from mindyn import __version__ as mindyn_version
from mindyn.identification import ServoEstimate

MOTORS = FOLDER / "motors"
UNITS = {"gain": "N m/rad", "viscous": "N m s/rad", "coulomb": "N m", "rotor_inertia": "kg m^2"}
PLACES = {"gain": 0, "viscous": 1, "coulomb": 2, "rotor_inertia": 3}
"""Columns of a servo estimate."""
MotorValues = dict[str, list[tuple[float, float, float]]]
"""Value and ends of the 95 % interval of each specimen, by parameter."""


def motors_of(estimate: ServoEstimate, joints: Sequence[str], parameters: Sequence[str] = tuple(PLACES)) -> MotorValues:
    """Return the values of joints of a servo estimate that have a scale."""
    numbers = [estimate.joint_names.index(joint) for joint in joints]
    ends = (estimate.values, estimate.low, estimate.high)
    return {
        name: [(float(v[j, k]), float(low[j, k]), float(high[j, k])) for j in numbers if estimate.has_scale[j]]
        for name, k in PLACES.items()
        if name in parameters
        for v, low, high in [ends]
    }


def write_motor(
    name: str,
    facts: Mapping[str, Any],
    measured_in: Mapping[str, Any],
    values: MotorValues,
    gear: float | None = None,
) -> None:
    """Write the entry of a motor; values are at the output of the gear.

    gear  motor turns per joint turn, as the source states it; None if it does not
    """
    parameters = [_summarise(parameter, values[parameter]) for parameter in UNITS if parameter in values]
    entry = {
        **facts,
        "date": f"{date.today():%Y-%m-%d}",
        "mindyn": mindyn_version,
        "measured_in": dict(measured_in),
        "friction_law": "viscous * v + coulomb * sgn(v)",
        "gear": gear,
        "parameters": parameters,
    }
    MOTORS.mkdir(parents=True, exist_ok=True)
    (MOTORS / f"{name}.json").write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
    print(f"motor {name}:", ", ".join(f"{parameter['name']} {parameter['value']}" for parameter in parameters))


def _summarise(parameter: str, specimens: Sequence[tuple[float, float, float]]) -> dict[str, Any]:
    values, low, high = (np.array(column) for column in zip(*specimens, strict=True))
    known = np.isfinite(low)
    return {
        "name": parameter,
        "unit": UNITS[parameter],
        "value": _digit(np.median(values[known] if known.any() else values)),
        "low": _digit(low[known].min()) if known.any() else None,
        "high": _digit(high[known].max()) if known.any() else None,
        "specimens": int(known.sum()),
    }


def _digit(value: float) -> float:
    return float(f"{value:.4g}")
