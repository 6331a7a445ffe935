"""Write robots in mindyn's own TOML format, with all digits of every number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.escaping import format_toml_value, toml_key
from mindyn.identification.estimators.estimate import Estimate
from mindyn.output.export.write_checks import Prior, resolve_model
from mindyn.robots.robot import Robot
from mindyn.robots.toml_format import toml_table


def robot_to_toml(robot: Robot) -> str:
    """Return the TOML text of a robot; reading it with snap=False gives the same robot bit by bit."""
    table = toml_table(robot)
    lists = {name: value for name, value in table.items() if isinstance(value, list) and isinstance(value[0], dict)}
    head = _format_toml_lines({name: value for name, value in table.items() if name not in lists})
    entries = [f"[[{name}]]\n{_format_toml_lines(entry)}" for name, given in lists.items() for entry in given]
    return "\n\n".join([head, *entries]) + "\n"


def write_toml(model: Robot | Estimate, path: str | Path, *, prior: Prior = "robot", force: bool = False) -> Path:
    """Write a robot, or the full model of an estimate, in mindyn's TOML format.

    The format keeps everything with all digits: loading the file with `snap=False` gives the same robot bit by bit.

    Parameters
    ----------
    model : Robot or Estimate
        Robot or estimate to write.
    path : str or Path
        File to write.
    prior : Robot, "robot" or None
        Determines what an estimate leaves open, as in `build_full_model`.
    force : bool
        Write an estimate even if it is not physically consistent.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    MindynError
        If an estimate is not physically consistent and `force` is not set.

    Examples
    --------
    >>> mindyn.write_toml(mindyn.load_robot("planar2"), "planar2.toml").name
    'planar2.toml'
    """
    return write_file_atomically(path, robot_to_toml(resolve_model(model, prior, force=force)))


def _format_toml_lines(table: Mapping[str, Any]) -> str:
    return "\n".join(f"{toml_key(key)} = {format_toml_value(value)}" for key, value in table.items())
