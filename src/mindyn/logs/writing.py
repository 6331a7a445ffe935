"""`write_log`: signals of joints as a CSV or Parquet file, with the sidecar that `read_log` needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.files import write_together
from mindyn.robots.robot import Robot

_UNITS: Final = {"position": ("rad", "m"), "velocity": ("rad/s", "m/s"), "torque": ("N m", "N")}
"""Of revolute and of prismatic joints."""


def write_log(
    path: Path,
    robot: Robot,
    time: Array,
    signals: Mapping[str, Array],
    side: Mapping[str, str],
    accept: Sequence[str] = (),
) -> None:
    """The file, its columns named by joint, and beside it what they mean.

    time     (N,) s
    signals  position, velocity, torque: (N, n) in SI units, of the primary joints
    side     of every signal: "joint" or "motor"
    accept   findings of `read_log` that are right in this log
    """
    import polars

    if path.suffix not in (".csv", ".parquet"):
        raise InputError(f"a log is written as .csv or .parquet, not as {path.name!r}")
    columns = {"time": time}
    for signal, values in signals.items():
        columns |= {f"{name}.{signal}": values[:, k] for k, name in enumerate(robot.primary_names)}
    table = polars.DataFrame(columns)
    content = BytesIO()
    table.write_csv(content) if path.suffix == ".csv" else table.write_parquet(content)
    sidecar = _sidecar(robot, tuple(signals), side, accept)
    write_together({path: content.getvalue(), path.with_name(path.name + ".toml"): sidecar})


def _sidecar(robot: Robot, signals: Sequence[str], side: Mapping[str, str], accept: Sequence[str]) -> str:
    columns = [f'{signal} = "{{joint}}.{signal}"' for signal in signals]
    units = [f"{signal} = {{ {_by_joint(robot, _UNITS[signal])} }}" for signal in signals]
    sides = [f'{signal} = "{side[signal]}"' for signal in signals]
    lines = [
        f"side = {{ {', '.join(sides)} }}",
        f'columns = {{ time = "time", {", ".join(columns)} }}',
        f'units = {{ time = "s", {", ".join(units)} }}',
    ]
    if accept:
        accepted = [f'"{one}"' for one in accept]
        lines.append(f"accept = [{', '.join(accepted)}]")
    return "\n".join(lines) + "\n"


def _by_joint(robot: Robot, pair: tuple[str, str]) -> str:
    return ", ".join(f'"{joint.name}" = "{pair[joint.kind == "prismatic"]}"' for joint in robot.primary_joints)
