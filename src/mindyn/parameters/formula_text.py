"""Formulas a person can read: `Izz1 + Iyy2 + 0.8636 mcx3`, and the same for LaTeX."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.algebra.values import Array

EXACT_TOLERANCE: Final = 1e-12
"""What texts that programs read leave off a factor."""
DISPLAY_TOLERANCE: Final = 5e-6
"""The same of texts that people read: six digits."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """One linear form: `labels` of the parameters and their factors (p,)."""

    labels: tuple[str, ...]
    factors: Array

    def terms(self) -> list[tuple[float, str]]:
        """Nonzero factors with their labels: plain sums first, then the terms with geometry, each in order."""
        found = [(float(c), label) for c, label in zip(self.factors, self.labels, strict=True) if c != 0]
        return [t for t in found if abs(t[0]) == 1] + [t for t in found if abs(t[0]) != 1]


def number_text(value: float, within: float) -> str:
    """The shortest text of a number, of six digits or more, that gives it back to so much of itself."""
    for digits in range(6, 17):
        text = f"{value:.{digits}g}"
        if abs(float(text) - value) <= within * abs(value):
            return text
    return repr(value)


def _sum(parts: list[tuple[float, str]], join: str, within: float = DISPLAY_TOLERANCE) -> str:
    text = ""
    for factor, term in parts:
        size = "" if abs(factor) == 1 else f"{number_text(abs(factor), within)}{join}"
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += f"{sign}{size}{term}"
    return text or "0"


def expression(form: Coefficients, within: float = EXACT_TOLERANCE) -> str:
    """`Izz1 + Iyy2 - 0.3 mcz3`; factors to so much of themselves."""
    return _sum(form.terms(), " ", within)


def latex_symbol(label: str) -> str:
    """`Izz3` as `I_{3,zz}`, `mcx3` as `mc_{3,x}`, `m3` as `m_{3}`."""
    match = re.fullmatch(r"(I|mc|m|Im|fv|fc|fo)([xyz]{0,2})(\d+)", label)
    if match is None:
        return "\\mathrm{" + label.replace("_", "\\_") + "}"
    head, axes, number = match.groups()
    named = {"I": "I", "mc": "mc", "m": "m", "Im": "I_m", "fv": "f_v", "fc": "f_c", "fo": "f_o"}[head]
    index = f"{number},{axes}" if axes else number
    return f"{named}_{{{index}}}" if "_" not in named else f"{{{named}}}_{{{index}}}"


def latex_expression(form: Coefficients) -> str:
    """The same formula for LaTeX."""
    return _sum([(factor, latex_symbol(label)) for factor, label in form.terms()], r"\,")


def snap_coefficients(matrix: Array, noise: float = 1e-11) -> Array:
    """Coefficients without rounding noise: entries near 0, near integers and near halves are those."""
    near = np.round(matrix * 2) / 2
    return np.where(np.abs(matrix - near) < noise, near + 0.0, matrix)
