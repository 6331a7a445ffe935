"""`ReportData`: all that a report shows, as plain values; pages are made of it and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from mindyn.export.writing import RobotFormat
from mindyn.findings import Finding
from mindyn.kernels.skeleton import SkeletonData
from mindyn.pages.decimation import PackedNumbers
from mindyn.validation.validate import Grade

Numbers = tuple[float, ...]
DEFAULT_ESTIMATE_NAME: Final = "this estimate"
"""What an estimate is called beside others where its run has no name."""
ParameterState = Literal["clear", "rough", "near zero", "from the prior", "left out", "unidentifiable"]


@dataclass(frozen=True, slots=True)
class JointData:
    """A joint: its name and the units of its torque and position."""

    name: str
    torque_unit: str
    position_unit: str


@dataclass(frozen=True, slots=True)
class JointVerdict:
    """How one joint is explained; errors rms and relative.

    floor  rms of the flat noise in what is missed; None where it is not known
    cause  what is missed, as a sentence; empty where nothing is evident
    """

    grade: Grade
    sentence: str
    rmse: float
    relative: float
    floor: float | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class VerdictData:
    """The answer to "is the model good?" by torque alone; `held_out`: on samples that it was not fitted to.

    before     where it is not held out: total error on held-out logs by an earlier verdict; None: there is none
    within     whether values that an arm can have lie within the uncertainty of these, if no arm has just these
    findings   about robot, logs and values
    """

    held_out: bool
    grade: Grade
    total: float
    rows: int
    joints: tuple[JointVerdict, ...]
    before: float | None = None
    within: bool = False
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class JointTrace:
    """Torques of one joint over the times of its log, and what to say of them: range, rms and greatest miss."""

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

    bucket    of how many samples the least and the greatest are kept
    unscored  times (from, to), s, that the errors leave out: ends of stretches
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
    """One parameter: what it stands for, its value and how sure it is, and what the prior model says.

    relative  standard deviation as part of the value; None where the interval holds zero
    cut       whether the interval was cut at zero, since the fit lets the value be no less
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
    """What one joint did in the training logs; `coverage`: rows of digits 0 to 9, speed down, position across."""

    low: float
    high: float
    limit_low: float | None
    limit_high: float | None
    speed: float
    acceleration: float
    coverage: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExcitationData:
    """Condition of the fit and motion of the joints; `role`: which logs the motion is of."""

    role: Literal["held out", "training"]
    condition_number: float | None
    identifiable_count: int
    rows: int
    joints: tuple[JointMotion, ...]


@dataclass(frozen=True, slots=True)
class FrictionData:
    """Friction over speed with its 95 % band (None where it cannot be told), and the prior's.

    of_load                  parts of the load that it takes besides, while that is driven and braked; None: not fitted
    data_speed, data_torque  samples of a log: the curve and what the model misses there
    """

    speed: Numbers
    torque: Numbers
    low: Numbers | None
    high: Numbers | None
    prior: Numbers | None
    load_coefficients: tuple[float, float] | None = None
    data_speed: Numbers = ()
    data_torque: Numbers = ()


@dataclass(frozen=True, slots=True)
class ResidualData:
    """What is left of one joint's torque: histogram beside a normal density, power spectra beside the torque's.

    samples  some residuals in time order
    against  what they may follow, at the same samples: position, speed, torque
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
    """Simulated beside measured joint positions; `how` it was simulated, a sentence, empty where that is not known."""

    seconds: float
    how: str
    time: PackedNumbers
    measured: tuple[PackedNumbers, ...]
    simulated: tuple[PackedNumbers, ...]
    rms: Numbers


@dataclass(frozen=True, slots=True)
class ErrorColumn:
    """Errors of one model in the comparison, relative."""

    name: str
    relative: Numbers
    total: float
    about: str


@dataclass(frozen=True, slots=True)
class ProvenanceData:
    """How the result was made."""

    command: str
    settings: tuple[tuple[str, str], ...]
    sources: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportData:
    """All that a report shows; what was not given is empty or None, and has no section.

    others               parameters of the estimates that are compared
    robot_given, folder  the robot and the folder of the run as they were typed, for commands to come
    file_format          that says all of the robot
    name                 of the estimate beside those that are compared
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

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)
