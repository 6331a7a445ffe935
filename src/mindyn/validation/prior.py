"""The prior model: what a robot's own description predicts, put as an estimate so that it is judged alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.parameters.base import all_parameters, same_mechanism
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot


def prior_estimate(estimate: Estimate, prior: Robot | None = None) -> Estimate | None:
    """The estimate's model with the values that `prior` states; the estimate's own robot if left out.

    Drives that the prior does not state have neither friction nor rotor inertia. None where nothing was given and the
    estimate's robot states no inertial parameters.
    """
    robot = prior or estimate.robot
    if prior is None and not robot.has_parameters:
        return None
    stated = {drive.joint: drive for drive in robot.drives}
    drives = tuple(stated.get(drive.joint, _idle(drive)) for drive in estimate.robot.drives)
    complete = replace(robot, drives=drives)
    if not same_mechanism(complete, estimate.robot):
        raise InputError(
            f"the prior {robot.name!r} has other joints, gears or gravity than the estimate's {estimate.robot.name!r}",
            hint="give the description that the estimate was made with, or one that differs in its masses alone",
        )
    values = estimate.base.matrix @ all_parameters(complete, drives=estimate.base.drives)
    return replace(
        estimate,
        beta=np.concatenate([values, np.zeros(len(estimate.names) - len(values))]),
        covariance=np.zeros_like(estimate.covariance),
        status=f"the values that {robot.name} states",
        left_out=(),
        untold=(),
        shifts=None,
        physical=None,
        mended=False,
    )


def _idle(drive: Drive) -> Drive:
    return replace(drive, rotor_inertia=0.0, viscous=0.0, coulomb=0.0, offset=0.0)
