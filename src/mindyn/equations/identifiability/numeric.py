"""Numeric base parameters: choose independent parameters of the essential space by an order of priority.

[Sheu & Walker 1991, theorem 4.1] A parameter can be set to zero if its row of the null space is linearly independent of
the rows of the parameters removed before. The other parameters then carry its effect, by D_I = (1 - V_2 (F_2^T V_2)^-1
F_2^T) phi.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.identifiability.parameter_space import (
    SAMPLED_ROUNDING,
    ZERO_SINGULAR_VALUE,
    EssentialSpace,
    compute_row_space,
    essential_space,
    select_valid_rows,
    typical_sizes,
)
from mindyn.equations.identifiability.random_states import RowSource, sample_rows, typical_rates
from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, unknown_name_error
from mindyn.foundation.notation import DRIVE_PARAMETERS, LINK_PARAMETERS
from mindyn.parameters.base_parameters import BaseParameters, parameter_labels, round_coefficients
from mindyn.robots.robot import Robot

REMOVED_FIRST = ("m", "mcx", "mcy", "mcz", "Ixy", "Ixz", "Iyz", "Ixx", "Iyy", "Izz")
"""Order of removal by table 4 of the paper: first this parameter of all links, then the next parameter of all links."""

INDEPENDENCE_THRESHOLDS = (0.3, 0.1, 0.03, 1e-2, 1e-4, ZERO_SINGULAR_VALUE)
"""Independence that a removed parameter must have, tried in turn; the paper's set uses only the last."""

NULL_SPACE_ROUNDING, MIN_SHOWN_COEFFICIENT = 1e-13, 1e-9
"""Coefficients of a sampled null space below the first are rounding; below the second they are not displayed."""

SAMPLED_NOISE = 1e-11
"""Coefficients below it, in units of the typical torques of their parameters, are rounding of the sampled states."""

MAX_CONDITION = 1e4
"""Condition number of the removed rows above which a note is added."""


def default_priority(robot: Robot, *, with_drives: bool = False) -> tuple[str, ...]:
    """Return all parameters in the order of removal: rotors early; friction, offsets and extra torques last."""
    labels = parameter_labels(robot, with_drives=with_drives)
    n, per_link = len(robot.joints), len(LINK_PARAMETERS)
    links = [labels[per_link * i + LINK_PARAMETERS.index(name)] for name in REMOVED_FIRST for i in range(n)]
    end = per_link * n + (len(DRIVE_PARAMETERS) * len(robot.drives) if with_drives else 0)
    drive, extras = labels[per_link * n : end], labels[end:]
    rotors = [drive[k :: len(DRIVE_PARAMETERS)] for k in range(len(DRIVE_PARAMETERS))] if drive else [()]
    return (*rotors[0], *links, *(label for kind in rotors[1:] for label in kind), *extras)


def numeric_base(
    robot: Robot,
    source: RowSource = "energy",
    *,
    priority: Sequence[str] | None = None,
    constraints: ArrayLike | None = None,
    with_drives: bool = False,
    seed: int = 0,
) -> BaseParameters:
    """Return the base set found from random states, for any robot with or without loops.

    source       "energy": differences of energy; "torque": the torque regressor
    priority     labels in the order in which they are removed, as in Table 4 of the paper; missing labels follow in the
                 default order. Without it the order is the paper's, but only well-conditioned removals are made
    constraints  (c, p) C: the parameters satisfy C phi = 0 (see `constraint_matrix`)
    """
    space = essential_space(robot, source, constraints=constraints, with_drives=with_drives, rng=seed)
    labels = parameter_labels(robot, with_drives=with_drives)
    order = _order_by_priority(labels, priority, default_priority(robot, with_drives=with_drives))
    removed = choose_removed_parameters(
        space, order, INDEPENDENCE_THRESHOLDS if priority is None else (ZERO_SINGULAR_VALUE,)
    )
    matrix, condition = independent_matrix(space, removed)
    kept = [k for k in range(len(labels)) if k not in removed]
    notes = [f"from random states ({source}, seed {seed}): {space.notes[0]}"]
    if condition > MAX_CONDITION:
        notes.append(f"the chosen parameters are ill conditioned ({condition:.1e}): choose another priority")
    base = _numeric_set(robot, matrix, kept, tuple(notes), with_drives=with_drives)
    # With constraints there are no survivors: values of single parameters would violate the constraints.
    return base if constraints is None else replace(base, survivors=None)


def reduced_tree_base(tree: BaseParameters, *, seed: int = 0) -> BaseParameters:
    """Return the base set of a robot with dependent joints, computed from the base set of its open tree.

    Parameters without effect in the tree are removed exactly, by structure. Only the other parameters are sampled, and
    only rounding is dropped. For a nearly degenerate geometry, the set keeps parameters with very small effects, so
    that torques stay exact. `tree` is the structural set.
    """
    robot, drives = tree.robot, tree.with_drives
    labels, columns = tree.labels, list(tree.survivors or range(tree.count))
    source: RowSource = "torque" if drives else "energy"
    regressors = Regressors(robot, with_drives=drives)
    H = sample_rows(regressors, source, parameters=len(labels), seed=seed, rates=typical_rates(robot))
    H = select_valid_rows(H, robot)
    space = compute_row_space(H[:, columns], typical_sizes(robot, H)[columns], zero=SAMPLED_ROUNDING, unclear=1.0)
    wanted = [labels.index(label) for label in default_priority(robot, with_drives=drives)]
    removed = choose_removed_parameters(
        space, [columns.index(k) for k in wanted if k in columns], INDEPENDENCE_THRESHOLDS
    )
    kept = [k for place, k in enumerate(columns) if place not in removed]
    return _numeric_set(
        robot, independent_matrix(space, removed)[0] @ tree.matrix, kept, tree.notes, with_drives=drives
    )


def _numeric_set(
    robot: Robot, matrix: Array, kept: list[int], notes: tuple[str, ...], *, with_drives: bool
) -> BaseParameters:
    """Return the set of K with the identity at the kept parameters; a name has an R if others are regrouped with it."""
    matrix = round_coefficients(robot, matrix, with_drives=with_drives, noise=NULL_SPACE_ROUNDING)
    matrix[:, kept] = np.eye(len(kept))
    shown = round_coefficients(robot, matrix, with_drives=with_drives, noise=MIN_SHOWN_COEFFICIENT)
    labels = parameter_labels(robot, with_drives=with_drives)
    names = tuple(labels[k] if (row != 0).sum() == 1 else f"{labels[k]}R" for k, row in zip(kept, shown, strict=True))
    return BaseParameters(robot, "numeric", with_drives, matrix, names, tuple(kept), notes)


def _order_by_priority(labels: tuple[str, ...], priority: Sequence[str] | None, default: tuple[str, ...]) -> list[int]:
    given = [] if priority is None else list(priority)
    for label in given:
        if label not in labels:
            raise unknown_name_error("parameter", label, labels)
    if len(set(given)) < len(given):
        repeated = next(label for label in given if given.count(label) > 1)
        raise InputError(f"priority contains {repeated!r} twice", code=Code.DUPLICATE, subject=repeated)
    return [labels.index(label) for label in (*given, *(label for label in default if label not in given))]


def choose_removed_parameters(space: EssentialSpace, order: Sequence[int], thresholds: Sequence[float]) -> list[int]:
    """Choose p - k parameters to set to zero, by modified Gram-Schmidt on the rows of V_2 in the given order."""
    rows = _null_rows(space)
    rest = rows.copy()
    removed: list[int] = []
    for threshold in thresholds:
        for index in order:
            if len(removed) == rows.shape[1]:
                return sorted(removed)
            size = float(np.linalg.norm(rest[index]))
            if index not in removed and size > threshold:
                removed.append(index)
                unit = rest[index] / size
                rest = rest - np.outer(rest @ unit, unit)
    return sorted(removed)


def _null_rows(space: EssentialSpace) -> Array:
    """Return an orthonormal basis (p, p - k) of the null space: one row for each parameter, in units of typical
    sizes.
    """
    return np.linalg.qr((space.null * space.sizes).T)[0]


def independent_matrix(space: EssentialSpace, removed: Sequence[int]) -> tuple[Array, float]:
    """Return K (k, p) with the identity at the kept parameters, and the condition number of the removed rows."""
    parameters = space.basis.shape[1]
    kept = [k for k in range(parameters) if k not in removed]
    rows = _null_rows(space)
    condition = float(np.linalg.cond(rows[list(removed)])) if removed else 1.0
    K = np.eye(parameters)[kept]
    if removed:
        scaled = -rows[kept] @ np.linalg.inv(rows[list(removed)])
        scaled[np.abs(scaled) <= SAMPLED_NOISE] = 0.0
        K[:, list(removed)] = scaled / space.sizes[kept][:, None] * space.sizes[list(removed)]
    return K, condition
