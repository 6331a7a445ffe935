"""`InstrumentalVariables`: model-based accelerations as instruments against the noise of measured ones.

    beta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T tau_i    [Yoshida 1996, eq. 3.22-3.35]

Y is the regressor at the measured motion, Omega the same with the accelerations that a model expects under the
measured torque. Noise of accelerations is in Y alone, so that Omega^T times it averages out. Noise of the torque is in
Omega too: what it adds to Omega^T tau on average is taken off again (see `torque_noise`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator, Needs
from mindyn.estimators.instruments import coloured_covariance, instrument_step
from mindyn.estimators.least_squares import LeastSquares, Weights
from mindyn.estimators.model_acceleration import ModelAcceleration, model_acceleration
from mindyn.estimators.told_directions import told_directions
from mindyn.estimators.torque_noise import noise_in_both
from mindyn.estimators.untold import infinite_variances
from mindyn.estimators.wording import status_of, unexplained
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information
from mindyn.regression.rows import Rows
from mindyn.simulation.inputs import require_count

MOST_INDEFINITE: Final = 0.5
"""Part of the samples without a usable inertia matrix beyond which a model is no instrument."""


@dataclass(frozen=True, slots=True)
class InstrumentalVariables(Estimator):
    """Settings of an instrumental-variables fit.

    instrument_model  whose accelerations are the first instruments; None: the least-squares estimate. Where that is
                      indefinite, as slow motion makes it, `mend_possible` gives the nearest one that is not
    passes            most passes; from the second on, the instruments come from the estimate of the pass before
    weights           of the joints' rows, as in `LeastSquares`; "joint" takes those of a least-squares fit
    """

    instrument_model: Estimate | None = None
    passes: int = 5
    weights: Weights | tuple[float, ...] = "joint"

    def __post_init__(self) -> None:
        require_count(self.passes, "passes")

    @property
    def needs(self) -> Needs:
        """Samples, at which a model expects other accelerations."""
        return "samples"

    @property
    def filters_alike(self) -> bool:
        """A controller feeds encoder noise back: torque, and the accelerations expected by it, have the columns' noise.

        It is far above the motion in frequency. A filter of the motion alone leaves it in the torque.
        """
        return True

    def fit(self, rows: Rows) -> Estimate:
        """The estimate; its status tells where an inertia matrix was indefinite."""
        samples = rows.whole("instrumental variables")
        plain = LeastSquares(weights=self.weights).fit(rows)
        return self.passes_from(plain, rows.information, samples)

    def passes_from(self, plain: Estimate, information: Information, samples: Samples) -> Estimate:
        """Passes until the estimate settles; where beta starts matters to rounding alone, not to the first solution."""
        basis = told_directions(information.stacked(plain.joint_weights)[0])
        cutoff, thinned = plain.treatment.cutoff_hz, plain.treatment.step
        estimate, model, moved = plain, self._first_model(plain), True
        shares: list[float] = []
        while moved and len(shares) < self.passes:
            instrument = model_acceleration(model.regressor, model.beta, samples)
            _require_definite(instrument, len(shares) + 1)
            shares.append(instrument.indefinite_part)
            expected = _expected(samples, instrument)
            common = noise_in_both(estimate, expected, instrument.M, cutoff)
            step = instrument_step(estimate, samples, expected, basis, cutoff, thinned, common)
            moved = step.matters(estimate.beta)
            estimate = model = step.applied(estimate)
        covariance = coloured_covariance(step, estimate, samples, expected, cutoff, thinned)
        estimate = replace(estimate, covariance=covariance)
        left = model_acceleration(estimate.regressor, estimate.beta, samples).indefinite_part
        return _reported(estimate, plain, shares, left, settled=not moved)

    def _first_model(self, plain: Estimate) -> Estimate:
        model = self.instrument_model
        if model is None:
            return plain
        if model.robot.joint_names != plain.robot.joint_names:
            raise InputError(
                f"the instrument model is of joints {', '.join(model.robot.joint_names)}; "
                f"the robot has {', '.join(plain.robot.joint_names)}"
            )
        return model


def _expected(samples: Samples, instrument: ModelAcceleration) -> Samples:
    """The samples with accelerations of the model; not usable where it has none."""
    usable = np.repeat(instrument.definite[:, None], samples.q.shape[1], axis=1)
    if samples.usable is not None:
        usable &= samples.usable
    return replace(samples, qdd=instrument.qdd, usable=usable)


def _require_definite(instrument: ModelAcceleration, number: int) -> None:
    part = instrument.indefinite_part
    if part > MOST_INDEFINITE:
        raise InputError(
            f"the inertia matrix of the instrument model of pass {number} is indefinite at {100 * part:.3g} % of the "
            "samples: the accelerations that it expects mean nothing",
            hint="give instrument_model= the least-squares estimate mended by mend_possible, or another model that is "
            "possible; or record a motion with larger accelerations",
        )


def _reported(estimate: Estimate, plain: Estimate, shares: list[float], left: float, *, settled: bool) -> Estimate:
    """The estimate with its status, its provenance, and infinite variances of what the data cannot tell."""
    told = [
        f"{len(plain.names)} parameters, {len(shares)} passes{'' if settled else ', not settled'}, leave "
        f"{100 * unexplained(estimate.residuals):.3g} % of the torque unexplained"
    ]
    if max(shares) > 0:
        told.append(
            f"the inertia matrix of the instrument model was indefinite at up to {100 * max(shares):.3g} % of the "
            "samples, which were left out"
        )
    if left > 0:
        told.append(f"the inertia matrix of the estimate is indefinite at {100 * left:.3g} % of the samples")
    provenance = {
        "passes": len(shares),
        "settled": settled,
        "indefinite_parts": shares,
        "indefinite_part_of_estimate": left,
    }
    return replace(
        estimate,
        covariance=infinite_variances(estimate.covariance, plain.names, plain.untold),
        status=status_of(told, plain.untold),
        method="instrumental variables",
        provenance={**estimate.provenance, **provenance},
    )
