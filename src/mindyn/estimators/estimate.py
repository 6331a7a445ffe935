"""`Estimate`: parameters found in data, how sure they are, and where they come from; predicts, saves and loads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mindyn.algebra.spread import NORMAL_95, relative_deviation
from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.parameter_units import parameter_units
from mindyn.estimators.robot_record import robot_from_record, robot_record
from mindyn.files import write_whole
from mindyn.identifiability.base_sets import base_parameters
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.filters import lowpass
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.parameters.base import BaseParameters
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import BLOCK_ROWS, require_joints, segment_ends
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot
from mindyn.robots.table import text_table

FORMAT = "mindyn estimate 1"
UNBOUNDED = " Intervals are of the fit without physical bounds and may reach beyond them."


@dataclass(frozen=True, slots=True, eq=False)
class JointResidual:
    """Residuals of one joint: equations (rows), rms residual and rms torque (N m or N), correlation of neighbours."""

    joint: str
    rows: int
    rms: float
    rms_torque: float
    correlation: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Values of the parameters of a regressor.

    regressor     robot, base set and friction shape; names of the parameters
    beta          (p,) values
    covariance    (p, p); rows and columns of parameters that were left out are zero, of those untold infinite variance
    status        what came of it, as a sentence
    residuals     for each joint
    filter_hz     low pass on columns and torque alike in the fit, and on predictions; None: none
    left_out      names of parameters that were set to zero
    untold        names of parameters that the data cannot tell
    conditioning  how logs became samples; None when samples were given
    provenance    settings, choices, sources
    shifts        (k, p) what the covariance contains besides noise: shifts of all values together, of one standard
                  deviation each, by timing and differences; None: nothing
    """

    regressor: Regressor
    beta: Array
    covariance: Array
    status: str
    residuals: tuple[JointResidual, ...]
    filter_hz: float | None = None
    left_out: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    conditioning: Conditioning | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    shifts: Array | None = None

    @property
    def robot(self) -> Robot:
        """The robot, with the drives whose parameters were estimated."""
        return self.regressor.robot

    @property
    def base(self) -> BaseParameters:
        """The base set; its values are `base_values`, friction shapes come after them."""
        return self.regressor.base

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all parameters."""
        return self.regressor.names

    @property
    def base_values(self) -> Array:
        """The values of the base set."""
        return self.beta[: self.base.count]

    @property
    def deviations(self) -> Array:
        """(p,) standard deviations."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def units(self) -> tuple[str, ...]:
        """Of the parameters; empty where a parameter has none of the usual ones."""
        return parameter_units(self.base, self.names)

    @property
    def correlations(self) -> Array:
        """(p, p) correlation of the parameters' errors; zero for those left out or untold."""
        deviations = self.deviations
        told = np.isfinite(deviations) & (deviations > 0)
        scale = np.where(told, 1 / np.where(told, deviations, 1.0), 0.0)
        return np.asarray(np.where(np.isfinite(self.covariance), self.covariance, 0.0) * scale * scale[:, None])

    def by_noise_alone(self) -> Estimate:
        """The same with the covariance of noise alone: how sharply the data tell the parameters among each other."""
        if self.shifts is None:
            return self
        return replace(self, covariance=self.covariance - self.shifts.T @ self.shifts, shifts=None)

    def value(self, name: str) -> float:
        """One parameter by name."""
        if name not in self.names:
            raise InputError(f"no parameter {name!r}; there are: {', '.join(self.names)}")
        return float(self.beta[self.names.index(name)])

    def table(self) -> str:
        """Every parameter with its value, standard deviation and 95 % interval."""
        rows: list[tuple[str, ...]] = [("parameter", "value", "unit", "std. dev.", "relative", "95 % interval")]
        for name, value, unit, deviation in zip(self.names, self.beta, self.units, self.deviations, strict=True):
            rows.append((name, f"{value:.5g}", unit, *self._spread(name, value, deviation)))
        return f"{text_table(rows)}\n\n{self.status}{UNBOUNDED if self.constrained else ''}"

    @property
    def constrained(self) -> bool:
        """Whether the values were held to what is physical; the covariance is then that of the fit without bounds."""
        return "unconstrained" in self.provenance

    def _spread(self, name: str, value: float, deviation: float) -> tuple[str, str, str]:
        if name in self.left_out or name in self.untold:
            return "-", "-", "left out" if name in self.left_out else "the data cannot tell"
        part = float(relative_deviation(value, deviation))
        relative = "-" if np.isnan(part) else f"{100 * part:.2g} %"
        low, high = value - NORMAL_95 * deviation, value + NORMAL_95 * deviation
        return f"{deviation:.2g}", relative, f"{low:.5g} to {high:.5g}"

    def predict(self, samples: Samples) -> Array:
        """tau (N, n) = Y beta at every sample, low-passed segment by segment as in the fit."""
        require_joints(self.regressor, samples)
        tau = unfiltered_prediction(self.regressor, self.beta, samples)
        if self.filter_hz is not None:
            for start, stop in segment_ends(samples.segments):
                tau[start:stop] = lowpass(tau[start:stop], self.filter_hz, samples.rate_hz)
        return tau

    def samples_of(self, log: Log) -> Samples:
        """The log conditioned as in the fit, at every row and with the torque as logged."""
        if self.conditioning is None:
            raise InputError("the estimate was made from samples: condition the log yourself and call predict")
        return condition(log, self.robot, self.conditioning.for_prediction()).samples

    def predict_log(self, log: Log) -> Array:
        """tau (N, n) at every row of a log, from its motion alone."""
        return self.predict(self.samples_of(log))

    def with_provenance(self, **entries: Any) -> Estimate:
        """The same with more provenance."""
        return replace(self, provenance={**self.provenance, **entries})

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {
            "format": FORMAT,
            "robot": robot_record(self.robot),
            "drives": self.base.drives,
            "base_form": self.base.form,
            "friction": self.regressor.friction.to_dict(),
            "names": list(self.names),
            "beta": self.beta.tolist(),
            "covariance": _finite_lists(self.covariance),
            "status": self.status,
            "residuals": [
                {
                    "joint": r.joint,
                    "rows": r.rows,
                    "rms": r.rms,
                    "rms_torque": r.rms_torque,
                    "correlation": r.correlation,
                }
                for r in self.residuals
            ],
            "filter_hz": self.filter_hz,
            "left_out": list(self.left_out),
            "untold": list(self.untold),
            "conditioning": None if self.conditioning is None else self.conditioning.to_dict(),
            "provenance": dict(self.provenance),
            "shifts": None if self.shifts is None else self.shifts.tolist(),
        }

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        write_whole(path, json.dumps(self.to_dict(), indent=1) + "\n")


def unfiltered_prediction(regressor: Regressor, beta: Array, samples: Samples) -> Array:
    """Y beta (N, n), block by block."""
    tau = np.empty_like(samples.q)
    directions = regressor.directions(samples.qd, samples.segments, samples.rate_hz)
    for start in range(0, len(samples), BLOCK_ROWS):
        taken = slice(start, min(start + BLOCK_ROWS, len(samples)))
        motion = (samples.q[taken], samples.qd[taken], samples.qdd[taken])
        parts = regressor.parts(*motion, None if directions is None else directions[taken])
        for joint, (columns, arrays) in enumerate(zip(regressor.columns, parts, strict=True)):
            tau[taken, joint] = np.concatenate(arrays, axis=1) @ beta[columns]
    return tau


def load_estimate(path: str | Path) -> Estimate:
    """The estimate of a JSON file."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as an estimate: {error}", hint="Estimate.save and mindyn identify --out write them"
        ) from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{path} is not an estimate of mindyn: its format is not {FORMAT!r}")
    try:
        return _estimate_of(values, str(path))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__} {error}") from error


def _estimate_of(values: dict[str, Any], path: str) -> Estimate:
    robot = robot_from_record(values["robot"])
    base = base_parameters(robot, values["base_form"], drives=values["drives"])
    regressor = Regressor(robot, Friction.from_dict(values["friction"]), base)
    if list(regressor.names) != values["names"]:
        raise InputError(f"{path} names other parameters than this version of mindyn finds for its robot")
    conditioning, shifts = values["conditioning"], values.get("shifts")
    return Estimate(
        regressor,
        np.array(values["beta"]),
        _array_of(values["covariance"]),
        values["status"],
        tuple(JointResidual(**one) for one in values["residuals"]),
        values["filter_hz"],
        tuple(values["left_out"]),
        tuple(values["untold"]),
        None if conditioning is None else Conditioning.from_dict(conditioning),
        values["provenance"],
        None if shifts is None else np.array(shifts),
    )


def _finite_lists(matrix: Array) -> list[list[float | None]]:
    """JSON has no infinity: null stands for it."""
    return [[float(v) if np.isfinite(v) else None for v in row] for row in matrix]


def _array_of(rows: list[list[float | None]]) -> Array:
    return np.array([[np.inf if v is None else v for v in row] for row in rows])
