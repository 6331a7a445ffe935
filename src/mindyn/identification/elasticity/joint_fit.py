"""Fit the deflection of one joint: compliance with an interval over all models.

    d = C (tau - J qdd) + T qd - H z(tau) + B sgn(tau) + F sgn(qd) - C D d(tau)/dt C + offset of each log

C compliance; J rotor inertia that the link model contains; T time offset between the encoders, which viscous friction
beyond the spring resembles; H, z hysteresis; B half the backlash; F friction beyond the spring; D damping. J is not
estimated: it may have any value between zero and the inertia about the joint. The other terms are optional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mindyn.foundation.algebra.values import Array
from mindyn.identification.elasticity.hysteresis import dahl_states

OPTIONAL: Final = ("damping", "friction", "backlash", "hysteresis")
SIGNS: Final = {"friction": 1.0, "backlash": 1.0, "hysteresis": -1.0}
"""Signs of the coefficients; a model with another sign does not exist."""
WIDTHS: Final = (0.05, 0.1, 0.2, 0.4)
"""Widths of the hysteresis relative to the range of the torque."""
SMOOTH_TORQUE: Final = 0.005
"""Torque over which backlash is crossed, relative to the range of the torque."""
SMOOTH_SPEED: Final = 0.01
"""Speed (rad/s, m/s) over which friction reverses."""
SHAPE_ERROR: Final = 0.1
"""Standard deviation of the effect of optional terms on the compliance, relative to that effect: a Dahl element and a
step are idealised shapes."""
ROTOR_STEPS: Final = 9
"""Number of rotor inertias that are tried between zero and the inertia about the joint."""
MAX_ROTOR_FRACTION: Final = 0.95
"""Largest rotor inertia relative to the least inertia about the joint."""
BLOCKS: Final = (6, 20)
"""Fewest and most blocks of the jackknife."""
MIN_FREE_FRACTION: Final = 0.05**2
"""Fraction of the torque's variance apart from acceleration and speed from which on data limit the rotor inertia: link
models are wrong by a few percent."""


@dataclass(frozen=True, slots=True, eq=False)
class JointColumns:
    """Columns of the deflection of one joint at all rows.

    deflection  (N,)
    torque, rate, instrument, instrument_rate  (N,) torque through the joint, instrument, and their derivatives
    qd, qdd     (N,)
    owners      (N,) log of each row
    starts      first rows of the segments
    kept        (k,) rows that are fitted
    smooth      low pass of the deflection
    inertia     largest rotor inertia that the link model may contain; zero if it contains none
    """

    deflection: Array
    torque: Array
    rate: Array
    instrument: Array
    instrument_rate: Array
    qd: Array
    qdd: Array
    owners: NDArray[np.int64]
    starts: Sequence[int]
    kept: NDArray[np.intp]
    smooth: Callable[[Array], Array]
    inertia: float

    @property
    def torque_deviation(self) -> float:
        """Standard deviation of the torque within the logs."""
        numbers, torque = np.unique(self.owners[self.kept], return_inverse=True)[1], self.torque[self.kept]
        means = np.bincount(numbers, torque) / np.bincount(numbers)
        return float((torque - means[numbers]).std())

    @property
    def independent_fraction(self) -> float:
        """Fraction of the torque's variance that acceleration and velocity do not explain."""
        owners, torque = self.owners[self.kept], self.torque[self.kept]
        offsets = np.column_stack([(owners == owner).astype(float) for owner in np.unique(owners)])
        whole = np.column_stack([self.qdd[self.kept], self.qd[self.kept], offsets])
        left, centred = (torque - X @ np.linalg.lstsq(X, torque, rcond=None)[0] for X in (whole, offsets))
        return float((left**2).sum()) / max(float((centred**2).sum()), 1e-300)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A model and its values.

    terms       names of the columns
    width       of the hysteresis, N m
    rotor       assumed rotor inertia; None if it is a value of the fit
    values      (k,) coefficients
    deviations  (k,) jackknife
    score       BIC
    residual    rms of the residual, rad
    columns     their numbers
    """

    terms: tuple[str, ...]
    columns: tuple[int, ...]
    width: float
    rotor: float | None
    values: Array
    deviations: Array
    score: float
    residual: float

    @property
    def rotor_inertia(self) -> float:
        """Rotor inertia that is subtracted from the link model."""
        if self.rotor is not None:
            return self.rotor
        C = self.value("compliance")
        return -self.value("acceleration") / C if C else np.inf

    def value(self, term: str) -> float:
        """Return a coefficient; zero if the model lacks its term."""
        return float(self.values[self.terms.index(term)]) if term in self.terms else 0.0

    def deviation(self, term: str) -> float:
        """Return the deviation of a coefficient; zero if the model lacks its term."""
        return float(self.deviations[self.terms.index(term)]) if term in self.terms else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ElasticFit:
    """Fits of one joint: averages over models include the error of selecting one (Burnham and Anderson 2002).

    best       with the least BIC
    fits       all models, with the rotor inertia free, zero, ..., as large as the inertia about the joint
    blocks     number of blocks of the jackknife
    weights    (N,) derivative of the compliance of the best fit with respect to the deflections
    """

    best: Fit
    fits: tuple[Fit, ...]
    blocks: int
    weights: Array

    @property
    def shape_deviation(self) -> float:
        """Standard deviation of the compliance due to the assumed shapes of backlash, friction and hysteresis."""
        plain = min(
            (fit for fit in self.fits if not set(fit.terms) & set(OPTIONAL) and fit.rotor == self.best.rotor),
            key=_score,
        )
        return SHAPE_ERROR * abs(self.best.value("compliance") - plain.value("compliance"))

    def interval(self, term: str, extra: float = 0.0, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the interval of a term; `extra` is a further standard deviation.

        Without a known rotor inertia, fits with several fixed inertias and a fit with a free inertia give one interval
        each. The result is the interval of the free inertia, cut to the range of the intervals of the fixed ones.
        """
        ends = {rotor: self._average_interval(term, extra, rotor, level) for rotor in {fit.rotor for fit in self.fits}}
        free = ends.pop(None, None)
        low, high = min(pair[0] for pair in ends.values()), max(pair[1] for pair in ends.values())
        if free is not None and max(low, free[0]) < min(high, free[1]):
            return max(low, free[0]), min(high, free[1])
        return low, high

    def _average_interval(self, term: str, extra: float, rotor: float | None, level: float) -> tuple[float, float]:
        """Average the interval of a term over all models with this rotor inertia, weighted by their evidence."""
        fits = [fit for fit in self.fits if fit.rotor == rotor]
        scores = np.array([fit.score for fit in fits])
        weights = np.exp(-0.5 * (scores - scores.min()))
        weights /= weights.sum()
        values, deviations = (np.array([get(fit, term) for fit in fits]) for get in (Fit.value, Fit.deviation))
        mean = float(weights @ values)
        quantile = float(stats.t.ppf(0.5 + level / 2, self.blocks - 1))
        half = quantile * float(np.sqrt(weights @ (deviations**2 + (values - mean) ** 2) + extra**2))
        return mean - half, mean + half


def fit_joint(columns: JointColumns) -> ElasticFit:
    """Fit all models of a joint, and return the best one and those that count in intervals."""
    names, F, Z, widths = _build_columns(columns)
    d = columns.deflection[columns.kept]
    scales = np.maximum(np.sqrt((F**2).mean(axis=0)), 1e-300)
    F, Z = F / scales, Z / scales
    offsets = [k for k, name in enumerate(names) if name.startswith("offset")]
    first = [names.index("compliance"), names.index("time offset"), *offsets]
    start = _solve(Z[:, first].T @ F[:, first], Z[:, first].T @ d)
    size = effective_rows(d - F[:, first] @ start)
    count = int(np.clip(size, *BLOCKS))
    blocks = np.minimum(np.arange(len(d)) * count // len(d), count - 1)
    A = np.stack([Z[blocks == b].T @ F[blocks == b] for b in range(count)])
    right = np.stack([Z[blocks == b].T @ d[blocks == b] for b in range(count)])
    gram, cross, power = F.T @ F, F.T @ d, float(d @ d)
    largest = MAX_ROTOR_FRACTION * columns.inertia
    rotors: list[float | None] = [0.0] if columns.inertia <= 0 else [*np.linspace(0, largest, ROTOR_STEPS)]
    if columns.inertia > 0 and columns.independent_fraction > MIN_FREE_FRACTION:
        rotors.append(None)
    fits = []
    for terms, width in _list_models(names):
        for rotor in rotors:
            used = (*terms, "acceleration") if rotor is None else terms
            chosen = [names.index(name) for name in used]
            T = np.zeros((len(names), len(used)))
            T[chosen, np.arange(len(used))] = 1.0
            if rotor:
                T[names.index("acceleration"), 0] = -rotor * scales[names.index("acceleration")] / scales[chosen[0]]
            small, b = T.T @ A @ T, right @ T
            values = _solve(small.sum(axis=0), b.sum(axis=0))
            without = _solve_each(small.sum(axis=0) - small, b.sum(axis=0) - b)
            squares = power - 2 * values @ (T.T @ cross) + values @ (T.T @ gram @ T) @ values
            squares = max(squares, 1e-12 * power, 1e-300)
            free = len(terms) + (width is not None) + (len(rotors) > 1)
            variances = (count - 1) / count * ((without - without.mean(axis=0)) ** 2).sum(axis=0)
            fit = Fit(
                tuple("hysteresis" if name.startswith("hysteresis") else name for name in used),
                tuple(chosen),
                0.0 if width is None else widths[width],
                rotor,
                values / scales[chosen],
                np.sqrt(variances) / scales[chosen],
                size * np.log(squares / len(d)) + free * np.log(max(size, 2.0)),
                float(np.sqrt(squares / len(d))),
            )
            if all(fit.value(name) * sign >= 0 for name, sign in SIGNS.items()):
                fits.append(fit)
    best = min((fit for fit in fits if fit.rotor is not None or 0 <= fit.rotor_inertia <= largest), key=_score)
    return ElasticFit(best, tuple(fits), count, _compliance_derivative(best, names, F, Z, scales))


def _score(fit: Fit) -> float:
    return fit.score


def _build_columns(c: JointColumns) -> tuple[list[str], Array, Array, list[float]]:
    """Return the names of all columns, the columns (N, m), their instruments (N, m), and the widths of hysteresis."""
    spread = max(float(np.ptp(c.torque[c.kept])), 1e-300)
    widths = [fraction * spread for fraction in WIDTHS]
    names = ["compliance", "acceleration", "time offset", "damping", "friction", "backlash"]
    names += [f"hysteresis {k}" for k in range(len(widths))]
    matrices = []
    for torque, rate in ((c.torque, c.rate), (c.instrument, c.instrument_rate)):
        shapes = [friction_shape(c.qd), backlash_shape(torque, spread)]
        shapes += [dahl_states(torque, width, c.starts) for width in widths]
        offsets = [(c.owners == owner).astype(float) for owner in np.unique(c.owners)]
        columns = [torque, c.qdd, c.qd, rate, *c.smooth(np.column_stack(shapes)).T, *offsets]
        matrices.append(np.column_stack(columns)[c.kept])
    names += [f"offset {owner}" for owner in np.unique(c.owners)]
    return names, matrices[0], matrices[1], widths


def friction_shape(qd: Array) -> Array:
    """Return the direction of Coulomb friction (N,)."""
    return np.tanh(qd / SMOOTH_SPEED)


def backlash_shape(torque: Array, spread: float) -> Array:
    """Return on which side of the backlash each torque (N,) presses, -1 to 1; `spread` is the range of the torque."""
    return np.tanh(torque / max(SMOOTH_TORQUE * spread, 1e-300))


def _list_models(names: Sequence[str]) -> list[tuple[tuple[str, ...], int | None]]:
    """List the columns of every model, and the number of its width of hysteresis."""
    offsets = [name for name in names if name.startswith("offset")]
    models: list[tuple[tuple[str, ...], int | None]] = []
    for count in range(len(OPTIONAL) + 1):
        for chosen in combinations(OPTIONAL, count):
            plain = [name for name in chosen if name != "hysteresis"]
            for width in range(len(WIDTHS)) if "hysteresis" in chosen else (None,):
                more = [] if width is None else [f"hysteresis {width}"]
                models.append((("compliance", "time offset", *plain, *more, *offsets), width))
    return models


def _compliance_derivative(fit: Fit, names: Sequence[str], F: Array, Z: Array, scales: Array) -> Array:
    """Return the derivative (N,) of the compliance with respect to the deflections."""
    chosen = list(fit.columns)
    rotor, first = names.index("acceleration"), chosen[0]
    X, W = F[:, chosen].copy(), Z[:, chosen].copy()
    change = -(fit.rotor or 0.0) * scales[rotor] / scales[first]
    X[:, 0] += change * F[:, rotor]
    W[:, 0] += change * Z[:, rotor]
    return np.asarray(_solve(W.T @ X, W.T)[0] / scales[first])


def effective_rows(residual: Array) -> float:
    """Return the number of independent rows of a correlated residual, from its autocorrelation."""
    n = len(residual)
    power = np.abs(np.fft.rfft(residual - residual.mean(), 2 * n)) ** 2
    correlation = np.fft.irfft(power)[:n]
    if correlation[0] <= 0:
        return float(n)
    correlation /= correlation[0]
    ends = np.flatnonzero(correlation < 0.05)
    return float(n / (1 + 2 * correlation[1 : ends[0] if len(ends) else n].sum()))


def _solve(A: Array, b: Array) -> Array:
    """Solve A x = b; by the pseudo-inverse if the columns depend on each other."""
    try:
        return np.asarray(np.linalg.solve(A, b))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(A) @ b)


def _solve_each(A: Array, b: Array) -> Array:
    """Solve A_k x_k = b_k for every k; by the pseudo-inverse if columns depend on each other."""
    try:
        return np.asarray(np.linalg.solve(A, b[:, :, None])[..., 0])
    except np.linalg.LinAlgError:
        return np.stack([_solve(*pair) for pair in zip(A, b, strict=True)])
