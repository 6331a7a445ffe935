"""`write_log`: write joint signals as a CSV or Parquet file, with the sidecar that `read_log` needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.escaping import toml_key, toml_string
from mindyn.executors import require_polars_threads
from mindyn.files import write_files_atomically
from mindyn.robots.robot import Robot

_SI_UNITS: Final = {"position": ("rad", "m"), "velocity": ("rad/s", "m/s"), "torque": ("N m", "N")}
"""Units of revolute and of prismatic joints."""
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
    pattern = "{joint}.SIGNAL" if by_name else "SIGNAL{i}"
    sidecar = _format_sidecar(robot, tuple(signals), side, accept, pattern)
    return write_files_atomically({path: content.getvalue(), path.with_name(path.name + ".toml"): sidecar})


def _format_sidecar(
    robot: Robot, signals: Sequence[str], side: Mapping[str, str], accept: Sequence[str], pattern: str
) -> str:
    columns = {"time": "time", **{signal: pattern.replace("SIGNAL", signal) for signal in signals}}
    units = {signal: _units_per_joint(robot, _SI_UNITS[signal]) for signal in signals}
    lines = [
        f"side = {_inline_table({signal: toml_string(side[signal]) for signal in signals})}",
        f"columns = {_inline_table({key: toml_string(value) for key, value in columns.items()})}",
        f"units = {_inline_table({'time': toml_string('s'), **units})}",
    ]
    if "{i}" in pattern:
        lines.insert(0, f"joints = [{', '.join(map(toml_string, robot.primary_names))}]")
    if accept:
        lines.append(f"accept = [{', '.join(map(toml_string, accept))}]")
    return "\n".join(lines) + "\n"


def _units_per_joint(robot: Robot, pair: tuple[str, str]) -> str:
    return _inline_table({joint.name: toml_string(pair[joint.kind == "prismatic"]) for joint in robot.primary_joints})


def _inline_table(values: Mapping[str, str]) -> str:
    """Format an inline TOML table of keys and formatted values."""
    return "{ " + ", ".join(f"{toml_key(key)} = {value}" for key, value in values.items()) + " }"
