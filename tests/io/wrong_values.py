"""Replace every entry of a table that matches a schema by values of every wrong type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

WRONG: tuple[Any, ...] = (
    *(None, True, 5, -1, 0, 1e400, float("nan"), 10**30, 10**400, -(2**63), 1e-320, 1e300, 2**53),
    *("", "text", "?", "{", "\0", "../..", "é" * 300),
    *([], [[]], [None], [5], [-1, -2], ["x"], ["x", "x"], [1e400, 1], [[1, 2], 3], [{}], [[[1.0]]]),
    *({}, {"": 5}, {"joint1": None}, {"joint1": {}}, {"x": {"y": [{}]}}),
)


def find_paths(schema: Mapping[str, Any], path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every entry that a schema names, the first item of lists and an entry of free tables."""
    for key, entry in schema.get("properties", {}).items():
        yield (*path, key)
        yield from find_paths(entry, (*path, key))
    if "items" in schema:
        yield (*path, 0)
        yield from find_paths(schema["items"], (*path, 0))
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield (*path, "joint1")
        yield from find_paths(schema["additionalProperties"], (*path, "joint1"))


def replace_entry(table: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """Return a copy of the table with a value at a path, replacing containers of another kind."""
    if not path:
        return deepcopy(value)
    key, *rest = path
    if isinstance(key, int):
        items = list(table) if isinstance(table, list) else []
        inner = items[key] if key < len(items) else None
        return [*items[:key], replace_entry(inner, tuple(rest), value), *items[key + 1 :]]
    entries = dict(table) if isinstance(table, Mapping) else {}
    return entries | {key: replace_entry(entries.get(key), tuple(rest), value)}


def wrong_tables(good: Any, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield named tables: every wrong value for every entry, each entry removed, and an unknown entry added."""
    for path in find_paths(schema):
        for value in WRONG:
            yield f"{path} = {str(value)[:60]}", replace_entry(good, path, value)
    for key in good:
        yield f"without {key}", {name: value for name, value in good.items() if name != key}
    yield "one more", {**good, "nonsense": 5}


def toml_text(table: Mapping[str, Any]) -> str:
    """Return a table as TOML, which has no None: entries and items that are None are dropped."""
    return "".join(f"{json.dumps(key)} = {_toml(value)}\n" for key, value in table.items() if value is not None)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = (f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value if item is not None) + "]"
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else json.dumps(value)
