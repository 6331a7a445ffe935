"""Parts of an `Estimate`: residuals, physical values, jackknife, identifiability, score of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Final

import numpy as np
from scipy.special import stdtrit

from mindyn.algebra.deviations import NORMAL_95
from mindyn.algebra.values import Array

FEWEST_BLOCKS: Final = 3.0
"""Effective number of blocks below which a parameter keeps the deviation of the noise model."""


def save_ends(ends: Array) -> list[list[float | None]]:
    """Return ends of intervals for JSON."""
    return [[float(v) if np.isfinite(v) else None for v in row] for row in ends]


def read_ends(saved: Sequence[Sequence[float | None]]) -> Array:
    """Return the ends of intervals from `save_ends`."""
    return np.array([[np.nan if v is None else v for v in row] for row in saved])


@dataclass(frozen=True, slots=True, eq=False)
class JointResidual:
    """Residuals of a joint: number of rows, rms residual and rms torque (N m or N), correlation of neighbouring rows."""

    joint: str
    rows: int
    rms: float
    rms_torque: float
    correlation: float | None = None

    @property
    def alike(self) -> float:
        """Rms of the part that is correlated from row to row, unlike noise: model error.

        The correlation of N rows of noise has a deviation of 1 / sqrt(N); two deviations are subtracted.
        """
        correlation = (self.correlation or 0.0) - 2 / sqrt(max(self.rows, 1))
        return self.rms * sqrt(max(correlation, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Physical:
    """Parameters behind physically consistent values.

    labels           of the standard, drive and friction parameters x, beta = B x (see `PhysicalSpace`)
    values           x
    unconstrained    (p,) beta of the unconstrained fit, to which the covariance belongs
    prior_links      names of the links with a prior
    prior_fractions  (p,) fraction of each value's information that comes from the prior; None without a prior
    ends             (2, p) 95 % intervals: least and greatest values that data and physics allow, NaN if the prior
                     decides; None: not computed
    """

    labels: tuple[str, ...]
    values: Array
    unconstrained: Array
    prior_links: tuple[str, ...] = ()
    prior_fractions: Array | None = None
    ends: Array | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entries as a dictionary for JSON."""
        return {
            "labels": list(self.labels),
            "values": self.values.tolist(),
            "unconstrained": self.unconstrained.tolist(),
            "prior_links": list(self.prior_links),
            "prior_fractions": None if self.prior_fractions is None else self.prior_fractions.tolist(),
            "ends": None if self.ends is None else save_ends(self.ends),
        }

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> Physical:
        """Return the object from `to_dict`; intervals may be missing."""
        ends, shares = saved.get("ends"), saved.get("prior_fractions")
        return Physical(
            tuple(saved["labels"]),
            np.array(saved["values"]),
            np.array(saved["unconstrained"]),
            tuple(saved["prior_links"]),
            None if shares is None else np.array(shares),
            None if ends is None else read_ends(ends),
        )


@dataclass(frozen=True, slots=True, eq=False)
class JackknifeDeviation:
    """Deviation between blocks, included in the covariance.

    count        number of blocks
    repeated     whether they are phases of a repeating motion; otherwise contiguous parts of the logs
    significant  (p,) effective number of blocks that determine each parameter; 0 if dropped or unidentifiable
    inflated     (p,) factors >= 1 on the standard deviations of noise model and systematic errors
    """

    count: int
    repeated: bool
    significant: Array
    inflated: Array

    @property
    def quantiles(self) -> Array:
        """(p,) half-widths of 95 % intervals in standard deviations: Student's t for each parameter's blocks."""
        is_determined = self.significant >= FEWEST_BLOCKS
        return np.asarray(np.where(is_determined, stdtrit(np.maximum(self.significant - 1, 1.0), 0.975), NORMAL_95))

    @property
    def quantile(self) -> float:
        """The same for a quantity that depends on all parameters, such as a torque."""
        return float(stdtrit(max(self.count - 1, 1), 0.975))

    def to_dict(self) -> dict[str, Any]:
        """Return the entries as a dictionary for JSON."""
        return asdict(self) | {"significant": self.significant.tolist(), "inflated": self.inflated.tolist()}

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> JackknifeDeviation:
        """Return the object from `to_dict`."""
        return JackknifeDeviation(
            saved["count"], saved["repeated"], np.array(saved["significant"]), np.array(saved["inflated"])
        )


@dataclass(frozen=True, slots=True)
class Identifiability:
    """Whether logs can identify a robot.

    holds        False if they cannot, whatever values a fit gives; findings of severity error say why
    uncertainty  of the torque on any motion within the limits, relative to the torque; None: not computed
    """

    holds: bool
    uncertainty: float | None = None


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """Cross-validated error of the selected settings on training rows: mean over joints, and total."""

    mean: float
    total: float
    settings_tried: int
