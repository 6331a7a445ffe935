"""MuJoCo loads written URDF files with the dynamics that URDF can express; meshes are optional."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import PUBLISHED_FILE, assert_close

import mindyn
from mindyn.output.export.mujoco_comparison import mujoco_torques
from mindyn.robots.parts import Drive
from mindyn.robots.safe_robot_files import parse_xml

MESH = '<visual><geometry><mesh filename="package://arm/link.dae"/></geometry></visual>'
ARM = f"""<robot name="arm"><link name="base">{MESH}</link>
<joint name="a" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
<limit lower="-3" upper="3" effort="9" velocity="2"/></joint>
<link name="upper"><inertial><origin xyz="0.1 0 0"/><mass value="2"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial>{MESH}
<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>
<joint name="b" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" effort="9" velocity="2"/></joint>
<link name="lower"><inertial><origin xyz="0.1 0 0.05"/><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0.001" iyy="0.02" iyz="0" izz="0.02"/></inertial></link>
<joint name="f" type="fixed"><parent link="lower"/><child link="tool"/><origin xyz="0.2 0 0"/></joint>
<link name="tool"><inertial><mass value="0.5"/>
<inertia ixx="1e-3" ixy="0" ixz="0" iyy="1e-3" iyz="0" izz="1e-3"/></inertial></link></robot>"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return path


def list_elements(path, what):
    return parse_xml(path.read_text(), path.name).findall(f"link/{what}/geometry/*")


def test_meshes_are_kept_unless_disabled(source, tmp_path):
    robot, kept, bare = mindyn.load_robot(source), tmp_path / "kept.urdf", tmp_path / "bare.urdf"
    mindyn.write_urdf(robot, kept, source=source)
    assert [element.get("filename") for element in list_elements(kept, "visual")] == ["package://arm/link.dae"] * 2
    mindyn.write_urdf(robot, bare, source=source, meshes=False)
    assert list_elements(bare, "visual") == []
    assert [element.tag for element in list_elements(bare, "collision")] == ["box"]


@pytest.mark.parametrize("edited", [True, False])
def test_mujoco_gives_the_torques_of_the_links(source, tmp_path, edited):
    pytest.importorskip("mujoco")
    stated = mindyn.load_robot(source)
    heavier = replace(stated, links=tuple(replace(link, phi=1.7 * link.phi) for link in stated.links))
    path = tmp_path / "heavier.urdf"
    mindyn.write_urdf(heavier, path, source=source if edited else None, meshes=False)
    q, qd, qdd = np.random.default_rng(0).uniform(-1, 1, (3, 20, 2))
    expected = mindyn.compile_model(heavier).inverse_dynamics(q, qd, qdd)
    assert_close(mujoco_torques(heavier, path, q, qd, qdd), expected, PUBLISHED_FILE)


def test_a_forced_urdf_lists_omitted_parts_in_its_comment(source, tmp_path):
    robot = mindyn.load_robot(source)
    driven = replace(robot, drives=(Drive("a", 100.0, rotor_inertia=2e-4), Drive("b", 50.0, rotor_inertia=1e-4)))
    text = mindyn.write_urdf(driven, tmp_path / "driven.urdf", source=source, force=True).read_text()
    assert "rotor inertia at the joints (in brackets: of the links at q = 0): 'a' 2 kg m^2 (" in text
    assert "set it there as armature" in text
    rounded = replace(robot, drives=(Drive("a", 100.0, rotor_inertia=1e-12), Drive("b", 50.0, rotor_inertia=1e-4)))
    rest = mindyn.write_urdf(rounded, tmp_path / "rest.urdf", source=source, force=True).read_text()
    assert "'b' 0.25 kg m^2" in rest
    assert "'a' 1e-08" not in rest


FINGERS = """<joint name="grasp" type="prismatic"><parent link="tool"/><child link="finger"/><origin xyz="0.05 0 0"/>
<axis xyz="0 1 0"/><limit lower="0" upper="0.04" effort="9" velocity="2"/></joint>
<link name="finger"><inertial><origin xyz="0.01 0 0"/><mass value="{mass}"/>
<inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="1e-4"/></inertial></link>
<joint name="pad" type="fixed"><parent link="finger"/><child link="tip"/></joint><link name="tip"/>
<joint name="other" type="prismatic"><parent link="tool"/><child link="thumb"/><origin xyz="0.05 0 0" rpy="0 0 0.3"/>
<axis xyz="0 -1 0"/><limit lower="0" upper="0.04" effort="9" velocity="2"/><mimic joint="grasp"/></joint>
<link name="thumb">{thumb}</link></robot>"""
THUMB = '<inertial><mass value="0.1"/><inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="1e-4"/></inertial>'


@pytest.mark.parametrize(("finger", "thumb", "stays"), [(0.2, THUMB, True), (40.0, THUMB, False), (0.2, "", False)])
def test_mujoco_gives_the_torques_of_a_robot_with_held_joints(source, tmp_path, finger, thumb, stays):
    """Check that held bodies keep their inertials, and that joints become fixed if no physical body is left."""
    pytest.importorskip("mujoco")
    source.write_text(ARM.replace("</robot>", FINGERS.format(mass=finger, thumb=thumb)))
    held = {"grasp": 0.03} | ({"other": 0.03} if stays else {})  # else held since it mimics
    stated = mindyn.load_robot(source, lock=held)
    phi = (stated.links[0].phi, np.array([3.0, 0.4, 0.02, 0.1, 0.05, -0.003, 0.12, -0.015, 0.001, 0.13]))
    links = tuple(replace(link, phi=values) for link, values in zip(stated.links, phi, strict=True))
    identified = replace(stated, links=links)
    path = tmp_path / "found.urdf"
    mindyn.write_urdf(identified, path, source=source, meshes=False)
    kinds = {joint.get("name"): joint.get("type") for joint in parse_xml(path.read_text(), path.name).findall("joint")}
    assert (kinds["grasp"], kinds["other"]) == ("prismatic" if stays else "fixed",) * 2
    again = mindyn.load_robot(path, lock=held if stays else {})
    assert_close(again.phi, identified.phi, PUBLISHED_FILE)
    q, qd, qdd = np.random.default_rng(0).uniform(-1, 1, (3, 20, 2))
    expected = mindyn.compile_model(identified).inverse_dynamics(q, qd, qdd)
    assert_close(mujoco_torques(identified, path, q, qd, qdd), expected, PUBLISHED_FILE)
