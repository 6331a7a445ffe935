"""`mindyn log`: inspect a log, draft its sidecar file, or check an existing one."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mindyn.cli.arguments import (
    JSON_OPTION,
    assignment_error,
    hold_unlogged_gripper,
    suggest_robots,
    with_robot_options,
)
from mindyn.cli.next_step import format_robot_options, print_next_command
from mindyn.cli.printing import print_findings, print_json, print_notes, print_output, print_status, print_table
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.foundation.hints import Command
from mindyn.foundation.safe_reading import require_file
from mindyn.logs.locations import FileLocation
from mindyn.logs.log_errors import NO_TORQUE_HINT, LogError

if TYPE_CHECKING:
    from mindyn.logs.drafts.draft import SidecarDraft
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.robot import Robot


@with_robot_options
def log(
    file: Annotated[Path, typer.Argument(help="Log; if it has a sidecar file, the sidecar is checked.")],
    robot: Annotated[
        str | None, typer.Argument(help="Robot of the log: bundled name or file.", autocompletion=suggest_robots)
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Set an entry of the sidecar, such as units.torque='N m'. Repeatable.", metavar="KEY=VALUE"),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the draft next to the log; it is used once you confirm it.")
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Confirm the draft and write it; no ? may be left.")
    ] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
    *,
    options: RobotOptions,
) -> None:
    """Inspect a log: the likely meaning of its columns with evidence, and a draft of its sidecar file."""
    from mindyn.logs.metadata import find_sidecar

    file = file if file.name else file.absolute()
    if not file.is_dir():
        require_file(file, "log", LogError)  # before the readers are imported
    sidecar, given = find_sidecar(file), parse_entries(state or ())
    drafts: dict[tuple[str, ...], SidecarDraft] = {}
    arm = None
    if robot is not None:
        arm, options = load_for_log(file, robot, options, given, drafts)
    if isinstance(sidecar, Path) and has_complete_sidecar(file, arm):
        if write or state:
            raise InputError(
                f"{sidecar.name} already exists",
                hint="edit it, or move it away to create a new draft",
                code=Code.DUPLICATE,
                subject=sidecar.name,
            )
        _check_sidecar(file, sidecar, arm, as_json)
    else:
        known = None if arm is None else drafts.get(arm.joint_names)
        draft = draft_with_sidecar(file, arm, given) if known is None else known
        if as_json:
            print_json(_draft_data(draft))
        elif not confirm:
            typer.echo(draft.toml(), nl=False)
        if as_json or confirm or not sys.stdout.isatty():  # the printed draft contains them
            print_notes(draft.notes)
        if not (write or confirm):
            option = (
                "--write writes the draft" if draft.questions or arm is None else "--confirm writes it as the sidecar"
            )
            _print_questions(draft, f"nothing was written: {option} next to {file.name}")
            return
        _write_draft(file, draft, arm, confirm)
    if robot is not None and write and not confirm:
        print_next_command("log", file, robot, *format_robot_options(options), "--confirm")
    elif robot is not None:
        words = (*format_robot_options(options), "--hold-out", "0.3", "--out", name_run(file))
        print_next_command("identify", robot, file, *words)


def name_run(log: Path) -> Path:
    """Return the folder for the run of a log: its name without suffix, with `_run` if the log has that name itself."""
    return log.with_suffix("") if log.suffix and not log.is_dir() else log.with_name(f"{log.name}_run")


def parse_entries(lines: Sequence[str]) -> dict[str, Any]:
    """Return the entries KEY=VALUE of the user; values are TOML or bare words, and KEY= removes an entry."""
    from mindyn.logs.drafts.draft import flatten_metadata

    entries: dict[str, Any] = {}
    for line in lines:
        key, mark, text = line.partition("=")
        if not mark or not key.strip():
            example = "--state units.torque='N m' --state side.torque=joint"
            raise assignment_error("--state", "KEY=VALUE", line, example)
        entries |= flatten_metadata({key.strip(): _parse_value(text)})
    return entries


_NUMBERS: Final = re.compile(r"[-+.\deE]+([,\s]+[-+.\deE]+)+")


def _parse_value(text: str) -> Any:
    """Return a TOML value, or bare words; numbers between commas or spaces are a list, with and without brackets."""
    text = text.strip()
    listed = f"[{', '.join(text.replace(',', ' ').split())}]" if _NUMBERS.fullmatch(text) else text
    try:
        return tomllib.loads(f"value = {listed}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def draft_with_sidecar(file: Path, arm: Robot | None, given: Mapping[str, Any]) -> SidecarDraft:
    """Draft a log with the entries of the user and of its sidecar; unchanged lines of a draft keep their evidence."""
    from mindyn.identification.log_drafts import draft_log
    from mindyn.logs.drafts.draft import flatten_metadata
    from mindyn.logs.metadata import read_sidecar

    written = read_sidecar(file)
    entries = flatten_metadata(written)
    layout = {key: value for key, value in entries.items() if key in _LAYOUT or key.startswith("columns.")}
    fresh = draft_log(file, arm, layout)
    changed = dict(given)
    draft = draft_log(file, arm, layout | changed) if given else fresh
    while edited := {key: value for key, value in entries.items() if key not in changed and draft.value(key) != value}:
        changed |= edited  # what a person states can change what is guessed of the rest
        draft = draft_log(file, arm, layout | changed)
    kept = {*flatten_metadata(written, asked=True), *given}
    removed = [key for key, value in given.items() if value == ""]
    if written.get("draft", False):  # a person may have deleted lines
        removed += [line.key for line in fresh.lines if line.key not in kept]
    for key in removed:
        draft = draft.without_key(key)
    return draft


_LAYOUT: Final = ("topic", "separator", "decimal", "skip_rows")
"""Entries without which some files cannot be read."""


def load_for_log(
    file: Path,
    source: str,
    options: RobotOptions,
    given: Mapping[str, Any],
    drafts: dict[tuple[str, ...], SidecarDraft],
) -> tuple[Robot, RobotOptions]:
    """Return the robot of a log and its options; its gripper is held if the log has no columns for it.

    drafts  gets the draft for the joints of the robot, if the log has no sidecar
    """
    from mindyn.logs.metadata import find_sidecar

    is_described = isinstance(find_sidecar(file), Path) and has_complete_sidecar(file, None)

    def fits(candidate: Robot) -> bool:
        if is_described:
            return has_columns(file, candidate)
        with suppress(LogError):
            drafts[candidate.joint_names] = draft_with_sidecar(file, candidate, given)
        return candidate.joint_names in drafts

    return hold_unlogged_gripper(options.load(source), options, lambda changed: changed.load(source), fits)


def has_columns(file: Path | FileLocation, arm: Robot) -> bool:
    """Return whether a described log has columns for all joints; other errors of the log are left to its reader."""
    from mindyn.logs.read_log import CHUNK_ROWS, LogScan

    try:
        LogScan(file, arm, {}, CHUNK_ROWS)
    except LogError as error:
        return error.code not in (Code.UNKNOWN_NAME, Code.WRONG_SHAPE, Code.DISAGREEMENT)
    return True


def has_complete_sidecar(file: Path, arm: Robot | None) -> bool:
    """Return whether a log has a confirmed sidecar with all entries; without a robot, entries are not checked."""
    from mindyn.logs.metadata import find_sidecar, read_sidecar
    from mindyn.logs.read_log import CHUNK_ROWS, LogScan

    if find_sidecar(file) is None or read_sidecar(file).get("draft", False):
        return False
    try:
        if arm is not None:
            LogScan(file, arm, {}, CHUNK_ROWS)
    except LogError as error:
        return error.code is not Code.MISSING_VALUE
    return True


def _write_draft(file: Path, draft: SidecarDraft, arm: Robot | None, confirm: bool) -> None:
    from mindyn.logs.read_log import CHUNK_ROWS, LogScan

    target = file.with_name(file.name + ".toml")
    if confirm and draft.questions:
        raise InputError(
            f"unknown entries of {file.name}: {', '.join(draft.questions)}",
            hint=" ".join(f"--state {key}=..." for key in draft.questions)
            + (f"; {NO_TORQUE_HINT}" if "columns.torque" in draft.questions else ""),
            code=Code.MISSING_VALUE,
            subject=draft.questions[0],
        )
    if confirm and arm is not None:
        scan = LogScan(file, arm, draft.to_metadata(), CHUNK_ROWS, sidecar={})
        has_torque = False
        for chunk in scan:  # read the whole log, so that errors are raised before anything is written
            has_torque = has_torque or bool(chunk.tau.any())
        print_findings((*scan.findings, *_find_missing_torque(has_torque)), verbose=True)
    write_file_atomically(target, draft.toml(confirmed=confirm))
    _print_questions(draft, f"wrote {target}" + ("" if confirm else ", a draft that is used once you confirm it"))


def _find_missing_torque(has_torque: bool) -> list[Finding]:
    return [] if has_torque else [warning(Kind.CONSTANT_TORQUE, "no torque: it is zero in every row", NO_TORQUE_HINT)]


def _print_questions(draft: SidecarDraft, ending: str) -> None:
    if draft.questions:
        print_status(f"please provide: {', '.join(draft.questions)}")
    print_status(ending)


def _check_sidecar(file: Path, sidecar: Path, arm: Robot | None, as_json: bool) -> None:
    """Read the log with its sidecar, which raises for wrong entries, and print ranges of the signals."""
    import numpy as np

    from mindyn.logs.read_log import read_log

    if arm is None:
        raise InputError(
            f"checking {sidecar.name} needs a robot",
            command=Command("log", file, "ROBOT"),
            code=Code.MISSING_VALUE,
            subject="robot",
        )
    log = read_log(file, arm)
    rate = 1 / float(np.median(np.diff(log.time)))
    rows: list[tuple[str, ...]] = [("joint", "position from", "to", "peak speed", "peak torque")]
    speed = np.gradient(log.q, log.time, axis=0) if log.qd is None else log.qd
    for j, name in enumerate(log.joint_names):
        ends = (log.q[:, j].min(), log.q[:, j].max(), np.abs(speed[:, j]).max(), np.abs(log.tau[:, j]).max())
        rows.append((name, *(f"{value:.4g}" for value in ends)))
    print_findings((*log.findings, *_find_missing_torque(bool(log.tau.any()))), verbose=True)
    data = {"sidecar": str(sidecar), "rows": len(log), "rate_hz": rate}
    data["findings"] = [finding.to_dict() for finding in log.findings]
    summary = f"{file.name} with {sidecar.name}: {len(log)} rows, {rate:.5g} Hz, {log.duration_s:.4g} s"
    if as_json:
        print_json(data)
        return
    print_output(f"{summary}; rad or m, N m or N")
    print_output()
    print_table(rows)


def _draft_data(draft: SidecarDraft) -> Mapping[str, Any]:
    lines = [{"key": line.key, "value": line.value, "evidence": line.evidence} for line in draft.lines]
    return {"log": draft.name, "lines": lines, "questions": list(draft.questions), "notes": list(draft.notes)}
