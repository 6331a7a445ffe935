"""`mindyn log`: what a log seems to be, the draft of its sidecar, and what is wrong with the sidecar that it has."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from mindyn.cli.arguments import JSON_OPTION, complete_robot, with_robot_options
from mindyn.cli.next_step import format_robot_options, print_next_command
from mindyn.cli.printing import print_findings, print_output, print_status, print_table
from mindyn.errors import InputError
from mindyn.files import write_file_atomically
from mindyn.identification.log_drafts import draft_log
from mindyn.logs.draft import DRAFT_TABLES, DraftLine, SidecarDraft
from mindyn.logs.metadata import find_sidecar, read_sidecar
from mindyn.logs.mounting import apply_logged_mount
from mindyn.logs.reading import CHUNK_ROWS, LogScan, read_log
from mindyn.robots.loading import RobotOptions
from mindyn.robots.robot import Robot


@with_robot_options
def log(
    file: Annotated[Path, typer.Argument(help="A log; with a sidecar file beside it, that is checked.")],
    robot: Annotated[
        str | None,
        typer.Argument(help="Its robot: a bundled name or a file.", autocompletion=complete_robot),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE: a line of the sidecar, as units.torque='N m'. Repeatable.", metavar="KEY=VALUE"),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the draft beside the log; it is used when confirmed.")
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Write the draft as what you state; no ? may be left.")
    ] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
    *,
    options: RobotOptions,
) -> None:
    """Look at a log: what its columns seem to mean, with the evidence, and the draft of its sidecar file."""
    arm = None if robot is None else options.load(robot)
    file = file if file.name else file.absolute()
    beside = find_sidecar(file)
    if isinstance(beside, Path) and not read_sidecar(file).get("draft", False):
        if write or confirm or state:
            raise InputError(
                f"{beside.name} is there already", hint="edit it, or move it away to have another one drafted"
            )
        _check_sidecar(file, beside, arm, as_json)
    else:
        topics = [line.partition("=")[2] for line in state or () if line.startswith("topic=")]
        topic = topics[-1] if topics else read_sidecar(file).get("topic")
        draft = apply_lines(merge_edits(draft_log(file, arm, topic), read_sidecar(file)), state or ())
        typer.echo(json.dumps(_draft_data(draft), indent=1) if as_json else draft.toml(confirmed=confirm), nl=as_json)
        for note in draft.notes:
            print_status(f"note: {note}")
        if not (write or confirm):
            _print_questions(draft, f"nothing was written: --write puts the draft beside {file.name}")
            return
        _write_draft(file, draft, arm, confirm)
    if robot is not None and write and not confirm:
        print_next_command("log", file, robot, *format_robot_options(options), "--confirm")
    elif robot is not None:
        out = file.with_suffix("") if file.suffix else file.with_name(f"{file.name}_run")  # a bag is a folder itself
        print_next_command("identify", robot, file, *format_robot_options(options), "--out", out)


def apply_lines(draft: SidecarDraft, given: Sequence[str]) -> SidecarDraft:
    """The draft with the lines that the user states, KEY=VALUE, the value as in TOML or a bare word; KEY= drops one."""
    for line in given:
        key, mark, text = line.partition("=")
        if not mark or not key.strip():
            raise InputError(
                f"--state {line!r} is not KEY=VALUE", hint="--state units.torque='N m' --state side.torque=joint"
            )
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        draft = draft.without_key(key.strip())
        draft = draft if value == "" else draft.with_line(DraftLine(key.strip(), value, "as you stated"))
    return draft


def merge_edits(draft: SidecarDraft, sidecar: Mapping[str, Any]) -> SidecarDraft:
    """The draft as its user left it in the sidecar file; what says the same as before keeps its evidence."""
    if not sidecar:
        return draft
    lines: dict[str, Any] = {}
    for key, value in sidecar.items():
        if key != "draft":
            entries = value.items() if key in DRAFT_TABLES and isinstance(value, Mapping) else [("", value)]
            lines |= {f"{key}.{entry}" if entry else key: one for entry, one in entries}
    before = {one.key: one for one in draft.lines}
    same = {key: before[key] for key, value in lines.items() if key in before and before[key].value == value}
    made = tuple(same.get(key, DraftLine(key, value, "as you stated")) for key, value in lines.items())
    return SidecarDraft(draft.name, made, draft.notes)


def _write_draft(file: Path, draft: SidecarDraft, arm: Robot | None, confirm: bool) -> None:
    target = file.with_name(file.name + ".toml")
    if confirm and draft.questions:
        raise InputError(
            f"still unknown of {file.name}: {', '.join(draft.questions)}",
            hint=" ".join(f"--state {key}=..." for key in draft.questions),
        )
    if confirm and arm is not None:
        scan = LogScan(file, arm, draft.to_metadata(), CHUNK_ROWS, sidecar={})
        for _ in scan:
            pass  # the whole log is read: what cannot be is refused before anything is written
        print_findings(scan.findings, verbose=True)
    write_file_atomically(target, draft.toml(confirmed=confirm))
    _print_questions(
        draft, f"written: {target}" + ("" if confirm else ", a draft: it is used when you have confirmed it")
    )


def _print_questions(draft: SidecarDraft, ending: str) -> None:
    if draft.questions:
        print_status(f"only you can know: {', '.join(draft.questions)}")
    print_status(ending)


def _check_sidecar(file: Path, sidecar: Path, arm: Robot | None, as_json: bool) -> None:
    """Reads the log as its sidecar says, which names all that is wrong, and shows what came of it."""
    if arm is None:
        raise InputError(f"{sidecar.name} is checked against a robot", hint=f"mindyn log {file} ROBOT")
    found = read_log(file, apply_logged_mount(arm, [file]))
    rate = 1 / float(np.median(np.diff(found.time)))
    rows: list[tuple[str, ...]] = [("joint", "position from", "to", "peak speed", "peak torque")]
    speed = np.gradient(found.q, found.time, axis=0) if found.qd is None else found.qd
    for j, name in enumerate(found.joint_names):
        ends = (found.q[:, j].min(), found.q[:, j].max(), np.abs(speed[:, j]).max(), np.abs(found.tau[:, j]).max())
        rows.append((name, *(f"{value:.4g}" for value in ends)))
    print_findings(found.findings, verbose=True)
    data = {"sidecar": str(sidecar), "rows": len(found), "rate_hz": rate}
    data["findings"] = [finding.to_dict() for finding in found.findings]
    summary = f"{file.name} as {sidecar.name} says: {len(found)} rows, {rate:.5g} Hz, {found.time[-1]:.4g} s"
    if as_json:
        typer.echo(json.dumps(data, indent=1))
        return
    print_output(f"{summary}; rad or m, N m or N")
    print_output()
    print_table(rows, numbers=range(1, 5))


def _draft_data(draft: SidecarDraft) -> Mapping[str, Any]:
    lines = [{"key": one.key, "value": one.value, "evidence": one.evidence} for one in draft.lines]
    return {"log": draft.name, "lines": lines, "questions": list(draft.questions), "notes": list(draft.notes)}
