"""`Estimate`: identified parameters with their uncertainty and origin; predicts torques, saves and loads.

`Estimator`: the protocol of all fits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.significance import NORMAL_95, relative_deviation
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise, shorten_text, suggest_name
from mindyn.foundation.files import locate_beside, relative_path, write_file_atomically
from mindyn.foundation.findings import Finding
from mindyn.foundation.pages.notebook import NotebookDisplay, Page, draw_page
from mindyn.foundation.reading import read_json
from mindyn.identification.estimators.estimate_files import (
    add_checksum,
    base_record,
    read_base,
    require_agreement,
    require_physical,
    robot_from_record,
    robot_record,
)
from mindyn.identification.estimators.estimate_parts import (
    CrossValidated,
    FrictionCurve,
    Identifiability,
    JackknifeDeviation,
    JointResidual,
    Physical,
    data_summary,
    describe_status,
    find_unidentifiable,
    infinite_variances,
    joint_residuals,
    read_array,
    save_array,
    unexplained_fraction,
)
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.filters import lowpass
from mindyn.logs.log import Log, SourceFile
from mindyn.logs.pipeline import ConditionedSamples, condition
from mindyn.logs.samples import Samples
from mindyn.logs.servos import Servo
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.parameter import Parameter
from mindyn.regression.friction import Friction
from mindyn.regression.information import FACTORED_ROWS, Information, joint_weights
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import require_joints, segment_ends
from mindyn.regression.rows import Quantity, Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table

if TYPE_CHECKING:
    import polars as pl

ESTIMATE_FORMAT: Final = "mindyn estimate 5"
ESTIMATED: Final = "estimated"
FROM_PRIOR: Final = "from the prior"
"""States of a value with an interval, and of one that the prior determines."""
CONDITIONAL: Final = (
    "Intervals of friction coefficients hold for the selected friction law and the temperature of the logs."
)
UNBOUNDED: Final = " Intervals are of the fit without physical bounds and may reach beyond them."
Codec = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def _save_settings(settings: EquationSettings) -> dict[str, Any]:
    friction = settings.friction
    if isinstance(friction, Friction):
        friction = replace(friction, reference=())  # on loading, the estimate's own values
    return replace(settings, friction=friction).to_dict()


_UNCHANGED: Final[Codec] = (lambda value: value, lambda saved: saved)
_NAMES: Final[Codec] = (list, tuple)
_ARRAY: Final[Codec] = (np.ndarray.tolist, np.array)
_SAVED_ENTRIES: Final[Mapping[str, Codec]] = {
    "beta": _ARRAY,
    "covariance": (save_array, read_array),
    "status": _UNCHANGED,
    "residuals": (lambda given: list(map(asdict, given)), lambda saved: tuple(JointResidual(**row) for row in saved)),
    "settings": (_save_settings, EquationSettings.from_dict),
    "dropped": _NAMES,
    "dropped_ends": (save_array, lambda saved: read_array(saved, np.nan)),
    "dropped_shifts": _ARRAY,
    "unidentifiable": _NAMES,
    "method": _UNCHANGED,
    "residual_of": _UNCHANGED,
    "joint_weights": _ARRAY,
    "factor": _ARRAY,
    "condition_number": _UNCHANGED,
    "physical": (Physical.to_dict, Physical.from_dict),
    "projected": _UNCHANGED,
    "shifts": _ARRAY,
    "jackknife": (JackknifeDeviation.to_dict, JackknifeDeviation.from_dict),
    "identifiable": (asdict, lambda saved: Identifiability(**saved)),
    "findings": (lambda given: [item.to_dict() for item in given], lambda saved: tuple(map(Finding.from_dict, saved))),
    "sources": (lambda given: list(map(asdict, given)), lambda saved: tuple(map(SourceFile.from_dict, saved))),
    "cross_validated": (asdict, lambda saved: CrossValidated(**saved)),
    "provenance": (dict, dict),
    "servo": (Servo.to_dict, Servo.from_dict),
    "friction_curves": (
        lambda given: [curve.to_dict() for curve in given],
        lambda saved: tuple(map(FrictionCurve.from_dict, saved)),
    ),
}
"""How the fields of an estimate are saved and loaded, in the order of the file; None stays None."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimate(NotebookDisplay):
    """Identified values of the parameters of a regressor.

    Below, p is the number of parameters and n the number of joints with a torque.

    Attributes
    ----------
    regressor : Regressor
        Robot, base set and friction shape; defines the parameters.
    beta : (p,) array
        Values, in the SI units of `units`.
    covariance : (p, p) array
        Covariance of `beta`; zero for dropped parameters, infinite variance for unidentifiable ones.
    status : str
        Result of the fit in one sentence.
    residuals : tuple of JointResidual
        Residuals of each joint.
    settings : EquationSettings
        How logs became equations; its filter also applies to predictions.
    dropped : tuple of str
        Names of parameters that were set to zero.
    unidentifiable : tuple of str
        Names of parameters that the data do not determine.
    method : str
        Name of the method.
    residual_of : str
        Quantity of the residuals; `rms_torque` is then the rms of that quantity.
    joint_weights : (n,) array or None
        1 / residual variance of each joint's rows in the fit.
    condition_number : float or None
        Condition number of the weighted equations with columns of unit length; None if infinite or unknown.
    physical : Physical or None
        Parameters behind physically consistent values; None for an unconstrained fit.
    projected : bool
        Whether infeasible values were projected onto the feasible set.
    shifts : (k, p) array or None
        Systematic errors in the covariance: common shifts of all values by timing and differences, of one standard
        deviation each.
    jackknife : JackknifeDeviation or None
        Inflation of the covariance by the deviation between blocks.
    identifiable : Identifiability or None
        Whether the logs can identify the robot; None if they were not diagnosed.
    findings : tuple of Finding
        Selected settings, dropped parameters, and problems of the logs.
    sources : tuple of SourceFile
        Files of the logs.
    cross_validated : CrossValidated or None
        Error by which settings were selected.
    provenance : mapping
        Further settings and choices, for people; mindyn does not read it.
    dropped_ends : (2, p) array or None
        95 % intervals of dropped parameters from a fit that includes them, zero inside; NaN for all others.
    dropped_shifts : (k, p) array or None
        Joint shifts of all values that dropped parameters may cause, one standard deviation each.
    factor : (p + 1, p + 1) array or None
        R factor of the weighted equations, their torque in the last column, from which constrained values can be fitted
        without the logs; None for other methods than least squares.
    servo : Servo or None
        Position servos of the logs, whose gains were given or estimated; None for logs with torques.
    friction_curves : tuple of FrictionCurve
        Friction of each driven joint over the speeds of the logs, averaged over the laws that the logs cannot separate,
        with a band for the curve of another recording at the temperatures of these logs. Empty if not computed.
    """

    regressor: Regressor
    beta: Array
    covariance: Array
    status: str
    residuals: tuple[JointResidual, ...]
    settings: EquationSettings
    dropped: tuple[str, ...] = ()
    unidentifiable: tuple[str, ...] = ()
    method: str = ""
    residual_of: Quantity = "torque"
    joint_weights: Array | None = None
    condition_number: float | None = None
    physical: Physical | None = None
    projected: bool = False
    shifts: Array | None = None
    jackknife: JackknifeDeviation | None = None
    identifiable: Identifiability | None = None
    findings: tuple[Finding, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    cross_validated: CrossValidated | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    dropped_ends: Array | None = None
    dropped_shifts: Array | None = None
    servo: Servo | None = None
    friction_curves: tuple[FrictionCurve, ...] = ()
    factor: Array | None = None

    @staticmethod
    def from_fit(
        rows: Rows,
        beta: ArrayLike,
        covariance: ArrayLike,
        method: str,
        *,
        information: Information | None = None,
        weights: Array | None = None,
        dropped: Sequence[str] = (),
        unidentifiable: Sequence[str] | None = None,
        correlations: Sequence[float | None] | None = None,
        provenance: Mapping[str, Any] = MappingProxyType({}),
    ) -> Estimate:
        """Return the estimate of a fit; everything that you do not pass follows from the rows and the values.

        Parameters
        ----------
        rows : Rows
            The equations that were fitted.
        beta : (p,) array_like
            Values of `rows.regressor.parameters`.
        covariance : (p, p) array_like
            Their covariance; variances of unidentifiable parameters become infinite.
        method : str
            Name of the method, for people.
        information : Information, optional
            R factors of the fit, if it weighted the rows of a joint differently.
        weights : (n,) array, optional
            Weight of each joint's rows; by default 1 / mean squared residual.
        dropped : sequence of str
            Parameters that the fit set to zero.
        unidentifiable : sequence of str, optional
            Parameters that the rows do not determine; by default those in the null space of the weighted equations.
        correlations : sequence of float, optional
            Correlation of neighbouring residuals of each joint.
        provenance : mapping
            Further settings, for people.

        Returns
        -------
        Estimate
        """
        values, factors = np.asarray(beta, dtype=np.float64), information or rows.information
        names = factors.names
        used = joint_weights(factors, values) if weights is None else weights
        if unidentifiable is None:
            unidentifiable = find_unidentifiable(factors.stacked(used)[0], names, dropped)
        residuals = joint_residuals(factors, values, correlations)
        condition_number = factors.condition_number(used)
        summary = (
            f"{pluralise(len(names) - len(dropped), 'parameter')} from {data_summary(factors, rows.settings)} leave "
            f"{100 * unexplained_fraction(residuals):.3g} % of the {rows.quantity} unexplained"
        )
        return Estimate(
            rows.regressor,
            values,
            infinite_variances(np.asarray(covariance, dtype=np.float64), names, unidentifiable),
            describe_status([summary], unidentifiable),
            residuals,
            rows.settings,
            tuple(dropped),
            tuple(unidentifiable),
            method=method,
            residual_of=rows.quantity,
            joint_weights=used,
            condition_number=condition_number if np.isfinite(condition_number) else None,
            provenance=dict(provenance),
        )

    @property
    def robot(self) -> Robot:
        """The robot, with the drives whose parameters were estimated."""
        return self.regressor.robot

    @property
    def base(self) -> BaseParameters:
        """The base set; its values are `base_values`, friction shapes come after them."""
        return self.regressor.base

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Kind, joint or link, and unit of each value."""
        return self.regressor.parameters

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all parameters."""
        return self.regressor.names

    @property
    def units(self) -> tuple[str, ...]:
        """SI units of the parameters; empty for a parameter without a common one."""
        return tuple(parameter.unit for parameter in self.parameters)

    @property
    def filter_hz(self) -> float | None:
        """Cut-off of the low pass on columns and torque in the fit, and on predictions."""
        return self.settings.cutoff_hz

    @property
    def conditioning(self) -> Conditioning | None:
        """How logs became samples; None if samples were given."""
        return self.settings.conditioning

    @property
    def base_values(self) -> Array:
        """Values of the base set."""
        return self.beta[: self.base.count]

    @property
    def deviations(self) -> Array:
        """(p,) standard deviations."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def correlations(self) -> Array:
        """(p, p) correlation of the parameters' errors; zero for dropped and unidentifiable ones."""
        deviations = self.deviations
        is_finite = np.isfinite(deviations) & (deviations > 0)
        scale = np.where(is_finite, 1 / np.where(is_finite, deviations, 1.0), 0.0)
        return np.asarray(np.where(np.isfinite(self.covariance), self.covariance, 0.0) * scale * scale[:, None])

    def by_noise_alone(self) -> Estimate:
        """Return the estimate with the covariance of noise alone, without systematic errors and jackknife."""
        alone = self.covariance if self.shifts is None else self.covariance - self.shifts.T @ self.shifts
        if self.jackknife is not None:
            alone = alone / np.outer(self.jackknife.inflated, self.jackknife.inflated)
        return replace(self, covariance=alone, shifts=None, jackknife=None)

    @property
    def half_widths(self) -> Array:
        """(p,) half-widths of the 95 % intervals from the covariance: infinite if unidentifiable, zero if dropped."""
        return self.deviations * (NORMAL_95 if self.jackknife is None else self.jackknife.quantiles)

    def half_widths_of(self, rows: Array) -> Array:
        """Return (k,) half-widths of the 95 % intervals of rows (k, p) @ beta; infinite if a row has an unidentifiable
        part.
        """
        is_finite = np.isfinite(np.diag(self.covariance))
        finite = np.where(np.isfinite(self.covariance), self.covariance, 0.0)
        deviations = np.sqrt(np.maximum(np.einsum("ki,ij,kj->k", rows, finite, rows), 0.0))
        deviations[(rows[:, ~is_finite] != 0).any(axis=1)] = np.inf
        return np.asarray(deviations * self.quantile)

    @property
    def quantile(self) -> float:
        """Half-width, in standard deviations, of the 95 % interval of a quantity that depends on all parameters."""
        return NORMAL_95 if self.jackknife is None else self.jackknife.quantile

    @property
    def intervals(self) -> Array:
        """(2, p) ends of the 95 % intervals; NaN for unidentifiable parameters and those that the prior determines.

        For physically consistent values, these are the least and greatest values that data and physics allow. For
        dropped parameters they come from a fit that includes them, and contain zero; NaN if that was not computed.
        """
        if self.physical is not None and self.physical.ends is not None:
            ends = np.array(self.physical.ends)
        else:
            ends = self.beta + np.array([[-1.0], [1.0]]) * self.half_widths
        without = np.array([name in self.dropped or name in self.unidentifiable for name in self.names], dtype=np.bool_)
        ends[:, without | ~np.isfinite(ends).all(axis=0)] = np.nan
        return np.asarray(ends if self.dropped_ends is None else np.where(np.isnan(ends), self.dropped_ends, ends))

    def with_own_load(self) -> Estimate:
        """Return the estimate with its own values as the reference of load-dependent friction."""
        if not self.regressor.friction.needs_load:
            return self
        friction = replace(self.regressor.friction, reference=tuple(self.base_values.tolist()))
        regressor, settings = self.regressor.with_friction(friction), replace(self.settings, friction=friction)
        return replace(self, regressor=regressor, settings=settings)

    def __repr__(self) -> str:
        return f"Estimate({self.robot.name!r}, {pluralise(len(self.names), 'parameter')} by {self.method or 'hand'})"

    def plot(self, *logs: Log) -> Page:
        """Return the report; with `logs` also torque, friction and residuals. `.save(path)` writes it."""
        return draw_page("estimate_page", self, *logs)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per parameter: name, value, unit, deviation, ends of its 95 % interval, state."""
        import polars as pl

        return pl.DataFrame(columns_of(self))

    def value(self, name: str) -> float:
        """Return the value of a parameter by name."""
        if name not in self.names:
            message = f"no parameter {name!r}; there are: {', '.join(self.names)}"
            raise InputError(message, hint=suggest_name(name, self.names), code=Code.UNKNOWN_NAME, subject=name)
        return float(self.beta[self.names.index(name)])

    def table(self) -> str:
        """Return a text table of all parameters with value, standard deviation and 95 % interval."""
        rows: list[tuple[str, ...]] = [("parameter", "value", "unit", "std. dev.", "relative", "95 % interval")]
        relative = relative_deviation(self.beta, self.deviations, self.intervals)
        columns = zip(*columns_of(self).values(), relative, strict=True)
        for name, value, unit, deviation, low, high, state, part in columns:
            cells = ("-", "-", state if low is None else f"{state}; {low:.2g} to {high:.2g}")
            if state == ESTIMATED:
                cells = (
                    f"{deviation:.2g}",
                    "-" if np.isnan(part) else f"{100 * part:.2g} %",
                    f"{low:.5g} to {high:.5g}",
                )
            rows.append((name, f"{value:.5g}", unit, *cells))
        unbounded = self.physical is not None and self.physical.ends is None
        conditional = any(parameter.is_friction for parameter in self.parameters)
        notes = (f" {CONDITIONAL}" if conditional else "") + (UNBOUNDED if unbounded else "")
        return f"{format_table(rows)}\n\n{self.status}{notes}"

    @property
    def constrained(self) -> bool:
        """Whether the values are physically consistent; the covariance is then that of the unconstrained fit."""
        return self.physical is not None

    def predict(self, motion: Samples | ArrayLike, qd: ArrayLike | None = None, qdd: ArrayLike | None = None) -> Array:
        """Predict the torque Y beta.

        Samples are low-passed segment by segment as in the fit. Single states cannot be filtered: their torque is that
        of the model at that state.

        Parameters
        ----------
        motion : Samples or (..., n) array_like
            Samples, or positions in rad or m.
        qd, qdd : (..., n) array_like, optional
            Velocities and accelerations, if `motion` is an array of positions.

        Returns
        -------
        (N, n) or (..., n) array
            Torques in N m, or forces in N.

        Raises
        ------
        InputError
            If qd or qdd is missing, shapes disagree, or the friction needs the previous motion.
        """
        if isinstance(motion, Samples):
            require_joints(self.regressor, motion)
            tau = predict_unfiltered(self.regressor, self.beta, motion)
            if self.filter_hz is not None:
                for start, stop in segment_ends(motion.segments):
                    tau[start:stop] = lowpass(tau[start:stop], self.filter_hz, motion.rate_hz)
            return tau
        if qd is None or qdd is None:
            missing = "qd" if qd is None else "qdd"
            message = f"predict needs samples, or q, qd and qdd; {missing} is missing"
            raise InputError(message, hint="pass all three arrays", code=Code.MISSING_VALUE, subject=missing)
        if self.regressor.friction.direction == "stop":
            raise InputError(
                'friction of direction "stop" depends on the previous motion, which single states do not have',
                hint="use predict(samples) or predict_log(log)",
                code=Code.UNSUPPORTED,
                subject="stop",
            )
        q, qd, qdd = np.broadcast_arrays(*(np.asarray(array, dtype=np.float64) for array in (motion, qd, qdd)))
        names, n = self.regressor.joint_names, self.regressor.joint_count
        if not q.ndim or q.shape[-1] != n:
            message = f"q must have the shape (..., {n}), one column for each joint; got {q.shape}"
            raise InputError(message, code=Code.WRONG_SHAPE, subject="q")
        flat = [np.ascontiguousarray(array).reshape(-1, n) for array in (q, qd, qdd)]
        numbers = np.arange(len(flat[0]), dtype=np.int64)  # every state by itself
        alone = Samples(names, flat[0], flat[1], flat[2], np.zeros_like(flat[0]), 1.0, numbers)
        return predict_unfiltered(self.regressor, self.beta, alone).reshape(q.shape)

    def sample(self, count: int, rng: np.random.Generator | int) -> Any:
        """Draw physically consistent complete models from the posterior, by `mindyn.sample_models`."""
        package: Any = import_module("mindyn")
        return package.sample_models(self, count, rng)

    def samples_of(self, log: Log) -> Samples:
        """Condition a log as in the fit, at every row and with unfiltered torque."""
        return self.condition_log(log).samples

    def condition_log(self, log: Log) -> ConditionedSamples:
        """Condition a log as `samples_of` does, and return also the rows and times of its samples."""
        return condition(self.robot, log, self.conditioning_for(log).for_prediction())

    def conditioning_for(self, log: Log) -> Conditioning:
        """Return the conditioning of the fit for a log, which may have other signals than those of the fit."""
        if self.conditioning is None:
            message = "the estimate was fitted to samples and does not know how to condition a log"
            hint = "use an estimate of identify, or condition the log yourself and call predict(samples)"
            raise InputError(message, hint=hint, code=Code.MISSING_VALUE, subject="conditioning")
        return self.conditioning.for_log(velocity=log.qd is not None, acceleration=log.qdd is not None)

    def predict_log(self, log: Log) -> Array:
        """Predict the torque (N, n) at every row of a log from its motion."""
        return self.predict(self.samples_of(log))

    def with_provenance(self, **entries: Any) -> Estimate:
        """Return the estimate with more provenance."""
        return replace(self, provenance={**self.provenance, **entries})

    def to_dict(self) -> dict[str, Any]:
        """Return all entries as a dictionary for JSON."""
        entries = {name: getattr(self, name) for name in _SAVED_ENTRIES}
        return {
            "format": ESTIMATE_FORMAT,
            "robot": robot_record(self.robot),
            "base": base_record(self.base),
            "names": list(self.names),
            **{name: value if value is None else _SAVED_ENTRIES[name][0](value) for name, value in entries.items()},
        }

    def save(self, path: str | Path, folder: str | Path | None = None) -> Path:
        """Write the estimate to a JSON file, with the paths of its logs relative to its folder, and return its path.

        folder  folder that the file will be moved to
        """
        home = Path(path).parent if folder is None else Path(folder)
        values = self.to_dict()
        sources = [{**source, "path": relative_path(source["path"], home)} for source in values["sources"]]
        return write_file_atomically(path, json.dumps(add_checksum({**values, "sources": sources}), indent=1) + "\n")


def columns_of(estimate: Estimate) -> dict[str, list[Any]]:
    """Return the columns of all parameters; deviation and interval are None if a parameter has none, see its state.

    Dropped parameters may have an interval, but no deviation, since they were not fitted.
    """
    state = {**dict.fromkeys(estimate.unidentifiable, "unidentifiable"), **dict.fromkeys(estimate.dropped, "dropped")}
    low, high = ([None if np.isnan(end) else end for end in ends] for ends in estimate.intervals.tolist())
    fitted = [end is not None and name not in estimate.dropped for name, end in zip(estimate.names, low, strict=True)]
    spread = zip(estimate.deviations.tolist(), fitted, strict=True)
    return {
        "name": list(estimate.names),
        "value": estimate.beta.tolist(),
        "unit": list(estimate.units),
        "deviation": [deviation if is_known else None for deviation, is_known in spread],
        "low": low,
        "high": high,
        "state": [
            state.get(name, FROM_PRIOR if end is None else ESTIMATED)
            for name, end in zip(estimate.names, low, strict=True)
        ],
    }


def predict_unfiltered(regressor: Regressor, beta: Array, samples: Samples) -> Array:
    """Return Y beta (N, n), computed in blocks of rows."""
    tau, q = np.empty_like(samples.q), regressor.positions(samples)
    directions = regressor.directions(q, samples.qd, samples.segments, samples.rate_hz)
    for start in range(0, len(samples), FACTORED_ROWS):
        taken = slice(start, start + FACTORED_ROWS)
        motion = (q[taken], samples.qd[taken], samples.qdd[taken])
        parts = regressor.parts(*motion, None if directions is None else directions[taken])
        for joint, (columns, arrays) in enumerate(zip(regressor.columns, parts, strict=True)):
            tau[taken, joint] = np.concatenate(arrays, axis=1) @ beta[columns]
    return tau


def load_estimate(path: str | Path) -> Estimate:
    """Load an estimate.

    Parameters
    ----------
    path : str or Path
        A JSON file, or the folder of a run.

    Returns
    -------
    Estimate
        The estimate, with all digits of the saved one.

    Raises
    ------
    InputError
        If the file is missing, damaged, inconsistent, or of another format.
    """
    path = Path(path) / "estimate.json" if Path(path).is_dir() else Path(path)
    values = read_json(path, "estimate", InputError, "Estimate.save and mindyn identify --out write them")
    stated = values.get("format")
    if stated != ESTIMATE_FORMAT:
        later = isinstance(stated, str) and stated.startswith("mindyn estimate ")
        raise InputError(
            f"{path} is not an estimate of mindyn: its format is {shorten_text(repr(stated), 100)}, "
            f"not {ESTIMATE_FORMAT!r}",
            hint="another version of mindyn wrote it: use that version, or identify again" if later else "",
            code=Code.WRONG_FORMAT,
            subject=path,
        )
    try:
        require_agreement(values, str(path))
        return _estimate_of(values, str(path))
    except (KeyError, IndexError, AttributeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = shorten_text(f"{type(error).__name__} {error}", 300)
        raise InputError(f"{path} is damaged: {reason}", code=Code.UNREADABLE, subject=path) from error


def _estimate_of(values: Mapping[str, Any], path: str) -> Estimate:
    robot, settings = robot_from_record(values["robot"]), EquationSettings.from_dict(values["settings"])
    base, kernel = read_base(robot, values["base"])
    if settings.shape.needs_load:
        settings = replace(settings, friction=replace(settings.shape, reference=tuple(values["beta"][: base.count])))
    regressor = Regressor(robot, settings.shape, base, kernel)
    if list(regressor.names) != values["names"]:
        message = f"{path} has other parameters than this version of mindyn derives for its robot"
        raise InputError(message, hint="identify again", code=Code.DISAGREEMENT, subject=path)
    require_physical(regressor, np.array(values["beta"]), values["physical"])
    entries = {name: load(values[name]) for name, (_, load) in _SAVED_ENTRIES.items() if values.get(name) is not None}
    folder = Path(path).parent
    entries["sources"] = tuple(replace(s, path=locate_beside(s.path, folder)) for s in entries["sources"])
    if "dropped_shifts" in entries:
        entries["dropped_shifts"] = entries["dropped_shifts"].reshape(-1, len(regressor.names))
    return Estimate(**entries | {"regressor": regressor, "settings": settings})


Needs = Literal["information", "samples"]


class Estimator(Protocol):
    """Settings of a fit: `fit` takes the data and returns a frozen `Estimate`.

    To add an estimator, implement `needs` and `fit`; the other members have defaults.
    """

    @property
    def needs(self) -> Needs:
        """What the fit reads: "information" (R factors only) or "samples"."""

    @property
    def filters_alike(self) -> bool:
        """Whether columns, torque and instruments need the same low pass, because torque noise is in all of them."""
        return False

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002 - part of the protocol
        """Return settings that the estimator supports in place of the wanted ones.

        Parameters
        ----------
        robot : Robot
            The robot to identify.
        wanted : EquationSettings
            The user's settings.

        Returns
        -------
        EquationSettings

        Raises
        ------
        MindynError
            If the estimator cannot fit this robot.
        """
        return wanted

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows.

        Parameters
        ----------
        rows : Rows
            Equations from `build_rows`.

        Returns
        -------
        Estimate
        """
