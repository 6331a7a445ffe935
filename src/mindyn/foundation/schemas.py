"""Check values from users and files against a JSON Schema (draft 2020-12), using a subset of its keywords.

type, enum, pattern, minimum, exclusiveMinimum, maximum, minItems, maxItems, items, required, properties,
additionalProperties; `examples` becomes the hint of an error. Numbers must be finite: TOML and Python have infinity and
NaN, JSON does not. The additional type "infinite" allows infinity for values such as limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from numbers import Integral, Real
from typing import Any, Final, NamedTuple

from mindyn.foundation.errors import Code, InputError, MindynError, list_names, shorten_text, suggest_name

Schema = Mapping[str, Any]
MAX_FINITE_NUMBER: Final = 1e308
ANY_NUMBER: Final[Schema] = {"type": "number"}
POSITIVE_NUMBER: Final[Schema] = {"type": "number", "exclusiveMinimum": 0}
POSITIVE_INTEGER: Final[Schema] = {"type": "integer", "minimum": 1}
ANY_TEXT: Final[Schema] = {"type": "string"}

_TYPES: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "object": ("a table", (Mapping,)),
    "array": ("a list", (Sequence,)),
    "string": ("a string", (str,)),
    "boolean": ("true or false", (bool,)),
    "null": ("nothing", (type(None),)),
    "number": ("a finite number", (Real,)),
    "integer": ("a whole number", (Integral,)),
    "infinite": ("infinite", (float,)),
}
_BOUND_TEXTS: Final = {
    "exclusiveMinimum": "above {}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "with {} entries",
    "maxItems": "with {} entries",
}


class Violation(NamedTuple):
    """Message about a value that does not match its schema, with an example of a valid value."""

    message: str
    hint: str
    code: Code
    subject: str


def list_schema(items: Schema, *also: str, **bounds: int) -> Schema:
    """Return the schema of a list of `items`.

    `also` names further types that are allowed, such as a table of `items`.
    """
    return {"type": ["array", *also], "items": items, "additionalProperties": items, **bounds}


def allow_also(schema: Schema, *words: str, null: bool = False) -> Schema:
    """Return the schema extended by the texts `words` or, with `null`, by None."""
    types = [*_types_of(schema), *(["string"] if words else []), *(["null"] if null else [])]
    return {**schema, "type": types, **({"pattern": f"^({'|'.join(words)})$"} if words else {})}


def table_schema(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Return the schema of a table with exactly these entries."""
    entries = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": entries, "additionalProperties": False}


def require_valid(value: Any, schema: Schema, what: str, error: type[MindynError] = InputError, hint: str = "") -> None:
    """Raise `error` for the first violation; `what` names the value."""
    _raise_first(find_violations(value, schema, what), error, hint)


def require_valid_file(
    content: Any, schema: Schema, file: str, error: type[MindynError] = InputError, hint: str = ""
) -> None:
    """Raise `error` for the first violation in the content of a file: `limits.toml: velocity.joint1 = ...`."""
    _raise_first(find_violations(content, schema, file, ": "), error, hint)


def _raise_first(violations: Iterator[Violation], error: type[MindynError], hint: str) -> None:
    for violation in violations:
        raise error(violation.message, hint=violation.hint or hint, code=violation.code, subject=violation.subject)


def find_violations(value: Any, schema: Schema, place: str, separator: str = ".") -> Iterator[Violation]:
    """Yield each violation of the schema in a value; `place` names the value, and `place + separator` its entries."""
    hint = next(map(str, schema.get("examples", ())), "")
    if not _matches_without_entries(value, schema):
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        shown = schema if is_number else {k: v for k, v in schema.items() if k not in ("minimum", "maximum")}
        message = f"{place} = {quote_value(value)} must be {_describe_schema(shown)}"
        yield Violation(message, hint and f"for example {hint}", Code.INVALID_VALUE, place)
    elif isinstance(value, Mapping):
        entries, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, item in value.items():
            if isinstance(item_schema := entries.get(name, others), Mapping):
                yield from find_violations(item, item_schema, f"{place}{separator}{shorten_text(str(name), 100)}")
            elif not item_schema:
                message = f"{place} has an unknown entry {quote_value(name)}; valid: {list_names(entries)}"
                yield Violation(message, suggest_name(name, entries, ""), Code.UNKNOWN_NAME, str(name))
        for name in schema.get("required", ()):  # after unknown names, which are often misspelt required ones
            if name not in value:
                yield Violation(f"{place} has no entry {name!r}", hint, Code.MISSING_VALUE, name)
    elif isinstance(value, Sequence) and "items" in schema and not isinstance(value, str):
        for k, item in enumerate(value):
            name = item.get("name", item.get("joint")) if isinstance(item, Mapping) else None
            yield from find_violations(item, schema["items"], f"{place}[{k if name is None else quote_value(name)}]")


def quote_value(value: object) -> str:
    """Return a short text of any value for a message."""
    try:
        return shorten_text(repr(value), 100)
    except (ValueError, RecursionError):  # an integer of thousands of digits; brackets nested too deeply
        return f"a value of type {type(value).__name__} that is too long to show"


def _types_of(schema: Schema) -> Sequence[str]:
    types = schema.get("type", ())
    return [types] if isinstance(types, str) else types


def _matches_without_entries(value: Any, schema: Schema) -> bool:
    """Return whether a value matches the schema, without a check of the entries of a list or table."""
    if "type" in schema and not any(_is_type(value, kind) for kind in _types_of(schema)):
        return False
    if "enum" in schema:
        return value in schema["enum"]
    if isinstance(value, str):
        return "pattern" not in schema or re.search(schema["pattern"], value) is not None
    if _is_type(value, "number"):
        above = value > schema.get("exclusiveMinimum", -MAX_FINITE_NUMBER)
        return bool(above and schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, Sequence):
        return bool(schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)))
    return True


def _is_type(value: Any, kind: str) -> bool:
    if not isinstance(value, _TYPES[kind][1]) or (isinstance(value, str | bool) and kind not in ("string", "boolean")):
        return False
    size: Any = abs(value) if kind in ("number", "integer", "infinite") else 0  # type: ignore[arg-type] # a number then
    return bool(size == inf if kind == "infinite" else size < MAX_FINITE_NUMBER)


def _describe_schema(schema: Schema) -> str:
    if "enum" in schema:
        return f"one of {', '.join(repr(choice) for choice in schema['enum'] if choice is not None)}"
    texts = " or ".join(map(repr, schema["pattern"][2:-2].split("|"))) if "pattern" in schema else _TYPES["string"][0]
    types = [texts if kind == "string" else _TYPES[kind][0] for kind in _types_of(schema) if kind != "null"]
    bounds = {text.format(f"{schema[name]:g}"): None for name, text in _BOUND_TEXTS.items() if name in schema}
    return f"{' or '.join(types)} {' and '.join(bounds)}".strip()
