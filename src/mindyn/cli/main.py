"""`mindyn`: the program with its commands, error messages and exit codes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from mindyn import __version__
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.help_page import format_command_help, format_program_help, is_help_requested
from mindyn.cli.plain_values import convert_params_plainly
from mindyn.cli.printing import NOTHING_WRITTEN, print_json, print_status, terminal_columns
from mindyn.foundation.errors import Code, ImplausibleModelError, MindynError, UnsafeMotionError, shorten_text
from mindyn.foundation.escaping import TERMINAL_COLUMNS
from mindyn.foundation.interrupts import exit_on_interrupt, reraise_interrupts
from mindyn.foundation.safe_reading import ALLOW_OUTSIDE_FILES

COMMANDS: Mapping[str, str] = {
    "start": "Go from a robot and its logs to exported code, asking only for what cannot be determined.",
    "demo": "Simulate a PUMA 560, identify it with three estimators, check and validate it, and write a report.",
    "robots": "List the bundled robots, or show one robot.",
    "base": "Print the base parameters: the combinations of link parameters that the dynamics depend on.",
    "count": "Count the multiplications and additions of one evaluation of the dynamics.",
    "excite": "Design an exciting motion within a robot's limits; Ctrl-C keeps the best motion so far.",
    "simulate": "Simulate a motion and write the log of its sensors.",
    "view": "Show a robot in space, alone, with a motion, or with a log and the torque of a model, on one page.",
    "log": "Inspect a log: the likely meaning of its columns with evidence, and a draft of its sidecar file.",
    "identify": "Identify the dynamic parameters of a robot from its logs.",
    "fleet": "Identify many robots of one type from all their logs, and find robots that differ or drift.",
    "step-by-step": "Plan Yoshida's simple tests, simulate them, or identify a robot from their logs.",
    "compare": "Compare identification methods on a simulated robot, or with --logs on recorded logs.",
    "check": "Check whether an estimate or a robot file is physically consistent; the exit code is 3 if it is not.",
    "payload": "Identify the payload in a log, from an estimate of the arm without payload or a force/torque sensor.",
    "elasticity": "Estimate stiffness and damping of elastic joints from logs with positions of motors and links.",
    "contact": "Detect contacts in a log from an estimate of the arm: time, link, joints and direction.",
    "papers": "Reproduce tables of five papers: published value, our value and the difference; draw their figures.",
    "export": "Write an estimate as a robot (URDF, MJCF, TOML), actuators or code (C, C++, Python, CUDA, ROS 2).",
    "report": "Write a report about the quality of an estimate, as a single self-contained HTML file.",
    "doctor": "Check what works on this machine and what is missing.",
}
"""Help of each command, which is the first line of the docstring of its function (see `load_function`)."""

COMMAND_EXAMPLES: Final[Mapping[str, Mapping[str, str]]] = {
    "Get started": {"start": "start arm.urdf run1.csv run2.csv", "demo": "demo", "doctor": "doctor"},
    "Robot": {"robots": "robots arm.urdf", "base": "base arm.urdf --drives"},
    "Motions and logs": {
        "excite": "excite arm.urdf --seconds 20 --out motion",
        "simulate": "simulate arm.urdf --motion motion --out run1.csv",
        "view": "view arm.urdf motion",
        "log": "log run1.csv arm.urdf --confirm",
    },
    "Identification": {
        "identify": "identify arm.urdf run1.csv --hold-out 0.3 --out run1",
        "check": "check run1",
        "report": "report run1 run2 --validate other.csv",
        "payload": "payload run1 loaded.csv",
        "elasticity": "elasticity run1 run1.csv --validate run2.csv --save",
        "contact": "contact run1 pushed.csv --free run2.csv",
        "fleet": "fleet arm.urdf '{robot_id}/*.parquet' --out fleet",
    },
    "Export": {"export": "export run1 --to urdf --out model.urdf"},
    "Methods": {
        "compare": "compare --logs my-logs --out compared.html",
        "step-by-step": "step-by-step plan puma560 plan",
        "papers": "papers",
        "count": "count puma560",
    },
}
"""Commands by purpose, in the order of a workflow, with an example of each."""
REFUSALS: Final = (ImplausibleModelError, UnsafeMotionError)
"""Errors that answer a question with no (`ExitCode.NO`)."""

HELP_WITHOUT_ARGUMENTS: Final = ("start",)
"""Commands that explain themselves if they are called without arguments."""


class PlainCommand(TyperCommand):
    """A command whose help needs neither NumPy nor Rich."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with exit_on_interrupt():
            import numpy  # noqa: F401 -- every command needs it, and Ctrl-C can be lost inside of an import
        return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help if it is requested, before options are converted; otherwise parse the arguments."""
        if is_help_requested(args):
            typer.echo(self.get_help(ctx))
            ctx.exit()
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        """Return the help."""
        name = str(self.name)
        return format_command_help(name, self, ctx, _EXAMPLES[name])

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options."""
        return adapt_params(super().get_params(ctx))


def adapt_params(params: list[Any]) -> list[Any]:
    """Hide the value type of flags in the help, and convert plain values without pydantic."""
    convert_params_plainly(params)
    for parameter in params:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return params


class LazyCommands(TyperGroup):
    """Commands that are imported when they run, so that help and completion stay fast."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help of the program or of a command if it is requested; otherwise parse the arguments."""
        if args and args[0] in COMMANDS and is_help_requested(args):
            load_command(args[0]).make_context(args[0], args[1:], parent=ctx)  # prints it and ends the program
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        """Return the help of the program."""
        return format_program_help(self, ctx, _EXAMPLES_BY_PANEL, COMMANDS)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options."""
        return adapt_params(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import and return the command with which `args` start."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if name is None or command is None else load_command(name), rest


def load_function(command: str) -> Callable[..., None]:
    """Import the function of a command: `x_y` of mindyn/cli/x_y_command.py for `x-y`."""
    name = command.replace("-", "_")
    function: Callable[..., None] = getattr(import_module(f"mindyn.cli.{name}_command"), name)
    return function


def load_command(name: str) -> Any:
    """Import a command and return it with its options."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    with exit_on_interrupt():
        function = load_function(name)
    alone.command(name, cls=PlainCommand, no_args_is_help=name in HELP_WITHOUT_ARGUMENTS)(function)
    return get_command(alone)


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _placeholder() -> None:
    """Stand in for a command until it is imported."""


_EXAMPLES_BY_PANEL: Final = {
    panel: {name: f"mindyn {line}" for name, line in group.items()} for panel, group in COMMAND_EXAMPLES.items()
}
_EXAMPLES: Final = {name: line for group in _EXAMPLES_BY_PANEL.values() for name, line in group.items()}
for _name in _EXAMPLES:
    app.command(_name, help=COMMANDS[_name])(_placeholder)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mindyn {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    outside_files: bool = typer.Option(
        False, "--outside-files", help="Allow sidecar files to refer to files outside the folder of their log."
    ),
) -> None:
    """Identify the dynamics of robot arms from motion logs, and export models for simulation and control."""
    del version
    ALLOW_OUTSIDE_FILES.set(outside_files)


def run() -> None:
    """Run a command; errors and Ctrl-C end it with a message and an exit code."""
    held = TERMINAL_COLUMNS.set(terminal_columns(sys.stdout))
    try:
        with reraise_interrupts():
            app()
    except MindynError as error:
        print_status(f"error: {error}")
        _print_json_error(error.to_dict())
        sys.exit(ExitCode.NO if isinstance(error, REFUSALS) else ExitCode.ERROR)
    except BrokenPipeError:
        raise
    except OSError as error:  # a system error that no reader or writer explained
        where = "" if error.filename is None else f": {shorten_text(str(error.filename), 200)!r}"
        print_status(f"error: {error.strerror or error}{where}")
        _print_json_error({"message": f"{error.strerror or error}{where}", "code": str(Code.UNREADABLE)})
        sys.exit(ExitCode.ERROR)
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != ExitCode.INTERRUPTED:
            raise
        _print_interrupted(find_interrupt_message(end))
        sys.exit(ExitCode.INTERRUPTED)
    finally:
        TERMINAL_COLUMNS.reset(held)


def _print_json_error(error: Mapping[str, Any]) -> None:
    """Print an error as JSON on stdout if the command was asked for JSON."""
    if "--json" in sys.argv:
        print_json({"error": error})


def _print_interrupted(kept: str) -> None:
    """Print one line, even if Ctrl-C is pressed again or another library reports it meanwhile."""
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
    """Return the message of the KeyboardInterrupt that the command raised, if it has one."""
    error: BaseException | None = end
    while error is not None and not (isinstance(error, KeyboardInterrupt) and error.args):
        error = error.__context__
    return NOTHING_WRITTEN if error is None else str(error.args[0])
