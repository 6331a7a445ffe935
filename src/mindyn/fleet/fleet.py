"""`study_fleet`: all logs of many robots of one type to estimates of each, of groups, of the type; and who differs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import numpy as np

from mindyn.algebra.blas import run_on_one_blas_thread
from mindyn.algebra.values import Array
from mindyn.errors import InputError, MindynError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.least_squares import LeastSquares
from mindyn.files import make_folder, write_file_atomically
from mindyn.findings import Finding, Kind, warning
from mindyn.fleet.assessment import MIN_DRIFT_DAYS, MIN_LOGS, FleetAssessment, RobotDifference, assess_fleet
from mindyn.fleet.causes import FleetCauses, LogEvidence, list_causes, summarise_evidence
from mindyn.fleet.factors import FactorStore, Generation, read_generation
from mindyn.fleet.mapping import Progress, gather_all
from mindyn.fleet.size_distribution import MIN_ROBOTS
from mindyn.fleet.tally import Entry, Tally, build_tally, drop_zeros, sum_information, unexplained_fraction
from mindyn.fleet.template import Template, list_tasks
from mindyn.fleet.work import Excluded, Task, format_reason
from mindyn.identification.selection.choose import choose, tuning_segments
from mindyn.identification.uncertainty.jackknife import jackknife
from mindyn.logs.reading import CHUNK_ROWS, LogScan
from mindyn.regression.information import Information
from mindyn.regression.regressor import build_regressor, with_estimated_drives
from mindyn.regression.rows import Rows, build_rows, complete_robot
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

MAX_JACKKNIFE_PARTS: Final = 100
"""Parts of the logs that are left out in turn."""
SAMPLED_LOGS: Final = 12
"""Logs that settings are chosen on, evenly spread over their names."""
MAX_TYPE_ROUNDS: Final = 3
"""Times that the type is fitted without those that differ from it, at most."""
MAX_EXCLUDED_FRACTION: Final = 0.5
"""Part of the robots that may be left out of the type."""
ShowStatus = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class FleetMember:
    """A robot, a group or the whole type.

    key         the robot's name and what else the group goes by; empty for the type
    logs, rows  that count
    estimate    least squares of all their rows; None where they are too few
    deviations  (p,) of its values, by the jackknife over logs; NaN where that cannot be
    """

    key: tuple[str, ...]
    logs: int
    rows: int
    days: tuple[float, float] | None
    estimate: Estimate | None
    deviations: Array


@dataclass(frozen=True, slots=True, eq=False)
class FleetStudy:
    """What all logs of a fleet say.

    group_by     names of what groups go by, the robot's first
    type         of all robots but those that differ
    robots       every robot
    groups       every group; empty where groups are robots
    differences  who differs or drifts, the most certain first
    excluded     logs that do not count, and why
    gathered     logs that were read in this run; the others' factors were on disk
    findings     what is worth knowing
    histories    of every difference, in their order
    """

    group_by: tuple[str, ...]
    type: FleetMember
    robots: tuple[FleetMember, ...]
    groups: tuple[FleetMember, ...]
    differences: tuple[RobotDifference, ...]
    excluded: tuple[Excluded, ...]
    gathered: int
    findings: tuple[Finding, ...]
    histories: tuple[History, ...]


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The size of a named difference's cause in every log of its robot.

    days, sizes  one for each log; days NaN where nothing says when it was made
    """

    robot: str
    cause: str
    unit: str
    days: Array
    sizes: Array


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
    """Estimates of every robot, group and the type; who differs from the type, or drifts, beyond its uncertainty.

    pattern    places of the logs, with fields in braces: "s3://bucket/{robot_id}/{date}/*.parquet"
    out        folder that keeps a factor file for each log: a log is read once, however often the fleet is studied
    group_by   fields of the pattern, constant columns of the logs, or year, month, week, day of the field `date`; the
               first names the robot. Left out: the pattern's first field
    treatment  how logs become equations; left out, it is that of the folder's last study, else chosen on a few logs
    without    patterns of names of logs that do not count, though they may have factors
    executor   any `concurrent.futures.Executor`; Dask's `client.get_executor(retries=3)` replaces workers that die
    workers    in its place: processes of this machine, replaced where they die
    progress   called with logs gathered, and all that are to be
    """
    folder = Path(out)
    template = Template(pattern)
    keys = tuple(group_by) or template.fields[:1]
    if not keys:
        raise InputError(
            f"{pattern!r} does not say which robot a log is of",
            hint="name the part of the path that does: 's3://bucket/{robot_id}/*.parquet', or a column: group_by",
        )
    make_folder(folder)
    listed, excluded = list_tasks(template, keys)
    generation = _choose_generation(robot, folder, listed, settings, say)
    store = FactorStore(folder, generation, {"robot": robot})
    write_pointer(folder, store)

    def left_out(name: str) -> bool:
        return any(fnmatchcase(name, one) for one in exclude_logs)

    missing = [one for one in listed if not left_out(one.name) and not store.has(one.name, one.version)]
    say(f"{len(listed)} logs match, of which {len(missing)} are to be read")
    refused = gather_all(store, missing, executor=executor, workers=workers, progress=progress)
    tally = build_tally(store, keys, left_out)
    gone = len({one.name for one in tally.entries} - {one.name for one in listed})
    notes = [f"{gone} logs count by their factors: the pattern does not match them now"] if gone else []
    return study_tally(tally, keys, (*excluded, *refused), len(missing) - len(refused), notes, say)


def write_pointer(folder: Path, store: FactorStore) -> None:
    """Says which generation the folder's last study is of, so that the next one goes on with it."""
    write_file_atomically(folder / "fleet.json", json.dumps({"generation": store.folder.name}, indent=1) + "\n")


def _choose_generation(
    robot: Robot, folder: Path, tasks: Sequence[Task], settings: EquationSettings | None, say: ShowStatus
) -> Generation:
    earlier = read_generation(folder, robot)
    if earlier is not None and (settings is None or settings == earlier.settings):
        return earlier
    scans = _sample_logs(robot, tasks)
    asked = settings or EquationSettings.automatic()
    if not asked.is_selected or asked.conditioning is None or not asked.conditioning.is_resolved:
        say(f"choosing settings on {len(scans)} logs")
        asked = choose(robot, scans, LeastSquares(), asked, progress=say).settings
    if asked.base_form != "structural":
        raise InputError(f"fleets are studied in the structural base set, not in {asked.base_form!r}")
    complete, _ = complete_robot(robot, asked, scans)
    if asked.drives == "estimated":
        complete = with_estimated_drives(complete)
    rows = build_rows(robot, tuning_segments(scans), asked)
    return Generation(complete, rows.settings, LeastSquares().fit(rows).beta)


def _sample_logs(robot: Robot, tasks: Sequence[Task]) -> list[LogScan]:
    """Logs spread over all names; those that cannot be opened give their place to the next."""
    wanted = min(SAMPLED_LOGS, len(tasks))
    found: list[LogScan] = []
    reason = "no log matches"
    for k in range(wanted):
        for task in tasks[k * len(tasks) // wanted : (k + 1) * len(tasks) // wanted]:
            try:
                scan = LogScan(task.place, robot, {}, CHUNK_ROWS, task.sidecar)
                if next(iter(scan), None) is not None:
                    found.append(scan)
                    break
            except MindynError as error:
                reason = f"{task.name}: {format_reason(error)}"
    if not found:
        raise InputError(f"settings cannot be chosen: {reason}", hint="is the pattern right, and is it that robot's?")
    return found


def study_tally(
    tally: Tally,
    keys: tuple[str, ...],
    excluded: Sequence[Excluded],
    gathered: int,
    notes: Sequence[str],
    say: ShowStatus,
) -> FleetStudy:
    """The study of logs that are gathered."""
    say(f"summing {len(tally.entries)} logs of {len(tally.robots)} robots")
    tally = _drop_foreign_logs(tally)
    totals = tally.totals()
    found, judgement, evidence = _fit_type(tally, totals)
    named = judgement.named
    healthy = [robot for robot in tally.robots if robot not in {one.robot for one in named}] or list(tally.robots)
    of_type = [entry for entry in tally.entries if entry.robot in set(healthy)]
    robots = [_build_member(tally, (robot,), tally.logs_of_robot(robot)) for robot in tally.robots]
    groups = []
    if len(keys) > 1:
        groups = [_build_member(tally, key, tally.logs_of_group(key)) for key in tally.groups]
    whole = _build_member(tally, (), of_type, found)
    return FleetStudy(
        keys,
        whole,
        tuple(robots),
        tuple(groups),
        named,
        tuple(sorted((*excluded, *tally.excluded), key=lambda one: one.name)),
        gathered,
        tuple(
            warning(Kind.FLEET_COVERAGE, one)
            for one in (*notes, *filter(None, [judgement.watch_note]), *_describe_limits(tally))
        ),
        tuple(_build_history(one, evidence[one.robot]) for one in named),
    )


def _fit_type(
    tally: Tally, totals: dict[str, Information]
) -> tuple[Estimate, FleetAssessment, dict[str, list[LogEvidence]]]:
    """The type without those that differ from it, and who does."""
    apart: set[str] = set()
    for _ in range(MAX_TYPE_ROUNDS):
        total = sum_information(totals[robot] for robot in tally.robots if robot not in apart)
        found = _fit_total(tally, total)
        if found is None:
            raise InputError("too few rows in all logs together to estimate anything", hint="more logs are needed")
        causes = list_causes(tally.regressor, found, total)
        evidence = _collect_evidence(tally, causes, found)
        judgement = assess_fleet(causes, evidence)
        differing = {one.robot for one in judgement.named}
        if differing == apart or len(differing) > MAX_EXCLUDED_FRACTION * len(tally.robots):
            break
        apart = differing
    assert found is not None
    return found, judgement, evidence


def _collect_evidence(tally: Tally, causes: FleetCauses, found: Estimate) -> dict[str, list[LogEvidence]]:
    beta = np.concatenate([found.beta, np.zeros(len(tally.regressor.zeros))])
    weights = np.asarray(found.joint_weights)
    return {
        robot: [
            summarise_evidence(tally.information(one), causes, beta, weights, np.nan if one.day is None else one.day)
            for one in tally.logs_of_robot(robot)
        ]
        for robot in tally.robots
    }


def _drop_foreign_logs(tally: Tally) -> Tally:
    """Without logs of which the others' model explains less than nothing: another robot's, or other units."""
    found = _fit_total(tally, tally.total(tally.entries))
    if found is None or len(tally.entries) < 2:
        return tally
    weights = np.asarray(found.joint_weights)

    def foreign(entry: Entry) -> str:
        left = unexplained_fraction(drop_zeros(tally.information(entry), len(found.beta)), found.beta, weights)
        told = "the type's model predicts its torque worse than none would: another robot's, or in other units?"
        return told if left > 1 else ""

    return tally.exclude_logs(foreign)


def _fit_total(tally: Tally, total: Information) -> Estimate | None:
    """Least squares of the R factors; None where they are too few rows."""
    plain = drop_zeros(total, tally.regressor.plain_count)
    short = [count <= len(columns) for count, columns in zip(plain.counts, plain.columns, strict=True)]
    if any(short):
        return None
    generation = tally.store.generation
    columns = build_regressor(generation.robot, generation.settings)
    return LeastSquares().fit(Rows.of_information(columns, plain, generation.settings))


def _build_member(
    tally: Tally, key: tuple[str, ...], entries: Sequence[Entry], found: Estimate | None = None
) -> FleetMember:
    logs = [drop_zeros(tally.information(one), tally.regressor.plain_count) for one in entries]
    estimate = found or _fit_total(tally, tally.total(entries))
    days = [one.day for one in entries if one.day is not None]
    span = (min(days), max(days)) if days else None
    if estimate is None:
        nothing = np.full(tally.regressor.plain_count, np.nan)
        return FleetMember(key, len(entries), sum(one.rows for one in entries), span, None, nothing)
    return FleetMember(key, len(entries), sum(one.rows for one in entries), span, estimate, _deviations(estimate, logs))


def _deviations(found: Estimate, logs: Sequence[Information]) -> Array:
    """Of the values, by leaving out logs in turn, many of them together where they are many; NaN where unknown."""
    made = np.full(len(found.beta), np.nan)
    kept = np.array([name not in found.unidentifiable for name in found.names])
    if len(logs) < MIN_LOGS or found.joint_weights is None:
        return made
    count = min(len(logs), MAX_JACKKNIFE_PARTS)
    parts = [sum_information(logs[len(logs) * k // count : len(logs) * (k + 1) // count]) for k in range(count)]
    deviations, telling = jackknife(parts, found.joint_weights, kept)
    made[kept] = np.where(telling >= MIN_LOGS, deviations, np.nan)
    return made


def _build_history(one: RobotDifference, logs: Sequence[LogEvidence]) -> History:
    """The cause's size in every log by itself, its other directions left as they are."""
    column = one.cause.columns[0]
    H = np.array([log.H[column, column] for log in logs])
    sizes = np.array([log.s[column] for log in logs]) / np.where(H > 0, H, np.nan)
    cause = f"{one.cause.what} of {one.cause.where}"
    return History(one.robot, cause, one.cause.unit, np.array([log.day for log in logs]), sizes)


def _logged_days(tally: Tally, robot: str) -> int:
    """Different days of which a robot has logs."""
    return len({math.floor(one.day) for one in tally.logs_of_robot(robot) if one.day is not None})


def _describe_limits(tally: Tally) -> list[str]:
    """What this fleet is too small for."""
    made = []
    if len(tally.robots) < MIN_ROBOTS:
        made.append(f"with {len(tally.robots)} robots only drift is judged; who differs, from {MIN_ROBOTS} on")
    few = [robot for robot in tally.robots if len(tally.logs_of_robot(robot)) < MIN_LOGS]
    if few:
        made.append(f"not judged for fewer than {MIN_LOGS} logs: {', '.join(few[:20])}")
    if not any(_logged_days(tally, robot) >= MIN_DRIFT_DAYS for robot in tally.robots):
        made.append(
            f"drift is not judged: no robot has logs of {MIN_DRIFT_DAYS} days; the field {{date}} of a pattern says when a "
            "log was made, else it is when its file changed"
        )
    if not tally.regressor.zeros:
        made.append("zeros are not watched: joints of this robot depend on one another")
    return made
