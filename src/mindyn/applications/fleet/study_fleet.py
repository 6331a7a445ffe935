"""`study_fleet`: estimate every robot, group and the type of a fleet from all logs, and find robots that differ."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import numpy as np

from mindyn.applications.fleet.assessment import (
    MIN_DRIFT_DAYS,
    MIN_LOGS,
    FleetAssessment,
    RobotDifference,
    assess_fleet,
)
from mindyn.applications.fleet.factor_files import FactorStore, Generation, read_generation
from mindyn.applications.fleet.factor_sums import Entry, Tally, build_tally, drop_zeros, sum_information
from mindyn.applications.fleet.fleet_causes import FleetCauses, LogEvidence, list_causes, summarise_evidence
from mindyn.applications.fleet.gather_all_logs import Progress, gather_all
from mindyn.applications.fleet.gather_one_log import (
    Excluded,
    Task,
    compute_fingerprint,
    explain_failure,
    open_log,
    require_complete,
)
from mindyn.applications.fleet.path_template import Template, list_tasks
from mindyn.applications.fleet.size_distribution import MIN_ROBOTS
from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.atomic_files import make_folder, write_file_atomically
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.foundation.findings import Finding, Kind, info, warning
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.selection.choose import choose
from mindyn.identification.uncertainty.block_deviation import jackknife
from mindyn.logs.read_log import CHUNK_ROWS, LogScan
from mindyn.regression.experiment import Experiment
from mindyn.regression.information import Information
from mindyn.regression.regressor import build_regressor, with_estimated_drives
from mindyn.regression.rows import Rows, complete_robot
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

MAX_JACKKNIFE_PARTS: Final = 100
"""Largest number of parts of the logs for the jackknife."""
SAMPLED_LOGS: Final = 12
"""Number of logs for the selection of settings, the first ones in the order of a hash of their bytes."""
MAX_TYPE_ROUNDS: Final = 3
"""Largest number of fits of the type without the robots that differ."""
UNTESTED_ZEROS: Final = "joint zeros are not tested: joints of this robot depend on one another"
MAX_EXCLUDED_FRACTION: Final = 0.5
"""Largest fraction of robots that may be excluded from the type."""
ShowStatus = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class FleetMember:
    """Robot, group or the whole type.

    key         name of the robot and the other fields of the group; empty for the type
    logs, rows  numbers of logs and rows
    estimate    least squares of all rows; None if there are too few
    deviations  (p,) standard deviations by the jackknife over logs; NaN if unknown
    """

    key: tuple[str, ...]
    logs: int
    rows: int
    days: tuple[float, float] | None
    estimate: Estimate | None
    deviations: Array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FleetStudy(ShortRepr):
    """Result of a fleet study.

    Attributes
    ----------
    group_by : tuple of str
        Fields that define groups, that of the robot first.
    type : FleetMember
        Estimate of all robots that do not differ.
    robots, groups : tuple of FleetMember
        `groups` is empty if groups are robots.
    differences : tuple of RobotDifference
        Robots that differ or drift, most significant first.
    excluded : tuple of Excluded
        Excluded logs with reasons.
    gathered : int
        Number of logs that were read in this run; the factors of the others were on disk.
    findings : tuple of Finding
    histories : tuple of (ndarray, ndarray)
        For every difference, the days of the robot's logs (NaN if unknown), and the difference in each log.
    """

    group_by: tuple[str, ...]
    type: FleetMember
    robots: tuple[FleetMember, ...]
    groups: tuple[FleetMember, ...]
    differences: tuple[RobotDifference, ...]
    excluded: tuple[Excluded, ...]
    gathered: int
    findings: tuple[Finding, ...]
    histories: tuple[tuple[Array, Array], ...]

    @property
    def logs(self) -> int:
        """Return the number of logs of all robots."""
        return sum(member.logs for member in self.robots)

    @property
    def rows(self) -> int:
        """Return the number of rows of all robots."""
        return sum(member.rows for member in self.robots)


@run_on_one_blas_thread
def study_fleet(
    robot: Robot,
    pattern: str,
    out: str | Path,
    *,
    group_by: Sequence[str] = (),
    settings: EquationSettings | None = None,
    exclude_logs: Sequence[str] = (),
    executor: Executor | None = None,
    workers: int = 1,
    progress: Progress = lambda done, total: None,  # noqa: ARG005
    say: ShowStatus = lambda line: None,  # noqa: ARG005
) -> FleetStudy:
    """Estimate every robot, every group and the type of a fleet, and find robots that differ or drift.

    Parameters
    ----------
    robot : Robot
        Robot of the logs.
    pattern : str
        Paths of the logs, with fields in braces: "s3://bucket/{robot_id}/{date}/*.parquet".
    out : str or Path
        Folder with a factor file for each log: a log is read once, however often the fleet is studied.
    group_by : sequence of str
        Fields of the pattern, constant columns of the logs, or year, month, week or day of the field `date`. The first
        one names the robot. Default: the first field of the pattern.
    settings : EquationSettings, optional
        How logs become equations. Default: those of the last study in the folder, else selected on a few logs.
    exclude_logs : sequence of str
        Patterns of log names to exclude, even if they have factors.
    executor : concurrent.futures.Executor, optional
        For example `client.get_executor(retries=3)` of Dask, which replaces workers that die.
    workers : int
        Number of processes of this machine, if no executor is given; processes that die are replaced.
    progress : callable
        Called with the number of gathered logs and their total number.
    say : callable
        Called with status lines.

    Returns
    -------
    FleetStudy
        Estimates of the type, the robots and the groups, and robots that differ or drift.

    Raises
    ------
    InputError
        If the pattern names no robot or matches no log, or no log can be used.
    """
    folder = Path(out)
    template = Template(pattern)
    keys = tuple(group_by) or template.fields[:1]
    if not keys:
        raise InputError(
            f"the pattern {pattern!r} has no field that names the robot of a log",
            hint="add a field such as 's3://bucket/{robot_id}/*.parquet', or name a column in --group-by (group_by)",
            code=Code.MISSING_VALUE,
            subject=pattern,
        )
    make_folder(folder)
    listed, excluded = list_tasks(template, keys)

    def is_excluded(name: str) -> bool:
        return any(fnmatchcase(name, excluded) for excluded in exclude_logs)

    wanted = [task for task in listed if not is_excluded(task.name)]
    generation = _choose_generation(robot, folder, wanted, settings, say)
    store = FactorStore(folder, generation, robot)
    # The next study continues with this generation.
    write_file_atomically(folder / "fleet.json", json.dumps({"generation": store.folder.name}, indent=1) + "\n")
    missing = [task for task in wanted if not store.path(task.name, task.version).exists()]
    say(f"{len(listed)} logs match, {len(missing)} of them must be read")
    failed = gather_all(store, missing, executor=executor, workers=workers, progress=progress)
    tally = build_tally(store, keys, is_excluded)
    unmatched = len({entry.name for entry in tally.entries} - {task.name for task in listed})
    note = f"{pluralise(unmatched, 'log')} used by factors alone: the pattern does not match the path now"
    say(f"summing {pluralise(len(tally.entries), 'log')} of {pluralise(len(tally.robots), 'robot')}")
    return _study_tally(tally, keys, (*excluded, *failed), len(missing) - len(failed), [note] if unmatched else [])


def _choose_generation(
    robot: Robot, folder: Path, tasks: Sequence[Task], settings: EquationSettings | None, say: ShowStatus
) -> Generation:
    earlier = read_generation(folder, robot)
    if earlier is not None and (settings is None or settings == earlier.settings):
        return earlier
    scans = _sample_logs(robot, tasks)
    wanted = settings or EquationSettings.automatic()
    if not wanted.is_selected or wanted.conditioning is None or not wanted.conditioning.is_resolved:
        say(f"selecting settings on {pluralise(len(scans), 'log')}")
        wanted = choose(robot, scans, LeastSquares(), wanted, progress=say).settings
    if wanted.base_form != "structural":
        raise InputError(
            f"fleets need base_form='structural', got {wanted.base_form!r}",
            code=Code.UNSUPPORTED,
            subject=wanted.base_form,
        )
    complete, _ = complete_robot(robot, wanted, scans)
    if wanted.drive_parameters == "estimated":
        complete = with_estimated_drives(complete)
    rows = Experiment(robot, scans).excerpt.equations(wanted)
    return Generation(complete, rows.settings, LeastSquares().fit(rows).beta)


def _sample_logs(robot: Robot, tasks: Sequence[Task]) -> list[LogScan]:
    """Return logs in the order of a hash of their bytes: copies and unreadable logs do not change which ones."""
    scans: list[LogScan] = []
    sampled: set[str] = set()
    reason = "no log is left" if tasks else "no log matches"
    for fingerprint, task in sorted(_list_fingerprints(tasks), key=lambda pair: (pair[0], pair[1].name)):
        if len(scans) == SAMPLED_LOGS:
            break
        if fingerprint in sampled:
            continue
        try:
            scan = open_log(task, robot, CHUNK_ROWS)
            require_complete(task, scan)
        except Exception as error:  # as in `gather_or_exclude`, which excludes this log
            reason = f"{task.name}: {explain_failure(task, error)}"
        else:
            sampled.add(fingerprint)
            scans.append(scan)
    if not scans:
        raise InputError(
            f"settings cannot be selected: {reason}",
            hint="check the pattern, and that the logs belong to this robot",
            code=Code.TOO_LITTLE_DATA,
            subject="logs",
        )
    return scans


def _list_fingerprints(tasks: Sequence[Task]) -> Iterator[tuple[str, Task]]:
    for task in tasks:
        with suppress(OSError):  # `gather_or_exclude` reports a file that cannot be opened
            yield compute_fingerprint(task), task


def _study_tally(
    tally: Tally, keys: tuple[str, ...], excluded: Sequence[Excluded], gathered: int, notes: Sequence[str]
) -> FleetStudy:
    """Study gathered logs."""
    tally = _drop_foreign_logs(tally)
    estimate, assessment, evidence = _fit_type(tally)
    named = assessment.named
    differing = {difference.robot for difference in named}
    type_entries = [entry for entry in tally.entries if entry.robot not in differing] or tally.entries
    robots = [_build_member(tally, (robot,), entries) for robot, entries in tally.by_robot.items()]
    by_group = tally.by_group if len(keys) > 1 else {}
    groups = [_build_member(tally, key, entries) for key, entries in by_group.items()]
    fleet_type = _build_member(tally, (), type_entries, estimate)
    return FleetStudy(
        keys,
        fleet_type,
        tuple(robots),
        tuple(groups),
        named,
        tuple(sorted((*excluded, *tally.excluded), key=lambda log: log.name)),
        gathered,
        (
            *(
                warning(Kind.FLEET_COVERAGE, note, "The same command adds further logs, robots and days")
                for note in (*notes, *filter(None, [assessment.watch_note]), *_describe_limits(tally))
            ),
            *(() if tally.regressor.zeros else (info(Kind.FLEET_COVERAGE, UNTESTED_ZEROS),)),
        ),
        tuple(_build_history(difference, evidence[difference.robot]) for difference in named),
    )


def _fit_type(tally: Tally) -> tuple[Estimate, FleetAssessment, dict[str, list[LogEvidence]]]:
    """Fit the type without the robots that differ from it, and assess all robots."""
    totals = {robot: tally.total(entries) for robot, entries in tally.by_robot.items()}
    apart: set[str] = set()
    tried: list[set[str]] = []
    for _ in range(MAX_TYPE_ROUNDS):
        total = sum_information(totals[robot] for robot in tally.robots if robot not in apart)
        estimate = _fit_total(tally, total)
        if estimate is None:
            raise InputError(
                "all logs together have too few rows for an estimate",
                hint="add more logs",
                code=Code.TOO_LITTLE_DATA,
                subject="logs",
            )
        causes = list_causes(tally.regressor, estimate, total)
        collected = _collect_evidence(tally, causes, estimate)
        assessed = assess_fleet(causes, collected)
        differing = {difference.robot for difference in assessed.named}
        if differing in tried:  # a type without their friction has none to compare theirs with: they still differ
            break
        assessment, evidence = assessed, collected
        if differing == apart or len(differing) > MAX_EXCLUDED_FRACTION * len(tally.robots):
            break
        tried.append(apart)
        apart = differing
    assert estimate is not None
    return estimate, assessment, evidence


def _collect_evidence(tally: Tally, causes: FleetCauses, estimate: Estimate) -> dict[str, list[LogEvidence]]:
    beta = np.concatenate([estimate.beta, np.zeros(len(tally.regressor.zeros))])
    weights = np.asarray(estimate.data.joint_weights)
    return {
        robot: [
            summarise_evidence(tally.information(log), causes, beta, weights, np.nan if log.day is None else log.day)
            for log in tally.by_robot[robot]
        ]
        for robot in tally.robots
    }


def _drop_foreign_logs(tally: Tally) -> Tally:
    """Exclude logs that the model of the others predicts worse than zero: another robot, or other units."""
    estimate = _fit_total(tally, tally.total(tally.entries))
    if estimate is None or len(tally.entries) < 2:
        return tally
    weights = np.asarray(estimate.data.joint_weights)
    kept: list[Entry] = []
    foreign: list[Entry] = []
    for entry in tally.entries:
        information = drop_zeros(tally.information(entry), len(estimate.beta))
        power, missed = weights @ information.torques(), weights @ information.residuals(estimate.beta)
        (foreign if 0 < power < missed else kept).append(entry)
    reason = "the model of the type predicts its torque worse than zero: another robot, or other units?"
    return Tally(tally.store, kept, (*tally.excluded, *(Excluded(entry.name, reason) for entry in foreign)))


def _fit_total(tally: Tally, total: Information) -> Estimate | None:
    """Fit the R factors by least squares; return None if there are too few rows."""
    plain = drop_zeros(total, tally.regressor.plain_count)
    if any(count <= len(columns) for count, columns in zip(plain.counts, plain.columns, strict=True)):
        return None
    generation = tally.store.generation
    columns = build_regressor(generation.robot, generation.settings)
    return LeastSquares().fit(Rows.of_information(columns, plain, generation.settings))


def _build_member(
    tally: Tally, key: tuple[str, ...], entries: Sequence[Entry], known: Estimate | None = None
) -> FleetMember:
    estimate = known or _fit_total(tally, tally.total(entries))
    days = [entry.day for entry in entries if entry.day is not None]
    span = (min(days), max(days)) if days else None
    deviations = _jackknife_deviations(tally, estimate, entries)
    return FleetMember(key, len(entries), sum(entry.rows for entry in entries), span, estimate, deviations)


def _jackknife_deviations(tally: Tally, estimate: Estimate | None, entries: Sequence[Entry]) -> Array:
    """Return deviations of the values by the jackknife over logs, or over groups of many logs; NaN if unknown."""
    result = np.full(tally.regressor.plain_count, np.nan)
    if estimate is None or estimate.data.joint_weights is None or len(entries) < MIN_LOGS:
        return result
    logs = [drop_zeros(tally.information(entry), tally.regressor.plain_count) for entry in entries]
    kept = np.array([name not in estimate.values.unidentifiable for name in estimate.names])
    count = min(len(logs), MAX_JACKKNIFE_PARTS)
    parts = [sum_information(logs[len(logs) * k // count : len(logs) * (k + 1) // count]) for k in range(count)]
    deviations, informative = jackknife(parts, estimate.data.joint_weights, kept)
    result[kept] = np.where(informative >= MIN_LOGS, deviations, np.nan)
    return result


def _build_history(difference: RobotDifference, logs: Sequence[LogEvidence]) -> tuple[Array, Array]:
    """Return the day of each log, and the robot's difference in it along the first direction of the cause."""
    column = difference.cause.columns[0]
    days, H, s = np.array([(log.day, log.H[column, column], log.s[column]) for log in logs]).T
    return days, s / np.where(H > 0, H, np.nan)


def _describe_limits(tally: Tally) -> list[str]:
    """Describe the tests for which this fleet is too small."""
    limits = []
    if len(tally.robots) < MIN_ROBOTS:
        limits.append(
            f"only drift is tested with {pluralise(len(tally.robots), 'robot')}; differences need {MIN_ROBOTS} or more"
        )
    few = [robot for robot in tally.robots if len(tally.by_robot[robot]) < MIN_LOGS]
    if few:
        limits.append(f"not tested, because they have fewer than {MIN_LOGS} logs: {', '.join(few[:20])}")
    days = [{math.floor(log.day) for log in logs if log.day is not None} for logs in tally.by_robot.values()]
    if not any(len(different) >= MIN_DRIFT_DAYS for different in days):
        limits.append(
            f"drift is not tested: no robot has logs of {MIN_DRIFT_DAYS} days; the field {{date}} of a pattern gives "
            "the date of a log, by default that of its file"
        )
    return limits
