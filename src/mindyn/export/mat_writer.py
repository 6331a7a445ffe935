"""Writing MAT: parameters of a robot or of an estimate as variables that MATLAB, Octave and SciPy load."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.files import write_file_atomically
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
    values = _robot_variables(source, drives=drives) if isinstance(source, Robot) else _estimate_variables(source)
    written = BytesIO()
    savemat(written, values, oned_as="column")
    write_file_atomically(path, written.getvalue())


def _robot_variables(robot: Robot, *, drives: bool) -> dict[str, Any]:
    base = base_parameters(robot, drives=drives)
    known = robot.has_parameters
    stated = {"standard_values": all_parameters(robot, drives=drives), "base_values": base.values} if known else {}
    return {**_structure_variables(base), **stated}


def _estimate_variables(found: Estimate) -> dict[str, Any]:
    prior = all_parameters(found.robot, drives=found.base.drives) if found.robot.has_parameters else None
    return {
        **_structure_variables(found.base),
        "names": _text_cells(found.names),
        "values": found.beta,
        "covariance": found.covariance,
        "deviations": found.deviations,
        "dropped": _text_cells(found.dropped),
        "unidentifiable": _text_cells(found.unidentifiable),
        "status": found.status,
        "residual_rms": np.array([one.rms for one in found.residuals]),
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
    """A column of text cells."""
    cells = np.empty((len(texts), 1), dtype=object)
    cells[:, 0] = texts
    return cells
