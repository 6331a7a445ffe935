"""`require_plausible`: reject the full model of an estimate if it could not be a real robot, and propose a remedy.

`check_projection` determines in advance whether the result of `make_feasible` would be rejected.
"""

from __future__ import annotations

from typing import Final, Literal

from mindyn.foundation.errors import ImplausibleModelError, MindynError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.checks.full_model_check import Plausibility, check_full_model
from mindyn.identification.feasibility.full_models.full_model import build_full_model
from mindyn.identification.feasibility.projections.consistent_projection import make_feasible
from mindyn.robots.robot import Robot

Prior = Robot | Literal["robot"] | None

CONSISTENT_REMEDY: Final = "identify again with --consistent (PhysicallyConsistent), which stays near the robot file"
PROJECTION_REMEDY: Final = "project the estimate with --feasible (make_feasible)"
PRIOR_REMEDY: Final = "pass a robot file with known inertial parameters (--prior), or record a more exciting motion"
FORCE_REMEDY: Final = "or write it as it is with --force (force=True)"


def check_projection(estimate: Estimate, prior: Prior = "robot") -> Plausibility | None:
    """Check the full model of the projected estimate; None if it cannot be computed."""
    try:
        projected = make_feasible(estimate)
        return check_full_model(build_full_model(projected, prior), _find_reference(projected, prior))
    except MindynError:
        return None


def check_estimate(estimate: Estimate, prior: Prior = "robot") -> Plausibility:
    """Check the full model of a physically consistent estimate; the reference is the robot that completes it."""
    return check_full_model(build_full_model(estimate, prior), _find_reference(estimate, prior))


def require_plausible(estimate: Estimate, model: Robot, prior: Prior) -> Plausibility:
    """Return the plausibility of the full model of an estimate. Raise `ImplausibleModelError` if it is implausible."""
    plausibility = check_full_model(model, _find_reference(estimate, prior))
    if plausibility.is_plausible:
        return plausibility
    implausible = [link.link for link in plausibility.links if link.problems]
    raise ImplausibleModelError(
        f"the model is physically consistent, but not plausible: {plausibility.describe_problems()}",
        hint=f"{_choose_remedy(estimate, prior)}; {FORCE_REMEDY}",
        subject=implausible[0] if implausible else estimate.robot.name,
    )


def _find_reference(estimate: Estimate, prior: Prior) -> Robot | None:
    return estimate.robot if isinstance(prior, str) else prior


def _choose_remedy(estimate: Estimate, prior: Prior) -> str:
    """Return the remedy that leads to a plausible model: a constrained fit, a projection (if it is plausible), or more
    data.
    """
    if estimate.values.physical is None or estimate.values.projected:
        return CONSISTENT_REMEDY
    projection = check_projection(estimate, prior)
    return PROJECTION_REMEDY if projection is not None and projection.is_plausible else PRIOR_REMEDY
