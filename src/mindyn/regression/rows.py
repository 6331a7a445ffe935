"""`Rows`: the equations tau = Y beta of logs, computed on first use, as R factors in blocks and as samples.

An estimator reads either the blocks, or the conditioned samples. Blocks are small, and can be added and held out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.foundation.processes.executors import run_tasks
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.conversion import add_logged_gears
from mindyn.logs.log import Log, SourceFile
from mindyn.logs.periods import Timeline
from mindyn.logs.pipeline import ConditionedSamples, SampleStream, require_samples
from mindyn.logs.read_log import LogScan
from mindyn.logs.samples import Samples
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.regression.gather_blocks import (
    BLOCKS,
    Block,
    block_counts,
    blocks_by_label,
    group_evenly,
    split_into_blocks,
    split_stream_into_blocks,
)
from mindyn.regression.gathered_log import GatheredLog, gather_log
from mindyn.regression.information import Information, add_information
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import require_enough_rows, require_joints
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot, require_robot

SampleBlocks = Samples | Iterable[Samples]
Quantity = Literal["torque", "mean torque", "mean power", "position"]
"""Quantity on the right side of the equations: torque, mean torque or power over an interval, or a position that is
compared with a simulation.
"""
Logs = Log | LogScan | Sequence[Log | LogScan]
FOLDS: Final = 8
"""Number of folds of the cross-validation. With 4 folds the rest of a short log does not determine all parameters, and
the scores of similar settings differ (UR10, 14 s: 6.1 to 20 %); with 6 to 12 they agree."""
CONSTANT_TORQUE: Final = 1e-9
"""Largest relative change of a constant torque: rounding of sums."""


class Rows:
    """Equations tau = Y beta of logs or samples; data are read on first use.

    Create equations with `build_rows`.

    Attributes
    ----------
    regressor : Regressor
        The columns Y, with robot, base set and names of the parameters.
    settings : EquationSettings
        Settings that define how samples become equations, without any "auto".
    quantity : {"torque", "mean torque", "mean power", "position"}
        What the right sides are.
    """

    def __init__(
        self,
        regressor: Regressor,
        settings: EquationSettings,
        data: SampleBlocks | LogRows | None,
        blocks: tuple[Block, ...] | None = None,
        findings: Sequence[Finding] = (),
        quantity: Quantity = "torque",
    ) -> None:
        self.regressor = regressor
        self.settings = settings
        self._data = data
        self._given = blocks
        self._findings = tuple(findings)
        self.quantity = quantity
        self._of_logs: list[GatheredLog] | None = None

    def __repr__(self) -> str:
        joints = pluralise(len(self.regressor.joint_names), "joint")
        columns = pluralise(len(self.regressor.names), "parameter")
        return f"Rows({self.robot.name!r}, {self.quantity}, {joints}, {columns})"

    @staticmethod
    def of_information(
        regressor: Regressor, information: Information, settings: EquationSettings | None = None
    ) -> Rows:
        """Return equations of which only the R factors are known; they form one block."""
        if information.names != regressor.names:
            raise InputError(
                "the information is of other parameters than the regressor: robot or friction differ",
                code=Code.DISAGREEMENT,
                subject="information",
            )
        rows = max(information.counts, default=0)
        reach = np.full((2, len(information.counts)), np.nan)
        return Rows(regressor, settings or EquationSettings(), None, (Block(0, (0, rows), None, information, reach),))

    @property
    def robot(self) -> Robot:
        """Return the robot, with the drives whose parameters are among the columns."""
        return self.regressor.robot

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Return R factors of contiguous parts of the logs, in order: about `BLOCKS`, at least one for each log."""
        if self._given is not None:
            return self._given
        return self._gather()

    @cached_property
    def information(self) -> Information:
        """Return the information of all blocks.

        Raise an error that names joints that never move or have too few rows.
        """
        if not self.blocks:
            raise InputError("no samples were given", code=Code.MISSING_VALUE, subject="samples")
        total = add_information([block.information for block in self.blocks])
        lowest = np.min([block.reach[0] for block in self.blocks], axis=0)
        highest = np.max([block.reach[1] for block in self.blocks], axis=0)
        if not np.isnan(lowest).any():
            require_enough_rows(self.regressor, total.counts, np.stack([lowest, highest]))
        return total

    @cached_property
    def independent_blocks(self) -> tuple[Block, ...]:
        """Return blocks with independent errors: phases if the motion repeats, otherwise parts of the logs."""
        line = None if self._given is not None else self.timeline
        return self.blocks if line is None or not line.repeated else self.blocks_along(line.times, line.length_s)

    def folds(self, count: int = FOLDS) -> list[Information]:
        """Return `independent_blocks` in `count` contiguous groups of nearly equal length; fewer if blocks are few."""
        groups = group_evenly([block.information for block in self.independent_blocks], count)
        parts = [add_information(group) for group in groups]
        return [part for part in parts if sum(part.counts)]

    def select(self, blocks: Iterable[Block]) -> Rows:
        """Return the equations of some blocks, as R factors."""
        return Rows(self.regressor, self.settings, None, tuple(blocks), self._findings, self.quantity)

    @cached_property
    def timeline(self) -> Timeline | None:
        """Return a timeline on which repeated motion has equal times; None for streams and samples."""
        if not isinstance(self._data, LogRows) or self._data.streamed or self._data.executor is not None:
            return None
        return self._data.experiment.timeline

    def blocks_along(self, places: Sequence[Array], length: float, count: int = BLOCKS) -> tuple[Block, ...]:
        """Return R factors of equal parts of a line.

        Every row of the logs has a position on the line, such as a phase.

        places  for each log, the position of each of its rows on the line, from 0 to `length`
        """
        if not isinstance(self._data, LogRows) or self._data.streamed:
            raise InputError(
                "blocks along a line need logs in memory (read_log), not streams or samples",
                code=Code.UNSUPPORTED,
                subject="logs",
            )
        conditioned, logs = self._data.all_samples, [log for log in self._data.logs if isinstance(log, Log)]
        return self.blocks_by_label(labels_along(conditioned, logs, places, length, count), count)

    def blocks_by_label(self, labels: NDArray[np.int64], count: int) -> tuple[Block, ...]:
        """Return R factors of the rows with each of the labels 0 to `count` - 1; `labels` (N,) are those of samples."""
        samples = self.all_samples("a block by label")
        return blocks_by_label(self.regressor, samples, self.settings, labels, count)

    def samples(self) -> Iterable[Samples]:
        """Yield the conditioned samples; every iteration starts again."""
        blocks = self._sample_blocks()
        return (blocks,) if isinstance(blocks, Samples) else blocks

    def all_samples(self, who: str) -> Samples:
        """Return all samples at once.

        For a stream, raise an error with the name `who` of the method that needs the samples.
        """
        data = self._sample_blocks()
        if not isinstance(data, Samples):
            raise InputError(
                f"{who} needs all rows at once, as Samples, not as a stream",
                hint="use read_log instead of scan_log (no --stream), or LeastSquares, which reads block by block",
                code=Code.UNSUPPORTED,
                subject="samples",
            )
        require_joints(self.regressor, data)
        return data

    @property
    def repeatable_samples(self) -> SampleBlocks:
        """Return samples that can be read several times. Raise an error if they can be read only once."""
        data = self._data
        if data is None or (not isinstance(data, (Samples, LogRows)) and iter(data) is data):
            raise InputError(
                'robust fits and "correlated" covariance read the samples several times; '
                "this input can be read only once",
                hint="pass Samples, or the stream that condition_stream returns",
                code=Code.UNSUPPORTED,
                subject="samples",
            )
        return self._sample_blocks()

    def _sample_blocks(self) -> SampleBlocks:
        data = self._require_data()
        if isinstance(data, LogRows):
            return data.stream if data.streamed else data.all_samples.samples
        return data

    @property
    def count(self) -> int:
        """Return the number of samples; for a stream, the number of samples read so far."""
        data = self._data
        if self._of_logs is not None:
            return sum(log.count for log in self._of_logs)
        if isinstance(data, LogRows):
            return data.stream.count if data.streamed else len(data.all_samples.samples)
        return len(data) if isinstance(data, Samples) else 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return findings on what was dropped, split or selected; for a stream, those found so far."""
        data = self._data
        findings: Sequence[Finding] = ()
        if self._of_logs is not None:
            findings = list(dict.fromkeys(finding for log in self._of_logs for finding in log.findings))
        elif isinstance(data, LogRows):
            findings = data.stream.findings if data.streamed else data.all_samples.findings
        return (*self._findings, *findings)

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """Files of the logs."""
        if self._of_logs is not None:
            return tuple(source for log in self._of_logs for source in log.sources)
        return self._data.sources if isinstance(self._data, LogRows) else ()

    def find_log(self) -> tuple[Log | None, float]:
        """Return the log and the time (s) of its first sample, if the equations belong to one log in memory; otherwise
        None.
        """
        data = self._data
        if not isinstance(data, LogRows) or len(data.logs) != 1 or not isinstance(data.logs[0], Log):
            return None, 0.0
        return data.logs[0], float(data.all_samples.time[0])

    def log_name(self, number: int) -> str:
        """Return a text such as "log run1.csv" for `Block.log`; a log without a file is named by its number."""
        log = self._data.logs[number] if isinstance(self._data, LogRows) else None
        name = log.path.name if isinstance(log, LogScan) else log and log.name
        return f"log {name or number + 1}"

    def with_blocks(self, blocks: Iterable[Block], quantity: Quantity) -> Rows:
        """Return other equations of the same parameters from the same samples."""
        rows = Rows(self.regressor, self.settings, self._data, tuple(blocks), self._findings, quantity)
        rows._of_logs = self._of_logs
        return rows

    @cached_property
    def constant_torques(self) -> NDArray[np.bool_]:
        """Return for each joint (n,) whether its torque never changes while other torques do.

        Without samples, use the offset column.
        """
        information, kinds = self.information, np.array([parameter.kind for parameter in self.regressor.parameters])
        of_joints = zip(information.factors, information.columns, strict=True)
        constant = np.array([_is_multiple(R, kinds[columns] == "offset", R[:, -1]) for R, columns in of_joints])
        logs = self._data if isinstance(self._data, LogRows) else None
        data = logs.all_samples.samples if logs and not logs.streamed and logs.executor is None else self._data
        if isinstance(data, Samples) and data.tau.shape[1] == len(constant):
            constant |= np.ptp(data.tau, axis=0) <= CONSTANT_TORQUE * np.abs(data.tau).max(axis=0)
        constant &= ~np.isin(information.joint_names, information.unforced)
        return constant & ~constant.all()

    def without_constant_torques(self) -> Rows:
        """Return the equations with zeros for `constant_torques`, because fits give zeros no weight."""
        constant = self.constant_torques.tolist()
        blocks = (replace(block, information=block.information.without_torques(constant)) for block in self.blocks)
        return self.with_blocks(blocks, self.quantity) if any(constant) else self

    def _require_data(self) -> SampleBlocks | LogRows:
        if self._data is None:
            raise InputError(
                "these equations are only R factors, without samples",
                hint="build_rows(robot, logs) has both; LeastSquares with covariance='white' needs no samples",
                code=Code.MISSING_VALUE,
                subject="samples",
            )
        return self._data

    @run_on_one_blas_thread
    def _gather(self) -> tuple[Block, ...]:
        data, regressor, settings = self._require_data(), self.regressor, self.settings
        if isinstance(data, Samples):
            return tuple(split_into_blocks(regressor, data, settings))
        if not isinstance(data, LogRows):
            return tuple(split_stream_into_blocks(regressor, data, settings))
        if data.executor is None and not data.streamed:
            return tuple(block for blocks in self._in_memory(data) for block in blocks)
        self._of_logs = list(run_tasks(data.executor, gather_log, data.tasks(regressor)))
        require_samples(self.count, self.findings)
        return tuple(block for log in self._of_logs for block in log.blocks)

    def _in_memory(self, data: LogRows) -> Iterator[list[Block]]:
        """Yield the blocks of every log, which do not depend on the other logs."""
        for number, count in enumerate(data.block_counts):
            assert count is not None
            first, after = np.searchsorted(data.all_samples.logs, [number, number + 1])
            samples = data.all_samples.samples.take(slice(first, after))
            yield split_into_blocks(self.regressor, samples, self.settings, count, number)


def labels_along(
    conditioned: ConditionedSamples, logs: Sequence[Log], places: Sequence[Array], length: float, count: int
) -> NDArray[np.int64]:
    """Return for each sample (N,) the number of the part of the line on which it lies; `places` are positions of the
    logs' rows.
    """
    at = np.empty(len(conditioned.samples))
    for number, (log, place) in enumerate(zip(logs, places, strict=True)):
        in_log = conditioned.logs == number
        at[in_log] = place[np.minimum(np.searchsorted(log.rows, conditioned.rows[in_log]), len(log) - 1)]
    return np.clip((at / length * count).astype(np.int64), 0, count - 1)


def _is_multiple(factor: Array, offsets: NDArray[np.bool_], tau: Array) -> bool:
    """Return whether tau, the last column of an R factor, is zero or a multiple of one of the marked columns."""
    rests = [tau - c * (c @ tau / max(float(c @ c), 1e-300)) for c in factor[:, :-1].T[offsets]]
    return not tau.any() or any(np.linalg.norm(rest) <= CONSTANT_TORQUE * np.linalg.norm(tau) for rest in rests)


class LoggedRows(Protocol):
    """Logs of a robot and their samples: the interface of `Experiment` that `Rows` needs."""

    @property
    def logs(self) -> tuple[Log | LogScan, ...]:
        """The logs."""
        ...

    @property
    def executor(self) -> Executor | None:
        """Executor that processes each log in a worker; None without one."""
        ...

    @property
    def is_streamed(self) -> bool:
        """Whether rows are read from the files again for every pass."""
        ...

    @property
    def timeline(self) -> Timeline | None:
        """Timeline that shows where the motion repeats."""
        ...

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """Files of the logs."""
        ...

    def samples(self, conditioning: Conditioning | None = None) -> ConditionedSamples:
        """Return motion and torque at every row."""
        ...

    def stream(self, conditioning: Conditioning | None = None) -> SampleStream:
        """Return the samples block by block."""
        ...


class LogRows:
    """Logs of an experiment, with the robot and the settings of their equations."""

    def __init__(
        self, experiment: LoggedRows, robot: Robot, settings: EquationSettings, base: BaseParameters | None
    ) -> None:
        self.experiment, self.robot, self.settings, self.base = experiment, robot, settings, base

    @property
    def logs(self) -> tuple[Log | LogScan, ...]:
        """The logs."""
        return self.experiment.logs

    @property
    def streamed(self) -> bool:
        """Whether rows are read from the files again for every pass."""
        return self.experiment.is_streamed

    @property
    def executor(self) -> Executor | None:
        """Executor that processes each log in a worker; None without one."""
        return self.experiment.executor

    @property
    def block_counts(self) -> Sequence[int | None]:
        """Return the number of blocks of each log in memory; None for streams, whose length is unknown before they are
        read.
        """
        if self.streamed:
            return [None] * len(self.logs)
        return block_counts([len(log) for log in self.logs if isinstance(log, Log)])

    def tasks(self, regressor: Regressor) -> Iterator[tuple[object, ...]]:
        """Return the arguments of `gather_log` for each log. Workers build the regressor themselves."""
        here = regressor if self.executor is None else None
        for number, (log, count) in enumerate(zip(self.logs, self.block_counts, strict=True)):
            sent = log.opening if isinstance(log, LogScan) and self.executor is not None else log
            yield self.robot, sent, self.settings, self.base, number, count, here

    @property
    def all_samples(self) -> ConditionedSamples:
        """Return the samples of all logs in memory."""
        return self.experiment.samples(self.settings.fit_conditioning)

    @cached_property
    def stream(self) -> SampleStream:
        """Return the samples block by block."""
        return self.experiment.stream(self.settings.fit_conditioning)

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """Files of the logs."""
        return self.experiment.sources


def complete_robot(
    robot: Robot, settings: EquationSettings, logs: Sequence[Log | LogScan]
) -> tuple[Robot, tuple[Finding, ...]]:
    """Return the robot with all drives whose parameters are estimated, and findings on the gears of the logs."""
    require_robot(robot, "build_rows")
    if settings.drive_parameters == "stated":
        return robot, ()
    geared, notes = add_logged_gears(robot, [log.metadata for log in logs])
    remedy = "Give the gears of all motors in the robot's drives, as in the logs"
    return with_estimated_drives(geared), tuple(warning(Kind.GEARS, sentence, remedy) for sentence in notes)


def list_logs(data: object) -> list[Log | LogScan] | None:
    """Return the logs as a list; None if the data are samples."""
    if isinstance(data, (Log, LogScan)):
        return [data]
    if not isinstance(data, (list, tuple)) or (data and isinstance(data[0], Samples)):
        return None
    if not data:
        raise InputError(
            "no log was given, only an empty list",
            hint="did a search for files match none?",
            code=Code.MISSING_VALUE,
            subject="logs",
        )
    if others := [item for item in data if not isinstance(item, (Log, LogScan))]:
        raise InputError(
            f"{type(others[0]).__name__} is not a log",
            hint="read_log(path, robot) returns one",
            code=Code.WRONG_TYPE,
            subject="logs",
        )
    return list(data)
