# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.estimators.closed_loop_instruments import ClosedLoopInstruments as ClosedLoopInstruments
from mindyn.estimators.essential import reduce_estimate as reduce_estimate
