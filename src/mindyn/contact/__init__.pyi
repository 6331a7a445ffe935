# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.contact.detection import (
    contact_thresholds as contact_thresholds,
    ContactThresholds as ContactThresholds,
    contact_trace as contact_trace,
    find_contacts as find_contacts,
    contact_wrenches as contact_wrenches,
    Contact as Contact,
    ContactDetector as ContactDetector,
)
