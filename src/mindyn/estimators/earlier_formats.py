"""Saved estimates of earlier versions, whose provenance held what has fields of its own now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

EARLIER_FORMATS: Final = ("mindyn estimate 1", "mindyn estimate 2")
_RESIDUALS: Final[Mapping[str, str]] = {
    "energy difference": "mean power",
    "momentum difference": "mean torque",
    "step by step": "mean torque",
    "output error, position": "position",
}
"""What the residuals of some methods are of; of the others, torques."""
_MOVED: Final = ("estimator", "joint_weights", "condition_number", "decimation", "physical", "unconstrained")


def brought_up(values: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of formats 1 and 2 as the present format has it."""
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
