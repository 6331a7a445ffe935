"""Measured motion: logs with names and units, and the samples that regression reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.logs.array_table import ArrayTable
    from mindyn.logs.conditioning import AS_LOGGED
    from mindyn.logs.formats import LOG_FORMATS
    from mindyn.logs.pipeline import condition_stream

__all__ = [  # noqa: RUF022 - in the order of the work
    "AS_LOGGED",
    "condition_stream",
    "ArrayTable",
    "LOG_FORMATS",
]

__getattr__ = named_lazily(
    __name__,
    {
        "conditioning": ("AS_LOGGED",),
        "pipeline": ("condition_stream",),
        "array_table": ("ArrayTable",),
        "formats": ("LOG_FORMATS",),
    },
)
