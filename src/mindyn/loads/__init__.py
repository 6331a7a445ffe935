"""Loads and drive gains from runs with and without a load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.loads.consistent_gains import consistent_drive_gains

__all__ = ["consistent_drive_gains"]

__getattr__ = named_lazily(__name__, {"consistent_gains": ("consistent_drive_gains",)})
