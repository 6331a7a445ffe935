"""`design_motions`: design several motions; each excites parameters that the logs of earlier motions do not determine
well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mindyn.foundation.algebra.requirements import require_count
from mindyn.foundation.algebra.values import RandomSource, seed_from
from mindyn.logs.samples import Samples
from mindyn.motions.excitation.design import design_motion
from mindyn.motions.excitation.design_inputs import ExpectedLog, explain_moved_arguments, require_settings
from mindyn.motions.excitation.motion_design import MotionDesign
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import gather
from mindyn.robots.robot import Robot


@explain_moved_arguments
def design_motions(
    robot: Robot, count: int = 2, *, log: ExpectedLog | None = None, rng: RandomSource = 0, **settings: Any
) -> tuple[MotionDesign, ...]:
    """Design motions that complement each other: each maximises the information of its log and all earlier logs.

    A second motion at another posture often determines more parameters than one motion of twice the length. The
    predicted accuracy of a motion is that of a fit to its log together with the logs of the motions before it.

    Parameters
    ----------
    robot : Robot
        Robot that will move.
    count : int, default 2
        Number of motions.
    log : ExpectedLog, optional
        Rate, noise and parameters of each log, and information of earlier logs, which the motions complement.
    rng : int, numpy.random.Generator or None, default 0
        Source of the random starts.
    **settings
        Other arguments of `design_motion`, for all motions.

    Returns
    -------
    tuple of MotionDesign
        The motions, in the order in which they were designed.

    Raises
    ------
    InputError
        If the count is not a positive integer, or an argument of `design_motion` is invalid.
    UnsafeMotionError
        If no motion keeps the limits and distances.

    Examples
    --------
    >>> import mindyn
    >>> robot = mindyn.load_robot("planar2")
    >>> limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=2.0, effort=4000.0)
    >>> first, second = design_motions(robot, 2, seconds=6.0, limits=limits, search=mindyn.SearchSettings(1))
    >>> bool((second.prediction.deviations < first.prediction.deviations).all())
    True
    """
    require_count(count, "count")
    log = require_settings(log, ExpectedLog, "log")
    seed, designs = seed_from(rng), list[MotionDesign]()
    for number in range(count):
        source = seed if number == 0 else np.random.default_rng([seed, number])
        design = design_motion(robot, log=log, rng=source, **settings)
        designs.append(design)
        information = predicted_information(design, with_drives=log.with_drives)
        log = replace(log, previous=information if log.previous is None else log.previous + information)
    return tuple(designs)


def predicted_information(design: MotionDesign, *, with_drives: bool) -> Information:
    """Return the predicted information of a log of a motion, for `previous` in the `ExpectedLog` of another design.

    with_drives  whether rotor inertia and friction are parameters
    """
    robot = design.robot if with_drives else replace(design.robot, drives=(), extras=())
    q, qd, qdd, t = design.sample(design.rate_hz)
    segments = np.zeros(len(t), dtype=np.int64)
    return gather(
        Regressor(robot), Samples(robot.primary_names, q, qd, qdd, np.zeros_like(q), design.rate_hz, segments)
    )
