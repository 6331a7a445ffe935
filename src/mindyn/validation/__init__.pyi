# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.validation.validate import compare as compare, Validation as Validation
from mindyn.validation.trajectories import (
    compare_trajectories as compare_trajectories,
    Trajectories as Trajectories,
)
