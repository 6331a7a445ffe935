"""Files of estimates: the JSON Schema, published beside this file, the check of a file against it, earlier formats.

`estimate.schema.json` is of the draft 2020-12, in the few words that `violations` knows. Numbers must be finite: JSON
has no others, but Python's reader takes NaN and Infinity.

Formats 1 and 2 held in the provenance what has fields of its own now; up to format 3 the robot had a layout of its own
in place of that of robot files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.errors import InputError, shortened
from mindyn.estimators.untold import read_covariance
from mindyn.identifiability.base_sets import base_parameters
from mindyn.kernels.kernel import Kernel
from mindyn.parameters.base import BaseParameters
from mindyn.regression.mlc_columns import lin_columns
from mindyn.robots.description import Selection
from mindyn.robots.robot import Robot
from mindyn.robots.toml_reader import ROBOT_FORMAT as ROBOT_FORMAT
from mindyn.robots.toml_table import robot_of_table, toml_table

_JSON_TYPES: Mapping[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
EARLIER_FORMATS: Final = ("mindyn estimate 1", "mindyn estimate 2", "mindyn estimate 3")
_RESIDUALS: Final[Mapping[str, str]] = {
    "energy difference": "mean power",
    "momentum difference": "mean torque",
    "step by step": "mean torque",
    "output error, position": "position",
}
"""What the residuals of some methods are of; of the others, torques."""
_MOVED: Final = ("estimator", "joint_weights", "condition_number", "decimation", "physical", "unconstrained")


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
    return isinstance(value, _JSON_TYPES[kind])


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
    if (beside := values.get("left_out_ends")) is not None and list(map(len, beside)) != [count] * 2:
        yield f"left_out_ends must be 2 x {count}"
    if (moved := values.get("left_out_shifts")) is not None and {len(row) for row in moved} - {count}:
        yield f"rows of left_out_shifts must have {count} entries"
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


def brought_up(values: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of an earlier format as the present format has it, but for the format's name."""
    fields = dict(values) if values["format"] == "mindyn estimate 3" else _with_fields(values)
    return {**fields, "robot": earlier_robot(values["robot"])}


def earlier_robot(old: Mapping[str, Any]) -> dict[str, Any]:
    """The robot of formats 1 to 3 as `robot_record` gives it; keys that the first did not have are taken as empty."""
    root = {"name": old["root"], "phi": None} if isinstance(old["root"], str) else old["root"]
    names, home = [one["name"] for one in old["joints"]], old.get("home")
    return {
        **{"format": ROBOT_FORMAT, "name": old["name"], "convention": "axes", "angles": "rad", "inertia": "origin"},
        **{"source": old.get("source", ""), "gravity": old["gravity"], "root": root["name"]},
        **({} if home is None else {"home": dict(zip(names, home, strict=True))}),
        "joint": [_joint(one) for one in old["joints"]],
        "link": [_link(one) for one in (root, *old["links"])],
        "drive": old["drives"],
        "loop": [_loop(one) for one in old.get("loops", ())],
        "mimic": old.get("mimics", []),
        "extra": old.get("extras", []),
        "frame": [{"name": one["name"], "link": one["link"], **_pose(one["pose"])} for one in old.get("frames", ())],
        "selection": old.get("selection", {}),
    }


def _pose(old: Mapping[str, Any]) -> dict[str, Any]:
    return {"xyz": old["translation"], "rotation": old["rotation"]}


def _joint(old: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: old[name] for name in ("name", "parent", "child", "axis")},
        "type": old["kind"],
        "origin": _pose(old["origin"]),
        "tip": _pose(old["tip"]),
        "limits": {name: value for name, value in old["limits"].items() if value is not None},
    }


def _link(old: Mapping[str, Any]) -> dict[str, Any]:
    phi = old["phi"]
    known = {} if phi is None else {"mass": phi[0], "first_moment": phi[1:4], "inertia": phi[4:]}
    shapes = [
        {"kind": one["kind"], "dimensions": one["dimensions"], "filename": one["filename"], **_pose(one["pose"])}
        for one in old.get("shapes", ())
    ]
    return {"name": old["name"], **known, "shapes": shapes}


def _loop(old: Mapping[str, Any]) -> dict[str, Any]:
    first, second = ({"link": link, **_pose(pose)} for link, pose in zip(old["links"], old["poses"], strict=True))
    kind = old.get("kind", "pin")
    return {"name": old["name"], "first": first, "second": second, "dependent": old["dependent"], "kind": kind}


def _with_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The content of formats 1 and 2 with fields for what their provenance holds."""
    old = values["provenance"]
    method = str(old.get("estimator", ""))
    bounded, score = old.get("physical"), old.get("cross_validated")
    base = {"form": values["base_form"], "drives": values["drives"], "matrix": None, "survivors": None}
    return {
        **{name: values[name] for name in ("robot", "names", "beta", "covariance", "status", "residuals")},
        **{name: values[name] for name in ("left_out", "untold")},
        "base": {**base, "names": [], "notes": [], **values.get("base", {})},
        "treatment": {
            "conditioning": values["conditioning"],
            "filter_hz": values["filter_hz"],
            "decimation": int(old.get("decimation", 1)),
            "friction": values["friction"],
            "base_form": values["base_form"],
            "drives": "estimated" if values["drives"] else "stated",
        },
        "method": method,
        "residual_of": _RESIDUALS.get(method, "torque"),
        "joint_weights": old.get("joint_weights"),
        "condition_number": old.get("condition_number"),
        "physical": bounded
        and {
            **bounded,
            "unconstrained": old.get("unconstrained", values["beta"]),
            "prior_links": old.get("prior_links", []),
        },
        "mended": "mended" in old,
        "shifts": values.get("shifts"),
        "notes": [{"kind": "note", "sentence": str(one), "details": []} for one in old.get("notes", ())],
        "sources": old.get("sources", []),
        "cross_validated": score and {name: score[name] for name in ("mean", "total", "settings_tried")},
        "provenance": {name: value for name, value in old.items() if name not in _MOVED},
    }


def saved_base(robot: Robot, record: Mapping[str, Any]) -> tuple[BaseParameters, Kernel | None]:
    """The base set as it was saved; files of the first format name its form alone."""
    form, drives = record["form"], record["drives"]
    if form == "lin" and drives == bool(robot.drives):
        return lin_columns(robot)
    if record["matrix"] is None:
        return base_parameters(robot, form, drives=drives), None
    survivors = record["survivors"]
    base = BaseParameters(
        robot,
        form,
        drives,
        np.array(record["matrix"]),
        tuple(record["names"]),
        None if survivors is None else tuple(survivors),
        tuple(record["notes"]),
    )
    return base, None


def robot_record(robot: Robot) -> dict[str, Any]:
    """All of a robot but its notes: the table of a robot file, and what of its source was selected."""
    return {**toml_table(robot), "selection": robot.selection.to_dict()}


def robot_from_record(record: Mapping[str, Any]) -> Robot:
    """The inverse of `robot_record`."""
    robot = robot_of_table({name: value for name, value in record.items() if name != "selection"})
    home = np.array([record["home"][name] for name in robot.joint_names]) if "home" in record else None
    return replace(robot, selection=Selection(**record.get("selection", {})), home=home)
