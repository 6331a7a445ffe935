"""Values that public functions return print in a line: at most 200 characters, whatever they hold."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from contracts.public_names import public_names

import mindyn
from mindyn.foundation.algebra.values import LONGEST_REPR

INPUTS = {"Bounds", "ExtraTorque"}
"""Values that users write: what is printed can be evaluated."""
LONG = {
    "Array": np.zeros((300, 7)),
    "tuple": tuple(f"parameter {k}" for k in range(300)),
    "Mapping": {f"parameter {k}": float(k) for k in range(300)},
    "str": "a long sentence " * 30,
}


def classes_in(hint: object) -> Iterator[type]:
    if inspect.isclass(hint) and hint.__module__.startswith("mindyn."):
        yield hint
    for part in typing.get_args(hint):
        yield from classes_in(part)


def returned_types() -> dict[str, type]:
    """Return the classes that public functions return, by name."""
    hints = []
    for value in public_names().values():
        if inspect.isfunction(value) and value.__name__ != "to_pinocchio":  # its type is that of an optional package
            hints.append(typing.get_type_hints(value).get("return"))
    return {kind.__name__: kind for hint in hints for kind in classes_in(hint)}


GENERATED = {
    name: kind
    for name, kind in returned_types().items()
    if name not in INPUTS
    and is_dataclass(kind)
    and (hasattr(kind.__repr__, "__wrapped__") or "ShortRepr" in kind.__repr__.__qualname__)
}


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_values_with_long_fields_print_in_a_line(name):
    value = object.__new__(GENERATED[name])
    for entry in fields(value):
        kinds = [kind for kind in LONG if kind in str(entry.type)]
        object.__setattr__(value, entry.name, LONG[kinds[0]] if kinds else 0.1 + 0.2)
    assert len(repr(value)) <= LONGEST_REPR


def test_values_of_an_identification_print_in_a_line():
    robot = mindyn.load_robot("planar2")
    t = np.arange(400) / 100
    q = np.column_stack([np.sin(3 * t) + 0.3 * np.cos(5 * t), np.cos(2 * t) - 0.4 * np.sin(7 * t)])
    qd = np.gradient(q, t, axis=0)
    qdd = np.gradient(qd, t, axis=0)
    model = mindyn.compile_model(robot)
    tau = model.inverse_dynamics(q, qd, qdd)
    samples = mindyn.Samples(robot.joint_names, q, qd, qdd, tau, 100.0, np.zeros(400, dtype=np.int64))
    rows = mindyn.build_rows(robot, samples)
    estimate = mindyn.LeastSquares().fit(rows)
    log = mindyn.log_from_arrays(robot.joint_names, t, q, tau)
    feasibility = mindyn.check_feasible(estimate)
    values = [robot, model, samples, rows, rows.information, estimate, log, feasibility, *feasibility.answers]
    values += [mindyn.base_parameters(robot), mindyn.condition(robot, log)]
    assert {type(value).__name__: len(repr(value)) for value in values if len(repr(value)) > LONGEST_REPR} == {}
    assert "object at 0x" not in "".join(map(repr, values))
