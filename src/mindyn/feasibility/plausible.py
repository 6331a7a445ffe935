"""Plausible: consistent with masses and centres of mass within bounds."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.answer import Answer
from mindyn.feasibility.bounds import Bounds, bounds_of_shapes
from mindyn.feasibility.conic import ConicError, ContradictionError
from mindyn.feasibility.consistent import SAME, arm_witness
from mindyn.feasibility.nearest import nearest_compact, relative_metric
from mindyn.feasibility.physical_space import physical_values, space_of

QUESTION: Final = "plausible"


def judge_plausible(estimate: Estimate, bounds: Bounds | None = None) -> Answer:
    """Whether links within the bounds have the estimate's values; without bounds, within the links' own shapes."""
    stated = bounds_of_shapes(estimate.robot) if bounds is None else bounds
    if stated.empty:
        return Answer(QUESTION, None, "no bounds were given, and the links state no shapes with a size.")
    space = space_of(estimate.regressor)
    try:
        found = nearest_compact(space, estimate.beta, relative_metric(space, estimate.beta), stated.rows(space))
    except ContradictionError:
        return Answer(QUESTION, False, "the bounds contradict each other: no links keep to all of them.")
    except ConicError as error:
        return Answer(QUESTION, None, f"{error.message}.")
    distance = found.distance / np.sqrt(len(estimate.beta))
    if distance <= SAME:
        own = physical_values(estimate, space)
        x = found.x if own is None or not stated.hold(space, own) else own
        arm = arm_witness(space, x)
        listed = ", ".join(f"{name} {mass:.3g} kg" for name, mass in arm["masses"].items())
        return Answer(
            QUESTION,
            True,
            f"links within the bounds have these values ({listed}).",
            {"distance": distance, **arm},
        )
    moves = np.abs(found.beta - estimate.beta) * np.diag(relative_metric(space, estimate.beta))
    worst = [space.names[k] for k in np.argsort(moves)[::-1][:3]]
    return Answer(
        QUESTION,
        False,
        f"no links within the bounds have these values: the nearest differ by {100 * distance:.2g} % (rms), "
        f"most of all in {', '.join(worst)}.",
        {"distance": distance, "nearest": dict(zip(space.names, found.beta.tolist(), strict=True)), "most": worst},
    )
