"""`ServoEstimate`: gains, damping, friction and armature of position servos, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import pluralise
from mindyn.foundation.findings import Finding
from mindyn.foundation.json_values import to_json_value
from mindyn.identification.estimators.estimate_files import robot_from_record, robot_record
from mindyn.identification.estimators.result_files import (
    ResultFormat,
    require_unchanged,
    result_folder,
    with_located_paths,
    with_relative_paths,
    write_result,
)
from mindyn.identification.servos.contact_rows import Table
from mindyn.identification.servos.servo_samples import ServoSamples, complete_log_covariance, sample_servos
from mindyn.logs.log import SourceFile
from mindyn.logs.servos import Servo
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table

SERVO_FILE: Final = "servo.json"
SERVO_FORMAT: Final = ResultFormat(
    "mindyn servo estimate 1",
    "a",
    "servo estimate",
    SERVO_FILE,
    "mindyn identify --out writes it for logs with targets",
)
"""File of a run folder with a servo estimate."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServoEstimate:
    """Values of position servos that make a simulated robot follow its targets as the logs do.

    The model is I a = kp (target - q) - kd v - fc sgn(v) - load, with the masses of the robot file in the load.

    Parameters
    ----------
    robot : Robot
        As its file describes it.
    kp, kd, fc, ia : array of shape (n,)
        Gain (N m/rad, N/m), damping of servo and joint together (N m s/rad, N s/m), Coulomb friction (N m, N) and
        armature (kg m^2, kg).
    low, high : array of shape (n, 4)
        95 % intervals of kp, kd, fc and ia, for the masses of the file and steps of 2 ms. Where a joint has no scale,
        those of kd/kp and fc/kp times kp. NaN if the logs do not determine a value.
    has_scale : array of bool of shape (n,)
        Whether gravity or a given kp fixes the scale of a joint. Otherwise kp is assumed, and only the ratios to it
        are determined. The simulated motion does not depend on it.
    limit : array of shape (n,)
        Largest torque of the servo (N m, N); infinity where no limit is significant.
    limits_damping : array of bool of shape (n,)
        Whether the limit applies to kp (target - q) - kd v, in place of kp (target - q) alone.
    delay_s : float
        From the stamp of a target to its effect, in s.
    table : Table or None
        Height below which rows are in contact, and do not count.
    sources : tuple of SourceFile
        Files of the logs.
    findings : tuple of Finding
        What the user should know.
    log_covariance : array of shape (n, 4, 4)
        Covariance of the logarithms of kp, kd, fc and ia of each joint, from which `sample` draws; by default that of
        values that vary independently in their intervals. Zero for a gain that is given or assumed.
    """

    robot: Robot
    kp: Array
    kd: Array
    fc: Array
    ia: Array
    low: Array
    high: Array
    has_scale: NDArray[np.bool_]
    limit: Array
    limits_damping: NDArray[np.bool_]
    delay_s: float = 0.0
    table: Table | None = None
    sources: tuple[SourceFile, ...] = ()
    findings: tuple[Finding, ...] = ()
    log_covariance: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not self.log_covariance.size:
            object.__setattr__(self, "log_covariance", self._covariance_of_intervals())

    def _covariance_of_intervals(self) -> Array:
        """Return the covariance (n, 4, 4) of the logarithms of values that vary independently in their intervals."""
        half = np.log(self.high / self.low) / 2
        half[:, 0] = np.where(np.isnan(half[:, 0]), 0.0, half[:, 0])  # given or assumed
        covariance = np.zeros((*half.shape, 4))
        for matrix, widths in zip(covariance, half, strict=True):
            complete_log_covariance(matrix, widths)
        return covariance

    def __repr__(self) -> str:
        return f"ServoEstimate({pluralise(len(self.kp), 'joint')})"

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the n joints."""
        return self.robot.primary_names

    @property
    def values(self) -> Array:
        """Values (n, 4): kp, kd, fc and ia of each joint."""
        return np.column_stack([self.kp, self.kd, self.fc, self.ia])

    @property
    def servo(self) -> Servo:
        """The position servo for exported files: damping is at the joint, where simulators integrate it stably, unless
        the limit of the servo applies to it.
        """
        return Servo(self.kp, np.where(self.limits_damping, self.kd, 0.0), self.delay_s, self.limit, is_held=True)

    @property
    def has_limit(self) -> bool:
        """Whether the torque of a servo is limited."""
        return bool(np.isfinite(self.limit).any())

    def to_robot(self) -> Robot:
        """Return the robot with the drives of the estimate instead of those of its file.

        Returns
        -------
        Robot
            Links as in the file; damping, Coulomb friction and armature as estimated.
        """
        drives = tuple(
            Drive(name, rotor_inertia=float(ia), viscous=float(kd), coulomb=float(fc))
            for name, kd, fc, ia in zip(self.joint_names, self.kd - self.servo.kd, self.fc, self.ia, strict=True)
        )
        return replace(self.robot, drives=drives)

    def sample(self, count: int, rng: np.random.Generator | int) -> ServoSamples:
        """Draw position servos from the intervals, by `sample_servos`."""
        return sample_servos(self, count, rng)

    def format(self) -> str:
        """Return the values with their intervals as a table.

        Returns
        -------
        str
            A line per joint. Values of joints without a scale are marked by `~`.
        """
        rows: list[tuple[str, ...]] = [("joint", "kp", "kd", "fc", "armature", "kd/kp, ms", "fc/kp, mrad or mm")]
        for j, name in enumerate(self.joint_names):
            cells = [_format_value(*numbers) for numbers in zip(self.values[j], self.low[j], self.high[j], strict=True)]
            if np.isnan(self.low[j, 0]):  # an estimated scale has an interval
                cells[0] = f"{self.kp[j]:.3g} (given)"
            if not self.has_scale[j]:
                cells = [f"~{value:.3g}" for value in self.values[j]]
            ratios = (f"{1e3 * self.kd[j] / self.kp[j]:.3g}", f"{1e3 * self.fc[j] / self.kp[j]:.3g}")
            rows.append((name, *cells, *ratios))
        return format_table(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        return {
            "format": SERVO_FORMAT.name,
            "robot": robot_record(self.robot),
            "joints": list(self.joint_names),
            **{name: getattr(self, name).tolist() for name in ("kp", "kd", "fc", "ia", "has_scale", "limits_damping")},
            **{name: to_json_value(getattr(self, name)) for name in ("limit", "low", "high")},
            "log_covariance": self.log_covariance.tolist(),
            "delay_s": self.delay_s,
            "table": None if self.table is None else {"tip": self.table.tip, "height_m": self.table.height_m},
            "sources": [
                {"path": s.path, "sha256": s.sha256, "rows": None if s.rows is None else list(s.rows)}
                for s in self.sources
            ],
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def save(self, path: str | Path, folder: str | Path | None = None) -> Path:
        """Write the estimate to a JSON file and return its path.

        folder  folder that the file will be moved to, from which the paths of logs are stated
        """
        values = self.to_dict()
        values["sources"] = with_relative_paths(values["sources"], result_folder(path, folder))
        return write_result(path, values)


def load_servo_estimate(path: str | Path) -> ServoEstimate:
    """Load a servo estimate.

    Parameters
    ----------
    path : str or Path
        A JSON file, or the folder of a run.

    Returns
    -------
    ServoEstimate
        The estimate, with all digits of the saved one.

    Raises
    ------
    InputError
        If the file is missing, damaged, or of another format.
    """
    return SERVO_FORMAT.read(path, _convert)


def _convert(values: Mapping[str, Any], path: Path) -> ServoEstimate:
    require_unchanged(values, path)
    robot, n = robot_from_record(values["robot"]), len(values["kp"])
    arrays = {name: np.array(values[name], dtype=np.float64) for name in ("kp", "kd", "fc", "ia", "low", "high")}
    if len(robot.primary_names) != n or any(len(array) != n for array in arrays.values()):
        raise ValueError(f"{n} values for {len(robot.primary_names)} joints")
    return ServoEstimate(
        robot=robot,
        **arrays,
        has_scale=np.array(values["has_scale"], dtype=bool),
        limit=np.array([np.inf if x is None else x for x in values.get("limit", [None] * n)], dtype=np.float64),
        limits_damping=np.array(values.get("limits_damping", [False] * n), dtype=bool),
        delay_s=float(values["delay_s"]),
        table=None if values["table"] is None else Table(**values["table"]),
        sources=with_located_paths([SourceFile.from_dict(source) for source in values["sources"]], path),
        findings=tuple(Finding.from_dict(finding) for finding in values["findings"]),
        log_covariance=np.array(values.get("log_covariance", []), dtype=np.float64),
    )


def _format_value(value: float, low: float, high: float) -> str:
    return f"{value:.3g} ({low:.3g} to {high:.3g})" if np.isfinite([low, high]).all() else f"{value:.3g} (open)"
