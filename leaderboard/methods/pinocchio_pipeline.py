"""Simple pipeline on the regressor of Pinocchio, as users write it.

    mindyn compare --logs DIR --method identify --method leaderboard/methods/pinocchio_pipeline.py

Positions are low-pass filtered without phase shift and differentiated. Columns are those of
`computeJointTorqueRegressor`, and for each joint viscous friction, tanh(qd / width), an offset and the inertia of the
rotor. Base columns come from a pivoted QR on random states, and joint weights from residuals. Cutoff frequency and
width are selected on four blocks of the training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.logs.log import Log
from mindyn.output.export.pinocchio_model import import_pinocchio, to_pinocchio
from mindyn.robots.robot import Robot

if TYPE_CHECKING:
    from types import ModuleType

name = "pinocchio"
CUTOFFS_HZ: Final = (1.5, 3.0, 6.0, 12.0, 25.0, 50.0, 100.0)
FRICTION_WIDTHS: Final = (0.001, 0.01, 0.1)
FOLD_COUNT: Final = 4
SCORED_EDGE_S: Final = 0.1
WEIGHTING_COUNT: Final = 5
MIN_DIAGONAL_RATIO: Final = 1e-8
"""Diagonal entry of R relative to the largest below which a column is not a base column."""


@dataclass(frozen=True, slots=True)
class _PipelineSetting:
    cutoff_hz: float
    width: float


def fit(robot: Robot, logs: Sequence[Log]) -> Callable[[Log], Array]:
    """Fit the pipeline and return its predictor."""
    pinocchio = import_pinocchio()
    if robot.has_dependents:
        raise InputError(
            "the Pinocchio pipeline does not support dependent joints", code=Code.UNSUPPORTED, subject=robot.name
        )
    columns = _PinocchioColumns(pinocchio, robot)
    rates = {_rate_hz(log) for log in logs}
    settings = [_PipelineSetting(f, w) for f, w in product(CUTOFFS_HZ, FRICTION_WIDTHS) if f < 0.4 * min(rates)]
    selected = min(settings, key=lambda setting: _held_out_error(columns, logs, setting))
    beta = _fit_weighted(np.sum([_grams(*_inner_rows(log, columns(log, selected), selected)) for log in logs], axis=0))
    return lambda log: np.asarray(columns(log, selected) @ beta)


class _PinocchioColumns:
    """Base columns (N, n, p) of a log; motions are cached for each cutoff frequency."""

    def __init__(self, pinocchio: ModuleType, robot: Robot) -> None:
        unit = np.eye(PARAMETERS_PER_LINK)[0]  # the columns do not depend on the masses
        links = tuple(replace(link, phi=unit) for link in robot.links)
        self.pin, self.model = pinocchio, to_pinocchio(replace(robot, links=links))
        self.data = self.model.createData()
        self.kept: dict[tuple[int, float], tuple[Array, Array, Array]] = {}
        n, rng = self.model.nv, np.random.default_rng(0)
        states = rng.uniform(-np.pi, np.pi, (400, n)), 2 * rng.normal(size=(400, n)), 5 * rng.normal(size=(400, n))
        stacked = self._all(*states, 1e-9).reshape(400 * n, -1)
        self.base = _base_columns(stacked)

    def __call__(self, log: Log, setting: _PipelineSetting) -> Array:
        key = id(log), setting.cutoff_hz
        if key not in self.kept:
            q, qd, qdd = _filter_motion(log, setting.cutoff_hz)
            self.kept[key] = qd, qdd, self._links(q, qd, qdd)
        qd, qdd, links = self.kept[key]
        return np.concatenate([links, _drive_columns(qd, qdd, setting.width)], axis=2)[:, :, self.base]

    def _all(self, q: Array, qd: Array, qdd: Array, width: float) -> Array:
        return np.concatenate([self._links(q, qd, qdd), _drive_columns(qd, qdd, width)], axis=2)

    def _links(self, q: Array, qd: Array, qdd: Array) -> Array:
        compute: Any = self.pin.computeJointTorqueRegressor
        return np.array([compute(self.model, self.data, *row).copy() for row in zip(q, qd, qdd, strict=True)])


def _drive_columns(qd: Array, qdd: Array, width: float) -> Array:
    """Return viscous, tanh, offset and rotor columns (N, n, 4 n) of each joint."""
    shapes = np.stack([qd, np.tanh(qd / width), np.ones_like(qd), qdd])  # (4, N, n)
    return np.concatenate([shape[:, :, None] * np.eye(qd.shape[1]) for shape in shapes], axis=2)


def _base_columns(stacked: Array) -> NDArray[np.intp]:
    from scipy.linalg import qr

    norms = np.linalg.norm(stacked, axis=0)
    used = np.flatnonzero(norms > 0)
    R, pivots = qr(stacked[:, used] / norms[used], mode="r", pivoting=True)[0:2]
    sizes = np.abs(np.diag(R))
    return np.sort(used[pivots[: int((sizes > MIN_DIAGONAL_RATIO * sizes[0]).sum())]])


def _filter_motion(log: Log, cutoff_hz: float) -> tuple[Array, Array, Array]:
    from scipy.signal import butter, sosfiltfilt

    rate = _rate_hz(log)
    sections = butter(4, cutoff_hz, fs=rate, output="sos")
    padding = min(len(log) - 1, int(np.ceil(rate / cutoff_hz)))
    q = sosfiltfilt(sections, log.q, axis=0, padlen=padding)
    qd = np.gradient(q, 1 / rate, axis=0)
    return q, qd, np.gradient(qd, 1 / rate, axis=0)


def _rate_hz(log: Log) -> float:
    return float((len(log) - 1) / (log.time[-1] - log.time[0]))


def _inner_rows(log: Log, columns: Array, setting: _PipelineSetting) -> tuple[Array, Array]:
    """Return columns and torque without the ends, where filters are one-sided."""
    edge = min(len(log) // 4, int(np.ceil(max(SCORED_EDGE_S, 0.5 / setting.cutoff_hz) * _rate_hz(log))))
    return columns[edge : len(log) - edge], log.tau[edge : len(log) - edge]


def _grams(columns: Array, tau: Array) -> Array:
    """Return (n, p + 1, p + 1) of [columns | torque] for each joint."""
    rows = np.concatenate([columns, tau[:, :, None]], axis=2).transpose(1, 0, 2)
    return np.asarray(rows.transpose(0, 2, 1) @ rows)


def _squares(grams: Array, beta: Array) -> Array:
    """Return the sums (n,) of squared residuals of each joint."""
    whole = np.append(-beta, 1.0)
    return np.asarray(np.maximum(np.einsum("i,jik,k->j", whole, grams, whole), 0.0))


def _fit_weighted(grams: Array) -> Array:
    """Return weighted least squares; the weight of a joint is one over its mean squared residual."""
    weights, beta = np.ones(len(grams)), np.zeros(grams.shape[1] - 1)
    for _ in range(WEIGHTING_COUNT):
        total = np.einsum("j,jik->ik", weights, grams)
        scale = np.sqrt(np.maximum(np.diag(total), 1e-300))[:-1]
        normal = total[:-1, :-1] / scale / scale[:, None]
        beta = np.linalg.lstsq(normal, total[:-1, -1] / scale, rcond=1e-12)[0] / scale
        weights = 1 / np.maximum(_squares(grams, beta), 1e-300)
    return beta


def _held_out_error(columns: _PinocchioColumns, logs: Sequence[Log], setting: _PipelineSetting) -> float:
    """Return the sum of squared errors of each of `FOLD_COUNT` parts of the logs by a fit to the others."""
    parts = []
    for log in logs:
        inner, tau = _inner_rows(log, columns(log, setting), setting)
        ends = [len(tau) * k // FOLD_COUNT for k in range(FOLD_COUNT + 1)]
        parts.append([_grams(inner[a:b], tau[a:b]) for a, b in pairwise(ends)])
    grams = np.sum(parts, axis=0)
    rest = grams.sum(axis=0)
    return sum(float(_squares(part, _fit_weighted(rest - part)).sum()) for part in grams)
