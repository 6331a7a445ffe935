"""`Trials`: cross-validate settings over blocks of the training rows.

Blocks are contiguous. If the logs repeat a motion, all rows of the same phase form a block, because another period
contains the held-out motion. Noise filters and friction around zero velocity affect repetitions of the same motion too,
and are compared on contiguous blocks (`along_time`). The choice of parameters affects the prediction of other motions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import chain
from math import ceil
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.processes.worker_messages import SharedData
from mindyn.foundation.processes.workers import share_tasks, worker_count
from mindyn.identification.delays import Delay, estimate_delay
from mindyn.identification.estimators.essential import elimination
from mindyn.identification.selection.column_sums import Buffers, ColumnSums, RowRange
from mindyn.identification.selection.folds import Folds, Kept, fits_without_each
from mindyn.identification.selection.scores import TrialScore
from mindyn.identification.smooth_rows import SMOOTH_CUTOFF_HZ, build_smooth_rows
from mindyn.logs.conditioning import Conditioning, require_resolved
from mindyn.logs.delay_scan import DelayScan
from mindyn.logs.filters import MIN_EDGE_S, edge_duration_s
from mindyn.logs.log import Log
from mindyn.logs.periods import Timeline
from mindyn.logs.pipeline import ConditionedSamples
from mindyn.logs.samples import segment_ends
from mindyn.parameters.parameter import Kind, Parameter
from mindyn.regression.experiment import Experiment
from mindyn.regression.friction import Friction
from mindyn.regression.friction_limits import PriorGroups, friction_limits, prior_groups
from mindyn.regression.gather_blocks import group_evenly
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import FOLDS, labels_along
from mindyn.regression.settings import EquationSettings

ROWS_PER_PERIOD: Final = 8
"""Number of rows that a fit keeps for each period of the cut-off; more rows would contain no further information."""
HIGHEST: Final = 0.4
"""Highest cut-off that is tried, relative to the sample rate; the lowest is `LOWEST_HZ`. Above it, no filter is used.
"""
MAX_DELAY_S: Final = 0.15
"""Largest time offset between torque and motion that is tried."""
MOST_DROPPED: Final = 0.6
"""Largest fraction of the parameters that may be dropped."""
SAME_VALUES: Final = 1e-6
"""Relative change below which values are the same."""
MIN_SKETCHED_ROWS: Final = 4000
"""Number of rows of every log from which on a quarter of the rows is enough to exclude settings that are far from the
best.
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings to try, and the parameters that their fit excludes.

    settings  settings of the equations; the decimation follows from the filter
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
    def equations_hz(self) -> float | None:
        """Cut-off of the parallel filter."""
        cutoff = self.settings.equations_hz
        assert not isinstance(cutoff, str)
        return cutoff

    @property
    def friction(self) -> Friction:
        """Shape of the friction columns."""
        return self.settings.shape

    def kept(self, parameters: Sequence[Parameter]) -> list[int]:
        """Return the numbers of the parameters that are not excluded, before any parameters are dropped."""
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


class _Shared(SharedData):
    """Data that several trials share if they cut the same logs into different blocks."""

    def __init__(self, experiment: Experiment, regressor: Regressor) -> None:
        self.experiment, self.regressor = experiment, regressor
        self.with_friction = cache(regressor.with_friction)
        self._kept: dict[tuple[Friction, tuple[Kind, ...]], Kept] = {}
        self.buffers = Buffers()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the logs, without what was computed from them."""
        return _Shared, (self.experiment, self.regressor)

    def kept(self, trial: Trial) -> Kept:
        """Return the parameters that a trial does not exclude, before any parameters are dropped."""
        key = trial.friction, trial.without
        if key not in self._kept:
            regressor = self.with_friction(trial.friction)
            self._kept[key] = rules_of(regressor, trial.kept(regressor.parameters))
        return self._kept[key]

    def samples(self, conditioning: Conditioning) -> ConditionedSamples:
        """Return all rows of the logs, with conditioned motion and unfiltered torque."""
        return self.experiment.samples(_for_prediction(conditioning))


def rules_of(regressor: Regressor, numbers: list[int]) -> Kept:
    """Return the priors and the limits for a fit with these parameters.

    Only friction with shapes is limited. Viscous and Coulomb friction may become negative, because this is a sign of a
    reversed torque.
    """
    every = np.ones(regressor.count, dtype=np.bool_)
    limits = friction_limits(regressor) if regressor.friction.shapes else None
    return Kept(numbers, prior_groups(regressor.parameters).select(every, numbers), limits)


@lru_cache(maxsize=256)
def _for_prediction(conditioning: Conditioning) -> Conditioning:
    """Return the conditioning without the entries that do not affect samples, because hundreds of trials share
    samples.
    """
    return conditioning.for_prediction()


def decimation_for(equations_hz: float | None, rate_hz: float) -> int:
    """Return the largest decimation that loses no information after the filter."""
    return 1 if equations_hz is None else max(1, int(rate_hz / (ROWS_PER_PERIOD * equations_hz)))


class Trials:
    """Scores of settings on training logs; each trial is scored once."""

    def __init__(
        self,
        experiment: Experiment,
        regressor: Regressor,
        fold_count: int = FOLDS,
        timeline: Timeline | None = None,
        shared: _Shared | None = None,
    ) -> None:
        self.experiment = experiment
        self.fold_count = fold_count
        self.regressor = regressor
        known = timeline or experiment.timeline
        if known is None:
            raise InputError(
                "settings are selected on logs in memory, not on streams",
                hint="use the excerpt of the experiment",
                code=Code.UNSUPPORTED,
                subject="logs",
            )
        self.timeline = known
        self._shared = shared or _Shared(experiment, regressor)
        self._errors: dict[Trial, _Errors] = {}
        self._latest: tuple[EquationSettings, Folds] | None = None

    @property
    def logs(self) -> list[Log]:
        """The logs, all in memory."""
        return self.experiment.logs_in_memory

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the blocks, without scores."""
        return _rebuild, (self._shared, self.fold_count, self.timeline)

    def score(self, trial: Trial) -> TrialScore:
        """Return the cross-validated error of a trial."""
        squared_residuals, squared_torques = self.squared_residuals_and_torques(trial)
        return TrialScore(squared_residuals[min(trial.dropped, len(squared_residuals) - 1)], squared_torques)

    def squared_residuals_and_torques(self, trial: Trial) -> tuple[Array, Array]:
        """Return squared residuals (steps, blocks, n) with 0, 1, 2, ... dropped parameters, and squared torques.

        If the trial drops no parameters, only the first step is computed.
        """
        if not self.knows(trial):
            score_all([self], [trial])
        squared_residuals, squared_torques, _ = self._errors[replace(trial, dropped=0)]
        return squared_residuals, squared_torques

    def knows(self, trial: Trial) -> bool:
        """Return whether a trial has been scored, with all numbers of dropped parameters if it drops any."""
        *_, is_path = self._errors.get(replace(trial, dropped=0), (None,))
        return is_path is not None and (is_path or not trial.dropped)

    @cached_property
    def sketch(self) -> Trials | None:
        """Trials on the middle quarter of every log (or segment of a long log), if all logs are long; otherwise
        None.
        """
        lengths = [len(log) for log in self.logs]
        if len(lengths) < self.fold_count or min(lengths) < MIN_SKETCHED_ROWS or self.timeline.repeated:
            return None
        logs = [log.take(slice(3 * n // 8, 5 * n // 8)) for log, n in zip(self.logs, lengths, strict=True)]
        return Trials(Experiment(self.experiment.robot, logs), self.regressor, self.fold_count, self.timeline)

    def with_folds(self, count: int) -> Trials:
        """Return trials of the same logs cut into another number of blocks."""
        return Trials(self.experiment, self.regressor, count, self.timeline, self._shared)

    def along_time(self) -> Trials:
        """Return trials of the same logs in contiguous blocks, whether or not their motion repeats."""
        if not self.timeline.repeated:
            return self
        timeline = replace(self.timeline, repeats=1.0)
        return Trials(self.experiment, self.regressor, self.fold_count, timeline, self._shared)

    @property
    def count(self) -> int:
        """Number of trials so far."""
        return sum(len(left) for left, *_ in self._errors.values())

    def samples(self, conditioning: Conditioning) -> ConditionedSamples:
        """Return all rows of the logs, with conditioned motion and unfiltered torque."""
        return self._shared.samples(conditioning)

    def dropped(self, trial: Trial) -> tuple[str, ...]:
        """Return the names of the parameters that a trial excludes or, using all training rows, drops."""
        regressor, kept = self._shared.with_friction(trial.friction), self._shared.kept(trial)
        names = [name for k, name in enumerate(regressor.names) if k not in kept.numbers]
        if trial.dropped:
            fits = self._folds(trial).fit_all(kept)
            order = elimination(fits.matrices[0], fits.rights[0]).order[: trial.dropped]
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

    def estimate_delay(self, trial: Trial) -> Delay:
        """Return the delay of all torques with its deviation, fitted together with other friction and elastic joints.

        Robots with loops, and logs with too few rows for that, get the delay that the columns of the trial explain
        best, which is never clear.
        """
        # A slower filter of the motion would spread its reversals over rows that count.
        smooth = min(SMOOTH_CUTOFF_HZ, HIGHEST * rate_of(trial.conditioning))
        trial = trial.with_conditioning(delay_s=0.0, motion_hz=smooth)
        samples = self.samples(trial.conditioning).samples
        regressor = self._shared.with_friction(trial.friction)
        start_s = self.delays(trial).best().seconds
        rows = None if regressor.robot.loops else build_smooth_rows(regressor, samples)
        return Delay(start_s, abs(start_s)) if rows is None else estimate_delay(rows, regressor, start_s=start_s)

    def needs_limits(self, trial: Trial) -> bool:
        """Return whether a fit without the limits and priors of friction shapes has other values."""
        if not trial.friction.shapes:
            return False
        kept, folds = self._shared.kept(trial), self._folds(trial)
        unlimited = Kept(kept.numbers, PriorGroups(()), None)
        limited, free = (folds.fit_all(rule).betas[0] for rule in (kept, unlimited))
        return bool(np.abs(limited - free).max() > SAME_VALUES * np.abs(free).max())

    def values(self, trial: Trial, excluded: Collection[tuple[str, str]] = ()) -> dict[Parameter, float]:
        """Return the values fitted to all rows, zero for parameters that the trial excludes.

        excluded  pairs (joint, shape) of load-dependent friction that the fit does not contain
        """
        folds = self._folds(trial)
        if not len(folds.rows):
            message = "the logs are too short to fit the load of load-dependent friction: the filters leave no row"
            hint = "record a longer motion, or choose friction shapes that do not depend on the load"
            raise InputError(message, hint=hint, code=Code.TOO_LITTLE_DATA, subject="logs")
        regressor, kept = self._shared.with_friction(trial.friction), self._shared.kept(trial)
        left_out = {k for k, p in enumerate(regressor.parameters) if (p.link_or_joint, p.load_shape) in excluded}
        if left_out:
            kept = rules_of(regressor, [k for k in kept.numbers if k not in left_out])
        (beta,) = folds.fit_all(kept).betas.tolist()
        return {p: v for k, (p, v) in enumerate(zip(regressor.parameters, beta, strict=True)) if k not in left_out}

    def reference(self, trial: Trial) -> tuple[float, ...]:
        """Return the base values fitted to all rows, as the reference of load-dependent friction."""
        return tuple(self.values(trial).values())[: self.regressor.base.count]

    def _folds(self, trial: Trial) -> Folds:
        """Return the Gram matrices of a trial, which stay cached until another trial is requested."""
        if self._latest is None or self._latest[0] != trial.settings:
            ((folds,),) = _sum_columns([self], [trial])
            self._latest = trial.settings, folds
        return self._latest[1]

    def _row_ranges(self, trial: Trial, conditioned: ConditionedSamples) -> list[list[tuple[RowRange, list[RowRange]]]]:
        """Return the ranges of rows to fit in each block, each with the ranges of rows to score."""
        rate, ends = conditioned.samples.rate_hz, segment_ends(conditioned.samples.segments)
        labels = self._labels(conditioned, ends)
        step = decimation_for(trial.equations_hz, rate)
        trim, edge = ceil(edge_duration_s(trial.equations_hz) * rate), ceil(MIN_EDGE_S * rate)
        blocks: dict[int, list[tuple[RowRange, list[RowRange]]]] = {}
        for start, stop in ends:
            for first, last in segment_ends(labels[start:stop]):
                fit = RowRange(start + first + trim, start + last - trim, step, trial.conditioning.slow_speed)
                score = range(start + max(first, edge), start + min(last, stop - start - edge))
                if fit.first < fit.last and len(score):
                    blocks.setdefault(int(labels[start + first]), []).append((fit, _ranges_to_score(fit, score)))
        return [ranges for _, ranges in sorted(blocks.items())]

    def _labels(self, conditioned: ConditionedSamples, ends: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
        """Return the block number (N,) of each sample; `ends` are those of the segments."""
        samples = conditioned.samples
        if not self.timeline.repeated:
            labels, first = np.empty(len(samples), dtype=np.int64), 0
            for start, stop in ends:
                count = max(1, round(self.fold_count / len(samples) * (stop - start)))
                cuts = np.linspace(0, stop - start, count + 1).astype(int)
                labels[start:stop] = first + np.repeat(np.arange(count), np.diff(cuts))
                first += count
            return labels
        return labels_along(conditioned, self.logs, self.timeline.times, self.timeline.length_s, self.fold_count)


_Errors = tuple[Array, Array, bool]
"""Squared residuals and torques, and whether they include numbers of dropped parameters."""


def _rebuild(shared: _Shared, fold_count: int, timeline: Timeline) -> Trials:
    return Trials(shared.experiment, shared.regressor, fold_count, timeline, shared)


def score_all(foldings: Sequence[Trials], listed: Sequence[Trial]) -> list[list[TrialScore]]:
    """Compute the scores of each trial with each number of blocks; `foldings` differ only in that number.

    Trials that differ only in friction and parameters share one pass over the rows. Workers compute some of the passes,
    or some of the trials of a single pass.
    """
    passes: dict[tuple[Conditioning, float | None], list[Trial]] = {}
    for trial in dict.fromkeys(listed):
        if not all(trials.knows(trial) for trials in foldings):
            passes.setdefault((_for_prediction(trial.conditioning), trial.equations_hz), []).append(trial)
    tasks = list(passes.values())
    if len(tasks) == 1:
        tasks = group_evenly(tasks[0], worker_count() + 1)
    found = share_tasks(_cross_validate, [(foldings, alike) for alike in tasks])
    for trial, errors in zip(chain(*tasks), chain(*found), strict=True):
        for trials, own in zip(foldings, errors, strict=True):
            trials._errors[replace(trial, dropped=0)] = own
    return [[trials.score(trial) for trials in foldings] for trial in listed]


def scores(foldings: Sequence[Trials], trial: Trial) -> list[TrialScore]:
    """Return the scores of a trial, one for each number of blocks."""
    return score_all(foldings, [trial])[0]


def _cross_validate(foldings: Sequence[Trials], listed: Sequence[Trial]) -> list[list[_Errors]]:
    """Cross-validate trials that share their rows, once with each number of blocks, and return their errors.

    For trials that drop parameters, the errors are those with 0, 1, 2, ... dropped parameters.
    """
    found = []
    for trial, folds in zip(listed, _sum_columns(foldings, listed), strict=True):
        kept = foldings[0]._shared.kept(trial)
        steps = most_steps(kept) if trial.dropped else 1
        # The filters may leave too few rows to hold out.
        errors: list[_Errors] = [(np.zeros((steps, 0, 1)), np.zeros((0, 1)), trial.dropped > 0)] * len(folds)
        enough = [k for k, own in enumerate(folds) if len(own.rows) > 1]
        fits = fits_without_each([folds[k] for k in enough], kept) if enough else []
        for k, fit in zip(enough, fits, strict=True):
            betas = fit.betas[:, None]
            if trial.dropped:
                path = elimination(fit.matrices, fit.rights, steps - 1).betas
                betas = np.zeros((len(path), steps, folds[k].count))
                betas[:, :, kept.numbers] = path
                betas[:, 0] = fit.betas  # within the limits of friction
            errors[k] = *folds[k].squared_residuals_and_torques(betas), trial.dropped > 0
        found.append(errors)
    return found


def _sum_columns(foldings: Sequence[Trials], listed: Sequence[Trial]) -> Iterator[list[Folds]]:
    """Yield the Gram matrices of each trial, for each number of blocks, from one pass over the shared rows."""
    shared, first = foldings[0]._shared, listed[0]
    conditioned = shared.samples(first.conditioning)
    regressors = {trial.friction: shared.with_friction(trial.friction) for trial in listed}
    sums = ColumnSums(list(regressors.values()), conditioned.samples, first.equations_hz, shared.buffers)
    speeds = {trial.conditioning.slow_speed: trial for trial in listed}
    cuts = [{speed: trials._row_ranges(trial, conditioned) for speed, trial in speeds.items()} for trials in foldings]
    ranges = {
        row_range: None
        for cut in cuts
        for blocks in cut.values()
        for block in blocks
        for fit, scored in block
        for row_range in (fit, *scored)
    }
    matrices = dict(zip(ranges, sums.normal_matrices(list(ranges)), strict=True))
    totals = [{speed: _Totals.of(sums, blocks, matrices) for speed, blocks in cut.items()} for cut in cuts]
    matrices.clear()
    places = dict(zip(regressors, sums.places, strict=True))
    for trial in listed:
        regressor, own = regressors[trial.friction], places[trial.friction]
        yield [total[trial.conditioning.slow_speed].folds(regressor, own) for total in totals]


def most_steps(kept: Kept) -> int:
    """Return the number of steps in which parameters may be dropped, including the step without dropped parameters."""
    return max(1, round(MOST_DROPPED * len(kept.numbers)))


class _Totals(NamedTuple):
    """Sums over each block of rows, from which its fits and scores are computed.

    fitted  for each joint, Gram matrices (blocks, k, k) of the rows to fit
    scored  the same of the rows to score
    rows    (blocks, n) number of rows to fit that count for each joint
    """

    fitted: list[Array]
    scored: list[Array]
    rows: Array

    @staticmethod
    def of(
        sums: ColumnSums,
        blocks: Sequence[Sequence[tuple[RowRange, list[RowRange]]]],
        matrices: Mapping[RowRange, list[Array]],
    ) -> _Totals:
        """Add the matrices of the ranges of each block."""
        fits = [[matrices[fit] for fit, _ in block] for block in blocks]
        scores = [[matrices[row_range] for _, scored in block for row_range in scored] for block in blocks]
        fitted, scored = (
            [
                np.array([sum(row_range[joint] for row_range in block) for block in listed]).reshape(-1, width, width)
                for joint, width in enumerate(sums.widths)
            ]
            for listed in (fits, scores)
        )
        counts = [sum(np.maximum(1, sums.counts(fit)) for fit, _ in block) for block in blocks]
        return _Totals(fitted, scored, np.array(counts, dtype=np.float64).reshape(-1, len(sums.widths)))

    def folds(self, regressor: Regressor, places: Sequence[NDArray[np.intp]]) -> Folds:
        """Return the sums for the columns of one friction model."""
        fitted, scored = [], []
        for place, fit, score in zip(places, self.fitted, self.scored, strict=True):
            # The torque to fit is smooth, the one to score is as logged.
            smooth, logged = (np.append(place, fit.shape[-1] - 2 + k) for k in (0, 1))
            fitted.append(fit[:, smooth[:, None], smooth])
            scored.append(score[:, logged[:, None], logged])
        return Folds(regressor.columns, fitted, scored, self.rows, regressor.count)


def _ranges_to_score(fit: RowRange, score: range) -> list[RowRange]:
    """Split the rows to score into ranges, so that rows that are also fitted are summed only once."""
    if fit.step > 1 or fit.first < score.start or fit.last > score.stop:
        return [RowRange(score.start, score.stop)]
    around = [RowRange(score.start, fit.first), fit.with_slow_rows, RowRange(fit.last, score.stop)]
    return [row_range for row_range in around if row_range.first < row_range.last]


def rate_of(conditioning: Conditioning) -> float:
    """Return the sample rate in Hz."""
    return require_resolved(conditioning.rate_hz, "rate_hz")
