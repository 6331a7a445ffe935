"""`identify_payload`: the load of a run, from an estimate of the robot or from a second run without the load.

The loaded run obeys tau = Y beta + Y_load phi. The part of beta that rigid links and rotors cause is known from the
estimate within its covariance C; friction, which depends on load and temperature, is fitted again:

    minimise  sum_j w_j |tau_j - Y_j beta - Y_load,j phi|^2 + (beta - beta_0)^T C^-1 (beta - beta_0)

phi (10,) is in the frame of the link that carries the load. Its covariance has three parts: the jackknife over blocks
of the run, that of beta_0, and that of the drive gains. If the logged torque of a joint is too large by a fraction e,
the load seems too large by e, and no run can distinguish this from a heavier load. The result is the nearest load, in
the metric of this covariance, that has a physical mass distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.inertia import pseudo_inertia
from mindyn.foundation.algebra.jackknife import jackknife_covariance
from mindyn.foundation.algebra.normal_equations import invert_normal_matrix, solve_normal_equations
from mindyn.foundation.algebra.requirements import require_number, require_positive
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, list_names
from mindyn.foundation.findings import Finding, Kind, Severity, warning
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicProgram
from mindyn.identification.load_regressor import LoadRegressor
from mindyn.identification.runs_with_loads import Payload, find_undetermined_parameters
from mindyn.logs.constant_torques import require_torque
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information
from mindyn.regression.regressor import RIGID
from mindyn.regression.rows import Rows
from mindyn.robots.edits import find_load_carrier

UNSEEN_INFORMATION: Final = 1e-10
"""Information relative to the largest below which a direction is not observed; rounding leaves 1e-14."""
UNSEEN_DEVIATION: Final = 1e3
"""Standard deviation of directions that are not observed, kg, kg m or kg m^2."""
STILL_RANGE: Final = 0.05
"""Range of a joint that hardly moves, rad or m."""
MAX_FRICTION_UPDATES: Final = 5
MASS_TOLERANCE: Final = 1e-3
"""Friction that grows with the load is updated while the mass changes by more than this fraction."""
MAX_RESIDUAL_RATIO: Final = 4.0
MIN_UNEXPLAINED_FRACTION: Final = 0.05
"""A run is suspect if the residual of a joint exceeds these multiples: of the residual in the logs of the estimate, and
of the torque of the joint, since noise grows with the torque of a load."""
WEIGHTING_ROUNDS: Final = 3
"""Rounds of fit and weights from its residuals."""


GAIN_DEVIATION: Final = 0.01
CURRENT_GAIN_DEVIATION: Final = 0.07
"""Default standard deviations of the torque scale of a joint: well calibrated drives, and currents times gains of a
data sheet (3.04 kg instead of 2.805 kg on a UR10e, 8 %)."""
CALIBRATED_FRACTION: Final = 0.6
"""Fraction of the gain deviation that remains in the mass after calibration, because joints share the weight of another
load in another way. On 12 simulated arms with gains 7 % off (rms), masses are wrong by 8 % rms before and 4 % rms after
calibration with another load; intervals contain 11 and 12 of them."""
MIN_SEPARABLE_RATIO: Final = 0.5
"""The mass is not determined if the torque that no other parameter can produce is smaller than this fraction of the
residual: systematic errors moved the mass by up to 0.27 of what the residual hides. Rates: f 0 of 12 wide motions of
simulated arms; of 12 motions of the last joints, 6 are found, with masses up to 47 % off, 14 % in the others."""


@dataclass(frozen=True, slots=True)
class LoadCalibration:
    """Torque scale of a robot by a weighed load.

    Attributes
    ----------
    factor : float
        Ratio of the true mass to the mass by the logged torques.
    deviation : float
        Relative standard deviation of the factor.
    """

    factor: float
    deviation: float


def calibrate_load(estimate: Estimate, run: Samples | Log, mass: float, *, link: str | None = None) -> LoadCalibration:
    """Determine the torque scale of a robot from a run with a weighed load.

    Parameters
    ----------
    estimate : Estimate
        Estimate of the robot without the load.
    run : Log or Samples
        Run with the load.
    mass : float
        Mass of the load, kg.
    link : str, optional
        Link that carries the load; the last one by default.

    Returns
    -------
    LoadCalibration
        Calibration for `identify_payload`.

    Raises
    ------
    InputError
        If the mass is not positive, or the run does not determine it.
    """
    require_positive(mass, "mass", "the mass of the load in kg")
    load = identify_payload(estimate, run, link=link, gain_deviation=0.0)
    if "m" in load.unidentifiable or not load.is_feasible:
        raise InputError(
            "the run does not determine the mass of the load",
            hint="weigh a heavier load, and record a motion that lifts it with every joint that carries weight",
            code=Code.NOT_IDENTIFIABLE,
            subject="mass",
        )
    return LoadCalibration(mass / load.mass, float(load.half_widths[0]) / load.factor / load.mass)


def default_gain_deviation(run: Samples | Log) -> float:
    """Return the default deviation of the torque scale: larger for currents."""
    is_current = isinstance(run, Log) and run.metadata.current_gains is not None
    return CURRENT_GAIN_DEVIATION if is_current else GAIN_DEVIATION


def identify_payload(
    estimate: Estimate,
    run: Samples | Log,
    *,
    link: str | None = None,
    gain_deviation: float | None = None,
    calibration: LoadCalibration | None = None,
) -> Payload:
    """Estimate the payload of a run.

    Parameters
    ----------
    estimate : Estimate
        Estimate of the robot without the load.
    run : Log or Samples
        The run with the load.
    link : str, optional
        Link that carries the load; the last one by default.
    gain_deviation : float, optional
        Relative standard deviation of the torque scale of each joint, in the estimate and in the run; by default 0.07
        if the torque of the log is a current, otherwise 0.01.
    calibration : LoadCalibration, optional
        Result of `calibrate_load`.

    Returns
    -------
    Payload
        Inertial parameters of the load with covariance, and findings.

    Raises
    ------
    InputError
        If the first argument is not an estimate, `gain_deviation` is not between 0 and 1, the run is too short, or its
        torque is zero in every row.
    """
    if not isinstance(estimate, Estimate):
        raise InputError(
            f"payload needs an estimate of the robot without the load, got {type(estimate).__name__}",
            hint="identify(robot, log) of a run without the load gives it",
            code=Code.WRONG_TYPE,
            subject="estimate",
        )
    if gain_deviation is None:
        gain_deviation = default_gain_deviation(run)
    require_number(gain_deviation, "gain_deviation", "[0, 1)", "0.01 means 1 % of the torque")
    carrier = find_load_carrier(estimate.robot, link)
    require_torque([run.tau])
    samples = run if isinstance(run, Samples) else _condition_like_fit(estimate, run)
    load = _fit_payload(estimate, samples, carrier, None, gain_deviation, calibration)
    for _ in range(MAX_FRICTION_UPDATES if estimate.regressor.friction.needs_load else 0):
        before, load = load, _fit_payload(estimate, samples, carrier, load.phi, gain_deviation, calibration)
        if abs(load.mass - before.mass) < MASS_TOLERANCE * abs(load.mass):
            break
    return load


def _condition_like_fit(estimate: Estimate, run: Log) -> Samples:
    settings = estimate.settings.fit_conditioning
    if settings is not None:
        settings = settings.for_log(velocity=run.qd is not None, acceleration=run.qdd is not None)
    return condition(estimate.robot, [run], settings).samples


def _fit_payload(
    estimate: Estimate,
    samples: Samples,
    carrier: str,
    carried: Array | None,
    gain_deviation: float,
    calibration: LoadCalibration | None,
) -> Payload:
    """Fit the load; friction that grows with the load uses the links of the estimate and `carried` (10,)."""
    from scipy.special import stdtrit

    regressor = LoadRegressor(estimate.regressor, carrier, carried)
    rows = Rows(regressor, estimate.settings, samples)
    p = estimate.regressor.count
    prior, start, free = _known_information(estimate, p)
    blocks = [block.information for block in rows.blocks if sum(block.information.counts)]
    if len(blocks) < 3:
        raise InputError(
            f"the loaded run is too short: {len(samples)} samples give {len(blocks)} blocks, at least 3 are needed",
            code=Code.TOO_LITTLE_DATA,
            subject="loaded",
        )
    information = rows.information
    weights = _initial_weights(estimate)
    for _ in range(WEIGHTING_ROUNDS):
        normal = [_normal_equations(block.stacked(weights), start, free) for block in blocks]
        A, b = prior + sum(N for N, _ in normal), np.sum([n for _, n in normal], axis=0)
        theta = solve_normal_equations(A, b)
        beta = start.copy()
        beta[free] += theta
        spread = information.residuals(beta) / np.maximum(np.array(information.counts) - 1, 1)
        weights = 1 / np.maximum(spread * _correlated_rows(estimate), 1e-300)
    ten = np.flatnonzero(np.isin(free, np.arange(p, p + PARAMETERS_PER_LINK)))
    inverse = invert_normal_matrix(A)
    held = Rows(regressor, estimate.settings, _hold_still_joints(samples)).blocks
    seen = sum((_normal_equations(block.information.stacked(weights), start, free)[0] for block in held), prior)
    unseen = _unseen_covariance(seen, ten)
    common = gain_deviation
    if calibration is not None:
        common = float(np.hypot(calibration.deviation, CALIBRATED_FRACTION * gain_deviation))
    deviations = np.array([common, *[gain_deviation] * len(weights)])
    shifts = deviations[:, None] * _gain_shifts(information, weights, free, inverse, theta, ten)
    noise = jackknife_covariance(_shifts_without_each(normal, prior, theta)) + inverse @ prior @ inverse
    covariance = noise[np.ix_(ten, ten)] + unseen + shifts.T @ shifts
    factor = float(stdtrit(len(blocks) - 1, 0.975))
    hidden_kg = float(np.sqrt((inverse[ten[0], ten[0]] + unseen[0, 0]) * (weights @ information.residuals(beta))))
    findings = (
        *_build_findings(estimate, samples),
        *_misfit_findings(estimate, samples, np.sqrt(spread)),
        *_undetermined_mass(float(theta[ten[0]]), hidden_kg),
    )
    scale = 1.0 if calibration is None else calibration.factor
    load = Payload(carrier, scale * theta[ten], scale**2 * covariance, (), factor, findings, gain_deviation=common)
    return make_consistent(replace(load, unidentifiable=find_undetermined_parameters(load)))


def _undetermined_mass(mass: float, hidden_kg: float) -> list[Finding]:
    """Return a finding if the torque of the mass, without the part that others can produce, is hidden by the residual.

    hidden_kg  mass whose torque, without that part, is as large as the residual
    """
    if abs(mass) >= MIN_SEPARABLE_RATIO * hidden_kg:
        return []
    hidden = f"up to {hidden_kg:.2g} kg change" if hidden_kg < UNSEEN_DEVIATION else "the mass of a load changes"
    message = (
        f"no load is visible in this motion: {hidden} the torque by no more than the residual, beyond what other "
        "parameters can explain"
    )
    remedy = "If the robot carries a load, record a motion that lifts it with every joint that carries weight"
    return [Finding(Kind.UNDETERMINED_MASS, Severity.WARNING, message, remedy, (), hidden_kg, "kg")]


def _gain_shifts(
    information: Information, weights: Array, free: Array, inverse: Array, theta: Array, ten: NDArray[np.intp]
) -> Array:
    """Return the changes (n + 1, 10) of the load if torques are logged twice as large, in the estimate and in the run.

    First row: all joints together double the load. Other rows: the torque scale of one joint alone. The robot itself
    then needs twice the torque in both, so only the torque of the load matters; the part of this shift that only scales
    the load is removed. The effect of one joint on the scale also depends on the logs of the estimate. In simulations,
    the gain of a single joint moves the mass, not a mean over many joints. The scaling is therefore counted completely,
    but only once.
    """
    load = theta[ten]
    shifts = [load]
    for joint in range(len(weights)):
        joint_weights = np.where(np.arange(len(weights)) == joint, weights, 0.0)
        R = information.stacked(joint_weights)[0][:, free]
        shift = (inverse @ (R.T @ (R[:, ten] @ load)))[ten]
        shifts.append(shift - load * (shift[0] / load[0] if load[0] else 0.0))
    return np.array(shifts)


def _known_information(estimate: Estimate, p: int) -> tuple[Array, Array, Array]:
    """Return information (f, f) on the free columns, initial values (p + 10,), and the free columns.

    Dropped parameters keep their value. Friction, offsets and unidentifiable parameters are free without a prior: fixed
    at an arbitrary fitted value, they would bias the load.
    """
    start = np.concatenate([estimate.beta, np.zeros(PARAMETERS_PER_LINK)])
    variances, names = np.diag(estimate.covariance), [parameter.name for parameter in estimate.parameters]
    rigid = np.array([parameter.kind in RIGID for parameter in estimate.parameters])
    is_open = np.isin(names, estimate.values.unidentifiable)
    moving = ~np.isin(names, estimate.values.dropped) & (~rigid | (variances > 0) | is_open)
    known = np.flatnonzero(moving & rigid & np.isfinite(variances) & ~is_open)
    free = np.concatenate([np.flatnonzero(moving), np.arange(p, p + PARAMETERS_PER_LINK)])
    information = np.zeros((len(free), len(free)))
    places = np.searchsorted(free, known)
    information[np.ix_(places, places)] = invert_normal_matrix(estimate.covariance[np.ix_(known, known)])
    return information, start, free


def _normal_equations(stacked: tuple[Array, Array], start: Array, free: Array) -> tuple[Array, Array]:
    """Return R^T R and R^T z of the free columns, relative to the start."""
    R, z = stacked
    columns = R[:, free]
    return columns.T @ columns, columns.T @ (z - R @ start)


def _initial_weights(estimate: Estimate) -> Array:
    rms = np.maximum([residual.rms for residual in estimate.data.residuals], 1e-9)
    return np.asarray(1 / (rms**2 * _correlated_rows(estimate)))


def _correlated_rows(estimate: Estimate) -> Array:
    """Return the number (n,) of correlated rows that count as one independent row."""
    rho = np.clip([residual.correlation or 0.0 for residual in estimate.data.residuals], 0.0, 0.99)
    return np.asarray((1 + rho) / (1 - rho))


def _unseen_covariance(A: Array, ten: NDArray[np.intp]) -> Array:
    """Return a large covariance (10, 10) of load directions that the run does not observe."""
    rest = np.setdiff1d(np.arange(len(A)), ten)
    across = A[np.ix_(rest, ten)]
    seen = A[np.ix_(ten, ten)] - across.T @ invert_normal_matrix(A[np.ix_(rest, rest)]) @ across
    values, vectors = np.linalg.eigh(seen)
    V = vectors[:, values < UNSEEN_INFORMATION * values[-1]]
    return np.asarray(UNSEEN_DEVIATION**2 * V @ V.T)


def _are_still(samples: Samples) -> NDArray[np.bool_]:
    """Return whether each joint (n,) hardly moves."""
    return np.asarray(np.ptp(samples.q, axis=0) < STILL_RANGE)


def _hold_still_joints(samples: Samples) -> Samples:
    """Return the samples with still joints at rest, so that encoder noise does not count as a motion of the load.

    Such noise makes the predicted torque of the arm wrong, and the fit would compensate it by a load of negative mass.
    """
    still = _are_still(samples)
    q = np.where(still, samples.q.mean(axis=0), samples.q)
    return replace(samples, q=q, qd=samples.qd * ~still, qdd=samples.qdd * ~still)


def _shifts_without_each(normal: list[tuple[Array, Array]], prior: Array, theta: Array) -> Array:
    """Return how far the values move without each block; blocks are longer than the correlation of residuals."""
    A, b = prior + sum(N for N, _ in normal), np.sum([n for _, n in normal], axis=0)
    return np.array([solve_normal_equations(A - N, b - n) - theta for N, n in normal])


def _build_findings(estimate: Estimate, samples: Samples) -> tuple[Finding, ...]:
    findings = []
    if all(parameter.kind in RIGID for parameter in estimate.parameters):
        message = "the estimate has no friction parameters: friction is attributed to the load"
        remedy = "Identify the arm without the load again, with friction"
        findings.append(warning(Kind.MISSING_FRICTION, message, remedy))
    still = [name for name, is_still in zip(samples.joint_names, _are_still(samples), strict=True) if is_still]
    if still:
        message = f"these joints hardly move in the loaded run: {', '.join(still)}"
        findings.append(warning(Kind.STILL_JOINT, message, "Record a loaded run in which they move"))
    return tuple(findings)


def _misfit_findings(estimate: Estimate, samples: Samples, rms: Array) -> list[Finding]:
    """Return a finding if robot and load explain the torque much worse than in the logs of the estimate."""
    usual = np.array([residual.rms for residual in estimate.data.residuals])
    fraction = rms / np.maximum(np.sqrt((samples.tau**2).mean(axis=0)), 1e-300)
    joints = np.flatnonzero((rms > MAX_RESIDUAL_RATIO * usual) & (fraction > MIN_UNEXPLAINED_FRACTION) & (usual > 0))
    unexplained = [f"{samples.joint_names[j]} ({rms[j] / usual[j]:.3g} times)" for j in joints]
    message = f"no load explains this run as well as those of the estimate: large residual at {list_names(unexplained)}"
    remedy = "Check that the robot, the gains and the encoder zeros are the same, and that there was no contact"
    return [warning(Kind.UNEXPLAINED_TORQUE, message, remedy)] if unexplained else []


def make_consistent(load: Payload) -> Payload:
    """Return the nearest load, by its covariance, whose pseudo-inertia [[S, h], [h, m]] is positive semidefinite."""
    root = load.metric()
    program = ConicProgram(PARAMETERS_PER_LINK)
    program.add_squares(root, root @ load.phi)
    program.add_rows(ConeRows("semidefinite", _pseudo_inertia_rows(), np.zeros(10), 4))
    return replace(load, phi=program.solve().x, unconstrained=load.phi)


def _pseudo_inertia_rows() -> Array:
    """Return (10, 10): upper triangle of [[tr(I)/2 1 - I, mc], [mc^T, m]] by columns, off-diagonals times sqrt(2)."""
    matrices = np.stack([pseudo_inertia(unit) for unit in np.eye(PARAMETERS_PER_LINK)], axis=-1)
    return np.array([matrices[i, j] * (1.0 if i == j else np.sqrt(2)) for j in range(4) for i in range(j + 1)])
