"""`mindyn`: the program that holds the commands, and how it ends when something is wrong."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from mindyn import __version__
from mindyn.cli.exit_codes import EXIT_CODES_HELP, ExitCode
from mindyn.cli.printing import print_status, terminal_columns
from mindyn.errors import InputError, MindynError, UnsafeMotionError, shorten_text
from mindyn.escaping import TERMINAL_COLUMNS
from mindyn.interrupts import exit_on_interrupt, reraise_interrupts
from mindyn.reading import ALLOW_OUTSIDE_FILES

COMMANDS: Mapping[str, str] = {
    "demo": "Simulate a PUMA 560, identify it by three estimators, judge, mend and validate it, and write a report.",
    "robots": "List the bundled robots, or show one robot.",
    "base": "The combinations of link parameters that the dynamics depend on.",
    "count": "Multiplications and additions that one evaluation takes.",
    "excite": "Design an exciting motion within a robot's limits; Ctrl-C takes the best so far.",
    "simulate": "Simulate a motion and write what sensors would have logged.",
    "log": "Look at a log: what its columns seem to mean, with the evidence, and the draft of its sidecar file.",
    "identify": "Identify the dynamic parameters of a robot from its logs.",
    "fleet": "Study all logs of many robots of one type: estimates of each, who differs from the type, who drifts.",
    "tests": "Plan Yoshida's simple tests, simulate them, or identify a robot from their logs.",
    "compare": "Compare identification methods on a simulated robot, or with --logs on recorded logs.",
    "check": "Judge an estimate: possible, consistent, plausible? The exit code is 3 when the answer is no.",
    "payload": "The load that a run carried, from an estimate of the arm without it.",
    "contact": "Where an arm was touched in a log: joints, direction and link, from an estimate of the arm.",
    "papers": "Tables and figures of the five papers: the paper's number, ours and the difference.",
    "export": "Write a full robot model that has the estimate's dynamics, its code, or its numbers.",
    "report": "Write a report: is the model good, and why. One file that opens from disk and loads nothing.",
    "bench": "Time the main kernels of a robot on this machine.",
    "doctor": "Say what works on this machine and what is missing.",
}
"""Command `x` is the function `x` of mindyn/cli/x.py; its line here is the first line of its docstring."""

COMMAND_EXAMPLES: Final[Mapping[str, Mapping[str, str]]] = {
    "Start here": {"demo": "demo", "doctor": "doctor"},
    "The robot": {"robots": "robots arm.urdf", "base": "base arm.urdf --drives"},
    "A motion and its log": {
        "excite": "excite arm.urdf --seconds 20 --out motion",
        "simulate": "simulate arm.urdf --motion motion --out run1.csv",
        "log": "log run1.csv arm.urdf --write",
    },
    "The model": {
        "identify": "identify arm.urdf run1.csv --hold-out 0.3 --out run1",
        "check": "check run1",
        "report": "report run1 run2 --validate other.csv",
        "payload": "payload run1 loaded.csv",
        "contact": "contact run1 pushed.csv --free run2.csv",
        "fleet": "fleet arm.urdf 'logs/{robot_id}/*.parquet' --out fleet",
    },
    "Use it": {"export": "export run1 --to urdf --out model.urdf"},
    "Methods": {
        "compare": "compare puma560 --repetitions 20",
        "tests": "tests plan puma560 plan",
        "papers": "papers",
        "count": "count puma560",
        "bench": "bench puma560",
    },
}
"""Commands by what they are for, in the order of the work, with one example each."""
NOTHING_WRITTEN: Final = "nothing was written; what was there before is as it was"
OTHER_PANEL: Final = "More"
"""Where a command stands that `COMMAND_EXAMPLES` leaves out."""


class PlainCommand(TyperCommand):
    """Help in which a switch shows no type: nothing is typed behind it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options."""
        return hide_flag_types(super().get_params(ctx))


def hide_flag_types(params: list[Any]) -> list[Any]:
    """The same, switches with an empty name of their value."""
    for one in params:
        if getattr(one, "is_flag", False) and one.metavar is None:
            one.metavar = ""
    return params


class LazyCommands(TyperGroup):
    """Commands that are imported when they are called, so that help and completion of names stay fast."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options."""
        return hide_flag_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that `args` begin with, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        if name == "simulate":
            require_drives_file(rest)
        return name, None if name is None or command is None else load_command(name), rest


def require_drives_file(words: Sequence[str]) -> None:
    """Explains `simulate --drives` without a file, the switch that it once was."""
    for word, after in zip(words, (*words[1:], "-"), strict=True):
        if word == "--drives" and after.startswith("-"):
            raise InputError(
                "--drives takes a file with [[drive]] tables, as in `mindyn identify`; it is no switch: the drives "
                "that the robot's own file states are simulated anyway",
                hint="leave --drives out, or --drives drives.toml; --without-drives leaves friction and rotors out",
            )


def load_command(name: str) -> Any:
    """The command of that name with its options."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    with exit_on_interrupt():
        module = import_module(f"mindyn.cli.{name}")
    alone.command(name, cls=PlainCommand, epilog=format_epilog(name))(getattr(module, name))
    return get_command(alone)


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _placeholder() -> None:
    """What stands for a command until it is called."""


def find_example(name: str) -> str:
    """A line to type; empty where `COMMAND_EXAMPLES` has none."""
    given = next((group[name] for group in COMMAND_EXAMPLES.values() if name in group), "")
    return f"mindyn {given}" if given else ""


def format_epilog(name: str) -> str:
    """The end of a command's own help."""
    example = find_example(name)
    return f"Example: {example}\n\n{EXIT_CODES_HELP}" if example else EXIT_CODES_HELP


def find_panel(name: str) -> str:
    """The group of commands that a command stands in."""
    return next((panel for panel, group in COMMAND_EXAMPLES.items() if name in group), OTHER_PANEL)


_COMMAND_ORDER = [name for group in COMMAND_EXAMPLES.values() for name in group]
for _name in sorted(
    COMMANDS, key=lambda name: _COMMAND_ORDER.index(name) if name in _COMMAND_ORDER else len(_COMMAND_ORDER)
):
    _example = f"\n$ {find_example(_name)}" if find_example(_name) else ""
    app.command(_name, help=f"\b\n{COMMANDS[_name]}{_example}", rich_help_panel=find_panel(_name))(_placeholder)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mindyn {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    outside_files: bool = typer.Option(
        False, "--outside-files", help="Let sidecar files name files outside of the folder of their log."
    ),
) -> None:
    """Minimal dynamics of robot arms: from description and logs to a model you can trust, and fast code."""
    del version
    ALLOW_OUTSIDE_FILES.set(outside_files)


def run() -> None:
    """Run a command; an error ends it with a message, a hint where we have one, and `ExitCode.ERROR`; Ctrl-C too."""
    held = TERMINAL_COLUMNS.set(terminal_columns(sys.stdout))
    try:
        with reraise_interrupts():
            app()
    except MindynError as error:
        print_status(f"error: {error}")
        sys.exit(ExitCode.NO if isinstance(error, UnsafeMotionError) else ExitCode.ERROR)
    except BrokenPipeError:
        raise
    except OSError as error:  # of the system, where no reader or writer said it in words of its own
        where = "" if error.filename is None else f": {shorten_text(str(error.filename), 200)!r}"
        print_status(f"error: {error.strerror or error}{where}")
        sys.exit(ExitCode.ERROR)
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != ExitCode.INTERRUPTED:
            raise
        _print_interrupted(find_interrupt_message(end))
        sys.exit(ExitCode.INTERRUPTED)
    finally:
        TERMINAL_COLUMNS.reset(held)


def _print_interrupted(kept: str) -> None:
    """One line, also where a second Ctrl-C, or another library's word of the first, comes while it is said."""
    before = signal.getsignal(signal.SIGINT)
    with suppress(KeyboardInterrupt, ValueError):  # ValueError: not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    for _ in range(2):
        with suppress(KeyboardInterrupt):
            print_status(f"interrupted: {kept}")
            break
    with suppress(KeyboardInterrupt, ValueError):
        signal.signal(signal.SIGINT, before)


def find_interrupt_message(end: BaseException) -> str:
    """What a command kept when it was interrupted: the words of the KeyboardInterrupt that it raised, if any."""
    one: BaseException | None = end
    while one is not None and not (isinstance(one, KeyboardInterrupt) and one.args):
        one = one.__context__
    return NOTHING_WRITTEN if one is None else str(one.args[0])
