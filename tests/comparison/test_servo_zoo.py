"""Identified servo arms: every entry is complete, consistent and repeated by its command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli.program import mindyn_program
from closeness import assert_close
from logs.real_sets import FOLDER, needs_real_data

from leaderboard import go2_zoo
from leaderboard.servo_zoo import UNITS, read_motions
from mindyn import identified_robots, load_robot, replay_servos
from mindyn.identification import ServoEstimate, Table

ROOT = Path(__file__).parents[2]
TEMPLATE = json.loads((ROOT / "leaderboard" / "zoo_template.json").read_text())
SERVO_NAMES = sorted(name for name, entry in identified_robots().items() if "servos" in entry)
OPTIONAL = {"quantity"}
"""Torque, if it is missing."""


def values_of(entry, joint, key="value"):
    found = {servo["parameter"]: servo[key] for servo in entry["servos"] if servo["joint"] == joint}
    return [found[parameter] for parameter in UNITS]


@pytest.mark.parametrize("name", identified_robots())
def test_every_entry_has_the_fields_of_the_template(name):
    entry = identified_robots()[name]
    assert set(TEMPLATE) - OPTIONAL <= set(entry)
    assert set(TEMPLATE["held_out"]) - OPTIONAL <= set(entry["held_out"])
    assert entry["source"].startswith("https://")
    assert entry["caution"]
    assert 0 < entry["held_out"]["total"] < 1
    assert entry["held_out"]["rows"] > 100
    assert f"`{name}`" in (ROOT / "docs" / "zoo.md").read_text()


@pytest.mark.parametrize("name", SERVO_NAMES)
def test_servo_values_are_those_of_the_robot_and_inside_their_intervals(name):
    entry, robot = identified_robots()[name], load_robot(name)
    assert entry["conditions"]
    assert {servo["joint"] for servo in entry["servos"]} == set(robot.primary_names)
    assert {servo["parameter"]: servo["unit"] for servo in entry["servos"]} == UNITS
    for servo in entry["servos"]:
        assert servo["value"] > 0
        if servo["low"] is not None:
            assert servo["low"] <= servo["value"] <= servo["high"]
    for drive in robot.drives:
        _, kd, fc, armature = values_of(entry, drive.joint)
        assert_close(np.array([drive.viscous, drive.coulomb, drive.rotor_inertia]), np.array([kd, fc, armature]), 1e-5)
    assert all(verdict.is_feasible for verdict in robot.consistency().values())


def test_servo_arms_are_listed():
    listed = mindyn_program("robots", "--identified").out
    assert all(name in listed for name in SERVO_NAMES)
    assert "% of position" in " ".join(listed.split())


def held_out_motions(name):
    """Return the robot and the held-out logs of an entry, as its command reads them."""
    if name == "zoo/so101":
        robot, _, held_out = read_motions(FOLDER / "so101_sage")
        return robot, held_out
    return go2_zoo.load_leg(go2_zoo.LEG), [go2_zoo.read_leg(FOLDER / "go2_iit", go2_zoo.LEG)[1]]


@needs_real_data
@pytest.mark.parametrize("name", SERVO_NAMES)
def test_the_stated_error_is_that_of_the_stated_values(name):
    """Replay the held-out motions with the values of the entry, without rows in contact with its table."""
    entry = identified_robots()[name]
    robot, held_out = held_out_motions(name)
    columns = np.array([values_of(entry, joint) for joint in robot.primary_names])
    ends = [np.array([values_of(entry, joint, end) for joint in robot.primary_names], float) for end in ("low", "high")]
    scale = np.array([next(s["has_scale"] for s in entry["servos"] if s["joint"] == j) for j in robot.primary_names])
    table = None if entry["table"] is None else Table(**entry["table"])
    limits = np.array([np.inf if limit is None else limit for limit in entry["limits"]])
    more = {"delay_s": entry["delay_s"], "table": table}
    inner = np.array(entry["limits_damping"])
    estimate = ServoEstimate(robot, *columns.T, *ends, scale, limits, inner, **more)
    replay = replay_servos(estimate, held_out)
    total = np.sqrt(np.mean(replay.errors**2) / np.mean(replay.target_errors**2))
    assert total == pytest.approx(entry["held_out"]["total"], rel=0.02)


@needs_real_data
def test_a_leg_of_the_go2_is_repeated_by_its_command():
    """The fit is fast enough to repeat: its values are those of the entry."""
    entry = identified_robots()[f"zoo/{go2_zoo.NAME}"]
    estimate, _ = go2_zoo.fit_leg(FOLDER / "go2_iit", go2_zoo.LEG)
    stated = np.array([values_of(entry, joint) for joint in estimate.joint_names])
    assert_close(np.log(estimate.values), np.log(stated), 1e-2)
