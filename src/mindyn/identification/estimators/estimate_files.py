"""Check files of estimates against a JSON Schema, and check agreements that a schema cannot express.

A file contains some facts twice: the base set follows from its robot, and the values follow from the physical
parameters. Both are compared when a file is loaded, so that a changed or damaged file does not give an inconsistent
model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.foundation.schemas import require_valid_file
from mindyn.identification.estimators.estimate_records import read_array
from mindyn.identification.estimators.result_files import require_unchanged
from mindyn.kernels.kernel import Kernel
from mindyn.parameters.base_parameters import BaseParameters, parameter_sizes
from mindyn.regression.regressor import Regressor, lin_columns
from mindyn.robots.description import Selection
from mindyn.robots.robot import Robot
from mindyn.robots.toml_format import robot_from_table, toml_table

EXACT: Final = 1e-120
"""Variances below this come from data without noise; products of such variances lose digits."""
ROUNDING: Final = 1e-9
"""Largest difference of numbers that should be equal, relative to the terms of their sums."""
_HINT: Final = "the file may have been edited or truncated; identify again"
_SHAPES: Final[Mapping[str, tuple[str, ...]]] = {
    "values.beta": ("p",),
    "uncertainty.covariance": ("p", "p"),
    "uncertainty.shifts": ("k", "p"),
    "uncertainty.dropped_ends": ("2", "p"),
    "uncertainty.dropped_shifts": ("k", "p"),
    "data.joint_weights": ("n",),
    "data.factor": ("p + 1", "p + 1"),
    "data.servo.kp": ("n",),
    "data.servo.kd": ("n",),
    "data.servo.limit": ("n",),
    "uncertainty.jackknife.significant": ("p",),
    "uncertainty.jackknife.inflated": ("p",),
    "values.physical.values": ("x",),
    "values.physical.unconstrained": ("p",),
    "values.physical.prior_fractions": ("p",),
    "values.physical.ends": ("2", "p"),
}
"""Shapes of lists: p parameters, n joints, x labels of physical values, k any number."""


@cache
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a saved estimate."""
    return json.loads(Path(__file__).with_name("estimate.schema.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def require_agreement(values: Mapping[str, Any], path: str) -> None:
    """Raise `InputError` if types, lengths or names contradict the format or each other."""
    require_valid_file(values, schema(), path, hint=_HINT)
    for disagreement in _find_disagreements(values):
        raise InputError(f"{path} is not consistent: {disagreement}", hint=_HINT, code=Code.DISAGREEMENT, subject=path)
    require_unchanged(values, path, is_required=False)


def _find_disagreements(record: Mapping[str, Any]) -> Iterator[str]:
    names, values, uncertainty = record["names"], record["values"], record["uncertainty"]
    physical = values["physical"]
    sizes = {
        "p": len(names),
        "p + 1": len(names) + 1,
        "n": len(record["data"]["residuals"]),
        "x": len((physical or {"labels": ()})["labels"]),
        "2": 2,
    }
    for key, wanted in _SHAPES.items():
        given: Any = record
        for part in key.split("."):
            given = (given or {}).get(part)
        if given is not None and not _has_shape(given, [sizes.get(size, -1) for size in wanted]):
            yield f"{key} must have the shape ({', '.join(str(sizes.get(size, 'any')) for size in wanted)})"
            return
    for curve in uncertainty.get("friction_curves") or ():
        if len({len(curve[key]) for key in ("speed", "torque", "half_width")}) > 1:
            yield f"speed, torque and half_width of the friction curve of {curve['joint']!r} must have the same length"
            return
    for key in ("dropped", "unidentifiable"):
        if unknown := [name for name in values[key] if name not in names]:
            yield f"{key} names {unknown[0]!r}, which is not a parameter"
            return
    C = read_array(uncertainty["covariance"])
    shifts = np.array(uncertainty["shifts"] or []).reshape(-1, len(names))
    unidentifiable, dropped = (
        np.array([name in values[key] for name in names], dtype=bool) for key in ("unidentifiable", "dropped")
    )
    yield from _covariance_faults(C, shifts, unidentifiable, dropped)
    if np.array(values["beta"])[dropped].any():
        yield "the value of a dropped parameter must be zero"


def _has_shape(value: Any, shape: list[int]) -> bool:
    """Return whether nested lists have this shape; -1 stands for any length."""
    if not shape:
        return True
    return shape[0] in (-1, len(value)) and all(_has_shape(item, shape[1:]) for item in value)


def _covariance_faults(
    C: Array, shifts: Array, unidentifiable: NDArray[np.bool_], dropped: NDArray[np.bool_]
) -> Iterator[str]:
    """Yield the reasons why a covariance is invalid.

    It must contain the covariance of noise and the outer products of the shifts.
    """
    infinite = ~np.isfinite(C)
    if (infinite != np.diag(unidentifiable)).any():
        yield "covariance must be infinite (null) for variances of unidentifiable parameters, and nowhere else"
        return
    finite = np.where(unidentifiable | unidentifiable[:, None] | (np.abs(C) < EXACT), 0.0, C)
    scale = np.sqrt(np.maximum(np.diag(finite), 0.0))
    terms = np.outer(scale, scale)
    if (np.abs(finite - finite.T) > ROUNDING * terms).any() or (np.abs(finite) > (1 + ROUNDING) * terms).any():
        yield "covariance must be symmetric, with variances that are not negative and correlations of at most 1"
        return
    with np.errstate(over="ignore", invalid="ignore"):
        noise = (finite - shifts.T @ shifts) / np.where(terms > 0, terms, 1.0)
    if len(C) and (not np.isfinite(noise).all() or np.linalg.eigvalsh(noise).min() < -ROUNDING * len(C)):
        yield "covariance minus its shifts must be positive semidefinite"
    if finite[dropped].any():
        yield "covariance of a dropped parameter must be zero"


def base_record(base: BaseParameters) -> dict[str, Any]:
    """Return a base set as a dictionary for `read_base`."""
    return {
        "form": base.form,
        "drives": base.with_drives,
        "matrix": base.matrix.tolist(),
        "names": list(base.names),
        "survivors": None if base.survivors is None else list(base.survivors),
        "notes": list(base.notes),
    }


def read_base(robot: Robot, record: Mapping[str, Any]) -> tuple[BaseParameters, Kernel | None]:
    """Return the base set of the robot; raise `InputError` if the saved one does not belong to the robot.

    A set with survivors is determined by its survivors and its span. A set with other survivors, for example from
    `priority` or another seed, is accepted if it has the same span as the set of the robot.
    """
    form, drives = record["form"], record["drives"]
    lin = form == "lin" and drives == bool(robot.drives)
    base, kernel = lin_columns(robot) if lin else (base_parameters(robot, form, with_drives=drives), None)
    chosen = None if record["survivors"] is None else tuple(record["survivors"])
    K, names = np.array(record["matrix"], dtype=np.float64), tuple(record["names"])
    wrong = InputError(
        f"the base set does not belong to robot {robot.name!r}", hint=_HINT, code=Code.DISAGREEMENT, subject="base"
    )
    if K.shape != base.matrix.shape or len(names) != len(K):
        raise wrong
    if chosen == base.survivors:
        sizes = parameter_sizes(robot, with_drives=drives)
        off, terms = np.abs(K - base.matrix) * sizes, np.abs(base.matrix) * sizes
        if names != base.names or (off > ROUNDING * terms.max(axis=1, keepdims=True)).any():
            raise wrong
        return base, kernel
    saved = BaseParameters(robot, form, drives, K, names, chosen, tuple(record["notes"]))
    if chosen is None or not np.allclose(K[:, list(chosen)], np.eye(len(K)), rtol=0, atol=ROUNDING):
        raise wrong
    try:
        saved.transform_to(base)
    except MindynError as error:
        raise wrong from error
    return saved, None


def require_physical(regressor: Regressor, beta: Array, physical: Mapping[str, Any] | None) -> None:
    """Raise `InputError` if beta = B x does not hold for the saved physical values x."""
    if physical is None:
        return
    base = regressor.base
    split = base.matrix.shape[1]
    labels = [*base.labels, *regressor.names[base.count :]]
    x = np.array(physical["values"])
    terms = np.append(np.abs(base.matrix) @ np.abs(x[:split]), np.abs(x[split:]))
    tolerance = 1e-6 * terms + 1e-9 * np.abs(x).max(initial=0.0)  # the second for dropped parameters, exactly zero
    if labels != physical["labels"] or (np.abs(np.append(base.matrix @ x[:split], x[split:]) - beta) > tolerance).any():
        message = "the file's physical parameters do not reproduce its base parameters"
        raise InputError(message, hint=_HINT, code=Code.DISAGREEMENT, subject="physical")


def robot_record(robot: Robot) -> dict[str, Any]:
    """Return a robot without its notes as a dictionary: the table of a robot file, and its selection."""
    return {**toml_table(robot), "selection": robot.selection.to_dict()}


def robot_from_record(record: Mapping[str, Any]) -> Robot:
    """Return the robot of a `robot_record`."""
    require_valid_file(record, schema()["properties"]["robot"], "the robot of the file", hint=_HINT)
    robot = robot_from_table({name: value for name, value in record.items() if name != "selection"})
    home = np.array([record["home"][name] for name in robot.joint_names]) if "home" in record else None
    return replace(robot, selection=Selection(**record.get("selection", {})), home=home)
