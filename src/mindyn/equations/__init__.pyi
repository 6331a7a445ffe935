# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.equations.projected_dynamics import LoopDynamics as LoopDynamics, loop_dynamics as loop_dynamics
