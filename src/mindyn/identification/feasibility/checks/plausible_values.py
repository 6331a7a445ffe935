"""`check_plausible` answers the third question: whether consistent links exist within given bounds."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.identification.feasibility.checks.consistent_values import CONSISTENT_DISTANCE, arm_witness
from mindyn.identification.feasibility.conditions.nearest_values import find_nearest_compact, relative_metric
from mindyn.identification.feasibility.conditions.physical_space import physical_values, space_of
from mindyn.identification.feasibility.conditions.user_bounds import Bounds, bounds_from_shapes
from mindyn.identification.feasibility.optimisation.conic_program import ConicError, InfeasibleProgramError

PLAUSIBLE: Final = "plausible"


def check_plausible(estimate: Estimate, bounds: Bounds | None = None) -> Answer:
    """Check whether links within the bounds (by default within their own shapes) can have the values."""
    limits = bounds_from_shapes(estimate.robot) if bounds is None else bounds
    if limits.is_empty:
        return Answer(
            PLAUSIBLE,
            None,
            "no bounds were given, and no link has a box, cylinder or sphere as collision shape (meshes are not used): "
            "give bounds, in the shell by --bounds FILE.toml.",
        )
    space = space_of(estimate.regressor)
    try:
        nearest = find_nearest_compact(space, estimate.beta, relative_metric(space, estimate.beta), limits.rows(space))
    except InfeasibleProgramError:
        return Answer(PLAUSIBLE, False, "the bounds contradict each other: no links satisfy all of them.")
    except ConicError as error:
        return Answer(PLAUSIBLE, None, f"{error.message}.")
    distance = nearest.distance / np.sqrt(len(estimate.beta))
    if distance <= CONSISTENT_DISTANCE:
        fitted = physical_values(estimate, space)
        x = nearest.x if fitted is None or not limits.are_satisfied(space, fitted) else fitted
        arm = arm_witness(space, x)
        masses = ", ".join(f"{name} {mass:.3g} kg" for name, mass in arm["masses"].items())
        return Answer(
            PLAUSIBLE,
            True,
            f"links within the bounds have these values ({masses}).",
            {"distance": distance, **arm},
        )
    moves = np.abs(nearest.beta - estimate.beta) * np.diag(relative_metric(space, estimate.beta))
    largest = [space.names[k] for k in np.argsort(moves)[::-1][:3]]
    return Answer(
        PLAUSIBLE,
        False,
        f"no links within the bounds have these values: the nearest differ by {100 * distance:.2g} % (rms), "
        f"most of all in {', '.join(largest)}.",
        {"distance": distance, "nearest": dict(zip(space.names, nearest.beta.tolist(), strict=True)), "most": largest},
    )
