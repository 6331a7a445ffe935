# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.simulation.rollouts import compile_rollout as compile_rollout
from mindyn.simulation.controllers import ProportionalDerivative as ProportionalDerivative
from mindyn.simulation.controllers import ControlLaw as ControlLaw
from mindyn.simulation.sensors import measure as measure
