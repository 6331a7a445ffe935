# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.loads.unknown_gains import gain_groups as gain_groups
from mindyn.loads.unknown_gains import (
    estimate_gains as estimate_gains,
    EstimatedGains as EstimatedGains,
    WeighedLoad as WeighedLoad,
)
from mindyn.loads.wrench import payload_from_wrench as payload_from_wrench, WrenchPayload as WrenchPayload
from mindyn.loads.payload import LoadCalibration as LoadCalibration
from mindyn.loads.payload import calibrate_load as calibrate_load
