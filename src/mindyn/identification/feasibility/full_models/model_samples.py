"""`sample_models`: draw complete robots from the posterior of an estimate, for domain randomisation.

The standard parameters x (links, drives, friction) are normal around the full model x0 of the estimate, with

    covariance  G C G^T + (I - G B) S (I - G B)^T,   G = S B^T (B S B^T)^-1,

where B x are the base parameters and friction, C their covariance, and S the covariance of the prior. B x then has
exactly the covariance C. Other combinations of x are not determined by base parameters; they vary with the prior, whose
standard deviation is `PRIOR_DEVIATION` relative to the pseudo-inertia of each link [Lee, Wensing & Park 2020]. The
distribution is restricted to physically consistent parameters whose pseudo-inertias are between `MIN_RATIO` and
`MAX_RATIO` times those of the full model. This limits the inertia matrix in every configuration; its condition number
grows at most by the quotient of both ratios.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from mindyn.identification.feasibility.full_models.full_model import Completion, build_model, complete_model
from mindyn.identification.feasibility.full_models.truncated_normal import Restriction, draw_restricted
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicError, ConicProgram, triangle
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
"""Smallest eigenvalue of a link's reference relative to its largest one, so that the prior of thin links has some
width.
"""
MIN_SINGULAR_VALUE: Final = 1e-12
NEGLIGIBLE_DEVIATION: Final = 1e-9
"""Deviation of a friction coefficient or rotor inertia in its unit below which it is fixed."""
MAX_REJECTED: Final = 20
"""Sampling fails if more than this number of draws is rejected for each accepted draw."""
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
    completion : Completion
        Standard parameters of the full model.
    prior : Robot or "robot"
        The robot that completed the estimate.
    """

    estimate: Estimate
    parameters: Array
    labels: tuple[str, ...]
    beta: Array
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

    def torques(self, samples: Samples) -> Array:
        """Return the torque (count, N, n) of every draw on a motion, low-passed as in the fit."""
        return np.array([self.estimate.with_values(beta=beta).predict(samples) for beta in self.beta])


def sample_models(
    estimate: Estimate,
    count: int,
    rng: np.random.Generator | int,
    *,
    prior: Robot | None = None,
    prior_deviation: float = PRIOR_DEVIATION,
) -> ModelSamples:
    """Draw physically consistent complete models from the posterior of an estimate.

    Base parameters and friction vary with their covariance. Parameters that the logs do not determine vary around the
    full model of the estimate. Every draw is physically consistent, has positive masses and friction that brakes, is
    plausible if the full model is, and has an inertia matrix whose condition number is at most 100 times that of the
    full model.

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
    restriction = _restrict(space, center, middle, root)
    reference = estimate.robot if prior is None else prior
    limits = check_full_model(build_model(estimate, completion), reference)
    signed, accepted = list(space.nonnegative), list[Array]()
    for tried, z in enumerate(draw_restricted(restriction, _find_start(space, restriction, root), generator), 1):
        x = middle + root @ z
        x[signed] = np.maximum(x[signed], 0.0)  # fixed values near zero
        model = build_model(estimate, replace(completion, x=x))
        plausibility = check_full_model(model, reference)
        good = plausibility.condition_number <= MAX_CONDITION_GROWTH * limits.condition_number
        if good and (plausibility.is_plausible or not limits.is_plausible):
            accepted.append(x)
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
    return ModelSamples(estimate, x, space.labels, x @ space.matrix.T, completion, "robot" if prior is None else prior)


def parameter_ranges(robots: Sequence[Robot], full: Robot) -> list[tuple[str, str, str, float, float, float]]:
    """Return (body or joint, parameter, unit, value, 5 % and 95 % quantile) of each quantity that simulators vary."""
    rows = []
    for name, unit, values in zip(
        *_physical_names(full), np.array([_physical(r) for r in (full, *robots)]).T, strict=True
    ):
        low, high = np.quantile(values[1:], [0.05, 0.95])
        rows.append((*name, unit, float(values[0]), float(low), float(high)))
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


def _physical(robot: Robot) -> Array:
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
    """Return the difference (p,) between the minimum of the weighted equations and constrained values; zero without the
    equations.

    Before it is restricted to physically consistent parameters, the posterior has its mean at this minimum, not at the
    constrained values.
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
    """Return a root (p, k) of the covariance, inflated like the intervals, including the effect of dropped
    parameters.
    """
    deviations = np.where(np.isfinite(estimate.deviations), estimate.deviations, 0.0)
    correlations = estimate.uncertainty.correlations
    values, vectors = np.linalg.eigh(correlations)
    root = deviations[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)) * estimate.uncertainty.quantile / NORMAL_95
    return (
        root
        if estimate.uncertainty.dropped_shifts is None
        else np.hstack([root, estimate.uncertainty.dropped_shifts.T])
    )


def _prior_root(space: PhysicalSpace, x: Array, deviation: float, deviations: Array) -> Array:
    """Return a root (size, size) of the covariance of the prior."""
    root = np.zeros((space.size, space.size))
    for i in range(space.link_count):
        factor = np.linalg.cholesky(_reference(space, x, i)) if x[space.link(i)][0] > 0 else np.zeros((4, 4))
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


def _shape(space: PhysicalSpace) -> Array:
    """Return the scale (4, 4) with which all entries of a pseudo-inertia have the unit of a mass."""
    lengths = np.array([space.length] * 3 + [1.0])
    return np.outer(lengths, lengths)


def _reference(space: PhysicalSpace, x: Array, i: int) -> Array:
    """Return the pseudo-inertia of a link with eigenvalues of at least `MIN_REFERENCE_RATIO` of the largest."""
    values, vectors = np.linalg.eigh(pseudo_inertia(x[space.link(i)]) / _shape(space))
    floored = np.maximum(values, MIN_REFERENCE_RATIO * values[-1])
    return np.asarray((vectors * floored) @ vectors.T * _shape(space))


def _restrict(space: PhysicalSpace, x: Array, middle: Array, root: Array) -> Restriction:
    """Return the conditions on z, middle + root @ z physically consistent and within the ratios."""
    constants, matrices = [], []
    for i in range(space.link_count):
        if x[space.link(i)][0] <= 0:
            continue
        R = _reference(space, x, i)
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
    """Return z inside all conditions: zero or, if the full model is on the boundary, the nearest z with a margin."""
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
