"""`EnergyDifference`: least squares on energy or momentum differences; no accelerations enter.

See `integrated_rows` for the equations. The energy gives one row for an interval, the momentum one for each joint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.integrated_rows import (
    FEWEST_ROWS,
    Form,
    IntegratedRegressor,
    Torque,
    intervals,
    reversals,
)
from mindyn.estimators.least_squares import PLAIN, LeastSquares
from mindyn.logs.samples import Samples
from mindyn.parameters.base import BaseParameters
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import require_joints, require_samples
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor
from mindyn.regression.triangles import triangle_of
from mindyn.robots.robot import Robot

Reversals = Literal["avoid", "within"]
WHOLE: Final = "all joints"
"""Name of the one row of energies, in W, where momentum has the names of the joints."""


@dataclass(frozen=True, slots=True)
class EnergyDifference:
    """Settings of a fit to energy or momentum differences; qdd of the samples is not looked at.

    form        "energy", or "momentum": a row for each joint in place of one for all
    interval_s  longest interval, s
    reversals   "avoid": intervals end where some friction changes its direction, since accelerations jump there;
                "within": they do not, for motions whose accelerations are smooth although friction is not
    torque      "sampled": values of a continuous torque; "held": constant from each row to the next
    friction    shape of the friction columns
    base        the base set; the structural one if left out
    """

    form: Form = "energy"
    interval_s: float = 0.2
    reversals: Reversals = "avoid"
    torque: Torque = "sampled"
    friction: Friction = PLAIN
    base: BaseParameters | None = None

    def __post_init__(self) -> None:
        for name, choices in (("form", Form), ("reversals", Reversals), ("torque", Torque)):
            if getattr(self, name) not in get_args(choices):
                raise InputError(f"{name} = {getattr(self, name)!r}; it may be: {', '.join(get_args(choices))}")
        if not (np.isfinite(self.interval_s) and self.interval_s > 0):
            raise InputError(f"interval_s = {self.interval_s!r} must be a positive number of seconds")
        if self.torque == "held" and self.reversals == "within":
            raise InputError("a held torque and a reversing friction need different quadratures: avoid the reversals")

    def fit(self, robot: Robot, samples: Samples) -> Estimate:
        """The estimate; residuals are of mean torques (momentum) or mean power in W (energy) over the intervals."""
        solver = LeastSquares(
            weights="joint" if self.form == "momentum" else "ordinary", friction=self.friction, base=self.base
        )
        regressor = solver.regressor(robot)
        require_samples(samples, "energy and momentum differences")
        require_joints(regressor, samples)
        taken = self._intervals(regressor, samples)
        information = self._information(regressor, samples, taken)
        estimate = solver.fit(robot, information)
        seconds = sum(one.stop - one.start - 1 for one in taken) / samples.rate_hz
        what = "momentum" if self.form == "momentum" else "energy"
        status = estimate.status.replace("% of the torque", f"% of the {_measure(self.form)}")
        return replace(
            estimate,
            status=f"Differences of {what} over {len(taken)} intervals ({seconds:.3g} s in all): {status}",
            provenance={
                **estimate.provenance,
                "estimator": f"{what} difference",
                "intervals": len(taken),
                "seconds": seconds,
                "interval_s": self.interval_s,
                "reversals": self.reversals,
                "torque": self.torque,
            },
        )

    def _intervals(self, regressor: Regressor, samples: Samples) -> list[slice]:
        rows = round(self.interval_s * samples.rate_hz) + 1
        if rows < FEWEST_ROWS:
            raise InputError(
                f"interval_s = {self.interval_s:g} s is {rows} rows at {samples.rate_hz:g} Hz; "
                f"the quadrature needs {FEWEST_ROWS}"
            )
        breaks = np.zeros(len(samples), dtype=np.bool_)
        if self.reversals == "avoid":
            breaks = reversals(regressor, samples.qd)
        return intervals(samples, breaks, rows)

    def _information(self, regressor: Regressor, samples: Samples, taken: list[slice]) -> Information:
        """The rows of all intervals, as `LeastSquares` reads them."""
        made = IntegratedRegressor.of(regressor, self.form)
        directions = regressor.directions(samples.qd, samples.segments, samples.rate_hz)
        rows = [made.row(samples, one, None if directions is None else directions[one], self.torque) for one in taken]
        usable = np.array([_usable(samples, one, self.form) for one in taken])
        names = regressor.joint_names if self.form == "momentum" else (WHOLE,)
        all_columns = np.arange(regressor.count)
        columns = regressor.columns if self.form == "momentum" else (all_columns,)
        _require_enough(names, columns, usable)
        stacked = np.stack(rows)
        factors = [_factor(stacked[usable[:, i], i], own) for i, own in enumerate(columns)]
        counts = tuple(int(count) for count in usable.sum(axis=0))
        return Information(names, regressor.names, tuple(columns), tuple(factors), counts)


def _measure(form: Form) -> str:
    return "mean torque" if form == "momentum" else "mean power"


def _factor(rows: Array, columns: NDArray[np.intp]) -> Array:
    return triangle_of(rows[:, [*columns, -1]])


def _usable(samples: Samples, taken: slice, form: Form) -> NDArray[np.bool_]:
    """(n,) or, for the energy, (1,): whether all rows of the interval may be used."""
    if samples.usable is None:
        return np.ones(samples.q.shape[1] if form == "momentum" else 1, dtype=np.bool_)
    whole = np.asarray(samples.usable[taken].all(axis=0))
    return whole if form == "momentum" else np.array([whole.all()])


def _require_enough(names: tuple[str, ...], columns: tuple[NDArray[np.intp], ...], usable: NDArray[np.bool_]) -> None:
    """Refuses what cannot be fitted."""
    counts = usable.sum(axis=0) if usable.size else np.zeros(len(names), dtype=int)
    short = [
        f"{name} ({count} intervals for {len(own)} parameters)"
        for name, count, own in zip(names, counts, columns, strict=True)
        if count <= len(own)
    ]
    if short:
        raise InputError(
            f"too few intervals: {', '.join(short)}",
            hint='a longer log, a shorter interval_s, form="momentum" or fewer reversals are needed',
        )
