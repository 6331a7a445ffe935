"""`payload`: the load that a run carried, from a saved estimate of the arm, or from a run without it.

The loaded run obeys tau = Y beta + Y_load phi. Of beta, what rigid links and rotors make is known from the estimate
within its covariance C; friction, which grows with the load and with temperature, is fitted anew:

    minimise  sum_j w_j |tau_j - Y_j beta - Y_load,j phi|^2 + (beta - beta_0)^T C^-1 (beta - beta_0)

phi (10,) in the frame of the link that carries it. Its spread is that of leaving out blocks of the run in turn, that of
beta_0, and that of the drives' gains: a joint whose torque is logged e too large shows a load e too large, and no run
tells that from a heavier one. The load reported is the nearest one, by that spread, whose mass lies somewhere in space.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from mindyn.algebra.inertia import pseudo_inertia
from mindyn.algebra.values import Array
from mindyn.errors import InputError, list_names
from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.conic import ConeRows, ConicProgram
from mindyn.findings import Finding, Kind, warning
from mindyn.loads.from_runs import Payload, payload_from_runs, regressor_with_load
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.notation import LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.parameter import Parameter
from mindyn.regression.information import Information
from mindyn.regression.regressor import RIGID
from mindyn.regression.rows import Rows
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.robot import Robot

LOAD_SIZE_M: Final = 0.1
"""Size of a load by which it is judged whether its parameters are told: half-widths above m * LENGTH_M / 2 of a first
moment, m * LENGTH_M^2 of an inertia, m / 2 of the mass leave it open."""
UNSEEN_INFORMATION: Final = 1e-10
"""Part of the largest information below which a direction is not seen; rounding leaves 1e-14."""
UNSEEN_DEVIATION: Final = 1e3
"""Standard deviation of what is not seen, kg, kg m or kg m^2."""
MIN_MASS_KG: Final = 1e-6
MAX_FRICTION_UPDATES: Final = 5
MASS_TOLERANCE: Final = 1e-3
"""Change of the mass, as part of it, from which on friction that grows with the load is made anew, so often at most."""
MAX_RESIDUAL_RATIO: Final = 4.0
MIN_UNEXPLAINED_FRACTION: Final = 0.05
"""A run is doubted where the residual of a joint is more times that of the estimate's own logs, and a larger part of
the joint's torque: noise grows with the torque that a load makes."""
WEIGHTING_ROUNDS: Final = 3
"""Of fit and weights by its residuals."""


GAIN_DEVIATION: Final = 0.01
"""Standard deviation of a joint's torque scale where none is stated: drives that are calibrated well."""


def payload(
    known: Robot | Estimate,
    *runs: Samples | Log,
    link: str | None = None,
    gain_deviation: float = GAIN_DEVIATION,
) -> Payload:
    """The load of a loaded run: `payload(estimate, loaded)`, or `payload(robot, unloaded, loaded)` of two runs.

    link            that carries the load; the last one if left out
    gain_deviation  standard deviation of the scale of each joint's torque, in the estimate and in the run alike
    """
    if not (np.isfinite(gain_deviation) and 0 <= gain_deviation < 1):
        raise InputError(f"gain_deviation = {gain_deviation!r} must be a part of the torque", hint="0.01: one percent")
    if isinstance(known, Estimate):
        if len(runs) != 1:
            raise InputError(f"payload(estimate, loaded) takes one run, got {len(runs)}")
        return _fit_with_estimate(known, runs[0], link, gain_deviation)
    if len(runs) != 2 or not all(isinstance(run, Samples) for run in runs):
        raise InputError(
            "payload(robot, unloaded, loaded) takes two runs as Samples",
            hint="mindyn.condition(log, robot).samples; or payload(estimate, log), with a saved estimate of the arm",
        )
    unloaded, loaded = runs
    assert isinstance(unloaded, Samples)
    assert isinstance(loaded, Samples)
    return _make_consistent(payload_from_runs(known, unloaded, loaded, link=link))


def _fit_with_estimate(found: Estimate, run: Samples | Log, link: str | None, gain_deviation: float) -> Payload:
    robot = found.robot
    carrier = find_load_carrier(robot, link)
    samples = run if isinstance(run, Samples) else _condition_like_fit(found, run)
    made = _fit_payload(found, samples, carrier, None, gain_deviation)
    for _ in range(MAX_FRICTION_UPDATES if found.regressor.friction.needs_load else 0):
        before, made = made, _fit_payload(found, samples, carrier, made.phi, gain_deviation)
        if abs(made.mass - before.mass) < MASS_TOLERANCE * abs(made.mass):
            break
    return made


def _condition_like_fit(found: Estimate, run: Log) -> Samples:
    settings = found.settings.fit_conditioning
    if settings is not None:
        settings = settings.for_log(velocity=run.qd is not None, acceleration=run.qdd is not None)
    return condition([run], found.robot, settings).samples


def _fit_payload(
    found: Estimate, samples: Samples, carrier: str, carried: Array | None, gain_deviation: float
) -> Payload:
    """The load; friction that grows with what the joints carry has the estimate's links and `carried` (10,)."""
    regressor = regressor_with_load(found.regressor, carrier, carried)
    rows = Rows(regressor, found.settings, samples)
    p = found.regressor.count
    prior, start, free = _known_information(found, p)
    blocks = [block.information for block in rows.blocks if sum(block.information.counts)]
    if len(blocks) < 3:
        raise InputError(f"the loaded run is too short: {len(samples)} samples make {len(blocks)} blocks")
    whole = rows.information
    weights = _initial_weights(found)
    for _ in range(WEIGHTING_ROUNDS):
        normal = [_normal_equations(block.stacked(weights), start, free) for block in blocks]
        A, b = sum(one[0] for one in normal) + prior, sum(one[1] for one in normal)
        theta: Array = np.asarray(np.linalg.lstsq(A, b, rcond=None)[0], dtype=np.float64)
        beta = start.copy()
        beta[free] += theta
        spread = whole.residuals(beta) / np.maximum(np.array(whole.counts) - 1, 1)
        weights = 1 / np.maximum(spread * _correlated_rows(found), 1e-300)
    ten = np.flatnonzero(np.isin(free, np.arange(p, p + PARAMETERS_PER_LINK)))
    covariance = _jackknife(normal, prior, theta, len(blocks))[np.ix_(ten, ten)]
    inverse: Array = np.asarray(np.linalg.pinv(A, hermitian=True), dtype=np.float64)
    covariance = covariance + (inverse @ prior @ inverse)[np.ix_(ten, ten)]
    covariance = np.add(covariance, _unseen_covariance(A, ten))
    shifts = gain_deviation * _gain_shifts(whole, weights, free, inverse, theta, ten)
    covariance = covariance + shifts.T @ shifts
    factor = float(student.ppf(0.975, len(blocks) - 1))
    findings = (*_build_findings(found, samples), *_misfit_findings(found, samples, np.sqrt(spread)))
    made = Payload(carrier, theta[ten], covariance, (), factor, findings)
    return _make_consistent(replace(made, unidentifiable=_find_unidentifiable(made)))


def _gain_shifts(
    all_samples: Information, weights: Array, free: Array, inverse: Array, theta: Array, ten: NDArray[np.intp]
) -> Array:
    """(n + 1, 10) what the load becomes when torques are logged twice as large, in the estimate as in the run.

    All together: twice the load. One joint's alone: what the arm itself needs is twice as large in both, and the load's
    own torque remains; of that shift what is no mere scaling. How much one joint scales the load depends on the logs
    of the estimate as well, and simulated arms show the mass moved by the gain of one joint, not by a mean over many:
    so the scaling is counted whole, once.
    """
    load = theta[ten]
    made = [load]
    for joint in range(len(weights)):
        alone = np.where(np.arange(len(weights)) == joint, weights, 0.0)
        R = all_samples.stacked(alone)[0][:, free]
        shift = (inverse @ (R.T @ (R[:, ten] @ load)))[ten]
        made.append(shift - load * (shift[0] / load[0] if load[0] else 0.0))
    return np.array(made)


def _known_information(found: Estimate, p: int) -> tuple[Array, Array, Array]:
    """Information (f, f) on the free columns, the values (p + 10,) that all start from, and which columns are free.

    What the fit left out stays at its value; friction, offsets and what the estimate could not tell are free without
    any prior: held at the value that a fit happened to give them, they would be told of the load.
    """
    start = np.concatenate([found.beta, np.zeros(PARAMETERS_PER_LINK)])
    variances = np.diag(found.covariance)
    moving = np.array([_is_free(one, v, found) for one, v in zip(found.parameters, variances, strict=True)])
    free = np.concatenate([np.flatnonzero(moving), np.arange(p, p + PARAMETERS_PER_LINK)])
    told = np.isfinite(variances) & np.array([one.name not in found.unidentifiable for one in found.parameters])
    rigid = (np.array([one.kind in RIGID for one in found.parameters]) & told)[moving]
    own = np.flatnonzero(moving)[rigid]
    information = np.zeros((len(free), len(free)))
    if len(own):
        places = np.flatnonzero(rigid)
        information[np.ix_(places, places)] = np.linalg.pinv(found.covariance[np.ix_(own, own)], hermitian=True)
    return information, start, free


def _is_free(parameter: Parameter, variance: float, found: Estimate) -> bool:
    if parameter.name in found.dropped:
        return False
    return parameter.kind not in RIGID or variance > 0 or parameter.name in found.unidentifiable


def _normal_equations(stacked: tuple[Array, Array], start: Array, free: Array) -> tuple[Array, Array]:
    """R^T R and R^T z of the free columns, from the start."""
    R, z = stacked
    own = R[:, free]
    return own.T @ own, own.T @ (z - R @ start)


def _initial_weights(found: Estimate) -> Array:
    return np.asarray(1 / (np.maximum([one.rms for one in found.residuals], 1e-9) ** 2 * _correlated_rows(found)))


def _correlated_rows(found: Estimate) -> Array:
    """(n,) rows that count as one where residuals are correlated from row to row."""
    rho = np.clip([one.correlation or 0.0 for one in found.residuals], 0.0, 0.99)
    return np.asarray((1 + rho) / (1 - rho))


def _unseen_covariance(A: Array, ten: NDArray[np.intp]) -> Array:
    """(10, 10) covariance of load directions that the run does not see at all: as wide as no load is."""
    rest = np.setdiff1d(np.arange(len(A)), ten)
    across = A[np.ix_(rest, ten)]
    seen = A[np.ix_(ten, ten)] - across.T @ np.linalg.pinv(A[np.ix_(rest, rest)], hermitian=True) @ across
    values, vectors = np.linalg.eigh(seen)
    V = vectors[:, values < UNSEEN_INFORMATION * values[-1]]
    return np.asarray(UNSEEN_DEVIATION**2 * V @ V.T)


def _jackknife(normal: list[tuple[Array, Array]], prior: Array, theta: Array, count: int) -> Array:
    """Covariance by leaving out each block in turn: blocks longer than the residuals' memory stand for themselves."""
    A, b = sum(one[0] for one in normal) + prior, sum(one[1] for one in normal)
    without = [np.linalg.lstsq(A - one[0], b - one[1], rcond=None)[0] - theta for one in normal]
    shifts = np.array(without)
    return np.asarray((count - 1) / count * shifts.T @ shifts)


def _find_unidentifiable(found: Payload) -> tuple[str, ...]:
    """Parameters whose 95 % interval is wider than a load of that mass allows: they are not identifiable in the run."""
    mass = max(abs(float(found.phi[0])), MIN_MASS_KG)
    allowed = np.array([0.5 * mass, *[0.5 * mass * LOAD_SIZE_M] * 3, *[mass * LOAD_SIZE_M**2] * 6])
    wide = found.half_widths > allowed
    return tuple(name for name, one in zip(LINK_PARAMETERS, wide, strict=True) if one)


def _build_findings(found: Estimate, samples: Samples) -> tuple[Finding, ...]:
    made = []
    frictions = [one for one in found.parameters if one.kind not in RIGID]
    if not frictions:
        made.append(warning(Kind.MISSING_FRICTION, "the estimate has no friction columns: friction counts as load"))
    turns = np.ptp(samples.q, axis=0)
    still = [name for name, turn in zip(samples.joint_names, turns, strict=True) if turn < 0.05]
    if still:
        made.append(warning(Kind.STILL_JOINT, f"joints that hardly move in the loaded run: {', '.join(still)}"))
    return tuple(made)


def _misfit_findings(found: Estimate, samples: Samples, rms: Array) -> list[Finding]:
    """On joints whose torque the arm and any load leave open far more than the estimate's own logs did."""
    usual = np.array([one.rms for one in found.residuals])
    share = rms / np.maximum(np.sqrt((samples.tau**2).mean(axis=0)), 1e-300)
    joints = np.flatnonzero((rms > MAX_RESIDUAL_RATIO * usual) & (share > MIN_UNEXPLAINED_FRACTION) & (usual > 0))
    off = [f"{samples.joint_names[j]} ({rms[j] / usual[j]:.3g} times)" for j in joints]
    if not off:
        return []
    return [
        warning(
            Kind.UNEXPLAINED_TORQUE,
            f"no load explains this run as the estimate explained its own: the residual is larger at {list_names(off)}",
            "Check that it is the same arm, with the same gains and zeros, and without contact",
        )
    ]


def _make_consistent(found: Payload) -> Payload:
    """With the nearest phi, by its covariance, whose pseudo-inertia [[S, h], [h, m]] is positive semidefinite."""
    scale = np.sqrt(np.maximum(np.diag(found.covariance), 1e-300))
    values, vectors = np.linalg.eigh(found.covariance / np.outer(scale, scale))
    root = (vectors / np.sqrt(np.maximum(values, 1e-9 * values.max()))).T / scale
    program = ConicProgram(PARAMETERS_PER_LINK)
    program.add_squares(root, root @ found.phi)
    program.add_rows(ConeRows("semidefinite", _pseudo_inertia_rows(), np.zeros(10), 4))
    return replace(found, phi=program.solve().x, unconstrained=found.phi)


def _pseudo_inertia_rows() -> Array:
    """(10, 10): upper triangle of [[tr(I)/2 1 - I, mc], [mc^T, m]], column by column, off-diagonals times sqrt(2)."""
    made = np.stack([pseudo_inertia(unit) for unit in np.eye(PARAMETERS_PER_LINK)], axis=-1)
    return np.array([made[i, j] * (1.0 if i == j else np.sqrt(2)) for j in range(4) for i in range(j + 1)])
