"""Payloads in the formats of controllers: fields of the vendors' documented examples, and the same body again."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from raising import raises

import mindyn
import mindyn.output
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import rotation_from_quaternion, rotation_from_rpy
from mindyn.foundation.errors import Code, ExportError, InputError
from mindyn.identification.runs_with_loads import Payload
from mindyn.output.export.controller_payloads import CONTROLLERS, format_payload, principal_inertia

NUMBER = r"-?\d+(?:\.\d+)?"
WRITTEN = 1e-7
"""Nine significant digits, of numbers that differ by a factor of ten."""
KNOWN = np.diag(np.full(10, 1e-10))
RIDE_FIELDS = {"id", "name", "color", "mass", "centerOfMass", "transformation", "inertia"}
"""Field names of endeffector-config.json in Franka's RIDE manual 1.1.1, "End effector commissioning"."""
ABB_GRIPPER = "[5, [23, 0, 75], [1, 0, 0, 0], 0, 0, 0]"
"""Load of the tool `gripper` in ABB's RAPID reference manual, tooldata."""
KUKA_FIELDS = re.compile(
    rf"LOAD_DATA\[1\]={{M {NUMBER},CM {{X {NUMBER},Y {NUMBER},Z {NUMBER},A {NUMBER},B {NUMBER},C {NUMBER}}},"
    rf"J {{X {NUMBER},Y {NUMBER},Z {NUMBER}}}}}"
)
"""Fields of LOAD_DATA[1] in a delivered $config.dat, in their order."""


def load_of(mass, centre, inertia, **fields) -> Payload:
    return Payload("flange", phi_about_origin(mass, np.array(centre), np.array(inertia)), KNOWN, (), **fields)


def random_load(seed: int) -> Payload:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, 3))
    spread = 0.01 * A @ A.T + 1e-3 * np.eye(3)
    return load_of(rng.uniform(0.1, 20), rng.uniform(-0.3, 0.3, 3), np.trace(spread) * np.eye(3) - spread)


def numbers_after(text: str, lead: str) -> list[float]:
    return [float(number) for number in re.findall(NUMBER, text[text.index(lead) + len(lead) :])]


def statements(text: str) -> str:
    """Return a file without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(("#", "//", ";", "!")))


def read_ur(text):
    mass, *rest = numbers_after(statements(text), "set_target_payload(")
    xx, yy, zz, xy, xz, yz = rest[3:]
    return mass, rest[:3], [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]


def read_franka(text):
    body = statements(text)
    inertia = np.array(numbers_after(body, "inertia{{")).reshape(3, 3, order="F")
    return numbers_after(body, "mass = ")[0], numbers_after(body, "F_x_Cload{{")[:3], inertia


def read_kuka(text):
    assert KUKA_FIELDS.fullmatch(statements(text))
    mass, x, y, z, a, b, c, *moments = numbers_after(statements(text), "]=")
    R = rotation_from_rpy(*np.radians([c, b, a]))
    return mass, np.array([x, y, z]) / 1e3, R @ np.diag(moments) @ R.T


def read_abb(text):
    mass, x, y, z, *rest = numbers_after(statements(text), "_load := ")
    R = rotation_from_quaternion(*rest[:4])
    return mass, np.array([x, y, z]) / 1e3, R @ np.diag(rest[4:]) @ R.T


def read_json(text):
    values = json.loads(text)
    return values["mass"], values["centre"], values["inertia_about_centre"]


READERS = {"ur": read_ur, "franka": read_franka, "kuka": read_kuka, "abb": read_abb, "json": read_json}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_the_file_describes_the_same_body(tmp_path, controller, seed):
    load = random_load(seed)
    path = mindyn.output.write_payload(load, tmp_path / "payload.txt", controller)
    mass, centre, inertia = READERS[controller](path.read_text())
    assert mass == pytest.approx(load.mass, rel=WRITTEN)
    assert_close(np.array(centre), load.centre, WRITTEN)
    assert_close(np.array(inertia), load.inertia_about_centre, WRITTEN)


def test_abb_has_the_fields_of_the_documented_gripper():
    """https://library.abb.com: 5 kg at 23 mm and 75 mm, without moments of inertia."""
    text = format_payload(load_of(5, (0.023, 0, 0.075), np.zeros((3, 3))), "abb", name="gripper")
    assert f"PERS tooldata gripper := [TRUE, [[0, 0, 0], [1, 0, 0, 0]], {ABB_GRIPPER}];" in text
    assert f"PERS loaddata gripper_load := {ABB_GRIPPER};" in text


def test_desk_has_the_fields_of_the_manual():
    text = format_payload(load_of(0.73, (-0.01, 0, 0.03), np.diag([0.001, 0.0025, 0.0017])), "franka", desk=True)
    values = json.loads(text)
    assert set(values) == RIDE_FIELDS
    assert (len(values["transformation"]), len(values["inertia"]), len(values["centerOfMass"])) == (16, 9, 3)
    assert_close(np.array(values["inertia"]), np.diag([0.001, 0.0025, 0.0017]).ravel(), WRITTEN)


def test_kuka_has_the_fields_of_the_delivered_data():
    assert KUKA_FIELDS.fullmatch("LOAD_DATA[1]={M -1.0,CM {X 0.0,Y 0.0,Z 0.0,A 0.0,B 0.0,C 0.0},J {X 0.0,Y 0.0,Z 0.0}}")
    text = statements(format_payload(load_of(2, (0.1, 0, 0), np.diag([0.01, 0.02, 0.025])), "kuka", name="7"))
    assert text == "LOAD_DATA[7]={M 2,CM {X 100,Y 0,Z 0,A 0,B 0,C 0},J {X 0.01,Y 0.02,Z 0.025}}"


@pytest.mark.parametrize("seed", range(20))
def test_principal_axes_are_a_rotation_that_diagonalises(seed):
    J = random_load(seed).inertia_about_centre
    principal = principal_inertia(J)
    assert np.linalg.det(principal.rotation) > 0
    assert_close(principal.rotation @ np.diag(principal.moments) @ principal.rotation.T, J, 1e-12)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_file_states_frame_and_units(controller):
    text = format_payload(random_load(1), controller)
    assert "flange" in text
    assert "about the centre" in text
    assert "kg m^2" in text or "SI units" in text
    assert text.isascii()


def test_values_that_a_format_cannot_hold_are_rejected(tmp_path):
    huge = load_of(4000, (0, 0, 0.2), np.diag([134.0, 134.0, 90.0]))
    with raises(ExportError, Code.OUT_OF_RANGE, "inertia"):
        mindyn.output.write_payload(huge, tmp_path / "tool.script", "ur")
    assert "133" not in format_payload(load_of(4000, (0, 0, 0.2), np.diag([133.0, 133.0, 90.0])), "json")
    format_payload(load_of(4000, (0, 0, 0.2), np.diag([133.0, 133.0, 90.0])), "ur")
    for controller in ("kuka", "abb"):
        with raises(ExportError, Code.OUT_OF_RANGE):
            format_payload(load_of(1e-39, (0, 0, 0), 1e-45 * np.eye(3)), controller)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_what_is_no_body_or_not_measured_is_rejected(tmp_path, controller):
    load = random_load(2)
    cases = (
        (replace(load, unidentifiable=("m",)), Code.NOT_IDENTIFIABLE),
        (replace(load, phi=-load.phi), Code.NOT_IDENTIFIABLE),
        (replace(load, phi=load.phi * np.nan), Code.NOT_FINITE),
        (load_of(1, (0, 0, 0), np.diag([0.01, 0.01, 0.03])), Code.NOT_FEASIBLE),
        (replace(load, unconstrained=load.phi + 1.0), Code.NOT_FEASIBLE),
    )
    for wrong, code in cases:
        with raises(ExportError, code):
            mindyn.output.write_payload(wrong, tmp_path / "payload.txt", controller)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("controller", "name"),
    [("kuka", "0"), ("kuka", "17"), ("kuka", "tool"), ("abb", "1tool"), ("abb", "a" * 40), ("ur", "a b"),
     ("franka", "a-b")],
)  # fmt: skip
def test_invalid_names_are_rejected(controller, name):
    with raises(InputError, (Code.INVALID_VALUE, Code.OUT_OF_RANGE, Code.TOO_LARGE), name):
        format_payload(random_load(3), controller, name=name)


def test_unknown_controllers_and_desk_names_are_rejected():
    with raises(InputError, Code.UNKNOWN_NAME):
        format_payload(random_load(3), "fanuc")
    with raises(InputError, Code.INVALID_VALUE, "ee-tool"):
        format_payload(random_load(3), "franka", name="ee-tool", desk=True)


def test_intervals_follow_the_load_into_another_frame():
    rng = np.random.default_rng(0)
    load, A = random_load(4), rng.normal(size=(10, 10))
    load = replace(load, covariance=1e-8 * A @ A.T)
    pose = Pose(rotation_from_rpy(0.3, -0.5, 1.0), np.array([0.1, -0.2, 0.3]))
    there = load.in_frame(pose, "flange2")
    drawn = rng.multivariate_normal(load.phi, load.covariance, 20_000)
    centres = np.array([replace(load, phi=phi).in_frame(pose, "x").centre for phi in drawn[:4000]])
    assert_close(there.centre_half_widths / there.factor, centres.std(axis=0), 0.05)
    assert_close(np.array(there.mass_interval), np.array(load.mass_interval), 1e-12)
