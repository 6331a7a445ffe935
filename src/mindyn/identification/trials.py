"""`Trials`: how well settings predict torque inside the training rows, by cross-validation over blocks of the motion.

Blocks are contiguous; where the logs repeat a motion, all rows of the same part of it are one block, since another
period of a block that is held out would tell what it holds. How noise is filtered and where friction turns over is a
matter of the same motion as well (`along_time`); which parameters are needed is a matter of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.essential import elimination
from mindyn.identification.column_sums import ColumnSums, Part, Room
from mindyn.identification.scores import UNSCORED, Score
from mindyn.logs.conditioning import Conditioning, number
from mindyn.logs.delay import DelayScan
from mindyn.logs.filters import SHORTEST_EDGE_S, edge_s
from mindyn.logs.log import Log
from mindyn.logs.periods import Timeline, motion_timeline
from mindyn.logs.pipeline import Conditioned, condition
from mindyn.logs.samples import Samples
from mindyn.parameters.parameter import Kind, Parameter
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import segment_ends
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import FOLDS
from mindyn.regression.treatment import Treatment

ROWS_PER_PERIOD: Final = 8
"""Rows kept for each period of the cut-off in a fit: what lies between them is interpolation."""
LONGEST_DELAY_S: Final = 0.15
"""By which torque and motion may be out of step."""
REWEIGHTINGS: Final = 4
SMALLEST: Final = 1e-12
"""Eigenvalues of the scaled normal matrix below this part of the largest count as zero in a trial."""
WELL_CONDITIONED: Final = 1e-8
"""Reciprocal condition number above which no eigenvalue is near `SMALLEST`: all count, and none need be found."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One candidate.

    conditioning  of the motion
    filter_hz     low pass on columns and torque
    friction      shape of the friction columns
    without       kinds of parameter left out
    driving       names of parameters of load-dependent friction that are left out: with them it would drive
    dropped       how many of the others are left out, the least supported first
    """

    conditioning: Conditioning
    filter_hz: float | None
    friction: Friction
    without: tuple[Kind, ...] = ()
    driving: tuple[str, ...] = ()
    dropped: int = 0

    def kept(self, parameters: Sequence[Parameter]) -> list[int]:
        """Numbers of the parameters that are not left out, whatever is dropped of them."""
        return [k for k, one in enumerate(parameters) if one.kind not in self.without and one.name not in self.driving]

    def treatment(self, asked: Treatment) -> Treatment:
        """The treatment that the setting makes of the one asked for."""
        step = asked.decimation
        if isinstance(step, str):
            step = decimation_for(self.filter_hz, rate_of(self.conditioning))
        return replace(
            asked,
            conditioning=self.conditioning,
            filter_hz=self.filter_hz,
            decimation=step,
            # The reference of a load is of the structural base set.
            friction=self.friction if asked.base_form == "structural" else self.friction.without_load(),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Fold:
    """Normal matrices [Y | tau]^T [Y | tau] for each joint of the rows to fit, with their number; the rows to score."""

    fit: list[Array]
    rows: list[int]
    scored: list[Part]


class _Shared:
    """What trials of the same logs, cut into blocks in different ways, have in common."""

    def __init__(self, regressor: Regressor) -> None:
        self.regressor = regressor
        self.samples: dict[Conditioning, Conditioned] = {}
        self._regressors: dict[Friction, Regressor] = {}
        self._room = Room()
        self._columns: tuple[tuple[Conditioning, float | None], ColumnSums] | None = None

    def with_friction(self, friction: Friction) -> Regressor:
        """The regressor with this friction."""
        if friction not in self._regressors:
            self._regressors[friction] = self.regressor.with_friction(friction)
        return self._regressors[friction]

    def columns(self, setting: Setting, regressor: Regressor, samples: Samples) -> ColumnSums:
        """Of the setting's conditioning and filter; those of the last one are kept."""
        key = setting.conditioning.for_prediction(), setting.filter_hz
        if self._columns is None or self._columns[0] != key:
            self._columns = key, ColumnSums(regressor, samples, setting.filter_hz, self._room)
        return self._columns[1]


def decimation_for(filter_hz: float | None, rate_hz: float) -> int:
    """Every how many filtered rows one carries all that the filter has left."""
    return 1 if filter_hz is None else max(1, int(rate_hz / (ROWS_PER_PERIOD * filter_hz)))


class Trials:
    """Scores of settings on training logs; every setting is scored once."""

    def __init__(self, logs: Sequence[Log], regressor: Regressor, fold_count: int = FOLDS) -> None:
        self.logs = logs
        self.fold_count = fold_count
        self.regressor = regressor
        self._shared = _Shared(regressor)
        self._scores: dict[Setting, Score] = {}

    def score(self, setting: Setting) -> Score:
        """The cross-validated error of a setting."""
        if setting not in self._scores:
            full = replace(setting, dropped=0)
            for dropped, score in enumerate(self._cross_validated(full, path=setting.dropped > 0)):
                self._scores[replace(setting, dropped=dropped)] = score
        return self._scores[setting]

    def with_folds(self, count: int) -> Trials:
        """Trials of the same logs cut into another number of blocks."""
        made = Trials(self.logs, self.regressor, count)
        made.__dict__["timeline"] = self.timeline
        made._shared = self._shared
        return made

    def along_time(self) -> Trials:
        """Trials of the same logs in contiguous blocks, whether or not their motion repeats."""
        if not self.timeline.repeated:
            return self
        made = Trials(self.logs, self.regressor, self.fold_count)
        made.__dict__["timeline"] = replace(self.timeline, repeats=1.0)
        made._shared = self._shared
        return made

    @cached_property
    def timeline(self) -> Timeline:
        """The line of the logs' motions."""
        return motion_timeline([log.time for log in self.logs], [log.q for log in self.logs])

    @property
    def count(self) -> int:
        """Settings tried so far."""
        return len(self._scores)

    def samples(self, conditioning: Conditioning) -> Conditioned:
        """All rows of the logs, motion conditioned, torque as logged."""
        key, kept = conditioning.for_prediction(), self._shared.samples
        if key not in kept:
            if len(kept) > 3:  # a few at a time: each is as large as the logs
                kept.pop(next(iter(kept)))
            kept[key] = condition(list(self.logs), self.regressor.robot, key, judged=False)
        return kept[key]

    def left_out(self, setting: Setting) -> tuple[str, ...]:
        """Names of the parameters that a setting leaves out, those to be dropped told from all training rows."""
        regressor = self._shared.with_friction(setting.friction)
        kept = setting.kept(regressor.parameters)
        names = [name for k, name in enumerate(regressor.names) if k not in kept]
        if setting.dropped:
            matrix, right, _ = _fitted(self._folds(setting, regressor), kept, regressor)
            order = elimination(matrix, right).order[: setting.dropped]
            names += [regressor.names[kept[k]] for k in order]
        return tuple(names)

    def delays(self, setting: Setting) -> DelayScan:
        """How well the columns of a setting explain the torque taken later or earlier than it takes it."""
        samples = self.samples(setting.conditioning).samples
        regressor = self._shared.with_friction(setting.friction)
        q = regressor.positions(samples)
        directions = regressor.directions(q, samples.qd, samples.segments, samples.rate_hz)

        def columns(rows: NDArray[np.intp]) -> list[Array]:
            motion = (q[rows], samples.qd[rows], samples.qdd[rows])
            parts = regressor.parts(*motion, None if directions is None else directions[rows])
            return [np.concatenate(arrays, axis=1) for arrays in parts]

        return DelayScan(samples, columns, LONGEST_DELAY_S, samples.qd)

    def values(self, setting: Setting) -> dict[Parameter, float]:
        """What all rows ask for, zero for parameters that the setting leaves out."""
        regressor = self._shared.with_friction(setting.friction)
        folds = self._folds(setting, regressor)
        if not folds:
            raise InputError("the logs are too short to find the load of friction from: filters leave no row")
        beta = _fitted(folds, setting.kept(regressor.parameters), regressor)[2]
        return dict(zip(regressor.parameters, beta.tolist(), strict=True))

    def reference(self, setting: Setting) -> tuple[float, ...]:
        """Base values that all rows ask for: the reference of friction that depends on the load."""
        return tuple(self.values(setting).values())[: self.regressor.base.count]

    def _cross_validated(self, setting: Setting, *, path: bool) -> list[Score]:
        """The score of the setting; with `path` also of dropping 1, 2, ... parameters."""
        regressor = self._shared.with_friction(setting.friction)
        folds = self._folds(setting, regressor)
        sums = self._shared.columns(setting, regressor, self.samples(setting.conditioning).samples)
        kept = setting.kept(regressor.parameters)
        steps = len(kept) if path else 1
        if len(folds) < 2:  # filters so slow that nothing is left to hold out
            return [UNSCORED] * steps
        betas = np.zeros((len(folds), steps, regressor.count))
        for k, held in enumerate(folds):
            matrix, right, beta = _fitted([fold for fold in folds if fold is not held], kept, regressor)
            betas[k][:, kept] = elimination(matrix, right).betas if path else beta[kept]
        error, power = _errors(sums, regressor, folds, betas)
        return [Score(e, power) for e in error]

    def _folds(self, setting: Setting, regressor: Regressor) -> list[_Fold]:
        made = self.samples(setting.conditioning)
        samples, labels = made.samples, self._labels(made)
        rate, cutoff = samples.rate_hz, setting.filter_hz
        step = decimation_for(cutoff, rate)
        trim = ceil(edge_s(cutoff) * rate)
        edge = ceil(SHORTEST_EDGE_S * rate)
        slow = setting.conditioning.slow_speed
        sums = self._shared.columns(setting, regressor, samples)
        found: list[tuple[int, Part, list[Part]]] = []
        for start, stop in sums.segments:
            for label, first, last in _runs(labels[start:stop]):
                fit = Part(start + first + trim, start + last - trim, step, slow)
                score = range(start + max(first, edge), start + min(last, stop - start - edge))
                if fit.first < fit.last and len(score):
                    found.append((label, fit, _scored(fit, score)))
        folds: dict[int, list[_Fold]] = {}
        made_of = sums.normal_matrices(regressor, [fit for _, fit, _ in found])
        for (label, fit, scored), matrices in zip(found, made_of, strict=True):
            counts = [max(1, sums.count(fit, joint)) for joint in range(len(regressor.columns))]
            folds.setdefault(label, []).append(_Fold([_without(M, -1) for M in matrices], counts, scored))
        return [_summed(parts) for _, parts in sorted(folds.items())]

    def _labels(self, made: Conditioned) -> NDArray[np.int64]:
        """(N,) the number of the block that each sample is held out with."""
        samples = made.samples
        if not self.timeline.repeated:
            labels, first = np.empty(len(samples), dtype=np.int64), 0
            for start, stop in segment_ends(samples.segments):
                count = max(1, round(self.fold_count / len(samples) * (stop - start)))
                ends = np.linspace(0, stop - start, count + 1).astype(int)
                labels[start:stop] = first + np.repeat(np.arange(count), np.diff(ends))
                first += count
            return labels
        at = np.empty(len(samples))
        for k, (log, places) in enumerate(zip(self.logs, self.timeline.times, strict=True)):
            own = made.logs == k
            at[own] = places[np.minimum(np.searchsorted(log.rows, made.rows[own]), len(log) - 1)]
        part = at / self.timeline.length_s * self.fold_count
        return np.clip(part.astype(np.int64), 0, self.fold_count - 1)


def _runs(labels: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Label, beginning and end of every run of equal labels."""
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    ends = [*starts[1:].tolist(), len(labels)]
    return [(int(labels[start]), int(start), stop) for start, stop in zip(starts, ends, strict=True)]


def _summed(folds: Sequence[_Fold]) -> _Fold:
    """The fold of all rows of some folds."""
    if len(folds) == 1:
        return folds[0]
    fit = [np.asarray(sum(one)) for one in zip(*(fold.fit for fold in folds), strict=True)]
    rows = [sum(one) for one in zip(*(fold.rows for fold in folds), strict=True)]
    return _Fold(fit, rows, [part for fold in folds for part in fold.scored])


def _errors(sums: ColumnSums, regressor: Regressor, folds: Sequence[_Fold], betas: Array) -> tuple[Array, Array]:
    """Squared residuals (steps, folds, n) of the betas (folds, steps, p) of every fold on its rows; squared torques."""
    steps, n = betas.shape[1], len(regressor.columns)
    error, power = np.zeros((steps, len(folds), n)), np.zeros((len(folds), n))
    parts = [(k, part) for k, fold in enumerate(folds) for part in fold.scored]
    alone = [(k, part) for k, part in parts if steps == 1 and not sums.has(part)]
    found = sums.squared_errors(regressor, [(part, betas[k, 0]) for k, part in alone])
    for (k, _), squares in zip(alone, found, strict=True):
        error[0, k] += squares[:, 0]
        power[k] += squares[:, 1]
    summed = [one for one in parts if steps > 1 or sums.has(one[1])]
    for (k, _), matrices in zip(summed, sums.normal_matrices(regressor, [part for _, part in summed]), strict=True):
        for joint, (columns, matrix) in enumerate(zip(regressor.columns, matrices, strict=True)):
            product, v = _without(matrix, -2), np.column_stack([betas[k][:, columns], np.full(steps, -1.0)])
            error[:, k, joint] += np.maximum(0.0, ((v @ product) * v).sum(axis=1))
            power[k, joint] += product[-1, -1]
    return error, power


def _scored(fit: Part, score: range) -> list[Part]:
    """Parts whose rows together are those of `score`: what is fitted among them is summed once."""
    if fit.step > 1 or fit.slowest is not None or fit.first < score.start or fit.last > score.stop:
        return [Part(score.start, score.stop)]
    around = [Part(score.start, fit.first), fit, Part(fit.last, score.stop)]
    return [part for part in around if part.first < part.last]


def _without(matrix: Array, which: int) -> Array:
    """The matrix without one of the torques, which are its last two rows and columns."""
    return np.delete(np.delete(matrix, which, axis=0), which, axis=1)


def _fitted(folds: Sequence[_Fold], kept: list[int], regressor: Regressor) -> tuple[Array, Array, Array]:
    """Normal matrix and right side of the kept parameters, and beta (p,), reweighted for each joint.

    Settings are compared, which needs no QR's last digits.
    """
    n, p = len(regressor.columns), regressor.count
    matrices = np.zeros((n, p + 1, p + 1))
    for j, columns in enumerate(regressor.columns):
        index = np.append(columns, p)
        matrices[j, index[:, None], index] = sum(fold.fit[j] for fold in folds)
    counts = np.array([sum(fold.rows[j] for fold in folds) for j in range(n)])
    squares = matrices[:, -1, -1]
    # Rounding may leave less than nothing of a torque that is explained in full, or zero throughout.
    least = np.maximum(1e-12 * squares, 1e-18 * squares.max() + 1e-300)
    weights, beta, chosen = np.ones(n), np.append(np.zeros(p), -1.0), [*kept, p]
    for _ in range(REWEIGHTINGS + 1):
        whole = np.tensordot(weights, matrices, 1)[np.ix_(chosen, chosen)]
        matrix, right = whole[:-1, :-1], whole[:-1, -1]
        beta[kept] = _solve(matrix, right)
        left = (matrices @ beta) @ beta
        weights = counts / np.maximum(left, least)
    return matrix, right, beta[:-1]


def _solve(matrix: Array, right: Array) -> Array:
    scales = np.sqrt(np.diag(matrix))
    scales = np.where(scales > 0, scales, 1.0)
    scaled = matrix / scales / scales[:, None]
    L, info = dpotrf(scaled)
    if info == 0 and dpocon(L, np.abs(scaled).sum(axis=0).max())[0] > WELL_CONDITIONED:
        return np.asarray(dpotrs(L, right / scales)[0] / scales)
    values, vectors = np.linalg.eigh(scaled)
    inverse = np.where(values > SMALLEST * values[-1], 1 / np.where(values > 0, values, 1.0), 0.0)
    return np.asarray(vectors @ (inverse * (vectors.T @ (right / scales))) / scales)


def rate_of(conditioning: Conditioning) -> float:
    """Rate of the samples at full rate."""
    return number(conditioning.rate_hz, "rate_hz")


def changed(setting: Setting, **conditioning: Any) -> Setting:
    """The setting with other conditioning."""
    return replace(setting, conditioning=replace(setting.conditioning, **conditioning))
