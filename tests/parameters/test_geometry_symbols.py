"""Formulas with symbols for the geometry have the coefficients of the set."""

from __future__ import annotations

import re

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from raising import raises

from mindyn import load_robot
from mindyn.foundation.errors import Code, InputError
from mindyn.parameters.geometry_symbols import convert_to_dh_frames, find_lengths, symbolic_expressions
from mindyn.parameters.structural import structural_base


def value_of(formula: str, numbers: dict[str, float]) -> float:
    """The formula evaluated: products are written with blanks."""
    total = 0.0
    for sign, term in re.findall(r"(^-?|[+-]) ?([^+-]+)", formula):
        factors = [
            numbers[f.removesuffix("^2")] ** (2 if f.endswith("^2") else 1) if f[0].isalpha() else float(f)
            for f in term.split()
        ]
        total += (-1 if sign.strip() == "-" else 1) * float(np.prod(factors))
    return total


@pytest.mark.parametrize("name", ["puma560", "stanford", "scara", "ur10", "panda"])
def test_formulas_have_the_values_of_the_set(name):
    robot = convert_to_dh_frames(load_robot(name))
    base = structural_base(robot)
    numbers = dict(zip(base.labels, robot.phi, strict=True)) | find_lengths(robot)
    values = [value_of(formula, numbers) for formula in symbolic_expressions(base)]
    assert_close(values, base.values, ORACLE)


def test_frames_other_than_dh_raise():
    with raises(InputError, Code.UNSUPPORTED, "ur10"):
        symbolic_expressions(structural_base(load_robot("ur10")))
