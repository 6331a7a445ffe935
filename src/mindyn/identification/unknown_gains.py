"""`estimate_gains`: estimate gains of currents or position servos together with the parameters, and fix their common
scale.

The equations Y_j beta = gain_j s_j determine gains and parameters only up to one common factor. A known gain, a known
base parameter or the gravity parameters of the robot file fix this factor. A load of known mass fixes it too: in runs
with the load, Y_j beta + L_j phi = gain_j s_j [Gautier & Briot 2014], and the mass in phi is known. With h = 1 / gain,
the fit is

    minimise sum_j w_j |s_j - h_j Y_j beta|^2,   w_j = 1 / residual variance of the signal

Noise is in the signals s; if the signals were columns of linear equations, their noise would make gains too small. On a
simulated leg under servos, 93 and 97 % of 315 and 140 intervals hold the true value with encoder steps of 1.5e-4 and
1.5e-3 rad, and the mean error is below 0.1 % (`make study NAME=servo-gains`). If the target velocity v of servos
changes, kd is the coefficient of a column v, in addition to viscous friction. All results are computed from products of
W = [Y | s], so that blocks can be omitted in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.equations.identifiability.random_states import sample_rows, typical_rates
from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.foundation.algebra.jackknife import jackknife_covariance
from mindyn.foundation.algebra.requirements import require_positive
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError, suggest_name
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.identification.load_regressor import LoadRegressor
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.logs.servos import Servo, find_unknown_damping, find_unknown_gains
from mindyn.parameters.base_parameters import all_parameters, parameter_sizes
from mindyn.regression.build_rows import build_rows
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.robot import Robot

MAX_HALF_WIDTH: Final = 0.2
"""Largest half-width of the 95 % interval of a well determined gain, relative to the gain. Torque constants of one type
of motor vary by 10 %, so that a wider interval is less accurate than the data sheet. The intervals hold the true gain
in 93 to 97 % of simulated logs (`make study NAME=servo-gains`).
"""
UNDETERMINED_HALF_WIDTH: Final = 1.0
"""Half-width from which the interval of the scale contains zero: the runs do not determine it."""
GAIN_LEVEL: Final = 0.05
"""Level of the one-sided likelihood-ratio test, with each block as one observation, that a gain is not twice or half as
large. A gain that fails the test gets the value of other gains; therefore this level is not among the thresholds of
findings. A jackknife does not include model errors, because they repeat in all blocks. On 40 simulated logs whose
joints move alike under errors of the model of 10 and 20 %, 3 of 80 gains are wrong by a factor of two and not reported
(62 without this test); none of 40 gains of 20 sound logs is reported.
"""
REFERENCE_CANDIDATES: Final = 3
"""Number of joints with the strongest signals among which the reference is chosen: the joint that determines most
ratios.
"""
MIN_FRICTION: Final = 0.01
"""If friction in phase with the velocity is below this, relative to the signal, its sign is not used."""
GRAVITY_SAMPLES: Final = 500
"""Number of samples at which gravity torques are compared."""
SIGNIFICANT_GRAVITY: Final = 1e-6
"""N m or N: gravity torques below this are rounding errors of zero."""


@dataclass(frozen=True, slots=True, eq=False)
class WeighedLoad:
    """Logs with a load of known mass, which fix the unit of the torque.

    Parameters
    ----------
    logs : sequence of Log
        Recordings with the load.
    mass : float
        Mass of the load, in kg.
    link : str, optional
        Link that carries the load; the last one by default.

    Raises
    ------
    InputError
        If the mass is not positive.
    """

    logs: Sequence[Log]
    mass: float
    link: str | None = None

    def __post_init__(self) -> None:
        require_positive(self.mass, "mass", "the mass of the load in kg")


Scale = Literal["robot", "free"] | Mapping[str, float] | WeighedLoad
"""How the common scale is fixed: by gravity parameters of the robot file ("robot"), not at all ("free"), by a base
parameter, or by a load.
"""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EstimatedGains(ShortRepr):
    """Gains of all joints, in N m or N per unit of the signal.

    Attributes
    ----------
    joint_names : tuple of str
    values : ndarray, shape (n,)
        Gains; 1 for joints whose gain is known. A gain that the log does not determine has the median of the others.
    covariance : ndarray, shape (n, n)
        Covariance of the logarithms of the gains (relative variances), including the uncertainty of the common scale.
    factor : float
        Half-width of a 95 % interval in standard deviations.
    scale : str
        What fixed the common scale; "free" if nothing did: then the gain of `reference` is 1.
    reference : str
        Joint to which the others are compared.
    unknown, undetermined : tuple of str
        Joints whose gains were estimated, and those joints among them whose gain the log does not determine.
    damping, damping_deviations : ndarray, shape (n,)
        kd of servos with a target velocity, in N m s/rad or N s/m, and standard deviations; zero where not estimated.
    """

    joint_names: tuple[str, ...]
    values: Array
    covariance: Array
    factor: float
    scale: str
    reference: str
    unknown: tuple[str, ...]
    undetermined: tuple[str, ...]
    damping: Array = field(default_factory=lambda: np.zeros(0))
    damping_deviations: Array = field(default_factory=lambda: np.zeros(0))

    def ratios(self, joint: str) -> tuple[Array, Array]:
        """Return the gains relative to that of a joint, and the half-widths (n,) of their 95 % intervals."""
        k = self.joint_names.index(joint)
        C = self.covariance
        variances = np.diag(C) + C[k, k] - 2 * C[:, k]
        ratios = self.values / self.values[k]
        return ratios, np.asarray(self.factor * np.sqrt(np.maximum(variances, 0.0)) * np.abs(ratios))

    @property
    def half_widths(self) -> Array:
        """Return the half-widths (n,) of the 95 % intervals, relative to the gains."""
        return np.asarray(self.factor * np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))


def estimate_gains(
    robot: Robot, logs: Sequence[Log], settings: EquationSettings | None = None, scale: Scale = "robot"
) -> EstimatedGains:
    """Estimate the gains that are unknown in the metadata of logs, together with the parameters of the robot.

    Parameters
    ----------
    robot : Robot
        Robot of the logs.
    logs : sequence of Log
        Logs with `current_gains = "unknown"` or `kp = "unknown"`, or with unknown gains of the same joints.
    settings : EquationSettings, optional
        How logs become equations; by default without a parallel filter. Gains that its conditioning contains, as in
        the settings of an estimate, are not used.
    scale : "robot", "free", mapping or WeighedLoad
        What fixes the common scale if no gain is known: the gravity parameters of the robot file ("free" if it has
        none), nothing, a base parameter {name: value}, or a load of known mass.

    Returns
    -------
    EstimatedGains
        Gains of all joints with standard deviations, and what fixed their scale.

    Raises
    ------
    InputError
        If no gain is unknown, the logs have unknown gains of different joints, or the scale cannot be fixed: the
        parameter is unknown, or the runs do not determine the mass of the load.
    """
    unknown, fed = _require_unknown(logs)
    rows = build_rows(robot, list(logs), _without_gains(settings))
    rows.information  # noqa: B018 - raises the error that names joints that never move or have too few rows
    load = scale if isinstance(scale, WeighedLoad) and unknown.all() else None
    first = rows.regressor.count + (PARAMETERS_PER_LINK if load is not None else 0)
    blocks = _block_products(rows, lambda runs: build_rows(robot, runs, rows.settings), logs, fed, first)
    if load is not None:
        regressor = LoadRegressor(rows.regressor, find_load_carrier(rows.robot, load.link))
        conditioning = rows.settings.fit_conditioning

        def loaded_rows(runs: list[Log]) -> Rows:
            return Rows(regressor, rows.settings, condition(rows.robot, runs, conditioning).samples)

        blocks += _block_products(loaded_rows(list(load.logs)), loaded_rows, load.logs, fed, first)
    return _fix_scale(rows, blocks, logs, unknown, fed, first, scale)


def _without_gains(settings: EquationSettings | None) -> EquationSettings | None:
    """Return the settings without gains: with the gains of an earlier estimate, all signals would be torques."""
    if settings is None or settings.conditioning is None or settings.conditioning.gains is None:
        return settings
    return replace(settings, conditioning=replace(settings.conditioning, gains=None))


def _block_products(
    rows: Rows, rows_of: Callable[[list[Log]], Rows], logs: Sequence[Log], fed: NDArray[np.bool_], first: int
) -> list[GainProducts]:
    """Return the products for each block of `rows`; `rows_of` builds the rows from the logs.

    Parameters without a column in the rows have zeros. Target velocities v of joints in `fed` become additional
    columns, one for each joint, with parameter numbers from `first` on.
    """
    size = first + len(fed) * bool(fed.any())

    def block_products(rows: Rows) -> list[GainProducts]:
        return [GainProducts.from_information(block.information, size) for block in rows.independent_blocks]

    plain = block_products(rows)
    if not fed.any():
        return plain
    velocities = [_target_velocity(log) * fed for log in logs]
    others = [
        [replace(log, tau=keep * log.tau + v) for log, v in zip(logs, velocities, strict=True)] for keep in (0, 1)
    ]
    triples = zip(plain, *(block_products(rows_of(runs)) for runs in others), strict=True)
    return [signal.with_column(v, total, fed, first) for signal, v, total in triples]


def _target_velocity(log: Log) -> Array:
    return Servo.from_metadata(log.metadata, log.joint_names).reference(log, log.time)[1]


def _require_unknown(logs: Sequence[Log]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return for each joint (n,) whether its gain is unknown in all logs, and whether kd of its target velocity is
    unknown.
    """
    masks = [np.stack([find_unknown_gains(log), find_unknown_damping(log)]) for log in logs]
    if not masks or not masks[0].any():
        raise InputError(
            "all gains of the logs are known",
            hint='set current_gains or kp = "unknown" in the metadata of the logs',
            code=Code.MISSING_VALUE,
            subject="logs",
        )
    if any(not np.array_equal(mask, masks[0]) for mask in masks):
        raise InputError(
            "the gains of different joints are unknown in different logs",
            hint='give the same gains, and "unknown" for the same joints, in the metadata of all logs',
            code=Code.DISAGREEMENT,
            subject="logs",
        )
    return masks[0][0], masks[0][1]


ScaleRule = tuple[str, "Callable[[GainSolution], float]"]
"""Name of the rule that fixes the scale, and a function that returns the factor of gains 1 / h and parameters for any
solution.
"""


def _fix_scale(
    rows: Rows,
    blocks: Sequence[GainProducts],
    logs: Sequence[Log],
    unknown: NDArray[np.bool_],
    fed: NDArray[np.bool_],
    first: int,
    scale: Scale,
) -> EstimatedGains:
    """Fit all rows and all but each block in turn, and fix the scale of all solutions in the same way."""
    from scipy.special import stdtrit

    everything = sum(blocks[1:], start=blocks[0])
    fixed, names = np.where(unknown, np.nan, 1.0), rows.regressor.joint_names
    if unknown.all():
        fixed[int(np.argmax(everything.powers))] = 1.0
    whole = fit_gains(everything, fixed, signs=_friction_signs(everything, rows.regressor))
    parts = [fit_gains(everything - block, fixed, whole) for block in blocks]
    if unknown.all():
        strongest = np.argsort(-everything.powers)[:REFERENCE_CANDIDATES].tolist()
        determined = {joint: _determined_by(everything, whole, joint, len(blocks)) for joint in strongest}
        reference = max(determined, key=lambda joint: determined[joint].sum())
        lost = ~determined[reference]
        rule_name, rescale = _find_rule(rows, logs, scale, reference)
    else:
        reference, rule_name, rescale = int(np.argmin(unknown)), "known gain", lambda _: 1.0
        lost = unknown.copy()
        for joint in np.flatnonzero(unknown).tolist():
            lost[joint] = not _is_determined(everything, whole, fixed, joint, len(blocks))
    values = rescale(whole) / whole.h
    covariance = _covariance_of_logs([rescale(part) / part.h / values for part in parts], len(names))
    factor = float(stdtrit(max(len(blocks) - 1, 1), 0.975))
    if isinstance(scale, WeighedLoad) and factor * np.sqrt(covariance[reference, reference]) > UNDETERMINED_HALF_WIDTH:
        raise InputError(
            "the runs do not determine the mass of the load, which fixes the scale of the gains",
            hint="check the mass and the link of the load, or record a motion in which the load exerts larger torques",
            code=Code.NOT_IDENTIFIABLE,
            subject="mass",
        )
    covariance[lost, lost] = np.maximum(covariance[lost, lost], UNDETERMINED_HALF_WIDTH**2)
    values = np.where(lost, np.median(values[~lost]), values)
    listed = [tuple(name for name, is_listed in zip(names, mask, strict=True) if is_listed) for mask in (unknown, lost)]
    gains = EstimatedGains(names, values, covariance, factor, rule_name, names[reference], listed[0], listed[1])
    if not fed.any():
        return gains
    damping, *others = (-rescale(solution) * solution.beta[first:] for solution in (whole, *parts))
    changes = np.array(others) - damping
    deviations = np.sqrt((len(parts) - 1) / max(len(parts), 1) * (changes**2).sum(axis=0))
    return replace(gains, damping=damping, damping_deviations=deviations)


def _friction_signs(products: GainProducts, regressor: Regressor) -> Array:
    """Return the signs (n,) of gains with which friction brakes each joint, from a fit to its rows; 0 if the friction
    is small.
    """
    signs = np.zeros(len(products.squares))
    drives = [(p.link_or_joint, p.kind) for p in regressor.parameters]
    for joint, (name, S) in enumerate(zip(regressor.joint_names, products.squares, strict=True)):
        columns = [k for k, drive in enumerate(drives) if drive in ((name, "viscous"), (name, "coulomb"))]
        for viscous in columns[:1]:
            power = float(S[viscous, columns] @ _solve_scaled(S[:-1, :-1], S[:-1, -1])[columns])
            if abs(power) > MIN_FRICTION * np.sqrt(S[viscous, viscous] * S[-1, -1]):
                signs[joint] = np.sign(power)
    return signs


def _determined_by(products: GainProducts, whole: GainSolution, reference: int, blocks: int) -> NDArray[np.bool_]:
    """Return for each joint (n,) whether the data determine the ratio between its gain and that of the reference
    joint.
    """
    joints = np.arange(len(whole.h))
    fixed = np.where(joints == reference, whole.h, np.nan)
    return np.array([j == reference or _is_determined(products, whole, fixed, int(j), blocks) for j in joints])


def _is_determined(products: GainProducts, whole: GainSolution, fixed: Array, joint: int, blocks: int) -> bool:
    """Return whether the solution is significantly worse with twice and with half the gain of a joint."""
    from scipy.special import chdtri

    is_joint, least_rise = np.arange(len(fixed)) == joint, float(chdtri(1, 2 * GAIN_LEVEL))
    for factor in (0.5, 2.0):
        start = replace(whole, h=np.where(is_joint, factor * whole.h, whole.h))
        rise = fit_gains(products, np.where(is_joint, start.h, fixed), start).criterion - whole.criterion
        if blocks * len(fixed) * rise < least_rise * products.counts.sum():
            return False
    return True


def _covariance_of_logs(ratios: Sequence[Array], count: int) -> Array:
    """Return the covariance (n, n) of the logarithms of gains from the ratios (n,) of gains without each block to all
    gains.
    """
    if len(ratios) < 2:
        return np.full((count, count), np.inf)
    shifts = np.log(np.maximum(np.abs(np.array(ratios)), 1e-12))
    return jackknife_covariance(shifts)


def _find_rule(rows: Rows, logs: Sequence[Log], scale: Scale, reference: int) -> ScaleRule:
    """Return the rule of `scale`; "free" makes the gain of the reference joint 1."""
    if isinstance(scale, WeighedLoad):
        return "weighed load", lambda solution: scale.mass / float(solution.beta[rows.regressor.count])
    if isinstance(scale, Mapping):
        return _rule_of_parameter(rows, scale)
    free = "free", lambda solution: float(solution.h[reference])
    if scale == "free" or not rows.robot.has_parameters:
        return free
    torque_of = _gravity_torques(rows, logs)
    known = torque_of(
        rows.regressor.base.matrix @ all_parameters(rows.robot, with_drives=rows.regressor.base.with_drives)
    )
    if np.abs(known).max() < SIGNIFICANT_GRAVITY:
        return free
    # The file's torque is the regressor: errors of the fit are smaller than those of the file.
    power = float((known**2).sum())
    return "robot file", lambda solution: power / float((known * torque_of(solution.beta)).sum())


def _gravity_torques(rows: Rows, logs: Sequence[Log]) -> Callable[[Array], Array]:
    """Return a function from parameters of links and rotors to the gravity torques (N, n) along the logs."""
    regressor = Regressor(rows.robot, base=rows.regressor.base)  # without the columns of friction shapes
    samples = condition(rows.robot, list(logs), rows.settings.fit_conditioning).samples
    taken = samples.take(np.arange(len(samples))[:: max(1, len(samples) // GRAVITY_SAMPLES)])
    still = np.zeros_like(taken.q)
    Y = regressor.dense(regressor.parts(regressor.positions(taken), still, still)) * regressor.rigid
    return lambda beta: np.asarray(Y @ beta[: regressor.count])


def _rule_of_parameter(rows: Rows, scale: Mapping[str, float]) -> ScaleRule:
    names = rows.regressor.names
    if len(scale) != 1 or next(iter(scale)) not in names:
        given = ", ".join(map(str, scale))
        raise InputError(
            f"the scale needs one base parameter, got {given or 'none'}; the parameters are: {', '.join(names)}",
            hint=suggest_name(
                next(iter(scale), ""), names, "such as --scale mcz2R=-0.31, or {'mcz2R': -0.31} in Python"
            ),
            code=Code.UNKNOWN_NAME,
            subject=given,
        )
    ((name, value),) = scale.items()
    if not np.isfinite(value) or value == 0:
        message = f"the value of {name} must be a finite number other than zero, got {value!r}"
        raise InputError(message, code=Code.OUT_OF_RANGE, subject=name)
    return name, lambda solution: value / float(solution.beta[names.index(name)])


MAX_STEPS: Final = 60
CHANGE_TOLERANCE: Final = 1e-7
SHORTEST_STEP: Final = 1e-3
"""Largest number of Gauss-Newton steps, the relative change of gains at which steps end, and the shortest step."""
COARSE_FLOOR: Final = 1.0
FINE_FLOOR: Final = 1e-12
"""Smallest residual from which the weight of a joint is computed, relative to its squared signal. Without noise, a
joint that fits exactly would get a much larger weight than the others; therefore a solution begins with equal weights.
"""
WEIGHTING_ROUNDS: Final = 3
"""Number of rounds in which the weights of the joints are updated from their residuals."""
EIGENVALUE_TOLERANCE: Final = 1e-13
"""Eigenvalues of the scaled normal matrix below this, relative to the largest, belong to parameters that no row depends
on.
"""


@dataclass(frozen=True, slots=True, eq=False)
class GainProducts:
    """Products W^T W (n, p + 1, p + 1) of the rows W = [Y | s] of each joint, and the numbers of rows (n,)."""

    squares: Array
    counts: Array

    @staticmethod
    def from_information(information: Information, size: int) -> GainProducts:
        """Return the products of R factors for `size` parameters; parameters without a column have zeros."""
        squares = np.zeros((len(information.factors), size + 1, size + 1))
        for square, columns, R in zip(squares, information.columns, information.factors, strict=True):
            square[np.ix_([*columns, size], [*columns, size])] = R.T @ R
        return GainProducts(squares, np.array(information.counts, dtype=np.float64))

    @property
    def powers(self) -> Array:
        """Return the sum of squares (n,) of each signal."""
        return self.squares[:, -1, -1]

    def __add__(self, other: GainProducts) -> GainProducts:
        return GainProducts(self.squares + other.squares, self.counts + other.counts)

    def __sub__(self, other: GainProducts) -> GainProducts:
        return GainProducts(self.squares - other.squares, self.counts - other.counts)

    def with_column(
        self, other: GainProducts, total: GainProducts, mask: NDArray[np.bool_], first: int
    ) -> GainProducts:
        """Return the products with a column v of parameter first + j for the masked joints j.

        other, total  products of [Y | v] and [Y | s + v]: s^T v is half of |s + v|^2 - |s|^2 - |v|^2
        """
        squares = self.squares.copy()
        for joint in np.flatnonzero(mask):
            column = other.squares[joint, :, -1].copy()
            column[first + joint] = other.powers[joint]
            column[-1] = (total.powers[joint] - self.powers[joint] - other.powers[joint]) / 2
            squares[joint, first + joint] = squares[joint, :, first + joint] = column
        return GainProducts(squares, self.counts)


@dataclass(frozen=True, slots=True, eq=False)
class GainSolution:
    """Values beta (p,) and h (n,), the mean squared residual (n,) of each signal, and -2 log likelihood."""

    beta: Array
    h: Array
    variances: Array
    criterion: float


def fit_gains(
    products: GainProducts, fixed: Array, start: GainSolution | None = None, signs: Array | None = None
) -> GainSolution:
    """Return the solution for given `fixed` h (n,), with NaN where h is unknown. At least one h must be known.

    start  h (n,) from which the iteration begins; by default the best solution from equal gains
    signs  signs (n,) of the gains up to a common sign, 0 where unknown; steps do not change signs
    """
    if start is not None:
        return _iterate_gains(products, start.h, fixed)
    known, signs = int(np.flatnonzero(np.isfinite(fixed))[0]), np.zeros(len(fixed)) if signs is None else signs
    relative = signs * (signs[known] or 1.0)
    equal = [fixed[known] * np.where(relative == 0, sign, relative) for sign in (1.0, -1.0)]
    starts = {tuple(np.where(np.isfinite(fixed), fixed, h)) for h in equal}
    begun = [_iterate_gains(products, np.array(h), fixed, COARSE_FLOOR) for h in starts]
    return min((_iterate_gains(products, rough.h, fixed) for rough in begun), key=lambda solution: solution.criterion)


def _iterate_gains(products: GainProducts, h: Array, fixed: Array, floor: float = FINE_FLOOR) -> GainSolution:
    """Return the solution by Gauss-Newton steps of log |h|, with the best beta for every h [Golub & Pereyra 1973].

    (Steps in beta and h together would leave the curved valley in which h beta is constant.)
    """
    current = _best_parameters(products, h, None, floor)
    for _ in range(MAX_STEPS):
        h_step = _gauss_newton_step(products, current, np.isnan(fixed))
        step = np.where(np.isnan(fixed), np.clip(h_step / current.h, -1.0, 1.0), 0.0)
        length, moved = 1.0, current
        while length > SHORTEST_STEP:
            moved = _best_parameters(products, current.h * np.exp(length * step), current.variances, floor)
            if moved.criterion < current.criterion:
                break
            length /= 2
        if not moved.criterion < current.criterion:
            break
        change, current = length * float(np.abs(step).max()), moved
        if change < CHANGE_TOLERANCE:
            break
    return current


def _best_parameters(products: GainProducts, h: Array, variances: Array | None, floor: float) -> GainSolution:
    """Return the best beta for h.

    Weights come from the residuals, which are at least `floor` times the squared signal.
    """
    S, power, counts = products.squares, np.maximum(products.powers, 1e-300), np.maximum(products.counts, 1.0)
    used, beta = products.powers if variances is None else variances, np.zeros(S.shape[1] - 1)
    for _ in range(WEIGHTING_ROUNDS):
        weights = h / np.maximum(used, 1e-300)
        beta = _solve_scaled(np.einsum("j,jab->ab", weights * h, S[:, :-1, :-1]), weights @ S[:, :-1, -1])
        residual = np.column_stack([-np.outer(h, beta), np.ones(len(h))])  # s - h Y beta = [Y | s] residual
        squares = np.einsum("ja,jab,jb->j", residual, S, residual)
        used = np.maximum(squares, floor * power) / counts
    return GainSolution(beta, h, used, float((products.counts * np.log(used) + squares / used).sum()))


def _gauss_newton_step(products: GainProducts, solution: GainSolution, is_free: NDArray[np.bool_]) -> Array:
    """Return the step (n,) of h in a Gauss-Newton step of beta and the free h together."""
    S, beta, h = products.squares, solution.beta, solution.h
    weights = 1 / solution.variances
    torques = S[:, :-1, :-1] @ beta  # Y^T Y beta of each joint
    errors = S[:, :-1, -1] - h[:, None] * torques  # Y^T (s - h Y beta)
    across = (torques * (weights * h * is_free)[:, None]).T
    A = np.einsum("j,jab->ab", weights * h**2, S[:, :-1, :-1])
    A = np.block([[A, across], [across.T, np.diag(weights * is_free * (torques @ beta))]])
    right = np.concatenate([(weights * h) @ errors, weights * is_free * (errors @ beta)])
    return _solve_scaled(A, right)[len(beta) :]


def _solve_scaled(A: Array, right: Array) -> Array:
    """Return the solution of smallest norm, computed with scaled columns."""
    sizes = np.abs(np.diag(A))
    scales = np.sqrt(np.where(sizes > 0, sizes, 1.0))
    values, vectors = np.linalg.eigh(A / np.outer(scales, scales))
    kept = values > EIGENVALUE_TOLERANCE * values[-1]
    return np.asarray((vectors[:, kept] / values[kept]) @ (vectors[:, kept].T @ (right / scales)) / scales)


ZERO_TOLERANCE: Final = 1e-8
"""Singular values and differences below this are rounding errors of zero, relative to the largest."""
SAME_CHANGE: Final = 1e-6
"""Difference below which two gains change alike in unit vectors of changes."""
TARGET_STRUCTURE: Final = (
    "kd and viscous friction of a joint are one parameter unless target_velocity moves or kd is given",
    "an offset of a target and an offset of the torque of a joint are one parameter",
)
"""Combinations that position targets do not determine, for every robot."""


def group_gains(robot: Robot, *, rng: int = 0) -> tuple[tuple[str, ...], ...]:
    """Return groups of joints whose gains have one common scale that logs do not determine, if all gains are unknown.

    Changes dg of the gains that no motion can detect satisfy Y dx = diag(dg) Y x for all states and generic parameters
    x. One known gain in each group fixes its scale.

    Parameters
    ----------
    robot : Robot
        Robot; joints without drives get a drive with rotor inertia, friction and offset.
    rng : int
        Seed of the random states and parameters.

    Returns
    -------
    tuple of tuple of str
        Joint names; a single group for an ordinary arm.

    Examples
    --------
    >>> from mindyn.identification import group_gains
    >>> group_gains(mindyn.load_robot("planar2"))
    (('joint1', 'joint2'),)
    """
    driven = with_estimated_drives(robot)
    sizes, names = parameter_sizes(driven, with_drives=True), robot.primary_names
    rows = sample_rows(
        Regressors(driven, with_drives=True), "torque", parameters=len(sizes), seed=rng, rates=typical_rates(driven)
    )
    n = len(names)
    Y = (rows * sizes).reshape(-1, n, len(sizes))
    tau = Y @ np.random.default_rng(rng + 1).uniform(0.5, 1.5, len(sizes))
    scales = 1 / np.maximum(np.sqrt((tau**2).mean(axis=0)), 1e-300)
    signals = np.zeros((len(Y), n, n))
    signals[:, np.arange(n), np.arange(n)] = tau * scales
    columns, left = (Y * scales[:, None]).reshape(-1, len(sizes)), signals.reshape(-1, n)
    U, s, _ = np.linalg.svd(columns, full_matrices=False)
    U = U[:, s > ZERO_TOLERANCE * s[0]]
    rest = left - U @ (U.T @ left)
    _, s, Vt = np.linalg.svd(rest)
    free = Vt[s <= ZERO_TOLERANCE * np.sqrt(len(Y))].T
    first_alike = [
        next(k for k in range(n) if np.abs(free[k] - free[joint]).max(initial=0.0) < SAME_CHANGE) for joint in range(n)
    ]
    return tuple(
        tuple(names[joint] for joint in range(n) if first_alike[joint] == first) for first in dict.fromkeys(first_alike)
    )
