"""`EnergyDifference`: least squares on energy or momentum differences; no accelerations enter.

Its equations are in `mindyn.regression.integrated`: one row of energies an interval, or one of momenta for each joint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator, Needs
from mindyn.estimators.least_squares import LeastSquares
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information
from mindyn.regression.integrated import FEWEST_ROWS, Form, IntegratedRegressor, Torque, intervals, reversals
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Quantity, Rows
from mindyn.regression.treatment import Treatment
from mindyn.regression.triangles import triangle_of
from mindyn.robots.robot import Robot

Reversals = Literal["avoid", "within"]
WHOLE: Final = "all joints"
"""Name of the one row of energies, in W, where momentum has the names of the joints."""


@dataclass(frozen=True, slots=True)
class EnergyDifference(Estimator):
    """Settings of a fit to energy or momentum differences; qdd of the samples is not looked at.

    form        "energy", or "momentum": a row for each joint in place of one for all
    interval_s  longest interval, s
    reversals   "avoid": intervals end where some friction changes its direction, since accelerations jump there;
                "within": they do not, for motions whose accelerations are smooth although friction is not
    torque      "sampled": values of a continuous torque; "held": constant from each row to the next
    """

    form: Form = "energy"
    interval_s: float = 0.2
    reversals: Reversals = "avoid"
    torque: Torque = "sampled"

    def __post_init__(self) -> None:
        for name, choices in (("form", Form), ("reversals", Reversals), ("torque", Torque)):
            if getattr(self, name) not in get_args(choices):
                raise InputError(f"{name} = {getattr(self, name)!r}; it may be: {', '.join(get_args(choices))}")
        if not (np.isfinite(self.interval_s) and self.interval_s > 0):
            raise InputError(f"interval_s = {self.interval_s!r} must be a positive number of seconds")
        if self.torque == "held" and self.reversals == "within":
            raise InputError("a held torque and a reversing friction need different quadratures: avoid the reversals")

    @property
    def needs(self) -> Needs:
        """Samples, to be integrated."""
        return "samples"

    def treatment_for(self, robot: Robot, wanted: Treatment) -> Treatment:  # noqa: ARG002
        """Every sample: what is integrated needs no filter; and friction that knows no load."""
        return wanted.without_load().unfiltered()

    def fit(self, rows: Rows) -> Estimate:
        """The estimate; residuals are of mean torques (momentum) or mean power in W (energy) over the intervals."""
        samples = rows.whole("energy and momentum differences")
        taken = self._intervals(rows.regressor, samples)
        solver = LeastSquares(weights="joint" if self.form == "momentum" else "ordinary")
        quantity: Quantity = "mean torque" if self.form == "momentum" else "mean power"
        estimate = solver.fit(rows.with_information(self._information(rows.regressor, samples, taken), quantity))
        seconds = sum(one.stop - one.start - 1 for one in taken) / samples.rate_hz
        return replace(
            estimate,
            status=f"Differences of {self.form} over {len(taken)} intervals ({seconds:.3g} s in all): "
            f"{estimate.status}",
            method=f"{self.form} difference",
            provenance={
                **estimate.provenance,
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
            breaks = reversals(regressor, samples)
        return intervals(samples, breaks, rows)

    def _information(self, regressor: Regressor, samples: Samples, taken: list[slice]) -> Information:
        """The rows of all intervals, as `LeastSquares` reads them."""
        made = IntegratedRegressor.of(regressor, self.form)
        directions = regressor.directions(regressor.positions(samples), samples.qd, samples.segments, samples.rate_hz)
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
