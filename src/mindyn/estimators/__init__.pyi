# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.estimators.closed_loop_instruments import ClosedLoopInstruments as ClosedLoopInstruments
from mindyn.estimators.total_least_squares import MeasurementNoise as MeasurementNoise
from mindyn.estimators.essential import reduce_estimate as reduce_estimate
