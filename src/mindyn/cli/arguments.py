"""Arguments that commands share: what they mean, and how a shell completes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer

from mindyn.robots.loading import SUFFIXES, bundled_robots


def complete_robot(incomplete: str) -> Iterator[str]:
    """Bundled names, robot files and folders that begin with what was typed."""
    yield from (name for name in bundled_robots() if name.startswith(incomplete))
    folder, start = incomplete.rpartition("/")[::2]
    inside = Path(f"{folder}/") if "/" in incomplete else Path()
    lead = incomplete.removesuffix(start) if start else incomplete
    for entry in sorted(inside.iterdir()) if inside.is_dir() else []:
        if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
            if entry.is_dir():
                yield f"{lead}{entry.name}/"
            elif entry.suffix.lower() in SUFFIXES:
                yield f"{lead}{entry.name}"


ROBOT = typer.Argument(help="A bundled name, or a .toml, .urdf or MJCF .xml file.", autocompletion=complete_robot)
"""For `Annotated[str, ROBOT]`."""


def one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """For `autocompletion=`: the names that begin with what was typed."""
    known = list(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


JSON = typer.Option("--json", help="Print JSON.")
"""For `as_json: Annotated[bool, JSON]`."""
