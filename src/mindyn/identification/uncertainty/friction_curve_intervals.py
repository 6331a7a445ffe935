"""Friction of every joint as a curve over the speeds of the logs, with a band that is valid for other recordings too.

Coefficients of friction depend on the friction law that a recording happens to select. The friction torque at a speed
that occurs in the log hardly depends on the law. Each joint is therefore fitted with several laws, and their curves are
averaged:

    f = sum_l w_l f_l,    V = sum_l w_l (V_l + (f_l - f)^2) + V_conditions + V_drift.

    w_l           probability that law l predicts the joint's torque on held-out blocks best, by the Bayesian bootstrap
                  of the blocks' errors [Rubin 1981; Yao, Vehtari, Simpson & Gelman 2018]; laws that blocks cannot
                  separate have similar weights
    V_l           variance between blocks (jackknife), at least the variance of the estimate
    V_conditions  variance between groups of rows under different conditions, as far as it exceeds that between blocks
    V_drift       from the change d f of the friction within the logs, taken as uniformly distributed:
                  (d^2 - var d) f^2 / 12; at least (`BETWEEN_RECORDINGS` f)^2, because another recording has another
                  temperature and run-in

The band is f +- t sqrt(V), with Student's quantile t for the blocks. `make study NAME=friction-curves` measures how
many points of the curve of another recording lie in it; 100 simulated pairs (--first 0) selected the terms of V.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np

from mindyn.foundation.algebra.jackknife import jackknife_variances
from mindyn.foundation.algebra.values import Array
from mindyn.identification.estimators.estimate import Estimate, predict_unfiltered
from mindyn.identification.estimators.estimate_records import FEWEST_BLOCKS, FrictionCurve
from mindyn.identification.prediction.friction_curves import curve_rows
from mindyn.identification.uncertainty.added_columns import friction_drifts
from mindyn.identification.uncertainty.condition_shifts import excess_of_conditions
from mindyn.logs.samples import Samples
from mindyn.parameters.parameter import friction_label
from mindyn.regression.experiment import Experiment
from mindyn.regression.friction_limits import INDEPENDENT, RIDGE
from mindyn.regression.gather_blocks import Block
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.robots.friction_laws import FITTED_SHAPES, LOAD_SHAPES

SPEED_COUNT: Final = 10
"""Speeds of a curve in each direction."""
FASTEST_QUANTILE: Final = 0.99
"""Fraction of the speeds of a direction that a curve reaches."""
SLOWEST_FRACTION: Final = 0.1
"""Lowest speed of a curve relative to its highest, unless the transition around zero velocity is wider."""
MIN_REACH_FRACTION: Final = 0.05
"""If the speeds of one direction, relative to the other direction, are smaller than this, the log does not contain this
direction.
"""
BETWEEN_RECORDINGS: Final = 0.02
"""Least standard deviation of friction between recordings, relative to the friction. Without it, 52, 84 and 93 % of the
points of a UR10e with a load, of halves of its free motion, and of a KR300 lie in the band of the other recording; with
it 92, 96 and 96 %. Rates: `make study NAME=friction-curves OPTIONS=--real`."""
DRAWS: Final = 1000
"""Number of draws of the bootstrap."""


def blocks_with_every_law(estimate: Estimate, experiment: Experiment) -> tuple[Regressor, tuple[Block, ...]] | None:
    """Return columns with all friction shapes, and independent blocks of their rows; None for a fit without joint
    weights.

    experiment  robot as it was identified, and training logs or an excerpt of them
    """
    friction, weights = estimate.settings.shape, estimate.data.joint_weights
    if weights is None or estimate.data.residual_of != "torque" or len(weights) != len(estimate.regressor.columns):
        return None
    is_loaded = estimate.base.form == "structural" and not estimate.regressor.load_obstacle()
    loads = ("load",) if is_loaded else ()
    own_loads = tuple(shape for shape in friction.shapes if shape in LOAD_SHAPES)
    shapes = tuple(dict.fromkeys((*FITTED_SHAPES, *(law.name for law in friction.laws), *own_loads, *loads)))
    reference = tuple(estimate.base_values.tolist()) if loads or own_loads else ()
    every = replace(friction, shapes=shapes, reference=reference, without=())
    rows = experiment.equations(replace(estimate.settings, friction=every))
    return rows.regressor, rows.independent_blocks


def with_friction_curves(
    estimate: Estimate,
    fitted: Rows,
    samples: Samples,
    laws: tuple[Regressor, tuple[Block, ...]] | None,
    conditions: Sequence[Array] = (),
) -> Estimate:
    """Return the estimate with the friction curves of all joints with a drive.

    Parameters
    ----------
    estimate : Estimate
        A fit of torques.
    fitted : Rows
        Equations of the fit.
    samples : Samples
        Conditioned samples of the logs.
    laws : tuple, optional
        Columns and blocks from `blocks_with_every_law`.
    conditions : sequence of array, optional
        Shifts of the values between groups of rows (`find_condition_shifts`).

    Returns
    -------
    Estimate
        Unchanged if the logs have fewer than three blocks, or the fit has no weights of joints.
    """
    weights = estimate.data.joint_weights
    if laws is None or weights is None or len(laws[1]) < FEWEST_BLOCKS:
        return estimate
    fits = _LawFits(estimate, laws[0], weights, samples, laws[1], conditions)
    drifts = friction_drifts(estimate, fitted.blocks)[: len(weights)]
    changes = [0.0 if drift is None else max(0.0, drift.value**2 - drift.deviation**2) for drift in drifts]
    curves = (fits.curve(joint, change) for joint, change in enumerate(changes))
    return estimate.with_uncertainty(friction_curves=tuple(curve for curve in curves if curve is not None))


class _LawFits:
    """Least-squares fits with several friction laws of one joint, to all blocks and without each of them."""

    def __init__(
        self,
        estimate: Estimate,
        regressor: Regressor,
        weights: Array,
        samples: Samples,
        blocks: Sequence[Block],
        conditions: Sequence[Array],
    ) -> None:
        self.estimate, self.regressor, self.weights, self.samples = estimate, regressor, weights, samples
        self.blocks, self.conditions = blocks, conditions
        self.is_kept = np.array(
            [name in estimate.names and name not in estimate.values.dropped for name in regressor.names], dtype=np.bool_
        )
        self.values = np.zeros(regressor.count)
        self.values[[regressor.names.index(name) for name in estimate.names]] = estimate.beta
        rigid = np.where(regressor.rigid, self.values, 0.0)
        self.loads = np.abs(predict_unfiltered(regressor, rigid, samples)).mean(axis=0)
        stacks = (np.column_stack(block.information.stacked(weights)) for block in blocks)
        parts = [stacked.T @ stacked for stacked in stacks]
        total = np.sum(parts, axis=0)
        self.scales = np.sqrt(np.maximum(np.diag(total), 1e-300))
        # Of all blocks, then without each of them
        self.sums = np.array([total, *(total - part for part in parts)]) / np.outer(self.scales, self.scales)

    def curve(self, joint: int, change: float) -> FrictionCurve | None:
        """Return the curve of a joint from independent blocks; None if the joint does not move or has no torque.

        change  square of the relative change of the joint's friction within the logs
        """
        from scipy.special import stdtrit

        speeds = self._speeds(joint)
        shapes = self._shapes(joint)
        if not len(speeds) or shapes is None or not self.weights[joint] > 0:
            return None
        rows = curve_rows(self.regressor, joint, speeds, float(self.loads[joint]))
        laws = self._laws(shapes)
        values = self._fit(shapes, laws)
        errors = [block.information.residuals_of(joint, values[:, 1 + k]) for k, block in enumerate(self.blocks)]
        probabilities = _law_probabilities(np.stack(errors, axis=1))  # errors on each block, from the fit without it
        curves = values @ rows.T  # (laws, 1 + blocks, speeds)
        mean = self.values + probabilities @ (values[:, 0] - values[0, 0])
        torque = rows @ mean
        m = len(self.blocks)
        between = jackknife_variances(curves[:, 1:] - curves[:, :1], axis=1)
        named = [self.regressor.names.index(name) for name in self.estimate.names]
        noise = (self.estimate.uncertainty.half_widths_of(rows[:, named]) / self.estimate.uncertainty.quantile) ** 2
        fit = np.maximum(probabilities @ between, noise)
        fit = fit + excess_of_conditions(self.conditions, fit, rows[:, named])
        law = probabilities @ (curves[:, 0] - probabilities @ curves[:, 0]) ** 2
        variances = np.stack([fit, law, max(change / 12, BETWEEN_RECORDINGS**2) * torque**2])
        half_width = float(stdtrit(m - 1, 0.975)) * np.sqrt(variances.sum(axis=0))
        listed = {", ".join(law) or "plain": float(w) for law, w in zip(laws, probabilities, strict=True) if w}
        name = self.regressor.joint_names[joint]
        loads = float(self.loads[joint]), float(mean[shapes["load"]]) if "load" in shapes else 0.0
        return FrictionCurve(name, speeds, torque, half_width, np.sqrt(variances), listed, *loads)

    def _speeds(self, joint: int) -> Array:
        """Return the speeds driven in both directions, above the transition around zero velocity."""
        qd, friction = self.samples.qd[:, joint], self.estimate.settings.shape
        conditioning = self.estimate.settings.conditioning
        slow = conditioning.slow_speed if conditioning is not None else None
        slowest = slow[joint] if isinstance(slow, tuple) else slow or 0.0
        least = max(2 * friction.width if friction.direction == "tanh" else 0.0, slowest)
        ways = {way: way * qd[way * qd > 0] for way in (-1.0, 1.0)}
        reach = {way: float(np.quantile(v, FASTEST_QUANTILE)) if len(v) else 0.0 for way, v in ways.items()}
        driven = {
            way: np.linspace(max(SLOWEST_FRACTION * end, least), end, SPEED_COUNT)
            for way, end in reach.items()
            if end > max(MIN_REACH_FRACTION * max(reach.values()), 2 * least)
        }
        return np.sort(np.concatenate([np.zeros(0), *(way * speeds for way, speeds in driven.items())]))

    def _shapes(self, joint: int) -> dict[str, int] | None:
        """Return the columns of the shapes of a joint's drive; None if it has none."""
        name = self.regressor.joint_names[joint]
        columns = {
            parameter.label: k
            for k, parameter in enumerate(self.regressor.parameters)
            if parameter.kind == "friction" and parameter.link_or_joint == name
        }
        shapes = {
            shape: columns[label]
            for shape in self.regressor.friction.shapes
            if (label := friction_label(shape)) in columns
        }
        return shapes or None

    def _laws(self, shapes: dict[str, int]) -> list[tuple[str, ...]]:
        """Return the laws to average; the law of the estimate is the first."""
        own = tuple(shape for shape, k in shapes.items() if self.is_kept[k])
        loads = [(), tuple(s for s in own if s in LOAD_SHAPES), *([("load",)] if "load" in shapes else [])]
        speeds = [(), tuple(s for s in own if s not in LOAD_SHAPES), *((s,) for s in shapes if s not in LOAD_SHAPES)]
        return list(dict.fromkeys([own, *(speed + load for speed, load in product(speeds, loads))]))

    def _fit(self, shapes: dict[str, int], laws: Sequence[tuple[str, ...]]) -> Array:
        """Return the values (laws, 1 + blocks, p) fitted to all blocks, then to all blocks except each one."""
        sums, scales = self.sums, self.scales
        added = list(shapes.values())
        common = np.flatnonzero(self.is_kept & ~np.isin(np.arange(self.regressor.count), added))
        rest = [*added, self.regressor.count]  # shapes and torque, after the common columns are removed
        matrix = sums[:, common[:, None], common] + RIDGE * np.eye(len(common))
        solved = np.linalg.solve(matrix, sums[:, common[:, None], rest])
        left = sums[:, np.array(rest)[:, None], rest] - sums[:, np.array(rest)[:, None], common] @ solved
        # Shapes that the other columns nearly explain have the prior of `friction_limits.prior_precision`.
        precision = INDEPENDENT * sums[:, rest, rest] - np.maximum(np.diagonal(left, axis1=1, axis2=2), 0.0)
        left += np.eye(len(rest)) * (np.maximum(precision, 0.0)[:, None] + RIDGE)
        values = np.zeros((len(laws), len(sums), self.regressor.count))
        for law, fitted in zip(laws, values, strict=True):
            at = [list(shapes).index(shape) for shape in law]
            coefficients = np.linalg.solve(left[:, np.array(at, dtype=int)[:, None], at], left[:, at, -1:])
            fitted[:, common] = (solved[:, :, -1:] - solved[:, :, at] @ coefficients)[..., 0]
            fitted[:, [added[k] for k in at]] = coefficients[..., 0]
        return np.asarray(values * (scales[-1] / scales[:-1]))


def _law_probabilities(errors: Array) -> Array:
    """Draw random weights of the blocks; return how often each law has the smallest error, from (laws, blocks)."""
    drawn = np.random.default_rng(0).dirichlet(np.ones(errors.shape[1]), DRAWS)
    return np.asarray(np.bincount((drawn @ errors.T).argmin(axis=1), minlength=len(errors)) / DRAWS)
