"""Methods side by side on recorded logs: sets with their splits, methods, held-out errors, one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.comparison.comparing import compare_on_logs
    from mindyn.comparison.log_sets import read_sets

__all__ = [  # noqa: RUF022 - in the order of the work
    "read_sets",
    "compare_on_logs",
]

__getattr__ = named_lazily(
    __name__,
    {
        "log_sets": ("read_sets",),
        "comparing": ("compare_on_logs",),
    },
)
