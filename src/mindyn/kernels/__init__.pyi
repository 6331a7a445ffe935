# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.kernels.external_wrench import ExternalWrench as ExternalWrench
from mindyn.kernels.observer import MomentumObserver as MomentumObserver
