# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.regression.rows import Rows as Rows
from mindyn.regression.settings import Filtering as Filtering
from mindyn.regression.regressor import with_estimated_drives as with_estimated_drives
from mindyn.regression.contact_phases import (
    differentiate_free_flyer as differentiate_free_flyer,
    floating_rows as floating_rows,
    floating_samples as floating_samples,
)
