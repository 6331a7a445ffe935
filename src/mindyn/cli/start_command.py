"""`mindyn start`: go from a robot file and logs to exported code, asking only for what cannot be determined."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, with_robot_options
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.export_command import FORMAT_WRITERS
from mindyn.cli.log_command import draft_with_sidecar, has_complete_sidecar, load_for_log, name_run, parse_entries
from mindyn.cli.next_step import IS_GUIDED, format_robot_options
from mindyn.cli.printing import print_json, print_output, print_status
from mindyn.cli.runs import load_run_estimate
from mindyn.cli.servo_export import SERVO_FORMATS, find_servo_run
from mindyn.foundation.errors import MindynError, pluralise, require_choice
from mindyn.foundation.escaping import format_toml_value
from mindyn.foundation.hints import Command

if TYPE_CHECKING:
    from mindyn.logs.drafts.draft import DraftLine
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.robot import Robot

EXPORT_SUFFIXES: Final = {
    "mjcf": ".xml",
    "cpp": ".hpp",
    "python": ".py",
    "cuda": ".cu",
    "ros2": "",
}
"""Suffix of the exported file, if it is not the name of the format."""

REPORT_FILE: Final = "report.html"
REQUIRED_ENTRIES: Final = ("columns.position", "columns.torque")


@dataclass(slots=True)
class Guide:
    """Runs commands, which it prints; without a terminal it only prints them.

    answers    answers about earlier logs, by key, which become the defaults for the next log
    commands   the commands so far
    questions  what the sidecars of logs leave open, by log, without a terminal
    """

    context: typer.Context
    asks: bool
    answers: dict[str, Any] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    questions: dict[str, list[str]] = field(default_factory=dict)

    def run(self, *words: object) -> int:
        """Print a command, run it, and return its exit code."""
        self.commands.append(str(Command(*words)))
        print_status(f"\n$ {self.commands[-1]}")
        if not self.asks:
            return ExitCode.DONE
        program: Any = self.context.find_root().command
        name, command, rest = program.resolve_command(self.context, list(map(str, words)))
        held = IS_GUIDED.set(True)
        try:
            return command.main(rest, prog_name=f"mindyn {name}", standalone_mode=False) or ExitCode.DONE
        finally:
            IS_GUIDED.reset(held)

    def ask(self, question: str, label: str, default: str | None = None) -> str:
        """Print a question, and return the answer after a short label; an empty line takes the default."""
        print_status(question)
        try:
            return str(typer.prompt(label, default=default, show_default=bool(default), err=True)).strip()
        except typer.Abort:  # Ctrl-C, or the end of the input
            raise KeyboardInterrupt("the files written so far are kept; start again to continue") from None


@with_robot_options
def start(
    context: typer.Context,
    robot: Annotated[str, ROBOT_ARGUMENT],
    logs: Annotated[list[Path], typer.Argument(help="Logs; with more than one, the last is held out for validation.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run. Default: the name of the first log.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="Format of the export; default: mindyn asks.")] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
    *,
    options: RobotOptions,
) -> None:
    """Go from a robot and its logs to exported code, asking only for what cannot be determined.

    You need a robot file (URDF, MJCF or TOML) and at least one log of its motion: time, joint positions, and torques
    or motor currents. mindyn shows what each column of a log means and asks what the file does not say; then it
    identifies the robot, validates the model on rows that it did not use, and exports it. It prints every command
    that it runs. Without a log, try `mindyn demo`, or design a motion with `mindyn excite`.
    """
    if to is not None:
        require_choice(to, FORMAT_WRITERS, "--to")
    guide = Guide(context, sys.stdin.isatty())
    folder = name_run(logs[0]) if out is None else out
    result: dict[str, Any] = {}
    try:
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            result = _guide_through(guide, robot, logs, folder, to, options)
    finally:
        if as_json and (result or guide.commands):
            print_json({"commands": guide.commands, "questions": guide.questions, "run": str(folder), **result})
    if not result["is_finished"]:
        raise typer.Exit(ExitCode.NO if guide.asks else ExitCode.USAGE)


def _guide_through(
    guide: Guide, robot: str, logs: Sequence[Path], folder: Path, to: str | None, options: RobotOptions
) -> dict[str, Any]:
    """Run all steps; return whether they are finished, and the exported file."""
    from mindyn.identification.feasibility.check_feasible import check_feasible

    arm, options = load_for_log(logs[0], robot, options, {}, {})
    words = format_robot_options(options)
    print_status(f"{arm.name}: {pluralise(arm.joint_count, 'joint')}, {', '.join(arm.primary_names)}")
    for log in logs:
        _describe_log(guide, log, robot, arm, words)
    held_out = ("--validate", logs[-1]) if len(logs) > 1 else ("--hold-out", "0.3")
    if guide.run("identify", robot, *(logs[:-1] or logs), *words, *held_out, "--out", folder) == ExitCode.NO:
        print_status("stopped: correct the errors above, then start again")
        return {"is_finished": False, "exported": None}
    feasible = []
    is_servo = guide.asks and find_servo_run(folder) is not None
    if not is_servo and guide.run("check", folder) == ExitCode.NO:
        feasibility = check_feasible(load_run_estimate(folder))
        if feasibility.has_plausible_projection:
            feasible = ["--feasible"]
        else:
            guide.run("identify", robot, *(logs[:-1] or logs), *words, *held_out, "--consistent", "--out", folder)
    formats = SERVO_FORMATS if is_servo else tuple(FORMAT_WRITERS)
    while to not in formats:
        if to is not None:
            print_status(f"error: {to!r} is not one of the formats")
        default = "mjcf" if is_servo else "c"
        to = guide.ask(f"Formats: {', '.join(formats)}", "Export as", default) if guide.asks else default
    target = folder / f"{arm.name}{EXPORT_SUFFIXES.get(str(to), f'.{to}')}"
    guide.run("export", folder, "--to", to, "--out", target, *feasible)
    if not guide.asks:
        print_status("\nnothing was run: `mindyn start` asks questions and needs a terminal; these are its commands")
    elif (folder / REPORT_FILE).is_file():
        print_status(f"\ndone: {folder / REPORT_FILE} is the report; open it in a browser")
    return {"is_finished": guide.asks, "exported": str(target) if guide.asks else None}


def _describe_log(guide: Guide, log: Path, robot: str, arm: Robot, words: Sequence[str]) -> None:
    """Describe a log in its sidecar, with the user's answers; a complete sidecar is only checked."""
    from mindyn.logs.drafts.draft import UNANSWERED

    if not has_complete_sidecar(log, arm):
        given = (
            _complete_draft(guide, log, arm)
            if guide.asks
            else dict.fromkeys(draft_with_sidecar(log, arm, {}).questions, UNANSWERED)
        )
        if not guide.asks:
            guide.questions[str(log)] = list(given)
        states = [word for key, value in given.items() for word in ("--state", _format_entry(key, value))]
        guide.run("log", log, robot, *words, *states, "--confirm")
    guide.run("log", log, robot, *words)


def _format_entry(key: str, value: Any) -> str:
    return f"{key}={value if isinstance(value, str) else format_toml_value(value)}"


def _complete_draft(guide: Guide, log: Path, arm: Robot) -> Mapping[str, Any]:
    """Ask for what a draft leaves open, and for corrections; return the answers by key."""
    given: dict[str, Any] = {}
    draft = draft_with_sidecar(log, arm, given)
    while True:
        if draft.questions:
            entry = _ask_line(guide, log, next(line for line in draft.lines if line.is_question))
        else:
            print_output(draft.toml(confirmed=True))
            entry = guide.ask("Press Enter if this is right, or correct a line as KEY=VALUE.", "Correction", "")
            if not entry:
                guide.answers |= given
                return given
        try:
            entries = {**given, **parse_entries([entry])}
            draft, given = draft_with_sidecar(log, arm, entries), entries
        except MindynError as error:
            print_status(f"error: {error}")


def _ask_line(guide: Guide, log: Path, line: DraftLine) -> str:
    """Ask for an open line until it is answered; an empty answer omits it, unless every log needs it."""
    known = guide.answers.get(line.key)
    default = "" if known is None else _format_entry(line.key, known).partition("=")[2]
    while True:
        text = guide.ask(f"{log.name}: {line.key} ({line.evidence})", line.key, default)
        if text or line.key not in REQUIRED_ENTRIES:
            return f"{line.key}={text}"
        print_status(f"error: {line.key} is required: name the columns of the file")
