"""Every row of the 52 capabilities in docs/papers.md: its names exist, its call runs, and its test exists."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mindyn
from mindyn.cli.main import app

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "papers.md").read_text().split("\n## The 52 capabilities\n")[1].split("\n## ")[0]
CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Capability:
    number: int
    names: tuple[str, ...]
    calls: tuple[str, ...]
    test: str


def read_rows() -> list[Capability]:
    rows = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if re.match(r"\| \d", line)]
    return [
        Capability(int(number), tuple(CODE.findall(names)), tuple(CODE.findall(calls)), test.strip("`"))
        for number, _, _, names, calls, test in rows
    ]


ROWS = read_rows()


def is_command(text: str) -> bool:
    return text.startswith("mindyn ")


def find_name(name: str) -> object:
    """Return the value of a public name: `mindyn.x`, `mindyn.package.x` or an attribute of a public class."""
    parts = name.split(".")
    value: object = mindyn
    if parts[1] not in mindyn.__all__:
        value = import_module(".".join(parts[:2]))
        assert parts[2] in value.__all__, f"{name} is not public"
        parts = parts[1:]
    for part in parts[1:]:
        value = getattr(value, part)
    return value


def called_words(call: str) -> set[str]:
    """Return the names and attributes of an expression."""
    nodes = list(ast.walk(ast.parse(call, mode="eval")))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


@cache
def prepared() -> dict[str, object]:
    """Return the variables that the page defines before its table."""
    variables: dict[str, object] = {}
    exec(SECTION.split("```python\n")[1].split("```")[0], variables)
    return variables


def run_command(words: str) -> None:
    done = CliRunner().invoke(app, shlex.split(words)[1:])
    assert done.exit_code == 0, done.output
    assert done.stdout.strip()


def test_the_page_has_all_capabilities():
    assert [row.number for row in ROWS] == list(range(1, 53))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.number))
def test_names_of_a_capability_are_public_and_its_calls_run(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert row.names
    assert row.calls
    assert (ROOT / row.test).is_file()
    names = {name.rsplit(".", 1)[1]: find_name(name) for name in row.names if not is_command(name)}
    expressions = [call for call in row.calls if not is_command(call)]
    used = set().union(*map(called_words, expressions)) if expressions else set()
    assert set(names) <= used, f"no call uses {set(names) - used}"
    commands = [call for call in row.calls if is_command(call)]
    for name in filter(is_command, row.names):
        assert any(command.startswith(name) for command in commands), f"no call uses {name}"
    for call in expressions:
        eval(call, {**prepared(), **names})
    if commands:
        prepared()["estimate"].save(tmp_path / "estimate.json")
    for command in commands:
        run_command(command)
