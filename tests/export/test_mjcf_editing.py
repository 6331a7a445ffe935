"""An edited MJCF file gives the torques of the robot in MuJoCo and keeps the rest of the file."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from closeness import PUBLISHED_FILE, assert_close, assert_negligible
from raising import raises

from mindyn import (
    Drive,
    EquationSettings,
    LeastSquares,
    Link,
    build_full_model,
    compile_model,
    load_robot,
    write_mjcf,
    write_urdf,
)
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, ExportError, RobotFileError
from mindyn.logs.log import log_from_arrays
from mindyn.output.export.mujoco_comparison import compare_with_mujoco, mujoco_torques
from mindyn.regression.build_rows import build_rows

INCLUDED = '<mujoco><default><default class="arm"><joint armature="0.3" damping="2"/></default></default></mujoco>'
ARM = """<!-- Licence: yours -->
<mujoco model="arm">
  <compiler angle="degree" settotalmass="50" meshdir="meshes" SETTINGS/>
  <include file="defaults.xml"/>
  <asset><mesh name="hull" file="hull.stl"/></asset>
  <worldbody>
    <body name="base" pos="0 0 0.1"><inertial pos="0 0 0" mass="9" diaginertia="1 1 1"/>
      <body name="upper" childclass="arm" euler="10 20 30">
        <!-- measured by hand -->
        <joint name="shoulder" axis="0 0 1" pos="0.01 0.02 0" range="-90 90" ref="20" solreffriction="0.01 1"/>
        <geom type="mesh" mesh="hull" mass="0"/><geom size="0.1" mass="3" pos="0.1 0 0.2"/>
        <body pos="0.3 0 0" quat="0.8 0.6 0 0">
          <inertial pos="0.1 0 0" mass="2" diaginertia="0.02 0.03 0.04" quat="0.6 0 0.8 0"/>
          <joint axis="0 1 0" armature="0.1"/>
          <body name="box" pos="0.2 0 0.1"><geom type="box" size="0.1 0.05 0.02" mass="0.7"/>
            <body name="finger" pos="0.1 0 0"><joint name="grasp" type="slide" axis="1 0 0"/>
              <geom size="0.02" mass="0.1"/></body>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><position name="servo" joint="shoulder" kp="100"/></actuator>
  <sensor><jointpos joint="grasp"/></sensor>
</mujoco>
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its warnings
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "defaults.xml").write_text(INCLUDED)
    path = folder / "arm.xml"
    path.write_text(ARM.replace("SETTINGS", ""))
    return path


def heavier(robot, seed=0):
    """Return the robot with other physically consistent inertials, rotors and friction."""
    rng = np.random.default_rng(seed)
    links = []
    for link in robot.links:
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        J = R @ np.diag(rng.uniform(0.5, 0.9, 3)) @ R.T
        links.append(Link(link.name, phi_about_origin(rng.uniform(3, 5), rng.uniform(-0.1, 0.1, 3), J)))
    drives = [Drive(name, 2.0, {}, *rng.uniform(0.1, 1, 3), 0.0, "motor") for name in robot.joint_names]
    return replace(robot, links=tuple(links), drives=tuple(drives))


def motion(robot, rows=20):
    return np.random.default_rng(1).uniform(-0.3, 0.3, (3, rows, robot.joint_count))


def smooth(robot):
    """Return the robot without dry friction, which MuJoCo smooths."""
    return replace(robot, drives=tuple(replace(drive, coulomb=0.0) for drive in robot.drives))


@pytest.mark.parametrize(
    "settings", ["", 'inertiafromgeom="true"', 'boundmass="5" boundinertia="1" balanceinertia="true"']
)
@pytest.mark.parametrize("lock", [{}, {"grasp": 0.01}])
def test_mujoco_gives_the_torques_of_the_robot(source, tmp_path, settings, lock):
    source.write_text(source.read_text().replace('meshdir="meshes"', f'meshdir="meshes" {settings}'))
    robot = smooth(heavier(load_robot(source, lock=lock)))
    out = tmp_path / "arm.xml"
    write_mjcf(robot, out, source=source)
    q, qd, qdd = motion(robot)
    expected = compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    assert_close(mujoco_torques(robot, out, q, qd, qdd), expected, PUBLISHED_FILE)
    again = load_robot(out, lock=lock)
    assert_close(again.phi, robot.phi, PUBLISHED_FILE)


def test_editing_keeps_the_rest_of_the_file(source, tmp_path):
    robot = heavier(load_robot(source))
    out = tmp_path / "arm.xml"
    text = write_mjcf(robot, out, source=source).read_text()
    for kept in ("Licence: yours", "measured by hand", "<position", "<jointpos", 'mesh="hull"', 'childclass="arm"',
                 'solreffriction="0.01 1"', 'name="base"', 'mass="9"'):  # fmt: skip
        assert kept in text, kept
    assert "settotalmass 50" in text
    assert "1 included files" in text
    assert "1 actuators of the MJCF" in text
    (compiler,) = ElementTree.fromstring(text).findall("compiler")
    assert compiler.get("meshdir") == "mine/meshes"
    assert compiler.get("angle") == "degree"
    beside = source.with_name("new.xml")
    write_mjcf(robot, beside, source=source)
    assert 'meshdir="meshes"' in beside.read_text()


def test_bodies_that_mujoco_copies_are_rejected_and_nothing_is_written(source, tmp_path):
    out = tmp_path / "arm.xml"
    text = source.read_text()
    begin, end = text.index('<body name="box"'), text.index("</body>\n      </body>\n    </body>")
    source.write_text(f'{text[:begin]}<replicate count="1">{text[begin:end]}</replicate>{text[end:]}')
    robot = load_robot(source)
    with raises(ExportError, Code.UNSUPPORTED, "finger0"):
        write_mjcf(heavier(robot), out, source=source)
    assert not out.exists()


def test_held_bodies_that_are_too_heavy_are_rejected_with_their_mass(source, tmp_path):
    source.write_text(source.read_text().replace('size="0.02" mass="0.1"', 'size="0.02" mass="40"'))
    robot = heavier(load_robot(source, lock={"grasp": 0.0}))
    with raises(ExportError, Code.NOT_FEASIBLE, "body3") as raised:
        write_mjcf(robot, tmp_path / "arm.xml", source=source)
    assert "40 kg" in raised.value.message


def test_a_source_of_another_arm_is_rejected(source, tmp_path):
    with raises(ExportError, Code.DISAGREEMENT, str(source)):
        write_mjcf(heavier(load_robot("planar2")), tmp_path / "arm.xml", source=source)


def test_a_source_of_another_format_is_rejected(source, tmp_path):
    robot = load_robot(source, lock={"grasp": 0.0})
    urdf = write_urdf(robot, tmp_path / "arm.urdf", force=True)
    with raises(RobotFileError, Code.WRONG_FORMAT, "robot"):
        write_mjcf(robot, tmp_path / "arm.xml", source=urdf)
    with raises(RobotFileError, Code.WRONG_FORMAT, "mujoco"):
        write_urdf(robot, tmp_path / "other.urdf", source=source, force=True)


def test_parts_that_mjcf_cannot_express_are_listed_with_numbers(tmp_path):
    robot = load_robot("planar2")
    drives = tuple(replace(drive, offset=0.25, side="joint") for drive in robot.drives)
    with raises(ExportError, Code.UNSUPPORTED, "planar2") as raised:
        write_mjcf(replace(robot, drives=drives), tmp_path / "arm.xml")
    assert "'joint1' (0.25 N m)" in raised.value.message


def test_a_log_replayed_in_mujoco_has_the_error_of_the_estimate(source, tmp_path):
    robot = heavier(load_robot(source, lock={"grasp": 0.0}))
    t = np.arange(0, 4, 0.01)[:, None]
    slow, fast = np.array([[1.0, 2.0]]), np.array([[7.0, 5.0]])
    q = 1.5 * np.sin(slow * t) + 0.3 * np.sin(fast * t + slow)
    qd = 1.5 * slow * np.cos(slow * t) + 0.3 * fast * np.cos(fast * t + slow)
    qdd = -1.5 * slow**2 * np.sin(slow * t) - 0.3 * fast**2 * np.sin(fast * t + slow)
    tau = compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    tau = tau + np.random.default_rng(0).normal(0, 1e-3, tau.shape)
    log = log_from_arrays(robot.joint_names, t[:, 0], q, tau, qd, qdd)
    estimate = LeastSquares().fit(build_rows(robot, log, EquationSettings(drive_parameters="estimated")))
    out = tmp_path / "arm.xml"
    write_mjcf(estimate, out, source=source, prior=robot)
    errors = compare_with_mujoco(estimate, out, log)
    assert errors["mindyn"].total < 0.02
    # MuJoCo's friction is soft within a few mm/s of standstill, which few of these rows are.
    assert errors["MuJoCo"].total < errors["mindyn"].total + 0.05
    full = build_full_model(estimate, robot)
    assert_negligible(full.phi - load_robot(out, lock={"grasp": 0.0}).phi, 1.0, PUBLISHED_FILE)
