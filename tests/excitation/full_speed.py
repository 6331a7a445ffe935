"""Settings of designs whose numbers were stated for whole limits and no floor."""

from __future__ import annotations

FULL_SPEED = {
    "speed": 1.0,
    "acceleration": 1.0,
    "floor": None,
    "clearance_m": 0.01,
    "tracking_error_m": 0.0,
    "tip_speed": float("inf"),
}
