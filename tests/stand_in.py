"""A stand-in for an estimate in tests of functions that read few of its entries."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from mindyn.identification.estimators.estimate_parts import FitData, ParameterValues, Provenance, Uncertainty

PARTS = {"values": ParameterValues, "uncertainty": Uncertainty, "data": FitData, "provenance": Provenance}
SHORT = ("beta", "covariance", "settings", "status", "findings")
"""Entries of parts that an estimate gives directly, too."""


def stand_in(**entries: Any) -> Any:
    """Return an object with these entries, each in its part as an estimate has it; others do not exist."""
    made = SimpleNamespace(**{name: SimpleNamespace() for name in PARTS})
    for name, value in entries.items():
        part = next((part for part, kind in PARTS.items() if name in {field.name for field in fields(kind)}), None)
        if part is None and hasattr(Uncertainty, name):
            part = "uncertainty"
        if part is not None:
            setattr(getattr(made, part), name, value)
        if part is None or name in SHORT or name == "deviations":
            setattr(made, name, value)
    return made
