"""Many robots of one type and all their logs: estimates of each, and who differs from the type or drifts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.fleet.fleet import study_fleet

_HOMES = {
    "fleet": ("study_fleet",),
}
"""Where the names are defined that a user's code may import from this package."""

__all__ = [
    "study_fleet",
]

__getattr__ = named_lazily(__name__, _HOMES)
