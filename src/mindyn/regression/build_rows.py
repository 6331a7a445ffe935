"""`build_rows`: the equations tau = Y beta of logs or samples."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace

from mindyn.logs.loop_follower import follow_loops
from mindyn.logs.samples import Samples
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.regression.experiment import Experiment
from mindyn.regression.regressor import build_regressor
from mindyn.regression.rows import Logs, Rows, SampleBlocks, complete_robot, list_logs
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot


def build_rows(
    robot: Robot,
    data: Logs | SampleBlocks,
    settings: EquationSettings | None = None,
    *,
    base: BaseParameters | None = None,
    executor: Executor | None = None,
) -> Rows:
    """Return the equations tau = Y beta of logs or samples, computed when they are used.

    Parameters
    ----------
    robot : Robot
        Robot of the data.
    data : Log, LogScan, Samples, a sequence of logs, or a stream of samples
        What `read_log`, `scan_log`, `condition` or `condition_stream` returns.
    settings : EquationSettings, optional
        Settings that define how samples become equations.
    base : BaseParameters, optional
        Base set in place of the one of the settings.
    executor : concurrent.futures.Executor, optional
        Each worker computes the blocks of one log. Workers open the files of a `LogScan` themselves, so no row is sent
        to them. The blocks are bit-identical for any number of workers.

    Returns
    -------
    Rows
        The equations.

    Raises
    ------
    InputError
        If an item is not a log.
    """
    logs = list_logs(data)
    if logs is not None:
        return Experiment(robot, logs, executor=executor).equations(settings, base)
    asked = settings or EquationSettings()
    complete, findings = complete_robot(robot, asked, ())
    regressor = build_regressor(complete, asked, base)
    if base is not None:
        asked = replace(asked, base_form=base.form)
    samples: SampleBlocks = data  # type: ignore[assignment]  # only samples remain
    samples = follow_loops(complete, samples) if isinstance(samples, Samples) else samples
    return Rows(regressor, asked, samples, findings=findings)
