"""Validate the joint limits of a file: invalid ones are dropped with a finding, because dynamics needs no limits."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

from mindyn.findings import Kind
from mindyn.robots.parts import Limits
from mindyn.robots.snapping import SNAP_SUMMARIES

LIMIT_SUMMARIES: Final = {Kind.DROPPED_LIMIT: "{count} invalid joint limits were dropped", **SNAP_SUMMARIES}
"""Messages for several findings of a kind; see `summarise`."""


def keep_valid_limits(stated: Mapping[str, float], *, continuous: bool = False) -> tuple[Limits, dict[str, str]]:
    """Return the valid limits, and why the others were dropped, by their keys separated by a space."""
    reasons = {key: "it is not a finite number" for key, value in stated.items() if not isfinite(value)}
    for key in ("velocity", "acceleration", "jerk", "effort"):
        if key in stated and key not in reasons and stated[key] <= 0:
            reasons[key] = "it is negative" if stated[key] < 0 else "it allows no motion"
    ends = [stated[key] for key in ("lower", "upper") if key in stated and key not in reasons]
    if len(ends) == 2 and ends[0] >= ends[1]:
        reasons["lower upper"] = "the lower end is above the upper one" if ends[0] > ends[1] else "it allows no motion"
    dropped = {key for keys in reasons for key in keys.split()}
    valid = {key: value for key, value in stated.items() if key not in dropped}
    return Limits(**valid, continuous=continuous), reasons
