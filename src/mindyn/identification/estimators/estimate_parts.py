"""The four parts of an `Estimate`: its values, their uncertainty, the data of the fit, and the provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding
from mindyn.identification.estimators.estimate_records import (
    CrossValidated,
    FrictionCurve,
    Identifiability,
    JackknifeDeviation,
    JointResidual,
    Physical,
)
from mindyn.logs.log import SourceFile
from mindyn.logs.servos import Servo
from mindyn.regression.rows import Quantity
from mindyn.regression.settings import EquationSettings


@dataclass(frozen=True, slots=True, eq=False)
class ParameterValues:
    """Values of the parameters of an estimate, and how they were obtained.

    Attributes
    ----------
    beta : (p,) array
        Values, in the SI units of `Estimate.units`.
    dropped : tuple of str
        Names of parameters that were set to zero.
    unidentifiable : tuple of str
        Names of parameters that the data do not determine.
    physical : Physical or None
        Parameters behind physically consistent values; None for an unconstrained fit.
    projected : bool
        Whether infeasible values were projected onto the feasible set.
    """

    beta: Array
    dropped: tuple[str, ...] = ()
    unidentifiable: tuple[str, ...] = ()
    physical: Physical | None = None
    projected: bool = False

    @property
    def is_constrained(self) -> bool:
        """Whether the values are physically consistent; the covariance is then that of the unconstrained fit."""
        return self.physical is not None


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """Uncertainty of the estimated values: covariance, systematic errors, deviation between blocks, friction bands.

    Attributes
    ----------
    covariance : (p, p) array
        Covariance of the values; zero for dropped parameters, infinite variance for unidentifiable ones.
    shifts : (k, p) array or None
        Systematic errors that the covariance contains: shifts of all values by timing errors and finite differences,
        each of one standard deviation.
    jackknife : JackknifeDeviation or None
        Inflation of the covariance by the deviation between blocks.
    dropped_ends : (2, p) array or None
        95 % intervals of dropped parameters from a fit that includes them; they contain zero. NaN for all other
        parameters.
    dropped_shifts : (k, p) array or None
        Shifts of all values that dropped parameters may cause, each of one standard deviation.
    friction_curves : tuple of FrictionCurve
        Friction of each driven joint over the speeds of the logs, averaged over the laws that the logs cannot separate,
        with a band for the curve of another recording at the temperatures of these logs. Empty if not computed.
    """

    covariance: Array
    shifts: Array | None = None
    jackknife: JackknifeDeviation | None = None
    dropped_ends: Array | None = None
    dropped_shifts: Array | None = None
    friction_curves: tuple[FrictionCurve, ...] = ()

    @property
    def deviations(self) -> Array:
        """(p,) standard deviations."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def correlations(self) -> Array:
        """(p, p) correlations of the values; zero where a parameter is dropped or unidentifiable."""
        deviations = self.deviations
        is_finite = np.isfinite(deviations) & (deviations > 0)
        scale = np.where(is_finite, 1 / np.where(is_finite, deviations, 1.0), 0.0)
        return np.asarray(np.where(np.isfinite(self.covariance), self.covariance, 0.0) * scale * scale[:, None])

    @property
    def half_widths(self) -> Array:
        """(p,) half-widths of the 95 % intervals from the covariance: infinite for unidentifiable parameters, zero for
        dropped ones.
        """
        return self.deviations * (NORMAL_95 if self.jackknife is None else self.jackknife.quantiles)

    def half_widths_of(self, rows: Array) -> Array:
        """Return the half-widths (k,) of the 95 % intervals of rows (k, p) @ beta.

        A half-width is infinite if its row contains an unidentifiable parameter.
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

    def of_noise_alone(self) -> Uncertainty:
        """Return the uncertainty from noise alone, without systematic errors and jackknife."""
        alone = self.covariance if self.shifts is None else self.covariance - self.shifts.T @ self.shifts
        if self.jackknife is not None:
            alone = alone / np.outer(self.jackknife.inflated, self.jackknife.inflated)
        return replace(self, covariance=alone, shifts=None, jackknife=None)


@dataclass(frozen=True, slots=True, eq=False)
class FitData:
    """The data to which an estimate was fitted, and how well it fits these data.

    Below, n is the number of joints with a torque and p the number of parameters.

    Attributes
    ----------
    settings : EquationSettings
        How logs became equations; its filter also applies to predictions.
    residuals : tuple of JointResidual
        Residuals of each joint.
    residual_of : str
        Quantity of the residuals; `rms_torque` is then the rms of that quantity.
    joint_weights : (n,) array or None
        1 / residual variance of each joint's rows in the fit.
    condition_number : float or None
        Condition number of the weighted equations with columns of unit length; None if infinite or unknown.
    factor : (p + 1, p + 1) array or None
        R factor of the weighted equations, with the torque in the last column. Constrained values can be fitted to it
        without the logs. None for other methods than least squares.
    sources : tuple of SourceFile
        Files of the logs.
    servo : Servo or None
        Position servos of the logs, whose gains were given or estimated; None for logs with torques.
    identifiable : Identifiability or None
        Whether the logs can identify the robot; None if they were not diagnosed.
    cross_validated : CrossValidated or None
        Error by which settings were selected.
    """

    settings: EquationSettings
    residuals: tuple[JointResidual, ...] = ()
    residual_of: Quantity = "torque"
    joint_weights: Array | None = None
    condition_number: float | None = None
    factor: Array | None = None
    sources: tuple[SourceFile, ...] = ()
    servo: Servo | None = None
    identifiable: Identifiability | None = None
    cross_validated: CrossValidated | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Provenance:
    """Where an estimate comes from, for people.

    Attributes
    ----------
    method : str
        Name of the method.
    status : str
        Result of the fit in one sentence.
    findings : tuple of Finding
        Selected settings, dropped parameters, and problems of the logs.
    notes : mapping
        Further settings and choices, which mindyn itself does not read.
    """

    method: str = ""
    status: str = ""
    findings: tuple[Finding, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
