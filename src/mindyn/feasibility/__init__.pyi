# The public names in the order of the work; `named_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.feasibility.check import Feasibility as Feasibility
from mindyn.feasibility.intervals import (
    Intervals as Intervals,
    constrained_intervals as constrained_intervals,
    torque_bands as torque_bands,
)
from mindyn.feasibility.possible import judge_possible as judge_possible
from mindyn.feasibility.mending import mend_possible as mend_possible
from mindyn.feasibility.bounds import bounds_of_shapes as bounds_of_shapes
