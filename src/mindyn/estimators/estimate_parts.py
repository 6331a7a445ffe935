"""What an `Estimate` is made of besides its numbers: residuals, physical values, blocks, the score of its settings."""

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
"""Blocks in effect below which a parameter keeps the spread of the noise model: they cannot say how they differ."""


def save_ends(ends: Array) -> list[list[float | None]]:
    """Ends of intervals as JSON can hold them."""
    return [[float(v) if np.isfinite(v) else None for v in row] for row in ends]


def read_ends(saved: Sequence[Sequence[float | None]]) -> Array:
    """The inverse of `save_ends`."""
    return np.array([[np.nan if v is None else v for v in row] for row in saved])


@dataclass(frozen=True, slots=True, eq=False)
class JointResidual:
    """Residuals of one joint: equations (rows), rms residual and rms torque (N m or N), correlation of neighbours."""

    joint: str
    rows: int
    rms: float
    rms_torque: float
    correlation: float | None = None

    @property
    def alike(self) -> float:
        """Rms of the part that is alike from row to row, as noise is not: what comes with the motion.

        The correlation of N rows of noise has a deviation of 1 / sqrt(N); below two of them nothing is told.
        """
        told = (self.correlation or 0.0) - 2 / sqrt(max(self.rows, 1))
        return self.rms * sqrt(max(told, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Physical:
    """What stands behind values that were held to what is physical.

    labels         of the standard, drive and friction parameters x, beta = B x (see `PhysicalSpace`)
    values         x
    unconstrained  (p,) beta that the data ask for without the constraint; the covariance is about it
    prior_links    names of the links near whose prior the values were held
    prior_shares   (p,) part of the certainty of each value that the prior brought; None: there was none
    ends           (2, p) 95 % intervals: the least and greatest values that data and physics allow, NaN where the prior
                   decides; None: not computed
    """

    labels: tuple[str, ...]
    values: Array
    unconstrained: Array
    prior_links: tuple[str, ...] = ()
    prior_fractions: Array | None = None
    ends: Array | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
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
        """The inverse of `to_dict`; files without intervals of their own load too."""
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
    """What blocks of the data, left out in turn, say of the spread; it is part of the covariance.

    count     number of blocks
    repeated  whether they are phases of a motion that repeats; else contiguous parts of the logs
    telling   (p,) blocks that tell each parameter, in effect; 0 of those left out or untold
    widened   (p,) factors, 1 or more, on the standard deviations of noise model and systematic errors
    """

    count: int
    repeated: bool
    significant: Array
    inflated: Array

    @property
    def quantiles(self) -> Array:
        """(p,) half-widths of 95 % intervals in standard deviations: Student's, for the blocks that tell each."""
        judged = self.significant >= FEWEST_BLOCKS
        return np.asarray(np.where(judged, stdtrit(np.maximum(self.significant - 1, 1.0), 0.975), NORMAL_95))

    @property
    def quantile(self) -> float:
        """The same for what all parameters make together, such as a torque."""
        return float(stdtrit(max(self.count - 1, 1), 0.975))

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self) | {"significant": self.significant.tolist(), "inflated": self.inflated.tolist()}

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> JackknifeDeviation:
        """The inverse of `to_dict`."""
        return JackknifeDeviation(
            saved["count"], saved["repeated"], np.array(saved["significant"]), np.array(saved["inflated"])
        )


@dataclass(frozen=True, slots=True)
class Identifiability:
    """Whether logs can identify a robot.

    holds        False: they cannot, whatever numbers a fit gives; findings of severity error say why
    uncertainty  of the torque on motion anywhere within the limits, relative to the torque; None: not computed
    """

    holds: bool
    uncertainty: float | None = None


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """The error, on training rows held out in turn, of the settings that were chosen: mean over joints, and total."""

    mean: float
    total: float
    settings_tried: int
