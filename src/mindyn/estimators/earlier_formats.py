"""Saved estimates of earlier versions.

Formats 1 and 2 held in the provenance what has fields of its own now; up to format 3 the robot had a layout of its own
in place of that of robot files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mindyn.robots.toml_reader import FORMAT as ROBOT_FORMAT

EARLIER_FORMATS: Final = ("mindyn estimate 1", "mindyn estimate 2", "mindyn estimate 3")
_RESIDUALS: Final[Mapping[str, str]] = {
    "energy difference": "mean power",
    "momentum difference": "mean torque",
    "step by step": "mean torque",
    "output error, position": "position",
}
"""What the residuals of some methods are of; of the others, torques."""
_MOVED: Final = ("estimator", "joint_weights", "condition_number", "decimation", "physical", "unconstrained")


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
