"""Volumes of links: covers contain meshes, reported distances are never larger than coal's, no motion hits anything."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cli.program import mindyn_program
from excitation.independent_check import heights_of
from robots import random_robot

import mindyn
from mindyn.errors import UnsafeMotionError
from mindyn.excitation.capsules import Capsule, cover
from mindyn.excitation.encounters import find_encounters
from mindyn.excitation.held_joints import joints_to_hold
from mindyn.excitation.motion_check import check_path
from mindyn.excitation.volumes import volumes_of
from mindyn.findings import Kind
from mindyn.robots.geometry import Solid, VolumeSource, mesh_solid
from mindyn.robots.mesh_files import Triangles

LINK = """<link name="{name}"><inertial><origin xyz="{com}"/><mass value="2"/>
<inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>{body}</link>"""
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}"/>
<axis xyz="{axis}"/><limit lower="-2" upper="2" velocity="2" effort="80"{more}/></joint>"""
BOX = '<{tag}><origin xyz="0 0 0.15"/><geometry>{shape}</geometry></{tag}>'


def urdf(*, flange: str = "", forearm: str = "", more: str = "") -> str:
    joints = [
        ("waist", "revolute", "base", "turret", "0 0 0.1", "0 0 1"),
        ("shoulder", "revolute", "turret", "upper", "0 0 0.1", "0 1 0"),
        ("elbow", "revolute", "upper", "forearm", "0 0 0.3", "0 1 0"),
        ("mount", "fixed", "forearm", "flange", "0 0 0.3", "0 0 1"),
    ]
    links = [
        LINK.format(name=n, com="0 0 0.15", body=forearm if n == "forearm" else "")
        for n in ("turret", "upper", "forearm")
    ]
    made = [JOINT.format(name=n, kind=k, parent=p, child=c, xyz=x, axis=a, more=more) for n, k, p, c, x, a in joints]
    parts = ['<link name="base"/>', *links, f'<link name="flange">{flange}</link>', *made]
    return f'<robot name="arm">{"".join(parts)}</robot>'


def random_mesh(rng: np.random.Generator) -> Triangles:
    """A bent tube of random triangles: not convex, its corners anywhere."""
    along = np.linspace(0, 3, 40)
    spine = np.stack([np.cos(along), np.sin(along), 0.2 * along], axis=1)
    corners = np.concatenate([spine + 0.1 * rng.normal(size=spine.shape) for _ in range(3)])
    faces = rng.integers(0, 40, (200, 1)) + rng.integers(0, 3, (200, 3)) + 40 * rng.integers(0, 3, (200, 3))
    return Triangles(corners, np.minimum(faces, len(corners) - 1))


def inside(capsule: Capsule, points: np.ndarray) -> np.ndarray:
    axis = capsule.b - capsule.a
    s = np.clip((points - capsule.a) @ axis / max(axis @ axis, 1e-12), 0, 1)
    return np.linalg.norm(points - capsule.a - s[:, None] * axis, axis=1) <= capsule.radius + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_every_triangle_lies_in_one_capsule_and_every_piece_in_the_hulls(seed):
    mesh = random_mesh(np.random.default_rng(seed))
    ball = Solid(np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 1.0]]), 0.2)
    capsules, pieces = cover([mesh_solid(mesh), ball], "link")
    corners = np.stack([inside(one, mesh.corners) for one in capsules])
    assert corners[:, mesh.faces].all(axis=2).any(axis=0).all()
    ends = np.array([[-0.2, 0, 1.0], [0.7, 0, 1.0], [0.2, 0.2, 1.0]])
    assert any(inside(one, ends).all() for one in capsules)
    faces = sum(len(one.surface.faces) for one in pieces if one.surface is not None)
    assert faces == len(mesh.faces)


def test_sources_come_in_order_and_fixed_children_keep_their_geometry(tmp_path):
    file = tmp_path / "arm.urdf"
    hand = BOX.format(tag="collision", shape='<box size="0.1 0.1 0.4"/>')
    seen = BOX.format(tag="visual", shape='<sphere radius="0.1"/>')
    lost = BOX.format(tag="collision", shape='<mesh filename="package://none/lost.stl"/>')
    cases = {
        VolumeSource.COLLISION: urdf(forearm=hand, flange=hand),
        VolumeSource.VISUAL: urdf(forearm=lost + seen, flange=hand),
        VolumeSource.ELLIPSOID: urdf(forearm=lost, flange=hand),
    }
    for source, text in cases.items():
        known = not source.is_guess
        file.write_text(text)
        body = volumes_of(mindyn.load_robot(file))
        forearm = [one for one in body.volumes if one.link == "forearm"]
        assert forearm[-1].source is source
        assert known or forearm[0].source is VolumeSource.COLLISION
        highest = max((solid.points + solid.radius)[:, 2].max() for one in forearm for solid in one.solids)
        assert highest > 0.65 - 1e-9, "the box on the flange reaches to 0.3 + 0.15 + 0.2 m"
        assert (Kind.MISSING_MESH in {one.kind for one in body.findings}) == ("lost" in text)


def test_a_payload_gets_a_volume(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text(urdf(forearm=BOX.format(tag="collision", shape='<box size="0.1 0.1 0.3"/>')))
    robot = mindyn.load_robot(file).with_payload(2.0, [0, 0, 0.1], 0.03 * np.eye(3), at="flange")
    known, payload = (one for one in volumes_of(robot).volumes if one.link == "forearm")
    assert known.source is VolumeSource.COLLISION
    assert payload.source is VolumeSource.ELLIPSOID
    assert any(inside(one, np.array([[0.0, 0.0, 0.45]]))[0] for one in payload.covers)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("exact", [True, False])
def test_reported_distances_are_never_larger_than_those_of_a_finer_path(seed, exact, monkeypatch):
    """Also between samples: the reference looks at a hundred times as many positions."""
    if not exact:
        monkeypatch.setattr("mindyn.excitation.bodies.import_coal", lambda: None)
    robot, rng = random_robot(seed, joints=4), np.random.default_rng(seed)
    volumes = volumes_of(robot, radius=dict.fromkeys(robot.link_names, 0.02)).volumes
    probes = rng.uniform(-1, 1, (200, 4))
    encounters = find_encounters(robot, volumes, [], [], probes, 0.01)
    ends = rng.uniform(-1, 1, (3, 4))
    check = check_path(encounters, [(ends, None)], (4, 4))
    share = np.linspace(0, 1, 400)[:, None]
    fine = np.concatenate([a + share * (b - a) for a, b in pairwise(ends)])
    monkeypatch.undo()
    reference = find_encounters(robot, volumes, [], [], probes, 0.01)
    poses = reference.bodies.poses(fine)
    assert check.distances
    for one, reported in zip(reference.checked, check.distances, strict=True):
        true = reference.bodies.distances(one.bodies, poses).min()
        assert reported.distance_m <= true
        assert reported.distance_m >= true - 0.01 or true < 0


def tutorial_arm() -> str:
    text = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
    begin = text.index('write_text("""') + len('write_text("""')
    return text[begin : text.index('""")', begin)]


def test_the_tutorial_arm_stays_above_the_floor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("arm.urdf").write_text(tutorial_arm())
    ended = mindyn_program("excite", "arm.urdf", "--seconds", 20, "--starts", 1, "--out", "motion", "--json")
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert said["check"]["headline"].startswith("Checked 3 of 3 links against floor, each other")
    robot = mindyn.load_robot("arm.urdf")
    q = np.loadtxt("motion/motion.csv", delimiter=",", skiprows=1)[:, 1:4]
    ends = [
        Capsule("forearm", end, end, 0.01) for end in (np.zeros(3), robot.links[2].phi[1:4] / robot.links[2].phi[0])
    ]
    assert heights_of(robot, ends, q).min() > 0.05
    names = {path.name for path in Path("motion").iterdir()}
    assert {"rehearsal.csv", "limits.toml"} <= names
    slow = np.loadtxt("motion/rehearsal.csv", delimiter=",", skiprows=1)
    assert slow[-1, 0] > 20 * said["check"]["speed"] / 0.25 * 0.99
    again = mindyn_program("excite", "arm.urdf", "--seconds", 6, "--starts", 1, "--limits", "motion/limits.toml")
    assert again.code == 0, again.err


def test_a_moving_link_without_a_volume_ends_with_exit_code_3_and_no_file(tmp_path):
    file = tmp_path / "arm.urdf"
    text = (
        urdf()
        .replace('<link name="flange"></link>', "")
        .replace(urdf()[urdf().index('<joint name="mount"') : urdf().index("</robot>")], "")
    )
    begin = text.index('<link name="forearm">')
    file.write_text(text[:begin] + '<link name="forearm"/>' + text[text.index("</link>", begin) + len("</link>") :])
    limits = tmp_path / "limits.toml"
    limits.write_text("effort = inf\nnoise = 1.0\n")
    options = ("--seconds", 6, "--starts", 1, "--limits", limits, "--deadline-s", 1, "--out", tmp_path / "motion")
    ended = mindyn_program("excite", file, *options)
    assert ended.code == 3
    assert "--radius forearm=0.08" in ended.err
    assert not (tmp_path / "motion").exists()
    plan = mindyn_program("tests", "plan", file, tmp_path / "plan")
    assert plan.code in (1, 3)
    assert not (tmp_path / "plan" / "plan.json").exists()


def test_walls_and_obstacles_that_cannot_be_avoided_are_errors():
    robot = mindyn.load_robot("ur10")
    with pytest.raises(mindyn.MindynError):
        mindyn.design_motion(robot, floor=3.0, starts=1, deadline_s=0.0)


def test_planned_tests_keep_above_the_floor(tmp_path):
    ended = mindyn_program("tests", "plan", "ur10", tmp_path / "plan")
    assert ended.code == 0, ended.err
    assert "Checked 6 of 6 links against floor, each other" in ended.out
    robot = mindyn.load_robot("ur10")
    origins = [Capsule(name, np.zeros(3), np.zeros(3), 0.01) for name in robot.link_names]
    for file in (tmp_path / "plan").glob("*.motion.csv"):
        q = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)[:, 1:7]
        assert heights_of(robot, origins, q[:: max(1, len(q) // 50)]).min() > 0


def test_accelerations_of_drake_are_read_and_grippers_are_held(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text(urdf(more=' drake:acceleration="7"').replace('name="elbow"', 'name="left_finger_joint"'))
    robot = mindyn.load_robot(file)
    assert [joint.limits.acceleration for joint in robot.joints] == [7.0, 7.0, 7.0]
    held, findings = joints_to_hold(robot)
    assert held == {"left_finger_joint": 0.0}
    assert findings[0].kind is Kind.HELD_JOINT
    assert joints_to_hold(robot, ["left_finger_joint"]) == ({}, ())
    assert joints_to_hold(mindyn.load_robot("panda")) == ({}, ())
    assert issubclass(UnsafeMotionError, mindyn.MindynError)
