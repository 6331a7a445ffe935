"""Records inside an `Estimate`: residuals, physical values, jackknife, friction curves, score of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import sqrt
from typing import Any, ClassVar, Final, Self

import numpy as np

from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.json_values import to_json_value

FEWEST_BLOCKS: Final = 3.0
"""Effective number of blocks below which a parameter keeps the deviation of the noise model."""


def read_array(saved: Sequence[Any], missing: float = np.inf) -> Array:
    """Return the array that `to_json_value` converted, with `missing` for numbers that were not finite."""
    values = np.array(saved, dtype=np.float64)  # None becomes NaN
    return np.where(np.isnan(values), missing, values)


class Record:
    """Base of dataclasses that JSON stores field by field; None in an array stands for `missing`."""

    __slots__ = ()
    missing: ClassVar[float] = np.inf

    def to_dict(self) -> dict[str, Any]:
        """Return the entries as a dictionary for JSON."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]
        arrays = {name: to_json_value(value) for name, value in values.items() if isinstance(value, np.ndarray)}
        tuples = {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
        return {**values, **arrays, **tuples}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return the object from `to_dict`; entries with a default may be missing."""
        entries, types = dict(saved), {entry.name: str(entry.type) for entry in fields(cls)}  # type: ignore[arg-type]
        for name, value in saved.items():
            if isinstance(value, list):
                entries[name] = read_array(value, cls.missing) if types[name].startswith("Array") else tuple(value)
        return cls(**entries)


@dataclass(frozen=True, slots=True, eq=False)
class JointResidual:
    """Residuals of a joint: number of rows, rms residual and torque (N m or N), correlation of neighbouring rows.

    measured_rms  at every row as logged, neither filtered nor left out: the error of the measured torque
    reversal_rms  the part of that error that is alike from row to row, at rows near reversals of the joint
    """

    joint: str
    rows: int
    rms: float
    rms_torque: float
    correlation: float | None = None
    measured_rms: float | None = None
    reversal_rms: float | None = None

    @property
    def alike(self) -> float:
        """Rms of the part of the residual that is correlated from row to row, which is model error and not noise.

        The correlation of N rows of white noise has a standard deviation of 1 / sqrt(N); two of these deviations are
        subtracted.
        """
        correlation = (self.correlation or 0.0) - 2 / sqrt(max(self.rows, 1))
        return self.rms * sqrt(max(correlation, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Physical(Record):
    """Parameters behind physically consistent values.

    labels           names of the standard, drive and friction parameters x with beta = B x (see `PhysicalSpace`)
    values           x
    unconstrained    (p,) beta of the unconstrained fit, to which the covariance belongs
    prior_links      names of the links with a prior
    prior_fractions  (p,) fraction of each value's information that comes from the prior; None without a prior
    ends             (2, p) 95 % intervals: least and greatest values that data and physics allow, NaN if the prior
                     decides; None: not computed
    """

    missing = np.nan

    labels: tuple[str, ...]
    values: Array
    unconstrained: Array
    prior_links: tuple[str, ...] = ()
    prior_fractions: Array | None = None
    ends: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class JackknifeDeviation(Record):
    """Deviation between blocks, included in the covariance.

    count        number of blocks
    repeated     whether blocks are phases of a repeating motion; otherwise they are contiguous parts of the logs
    significant  (p,) effective number of blocks that determine each parameter; 0 if dropped or unidentifiable
    inflated     (p,) factors >= 1 by which the standard deviations of noise model and systematic errors are multiplied
    """

    count: int
    repeated: bool
    significant: Array
    inflated: Array

    @property
    def quantiles(self) -> Array:
        """(p,) half-widths of 95 % intervals in standard deviations: Student's t for each parameter's blocks."""
        from scipy.special import stdtrit

        is_determined = self.significant >= FEWEST_BLOCKS
        return np.asarray(np.where(is_determined, stdtrit(np.maximum(self.significant - 1, 1.0), 0.975), NORMAL_95))

    @property
    def quantile(self) -> float:
        """The same for a quantity that depends on all parameters, such as a torque."""
        from scipy.special import stdtrit

        return float(stdtrit(max(self.count - 1, 1), 0.975))


@dataclass(frozen=True, slots=True, eq=False)
class FrictionCurve(Record):
    """Friction of a joint over its speed, without torque offset, with a 95 % band.

    Attributes
    ----------
    joint : str
        Name of the joint.
    speed : (k,) array
        Speeds in rad/s or m/s.
    torque : (k,) array
        Friction relative to standstill, in N m or N.
    half_width : (k,) array
        Half-width of the band; infinite if friction is unidentifiable.
    deviations : (3, k) array or None
        Standard deviations due to noise and model errors, to the choice of the law, and to drift within and between
        logs.
    laws : mapping
        Probability of each friction law that was averaged; empty for the law of the estimate alone.
    load : float
        Load of the gear, in N m or N, for which the curve holds: the mean of the logs, or zero.
    load_coefficient : float
        Growth of the friction with the load. For another load, add `load_coefficient` (other load - `load`)
        sign(speed).
    """

    joint: str
    speed: Array
    torque: Array
    half_width: Array
    deviations: Array | None = None
    laws: Mapping[str, float] = field(default_factory=dict)
    load: float = 0.0
    load_coefficient: float = 0.0


@dataclass(frozen=True, slots=True)
class Identifiability:
    """Whether logs can identify a robot.

    holds        False if the logs cannot identify the robot; findings of severity error say why
    uncertainty  uncertainty of the torque on any motion within the limits, relative to the torque; None if not computed
    """

    holds: bool
    uncertainty: float | None = None


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """Cross-validated error of the selected settings on training rows: mean over joints, and total."""

    mean: float
    total: float
    settings_tried: int
