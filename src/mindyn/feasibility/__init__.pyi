# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.feasibility.check import Feasibility as Feasibility
from mindyn.feasibility.intervals import (
    add_physical_intervals as add_physical_intervals,
    torque_bands as torque_bands,
)
from mindyn.feasibility.positive_definite import check_positive_definite as check_positive_definite
from mindyn.feasibility.bounds import bounds_from_shapes as bounds_from_shapes
