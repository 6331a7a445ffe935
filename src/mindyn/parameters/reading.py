"""Formulas a person can read: `Izz1 + Iyy2 + 0.8636 mcx3`, and the same for LaTeX."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from mindyn.algebra.values import Array


@dataclass(frozen=True, slots=True)
class Coefficients:
    """One linear form: `labels` of the parameters and their factors (p,)."""

    labels: tuple[str, ...]
    factors: Array

    def terms(self) -> list[tuple[float, str]]:
        """Nonzero factors with their labels: plain sums first, then the terms with geometry, each in order."""
        found = [(float(c), label) for c, label in zip(self.factors, self.labels, strict=True) if c != 0]
        return [t for t in found if abs(t[0]) == 1] + [t for t in found if abs(t[0]) != 1]


def _sum(parts: list[tuple[float, str]], join: str) -> str:
    text = ""
    for factor, term in parts:
        size = "" if abs(factor) == 1 else f"{abs(factor):.6g}{join}"
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += f"{sign}{size}{term}"
    return text or "0"


def expression(form: Coefficients) -> str:
    """`Izz1 + Iyy2 - 0.3 mcz3`."""
    return _sum(form.terms(), " ")


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


def cleaned(matrix: Array, noise: float = 1e-11) -> Array:
    """Coefficients without rounding noise: entries near 0, near integers and near halves are those."""
    near = np.round(matrix * 2) / 2
    return np.where(np.abs(matrix - near) < noise, near + 0.0, matrix)
