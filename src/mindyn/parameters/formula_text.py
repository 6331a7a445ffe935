"""Readable formulas: `Izz1 + Iyy2 + 0.8636 mcx3`, and the same in LaTeX."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.algebra.values import Array

EXACT_TOLERANCE: Final = 1e-12
"""Relative rounding of factors in text that programs read."""
DISPLAY_TOLERANCE: Final = 5e-6
"""Relative rounding of factors in text that people read: six digits."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """A linear form: `labels` of the parameters and their factors (p,)."""

    labels: tuple[str, ...]
    factors: Array

    def terms(self) -> list[tuple[float, str]]:
        """Return nonzero factors with their labels: plain sums first, then the terms with geometry, each in order."""
        terms = [(float(c), label) for c, label in zip(self.factors, self.labels, strict=True) if c != 0]
        return [t for t in terms if abs(t[0]) == 1] + [t for t in terms if abs(t[0]) != 1]


def number_text(value: float, within: float) -> str:
    """Return the shortest text of a number, with at least six digits, that is within a relative error `within`."""
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
    """Return the formula as text, `Izz1 + Iyy2 - 0.3 mcz3`, with factors within a relative error `within`."""
    return _sum(form.terms(), " ", within)


def latex_symbol(label: str) -> str:
    """Return `Izz3` as `I_{3,zz}`, `mcx3` as `mc_{3,x}`, `m3` as `m_{3}`."""
    match = re.fullmatch(r"(I|mc|m|Im|fv|fc|fo)([xyz]{0,2})(\d+)", label)
    if match is None:
        return "\\mathrm{" + label.replace("_", "\\_") + "}"
    head, axes, number = match.groups()
    named = {"I": "I", "mc": "mc", "m": "m", "Im": "I_m", "fv": "f_v", "fc": "f_c", "fo": "f_o"}[head]
    index = f"{number},{axes}" if axes else number
    return f"{named}_{{{index}}}" if "_" not in named else f"{{{named}}}_{{{index}}}"


def latex_expression(form: Coefficients) -> str:
    """Return the formula in LaTeX."""
    return _sum([(factor, latex_symbol(label)) for factor, label in form.terms()], r"\,")


def snap_coefficients(matrix: Array, noise: float = 1e-11) -> Array:
    """Return coefficients without rounding noise: entries near 0, integers and halves are rounded to them."""
    near = np.round(matrix * 2) / 2
    return np.where(np.abs(matrix - near) < noise, near + 0.0, matrix)
