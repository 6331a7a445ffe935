"""`mindyn`: the program that holds the commands, and how it ends when something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from mindyn import __version__
from mindyn.cli.exit_codes import IN_HELP, ExitCode
from mindyn.errors import InputError, MindynError
from mindyn.escaping import printable

COMMANDS: Mapping[str, str] = {
    "demo": "Simulate a PUMA 560, identify it by three estimators, judge, mend and validate it, and write a report.",
    "robots": "List the bundled robots, or show one robot.",
    "base": "The combinations of link parameters that the dynamics depend on.",
    "count": "Multiplications and additions that one evaluation takes.",
    "excite": "Design an exciting motion within a robot's limits; Ctrl-C takes the best so far.",
    "simulate": "Simulate a motion and write what sensors would have logged.",
    "identify": "Identify the dynamic parameters of a robot from its logs.",
    "tests": "Plan Yoshida's simple tests, simulate them, or identify a robot from their logs.",
    "compare": "Compare identification methods on a simulated robot: bias, spread, time, number of tests.",
    "check": "Judge an estimate: possible, consistent, plausible? The exit code is 3 when the answer is no.",
    "payload": "The load that a run carried, from an estimate of the arm without it.",
    "papers": "Tables and figures of the five papers: the paper's number, ours and the difference.",
    "export": "Write a full robot model that has the estimate's dynamics, its code, or its numbers.",
    "report": "Write a report: is the model good, and why. One file that opens from disk and loads nothing.",
    "bench": "Time the main kernels of a robot on this machine.",
    "doctor": "Say what works on this machine and what is missing.",
}
"""Command `x` is the function `x` of mindyn/cli/x.py; its line here is the first line of its docstring."""


class LazyCommands(TyperGroup):
    """Commands that are imported when they are called, so that help and completion of names stay fast."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that `args` begin with, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        if name == "simulate":
            require_file_of_drives(rest)
        return name, None if name is None or command is None else loaded(name), rest


def require_file_of_drives(words: Sequence[str]) -> None:
    """Explains `simulate --drives` without a file, the switch that it once was."""
    for word, after in zip(words, (*words[1:], "-"), strict=True):
        if word == "--drives" and after.startswith("-"):
            raise InputError(
                "--drives takes a file with [[drive]] tables, as in `mindyn identify`; it is no switch: the drives "
                "that the robot's own file states are simulated anyway",
                hint="leave --drives out, or --drives drives.toml; --without-drives leaves friction and rotors out",
            )


def loaded(name: str) -> Any:
    """The command of that name with its options."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, epilog=IN_HELP)(getattr(import_module(f"mindyn.cli.{name}"), name))
    return get_command(alone)


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _name_only() -> None:
    """What stands for a command until it is called."""


for _name, _line in COMMANDS.items():
    app.command(_name, help=_line)(_name_only)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mindyn {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Minimal dynamics of robot arms: from description and logs to a model you can trust, and fast code."""
    del version


def run() -> None:
    """Run a command; an error of ours ends it with a message, a hint and `ExitCode.ERROR`."""
    try:
        app()
    except MindynError as error:
        typer.echo(printable(f"error: {error}", keep="\n"), err=True)
        sys.exit(ExitCode.ERROR)
