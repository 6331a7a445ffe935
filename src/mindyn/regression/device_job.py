"""Gather rows on another machine with a GPU: `write_device_job`, then `rows_of_factors`; `device` does the work.

With a GPU on this machine, use `build_rows(robot, logs, settings, gpu=True)`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mindyn.errors import Code, InputError
from mindyn.files import write_folder_atomically
from mindyn.regression import device
from mindyn.regression.device_factors import information_of_factors
from mindyn.regression.device_rows import rows_source, takes_directions, widths_of
from mindyn.regression.regressor import Regressor, build_regressor, with_estimated_drives
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot


def write_device_job(robot: Robot, folder: str | Path, settings: EquationSettings | None = None) -> tuple[Path, ...]:
    """Write the files with which a GPU machine gathers rows with only NumPy and CuPy.

    On that machine, `python FOLDER/device.py FOLDER samples.npz factors.npz` converts q, qd, qdd, tau (N, n) to the R
    factors that `rows_of_factors` reads.

    Parameters
    ----------
    robot : Robot
        Robot of the samples.
    folder : str or Path
        Folder to write: kernel, shapes and `device.py`.
    settings : EquationSettings, optional
        Settings without filter, decimation and stop operators, which need the order of the rows.

    Returns
    -------
    tuple of Path
        The written files.

    Raises
    ------
    InputError
        If the settings need the order of the rows.
    """
    regressor = _regressor(robot, settings or EquationSettings())
    files = {
        "rows.cu": rows_source(regressor),
        "rows.json": json.dumps({"widths": widths_of(regressor), "joints": list(regressor.joint_names)}),
        "device.py": Path(device.__file__).read_text(encoding="utf-8"),
    }
    write_folder_atomically(folder, files)
    return tuple(Path(folder) / name for name in files)


def rows_of_factors(robot: Robot, factors: str | Path, settings: EquationSettings | None = None) -> Rows:
    """Return the equations whose R factors a device job wrote.

    Parameters
    ----------
    robot : Robot
        Robot of the job.
    factors : str or Path
        File that `device.py` wrote.
    settings : EquationSettings, optional
        Settings of the job.

    Returns
    -------
    Rows
        The equations, without samples.

    Raises
    ------
    InputError
        If the file does not contain the factors of a job for this robot.
    """
    regressor, how = _regressor(robot, settings or EquationSettings()), settings or EquationSettings()
    try:
        with np.load(factors) as given:
            triangles, count = [given[f"R{k}"] for k in range(regressor.joint_count)], int(given["rows"])
    except (OSError, KeyError, ValueError) as problem:
        raise InputError(
            f"{factors} has no factors of a device job: {problem}", code=Code.WRONG_FORMAT, subject=factors
        ) from problem
    return Rows.of_information(regressor, information_of_factors(regressor, triangles, count), how)


def _regressor(robot: Robot, settings: EquationSettings) -> Regressor:
    if settings.cutoff_hz is not None or settings.step != 1:
        raise InputError(
            "a filter on the columns (filter_hz) and decimation are not part of a device job",
            hint="build_rows(robot, logs, settings, gpu=True) where the GPU is; or condition the samples instead",
            code=Code.UNSUPPORTED,
            subject="filter_hz" if settings.cutoff_hz is not None else "decimation",
        )
    regressor = build_regressor(with_estimated_drives(robot) if settings.drives == "estimated" else robot, settings)
    if takes_directions(regressor):
        raise InputError(
            "friction by a stop operator has a memory along the log, which a device job does not have",
            hint='Friction("tanh", width)',
            code=Code.UNSUPPORTED,
            subject="friction",
        )
    return regressor
