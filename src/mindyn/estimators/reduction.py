"""Sheu and Walker's reduction of an estimate to the essential components of its link parameters along a motion."""

from __future__ import annotations

from dataclasses import replace

from mindyn.estimators.estimate import Estimate
from mindyn.identifiability.reduction import MAX_ENERGY_ERROR, Reduction, reduce_model
from mindyn.logs.samples import Samples
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.robots.parts import Link


def reduce_estimate(
    estimate: Estimate, samples: Samples, *, keep: int | None = None, tolerance: float = MAX_ENERGY_ERROR
) -> Reduction:
    """Return the essential components of the link parameters, ranked by their energy along the motion.

    Parameters
    ----------
    estimate : Estimate
        The estimate to reduce.
    samples : Samples
        The motion.
    keep : int, optional
        Number of components to keep; by default as many as `tolerance` needs.
    tolerance : float
        Fraction of the energy that may be missed [Sheu & Walker 1991, section 3.2].

    Returns
    -------
    Reduction
        Components, their energies, and the torque error for every number of components.
    """
    robot = estimate.robot
    phi = estimate.base.embedding @ estimate.base_values
    links = tuple(
        Link(link.name, phi[PARAMETERS_PER_LINK * i : PARAMETERS_PER_LINK * (i + 1)])
        for i, link in enumerate(robot.links)
    )
    rigid = replace(robot, links=links, drives=(), extras=())
    return reduce_model(rigid, samples.q, samples.qd, samples.qdd, keep=keep, tolerance=tolerance)
