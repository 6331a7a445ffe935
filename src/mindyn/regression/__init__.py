"""Streaming regression: R factors per joint, information, what the data can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.regression.device_job import rows_of_factors, write_device_job
    from mindyn.regression.regressor import with_estimated_drives
    from mindyn.regression.rows import Rows

__all__ = [  # noqa: RUF022 - in the order of the work
    "Rows",
    "with_estimated_drives",
    "write_device_job",
    "rows_of_factors",
]

__getattr__ = named_lazily(
    __name__,
    {
        "rows": ("Rows",),
        "regressor": ("with_estimated_drives",),
        "device_job": ("write_device_job", "rows_of_factors"),
    },
)
