"""Whether parameter values are physically possible, and their mending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.feasibility.bounds import bounds_of_shapes
    from mindyn.feasibility.check import Feasibility
    from mindyn.feasibility.intervals import Intervals, constrained_intervals, torque_bands
    from mindyn.feasibility.mending import mend_possible
    from mindyn.feasibility.possible import judge_possible

__all__ = [  # noqa: RUF022 - in the order of the work
    "Feasibility",
    "Intervals",
    "constrained_intervals",
    "torque_bands",
    "judge_possible",
    "mend_possible",
    "bounds_of_shapes",
]

__getattr__ = named_lazily(
    __name__,
    {
        "check": ("Feasibility",),
        "intervals": ("Intervals", "constrained_intervals", "torque_bands"),
        "possible": ("judge_possible",),
        "mending": ("mend_possible",),
        "bounds": ("bounds_of_shapes",),
    },
)
