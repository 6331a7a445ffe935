"""`gather_log`: turn one log into R factors, in any process. Rows stay in that process; factors can be added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.findings import Finding
from mindyn.logs.log import Log, SourceFile
from mindyn.logs.pipeline import BLOCK_ROWS, condition_stream, join_samples
from mindyn.logs.read_log import LogScan
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.regression.gather_blocks import Block, split_into_blocks, split_stream_into_blocks
from mindyn.regression.regressor import Regressor, build_regressor
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True, eq=False)
class GatheredLog:
    """R factors and findings of one log.

    blocks    R factors of its parts
    count     number of its samples
    findings  what was dropped, split or selected
    sources   its files
    """

    blocks: tuple[Block, ...]
    count: int
    findings: tuple[Finding, ...]
    sources: tuple[SourceFile, ...]


@run_on_one_blas_thread
def gather_log(
    robot: Robot,
    log: Log | LogScan | Callable[[], LogScan],
    settings: EquationSettings,
    base: BaseParameters | None,
    number: int,
    count: int | None,
    regressor: Regressor | None = None,
) -> GatheredLog:
    """Return the R factors of one log; this function runs in a worker.

    log        a log, or a function that opens it; the worker then raises the errors of opening
    number     number of the log among all logs
    count      number of blocks; None if the log is a stream
    regressor  the regressor of the settings, if the caller has it
    """
    columns = regressor or build_regressor(robot, settings, base)
    opened = log if isinstance(log, (Log, LogScan)) else log()
    stream = condition_stream(
        robot, opened, settings.fit_conditioning, block_rows=None if count else BLOCK_ROWS, min_samples=0
    )
    if count is None:
        blocks = [replace(block, log=number) for block in split_stream_into_blocks(columns, stream, settings)]
    else:
        gathered = list(stream)
        blocks = split_into_blocks(columns, join_samples(gathered), settings, count, number) if gathered else []
    return GatheredLog(tuple(blocks), stream.count, tuple(stream.findings), sources_of(opened))


def sources_of(log: Log | LogScan) -> tuple[SourceFile, ...]:
    """Return the files of a log, read or scanned."""
    return log.sources if isinstance(log, Log) else log.sources()
