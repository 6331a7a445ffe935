"""Limits as files state them: what makes no sense is dropped and said, since dynamics need no limits."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final

from mindyn.findings import Kind
from mindyn.robots.parts import Limits
from mindyn.robots.snapping import SNAP_SUMMARIES

LIMIT_SUMMARIES: Final = {Kind.DROPPED_LIMIT: "{count} joint limits make no sense and were dropped", **SNAP_SUMMARIES}
"""Messages for several findings of a kind; see `summarise`."""


def keep_valid_limits(stated: Mapping[str, float], *, continuous: bool = False) -> tuple[Limits, dict[str, str]]:
    """The limits that make sense, and for the others (keys separated by a blank) why they do not."""
    doubts = {key: "it is not a finite number" for key, value in stated.items() if not isfinite(value)}
    for key in ("velocity", "acceleration", "jerk", "effort"):
        if key in stated and key not in doubts and stated[key] <= 0:
            doubts[key] = "it is negative" if stated[key] < 0 else "it leaves no motion"
    ends = [stated[key] for key in ("lower", "upper") if key in stated and key not in doubts]
    if len(ends) == 2 and ends[0] >= ends[1]:
        doubts["lower upper"] = "the lower end lies above the upper one" if ends[0] > ends[1] else "it leaves no motion"
    gone = {key for keys in doubts for key in keys.split()}
    return Limits(**{key: value for key, value in stated.items() if key not in gone}, continuous=continuous), doubts
