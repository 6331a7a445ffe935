"""`identify`: from a robot and its logs to an estimate: choose, equations, fit, judge."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.algebra.blas import on_one_blas_thread
from mindyn.algebra.values import Array
from mindyn.errors import InputError, MindynError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator
from mindyn.estimators.least_squares import LeastSquares
from mindyn.feasibility.conic import ConicError
from mindyn.feasibility.intervals import with_physical_intervals
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.identification.absent_gravity import absent_gravity
from mindyn.identification.block_spread import with_block_spread
from mindyn.identification.changed_loads import load_doubts
from mindyn.identification.choosing import (
    Choice,
    Progress,
    choose,
    required_logs,
    sample_of,
    tuning_stretches,
    without_dead_torques,
)
from mindyn.identification.fed_back_noise import instrument_findings
from mindyn.identification.identifiable import identifiability, uncertain, uncertain_doubts
from mindyn.identification.joint_zeros import zeros
from mindyn.identification.left_out import with_left_out
from mindyn.identification.log_doubts import sign_doubts, touch_doubts, unexplained_doubts
from mindyn.identification.one_more_column import drift_doubts, gain_doubts
from mindyn.identification.stated_inertials import suspicions
from mindyn.identification.systematic_errors import with_systematic_errors
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.logs.reading import LogScan
from mindyn.notes import Note
from mindyn.regression.rows import Logs, Rows, factors_on_gpu, listed_logs, rows_of
from mindyn.regression.treatment import Treatment
from mindyn.robots.robot import Robot

REFRESHES: Final = 5
"""How often, at most, the reference of load-dependent friction is made anew by the fit."""
SETTLED: Final = 0.01
"""Rms change of the load, as part of it, that friction, which takes a tenth or so of it, does not notice."""
UNSETTLED: Final = 0.05
"""The same of one joint's load, from which on it is told."""


@on_one_blas_thread
def identify(
    robot: Robot,
    logs: Logs,
    estimator: Estimator | None = None,
    treatment: Treatment | None = None,
    *,
    executor: Executor | None = None,
    gpu: bool = False,
    progress: Progress | None = None,
) -> Estimate:
    """The parameters that explain the logs' torque best; what is given is not chosen.

    logs       what `read_log` gives; or `scan_log`, whose rows are never in memory at once
    estimator  how to fit; None: least squares, without the parameters that held-out rows do not miss
    treatment  how logs become equations; its "auto" entries, and its conditioning where it is None, are chosen. None:
               all of it is chosen; `Treatment.automatic(conditioning)`: all but a conditioning
    executor   any `concurrent.futures.Executor`: its workers turn one log each into R factors, the same bits on any
               number of workers; settings are chosen here, once. Of `scan_log` no row travels. Only estimators that
               need R factors alone; a "correlated" covariance, where it was not asked for, becomes "white"
    gpu        rows become R factors on a GPU, through CuPy: the CPU's estimate to rounding. Of logs in memory,
               of robots without loops; settings, intervals and doubts are found on the CPU
    progress   called with a line now and then
    """
    if gpu:
        factors_on_gpu(logs, executor)  # refuses what it cannot do before anything is chosen
    say = progress or (lambda line: None)  # noqa: ARG005
    recorded, logs = logs, _without_dead_torques(logs)
    choice = choose(robot, logs, estimator, treatment, progress=progress)
    if executor is not None:
        choice = replace(choice, estimator=of_factors(choice.estimator, asked=estimator is not None))
    rows = _fitted_rows(robot, logs, choice.treatment, executor, gpu=gpu)
    say("fitting all training rows")
    try:
        found, rows = _with_settled_load(robot, logs, choice.estimator, rows, executor, gpu=gpu)
    except ConicError as error:
        if estimator is not None:
            raise
        plain = LeastSquares(covariance="white" if executor else "correlated", left_out=choice.left_out)
        unsolved = Note("fit", f"a physically consistent fit was chosen, but {error}: least squares was taken")
        choice = replace(choice, estimator=plain, notes=(*choice.notes, unsolved))
        found, rows = _with_settled_load(robot, logs, plain, rows, executor, gpu=gpu)
    return judged(robot, found, rows, choice, recorded)


def _without_dead_torques(logs: Logs) -> Logs:
    """The logs with zero for torques that never change, where all of their rows are in memory."""
    listed = listed_logs(logs)
    held = [log for log in listed or () if isinstance(log, Log)]
    return without_dead_torques(held) if listed is not None and len(held) == len(listed) else logs


def _fitted_rows(robot: Robot, logs: Logs, treatment: Treatment, executor: Executor | None, *, gpu: bool) -> Rows:
    """The equations; of logs that stream, too, without torques that never change."""
    rows = rows_of(robot, logs, treatment, executor=executor, gpu=gpu)
    streamed = any(isinstance(log, LogScan) for log in listed_logs(logs) or ())
    return rows.without_constant_torques() if streamed else rows


def _with_settled_load(
    robot: Robot, logs: Logs, estimator: Estimator, rows: Rows, executor: Executor | None, *, gpu: bool
) -> tuple[Estimate, Rows]:
    """The fit, repeated with its own values as the reference of load-dependent friction until the load settles.

    What is stored is the reference of the estimate itself, so that its torques are those of a robot made of it; the
    last change of the load, below `SETTLED`, is within what friction takes of it.
    """
    found = estimator.fit(rows)
    for _ in range(REFRESHES):
        if _part(*_load_change(rows, found)) < SETTLED:
            break
        rows = _fitted_rows(robot, logs, found.with_own_load().treatment, executor, gpu=gpu)
        found = estimator.fit(rows)
    return replace(found.with_own_load(), notes=(*found.notes, *_unsettled(rows, found))), rows


def _load_change(rows: Rows, found: Estimate) -> tuple[Array, Array]:
    """(n,) squares of the change of every joint's load, from the reference of the rows to the values found, and of it.

    Both zero where no friction depends on the load.
    """
    squares = np.zeros((2, len(rows.regressor.columns)))
    if rows.regressor.friction.needs_load:
        count, rigid = rows.regressor.base.count, rows.regressor.rigid
        reference = np.zeros(len(found.beta))
        reference[:count] = rows.regressor.friction.reference
        information = rows.information
        for k, one in enumerate((found.beta - reference, reference)):
            values = np.where(rigid, one, 0.0)
            for joint, (columns, factor) in enumerate(zip(information.columns, information.factors, strict=True)):
                squares[k, joint] = float(((factor[:, :-1] @ values[columns]) ** 2).sum())
    return squares[0], squares[1]


def _part(change: Array, load: Array) -> float:
    """Rms change of all loads as part of them."""
    return float(np.sqrt(change.sum() / max(load.sum(), 1e-300)))


def _unsettled(rows: Rows, found: Estimate) -> list[Note]:
    """Joints whose own load changed by much in the last fit: a small one beside others, told badly, settles slowly."""
    change, load = _load_change(rows, found)
    names = [
        name
        for name, c, size in zip(rows.regressor.joint_names, change, load, strict=True)
        if c > UNSETTLED**2 * size > 0
    ]
    if not names:
        return []
    told = "the load of " + " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return [Note("intervals", f"{told} has not settled: friction that grows with it is less sure than its interval")]


def of_factors(estimator: Estimator, *, asked: bool) -> Estimator:
    """The estimator where workers keep the rows; one that needs them is refused if it was asked for."""
    if estimator.needs == "information":
        return estimator
    if not asked and isinstance(estimator, (LeastSquares, PhysicallyConsistent)):
        return replace(estimator, covariance="white")
    raise InputError(
        f"{type(estimator).__name__} as it is set needs the samples themselves, which stay with the executor's workers",
        hint='LeastSquares(covariance="white", robust=False) needs R factors alone; or leave executor= out',
    )


def judged(robot: Robot, found: Estimate, rows: Rows, choice: Choice, logs: Logs) -> Estimate:
    """The estimate with systematic errors in its covariance, and with what is doubtful in its logs.

    Stretches too short to judge by say nothing.
    """
    conditioning = choice.treatment.of_fit
    assert conditioning is not None
    try:
        stretches = tuning_stretches(sample_of(required_logs(logs)))
        samples = condition(stretches, found.robot, conditioning).samples
        blocks = rows.evidence
        wider = with_block_spread(with_systematic_errors(found, samples, conditioning, rows.count), blocks)
        wider = with_physical_intervals(wider)
        # What the data say by themselves: a constraint hides a friction that drives and an inertia below zero.
        free = found if found.physical is None else replace(found, beta=found.physical.unconstrained)
        verdict = identifiability(free, samples, stretches)
        wider = with_left_out(replace(wider, identifiable=verdict), blocks)
        wrong = suspicions(robot, samples) or absent_gravity(free, samples) or zeros(free, samples)
        suspected = [Note("suspicion", one.sentence) for one in wrong]
        suspected += [Note("suspicion", sentence) for sentence in load_doubts(found, rows)]
        biased = instrument_findings(choice.estimator, robot, found, logs)
        suspected = [*(Note(one.kind, f"{one.severity}: {one}") for one in biased), *suspected]
        unfit = [] if verdict.holds else [Note("verdict", verdict.sentence)]
        doubted = uncertain_doubts(verdict) + unexplained_doubts(free, samples) + touch_doubts(free, samples)
        if not uncertain(verdict):
            doubted = sign_doubts(free, samples) + doubted + drift_doubts(free, rows.blocks)
            doubted += [] if suspected else gain_doubts(free, blocks)
        doubtful = (*unfit, *suspected, *(Note("doubt", sentence) for sentence in doubted))
    except MindynError as error:
        why = error.message.splitlines()[0][:200]
        wider, doubtful = found, (Note("doubt", f"intervals are of noise alone, and the log was not doubted: {why}"),)
    gears = [note for note in rows.notes if note.kind == "gears"]
    others = [note for note in rows.notes if note.kind != "gears"]
    return replace(
        wider,
        notes=(*doubtful, *gears, *choice.notes, *wider.notes, *others),
        sources=rows.sources,
        cross_validated=choice.score,
        provenance={**wider.provenance, "samples": rows.count},
    )
