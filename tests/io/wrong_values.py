"""Values of every wrong type, put in place of every entry of a table that follows a schema."""

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


def places(schema: Mapping[str, Any], way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the way to every entry that a schema names, to the first item of lists and to one entry of free tables."""
    for key, entry in schema.get("properties", {}).items():
        yield (*way, key)
        yield from places(entry, (*way, key))
    if "items" in schema:
        yield (*way, 0)
        yield from places(schema["items"], (*way, 0))
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield (*way, "joint1")
        yield from places(schema["additionalProperties"], (*way, "joint1"))


def put(table: Any, way: tuple[str | int, ...], value: Any) -> Any:
    """Return a copy of the table with a value at the end of the way; containers of another kind make place."""
    if not way:
        return deepcopy(value)
    key, *rest = way
    if isinstance(key, int):
        items = list(table) if isinstance(table, list) else []
        inner = items[key] if key < len(items) else None
        return [*items[:key], put(inner, tuple(rest), value), *items[key + 1 :]]
    entries = dict(table) if isinstance(table, Mapping) else {}
    return entries | {key: put(entries.get(key), tuple(rest), value)}


def wrong_tables(good: Any, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every entry x every wrong value, with a name; each entry left out, and one that nobody knows."""
    for way in places(schema):
        for value in WRONG:
            yield f"{way} = {str(value)[:60]}", put(good, way, value)
    for key in good:
        yield f"without {key}", {name: value for name, value in good.items() if name != key}
    yield "one more", {**good, "nonsense": 5}


def toml_text(table: Mapping[str, Any]) -> str:
    """Return a table as TOML, which has no None: entries and items of None are left out."""
    return "".join(f"{json.dumps(key)} = {_toml(value)}\n" for key, value in table.items() if value is not None)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = (f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value if item is not None) + "]"
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else json.dumps(value)
