"""`sample_models`: complete robots from the posterior of an estimate, for domain randomisation.

The standard parameters x (links, drives, friction) are normal around the full model x0 of the estimate, with

    covariance  G C G^T + (I - G B) S (I - G B)^T,   G = S B^T (B S B^T)^-1,

B x the base parameters and friction, C their covariance, S the covariance of the prior. B x then has the covariance C
exactly. C includes what dropped parameters may cause, and that the friction of another recording differs: friction
curves then vary as much as their bands. Base parameters leave the rest open: there the prior decides, with a standard
deviation of `PRIOR_DEVIATION` relative to the pseudo-inertia of each link [Lee, Wensing & Park 2020]. Each draw is
projected onto physically consistent parameters whose pseudo-inertias are between `MIN_RATIO` and `MAX_RATIO` times
those of the full model. That bounds the inertia matrix in every configuration, and its condition number by their
quotient. What the projection removes is an error of the model, which no body explains. It is stored with the models, as
a part of the torque that would be measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np

from mindyn.foundation.algebra.inertia import mass_com_inertia, pseudo_inertia, tensor_entries
from mindyn.foundation.algebra.requirements import require_number
from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, ExportError, InputError
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.checks.full_model_check import check_full_model
from mindyn.identification.feasibility.conditions.physical_space import (
    MIN_INSIDE_EIGENVALUE,
    UNIT_PSEUDO_INERTIAS,
    PhysicalSpace,
)
from mindyn.identification.feasibility.full_models.full_model import (
    Completion,
    build_full_model,
    build_model,
    complete_model,
)
from mindyn.identification.feasibility.full_models.projected_draws import Restriction, draw_projected
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicError, ConicProgram, triangle
from mindyn.identification.prediction.friction_curves import curve_rows
from mindyn.identification.prediction.torque_bands import model_errors
from mindyn.logs.samples import Samples
from mindyn.robots.robot import Robot

PRIOR_DEVIATION: Final = 0.2
"""Standard deviation of what the logs leave open, relative to the full model."""
MIN_RATIO: Final = 0.05
MAX_RATIO: Final = 5.0
"""Bounds of the pseudo-inertia of a link relative to that of the full model."""
MAX_CONDITION_GROWTH: Final = 100.0
"""Largest condition number of the inertia matrix relative to that of the full model."""
MIN_REFERENCE_RATIO: Final = 1e-3
"""Smallest eigenvalue of a link's reference relative to its largest: the prior of thin links has some width."""
MIN_SINGULAR_VALUE: Final = 1e-12
NORMAL_90: Final = 1.6448536269514722
"""95 % quantile of the normal distribution."""
NEGLIGIBLE_DEVIATION: Final = 1e-9
"""Deviation of a friction coefficient or rotor inertia in its unit below which it is fixed."""
MAX_REJECTED: Final = 20
"""Rejected draws for each accepted one before sampling fails."""
START_COST: Final = 100.0
START_MARGIN: Final = 1e-2
"""The start has margins of up to this fraction of a link or a deviation, for at most this squared distance."""


@dataclass(frozen=True, eq=False)
class ModelSamples:
    """Draws of complete models.

    Attributes
    ----------
    estimate : Estimate
        The estimate.
    parameters : ndarray, shape (count, size)
        Standard parameters of links, drives and friction of every draw.
    labels : tuple of str
        Names of the standard parameters.
    beta : ndarray, shape (count, p)
        Values of the parameters of the estimate.
    remainder : ndarray, shape (count, p)
        What the draw of the posterior has beyond these values: no physically consistent model has it.
    completion : Completion
        Standard parameters of the full model.
    prior : Robot or "robot"
        The robot that completed the estimate.
    """

    estimate: Estimate
    parameters: Array
    labels: tuple[str, ...]
    beta: Array
    remainder: Array
    completion: Completion
    prior: Robot | Literal["robot"]

    def __len__(self) -> int:
        return len(self.parameters)

    def __repr__(self) -> str:
        return f"ModelSamples({len(self)} models of {self.estimate.robot.name!r})"

    @cached_property
    def robots(self) -> tuple[Robot, ...]:
        """Return the draws as robots."""
        return tuple(build_model(self.estimate, replace(self.completion, x=x)) for x in self.parameters)

    @property
    def unexplained(self) -> Array:
        """Standard deviation (n,) of the torque that no parameter explains, inflated as the intervals: N m or N.

        It is that of the measured torque if the estimate is from logs: slow rows and fast noise, which a fit leaves out
        or filters, are a part of it.
        """
        rms = np.array([joint.measured_rms or joint.rms for joint in self.estimate.data.residuals])
        return np.asarray(rms * self.estimate.uncertainty.quantile / NORMAL_95)

    def torques(self, samples: Samples, rng: np.random.Generator | int | None = None) -> Array:
        """Return the torque (count, N, n) of every draw on a motion, low-passed as in the fit.

        With random numbers or a seed, these are draws of the measured torque: a draw of the torque that no parameter
        explains is added to each, and the torque of the `remainder`.
        """
        values = self.beta if rng is None else self.beta + self.remainder
        torques = np.array([self.estimate.with_values(beta=beta).predict(samples) for beta in values])
        if rng is None:
            return torques
        return torques + np.random.default_rng(rng).normal(0.0, 1.0, torques.shape) * self._unexplained_at(samples)

    def _unexplained_at(self, samples: Samples) -> Array:
        """Return the standard deviation (N, n) of the torque that no parameter explains: larger near reversals."""
        elsewhere = np.array([joint.alike for joint in self.estimate.data.residuals])
        more = model_errors(self.estimate, samples) ** 2 - elsewhere**2
        inflation = self.estimate.uncertainty.quantile / NORMAL_95
        return np.asarray(np.sqrt(self.unexplained**2 + more * inflation**2))


def sample_models(
    estimate: Estimate,
    count: int,
    rng: np.random.Generator | int,
    *,
    prior: Robot | None = None,
    prior_deviation: float = PRIOR_DEVIATION,
) -> ModelSamples:
    """Draw physically consistent complete models from the posterior of an estimate.

    Base parameters and friction vary with their covariance. What the logs leave open varies around the full model of
    the estimate. Every draw is physically consistent, has positive masses and friction that brakes, is plausible if the
    full model is, and has an inertia matrix whose condition number is at most 100 times that of the full model.

    Parameters
    ----------
    estimate : Estimate
        A physically consistent estimate.
    count : int
        Number of models.
    rng : numpy.random.Generator or int
        Random numbers, or their seed.
    prior : Robot, optional
        Robot that completes the estimate, as in `build_full_model`; by default the robot of the estimate.
    prior_deviation : float
        Standard deviation of what the logs leave open, relative to the full model.

    Returns
    -------
    ModelSamples
        The models, their parameters and torques.

    Raises
    ------
    InputError
        If the count is not positive, or `prior_deviation` is not between 0 and 1.
    ExportError
        If the estimate is not physically consistent, or too few draws pass the checks.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        message = f"the number of samples must be a whole number of at least 1, got {count!r}"
        raise InputError(message, code=Code.OUT_OF_RANGE, subject="count")
    require_number(prior_deviation, "prior_deviation", "(0, 1)", "0.2 means 20 %")
    generator = np.random.default_rng(rng)
    completion = complete_model(estimate, "robot" if prior is None else prior)
    space, center = completion.space, completion.x
    root, G = _covariance_root(estimate, space, center, prior_deviation)
    middle = center + G @ _unconstrained_shift(estimate)
    restriction = _sample_conditions(space, center, middle, root)
    reference = estimate.robot if prior is None else prior
    limits = check_full_model(build_model(estimate, completion), reference)
    signed, accepted, remainders = list(space.nonnegative), list[Array](), list[Array]()
    draws = draw_projected(restriction, _find_start(space, restriction, root), generator)
    for tried, (drawn, z) in enumerate(draws, 1):
        x = middle + root @ z
        x[signed] = np.maximum(x[signed], 0.0)  # fixed values near zero
        model = build_model(estimate, replace(completion, x=x))
        plausibility = check_full_model(model, reference)
        good = plausibility.condition_number <= MAX_CONDITION_GROWTH * limits.condition_number
        if good and (plausibility.is_plausible or not limits.is_plausible):
            accepted.append(x)
            remainders.append(space.matrix @ root @ (drawn - z))
        if len(accepted) == count:
            break
        if tried >= MAX_REJECTED * max(count, MAX_REJECTED):
            raise ExportError(
                f"only {len(accepted)} of {tried} draws are plausible: the estimate is too uncertain to be sampled",
                hint="record a more exciting motion, or pass the inertial parameters of the robot as prior",
                code=Code.IMPLAUSIBLE,
                subject=estimate.robot.name,
            )
    x = np.array(accepted)
    beta, remainder = x @ space.matrix.T, np.array(remainders)
    return ModelSamples(estimate, x, space.labels, beta, remainder, completion, "robot" if prior is None else prior)


def parameter_ranges(models: ModelSamples) -> list[tuple[str, str, str, float, float, float]]:
    """Return (body or joint, parameter, unit, value, 5 % and 95 % quantile) of each quantity that simulators vary.

    The last rows are torques that no parameter explains, to be added at each joint.
    """
    full = build_full_model(models.estimate, models.prior)
    rows = []
    for name, unit, values in zip(
        *_physical_names(full), np.array([_physical_quantities(r) for r in (full, *models.robots)]).T, strict=True
    ):
        low, high = np.quantile(values[1:], [0.05, 0.95])
        rows.append((*name, unit, float(values[0]), float(low), float(high)))
    for joint, deviation in zip(full.primary_joints, models.unexplained.tolist(), strict=True):
        unit, end = "N" if joint.kind == "prismatic" else "N m", NORMAL_90 * deviation
        rows.append((joint.name, "unexplained_torque", unit, 0.0, -end, end))
    return rows


_LINK_QUANTITIES: Final = (
    ("mass", "kg"),
    *((f"centre_{axis}", "m") for axis in "xyz"),
    *((f"inertia_{axes}", "kg m^2") for axes in ("xx", "xy", "xz", "yy", "yz", "zz")),
)
_DRIVE_QUANTITIES: Final = ("armature", "damping", "friction")


def _physical_names(robot: Robot) -> tuple[list[tuple[str, str]], list[str]]:
    names = [((link.name, quantity), unit) for link in robot.links for quantity, unit in _LINK_QUANTITIES]
    for drive in robot.drives:
        is_linear = robot.joints[robot.joint_index(drive.joint)].kind == "prismatic"
        units = ("kg", "N s/m", "N") if is_linear else ("kg m^2", "N m s/rad", "N m")
        names += [((drive.joint, quantity), unit) for quantity, unit in zip(_DRIVE_QUANTITIES, units, strict=True)]
    return [name for name, _ in names], [unit for _, unit in names]


def _physical_quantities(robot: Robot) -> Array:
    """Return mass, centre and inertia about the centre of every link, and the joint-side values of every drive."""
    values: list[float] = []
    for link in robot.links:
        assert link.phi is not None
        mass, centre, inertia = mass_com_inertia(link.phi)
        values += [mass, *centre, *tensor_entries(inertia)]
    for drive in robot.drives:
        ratio = drive.ratio if drive.side == "motor" else 1.0
        values += [ratio**2 * drive.rotor_inertia, ratio**2 * drive.viscous, abs(ratio) * drive.coulomb]
    return np.array(values)


def _covariance_root(estimate: Estimate, space: PhysicalSpace, x: Array, prior_deviation: float) -> tuple[Array, Array]:
    """Return F (size, d) with F F^T the covariance of x, and G (size, p)."""
    B = space.matrix
    deviations = np.where(np.isfinite(estimate.deviations), estimate.deviations, 0.0)
    prior = _prior_root(space, x, prior_deviation, deviations)
    spread = B @ prior
    size = np.linalg.norm(spread, axis=1)
    size[size == 0] = 1.0
    scaled = spread / size[:, None]
    G = prior @ np.linalg.pinv(scaled, rcond=MIN_SINGULAR_VALUE) / size
    known = _known_root(estimate)
    is_open = ~np.isfinite(estimate.deviations)
    opened = spread * is_open[:, None]  # the prior decides what the logs leave open
    columns = np.hstack([G @ known, G @ opened, prior - G @ spread]) / space.units[:, None]
    U, s, _ = np.linalg.svd(columns, full_matrices=False)
    kept = s > MIN_SINGULAR_VALUE * s[0]
    return np.asarray(space.units[:, None] * U[:, kept] * s[kept]), np.asarray(G)


def _unconstrained_shift(estimate: Estimate) -> Array:
    """Return the distance (p,) of the unconstrained minimum of the weighted equations from the constrained values.

    The posterior, which is then restricted to physically consistent parameters, is centred at the unconstrained
    minimum. The distance is zero if the values are not constrained.
    """
    known = np.isfinite(estimate.deviations) & (estimate.deviations > 0)
    shift = np.zeros(len(known))
    if estimate.data.factor is None or not (estimate.values.is_constrained or estimate.values.projected):
        return shift
    R = estimate.data.factor
    rest = R[:, -1] - R[:, :-1] @ estimate.beta
    scale = estimate.deviations[known]
    shift[known] = scale * np.linalg.lstsq(R[:, :-1][:, known] * scale, rest, rcond=MIN_SINGULAR_VALUE)[0]
    return shift


def _known_root(estimate: Estimate) -> Array:
    """Return a root (p, k) of the covariance, inflated as the intervals, with what dropped parameters may do."""
    deviations = np.where(np.isfinite(estimate.deviations), estimate.deviations, 0.0)
    correlations = estimate.uncertainty.correlations
    values, vectors = np.linalg.eigh(correlations)
    root = deviations[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)) * estimate.uncertainty.quantile / NORMAL_95
    shifts = estimate.uncertainty.dropped_shifts
    dropped = np.zeros((0, len(deviations))) if shifts is None else shifts
    return np.hstack([root, dropped.T, _friction_shifts(estimate).T])


def _friction_shifts(estimate: Estimate) -> Array:
    """Return shifts (joints, p) of the friction of each joint with which its curve varies as much as its band.

    The band is wider than the covariance: it includes the choice of the law, and the drift between recordings. The
    friction of a joint is scaled as a whole, as a change of temperature does.
    """
    names, shifts = estimate.regressor.joint_names, []
    for curve in estimate.uncertainty.friction_curves:
        rows = curve_rows(estimate.regressor, names.index(curve.joint), curve.speed, curve.load)
        known = estimate.uncertainty.half_widths_of(rows)
        power = float(((rows @ estimate.beta) ** 2).sum())
        if np.isfinite(curve.half_width).all() and np.isfinite(known).all() and power > 0:
            missing = float(np.maximum(curve.half_width**2 - known**2, 0.0).sum())
            factor = np.sqrt(missing / power) / NORMAL_95
            shifts.append(np.where((rows != 0).any(axis=0), factor * estimate.beta, 0.0))
    return np.array(shifts) if shifts else np.zeros((0, len(estimate.beta)))


def _prior_root(space: PhysicalSpace, x: Array, deviation: float, deviations: Array) -> Array:
    """Return a root (size, size) of the covariance of the prior."""
    root = np.zeros((space.size, space.size))
    for i in range(space.link_count):
        factor = (
            np.linalg.cholesky(_reference_pseudo_inertia(space, x, i)) if x[space.link(i)][0] > 0 else np.zeros((4, 4))
        )
        for k, (row, column) in enumerate(zip(*(part.tolist() for part in np.tril_indices(4)), strict=True)):
            E = np.zeros((4, 4))
            E[row, column] = E[column, row] = 1.0 if row == column else 0.5**0.5
            P = factor @ E @ factor.T
            root[space.link(i), space.link(i).start + k] = deviation * _phi_of(P)
    drives = range(PARAMETERS_PER_LINK * space.link_count, space.size)
    for k in drives:
        influence = np.abs(space.matrix[:, k])
        largest = float(influence.max(initial=0.0))
        measured = float((deviations * influence).max(initial=0.0)) / largest**2 if largest else 0.0
        root[k, k] = deviation * abs(x[k]) + measured
    return root


def _phi_of(P: Array) -> Array:
    J = P[:3, :3].trace() * np.eye(3) - P[:3, :3]
    return np.concatenate([[P[3, 3]], P[:3, 3], tensor_entries(J)])


def _pseudo_inertia_scale(space: PhysicalSpace) -> Array:
    """Return the scale (4, 4) that gives the entries of a pseudo-inertia the unit of a mass."""
    lengths = np.array([space.length] * 3 + [1.0])
    return np.outer(lengths, lengths)


def _reference_pseudo_inertia(space: PhysicalSpace, x: Array, i: int) -> Array:
    """Return the pseudo-inertia of a link with eigenvalues of at least `MIN_REFERENCE_RATIO` of the largest."""
    values, vectors = np.linalg.eigh(pseudo_inertia(x[space.link(i)]) / _pseudo_inertia_scale(space))
    floored = np.maximum(values, MIN_REFERENCE_RATIO * values[-1])
    return np.asarray((vectors * floored) @ vectors.T * _pseudo_inertia_scale(space))


def _sample_conditions(space: PhysicalSpace, x: Array, middle: Array, root: Array) -> Restriction:
    """Return the conditions on z, middle + root @ z physically consistent and within the ratios."""
    constants, matrices = [], []
    for i in range(space.link_count):
        if x[space.link(i)][0] <= 0:
            continue
        R = _reference_pseudo_inertia(space, x, i)
        inverse = np.linalg.inv(np.linalg.cholesky(R))
        P = inverse @ pseudo_inertia(x[space.link(i)]) @ inverse.T
        Q = inverse @ pseudo_inertia(middle[space.link(i)]) @ inverse.T
        change = np.einsum("kd,kij->dij", root[space.link(i)], UNIT_PSEUDO_INERTIAS)
        change = inverse @ change @ inverse.T
        values, vectors = np.linalg.eigh(P)
        least = np.maximum(MIN_RATIO * values, 2 * MIN_INSIDE_EIGENVALUE / MIN_REFERENCE_RATIO)
        constants += [Q - (vectors * least) @ vectors.T, MAX_RATIO * np.eye(4) - Q]
        matrices += [change, -change]
    signed = list(space.nonnegative)
    rows = np.vstack([np.eye(space.size)[signed], space.braking_rows])
    lowest = np.concatenate([MIN_RATIO * x[signed], np.zeros(len(space.braking_rows))])
    slopes = rows @ root
    deviations = np.linalg.norm(slopes, axis=1)
    moving = deviations > NEGLIGIBLE_DEVIATION * (np.abs(rows) @ space.units)
    slopes, offsets = slopes[moving] / deviations[moving, None], (rows @ middle - lowest)[moving] / deviations[moving]
    stack = np.array(matrices) if matrices else np.zeros((0, root.shape[1], 4, 4))
    flat = np.array(constants) if constants else np.zeros((0, 4, 4))
    return Restriction(slopes, offsets, stack, flat)


def _find_start(space: PhysicalSpace, restriction: Restriction, root: Array) -> Array:
    """Return z inside all conditions: zero, or the nearest with a margin if the full model is on the boundary."""
    zero = np.zeros(root.shape[1])
    if (restriction.margins(zero) > START_MARGIN).all():
        return zero
    program = ConicProgram(len(zero))
    program.add_squares(np.eye(len(zero)), zero)
    margin = program.add_variables(1)
    program.cost[margin] = -START_COST
    program.add_rows(
        ConeRows("nonnegative", np.eye(program.size)[[margin.start, margin.start]] * [[1], [-1]], np.array([0.0, 1.0]))
    )
    for constant, slopes in zip(restriction.constants, restriction.matrices, strict=True):
        rows = ConeRows("semidefinite", triangle(slopes), triangle(constant[None])[:, 0], 4)
        program.add_rows(rows.with_margin(margin.start, program.size, START_MARGIN))
    for row, offset in zip(restriction.rows, restriction.offsets, strict=True):
        condition = ConeRows("nonnegative", row[None], np.array([offset]))
        program.add_rows(condition.with_margin(margin.start, program.size, START_MARGIN))
    try:
        start = program.solve().x[: len(zero)]
    except ConicError:
        start = zero
    if not (restriction.margins(start) > 0).all():
        raise ExportError(
            "no model inside the bounds of physical consistency was found near the estimate",
            hint="identify with --consistent (PhysicallyConsistent)",
            code=Code.NOT_FEASIBLE,
            subject=space.robot.name,
        )
    return np.asarray(start)
