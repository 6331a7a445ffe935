"""`Estimate`: identified parameters with their uncertainty and origin; predicts torques, saves and loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.significance import relative_deviation
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise, suggest_name
from mindyn.foundation.findings import Finding
from mindyn.foundation.json_values import to_json_value
from mindyn.foundation.pages.notebook_display import NotebookDisplay, Page, draw_page
from mindyn.identification.estimators.estimate_files import (
    base_record,
    read_base,
    require_agreement,
    require_physical,
    robot_from_record,
    robot_record,
)
from mindyn.identification.estimators.estimate_parts import FitData, ParameterValues, Provenance, Uncertainty
from mindyn.identification.estimators.estimate_records import (
    CrossValidated,
    FrictionCurve,
    Identifiability,
    JackknifeDeviation,
    JointResidual,
    Physical,
    read_array,
)
from mindyn.identification.estimators.fit_summary import (
    data_summary,
    describe_status,
    find_unidentifiable,
    infinite_variances,
    joint_residuals,
    unexplained_fraction,
)
from mindyn.identification.estimators.result_files import (
    ResultFormat,
    result_folder,
    with_located_paths,
    with_relative_paths,
    write_result,
)
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.filters import lowpass
from mindyn.logs.log import Log, SourceFile
from mindyn.logs.pipeline import ConditionedSamples, condition
from mindyn.logs.samples import Samples, segment_ends
from mindyn.logs.servos import Servo
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.parameter import Parameter
from mindyn.regression.friction import Friction
from mindyn.regression.information import FACTORED_ROWS, Information, joint_weights
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import require_joints
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table

if TYPE_CHECKING:
    import polars as pl

ESTIMATE_FORMAT: Final = ResultFormat(
    "mindyn estimate 6", "an", "estimate", "estimate.json", "Estimate.save and mindyn identify --out write them"
)
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
_SAVED_PARTS: Final[Mapping[str, Mapping[str, Codec]]] = {
    "values": {
        "beta": _ARRAY,
        "dropped": _NAMES,
        "unidentifiable": _NAMES,
        "physical": (Physical.to_dict, Physical.from_dict),
        "projected": _UNCHANGED,
    },
    "uncertainty": {
        "covariance": (to_json_value, read_array),
        "shifts": _ARRAY,
        "jackknife": (JackknifeDeviation.to_dict, JackknifeDeviation.from_dict),
        "dropped_ends": (to_json_value, lambda saved: read_array(saved, np.nan)),
        "dropped_shifts": _ARRAY,
        "friction_curves": (
            lambda given: [curve.to_dict() for curve in given],
            lambda saved: tuple(map(FrictionCurve.from_dict, saved)),
        ),
    },
    "data": {
        "settings": (_save_settings, EquationSettings.from_dict),
        "residuals": (
            lambda given: list(map(asdict, given)),
            lambda saved: tuple(JointResidual(**row) for row in saved),
        ),
        "residual_of": _UNCHANGED,
        "joint_weights": _ARRAY,
        "condition_number": _UNCHANGED,
        "factor": _ARRAY,
        "sources": (lambda given: list(map(asdict, given)), lambda saved: tuple(map(SourceFile.from_dict, saved))),
        "servo": (Servo.to_dict, Servo.from_dict),
        "identifiable": (asdict, lambda saved: Identifiability(**saved)),
        "cross_validated": (asdict, lambda saved: CrossValidated(**saved)),
    },
    "provenance": {
        "method": _UNCHANGED,
        "status": _UNCHANGED,
        "findings": (
            lambda given: [item.to_dict() for item in given],
            lambda saved: tuple(map(Finding.from_dict, saved)),
        ),
        "notes": (dict, dict),
    },
}
"""How the entries of each part are saved and loaded, in the order of the file; None stays None."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimate(NotebookDisplay):
    """Identified values of the parameters of a regressor.

    The values that most programs need are attributes of the estimate itself: `names`, `beta`, `intervals`, `findings`,
    `predict`. All other values are in four parts.

    Attributes
    ----------
    regressor : Regressor
        Robot, base set and friction shape; defines the parameters.
    values : ParameterValues
        The values, and which of them were dropped, are unidentifiable, or follow from physical ones.
    uncertainty : Uncertainty
        Covariance of the values and its contributions; friction curves with bands.
    data : FitData
        Settings, residuals and files of the fit.
    provenance : Provenance
        Method, status, findings and notes, for people.
    """

    regressor: Regressor
    values: ParameterValues
    uncertainty: Uncertainty
    data: FitData
    provenance: Provenance = field(default_factory=Provenance)

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
        """Return the estimate of a fit. Arguments that you do not pass are computed from the rows and the values.

        Parameters
        ----------
        rows : Rows
            The equations that were fitted.
        beta : (p,) array_like
            Values of `rows.regressor.parameters`.
        covariance : (p, p) array_like
            Covariance of the values; variances of unidentifiable parameters become infinite.
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
            ParameterValues(values, tuple(dropped), tuple(unidentifiable)),
            Uncertainty(infinite_variances(np.asarray(covariance, dtype=np.float64), names, unidentifiable)),
            FitData(
                rows.settings,
                residuals,
                rows.quantity,
                joint_weights=used,
                condition_number=condition_number if np.isfinite(condition_number) else None,
            ),
            Provenance(method, describe_status([summary], unidentifiable), notes=dict(provenance)),
        )

    @property
    def robot(self) -> Robot:
        """The robot, with the drives whose parameters were estimated."""
        return self.regressor.robot

    @property
    def base(self) -> BaseParameters:
        """The base set, whose values are `base_values`. In `beta`, friction shapes follow after these values."""
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
    def beta(self) -> Array:
        """(p,) values of all parameters, in the SI units of `units`."""
        return self.values.beta

    @property
    def base_values(self) -> Array:
        """Values of the base set."""
        return self.beta[: self.base.count]

    @property
    def covariance(self) -> Array:
        """(p, p) covariance of `beta`; zero for dropped parameters, infinite variance for unidentifiable ones."""
        return self.uncertainty.covariance

    @property
    def deviations(self) -> Array:
        """(p,) standard deviations."""
        return self.uncertainty.deviations

    @property
    def settings(self) -> EquationSettings:
        """Settings that define how logs become equations; their filter is also used for predictions."""
        return self.data.settings

    @property
    def status(self) -> str:
        """Result of the fit in one sentence."""
        return self.provenance.status

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Selected settings, dropped parameters, and problems of the logs."""
        return self.provenance.findings

    @property
    def intervals(self) -> Array:
        """(2, p) ends of the 95 % intervals; NaN for unidentifiable parameters, and for those that the prior
        determines.

        For physically consistent values, the ends are the smallest and largest values that data and physics allow. For
        dropped parameters, the intervals come from a fit that includes them, and contain zero; they are NaN if that fit
        was not computed.
        """
        values, dropped_ends = self.values, self.uncertainty.dropped_ends
        if values.physical is not None and values.physical.ends is not None:
            ends = np.array(values.physical.ends)
        else:
            ends = self.beta + np.array([[-1.0], [1.0]]) * self.uncertainty.half_widths
        without = np.isin(self.names, (*values.dropped, *values.unidentifiable))
        ends[:, without | ~np.isfinite(ends).all(axis=0)] = np.nan
        return np.asarray(ends if dropped_ends is None else np.where(np.isnan(ends), dropped_ends, ends))

    def by_noise_alone(self) -> Estimate:
        """Return the estimate with the covariance from noise alone, without systematic errors and jackknife."""
        return replace(self, uncertainty=self.uncertainty.of_noise_alone())

    def with_own_load(self) -> Estimate:
        """Return the estimate with its own values as the reference of load-dependent friction."""
        if not self.regressor.friction.needs_load:
            return self
        friction = replace(self.regressor.friction, reference=tuple(self.base_values.tolist()))
        changed = self.with_data(settings=replace(self.settings, friction=friction))
        return replace(changed, regressor=self.regressor.with_friction(friction))

    def __repr__(self) -> str:
        method = self.provenance.method or "hand"
        return f"Estimate({self.robot.name!r}, {pluralise(len(self.names), 'parameter')} by {method})"

    def plot(self, *logs: Log) -> Page:
        """Return the report; with `logs`, it also shows torque, friction and residuals.

        `.save(path)` writes it to a file.
        """
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
        physical = self.values.physical
        unbounded = physical is not None and physical.ends is None
        conditional = any(parameter.is_friction for parameter in self.parameters)
        notes = (f" {CONDITIONAL}" if conditional else "") + (UNBOUNDED if unbounded else "")
        return f"{format_table(rows)}\n\n{self.status}{notes}"

    def predict(self, motion: Samples | ArrayLike, qd: ArrayLike | None = None, qdd: ArrayLike | None = None) -> Array:
        """Predict the torque Y beta.

        Samples are low-passed segment by segment as in the fit. Arrays of single states are not filtered.

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
            cutoff_hz = self.settings.filtering.equations_hz
            if cutoff_hz is not None:
                for start, stop in segment_ends(motion.segments):
                    tau[start:stop] = lowpass(tau[start:stop], cutoff_hz, motion.rate_hz)
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
        """Condition a log like `samples_of`, and also return the rows and the times of its samples."""
        return condition(self.robot, log, self.conditioning_for(log).for_prediction())

    def conditioning_for(self, log: Log) -> Conditioning:
        """Return the conditioning of the fit, adapted to the signals of a log, which may differ from those of the
        fit.
        """
        if self.settings.conditioning is None:
            message = "the estimate was fitted to samples and does not know how to condition a log"
            hint = "use an estimate of identify, or condition the log yourself and call predict(samples)"
            raise InputError(message, hint=hint, code=Code.MISSING_VALUE, subject="conditioning")
        return self.settings.conditioning.for_log(velocity=log.qd is not None, acceleration=log.qdd is not None)

    def predict_log(self, log: Log) -> Array:
        """Predict the torque (N, n) at every row of a log from its motion."""
        return self.predict(self.samples_of(log))

    def with_values(self, **changes: Any) -> Estimate:
        """Return the estimate with changed entries of its `values`."""
        return replace(self, values=replace(self.values, **changes))

    def with_uncertainty(self, **changes: Any) -> Estimate:
        """Return the estimate with changed entries of its `uncertainty`."""
        return replace(self, uncertainty=replace(self.uncertainty, **changes))

    def with_data(self, **changes: Any) -> Estimate:
        """Return the estimate with changed entries of its `data`."""
        return replace(self, data=replace(self.data, **changes))

    def with_provenance(self, **changes: Any) -> Estimate:
        """Return the estimate with changed entries of its `provenance`."""
        return replace(self, provenance=replace(self.provenance, **changes))

    def with_notes(self, **notes: Any) -> Estimate:
        """Return the estimate with further notes in its provenance."""
        return self.with_provenance(notes={**self.provenance.notes, **notes})

    def to_dict(self) -> dict[str, Any]:
        """Return all entries as a dictionary for JSON."""
        return {
            "format": ESTIMATE_FORMAT.name,
            "robot": robot_record(self.robot),
            "base": base_record(self.base),
            "names": list(self.names),
            **{name: _save_part(getattr(self, name), codecs) for name, codecs in _SAVED_PARTS.items()},
        }

    def save(self, path: str | Path, folder: str | Path | None = None) -> Path:
        """Write the estimate to a JSON file, with the paths of its logs relative to its folder, and return its path.

        folder  folder that the file will be moved to
        """
        record = self.to_dict()
        record["data"]["sources"] = with_relative_paths(record["data"]["sources"], result_folder(path, folder))
        return write_result(path, record)


def columns_of(estimate: Estimate) -> dict[str, list[Any]]:
    """Return the columns of all parameters.

    Deviation and interval are None if a parameter has none; its state says why.

    Dropped parameters may have an interval, but have no deviation, because they were not fitted.
    """
    values = estimate.values
    state = {**dict.fromkeys(values.unidentifiable, "unidentifiable"), **dict.fromkeys(values.dropped, "dropped")}
    low, high = ([None if np.isnan(end) else end for end in ends] for ends in estimate.intervals.tolist())
    fitted = [end is not None and name not in values.dropped for name, end in zip(estimate.names, low, strict=True)]
    spread = zip(estimate.deviations.tolist(), fitted, strict=True)
    return {
        "name": list(estimate.names),
        "value": values.beta.tolist(),
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
    return ESTIMATE_FORMAT.read(path, _convert)


def _convert(record: Mapping[str, Any], path: Path) -> Estimate:
    require_agreement(record, str(path))
    robot, settings = robot_from_record(record["robot"]), EquationSettings.from_dict(record["data"]["settings"])
    base, kernel = read_base(robot, record["base"])
    beta = record["values"]["beta"]
    if settings.shape.needs_load:
        settings = replace(settings, friction=replace(settings.shape, reference=tuple(beta[: base.count])))
    regressor = Regressor(robot, settings.shape, base, kernel)
    if list(regressor.names) != record["names"]:
        message = f"{path} has other parameters than this version of mindyn derives for its robot"
        raise InputError(message, hint="identify again", code=Code.DISAGREEMENT, subject=path)
    require_physical(regressor, np.array(beta), record["values"]["physical"])
    entries = {name: _read_part(record[name], codecs) for name, codecs in _SAVED_PARTS.items()}
    data, uncertainty = entries["data"], entries["uncertainty"]
    data["sources"] = with_located_paths(data["sources"], path)
    if "dropped_shifts" in uncertainty:
        uncertainty["dropped_shifts"] = uncertainty["dropped_shifts"].reshape(-1, len(regressor.names))
    return Estimate(
        regressor,
        ParameterValues(**entries["values"]),
        Uncertainty(**uncertainty),
        FitData(**data | {"settings": settings}),
        Provenance(**entries["provenance"]),
    )


def _save_part(part: Any, codecs: Mapping[str, Codec]) -> dict[str, Any]:
    entries = {name: getattr(part, name) for name in codecs}
    return {name: value if value is None else codecs[name][0](value) for name, value in entries.items()}


def _read_part(saved: Mapping[str, Any], codecs: Mapping[str, Codec]) -> dict[str, Any]:
    return {name: load(saved[name]) for name, (_, load) in codecs.items() if saved.get(name) is not None}
