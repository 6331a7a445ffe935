"""`ReportData`: everything that a report shows, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mindyn.export.writing import RobotFormat
from mindyn.findings import Finding
from mindyn.kernels.skeleton import SkeletonData
from mindyn.pages.plots import PackedNumbers
from mindyn.validation.validate import Grade

Numbers = tuple[float, ...]
DEFAULT_ESTIMATE_NAME: Final = "this estimate"
"""Name of the reported estimate in comparisons if its run has none."""
ParameterState = Literal[
    "well determined", "poorly determined", "not significant", "from the prior", "dropped", "unidentifiable"
]


@dataclass(frozen=True, slots=True)
class JointData:
    """Name of a joint and the units of its torque and position."""

    name: str
    torque_unit: str
    position_unit: str


@dataclass(frozen=True, slots=True)
class JointVerdict:
    """Torque errors of one joint, rms and relative.

    floor    rms of white noise in the residual; None if unknown
    pattern  pattern in the residual; None if there is none
    """

    grade: Grade
    sentence: str
    rmse: float
    relative: float
    floor: float | None = None
    pattern: Finding | None = None


@dataclass(frozen=True, slots=True)
class VerdictData:
    """Torque errors of all joints; `held_out` says whether the samples were excluded from the fit.

    with_ends          total error including the ends of segments, which are not scored; None if none were cut
    earlier_total      total error of an earlier validation on held-out logs, if this one is not held out
    consistent_nearby  whether physically consistent values lie within the uncertainty of inconsistent ones
    findings           findings about robot, logs and values
    """

    held_out: bool
    grade: Grade
    total: float
    rows: int
    joints: tuple[JointVerdict, ...]
    earlier_total: float | None = None
    consistent_nearby: bool = False
    findings: tuple[Finding, ...] = ()
    with_ends: float | None = None


@dataclass(frozen=True, slots=True)
class JointTrace:
    """Torques of one joint over the time of its log, their range, and the rms and largest error."""

    measured: PackedNumbers
    predicted: PackedNumbers
    residual: PackedNumbers
    low: float
    high: float
    rms_error: float
    largest_error: float
    largest_error_s: float


@dataclass(frozen=True, slots=True)
class TorqueTrace:
    """Torques of one log.

    bucket    number of samples of which the plot keeps minimum and maximum
    unscored  time intervals (from, to), s, that the errors exclude: ends of segments
    """

    name: str
    role: Literal["held out", "training"]
    rows: int
    seconds: float
    bucket: int
    time: PackedNumbers
    joints: tuple[JointTrace, ...]
    unscored: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One parameter: formula, value, uncertainty, and the value of the prior model.

    relative  standard deviation relative to the value; None if the interval includes zero
    clipped   whether the interval was clipped at zero, because the fit does not allow negative values
    """

    name: str
    formula: str
    unit: str
    value: float
    deviation: float | None
    relative: float | None
    low: float | None
    high: float | None
    clipped: bool
    state: ParameterState
    prior: float | None


@dataclass(frozen=True, slots=True)
class JointMotion:
    """Motion of one joint in the logs; `coverage` has digits 0 to 9, one row per speed and one column per position."""

    low: float
    high: float
    limit_low: float | None
    limit_high: float | None
    speed: float
    acceleration: float
    coverage: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExcitationData:
    """Condition number of the fit and motion of the joints in the logs of `role`."""

    role: Literal["held out", "training"]
    condition_number: float | None
    identifiable_count: int
    rows: int
    joints: tuple[JointMotion, ...]


@dataclass(frozen=True, slots=True)
class FrictionData:
    """Friction over speed with its 95 % band (None if not identifiable), and that of the prior.

    load_coefficients        friction relative to the load while driving and braking; None if not fitted
    data_speed, data_torque  samples of a log: the curve plus the residual
    band_speed               speeds of `low` and `high`
    load                     mean load of the gear that the curves are for
    laws                     probabilities of the friction laws that the band includes; empty if it is the estimate's
    """

    speed: Numbers
    torque: Numbers
    low: Numbers | None
    high: Numbers | None
    prior: Numbers | None
    load_coefficients: tuple[float, float] | None = None
    data_speed: Numbers = ()
    data_torque: Numbers = ()
    band_speed: Numbers = ()
    load: float = 0.0
    laws: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResidualData:
    """Residual of one joint: histogram with normal density, and power spectra of residual and torque.

    samples  some residuals in time order
    against  position, speed and torque at the same samples
    """

    mean: float
    deviation: float
    beyond_three: float
    edges: Numbers
    density: Numbers
    normal: Numbers
    frequency: Numbers
    residual_power: Numbers
    torque_power: Numbers
    samples: Numbers = ()
    against: tuple[tuple[str, Numbers], ...] = ()


@dataclass(frozen=True, slots=True)
class MotionData:
    """Simulated and measured joint positions; `how` is a sentence about the simulation, empty if unknown."""

    seconds: float
    how: str
    time: PackedNumbers
    measured: tuple[PackedNumbers, ...]
    simulated: tuple[PackedNumbers, ...]
    rms: Numbers


@dataclass(frozen=True, slots=True)
class ErrorColumn:
    """Relative errors of one model in the comparison."""

    name: str
    relative: Numbers
    total: float
    about: str


@dataclass(frozen=True, slots=True)
class ProvenanceData:
    """Command, settings, files and versions that produced the result."""

    command: str
    settings: tuple[tuple[str, str], ...]
    sources: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything that a report shows; sections without data are empty or None.

    others               parameters of the compared estimates
    robot_given, folder  robot and run folder as typed by the user, for suggested commands
    file_format          format that can express the robot
    name                 name of the estimate in comparisons
    """

    robot: str
    estimator: str
    status: str
    constrained: bool
    physical_intervals: bool
    joints: tuple[JointData, ...]
    verdict: VerdictData
    traces: tuple[TorqueTrace, ...]
    parameters: tuple[ParameterRow, ...]
    excitation: ExcitationData | None
    friction: tuple[FrictionData, ...]
    residual_role: Literal["held out", "training"]
    residuals: tuple[ResidualData, ...]
    feasibility: tuple[Mapping[str, Any], ...]
    motion: MotionData | None
    comparison: tuple[ErrorColumn, ...]
    skeleton: SkeletonData | None
    provenance: ProvenanceData
    others: tuple[tuple[str, tuple[ParameterRow, ...]], ...] = ()
    robot_given: str = ""
    folder: str = ""
    file_format: RobotFormat = "urdf"
    name: str = DEFAULT_ESTIMATE_NAME
