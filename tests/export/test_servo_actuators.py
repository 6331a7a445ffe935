"""Identified servos in simulators: MuJoCo follows another log as closely as with the true values."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import polars
import pytest
import yaml
from cli.program import mindyn_program
from raising import raises
from servos import ARMATURE, FRICTION, JOINTS, KP, KV, leg_targets, leg_xml, simulate_leg

import mindyn
from mindyn.foundation.errors import Code, ExportError
from mindyn.identification import ClosedLoopInstruments
from mindyn.identification.gains_before_fit import find_servo
from mindyn.logs import log_from_targets
from mindyn.output.export.mujoco_comparison import compare_positions
from mindyn.output.export.servo_actuators import write_isaac_lab

RATE, NOISE = 200.0, 1e-4
SETTINGS = mindyn.EquationSettings(mindyn.Conditioning(motion_hz=64.0))


def record(seconds, seed):
    t, target = leg_targets(seconds, RATE, seed)
    q = simulate_leg(target, RATE) + np.random.default_rng(seed).normal(0, NOISE, target.shape)
    return log_from_targets(JOINTS, t, q, target, KP, KV, target_delay_s=0.5 / RATE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a robot file of other masses and without friction, an estimate, and another log."""
    path = tmp_path_factory.mktemp("leg")
    text = leg_xml()
    for a, f in zip(ARMATURE, FRICTION, strict=True):
        text = text.replace(f'armature="{a}"', 'armature="0.002"').replace(f'frictionloss="{f}"', 'frictionloss="0"')
    (path / "leg.xml").write_text(text.replace('mass="1.15"', 'mass="1.6"'))
    (path / "true.xml").write_text(leg_xml(actuators=True))
    leg = mindyn.load_robot(path / "leg.xml")
    log = record(16, 0)
    fitted = ClosedLoopInstruments(equations="simulated").fit(mindyn.build_rows(leg, log, SETTINGS))
    estimate = fitted.with_data(servo=find_servo([log]))
    estimate.save(path / "estimate.json")
    other = record(6, 5)
    columns = {"t": other.time} | {f"q{k}": other.q[:, k] for k in range(3)}
    polars.DataFrame(columns | {f"cmd{k}": other.target[:, k] for k in range(3)}).write_csv(path / "other.csv")
    (path / "other.csv.toml").write_text(
        f'side = "joint"\nkp = {KP.tolist()}\nkd = {KV.tolist()}\ntarget_delay_s = {0.5 / RATE}\n'
        'columns = { time = "t", position = "q{i0}", target = "cmd{i0}" }\nunits = { time = "s", position = "rad" }\n'
    )
    return path


@pytest.fixture(scope="module")
def estimate(folder):
    return mindyn.load_estimate(folder / "estimate.json")


def test_mujoco_follows_the_log_as_with_the_true_values(folder, estimate):
    log = mindyn.read_log(folder / "other.csv", estimate.robot)
    for source in (None, folder / "leg.xml"):
        out = mindyn.write_mjcf(estimate, folder / "out.xml", source=source)
        errors = compare_positions(estimate, out, log)
        floor = compare_positions(estimate, folder / "true.xml", log)["identified"]
        assert (floor < 1.5 * NOISE).all()
        assert (errors["identified"] < 1.6 * floor).all()
        assert (errors["identified"] < 0.1 * errors["robot file"]).all()


def test_a_source_with_motors_a_missing_mesh_and_a_free_gripper_is_replayed_with_the_servos(folder, estimate):
    text, mesh = (folder / "leg.xml").read_text(), '<asset><mesh name="gone" file="gone.stl"/></asset>'
    motors = "".join(f'<motor joint="{joint}"/>' for joint in JOINTS)
    gripper = (
        '<body name="finger"><joint name="finger" type="slide" axis="0 0 1"/><geom type="mesh" mesh="gone"/>'
        '<inertial pos="0 0 0" mass="0.001" diaginertia="1e-7 1e-7 1e-7"/></body></body>'
    )
    edited = text.replace("<worldbody>", f"{mesh}<worldbody>").replace("</body>", gripper, 1)
    (folder / "motors.xml").write_text(edited.replace("</mujoco>", f"<actuator>{motors}</actuator></mujoco>"))
    leg = mindyn.load_robot(folder / "motors.xml", lock={"finger": 0.0})
    fitted = mindyn.LeastSquares().fit(mindyn.build_rows(leg, record(8, 0), SETTINGS))
    held = mindyn.make_feasible(fitted.with_data(servo=estimate.data.servo))
    log = mindyn.read_log(folder / "other.csv", leg)
    expected, errors = (
        compare_positions(held, mindyn.write_mjcf(held, folder / "out.xml", source=source), log)["identified"]
        for source in (None, folder / "motors.xml")
    )
    assert np.allclose(errors, expected, rtol=0.02)


def test_actuators_are_added_or_edited(folder, estimate):
    out = mindyn.write_mjcf(estimate, folder / "new.xml")
    added = {e.get("joint"): e for e in ElementTree.parse(out).getroot().iter("position")}
    assert [float(added[j].get("kp")) for j in JOINTS] == KP.tolist()
    assert [float(added[j].get("kv")) for j in JOINTS] == KV.tolist()
    lines = (
        '<actuator><position name="own" joint="hip" kp="1" dampratio="1"/><motor joint="thigh"/></actuator></mujoco>'
    )
    (folder / "leg_own.xml").write_text((folder / "leg.xml").read_text().replace("</mujoco>", lines))
    limited = estimate.with_data(servo=replace(estimate.data.servo, limit=np.array([5.0, 6.0, 7.0])))
    root = ElementTree.parse(mindyn.write_mjcf(limited, folder / "e.xml", source=folder / "leg_own.xml")).getroot()
    assert [(e.tag, e.get("name"), e.get("joint")) for e in root.find("actuator")] == [
        ("position", "own", "hip"),
        ("motor", None, "thigh"),
        ("position", "calf_servo", "calf"),
    ]
    hip = root.find("actuator")[0]
    assert (hip.get("kp"), hip.get("dampratio"), hip.get("forcerange")) == (repr(float(KP[0])), None, "-5.0 5.0")


def test_isaac_lab_has_the_same_values(folder, estimate):
    write_isaac_lab(estimate, folder / "leg.yaml")
    table = yaml.safe_load((folder / "leg.yaml").read_text())
    model = mindyn.build_full_model(estimate)
    assert table["joint_names_expr"] == list(JOINTS)
    assert list(table["stiffness"].values()) == KP.tolist()
    assert list(table["damping"].values()) == KV.tolist()
    for drive in model.drives:
        assert table["friction"][drive.joint] == pytest.approx(drive.coulomb)
        assert table["armature"][drive.joint] == pytest.approx(drive.rotor_inertia)
    assert table["delay_s"] == 0.5 / RATE


def test_the_command_prints_both_errors(folder):
    arguments = ["export", folder / "estimate.json", "--to", "mjcf", "--out", folder / "c.xml", "--check"]
    shown = mindyn_program(*arguments, folder / "other.csv")
    assert "rms position error" in shown.out
    data = json.loads(mindyn_program(*arguments, folder / "other.csv", "--json").out)
    assert set(data["position_check"]) == {"identified", "robot file"}
    mindyn_program("export", folder / "estimate.json", "--to", "isaac-lab", "--out", folder / "c.yaml")
    assert (folder / "c.yaml").is_file()


def test_servos_that_cannot_be_simulated_raise(folder, estimate):
    negative = estimate.with_data(servo=replace(estimate.data.servo, kp=np.array([20.0, -1.0, 20.0])))
    with raises(ExportError, Code.NOT_FEASIBLE, "thigh"):
        mindyn.write_mjcf(negative, folder / "n.xml")
    with raises(ExportError, Code.MISSING_VALUE, "servo"):
        write_isaac_lab(estimate.with_data(servo=None), folder / "n.yaml")
