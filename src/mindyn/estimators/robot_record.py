"""The robot inside of an estimate's file, which is complete in itself: the table of mindyn's own format, and more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mindyn.robots.description import Selection
from mindyn.robots.robot import Robot
from mindyn.robots.toml_table import robot_of_table, toml_table


def robot_record(robot: Robot) -> dict[str, Any]:
    """All of a robot but its notes: the table of a robot file, and what of its source was selected."""
    return {**toml_table(robot), "selection": robot.selection.to_dict()}


def robot_from_record(record: Mapping[str, Any]) -> Robot:
    """The inverse of `robot_record`."""
    robot = robot_of_table({name: value for name, value in record.items() if name != "selection"})
    home = np.array([record["home"][name] for name in robot.joint_names]) if "home" in record else None
    return replace(robot, selection=Selection(**record.get("selection", {})), home=home)
