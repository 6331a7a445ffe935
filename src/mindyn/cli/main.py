"""`mindyn`: the program that holds the commands, and how it ends when something is wrong."""

from __future__ import annotations

import sys

import typer

from mindyn import __version__
from mindyn.cli.base import base
from mindyn.cli.count import count
from mindyn.cli.demo import demo
from mindyn.cli.identify import identify
from mindyn.cli.report import report
from mindyn.cli.robots import robots
from mindyn.cli.simulate import simulate
from mindyn.errors import MindynError

app = typer.Typer(
    help="Minimal dynamics of robot arms.", no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False
)
app.command()(demo)
app.command()(robots)
app.command()(base)
app.command()(count)
app.command()(simulate)
app.command()(identify)
app.command()(report)


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
    """Run a command; an error of ours is a message and a hint, not a traceback, and exit code 1."""
    try:
        app()
    except MindynError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
