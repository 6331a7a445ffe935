"""One self-contained HTML file that says whether a model is good, and why; computes nothing of physics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.report.inputs import MotionComparison

__all__ = [
    "MotionComparison",
]

__getattr__ = named_lazily(
    __name__,
    {
        "inputs": ("MotionComparison",),
    },
)
