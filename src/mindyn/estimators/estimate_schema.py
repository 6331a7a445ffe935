"""What a saved estimate must look like: a JSON Schema, published beside this file, and the check of a file against it.

`estimate.schema.json` is of the draft 2020-12, in the few words that `violations` knows. Numbers must be finite: JSON
has no others, but Python's reader takes NaN and Infinity.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from mindyn.errors import InputError, shortened
from mindyn.estimators.untold import read_covariance

_TYPES: Mapping[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of a saved estimate."""
    return json.loads(Path(__file__).with_name("estimate.schema.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def require_valid(values: Mapping[str, Any], path: str) -> None:
    """Refuse content whose types, shapes or names contradict the format or each other."""
    found = next(violations(values, schema(), ""), None) or next(_contradictions(values), None)
    if found is not None:
        raise InputError(
            f"{path} is no sound estimate: {shortened(found, 500)}", hint="was it edited, or cut? identify again"
        )


def violations(value: Any, wanted: Mapping[str, Any], place: str) -> Iterator[str]:
    """What of a value is not as a schema wants it."""
    here = place or "the file"
    stated = wanted.get("type")
    types = [stated] if isinstance(stated, str) else stated
    if types and not any(_is(value, one) for one in types):
        yield f"{here} must be {' or '.join(types)}, got {shortened(repr(value), 100)}"
        return
    if "enum" in wanted and value not in wanted["enum"]:
        yield f"{here} must be one of {', '.join(map(repr, wanted['enum']))}, got {shortened(repr(value), 100)}"
    if "minimum" in wanted and _is(value, "number") and value < wanted["minimum"]:
        yield f"{here} must be at least {wanted['minimum']}, got {value}"
    if isinstance(value, dict):
        for name in wanted.get("required", ()):
            if name not in value:
                yield f"{here} has no entry {name!r}"
        for name, one in wanted.get("properties", {}).items():
            if name in value:
                yield from violations(value[name], one, f"{place}.{name}" if place else name)
    if isinstance(value, list) and "items" in wanted:
        for k, item in enumerate(value):
            yield from violations(item, wanted["items"], f"{here}[{k}]")


def _is(value: Any, kind: str) -> bool:
    if kind in ("number", "integer"):
        plain = isinstance(value, int | float if kind == "number" else int) and not isinstance(value, bool)
        return plain and abs(value) < 1e308 and isfinite(value)
    return isinstance(value, _TYPES[kind])


def _contradictions(values: Mapping[str, Any]) -> Iterator[str]:
    """Where lengths and names do not fit each other."""
    names, joints = values["names"], len(values["residuals"])
    count = len(names)
    if len(values["beta"]) != count:
        yield f"beta has {len(values['beta'])} values for {count} names"
    sizes = {len(row) for row in values["covariance"]}
    if len(values["covariance"]) != count or sizes - {count}:
        yield f"covariance must be {count} x {count}"
        return
    C = read_covariance(values["covariance"])
    if count and (C.diagonal() < 0).any():
        yield f"the variance of {names[int(C.diagonal().argmin())]} is negative"
    if values["shifts"] is not None and {len(row) for row in values["shifts"]} - {count}:
        yield f"rows of shifts must have {count} entries"
    blocks, physical = values.get("block_spread"), values["physical"]
    if blocks is not None and {len(blocks["telling"]), len(blocks["widened"])} != {count}:
        yield f"telling and widened of block_spread must have {count} entries"
    if blocks is not None and min(blocks["widened"], default=1.0) < 1:
        yield "block_spread.widened must be 1 or more"
    if physical is not None and (ends := physical.get("ends")) is not None and list(map(len, ends)) != [count] * 2:
        yield f"physical.ends must be 2 x {count}"
    if values["joint_weights"] is not None and joints and len(values["joint_weights"]) != joints:
        yield f"joint_weights has {len(values['joint_weights'])} entries for {joints} joints"
    for key in ("left_out", "untold"):
        for name in values[key]:
            if name not in names:
                yield f"{key} names {name!r}, which is no parameter"
    if physical is not None and len(physical["labels"]) != len(physical["values"]):
        yield "physical has not as many labels as values"
    if physical is not None and len(physical["unconstrained"]) != count:
        yield f"physical.unconstrained must have {count} entries"
