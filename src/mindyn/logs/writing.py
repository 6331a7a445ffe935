"""`write_log`: write joint signals as a CSV or Parquet file, with the sidecar that `read_log` needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.executors import require_polars_threads
from mindyn.files import write_files_atomically
from mindyn.logs.draft import format_toml_value
from mindyn.logs.metadata import si_units
from mindyn.robots.robot import Robot

_PLAIN_NAME: Final = re.compile(r"[^\W#][\w. ()/:\[\]-]*(?<! )")
"""Names that a text header can hold unchanged: no separators, quotes, braces, comment marks or outer blanks."""


def write_log(
    robot: Robot,
    time: Array,
    signals: Mapping[str, Array],
    path: Path,
    side: Mapping[str, str],
    accept: Sequence[str] = (),
) -> tuple[Path, ...]:
    """Write a log and its sidecar file, with columns named by joint; return both paths.

    If a joint name cannot be used in the header of every format, all columns are numbered instead.

    time     (N,) s
    signals  position, velocity, torque: (N, n) of the primary joints in SI units
    side     "joint" or "motor" for every signal
    accept   findings of `read_log` to accept in this log
    """
    import polars

    if path.suffix not in (".csv", ".parquet"):
        message = f"a log is written as .csv or .parquet, not as {path.name!r}"
        raise InputError(message, code=Code.UNSUPPORTED, subject=path.name)
    by_name = all(_PLAIN_NAME.fullmatch(name) for name in robot.primary_names)
    columns = {"time": time}
    for signal, values in signals.items():
        for k, name in enumerate(robot.primary_names):
            columns[f"{name}.{signal}" if by_name else f"{signal}{k + 1}"] = values[:, k]
    require_polars_threads()
    table = polars.DataFrame(columns)
    content = BytesIO()
    table.write_csv(content) if path.suffix == ".csv" else table.write_parquet(content)
    pattern, units = "{joint}.SIGNAL" if by_name else "SIGNAL{i}", si_units(robot)
    entries = {
        **({} if by_name else {"joints": list(robot.primary_names)}),
        "side": {signal: side[signal] for signal in signals},
        "columns": {"time": "time", **{signal: pattern.replace("SIGNAL", signal) for signal in signals}},
        "units": {"time": "s", **{signal: units[signal] for signal in signals}},
        **({"accept": list(accept)} if accept else {}),
    }
    sidecar = "".join(f"{key} = {format_toml_value(value)}\n" for key, value in entries.items())
    return write_files_atomically({path: content.getvalue(), path.with_name(path.name + ".toml"): sidecar})
