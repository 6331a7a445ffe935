"""`Trials`: how well settings predict torque inside the training rows, by cross-validation over blocks of the motion.

Blocks are contiguous; where the logs repeat a motion, all rows of the same part of it are one block, since another
period of a block that is held out would tell what it holds. How noise is filtered and where friction turns over is a
matter of the same motion as well (`along_time`); which parameters are needed is a matter of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.essential import elimination
from mindyn.identification.selection.column_sums import ColumnSums, ColumnWorkspace, Part
from mindyn.identification.selection.fold_fits import Fold, fit_of_all, fits_without_each, fold_of
from mindyn.identification.selection.scores import UNSCORED, TrialScore
from mindyn.logs.conditioning import Conditioning, require_resolved
from mindyn.logs.delay import DelayScan
from mindyn.logs.filters import MIN_EDGE_S, edge_duration_s
from mindyn.logs.log import Log
from mindyn.logs.periods import Timeline, build_timeline
from mindyn.logs.pipeline import ConditionedSamples, condition
from mindyn.numerics.threads import map_in_threads
from mindyn.parameters.parameter import Kind, Parameter
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import segment_ends
from mindyn.regression.rows import FOLDS
from mindyn.regression.settings import EquationSettings

ROWS_PER_PERIOD: Final = 8
"""Rows kept for each period of the cut-off in a fit: what lies between them is interpolation."""
MAX_DELAY_S: Final = 0.15
"""By which torque and motion may be out of step."""
Key = TypeVar("Key")
Value = TypeVar("Value")

KEPT_SUMS: Final = 4
"""Conditioned logs, and sums of settings, that are kept: each is as large as the logs."""
WORKSPACE_BYTES: Final = 2**28
"""Memory for columns of settings that are tried at the same time."""
LARGE: Final = 2**21
"""Numbers in the columns of the logs from which on settings are tried on threads: below, the interpreter, which one
thread has at a time, takes longer than the sums."""


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

    def with_settings_of(self, parameters: Sequence[Parameter]) -> list[int]:
        """Numbers of the parameters that are not left out, whatever is dropped of them."""
        return [k for k, one in enumerate(parameters) if one.kind not in self.without and one.name not in self.driving]

    def settings(self, asked: EquationSettings) -> EquationSettings:
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


class _Shared:
    """What trials of the same logs, cut into blocks in different ways, have in common; threads may ask for it."""

    def __init__(self, logs: Sequence[Log], regressor: Regressor) -> None:
        self.logs, self.regressor = logs, regressor
        self._room, self._lock = ColumnWorkspace(), Lock()
        self._making: dict[object, Lock] = {}
        self._samples: dict[Conditioning, ConditionedSamples] = {}
        self._regressors: dict[Friction, Regressor] = {}
        self._sums: dict[tuple[Conditioning, float | None, Friction], ColumnSums] = {}

    def with_friction(self, friction: Friction) -> Regressor:
        """The regressor with this friction."""
        if friction not in self._regressors:
            self._regressors[friction] = self.regressor.with_friction(friction)
        return self._regressors[friction]

    def samples(self, conditioning: Conditioning) -> ConditionedSamples:
        """All rows of the logs, motion conditioned, torque as logged."""
        key = conditioning.for_prediction()
        made = lambda: condition(list(self.logs), self.regressor.robot, key)  # noqa: E731
        return self._kept(self._samples, key, made)

    def sums(self, setting: Setting) -> ColumnSums:
        """Of the setting's conditioning, filter and friction."""

        def made() -> ColumnSums:
            samples = self.samples(setting.conditioning).samples
            return ColumnSums(self.with_friction(setting.friction), samples, setting.filter_hz, self._room)

        return self._kept(self._sums, sums_key(setting), made)

    def _kept(self, known: dict[Key, Value], key: Key, made: Callable[[], Value]) -> Value:
        """What is known of the key, or is made for it, by one thread; that which was asked for the longest ago goes."""
        with self._lock:
            making = self._making.setdefault(key, Lock())
        with making:
            with self._lock:
                if key in known:
                    known[key] = known.pop(key)
                    return known[key]
            found = made()
            with self._lock:
                known[key] = found
                while len(known) > KEPT_SUMS:
                    known.pop(next(iter(known)))
        return found


def sums_key(setting: Setting) -> tuple[Conditioning, float | None, Friction]:
    """What the sums of a setting depend on."""
    return setting.conditioning.for_prediction(), setting.filter_hz, setting.friction


def decimation_for(filter_hz: float | None, rate_hz: float) -> int:
    """Every how many filtered rows one carries all that the filter has left."""
    return 1 if filter_hz is None else max(1, int(rate_hz / (ROWS_PER_PERIOD * filter_hz)))


class Trials:
    """Scores of settings on training logs; every setting is scored once."""

    def __init__(self, logs: Sequence[Log], regressor: Regressor, fold_count: int = FOLDS) -> None:
        self.logs = logs
        self.fold_count = fold_count
        self.regressor = regressor
        self._shared = _Shared(logs, regressor)
        self._scores: dict[Setting, TrialScore] = {}

    def score(self, setting: Setting) -> TrialScore:
        """The cross-validated error of a setting."""
        if setting not in self._scores:
            full = replace(setting, dropped=0)
            for dropped, score in enumerate(self._cross_validate(full, path=setting.dropped > 0)):
                self._scores[replace(setting, dropped=dropped)] = score
        return self._scores[setting]

    def knows(self, setting: Setting) -> bool:
        """Whether a setting was scored before."""
        return setting in self._scores

    @property
    def at_once(self) -> int:
        """Settings that may be tried at the same time: each has room for the columns of a segment."""
        rows, width = [len(log) for log in self.logs], self.regressor.kernel.output_shapes[0][0]
        return max(1, WORKSPACE_BYTES // (8 * max(rows) * width)) if sum(rows) * width > LARGE else 1

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
        return build_timeline([log.time for log in self.logs], [log.q for log in self.logs])

    @property
    def count(self) -> int:
        """Settings tried so far."""
        return len(self._scores)

    def samples(self, conditioning: Conditioning) -> ConditionedSamples:
        """All rows of the logs, motion conditioned, torque as logged."""
        return self._shared.samples(conditioning)

    def dropped(self, setting: Setting) -> tuple[str, ...]:
        """Names of the parameters that a setting leaves out, those to be dropped told from all training rows."""
        regressor = self._shared.with_friction(setting.friction)
        kept = setting.with_settings_of(regressor.parameters)
        names = [name for k, name in enumerate(regressor.names) if k not in kept]
        if setting.dropped:
            matrix, right, _ = fit_of_all(self._folds(setting), kept)
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

        return DelayScan(samples, columns, MAX_DELAY_S, samples.qd)

    def values(self, setting: Setting) -> dict[Parameter, float]:
        """What all rows ask for, zero for parameters that the setting leaves out."""
        regressor = self._shared.with_friction(setting.friction)
        folds = self._folds(setting)
        if not folds:
            raise InputError("the logs are too short to find the load of friction from: filters leave no row")
        _, _, beta = fit_of_all(folds, setting.with_settings_of(regressor.parameters))
        return dict(zip(regressor.parameters, beta.tolist(), strict=True))

    def reference(self, setting: Setting) -> tuple[float, ...]:
        """Base values that all rows ask for: the reference of friction that depends on the load."""
        return tuple(self.values(setting).values())[: self.regressor.base.count]

    def _cross_validate(self, setting: Setting, *, path: bool) -> list[TrialScore]:
        """The score of the setting; with `path` also of dropping 1, 2, ... parameters."""
        regressor = self._shared.with_friction(setting.friction)
        folds = self._folds(setting)
        kept = setting.with_settings_of(regressor.parameters)
        steps = len(kept) if path else 1
        if len(folds) < 2:  # filters so slow that nothing is left to hold out
            return [UNSCORED] * steps
        fits = fits_without_each(folds, kept)
        betas = fits.betas[:, None]
        if path:
            betas = np.zeros((len(folds), steps, regressor.count))
            for k, (matrix, right) in enumerate(zip(fits.matrices, fits.rights, strict=True)):
                betas[k][:, kept] = elimination(matrix, right).betas
        error, power = _errors(self._shared.sums(setting), folds, betas)
        return [TrialScore(e, power) for e in error]

    def sum_ahead(self, setting: Setting, foldings: Sequence[Trials]) -> None:
        """Sums what scores of the setting in several foldings need in one pass over the columns."""
        found = [own for trials in foldings if not trials.knows(setting) for own in trials._parts(setting).values()]
        parts = [part for own in found for fit, scored in own for part in (fit, *(scored if setting.dropped else ()))]
        self._shared.sums(setting).normal_matrices(parts)

    def _folds(self, setting: Setting) -> list[Fold]:
        found, sums = self._parts(setting), self._shared.sums(setting)
        sums.normal_matrices([fit for own in found.values() for fit, _ in own])  # of all segments at once
        return [_fold(sums, own) for _, own in sorted(found.items())]

    def _parts(self, setting: Setting) -> dict[int, list[tuple[Part, list[Part]]]]:
        """For every block the parts to fit, each with the parts to score."""
        made, sums = self.samples(setting.conditioning), self._shared.sums(setting)
        rate, labels = made.samples.rate_hz, self._labels(made)
        step = decimation_for(setting.filter_hz, rate)
        trim, edge = ceil(edge_duration_s(setting.filter_hz) * rate), ceil(MIN_EDGE_S * rate)
        found: dict[int, list[tuple[Part, list[Part]]]] = {}
        for start, stop in sums.segments:
            for label, first, last in _runs(labels[start:stop]):
                fit = Part(start + first + trim, start + last - trim, step, setting.conditioning.slow_speed)
                score = range(start + max(first, edge), start + min(last, stop - start - edge))
                if fit.first < fit.last and len(score):
                    found.setdefault(label, []).append((fit, _score_setting(fit, score)))
        return found

    def _labels(self, made: ConditionedSamples) -> NDArray[np.int64]:
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


def scores(foldings: Sequence[Trials], setting: Setting) -> list[TrialScore]:
    """Of a setting in all foldings, which are of the same logs."""
    if len(foldings) > 1 and not all(trials.knows(setting) for trials in foldings):
        foldings[0].sum_ahead(setting, foldings)
    return [trials.score(setting) for trials in foldings]


def score_all(foldings: Sequence[Trials], settings: Sequence[Setting]) -> list[list[TrialScore]]:
    """For each setting its `scores` in all foldings; settings are tried on threads.

    What settings have in common is summed once: those with the same columns are tried by one thread.
    """
    alike: dict[Any, list[Setting]] = {}
    for one in dict.fromkeys(settings):
        if not all(trials.knows(one) for trials in foldings):
            alike.setdefault(sums_key(one), []).append(one)
    # The same motion one after another, while it is kept.
    order: dict[Any, list[list[Setting]]] = {}
    for key, group in alike.items():
        order.setdefault(key[0], []).append(group)
    groups = [group for own in order.values() for group in own]
    map_in_threads(lambda group: [scores(foldings, one) for one in group], groups, foldings[0].at_once)
    return [scores(foldings, one) for one in settings]


def _runs(labels: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Label, beginning and end of every run of equal labels."""
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    ends = [*starts[1:].tolist(), len(labels)]
    return [(int(labels[start]), int(start), stop) for start, stop in zip(starts, ends, strict=True)]


def _fold(sums: ColumnSums, parts: Sequence[tuple[Part, list[Part]]]) -> Fold:
    """The fold of parts to fit, each with the parts to score."""
    columns, fitted = sums.regressor.columns, [fit for fit, _ in parts]
    counts = [[max(1, sums.count(fit, joint)) for joint in range(len(columns))] for fit in fitted]
    scored = [part for _, own in parts for part in own]
    return fold_of(sums.normal_matrices(fitted), counts, fitted, scored, columns, sums.regressor.count)


def _errors(sums: ColumnSums, folds: Sequence[Fold], betas: Array) -> tuple[Array, Array]:
    """Squared residuals (steps, folds, n) of the betas (folds, steps, p) of every fold on its rows; squared torques."""
    steps, columns = betas.shape[1], sums.regressor.columns
    error, power = np.zeros((steps, len(folds), len(columns))), np.zeros((len(folds), len(columns)))
    parts = [(k, part) for k, fold in enumerate(folds) for part in fold.scored]
    own = [beta for (beta, *_) in betas]
    # Not by what is known from other foldings: scores must not depend on what was asked for before.
    alone = [(k, part) for k, part in parts if steps == 1 and part not in folds[k].fitted]
    found = sums.squared_errors([(part, own[k]) for k, part in alone])
    for (k, _), squares in zip(alone, found, strict=True):
        error[0, k] += squares[:, 0]
        power[k] += squares[:, 1]
    summed = [(k, part) for k, part in parts if steps > 1 or part in folds[k].fitted]
    for (k, _), matrices in zip(summed, sums.normal_matrices([part for _, part in summed]), strict=True):
        for joint, (places, matrix) in enumerate(zip(columns, matrices, strict=True)):
            v = np.zeros((steps, len(matrix)))
            v[:, :-2], v[:, -1] = betas[k][:, places], -1.0  # nothing of the smooth torque
            error[:, k, joint] += np.maximum(0.0, ((v @ matrix) * v).sum(axis=1))
            power[k, joint] += matrix[-1, -1]
    return error, power


def _score_setting(fit: Part, score: range) -> list[Part]:
    """Parts whose rows together are those of `score`: what is fitted among them is summed once."""
    if fit.step > 1 or fit.slowest is not None or fit.first < score.start or fit.last > score.stop:
        return [Part(score.start, score.stop)]
    around = [Part(score.start, fit.first), fit, Part(fit.last, score.stop)]
    return [part for part in around if part.first < part.last]


def rate_of(conditioning: Conditioning) -> float:
    """Rate of the samples at full rate."""
    return require_resolved(conditioning.rate_hz, "rate_hz")


def with_changes(setting: Setting, **conditioning: Any) -> Setting:
    """The setting with other conditioning."""
    return replace(setting, conditioning=replace(setting.conditioning, **conditioning))
