"""Identified motors: every entry is complete, and drives of robot files that refer to one have its values."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.program import mindyn_program
from raising import raises

from leaderboard.motor_zoo import UNITS
from mindyn import identified_motors, identified_robots, load_robot
from mindyn.foundation.errors import Code, RobotFileError
from mindyn.robots.toml_format import read_drives

ROOT = Path(__file__).parents[2]
MOTORS = identified_motors()
ARM = """
format = "mindyn-robot-1"
name = "arm"
convention = "axes"
angles = "rad"
inertia = "com"
gravity = [0.0, 0.0, -9.81]
root = "base"
[[joint]]
name = "a"
type = "revolute"
child = "link"
parent = "base"
axis = [0.0, 0.0, 1.0]
[[link]]
name = "link"
mass = 1.0
com = [0.1, 0.0, 0.0]
inertia = [0.01, 0.01, 0.01]
[[drive]]
joint = "a"
"""


def at_output(name):
    return {parameter["name"]: parameter["value"] for parameter in MOTORS[name]["parameters"]}


@pytest.mark.parametrize("name", MOTORS)
def test_every_motor_is_complete(name):
    entry = MOTORS[name]
    keys = {"title", "source", "licence", "date", "mindyn", "command", "conditions", "caution", "measured_in", "gear"}
    assert keys <= set(entry)
    assert entry["source"].startswith("https://")
    assert entry["measured_in"]["robot"] in identified_robots()
    assert {"viscous", "coulomb", "rotor_inertia"} <= set(at_output(name)) <= set(UNITS)
    for parameter in entry["parameters"]:
        assert parameter["unit"] == UNITS[parameter["name"]]
        assert parameter["value"] >= 0
        assert parameter["specimens"] >= 1
        assert parameter["low"] <= parameter["value"] <= parameter["high"]
    assert f"`{name}`" in (ROOT / "docs" / "zoo.md").read_text()
    assert name in mindyn_program("robots", "--identified").out


def test_robot_entries_refer_to_motors_that_exist():
    referred = [name for entry in identified_robots().values() for name in entry.get("motors", {}).values()]
    assert set(referred) == set(MOTORS)


@pytest.mark.parametrize("name", MOTORS)
def test_a_drive_that_refers_to_a_motor_has_its_values_at_the_joint(tmp_path, name):
    path = tmp_path / "arm.toml"
    path.write_text(f'{ARM}motor = "{name}"\nside = "joint"\n')
    (drive,) = load_robot(path).drives
    values = at_output(name)
    assert drive.ratio == (MOTORS[name]["gear"] or 1.0)
    assert drive.rotor_inertia * drive.ratio**2 == pytest.approx(values["rotor_inertia"])
    assert (drive.viscous, drive.coulomb) == (values["viscous"], values["coulomb"])


def test_values_of_the_table_take_precedence():
    text = '[[drive]]\njoint = "a"\nmotor = "sts3215"\nside = "joint"\n'
    (drive,) = read_drives(text + "viscous = 0.125\nratio = 1.0\n")
    assert drive.viscous == 0.125
    assert drive.rotor_inertia == at_output("sts3215")["rotor_inertia"]


def test_an_unknown_motor_and_friction_of_the_motor_side_are_rejected():
    with raises(RobotFileError, Code.UNKNOWN_NAME, "sts9999"):
        read_drives('[[drive]]\njoint = "a"\nmotor = "sts9999"\nside = "joint"\n')
    with raises(RobotFileError, Code.DISAGREEMENT, "a"):
        read_drives('[[drive]]\njoint = "a"\nmotor = "sts3215"\nside = "motor"\n')
