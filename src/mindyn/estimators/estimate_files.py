"""Files of estimates: the JSON Schema, published beside this file, and the checks that no schema can express.

A file holds some facts twice (a base set follows from its robot, values from the physical ones behind them): on
loading they are compared, so that a file that was changed or damaged does not give a model that contradicts itself.
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

from mindyn.algebra.values import Array
from mindyn.errors import InputError, MindynError
from mindyn.estimators.unidentifiable import read_covariance
from mindyn.identifiability.base_sets import base_parameters
from mindyn.kernels.kernel import Kernel
from mindyn.parameters.base import BaseParameters, parameter_sizes
from mindyn.regression.mlc_columns import lin_columns
from mindyn.regression.regressor import Regressor
from mindyn.robots.description import Selection
from mindyn.robots.robot import Robot
from mindyn.robots.toml_table import robot_from_table, toml_table
from mindyn.schemas import require_valid

EXACT: Final = 1e-120
"""Variances below come from data without noise; products of them lose digits before they reach zero."""
ROUNDING: Final = 1e-9
"""Numbers of a file that should be equal differ by less, relative to the terms that they are sums of."""
_HINT: Final = "was it edited, or cut? identify again"
_SHAPES: Final[Mapping[str, tuple[str, ...]]] = {
    "beta": ("p",),
    "covariance": ("p", "p"),
    "shifts": ("k", "p"),
    "dropped_ends": ("2", "p"),
    "dropped_shifts": ("k", "p"),
    "joint_weights": ("n",),
    "block_spread.telling": ("p",),
    "block_spread.widened": ("p",),
    "physical.values": ("x",),
    "physical.unconstrained": ("p",),
    "physical.prior_shares": ("p",),
    "physical.ends": ("2", "p"),
}
"""Of lists: p parameters, n joints, x labels of physical values, k of any number."""


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of a saved estimate."""
    return json.loads(Path(__file__).with_name("estimate.schema.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def require_agreement(values: Mapping[str, Any], path: str) -> None:
    """Raise `InputError` if types, lengths or names contradict the format or each other."""
    require_valid(values, schema(), path, hint=_HINT)
    for found in _find_disagreements(values):
        raise InputError(f"{path} is not a sound estimate: {found}", hint=_HINT)


def _find_disagreements(values: Mapping[str, Any]) -> Iterator[str]:
    names, physical = values["names"], values["physical"]
    sizes = {"p": len(names), "n": len(values["residuals"]), "x": len((physical or {"labels": ()})["labels"]), "2": 2}
    for key, wanted in _SHAPES.items():
        holder, _, entry = key.rpartition(".")
        given = (values.get(holder) if holder else values) or {}
        if given.get(entry) is not None and not _has_shape(given[entry], [sizes.get(one, -1) for one in wanted]):
            yield f"{key} must have the shape ({', '.join(str(sizes.get(one, 'any')) for one in wanted)})"
            return
    for key in ("dropped", "unidentifiable"):
        if unknown := [name for name in values[key] if name not in names]:
            yield f"{key} names {unknown[0]!r}, which is not a parameter"
            return
    C, shifts = read_covariance(values["covariance"]), np.array(values["shifts"] or []).reshape(-1, len(names))
    untold, left_out = (
        np.array([name in values[key] for name in names], dtype=bool) for key in ("unidentifiable", "dropped")
    )
    yield from _covariance_faults(C, shifts, untold, left_out)
    if np.array(values["beta"])[left_out].any():
        yield "a parameter that was left out is not zero"


def _has_shape(value: Any, shape: list[int]) -> bool:
    """Whether nested lists have this shape; -1 is any length."""
    if not shape:
        return True
    return shape[0] in (-1, len(value)) and all(_has_shape(item, shape[1:]) for item in value)


def _covariance_faults(
    C: Array, shifts: Array, unidentifiable: NDArray[np.bool_], dropped: NDArray[np.bool_]
) -> Iterator[str]:
    """Yield why a covariance is not one: it contains that of noise and the outer products of the shifts."""
    infinite = ~np.isfinite(C)
    if (infinite != np.diag(unidentifiable)).any():
        yield "covariance must be infinite (null) for the variances of untold parameters, and for nothing else"
        return
    finite = np.where(unidentifiable | unidentifiable[:, None] | (np.abs(C) < EXACT), 0.0, C)
    scale = np.sqrt(np.maximum(np.diag(finite), 0.0))
    terms = np.outer(scale, scale)
    if (np.abs(finite - finite.T) > ROUNDING * terms).any() or (np.abs(finite) > (1 + ROUNDING) * terms).any():
        yield "covariance must be symmetric, with variances that are not negative and correlations of at most 1"
        return
    noise = (finite - shifts.T @ shifts) / np.where(terms > 0, terms, 1.0)
    if len(C) and np.linalg.eigvalsh(noise).min() < -ROUNDING * len(C):
        yield "covariance, less the shifts that it contains, must not be negative in any direction"
    if finite[dropped].any():
        yield "covariance of a parameter that was left out must be zero"


def read_base(robot: Robot, record: Mapping[str, Any]) -> tuple[BaseParameters, Kernel | None]:
    """Return the base set that the robot gives; raise `InputError` if the saved one is not that of the robot.

    A set with survivors is determined by them and by the space that it spans: one with other survivors, as `priority`
    or another seed gives, is taken if it spans the robot's space.
    """
    form, drives = record["form"], record["drives"]
    lin = form == "lin" and drives == bool(robot.drives)
    own, kernel = lin_columns(robot) if lin else (base_parameters(robot, form, drives=drives), None)
    chosen = None if record["survivors"] is None else tuple(record["survivors"])
    K, names = np.array(record["matrix"], dtype=np.float64), tuple(record["names"])
    wrong = InputError(f"the base set of the file is not that of its robot {robot.name!r}", hint=_HINT)
    if K.shape != own.matrix.shape or len(names) != len(K):
        raise wrong
    if chosen == own.survivors:
        sizes = parameter_sizes(robot, drives=drives)
        off, terms = np.abs(K - own.matrix) * sizes, np.abs(own.matrix) * sizes
        if names != own.names or (off > ROUNDING * terms.max(axis=1, keepdims=True)).any():
            raise wrong
        return own, kernel
    saved = BaseParameters(robot, form, drives, K, names, chosen, tuple(record["notes"]))
    if chosen is None or not np.allclose(K[:, list(chosen)], np.eye(len(K)), rtol=0, atol=ROUNDING):
        raise wrong
    try:
        saved.transform_to(own)
    except MindynError as error:
        raise wrong from error
    return saved, None


def require_physical(regressor: Regressor, beta: Array, physical: Mapping[str, Any] | None) -> None:
    """Raise `InputError` if beta = B x does not hold for the physical values x behind it, if there are any."""
    if physical is None:
        return
    base = regressor.base
    split = base.matrix.shape[1]
    labels = [*base.labels, *regressor.names[base.count :]]
    x = np.array(physical["values"])
    terms = np.append(np.abs(base.matrix) @ np.abs(x[:split]), np.abs(x[split:]))
    if (
        labels != physical["labels"]
        or (np.abs(np.append(base.matrix @ x[:split], x[split:]) - beta) > 1e-6 * terms).any()
    ):
        raise InputError("the physical values of the file are not those behind its beta", hint=_HINT)


def robot_record(robot: Robot) -> dict[str, Any]:
    """All of a robot but its notes: the table of a robot file, and what of its source was selected."""
    return {**toml_table(robot), "selection": robot.selection.to_dict()}


def robot_from_record(record: Mapping[str, Any]) -> Robot:
    """The inverse of `robot_record`."""
    robot = robot_from_table({name: value for name, value in record.items() if name != "selection"})
    home = np.array([record["home"][name] for name in robot.joint_names]) if "home" in record else None
    return replace(robot, selection=Selection(**record.get("selection", {})), home=home)
