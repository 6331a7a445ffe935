"""`Trials`: cross-validate settings over blocks of the training rows.

Blocks are contiguous. If the logs repeat a motion, all rows of the same phase form a block, because another period
would reveal the held-out rows. Noise filters and the friction around zero velocity matter for the same motion as well,
and use contiguous blocks (`along_time`); the choice of parameters matters for other motions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.estimators.essential import elimination
from mindyn.identification.selection.column_sums import (
    ColumnSums,
    Fold,
    Kept,
    Part,
    fit_of_all,
    fits_without_each,
    fold_of,
)
from mindyn.identification.selection.scores import UNSCORED, TrialScore
from mindyn.logs.conditioning import Conditioning, require_resolved
from mindyn.logs.filters import MIN_EDGE_S, edge_duration_s
from mindyn.logs.log import Log
from mindyn.logs.periods import Timeline, build_timeline
from mindyn.logs.pipeline import ConditionedSamples, condition
from mindyn.logs.resolving import DelayScan
from mindyn.numerics.threads import map_in_threads
from mindyn.parameters.parameter import Kind, Parameter
from mindyn.regression.friction import Friction
from mindyn.regression.friction_limits import FrictionLimits, friction_limits, prior_groups
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import segment_ends
from mindyn.regression.rows import FOLDS
from mindyn.regression.settings import EquationSettings

ROWS_PER_PERIOD: Final = 8
"""Rows kept for each period of the cut-off in a fit: more would only interpolate."""
MAX_DELAY_S: Final = 0.15
"""Largest time offset between torque and motion that is tried."""
Key = TypeVar("Key")
Value = TypeVar("Value")

KEPT_SUMS: Final = 4
"""Number of conditioned logs, and of sums of settings, in the cache: each is as large as the logs."""
WORKSPACE_BYTES: Final = 2**28
"""Memory for the columns of settings that are tried at the same time."""
SAME_VALUES: Final = 1e-6
"""Relative change below which values are the same."""
LARGE: Final = 2**21
"""Size of the logs' columns, in numbers, from which settings are tried on threads: below it, the interpreter, which
only one thread can hold, takes longer than the sums."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings to try, and the parameters that the fit leaves out.

    settings  of the equations; the decimation follows from the filter
    without   kinds of excluded parameters
    dropped   number of further parameters to drop, the least supported first
    """

    settings: EquationSettings
    without: tuple[Kind, ...] = ()
    dropped: int = 0

    @property
    def conditioning(self) -> Conditioning:
        """Conditioning of the motion."""
        assert self.settings.conditioning is not None
        return self.settings.conditioning

    @property
    def filter_hz(self) -> float | None:
        """Cut-off of the parallel filter."""
        return self.settings.cutoff_hz

    @property
    def friction(self) -> Friction:
        """Shape of the friction columns."""
        return self.settings.shape

    def kept(self, parameters: Sequence[Parameter]) -> list[int]:
        """Return the numbers of the parameters that are not excluded, before dropping any."""
        return [k for k, parameter in enumerate(parameters) if parameter.kind not in self.without]

    def with_settings(self, **changes: Any) -> Trial:
        """Return the trial with other settings."""
        return replace(self, settings=replace(self.settings, **changes))

    def with_friction(self, **changes: Any) -> Trial:
        """Return the trial with other entries of its friction."""
        return self.with_settings(friction=replace(self.friction, **changes))

    def with_conditioning(self, **changes: Any) -> Trial:
        """Return the trial with other conditioning entries."""
        return self.with_settings(conditioning=replace(self.conditioning, **changes))


class _Shared:
    """Data shared by trials that cut the same logs into different blocks; safe for threads."""

    def __init__(self, logs: Sequence[Log], regressor: Regressor) -> None:
        self.logs, self.regressor = logs, regressor
        self._lock = Lock()
        self._making: dict[object, Lock] = {}
        self._samples: dict[Conditioning, ConditionedSamples] = {}
        self._regressors: dict[Friction, Regressor] = {}
        self._limits: dict[tuple[str, ...], FrictionLimits] = {}
        self._sums: dict[tuple[Conditioning, float | None, Friction], ColumnSums] = {}

    def with_friction(self, friction: Friction) -> Regressor:
        """Return the regressor with this friction."""
        if friction not in self._regressors:
            self._regressors[friction] = self.regressor.with_friction(friction)
        return self._regressors[friction]

    def kept(self, trial: Trial) -> Kept:
        """Return the parameters that a trial does not exclude, before dropping any.

        Only friction with shapes is limited: viscous and Coulomb friction that drive reveal a reversed torque.
        """
        regressor = self.with_friction(trial.friction)
        if regressor.names not in self._limits:
            self._limits[regressor.names] = (
                friction_limits(regressor) if trial.friction.shapes else _no_limits(regressor)
            )
        numbers = trial.kept(regressor.parameters)
        groups = [(k, [o for o in others if o in numbers]) for k, others in prior_groups(regressor.parameters)]
        return Kept(numbers, groups, self._limits[regressor.names])

    def samples(self, conditioning: Conditioning) -> ConditionedSamples:
        """Return all rows of the logs, with conditioned motion and unfiltered torque."""
        key = _for_prediction(conditioning)
        compute = lambda: condition(self.regressor.robot, list(self.logs), key)  # noqa: E731
        return self._kept(self._samples, key, compute)

    def sums(self, trial: Trial) -> ColumnSums:
        """Return the sums for the conditioning, filter and friction."""

        def compute() -> ColumnSums:
            samples = self.samples(trial.conditioning).samples
            return ColumnSums(self.with_friction(trial.friction), samples, trial.filter_hz)

        return self._kept(self._sums, sums_key(trial), compute)

    def _kept(self, known: dict[Key, Value], key: Key, compute: Callable[[], Value]) -> Value:
        """Return the cached value of a key, or compute it in one thread; drop the least recently used value."""
        with self._lock:
            making = self._making.setdefault(key, Lock())
        with making:
            with self._lock:
                if key in known:
                    known[key] = known.pop(key)
                    return known[key]
            value = compute()
            with self._lock:
                known[key] = value
                while len(known) > KEPT_SUMS:
                    known.pop(next(iter(known)))
        return value


def _no_limits(regressor: Regressor) -> FrictionLimits:
    return FrictionLimits(np.zeros((0, regressor.count)))


def sums_key(trial: Trial) -> tuple[Conditioning, float | None, Friction]:
    """Return the entries of a trial on which its sums depend."""
    return _for_prediction(trial.conditioning), trial.filter_hz, trial.friction


@lru_cache(maxsize=256)
def _for_prediction(conditioning: Conditioning) -> Conditioning:
    """Return the entries of a conditioning on which samples depend; hundreds of trials share them."""
    return conditioning.for_prediction()


def decimation_for(filter_hz: float | None, rate_hz: float) -> int:
    """Return the largest decimation that loses no information after the filter."""
    return 1 if filter_hz is None else max(1, int(rate_hz / (ROWS_PER_PERIOD * filter_hz)))


class Trials:
    """Scores of settings on training logs; each trial is scored once."""

    def __init__(self, logs: Sequence[Log], regressor: Regressor, fold_count: int = FOLDS) -> None:
        self.logs = logs
        self.fold_count = fold_count
        self.regressor = regressor
        self._shared = _Shared(logs, regressor)
        self._scores: dict[Trial, TrialScore] = {}

    def score(self, trial: Trial) -> TrialScore:
        """Return the cross-validated error of a trial."""
        if trial not in self._scores:
            full = replace(trial, dropped=0)
            for dropped, score in enumerate(self._cross_validate(full, path=trial.dropped > 0)):
                self._scores[replace(trial, dropped=dropped)] = score
        return self._scores[trial]

    def knows(self, trial: Trial) -> bool:
        """Return whether a trial has been scored."""
        return trial in self._scores

    @property
    def at_once(self) -> int:
        """Number of settings that may be tried at the same time: each has a workspace for the columns of a segment."""
        rows, width = [len(log) for log in self.logs], self.regressor.kernel.output_shapes[0][0]
        return max(1, WORKSPACE_BYTES // (8 * max(rows) * width)) if sum(rows) * width > LARGE else 1

    def with_folds(self, count: int) -> Trials:
        """Return trials of the same logs cut into another number of blocks."""
        others = Trials(self.logs, self.regressor, count)
        others.__dict__["timeline"] = self.timeline
        others._shared = self._shared
        return others

    def along_time(self) -> Trials:
        """Return trials of the same logs in contiguous blocks, whether or not their motion repeats."""
        if not self.timeline.repeated:
            return self
        others = Trials(self.logs, self.regressor, self.fold_count)
        others.__dict__["timeline"] = replace(self.timeline, repeats=1.0)
        others._shared = self._shared
        return others

    @cached_property
    def timeline(self) -> Timeline:
        """Timeline of the logs' motions."""
        return build_timeline([log.time for log in self.logs], [log.q for log in self.logs])

    @property
    def count(self) -> int:
        """Number of trials so far."""
        return len(self._scores)

    def samples(self, conditioning: Conditioning) -> ConditionedSamples:
        """Return all rows of the logs, with conditioned motion and unfiltered torque."""
        return self._shared.samples(conditioning)

    def dropped(self, trial: Trial) -> tuple[str, ...]:
        """Return the names of the parameters that a trial excludes or, using all training rows, drops."""
        regressor = self._shared.with_friction(trial.friction)
        kept = self._shared.kept(trial)
        names = [name for k, name in enumerate(regressor.names) if k not in kept.numbers]
        if trial.dropped:
            matrix, right, _ = fit_of_all(self._folds(trial), kept)
            order = elimination(matrix, right).order[: trial.dropped]
            names += [regressor.names[kept.numbers[k]] for k in order]
        return tuple(names)

    def delays(self, trial: Trial) -> DelayScan:
        """Scan how well the columns of a trial explain the torque at other delays."""
        samples = self.samples(trial.conditioning).samples
        regressor = self._shared.with_friction(trial.friction)
        q = regressor.positions(samples)
        directions = regressor.directions(q, samples.qd, samples.segments, samples.rate_hz)

        def columns(rows: NDArray[np.intp]) -> list[Array]:
            motion = (q[rows], samples.qd[rows], samples.qdd[rows])
            parts = regressor.parts(*motion, None if directions is None else directions[rows])
            return [np.concatenate(arrays, axis=1) for arrays in parts]

        return DelayScan(samples, columns, MAX_DELAY_S, samples.qd)

    def needs_limits(self, trial: Trial) -> bool:
        """Return whether a fit without the limits and priors of friction shapes has other values."""
        if not trial.friction.shapes:
            return False
        kept = self._shared.kept(trial)
        unlimited = Kept(kept.numbers, [], _no_limits(self._shared.with_friction(trial.friction)))
        limited, free = (fit_of_all(self._folds(trial), rule)[2] for rule in (kept, unlimited))
        return bool(np.abs(limited - free).max() > SAME_VALUES * np.abs(free).max())

    def values(self, trial: Trial) -> dict[Parameter, float]:
        """Return the values fitted to all rows, zero for parameters that the trial excludes."""
        regressor = self._shared.with_friction(trial.friction)
        folds = self._folds(trial)
        if not folds:
            message = "the logs are too short to fit the load of load-dependent friction: the filters leave no row"
            hint = "record a longer motion, or choose friction shapes that do not depend on the load"
            raise InputError(message, hint=hint, code=Code.TOO_LITTLE_DATA, subject="logs")
        _, _, beta = fit_of_all(folds, self._shared.kept(trial))
        return dict(zip(regressor.parameters, beta.tolist(), strict=True))

    def reference(self, trial: Trial) -> tuple[float, ...]:
        """Return the base values fitted to all rows, as the reference of load-dependent friction."""
        return tuple(self.values(trial).values())[: self.regressor.base.count]

    def _cross_validate(self, trial: Trial, *, path: bool) -> list[TrialScore]:
        """Return the score of the trial; with `path` also those of dropping 1, 2, ... parameters."""
        regressor = self._shared.with_friction(trial.friction)
        folds = self._folds(trial)
        kept = self._shared.kept(trial)
        steps = len(kept.numbers) if path else 1
        if len(folds) < 2:  # the filters leave too few rows to hold out
            return [UNSCORED] * steps
        fits = fits_without_each(folds, kept)
        betas = fits.betas[:, None]
        if path:
            betas = np.zeros((len(folds), steps, regressor.count))
            betas[:, :, kept.numbers] = elimination(fits.matrices, fits.rights).betas
            betas[:, 0] = fits.betas  # within the limits of friction
        error, power = _errors(self._shared.sums(trial), folds, betas)
        return [TrialScore(e, power) for e in error]

    def sum_ahead(self, trial: Trial, foldings: Sequence[Trials]) -> None:
        """Compute the sums for scores of the trial in several foldings in one pass over the columns."""
        blocks = [block for trials in foldings if not trials.knows(trial) for block in trials._parts(trial).values()]
        parts = [
            part for block in blocks for fit, scored in block for part in (fit, *(scored if trial.dropped else ()))
        ]
        self._shared.sums(trial).normal_matrices(parts)

    def _folds(self, trial: Trial) -> list[Fold]:
        blocks, sums = self._parts(trial), self._shared.sums(trial)
        sums.normal_matrices([fit for block in blocks.values() for fit, _ in block])  # of all segments at once
        return [_fold(sums, block) for _, block in sorted(blocks.items())]

    def _parts(self, trial: Trial) -> dict[int, list[tuple[Part, list[Part]]]]:
        """Return the parts to fit of each block, each with the parts to score."""
        conditioned, sums = self.samples(trial.conditioning), self._shared.sums(trial)
        rate, labels = conditioned.samples.rate_hz, self._labels(conditioned)
        step = decimation_for(trial.filter_hz, rate)
        trim, edge = ceil(edge_duration_s(trial.filter_hz) * rate), ceil(MIN_EDGE_S * rate)
        blocks: dict[int, list[tuple[Part, list[Part]]]] = {}
        for start, stop in sums.segments:
            for label, first, last in _runs(labels[start:stop]):
                fit = Part(start + first + trim, start + last - trim, step, trial.conditioning.slow_speed)
                score = range(start + max(first, edge), start + min(last, stop - start - edge))
                if fit.first < fit.last and len(score):
                    blocks.setdefault(label, []).append((fit, _parts_to_score(fit, score)))
        return blocks

    def _labels(self, conditioned: ConditionedSamples) -> NDArray[np.int64]:
        """Return (N,) the number of the block of each sample."""
        samples = conditioned.samples
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
            in_log = conditioned.logs == k
            at[in_log] = places[np.minimum(np.searchsorted(log.rows, conditioned.rows[in_log]), len(log) - 1)]
        part = at / self.timeline.length_s * self.fold_count
        return np.clip(part.astype(np.int64), 0, self.fold_count - 1)


def scores(foldings: Sequence[Trials], trial: Trial) -> list[TrialScore]:
    """Return the scores of a trial in all foldings, which must share their logs."""
    if len(foldings) > 1 and not all(trials.knows(trial) for trials in foldings):
        foldings[0].sum_ahead(trial, foldings)
    return [trials.score(trial) for trials in foldings]


def score_all(foldings: Sequence[Trials], listed: Sequence[Trial]) -> list[list[TrialScore]]:
    """Return the `scores` of each trial in all foldings, using threads.

    One thread makes all trials with the same columns, so that common sums are computed once.
    """
    alike: dict[Any, list[Trial]] = {}
    for trial in dict.fromkeys(listed):
        if not all(trials.knows(trial) for trials in foldings):
            alike.setdefault(sums_key(trial), []).append(trial)
    # Trials with the same motion follow each other, while it is in the cache.
    order: dict[Any, list[list[Trial]]] = {}
    for key, group in alike.items():
        order.setdefault(key[0], []).append(group)
    groups = [group for same_motion in order.values() for group in same_motion]
    map_in_threads(lambda group: [scores(foldings, trial) for trial in group], groups, foldings[0].at_once)
    return [scores(foldings, trial) for trial in listed]


def _runs(labels: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Return label, start and end of each run of equal labels."""
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    ends = [*starts[1:].tolist(), len(labels)]
    return [(int(labels[start]), int(start), stop) for start, stop in zip(starts, ends, strict=True)]


def _fold(sums: ColumnSums, parts: Sequence[tuple[Part, list[Part]]]) -> Fold:
    """Build a fold from parts to fit, each with the parts to score."""
    columns, fitted = sums.regressor.columns, [fit for fit, _ in parts]
    counts = [[max(1, sums.count(fit, joint)) for joint in range(len(columns))] for fit in fitted]
    scored = [part for _, scored_parts in parts for part in scored_parts]
    return fold_of(sums.normal_matrices(fitted), counts, fitted, scored, columns, sums.regressor.count)


def _errors(sums: ColumnSums, folds: Sequence[Fold], betas: Array) -> tuple[Array, Array]:
    """Return squared residuals (steps, folds, n) of betas (folds, steps, p) on their held-out rows, and squared
    torques.
    """
    steps, columns = betas.shape[1], sums.regressor.columns
    error, power = np.zeros((steps, len(folds), len(columns))), np.zeros((len(folds), len(columns)))
    parts = [(k, part) for k, fold in enumerate(folds) for part in fold.scored]
    first_betas = [beta for (beta, *_) in betas]
    # Sums cached by other foldings are not used: scores must not depend on the order of the calls.
    alone = [(k, part) for k, part in parts if steps == 1 and part not in folds[k].fitted]
    errors = sums.squared_errors([(part, first_betas[k]) for k, part in alone])
    for (k, _), squares in zip(alone, errors, strict=True):
        error[0, k] += squares[:, 0]
        power[k] += squares[:, 1]
    summed = [(k, part) for k, part in parts if steps > 1 or part in folds[k].fitted]
    for (k, _), matrices in zip(summed, sums.normal_matrices([part for _, part in summed]), strict=True):
        for joint, (places, matrix) in enumerate(zip(columns, matrices, strict=True)):
            v = np.zeros((steps, len(matrix)))
            v[:, :-2], v[:, -1] = betas[k][:, places], -1.0  # zero for the smooth torque
            error[:, k, joint] += np.maximum(0.0, ((v @ matrix) * v).sum(axis=1))
            power[k, joint] += matrix[-1, -1]
    return error, power


def _parts_to_score(fit: Part, score: range) -> list[Part]:
    """Split the rows to score into parts, such that the fitted part among them is summed once."""
    if fit.step > 1 or fit.slowest is not None or fit.first < score.start or fit.last > score.stop:
        return [Part(score.start, score.stop)]
    around = [Part(score.start, fit.first), fit, Part(fit.last, score.stop)]
    return [part for part in around if part.first < part.last]


def rate_of(conditioning: Conditioning) -> float:
    """Return the sample rate in Hz before decimation."""
    return require_resolved(conditioning.rate_hz, "rate_hz")
