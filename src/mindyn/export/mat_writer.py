"""Writing MAT: parameters of a robot or of an estimate as variables that MATLAB, Octave and SciPy load."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.files import write_whole
from mindyn.identifiability.base_sets import base_parameters
from mindyn.parameters.base import BaseParameters, all_parameters
from mindyn.robots.robot import Robot


def write_mat(source: Robot | Estimate, path: str | Path, *, drives: bool = False) -> None:
    """Write the parameters as a MAT file of version 5: vectors as columns, lists of names as cell arrays of text.

    Both: robot, joint_names, joint_kinds, link_names, gravity, base_names, base_expressions, base_matrix with
    beta = base_matrix * standard parameters, standard_names.
    Joints are those of q: with loops, the primary ones.
    A robot: standard_values and base_values, where its links state them; `drives` adds those of the drives.
    An estimate: names, values, covariance, deviations (Inf: the data cannot tell), left_out, untold, status, residual
    rms of each joint; prior_standard_values where the robot states them.
    """
    from scipy.io import savemat

    if not isinstance(source, (Robot, Estimate)):
        raise InputError(f"a MAT file is written of a Robot or an Estimate, got {type(source).__name__}")
    values = _of_robot(source, drives=drives) if isinstance(source, Robot) else _of_estimate(source)
    written = BytesIO()
    savemat(written, values, oned_as="column")
    write_whole(path, written.getvalue())


def _of_robot(robot: Robot, *, drives: bool) -> dict[str, Any]:
    base = base_parameters(robot, drives=drives)
    known = robot.has_parameters
    stated = {"standard_values": all_parameters(robot, drives=drives), "base_values": base.values} if known else {}
    return {**_structure(base), **stated}


def _of_estimate(found: Estimate) -> dict[str, Any]:
    prior = all_parameters(found.robot, drives=found.base.drives) if found.robot.has_parameters else None
    return {
        **_structure(found.base),
        "names": _cells(found.names),
        "values": found.beta,
        "covariance": found.covariance,
        "deviations": found.deviations,
        "left_out": _cells(found.left_out),
        "untold": _cells(found.untold),
        "status": found.status,
        "residual_rms": np.array([one.rms for one in found.residuals]),
        **({} if prior is None else {"prior_standard_values": prior}),
    }


def _structure(base: BaseParameters) -> dict[str, Any]:
    robot = base.robot
    return {
        "robot": robot.name,
        "joint_names": _cells(robot.primary_names),
        "joint_kinds": _cells([joint.kind for joint in robot.primary_joints]),
        "link_names": _cells(robot.link_names),
        "gravity": robot.gravity,
        "standard_names": _cells(base.labels),
        "base_names": _cells(base.names),
        "base_expressions": _cells(base.expressions),
        "base_matrix": base.matrix,
    }


def _cells(texts: Sequence[str]) -> Any:
    """A column of text cells."""
    cells = np.empty((len(texts), 1), dtype=object)
    cells[:, 0] = texts
    return cells
