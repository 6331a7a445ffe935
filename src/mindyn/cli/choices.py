"""Names and defaults that help texts show, without the packages that define them.

`tests/cli/test_start_up.py` compares each with its definition. Help thus needs neither NumPy nor CasADi.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

RootJoint = Literal["fixed", "floating"]
Purpose = Literal["arm", "payload", "servo"]
WrenchFrame = Literal["sensor", "world"]

MOUNT_NAMES: Final = ("floor", "ceiling", "wall")
FORM_NAMES: Final = ("structural", "lin", "gautier", "mayeda", "general", "numeric")
METHOD_NAMES: Final = ("weighted", "ordinary", "robust", "last-link-first", "instruments", "energy", "momentum")
SERVO_METHOD_NAMES: Final = ("simulated-instruments", "simulated-states")
LOG_METHOD_NAMES: Final = ("identify", "weighted", "consistent", *METHOD_NAMES[1:])
BENCH_METHOD_NAMES: Final = (
    "least squares",
    "weighted least squares",
    "robust least squares",
    "last link first",
    "instrumental variables",
    "closed-loop instruments",
    "momentum difference",
    "step by step",
)
CONTROLLER_NAMES: Final = ("ur", "franka", "kuka", "abb", "json")
SERVO_FILE: Final = "servo.json"
ELASTICITY_FILE: Final = "elasticity.json"
STUDY_FILES: Final = (
    "fleet.json",
    "estimate.json",
    "parameters.parquet",
    "differences.parquet",
    "excluded.parquet",
    "report.html",
)
CLEARANCE_M: Final = 0.05
TRACKING_ERROR_M: Final = 0.01
TIP_SPEED: Final = 1.0
OBSERVER_GAIN_PER_S: Final = 20.0
ALARMS_PER_HOUR: Final = 1.0


@dataclass(frozen=True, slots=True)
class BenchDefaults:
    """Defaults of `BenchSetting`, which validates the given values."""

    repetitions: int = 10
    seconds: float = 20.0
    rate_hz: float = 200.0
    control_rate_hz: float = 1000.0
    counts_per_revolution: float = 1000.0
    torque_noise: float = 0.02
    differentiation: str = "central"
    filter_hz: float = 10.0
    friction_error: float = 0.0
    top_hz: float = 0.8
    seed: int = 0
