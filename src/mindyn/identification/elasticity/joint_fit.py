"""Fit the deflection of one joint: compliance with an interval over all models that its data do not reject.

    d = C (tau - J qdd) + T qd - H z(tau) + B sgn(tau) + F sgn(qd) - C D d(tau)/dt C + offset of each log

C compliance; J rotor inertia that the link model contains; T time offset between the encoders, which viscous friction
beyond the spring resembles; H, z hysteresis; B half the backlash; F friction beyond the spring; D damping. J is not
estimated: it may have any value between zero and the inertia about the joint. The other terms are optional.
"""

from __future__ import annotations

from collections.abc import Sequence
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
SMOOTH_TORQUE: Final = 0.02
"""Torque over which backlash is crossed, relative to the range of the torque: it smooths the step as the filter does."""
SMOOTH_SPEED: Final = 0.01
"""Speed (rad/s, m/s) over which friction reverses."""
ROTOR_STEPS: Final = 9
"""Number of rotor inertias that are tried between zero and the inertia about the joint."""
MAX_ROTOR_FRACTION: Final = 0.95
"""Largest rotor inertia relative to the least inertia about the joint."""
PLAUSIBLE: Final = 6.0
"""Models whose BIC exceeds the best one by less are not rejected: an evidence ratio of 20."""
BLOCKS: Final = (6, 20)
"""Fewest and most blocks of the jackknife."""
LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class JointColumns:
    """Columns of the deflection of one joint.

    deflection  (N,)
    torque, rate, instrument, instrument_rate  (N,) torque through the joint, instrument, and their derivatives
    qd, qdd     (N,)
    owners      (N,) log of each row
    starts      (k,) first rows of the segments
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
    starts: NDArray[np.intp]
    inertia: float


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A model and its values.

    terms       names of the columns
    width       of the hysteresis, N m
    rotor       assumed rotor inertia
    values      (k,) coefficients
    deviations  (k,) jackknife
    score       BIC
    residual    rms of the residual, rad
    columns     their numbers
    """

    terms: tuple[str, ...]
    columns: tuple[int, ...]
    width: float
    rotor: float
    values: Array
    deviations: Array
    score: float
    residual: float

    def value(self, term: str) -> float:
        """Return a coefficient; zero if the model lacks its term."""
        return float(self.values[self.terms.index(term)]) if term in self.terms else 0.0

    def deviation(self, term: str) -> float:
        """Return the deviation of a coefficient; zero if the model lacks its term."""
        return float(self.deviations[self.terms.index(term)]) if term in self.terms else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class JointFit:
    """Fits of one joint.

    best        with the least BIC
    plausible   all that are not rejected
    quantile    of Student's distribution for the intervals
    weights     (N,) derivative of the compliance of the best fit with respect to the deflections
    """

    best: Fit
    plausible: tuple[Fit, ...]
    quantile: float
    weights: Array

    def interval(self, term: str, extra: float = 0.0, fits: Sequence[Fit] | None = None) -> tuple[float, float]:
        """Return the hull of the intervals of all plausible fits; `extra` is a further standard deviation."""
        ends = []
        for fit in self.plausible if fits is None else fits:
            half = self.quantile * np.hypot(fit.deviation(term), extra)
            ends += [fit.value(term) - half, fit.value(term) + half]
        return float(min(ends)), float(max(ends))


def fit_joint(columns: JointColumns) -> JointFit:
    """Fit all models of a joint, and return the best one and all that its data do not reject."""
    names, F, Z, widths = _build_columns(columns)
    d = columns.deflection
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
    rotors = np.linspace(0, MAX_ROTOR_FRACTION * columns.inertia, ROTOR_STEPS) if columns.inertia > 0 else np.zeros(1)
    fits = []
    for terms, width in _list_models(names):
        chosen = [names.index(name) for name in terms]
        for rotor in rotors:
            T = np.zeros((len(names), len(terms)))
            T[chosen, np.arange(len(terms))] = 1.0
            T[names.index("acceleration"), 0] = -rotor * scales[names.index("acceleration")] / scales[chosen[0]]
            small, b = T.T @ A @ T, right @ T
            values = _solve(small.sum(axis=0), b.sum(axis=0))
            without = _solve_each(small.sum(axis=0) - small, b.sum(axis=0) - b)
            squares = power - 2 * values @ (T.T @ cross) + values @ (T.T @ gram @ T) @ values
            squares = max(squares, 1e-12 * power, 1e-300)
            labels = tuple("hysteresis" if name.startswith("hysteresis") else name for name in terms)
            free = len(terms) + (width is not None)
            variances = (count - 1) / count * ((without - without.mean(axis=0)) ** 2).sum(axis=0)
            fit = Fit(
                labels,
                tuple(chosen),
                0.0 if width is None else widths[width],
                float(rotor),
                values / scales[chosen],
                np.sqrt(variances) / scales[chosen],
                size * np.log(squares / len(d)) + free * np.log(max(size, 2.0)),
                float(np.sqrt(squares / len(d))),
            )
            if all(fit.value(name) * sign >= 0 for name, sign in SIGNS.items()):
                fits.append(fit)
    best = min(fits, key=lambda fit: fit.score)
    plausible = tuple(fit for fit in fits if fit.score <= best.score + PLAUSIBLE)
    return JointFit(best, plausible, float(stats.t.ppf(0.5 + LEVEL / 2, count - 1)), _weights(best, names, F, Z, scales))


def _build_columns(c: JointColumns) -> tuple[list[str], Array, Array, list[float]]:
    """Return the names of all columns, the columns (N, m), their instruments (N, m), and the widths of hysteresis."""
    spread = max(float(np.ptp(c.torque)), 1e-300)
    widths = [fraction * spread for fraction in WIDTHS]
    names = ["compliance", "acceleration", "time offset", "damping", "friction", "backlash"]
    names += [f"hysteresis {k}" for k in range(len(widths))]
    matrices = []
    for torque, rate in ((c.torque, c.rate), (c.instrument, c.instrument_rate)):
        columns = [torque, c.qdd, c.qd, rate, np.tanh(c.qd / SMOOTH_SPEED), np.tanh(torque / (SMOOTH_TORQUE * spread))]
        columns += [dahl_states(torque, width, c.starts) for width in widths]
        columns += [(c.owners == owner).astype(float) for owner in np.unique(c.owners)]
        matrices.append(np.column_stack(columns))
    names += [f"offset {owner}" for owner in np.unique(c.owners)]
    return names, matrices[0], matrices[1], widths


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


def _weights(fit: Fit, names: Sequence[str], F: Array, Z: Array, scales: Array) -> Array:
    """Return the derivative (N,) of the compliance with respect to the deflections."""
    chosen = list(fit.columns)
    rotor, first = names.index("acceleration"), chosen[0]
    X, W = F[:, chosen].copy(), Z[:, chosen].copy()
    change = -fit.rotor * scales[rotor] / scales[first]
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
