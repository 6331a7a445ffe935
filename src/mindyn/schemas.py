"""Check values that users and files give against a JSON Schema (draft 2020-12), in the few keywords that we use.

type, enum, pattern, minimum, exclusiveMinimum, maximum, minItems, maxItems, items, required, properties,
additionalProperties; `examples` becomes the hint of an error. Numbers must be finite: JSON has no others, but TOML and
Python do. Where infinity means that there is no limit, the further type "infinite" allows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from numbers import Integral, Real
from typing import Any, Final, NamedTuple

from mindyn.errors import InputError, MindynError, list_names, shorten_text, suggest_name

Schema = Mapping[str, Any]
MAX_FINITE_NUMBER: Final = 1e308
ANY_NUMBER: Final[Schema] = {"type": "number"}
POSITIVE_NUMBER: Final[Schema] = {"type": "number", "exclusiveMinimum": 0}
POSITIVE_INTEGER: Final[Schema] = {"type": "integer", "minimum": 1}
ANY_TEXT: Final[Schema] = {"type": "string"}

_TYPES: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "object": ("a table", (Mapping,)),
    "array": ("a list", (Sequence,)),
    "string": ("a text", (str,)),
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
    "minItems": "of {} entries",
    "maxItems": "of {} entries",
}


class Violation(NamedTuple):
    """One value that does not follow its schema: what is wrong, and an example of what is valid."""

    message: str
    hint: str


def list_schema(items: Schema, *also: str, **bounds: int) -> Schema:
    """Return the schema of a list of `items`; `also` names further types, of which a table holds `items` too."""
    return {"type": ["array", *also], "items": items, "additionalProperties": items, **bounds}


def allow_also(schema: Schema, *words: str, null: bool = False) -> Schema:
    """Return the schema of the same values, or one of `words`, or None."""
    types = [*_types_of(schema), *(["string"] if words else []), *(["null"] if null else [])]
    return {**schema, "type": types, **({"pattern": f"^({'|'.join(words)})$"} if words else {})}


def table_schema(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Return the schema of a table with these entries and no others."""
    entries = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": entries, "additionalProperties": False}


def require_valid(value: Any, schema: Schema, what: str, error: type[MindynError] = InputError, hint: str = "") -> None:
    """Raise `error` on the first violation; `what` names the value."""
    for found in find_violations(value, schema, what):
        raise error(found.message, hint=found.hint or hint)


def find_violations(value: Any, schema: Schema, place: str) -> Iterator[Violation]:
    """Yield what of a value does not follow the schema; `place` names the value."""
    hint = next(map(str, schema.get("examples", ())), "")
    if not _matches_schema(value, schema):
        yield Violation(f"{place} = {quote_value(value)} must be {_describe_schema(schema)}", hint and f"like {hint}")
    elif isinstance(value, Mapping):
        entries, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name not in value:
                yield Violation(f"{place} has no entry {name!r}", hint)
        for name, item in value.items():
            if isinstance(wanted := entries.get(name, others), Mapping):
                yield from find_violations(item, wanted, f"{place}.{shorten_text(str(name), 100)}")
            elif not wanted:
                known = suggest_name(name, entries, "")
                yield Violation(f"{place} has no entry {quote_value(name)}; it may have: {list_names(entries)}", known)
    elif isinstance(value, Sequence) and "items" in schema and not isinstance(value, str):
        for k, item in enumerate(value):
            yield from find_violations(item, schema["items"], f"{place}[{k}]")


def quote_value(value: object) -> str:
    """Return a value as a message quotes it: short, whatever it is."""
    try:
        return shorten_text(repr(value), 100)
    except (ValueError, RecursionError):  # an integer of thousands of digits; brackets nested too deep
        return f"one that is too long to show ({type(value).__name__})"


def _types_of(schema: Schema) -> Sequence[str]:
    types = schema.get("type", ())
    return [types] if isinstance(types, str) else types


def _matches_schema(value: Any, schema: Schema) -> bool:
    """Whether a value by itself, without its entries, follows the schema."""
    if "type" in schema and not any(_is_type(value, one) for one in _types_of(schema)):
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
        return f"one of {', '.join(repr(one) for one in schema['enum'] if one is not None)}"
    texts = " or ".join(map(repr, schema["pattern"][2:-2].split("|"))) if "pattern" in schema else _TYPES["string"][0]
    types = [texts if one == "string" else _TYPES[one][0] for one in _types_of(schema) if one != "null"]
    bounds = {text.format(schema[name]): None for name, text in _BOUND_TEXTS.items() if name in schema}
    return f"{' or '.join(types)} {' and '.join(bounds)}".strip()
