"""Help as plain text: options in groups of two columns, an example and the exit codes of the command.

Rich is not used, because importing it takes longer than importing NumPy.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import typer

from mindyn.cli.arguments import OUTPUT_PANEL
from mindyn.cli.exit_codes import list_exit_codes
from mindyn.cli.printing import terminal_columns

MAX_COLUMNS: Final = 100
"""Greatest width of the help; longer lines are hard to read."""
MAX_NAME_COLUMNS: Final = 26
"""Greatest width of the column of names; the help of a longer name starts on the next line."""
LAST_GROUPS: Final = ("Robot", OUTPUT_PANEL)
"""Groups that end the help of every command that has them."""
DEFAULT_GROUP: Final = "Options"
_LIST_TYPE: Final = re.compile(r"<list\[(.*)\]>")
_REQUIRED: Final = re.compile(r"\s*\[required\]$")


def is_help_requested(words: Sequence[str]) -> bool:
    """Return whether arguments contain `--help`, before `--`."""
    return "--help" in (words[: words.index("--")] if "--" in words else words)


def format_command_help(name: str, command: Any, context: Any, example: str) -> str:
    """Return the help of a command."""
    parameters = list(command.get_params(context))
    arguments = [p for p in parameters if p.param_type_name == "argument"]
    groups: dict[str, list[tuple[str, str]]] = {}
    if rows := [_describe_argument(p, context) for p in arguments]:
        groups["Arguments"] = rows
    groups[DEFAULT_GROUP] = []
    for parameter in (p for p in parameters if p.param_type_name == "option"):
        group = OUTPUT_PANEL if "--help" in parameter.opts else parameter.rich_help_panel or DEFAULT_GROUP
        record = parameter.get_help_record(context)
        if record is not None:
            groups.setdefault(group, []).append((_LIST_TYPE.sub(r"<\1>", record[0]), record[1]))
    for title in (title for title in LAST_GROUPS if title in groups):
        groups[title] = groups.pop(title)
    words = [_name_argument(p) for p in arguments]
    codes = "; ".join(f"{code.value} {meaning}" for code, meaning in list_exit_codes(name).items())
    width = _help_width()
    return "\n\n".join(
        [
            *_wrap_paragraphs(inspect.cleandoc(command.help or ""), width),
            _head("Usage:") + " ".join(["", context.command_path, "[OPTIONS]", *words]),
            *_format_groups(groups, width),
            textwrap.fill(f"Example: {example}", width, subsequent_indent="  ", break_on_hyphens=False),
            textwrap.fill(f"Exit codes: {codes}.", width, subsequent_indent="  "),
        ]
    )


def format_program_help(
    command: Any, context: Any, groups: Mapping[str, Mapping[str, str]], summaries: Mapping[str, str]
) -> str:
    """Return the help of the program: commands by purpose, each with an example."""
    width = _help_width()
    options = [p.get_help_record(context) for p in command.get_params(context)]
    blocks = [
        *_wrap_paragraphs(inspect.cleandoc(command.help or ""), width),
        _head("Usage:") + f" {context.command_path} [OPTIONS] COMMAND [ARGS]...",
    ]
    indent = " " * (max(map(len, summaries)) + 4)
    for group, examples in groups.items():
        lines = [_head(f"{group}:")]
        for name, example in examples.items():
            filled = textwrap.fill(summaries[name], width - len(indent), break_on_hyphens=False)
            lines.append(f"  {name:<{len(indent) - 2}}" + textwrap.indent(filled, indent).lstrip())
            lines.append(f"{indent}$ {example}")
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, *_format_groups({DEFAULT_GROUP: [row for row in options if row]}, width)])


def _help_width() -> int:
    return min(terminal_columns(sys.stdout) or MAX_COLUMNS, MAX_COLUMNS)


def _head(text: str) -> str:
    return typer.style(text, bold=True)


def _name_argument(parameter: Any) -> str:
    """Return an argument as the usage line names it: ROBOT, [ROBOT], LOGS..."""
    name = parameter.metavar or str(parameter.name).upper()
    name += "..." if parameter.nargs != 1 and not name.endswith("...") else ""
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _describe_argument(parameter: Any, context: Any) -> tuple[str, str]:
    record = parameter.get_help_record(context) or ("", "")
    return _name_argument(parameter), _REQUIRED.sub("", record[1])


def _wrap_paragraphs(text: str, width: int) -> list[str]:
    """Wrap paragraphs, which blank lines separate."""
    return [textwrap.fill(" ".join(part.split()), width) for part in text.split("\n\n") if part.strip()]


def _format_groups(groups: Mapping[str, Iterable[tuple[str, str]]], width: int) -> list[str]:
    """Format each group of names and texts as two columns of equal width in all groups."""
    listed = {title: list(rows) for title, rows in groups.items()}
    lengths = [len(name) for rows in listed.values() for name, _ in rows]
    column = max((length for length in lengths if length <= MAX_NAME_COLUMNS), default=MAX_NAME_COLUMNS) + 4
    blocks = []
    for title, rows in listed.items():
        lines = [_head(f"{title}:")]
        for name, text in rows:
            filled = textwrap.wrap(" ".join(text.split()), width - column, break_on_hyphens=False) or [""]
            if len(name) + 4 > column:
                lines += [f"  {name}", " " * column + filled[0]]
            else:
                lines.append(f"  {name:<{column - 2}}{filled[0]}".rstrip())
            lines += [" " * column + line for line in filled[1:]]
        if rows:
            blocks.append("\n".join(lines))
    return blocks
