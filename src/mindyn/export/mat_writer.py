"""Write parameters of a robot or an estimate as a MAT file for MATLAB, Octave and SciPy."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.files import write_file_atomically
from mindyn.identifiability.base_sets import base_parameters
from mindyn.parameters.base import BaseParameters, all_parameters
from mindyn.robots.robot import Robot


def write_mat(model: Robot | Estimate, path: str | Path, *, drives: bool = False) -> Path:
    """Write the parameters of a robot or an estimate as a MAT file (version 5).

    Vectors are columns, and lists of names are cell arrays. All files have robot, joint_names (the primary joints),
    joint_kinds, link_names, gravity, base_names, base_expressions, standard_names, and base_matrix with
    beta = base_matrix * standard parameters. Files of a robot also have standard_values and base_values if its links
    have parameters. Files of an estimate also have names, values, covariance, deviations (Inf if unidentifiable),
    dropped, unidentifiable, status, residual_rms of each joint, and prior_standard_values if its robot has parameters.

    Parameters
    ----------
    model : Robot or Estimate
        Robot or estimate to write.
    path : str or Path
        File to write.
    drives : bool
        Include the parameters of the drives of a robot.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    InputError
        If `model` is neither a `Robot` nor an `Estimate`.

    Examples
    --------
    >>> mindyn.write_mat(mindyn.load_robot("planar2"), "planar2.mat").name
    'planar2.mat'
    """
    from scipy.io import savemat

    if not isinstance(model, (Robot, Estimate)):
        raise InputError(
            f"write_mat needs a Robot or an Estimate, got {type(model).__name__}", code=Code.WRONG_TYPE, subject="model"
        )
    values = _robot_variables(model, drives=drives) if isinstance(model, Robot) else _estimate_variables(model)
    content = BytesIO()
    savemat(content, values, oned_as="column")
    return write_file_atomically(path, content.getvalue())


def _robot_variables(robot: Robot, *, drives: bool) -> dict[str, Any]:
    base = base_parameters(robot, drives=drives)
    known = robot.has_parameters
    stated = {"standard_values": all_parameters(robot, drives=drives), "base_values": base.values} if known else {}
    return {**_structure_variables(base), **stated}


def _estimate_variables(estimate: Estimate) -> dict[str, Any]:
    prior = all_parameters(estimate.robot, drives=estimate.base.drives) if estimate.robot.has_parameters else None
    return {
        **_structure_variables(estimate.base),
        "names": _text_cells(estimate.names),
        "values": estimate.beta,
        "covariance": estimate.covariance,
        "deviations": estimate.deviations,
        "dropped": _text_cells(estimate.dropped),
        "unidentifiable": _text_cells(estimate.unidentifiable),
        "status": estimate.status,
        "residual_rms": np.array([residual.rms for residual in estimate.residuals]),
        **({} if prior is None else {"prior_standard_values": prior}),
    }


def _structure_variables(base: BaseParameters) -> dict[str, Any]:
    robot = base.robot
    return {
        "robot": robot.name,
        "joint_names": _text_cells(robot.primary_names),
        "joint_kinds": _text_cells([joint.kind for joint in robot.primary_joints]),
        "link_names": _text_cells(robot.link_names),
        "gravity": robot.gravity,
        "standard_names": _text_cells(base.labels),
        "base_names": _text_cells(base.names),
        "base_expressions": _text_cells(base.expressions),
        "base_matrix": base.matrix,
    }


def _text_cells(texts: Sequence[str]) -> Any:
    """Return a cell array column of strings."""
    cells = np.empty((len(texts), 1), dtype=object)
    cells[:, 0] = texts
    return cells
