"""Checks of arguments under the name that `mindyn.loads.payload` imports."""

from __future__ import annotations

from mindyn.algebra.requirements import require_number, require_positive

__all__ = ["require_number", "require_positive"]
