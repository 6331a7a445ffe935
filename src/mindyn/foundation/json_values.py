"""Convert values to JSON, which has no arrays, infinities or NaN."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np


def to_json_value(value: Any) -> Any:
    """Convert arrays and tuples to lists, also inside mappings, and numbers that are not finite to None."""
    if isinstance(value, np.ndarray):
        entries = value.astype(object)
        if value.dtype.kind == "f":
            entries[~np.isfinite(value)] = None
        return entries.tolist()
    if isinstance(value, Mapping):
        return {key: to_json_value(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value
