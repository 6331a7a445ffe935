"""Many robots of one type and all their logs: estimates of each, and who differs from the type or drifts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.fleet.fleet import study_fleet

__all__ = [
    "study_fleet",
]

__getattr__ = named_lazily(
    __name__,
    {
        "fleet": ("study_fleet",),
    },
)
